//! Rounds of jobs: what they give, in every shape, and what is refused.

use crate::lasso::{Lasso, Problem};
use hemiola_cluster::{Crew, Result, standalone};
use hemiola_core::Rank;
use hemiola_schedule::order::{Order, Priority, Random, RoundRobin};
use hemiola_schedule::{Ask, Candidate, Conflicts, Done, Dynamic, Program, Report, Trace};
use std::ops::ControlFlow;

/// Which schedule, and how it runs.
#[derive(Clone, Copy)]
struct Shape {
    peers: usize,
    workers: usize,
    concurrent: usize,
    depth: usize,
    conflicts: Conflicts,
    jobs: u64,
}

const EXACT: Conflicts = Conflicts::Avoid { pair: 0.3, total: 1.0 };
const SHAPE: Shape = Shape { peers: 1, workers: 2, concurrent: 16, depth: 1, conflicts: EXACT, jobs: 20_000 };

/// The model of every peer, and what peer 0 says of the run.
fn run<O: Order + 'static>(
    problem: &Problem,
    shape: Shape,
    order: impl Fn() -> O + Sync,
) -> (Vec<Vec<f64>>, Report, Trace) {
    let Shape { peers, workers, concurrent, depth, conflicts, jobs } = shape;
    let mut outcomes = standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let mut program = Lasso { problem, order: order() };
            let mut state = problem.share(cluster);
            let mut trace = Trace::default();
            let engine =
                Dynamic::new(cluster).concurrent(concurrent).depth(depth).conflicts(conflicts).parts(2).watch_every(1);
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

fn priority(problem: &Problem) -> impl Fn() -> Priority + Sync + use<> {
    let length = problem.columns.len();
    move || Priority::new(length, 2, 5)
}

#[test]
fn scheduled_rounds_reach_what_plain_coordinate_descent_does() {
    let problem = Problem::new(40, 60, 0.6, 1);
    let best = problem.objective(&problem.solved());
    for (peers, workers, concurrent, depth) in [(1, 1, 1, 1), (1, 2, 8, 1), (2, 1, 8, 1), (3, 2, 8, 3), (1, 3, 16, 5)] {
        let (models, report, _) =
            run(&problem, Shape { peers, workers, concurrent, depth, ..SHAPE }, priority(&problem));
        let found = problem.objective(&models[0]);
        assert!(found <= best + 1e-9, "{peers} {workers} {concurrent} {depth}: {found} is not {best}");
        assert!(models.iter().all(|model| *model == models[0]), "peers disagree");
        assert_eq!(report.tally.jobs, report.progress.jobs);
        assert_eq!(report.progress.touched, report.progress.jobs * 40);
    }
}

#[test]
fn exact_rounds_never_raise_the_objective_however_many_jobs_they_have() {
    for seed in 0..5 {
        let problem = Problem::new(30, 80, 0.9, seed);
        let shape = Shape { concurrent: 32, jobs: 3000, ..SHAPE };
        let (_, report, trace) = run(&problem, shape, priority(&problem));
        for pair in trace.points.windows(2) {
            assert!(pair[1].objective <= pair[0].objective * (1.0 + 1e-12), "{pair:?}");
        }
        assert!(report.tally.waited_for_round > 0);
        assert_eq!(report.tally.staleness, [report.tally.jobs]);
    }
}

#[test]
fn random_updates_of_correlated_columns_disturb_each_other_and_scheduled_ones_do_not() {
    let problem = Problem::new(50, 100, 0.95, 4);
    let best = problem.objective(&problem.solved());
    let goal = best * 1.01;
    let shape = Shape { concurrent: 32, jobs: 60_000, ..SHAPE };
    let scheduled = run(&problem, shape, priority(&problem)).2.jobs_until(goal).expect("it converges");
    let random = Shape { conflicts: Conflicts::Ignore, ..shape };
    let random = run(&problem, random, || Random::new(100, 3)).2;
    let ratio = random.jobs_until(goal).map_or(f64::INFINITY, |jobs| jobs as f64 / scheduled as f64);
    assert!(ratio > 5.0, "{ratio}: {scheduled} scheduled updates");
}

#[test]
fn the_same_bits_twice_and_on_any_number_of_workers() {
    let problem = Problem::new(40, 60, 0.7, 2);
    for depth in [1, 3] {
        let shape = Shape { depth, jobs: 700, ..SHAPE };
        let (first, first_report, _) = run(&problem, shape, priority(&problem));
        for workers in 1..=3 {
            let (again, report, _) = run(&problem, Shape { workers, ..shape }, priority(&problem));
            assert_eq!(again, first, "{workers} workers, depth {depth}");
            assert_eq!(report.tally, first_report.tally);
        }
        let peers = Shape { peers: 2, workers: 1, ..shape };
        assert_eq!(run(&problem, peers, priority(&problem)).0, run(&problem, peers, priority(&problem)).0);
    }
}

/// A program one of whose workers takes ten times as long for everything.
struct Slow<'p>(Lasso<'p, Priority>);

