//! What compressors have not sent, over a restart.
//!
//! A residual belongs to its peer and variable, whatever the units of the plan. Where the new plan
//! compresses the piece with error feedback, the residual returns into the compressor. Where it
//! does not, the residual joins the next gradient of the piece, which is the same sum. A gradient
//! in structured form has no place for it; the residual then waits, and checkpoints keep it.
//! **Invariant:** the sum over all peers of what was not sent is neither lost nor applied twice.

use crate::error::Result;
use crate::ids::PieceId;
use crate::plan::{SyncPlan, SyncUnit};
use hemiola_collective_proto::{Compression, Compressor};

/// State of compressors that an earlier run has left on this peer.
#[derive(Clone, Debug, Default)]
pub struct ErrorFeedback {
    /// By piece: part of the gradients that was not sent; empty if there is none. May be shorter
    /// than the list of pieces.
    pub carried: Vec<Vec<f32>>,
    /// Compressors without their residuals, by piece, for units of one piece.
    pub saved: Vec<(PieceId, Compressor)>,
}

impl ErrorFeedback {
    /// Creates the compressor of each unit, and moves residuals into those with error feedback.
    pub(crate) fn compressors(&mut self, plan: &SyncPlan) -> Result<Vec<Option<Compressor>>> {
        self.carried.resize(plan.pieces.len(), Vec::new());
        plan.units.iter().map(|unit| self.compressor(plan, unit)).collect()
    }

    fn compressor(&mut self, plan: &SyncPlan, unit: &SyncUnit) -> Result<Option<Compressor>> {
        if !unit.is_compressed() {
            return Ok(None);
        }
        let first = unit.pieces[0];
        let piece = &plan.pieces[first];
        let fits = |compressor: &Compressor| {
            compressor.compression() == unit.compression && compressor.length() == unit.length
        };
        let saved = self.saved.iter().find(|(id, compressor)| *id == first && fits(compressor));
        let mut compressor = match (saved, unit.compression) {
            (Some((_, compressor)), _) => compressor.clone(),
            (None, Compression::LowRank { .. }) => Compressor::for_matrix(unit.compression, piece.rows, piece.width)?,
            (None, compression) => Compressor::new(compression, unit.length)?,
        };
        if unit.compression.has_error_feedback() {
            let mut residual = Vec::with_capacity(unit.length);
            for id in &unit.pieces {
                let end = residual.len() + plan.pieces[*id].layout.len();
                residual.append(&mut self.carried[*id]);
                residual.resize(end, 0.0);
            }
            compressor.set_residual(residual)?;
        }
        Ok(Some(compressor))
    }
}
