//! NaN and infinity that a loop writes to arrays: errors that name the cell.

use crate::with_watchdog;
use hemiola::cluster::Result;
use hemiola::loops::Error;
use hemiola::prelude::*;

/// Runs `body` on 1 and 2 peers of two workers each. Returns the errors, which are those of
/// non-finite values, without the place of the loop.
fn errors(body: impl Fn(&Cluster) -> Result<()> + Send + Sync) -> Vec<String> {
    let of_peers = |peers: usize| {
        let outcomes = with_watchdog(|| {
            let program = |cluster: &Cluster| Ok(body(cluster));
            hemiola::cluster::standalone(peers).workers(2).run(program).unwrap()
        });
        let errors: Vec<_> = outcomes.into_iter().map(Result::unwrap_err).collect();
        assert!(errors.iter().all(Error::is_non_finite), "{errors:?}");
        let first = errors[0].to_string();
        assert!(errors.iter().all(|error| error.to_string() == first), "all peers get the same error: {errors:?}");
        let (place, what) = first.split_once(" wrote ").unwrap();
        assert!(place.starts_with("the loop at "), "{first}");
        what.to_owned()
    };
    [1, 2].map(of_peers).to_vec()
}

#[test]
fn a_loop_that_writes_nan_to_an_array_fails_and_names_the_cell() {
    let errors = errors(|cluster| {
        let mut values = cluster.from_fn([40, 3], |[row, _]| row as f32)?;
        parallel_for!(
            cluster,
            for i in 0..40 {
                let row = &mut values[i];
                row[1] = (row[1] - 37.0).sqrt();
                row[2] = if i == 38 { f32::INFINITY } else { 0.0 };
            }
        )
        .map(drop)
    });
    let hint = "; lower the learning rate or look at the data, \
                or call `allow_non_finite()` on the array if such values have a meaning";
    // The cells of a peer are searched in order.
    assert_eq!(
        errors,
        ["NaN to `values[0, 1]` on peer 0", "NaN to `values[0, 1]` on peer 0"].map(|text| format!("{text}{hint}"))
    );
}

#[test]
fn a_value_that_the_second_peer_writes_is_an_error_on_all_peers() {
    let errors = errors(|cluster| {
        let mut values = cluster.zeros::<f64, 1>([40])?;
        parallel_for!(
            cluster,
            for i in 0..40 {
                values[i] = if i == 33 { f64::NEG_INFINITY } else { 1.0 };
            }
        )
        .map(drop)
    });
    assert!(errors[0].starts_with("-inf to `values[33]` on peer 0; "), "{errors:?}");
    assert!(errors[1].starts_with("-inf to `values[33]` on peer 1; "), "{errors:?}");
}

#[test]
fn a_factorization_that_diverges_fails_in_the_pass_that_makes_a_cell_infinite() {
    let errors = errors(|cluster| {
        let ratings = cluster.from_fn([30, 30], |[u, i]| (u * 7 + i) as f32 % 5.0)?;
        let mut w = cluster.uniform([30, 4], 0.0..1.0, Seed(1))?;
        let mut h = cluster.uniform([30, 4], 0.0..1.0, Seed(2))?;
        for _ in 0..50 {
            let run = parallel_for!(
                cluster,
                for ([u, i], rating) in &ratings {
                    let (wu, hi) = (&mut w[u], &mut h[i]);
                    let error = rating - wu.iter().zip(hi.iter()).map(|(a, b)| a * b).sum::<f32>();
                    for k in 0..4 {
                        let (a, b) = (wu[k], hi[k]);
                        wu[k] += 3.0 * error * b;
                        hi[k] += 3.0 * error * a;
                    }
                }
            )?;
            assert!(run.plan().to_string().contains("rotation along"));
        }
        Ok(())
    });
    assert!(errors.iter().all(|error| error.contains(" to `w[") || error.contains(" to `h[")), "{errors:?}");
}

