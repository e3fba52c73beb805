//! Settings of ridge regression.

use super::RidgeRegression;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use crate::{Error, ExampleWeights};
use serde::{Deserialize, Serialize};

/// Settings of ridge regression and least squares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RidgeSettings {
    /// Strength of the L2 regularization; 0 is ordinary least squares.
    pub alpha: f64,
    /// True for an intercept, which is not regularized.
    pub intercept: bool,
    /// Seed that selects the validation set.
    pub seed: u64,
    /// Fraction of the examples used for validation where no validation set is given.
    pub validation: f64,
    /// Relative norm of the gradient at which training has converged. Like the limits, it may change
    /// on resuming.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

fn tolerance() -> f64 {
    1e-8
}

/// Builder of the settings; see [`RidgeRegression::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RidgeBuilder {
    settings: RidgeSettings,
}

impl From<RidgeSettings> for RidgeBuilder {
    fn from(settings: RidgeSettings) -> Self {
        Self { settings }
    }
}

impl RidgeBuilder {
    pub(super) fn new(alpha: f64) -> Self {
        let limits = TrainingLimits { epochs: 1000, patience: None, ..TrainingLimits::default() };
        let settings =
            RidgeSettings { alpha, intercept: true, seed: 1, validation: 0.0, tolerance: tolerance(), limits };
        Self { settings }
    }

    setters! {
        /// L2 regularization. Default: 1; 0 is ordinary least squares.
        alpha: f64;
        /// True for an intercept. Default: true.
        intercept: bool;
        /// Seed that selects the validation set. Default: 1.
        seed: u64;
        /// Fraction of the examples used for validation where no validation set is given. Default: 0,
        /// which trains on all of them.
        validation: f64;
        /// Relative norm of the gradient at which training has converged. Default: 1e-8.
        tolerance: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Maximum number of epochs, which are iterations. Default: 1000.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<RidgeRegression, Error> {
        let RidgeSettings { alpha, validation, tolerance, limits, .. } = &self.settings;
        require("alpha", alpha, (0.0..=1e15).contains(alpha), "from 0 to 1e15")?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        require("tolerance", tolerance, (0.0..=1.0).contains(tolerance), "from 0 to 1")?;
        require("epochs", &limits.epochs, limits.epochs > 0, "at least 1")?;
        Ok(RidgeRegression { settings: self.settings, input: None, weights: ExampleWeights::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let builder = RidgeRegression::builder;
        assert!(builder().alpha(0.0).build().is_ok());
        for wrong in [builder().alpha(-1.0), builder().alpha(f64::NAN), builder().validation(1.0), builder().epochs(0)]
        {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
