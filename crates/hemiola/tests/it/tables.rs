//! Tables in the bodies of loops.

use crate::with_watchdog;
use hemiola::prelude::*;
use hemiola::tables::{Cell, Consistency, InLoop, Table};
use std::collections::BTreeMap;

/// Runs `body` on so many peers of two workers.
fn run<T: Send>(peers: usize, body: impl Fn(&Cluster) -> hemiola::Result<T> + Send + Sync) -> Vec<T> {
    with_watchdog(|| hemiola::standalone(peers).workers(2).run(|cluster| body(cluster)).unwrap())
}

const SAMPLES: u64 = 400;

/// Samples whose features are their own and another one of the same hundred: of four parts, none uses a row of another.
fn samples(cluster: &Cluster) -> hemiola::Result<DistArray<Vec<u32>, 1>> {
    cluster.from_fn([SAMPLES], |[at]| vec![at as u32, (at / 100 * 100 + at * 37 % 100) as u32])
}

/// What a pass adds to a row.
fn step(row: &[f32]) -> [f32; 2] {
    [0.1 + row[0] * 0.3, row[1] - 0.7 * row[0] + 0.01]
}

/// One pass as a loop.
fn pass(cluster: &Cluster, samples: &DistArray<Vec<u32>, 1>, w: &InLoop<'_, Table<f32>>) -> hemiola::Result<String> {
    let run = parallel_for!(
        cluster,
        repeated,
        for (_, features) in samples {
            for &feature in features {
                let change = step(&w[feature as usize]);
                w.add(feature as usize, &change);
            }
        }
    )?;
    Ok(run.plan().to_string())
}

fn weights(cluster: &Cluster, consistency: Consistency) -> hemiola::Result<Table<f32>> {
    cluster.table::<f32>("weights").rows(SAMPLES).width(2).consistency(consistency).build()
}

fn bits(rows: BTreeMap<u64, Vec<f32>>) -> Vec<(u64, Vec<u32>)> {
    rows.into_iter().map(|(key, row)| (key, row.into_iter().map(f32::to_bits).collect())).collect()
}

/// The same passes as plain Rust, where the rows of a part are its own.
fn serial(passes: usize) -> Vec<(u64, Vec<u32>)> {
    let mut rows: BTreeMap<u64, Vec<f32>> = (0..SAMPLES).map(|key| (key, vec![0.0; 2])).collect();
    for _ in 0..passes {
        for at in 0..SAMPLES {
            for feature in [at, at / 100 * 100 + at * 37 % 100] {
                let row = rows.get_mut(&feature).unwrap();
                let change = step(row);
                row.iter_mut().zip(change).for_each(|(value, change)| *value += change);
            }
        }
    }
    bits(rows)
}

