//! The figure that counts, and which way is better.

use super::{Metrics, Progress};
use std::cmp::Ordering;

/// What training looks at to find out which epoch was the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name among the [`Metrics`].
    pub name: &'static str,
    /// Whether more of it is better, as of a recall, or less, as of an error.
    pub more_is_better: bool,
}

impl Figure {
    /// An error: the lower the better.
    #[must_use]
    pub const fn low(name: &'static str) -> Self {
        Self { name, more_is_better: false }
    }

    /// A success: the higher the better.
    #[must_use]
    pub const fn high(name: &'static str) -> Self {
        Self { name, more_is_better: true }
    }

    /// This figure where it is known: of held-out entries, or else of those trained on.
    #[must_use]
    pub fn of(self, progress: &Progress) -> Option<f64> {
        let named = |metrics: &Metrics| metrics.get(self.name).copied();
        progress.valid.as_ref().map_or_else(|| named(&progress.train), named)
    }

    /// How two epochs compare: less if `left` was the better. Where the figure is not known, what is minimized decides.
    #[must_use]
    pub fn compare(self, left: &Progress, right: &Progress) -> Ordering {
        match (self.of(left), self.of(right)) {
            (Some(left), Some(right)) if self.more_is_better => right.total_cmp(&left),
            (Some(left), Some(right)) => left.total_cmp(&right),
            _ => left.objective.total_cmp(&right.objective),
        }
    }

    /// Whether an epoch is as good as a target.
    #[must_use]
    pub fn reaches(self, progress: &Progress, target: f64) -> bool {
        match self.of(progress) {
            Some(figure) if self.more_is_better => figure >= target,
            Some(figure) => figure <= target,
            None => progress.objective <= target,
        }
    }
}
