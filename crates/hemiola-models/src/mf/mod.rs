//! Matrix factorization: a rating is the mean, a bias of the user, a bias of the item, and the product of their factors.
//!
//! Trained by stochastic gradient descent with steps that adapt (see `step`). The loop over ratings depends on itself through
//! rows of users and rows of items; `parallel_for!` cuts users over workers and rotates items among them, so that the
//! result is that of a serial loop, on any number of peers.

pub mod data;
mod loss;
mod model;
mod settings;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod step;
mod train;

pub use loss::Loss;
pub use model::Model;
pub use settings::{Builder, Settings};
pub use train::Trained;

/// An untrained matrix factorization.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixFactorization {
    settings: Settings,
}

impl MatrixFactorization {
    /// Collects settings, from good defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What it will be trained with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