#[test]
fn a_buffer_that_makes_a_cell_nan_fails_and_is_named() {
    // One index comes from the data, so that workers have no rows of their own; the other one is the
    // index of the loop.
    for by_data in [true, false] {
        let errors = errors(|cluster| {
            let keys = cluster.from_fn([60], |[at]| if by_data { at % 20 } else { at })?;
            let sums = cluster.zeros::<f32, 1>([60])?;
            let more = sums.buffered(|sum: &mut f32, more: f32| *sum += more);
            if by_data {
                parallel_for!(
                    cluster,
                    for (_, &key) in &keys {
                        more[key] += if key == 7 { f32::NAN } else { 1.0 };
                    }
                )
            } else {
                parallel_for!(
                    cluster,
                    for (at, _) in &keys {
                        more[at] += if at == 7 { f32::NAN } else { 1.0 };
                    }
                )
            }
            .map(drop)
        });
        assert!(errors.iter().all(|error| error.starts_with("NaN to `more[7]` on peer 0; ")), "{errors:?}");
    }
}

#[test]
fn the_state_behind_a_buffer_is_checked_too() {
    let errors = errors(|cluster| {
        let (weights, state) = (cluster.zeros::<f32, 2>([9, 4])?, cluster.zeros::<f64, 2>([9, 4])?);
        let gradients = weights.buffered_with(&state, |weight, state: &mut f64, gradient: f32| {
            *weight -= gradient;
            *state += 1.0 / f64::from(gradient - 1.0);
        });
        parallel_for!(
            cluster,
            for i in 0..100 {
                gradients[i * 7 % 9][i % 4] += if i * 7 % 9 == 3 && i % 4 == 2 { 0.0 } else { 0.001 };
                if i == 30 {
                    gradients[3][2] = 1.0;
                }
            }
        )
        .map(drop)
    });
    assert!(errors.iter().all(|error| error.starts_with("inf to `gradients[3, 2]` on peer 0; ")), "{errors:?}");
}

#[test]
fn entries_that_become_infinite_are_an_error() {
    for sparse in [false, true] {
        let errors = errors(|cluster| {
            let all = cluster.from_fn([50], |[at]| at as f32)?;
            let mut entries = if sparse { all.entries().filter(|_, _| true).materialize()? } else { all };
            parallel_for!(
                cluster,
                for (_, value) in &mut entries {
                    *value = 1.0 / (*value - 5.0);
                }
            )
            .map(drop)
        });
        assert!(errors.iter().all(|error| error.starts_with("inf to `&mut entries[5]` on peer 0; ")), "{errors:?}");
    }
}

#[test]
fn arrays_that_allow_infinity_hold_it_also_after_a_clone() {
    for peers in [1, 2] {
        let ends = with_watchdog(|| {
            hemiola::cluster::standalone(peers).workers(2).run(|cluster| {
                // Distances in a graph of 20 nodes, where only the first ten are connected.
                let start = cluster.from_fn([20], |[node]| if node == 0 { 0.0 } else { f32::INFINITY })?;
                let mut distances = start.allow_non_finite().clone();
                let edges = cluster.from_fn([9], |[from]| (from, from + 1))?;
                for _ in 0..9 {
                    let before = distances.clone();
                    let best = distances.buffered(|distance: &mut f32, other: f32| *distance = distance.min(other));
                    parallel_for!(
                        cluster,
                        for (_, &(from, to)) in &edges {
                            if before[from].is_finite() {
                                best[to] = before[from] + 1.0;
                            }
                        }
                    )?;
                    parallel_for!(
                        cluster,
                        for node in 0..20 {
                            distances[node] += 0.0;
                        }
                    )?;
                }
                Ok(distances.collect()?.into_iter().map(|(_, distance)| distance).collect::<Vec<_>>())
            })
        });
        for end in ends.unwrap() {
            let expected: Vec<f32> = (0..20).map(|node| if node < 10 { node as f32 } else { f32::INFINITY }).collect();
            assert_eq!(end, expected);
        }
    }
}

#[test]
fn an_array_is_usable_after_the_error() {
    let ends = with_watchdog(|| {
        hemiola::cluster::standalone(2).workers(2).run(|cluster| {
            let mut values = cluster.zeros::<f32, 1>([20])?;
            for wrong in [7, 100] {
                let outcome = parallel_for!(
                    cluster,
                    for i in 0..20 {
                        values[i] = if i == wrong { f32::NAN } else { 1.0 };
                    }
                );
                assert_eq!(outcome.is_err(), wrong == 7);
            }
            Ok(values.collect()?.into_iter().map(|(_, value)| value).sum::<f32>())
        })
    });
    assert_eq!(ends.unwrap(), [20.0; 2]);
}
