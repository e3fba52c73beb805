//! Every collective against a serial reference, for several numbers of peers, types and lengths.

use crate::support::{number, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{Algorithm, CollectiveElement, CollectiveExt as _, Communicator, ReduceOp, chunk_range};
use hemiola_core::Rank;

const LENGTHS: [usize; 6] = [0, 1, 2, 7, 1000, 70_001];
const WAYS: [Option<Algorithm>; 6] = [
    None,
    Some(Algorithm::Ring),
    Some(Algorithm::Tree),
    Some(Algorithm::HalvingDoubling),
    Some(Algorithm::Doubling),
    Some(Algorithm::TwoLevel { group: 2 }),
];

fn with_algorithm(communicator: &Communicator, algorithm: Option<Algorithm>) -> Communicator {
    algorithm.map_or_else(|| communicator.clone(), |algorithm| communicator.with_algorithm(algorithm))
}

/// Small whole numbers, whose sums are exact in any order.
fn whole(peer: usize, index: usize) -> i32 {
    i32::try_from((peer * 7 + index * 13 + peer * index) % 15).unwrap() - 7
}

type Fold = fn(i32, i32) -> i32;

fn all_reduce<T: CollectiveElement>(peers: usize, make: impl Fn(i32) -> T + Sync) {
    let operators: [(ReduceOp, Fold); 3] =
        [(ReduceOp::Sum, |a, b| a + b), (ReduceOp::Min, Ord::min), (ReduceOp::Max, Ord::max)];
    let run = standalone(peers).run(|cluster| {
        let communicator = cluster.communicator()?;
        for algorithm in WAYS {
            for length in LENGTHS {
                for (operator, fold) in operators {
                    let mut own: Vec<T> = (0..length).map(|index| make(whole(cluster.rank().index(), index))).collect();
                    with_algorithm(&communicator, algorithm).all_reduce(&mut own, operator)?;
                    for (index, found) in own.into_iter().enumerate() {
                        let expected = (0..peers).map(|peer| whole(peer, index)).reduce(fold).unwrap();
                        assert_eq!(found, make(expected), "{algorithm:?} of {length}, index {index}");
                    }
                }
            }
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn all_reduce_equals_the_serial_reference_for_every_type() {
    with_watchdog(|| {
        for peers in [1, 2, 3, 4, 5] {
            all_reduce::<f32>(peers, |value| value as f32);
        }
        all_reduce::<f64>(3, f64::from);
        all_reduce::<i32>(3, |value| value);
        all_reduce::<i64>(3, i64::from);
        all_reduce::<bf16>(3, |value| bf16::from_f32(value as f32));
        all_reduce::<f16>(3, |value| f16::from_f32(value as f32));
    });
}

#[test]
fn sums_have_the_same_bits_on_every_peer_and_in_every_run() {
    with_watchdog(|| {
        let run = || {
            standalone(5)
                .run(|cluster| {
                    let communicator = cluster.communicator()?;
                    let mut bits = Vec::new();
                    for algorithm in &WAYS[1..] {
                        let mut own: Vec<f32> =
                            (0..5000).map(|index| number(cluster.rank().index(), index) as f32).collect();
                        with_algorithm(&communicator, *algorithm).all_reduce(&mut own, ReduceOp::Sum)?;
                        bits.extend(own.into_iter().map(f32::to_bits));
                    }
                    Ok(bits)
                })
                .unwrap()
        };
        let (first, second) = (run(), run());
        assert!(first.iter().chain(&second).all(|bits| *bits == first[0]));
    });
}

#[test]
fn the_other_collectives_equal_the_serial_reference() {
    with_watchdog(|| {
        for peers in 1..=5 {
            standalone(peers).run(|cluster| others(&cluster.communicator()?, cluster.rank(), peers)).unwrap();
        }
    });
}

fn others(communicator: &Communicator, me: Rank, peers: usize) -> Result<()> {
    let value = |peer: usize, index: usize| i64::from(whole(peer, index));
    let total = |index: usize| (0..peers).map(|peer| value(peer, index)).sum::<i64>();
    for length in LENGTHS {
        let own: Vec<i64> = (0..length).map(|index| value(me.index(), index)).collect();
        let mut scattered = own.clone();
        let mine = communicator.reduce_scatter(&mut scattered, ReduceOp::Sum)?;
        assert_eq!(mine, chunk_range(length, peers, me.index()));
        assert!(mine.clone().all(|index| scattered[index] == total(index)));

        let gathered = communicator.all_gather(&own)?;
        assert_eq!(gathered.len(), length * peers);
        for (index, found) in gathered.into_iter().enumerate() {
            assert_eq!(found, value(index / length, index % length));
        }

        let block = &own[..length * me.index() / peers];
        let (ragged, ranges) = communicator.all_gather_ragged(block, usize::MAX)?;
        for (peer, range) in ranges.into_iter().enumerate() {
            assert_eq!(range.len(), length * peer / peers);
            assert!(ragged[range].iter().enumerate().all(|(index, found)| *found == value(peer, index)));
        }

        let root = Rank::new((length % peers) as u32);
        let mut received = own.clone();
        communicator.broadcast(root, &mut received)?;
        assert!((0..length).all(|index| received[index] == value(root.index(), index)));

        let mut summed = own.clone();
        communicator.reduce(root, &mut summed, ReduceOp::Sum)?;
        assert!(me != root || (0..length).all(|index| summed[index] == total(index)));

        let mut blocks: Vec<i64> = (0..length * peers).map(|index| value(me.index(), index)).collect();
        communicator.all_to_all(&mut blocks)?;
        for (index, found) in blocks.into_iter().enumerate() {
            assert_eq!(found, value(index / length, me.index() * length + index % length));
        }
        communicator.barrier()?;
    }
    Ok(())
}

#[test]
fn fused_vectors_are_unpacked_in_order() {
    with_watchdog(|| {
        let lengths = [3_usize, 0, 1000, 400_000, 5, 5, 1];
        standalone(3)
            .run(|cluster| {
                let communicator = cluster.communicator()?;
                let mut vectors: Vec<Vec<f32>> = lengths
                    .iter()
                    .enumerate()
                    .map(|(vector, &length)| (0..length).map(|index| whole(vector + 1, index) as f32).collect())
                    .collect();
                let before = communicator.stats().started;
                let mut slices: Vec<&mut [f32]> = vectors.iter_mut().map(Vec::as_mut_slice).collect();
                communicator.all_reduce_many(&mut slices, ReduceOp::Sum)?;
                assert_eq!(communicator.stats().started - before, 3, "small vectors are fused");
                for (number, vector) in vectors.into_iter().enumerate() {
                    let expected = (0..lengths[number]).map(|index| 3.0 * whole(number + 1, index) as f32);
                    assert_eq!(vector, expected.collect::<Vec<f32>>());
                }
                Ok(())
            })
            .unwrap();
    });
}
