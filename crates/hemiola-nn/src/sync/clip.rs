//! Gradient clipping, by value or by global norm.
//!
//! No peer has all gradients. For the norm, each peer sums the squares of the gradients that it
//! updates. One number is all-reduced, and every update of the step waits for it.

use super::plan::{SyncMethod, SyncUnit};
use super::unit_sync::SummedGradient;
use super::worker::{SyncWorker, is_updated_by};
use crate::trainer::GradientClip;
use hemiola_cluster::Result;
use hemiola_collective::ReduceOp;
use hemiola_core::Rank;

impl SyncWorker {
    /// Computes the scale of norm clipping, once this peer has all gradients that it updates.
    pub(super) fn poll_norm(&mut self) -> Result<bool> {
        let Some(GradientClip::Norm(most)) = self.settings.clip else { return Ok(false) };
        let here = self.units.iter().filter(|unit| is_updated_by(unit, self.rank)).count();
        let number = self.next_norm_step;
        let Some(step) = self.steps.get_mut(&number) else { return Ok(false) };
        match &step.norm_reduction {
            None if step.complete_units == here && step.total.is_some() => {
                step.norm_reduction = Some(self.norm_communicator.begin_all_reduce(vec![step.squares], ReduceOp::Sum)?);
                Ok(true)
            }
            Some(pending) if pending.is_ready() => {
                let pending = step.norm_reduction.take().expect("checked above");
                let norm = pending.wait()?[0].sqrt();
                step.clip_scale = Some(if norm > most { most / norm } else { 1.0 });
                self.next_norm_step += 1;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Contribution of a unit to the squared norm on this peer. Gradients that all peers have are
/// counted by peer 0 only.
pub(super) fn squares(unit: &SyncUnit, gradient: &SummedGradient, me: Rank) -> f64 {
    let counted = match unit.method {
        SyncMethod::AllReduce { .. } | SyncMethod::SufficientFactors => me == Rank::ROOT,
        SyncMethod::ParameterServer { .. } | SyncMethod::ServedRows { .. } | SyncMethod::Gossip { .. } => true,
    };
    let numbers = match gradient {
        SummedGradient::Dense(numbers) | SummedGradient::Rows(_, numbers) if counted => &numbers[..],
        _ => &[],
    };
    numbers.iter().map(|number| f64::from(*number).powi(2)).sum()
}

/// Clamps sums so that the mean, `scale` times the sum, stays within the bound.
pub(super) fn clip_values(gradient: &mut [f32], clip: Option<GradientClip>, scale: f64) {
    if let Some(GradientClip::Value(most)) = clip {
        let most = (most / scale) as f32;
        for number in gradient {
            *number = number.clamp(-most, most);
        }
    }
}
