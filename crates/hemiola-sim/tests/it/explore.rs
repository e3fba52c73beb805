//! The promises of all protocols, explored; and planted faults, which exploration must find.

use hemiola_sim::explore::explore;
use hemiola_sim::scenario::{
    Any, CheckpointPlant, CheckpointScenario, CollectivePlant, CollectiveScenario, EncodedScenario, LoopScenario,
    MixingPlant, MixingScenario, PipelineScenario, RingScenario, Scenario, TablePlant, TableScenario,
};
use std::ops::Range;

/// Reads a number from the environment, for longer explorations.
#[expect(clippy::disallowed_methods, reason = "a knob of this test, not of the library")]
fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn seeds(count: u64) -> Range<u64> {
    let first = variable("HEMIOLA_FIRST_SCHEDULE", 0);
    first..first + variable("HEMIOLA_SCHEDULES", count)
}

fn holds<S: Scenario>(count: u64) {
    if let Err(failure) = explore(seeds(count), S::from_seed, |scenario| scenario.check().map(drop)) {
        panic!("{failure}");
    }
}

#[test]
fn tables_keep_their_bound_and_lose_nothing() {
    holds::<TableScenario>(2000);
}

#[test]
fn snapshots_hold_their_clock_and_jobs_go_on_from_them() {
    holds::<CheckpointScenario>(2000);
}

#[test]
fn collectives_give_the_bits_of_the_documented_order() {
    holds::<CollectiveScenario>(1500);
}

#[test]
fn encoded_exchanges_do_not_depend_on_time_and_lose_nothing() {
    holds::<EncodedScenario>(1000);
}

#[test]
fn mixing_gives_the_bits_of_serial_rounds() {
    holds::<MixingScenario>(2000);
}

#[test]
fn blocks_go_round_in_an_order_that_time_does_not_change() {
    holds::<RingScenario>(2000);
}

#[test]
fn schedules_depend_on_counts_alone() {
    holds::<PipelineScenario>(2000);
}

#[test]
fn loops_give_the_bits_of_their_serial_order() {
    holds::<LoopScenario>(2000);
}

/// A plant is found in these many seeds, made no larger by shrinking, and its line replays it.
fn finds<S: Scenario>(what: &str, plant: impl Fn(S) -> S + Sync) -> S {
    let found = explore(0..500, |seed| plant(S::from_seed(seed)), |scenario| scenario.check().map(drop));
    let failure = found.expect_err(what);
    let line = failure.smallest.replay();
    let json = line.strip_prefix("hemiola simulate replay '").and_then(|line| line.strip_suffix('\'')).unwrap();
    let read: Any = serde_json::from_str(json).unwrap();
    assert_eq!(read.check(), Err(failure.smallest_problem.clone()), "{what}");
    assert!(failure.to_string().ends_with(&line));
    // Each simpler one is fine.
    assert!(failure.smallest.smaller().iter().all(|smaller| smaller.check().is_ok()), "{what}: {line}");
    failure.smallest
}

#[test]
fn planted_faults_in_tables_are_found() {
    for plant in TablePlant::ALL {
        let smallest = finds(&format!("{plant:?}"), |scenario: TableScenario| scenario.planted(plant));
        assert!(smallest.cluster.faults.is_empty(), "{plant:?} needs no fault: {smallest:?}");
        assert!(smallest.clocks <= 6 && smallest.cluster.peers <= 3, "{plant:?}: {smallest:?}");
    }
}

#[test]
fn planted_faults_in_snapshots_are_found() {
    let smallest = finds("live rows", |scenario: CheckpointScenario| scenario.planted(CheckpointPlant::LiveRows));
    assert!(smallest.crash.is_none(), "{smallest:?}");
    let smallest = finds("a clock twice", |scenario: CheckpointScenario| scenario.planted(CheckpointPlant::ClockTwice));
    assert_eq!(smallest.at, 1, "{smallest:?}");
}

#[test]
fn planted_faults_in_collectives_are_found() {
    let plant = CollectivePlant::SegmentsSwapped;
    let smallest = finds("segments", |scenario: CollectiveScenario| scenario.planted(plant));
    assert_eq!(smallest.cluster.peers, 2);
    assert_eq!(smallest.jobs.len(), 1);
}

#[test]
fn planted_faults_in_encoded_exchanges_are_found() {
    let smallest = finds("late tags", |scenario: EncodedScenario| EncodedScenario { tags_late: true, ..scenario });
    assert!(smallest.in_flight == 2, "one at a time takes its tags in the same order anyway: {smallest:?}");
}

#[test]
fn planted_faults_in_mixing_are_found() {
    let plant = MixingPlant::AckOnArrival;
    let smallest = finds("acks", |scenario: MixingScenario| scenario.planted(plant));
    assert!(smallest.rounds <= 3, "{smallest:?}");
    let plant = MixingPlant::AloneAfterLoss;
    let smallest = finds("alone after a loss", |scenario: MixingScenario| scenario.planted(plant));
    assert_eq!(smallest.cluster.faults.len(), 1, "{smallest:?}");
}

#[test]
fn planted_faults_in_rings_are_found() {
    finds("impatience", |scenario: RingScenario| RingScenario { impatient: true, ..scenario });
}

#[test]
fn planted_faults_in_schedules_are_found() {
    finds("impatience", |scenario: PipelineScenario| PipelineScenario { impatient: true, ..scenario });
}

#[test]
fn planted_faults_in_loops_are_found() {
    finds("early blocks", |scenario: LoopScenario| LoopScenario { early: true, ..scenario });
}

#[test]
fn a_scenario_that_is_stuck_prints_who_waits_for_whom() {
    let plant = TablePlant::NeedOfTheFastest;
    let smallest = finds("need", |scenario: TableScenario| scenario.planted(plant));
    let problem = smallest.check().unwrap_err();
    assert!(problem.starts_with("stuck at"), "{problem}");
    assert!(problem.contains("waits for clock") && problem.contains("waits for rows"), "{problem}");
    assert!(problem.contains("in a circle: peers"), "{problem}");
}

#[test]
fn what_is_found_does_not_depend_on_threads() {
    let run = || {
        let plant = |seed| RingScenario { impatient: true, ..RingScenario::from_seed(seed) };
        let found = explore(0..200, plant, |scenario| scenario.check().map(drop));
        found.expect_err("it is found").to_string()
    };
    assert_eq!(run(), run());
}
