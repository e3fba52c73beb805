//! Totals of a step over all peers: examples, loss, and the norm of all gradients.
//!
//! **Invariant:** the totals of a step are summed once, in the order of steps. Every update of the
//! step waits for the number of examples and, with norm clipping, for the norm.

use crate::clip::GradientClip;
use crate::effect::{CollectiveId, CollectiveOp, CollectiveSource, SyncChannel, SyncEffect};
use crate::error::{Error, Result};
use crate::kernel::UpdateKernel;
use crate::step_progress::NormState;
use crate::sync_node::SyncNode;

impl<K: UpdateKernel> SyncNode<K> {
    /// Event: batch sizes and losses of all peers are summed.
    pub(crate) fn complete_counts(&mut self, step: u64, counts: &[f64]) -> Result<()> {
        let &[examples, losses] = counts else {
            return Err(Error::Driver { step: step + 1, problem: "a sum of two numbers has another length" });
        };
        if examples == 0.0 {
            return Err(Error::EmptyStep { step: step + 1 });
        }
        let loss = losses / examples;
        self.check_loss(step, loss)?;
        let problem = "counts completed for a step that is not in flight";
        let progress = self.steps.get_mut(&step).ok_or(Error::Driver { step: step + 1, problem })?;
        progress.total = Some(examples);
        self.effects.push_back(SyncEffect::RecordLoss { step, loss });
        self.retire_step(step);
        Ok(())
    }

    /// Uses the examples and loss of this peer as the totals of a step in which nothing is summed
    /// over peers.
    pub(crate) fn adopt_own_totals(&mut self, step: u64, examples: u64, loss: f64) -> Result<()> {
        self.check_loss(step, loss)?;
        if let Some(progress) = self.steps.get_mut(&step) {
            progress.total = Some(examples as f64);
        }
        if examples > 0 {
            self.effects.push_back(SyncEffect::RecordLoss { step, loss });
        }
        self.retire_step(step);
        Ok(())
    }

    fn check_loss(&self, step: u64, loss: f64) -> Result<()> {
        if !loss.is_finite() {
            let mut pieces = self.plan.pieces.iter().zip(&self.values);
            let bad = pieces.find(|(_, values)| values.iter().any(|value| !value.is_finite()));
            let quantity = bad.map_or("the loss".to_owned(), |(piece, _)| {
                format!("the loss (and a value of `{}`)", self.plan.name(piece.variable))
            });
            return Err(Error::NotFinite { step: step + 1, quantity, last_checkpoint: self.last_checkpoint.clone() });
        }
        Ok(())
    }

    /// Starts the sum of squared norms, once this peer has all gradients that it updates.
    pub(crate) fn start_norm(&mut self) -> bool {
        let (Some(GradientClip::Norm(_)), step) = (self.clip, self.next_norm_step) else { return false };
        let Some(progress) = self.steps.get_mut(&step) else { return false };
        let complete = progress.complete_units == self.updated_units && progress.total.is_some();
        if progress.norm != NormState::Incomplete || !complete {
            return false;
        }
        progress.norm = NormState::InFlight;
        self.effects.push_back(SyncEffect::Start {
            id: CollectiveId { step, source: CollectiveSource::Norm },
            channel: SyncChannel::Norms,
            op: CollectiveOp::SumNumbers { numbers: vec![progress.squares.iter().sum()] },
        });
        true
    }

    /// Event: the squared norms of all peers are summed.
    pub(crate) fn complete_norm(&mut self, step: u64, squares: &[f64]) -> Result<()> {
        let problem = "a norm completed that is not in flight";
        let error = Error::Driver { step: step + 1, problem };
        let (Some(GradientClip::Norm(most)), Some(progress)) = (self.clip, self.steps.get_mut(&step)) else {
            return Err(error);
        };
        let norm = squares.first().ok_or(error)?.sqrt();
        progress.norm = NormState::Scale(if norm > most { most / norm } else { 1.0 });
        self.next_norm_step += 1;
        self.retire_step(step);
        Ok(())
    }
}
