//! Encoded all-reduces against what one thread would compute, over many updates, across a checkpoint, and by the bytes they send.

use crate::support::{number, sent, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{Algorithm, Collectives, Encoder, Encoding, Factors, MakeCollectives as _, Operator};
use hemiola_collective_proto::Random;
use hemiola_collective_proto::encode::{OneBit, TopK};
use hemiola_core::Rank;
use std::sync::Mutex;

const ENCODINGS: [Encoding; 7] = [
    Encoding::Plain,
    Encoding::Bf16,
    Encoding::F16,
    Encoding::OneBit { block: 37 },
    Encoding::TopK { keep: 5 },
    Encoding::TopK { keep: 1_000_000 },
    LOW_RANK,
];
const LOW_RANK: Encoding = Encoding::LowRank { rank: 2 };
const SHAPES: [(usize, usize); 6] = [(0, 0), (0, 7), (1, 1), (5, 3), (30, 41), (130, 97)];

/// A peer's update of a matrix in some step: not the same twice, and nothing that sums exactly.
fn update(peer: usize, step: usize, length: usize) -> Vec<f32> {
    let mut random = Random::new((peer * 1000 + step) as u64);
    (0..length).map(|_| (random.symmetric() * 3.0) as f32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// All updates of a few steps as they come out, and the encoder in the end. Every second step is begun and finished.
fn steps(
    collectives: &Collectives,
    mut encoder: Encoder,
    me: usize,
    steps: std::ops::Range<usize>,
) -> Result<(Vec<Vec<f32>>, Encoder)> {
    let mut told = Vec::new();
    for step in steps {
        let mut own = update(me, step, encoder.length());
        if step % 2 == 0 {
            collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
        } else {
            let (back, sum) = collectives.begin_all_reduce_encoded(own, Operator::Sum, encoder)?.finish();
            (encoder, own) = (back, sum?);
        }
        told.push(own);
    }
    Ok((told, encoder))
}

/// What all peers have after each step, computed by one thread, which adds by rank.
fn serial(encoding: Encoding, length: usize, peers: usize, steps: usize) -> Vec<Vec<f32>> {
    let (block, keep) = match encoding {
        Encoding::OneBit { block } => (block, 1),
        Encoding::TopK { keep } => (1, keep),
        _ => (1, 1),
    };
    let mut one_bit = vec![OneBit::new(length, block); peers];
    let mut top_k = vec![TopK::new(length, keep); peers];
    let each = |step: usize| {
        let updates: Vec<Vec<f32>> = (0..peers).map(|peer| update(peer, step, length)).collect();
        let total = |round: fn(f32) -> f32| {
            let sum = |place: usize| updates.iter().map(|update| round(update[place])).reduce(|a, b| a + b).unwrap();
            (0..length).map(|place| round(sum(place))).collect()
        };
        let mut sum = vec![0.0; length];
        match encoding {
            Encoding::Plain => sum = total(|value| value),
            Encoding::Bf16 => sum = total(|value| bf16::from_f32(value).to_f32()),
            Encoding::F16 => sum = total(|value| f16::from_f32(value).to_f32()),
            Encoding::OneBit { block } => {
                for (encoder, update) in one_bit.iter_mut().zip(&updates) {
                    OneBit::decode_add(&encoder.encode(update).unwrap(), block, &mut sum).unwrap();
                }
            }
            Encoding::TopK { .. } => {
                for (encoder, update) in top_k.iter_mut().zip(&updates) {
                    TopK::decode_add(&encoder.encode(update).unwrap(), &mut sum).unwrap();
                }
            }
            _ => unreachable!("low rank has a twin of its own"),
        }
        sum
    };
    (0..steps).map(each).collect()
}

#[test]
fn encoded_sums_are_the_serial_ones() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for encoding in ENCODINGS.into_iter().filter(|&encoding| encoding != LOW_RANK) {
                let all = standalone(peers)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?.by(Algorithm::Ring);
                        SHAPES
                            .iter()
                            .map(|&(rows, columns)| {
                                let encoder = collectives.matrix_encoder(encoding, rows, columns)?;
                                Ok(steps(&collectives, encoder, cluster.rank().index(), 0..4)?.0)
                            })
                            .collect::<Result<Vec<_>>>()
                    })
                    .unwrap();
                for (place, &shape) in SHAPES.iter().enumerate() {
                    let expected = serial(encoding, shape.0 * shape.1, peers, 4);
                    for (step, expected) in expected.iter().enumerate() {
                        let first = &all[0][place][step];
                        assert!(all.iter().all(|one| bits(&one[place][step]) == bits(first)), "all have the same bits");
                        // A plain all-reduce goes round a ring, in another order, which shows from three peers on.
                        let tolerance = if encoding == Encoding::Plain && peers > 2 { 1e-5 } else { 0.0 };
                        let near =
                            first.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
                        assert!(near && first.len() == expected.len(), "{encoding} of {shape:?} among {peers}");
                    }
                }
            }
        }
    });
}

