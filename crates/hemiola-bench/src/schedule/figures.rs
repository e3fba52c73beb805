//! `hemiola bench schedule-figures`: schedules of coordinate descent, the figures of
//! docs/experiments/schedules.md.
//!
//! Runs coordinate descent under several schedules on a synthetic problem (1,000 rows, 2,000
//! columns with neighbours correlated by 0.9), once each, and writes four SVG figures. Everything is
//! reproducible: progress is measured in updates, not in seconds.

use crate::benchmark::Benchmark;
use anyhow::Context as _;
use clap::Args;
use hemiola::core::rng::PhiloxRng;
use hemiola::schedule::plan::assignment::{assign_jobs, load_imbalance};
use hemiola::schedule::{JobAssignment, ObjectiveSample};
use hemiola_models::SparseRegression;
use hemiola_models::sparse::{
    CoordinateSchedule, DenseColumns, FeatureColumns, Lambda, ScheduleStudy, SparseExamples, SparseLoss, StudyLimits,
    UpdateOrder,
};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const ROWS: usize = 1000;
const COLUMNS: usize = 2000;
/// Maximum number of updates of a run.
const MOST: u64 = 200_000;
/// Penalty as a fraction of the smallest one that makes all coefficients 0.
const SHARE: f64 = 0.05;

/// Arguments of `hemiola bench schedule-figures`.
#[derive(Args, Debug)]
pub struct ScheduleFiguresBench {
    /// Folder for the figures, such as `docs`.
    folder: PathBuf,
}

/// The numbers of all figures as text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScheduleFigures {
    text: String,
}

impl Benchmark for ScheduleFiguresBench {
    type Measurement = ScheduleFigures;

