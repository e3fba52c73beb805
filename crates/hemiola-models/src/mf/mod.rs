//! Matrix factorization: a rating is the mean, plus a user bias, an item bias and the dot product
//! of user and item factors.
//!
//! Ratings are trained by stochastic gradient descent with adaptive learning rates (see `sgd`). The
//! loop over ratings carries dependences through user rows and item rows. `parallel_for!`
//! partitions users over workers and rotates items among them, so the result is that of a serial
//! loop on any number of peers. Events without ratings are trained by alternating least squares
//! (see `one_class`), two loops whose rows are independent, or by Bayesian personalized ranking (see
//! `bpr`): mini-batches of an item with an event and one without.

mod batch;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod bpr;
pub mod data;
mod evaluate;
mod fold_in;
mod loss;
mod model;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod normal_equations;
mod one_class;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod ranking;
mod settings;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod sgd;
mod top_k;
mod train;
mod tune;

use crate::input::InputSchema;
pub use batch::{BatchRecommender, RankedItems};
pub use evaluate::MfEvaluation;
pub use loss::MfLoss;
pub use model::{MfModel, UserFactors};
pub use ranking::{DEFAULT_CUTOFFS, RankingEvaluator};
pub use settings::{MfBuilder, MfSettings};

/// Matrix factorization estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixFactorization {
    settings: MfSettings,
    input: Option<InputSchema>,
}

impl MatrixFactorization {
    /// Returns a builder with default settings.
    pub fn builder() -> MfBuilder {
        MfBuilder::default()
    }

    /// Sets the layout of the files that the data are read from. The model keeps it, so that new
    /// files are read alike.
    #[must_use]
    pub fn with_input(mut self, schema: Option<InputSchema>) -> Self {
        self.input = schema;
        self
    }
}
