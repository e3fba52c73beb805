//! Gradient compression: updates in fewer bytes, with error feedback.
//!
//! The two thin matrices of [`LowRankCompressor`] can be summed in transit: they go through any
//! all-reduce. `bf16` and `f16` could be as well, with a rounding at every step. Instead, every
//! peer receives all parts of one chunk, sums them in `f32` and sends the sum to the others: the
//! same bytes, and two roundings whatever the number of peers. One-bit and top-k payloads cannot be
//! added without decompression: they go through an all-gather, and every peer decompresses all of
//! them in the order of ranks, so results have the same bits on all peers. The table in
//! `collective` lists the collectives of each compression.
//!
//! A [`Compressor`] compresses one vector and holds its residual; a [`CompressedCollective`] is one
//! compressed collective, for any [`CollectiveGoal`], as a sequence of ordinary collectives.
//!
//! With *error feedback* the part of an update that was not sent, the *residual*, is kept and added
//! to the next update. **Invariant:** decompressed + residual = given + previous residual, up to
//! one rounding per element (exactly for [`TopKCompressor`]). The residual belongs into a
//! checkpoint; compressors are plain serde data.

mod buffer;
mod call;
mod collective;
mod compressor;
mod factors;
mod goal;
mod low_rank;
mod one_bit;
mod top_k;

pub use buffer::CompressedBuffer;
pub use call::{CompressedCall, StageEnd};
pub use collective::{CollectiveContext, CollectiveStage, CompressedCollective, CompressionLabel, NextStage};
pub use compressor::Compressor;
pub use factors::{pack_factors, rebuild};
pub use goal::CollectiveGoal;
pub use low_rank::LowRankCompressor;
pub use one_bit::OneBitCompressor;
pub use top_k::TopKCompressor;

