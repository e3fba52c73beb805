//! Compressor of one vector or matrix on one peer, with the state that it keeps between updates.
//!
//! **Invariant:** a collective that fails, here or on another peer, leaves the compressor
//! unchanged, so that the update can be skipped. Compressors are plain serde data: a checkpoint
//! holds each peer's own, and a resumed run has the same bits.

use super::{LowRankCompressor, OneBitCompressor, TopKCompressor};
use crate::{Compression, Error, Result};
use serde::{Deserialize, Serialize};

/// Seed of low-rank compressors. All peers must use the same; its value does not matter.
const SEED: u64 = 0x9d5c_3a1f_7b2e_6048;

/// Compressor of one vector or matrix on one peer.
///
/// ```
/// use hemiola_collective_proto::{Compressor, Compression};
/// let compressor = Compressor::for_matrix(Compression::LowRank { rank: 4 }, 1000, 1000)?;
/// assert_eq!(compressor.sent_bytes(2), 4.0 * 4.0 * 2000.0);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compressor {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) state: CompressorState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum CompressorState {
    Plain,
    Bf16,
    F16,
    OneBit {
        block: usize,
        compressor: OneBitCompressor,
    },
    TopK {
        keep: usize,
        compressor: TopKCompressor,
    },
    LowRank {
        rank: usize,
        compressor: LowRankCompressor,
    },
    /// Stateless: the factors come with each call.
    Factors,
}

impl Compressor {
    /// Creates a compressor for vectors of `length` elements. [`Compression::LowRank`] needs a
    /// matrix, and [`Compression::SufficientFactors`] takes factors instead of a compressor.
    pub fn new(compression: Compression, length: usize) -> Result<Self> {
        match compression {
            Compression::LowRank { .. } => {
                let problem = "a vector has no low-rank form; use `Compressor::for_matrix`";
                Err(Error::InvalidCompressor { compression, rows: length, columns: 1, problem })
            }
            _ => Self::for_matrix(compression, length, 1),
        }
    }

    /// Creates a compressor for row-major matrices of this shape.
    pub fn for_matrix(compression: Compression, rows: usize, columns: usize) -> Result<Self> {
        let bad = |problem| Err(Error::InvalidCompressor { compression, rows, columns, problem });
        let length = length(compression, rows, columns)?;
        let state = match compression {
            Compression::Plain => CompressorState::Plain,
            Compression::Bf16 => CompressorState::Bf16,
            Compression::F16 => CompressorState::F16,
            Compression::OneBit { block: 0 } => return bad("a block needs at least one element"),
            Compression::TopK { keep: 0 } | Compression::LowRank { rank: 0 } => {
                return bad("it would never send anything");
            }
            Compression::OneBit { block } => {
                CompressorState::OneBit { block, compressor: OneBitCompressor::new(length, block) }
            }
            Compression::TopK { keep } => CompressorState::TopK { keep, compressor: TopKCompressor::new(length, keep) },
            Compression::LowRank { rank } => {
                CompressorState::LowRank { rank, compressor: LowRankCompressor::new(rows, columns, rank, SEED) }
            }
            Compression::SufficientFactors { .. } => {
                return bad("factors cannot be recovered from their sum; use `all_reduce_factors`");
            }
        };
        Ok(Self { rows, columns, state })
    }

    /// Creates a compressor for factors of matrices of this shape.
    pub(super) fn for_factors(rows: usize, columns: usize) -> Result<Self> {
        length(Compression::SufficientFactors { pairs: 0 }, rows, columns)?;
        Ok(Self { rows, columns, state: CompressorState::Factors })
    }

    /// Compression method of this compressor.
    #[must_use]
    pub fn compression(&self) -> Compression {
        match self.state {
            CompressorState::Plain => Compression::Plain,
            CompressorState::Bf16 => Compression::Bf16,
            CompressorState::F16 => Compression::F16,
            CompressorState::OneBit { block, .. } => Compression::OneBit { block },
            CompressorState::TopK { keep, .. } => Compression::TopK { keep },
            CompressorState::LowRank { rank, .. } => Compression::LowRank { rank },
            CompressorState::Factors => Compression::SufficientFactors { pairs: 0 },
        }
    }

    /// Number of elements per vector.
    #[must_use]
    pub fn length(&self) -> usize {
        self.rows * self.columns
    }

