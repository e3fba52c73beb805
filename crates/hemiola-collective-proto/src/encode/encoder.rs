//! The encoding of one vector or matrix on one peer, with all that it keeps from one update to the next.
//!
//! **Invariant:** an all-reduce that fails, here or elsewhere, leaves an encoder as it was, so that an update can be left out. Encoders are plain serde data: a
//! checkpoint holds each peer's own, and a run that goes on from it has the same bits.

use super::{LowRank, OneBit, TopK};
use crate::{Encoding, Error, Result};
use serde::{Deserialize, Serialize};

/// The seed of low-rank encoders. All peers must have the same, and which one does not matter.
const SEED: u64 = 0x9d5c_3a1f_7b2e_6048;

/// The encoder of one vector or matrix on one peer.
///
/// ```
/// use hemiola_collective_proto::{Encoder, Encoding};
/// let encoder = Encoder::for_matrix(Encoding::LowRank { rank: 4 }, 1000, 1000)?;
/// assert_eq!(encoder.sent_bytes(2), 4.0 * 4.0 * 2000.0);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum State {
    Plain,
    Bf16,
    F16,
    OneBit {
        block: usize,
        encoder: OneBit,
    },
    TopK {
        keep: usize,
        encoder: TopK,
    },
    LowRank {
        rank: usize,
        encoder: LowRank,
    },
    /// Nothing to keep: pairs come with each call.
    Factors,
}

impl Encoder {
    /// For vectors of so many numbers. [`Encoding::LowRank`] needs a matrix, and [`Encoding::SufficientFactors`] needs the factors instead of an encoder.
    pub fn new(encoding: Encoding, length: usize) -> Result<Self> {
        match encoding {
            Encoding::LowRank { .. } => {
                let problem = "a vector has no rank to lower; use `Encoder::for_matrix`";
                Err(Error::BadEncoder { encoding, rows: length, columns: 1, problem })
            }
            _ => Self::for_matrix(encoding, length, 1),
        }
    }

    /// For matrices of this shape, row by row.
    pub fn for_matrix(encoding: Encoding, rows: usize, columns: usize) -> Result<Self> {
        let bad = |problem| Err(Error::BadEncoder { encoding, rows, columns, problem });
        let length = length(encoding, rows, columns)?;
        let state = match encoding {
            Encoding::Plain => State::Plain,
            Encoding::Bf16 => State::Bf16,
            Encoding::F16 => State::F16,
            Encoding::OneBit { block: 0 } => return bad("a block needs at least one number"),
            Encoding::TopK { keep: 0 } | Encoding::LowRank { rank: 0 } => return bad("it would never tell anything"),
            Encoding::OneBit { block } => State::OneBit { block, encoder: OneBit::new(length, block) },
            Encoding::TopK { keep } => State::TopK { keep, encoder: TopK::new(length, keep) },
            Encoding::LowRank { rank } => State::LowRank { rank, encoder: LowRank::new(rows, columns, rank, SEED) },
            Encoding::SufficientFactors { .. } => {
                return bad("a sum of all products does not tell its factors; reduce the factors themselves");
            }
        };
        Ok(Self { rows, columns, state })
    }

    /// For factors of matrices of this shape.
    pub(super) fn for_factors(rows: usize, columns: usize) -> Result<Self> {
        length(Encoding::SufficientFactors { pairs: 0 }, rows, columns)?;
        Ok(Self { rows, columns, state: State::Factors })
    }

    /// Which encoding it is.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        match self.state {
            State::Plain => Encoding::Plain,
            State::Bf16 => Encoding::Bf16,
            State::F16 => Encoding::F16,
            State::OneBit { block, .. } => Encoding::OneBit { block },
            State::TopK { keep, .. } => Encoding::TopK { keep },
            State::LowRank { rank, .. } => Encoding::LowRank { rank },
            State::Factors => Encoding::SufficientFactors { pairs: 0 },
        }
    }

    /// Numbers of each vector.
    #[must_use]
    pub fn length(&self) -> usize {
        self.rows * self.columns
    }

    /// What this peer has not told yet of what it was given. Nothing, where there is no error feedback.
    #[must_use]
    pub fn kept(&self) -> &[f32] {
        match &self.state {
            State::OneBit { encoder, .. } => encoder.kept(),
            State::TopK { encoder, .. } => encoder.kept(),
            State::LowRank { encoder, .. } => encoder.kept(),
            State::Plain | State::Bf16 | State::F16 | State::Factors => &[],
        }
    }

    /// Bytes that one of `peers` sends for each vector: see [`Encoding::sent_bytes`].
    #[must_use]
    pub fn sent_bytes(&self, peers: usize) -> f64 {
        self.encoding().sent_bytes(self.rows, self.columns, peers)
    }

    /// Bytes of the largest vector that is summed on the way, if one is.
    #[must_use]
    pub fn summed_bytes(&self) -> usize {
        match &self.state {
            State::Plain => 4 * self.length(),
            State::LowRank { encoder, .. } => {
                let (p, q) = encoder.lengths();
                4 * p.max(q)
            }
            _ => 0,
        }
    }

    /// Puts back what was kept before; what was kept until now.
    pub(super) fn put_back(&mut self, kept: Vec<f32>) -> Vec<f32> {
        match &mut self.state {
            State::OneBit { encoder, .. } => encoder.put_back(kept),
            State::TopK { encoder, .. } => encoder.put_back(kept),
            State::LowRank { encoder, .. } => encoder.put_back(kept),
            State::Plain | State::Bf16 | State::F16 | State::Factors => Vec::new(),
        }
    }
}

/// Numbers in a matrix.
fn length(encoding: Encoding, rows: usize, columns: usize) -> Result<usize> {
    let length = rows.checked_mul(columns).filter(|&length| length <= isize::MAX as usize / 4);
    let problem = "no memory holds that many";
    length.ok_or(Error::BadEncoder { encoding, rows, columns, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoders_that_cannot_be_say_why() {
        for (encoding, word) in [
            (Encoding::OneBit { block: 0 }, "at least one"),
            (Encoding::TopK { keep: 0 }, "never"),
            (Encoding::LowRank { rank: 0 }, "never"),
            (Encoding::SufficientFactors { pairs: 3 }, "factors themselves"),
        ] {
            let error = Encoder::for_matrix(encoding, 3, 2).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("3 × 2"), "{error}");
        }
        assert!(Encoder::new(Encoding::LowRank { rank: 1 }, 6).unwrap_err().to_string().contains("for_matrix"));
        assert!(Encoder::for_matrix(Encoding::Bf16, usize::MAX, 2).is_err());
    }

    #[test]
    fn an_encoder_knows_what_it_is() {
        for encoding in [
            Encoding::Plain,
            Encoding::Bf16,
            Encoding::F16,
            Encoding::OneBit { block: 9 },
            Encoding::TopK { keep: 99 },
            Encoding::LowRank { rank: 2 },
        ] {
            let encoder = Encoder::for_matrix(encoding, 3, 2).unwrap();
            assert_eq!((encoder.encoding(), encoder.length()), (encoding, 6));
            let back: Encoder = postcard::from_bytes(&postcard::to_stdvec(&encoder).unwrap()).unwrap();
            assert_eq!(back, encoder);
        }
    }
}
