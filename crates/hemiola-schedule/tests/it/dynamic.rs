//! Rounds of jobs: results in all settings, and rejected programs.

use crate::lasso::{Lasso, LassoProblem};
use hemiola_cluster::{Result, WorkerTeam, standalone};
use hemiola_core::{Rank, Seed};
use hemiola_schedule::order::{CoordinateOrder, PriorityOrder, RandomOrder, RoundRobinOrder};
use hemiola_schedule::{
    ConflictPolicy, DynamicProgram, DynamicScheduler, JobCandidate, ObjectiveTrace, RoundResults, ScheduleReport,
    ScheduleRequest,
};
use std::ops::ControlFlow;

/// Schedule settings of a test.
#[derive(Clone, Copy)]
struct ScheduleShape {
    peers: usize,
    workers: usize,
    concurrent: usize,
    depth: usize,
    conflicts: ConflictPolicy,
    jobs: u64,
}

const EXACT: ConflictPolicy = ConflictPolicy::Avoid { pair: 0.3, total: 1.0 };
const SHAPE: ScheduleShape =
    ScheduleShape { peers: 1, workers: 2, concurrent: 16, depth: 1, conflicts: EXACT, jobs: 20_000 };

/// Runs the problem; returns the model of every peer and the report of peer 0.
fn run<O: CoordinateOrder + 'static>(
    problem: &LassoProblem,
    shape: ScheduleShape,
    order: impl Fn() -> O + Sync,
) -> (Vec<Vec<f64>>, ScheduleReport, ObjectiveTrace) {
    let ScheduleShape { peers, workers, concurrent, depth, conflicts, jobs } = shape;
    let mut outcomes = standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let mut program = Lasso { problem, order: order() };
            let mut state = problem.share(cluster);
            let mut trace = ObjectiveTrace::default();
            let engine = DynamicScheduler::new(cluster)
                .concurrent(concurrent)
                .depth(depth)
                .conflicts(conflicts)
                .parts(2)
                .callback_every(1);
            let report = engine.run(&mut program, &mut state, |progress, _, state| {
                trace.add(progress, problem.objective(&state.model));
                Ok(if progress.jobs >= jobs { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            Ok((state.model, report, trace))
        })
        .unwrap();
    let models = outcomes.iter().map(|outcome| outcome.0.clone()).collect();
    let (_, report, trace) = outcomes.swap_remove(0);
    (models, report, trace)
}

fn priority(problem: &LassoProblem) -> impl Fn() -> PriorityOrder + Sync + use<> {
    let length = problem.columns.len();
    move || PriorityOrder::new(length, 2, Seed(5))
}

#[test]
fn scheduled_rounds_reach_the_optimum_of_coordinate_descent() {
    let problem = LassoProblem::new(40, 60, 0.6, 1);
    let best = problem.objective(&problem.solved());
    for (peers, workers, concurrent, depth) in [(1, 1, 1, 1), (1, 2, 8, 1), (2, 1, 8, 1), (3, 2, 8, 3), (1, 3, 16, 5)] {
        let (models, report, _) =
            run(&problem, ScheduleShape { peers, workers, concurrent, depth, ..SHAPE }, priority(&problem));
        let found = problem.objective(&models[0]);
        assert!(found <= best + 1e-9, "{peers} {workers} {concurrent} {depth}: {found} is not {best}");
        assert!(models.iter().all(|model| *model == models[0]), "peers disagree");
        assert_eq!(report.counts.jobs, report.progress.jobs);
        assert_eq!(report.progress.touched, report.progress.jobs * 40);
    }
}

#[test]
fn exact_rounds_never_raise_the_objective_for_any_number_of_jobs() {
    for seed in 0..5 {
        let problem = LassoProblem::new(30, 80, 0.9, seed);
        let shape = ScheduleShape { concurrent: 32, jobs: 3000, ..SHAPE };
        let (_, report, trace) = run(&problem, shape, priority(&problem));
        for pair in trace.points.windows(2) {
            assert!(pair[1].objective <= pair[0].objective * (1.0 + 1e-12), "{pair:?}");
        }
        assert!(report.counts.conflicts_in_round > 0);
        assert_eq!(report.counts.staleness, [report.counts.jobs]);
    }
}

#[test]
fn random_updates_of_correlated_columns_conflict_and_scheduled_ones_do_not() {
    let problem = LassoProblem::new(50, 100, 0.95, 4);
    let best = problem.objective(&problem.solved());
    let goal = best * 1.01;
    let shape = ScheduleShape { concurrent: 32, jobs: 60_000, ..SHAPE };
    let scheduled = run(&problem, shape, priority(&problem)).2.jobs_until(goal).expect("it converges");
    let random = ScheduleShape { conflicts: ConflictPolicy::Ignore, ..shape };
    let random = run(&problem, random, || RandomOrder::new(100, Seed(3))).2;
    let ratio = random.jobs_until(goal).map_or(f64::INFINITY, |jobs| jobs as f64 / scheduled as f64);
    assert!(ratio > 5.0, "{ratio}: {scheduled} scheduled updates");
}

#[test]
fn results_are_bit_identical_on_any_number_of_workers() {
    let problem = LassoProblem::new(40, 60, 0.7, 2);
    for depth in [1, 3] {
        let shape = ScheduleShape { depth, jobs: 700, ..SHAPE };
        let (first, first_report, _) = run(&problem, shape, priority(&problem));
        for workers in 1..=3 {
            let (again, report, _) = run(&problem, ScheduleShape { workers, ..shape }, priority(&problem));
            assert_eq!(again, first, "{workers} workers, depth {depth}");
            assert_eq!(report.counts, first_report.counts);
        }
        let peers = ScheduleShape { peers: 2, workers: 1, ..shape };
        assert_eq!(run(&problem, peers, priority(&problem)).0, run(&problem, peers, priority(&problem)).0);
    }
}

/// A program in which one worker takes ten times as long for every job.
struct SlowWorkerLasso<'p>(Lasso<'p, PriorityOrder>);

impl DynamicProgram for SlowWorkerLasso<'_> {
    type Job = usize;
    type Partial = f64;
    type State = crate::lasso::LassoState;

    fn schedule(&self, request: &ScheduleRequest, state: &Self::State, candidates: &mut Vec<JobCandidate<usize>>) {
        self.0.schedule(request, state, candidates);
    }

    fn coupling(&self, a: &usize, b: &usize, state: &Self::State) -> f64 {
        self.0.coupling(a, b, state)
    }

    fn update(&self, job: &usize, state: &Self::State) -> f64 {
        let slow = std::thread::current().name().is_some_and(|name| name.ends_with("worker-1"));
        for _ in 0..if slow { 9 } else { 0 } {
            std::hint::black_box(self.0.update(job, state));
        }
        self.0.update(job, state)
    }

    fn aggregate(
        &mut self,
        results: &RoundResults<'_, usize, f64>,
        state: &mut Self::State,
        team: &mut WorkerTeam<'_>,
    ) -> Result<()> {
        self.0.aggregate(results, state, team)
    }
}

