//! Serial sums in the order that `hemiola_collective_proto::protocol` documents. Collectives must
//! give these bits.

use hemiola_collective_proto::{Algorithm, Route};
use hemiola_core::Rank;
use std::ops::AddAssign;

/// Sums one element over all peers in the order of a ring. `chunk` is the chunk of the element.
fn ring(values: &[f32], chunk: usize) -> f32 {
    let peers = values.len();
    let mut sum = values[(chunk + 1) % peers];
    for place in 2..=peers {
        sum += values[(chunk + place) % peers];
    }
    sum
}

/// Sums neighbouring pairs, then pairs of pairs; a value without partner is carried over.
fn tree(values: &[f32]) -> f32 {
    let mut sums = values.to_vec();
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair.iter().copied().reduce(|a, b| a + b).unwrap_or_default()).collect();
    }
    sums[0]
}

/// Folds the values beyond the largest power of two onto the first ones, then the upper half onto
/// the lower, repeatedly.
pub(super) fn halving<T: Copy + AddAssign>(values: &[T]) -> T {
    let mut sums = values.to_vec();
    let mut half = 1 << values.len().ilog2();
    while sums.len() > 1 {
        if sums.len() == half {
            half /= 2;
        }
        let upper = sums.split_off(half);
        sums.iter_mut().zip(upper).for_each(|(low, high)| *low += high);
    }
    sums[0]
}

/// Returns the chunk of an element, for equal chunks.
fn chunk_of(element: usize, length: usize, chunks: usize) -> usize {
    (0..chunks).find(|chunk| element < (chunk + 1) * length / chunks).unwrap_or(0)
}

/// Returns the result of a reduce on its root: a tree of ranks relative to the root.
pub(super) fn reduce(root: usize, data: &[Vec<f32>]) -> Vec<f32> {
    let rotated = |element: usize| -> Vec<f32> {
        (0..data.len()).map(|index| data[(index + root) % data.len()][element]).collect()
    };
    (0..data[0].len()).map(|element| tree(&rotated(element))).collect()
}

/// Returns the result of an all-reduce.
pub(super) fn all_reduce(algorithm: Algorithm, data: &[Vec<f32>]) -> Vec<f32> {
    let length = data[0].len();
    (0..length)
        .map(|element| {
            let values: Vec<f32> = data.iter().map(|vector| vector[element]).collect();
            match algorithm {
                Algorithm::Tree => tree(&values),
                Algorithm::HalvingDoubling | Algorithm::Doubling => halving(&values),
                Algorithm::TwoLevel { group } => {
                    let groups: Vec<f32> = values.chunks(group).map(tree).collect();
                    ring(&groups, chunk_of(element, length, groups.len()))
                }
                _ => ring(&values, chunk_of(element, length, values.len())),
            }
        })
        .collect()
}

/// Vectors of these peers.
fn pick(ranks: &[Rank], data: &[Vec<f32>]) -> Vec<Vec<f32>> {
    ranks.iter().map(|rank| data[rank.index()].clone()).collect()
}

/// Returns the result of an all-reduce along a route: a tree in each group, and the algorithm over
/// their sums.
pub(super) fn routed_all_reduce(algorithm: Algorithm, route: &Route, data: &[Vec<f32>]) -> Vec<f32> {
    match route.groups() {
        [members] => all_reduce(algorithm, &pick(members, data)),
        groups => all_reduce(algorithm, &groups.iter().map(|group| reduce(0, &pick(group, data))).collect::<Vec<_>>()),
    }
}

/// Returns the result of a reduce along a route to one of its members: a tree in each group to its
/// station, and a tree over the stations.
pub(super) fn routed_reduce(root: Rank, route: &Route, data: &[Vec<f32>]) -> Vec<f32> {
    let station = |group: &[Rank]| group.iter().position(|rank| *rank == root).unwrap_or(0);
    match route.groups() {
        [members] => reduce(station(members), &pick(members, data)),
        groups => {
            let own = groups.iter().position(|group| group.contains(&root)).unwrap_or(0);
            let sums: Vec<_> = groups.iter().map(|group| reduce(station(group), &pick(group, data))).collect();
            reduce(own, &sums)
        }
    }
}
