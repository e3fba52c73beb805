//! Draws what schedules are worth: the pictures of docs/schedules.md.
//!
//! `cargo run --release -p hemiola-models --example schedules -- FOLDER` runs coordinate descent under several schedules on a made-up problem (1,000 rows, 2,000 columns of which
//! neighbours are correlated by 0.9), once each, and writes four SVG pictures and what they show as text. Everything but the seconds is the same in every run.

use hemiola::array::random::Values;
use hemiola::schedule::plan::deal::{deal, imbalance};
use hemiola::schedule::{Deal, Point};
use hemiola_models::SparseRegression;
use hemiola_models::sparse::{Columns, Dense, Examples, Lambda, Loss, Next, Schedule, Study, Until};
use hemiola_plot::{Axis, Chart, Line, Panel};
use std::error::Error;
use std::path::Path;

const ROWS: usize = 1000;
const COLUMNS: usize = 2000;
/// Updates after which a run is given up.
const MOST: u64 = 200_000;
/// The penalty, as a share of the smallest that makes all coefficients 0.
const SHARE: f64 = 0.05;

fn problem() -> Examples<f32> {
    let values = Values::new(1);
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
    Examples::new(Columns::Dense(Dense::new(ROWS, COLUMNS, all)), target)
}

fn lasso(share: f64) -> hemiola::Result<SparseRegression> {
    Ok(SparseRegression::builder(Loss::Squared).lambda(Lambda::Share(share)).tolerance(1e-9).build()?)
}

/// The least objective there is.
fn minimum(share: f64) -> hemiola::Result<f64> {
    let found = hemiola::standalone(1).run(|cluster| {
        let report = lasso(share)?.fit_rows(cluster, problem())?.report;
        Ok(report.progress.last().map_or(f64::NAN, |last| last.objective))
    })?;
    Ok(found[0])
}

fn study(share: f64, schedule: Schedule, goal: f64) -> hemiola::Result<Study> {
    let until = Until { objective: goal, updates: MOST, every: 250 };
    let cluster = hemiola::standalone(1).workers(2);
    let mut found = cluster.run(|cluster| lasso(share)?.study(cluster, problem(), &schedule, until))?;
    Ok(found.swap_remove(0))
}

/// How far above the minimum, by updates.
fn excess(study: &Study, least: f64) -> Vec<[f64; 2]> {
    let point = |point: &Point| [point.jobs as f64, (point.objective / least - 1.0).clamp(1e-7, 10.0)];
    study.trace.points.iter().map(point).collect()
}

fn updates(study: &Study, goal: f64) -> String {
    study.trace.jobs_until(goal).map_or("never".to_owned(), |jobs| jobs.to_string())
}

/// How many updates a column takes until it stays as it is.
#[expect(clippy::print_stdout, reason = "what it is for")]
fn uneven() -> hemiola::Result<Chart> {
    println!("share of columns that stay as they are after so many updates of their own");
    let axes = [Axis::new("updates of a column").whole(), Axis::new("% of columns that stay").from_zero()];
    let [x, y] = axes;
    let mut panel = Panel::new(x, y);
    for share in [0.1, 0.05, 0.02] {
        let least = minimum(share)?;
        let one_by_one =
            Schedule { next: Next::RoundRobin, concurrent: 1, depth: 1, correlation: 1.0, total: f64::INFINITY };
        let settled = study(share, one_by_one, least * 1.0001)?.settled;
        let count = |after: u32| settled.iter().filter(|last| **last <= after).count() as f64;
        let stays = |after: u32| 100.0 * count(after) / settled.len() as f64;
        let most = settled.iter().max().unwrap_or(&0);
        println!(
            "  penalty {share}: 0: {:.1} %, 5: {:.1} %, 20: {:.1} %; all after {most}",
            stays(0),
            stays(5),
            stays(20)
        );
        let points = (0..=30).map(|after| [f64::from(after), stays(after)]);
        panel = panel.line(Line::new(&format!("penalty {share}"), points));
    }
    Ok(Chart::new().panel(panel))
}

