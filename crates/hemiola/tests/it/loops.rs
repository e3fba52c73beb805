use hemiola::loops::plan::ArrayPlacement;
use hemiola::prelude::*;

use crate::with_watchdog;

const RANK: usize = 4;

/// Factorizes a matrix of rank one. Returns the first loss, the last loss and the factors.
fn factorize(peers: usize, workers: usize) -> (f64, f64, Vec<f32>) {
    let (users, items) = (24, 18);
    let results = hemiola::standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let ratings = cluster.from_fn([users, items], |[u, i]| (1 + u % 3) as f32 * (1 + i % 2) as f32)?;
            let mut w = cluster.uniform([users, RANK], 0.1..0.5, Seed(1))?;
            let mut h = cluster.uniform([items, RANK], 0.1..0.5, Seed(2))?;
            let (loss, step) = (cluster.accumulator::<f64>(), 0.05);
            let mut losses = Vec::new();
            for _ in 0..20 {
                parallel_for!(
                    cluster,
                    for ([u, i], rating) in &ratings {
                        let (wu, hi) = (&mut w[u], &mut h[i]);
                        let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
                        for k in 0..RANK {
                            let (a, b) = (wu[k], hi[k]);
                            wu[k] += step * error * b;
                            hi[k] += step * error * a;
                        }
                        loss += f64::from(error * error);
                    }
                )?;
                losses.push(loss.take()?);
            }
            let factors = w.collect()?.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
            Ok((losses[0], losses[19], factors))
        })
        .expect("the loop runs");
    results.into_iter().next().expect("one result per peer")
}

#[test]
fn a_loop_over_two_arrays_converges_and_is_deterministic() {
    with_watchdog(|| {
        for (peers, workers) in [(1, 1), (1, 3), (2, 2)] {
            let (before, after, factors) = factorize(peers, workers);
            assert!(after < before / 50.0, "{before} {after}");
            assert_eq!(
                factorize(peers, workers).2,
                factors,
                "not the same bits on {peers} peers with {workers} workers"
            );
        }
    });
}

