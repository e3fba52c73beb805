//! Linear classifiers: support vector machines and logistic regression, for two classes or many.
//!
//! The objective is that of liblinear and scikit-learn, `½ |w|² + C Σ loss(y (w·x + bias))`: one
//! problem for two classes, one-versus-rest problems for more. A worker solves the problem of *its*
//! examples by dual coordinate ascent, as though all others' looked the same, starting from the
//! average model. Then models are averaged: within a peer in memory, between peers by gossip
//! averaging over a communication graph. `docs/guides/classify.md` explains why this converges to the
//! minimum, with references.
//!
//! | file | concept |
//! |---|---|
//! | `loss` | losses, their conjugates, and the exact step along one dual coordinate |
//! | `settings` | settings and their builder |
//! | `shard` | the examples of a worker |
//! | `dual_ascent` | dual coordinate ascent of a worker over its examples |
//! | `train` | rounds, averaging, the objective and the duality gap |
//! | `tune` | search and cross-validation |
//! | `model` | the trained model, prediction and saving |
//! | `checkpoint` | model and training state, to resume |
//! | `metrics` | classification metrics of distributed examples |
//! | `confusion` | examples by true and predicted class |
//! | [`data`] | reading examples |

mod checkpoint;
mod confusion;
pub mod data;
mod dual_ascent;
mod loss;
mod metrics;
mod model;
mod separated_examples;
mod settings;
mod shard;
mod train;
mod tune;

use crate::ExampleWeights;
use crate::input::InputSchema;
pub(crate) use confusion::ConfusionCounts;
pub use confusion::ConfusionMatrix;
pub use loss::LinearLoss;
pub(crate) use metrics::{ClassificationMetrics, predicted_class};
pub(crate) use model::count_beyond;
pub use model::{LinearEvaluation, LinearModel, LinearPrediction};
pub use settings::{LinearBuilder, LinearSettings};
pub(crate) use shard::{UNKNOWN_CLASS, class_name, class_names, classes, labels};

/// Linear classifier estimator: settings of a model to be trained.
///
/// ```
/// use hemiola_models::linear::{LinearLoss, data};
/// use hemiola_models::prelude::*;
///
/// hemiola::standalone(2).workers(1).run(|cluster| {
///     let examples = data::synthetic(cluster, 2000, Seed(1))?;
///     let trained = LinearClassifier::builder(LinearLoss::SquaredHinge).validation(0.1).build()?.fit(cluster, &examples)?;
///     assert!(trained.report.result.validation.unwrap()["accuracy"] > 0.6);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinearClassifier {
    settings: LinearSettings,
    names: Vec<String>,
    input: Option<InputSchema>,
    weights: ExampleWeights,
}

impl LinearClassifier {
    /// Returns a builder with default settings.
    pub fn builder(loss: LinearLoss) -> LinearBuilder {
        LinearBuilder::new(loss)
    }

    /// Sets class names: of label 0, of label 1, and so on, as [`data::read`] finds them. The model
    /// keeps them.
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
