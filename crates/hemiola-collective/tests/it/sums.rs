//! Every collective against what one thread would compute, for several numbers of peers, types and lengths.

use crate::support::{number, with_watchdog};
use half::{bf16, f16};
use hemiola_cluster::{Result, standalone};
use hemiola_collective::{Algorithm, Collectives, Element, MakeCollectives as _, Operator, cut};
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

fn way(collectives: &Collectives, algorithm: Option<Algorithm>) -> Collectives {
    algorithm.map_or_else(|| collectives.clone(), |algorithm| collectives.by(algorithm))
}

/// Whole numbers, small enough that any order of adding them gives the same.
fn whole(peer: usize, place: usize) -> i32 {
    i32::try_from((peer * 7 + place * 13 + peer * place) % 15).unwrap() - 7
}

type Fold = fn(i32, i32) -> i32;

fn all_reduce<T: Element>(peers: usize, make: impl Fn(i32) -> T + Sync) {
    let operators: [(Operator, Fold); 3] =
        [(Operator::Sum, |a, b| a + b), (Operator::Min, Ord::min), (Operator::Max, Ord::max)];
    let run = standalone(peers).run(|cluster| {
        let collectives = cluster.collectives()?;
        for algorithm in WAYS {
            for length in LENGTHS {
                for (operator, fold) in operators {
                    let mut own: Vec<T> = (0..length).map(|place| make(whole(cluster.rank().index(), place))).collect();
                    way(&collectives, algorithm).all_reduce(&mut own, operator)?;
                    for (place, found) in own.into_iter().enumerate() {
                        let expected = (0..peers).map(|peer| whole(peer, place)).reduce(fold).unwrap();
                        assert_eq!(found, make(expected), "{algorithm:?} of {length}, place {place}");
                    }
                }
            }
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn all_reduce_is_the_serial_one_whatever_the_type() {
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
                    let collectives = cluster.collectives()?;
                    let mut bits = Vec::new();
                    for algorithm in &WAYS[1..] {
                        let mut own: Vec<f32> =
                            (0..5000).map(|place| number(cluster.rank().index(), place) as f32).collect();
                        way(&collectives, *algorithm).all_reduce(&mut own, Operator::Sum)?;
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
fn the_other_collectives_are_the_serial_ones() {
    with_watchdog(|| {
        for peers in 1..=5 {
            standalone(peers).run(|cluster| others(&cluster.collectives()?, cluster.rank(), peers)).unwrap();
        }
    });
}

fn others(collectives: &Collectives, me: Rank, peers: usize) -> Result<()> {
    let value = |peer: usize, place: usize| i64::from(whole(peer, place));
    let total = |place: usize| (0..peers).map(|peer| value(peer, place)).sum::<i64>();
    for length in LENGTHS {
        let own: Vec<i64> = (0..length).map(|place| value(me.index(), place)).collect();
        let mut scattered = own.clone();
        let mine = collectives.reduce_scatter(&mut scattered, Operator::Sum)?;
        assert_eq!(mine, cut(length, peers, me.index()));
        assert!(mine.clone().all(|place| scattered[place] == total(place)));

        let gathered = collectives.all_gather(&own)?;
        assert_eq!(gathered.len(), length * peers);
        for (place, found) in gathered.into_iter().enumerate() {
            assert_eq!(found, value(place / length, place % length));
        }

        let block = &own[..length * me.index() / peers];
        let (ragged, places) = collectives.all_gather_ragged(block, usize::MAX)?;
        for (peer, range) in places.into_iter().enumerate() {
            assert_eq!(range.len(), length * peer / peers);
            assert!(ragged[range].iter().enumerate().all(|(place, found)| *found == value(peer, place)));
        }

        let root = Rank::new((length % peers) as u32);
        let mut told = own.clone();
        collectives.broadcast(root, &mut told)?;
        assert!((0..length).all(|place| told[place] == value(root.index(), place)));

        let mut summed = own.clone();
        collectives.reduce(root, &mut summed, Operator::Sum)?;
        assert!(me != root || (0..length).all(|place| summed[place] == total(place)));

        let mut blocks: Vec<i64> = (0..length * peers).map(|place| value(me.index(), place)).collect();
        collectives.all_to_all(&mut blocks)?;
        for (place, found) in blocks.into_iter().enumerate() {
            assert_eq!(found, value(place / length, me.index() * length + place % length));
        }
        collectives.barrier()?;
    }
    Ok(())
}

#[test]
fn fused_vectors_come_back_in_their_places() {
    with_watchdog(|| {
        let lengths = [3_usize, 0, 1000, 400_000, 5, 5, 1];
        standalone(3)
            .run(|cluster| {
                let collectives = cluster.collectives()?;
                let mut vectors: Vec<Vec<f32>> = lengths
                    .iter()
                    .enumerate()
                    .map(|(index, &length)| (0..length).map(|place| whole(index + 1, place) as f32).collect())
                    .collect();
                let before = collectives.tally().begun;
                let mut slices: Vec<&mut [f32]> = vectors.iter_mut().map(Vec::as_mut_slice).collect();
                collectives.all_reduce_many(&mut slices, Operator::Sum)?;
                assert_eq!(collectives.tally().begun - before, 3, "small ones go together");
                for (index, vector) in vectors.into_iter().enumerate() {
                    let expected = (0..lengths[index]).map(|place| 3.0 * whole(index + 1, place) as f32);
                    assert_eq!(vector, expected.collect::<Vec<f32>>());
                }
                Ok(())
            })
            .unwrap();
    });
}
