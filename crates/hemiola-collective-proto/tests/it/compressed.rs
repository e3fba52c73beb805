//! Compressed updates through collectives: all peers end with the same bits, and over time with the
//! sum of all given updates.

use crate::network::{Job, run};
use half::bf16;
use hemiola_collective_proto::compress::{LowRankCompressor, OneBitCompressor, TopKCompressor, pack_factors, rebuild};
use hemiola_collective_proto::{Algorithm, CollectiveElement, Operation, ReduceOp};
use hemiola_core::rng::SplitMix64;

const ROWS: usize = 6;
const COLUMNS: usize = 5;
const LENGTH: usize = ROWS * COLUMNS;

fn update(random: &mut SplitMix64) -> Vec<f32> {
    (0..LENGTH).map(|_| random.symmetric() as f32).collect()
}

/// Gathers the blocks of all peers; returns the gathered blocks of each peer.
fn gather<T: CollectiveElement>(own: &[Vec<T>], seed: u64) -> Vec<Vec<Vec<T>>> {
    let blocks: Vec<usize> = own.iter().map(Vec::len).collect();
    let index = |me: usize| {
        let mut buffer = vec![T::zeroed(); blocks.iter().sum()];
        let start: usize = blocks[..me].iter().sum();
        buffer[start..start + blocks[me]].copy_from_slice(&own[me]);
        buffer
    };
    let data = (0..own.len()).map(index).collect();
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

fn all_reduce<T: CollectiveElement>(data: Vec<Vec<T>>, seed: u64) -> Vec<Vec<T>> {
    let (peers, length) = (data.len(), data[0].len());
    let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: ReduceOp::Sum, length };
    run(vec![Job { operation, data }], peers, 16, seed).remove(0)
}

/// Runs rounds of a compressed sum. Checks that all peers have the same result, and that it plus
/// the residuals equals the given updates.
fn check(peers: usize, mut sum: impl FnMut(&[Vec<f32>], u64) -> (Vec<Vec<f32>>, Vec<f64>)) {
    let mut random = SplitMix64::new(peers as u64);
    let (mut given, mut decompressed) = (vec![0.0_f64; LENGTH], vec![0.0_f64; LENGTH]);
    let mut residual = vec![0.0; LENGTH];
    for _ in 0..10 {
        let updates: Vec<Vec<f32>> = (0..peers).map(|_| update(&mut random)).collect();
        let (results, now_residual) = sum(&updates, random.next_u64());
        assert!(
            results
                .iter()
                .all(|result| bytemuck::cast_slice::<f32, u8>(result) == bytemuck::cast_slice::<f32, u8>(&results[0]))
        );
        for index in 0..LENGTH {
            given[index] += updates.iter().map(|update| f64::from(update[index])).sum::<f64>();
            decompressed[index] += f64::from(results[0][index]);
        }
        residual = now_residual;
    }
    for index in 0..LENGTH {
        assert!(
            (decompressed[index] + residual[index] - given[index]).abs() < 1e-3,
            "{} + {} of {}",
            decompressed[index],
            residual[index],
            given[index]
        );
    }
}

fn add_residual<'a>(all: impl Iterator<Item = &'a [f32]>) -> Vec<f64> {
    all.fold(vec![0.0; LENGTH], |mut sums, residual| {
        sums.iter_mut().zip(residual).for_each(|(sum, residual)| *sum += f64::from(*residual));
        sums
    })
}

#[test]
fn one_bit_updates_are_gathered_and_decoded_by_rank() {
    for peers in [1, 2, 5] {
        let mut compressors = vec![OneBitCompressor::new(LENGTH, 8); peers];
        check(peers, |updates, seed| {
            let own: Vec<Vec<u8>> =
                compressors.iter_mut().zip(updates).map(|(e, update)| e.compress(update).unwrap()).collect();
            let decode = |all: &Vec<Vec<u8>>| {
                let mut sum = vec![0.0; LENGTH];
                for one in all {
                    OneBitCompressor::decompress_add(one, 8, &mut sum).unwrap();
                }
                sum
            };
            (
                gather(&own, seed).iter().map(decode).collect(),
                add_residual(compressors.iter().map(OneBitCompressor::residual)),
            )
        });
    }
}

#[test]
fn the_largest_values_are_gathered_and_added_by_rank() {
    for peers in [1, 2, 5] {
        let mut compressors = vec![TopKCompressor::new(LENGTH, 4); peers];
        check(peers, |updates, seed| {
            let own: Vec<Vec<u8>> =
                compressors.iter_mut().zip(updates).map(|(e, update)| e.compress(update).unwrap()).collect();
            let decode = |all: &Vec<Vec<u8>>| {
                let mut sum = vec![0.0; LENGTH];
                for one in all {
                    TopKCompressor::decompress_add(one, &mut sum).unwrap();
                }
                sum
            };
            (
                gather(&own, seed).iter().map(decode).collect(),
                add_residual(compressors.iter().map(TopKCompressor::residual)),
            )
        });
    }
}

#[test]
fn thin_matrices_are_summed_in_transit() {
    for peers in [1, 2, 5] {
        let mut compressors = vec![LowRankCompressor::new(ROWS, COLUMNS, 2, 7); peers];
        check(peers, |updates, seed| {
            let left = compressors.iter_mut().zip(updates).map(|(e, update)| e.compute_p(update).unwrap()).collect();
            let right =
                compressors.iter_mut().zip(all_reduce(left, seed)).map(|(e, p)| e.compute_q(p).unwrap()).collect();
            let decompressed =
                compressors.iter_mut().zip(all_reduce(right, seed)).map(|(e, q)| e.decompress(q).unwrap()).collect();
            (decompressed, add_residual(compressors.iter().map(LowRankCompressor::residual)))
        });
    }
}

#[test]
fn factors_are_gathered_and_rebuilt() {
    for peers in [1, 2, 5] {
        let mut random = SplitMix64::new(peers as u64);
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
        for index in 0..LENGTH {
            let product = |(u, v): &(Vec<f32>, Vec<f32>)| -> f32 {
                u.chunks(ROWS).zip(v.chunks(COLUMNS)).map(|(u, v)| u[index / COLUMNS] * v[index % COLUMNS]).sum()
            };
            let expected: f32 = pairs.iter().map(product).sum();
            assert!((results[0][index] - expected).abs() < 1e-4);
            assert!(results.iter().all(|result| result[index].to_bits() == results[0][index].to_bits()));
        }
    }
}

#[test]
fn half_precision_is_summed_in_transit() {
    let mut random = SplitMix64::new(9);
    let updates: Vec<Vec<f32>> = (0..4).map(|_| update(&mut random)).collect();
    let rounded = |update: &Vec<f32>| update.iter().copied().map(bf16::from_f32).collect();
    let results: Vec<Vec<bf16>> = all_reduce(updates.iter().map(rounded).collect(), 1);
    for index in 0..LENGTH {
        let exact: f32 = updates.iter().map(|update| update[index]).sum();
        // Four roundings of values, three of sums below 4.
        assert!((results[0][index].to_f32() - exact).abs() < 4.0 / 512.0 + 3.0 * 4.0 / 512.0);
        assert!(results.iter().all(|result| result[index].to_bits() == results[0][index].to_bits()));
    }
}
