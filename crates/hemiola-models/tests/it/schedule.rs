//! Coordinate descent under different schedules: the same minimum, with more or fewer updates.

use hemiola_core::rng::PhiloxRng;
use hemiola_models::SparseRegression;
use hemiola_models::sparse::{
    CoordinateSchedule, CscMatrix, DenseColumns, FeatureColumns, Lambda, ScheduleStudy, SparseExamples, SparseLoss,
    StudyLimits, UpdateOrder,
};

const ROWS: usize = 120;
const COLUMNS: usize = 200;

/// Rows `range` of columns with correlated neighbours, and their targets.
fn problem(correlation: f64, range: std::ops::Range<usize>, sparse: bool) -> SparseExamples<f32> {
    let values = PhiloxRng::new(3);
    let mut all: Vec<Vec<f64>> = Vec::new();
    for column in 0..COLUMNS {
        let fresh = |row: usize| values.normal(row as u64, column as u64, 0.0, 1.0);
        let rest = (1.0 - correlation * correlation).sqrt();
        let new = match all.last() {
            None => (0..ROWS).map(fresh).collect(),
            Some(before) => {
                before.iter().enumerate().map(|(row, value)| correlation * value + rest * fresh(row)).collect()
            }
        };
        all.push(new);
    }
    if sparse {
        for (column, of_column) in all.iter_mut().enumerate() {
            for (row, value) in of_column.iter_mut().enumerate() {
                *value = if values.random_bool(row as u64, 1000 + column as u64, 0.2) { *value } else { 0.0 };
            }
        }
    }
    let target = |row: usize| {
        3.0 + (0..COLUMNS).step_by(9).map(|column| all[column][row]).sum::<f64>()
            + 0.3 * values.normal(row as u64, 9999, 0.0, 1.0)
    };
    let targets = range.clone().map(target).collect();
    let rows = range.len();
    let columns = if sparse {
        let (mut starts, mut at, mut kept) = (vec![0], Vec::new(), Vec::new());
        for of_column in &all {
            for (index, value) in of_column[range.clone()].iter().enumerate().filter(|(_, value)| **value != 0.0) {
                at.push(index as u32);
                kept.push(*value as f32);
            }
            starts.push(at.len());
        }
        FeatureColumns::Sparse(CscMatrix::new(rows, &starts, at, kept))
    } else {
        let kept =
            all.iter().flat_map(|of_column| of_column[range.clone()].iter().map(|value| *value as f32)).collect();
        FeatureColumns::Dense(DenseColumns::new(rows, COLUMNS, kept))
    };
    SparseExamples::new(columns, targets)
}

fn lasso() -> SparseRegression {
    SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Share(0.05)).tolerance(1e-9).build().unwrap()
}

/// Minimum of the objective.
fn minimum(correlation: f64, sparse: bool) -> f64 {
    let found = hemiola_cluster::standalone(1).workers(1).run(|cluster| {
        let trained = lasso().fit_rows(cluster, problem(correlation, 0..ROWS, sparse))?;
        Ok(trained.report.progress.last().map_or(f64::NAN, |last| last.objective))
    });
    found.unwrap()[0]
}

fn study(
    peers: usize,
    workers: usize,
    (correlation, sparse): (f64, bool),
    schedule: CoordinateSchedule,
    until: StudyLimits,
) -> ScheduleStudy {
    let mut found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
        let rank = cluster.rank().index();
        let rows = rank * ROWS / peers..(rank + 1) * ROWS / peers;
        lasso().study(cluster, problem(correlation, rows, sparse), &schedule, until)
    });
    found.as_mut().unwrap().remove(0)
}

fn until(objective: f64) -> StudyLimits {
    StudyLimits { objective, updates: 400_000, every: 1 }
}

#[test]
fn every_schedule_converges_to_the_same_minimum() {
    for sparse in [false, true] {
        let least = minimum(0.5, sparse);
        for (peers, workers, next, concurrent, depth) in [
            (1, 1, UpdateOrder::RoundRobin, 1, 1),
            (1, 2, UpdateOrder::Priority, 8, 1),
            (2, 1, UpdateOrder::Priority, 8, 2),
            (1, 2, UpdateOrder::Random, 4, 3),
            (3, 2, UpdateOrder::RoundRobin, 8, 1),
        ] {
            let schedule = CoordinateSchedule { next, concurrent, depth, correlation: 0.5, total: 2.0 };
            let found = study(peers, workers, (0.5, sparse), schedule, until(least * (1.0 + 1e-6)));
            let reached = found.trace.points.last().unwrap().objective;
            assert!(
                reached <= least * (1.0 + 1e-6),
                "{peers} peers, {schedule:?}, sparse {sparse}: {reached}, not {least}"
            );
        }
    }
}

#[test]
fn an_exact_schedule_never_increases_the_objective() {
    for sparse in [false, true] {
        let found =
            study(1, 2, (0.9, sparse), CoordinateSchedule::default(), StudyLimits { updates: 5000, ..until(0.0) });
        for pair in found.trace.points.windows(2) {
            assert!(pair[1].objective <= pair[0].objective * (1.0 + 1e-12), "{pair:?}");
        }
        assert_eq!(found.report.counts.staleness, [found.report.counts.jobs]);
        assert!(found.report.counts.conflicts_in_round > 0);
    }
}

#[test]
fn priority_needs_at_most_a_fifth_of_random_updates() {
    let goal = minimum(0.9, false) * 1.001;
    let scheduled = study(1, 2, (0.9, false), CoordinateSchedule::default(), until(goal)).trace.jobs_until(goal);
    let random = study(1, 2, (0.9, false), CoordinateSchedule::shotgun(32), until(goal)).trace.jobs_until(goal);
    let ratio = random.map_or(f64::INFINITY, |random| random as f64 / scheduled.unwrap() as f64);
    assert!(ratio >= 5.0, "{ratio}");
}

#[test]
fn scheduled_and_blockwise_training_agree() {
    for sparse in [false, true] {
        let least = minimum(0.8, sparse);
        for (peers, workers) in [(1, 2), (2, 1)] {
            let found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
                let rank = cluster.rank().index();
                let rows = problem(0.8, rank * ROWS / peers..(rank + 1) * ROWS / peers, sparse);
                let builder =
                    SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Share(0.05)).tolerance(1e-7);
                let schedule = CoordinateSchedule { concurrent: 8, depth: 2, ..CoordinateSchedule::default() };
                let report = builder.schedule(schedule).build()?.fit_rows(cluster, rows)?.report;
                let end = report.progress.last().unwrap();
                Ok((end.objective, end.train["gap"]))
            });
            let (objective, gap) = found.unwrap()[0];
            assert!(gap <= 1e-7 && objective <= least * (1.0 + 1e-6), "{objective}, not {least}; gap {gap}");
        }
    }
}

#[test]
fn schedules_are_reproducible() {
    let run = |peers, workers| {
        let schedule = CoordinateSchedule { depth: 2, ..CoordinateSchedule::default() };
        let found = study(peers, workers, (0.7, false), schedule, StudyLimits { updates: 3000, ..until(0.0) });
        found.trace.points.iter().map(|point| point.objective.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(run(1, 2), run(1, 2));
    assert_eq!(run(2, 1), run(2, 1));
}
