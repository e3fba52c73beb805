//! An update as the product of two thin matrices: `PowerSGD` (Vogels et al. 2019).
//!
//! With M the sum of all peers' updates, one round of power iteration from the last `Q` (columns × rank): all sum `P = M Q`, make its columns orthonormal, all
//! sum `Q = Mᵀ P`, and the update is `P Qᵀ`, M as seen from the `rank` directions in P. Both sums are linear in M, so each peer sends the product with its own part and
//! an ordinary all-reduce does the rest. What a peer's own part has outside of those directions is kept for its next update.
//!
//! **Invariant:** all peers have the same `Q` and the same sums, hence the same update, bit for bit. Calls come in order: [`LowRank::left`],
//! [`LowRank::right`], [`LowRank::finish`]; a checkpoint may be taken between any two.

use super::with_kept;
use crate::protocol::digest;
use crate::{Error, Random, Result};
use serde::{Deserialize, Serialize};

/// The encoder of one matrix on one peer. Matrices are row by row; all peers use the same seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowRank {
    rows: usize,
    columns: usize,
    rank: usize,
    random: Random,
    /// Columns × rank, row by row: the directions that the next round starts from.
    q: Vec<f32>,
    /// What this peer's updates had outside of the directions sent; while a round is under way, its whole update.
    kept: Vec<f32>,
    /// Rows × rank: orthonormal directions of the round under way.
    p: Vec<f32>,
}

impl LowRank {
    /// For matrices of this shape, as products of rank `rank`.
    #[must_use]
    pub fn new(rows: usize, columns: usize, rank: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let q = (0..columns * rank).map(|_| random.symmetric() as f32).collect();
        Self { rows, columns, rank, random, q, kept: vec![0.0; rows * columns], p: Vec::new() }
    }

    /// What is still to be told.
    #[must_use]
    pub fn kept(&self) -> &[f32] {
        &self.kept
    }

    /// Goes back to what was kept before a round that did not come to its end; what was kept until now.
    pub(super) fn put_back(&mut self, kept: Vec<f32>) -> Vec<f32> {
        self.p = Vec::new();
        std::mem::replace(&mut self.kept, kept)
    }

    /// Sent instead of a part of P that cannot be had: it spoils the sum for all.
    pub(super) fn refusal(&self) -> Vec<f32> {
        vec![f32::NAN; self.rows * self.rank]
    }

    /// Numbers in P and in Q.
    pub(super) fn lengths(&self) -> (usize, usize) {
        (self.rows * self.rank, self.columns * self.rank)
    }

    /// Of what all peers must have in common.
    pub(super) fn digest(&self) -> u64 {
        let shape = [self.rows as u64, self.columns as u64];
        digest(shape.into_iter().chain(self.q.iter().map(|value| u64::from(value.to_bits()))))
    }

    /// First: this peer's part of P, to be summed over all peers.
    pub fn left(&mut self, update: &[f32]) -> Result<Vec<f32>> {
        self.kept = with_kept(update, &self.kept)?;
        let mut p = vec![0.0; self.rows * self.rank];
        for (row, p) in rows(&self.kept, self.columns).zip(rows_mut(&mut p, self.rank)) {
            for (value, q) in row.iter().zip(rows(&self.q, self.rank)) {
                p.iter_mut().zip(q).for_each(|(p, q)| *p += value * q);
            }
        }
        Ok(p)
    }

    /// Second: with the sum of all peers' parts of P, this peer's part of Q, to be summed.
    pub fn right(&mut self, mut p: Vec<f32>) -> Result<Vec<f32>> {
        self.check(p.len(), self.rows * self.rank)?;
        orthonormalize(&mut p, self.rank);
        self.p = p;
        let mut q = vec![0.0; self.columns * self.rank];
        for (row, p) in rows(&self.kept, self.columns).zip(rows(&self.p, self.rank)) {
            for (value, q) in row.iter().zip(rows_mut(&mut q, self.rank)) {
                q.iter_mut().zip(p).for_each(|(q, p)| *q += value * p);
            }
        }
        // Of its own update this peer has told P Qᵀ; the rest is kept.
        subtract_product(&mut self.kept, &self.p, &q, self.columns, self.rank);
        Ok(q)
    }

    /// Third: with the sum of all peers' parts of Q, the sum of all updates, as far as it is told now.
    pub fn finish(&mut self, q: Vec<f32>) -> Result<Vec<f32>> {
        self.check(q.len(), self.columns * self.rank)?;
        let mut told = vec![0.0; self.rows * self.columns];
        subtract_product(&mut told, &self.p, &q, self.columns, self.rank);
        for value in &mut told {
            *value = -*value;
        }
        self.q = q;
        // A direction in which nothing was would stay empty for ever.
        for direction in 0..self.rank {
            if self.q.iter().skip(direction).step_by(self.rank).all(|&value| value == 0.0) {
                for value in self.q.iter_mut().skip(direction).step_by(self.rank) {
                    *value = self.random.symmetric() as f32;
                }
            }
        }
        self.p = Vec::new();
        Ok(told)
    }

    fn check(&self, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(Error::BadEncoding {
            length: self.rows * self.columns,
            problem: "a factor has another shape than was sent",
        })
    }
}

/// Rows of a matrix; as many empty ones as are asked for, if they are empty.
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