/// The serial twin of low rank: all that peers do is linear in their updates, so one peer with the sums of all updates tells and keeps what all do together.
fn together(rows: usize, columns: usize, peers: usize, steps: usize) -> (Vec<Vec<f32>>, Vec<f32>) {
    let run = standalone(1).run(|cluster| {
        let collectives = cluster.collectives()?;
        let mut encoder = collectives.matrix_encoder(LOW_RANK, rows, columns)?;
        let mut told = Vec::new();
        for step in 0..steps {
            let mut sum = vec![0.0; rows * columns];
            for peer in 0..peers {
                let theirs = update(peer, step, rows * columns);
                sum.iter_mut().zip(theirs).for_each(|(sum, theirs)| *sum += theirs);
            }
            collectives.all_reduce_encoded(&mut sum, Operator::Sum, &mut encoder)?;
            told.push(sum);
        }
        Ok((told, encoder.kept().to_vec()))
    });
    run.unwrap().remove(0)
}

#[test]
fn low_rank_sums_are_those_of_one_peer_with_all_updates() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for (rows, columns) in SHAPES {
                let all = standalone(peers)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?;
                        let encoder = collectives.matrix_encoder(LOW_RANK, rows, columns)?;
                        let (told, encoder) = steps(&collectives, encoder, cluster.rank().index(), 0..4)?;
                        Ok((told, encoder.kept().to_vec()))
                    })
                    .unwrap();
                let (told, kept) = together(rows, columns, peers, 4);
                // Up to the roundings of four steps: numbers are below 50, and f32 has 24 bits.
                let near = |a: f32, b: f32| (a - b).abs() < 2e-3;
                for (step, told) in told.iter().enumerate() {
                    assert!(all.iter().all(|one| bits(&one.0[step]) == bits(&all[0].0[step])), "the same on all");
                    let mut pairs = told.iter().zip(&all[0].0[step]);
                    assert!(pairs.all(|(a, b)| near(*a, *b)), "{rows} × {columns} among {peers}, step {step}");
                }
                for (place, kept) in kept.into_iter().enumerate() {
                    assert!(near(kept, all.iter().map(|one| one.1[place]).sum()), "{rows} × {columns} among {peers}");
                }
            }
        }
    });
}

