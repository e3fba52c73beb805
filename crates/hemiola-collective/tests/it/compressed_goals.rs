//! Compressed collectives other than all-reduce against a serial reference: every goal with every
//! supported compression.

use crate::support::{sent, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{Algorithm, CollectiveExt as _, Communicator, Compression, Compressor, ReduceOp};
use hemiola_collective_proto::compress::{CollectiveGoal, OneBitCompressor, TopKCompressor};
use hemiola_collective_proto::protocol::chunk_range;
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use std::ops::Range;
use std::sync::Mutex;

const STRINGS: [Compression; 3] =
    [Compression::OneBit { block: 7 }, Compression::TopK { keep: 5 }, Compression::TopK { keep: 1_000_000 }];
const OTHERS: [Compression; 4] =
    [Compression::Plain, Compression::Bf16, Compression::F16, Compression::LowRank { rank: 2 }];
const STEPS: usize = 4;

fn compressions() -> impl Iterator<Item = Compression> {
    OTHERS.into_iter().chain(STRINGS)
}

/// Lengths that divide into blocks, among them some that do not divide evenly into bytes.
fn lengths(peers: usize) -> [usize; 5] {
    [0, peers, 3 * peers, 20 * peers, 131 * peers]
}

fn update(peer: usize, step: usize, length: usize) -> Vec<f32> {
    let mut random = SplitMix64::new((peer * 1000 + step) as u64);
    (0..length).map(|_| (random.symmetric() * 3.0) as f32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn compressor(compression: Compression, length: usize) -> Compressor {
    Compressor::for_matrix(compression, length, 1).unwrap()
}

/// Result of the blocking call for this goal on this peer.
fn call(
    communicator: &Communicator,
    goal: CollectiveGoal,
    mut own: Vec<f32>,
    compressor: &mut Compressor,
    me: Rank,
) -> Result<Vec<f32>> {
    let before = own.clone();
    match goal {
        CollectiveGoal::AllReduce => communicator.all_reduce_compressed(&mut own, ReduceOp::Sum, compressor)?,
        CollectiveGoal::ReduceScatter => {
            let part = communicator.reduce_scatter_compressed(&mut own, ReduceOp::Sum, compressor)?;
            let rest = |values: &[f32]| [bits(&values[..part.start]), bits(&values[part.end..])].concat();
            assert_eq!(rest(&own), rest(&before), "the rest stays what it was");
            own = own[part].to_vec();
        }
        CollectiveGoal::Reduce { root } => {
            communicator.reduce_compressed(root, &mut own, ReduceOp::Sum, compressor)?;
            if root != me {
                assert_eq!(bits(&own), bits(&before));
                own.clear();
            }
        }
        CollectiveGoal::AllGather => own = communicator.all_gather_compressed(&own, compressor)?,
        CollectiveGoal::Broadcast { root } => communicator.broadcast_compressed(root, &mut own, compressor)?,
        CollectiveGoal::AllToAll => communicator.all_to_all_compressed(&mut own, compressor)?,
        _ => unreachable!("all goals are here"),
    }
    Ok(own)
}

/// Result of each peer after each step, by step and peer. Every second step is non-blocking.
fn run(peers: usize, goal: CollectiveGoal, compression: Compression, length: usize) -> Vec<Vec<Vec<f32>>> {
    let by_peer = standalone(peers)
        .run(|cluster| {
            let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
            let me = cluster.rank();
            let mut compressor = compressor(compression, length);
            let one = |step: usize| {
                let own = update(me.index(), step, length);
                if step.is_multiple_of(2) {
                    return call(&communicator, goal, own, &mut compressor, me);
                }
                let lent = compressor.clone();
                let (back, decompressed) = communicator.begin_compressed(goal, &own, ReduceOp::Sum, lent)?.wait();
                compressor = back;
                decompressed
            };
            (0..STEPS).map(one).collect::<Result<Vec<_>>>()
        })
        .unwrap();
    (0..STEPS).map(|step| by_peer.iter().map(|peer| peer[step].clone()).collect()).collect()
}

/// Compressors of all peers in one thread.
enum Serial {
    Rounded(fn(f32) -> f32),
    OneBit(usize, Vec<OneBitCompressor>),
    TopK(Vec<TopKCompressor>),
}

impl Serial {
    fn new(compression: Compression, peers: usize, length: usize) -> Self {
        match compression {
            Compression::Plain => Self::Rounded(|value| value),
            Compression::Bf16 => Self::Rounded(|value| bf16::from_f32(value).to_f32()),
            Compression::F16 => Self::Rounded(|value| f16::from_f32(value).to_f32()),
            Compression::OneBit { block } => Self::OneBit(block, vec![OneBitCompressor::new(length, block); peers]),
            Compression::TopK { keep } => Self::TopK(vec![TopKCompressor::new(length, keep); peers]),
            _ => unreachable!("low rank has a test of its own"),
        }
    }

    /// Decompressed vector of a peer, part by part.
    fn decompressed(&mut self, peer: usize, vector: &[f32], parts: &[Range<usize>]) -> Vec<f32> {
        let mut out = vec![0.0; vector.len()];
        match self {
            Self::Rounded(round) => out = vector.iter().map(|&value| round(value)).collect(),
            Self::OneBit(block, compressors) => {
                let strings = compressors[peer].compress_parts(vector, parts).unwrap();
                for (string, part) in strings.iter().zip(parts) {
                    OneBitCompressor::decompress_add(string, *block, &mut out[part.clone()]).unwrap();
                }
            }
            Self::TopK(compressors) => {
                let strings = compressors[peer].compress_parts(vector, parts).unwrap();
                for (string, part) in strings.iter().zip(parts) {
                    TopKCompressor::decompress_add(string, &mut out[part.clone()]).unwrap();
                }
            }
        }
        out
    }

    /// Rounds a sum once more before it is sent to others.
    fn rounded(&self, sum: Vec<f32>) -> Vec<f32> {
        match self {
            Self::Rounded(round) => sum.into_iter().map(round).collect(),
            _ => sum,
        }
    }
}

/// Serial reference: result of each peer after each step.
fn expected(peers: usize, goal: CollectiveGoal, compression: Compression, length: usize) -> Vec<Vec<Vec<f32>>> {
    let mut serial = Serial::new(compression, peers, length);
    let chunks: Vec<Range<usize>> = (0..peers).map(|peer| chunk_range(length, peers, peer)).collect();
    let whole: Vec<Range<usize>> = std::iter::once(0..length).collect();
    let parts = if matches!(goal, CollectiveGoal::ReduceScatter | CollectiveGoal::AllToAll) { &chunks } else { &whole };
    let mut step = |step: usize| -> Vec<Vec<f32>> {
        let speaks = |peer: usize| !matches!(goal, CollectiveGoal::Broadcast { root } if root.index() != peer);
        let decompressed: Vec<Vec<f32>> = (0..peers)
            .map(|peer| {
                let own = update(peer, step, length);
                if speaks(peer) { serial.decompressed(peer, &own, parts) } else { own }
            })
            .collect();
        let mut sum = vec![0.0_f32; length];
        for decompressed in &decompressed {
            sum.iter_mut().zip(decompressed).for_each(|(sum, decompressed)| *sum += decompressed);
        }
        match goal {
            CollectiveGoal::AllReduce => vec![serial.rounded(sum); peers],
            CollectiveGoal::ReduceScatter => chunks.iter().map(|chunk| sum[chunk.clone()].to_vec()).collect(),
            CollectiveGoal::Reduce { root } => {
                let mut all = vec![Vec::new(); peers];
                all[root.index()] = serial.rounded(sum);
                all
            }
            CollectiveGoal::AllGather => vec![decompressed.concat(); peers],
            CollectiveGoal::Broadcast { root } => vec![decompressed[root.index()].clone(); peers],
            CollectiveGoal::AllToAll => {
                let for_peer = |chunk: &Range<usize>| {
                    decompressed.iter().flat_map(|decompressed| decompressed[chunk.clone()].to_vec()).collect()
                };
                chunks.iter().map(for_peer).collect()
            }
            _ => unreachable!("all goals are here"),
        }
    };
    (0..STEPS).map(&mut step).collect()
}

#[test]
fn every_goal_equals_the_serial_reference() {
    with_watchdog(|| {
        for peers in 1..=5 {
            for goal in CollectiveGoal::all(Rank::new(peers as u32 / 2)) {
                for compression in
                    compressions().filter(|compression| !matches!(compression, Compression::LowRank { .. }))
                {
                    for length in lengths(peers) {
                        let (found, expected) =
                            (run(peers, goal, compression, length), expected(peers, goal, compression, length));
                        // Plain sums are added in the order of their algorithm, which matters from
                        // three peers on.
                        let tolerance =
                            if compression == Compression::Plain && peers > 2 && goal.combines() { 1e-5 } else { 0.0 };
                        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                            assert_eq!(found.len(), expected.len(), "{goal} of {length}, {compression}, among {peers}");
                            let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance);
                            assert!(
                                near,
                                "{goal} of {length}, {compression}, among {peers}: {found:?}, not {expected:?}"
                            );
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn chunks_and_roots_have_the_bits_of_the_all_reduce() {
    with_watchdog(|| {
        for peers in [1, 2, 3, 5] {
            let root = Rank::new(peers as u32 - 1);
            for length in [1, 10, 77] {
                for compression in [Compression::Bf16, Compression::F16, Compression::LowRank { rank: 1 }] {
                    let all = run(peers, CollectiveGoal::AllReduce, compression, length);
                    let at_root = run(peers, CollectiveGoal::Reduce { root }, compression, length);
                    let parts = run(peers, CollectiveGoal::ReduceScatter, compression, length);
                    for step in 0..STEPS {
                        assert_eq!(bits(&at_root[step][root.index()]), bits(&all[step][0]), "{compression}");
                        let whole = match compression {
                            // A chunk stays with its peer, and is not rounded again.
                            Compression::Bf16 => {
                                parts[step].concat().iter().map(|&v| bf16::from_f32(v).to_f32()).collect()
                            }
                            Compression::F16 => {
                                parts[step].concat().iter().map(|&v| f16::from_f32(v).to_f32()).collect()
                            }
                            _ => parts[step].concat(),
                        };
                        assert_eq!(bits(&whole), bits(&all[step][0]), "{compression} of {length} among {peers}");
                    }
                }
            }
        }
    });
}

#[test]
fn nothing_is_lost_whichever_peer_it_was_for() {
    const LENGTH: usize = 60;
    with_watchdog(|| {
        for goal in CollectiveGoal::all(Rank::new(1)) {
            for compression in STRINGS {
                let all = standalone(3)
                    .run(|cluster| {
                        let (communicator, me) = (cluster.communicator()?, cluster.rank());
                        let mut compressor = compressor(compression, LENGTH);
                        let mut decompressed: Vec<f64> = Vec::new();
                        for step in 0..20 {
                            let own = update(me.index(), step, LENGTH);
                            let came = call(&communicator, goal, own, &mut compressor, me)?;
                            decompressed.resize(came.len(), 0.0);
                            decompressed
                                .iter_mut()
                                .zip(came)
                                .for_each(|(decompressed, came)| *decompressed += f64::from(came));
                        }
                        Ok((
                            decompressed,
                            compressor.residual().iter().map(|&residual| f64::from(residual)).sum::<f64>(),
                        ))
                    })
                    .unwrap();
                // One total for everything given and one for everything received: a value sent
                // twice or never would show.
                let given =
                    |peer: usize| (0..20).flat_map(|step| update(peer, step, LENGTH)).map(f64::from).sum::<f64>();
                let came = |peer: usize| all[peer].0.iter().sum::<f64>();
                let everything: f64 = (0..3).map(given).sum();
                let residual: f64 = all.iter().map(|(_, residual)| residual).sum();
                let (came, given) = match goal {
                    CollectiveGoal::AllReduce | CollectiveGoal::AllGather => (came(0), everything),
                    CollectiveGoal::Broadcast { .. } => (came(0), given(1)),
                    _ => ((0..3).map(came).sum(), everything),
                };
                assert!(
                    (came + residual - given).abs() < 1e-2,
                    "{goal}, {compression}: {came} + {residual} of {given}"
                );
            }
        }
    });
}

#[test]
fn non_finite_values_fail_on_all_peers_and_change_no_compressor() {
    with_watchdog(|| {
        for goal in CollectiveGoal::all(Rank::new(1)) {
            for compression in
                STRINGS.into_iter().chain([Compression::LowRank { rank: 1 }]).filter(|&e| goal.supports(e))
            {
                standalone(3)
                    .run(|cluster| {
                        let (communicator, me) = (cluster.communicator()?, cluster.rank());
                        let mut compressor = compressor(compression, 12);
                        call(&communicator, goal, update(me.index(), 0, 12), &mut compressor, me)?;
                        let before = compressor.clone();
                        let mut own = update(me.index(), 1, 12);
                        if me.index() == 1 {
                            own[5] = f32::NAN;
                        }
                        let text = call(&communicator, goal, own, &mut compressor, me).unwrap_err().to_string();
                        match compression {
                            _ if me.index() == 1 => assert!(text.contains("element 5 is"), "{text}"),
                            Compression::LowRank { .. } => assert!(text.contains("some peer"), "{text}"),
                            _ => assert!(text.contains("peer 1 has a value that is not finite"), "{text}"),
                        }
                        assert!(compressor == before, "{goal}, {compression}");
                        call(&communicator, goal, update(me.index(), 2, 12), &mut compressor, me)?;
                        Ok(())
                    })
                    .unwrap();
            }
        }
    });
}

#[test]
fn unsupported_calls_are_refused_before_anything_is_sent() {
    standalone(2)
        .run(|cluster| {
            let communicator = cluster.communicator()?;
            let mut low_rank = compressor(Compression::LowRank { rank: 1 }, 4);
            let error = communicator.all_gather_compressed(&[0.0; 4], &mut low_rank).unwrap_err().to_string();
            assert!(error.contains("low rank 1") && error.contains("all-gather forms none"), "{error}");
            let mut narrow = compressor(Compression::Bf16, 5);
            let error = communicator.all_to_all_compressed(&mut [0.0; 5], &mut narrow).unwrap_err().to_string();
            assert!(error.contains("5 elements cannot be cut"), "{error}");
            let error =
                communicator.broadcast_compressed(Rank::new(2), &mut [0.0; 5], &mut narrow).unwrap_err().to_string();
            assert!(error.contains("peer 2, is not one of them"), "{error}");
            let mut top = compressor(Compression::TopK { keep: 1 }, 4);
            let error = communicator.reduce_compressed(Rank::ROOT, &mut [0.0; 4], ReduceOp::Max, &mut top);
            assert!(error.unwrap_err().to_string().contains("correct for sums only"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn peers_with_different_goals_detect_the_mismatch() {
    with_watchdog(|| {
        let said = standalone(2)
            .run(|cluster| {
                let communicator = cluster.communicator()?.with_algorithm(Algorithm::Ring);
                let mut compressor = compressor(Compression::Bf16, 10);
                let outcome = if cluster.is_root() {
                    communicator.reduce_scatter_compressed(&mut [0.0; 10], ReduceOp::Sum, &mut compressor).map(|_| ())
                } else {
                    communicator.reduce_compressed(Rank::new(1), &mut [0.0; 10], ReduceOp::Sum, &mut compressor)
                };
                Ok(outcome.unwrap_err().to_string())
            })
            .unwrap();
        for text in said {
            assert!(text.contains("for a reduce-scatter of 10 f32 by sum compressed as bf16"), "{text}");
            assert!(text.contains("for a reduce of 10 f32 by sum with root 1 compressed as bf16"), "{text}");
        }
    });
}

#[test]
fn every_goal_predicts_the_bytes_it_sends() {
    const LENGTH: usize = 840;
    with_watchdog(|| {
        for peers in 1..=5 {
            for algorithm in [Algorithm::Ring, Algorithm::Doubling, Algorithm::TwoLevel { group: 2 }] {
                let goals = CollectiveGoal::all(Rank::new(peers as u32 / 2));
                let cases: Vec<(CollectiveGoal, Compression)> = goals
                    .into_iter()
                    .flat_map(|goal| compressions().map(move |compression| (goal, compression)))
                    .filter(|(goal, compression)| goal.supports(*compression))
                    .collect();
                let totals = Mutex::new(vec![0_u64; cases.len()]);
                standalone(peers)
                    .run(|cluster| {
                        let (communicator, me) = (cluster.communicator()?.with_algorithm(algorithm), cluster.rank());
                        for (index, &(goal, compression)) in cases.iter().enumerate() {
                            let before = sent(cluster);
                            let own = update(me.index(), 0, LENGTH);
                            call(&communicator, goal, own, &mut compressor(compression, LENGTH), me)?;
                            totals.lock().unwrap()[index] += sent(cluster) - before;
                        }
                        Ok(())
                    })
                    .unwrap();
                for ((goal, compression), total) in cases.into_iter().zip(totals.into_inner().unwrap()) {
                    let said = compression.sent_bytes_for(goal, algorithm, (LENGTH, 1), peers) * peers as f64;
                    let total = total as f64;
                    let what = format!("{goal}, {compression}, {algorithm}, {peers}: {total}, not {said}");
                    if matches!(compression, Compression::TopK { .. }) {
                        assert!(total <= said + 1e-6 && (said == 0.0 || total > 0.0), "{what}");
                    } else {
                        assert!((total - said).abs() < 1e-6, "{what}");
                    }
                }
            }
        }
    });
}
