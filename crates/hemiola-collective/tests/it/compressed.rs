//! Compressed all-reduces against a serial reference, over many updates, across a checkpoint, and
//! by the bytes they send.

use crate::support::{number, sent, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{
    Algorithm, CollectiveExt as _, Communicator, Compression, Compressor, ReduceOp, SufficientFactors,
};
use hemiola_collective_proto::compress::{OneBitCompressor, TopKCompressor};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use std::sync::Mutex;

const COMPRESSIONS: [Compression; 7] = [
    Compression::Plain,
    Compression::Bf16,
    Compression::F16,
    Compression::OneBit { block: 37 },
    Compression::TopK { keep: 5 },
    Compression::TopK { keep: 1_000_000 },
    LOW_RANK,
];
const LOW_RANK: Compression = Compression::LowRank { rank: 2 };
const SHAPES: [(usize, usize); 6] = [(0, 0), (0, 7), (1, 1), (5, 3), (30, 41), (130, 97)];

/// Update of a matrix by a peer in a step: never twice the same, and with inexact sums.
fn update(peer: usize, step: usize, length: usize) -> Vec<f32> {
    let mut random = SplitMix64::new((peer * 1000 + step) as u64);
    (0..length).map(|_| (random.symmetric() * 3.0) as f32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Decompressed updates of a few steps, and the compressor at the end. Every second step is
/// non-blocking.
fn steps(
    communicator: &Communicator,
    mut compressor: Compressor,
    me: usize,
    steps: std::ops::Range<usize>,
) -> Result<(Vec<Vec<f32>>, Compressor)> {
    let mut decompressed = Vec::new();
    for step in steps {
        let mut own = update(me, step, compressor.length());
        if step % 2 == 0 {
            communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
        } else {
            let (back, sum) = communicator.begin_all_reduce_compressed(own, ReduceOp::Sum, compressor)?.wait();
            (compressor, own) = (back, sum?);
        }
        decompressed.push(own);
    }
    Ok((decompressed, compressor))
}

/// Serial reference: the result of all peers after each step, added by rank.
fn serial(compression: Compression, length: usize, peers: usize, steps: usize) -> Vec<Vec<f32>> {
    let (block, keep) = match compression {
        Compression::OneBit { block } => (block, 1),
        Compression::TopK { keep } => (1, keep),
        _ => (1, 1),
    };
    let mut one_bit = vec![OneBitCompressor::new(length, block); peers];
    let mut top_k = vec![TopKCompressor::new(length, keep); peers];
    let each = |step: usize| {
        let updates: Vec<Vec<f32>> = (0..peers).map(|peer| update(peer, step, length)).collect();
        let total = |round: fn(f32) -> f32| {
            let sum = |index: usize| updates.iter().map(|update| round(update[index])).reduce(|a, b| a + b).unwrap();
            (0..length).map(|index| round(sum(index))).collect()
        };
        let mut sum = vec![0.0; length];
        match compression {
            Compression::Plain => sum = total(|value| value),
            Compression::Bf16 => sum = total(|value| bf16::from_f32(value).to_f32()),
            Compression::F16 => sum = total(|value| f16::from_f32(value).to_f32()),
            Compression::OneBit { block } => {
                for (compressor, update) in one_bit.iter_mut().zip(&updates) {
                    OneBitCompressor::decompress_add(&compressor.compress(update).unwrap(), block, &mut sum).unwrap();
                }
            }
            Compression::TopK { .. } => {
                for (compressor, update) in top_k.iter_mut().zip(&updates) {
                    TopKCompressor::decompress_add(&compressor.compress(update).unwrap(), &mut sum).unwrap();
                }
            }
            _ => unreachable!("low rank has a twin of its own"),
        }
        sum
    };
    (0..steps).map(each).collect()
}

#[test]
fn compressed_sums_equal_the_serial_reference() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for compression in COMPRESSIONS.into_iter().filter(|&compression| compression != LOW_RANK) {
                let all = standalone(peers)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                        SHAPES
                            .iter()
                            .map(|&(rows, columns)| {
                                let compressor = communicator.matrix_compressor(compression, rows, columns)?;
                                Ok(steps(&communicator, compressor, cluster.rank().index(), 0..4)?.0)
                            })
                            .collect::<Result<Vec<_>>>()
                    })
                    .unwrap();
                for (index, &shape) in SHAPES.iter().enumerate() {
                    let expected = serial(compression, shape.0 * shape.1, peers, 4);
                    for (step, expected) in expected.iter().enumerate() {
                        let first = &all[0][index][step];
                        assert!(all.iter().all(|one| bits(&one[index][step]) == bits(first)), "all have the same bits");
                        // A plain all-reduce on a ring adds in another order, which matters from
                        // three peers on.
                        let tolerance = if compression == Compression::Plain && peers > 2 { 1e-5 } else { 0.0 };
                        let near =
                            first.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
                        assert!(near && first.len() == expected.len(), "{compression} of {shape:?} among {peers}");
                    }
                }
            }
        }
    });
}