use crate::{Algorithm, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Compression method, as named in a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Compression {
    /// No compression: `f32` elements.
    Plain,
    /// Each element rounded to `bf16`.
    Bf16,
    /// Each element rounded to `f16`.
    F16,
    /// One-bit quantization: a sign per element and two means per block; error feedback.
    OneBit {
        /// Number of elements per block.
        block: usize,
    },
    /// Top-k sparsification: the elements of largest magnitude and their indices; error feedback.
    TopK {
        /// Number of elements to send, k.
        keep: usize,
    },
    /// Low rank: a product of two thin matrices (`PowerSGD`); error feedback.
    LowRank {
        /// Number of columns of each thin matrix.
        rank: usize,
    },
    /// Sufficient factors: the vectors whose outer products sum up to the update; exact.
    SufficientFactors {
        /// Number of pairs per peer.
        pairs: usize,
    },
}

/// Bytes in which a peer announces the length of its payload.
const LENGTH_BYTES: f64 = 8.0;

impl Compression {
    /// Bytes of one peer's update of a `rows` × `columns` matrix (a vector is a matrix of one
    /// column). An upper bound for [`Compression::TopK`].
    #[must_use]
    pub fn bytes(self, rows: usize, columns: usize) -> u64 {
        let (m, n) = (rows as u64, columns as u64);
        let length = m.saturating_mul(n);
        match self {
            Self::Plain => length.saturating_mul(4),
            Self::Bf16 | Self::F16 => length.saturating_mul(2),
            Self::OneBit { block } => one_bit::bytes(length, block as u64),
            Self::TopK { keep } => top_k::bytes_at_most(length, keep as u64),
            Self::LowRank { rank } => (m + n).saturating_mul(4 * rank as u64),
            Self::SufficientFactors { pairs } => (m + n).saturating_mul(4 * pairs as u64),
        }
    }

    /// Returns true if the unsent part of an update is added to the next one (error feedback).
    #[must_use]
    pub fn has_error_feedback(self) -> bool {
        matches!(self, Self::OneBit { .. } | Self::TopK { .. } | Self::LowRank { .. })
    }

    /// Bytes that one of `peers` sends for an all-reduce, without message headers:
    /// `2 (peers − 1) / peers` of an update by all-reduce or in chunks (which have equal lengths,
    /// so some may be padded), `peers − 1` of them by all-gather. This is the mean over all peers
    /// for every algorithm except [`Algorithm::Doubling`], which is for short vectors and covered
    /// by [`Compression::sent_bytes_for`]. An upper bound where [`Compression::bytes`] is one.
    #[must_use]
    pub fn sent_bytes(self, rows: usize, columns: usize, peers: usize) -> f64 {
        self.sent_bytes_for(CollectiveGoal::AllReduce, Algorithm::Ring, (rows, columns), peers)
    }

    /// Bytes that one of `peers` sends in a compressed collective of `rows` × `columns` matrices,
    /// as a mean over all peers, without message headers. An upper bound where
    /// [`Compression::bytes`] is one. The algorithm is that of the all-reduces in it, if any.
    /// Infinite if the goal does not support the compression.
    #[must_use]
    pub fn sent_bytes_for(
        self,
        goal: CollectiveGoal,
        algorithm: Algorithm,
        (rows, columns): (usize, usize),
        peers: usize,
    ) -> f64 {
        if !goal.supports(self) {
            return f64::INFINITY;
        }
        let (one, peers_and_me, others) =
            (self.bytes(rows, columns) as f64, peers.max(1) as f64, peers.saturating_sub(1) as f64);
        // Bytes of the longest chunk, compressed on its own.
        let chunk = self.bytes(rows.saturating_mul(columns).div_ceil(peers.max(1)), 1) as f64;
        let (lengths, is_payload) = (LENGTH_BYTES * others, matches!(self, Self::OneBit { .. } | Self::TopK { .. }));
        match (goal, self) {
            (_, Self::LowRank { .. }) | (CollectiveGoal::AllReduce, Self::Plain) => one * algorithm.sent_vectors(peers),
            (CollectiveGoal::AllReduce, Self::Bf16 | Self::F16) => 2.0 * chunk * others,
            (
                CollectiveGoal::AllReduce | CollectiveGoal::AllGather,
                Self::TopK { .. } | Self::SufficientFactors { .. },
            ) => lengths + one * others,
            (CollectiveGoal::AllReduce | CollectiveGoal::AllGather, _) => one * others,
            (CollectiveGoal::ReduceScatter | CollectiveGoal::AllToAll, _) if is_payload => lengths + chunk * others,
            (CollectiveGoal::ReduceScatter, Self::Bf16 | Self::F16) => chunk * others,
            (CollectiveGoal::Reduce { .. }, Self::Bf16 | Self::F16) => chunk * others + chunk * others / peers_and_me,
            (CollectiveGoal::Reduce { .. }, _) if is_payload => lengths + one * others / peers_and_me,
            (CollectiveGoal::Broadcast { .. }, Self::TopK { .. }) => (one + LENGTH_BYTES) * others / peers_and_me,
            (
                CollectiveGoal::ReduceScatter
                | CollectiveGoal::Reduce { .. }
                | CollectiveGoal::Broadcast { .. }
                | CollectiveGoal::AllToAll,
                _,
            ) => one * others / peers_and_me,
        }
    }
}

impl Compression {
    /// Returns the compression that [sends the fewest bytes](Compression::sent_bytes) among several
    /// that are precise enough; of equals the first.
    ///
    /// ```
    /// use hemiola_collective_proto::Compression;
    /// let precise = [Compression::Plain, Compression::SufficientFactors { pairs: 32 }];
    /// assert_eq!(Compression::cheapest(&precise, 4096, 4096, 8), Some(precise[1]));
    /// assert_eq!(Compression::cheapest(&precise, 4096, 4096, 800), Some(precise[0]));
    /// ```
    #[must_use]
    pub fn cheapest(compressions: &[Self], rows: usize, columns: usize, peers: usize) -> Option<Self> {
        let bytes = |compression: &Self| compression.sent_bytes(rows, columns, peers);
        compressions.iter().copied().min_by(|a, b| bytes(a).total_cmp(&bytes(b)))
    }

    /// Largest parameter that fits into a message header.
    const MAX_PARAMETER: u64 = (1 << 56) - 1;

    /// Wire format: the code of the method, from 1, and its parameter.
    pub(crate) fn code(self) -> (u8, u64) {
        let (code, parameter) = match self {
            Self::Plain => (1, 0),
            Self::Bf16 => (2, 0),
            Self::F16 => (3, 0),
            Self::OneBit { block } => (4, block),
            Self::TopK { keep } => (5, keep),
            Self::LowRank { rank } => (6, rank),
            Self::SufficientFactors { pairs } => (7, pairs),
        };
        (code, (parameter as u64).min(Self::MAX_PARAMETER))
    }

    pub(crate) fn from_code(code: u8, parameter: u64) -> Option<Self> {
        let parameter = usize::try_from(parameter).ok()?;
        Some(match code {
            1 => Self::Plain,
            2 => Self::Bf16,
            3 => Self::F16,
            4 => Self::OneBit { block: parameter },
            5 => Self::TopK { keep: parameter },
            6 => Self::LowRank { rank: parameter },
            7 => Self::SufficientFactors { pairs: parameter },
            _ => return None,
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => formatter.write_str("f32"),
            Self::Bf16 => formatter.write_str("bf16"),
            Self::F16 => formatter.write_str("f16"),
            Self::OneBit { block } => write!(formatter, "one bit, blocks of {block}"),
            Self::TopK { keep } => write!(formatter, "top-k, {keep} kept"),
            Self::LowRank { rank } => write!(formatter, "low rank {rank}"),
            Self::SufficientFactors { pairs: 0 } => formatter.write_str("sufficient factors"),
            Self::SufficientFactors { pairs } => write!(formatter, "sufficient factors, {pairs} pairs"),
        }
    }
}

/// Returns `given` plus the residual, after a check that all sums are finite.
fn add_residual(given: &[f32], residual: &[f32]) -> Result<Vec<f32>> {
    if given.len() != residual.len() {
        return Err(Error::WrongVectorLength { expected: residual.len(), found: given.len() });
    }
    let sums: Vec<f32> = given.iter().zip(residual).map(|(given, residual)| given + residual).collect();
    match sums.iter().position(|sum| !sum.is_finite()) {
        None => Ok(sums),
        Some(index) => Err(Error::NotFinite { index, value: sums[index] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_can_be_compared() {
        let bytes = |compression: Compression| compression.bytes(1000, 100);
        assert_eq!(bytes(Compression::Plain), 400_000);
        assert_eq!(bytes(Compression::Bf16), 200_000);
        assert_eq!(bytes(Compression::OneBit { block: 1000 }), 100 * (8 + 125));
        assert_eq!(bytes(Compression::LowRank { rank: 2 }), 8800);
        assert_eq!(bytes(Compression::SufficientFactors { pairs: 32 }), 140_800);
        assert_eq!(bytes(Compression::TopK { keep: 10 }), 4 + 10 * (3 + 4));
        assert!((Compression::Plain.sent_bytes(1000, 100, 4) - 600_000.0).abs() < 1e-6);
        assert!((Compression::TopK { keep: 10 }.sent_bytes(1000, 100, 4) - 3.0 * (74.0 + 8.0)).abs() < 1e-6);
        assert!((Compression::Bf16.sent_bytes(7, 1, 3) - 2.0 * 2.0 * 2.0 * 3.0).abs() < 1e-6, "chunks of 3 of 7");
        assert!((Compression::OneBit { block: 8 }.sent_bytes(8, 1, 5) - 4.0 * 9.0).abs() < 1e-6);
    }

    #[test]
    fn non_finite_input_is_refused() {
        assert!(matches!(add_residual(&[1.0, f32::NAN], &[0.0; 2]), Err(Error::NotFinite { index: 1, .. })));
        assert!(matches!(add_residual(&[f32::MAX], &[f32::MAX]), Err(Error::NotFinite { index: 0, .. })));
        assert!(matches!(add_residual(&[1.0], &[0.0; 2]), Err(Error::WrongVectorLength { expected: 2, found: 1 })));
    }
}
