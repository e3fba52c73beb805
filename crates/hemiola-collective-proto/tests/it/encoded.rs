//! Encoded updates through collectives: everybody ends with the same bits, and over time with the sum of what all gave.

use crate::network::{Job, run};
use half::bf16;
use hemiola_collective_proto::encode::{LowRank, OneBit, TopK, from_bf16, pack_factors, rebuild, to_bf16};
use hemiola_collective_proto::{Algorithm, Element, Operation, Operator, Random};

const ROWS: usize = 6;
const COLUMNS: usize = 5;
const LENGTH: usize = ROWS * COLUMNS;

fn update(random: &mut Random) -> Vec<f32> {
    (0..LENGTH).map(|_| random.symmetric() as f32).collect()
}

/// Everybody's block, as everybody has it.
fn gather<T: Element>(own: &[Vec<T>], seed: u64) -> Vec<Vec<Vec<T>>> {
    let blocks: Vec<usize> = own.iter().map(Vec::len).collect();
    let place = |me: usize| {
        let mut buffer = vec![T::zeroed(); blocks.iter().sum()];
        let start: usize = blocks[..me].iter().sum();
        buffer[start..start + blocks[me]].copy_from_slice(&own[me]);
        buffer
    };
    let data = (0..own.len()).map(place).collect();
    let results =
        run(vec![Job { operation: Operation::AllGatherRagged { blocks: blocks.clone() }, data }], own.len(), 16, seed);
    let cut = |all: &Vec<T>| {
        let mut rest = all.as_slice();
        let next = |&block: &usize| {
            let (first, after) = rest.split_at(block);
            rest = after;
            first.to_vec()
        };
        blocks.iter().map(next).collect()
    };
    results[0].iter().map(cut).collect()
}

fn all_reduce<T: Element>(data: Vec<Vec<T>>, seed: u64) -> Vec<Vec<T>> {
    let (peers, length) = (data.len(), data[0].len());
    let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: Operator::Sum, length };
    run(vec![Job { operation, data }], peers, 16, seed).remove(0)
}

/// Runs rounds of a way to sum; checks that all have the same, and that it and what is kept come to what was given.
fn check(peers: usize, mut sum: impl FnMut(&[Vec<f32>], u64) -> (Vec<Vec<f32>>, Vec<f64>)) {
    let mut random = Random::new(peers as u64);
    let (mut given, mut told) = (vec![0.0_f64; LENGTH], vec![0.0_f64; LENGTH]);
    let mut kept = vec![0.0; LENGTH];
    for _ in 0..10 {
        let updates: Vec<Vec<f32>> = (0..peers).map(|_| update(&mut random)).collect();
        let (results, now_kept) = sum(&updates, random.bits());
        assert!(
            results
                .iter()
                .all(|result| bytemuck::cast_slice::<f32, u8>(result) == bytemuck::cast_slice::<f32, u8>(&results[0]))
        );
        for place in 0..LENGTH {
            given[place] += updates.iter().map(|update| f64::from(update[place])).sum::<f64>();
            told[place] += f64::from(results[0][place]);
        }
        kept = now_kept;
    }
    for place in 0..LENGTH {
        assert!(
            (told[place] + kept[place] - given[place]).abs() < 1e-3,
            "{} + {} of {}",
            told[place],
            kept[place],
            given[place]
        );
    }
}

fn add_kept<'a>(all: impl Iterator<Item = &'a [f32]>) -> Vec<f64> {
    all.fold(vec![0.0; LENGTH], |mut sums, kept| {
        sums.iter_mut().zip(kept).for_each(|(sum, kept)| *sum += f64::from(*kept));
        sums
    })
}

#[test]
fn one_bit_updates_are_gathered_and_decoded_by_rank() {
    for peers in [1, 2, 5] {
        let mut encoders = vec![OneBit::new(LENGTH, 8); peers];
        check(peers, |updates, seed| {
            let own: Vec<Vec<u8>> =
                encoders.iter_mut().zip(updates).map(|(e, update)| e.encode(update).unwrap()).collect();
            let decode = |all: &Vec<Vec<u8>>| {
                let mut sum = vec![0.0; LENGTH];
                for one in all {
                    OneBit::decode_add(one, 8, &mut sum).unwrap();
                }
                sum
            };
            (gather(&own, seed).iter().map(decode).collect(), add_kept(encoders.iter().map(OneBit::kept)))
        });
    }
}

