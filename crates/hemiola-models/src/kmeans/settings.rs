//! Settings of k-means.

use super::KMeans;
use crate::Error;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use serde::{Deserialize, Serialize};

/// Settings of k-means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KMeansSettings {
    /// Number of clusters.
    pub clusters: u32,
    /// Number of rows per step of mini-batch k-means; 0 is Lloyd's algorithm, which moves the
    /// centers after a pass over all rows.
    pub batch_size: u32,
    /// Random seed of the first centers and of mini-batches. The same seed gives a bit-identical
    /// model.
    pub seed: u64,
    /// Fraction of the rows used for validation where no validation set is given.
    pub validation: f64,
    /// Movement of the centers, relative to their norm, at which training has converged. Like the
    /// limits, it may change on resuming.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

fn tolerance() -> f64 {
    1e-6
}

/// Builder of the settings; see [`KMeans::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct KMeansBuilder {
    settings: KMeansSettings,
}

impl KMeansBuilder {
    pub(super) fn new(clusters: u32) -> Self {
        let limits = TrainingLimits { epochs: 300, patience: None, ..TrainingLimits::default() };
        let settings =
            KMeansSettings { clusters, batch_size: 0, seed: 1, validation: 0.0, tolerance: tolerance(), limits };
        Self { settings }
    }

    setters! {
        /// Rows per step of mini-batch k-means. Default: 0, which is Lloyd's algorithm.
        batch_size: u32;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the rows used for validation where no validation set is given. Default: 0.
        validation: f64;
        /// Relative movement of the centers at which training has converged. Default: 1e-6; 0 stops
        /// when no center moves.
        tolerance: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Maximum number of epochs. Default: 300.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<KMeans, Error> {
        let KMeansSettings { clusters, validation, tolerance, limits, .. } = &self.settings;
        require("clusters", clusters, (1..=65_536).contains(clusters), "from 1 to 65536")?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        require("tolerance", tolerance, (0.0..=1.0).contains(tolerance), "from 0 to 1")?;
        require("epochs", &limits.epochs, limits.epochs > 0, "at least 1")?;
        Ok(KMeans { settings: self.settings, input: None, centers: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(KMeans::builder(3).build().is_ok());
        for wrong in [
            KMeans::builder(0),
            KMeans::builder(3).validation(1.0),
            KMeans::builder(3).tolerance(-1.0),
            KMeans::builder(3).epochs(0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
