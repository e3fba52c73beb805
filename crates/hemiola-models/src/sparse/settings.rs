//! Settings of sparse regression.

use super::schedule::CoordinateSchedule;
use super::{SparseLoss, SparseRegression};
use crate::Error;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use serde::{Deserialize, Serialize};

/// Strength of the penalty `lambda`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lambda {
    /// Absolute value: `alpha` of scikit-learn.
    Value(f64),
    /// Fraction of the smallest penalty for which all coefficients are 0.
    Share(f64),
}

/// Settings of sparse regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseSettings {
    /// Loss that training minimizes.
    pub loss: SparseLoss,
    /// Strength of the penalty `lambda`.
    pub lambda: Lambda,
    /// Fraction of the L1 penalty: 1 is the lasso, less an elastic net. `l1_ratio` of scikit-learn.
    pub l1_ratio: f64,
    /// Adds an intercept, which is not penalized.
    pub intercept: bool,
    /// Scales columns to unit variance before penalization. Coefficients are reported
    /// in the scale of the data.
    pub standardize: bool,
    /// Schedule of coordinate updates; `None` updates block by block, which is fastest. For the
    /// squared loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<CoordinateSchedule>,
    /// Random seed of the validation split, the folds and the schedule.
    pub seed: u64,
    /// Fraction of the examples used for validation where no validation set is given.
    pub validation: f64,
    /// Duality gap, relative to the objective without coefficients, at which training has
    /// converged. Like the limits, it may change on resuming.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// Stopping criteria of the training run.
    pub limits: TrainingLimits,
}

impl SparseSettings {
    /// Returns the kind of the model: `lasso`, `elastic-net` or `sparse-logistic`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.loss {
            SparseLoss::Squared if self.l1_ratio < 1.0 => "elastic-net",
            SparseLoss::Squared => "lasso",
            SparseLoss::Logistic => "sparse-logistic",
        }
    }
}

fn tolerance() -> f64 {
    1e-6
}

/// Builder of the settings; see [`SparseRegression::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SparseRegressionBuilder {
    settings: SparseSettings,
}

impl From<SparseSettings> for SparseRegressionBuilder {
    fn from(settings: SparseSettings) -> Self {
        Self { settings }
    }
}

impl SparseRegressionBuilder {
    pub(super) fn new(loss: SparseLoss) -> Self {
        Self {
            settings: SparseSettings {
                loss,
                lambda: Lambda::Share(0.1),
                l1_ratio: 1.0,
                intercept: true,
                standardize: false,
                schedule: None,
                seed: 1,
                validation: 0.0,
                tolerance: tolerance(),
                limits: TrainingLimits { epochs: 1000, patience: None, ..TrainingLimits::default() },
            },
        }
    }

    setters! {
        /// Penalty strength. Default: a tenth of the smallest penalty for which all coefficients
        /// are 0.
        lambda: Lambda;
        /// Fraction of the L1 penalty. Default: 1, the lasso.
        l1_ratio: f64;
        /// Adds an intercept. Default: true.
        intercept: bool;
        /// Scales columns to unit variance. Default: false.
        standardize: bool;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the examples used for validation where no validation set is given. Default:
        /// 0.
        validation: f64;
        /// Relative duality gap at which training has converged. Default: 1e-6.
        tolerance: f64;
        /// Stopping criteria of the training run.
        limits: TrainingLimits;
    }

    /// Schedule of coordinate updates. Default: block by block.
    pub fn schedule(mut self, schedule: CoordinateSchedule) -> Self {
        self.settings.schedule = Some(schedule);
        self
    }

    /// Maximum number of rounds. Default: 1000.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<SparseRegression, Error> {
        let SparseSettings { lambda, l1_ratio, validation, tolerance, .. } = &self.settings;
        match lambda {
            Lambda::Value(value) => require("lambda", value, value.is_finite() && *value > 0.0, "above 0")?,
            Lambda::Share(share) => {
                require("lambda_share", share, (1e-9..=1e9).contains(share), "from 1e-9 to 1e9")?;
            }
        }
        let l1_range = "from 0.001 to 1: without an L1 part no coefficient would become 0";
        require("l1_ratio", l1_ratio, (0.001..=1.0).contains(l1_ratio), l1_range)?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        require("tolerance", tolerance, (1e-12..=1.0).contains(tolerance), "from 1e-12 to 1")?;
        if let Some(schedule) = &self.settings.schedule {
            if self.settings.loss != SparseLoss::Squared {
                return Err(Error::ScheduleUnsupported);
            }
            schedule.check()?;
        }
        Ok(SparseRegression { settings: self.settings, input: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let builder = || SparseRegression::builder(SparseLoss::Squared);
        assert!(builder().build().is_ok());
        for wrong in [
            builder().lambda(Lambda::Value(0.0)),
            builder().lambda(Lambda::Value(f64::NAN)),
            builder().lambda(Lambda::Share(-0.5)),
            builder().l1_ratio(0.0),
            builder().l1_ratio(1.5),
            builder().validation(1.0),
            builder().tolerance(0.0),
            builder().schedule(CoordinateSchedule { concurrent: 0, ..CoordinateSchedule::default() }),
            builder().schedule(CoordinateSchedule { depth: 0, ..CoordinateSchedule::default() }),
            builder().schedule(CoordinateSchedule { correlation: 0.0, ..CoordinateSchedule::default() }),
            builder().schedule(CoordinateSchedule { total: f64::NAN, ..CoordinateSchedule::default() }),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
