//! Randomized tests of all protocol invariants, and injected faults that they must detect.

use hemiola_sim::actors::sync::SyncFault;
use hemiola_sim::explore::explore;
use hemiola_sim::scenario::{
    AnyScenario, CheckpointFault, CheckpointScenario, CollectiveFault, CollectiveScenario, CompressedScenario,
    GossipFault, GossipScenario, LoopScenario, PipelineScenario, RotationScenario, Scenario, SyncScenario, TableFault,
    TableScenario,
};
use std::ops::Range;

/// Reads a number from the environment, for longer runs.
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
fn tables_respect_the_staleness_bound() {
    holds::<TableScenario>(2000);
}

#[test]
fn snapshots_are_consistent_and_jobs_resume_from_them() {
    holds::<CheckpointScenario>(2000);
}

#[test]
fn collectives_give_the_bits_of_the_documented_order() {
    holds::<CollectiveScenario>(1500);
}

#[test]
fn compressed_collectives_do_not_depend_on_timing() {
    holds::<CompressedScenario>(1000);
}

#[test]
fn gossip_gives_the_bits_of_serial_rounds() {
    holds::<GossipScenario>(2000);
}

#[test]
fn rotations_do_not_depend_on_timing() {
    holds::<RotationScenario>(2000);
}

#[test]
fn schedules_do_not_depend_on_timing() {
    holds::<PipelineScenario>(2000);
}

#[test]
fn loops_give_the_bits_of_their_serial_order() {
    holds::<LoopScenario>(2000);
}

#[test]
fn trainings_give_the_bits_of_a_serial_training() {
    holds::<SyncScenario>(1000);
}

/// Checks that a fault is found within these seeds, that the shrunk scenario fails, too, and that
/// its replay command reproduces it.
fn finds<S: Scenario>(what: &str, fault: impl Fn(S) -> S + Sync) -> S {
    let found = explore(0..500, |seed| fault(S::from_seed(seed)), |scenario| scenario.check().map(drop));
    let failure = found.expect_err(what);
    let line = failure.shrunk.replay();
    let json = line.strip_prefix("hemiola simulate replay '").and_then(|line| line.strip_suffix('\'')).unwrap();
    let read: AnyScenario = serde_json::from_str(json).unwrap();
    assert_eq!(read.check(), Err(failure.shrunk_problem.clone()), "{what}");
    assert!(failure.to_string().ends_with(&line));
    // No simpler scenario fails.
    assert!(failure.shrunk.shrink().iter().all(|smaller| smaller.check().is_ok()), "{what}: {line}");
    failure.shrunk
}

#[test]
fn injected_table_faults_are_found() {
    for fault in TableFault::ALL {
        let shrunk = finds(&format!("{fault:?}"), |scenario: TableScenario| scenario.with_fault(fault));
        assert!(shrunk.cluster.faults.is_empty(), "{fault:?} needs no fault: {shrunk:?}");
        assert!(shrunk.clocks <= 6 && shrunk.cluster.peers <= 3, "{fault:?}: {shrunk:?}");
    }
}

#[test]
fn injected_snapshot_faults_are_found() {
    let shrunk = finds("live rows", |scenario: CheckpointScenario| scenario.with_fault(CheckpointFault::LiveRows));
    assert!(shrunk.crash.is_none(), "{shrunk:?}");
    let shrunk =
        finds("a clock twice", |scenario: CheckpointScenario| scenario.with_fault(CheckpointFault::ClockTwice));
    assert_eq!(shrunk.at, 1, "{shrunk:?}");
}

#[test]
fn injected_collective_faults_are_found() {
    let fault = CollectiveFault::SegmentsSwapped;
    let shrunk = finds("segments", |scenario: CollectiveScenario| scenario.with_fault(fault));
    assert_eq!(shrunk.cluster.peers, 2);
    assert_eq!(shrunk.jobs.len(), 1);
}

#[test]
fn injected_compression_faults_are_found() {
    let shrunk = finds("late tags", |scenario: CompressedScenario| CompressedScenario { tags_late: true, ..scenario });
    assert!(shrunk.in_flight == 2, "one at a time takes its tags in the same order anyway: {shrunk:?}");
}

#[test]
fn injected_gossip_faults_are_found() {
    let fault = GossipFault::AckOnArrival;
    let shrunk = finds("acks", |scenario: GossipScenario| scenario.with_fault(fault));
    assert!(shrunk.rounds <= 3, "{shrunk:?}");
    let fault = GossipFault::NoAgreementAfterLoss;
    let shrunk = finds("no agreement after a loss", |scenario: GossipScenario| scenario.with_fault(fault));
    assert_eq!(shrunk.cluster.faults.len(), 1, "{shrunk:?}");
}

#[test]
fn injected_rotation_faults_are_found() {
    finds("out of order", |scenario: RotationScenario| RotationScenario { pass_out_of_order: true, ..scenario });
}

#[test]
fn injected_schedule_faults_are_found() {
    finds("out of order", |scenario: PipelineScenario| PipelineScenario { skip_missing_results: true, ..scenario });
}

#[test]
fn injected_loop_faults_are_found() {
    finds("early blocks", |scenario: LoopScenario| LoopScenario { send_before_run: true, ..scenario });
}

#[test]
fn injected_training_faults_are_found() {
    for fault in [SyncFault::StaleRead, SyncFault::SharedChannel] {
        let shrunk = finds(&format!("{fault:?}"), |scenario: SyncScenario| scenario.with_fault(fault));
        assert!(shrunk.cluster.peers <= 3 && shrunk.steps <= 2, "{fault:?}: {shrunk:?}");
    }
}

#[test]
fn a_deadlock_prints_the_wait_graph() {
    let fault = TableFault::NeedTooLate;
    let shrunk = finds("need", |scenario: TableScenario| scenario.with_fault(fault));
    let problem = shrunk.check().unwrap_err();
    assert!(problem.starts_with("deadlock at"), "{problem}");
    assert!(problem.contains("waits for clock") && problem.contains("waits for rows"), "{problem}");
    assert!(problem.contains("cycle: peers"), "{problem}");
}

#[test]
fn failures_do_not_depend_on_threads() {
    let run = || {
        let fault = |seed| RotationScenario { pass_out_of_order: true, ..RotationScenario::from_seed(seed) };
        let found = explore(0..200, fault, |scenario| scenario.check().map(drop));
        found.expect_err("the fault is found").to_string()
    };
    assert_eq!(run(), run());
}
