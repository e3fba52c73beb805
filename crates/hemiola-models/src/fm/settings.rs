//! Settings of factorization machines.

use super::{FactorizationMachine, FmLoss};
use crate::Error;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use serde::{Deserialize, Serialize};

/// Settings of a factorization machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FmSettings {
    /// Loss that training minimizes.
    pub loss: FmLoss,
    /// Number of factors per feature. 0 leaves the pairs out: a linear model.
    pub rank: u32,
    /// Strength of the L2 regularization of the weights of single features.
    pub l2_linear: f32,
    /// Strength of the L2 regularization of the factors.
    pub l2_factors: f32,
    /// Initial learning rate; AdaGrad adapts it per feature.
    pub learning_rate: f32,
    /// Number of examples per step.
    pub batch_size: u32,
    /// True if each example is scaled to norm 1, in training and in predictions. Saves of older
    /// versions are without.
    #[serde(default)]
    pub normalize: bool,
    /// Random seed. The same seed gives a bit-identical model.
    pub seed: u64,
    /// Fraction of the examples used for validation where no validation set is given.
    pub validation: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

/// Builder of the settings; see [`FactorizationMachine::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct FmBuilder {
    settings: FmSettings,
}

impl From<FmSettings> for FmBuilder {
    fn from(settings: FmSettings) -> Self {
        Self { settings }
    }
}

impl FmBuilder {
    pub(super) fn new(loss: FmLoss) -> Self {
        Self {
            settings: FmSettings {
                loss,
                rank: 16,
                l2_linear: 1e-5,
                l2_factors: 1e-4,
                learning_rate: 0.1,
                batch_size: 64,
                // Numbers of features differ between examples of classes; the size of a quantity may
                // depend on those of its features.
                normalize: loss == FmLoss::Logistic,
                seed: 1,
                validation: 0.0,
                limits: TrainingLimits { epochs: 10, ..TrainingLimits::default() },
            },
        }
    }

    setters! {
        /// Number of factors per feature. Default: 16; 0 leaves the pairs out.
        rank: u32;
        /// L2 regularization of the weights of single features. Default: 0.00001.
        l2_linear: f32;
        /// L2 regularization of the factors. Default: 0.0001.
        l2_factors: f32;
        /// Initial learning rate. Default: 0.1; AdaGrad adapts it.
        learning_rate: f32;
        /// Number of examples per step. Default: 64.
        batch_size: u32;
        /// True to scale each example to norm 1. Default: true with the logistic loss, false with the
        /// squared loss.
        normalize: bool;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the examples used for validation where no validation set is given. Default: 0,
        /// which trains on all of them, for all epochs.
        validation: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Maximum number of epochs. Default: 10.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<FactorizationMachine, Error> {
        let FmSettings { rank, l2_linear, l2_factors, learning_rate, batch_size, validation, limits, .. } =
            &self.settings;
        let rate = *learning_rate;
        require("rank", rank, *rank <= 4096, "from 0 to 4096")?;
        require("l2_linear", l2_linear, (0.0..=1e3).contains(l2_linear), "from 0 to 1000")?;
        require("l2_factors", l2_factors, (0.0..=1e3).contains(l2_factors), "from 0 to 1000")?;
        require("learning_rate", &rate, rate > 0.0 && rate <= 10.0, "above 0 and at most 10")?;
        require("batch_size", batch_size, (1..=1 << 20).contains(batch_size), "from 1 to 1048576")?;
        require("validation", validation, (0.0..1.0).contains(validation), "a fraction from 0 to below 1")?;
        require("epochs", &limits.epochs, limits.epochs > 0, "at least 1")?;
        Ok(FactorizationMachine { settings: self.settings, names: Vec::new(), input: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let builder = || FactorizationMachine::builder(FmLoss::Logistic);
        assert!(builder().rank(0).build().is_ok());
        for wrong in [
            builder().rank(5000),
            builder().l2_linear(-1.0),
            builder().l2_factors(f32::NAN),
            builder().learning_rate(0.0),
            builder().batch_size(0),
            builder().validation(1.0),
            builder().epochs(0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
