//! Parameter-server tables in loop bodies.

use crate::with_watchdog;
use hemiola::prelude::*;
use hemiola::tables::{Consistency, StorageType, Table, TableInLoop};
use std::collections::BTreeMap;

/// Runs `body` on `peers` peers of two workers each.
fn run<T: Send>(peers: usize, body: impl Fn(&Cluster) -> hemiola::cluster::Result<T> + Send + Sync) -> Vec<T> {
    with_watchdog(|| hemiola::cluster::standalone(peers).workers(2).run(|cluster| body(cluster)).unwrap())
}

const SAMPLES: usize = 400;

/// Examples with two features each, both from the same hundred rows: with four parts, no part uses
/// a row of another.
fn samples(cluster: &Cluster) -> hemiola::cluster::Result<DistArray<Vec<u32>, 1>> {
    cluster.from_fn([SAMPLES], |[at]| vec![at as u32, (at / 100 * 100 + at * 37 % 100) as u32])
}

/// Update that a pass adds to a row.
fn update(row: &[f32]) -> [f32; 2] {
    [0.1 + row[0] * 0.3, row[1] - 0.7 * row[0] + 0.01]
}

/// One pass as a loop.
fn pass(
    cluster: &Cluster,
    samples: &DistArray<Vec<u32>, 1>,
    w: &TableInLoop<'_, Table<f32>>,
) -> hemiola::cluster::Result<String> {
    let run = parallel_for!(
        cluster,
        repeated,
        for (_, features) in samples {
            for &feature in features {
                let change = update(&w[feature as usize]);
                w.add(feature as usize, &change);
            }
        }
    )?;
    Ok(run.plan().to_string())
}

fn weights(cluster: &Cluster, consistency: Consistency) -> hemiola::cluster::Result<Table<f32>> {
    cluster.table::<f32>("weights").rows(SAMPLES as u64).width(2).consistency(consistency).build()
}

fn bits(rows: BTreeMap<u64, Vec<f32>>) -> Vec<(u64, Vec<u32>)> {
    rows.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect()
}

/// Serial reference in plain Rust. It is exact because no two parts share a row.
fn serial(passes: usize) -> Vec<(u64, Vec<u32>)> {
    let mut rows: BTreeMap<u64, Vec<f32>> = (0..SAMPLES as u64).map(|key| (key, vec![0.0; 2])).collect();
    for _ in 0..passes {
        for at in 0..SAMPLES as u64 {
            for feature in [at, at / 100 * 100 + at * 37 % 100] {
                let row = rows.get_mut(&feature).unwrap();
                let change = update(row);
                row.iter_mut().zip(change).for_each(|(value, change)| *value += change);
            }
        }
    }
    bits(rows)
}

#[test]
fn a_loop_leases_rows_to_their_only_user_before_they_are_used() {
    let ends = run(2, |cluster| {
        let (samples, table) = (samples(cluster)?, weights(cluster, Consistency::Ssp(1))?);
        let w = table.in_loop();
        for _ in 0..3 {
            let plan = pass(cluster, &samples, &w)?;
            let line =
                "table `w`: rows announced one block ahead, also across passes; the clock advances after each pass";
            assert!(plan.contains(line), "{plan}");
            // The next pass has not started, but its rows are already moving to the two parts of
            // this peer.
            while table.leased_rows() < 200 {
                std::thread::yield_now();
            }
        }
        table.collect()
    });
    for end in ends {
        assert!(bits(end) == serial(3));
    }
}

#[test]
fn an_unannounced_loop_gets_no_leases_and_the_same_bits() {
    let ends = run(2, |cluster| {
        let (samples, table) = (samples(cluster)?, weights(cluster, Consistency::Ssp(1))?);
        let w = table.in_loop().without_announcements();
        for _ in 0..3 {
            let plan = pass(cluster, &samples, &w)?;
            assert!(plan.contains("table `w`: rows fetched at the start of a block"), "{plan}");
            cluster.barrier()?;
            assert_eq!(table.leased_rows(), 0);
        }
        table.collect()
    });
    for end in ends {
        assert!(bits(end) == serial(3));
    }
}

#[test]
fn every_consistency_and_number_of_peers_gets_the_same_bits() {
    for consistency in [Consistency::Bsp, Consistency::Ssp(3), Consistency::Async] {
        for peers in [1, 2, 3] {
            let ends = run(peers, |cluster| {
                let table = weights(cluster, consistency)?;
                // Parts differ with the number of peers, so each example uses one row to keep rows
                // exclusive.
                let w = table.in_loop();
                for _ in 0..4 {
                    parallel_for!(
                        cluster,
                        repeated,
                        for i in 0..SAMPLES {
                            let change = update(&w[i]);
                            w.add(i, &change);
                        }
                    )?;
                }
                table.collect()
            });
            let mut row = vec![0.0; 2];
            for _ in 0..4 {
                let change = update(&row);
                row.iter_mut().zip(change).for_each(|(value, change)| *value += change);
            }
            let expected: BTreeMap<u64, Vec<f32>> = (0..SAMPLES as u64).map(|key| (key, row.clone())).collect();
            for end in ends {
                assert!(bits(end) == bits(expected.clone()), "{consistency:?}, {peers} peers");
            }
        }
    }
}