#[test]
fn the_largest_numbers_are_gathered_and_added_by_rank() {
    for peers in [1, 2, 5] {
        let mut encoders = vec![TopK::new(LENGTH, 4); peers];
        check(peers, |updates, seed| {
            let own: Vec<Vec<u8>> =
                encoders.iter_mut().zip(updates).map(|(e, update)| e.encode(update).unwrap()).collect();
            let decode = |all: &Vec<Vec<u8>>| {
                let mut sum = vec![0.0; LENGTH];
                for one in all {
                    TopK::decode_add(one, &mut sum).unwrap();
                }
                sum
            };
            (gather(&own, seed).iter().map(decode).collect(), add_kept(encoders.iter().map(TopK::kept)))
        });
    }
}

#[test]
fn thin_matrices_are_summed_on_the_way() {
    for peers in [1, 2, 5] {
        let mut encoders = vec![LowRank::new(ROWS, COLUMNS, 2, 7); peers];
        check(peers, |updates, seed| {
            let left = encoders.iter_mut().zip(updates).map(|(e, update)| e.left(update).unwrap()).collect();
            let right = encoders.iter_mut().zip(all_reduce(left, seed)).map(|(e, p)| e.right(p).unwrap()).collect();
            let told = encoders.iter_mut().zip(all_reduce(right, seed)).map(|(e, q)| e.finish(q).unwrap()).collect();
            (told, add_kept(encoders.iter().map(LowRank::kept)))
        });
    }
}

#[test]
fn factors_are_gathered_and_rebuilt() {
    for peers in [1, 2, 5] {
        let mut random = Random::new(peers as u64);
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.symmetric() as f32).collect() };
        // Peers bring different numbers of pairs.
        let pairs: Vec<(Vec<f32>, Vec<f32>)> =
            (0..peers).map(|peer| (numbers(ROWS * (peer + 1)), numbers(COLUMNS * (peer + 1)))).collect();
        let own: Vec<Vec<f32>> = pairs.iter().map(|(u, v)| pack_factors(u, v, ROWS, COLUMNS).unwrap()).collect();
        let rebuilt = |all: &Vec<Vec<f32>>| {
            let mut matrix = vec![0.0; LENGTH];
            for factors in all {
                rebuild(factors, ROWS, COLUMNS, &mut matrix).unwrap();
            }
            matrix
        };
        let results: Vec<Vec<f32>> = gather(&own, 3).iter().map(rebuilt).collect();
        for place in 0..LENGTH {
            let product = |(u, v): &(Vec<f32>, Vec<f32>)| -> f32 {
                u.chunks(ROWS).zip(v.chunks(COLUMNS)).map(|(u, v)| u[place / COLUMNS] * v[place % COLUMNS]).sum()
            };
            let expected: f32 = pairs.iter().map(product).sum();
            assert!((results[0][place] - expected).abs() < 1e-4);
            assert!(results.iter().all(|result| result[place].to_bits() == results[0][place].to_bits()));
        }
    }
}

#[test]
fn half_precision_is_summed_on_the_way() {
    let mut random = Random::new(9);
    let updates: Vec<Vec<f32>> = (0..4).map(|_| update(&mut random)).collect();
    let results: Vec<Vec<bf16>> = all_reduce(updates.iter().map(|update| to_bf16(update)).collect(), 1);
    for place in 0..LENGTH {
        let exact: f32 = updates.iter().map(|update| update[place]).sum();
        // Four roundings of numbers, three of sums below 4.
        assert!((from_bf16(&results[0])[place] - exact).abs() < 4.0 / 512.0 + 3.0 * 4.0 / 512.0);
        assert!(results.iter().all(|result| result[place].to_bits() == results[0][place].to_bits()));
    }
}