#[test]
fn smaller_and_larger_numbers_can_be_had_in_half_the_bytes() {
    with_watchdog(|| {
        for encoding in [Encoding::Bf16, Encoding::F16] {
            standalone(3)
                .run(|cluster| {
                    let collectives = cluster.collectives()?;
                    let mut encoder = collectives.encoder(encoding, 10)?;
                    let me = cluster.rank().index() as f32;
                    for (operator, expected) in [(Operator::Min, -1.0_f32), (Operator::Max, 1.0)] {
                        let mut own = vec![1.0 - me; 10];
                        collectives.all_reduce_encoded(&mut own, operator, &mut encoder)?;
                        assert!(own.iter().all(|value| value.to_bits() == expected.to_bits()));
                    }
                    let mut top = collectives.encoder(Encoding::TopK { keep: 1 }, 10)?;
                    let error = collectives.all_reduce_encoded(&mut [0.0; 10], Operator::Max, &mut top).unwrap_err();
                    assert!(error.to_string().contains("only a sum"), "{error}");
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn numbers_of_half_the_size_are_added_by_rank_in_f32() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                let mut encoder = collectives.encoder(Encoding::Bf16, 5)?;
                // 2²⁶ + 1 is 2²⁶ in f32, and 256 + 1 is 256 in bf16: other orders and other sums give something else.
                let mut own: [f32; 5] = [
                    [67_108_864.0, 1.0, 256.0, 256.0, 1.0],
                    [1.0, 67_108_864.0, 1.0, 0.5, 1.0],
                    [-67_108_864.0, -67_108_864.0, 1.0, 0.5, 1.0],
                ][cluster.rank().index()];
                collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                assert_eq!(bits(&own), bits(&[0.0, 0.0, 258.0, 256.0, 3.0]));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn factors_are_multiplied_by_everybody_whatever_their_number() {
    with_watchdog(|| {
        let pairs = |peer: usize, rows: usize, columns: usize| {
            // Peer 1 has none.
            let count = [2, 0, 3, 1][peer];
            let u: Vec<f32> = (0..count * rows).map(|place| number(peer, place) as f32).collect();
            let v: Vec<f32> = (0..count * columns).map(|place| number(peer + 10, place) as f32).collect();
            (u, v)
        };
        for peers in 1..=4 {
            for (rows, columns) in [(0, 3), (1, 1), (4, 7), (60, 50)] {
                let all = standalone(peers)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?;
                        let (u, v) = match rows * columns {
                            0 => (Vec::new(), Vec::new()),
                            _ => pairs(cluster.rank().index(), rows, columns),
                        };
                        let factors = Factors { u: &u, v: &v, rows, columns };
                        let mut matrix = vec![f32::NAN; rows * columns];
                        let pending = collectives.begin_all_reduce_factors(factors)?;
                        collectives.all_reduce_factors(factors, &mut matrix)?;
                        assert_eq!(bits(&pending.finish()?), bits(&matrix));
                        let error = collectives.all_reduce_factors(factors, &mut [0.0; 5]).unwrap_err();
                        assert!(error.to_string().contains("a buffer of 5 numbers"), "{error}");
                        Ok(matrix)
                    })
                    .unwrap();
                let mut expected = vec![0.0_f32; rows * columns];
                for peer in 0..peers {
                    let (u, v) = pairs(peer, rows.max(1), columns);
                    for (u, v) in u.chunks(rows.max(1)).zip(v.chunks(columns)) {
                        for (place, value) in expected.iter_mut().enumerate() {
                            *value += u[place / columns] * v[place % columns];
                        }
                    }
                }
                assert!(all.iter().all(|matrix| bits(matrix) == bits(&expected)), "{rows} × {columns} among {peers}");
            }
        }
    });
}

#[test]
fn what_one_update_does_not_tell_the_next_ones_do() {
    const LENGTH: usize = 300;
    with_watchdog(|| {
        for encoding in [Encoding::OneBit { block: 64 }, Encoding::TopK { keep: 40 }, LOW_RANK] {
            // The largest difference between the mean of what was told in so many steps and the gradient, which is always the same.
            let worst = |steps: usize| {
                let all = standalone(3)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?;
                        let mut encoder = collectives.matrix_encoder(encoding, 20, 15)?;
                        let gradient = update(cluster.rank().index(), 0, LENGTH);
                        let mut told = vec![0.0_f64; LENGTH];
                        for _ in 0..steps {
                            let mut own = gradient.clone();
                            collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                            told.iter_mut().zip(&own).for_each(|(told, own)| *told += f64::from(*own));
                        }
                        Ok((told, encoder.kept().to_vec()))
                    })
                    .unwrap();
                let gradients: Vec<Vec<f32>> = (0..3).map(|peer| update(peer, 0, LENGTH)).collect();
                let difference = |place: usize| {
                    let given = gradients.iter().map(|one| f64::from(one[place])).sum::<f64>() * steps as f64;
                    let (told, kept) = (all[0].0[place], all.iter().map(|one| f64::from(one.1[place])).sum::<f64>());
                    // Nothing is lost but roundings of f32, one or two for each step.
                    assert!(
                        (told + kept - given).abs() < 1e-4 * steps as f64,
                        "{encoding}: {told} + {kept} of {given}"
                    );
                    (told - given).abs() / steps as f64
                };
                (0..LENGTH).map(difference).fold(0.0, f64::max)
            };
            let (first, later) = (worst(200), worst(800));
            assert!(first > 0.0 && later < 0.5 * first, "{encoding}: {first}, then {later}");
        }
    });
}

#[test]
fn a_run_that_goes_on_from_a_checkpoint_has_the_same_bits() {
    with_watchdog(|| {
        for encoding in ENCODINGS {
            let encoder = || Encoder::for_matrix(encoding, 12, 9).unwrap();
            let whole = standalone(3)
                .run(|cluster| {
                    let collectives = cluster.collectives()?.by(Algorithm::Ring);
                    Ok(steps(&collectives, encoder(), cluster.rank().index(), 0..6)?.0)
                })
                .unwrap();
            let saved: Vec<(Vec<Vec<f32>>, Vec<u8>)> = standalone(3)
                .run(|cluster| {
                    let collectives = cluster.collectives()?.by(Algorithm::Ring);
                    let (told, encoder) = steps(&collectives, encoder(), cluster.rank().index(), 0..3)?;
                    Ok((told, postcard::to_stdvec(&encoder).unwrap()))
                })
                .unwrap();
            let rest = standalone(3)
                .run(|cluster| {
                    let collectives = cluster.collectives()?.by(Algorithm::Ring);
                    let me = cluster.rank().index();
                    let encoder = postcard::from_bytes(&saved[me].1).unwrap();
                    Ok(steps(&collectives, encoder, me, 3..6)?.0)
                })
                .unwrap();
            for peer in 0..3 {
                let resumed = saved[peer].0.iter().chain(&rest[peer]);
                assert!(resumed.zip(&whole[peer]).all(|(a, b)| bits(a) == bits(b)), "{encoding}");
            }
        }
    });
}

#[test]
fn costs_are_the_bytes_that_are_sent() {
    with_watchdog(|| {
        for peers in 1..=4 {
            for algorithm in [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling] {
                let total = Mutex::new(vec![0_u64; ENCODINGS.len() + 1]);
                standalone(peers)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?.by(algorithm);
                        let me = cluster.rank().index();
                        for (place, encoding) in ENCODINGS.into_iter().enumerate() {
                            let mut encoder = collectives.matrix_encoder(encoding, 103, 71)?;
                            let before = sent(cluster);
                            let mut own = update(me, 0, 103 * 71);
                            collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                            total.lock().unwrap()[place] += sent(cluster) - before;
                        }
                        let (u, v) = (update(me, 1, 103 * 4), update(me, 2, 71 * 4));
                        let before = sent(cluster);
                        let factors = Factors { u: &u, v: &v, rows: 103, columns: 71 };
                        collectives.begin_all_reduce_factors(factors)?.finish()?;
                        total.lock().unwrap()[ENCODINGS.len()] += sent(cluster) - before;
                        Ok(())
                    })
                    .unwrap();
                let total = total.into_inner().unwrap();
                let encodings = ENCODINGS.into_iter().chain([Encoding::SufficientFactors { pairs: 4 }]);
                for (encoding, total) in encodings.zip(total) {
                    let said = encoding.sent_bytes(103, 71, peers) * peers as f64;
                    if let Encoding::TopK { keep } = encoding {
                        // Where the numbers are may take less than a place far away would.
                        let least = (peers * (peers - 1)) as f64 * (4.0 + 8.0 + 5.0 * keep.min(103 * 71) as f64);
                        assert!((least..=said).contains(&(total as f64)), "{encoding}: {least} {total} {said}");
                    } else {
                        assert!((total as f64 - said).abs() < 1e-6, "{encoding} among {peers}: {total}, not {said}");
                    }
                }
            }
        }
    });
}