/// Counts features through a buffer, weighted by a second array, with subscripts from the data and
/// from a captured `Vec`.
fn count(peers: usize) -> Vec<f64> {
    let results = hemiola::standalone(peers)
        .workers(2)
        .run(|cluster| {
            let samples = cluster.from_fn([40], |[row]| vec![row as u32 % 7, row as u32 % 5])?;
            let weights = cluster.from_fn([7], |[j]| j as f64)?;
            let counts = cluster.zeros::<f64, 1>([7])?;
            let order = vec![3_usize, 1, 4, 0, 5, 6, 2];
            let buffer = counts.buffered(|count, change: f64| *count += change);
            parallel_for!(
                cluster,
                for (row, features) in &samples {
                    if row == 13 {
                        continue;
                    }
                    for &feature in features {
                        let index = order[feature as usize];
                        buffer[index] += weights[index];
                    }
                }
            )?;
            Ok(counts.collect()?.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
        })
        .expect("the loop runs");
    results.into_iter().next().expect("one result per peer")
}

#[test]
fn subscripts_from_data_reach_arrays_and_buffers() {
    let order = [3, 1, 4, 0, 5, 6, 2];
    let mut expected = vec![0.0; 7];
    for row in (0..40).filter(|row| *row != 13) {
        for feature in [row % 7, row % 5] {
            expected[order[feature]] += order[feature] as f64;
        }
    }
    with_watchdog(|| {
        for peers in [1, 2] {
            assert_eq!(count(peers), expected);
        }
    });
}

#[test]
fn ranges_keep_their_order_where_it_matters() {
    let (left, right) = (b"kitten", b"sitting");
    let distance = |peers: usize| {
        let results = hemiola::standalone(peers).workers(2).run(|cluster| {
            let (n, m) = (left.len(), right.len());
            let mut d = cluster.from_fn([n + 1, m + 1], |[i, j]| if i == 0 || j == 0 { i + j } else { 0 })?;
            parallel_for!(
                cluster,
                ordered,
                for [i, j] in [1..n + 1, 1..=m] {
                    let change = usize::from(left[i - 1] != right[j - 1]);
                    d[[i, j]] = (d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1).min(d[[i - 1, j - 1]] + change);
                }
            )?;
            Ok(d.collect()?.last().map(|(_, distance)| *distance))
        });
        results.expect("the loop runs")[0]
    };
    with_watchdog(|| {
        for peers in [1, 2] {
            assert_eq!(distance(peers), Some(3));
        }
    });
}

#[test]
fn an_accumulator_may_combine_by_more_than_a_sum() {
    with_watchdog(|| {
        let results = hemiola::standalone(2).workers(2).run(|cluster| {
            let values = cluster.from_fn([50], |[k]| (k * 37) % 50)?;
            let largest = Accumulator::new(cluster, 0_usize, |a: usize, b: usize| a.max(b));
            parallel_for!(
                cluster,
                for (_, &value) in &values {
                    largest.add(value)
                }
            )?;
            Ok(largest.take()?)
        });
        assert_eq!(results.expect("the loop runs"), [49, 49]);
    });
}

#[test]
fn the_flush_interval_holds_for_exclusive_rows() {
    // Every entry reads the number of applied updates of its row. With an interval of 2 an entry
    // misses at most one.
    let seen = with_watchdog(|| {
        hemiola::standalone(2).workers(2).run(|cluster| {
            let entries = cluster.from_fn([40, 60], |_| 1_u32)?.entries().filter(|_, _| true).materialize()?;
            let counts = cluster.zeros::<u32, 1>([40])?;
            let mut seen = cluster.zeros::<u32, 2>([40, 60])?;
            let buffer = counts.buffered(|count, change: u32| *count += change).flush_every(2);
            let run = parallel_for!(
                cluster,
                for ([row, column], one) in &entries {
                    seen[[row, column]] = counts[row];
                    buffer[row] += one;
                }
            )?;
            assert!(
                run.plan().arrays.iter().all(|array| array.placement != ArrayPlacement::Replicated),
                "{}",
                run.plan()
            );
            Ok(seen.collect()?)
        })
    })
    .expect("it runs");
    for ([row, column], seen) in &seen[0] {
        assert_eq!(*seen as usize, column / 2 * 2, "entry [{row}, {column}]");
    }
}

#[test]
fn arrays_of_a_failed_loop_can_be_used_again() {
    let words = with_watchdog(|| {
        hemiola::standalone(3).workers(2).run(|cluster| {
            let all = cluster.uniform([1000, 500], 1.0..5.0, Seed(1))?;
            let ratings = all.entries().filter(|[u, i], _| (u + i) % 10 == 0).materialize()?;
            let (mut w, mut h) = (cluster.zeros::<f32, 2>([1000, 8])?, cluster.zeros::<f32, 2>([500, 8])?);
            let pass = |w: &mut DistArray<f32, 2>, h: &mut DistArray<f32, 2>, bad: usize| {
                parallel_for!(
                    cluster,
                    for ([u, i], rating) in &ratings {
                        let (wu, hi) = (&mut w[u], &mut h[i]);
                        assert!(u != bad || i < 250, "a bad rating");
                        (wu[0], hi[0]) = (wu[0] + rating, hi[0] + rating);
                    }
                )
            };
            let failed = pass(&mut w, &mut h, 900).map(|_| ()).expect_err("it panics").to_string();
            // Item rows were in flight when the other peers learned of the failure. All have
            // returned.
            assert_eq!((w.collect()?.len(), h.collect()?.len()), (8000, 4000));
            pass(&mut w, &mut h, 5000)?;
            Ok(failed)
        })
    });
    for failed in words.expect("the job continues") {
        assert!(failed.ends_with("on peer 2: a bad rating"), "{failed}");
    }
}

#[test]
fn rows_subscripted_by_loop_indices_are_prefetched_from_served_arrays() {
    hemiola::standalone(2)
        .run(|cluster| {
            let all = cluster.from_fn([40, 5000], |[i, j]| (i + j) as f32)?;
            let entries = all.entries().filter(|[i, j], _| (i * 7 + j) % 50 == 0).materialize()?;
            // Too large to be replicated, and read by both indices, so no cut of the loop aligns
            // with it.
            let table = cluster.from_fn([5001, 8], |[row, _]| row as f32)?;
            let mut sums = cluster.zeros::<f64, 1>([40])?;
            let run = parallel_for!(
                cluster,
                for ([i, j], value) in &entries {
                    sums[i] += f64::from(table[j + 1][0] + table[i][1] - value);
                }
            )?;
            let placement = |name: &str| run.plan().arrays.iter().find(|array| array.name == name).unwrap().placement;
            assert_eq!(placement("table"), hemiola::loops::plan::ArrayPlacement::Served, "{}", run.plan());
            assert_eq!(run.prefetch_misses(), [("table".to_owned(), 0)]);
            let mut expected = vec![0.0; 40];
            for ([i, j], value) in entries.collect()? {
                expected[i] += (i + j + 1) as f64 - f64::from(value);
            }
            assert!(sums.collect()?.iter().zip(expected).all(|((_, sum), expected)| (sum - expected).abs() < 1e-6));
            Ok(())
        })
        .unwrap();
}
