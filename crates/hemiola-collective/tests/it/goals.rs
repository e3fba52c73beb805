//! Encoded collectives other than all-reduce against what one thread would compute: every goal with every encoding it goes with.

use crate::support::{sent, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{Algorithm, Collectives, Encoder, Encoding, MakeCollectives as _, Operator};
use hemiola_collective_proto::Random;
use hemiola_collective_proto::encode::{Goal, OneBit, TopK};
use hemiola_collective_proto::protocol::cut;
use hemiola_core::Rank;
use std::ops::Range;
use std::sync::Mutex;

const STRINGS: [Encoding; 3] =
    [Encoding::OneBit { block: 7 }, Encoding::TopK { keep: 5 }, Encoding::TopK { keep: 1_000_000 }];
const OTHERS: [Encoding; 4] = [Encoding::Plain, Encoding::Bf16, Encoding::F16, Encoding::LowRank { rank: 2 }];
const STEPS: usize = 4;

fn encodings() -> impl Iterator<Item = Encoding> {
    OTHERS.into_iter().chain(STRINGS)
}

/// Lengths that peers can cut into blocks, among them ones that they cannot cut evenly into bytes.
fn lengths(peers: usize) -> [usize; 5] {
    [0, peers, 3 * peers, 20 * peers, 131 * peers]
}

fn update(peer: usize, step: usize, length: usize) -> Vec<f32> {
    let mut random = Random::new((peer * 1000 + step) as u64);
    (0..length).map(|_| (random.symmetric() * 3.0) as f32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn encoder(encoding: Encoding, length: usize) -> Encoder {
    Encoder::for_matrix(encoding, length, 1).unwrap()
}

/// What the blocking call of this goal leaves with this peer.
fn call(collectives: &Collectives, goal: Goal, mut own: Vec<f32>, encoder: &mut Encoder, me: Rank) -> Result<Vec<f32>> {
    let before = own.clone();
    match goal {
        Goal::AllReduce => collectives.all_reduce_encoded(&mut own, Operator::Sum, encoder)?,
        Goal::ReduceScatter => {
            let part = collectives.reduce_scatter_encoded(&mut own, Operator::Sum, encoder)?;
            let rest = |values: &[f32]| [bits(&values[..part.start]), bits(&values[part.end..])].concat();
            assert_eq!(rest(&own), rest(&before), "the rest stays what it was");
            own = own[part].to_vec();
        }
        Goal::Reduce { root } => {
            collectives.reduce_encoded(root, &mut own, Operator::Sum, encoder)?;
            if root != me {
                assert_eq!(bits(&own), bits(&before));
                own.clear();
            }
        }
        Goal::AllGather => own = collectives.all_gather_encoded(&own, encoder)?,
        Goal::Broadcast { root } => collectives.broadcast_encoded(root, &mut own, encoder)?,
        Goal::AllToAll => collectives.all_to_all_encoded(&mut own, encoder)?,
        _ => unreachable!("all goals are here"),
    }
    Ok(own)
}

/// What each peer has after each step, by step and peer. Every second step is begun and finished.
fn run(peers: usize, goal: Goal, encoding: Encoding, length: usize) -> Vec<Vec<Vec<f32>>> {
    let by_peer = standalone(peers)
        .run(|cluster| {
            let collectives = cluster.collectives()?.by(Algorithm::Ring);
            let me = cluster.rank();
            let mut encoder = encoder(encoding, length);
            let one = |step: usize| {
                let own = update(me.index(), step, length);
                if step.is_multiple_of(2) {
                    return call(&collectives, goal, own, &mut encoder, me);
                }
                let lent = encoder.clone();
                let (back, told) = collectives.begin_encoded(goal, &own, Operator::Sum, lent)?.finish();
                encoder = back;
                told
            };
            (0..STEPS).map(one).collect::<Result<Vec<_>>>()
        })
        .unwrap();
    (0..STEPS).map(|step| by_peer.iter().map(|peer| peer[step].clone()).collect()).collect()
}

/// Encoders of all peers, as one thread has them.
enum Serial {
    Rounded(fn(f32) -> f32),
    OneBit(usize, Vec<OneBit>),
    TopK(Vec<TopK>),
}

impl Serial {
    fn new(encoding: Encoding, peers: usize, length: usize) -> Self {
        match encoding {
            Encoding::Plain => Self::Rounded(|value| value),
            Encoding::Bf16 => Self::Rounded(|value| bf16::from_f32(value).to_f32()),
            Encoding::F16 => Self::Rounded(|value| f16::from_f32(value).to_f32()),
            Encoding::OneBit { block } => Self::OneBit(block, vec![OneBit::new(length, block); peers]),
            Encoding::TopK { keep } => Self::TopK(vec![TopK::new(length, keep); peers]),
            _ => unreachable!("low rank has a test of its own"),
        }
    }

    /// What comes out of a peer's vector, part by part.
    fn told(&mut self, peer: usize, vector: &[f32], parts: &[Range<usize>]) -> Vec<f32> {
        let mut out = vec![0.0; vector.len()];
        match self {
            Self::Rounded(round) => out = vector.iter().map(|&value| round(value)).collect(),
            Self::OneBit(block, encoders) => {
                let strings = encoders[peer].encode_parts(vector, parts).unwrap();
                for (string, part) in strings.iter().zip(parts) {
                    OneBit::decode_add(string, *block, &mut out[part.clone()]).unwrap();
                }
            }
            Self::TopK(encoders) => {
                let strings = encoders[peer].encode_parts(vector, parts).unwrap();
                for (string, part) in strings.iter().zip(parts) {
                    TopK::decode_add(string, &mut out[part.clone()]).unwrap();
                }
            }
        }
        out
    }

    /// Once more, where a sum is told to others.
    fn again(&self, sum: Vec<f32>) -> Vec<f32> {
        match self {
            Self::Rounded(round) => sum.into_iter().map(round).collect(),
            _ => sum,
        }
    }
}

/// What each peer has after each step, computed by one thread.
fn expected(peers: usize, goal: Goal, encoding: Encoding, length: usize) -> Vec<Vec<Vec<f32>>> {
    let mut serial = Serial::new(encoding, peers, length);
    let chunks: Vec<Range<usize>> = (0..peers).map(|peer| cut(length, peers, peer)).collect();
    let whole: Vec<Range<usize>> = std::iter::once(0..length).collect();
    let parts = if matches!(goal, Goal::ReduceScatter | Goal::AllToAll) { &chunks } else { &whole };
    let mut step = |step: usize| -> Vec<Vec<f32>> {
        let speaks = |peer: usize| !matches!(goal, Goal::Broadcast { root } if root.index() != peer);
        let told: Vec<Vec<f32>> = (0..peers)
            .map(|peer| {
                let own = update(peer, step, length);
                if speaks(peer) { serial.told(peer, &own, parts) } else { own }
            })
            .collect();
        let mut sum = vec![0.0_f32; length];
        for told in &told {
            sum.iter_mut().zip(told).for_each(|(sum, told)| *sum += told);
        }
        match goal {
            Goal::AllReduce => vec![serial.again(sum); peers],
            Goal::ReduceScatter => chunks.iter().map(|chunk| sum[chunk.clone()].to_vec()).collect(),
            Goal::Reduce { root } => {
                let mut all = vec![Vec::new(); peers];
                all[root.index()] = serial.again(sum);
                all
            }
            Goal::AllGather => vec![told.concat(); peers],
            Goal::Broadcast { root } => vec![told[root.index()].clone(); peers],
            Goal::AllToAll => {
                let for_peer =
                    |chunk: &Range<usize>| told.iter().flat_map(|told| told[chunk.clone()].to_vec()).collect();
                chunks.iter().map(for_peer).collect()
            }
            _ => unreachable!("all goals are here"),
        }
    };
    (0..STEPS).map(&mut step).collect()
}

#[test]
fn every_goal_gives_what_one_thread_would() {
    with_watchdog(|| {
        for peers in 1..=5 {
            for goal in Goal::all(Rank::new(peers as u32 / 2)) {
                for encoding in encodings().filter(|encoding| !matches!(encoding, Encoding::LowRank { .. })) {
                    for length in lengths(peers) {
                        let (found, expected) =
                            (run(peers, goal, encoding, length), expected(peers, goal, encoding, length));
                        // Plain sums are added in the order of their algorithm, which shows from three peers on.
                        let tolerance =
                            if encoding == Encoding::Plain && peers > 2 && goal.combines() { 1e-5 } else { 0.0 };
                        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                            assert_eq!(found.len(), expected.len(), "{goal} of {length}, {encoding}, among {peers}");
                            let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance);
                            assert!(near, "{goal} of {length}, {encoding}, among {peers}: {found:?}, not {expected:?}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn parts_and_roots_have_the_bits_of_the_all_reduce() {
    with_watchdog(|| {
        for peers in [1, 2, 3, 5] {
            let root = Rank::new(peers as u32 - 1);
            for length in [1, 10, 77] {
                for encoding in [Encoding::Bf16, Encoding::F16, Encoding::LowRank { rank: 1 }] {
                    let all = run(peers, Goal::AllReduce, encoding, length);
                    let at_root = run(peers, Goal::Reduce { root }, encoding, length);
                    let parts = run(peers, Goal::ReduceScatter, encoding, length);
                    for step in 0..STEPS {
                        assert_eq!(bits(&at_root[step][root.index()]), bits(&all[step][0]), "{encoding}");
                        let whole = match encoding {
                            // A part stays with its peer, and is not rounded again.
                            Encoding::Bf16 => {
                                parts[step].concat().iter().map(|&v| bf16::from_f32(v).to_f32()).collect()
                            }
                            Encoding::F16 => parts[step].concat().iter().map(|&v| f16::from_f32(v).to_f32()).collect(),
                            _ => parts[step].concat(),
                        };
                        assert_eq!(bits(&whole), bits(&all[step][0]), "{encoding} of {length} among {peers}");
                    }
                }
            }
        }
    });
}

#[test]
fn nothing_is_lost_whoever_it_was_for() {
    const LENGTH: usize = 60;
    with_watchdog(|| {
        for goal in Goal::all(Rank::new(1)) {
            for encoding in STRINGS {
                let all = standalone(3)
                    .run(|cluster| {
                        let (collectives, me) = (cluster.collectives()?, cluster.rank());
                        let mut encoder = encoder(encoding, LENGTH);
                        let mut told: Vec<f64> = Vec::new();
                        for step in 0..20 {
                            let own = update(me.index(), step, LENGTH);
                            let came = call(&collectives, goal, own, &mut encoder, me)?;
                            told.resize(came.len(), 0.0);
                            told.iter_mut().zip(came).for_each(|(told, came)| *told += f64::from(came));
                        }
                        Ok((told, encoder.kept().iter().map(|&kept| f64::from(kept)).sum::<f64>()))
                    })
                    .unwrap();
                // One number for all that was given and for all that came: whatever is told twice or never shows.
                let given =
                    |peer: usize| (0..20).flat_map(|step| update(peer, step, LENGTH)).map(f64::from).sum::<f64>();
                let came = |peer: usize| all[peer].0.iter().sum::<f64>();
                let everything: f64 = (0..3).map(given).sum();
                let kept: f64 = all.iter().map(|(_, kept)| kept).sum();
                let (came, given) = match goal {
                    Goal::AllReduce | Goal::AllGather => (came(0), everything),
                    Goal::Broadcast { .. } => (came(0), given(1)),
                    _ => ((0..3).map(came).sum(), everything),
                };
                assert!((came + kept - given).abs() < 1e-2, "{goal}, {encoding}: {came} + {kept} of {given}");
            }
        }
    });
}

#[test]
fn numbers_that_are_none_fail_on_all_peers_and_change_no_encoder() {
    with_watchdog(|| {
        for goal in Goal::all(Rank::new(1)) {
            for encoding in STRINGS.into_iter().chain([Encoding::LowRank { rank: 1 }]).filter(|&e| goal.allows(e)) {
                standalone(3)
                    .run(|cluster| {
                        let (collectives, me) = (cluster.collectives()?, cluster.rank());
                        let mut encoder = encoder(encoding, 12);
                        call(&collectives, goal, update(me.index(), 0, 12), &mut encoder, me)?;
                        let before = encoder.clone();
                        let mut own = update(me.index(), 1, 12);
                        if me.index() == 1 {
                            own[5] = f32::NAN;
                        }
                        let text = call(&collectives, goal, own, &mut encoder, me).unwrap_err().to_string();
                        match encoding {
                            _ if me.index() == 1 => assert!(text.contains("element 5 is"), "{text}"),
                            Encoding::LowRank { .. } => assert!(text.contains("some peer"), "{text}"),
                            _ => assert!(text.contains("peer 1 has a number that is not finite"), "{text}"),
                        }
                        assert!(encoder == before, "{goal}, {encoding}");
                        call(&collectives, goal, update(me.index(), 2, 12), &mut encoder, me)?;
                        Ok(())
                    })
                    .unwrap();
            }
        }
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    standalone(2)
        .run(|cluster| {
            let collectives = cluster.collectives()?;
            let mut low_rank = encoder(Encoding::LowRank { rank: 1 }, 4);
            let error = collectives.all_gather_encoded(&[0.0; 4], &mut low_rank).unwrap_err().to_string();
            assert!(error.contains("low rank 1") && error.contains("all-gather forms none"), "{error}");
            let mut narrow = encoder(Encoding::Bf16, 5);
            let error = collectives.all_to_all_encoded(&mut [0.0; 5], &mut narrow).unwrap_err().to_string();
            assert!(error.contains("5 numbers cannot be cut"), "{error}");
            let error =
                collectives.broadcast_encoded(Rank::new(2), &mut [0.0; 5], &mut narrow).unwrap_err().to_string();
            assert!(error.contains("peer 2, is not one of them"), "{error}");
            let mut top = encoder(Encoding::TopK { keep: 1 }, 4);
            let error = collectives.reduce_encoded(Rank::ROOT, &mut [0.0; 4], Operator::Max, &mut top);
            assert!(error.unwrap_err().to_string().contains("only a sum"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn peers_with_different_goals_hear_of_each_other() {
    with_watchdog(|| {
        let said = standalone(2)
            .run(|cluster| {
                let collectives = cluster.collectives()?.by(Algorithm::Ring);
                let mut encoder = encoder(Encoding::Bf16, 10);
                let outcome = if cluster.is_root() {
                    collectives.reduce_scatter_encoded(&mut [0.0; 10], Operator::Sum, &mut encoder).map(|_| ())
                } else {
                    collectives.reduce_encoded(Rank::new(1), &mut [0.0; 10], Operator::Sum, &mut encoder)
                };
                Ok(outcome.unwrap_err().to_string())
            })
            .unwrap();
        for text in said {
            assert!(text.contains("for a reduce-scatter of 10 f32 by sum encoded as bf16"), "{text}");
            assert!(text.contains("for a reduce of 10 f32 by sum with root 1 encoded as bf16"), "{text}");
        }
    });
}

#[test]
fn every_goal_says_how_many_bytes_it_sends() {
    const LENGTH: usize = 840;
    with_watchdog(|| {
        for peers in 1..=5 {
            for algorithm in [Algorithm::Ring, Algorithm::Doubling, Algorithm::TwoLevel { group: 2 }] {
                let goals = Goal::all(Rank::new(peers as u32 / 2));
                let cases: Vec<(Goal, Encoding)> = goals
                    .into_iter()
                    .flat_map(|goal| encodings().map(move |encoding| (goal, encoding)))
                    .filter(|(goal, encoding)| goal.allows(*encoding))
                    .collect();
                let totals = Mutex::new(vec![0_u64; cases.len()]);
                standalone(peers)
                    .run(|cluster| {
                        let (collectives, me) = (cluster.collectives()?.by(algorithm), cluster.rank());
                        for (place, &(goal, encoding)) in cases.iter().enumerate() {
                            let before = sent(cluster);
                            let own = update(me.index(), 0, LENGTH);
                            call(&collectives, goal, own, &mut encoder(encoding, LENGTH), me)?;
                            totals.lock().unwrap()[place] += sent(cluster) - before;
                        }
                        Ok(())
                    })
                    .unwrap();
                for ((goal, encoding), total) in cases.into_iter().zip(totals.into_inner().unwrap()) {
                    let said = encoding.sent_bytes_for(goal, algorithm, (LENGTH, 1), peers) * peers as f64;
                    let total = total as f64;
                    let what = format!("{goal}, {encoding}, {algorithm}, {peers}: {total}, not {said}");
                    if matches!(encoding, Encoding::TopK { .. }) {
                        assert!(total <= said + 1e-6 && (said == 0.0 || total > 0.0), "{what}");
                    } else {
                        assert!((total - said).abs() < 1e-6, "{what}");
                    }
                }
            }
        }
    });
}