impl Program for Slow<'_> {
    type Job = usize;
    type Partial = f64;
    type State = crate::lasso::State;

    fn schedule(&self, ask: &Ask, state: &Self::State, candidates: &mut Vec<Candidate<usize>>) {
        self.0.schedule(ask, state, candidates);
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

    fn aggregate(&mut self, done: &Done<'_, usize, f64>, state: &mut Self::State, crew: &mut Crew<'_>) -> Result<()> {
        self.0.aggregate(done, state, crew)
    }
}

#[test]
fn a_slow_worker_changes_nothing_but_the_time() {
    let problem = Problem::new(40, 60, 0.7, 2);
    let slowly = standalone(1).workers(2).run(|cluster| {
        let mut program = Slow(Lasso { problem: &problem, order: priority(&problem)() });
        let mut state = problem.share(cluster);
        let engine = Dynamic::new(cluster).concurrent(16).depth(3).conflicts(EXACT).parts(2).watch_every(1);
        let ends = |jobs| if jobs >= 700 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        engine.run(&mut program, &mut state, |progress, _, _| Ok(ends(progress.jobs)))?;
        Ok(state.model)
    });
    let (even, _, _) = run(&problem, Shape { depth: 3, jobs: 700, ..SHAPE }, priority(&problem));
    assert_eq!(slowly.unwrap(), even);
}

#[test]
fn staleness_of_a_deep_pipeline_is_counted() {
    let problem = Problem::new(40, 60, 0.0, 2);
    let shape =
        Shape { depth: 4, concurrent: 2, conflicts: Conflicts::Avoid { pair: 0.9, total: 9.0 }, jobs: 1000, ..SHAPE };
    let (_, report, _) = run(&problem, shape, || RoundRobin::new(60));
    let staleness = &report.tally.staleness;
    assert_eq!(staleness.len(), 4);
    assert_eq!(staleness.iter().sum::<u64>(), report.tally.jobs);
    // The pipeline fills once; then three rounds are under way when one begins.
    assert_eq!(staleness[..3], [2, 2, 2]);
}

/// A program of which one thing is wrong.
struct Wrong {
    named: Vec<usize>,
    panics_at: Option<usize>,
}

impl Program for Wrong {
    type Job = usize;
    type Partial = u8;
    type State = ();

    fn schedule(&self, _: &Ask, (): &(), candidates: &mut Vec<Candidate<usize>>) {
        candidates.extend(self.named.iter().map(|job| Candidate { job: *job, priority: 0.0 }));
    }

    fn coupling(&self, a: &usize, b: &usize, (): &()) -> f64 {
        if a / 10 == b / 10 { 0.5 } else { 0.0 }
    }

    fn update(&self, job: &usize, (): &()) -> u8 {
        assert_ne!(Some(*job), self.panics_at, "there is no data");
        0
    }

    fn aggregate(&mut self, _: &Done<'_, usize, u8>, (): &mut (), _: &mut Crew<'_>) -> Result<()> {
        Ok(())
    }
}

