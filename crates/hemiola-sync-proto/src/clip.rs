//! Gradient clipping, by value or by global norm.
//!
//! No peer has all gradients. For the norm, each peer sums the squares of the gradients that it
//! updates. One number is all-reduced, and every update of the step waits for it.

use crate::gradient::SummedGradient;
use crate::plan::{SyncMethod, SyncUnit};
use hemiola_core::Rank;

/// Gradient clipping. Applies to the mean gradient over the examples of all peers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GradientClip {
    /// Clamps every element to `-x..=x`.
    Value(f64),
    /// Scales all gradients so that their global L2 norm is at most `x`. Every update of a step
    /// then waits for all gradients.
    Norm(f64),
}

/// Contribution of a unit to the squared norm on this peer. Gradients that several peers have are
/// counted by the first of them only.
pub(crate) fn squares(unit: &SyncUnit, gradient: &SummedGradient, me: Rank) -> f64 {
    let counted = match unit.method {
        SyncMethod::AllReduce { .. } | SyncMethod::SufficientFactors => me == unit.first_updater(),
        SyncMethod::ParameterServer { .. } | SyncMethod::ServedRows { .. } | SyncMethod::Gossip { .. } => true,
        // Never clipped by norm.
        SyncMethod::Table { .. } => false,
    };
    let elements = if counted { gradient.elements() } else { &[] };
    elements.iter().map(|number| f64::from(*number).powi(2)).sum()
}

/// Clamps sums so that the mean, `scale` times the sum, stays within the bound.
pub(crate) fn clip_values(gradient: &mut [f32], clip: Option<GradientClip>, scale: f64) {
    if let Some(GradientClip::Value(most)) = clip {
        let most = (most / scale) as f32;
        for number in gradient {
            *number = number.clamp(-most, most);
        }
    }
}