    /// Residual: the part of the given updates that this peer has not sent yet. Empty without error
    /// feedback.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        match &self.state {
            CompressorState::OneBit { compressor, .. } => compressor.residual(),
            CompressorState::TopK { compressor, .. } => compressor.residual(),
            CompressorState::LowRank { compressor, .. } => compressor.residual(),
            CompressorState::Plain | CompressorState::Bf16 | CompressorState::F16 | CompressorState::Factors => &[],
        }
    }

    /// Sets the residual, which must have the length of the vectors. Has no effect without error
    /// feedback.
    pub fn set_residual(&mut self, residual: Vec<f32>) -> Result<()> {
        if residual.len() != self.length() {
            let (compression, rows, columns) = (self.compression(), self.rows, self.columns);
            let problem = "its residual has another length";
            return Err(Error::InvalidCompressor { compression, rows, columns, problem });
        }
        drop(self.replace_residual(residual));
        Ok(())
    }

    /// Copies the compressor without its residual, for a checkpoint that keeps residuals on their
    /// own. The copy needs [`set_residual`](Self::set_residual) before its next use.
    #[must_use]
    pub fn without_residual(&self) -> Self {
        let mut copy = self.clone();
        drop(copy.replace_residual(Vec::new()));
        copy
    }

    /// Bytes that one of `peers` sends per vector; see [`Compression::sent_bytes`].
    #[must_use]
    pub fn sent_bytes(&self, peers: usize) -> f64 {
        self.compression().sent_bytes(self.rows, self.columns, peers)
    }

    /// Bytes of the largest vector that is summed in transit; 0 if none is.
    #[must_use]
    pub fn summed_bytes(&self) -> usize {
        match &self.state {
            CompressorState::Plain => 4 * self.length(),
            CompressorState::LowRank { compressor, .. } => {
                let (p, q) = compressor.lengths();
                4 * p.max(q)
            }
            _ => 0,
        }
    }

    /// Replaces the residual and returns the previous one.
    pub(super) fn replace_residual(&mut self, residual: Vec<f32>) -> Vec<f32> {
        match &mut self.state {
            CompressorState::OneBit { compressor, .. } => compressor.replace_residual(residual),
            CompressorState::TopK { compressor, .. } => compressor.replace_residual(residual),
            CompressorState::LowRank { compressor, .. } => compressor.replace_residual(residual),
            CompressorState::Plain | CompressorState::Bf16 | CompressorState::F16 | CompressorState::Factors => {
                Vec::new()
            }
        }
    }
}

/// Number of elements of a matrix, checked against overflow.
fn length(compression: Compression, rows: usize, columns: usize) -> Result<usize> {
    let length = rows.checked_mul(columns).filter(|&length| length <= isize::MAX as usize / 4);
    let problem = "it does not fit into memory";
    length.ok_or(Error::InvalidCompressor { compression, rows, columns, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_residual_is_restored_on_its_own() {
        for compression in
            [Compression::OneBit { block: 2 }, Compression::TopK { keep: 1 }, Compression::LowRank { rank: 1 }]
        {
            let mut compressor = Compressor::for_matrix(compression, 2, 3).unwrap();
            compressor.set_residual(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
            let mut copy = compressor.without_residual();
            assert!(copy.residual().is_empty());
            assert!(copy.set_residual(vec![0.0; 5]).unwrap_err().to_string().contains("another length"));
            copy.set_residual(compressor.residual().to_vec()).unwrap();
            assert_eq!(copy, compressor);
        }
    }

    #[test]
    fn invalid_compressors_report_the_reason() {
        for (compression, word) in [
            (Compression::OneBit { block: 0 }, "at least one"),
            (Compression::TopK { keep: 0 }, "never"),
            (Compression::LowRank { rank: 0 }, "never"),
            (Compression::SufficientFactors { pairs: 3 }, "all_reduce_factors"),
        ] {
            let error = Compressor::for_matrix(compression, 3, 2).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("3 × 2"), "{error}");
        }
        assert!(Compressor::new(Compression::LowRank { rank: 1 }, 6).unwrap_err().to_string().contains("for_matrix"));
        assert!(Compressor::for_matrix(Compression::Bf16, usize::MAX, 2).is_err());
    }

    #[test]
    fn a_compressor_reports_its_method() {
        for compression in [
            Compression::Plain,
            Compression::Bf16,
            Compression::F16,
            Compression::OneBit { block: 9 },
            Compression::TopK { keep: 99 },
            Compression::LowRank { rank: 2 },
        ] {
            let compressor = Compressor::for_matrix(compression, 3, 2).unwrap();
            assert_eq!((compressor.compression(), compressor.length()), (compression, 6));
            let back: Compressor = postcard::from_bytes(&postcard::to_stdvec(&compressor).unwrap()).unwrap();
            assert_eq!(back, compressor);
        }
    }
}