/// Serial twin of low rank: all operations are linear in the updates, so one peer with the sums of
/// all updates sends and keeps what all peers do together.
fn together(rows: usize, columns: usize, peers: usize, steps: usize) -> (Vec<Vec<f32>>, Vec<f32>) {
    let run = standalone(1).run(|cluster| {
        let communicator = cluster.communicator()?;
        let mut compressor = communicator.matrix_compressor(LOW_RANK, rows, columns)?;
        let mut decompressed = Vec::new();
        for step in 0..steps {
            let mut sum = vec![0.0; rows * columns];
            for peer in 0..peers {
                let theirs = update(peer, step, rows * columns);
                sum.iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += theirs);
            }
            communicator.all_reduce_compressed(&mut sum, ReduceOp::Sum, &mut compressor)?;
            decompressed.push(sum);
        }
        Ok((decompressed, compressor.residual().to_vec()))
    });
    run.unwrap().remove(0)
}

#[test]
fn low_rank_sums_equal_those_of_one_peer_with_all_updates() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for (rows, columns) in SHAPES {
                let all = standalone(peers)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?;
                        let compressor = communicator.matrix_compressor(LOW_RANK, rows, columns)?;
                        let (decompressed, compressor) =
                            steps(&communicator, compressor, cluster.rank().index(), 0..4)?;
                        Ok((decompressed, compressor.residual().to_vec()))
                    })
                    .unwrap();
                let (decompressed, residual) = together(rows, columns, peers, 4);
                // Up to the roundings of four steps: values are below 50, and f32 has 24 bits.
                let near = |a: f32, b: f32| (a - b).abs() < 2e-3;
                for (step, decompressed) in decompressed.iter().enumerate() {
                    assert!(all.iter().all(|one| bits(&one.0[step]) == bits(&all[0].0[step])), "the same on all");
                    let mut pairs = decompressed.iter().zip(&all[0].0[step]);
                    assert!(pairs.all(|(a, b)| near(*a, *b)), "{rows} × {columns} among {peers}, step {step}");
                }
                for (index, residual) in residual.into_iter().enumerate() {
                    assert!(
                        near(residual, all.iter().map(|one| one.1[index]).sum()),
                        "{rows} × {columns} among {peers}"
                    );
                }
            }
        }
    });
}

