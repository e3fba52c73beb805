//! Loops that fail: every peer gets the same error, nobody hangs, and the cluster can be used.

use super::run;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Entries of a loop that is worth running on several peers.
const ENTRIES: usize = 40_000;

/// What `failing` says on every peer, for 1 to 3 peers and 1 to 4 workers, where it must leave a cluster that works.
fn errors(failing: impl Fn(&Cluster) -> Result<String> + Sync) -> Vec<String> {
    let mut all = Vec::new();
    for (peers, workers) in [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2)] {
        let said = run(peers, workers, |cluster| {
            let error = failing(cluster)?;
            assert_eq!(cluster.all_gather(1)?.len(), peers);
            let sum = cluster.accumulator::<u64>();
            parallel_for!(
                cluster,
                for i in 0..100 {
                    sum += i as u64;
                }
            )?;
            assert_eq!(sum.take()?, 4950);
            Ok(error)
        });
        assert!(said.iter().all(|error| *error == said[0]), "{said:?}");
        all.push(said.into_iter().next().unwrap());
    }
    all
}

#[test]
fn a_rule_of_a_buffer_that_panics_ends_the_loop() {
    for side in [30, 20_000] {
        let said = errors(|cluster| {
            let array = cluster.zeros::<u64, 1>([side])?;
            let buffer = array.buffered(|cell: &mut u64, update: u64| {
                assert!(update < 7_000_000, "seven is too much");
                *cell += update;
            });
            let outcome = parallel_for!(
                cluster,
                for i in 0..ENTRIES {
                    buffer[i * i % 29] += if i == 7 { 7_000_000 } else { 1 };
                }
            );
            Ok(outcome.unwrap_err().to_string())
        });
        assert!(said.iter().all(|error| error.contains("seven is too much")), "{said:?}");
    }
}

#[test]
fn a_rule_that_panics_at_the_end_of_a_workers_own_block_ends_the_loop() {
    let said = errors(|cluster| {
        let array = cluster.zeros::<u64, 1>([ENTRIES as u64])?;
        let buffer = array.buffered(|cell: &mut u64, update: u64| {
            assert!(update < 7_000_000, "seven is too much");
            *cell += update;
        });
        let outcome = parallel_for!(
            cluster,
            for i in 0..ENTRIES {
                buffer[i] += if i == 7 { 7_000_000 } else { 1 };
            }
        );
        Ok(outcome.unwrap_err().to_string())
    });
    assert!(said.iter().all(|error| error.contains("seven is too much")), "{said:?}");
}

#[test]
fn a_panic_in_a_rotation_ends_it_everywhere_and_its_arrays_can_be_used() {
    let said = errors(|cluster| {
        let all = cluster.from_fn([400, 60], |[u, i]| u * 100 + i)?;
        let entries = all.entries().filter(|[u, i], _| (u + i) % 3 < 2).materialize()?;
        let (w, h) = (cluster.zeros::<u64, 2>([400, 3])?, cluster.zeros::<u64, 2>([60, 3])?);
        let pass = |bad: u64| {
            parallel_for!(
                cluster,
                for ([u, i], value) in &entries {
                    assert!(*value != bad, "a bad value");
                    w[u][0] += 1;
                    h[i][1] += 1;
                }
            )
        };
        let run = pass(u64::MAX)?;
        let parallel = cluster.size() * cluster.workers() > 1;
        assert_eq!(run.plan().cuts.times() > 1, parallel, "{}", run.plan());
        let error = pass(2022).unwrap_err();
        // Whatever they hold now, it is an array of this shape, and the next loop finds it so.
        assert_eq!(h.collect()?.len(), 180);
        assert_eq!(w.collect()?.len(), 1200);
        pass(u64::MAX)?;
        assert_eq!(h.collect()?.len(), 180);
        Ok(error.to_string())
    });
    assert!(said.iter().all(|error| error.contains("failed at entry [20, 22]")), "{said:?}");
    assert!(said.iter().all(|error| error.contains("a bad value")), "{said:?}");
}