/// Gram and Schmidt's way, each column against those before it, twice: once is not enough where columns are nearly parallel. In `f64`. A column with nothing of
/// its own becomes zero.
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
        // What is left of a column that had nothing of its own is rounding errors of `f32`.
        let scale = if own > 1e-6 * whole { 1.0 / own } else { 0.0 };
        for value in current.iter_mut() {
            *value *= scale;
        }
    }
    for (column, values) in columns.iter().enumerate() {
        for (place, value) in p.iter_mut().skip(column).step_by(rank).zip(values) {
            *place = *value as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(length: usize, random: &mut Random) -> Vec<f32> {
        (0..length).map(|_| random.symmetric() as f32).collect()
    }

    fn sum(vectors: &[Vec<f32>]) -> Vec<f32> {
        let mut total = vectors[0].clone();
        for vector in &vectors[1..] {
            total.iter_mut().zip(vector).for_each(|(total, value)| *total += value);
        }
        total
    }

    /// One round among all peers; what each of them was told.
    fn round(encoders: &mut [LowRank], updates: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let left: Vec<_> =
            encoders.iter_mut().zip(updates).map(|(encoder, update)| encoder.left(update).unwrap()).collect();
        let p = sum(&left);
        let right: Vec<_> = encoders.iter_mut().map(|encoder| encoder.right(p.clone()).unwrap()).collect();
        let q = sum(&right);
        encoders.iter_mut().map(|encoder| encoder.finish(q.clone()).unwrap()).collect()
    }

    #[test]
    fn what_is_told_and_what_all_keep_add_up_to_what_all_gave() {
        let mut random = Random::new(5);
        for (rows, columns, rank, peers) in
            [(1, 1, 1, 1), (6, 4, 2, 3), (4, 9, 3, 2), (5, 5, 8, 2), (0, 3, 1, 2), (3, 2, 0, 2)]
        {
            let mut encoders = vec![LowRank::new(rows, columns, rank, 9); peers];
            let (mut given, mut told) = (vec![0.0_f64; rows * columns], vec![0.0_f64; rows * columns]);
            for _ in 0..20 {
                let updates: Vec<_> = (0..peers).map(|_| matrix(rows * columns, &mut random)).collect();
                let all = round(&mut encoders, &updates);
                assert!(all.iter().all(|one| *one == all[0]), "all peers have the same");
                for place in 0..rows * columns {
                    given[place] += updates.iter().map(|update| f64::from(update[place])).sum::<f64>();
                    told[place] += f64::from(all[0][place]);
                }
            }
            for place in 0..rows * columns {
                let kept: f64 = encoders.iter().map(|encoder| f64::from(encoder.kept()[place])).sum();
                assert!(
                    (told[place] + kept - given[place]).abs() < 1e-3,
                    "{} + {kept} of {}",
                    told[place],
                    given[place]
                );
            }
        }
    }

    #[test]
    fn a_matrix_of_that_rank_is_told_whole() {
        let mut random = Random::new(6);
        let (u, v) = (matrix(7, &mut random), matrix(5, &mut random));
        let product: Vec<f32> = u.iter().flat_map(|u| v.iter().map(move |v| u * v)).collect();
        let told = round(&mut [LowRank::new(7, 5, 2, 1)], std::slice::from_ref(&product));
        assert!(told[0].iter().zip(&product).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn repeated_rounds_find_the_main_direction() {
        // One large direction and noise: after some rounds rank 1 sees nearly all of the large one.
        let mut random = Random::new(7);
        let (u, v) = (matrix(30, &mut random), matrix(20, &mut random));
        let noisy: Vec<f32> =
            (0..600).map(|place| u[place / 20] * v[place % 20] + 0.01 * random.symmetric() as f32).collect();
        let mut encoder = LowRank::new(30, 20, 1, 3);
        let mut told = Vec::new();
        for _ in 0..5 {
            encoder.kept.fill(0.0);
            told = round(std::slice::from_mut(&mut encoder), std::slice::from_ref(&noisy)).remove(0);
        }
        let norm = |values: &[f32]| values.iter().map(|value| value * value).sum::<f32>().sqrt();
        let missing: Vec<f32> = noisy.iter().zip(&told).map(|(a, b)| a - b).collect();
        assert!(norm(&missing) < 0.05 * norm(&noisy), "{} of {}", norm(&missing), norm(&noisy));
    }

    #[test]
    fn directions_with_nothing_in_them_come_back() {
        let mut encoder = LowRank::new(4, 3, 2, 3);
        round(std::slice::from_mut(&mut encoder), &[vec![0.0; 12]]);
        let update: Vec<f32> = (0..12_u8).map(f32::from).collect();
        let told = round(std::slice::from_mut(&mut encoder), std::slice::from_ref(&update)).remove(0);
        // This matrix has rank 2.
        assert!(told.iter().zip(&update).all(|(a, b)| (a - b).abs() < 1e-4), "{told:?}");
    }

    #[test]
    fn a_saved_encoder_goes_on_in_the_middle_of_a_round() {
        let mut random = Random::new(8);
        let mut encoder = LowRank::new(4, 3, 2, 3);
        round(std::slice::from_mut(&mut encoder), &[matrix(12, &mut random)]);
        let p = encoder.left(&matrix(12, &mut random)).unwrap();
        let mut restored: LowRank = postcard::from_bytes(&postcard::to_stdvec(&encoder).unwrap()).unwrap();
        let q = encoder.right(p.clone()).unwrap();
        assert_eq!(restored.right(p), Ok(q.clone()));
        assert_eq!(restored.finish(q.clone()), encoder.finish(q));
        assert!(encoder.right(vec![0.0; 7]).is_err());
    }
}