/// A rotation whose body also updates a table, by a loop index, by an index from the data, and by
/// an index that the slice cannot predict.
fn rotate<C: StorageType<Compute = i32>>(
    cluster: &Cluster,
    w: &TableInLoop<'_, Table<C>>,
) -> hemiola::cluster::Result<String> {
    let ratings = cluster.from_fn([60, 60], |[u, i]| (u * 7 + i) % 50)?;
    let (mut left, mut right) = (cluster.zeros::<i32, 1>([60])?, cluster.zeros::<i32, 1>([60])?);
    let first_steps = cluster.from_fn([60], |[u]| u)?;
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in &ratings {
            left[u] += 1;
            right[i] += 1;
            let (rated, unpredicted) = (*rating, first_steps[u]);
            let seen = w[u][0] + w[[rated, 1]] + w[unpredicted][0];
            assert!(seen >= 0);
            w.add(u, &[1, 0]);
            w.add(rated, &[0, 1]);
        }
    )?;
    assert_eq!(left.collect()?.into_iter().map(|(_, count)| count).collect::<Vec<_>>(), [60; 60]);
    Ok(run.plan().to_string())
}

#[test]
fn a_rotation_announces_the_next_block_and_advances_clocks_as_configured() {
    for (each_block, peers) in [(false, 1), (false, 2), (true, 2), (true, 3)] {
        let ends = run(peers, |cluster| {
            let table = cluster.table::<i32>("counts").width(2).staleness(2).build()?;
            let w = if each_block { table.in_loop().clock_each_block() } else { table.in_loop() };
            let plan = rotate(cluster, &w)?;
            assert!(plan.contains("rotation along"), "{plan}");
            let clocks = if each_block { "block" } else { "pass" };
            let line = format!("table `w`: rows announced one block ahead; the clock advances after each {clocks}");
            assert!(plan.contains(&line), "{plan}");
            let at = table.each_worker(|worker| Ok(worker.current_clock().units()))?;
            assert!(at.iter().all(|at| if each_block { *at > 1 } else { *at == 1 }), "{at:?}");
            table.collect()
        });
        for end in ends {
            assert_eq!(end.values().map(|row| row[0]).collect::<Vec<_>>(), [60; 60]);
            assert_eq!(end.values().map(|row| row[1]).sum::<i32>(), 3600);
        }
    }
}

#[test]
fn workers_without_blocks_advance_their_clocks_too() {
    let ends = run(3, |cluster| {
        let (table, mut chain) = (cluster.table::<i32>("counts").build()?, cluster.zeros::<i64, 1>([50])?);
        let w = table.in_loop();
        for _ in 0..3 {
            let run = parallel_for!(
                cluster,
                for i in 1..50 {
                    chain[i] = chain[i - 1] + i64::from(w[7][0]);
                    w.add(7, &[1]);
                }
            )?;
            assert!(run.plan().to_string().contains("plan: serial"));
        }
        let at = table.each_worker(|worker| Ok(worker.current_clock().units()))?;
        assert_eq!(at, [3, 3]);
        table.collect()
    });
    for end in ends {
        assert_eq!(end[&7], [147]);
    }
}

#[test]
fn a_table_stays_usable_after_a_body_fails() {
    run(2, |cluster| {
        let table = cluster.table::<i32>("counts").rows(SAMPLES as u64).build()?;
        let w = table.in_loop();
        for broken in [SAMPLES, 350] {
            let failed = parallel_for!(
                cluster,
                for i in 0..SAMPLES {
                    assert!(i != broken, "a bad entry");
                    let key = if i == 120 { broken } else { i };
                    w.add(i, &[w[key][0] + 1]);
                }
            );
            let message = failed.unwrap_err().to_string();
            if broken == 350 {
                assert!(message.ends_with("failed at entry [350] on peer 1: a bad entry"), "{message}");
            } else {
                let expected = "failed at entry [120] on peer 0: cannot read row 400 of table `w`: ";
                assert!(message.contains(expected), "{message}");
            }
        }
        // No worker waits for a failed one.
        parallel_for!(
            cluster,
            for i in 0..SAMPLES {
                assert!(w[i][0] >= 0);
            }
        )?;
        table.collect().map(drop)
    });
}

#[test]
fn one_table_under_two_names_is_refused() {
    run(2, |cluster| {
        let table = cluster.table::<i32>("counts").build()?;
        let (first, second) = (table.in_loop(), table.in_loop());
        let refused = parallel_for!(
            cluster,
            for i in 0..1000 {
                first.add(i, &second[i]);
            }
        );
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("cannot use the table `second`"), "{message}");
        Ok(())
    });
}
