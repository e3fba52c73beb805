//! What a user chooses.

use super::MatrixFactorization;
use super::loss::Loss;
use crate::Error;
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
    /// The first step; steps adapt by themselves from there.
    pub step: f32,
    /// What all chance comes from.
    pub seed: u64,
    /// The share of ratings that is held out where no held-out ratings are given.
    pub valid: f64,
    /// When training stops.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rank: 32, loss: Loss::Squared, l2: 0.06, step: 0.05, seed: 1, valid: 0.1, limits: Limits::default() }
    }
}

/// Collects settings. Made by [`MatrixFactorization::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.settings.$name = $name;
            self
        }
    )*};
}

impl Builder {
    setters! {
        /// How many factors a user and an item have. Default 32.
        rank: u32;
        /// What is minimized. Default squared.
        loss: Loss;
        /// How much large factors cost. Default 0.06.
        l2: f32;
        /// The first step. Default 0.05; steps adapt by themselves.
        step: f32;
        /// What all chance comes from. Default 1.
        seed: u64;
        /// The share of ratings that is held out where no held-out ratings are given. Default 0.1; 0 holds out none.
        valid: f64;
        /// When training stops.
        limits: Limits;
    }

    /// At most so many epochs. Default 40.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.settings.limits.epochs = epochs;
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<MatrixFactorization, Error> {
        let Settings { rank, l2, step, valid, .. } = &self.settings;
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
        if !(0.0..1.0).contains(valid) {
            return refuse("valid", valid.to_string(), "a share from 0 to below 1");
        }
        if self.settings.limits.epochs == 0 {
            return refuse("epochs", "0".to_owned(), "at least 1");
        }
        Ok(MatrixFactorization { settings: self.settings })
    }
}