#[test]
fn a_slow_worker_changes_nothing_but_the_time() {
    let problem = LassoProblem::new(40, 60, 0.7, 2);
    let slowly = standalone(1).workers(2).run(|cluster| {
        let mut program = SlowWorkerLasso(Lasso { problem: &problem, order: priority(&problem)() });
        let mut state = problem.share(cluster);
        let engine = DynamicScheduler::new(cluster).concurrent(16).depth(3).conflicts(EXACT).parts(2).callback_every(1);
        let ends = |jobs| if jobs >= 700 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        engine.run(&mut program, &mut state, |progress, _, _| Ok(ends(progress.jobs)))?;
        Ok(state.model)
    });
    let (even, _, _) = run(&problem, ScheduleShape { depth: 3, jobs: 700, ..SHAPE }, priority(&problem));
    assert_eq!(slowly.unwrap(), even);
}

#[test]
fn staleness_of_a_deep_pipeline_is_counted() {
    let problem = LassoProblem::new(40, 60, 0.0, 2);
    let shape = ScheduleShape {
        depth: 4,
        concurrent: 2,
        conflicts: ConflictPolicy::Avoid { pair: 0.9, total: 9.0 },
        jobs: 1000,
        ..SHAPE
    };
    let (_, report, _) = run(&problem, shape, || RoundRobinOrder::new(60));
    let staleness = &report.counts.staleness;
    assert_eq!(staleness.len(), 4);
    assert_eq!(staleness.iter().sum::<u64>(), report.counts.jobs);
    // The pipeline fills once; then three rounds are in flight when one starts.
    assert_eq!(staleness[..3], [2, 2, 2]);
}

