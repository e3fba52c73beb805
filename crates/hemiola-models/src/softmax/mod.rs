//! Softmax regression: multinomial logistic regression of two classes or more.
//!
//! ```text
//! P(class k | x) = exp(w_k·x + b_k) / Σ_j exp(w_j·x + b_j)
//! objective = ½ Σ_k |w_k|² + C Σ_examples -ln P(label | x)
//! ```
//!
//! This is the objective of scikit-learn's `LogisticRegression`; intercepts are not regularized. Unlike
//! the one-versus-rest problems of [`LinearClassifier`](crate::LinearClassifier), its probabilities are
//! fitted together. With two classes it is binary logistic regression of twice the `C`, since the
//! weights are shared by both classes.
//!
//! **Optimization.** Truncated Newton (Dembo and Steihaug 1983; Lin, Weng and Keerthi 2008): an epoch
//! is a Newton step, whose direction conjugate gradients find by products of the Hessian with vectors,
//! one pass over the data each. A step is halved until the objective falls enough (Armijo). There is
//! no learning rate, the objective never increases, and a step depends on the weights alone. Training
//! has converged when the norm of the gradient is `tolerance` times that of zero weights.
//!
//! **Parallel execution.** Rows are distributed over peers in fixed blocks, and sums over rows are
//! taken in the order of one fixed tree over the blocks. **The model has the same bits on any number
//! of peers and workers.** Each pass exchanges one number per weight.
//!
//! ```
//! use hemiola_models::linear::data;
//! use hemiola_models::prelude::*;
//!
//! hemiola::standalone(2).workers(1).run(|cluster| {
//!     let examples = data::synthetic(cluster, 1000, Seed(1))?;
//!     let trained = SoftmaxRegression::builder().c(0.1).build()?.fit(cluster, &examples)?;
//!     assert_eq!(trained.report.result.stop_reason, "converged");
//!     let predictions = trained.model.predict(cluster, &examples.features)?;
//!     assert!((predictions[0].probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `c` | 1 | inverse regularization strength |
//! | `intercept` | true | whether each class has an intercept |
//! | `tolerance` | 1e-5 | relative norm of the gradient at which training stops |
//! | `validation` | 0 | fraction held out for metrics |
//!
//! | file | concept |
//! |---|---|
//! | `settings` | settings and their builder |
//! | `objective` | objective, gradient, and products with the Hessian |
//! | `train` | Newton steps |
//! | `tune` | search and cross-validation |
//! | `model` | the trained model: prediction and saving |

mod model;
mod objective;
mod settings;
mod train;
mod tune;

use crate::ExampleWeights;
use crate::input::InputSchema;
pub use model::{SoftmaxModel, SoftmaxPrediction};
pub use settings::{SoftmaxBuilder, SoftmaxSettings};

/// Softmax regression estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxRegression {
    settings: SoftmaxSettings,
    names: Vec<String>,
    input: Option<InputSchema>,
    weights: ExampleWeights,
}

impl SoftmaxRegression {
    /// Returns a builder with default settings.
    pub fn builder() -> SoftmaxBuilder {
        SoftmaxBuilder::new()
    }

    /// Sets class names: of label 0, of label 1, and so on, as
    /// [`data::read`](crate::linear::data::read) finds them. The model keeps them.
    #[must_use]
    pub fn named(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    /// Sets weights of the training examples. The loss of each is multiplied by its
    /// weight, as by `sample_weight` of scikit-learn.
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
