//! Iteration spaces of odd sizes, and sequences of loops.

use super::run;
use hemiola::prelude::*;

/// Tested clusters: numbers of peers and workers.
const CLUSTERS: [(usize, usize); 5] = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2)];

#[test]
fn empty_small_and_lopsided_spaces_run_every_entry_once() {
    for (peers, workers) in CLUSTERS {
        run(peers, workers, |cluster| {
            for [rows, columns] in [[0, 0], [0, 5], [5, 0], [1, 1], [1, 50], [50, 1], [3, 2]] {
                let all = cluster.from_fn([rows, columns], |[u, i]| u * 100 + i)?;
                let mut sparse = all.entries().materialize()?;
                let one_row = all.entries().filter(|[u, _], _| u == 2).materialize()?;
                let (mut w, h) = (cluster.zeros::<usize, 2>([rows, 3])?, cluster.zeros::<usize, 2>([columns, 0])?);
                let count = cluster.accumulator::<usize>();
                for space in [&all, &sparse, &one_row] {
                    parallel_for!(
                        cluster,
                        for ([u, i], value) in space {
                            assert_eq!(*value, u * 100 + i);
                            assert_eq!(h[i].len(), 0);
                            w[u][1] += 1;
                            count += 1;
                        }
                    )?;
                    assert_eq!(count.take()?, space.len());
                }
                parallel_for!(
                    cluster,
                    for (_, value) in &mut sparse {
                        *value += 1;
                    }
                )?;
                let sum = sparse.collect()?.into_iter().map(|([u, i], value)| value - u * 100 - i).sum::<usize>();
                assert_eq!(sum, rows * columns);
                let sum = w.collect()?.into_iter().map(|(_, value)| value).sum::<usize>();
                assert_eq!(sum, 2 * rows * columns + one_row.len());
            }
            Ok(())
        });
    }
}

#[test]
fn ranges_may_start_anywhere_and_be_empty() {
    for (peers, workers) in CLUSTERS {
        run(peers, workers, |cluster| {
            let (mut line, mut plane) = (cluster.zeros::<u64, 1>([40])?, cluster.zeros::<u64, 2>([40, 40])?);
            let (start, end) = (7, 23);
            parallel_for!(
                cluster,
                for i in start..end {
                    line[i] += i as u64;
                }
            )?;
            parallel_for!(
                cluster,
                for i in end..=end {
                    line[i + 1] += 100;
                }
            )?;
            #[expect(clippy::reversed_empty_ranges, reason = "empty ranges are tested")]
            {
                parallel_for!(
                    cluster,
                    for i in 9..5 {
                        line[i] += 1;
                    }
                )?;
                parallel_for!(
                    cluster,
                    for [i, j] in [0..9, 7..=5] {
                        plane[[i, j]] += 1;
                    }
                )?;
            }
            parallel_for!(
                cluster,
                for [i, j] in [start..end, 30..=39] {
                    plane[[i, j]] += line[i] + line[j];
                }
            )?;
            parallel_for!(
                cluster,
                ordered,
                for [i, j] in [1..40, 1..39] {
                    plane[[i, j]] += plane[[i - 1, j + 1]];
                }
            )?;
            let mut expected = vec![vec![0; 40]; 40];
            let value = |i: usize| {
                if i == 24 {
                    100
                } else if (7..23).contains(&i) {
                    i as u64
                } else {
                    0
                }
            };
            for (i, row) in expected.iter_mut().enumerate().take(end).skip(start) {
                for (j, cell) in row.iter_mut().enumerate().skip(30) {
                    *cell += value(i) + value(j);
                }
            }
            for i in 1..40 {
                for j in 1..39 {
                    expected[i][j] += expected[i - 1][j + 1];
                }
            }
            assert!(line.collect()?.into_iter().all(|([i], cell)| cell == value(i)));
            assert!(plane.collect()?.into_iter().all(|([i, j], cell)| cell == expected[i][j]));
            Ok(())
        });
    }
}

#[test]
fn loops_with_different_plans_follow_each_other_over_the_same_arrays() {
    let results: Vec<_> = CLUSTERS
        .iter()
        .map(|(peers, workers)| {
            run(*peers, *workers, |cluster| {
                let all = cluster.from_fn([300, 80], |[u, i]| u * 1000 + i)?;
                let entries = all.entries().filter(|[u, i], _| (u * 7 + i) % 4 > 0).materialize()?;
                let (mut w, mut h) = (cluster.from_fn([300, 2], |[u, _]| u)?, cluster.from_fn([80, 2], |[i, _]| i)?);
                let mut kinds = Vec::new();
                for _ in 0..3 {
                    let by_user = parallel_for!(
                        cluster,
                        for ([u, i], _) in &entries {
                            w[u][0] += h[i][1];
                        }
                    )?;
                    let by_item = parallel_for!(
                        cluster,
                        for ([u, i], _) in &entries {
                            h[i][0] += w[u][0] % 1000;
                        }
                    )?;
                    let both = parallel_for!(
                        cluster,
                        for ([u, i], _) in &entries {
                            w[u][1] += 1;
                            h[i][1] += 1;
                        }
                    )?;
                    let dense = parallel_for!(
                        cluster,
                        for ([u, i], v) in &all {
                            w[u][0] += v % 3;
                            h[i][0] += v % 5;
                        }
                    )?;
                    let serial = parallel_for!(
                        cluster,
                        for k in 0..50 {
                            h[k * k % 80][0] += w[k][0];
                        }
                    )?;
                    kinds.extend([by_user, by_item, both, dense, serial].map(|run| run.plan().parallelization.clone()));
                }
                assert!(kinds.chunks(5).all(|pass| pass == &kinds[..5]));
                Ok((w.collect()?, h.collect()?))
            })
        })
        .collect();
    // These sums do not depend on the order of entries.
    assert!(results.iter().flatten().all(|result| *result == results[0][0]));
}
