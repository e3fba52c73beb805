//! The model check: clients and shards under random schedules, compared with what bounded staleness allows.
//!
//! A *schedule* is made from a seed: a table (consistency, delivery, cache size, budget, procedure), 2 to 6 workers on 1 to 6 peers, 1 to 4
//! shards, and at each step the choice of who goes next: a worker, a message (any that is under way, whatever was sent before
//! it; sometimes twice), or time. Some workers are slow, some end early.
//!
//! What is checked (see `world`): no read is staler than the bound allows or shows what it must not; every read shows a prefix of each worker's updates
//! to the row, and all own ones; in the end every update is applied exactly once; nobody waits for ever; a snapshot holds
//! exactly the updates before its clock; versions of rows are there for updates computed from them, and released in the end.
//!
//! `HEMIOLA_SCHEDULES` sets the number of schedules (100,000), `HEMIOLA_FIRST_SCHEDULE` the first seed; a failure prints the line that
//! replays its schedule. `plants` shows that the check can fail.

mod plan;
mod plants;
mod probe;
mod world;

pub(crate) use plan::Dice;

/// Reads a number from the environment, for longer explorations.
#[expect(clippy::disallowed_methods, reason = "a knob of this test, not of the library")]
fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn bounded_staleness_holds_under_all_schedules() {
    let first = variable("HEMIOLA_FIRST_SCHEDULE", 0);
    let count = variable("HEMIOLA_SCHEDULES", 100_000);
    let mut counts = world::Counts::default();
    for seed in first..first + count {
        if let Err(problem) = world::run(seed, &mut counts) {
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
