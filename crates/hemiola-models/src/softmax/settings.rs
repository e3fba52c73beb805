//! Settings of softmax regression.

use super::SoftmaxRegression;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use crate::{Error, ExampleWeights};
use serde::{Deserialize, Serialize};

/// Settings of softmax regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoftmaxSettings {
    /// Inverse regularization strength, as in scikit-learn's `LogisticRegression`.
    pub c: f64,
    /// True for an intercept of each class, which is not regularized.
    pub intercept: bool,
    /// Seed that selects the validation set.
    pub seed: u64,
    /// Fraction of the examples used for validation where no validation set is given.
    pub validation: f64,
    /// Norm of the gradient, relative to that of zero weights, at which training has converged. Like
    /// the limits, it may change on resuming.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

fn tolerance() -> f64 {
    1e-5
}

/// Builder of the settings; see [`SoftmaxRegression::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SoftmaxBuilder {
    settings: SoftmaxSettings,
}

impl From<SoftmaxSettings> for SoftmaxBuilder {
    fn from(settings: SoftmaxSettings) -> Self {
        Self { settings }
    }
}

impl SoftmaxBuilder {
    pub(super) fn new() -> Self {
        let limits = TrainingLimits { epochs: 100, patience: None, ..TrainingLimits::default() };
        let settings =
            SoftmaxSettings { c: 1.0, intercept: true, seed: 1, validation: 0.0, tolerance: tolerance(), limits };
        Self { settings }
    }

    setters! {
        /// Inverse regularization strength. Default: 1.
        c: f64;
        /// True for an intercept of each class. Default: true.
        intercept: bool;
        /// Seed that selects the validation set. Default: 1.
        seed: u64;
        /// Fraction of the examples used for validation where no validation set is given. Default: 0,
        /// which trains on all of them.
        validation: f64;
        /// Relative norm of the gradient at which training has converged. Default: 0.00001.
        tolerance: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Maximum number of epochs, which are Newton steps. Default: 100.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<SoftmaxRegression, Error> {
        let SoftmaxSettings { c, validation, tolerance, limits, .. } = &self.settings;
        require("c", c, (1e-12..=1e12).contains(c), "from 1e-12 to 1e12")?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        require("tolerance", tolerance, (0.0..=1.0).contains(tolerance), "from 0 to 1")?;
        require("epochs", &limits.epochs, limits.epochs > 0, "at least 1")?;
        Ok(SoftmaxRegression {
            settings: self.settings,
            names: Vec::new(),
            input: None,
            weights: ExampleWeights::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let builder = SoftmaxRegression::builder;
        assert!(builder().build().is_ok());
        for wrong in [builder().c(0.0), builder().c(f64::NAN), builder().validation(1.0), builder().epochs(0)] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