/// Random columns beside scheduled ones.
#[expect(clippy::print_stdout, reason = "what it is for")]
fn at_once(least: f64, goal: f64) -> hemiola::Result<Chart> {
    println!("updates until the objective is within 0.1 % of the minimum");
    let mut chart = Chart::new().columns(2);
    for concurrent in [8, 16, 32, 64] {
        let x = Axis::new(&format!("updates, {concurrent} at once")).whole();
        let mut panel = Panel::new(x, Axis::new("above the minimum").logarithmic());
        let scheduled = Schedule { concurrent, ..Schedule::default() };
        for (name, schedule) in [
            ("random", Schedule::shotgun(concurrent)),
            ("random, conflicts avoided", Schedule { next: Next::Random, ..scheduled }),
            ("by priority", Schedule { correlation: 1.0, ..scheduled }),
            ("by priority, conflicts avoided", scheduled),
        ] {
            let study = study(SHARE, schedule, goal)?;
            let tally = &study.report.tally;
            let per_round = tally.jobs as f64 / tally.rounds as f64;
            println!("  {concurrent:>3} {name:<32} {:>8}   {per_round:.1} a round", updates(&study, goal));
            panel = panel.line(Line::new(name, excess(&study, least)));
        }
        chart = chart.panel(panel);
    }
    Ok(chart)
}

/// Pipelines of several depths.
#[expect(clippy::print_stdout, reason = "what it is for")]
fn depths(least: f64, goal: f64) -> hemiola::Result<Chart> {
    println!("the same by depth of the pipeline, 32 at once");
    let mut panel = Panel::new(Axis::new("updates").whole(), Axis::new("above the minimum").logarithmic());
    for depth in 1..=5 {
        let study = study(SHARE, Schedule { depth, ..Schedule::default() }, goal)?;
        let tally = &study.report.tally;
        let (rounds, waited) = (tally.jobs as f64 / tally.rounds as f64, tally.waited_for_flight);
        println!("  {depth}: {:>8}   {rounds:.1} a round, {waited} waits for rounds in flight", updates(&study, goal));
        panel = panel.line(Line::new(&format!("depth {depth}"), excess(&study, least)));
    }
    Ok(Chart::new().panel(panel))
}

/// Queues of words that follow Zipf's law.
#[expect(clippy::print_stdout, reason = "what it is for")]
fn heavy() -> Chart {
    println!("the longest queue of words that follow Zipf's law, in shares of the mean");
    let values = Values::new(7);
    let mut order: Vec<u64> = (1..=10_000).collect();
    order.sort_by_key(|rank| values.bits(*rank, 0));
    let counts: Vec<u64> = order.into_iter().map(|rank| 1_000_000 / rank).collect();
    let mut panel = Panel::new(Axis::new("workers").whole(), Axis::new("longest queue / mean").from_zero());
    for (name, how) in [("by turns", Deal::ByTurns), ("heaviest first", Deal::HeavyFirst)] {
        let longest = |workers: usize| imbalance(&counts, &deal(how, &counts, workers));
        println!(
            "  {name:<16} 2: {:.3}, 4: {:.3}, 8: {:.3}, 16: {:.3}",
            longest(2),
            longest(4),
            longest(8),
            longest(16)
        );
        panel = panel.line(Line::new(name, (1..=16).map(|workers| [workers as f64, longest(workers)])));
    }
    Chart::new().panel(panel)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("expected the folder to write pictures into")?;
    let write = |name: &str, chart: &Chart| std::fs::write(Path::new(&folder).join(name), chart.picture().svg());
    let least = minimum(SHARE)?;
    let goal = least * 1.001;
    write("schedules-uneven.svg", &uneven()?)?;
    write("schedules-random.svg", &at_once(least, goal)?)?;
    write("schedules-depth.svg", &depths(least, goal)?)?;
    write("schedules-heavy.svg", &heavy())?;
    Ok(())
}
