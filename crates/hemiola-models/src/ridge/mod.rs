//! Ridge regression and ordinary least squares.
//!
//! ```text
//! objective = Σ_examples (y - w·x - b)² + alpha |w|²
//! ```
//!
//! This is the objective of scikit-learn's `Ridge`; the intercept `b` is not regularized.
//! [`RidgeRegression::least_squares`] has `alpha` 0 and is `LinearRegression`.
//!
//! **Optimization.** The solution satisfies the normal equations `(X'X + alpha I) w = X'y`, of
//! centred columns where there is an intercept. Up to [`DIRECT_COLUMNS`] columns, their matrix is
//! summed in one pass over the data and factorized (Cholesky). With more columns, or if the matrix is
//! numerically singular, conjugate gradients solve them with a pass per iteration and without the
//! matrix (Hestenes and Stiefel 1952), preconditioned by the diagonal. Without regularization and with
//! collinear columns there are many solutions; conjugate gradients find one of them, where a
//! factorization would fail. An epoch is an iteration, and the factorization is the only one of its
//! run.
//!
//! **Parallel execution.** Rows are distributed over peers in fixed blocks, and sums over rows are
//! taken in the order of one fixed tree over the blocks. **The model has the same bits on any number
//! of peers and workers.** Peers exchange the matrix once, or one number per column in each
//! iteration.
//!
//! ```
//! use hemiola::prelude::*;
//! use hemiola_models::prelude::*;
//!
//! hemiola::standalone(2).workers(1).run(|cluster| {
//!     let features = cluster.from_fn([50, 2], |[row, column]| ((row * (3 + column)) % 7) as f32)?;
//!     let features = features.entries().filter(|_, value| *value != 0.0).materialize()?;
//!     let labels = cluster.from_fn([50], |[row]| 1.0 + 2.0 * ((row * 3) % 7) as f32 - ((row * 4) % 7) as f32)?;
//!     let examples = hemiola_array::dist::LabelledData { features, labels };
//!     let model = RidgeRegression::least_squares().build()?.fit(cluster, &examples)?.model;
//!     assert!((model.intercept - 1.0).abs() < 1e-9 && (model.weights()[0] - 2.0).abs() < 1e-9);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `alpha` | 1 | L2 regularization; 0 for least squares |
//! | `intercept` | true | whether there is an intercept |
//! | `tolerance` | 1e-8 | relative norm of the gradient at which iterations stop |
//! | `validation` | 0 | fraction held out for metrics |
//!
//! Most coefficients of a lasso are 0; for that use [`SparseRegression`](crate::SparseRegression).
//!
//! | file | concept |
//! |---|---|
//! | `settings` | settings and their builder |
//! | `normal_equations` | the matrix, its factorization, and products with it |
//! | `train` | the solvers |
//! | `tune` | search and cross-validation |
//! | `model` | the trained model: prediction and saving |

mod model;
mod normal_equations;
mod settings;
mod train;
mod tune;

use crate::ExampleWeights;
use crate::input::InputSchema;
pub use model::RidgeModel;
pub use normal_equations::DIRECT_COLUMNS;
pub use settings::{RidgeBuilder, RidgeSettings};

/// Ridge regression estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct RidgeRegression {
    settings: RidgeSettings,
    input: Option<InputSchema>,
    weights: ExampleWeights,
}

impl RidgeRegression {
    /// Returns a builder with default settings.
    pub fn builder() -> RidgeBuilder {
        RidgeBuilder::new(1.0)
    }

    /// Returns a builder of ordinary least squares: without regularization.
    pub fn least_squares() -> RidgeBuilder {
        RidgeBuilder::new(0.0)
    }

    /// Sets weights of the training examples. The squared error of each is multiplied by
    /// its weight, as by `sample_weight` of scikit-learn. Quantities have no classes, so weights of
    /// classes change nothing.
    #[must_use]
    pub fn weighted(mut self, weights: ExampleWeights) -> Self {
        self.weights = weights;
        self
    }

    /// Sets the layout of the files that the data are read from. The model keeps it, so that new
    /// files are read alike.
    #[must_use]
    pub fn with_input(mut self, schema: Option<InputSchema>) -> Self {
        self.input = schema;
        self
    }
}
