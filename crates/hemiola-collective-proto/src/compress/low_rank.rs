//! Low-rank compression of matrices: `PowerSGD` (Vogels et al. 2019).
//!
//! With M the sum of all peers' updates, one round of power iteration starts from the last `Q`
//! (columns × rank): all peers sum `P = M Q`, make its columns orthonormal and sum `Q = Mᵀ P`. The
//! decompressed update is `P Qᵀ`, the projection of M onto the `rank` directions in P. Both sums
//! are linear in M, so each peer sends the product with its own part and an ordinary all-reduce
//! does the rest. The component of a peer's own part outside of those directions is its residual.
//!
//! **Invariant:** all peers have the same `Q` and the same sums, hence the same update, bit for
//! bit. Calls come in order: [`LowRankCompressor::compute_p`], [`LowRankCompressor::compute_q`],
//! [`LowRankCompressor::decompress`]; a checkpoint may be taken between any two.

use super::add_residual;
use crate::protocol::digest;
use crate::{Error, Result};
use hemiola_core::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// Low-rank compressor of one matrix on one peer. Matrices are row-major; all peers use the same
/// seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowRankCompressor {
    rows: usize,
    columns: usize,
    rank: usize,
    random: SplitMix64,
    /// Columns × rank, row-major: the directions that the next round starts from.
    q: Vec<f32>,
    /// Residual of this peer's updates; during a round, its update plus the residual.
    residual: Vec<f32>,
    /// Rows × rank: orthonormal directions of the current round.
    p: Vec<f32>,
}

impl LowRankCompressor {
    /// Creates a compressor for matrices of this shape, as products of rank `rank`.
    #[must_use]
    pub fn new(rows: usize, columns: usize, rank: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let q = (0..columns * rank).map(|_| random.symmetric() as f32).collect();
        Self { rows, columns, rank, random, q, residual: vec![0.0; rows * columns], p: Vec::new() }
    }

    /// Residual: the part of the updates that has not been sent yet.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }

    /// Abandons the current round, replaces the residual and returns the previous one.
    pub(super) fn replace_residual(&mut self, residual: Vec<f32>) -> Vec<f32> {
        self.p = Vec::new();
        std::mem::replace(&mut self.residual, residual)
    }

    /// Part of P sent instead of one that cannot be computed: NaN, which spoils the sum for all
    /// peers.
    pub(super) fn rejection_marker(&self) -> Vec<f32> {
        vec![f32::NAN; self.rows * self.rank]
    }

    /// Number of elements of P and of Q.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.rows * self.rank, self.columns * self.rank)
    }

    /// Hash of the state that all peers must share.
    pub(super) fn digest(&self) -> u64 {
        let shape = [self.rows as u64, self.columns as u64];
        digest(shape.into_iter().chain(self.q.iter().map(|value| u64::from(value.to_bits()))))
    }

    /// First stage: returns this peer's part of P, to be summed over all peers.
    pub fn compute_p(&mut self, update: &[f32]) -> Result<Vec<f32>> {
        self.residual = add_residual(update, &self.residual)?;
        let mut p = vec![0.0; self.rows * self.rank];
        for (row, p) in rows(&self.residual, self.columns).zip(rows_mut(&mut p, self.rank)) {
            for (value, q) in row.iter().zip(rows(&self.q, self.rank)) {
                p.iter_mut().zip(q).for_each(|(p, q)| *p += value * q);
            }
        }
        Ok(p)
    }

    /// Second stage: takes the sum of all peers' parts of P and returns this peer's part of Q, to
    /// be summed.
    pub fn compute_q(&mut self, mut p: Vec<f32>) -> Result<Vec<f32>> {
        self.check(p.len(), self.rows * self.rank)?;
        orthonormalize(&mut p, self.rank);
        self.p = p;
        let mut q = vec![0.0; self.columns * self.rank];
        for (row, p) in rows(&self.residual, self.columns).zip(rows(&self.p, self.rank)) {
            for (value, q) in row.iter().zip(rows_mut(&mut q, self.rank)) {
                q.iter_mut().zip(p).for_each(|(q, p)| *q += value * p);
            }
        }
        // This peer has sent P Qᵀ of its own update; the rest is the residual.
        subtract_product(&mut self.residual, &self.p, &q, self.columns, self.rank);
        Ok(q)
    }

    /// Third stage: takes the sum of all peers' parts of Q and returns the decompressed sum of all
    /// updates.
    pub fn decompress(&mut self, q: Vec<f32>) -> Result<Vec<f32>> {
        self.check(q.len(), self.columns * self.rank)?;
        let mut update = vec![0.0; self.rows * self.columns];
        subtract_product(&mut update, &self.p, &q, self.columns, self.rank);
        for value in &mut update {
            *value = -*value;
        }
        self.q = q;
        // A zero direction would stay zero forever, so it is drawn anew.
        for direction in 0..self.rank {
            if self.q.iter().skip(direction).step_by(self.rank).all(|&value| value == 0.0) {
                for value in self.q.iter_mut().skip(direction).step_by(self.rank) {
                    *value = self.random.symmetric() as f32;
                }
            }
        }
        self.p = Vec::new();
        Ok(update)
    }

    fn check(&self, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::CorruptPayload {
            length: self.rows * self.columns,
            problem: "a factor has another shape than the one sent",
        })
    }
}