    fn report(&self) -> Option<&Path> {
        None
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let write = |name: &str, chart: &Chart| {
            let path = self.folder.join(name);
            std::fs::write(&path, chart.picture().svg()).with_context(|| format!("cannot write `{}`", path.display()))
        };
        let (mut text, least) = (String::new(), minimum(SHARE)?);
        let goal = least * 1.001;
        write("schedules-heavy.svg", &heavy(&mut text))?;
        write("schedules-uneven.svg", &uneven(&mut text)?)?;
        write("schedules-random.svg", &at_once(&mut text, least, goal)?)?;
        write("schedules-depth.svg", &depths(&mut text, least, goal)?)?;
        Ok(Some(ScheduleFigures { text }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(measured.text.as_bytes())
    }
}

fn problem() -> SparseExamples<f32> {
    let values = PhiloxRng::new(1);
    let mut all: Vec<f32> = Vec::with_capacity(ROWS * COLUMNS);
    for column in 0..COLUMNS {
        for row in 0..ROWS {
            let fresh = values.normal(row as u64, column as u64, 0.0, 1.0) as f32;
            let before = all.len().checked_sub(ROWS).map(|at| all[at]);
            all.push(before.map_or(fresh, |before| 0.9 * before + (1.0_f32 - 0.81).sqrt() * fresh));
        }
    }
    let of = |row: usize| {
        let signal: f64 = (0..COLUMNS).step_by(50).map(|column| f64::from(all[column * ROWS + row])).sum();
        signal + values.normal(row as u64, u64::MAX, 0.0, 1.0)
    };
    let target = (0..ROWS).map(of).collect();
    SparseExamples::new(FeatureColumns::Dense(DenseColumns::new(ROWS, COLUMNS, all)), target)
}

fn lasso(share: f64) -> hemiola_cluster::Result<SparseRegression> {
    Ok(SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Share(share)).tolerance(1e-9).build()?)
}

/// Minimum of the objective.
fn minimum(share: f64) -> hemiola_cluster::Result<f64> {
    let found = hemiola_cluster::standalone(1).run(|cluster| {
        let report = lasso(share)?.fit_rows(cluster, problem())?.report;
        Ok(report.progress.last().map_or(f64::NAN, |last| last.objective))
    })?;
    Ok(found[0])
}

fn study(share: f64, schedule: CoordinateSchedule, goal: f64) -> hemiola_cluster::Result<ScheduleStudy> {
    let until = StudyLimits { objective: goal, updates: MOST, every: 250 };
    let cluster = hemiola_cluster::standalone(1).workers(2);
    let mut found = cluster.run(|cluster| lasso(share)?.study(cluster, problem(), &schedule, until))?;
    Ok(found.swap_remove(0))
}

/// Excess over the minimum by updates.
fn excess(study: &ScheduleStudy, least: f64) -> Vec<[f64; 2]> {
    let point = |point: &ObjectiveSample| [point.jobs as f64, (point.objective / least - 1.0).clamp(1e-7, 10.0)];
    study.trace.points.iter().map(point).collect()
}

fn updates(study: &ScheduleStudy, goal: f64) -> String {
    study.trace.jobs_until(goal).map_or("never".to_owned(), |jobs| jobs.to_string())
}

/// Number of updates of each column until it stays constant.
fn uneven(out: &mut String) -> hemiola_cluster::Result<Chart> {
    let _ = writeln!(out, "share of columns that stay as they are after so many updates of their own");
    let axes =
        [ChartAxis::new("updates of a column").integer_ticks(), ChartAxis::new("% of columns that stay").from_zero()];
    let [x, y] = axes;
    let mut panel = ChartPanel::new(x, y);
    for share in [0.1, 0.05, 0.02] {
        let least = minimum(share)?;
        let one_by_one = CoordinateSchedule {
            next: UpdateOrder::RoundRobin,
            concurrent: 1,
            depth: 1,
            correlation: 1.0,
            total: f64::INFINITY,
        };
        let settled = study(share, one_by_one, least * 1.0001)?.last_changes;
        let count = |after: u32| settled.iter().filter(|last| **last <= after).count() as f64;
        let stays = |after: u32| 100.0 * count(after) / settled.len() as f64;
        let most = settled.iter().max().unwrap_or(&0);
        let _ = writeln!(
            out,
            "  penalty {share}: 0: {:.1} %, 5: {:.1} %, 20: {:.1} %; all after {most}",
            stays(0),
            stays(5),
            stays(20)
        );
        let points = (0..=30).map(|after| [f64::from(after), stays(after)]);
        panel = panel.line(ChartLine::new(&format!("penalty {share}"), points));
    }
    Ok(Chart::new().panel(panel))
}

/// Random columns compared with scheduled ones.
fn at_once(out: &mut String, least: f64, goal: f64) -> hemiola_cluster::Result<Chart> {
    let _ = writeln!(out, "updates until the objective is within 0.1 % of the minimum");
    let mut chart = Chart::new().columns(2);
    for concurrent in [8, 16, 32, 64] {
        let x = ChartAxis::new(&format!("updates, {concurrent} at once")).integer_ticks();
        let mut panel = ChartPanel::new(x, ChartAxis::new("above the minimum").logarithmic());
        let scheduled = CoordinateSchedule { concurrent, ..CoordinateSchedule::default() };
        for (name, schedule) in [
            ("random", CoordinateSchedule::shotgun(concurrent)),
            ("random, conflicts avoided", CoordinateSchedule { next: UpdateOrder::Random, ..scheduled }),
            ("by priority", CoordinateSchedule { correlation: 1.0, ..scheduled }),
            ("by priority, conflicts avoided", scheduled),
        ] {
            let study = study(SHARE, schedule, goal)?;
            let tally = &study.report.counts;
            let per_round = tally.jobs as f64 / tally.rounds as f64;
            let _ = writeln!(out, "  {concurrent:>3} {name:<32} {:>8}   {per_round:.1} a round", updates(&study, goal));
            panel = panel.line(ChartLine::new(name, excess(&study, least)));
        }
        chart = chart.panel(panel);
    }
    Ok(chart)
}

/// Pipelines of several depths.
fn depths(out: &mut String, least: f64, goal: f64) -> hemiola_cluster::Result<Chart> {
    let _ = writeln!(out, "the same by depth of the pipeline, 32 at once");
    let mut panel =
        ChartPanel::new(ChartAxis::new("updates").integer_ticks(), ChartAxis::new("above the minimum").logarithmic());
    for depth in 1..=5 {
        let study = study(SHARE, CoordinateSchedule { depth, ..CoordinateSchedule::default() }, goal)?;
        let tally = &study.report.counts;
        let (rounds, waited) = (tally.jobs as f64 / tally.rounds as f64, tally.conflicts_in_flight);
        let _ = writeln!(
            out,
            "  {depth}: {:>8}   {rounds:.1} a round, {waited} waits for rounds in flight",
            updates(&study, goal)
        );
        panel = panel.line(ChartLine::new(&format!("depth {depth}"), excess(&study, least)));
    }
    Ok(Chart::new().panel(panel))
}

/// Queues of words with Zipf frequencies.
fn heavy(out: &mut String) -> Chart {
    let _ = writeln!(out, "the longest queue of words that follow Zipf's law, in shares of the mean");
    let values = PhiloxRng::new(7);
    let mut order: Vec<u64> = (1..=10_000).collect();
    order.sort_by_key(|rank| values.random_u64(*rank, 0));
    let counts: Vec<u64> = order.into_iter().map(|rank| 1_000_000 / rank).collect();
    let mut panel =
        ChartPanel::new(ChartAxis::new("workers").integer_ticks(), ChartAxis::new("longest queue / mean").from_zero());
    for (name, how) in [("by turns", JobAssignment::RoundRobin), ("heaviest first", JobAssignment::HeaviestFirst)] {
        let longest = |workers: usize| load_imbalance(&counts, &assign_jobs(how, &counts, workers));
        let _ = writeln!(
            out,
            "  {name:<16} 2: {:.3}, 4: {:.3}, 8: {:.3}, 16: {:.3}",
            longest(2),
            longest(4),
            longest(8),
            longest(16)
        );
        panel = panel.line(ChartLine::new(name, (1..=16).map(|workers| [workers as f64, longest(workers)])));
    }
    Chart::new().panel(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaviest_first_balances_words_that_follow_zipf() {
        let mut text = String::new();
        assert!(heavy(&mut text).picture().svg().contains("heaviest first"));
        let imbalance = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(imbalance("heaviest first") < imbalance("by turns"), "{text}");
    }
}
