//! Model check: the nodes of a table, with their clients and shards, under random schedules,
//! compared with the guarantees of bounded staleness.
//!
//! A *schedule* follows from a seed: a table (consistency, delivery, cache size, budget, update
//! rule), 2 to 6 workers on 1 to 6 peers, 1 to 4 shards, and at each step a choice: a worker runs,
//! a message is delivered (any one, sometimes twice), or time passes. Some workers are slow, some
//! finish early.
//!
//! The check (see `simulation`): no read is staler than the bound or shows hidden updates; every
//! read shows a prefix of each worker's updates to the row, and all own ones; in the end every
//! update is applied exactly once; no worker waits for ever; a snapshot includes exactly the
//! updates before its clock; versions are kept while updates refer to them, and released in the
//! end.
//!
//! `HEMIOLA_SCHEDULES` sets the number of schedules (100,000), `HEMIOLA_FIRST_SCHEDULE` the first
//! seed; a failure prints the command that replays its schedule. `faults` shows that the check can
//! fail.

mod faults;
mod host;
mod probe;
mod schedule;
mod simulation;

pub(crate) use schedule::TestRng;

/// Reads a number from the environment, for longer runs.
#[expect(clippy::disallowed_methods, reason = "a knob of this test, not of the library")]
fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn bounded_staleness_holds_under_all_schedules() {
    let first = variable("HEMIOLA_FIRST_SCHEDULE", 0);
    let count = variable("HEMIOLA_SCHEDULES", 100_000);
    let mut counts = simulation::CoverageCounts::default();
    for seed in first..first + count {
        if let Err(problem) = simulation::run(seed, &mut counts) {
            panic!(
                "schedule {seed}: {problem}\nreplay: HEMIOLA_FIRST_SCHEDULE={seed} HEMIOLA_SCHEDULES=1 cargo test -p hemiola-tables-proto --test it model"
            );
        }
    }
    // Schedules that never wait, evict or repeat prove little.
    if count >= 10_000 {
        assert!(counts.all_happened(), "something never happened: {counts:?}");
    }
}
