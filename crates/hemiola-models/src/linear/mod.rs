//! Linear classifiers: support vector machines and logistic regression, for two classes or many.
//!
//! Minimized is what liblinear and scikit-learn minimize, `½ |w|² + C Σ loss(y (w·x + bias))`, one problem for two classes and one
//! against the rest for each of more. A worker solves the problem of *its* examples by dual coordinate ascent, as though all others' looked
//! the same, starting from the average of models; then models are averaged: within a peer in memory, between peers over a communication
//! graph. `docs/models.md` has the argument why that ends at the minimum, and where it comes from.
//!
//! | file | concept |
//! |---|---|
//! | `loss` | losses, their conjugates, and the exact step along one dual coordinate |
//! | `settings` | what a user chooses |
//! | `shard` | the examples of a worker |
//! | `pass` | a worker's way over its examples |
//! | `train` | rounds, averages, the objective and the gap |
//! | `model` | what comes out, and how it is kept |
//! | `figures` | accuracy, log loss, area under the curve |
//! | [`data`] | getting examples |

pub mod data;
mod figures;
mod loss;
mod model;
mod pass;
mod settings;
mod shard;
mod train;

pub(crate) use figures::Figures;
pub use loss::Loss;
pub use model::{Evaluation, Model, Prediction};
pub use settings::{Builder, Settings};
pub(crate) use shard::UNKNOWN;
pub use train::Trained;

/// An untrained linear classifier.
///
/// ```
/// use hemiola_models::LinearClassifier;
/// use hemiola_models::linear::{Loss, data};
///
/// hemiola::standalone(2).workers(1).run(|cluster| {
///     let examples = data::made_up(cluster, 2000, 1)?;
///     let trained = LinearClassifier::builder(Loss::SquaredHinge).build()?.fit(cluster, &examples)?;
///     assert!(trained.report.result.valid.unwrap()["accuracy"] > 0.6);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinearClassifier {
    settings: Settings,
    names: Vec<String>,
}

impl LinearClassifier {
    /// Collects settings, from good defaults.
    pub fn builder(loss: Loss) -> Builder {
        Builder::new(loss)
    }

    /// With names for classes: that of label 0, of label 1, and so on, as [`data::read`] finds them. The model keeps them.
    #[must_use]
    pub fn named(mut self, names: Vec<String>) -> Self {
        self.names = names;
        self
    }

    /// What it will be trained with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
