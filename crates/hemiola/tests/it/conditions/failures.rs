//! Loops that fail: every peer gets the same error, no peer hangs, and the cluster stays usable.

use super::run;
use hemiola::cluster::{Cluster, Result};
use hemiola::prelude::*;

/// Number of entries that makes a loop worth running on several peers.
const ENTRIES: usize = 40_000;

/// Errors of `failing` for several numbers of peers and workers. Checks that all peers get the same
/// error and that the cluster still works afterwards.
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
fn a_panicking_buffer_rule_ends_the_loop() {
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
fn a_rule_that_panics_on_exclusive_rows_ends_the_loop() {
    let said = errors(|cluster| {
        let array = cluster.zeros::<u64, 1>([ENTRIES])?;
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
        let all = cluster.from_fn([400, 60], |[u, i]| (u * 100 + i) as u64)?;
        let entries = all.entries().filter(|[u, i], _| (u + i) % 3 < 2).materialize()?;
        let (mut w, mut h) = (cluster.zeros::<u64, 2>([400, 3])?, cluster.zeros::<u64, 2>([60, 3])?);
        let pass = |w: &mut DistArray<u64, 2>, h: &mut DistArray<u64, 2>, bad: u64| {
            parallel_for!(
                cluster,
                for ([u, i], value) in &entries {
                    assert!(*value != bad, "a bad value");
                    w[u][0] += 1;
                    h[i][1] += 1;
                }
            )
        };
        let run = pass(&mut w, &mut h, u64::MAX)?;
        let parallel = cluster.size() * cluster.workers() > 1;
        assert_eq!(run.plan().cuts.times() > 1, parallel, "{}", run.plan());
        let error = pass(&mut w, &mut h, 2022).unwrap_err();
        // The cells are unspecified, but the array is complete, and the next loop can use it.
        assert_eq!(h.collect()?.len(), 180);
        assert_eq!(w.collect()?.len(), 1200);
        pass(&mut w, &mut h, u64::MAX)?;
        assert_eq!(h.collect()?.len(), 180);
        Ok(error.to_string())
    });
    assert!(said.iter().all(|error| error.contains("failed at entry [20, 22]")), "{said:?}");
    assert!(said.iter().all(|error| error.contains("a bad value")), "{said:?}");
}

#[test]
fn a_panic_in_a_wavefront_ends_it_everywhere_and_arrays_with_halos_can_be_used() {
    let said = errors(|cluster| {
        let mut a = cluster.from_fn([300, 40], |[i, j]| (i * 100 + j) as u64)?;
        let pass = |a: &mut DistArray<u64, 2>, bad: usize| {
            parallel_for!(
                cluster,
                ordered,
                for [i, j] in [1..299, 1..39] {
                    assert!(i * 100 + j != bad, "a bad index");
                    a[[i, j]] = a[[i - 1, j]] ^ a[[i, j - 1]] ^ a[[i + 1, j]];
                }
            )
        };
        let run = pass(&mut a, usize::MAX)?;
        assert_eq!(run.plan().cuts.peers_used, cluster.size(), "{}", run.plan());
        let error = pass(&mut a, 15_020).unwrap_err();
        // The cells are unspecified, but the array is complete, and the next loop can use it.
        assert_eq!(a.collect()?.len(), 12_000);
        pass(&mut a, usize::MAX)?;
        assert_eq!(a.collect()?.len(), 12_000);
        Ok(error.to_string())
    });
    assert!(said.iter().all(|error| error.contains("failed at entry [150, 20]")), "{said:?}");
    assert!(said.iter().all(|error| error.contains("a bad index")), "{said:?}");
}

#[test]
fn an_array_that_one_peer_holds_is_an_error_for_all_at_once() {
    let said = run(3, 2, |cluster| {
        let (a, sum) = (cluster.from_fn([100], |_| 1_u64)?, cluster.accumulator::<u64>());
        let pass = || {
            parallel_for!(
                cluster,
                for i in 0..100 {
                    sum += a[i];
                }
            )
        };
        let held = (cluster.rank().index() == 1).then(|| a.lock("another loop").expect("it is free"));
        // The error comes well before the wait deadline.
        let said = pass().unwrap_err().to_string();
        drop(held);
        pass()?;
        assert_eq!(sum.take()?, 100);
        Ok(said)
    });
    for (rank, error) in said.iter().enumerate() {
        assert!(error.contains("uses an array that is locked by another loop"), "{error}");
        assert_eq!(error.contains("failed on peer 1"), rank != 1, "{error}");
    }
}

/// User rows, item rows, and entries that need both.
struct TestModel {
    entries: DistArray<u64, 2>,
    w: DistArray<u64, 2>,
    h: DistArray<u64, 2>,
    totals: DistArray<u64, 1>,
    table: DistArray<u64, 1>,
}

impl TestModel {
    fn new(cluster: &Cluster) -> Result<Self> {
        let all = cluster.from_fn([400, 60], |[u, i]| (u * 100 + i) as u64)?;
        Ok(Self {
            entries: all.entries().filter(|[u, i], _| (u + i) % 3 < 2).materialize()?,
            w: cluster.zeros([400, 3])?,
            h: cluster.zeros([60, 3])?,
            totals: cluster.zeros([7])?,
            table: cluster.from_fn([20_000], |[index]| index as u64)?,
        })
    }

    /// Checks that all arrays are complete.
    fn check(&self) -> Result<()> {
        let lengths = [self.w.collect()?.len(), self.h.collect()?.len(), self.totals.collect()?.len()];
        assert_eq!((lengths, self.table.collect()?.len()), ([1200, 180, 7], 20_000));
        Ok(())
    }
}

/// The value that makes the body panic, and its key.
const BAD: (u64, &str) = (20_022, "[200, 22]");

/// Runs `pass` with and without the bad value on several clusters.
fn fails(pass: impl Fn(&Cluster, &mut TestModel, u64) -> Result<hemiola::loops::LoopReport> + Sync) {
    let said = errors(|cluster| {
        let mut model = TestModel::new(cluster)?;
        pass(cluster, &mut model, u64::MAX)?;
        let error = pass(cluster, &mut model, BAD.0).unwrap_err();
        model.check()?;
        pass(cluster, &mut model, u64::MAX)?;
        assert_eq!(pass(cluster, &mut model, BAD.0).unwrap_err().to_string(), error.to_string());
        model.check()?;
        Ok(error.to_string())
    });
    for error in said {
        assert!(error.contains(&format!("failed at entry {} on peer ", BAD.1)), "{error}");
        assert!(error.ends_with(": a bad value"), "{error}");
    }
}

#[test]
fn a_panic_ends_a_1d_loop() {
    fails(|cluster, model, bad| {
        let TestModel { entries, w, .. } = model;
        parallel_for!(
            cluster,
            for ([u, _], value) in entries {
                assert!(*value != bad, "a bad value");
                w[u][0] += *value;
            }
        )
    });
}

#[test]
fn a_panic_ends_a_wavefront() {
    fails(|cluster, model, bad| {
        let TestModel { entries, w, h, .. } = model;
        let run = parallel_for!(
            cluster,
            ordered,
            for ([u, i], value) in entries {
                assert!(*value != bad, "a bad value");
                w[u][0] = w[u][0].wrapping_add(h[i][0]);
                h[i][0] = w[u][0].wrapping_mul(3).wrapping_add(1);
            }
        )?;
        let parallel = cluster.size() * cluster.workers() > 1;
        assert_eq!(run.plan().cuts.times() > 1, parallel, "{}", run.plan());
        Ok(run)
    });
}

#[test]
fn a_panic_ends_a_rotation_with_barriers() {
    for every in [u64::MAX, 50] {
        fails(|cluster, model, bad| {
            let TestModel { entries, w, h, totals, .. } = model;
            let sums =
                totals.buffered(|cell: &mut u64, update: u64| *cell = cell.wrapping_add(update)).flush_every(every);
            parallel_for!(
                cluster,
                for ([u, i], value) in entries {
                    assert!(*value != bad, "a bad value");
                    w[u][0] = w[u][0].wrapping_add(h[i][0]);
                    h[i][0] = h[i][0].wrapping_mul(3).wrapping_add(1);
                    sums[(*value % 7) as usize] += 1;
                }
            )
        });
    }
}

#[test]
fn a_panic_ends_a_rotation_with_served_rows() {
    fails(|cluster, model, bad| {
        let TestModel { entries, w, h, table, .. } = model;
        parallel_for!(
            cluster,
            for ([u, i], value) in entries {
                assert!(*value != bad, "a bad value");
                w[u][0] = w[u][0].wrapping_add(table[(*value * 7 % 20_000) as usize]);
                h[i][0] = h[i][0].wrapping_mul(3).wrapping_add(1);
            }
        )
    });
}

#[test]
fn a_panic_ends_a_loop_with_served_rows_and_barriers() {
    fails(|cluster, model, bad| {
        let TestModel { entries, w, table, .. } = model;
        let updates = table.buffered(|cell: &mut u64, update: u64| *cell = cell.wrapping_add(update)).flush_every(900);
        parallel_for!(
            cluster,
            for ([u, _], value) in entries {
                assert!(*value != bad, "a bad value");
                w[u][0] = w[u][0].wrapping_add(table[(*value * 7 % 20_000) as usize]);
                updates[(*value * 11 % 20_000) as usize] += 1;
            }
        )
    });
}

/// Number that cannot be received where it is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct FragileNumber(i64);

impl hemiola::array::Element for FragileNumber {
    fn pack(numbers: &[Self], bytes: &mut Vec<u8>) {
        i64::pack(&numbers.iter().map(|number| number.0).collect::<Vec<_>>(), bytes);
    }

    fn unpack(bytes: &[u8], count: usize) -> hemiola::array::Result<Vec<Self>> {
        let numbers = i64::unpack(bytes, count)?;
        if numbers.iter().any(|number| *number < 0) {
            return Err(hemiola::array::Error::BadMessage { problem: "a negative number".to_owned() });
        }
        Ok(numbers.into_iter().map(Self).collect())
    }
}

#[test]
fn an_exchange_of_updates_that_fails_on_one_peer_ends_the_loop_on_all() {
    const ROWS: usize = 20_000;
    let failing = |cluster: &Cluster| {
        let keys = cluster.from_fn([ENTRIES], |[at]| at as u64)?;
        let table = cluster.zeros::<i64, 1>([ROWS])?;
        let mut read = cluster.zeros::<i64, 1>([ENTRIES])?;
        let updates = table.buffered(|cell: &mut i64, update: FragileNumber| *cell += update.0).flush_every(900);
        let outcome = parallel_for!(
            cluster,
            for (at, &key) in &keys {
                read[at] = table[(key * 7 % ROWS as u64) as usize];
                // The last row belongs to the last peer.
                updates[(key * 11 % ROWS as u64) as usize] =
                    FragileNumber(if key * 11 % ROWS as u64 == ROWS as u64 - 1 { -1 } else { 1 });
            }
        );
        let error = outcome.map(|run| run.plan().to_string()).unwrap_err().to_string();
        // All peers are in step: the next collective is the same call on all.
        assert_eq!(cluster.all_gather(1)?.len(), cluster.size());
        Ok(error)
    };
    for (peers, workers) in [(2, 1), (3, 2)] {
        let said = run(peers, workers, failing);
        assert!(said.iter().all(|error| *error == said[0]), "{said:?}");
        assert!(said[0].contains("a negative number"), "{said:?}");
    }
}

#[test]
fn an_index_out_of_bounds_is_named() {
    let said = errors(|cluster| {
        let (mut array, mut rows) = (cluster.zeros::<u64, 1>([10])?, cluster.zeros::<u64, 3>([10, 4, 2])?);
        let outcomes = [
            parallel_for!(
                cluster,
                for i in 0..11 {
                    array[i] += 1;
                }
            ),
            parallel_for!(
                cluster,
                for i in 1..11 {
                    array[i] += array[i - 1];
                }
            ),
            parallel_for!(
                cluster,
                for i in 0..10 {
                    array[i] += array[2..i + 3][0];
                }
            ),
            parallel_for!(
                cluster,
                for i in 0..10 {
                    rows[[i, 4]][0] += 1;
                }
            ),
            parallel_for!(
                cluster,
                for i in 0..10 {
                    rows[[i, 3, 2]] += 1;
                }
            ),
            parallel_for!(
                cluster,
                for i in 0..10 {
                    rows[[i, i % 4]][i % 3] += 1;
                }
            ),
            {
                let buffer = rows.buffered(|cell: &mut u64, update: u64| *cell += update);
                parallel_for!(
                    cluster,
                    for i in 0..10 {
                        buffer[[i, 4]][0] += 1;
                    }
                )
            },
        ];
        let said = outcomes.map(|outcome| outcome.unwrap_err().to_string());
        Ok(said.map(|said| said.split_once(": ").unwrap().1.to_owned()).join("\n"))
    });
    for error in said {
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines[0], "index [10] is out of bounds of `array` with shape [10]");
        assert_eq!(lines[1], "index [10] is out of bounds of `array` with shape [10]");
        assert_eq!(lines[2], "range 2..11 is out of bounds of `array` with shape [10]");
        assert!(lines[3].ends_with(", 4] is out of bounds of `rows` with shape [10, 4, 2]"), "{error}");
        assert!(lines[4].ends_with(", 3, 2] is out of bounds of `rows` with shape [10, 4, 2]"), "{error}");
        assert!(lines[5].starts_with("index out of bounds: the len is 2"), "{error}");
        assert!(lines[6].ends_with(", 4] is out of bounds of the buffer `buffer` with shape [10, 4, 2]"), "{error}");
    }
}

#[test]
fn a_loop_inside_a_loop_is_an_error() {
    fn inner(cluster: &Cluster, array: &DistArray<u64, 1>) -> Result<()> {
        let sum = cluster.accumulator::<u64>();
        parallel_for!(
            cluster,
            for i in 0..10 {
                sum += array[i];
            }
        )
        .map(|_| ())
    }
    let said = errors(|cluster| {
        let (one, two) = (cluster.zeros::<u64, 1>([10])?, cluster.zeros::<u64, 1>([10])?);
        let add =
            |array: usize| inner(cluster, if array == 0 { &one } else { &two }).map_err(|error| error.to_string());
        let outcome = parallel_for!(
            cluster,
            for i in 0..4 {
                add(i % 2).unwrap();
            }
        );
        Ok(outcome.unwrap_err().to_string())
    });
    for error in said {
        assert!(error.contains("inside the body of another loop"), "{error}");
    }
}
