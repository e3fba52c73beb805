//! Rows that a fit holds out for validation, as a function of their number and the seed.

use hemiola_core::rng::PhiloxRng;

/// Random stream that selects the validation set.
const VALIDATION_DRAW: u64 = 7;

/// Random fraction of the rows that is held out for validation. Statistics of a
/// [`Preparation`](super::Preparation) leave it out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeldOutRows {
    /// Random seed of the fit.
    pub seed: u64,
    /// Fraction of the rows.
    pub fraction: f64,
}

impl HeldOutRows {
    /// Returns whether a row is held out.
    #[must_use]
    pub fn contains(&self, row: usize) -> bool {
        self.fraction > 0.0 && PhiloxRng::new(self.seed).random_bool(row as u64, VALIDATION_DRAW, self.fraction)
    }
}