#[test]
fn one_peer_encodes_and_decodes_all_the_same() {
    with_watchdog(|| {
        standalone(1)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                let mut encoder = collectives.encoder(Encoding::TopK { keep: 1 }, 3)?;
                let mut own = [1.0, -5.0, 2.0];
                collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                assert_eq!((bits(&own), bits(encoder.kept())), (bits(&[0.0, -5.0, 0.0]), bits(&[1.0, 0.0, 2.0])));
                let mut encoder = collectives.encoder(Encoding::Bf16, 1)?;
                let mut own = [1.001];
                collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                assert_eq!(bits(&own), bits(&[1.0]));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn many_are_in_flight_and_finish_in_any_order() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?.by(Algorithm::Ring);
                let me = cluster.rank().index();
                let mut begun = Vec::new();
                for encoding in ENCODINGS {
                    let encoder = collectives.matrix_encoder(encoding, 50, 40)?;
                    let own = update(me, 0, 2000);
                    begun.push((encoding, collectives.begin_all_reduce_encoded(own, Operator::Sum, encoder)?));
                }
                let plain = collectives.begin_all_reduce(vec![1.0_f32; 2000], Operator::Sum)?;
                if me == 1 {
                    begun.reverse();
                }
                let mut sums = Vec::new();
                for (encoding, pending) in begun {
                    let (encoder, sum) = pending.finish();
                    assert_eq!(encoder.encoding(), encoding);
                    sums.push((sum?, encoder));
                }
                if me == 1 {
                    sums.reverse();
                }
                assert_eq!(plain.finish()?, [3.0; 2000]);
                for (encoding, (sum, encoder)) in ENCODINGS.into_iter().zip(sums) {
                    let mut here = collectives.matrix_encoder(encoding, 50, 40)?;
                    let mut own = update(me, 0, 2000);
                    collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut here)?;
                    assert!(bits(&own) == bits(&sum) && here == encoder, "{encoding}: as if it had blocked");
                }
                // One that nobody finishes.
                let encoder = collectives.encoder(Encoding::TopK { keep: 9 }, 50_000)?;
                drop(collectives.begin_all_reduce_encoded(update(me, 1, 50_000), Operator::Sum, encoder)?);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn numbers_that_are_none_are_delivered_where_nothing_is_carried_over() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                for encoding in [Encoding::Plain, Encoding::Bf16, Encoding::F16] {
                    let mut encoder = collectives.encoder(encoding, 10)?;
                    let mut own = [1.0_f32; 10];
                    if cluster.rank() == Rank::new(1) {
                        (own[4], own[5]) = (f32::NAN, f32::INFINITY);
                    }
                    let before = collectives.tally().nan;
                    collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder)?;
                    assert!(own[4].is_nan() && own[5].is_infinite() && bits(&own[6..]) == bits(&[3.0; 4]));
                    assert_eq!(collectives.tally().nan - before, 1, "{encoding}");
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn numbers_that_are_none_fail_on_all_and_change_no_encoder() {
    with_watchdog(|| {
        for encoding in [Encoding::OneBit { block: 4 }, Encoding::TopK { keep: 2 }, Encoding::LowRank { rank: 1 }] {
            for value in [f32::NAN, f32::INFINITY] {
                standalone(3)
                    .run(|cluster| {
                        let collectives = cluster.collectives()?;
                        let me = cluster.rank().index();
                        let (_, mut encoder) =
                            steps(&collectives, collectives.matrix_encoder(encoding, 5, 4)?, me, 0..2)?;
                        let before = encoder.clone();
                        let mut own = update(me, 2, 20);
                        if me == 1 {
                            own[13] = value;
                        }
                        let given = own.clone();
                        let error = collectives.all_reduce_encoded(&mut own, Operator::Sum, &mut encoder).unwrap_err();
                        let text = error.to_string();
                        match encoding {
                            _ if me == 1 => assert!(text.contains("element 13 is"), "{text}"),
                            Encoding::LowRank { .. } => assert!(text.contains("some peer"), "{text}"),
                            _ => assert!(text.contains("peer 1 has a number that is not finite"), "{text}"),
                        }
                        assert_eq!((bits(&own), &encoder), (bits(&given), &before));
                        let (encoder, sum) =
                            collectives.begin_all_reduce_encoded(own, Operator::Sum, encoder)?.finish();
                        assert!(sum.is_err() && encoder == before);
                        // All go on with the next update, as if this one had not been.
                        let (told, _) = steps(&collectives, encoder, me, 3..4)?;
                        let (expected, _) = steps(&collectives, before, me, 3..4)?;
                        assert_eq!(bits(&told[0]), bits(&expected[0]));
                        Ok(())
                    })
                    .unwrap();
            }
        }
    });
}
