//! What a user chooses.

use super::schedule::Schedule;
use super::{Loss, SparseRegression};
use crate::Error;
use crate::setters::setters;
use crate::training::Limits;
use serde::{Deserialize, Serialize};

/// How much coefficients cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lambda {
    /// This much: `alpha` of scikit-learn.
    Value(f64),
    /// This share of the smallest for which all coefficients are 0.
    Share(f64),
}

/// The settings of a sparse regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What is minimized beside the penalty.
    pub loss: Loss,
    /// How much coefficients cost.
    pub lambda: Lambda,
    /// The share of the penalty that is of absolute values and not of squares: 1 is the lasso, less an elastic net. `l1_ratio` of scikit-learn.
    pub ratio: f64,
    /// Whether there is an intercept, which costs nothing.
    pub intercept: bool,
    /// Whether columns are scaled to a variance of 1 before coefficients are charged for. Coefficients are told in the scale of the data.
    pub standardize: bool,
    /// How updates of coefficients are scheduled; without it they come block by block, which is the fastest. For the squared loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// What all chance comes from: which examples are held out.
    pub seed: u64,
    /// The share of examples that is held out where no held-out examples are given.
    pub valid: f64,
    /// Training ends when the duality gap is below this share of the objective without coefficients. One of the limits: it may be another when
    /// training goes on.
    #[serde(skip, default = "tolerance")]
    pub tolerance: f64,
    /// When training stops.
    pub limits: Limits,
}

impl Settings {
    /// Which model it is: `lasso`, `elastic-net` or `sparse-logistic`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let [lasso, net] = Self::kinds(self.loss);
        if self.ratio < 1.0 { net } else { lasso }
    }

    /// With absolute values alone, and with squares, too.
    pub(super) fn kinds(loss: Loss) -> [&'static str; 2] {
        match loss {
            Loss::Squared => ["lasso", "elastic-net"],
            Loss::Logistic => ["sparse-logistic"; 2],
        }
    }
}

fn tolerance() -> f64 {
    1e-6
}

/// Collects settings. Made by [`SparseRegression::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl From<Settings> for Builder {
    fn from(settings: Settings) -> Self {
        Self { settings }
    }
}

impl Builder {
    pub(super) fn new(loss: Loss) -> Self {
        Self {
            settings: Settings {
                loss,
                lambda: Lambda::Share(0.1),
                ratio: 1.0,
                intercept: true,
                standardize: false,
                schedule: None,
                seed: 1,
                valid: 0.0,
                tolerance: tolerance(),
                limits: Limits { epochs: 1000, patience: None, ..Limits::default() },
            },
        }
    }

    setters! {
        /// How much coefficients cost. Default: a tenth of what makes all of them 0.
        lambda: Lambda;
        /// The share of the penalty that is of absolute values. Default 1, the lasso.
        ratio: f64;
        /// Whether there is an intercept. Default: yes.
        intercept: bool;
        /// Whether columns are scaled to a variance of 1. Default: no.
        standardize: bool;
        /// What all chance comes from. Default 1.
        seed: u64;
        /// The share of examples that is held out where no held-out examples are given. Default 0.
        valid: f64;
        /// Training ends when the duality gap is below this share of the objective without coefficients. Default 1e-6.
        tolerance: f64;
        /// When training stops.
        limits: Limits;
    }

    /// How updates of coefficients are scheduled. Default: block by block.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.settings.schedule = Some(schedule);
        self
    }

    /// At most so many rounds. Default 1000.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<SparseRegression, Error> {
        let Settings { lambda, ratio, valid, tolerance, .. } = &self.settings;
        let refuse =
            |setting, found: f64, expected| Err(Error::Setting { setting, found: found.to_string(), expected });
        match lambda {
            Lambda::Value(value) if !(value.is_finite() && *value > 0.0) => {
                return refuse("lambda", *value, "above 0");
            }
            Lambda::Share(share) if !(1e-9..=1e9).contains(share) => {
                return refuse("the share of lambda", *share, "from 1e-9 to 1e9");
            }
            _ => {}
        }
        if !(0.001..=1.0).contains(ratio) {
            return refuse("ratio", *ratio, "from 0.001 to 1: without absolute values no coefficient would become 0");
        }
        if !(0.0..1.0).contains(valid) {
            return refuse("valid", *valid, "from 0 to below 1");
        }
        if !(1e-12..=1.0).contains(tolerance) {
            return refuse("tolerance", *tolerance, "from 1e-12 to 1");
        }
        if let Some(schedule) = &self.settings.schedule {
            if self.settings.loss != Loss::Squared {
                return Err(Error::NotScheduled);
            }
            schedule.check()?;
        }
        Ok(SparseRegression { settings: self.settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let builder = || SparseRegression::builder(Loss::Squared);
        assert!(builder().build().is_ok());
        for wrong in [
            builder().lambda(Lambda::Value(0.0)),
            builder().lambda(Lambda::Value(f64::NAN)),
            builder().lambda(Lambda::Share(-0.5)),
            builder().ratio(0.0),
            builder().ratio(1.5),
            builder().valid(1.0),
            builder().tolerance(0.0),
            builder().schedule(Schedule { concurrent: 0, ..Schedule::default() }),
            builder().schedule(Schedule { depth: 0, ..Schedule::default() }),
            builder().schedule(Schedule { correlation: 0.0, ..Schedule::default() }),
            builder().schedule(Schedule { total: f64::NAN, ..Schedule::default() }),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
