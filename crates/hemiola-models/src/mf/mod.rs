//! Matrix factorization: a rating is the mean, a bias of the user, a bias of the item, and the product of their factors.
//!
//! Ratings are trained by stochastic gradient descent with steps that adapt (see `step`). The loop over ratings depends on itself through
//! rows of users and rows of items; `parallel_for!` cuts users over workers and rotates items among them, so that the
//! result is that of a serial loop, on any number of peers. Events without ratings are trained by alternating least squares
//! (see `one_class`): two loops in which no row depends on another.

mod best;
pub mod data;
mod evaluate;
mod fold;
mod loss;
mod model;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod normal;
mod one_class;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod ranking;
pub mod rotation;
mod settings;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod step;
mod train;

pub use evaluate::Evaluation;
pub use loss::Loss;
pub use model::{Model, Row};
pub use ranking::{PLACES, Ranking};
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
