//! Updates in fewer bytes.
//!
//! Some encodings are numbers that can be summed on the way (`bf16`, `f16`, the two thin matrices of [`LowRank`]): they go through any all-reduce. The
//! others are bytes that only make sense whole: they go through an all-gather, and everybody decodes everybody's in the order of ranks,
//! which makes results the same bits on all peers. [`Encoding::way`] says which.
//!
//! What rounding leaves out is not lost where an encoder has *error feedback*: it is kept and added to the next update. **Invariant:** decoded +
//! kept = given + kept before, up to one rounding per element (exactly for [`TopK`]). That state belongs into a checkpoint; encoders are plain serde data.

mod factors;
mod low_rank;
mod narrow;
mod one_bit;
mod top_k;

pub use factors::{pack_factors, rebuild};
pub use low_rank::LowRank;
pub use narrow::{from_bf16, from_f16, to_bf16, to_f16};
pub use one_bit::OneBit;
pub use top_k::TopK;

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// An encoding, as a strategy names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Encoding {
    /// `f32` as they are.
    Plain,
    /// Each number rounded to `bf16`.
    Bf16,
    /// Each number rounded to `f16`.
    F16,
    /// A sign for each number, two sizes for each block; error feedback.
    OneBit {
        /// Numbers of a block.
        block: usize,
    },
    /// The largest numbers and where they are; error feedback.
    TopK {
        /// How many.
        keep: usize,
    },
    /// A product of two thin matrices (`PowerSGD`); error feedback.
    LowRank {
        /// Columns of each.
        rank: usize,
    },
    /// The vectors that the update is a sum of products of; exact.
    SufficientFactors {
        /// How many pairs a peer brings.
        pairs: usize,
    },
}

/// How an encoded update reaches everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Summed on the way.
    AllReduce,
    /// Everybody gets everybody's.
    AllGather,
}

impl Encoding {
    /// Bytes of one peer's update of a `rows` × `columns` matrix (a vector is a matrix of one column). At most: [`Encoding::TopK`] may need fewer.
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

    /// How it travels.
    #[must_use]
    pub fn way(self) -> Way {
        match self {
            Self::Plain | Self::Bf16 | Self::F16 | Self::LowRank { .. } => Way::AllReduce,
            Self::OneBit { .. } | Self::TopK { .. } | Self::SufficientFactors { .. } => Way::AllGather,
        }
    }

    /// Bytes that one of `peers` sends so that all have the sum: `2 (peers − 1) / peers` of an update by all-reduce, `peers − 1` by all-gather.
    #[must_use]
    pub fn sent_bytes(self, rows: usize, columns: usize, peers: usize) -> f64 {
        let (one, others) = (self.bytes(rows, columns) as f64, peers.saturating_sub(1) as f64);
        match self.way() {
            Way::AllReduce => 2.0 * one * others / peers.max(1) as f64,
            Way::AllGather => one * others,
        }
    }
}

/// `given` plus what was kept, after a check that all can be encoded.
fn with_kept(given: &[f32], kept: &[f32]) -> Result<Vec<f32>> {
    if given.len() != kept.len() {
        return Err(Error::WrongVector { expected: kept.len(), found: given.len() });
    }
    let sums: Vec<f32> = given.iter().zip(kept).map(|(given, kept)| given + kept).collect();
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
        let bytes = |encoding: Encoding| encoding.bytes(1000, 100);
        assert_eq!(bytes(Encoding::Plain), 400_000);
        assert_eq!(bytes(Encoding::Bf16), 200_000);
        assert_eq!(bytes(Encoding::OneBit { block: 1000 }), 100 * (8 + 125));
        assert_eq!(bytes(Encoding::LowRank { rank: 2 }), 8800);
        assert_eq!(bytes(Encoding::SufficientFactors { pairs: 32 }), 140_800);
        assert_eq!(bytes(Encoding::TopK { keep: 10 }), 4 + 10 * (3 + 4));
        assert!((Encoding::Plain.sent_bytes(1000, 100, 4) - 600_000.0).abs() < 1e-6);
        assert!((Encoding::TopK { keep: 10 }.sent_bytes(1000, 100, 4) - 3.0 * 74.0).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_encoded_is_refused() {
        assert!(matches!(with_kept(&[1.0, f32::NAN], &[0.0; 2]), Err(Error::NotFinite { index: 1, .. })));
        assert!(matches!(with_kept(&[f32::MAX], &[f32::MAX]), Err(Error::NotFinite { index: 0, .. })));
        assert!(matches!(with_kept(&[1.0], &[0.0; 2]), Err(Error::WrongVector { expected: 2, found: 1 })));
    }
}
