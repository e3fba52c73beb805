//! Gradients that are too large: cut number by number, or all of them shrunk so that their norm is small enough.
//!
//! Nobody has all gradients: each peer adds the squares of those it updates, one number travels, and every update of the step waits for it.

use super::flight::Gradient;
use super::plan::{Unit, Way};
use super::worker::{Worker, updates};
use crate::trainer::Clip;
use hemiola_cluster::Result;
use hemiola_collective::Operator;
use hemiola_core::Rank;

impl Worker {
    /// Works out by what gradients shrink, once all that this peer counts are here.
    pub(super) fn norm(&mut self) -> Result<bool> {
        let Some(Clip::Norm(most)) = self.settings.clip else { return Ok(false) };
        let here = self.units.iter().filter(|unit| updates(unit, self.me)).count();
        let number = self.next_norm;
        let Some(step) = self.steps.get_mut(&number) else { return Ok(false) };
        match &step.norming {
            None if step.complete == here && step.total.is_some() => {
                step.norming = Some(self.norms.begin_all_reduce(vec![step.squares], Operator::Sum)?);
                Ok(true)
            }
            Some(pending) if pending.is_over() => {
                let pending = step.norming.take().expect("looked at just now");
                let norm = pending.finish()?[0].sqrt();
                step.shrink = Some(if norm > most { most / norm } else { 1.0 });
                self.next_norm += 1;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// What a peer adds to the squares of all gradients: those that all have are counted by the first.
pub(super) fn squares(unit: &Unit, gradient: &Gradient, me: Rank) -> f64 {
    let counted = match unit.way {
        Way::Sum { .. } | Way::Factors => me == Rank::ROOT,
        Way::Served { .. } | Way::Rows { .. } | Way::Mix { .. } => true,
    };
    let numbers = match gradient {
        Gradient::Whole(numbers) | Gradient::Rows(_, numbers) if counted => &numbers[..],
        _ => &[],
    };
    numbers.iter().map(|number| f64::from(*number).powi(2)).sum()
}

/// Cuts numbers whose mean, which `scale` makes of them, is too far from zero.
pub(super) fn clip_values(gradient: &mut [f32], clip: Option<Clip>, scale: f64) {
    if let Some(Clip::Value(most)) = clip {
        let most = (most / scale) as f32;
        for number in gradient {
            *number = number.clamp(-most, most);
        }
    }
}