#[test]
fn a_loop_alone_moves_rows_to_their_only_user_ahead_of_use() {
    let ends = run(2, |cluster| {
        let (samples, table) = (samples(cluster)?, weights(cluster, Consistency::Ssp(1))?);
        let w = table.in_loop();
        for _ in 0..3 {
            let plan = pass(cluster, &samples, &w)?;
            let line = "rows of table `w` are announced one block ahead, those of the next pass too; its clocks end with each pass";
            assert!(plan.contains(line), "{plan}");
            // The next pass has not begun, and its rows are on their way to the two parts of this peer.
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
fn a_loop_that_announces_nothing_gets_no_leases_and_the_same_bits() {
    let ends = run(2, |cluster| {
        let (samples, table) = (samples(cluster)?, weights(cluster, Consistency::Ssp(1))?);
        let w = table.in_loop().unannounced();
        for _ in 0..3 {
            let plan = pass(cluster, &samples, &w)?;
            assert!(plan.contains("rows of table `w` are fetched when a block begins"), "{plan}");
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
                // Four parts, or six: rows of a part are its own only if all have one worker; so each sample uses one row.
                let w = table.in_loop();
                for _ in 0..4 {
                    parallel_for!(
                        cluster,
                        repeated,
                        for i in 0..SAMPLES as usize {
                            let change = step(&w[i]);
                            w.add(i, &change);
                        }
                    )?;
                }
                table.collect()
            });
            let mut row = vec![0.0; 2];
            for _ in 0..4 {
                let change = step(&row);
                row.iter_mut().zip(change).for_each(|(value, change)| *value += change);
            }
            let expected: BTreeMap<u64, Vec<f32>> = (0..SAMPLES).map(|key| (key, row.clone())).collect();
            for end in ends {
                assert!(bits(end) == bits(expected.clone()), "{consistency:?}, {peers} peers");
            }
        }
    }
}

/// A loop with rotation whose body also counts in a table, by an index that is known, one from the data, and one that nobody can foresee.
fn rotate<C: Cell<Wide = i32>>(cluster: &Cluster, w: &InLoop<'_, Table<C>>) -> hemiola::Result<String> {
    let ratings = cluster.from_fn([60, 60], |[u, i]| (u * 7 + i) % 50)?;
    let (left, right) = (cluster.zeros::<i32, 1>([60])?, cluster.zeros::<i32, 1>([60])?);
    let first_steps = cluster.from_fn([60], |[u]| u)?;
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in &ratings {
            left[u] += 1;
            right[i] += 1;
            let (rated, unforeseen) = (*rating as usize, first_steps[u] as usize);
            let seen = w[u][0] + w[[rated, 1]] + w[unforeseen][0];
            assert!(seen >= 0);
            w.add(u, &[1, 0]);
            w.add(rated, &[0, 1]);
        }
    )?;
    assert_eq!(left.collect()?.into_iter().map(|(_, count)| count).collect::<Vec<_>>(), [60; 60]);
    Ok(run.plan().to_string())
}

#[test]
fn blocks_that_go_round_announce_the_next_and_end_clocks_when_told() {
    for (each_block, peers) in [(false, 1), (false, 2), (true, 2), (true, 3)] {
        let ends = run(peers, |cluster| {
            let table = cluster.table::<i32>("counts").width(2).staleness(2).build()?;
            let w = if each_block { table.in_loop().clock_each_block() } else { table.in_loop() };
            let plan = rotate(cluster, &w)?;
            assert!(plan.contains("rotation along"), "{plan}");
            let clocks = if each_block { "block" } else { "pass" };
            let line = format!("rows of table `w` are announced one block ahead; its clocks end with each {clocks}");
            assert!(plan.contains(&line), "{plan}");
            let at = table.each_worker(|worker| Ok(worker.at().units()))?;
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
fn workers_without_blocks_end_their_clocks_too() {
    let ends = run(3, |cluster| {
        let (table, chain) = (cluster.table::<i32>("counts").build()?, cluster.zeros::<i64, 1>([50])?);
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
        let at = table.each_worker(|worker| Ok(worker.at().units()))?;
        assert_eq!(at, [3, 3]);
        table.collect()
    });
    for end in ends {
        assert_eq!(end[&7], [147]);
    }
}

#[test]
fn a_body_that_fails_leaves_the_table_as_good_as_before() {
    run(2, |cluster| {
        let table = cluster.table::<i32>("counts").rows(SAMPLES).build()?;
        let w = table.in_loop();
        for broken in [SAMPLES as usize, 350] {
            let failed = parallel_for!(
                cluster,
                for i in 0..SAMPLES as usize {
                    assert!(i != broken, "a bad entry");
                    let key = if i == 120 { broken } else { i };
                    w.add(i, &[w[key][0] + 1]);
                }
            );
            let message = failed.unwrap_err().to_string();
            if broken == 350 {
                assert!(message.ends_with("failed at entry [350] on peer 1: a bad entry"), "{message}");
            } else {
                let told = "failed at entry [120] on peer 0: cannot read row 400 of table `w`: ";
                assert!(message.contains(told), "{message}");
            }
        }
        // Nobody waits for those who failed.
        parallel_for!(
            cluster,
            for i in 0..SAMPLES as usize {
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
