//! Estimate of the remaining time of a training: by its limits, and by its convergence.
//!
//! Solvers of convex problems end when a measure of convergence (duality gap, gradient, movement) is
//! below a tolerance, mostly long before the maximum number of epochs. They reduce it by a nearly
//! constant factor in each epoch, so the factor of the last epochs tells how many are left.
//!
//! **Invariant:** an estimate is never above the time that the limits leave.

use hemiola_models::training::{EpochProgress, TrainingLimits};
use std::collections::VecDeque;

/// Number of epochs from whose reduction the rest is estimated.
const WINDOW: usize = 8;

/// Measure of convergence, and the value at which training ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvergenceGoal {
    /// Name of the training metric.
    pub(super) metric: &'static str,
    pub(super) tolerance: f64,
}

/// Remaining time of a training, epoch after epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeLeft {
    goal: Option<ConvergenceGoal>,
    /// Epoch and logarithm of the measure, of the last epochs.
    seen: VecDeque<(u32, f64)>,
}

impl TimeLeft {
    pub(super) fn new(goal: Option<ConvergenceGoal>) -> Self {
        Self { goal: goal.filter(|goal| goal.tolerance > 0.0), seen: VecDeque::new() }
    }

    /// Takes note of an epoch; returns the remaining seconds as text, empty if there are none.
    pub(super) fn after(&mut self, progress: &EpochProgress, limits: &TrainingLimits) -> String {
        let most = by_limits(progress, limits);
        let seconds_per_epoch = progress.seconds / f64::from(progress.epoch.max(1));
        match self.epochs_left(progress) {
            Some(epochs) if epochs * seconds_per_epoch < most => {
                format!("about {}", super::progress::time(epochs * seconds_per_epoch))
            }
            _ if most > 0.0 => format!("at most {}", super::progress::time(most)),
            _ => String::new(),
        }
    }

    /// Returns the number of epochs until the measure has reached its tolerance.
    fn epochs_left(&mut self, progress: &EpochProgress) -> Option<f64> {
        let goal = self.goal?;
        let value = *progress.train.get(goal.metric)?;
        if value <= 0.0 || !value.is_finite() {
            return None;
        }
        self.seen.push_back((progress.epoch, value.ln()));
        if self.seen.len() > WINDOW {
            self.seen.pop_front();
        }
        let ((first, before), (last, now)) = (*self.seen.front()?, *self.seen.back()?);
        let rate = (before - now) / f64::from(last.checked_sub(first).filter(|epochs| *epochs > 0)?);
        (rate > 0.0).then(|| ((now - goal.tolerance.ln()) / rate).ceil().max(0.0) + 0.0)
    }
}

/// Returns the maximum remaining seconds of training by the limits. Early stopping may end it
/// earlier.
pub(super) fn by_limits(progress: &EpochProgress, limits: &TrainingLimits) -> f64 {
    let per_epoch = progress.seconds / f64::from(progress.epoch.max(1));
    let by_epochs = f64::from(limits.epochs.saturating_sub(progress.epoch)) * per_epoch;
    let by_seconds = limits.seconds.map_or(f64::INFINITY, |seconds| seconds - progress.seconds);
    by_epochs.min(by_seconds).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(epoch: u32, seconds: f64, gap: f64) -> EpochProgress {
        EpochProgress {
            epoch,
            seconds,
            objective: 0.81,
            train: [("gap".to_owned(), gap)].into(),
            validation: None,
            updates: 0,
            bytes_sent: 0,
            note: None,
        }
    }

    #[test]
    fn the_limits_are_an_upper_bound() {
        let left = |epoch, seconds, limit| {
            let limits = TrainingLimits { epochs: 10, seconds: limit, ..TrainingLimits::default() };
            by_limits(&progress(epoch, seconds, 1.0), &limits)
        };
        assert_eq!(left(4, 8.0, None).to_bits(), 12.0_f64.to_bits());
        assert_eq!(left(4, 8.0, Some(9.0)).to_bits(), 1.0_f64.to_bits());
        assert_eq!(left(4, 8.0, Some(7.0)).to_bits(), 0.0_f64.to_bits());
        assert_eq!(left(12, 8.0, None).to_bits(), 0.0_f64.to_bits(), "resumed with fewer epochs than are done");
    }

    #[test]
    fn a_gap_that_falls_tenfold_per_epoch_tells_the_rest() {
        let limits = TrainingLimits { epochs: 1000, ..TrainingLimits::default() };
        let mut left = TimeLeft::new(Some(ConvergenceGoal { metric: "gap", tolerance: 1e-6 }));
        assert_eq!(left.after(&progress(1, 2.0, 1.0), &limits), "at most 33 min 18 s");
        assert_eq!(left.after(&progress(2, 4.0, 0.099), &limits), "about 10.0 s");
        assert_eq!(left.after(&progress(3, 6.0, 0.0099), &limits), "about 8.00 s");
        assert_eq!(left.after(&progress(4, 8.0, 1e-7), &limits), "about 0.00 s");
        // A limit that is nearer is the bound, and a gap that does not fall tells nothing.
        let short = TrainingLimits { epochs: 3, ..TrainingLimits::default() };
        let mut left = TimeLeft::new(Some(ConvergenceGoal { metric: "gap", tolerance: 1e-6 }));
        left.after(&progress(1, 2.0, 1.0), &short);
        assert_eq!(left.after(&progress(2, 4.0, 0.1), &short), "at most 2.00 s");
        let mut left = TimeLeft::new(Some(ConvergenceGoal { metric: "gap", tolerance: 1e-6 }));
        left.after(&progress(1, 2.0, 1.0), &short);
        assert_eq!(left.after(&progress(2, 4.0, 2.0), &short), "at most 2.00 s");
        assert_eq!(TimeLeft::new(None).after(&progress(3, 6.0, 1.0), &short), "");
    }
}