/// A program with one fault.
struct FaultyProgram {
    proposed: Vec<usize>,
    panics_at: Option<usize>,
}

impl DynamicProgram for FaultyProgram {
    type Job = usize;
    type Partial = u8;
    type State = ();

    fn schedule(&self, _: &ScheduleRequest, (): &(), candidates: &mut Vec<JobCandidate<usize>>) {
        candidates.extend(self.proposed.iter().map(|job| JobCandidate { job: *job, priority: 0.0 }));
    }

    fn coupling(&self, a: &usize, b: &usize, (): &()) -> f64 {
        if a / 10 == b / 10 { 0.5 } else { 0.0 }
    }

    fn update(&self, job: &usize, (): &()) -> u8 {
        assert_ne!(Some(*job), self.panics_at, "there is no data");
        0
    }

    fn aggregate(&mut self, _: &RoundResults<'_, usize, u8>, (): &mut (), _: &mut WorkerTeam<'_>) -> Result<()> {
        Ok(())
    }
}

/// Error message of each peer for a program that may have a different fault on each.
fn error_messages(
    peers: usize,
    engine: impl Fn(DynamicScheduler<'_>) -> DynamicScheduler<'_> + Sync,
    program: impl Fn(Rank) -> FaultyProgram + Sync,
) -> Vec<String> {
    let run = |cluster: &hemiola_cluster::Cluster| {
        let mut calls = 0;
        let outcome = engine(DynamicScheduler::new(cluster).callback_every(1)).run(
            &mut program(cluster.rank()),
            &mut (),
            |_, _, ()| {
                calls += 1;
                Ok(if calls > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            },
        );
        // All peers reach this point before one ends, so that no peer is reported as lost.
        let messages = outcome.err().map_or_else(|| "nothing is wrong".to_owned(), |error| error.to_string());
        cluster.barrier()?;
        Ok(messages)
    };
    standalone(peers).workers(2).run(run).unwrap()
}

#[test]
fn conflicting_jobs_are_rejected_and_named() {
    fn exact(engine: DynamicScheduler<'_>) -> DynamicScheduler<'_> {
        engine.concurrent(4).conflicts(ConflictPolicy::Refuse { pair: 0.1 })
    }
    for messages in error_messages(2, exact, |_| FaultyProgram { proposed: vec![7, 13, 18], panics_at: None }) {
        assert!(messages.contains("jobs 13 and 18") && messages.contains("round 0"), "{messages}");
    }
    let fine = error_messages(1, exact, |_| FaultyProgram { proposed: vec![7, 13, 25], panics_at: None });
    assert!(fine[0].contains("nothing is wrong"), "{fine:?}");
}

#[test]
fn a_job_that_panics_is_named_on_every_peer() {
    let program =
        |rank: Rank| FaultyProgram { proposed: vec![7, 13, 25], panics_at: (rank == Rank::new(1)).then_some(13) };
    let messages = error_messages(3, |engine| engine.concurrent(3), program);
    assert!(
        messages[1].contains("job 13 panicked in round 0 on peer 1: ") && messages[1].contains("there is no data"),
        "{messages:?}"
    );
    for other in [&messages[0], &messages[2]] {
        assert!(other.contains("peer 1 failed in round") && other.contains("job 13 panicked"), "{other}");
    }
    let alone =
        error_messages(1, |engine| engine.concurrent(1), |_| FaultyProgram { proposed: vec![4], panics_at: Some(4) });
    assert!(alone[0].contains("job 4 panicked"), "{alone:?}");
}

#[test]
fn a_schedule_without_jobs_is_an_error() {
    let messages = error_messages(2, |engine| engine, |_| FaultyProgram { proposed: Vec::new(), panics_at: None });
    assert!(messages.iter().all(|messages| messages.contains("proposed no job for round 0")), "{messages:?}");
}

#[test]
fn peers_with_different_schedules_are_detected() {
    let program = |rank: Rank| FaultyProgram { proposed: vec![10 * rank.index()], panics_at: None };
    let messages = error_messages(2, |engine| engine, program);
    assert!(messages.iter().any(|messages| messages.contains("scheduled other jobs")), "{messages:?}");
}

#[test]
fn a_callback_that_uses_the_workers_fails_instead_of_deadlocking() {
    let problem = LassoProblem::new(40, 60, 0.5, 1);
    let messages = standalone(1).workers(2).run(|cluster| {
        let mut program = Lasso { problem: &problem, order: priority(&problem)() };
        let mut state = problem.share(cluster);
        let engine = DynamicScheduler::new(cluster).parts(2).callback_every(10);
        let outcome = engine.run(&mut program, &mut state, |_, _, _| {
            cluster.each_worker(|_| ())?;
            Ok(ControlFlow::Break(()))
        });
        // The workers are free again.
        cluster.each_worker(|_| ())?;
        Ok((
            outcome.unwrap_err().to_string(),
            cluster.worker_team(|_| cluster.worker_team(|_| Ok(()))).unwrap_err().to_string(),
        ))
    });
    let (callback, team) = messages.unwrap().remove(0);
    assert!(
        callback.contains("reserved by a worker team") && team.contains("reserved by a worker team"),
        "{callback}; {team}"
    );
}

#[test]
fn a_lost_peer_is_a_typed_error() {
    let problem = LassoProblem::new(40, 60, 0.5, 1);
    let outcome = standalone(2).workers(1).run(|cluster| {
        let mut program = Lasso { problem: &problem, order: priority(&problem)() };
        let mut state = problem.share(cluster);
        let engine =
            DynamicScheduler::new(cluster).concurrent(8).depth(2).conflicts(EXACT).parts(2).callback_every(100);
        engine.run(&mut program, &mut state, |progress, _, _| {
            if progress.jobs > 500 && cluster.rank() == Rank::new(1) {
                return Err(hemiola_cluster::Error::program(std::io::Error::other("peer 1 gives up")));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    });
    let messages = outcome.unwrap_err().to_string();
    assert!(messages.contains("peer 1"), "{messages}");
}

#[test]
fn peers_with_different_settings_are_rejected() {
    let outcome = standalone(2).workers(1).run(|cluster| {
        let engine = DynamicScheduler::new(cluster).depth(1 + cluster.rank().index());
        let mut program = FaultyProgram { proposed: vec![1], panics_at: None };
        Ok(engine.run(&mut program, &mut (), |_, _, ()| Ok(ControlFlow::Break(()))).unwrap_err().to_string())
    });
    for messages in outcome.unwrap() {
        assert!(messages.contains("peer 1 runs the schedule with") && messages.contains("depth: 2"), "{messages}");
    }
}

#[test]
fn invalid_settings_are_rejected() {
    for engine in [|engine: DynamicScheduler<'_>| engine.concurrent(0), |engine: DynamicScheduler<'_>| engine.depth(0)]
        as [for<'c> fn(DynamicScheduler<'c>) -> DynamicScheduler<'c>; 2]
    {
        let messages = error_messages(1, engine, |_| FaultyProgram { proposed: vec![1], panics_at: None });
        assert!(messages[0].contains("cannot be 0"), "{messages:?}");
    }
}