#[test]
fn min_and_max_work_in_half_precision() {
    with_watchdog(|| {
        for compression in [Compression::Bf16, Compression::F16] {
            standalone(3)
                .run(|cluster| {
                    let communicator = cluster.communicator()?;
                    let mut compressor = communicator.compressor(compression, 10)?;
                    let me = cluster.rank().index() as f32;
                    for (operator, expected) in [(ReduceOp::Min, -1.0_f32), (ReduceOp::Max, 1.0)] {
                        let mut own = vec![1.0 - me; 10];
                        communicator.all_reduce_compressed(&mut own, operator, &mut compressor)?;
                        assert!(own.iter().all(|value| value.to_bits() == expected.to_bits()));
                    }
                    let mut top = communicator.compressor(Compression::TopK { keep: 1 }, 10)?;
                    let error =
                        communicator.all_reduce_compressed(&mut [0.0; 10], ReduceOp::Max, &mut top).unwrap_err();
                    assert!(error.to_string().contains("correct for sums only"), "{error}");
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn half_precision_values_are_added_by_rank_in_f32() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                let mut compressor = communicator.compressor(Compression::Bf16, 5)?;
                // 2²⁶ + 1 is 2²⁶ in f32, and 256 + 1 is 256 in bf16: other orders and other sums
                // give other results.
                let mut own: [f32; 5] = [
                    [67_108_864.0, 1.0, 256.0, 256.0, 1.0],
                    [1.0, 67_108_864.0, 1.0, 0.5, 1.0],
                    [-67_108_864.0, -67_108_864.0, 1.0, 0.5, 1.0],
                ][cluster.rank().index()];
                communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                assert_eq!(bits(&own), bits(&[0.0, 0.0, 258.0, 256.0, 3.0]));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn factors_are_multiplied_on_every_peer_whatever_their_number() {
    with_watchdog(|| {
        let pairs = |peer: usize, rows: usize, columns: usize| {
            // Peer 1 has no factors.
            let count = [2, 0, 3, 1][peer];
            let u: Vec<f32> = (0..count * rows).map(|index| number(peer, index) as f32).collect();
            let v: Vec<f32> = (0..count * columns).map(|index| number(peer + 10, index) as f32).collect();
            (u, v)
        };
        for peers in 1..=4 {
            for (rows, columns) in [(0, 3), (1, 1), (4, 7), (60, 50)] {
                let all = standalone(peers)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?;
                        let (u, v) = match rows * columns {
                            0 => (Vec::new(), Vec::new()),
                            _ => pairs(cluster.rank().index(), rows, columns),
                        };
                        let factors = SufficientFactors { u: &u, v: &v, rows, columns };
                        let mut matrix = vec![f32::NAN; rows * columns];
                        let pending = communicator.begin_all_reduce_factors(factors)?;
                        communicator.all_reduce_factors(factors, &mut matrix)?;
                        assert_eq!(bits(&pending.wait()?), bits(&matrix));
                        let error = communicator.all_reduce_factors(factors, &mut [0.0; 5]).unwrap_err();
                        assert!(error.to_string().contains("a buffer of 5 elements"), "{error}");
                        Ok(matrix)
                    })
                    .unwrap();
                let mut expected = vec![0.0_f32; rows * columns];
                for peer in 0..peers {
                    let (u, v) = pairs(peer, rows.max(1), columns);
                    for (u, v) in u.chunks(rows.max(1)).zip(v.chunks(columns)) {
                        for (index, value) in expected.iter_mut().enumerate() {
                            *value += u[index / columns] * v[index % columns];
                        }
                    }
                }
                assert!(all.iter().all(|matrix| bits(matrix) == bits(&expected)), "{rows} × {columns} among {peers}");
            }
        }
    });
}

#[test]
fn the_residual_is_sent_with_later_updates() {
    const LENGTH: usize = 300;
    with_watchdog(|| {
        for compression in [Compression::OneBit { block: 64 }, Compression::TopK { keep: 40 }, LOW_RANK] {
            // Largest difference between the mean of the decompressed updates of so many steps and
            // the constant gradient.
            let worst = |steps: usize| {
                let all = standalone(3)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?;
                        let mut compressor = communicator.matrix_compressor(compression, 20, 15)?;
                        let gradient = update(cluster.rank().index(), 0, LENGTH);
                        let mut decompressed = vec![0.0_f64; LENGTH];
                        for _ in 0..steps {
                            let mut own = gradient.clone();
                            communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                            decompressed
                                .iter_mut()
                                .zip(&own)
                                .for_each(|(decompressed, own)| *decompressed += f64::from(*own));
                        }
                        Ok((decompressed, compressor.residual().to_vec()))
                    })
                    .unwrap();
                let gradients: Vec<Vec<f32>> = (0..3).map(|peer| update(peer, 0, LENGTH)).collect();
                let difference = |index: usize| {
                    let given = gradients.iter().map(|one| f64::from(one[index])).sum::<f64>() * steps as f64;
                    let (decompressed, residual) =
                        (all[0].0[index], all.iter().map(|one| f64::from(one.1[index])).sum::<f64>());
                    // Only roundings of f32 are lost, one or two per step.
                    assert!(
                        (decompressed + residual - given).abs() < 1e-4 * steps as f64,
                        "{compression}: {decompressed} + {residual} of {given}"
                    );
                    (decompressed - given).abs() / steps as f64
                };
                (0..LENGTH).map(difference).fold(0.0, f64::max)
            };
            let (first, later) = (worst(200), worst(800));
            assert!(first > 0.0 && later < 0.5 * first, "{compression}: {first}, then {later}");
        }
    });
}

#[test]
fn a_run_resumed_from_a_checkpoint_has_the_same_bits() {
    with_watchdog(|| {
        for compression in COMPRESSIONS {
            let compressor = || Compressor::for_matrix(compression, 12, 9).unwrap();
            let whole = standalone(3)
                .run(|cluster| {
                    let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                    Ok(steps(&communicator, compressor(), cluster.rank().index(), 0..6)?.0)
                })
                .unwrap();
            let saved: Vec<(Vec<Vec<f32>>, Vec<u8>)> = standalone(3)
                .run(|cluster| {
                    let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                    let (decompressed, compressor) = steps(&communicator, compressor(), cluster.rank().index(), 0..3)?;
                    Ok((decompressed, postcard::to_stdvec(&compressor).unwrap()))
                })
                .unwrap();
            let rest = standalone(3)
                .run(|cluster| {
                    let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                    let me = cluster.rank().index();
                    let compressor = postcard::from_bytes(&saved[me].1).unwrap();
                    Ok(steps(&communicator, compressor, me, 3..6)?.0)
                })
                .unwrap();
            for peer in 0..3 {
                let resumed = saved[peer].0.iter().chain(&rest[peer]);
                assert!(resumed.zip(&whole[peer]).all(|(a, b)| bits(a) == bits(b)), "{compression}");
            }
        }
    });
}

#[test]
fn predicted_bytes_are_the_sent_bytes() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling] {
                let total = Mutex::new(vec![0_u64; COMPRESSIONS.len() + 1]);
                standalone(peers)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?.with_algorithm(algorithm);
                        let me = cluster.rank().index();
                        for (index, compression) in COMPRESSIONS.into_iter().enumerate() {
                            let mut compressor = communicator.matrix_compressor(compression, 103, 71)?;
                            let before = sent(cluster);
                            let mut own = update(me, 0, 103 * 71);
                            communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                            total.lock().unwrap()[index] += sent(cluster) - before;
                        }
                        let (u, v) = (update(me, 1, 103 * 4), update(me, 2, 71 * 4));
                        let before = sent(cluster);
                        let factors = SufficientFactors { u: &u, v: &v, rows: 103, columns: 71 };
                        communicator.begin_all_reduce_factors(factors)?.wait()?;
                        total.lock().unwrap()[COMPRESSIONS.len()] += sent(cluster) - before;
                        Ok(())
                    })
                    .unwrap();
                let total = total.into_inner().unwrap();
                let compressions = COMPRESSIONS.into_iter().chain([Compression::SufficientFactors { pairs: 4 }]);
                for (compression, total) in compressions.zip(total) {
                    let said = compression.sent_bytes(103, 71, peers) * peers as f64;
                    if let Compression::TopK { keep } = compression {
                        // Index gaps may take fewer bytes than the upper bound.
                        let least = (peers * (peers - 1)) as f64 * (4.0 + 8.0 + 5.0 * keep.min(103 * 71) as f64);
                        assert!((least..=said).contains(&(total as f64)), "{compression}: {least} {total} {said}");
                    } else {
                        assert!((total as f64 - said).abs() < 1e-6, "{compression} among {peers}: {total}, not {said}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_single_peer_compresses_and_decompresses_all_the_same() {
    with_watchdog(|| {
        standalone(1)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                let mut compressor = communicator.compressor(Compression::TopK { keep: 1 }, 3)?;
                let mut own = [1.0, -5.0, 2.0];
                communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                assert_eq!(
                    (bits(&own), bits(compressor.residual())),
                    (bits(&[0.0, -5.0, 0.0]), bits(&[1.0, 0.0, 2.0]))
                );
                let mut compressor = communicator.compressor(Compression::Bf16, 1)?;
                let mut own = [1.001];
                communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                assert_eq!(bits(&own), bits(&[1.0]));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn many_are_in_flight_and_complete_in_any_order() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                let me = cluster.rank().index();
                let mut pending = Vec::new();
                for compression in COMPRESSIONS {
                    let compressor = communicator.matrix_compressor(compression, 50, 40)?;
                    let own = update(me, 0, 2000);
                    pending
                        .push((compression, communicator.begin_all_reduce_compressed(own, ReduceOp::Sum, compressor)?));
                }
                let plain = communicator.begin_all_reduce(vec![1.0_f32; 2000], ReduceOp::Sum)?;
                if me == 1 {
                    pending.reverse();
                }
                let mut sums = Vec::new();
                for (compression, pending) in pending {
                    let (compressor, sum) = pending.wait();
                    assert_eq!(compressor.compression(), compression);
                    sums.push((sum?, compressor));
                }
                if me == 1 {
                    sums.reverse();
                }
                assert_eq!(plain.wait()?, [3.0; 2000]);
                for (compression, (sum, compressor)) in COMPRESSIONS.into_iter().zip(sums) {
                    let mut here = communicator.matrix_compressor(compression, 50, 40)?;
                    let mut own = update(me, 0, 2000);
                    communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut here)?;
                    assert!(bits(&own) == bits(&sum) && here == compressor, "{compression}: as if it had blocked");
                }
                // A collective that is never waited for.
                let compressor = communicator.compressor(Compression::TopK { keep: 9 }, 50_000)?;
                drop(communicator.begin_all_reduce_compressed(update(me, 1, 50_000), ReduceOp::Sum, compressor)?);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn non_finite_values_are_delivered_without_error_feedback() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                for compression in [Compression::Plain, Compression::Bf16, Compression::F16] {
                    let mut compressor = communicator.compressor(compression, 10)?;
                    let mut own = [1.0_f32; 10];
                    if cluster.rank() == Rank::new(1) {
                        (own[4], own[5]) = (f32::NAN, f32::INFINITY);
                    }
                    let before = communicator.stats().nan;
                    communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor)?;
                    assert!(own[4].is_nan() && own[5].is_infinite() && bits(&own[6..]) == bits(&[3.0; 4]));
                    assert_eq!(communicator.stats().nan - before, 1, "{compression}");
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn non_finite_values_fail_on_all_and_change_no_compressor() {
    with_watchdog(|| {
        for compression in
            [Compression::OneBit { block: 4 }, Compression::TopK { keep: 2 }, Compression::LowRank { rank: 1 }]
        {
            for value in [f32::NAN, f32::INFINITY] {
                standalone(3)
                    .run(|cluster| {
                        let communicator = cluster.communicator()?;
                        let me = cluster.rank().index();
                        let (_, mut compressor) =
                            steps(&communicator, communicator.matrix_compressor(compression, 5, 4)?, me, 0..2)?;
                        let before = compressor.clone();
                        let mut own = update(me, 2, 20);
                        if me == 1 {
                            own[13] = value;
                        }
                        let given = own.clone();
                        let error =
                            communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, &mut compressor).unwrap_err();
                        let text = error.to_string();
                        match compression {
                            _ if me == 1 => assert!(text.contains("element 13 is"), "{text}"),
                            Compression::LowRank { .. } => assert!(text.contains("some peer"), "{text}"),
                            _ => assert!(text.contains("peer 1 has a value that is not finite"), "{text}"),
                        }
                        assert_eq!((bits(&own), &compressor), (bits(&given), &before));
                        let (compressor, sum) =
                            communicator.begin_all_reduce_compressed(own, ReduceOp::Sum, compressor)?.wait();
                        assert!(sum.is_err() && compressor == before);
                        // All continue with the next update, as if this one had not been.
                        let (decompressed, _) = steps(&communicator, compressor, me, 3..4)?;
                        let (expected, _) = steps(&communicator, before, me, 3..4)?;
                        assert_eq!(bits(&decompressed[0]), bits(&expected[0]));
                        Ok(())
                    })
                    .unwrap();
            }
        }
    });
}
