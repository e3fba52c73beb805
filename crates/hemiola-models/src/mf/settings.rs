//! What a user chooses.

use super::MatrixFactorization;
use super::loss::Loss;
use crate::Error;
use crate::setters::setters;
use crate::training::Limits;
use serde::{Deserialize, Serialize};

/// The settings of a matrix factorization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How many factors a user and an item have.
    pub rank: u32,
    /// What is minimized.
    pub loss: Loss,
    /// How much large factors cost.
    pub l2: f32,
    /// The first step; steps adapt by themselves from there. Not used by the one-class loss, which needs none.
    pub step: f32,
    /// One-class loss: the weight of a pair that is no event, where an event has 1.
    pub unobserved: f32,
    /// One-class loss: how penalties grow with the events of a row: `l2` times their number to this power.
    pub nu: f32,
    /// What all chance comes from.
    pub seed: u64,
    /// The share of ratings that is held out where no held-out ratings are given.
    pub valid: f64,
    /// When training stops.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rank: 32,
            loss: Loss::Squared,
            l2: L2,
            step: 0.08,
            unobserved: 0.3,
            nu: 1.0,
            seed: 1,
            valid: 0.1,
            limits: Limits::default(),
        }
    }
}

/// The penalty where nobody says otherwise.
const L2: f32 = 0.045;
/// The same for the one-class loss, where it counts for all pairs.
const L2_ONE_CLASS: f32 = 0.007;

/// Collects settings. Made by [`MatrixFactorization::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    settings: Settings,
    /// What was asked for; the default depends on the loss.
    l2: Option<f32>,
}

impl Builder {
    setters! {
        /// How many factors a user and an item have. Default 32.
        rank: u32;
        /// What is minimized. Default squared.
        loss: Loss;
        /// The first step. Default 0.08; steps adapt by themselves.
        step: f32;
        /// One-class loss: the weight of a pair that is no event, where an event has 1. Default 0.3.
        unobserved: f32;
        /// One-class loss: the power to which the number of events of a row scales its penalty. Default 1.
        nu: f32;
        /// What all chance comes from. Default 1.
        seed: u64;
        /// The share of ratings that is held out where no held-out ratings are given. Default 0.1; 0 holds out none.
        valid: f64;
        /// When training stops.
        limits: Limits;
    }

    /// How much large factors cost. Default 0.045, or 0.007 with the one-class loss.
    pub fn l2(mut self, l2: f32) -> Self {
        self.l2 = Some(l2);
        self
    }

    /// At most so many epochs. Default 40.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Checks the settings.
    pub fn build(mut self) -> Result<MatrixFactorization, Error> {
        let one_class = self.settings.loss == Loss::OneClass;
        self.settings.l2 = self.l2.unwrap_or(if one_class { L2_ONE_CLASS } else { L2 });
        let Settings { rank, l2, step, unobserved, nu, valid, .. } = &self.settings;
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        if !(1..=4096).contains(rank) {
            return refuse("rank", rank.to_string(), "from 1 to 4096");
        }
        if !(0.0..=1e3).contains(l2) {
            return refuse("l2", l2.to_string(), "from 0 to 1000");
        }
        if !(*step > 0.0 && *step <= 10.0) {
            return refuse("step", step.to_string(), "above 0 and at most 10");
        }
        if !(*unobserved > 0.0 && *unobserved <= 1e3) {
            return refuse("unobserved", unobserved.to_string(), "above 0 and at most 1000");
        }
        if !(0.0..=2.0).contains(nu) {
            return refuse("nu", nu.to_string(), "from 0 to 2");
        }
        if !(0.0..1.0).contains(valid) {
            return refuse("valid", valid.to_string(), "a share from 0 to below 1");
        }
        if self.settings.limits.epochs == 0 {
            return refuse("epochs", "0".to_owned(), "at least 1");
        }
        Ok(MatrixFactorization { settings: self.settings })
    }
}
