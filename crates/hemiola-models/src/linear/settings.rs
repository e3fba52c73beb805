//! Settings of linear classifiers.

use super::{LinearClassifier, LinearLoss};
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use crate::{Error, ExampleWeights};
use hemiola_collective::{GossipSync, Topology};
use serde::{Deserialize, Serialize};

/// Settings of a linear classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearSettings {
    /// Loss that training minimizes.
    pub loss: LinearLoss,
    /// Inverse regularization strength: `C` of liblinear. Where the penalty is `alpha/2 |w|²`
    /// beside the *mean* loss, as in scikit-learn's `SGDClassifier`, it is `1 / (alpha ·
    /// examples)`.
    pub c: f64,
    /// Value of a constant feature whose weight is the bias: `-B` of liblinear, `intercept_scaling`
    /// of scikit-learn. Its weight is regularized like all others. 0 disables the bias.
    pub bias: f64,
    /// Rounds per epoch: in each, workers go over their examples and models are averaged.
    pub rounds: u32,
    /// Synchronization of gossip averaging.
    pub synchronization: GossipSync,
    /// Communication graph of gossip averaging.
    pub graph: Topology,
    /// Random seed. The same seed gives a bit-identical model on the same cluster.
    pub seed: u64,
    /// Fraction of the examples used for validation where no validation set is given.
    pub validation: f64,
    /// Relative duality gap at which training has converged. Like the limits, it may change on
    /// resuming.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

fn tolerance() -> f64 {
    1e-3
}

/// Builder of the settings; see [`LinearClassifier::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LinearBuilder {
    settings: LinearSettings,
}

impl From<LinearSettings> for LinearBuilder {
    fn from(settings: LinearSettings) -> Self {
        Self { settings }
    }
}

impl LinearBuilder {
    pub(super) fn new(loss: LinearLoss) -> Self {
        Self {
            settings: LinearSettings {
                loss,
                c: 1.0,
                bias: 1.0,
                rounds: 8,
                synchronization: GossipSync::NotifyAck,
                graph: Topology::Complete,
                seed: 1,
                validation: 0.0,
                tolerance: tolerance(),
                limits: TrainingLimits { epochs: 100, patience: None, ..TrainingLimits::default() },
            },
        }
    }

    setters! {
        /// Inverse regularization strength `C`. Default: 1.
        c: f64;
        /// Value of the constant bias feature. Default: 1; 0 disables the bias.
        bias: f64;
        /// Rounds per epoch: in each, workers go over their examples and models are averaged.
        /// Default: 8.
        rounds: u32;
        /// Synchronization of gossip averaging. Default: NOTIFY-ACK.
        synchronization: GossipSync;
        /// Communication graph of gossip averaging. Default: complete graph.
        graph: Topology;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the examples used for validation where no validation set is given. Default: 0,
        /// which trains on all of them.
        validation: f64;
        /// Relative duality gap at which training has converged. Default: 0.001; 0 disables the
        /// test.
        tolerance: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Maximum number of epochs. Default: 100.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<LinearClassifier, Error> {
        let LinearSettings { c, bias, rounds, validation, tolerance, .. } = &self.settings;
        require("c", c, (1e-12..=1e12).contains(c), "from 1e-12 to 1e12")?;
        require("bias", bias, (0.0..=1e6).contains(bias), "from 0 to 1000000")?;
        require("rounds", rounds, (1..=10_000).contains(rounds), "from 1 to 10000")?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        require("tolerance", tolerance, (0.0..=1.0).contains(tolerance), "from 0 to 1")?;
        Ok(LinearClassifier {
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
        let builder = || LinearClassifier::builder(LinearLoss::Hinge);
        assert!(builder().build().is_ok());
        for wrong in [
            builder().c(0.0),
            builder().c(f64::NAN),
            builder().bias(-1.0),
            builder().rounds(0),
            builder().validation(1.0),
            builder().tolerance(-1.0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
