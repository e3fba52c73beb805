//! Updates in fewer bytes.
//!
//! The two thin matrices of [`LowRank`] can be summed on the way: they go through any all-reduce. `bf16` and `f16` could be too, with a rounding at every step; instead every
//! peer gets all parts of a chunk, sums them in `f32` and tells the others: the same bytes, and two roundings however many peers there are. The
//! others are bytes that only make sense whole: they go through an all-gather, and everybody decodes everybody's in the order of ranks,
//! which makes results the same bits on all peers. The table in `exchange` says which goes how.
//!
//! An [`Encoder`] is the encoding of one vector with what it keeps; an [`Exchange`] is one encoded collective, for one [`Goal`] or another, as collectives one after the other.
//!
//! What rounding leaves out is not lost where an encoder has *error feedback*: it is kept and added to the next update. **Invariant:** decoded +
//! kept = given + kept before, up to one rounding per element (exactly for [`TopK`]). That state belongs into a checkpoint; encoders are plain serde data.

mod buffer;
mod encoder;
mod exchange;
mod factors;
mod goal;
mod low_rank;
mod narrow;
mod one_bit;
mod top_k;

pub use buffer::Buffer;
pub use encoder::Encoder;
pub use exchange::{Exchange, Label, Leg, Next, Place};
pub use factors::{pack_factors, rebuild};
pub use goal::Goal;
pub use low_rank::LowRank;
pub use narrow::{from_bf16, from_f16, to_bf16, to_f16};
pub use one_bit::OneBit;
pub use top_k::TopK;

use crate::{Algorithm, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

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

/// Bytes in which a peer says how long its part is.
const LENGTH_BYTES: f64 = 8.0;

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

    /// Whether what an update does not tell is kept for the next.
    #[must_use]
    pub fn has_feedback(self) -> bool {
        matches!(self, Self::OneBit { .. } | Self::TopK { .. } | Self::LowRank { .. })
    }

    /// Bytes that one of `peers` sends so that all have the sum, without the headers of messages: `2 (peers − 1) / peers` of an update by all-reduce or in chunks (which are equally
    /// long, so some may be padded), `peers − 1` of them by all-gather. In an all-reduce this is the mean over all peers, whichever algorithm it goes by but [`Algorithm::Doubling`],
    /// which is for short ones: [`Encoding::sent_bytes_for`] knows that too. At most, where [`Encoding::bytes`] is.
    #[must_use]
    pub fn sent_bytes(self, rows: usize, columns: usize, peers: usize) -> f64 {
        self.sent_bytes_for(Goal::AllReduce, Algorithm::Ring, (rows, columns), peers)
    }

    /// Bytes that one of `peers` sends in an exchange of `rows` × `columns` matrices for some goal, the mean over all peers, without the headers of messages. At most, where [`Encoding::bytes`] is. The
    /// algorithm is that of all-reduces, if there are some. Infinite, where there is no such exchange.
    #[must_use]
    pub fn sent_bytes_for(
        self,
        goal: Goal,
        algorithm: Algorithm,
        (rows, columns): (usize, usize),
        peers: usize,
    ) -> f64 {
        if !goal.allows(self) {
            return f64::INFINITY;
        }
        let (one, peers_and_me, others) =
            (self.bytes(rows, columns) as f64, peers.max(1) as f64, peers.saturating_sub(1) as f64);
        // Of the longest chunk, by itself.
        let chunk = self.bytes(rows.saturating_mul(columns).div_ceil(peers.max(1)), 1) as f64;
        let (words, is_string) = (LENGTH_BYTES * others, matches!(self, Self::OneBit { .. } | Self::TopK { .. }));
        match (goal, self) {
            (_, Self::LowRank { .. }) | (Goal::AllReduce, Self::Plain) => one * algorithm.sent_vectors(peers),
            (Goal::AllReduce, Self::Bf16 | Self::F16) => 2.0 * chunk * others,
            (Goal::AllReduce | Goal::AllGather, Self::TopK { .. } | Self::SufficientFactors { .. }) => {
                words + one * others
            }
            (Goal::AllReduce | Goal::AllGather, _) => one * others,
            (Goal::ReduceScatter | Goal::AllToAll, _) if is_string => words + chunk * others,
            (Goal::ReduceScatter, Self::Bf16 | Self::F16) => chunk * others,
            (Goal::Reduce { .. }, Self::Bf16 | Self::F16) => chunk * others + chunk * others / peers_and_me,
            (Goal::Reduce { .. }, _) if is_string => words + one * others / peers_and_me,
            (Goal::Broadcast { .. }, Self::TopK { .. }) => (one + LENGTH_BYTES) * others / peers_and_me,
            (Goal::ReduceScatter | Goal::Reduce { .. } | Goal::Broadcast { .. } | Goal::AllToAll, _) => {
                one * others / peers_and_me
            }
        }
    }
}

impl Encoding {
    /// Of some encodings that are all precise enough, the one that [sends the fewest bytes](Encoding::sent_bytes); of equals the first.
    ///
    /// ```
    /// use hemiola_collective_proto::Encoding;
    /// let precise = [Encoding::Plain, Encoding::SufficientFactors { pairs: 32 }];
    /// assert_eq!(Encoding::cheapest(&precise, 4096, 4096, 8), Some(precise[1]));
    /// assert_eq!(Encoding::cheapest(&precise, 4096, 4096, 800), Some(precise[0]));
    /// ```
    #[must_use]
    pub fn cheapest(encodings: &[Self], rows: usize, columns: usize, peers: usize) -> Option<Self> {
        let bytes = |encoding: &Self| encoding.sent_bytes(rows, columns, peers);
        encodings.iter().copied().min_by(|a, b| bytes(a).total_cmp(&bytes(b)))
    }

    /// The greatest parameter that can be told to other peers.
    const GREATEST: u64 = (1 << 56) - 1;

    /// As it is told to other peers: which, from 1, and its parameter.
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
        (code, (parameter as u64).min(Self::GREATEST))
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

impl fmt::Display for Encoding {
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
        assert!((Encoding::TopK { keep: 10 }.sent_bytes(1000, 100, 4) - 3.0 * (74.0 + 8.0)).abs() < 1e-6);
        assert!((Encoding::Bf16.sent_bytes(7, 1, 3) - 2.0 * 2.0 * 2.0 * 3.0).abs() < 1e-6, "chunks of 3 of 7");
        assert!((Encoding::OneBit { block: 8 }.sent_bytes(8, 1, 5) - 4.0 * 9.0).abs() < 1e-6);
    }

    #[test]
    fn what_cannot_be_encoded_is_refused() {
        assert!(matches!(with_kept(&[1.0, f32::NAN], &[0.0; 2]), Err(Error::NotFinite { index: 1, .. })));
        assert!(matches!(with_kept(&[f32::MAX], &[f32::MAX]), Err(Error::NotFinite { index: 0, .. })));
        assert!(matches!(with_kept(&[1.0], &[0.0; 2]), Err(Error::WrongVector { expected: 2, found: 1 })));
    }
}
