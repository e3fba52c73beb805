//! What a user chooses.

use super::{LinearClassifier, Loss};
use crate::Error;
use crate::setters::setters;
use crate::training::Limits;
use hemiola::collective::{Synchronization, Topology};
use serde::{Deserialize, Serialize};

/// The settings of a linear classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is minimized.
    pub loss: Loss,
    /// How much errors cost beside large weights: `C` of liblinear. Where the penalty is `alpha/2 |w|²` beside the *mean* loss, as in
    /// scikit-learn's `SGDClassifier`, it is `1 / (alpha · examples)`.
    pub c: f64,
    /// The value of a feature that all examples have, whose weight is the bias: `-B` of liblinear, `intercept_scaling` of scikit-learn. Its
    /// weight is penalized as all others are. 0: no bias.
    pub bias: f64,
    /// How many times in an epoch workers go over their examples, and models are averaged.
    pub rounds: u32,
    /// What peers wait for when they average.
    pub synchronization: Synchronization,
    /// Who sends to whom.
    pub graph: Topology,
    /// What all chance comes from.
    pub seed: u64,
    /// The share of examples that is held out where no held-out examples are given.
    pub valid: f64,
    /// Training ends when the duality gap is below this share of the objective. One of the limits: it may be another when training goes on.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// When training stops.
    pub limits: Limits,
}

fn tolerance() -> f64 {
    1e-3
}

/// Collects settings. Made by [`LinearClassifier::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    pub(super) fn new(loss: Loss) -> Self {
        Self {
            settings: Settings {
                loss,
                c: 1.0,
                bias: 1.0,
                rounds: 8,
                synchronization: Synchronization::NotifyAck,
                graph: Topology::Complete,
                seed: 1,
                valid: 0.1,
                tolerance: tolerance(),
                limits: Limits { epochs: 100, patience: None, ..Limits::default() },
            },
        }
    }

    setters! {
        /// How much errors cost beside large weights. Default 1.
        c: f64;
        /// The value of the feature whose weight is the bias. Default 1; 0 for none.
        bias: f64;
        /// How many times in an epoch workers go over their examples, and models are averaged. Default 8.
        rounds: u32;
        /// What peers wait for when they average. Default NOTIFY-ACK.
        synchronization: Synchronization;
        /// Who sends to whom. Default: everybody to everybody.
        graph: Topology;
        /// What all chance comes from. Default 1.
        seed: u64;
        /// The share of examples that is held out where no held-out examples are given. Default 0.1; 0 holds out none.
        valid: f64;
        /// Training ends when the duality gap is below this share of the objective. Default 0.001; 0 never ends for that.
        tolerance: f64;
        /// When training stops.
        limits: Limits;
    }

    /// At most so many epochs. Default 100.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<LinearClassifier, Error> {
        let Settings { c, bias, rounds, valid, tolerance, .. } = &self.settings;
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        if !(1e-12..=1e12).contains(c) {
            return refuse("c", c.to_string(), "from 1e-12 to 1e12");
        }
        if !(0.0..=1e6).contains(bias) {
            return refuse("bias", bias.to_string(), "from 0 to 1000000");
        }
        if !(1..=10_000).contains(rounds) {
            return refuse("rounds", rounds.to_string(), "from 1 to 10000");
        }
        if !(0.0..1.0).contains(valid) {
            return refuse("valid", valid.to_string(), "from 0 to below 1");
        }
        if !(0.0..=1.0).contains(tolerance) {
            return refuse("tolerance", tolerance.to_string(), "from 0 to 1");
        }
        Ok(LinearClassifier { settings: self.settings, names: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let builder = || LinearClassifier::builder(Loss::Hinge);
        assert!(builder().build().is_ok());
        for wrong in [
            builder().c(0.0),
            builder().c(f64::NAN),
            builder().bias(-1.0),
            builder().rounds(0),
            builder().valid(1.0),
            builder().tolerance(-1.0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
