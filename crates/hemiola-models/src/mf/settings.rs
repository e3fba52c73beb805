//! Settings of matrix factorization.

use super::MatrixFactorization;
use super::loss::MfLoss;
use crate::Error;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use serde::{Deserialize, Serialize};

/// Settings of matrix factorization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MfSettings {
    /// Number of factors per user and item.
    pub rank: u32,
    /// Loss that training minimizes.
    pub loss: MfLoss,
    /// Strength of the L2 regularization.
    pub l2: f32,
    /// Initial learning rate; AdaGrad adapts it per row. Unused by the one-class loss, which has no
    /// learning rate.
    pub learning_rate: f32,
    /// One-class loss: weight of an unobserved pair, relative to 1 for an event.
    pub unobserved_weight: f32,
    /// One-class loss: exponent of the regularization by frequency; the ridge of a row is `l2`
    /// times its number of pairs to this power.
    pub frequency_exponent: f32,
    /// Random seed. The same seed gives a bit-identical model.
    pub seed: u64,
    /// Fraction of the ratings used for validation where no validation set is given.
    pub validation: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

impl Default for MfSettings {
    fn default() -> Self {
        Self {
            rank: 32,
            loss: MfLoss::Squared,
            l2: L2,
            learning_rate: 0.08,
            unobserved_weight: 0.3,
            frequency_exponent: 1.0,
            seed: 1,
            validation: 0.1,
            limits: TrainingLimits::default(),
        }
    }
}

/// Default strength of the L2 regularization.
const L2: f32 = 0.045;
/// Default L2 regularization of the one-class loss, where it counts for all pairs.
const L2_ONE_CLASS: f32 = 0.007;

/// Default L2 regularization of Bayesian personalized ranking.
const L2_BPR: f32 = 0.01;

/// Builder of the settings; see [`MatrixFactorization::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct MfBuilder {
    settings: MfSettings,
    /// Explicit L2 regularization; the default depends on the loss.
    l2: Option<f32>,
}

impl From<MfSettings> for MfBuilder {
    fn from(settings: MfSettings) -> Self {
        Self { l2: Some(settings.l2), settings }
    }
}

impl MfBuilder {
    setters! {
        /// Number of factors per user and item. Default: 32.
        rank: u32;
        /// Training loss. Default: squared.
        loss: MfLoss;
        /// Initial learning rate. Default: 0.08; AdaGrad adapts it.
        learning_rate: f32;
        /// One-class loss: weight of an unobserved pair, relative to 1 for an event. Default: 0.3.
        unobserved_weight: f32;
        /// One-class loss: exponent of the regularization by frequency. Default: 1.
        frequency_exponent: f32;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the ratings used for validation where no validation set is given. Default:
        /// 0.1; 0 disables validation.
        validation: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// L2 regularization strength. Default: 0.045, 0.007 with the one-class loss, and 0.01 with
    /// Bayesian personalized ranking.
    pub fn l2(mut self, l2: f32) -> Self {
        self.l2 = Some(l2);
        self
    }

    /// Maximum number of epochs. Default: 40.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(mut self) -> Result<MatrixFactorization, Error> {
        self.settings.l2 = self.l2.unwrap_or(match self.settings.loss {
            MfLoss::Squared | MfLoss::Logistic => L2,
            MfLoss::OneClass => L2_ONE_CLASS,
            MfLoss::Bpr => L2_BPR,
        });
        let MfSettings { rank, l2, learning_rate, unobserved_weight, frequency_exponent, validation, .. } =
            &self.settings;
        let (rate, weight, epochs) = (*learning_rate, *unobserved_weight, self.settings.limits.epochs);
        require("rank", rank, (1..=4096).contains(rank), "from 1 to 4096")?;
        require("l2", l2, (0.0..=1e3).contains(l2), "from 0 to 1000")?;
        require("learning_rate", &rate, rate > 0.0 && rate <= 10.0, "above 0 and at most 10")?;
        require("unobserved_weight", &weight, weight > 0.0 && weight <= 1e3, "above 0 and at most 1000")?;
        require("frequency_exponent", frequency_exponent, (0.0..=2.0).contains(frequency_exponent), "from 0 to 2")?;
        require("validation", validation, (0.0..1.0).contains(validation), "a fraction from 0 to below 1")?;
        require("epochs", &epochs, epochs > 0, "at least 1")?;
        Ok(MatrixFactorization { settings: self.settings, input: None })
    }
}