/// Rows of a matrix. A width of zero counts as one.
fn rows(matrix: &[f32], width: usize) -> impl Iterator<Item = &[f32]> {
    matrix.chunks(width.max(1))
}

fn rows_mut(matrix: &mut [f32], width: usize) -> impl Iterator<Item = &mut [f32]> {
    matrix.chunks_mut(width.max(1))
}

fn subtract_product(matrix: &mut [f32], p: &[f32], q: &[f32], columns: usize, rank: usize) {
    for (row, p) in rows_mut(matrix, columns).zip(rows(p, rank)) {
        for (value, q) in row.iter_mut().zip(rows(q, rank)) {
            *value -= p.iter().zip(q).map(|(p, q)| p * q).sum::<f32>();
        }
    }
}

/// Gram–Schmidt orthonormalization in `f64`, each column against those before it, twice: once is
/// not enough where columns are nearly parallel. A column that depends on the others becomes zero.
fn orthonormalize(p: &mut [f32], rank: usize) {
    let mut columns: Vec<Vec<f64>> =
        (0..rank).map(|column| p.iter().skip(column).step_by(rank).map(|&value| f64::from(value)).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for column in 0..rank {
        let (before, rest) = columns.split_at_mut(column);
        let current = &mut rest[0];
        let whole = dot(current, current).sqrt();
        for _ in 0..2 {
            for other in before.iter() {
                let along = dot(other, current);
                current.iter_mut().zip(other).for_each(|(value, other)| *value -= along * other);
            }
        }
        let own = dot(current, current).sqrt();
        // The remainder of a dependent column consists of rounding errors of `f32`.
        let scale = if own > 1e-6 * whole { 1.0 / own } else { 0.0 };
        for value in current.iter_mut() {
            *value *= scale;
        }
    }
    for (column, values) in columns.iter().enumerate() {
        for (element, value) in p.iter_mut().skip(column).step_by(rank).zip(values) {
            *element = *value as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(length: usize, random: &mut SplitMix64) -> Vec<f32> {
        (0..length).map(|_| random.symmetric() as f32).collect()
    }

    fn sum(vectors: &[Vec<f32>]) -> Vec<f32> {
        let mut total = vectors[0].clone();
        for vector in &vectors[1..] {
            total.iter_mut().zip(vector).for_each(|(total, value)| *total += value);
        }
        total
    }

    /// Runs one round among all peers and returns the decompressed update of each.
    fn round(compressors: &mut [LowRankCompressor], updates: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let left: Vec<_> = compressors
            .iter_mut()
            .zip(updates)
            .map(|(compressor, update)| compressor.compute_p(update).unwrap())
            .collect();
        let p = sum(&left);
        let right: Vec<_> = compressors.iter_mut().map(|compressor| compressor.compute_q(p.clone()).unwrap()).collect();
        let q = sum(&right);
        compressors.iter_mut().map(|compressor| compressor.decompress(q.clone()).unwrap()).collect()
    }

    #[test]
    fn decompressed_plus_all_residuals_equals_given() {
        let mut random = SplitMix64::new(5);
        for (rows, columns, rank, peers) in
            [(1, 1, 1, 1), (6, 4, 2, 3), (4, 9, 3, 2), (5, 5, 8, 2), (0, 3, 1, 2), (3, 2, 0, 2)]
        {
            let mut compressors = vec![LowRankCompressor::new(rows, columns, rank, 9); peers];
            let (mut given, mut sent) = (vec![0.0_f64; rows * columns], vec![0.0_f64; rows * columns]);
            for _ in 0..20 {
                let updates: Vec<_> = (0..peers).map(|_| matrix(rows * columns, &mut random)).collect();
                let all = round(&mut compressors, &updates);
                assert!(all.iter().all(|one| *one == all[0]), "all peers have the same");
                for index in 0..rows * columns {
                    given[index] += updates.iter().map(|update| f64::from(update[index])).sum::<f64>();
                    sent[index] += f64::from(all[0][index]);
                }
            }
            for index in 0..rows * columns {
                let residual: f64 = compressors.iter().map(|compressor| f64::from(compressor.residual()[index])).sum();
                assert!(
                    (sent[index] + residual - given[index]).abs() < 1e-3,
                    "{} + {residual} of {}",
                    sent[index],
                    given[index]
                );
            }
        }
    }

    #[test]
    fn a_matrix_of_that_rank_is_sent_exactly() {
        let mut random = SplitMix64::new(6);
        let (u, v) = (matrix(7, &mut random), matrix(5, &mut random));
        let product: Vec<f32> = u.iter().flat_map(|u| v.iter().map(move |v| u * v)).collect();
        let sent = round(&mut [LowRankCompressor::new(7, 5, 2, 1)], std::slice::from_ref(&product));
        assert!(sent[0].iter().zip(&product).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn repeated_rounds_find_the_main_direction() {
        // One large direction and noise: after some rounds rank 1 captures nearly all of the large
        // one.
        let mut random = SplitMix64::new(7);
        let (u, v) = (matrix(30, &mut random), matrix(20, &mut random));
        let noisy: Vec<f32> =
            (0..600).map(|index| u[index / 20] * v[index % 20] + 0.01 * random.symmetric() as f32).collect();
        let mut compressor = LowRankCompressor::new(30, 20, 1, 3);
        let mut sent = Vec::new();
        for _ in 0..5 {
            compressor.residual.fill(0.0);
            sent = round(std::slice::from_mut(&mut compressor), std::slice::from_ref(&noisy)).remove(0);
        }
        let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let missing: Vec<f32> = noisy.iter().zip(&sent).map(|(a, b)| a - b).collect();
        assert!(norm(&missing) < 0.05 * norm(&noisy), "{} of {}", norm(&missing), norm(&noisy));
    }

    #[test]
    fn zero_directions_are_redrawn() {
        let mut compressor = LowRankCompressor::new(4, 3, 2, 3);
        round(std::slice::from_mut(&mut compressor), &[vec![0.0; 12]]);
        let update: Vec<f32> = (0..12_u8).map(f32::from).collect();
        let sent = round(std::slice::from_mut(&mut compressor), std::slice::from_ref(&update)).remove(0);
        // This matrix has rank 2.
        assert!(sent.iter().zip(&update).all(|(a, b)| (a - b).abs() < 1e-4), "{sent:?}");
    }

    #[test]
    fn a_restored_compressor_continues_within_a_round() {
        let mut random = SplitMix64::new(8);
        let mut compressor = LowRankCompressor::new(4, 3, 2, 3);
        round(std::slice::from_mut(&mut compressor), &[matrix(12, &mut random)]);
        let p = compressor.compute_p(&matrix(12, &mut random)).unwrap();
        let mut restored: LowRankCompressor = postcard::from_bytes(&postcard::to_stdvec(&compressor).unwrap()).unwrap();
        let q = compressor.compute_q(p.clone()).unwrap();
        assert_eq!(restored.compute_q(p), Ok(q.clone()));
        assert_eq!(restored.decompress(q.clone()), compressor.decompress(q));
        assert!(compressor.compute_q(vec![0.0; 7]).is_err());
    }
}