/// What each peer says of a program that may be wrong in other ways on each.
fn complaints(
    peers: usize,
    engine: impl Fn(Dynamic<'_>) -> Dynamic<'_> + Sync,
    program: impl Fn(Rank) -> Wrong + Sync,
) -> Vec<String> {
    let run = |cluster: &hemiola_cluster::Cluster| {
        let mut looks = 0;
        let outcome =
            engine(Dynamic::new(cluster).watch_every(1)).run(&mut program(cluster.rank()), &mut (), |_, _, ()| {
                looks += 1;
                Ok(if looks > 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
        // All peers come here before one ends, so that none is missed.
        let told = outcome.err().map_or_else(|| "nothing is wrong".to_owned(), |error| error.to_string());
        cluster.barrier()?;
        Ok(told)
    };
    standalone(peers).workers(2).run(run).unwrap()
}

#[test]
fn overlapping_jobs_are_refused_and_named() {
    fn exact(engine: Dynamic<'_>) -> Dynamic<'_> {
        engine.concurrent(4).conflicts(Conflicts::Refuse { pair: 0.1 })
    }
    for told in complaints(2, exact, |_| Wrong { named: vec![7, 13, 18], panics_at: None }) {
        assert!(told.contains("jobs 13 and 18") && told.contains("round 0"), "{told}");
    }
    let fine = complaints(1, exact, |_| Wrong { named: vec![7, 13, 25], panics_at: None });
    assert!(fine[0].contains("nothing is wrong"), "{fine:?}");
}

#[test]
fn a_job_that_panics_is_named_on_every_peer() {
    let program = |rank: Rank| Wrong { named: vec![7, 13, 25], panics_at: (rank == Rank::new(1)).then_some(13) };
    let told = complaints(3, |engine| engine.concurrent(3), program);
    assert!(
        told[1].contains("job 13 panicked in round 0 on peer 1: ") && told[1].contains("there is no data"),
        "{told:?}"
    );
    for other in [&told[0], &told[2]] {
        assert!(other.contains("peer 1 could not go on") && other.contains("job 13 panicked"), "{other}");
    }
    let alone = complaints(1, |engine| engine.concurrent(1), |_| Wrong { named: vec![4], panics_at: Some(4) });
    assert!(alone[0].contains("job 4 panicked"), "{alone:?}");
}

#[test]
fn a_schedule_that_names_nothing_is_an_error() {
    let told = complaints(2, |engine| engine, |_| Wrong { named: Vec::new(), panics_at: None });
    assert!(told.iter().all(|told| told.contains("named no job for round 0")), "{told:?}");
}

#[test]
fn peers_that_schedule_other_jobs_are_found_out() {
    let program = |rank: Rank| Wrong { named: vec![10 * rank.index()], panics_at: None };
    let told = complaints(2, |engine| engine, program);
    assert!(told.iter().any(|told| told.contains("scheduled other jobs")), "{told:?}");
}

#[test]
fn a_watcher_that_wants_the_workers_for_something_else_is_refused_and_does_not_wait_for_ever() {
    let problem = Problem::new(40, 60, 0.5, 1);
    let told = standalone(1).workers(2).run(|cluster| {
        let mut program = Lasso { problem: &problem, order: priority(&problem)() };
        let mut state = problem.share(cluster);
        let engine = Dynamic::new(cluster).parts(2).watch_every(10);
        let outcome = engine.run(&mut program, &mut state, |_, _, _| {
            cluster.each_worker(|_| ())?;
            Ok(ControlFlow::Break(()))
        });
        // They are free again.
        cluster.each_worker(|_| ())?;
        Ok((outcome.unwrap_err().to_string(), cluster.crew(|_| cluster.crew(|_| Ok(()))).unwrap_err().to_string()))
    });
    let (watcher, crew) = told.unwrap().remove(0);
    assert!(watcher.contains("stand by for a crew") && crew.contains("stand by for a crew"), "{watcher}; {crew}");
}

#[test]
fn a_lost_peer_is_a_typed_error() {
    let problem = Problem::new(40, 60, 0.5, 1);
    let outcome = standalone(2).workers(1).run(|cluster| {
        let mut program = Lasso { problem: &problem, order: priority(&problem)() };
        let mut state = problem.share(cluster);
        let engine = Dynamic::new(cluster).concurrent(8).depth(2).conflicts(EXACT).parts(2).watch_every(100);
        engine.run(&mut program, &mut state, |progress, _, _| {
            if progress.jobs > 500 && cluster.rank() == Rank::new(1) {
                return Err(hemiola_cluster::Error::program(std::io::Error::other("peer 1 gives up")));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    });
    let told = outcome.unwrap_err().to_string();
    assert!(told.contains("peer 1"), "{told}");
}

#[test]
fn peers_that_ask_for_other_settings_are_refused() {
    let outcome = standalone(2).workers(1).run(|cluster| {
        let engine = Dynamic::new(cluster).depth(1 + cluster.rank().index());
        let mut program = Wrong { named: vec![1], panics_at: None };
        Ok(engine.run(&mut program, &mut (), |_, _, ()| Ok(ControlFlow::Break(()))).unwrap_err().to_string())
    });
    for told in outcome.unwrap() {
        assert!(told.contains("peer 1 runs the schedule with") && told.contains("depth: 2"), "{told}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    for engine in [|engine: Dynamic<'_>| engine.concurrent(0), |engine: Dynamic<'_>| engine.depth(0)]
        as [for<'c> fn(Dynamic<'c>) -> Dynamic<'c>; 2]
    {
        let told = complaints(1, engine, |_| Wrong { named: vec![1], panics_at: None });
        assert!(told[0].contains("cannot be 0"), "{told:?}");
    }
}
