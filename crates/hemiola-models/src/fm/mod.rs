//! Factorization machines: a linear model with a weight for every *pair* of features, of second
//! order (Rendle 2010).
//!
//! Data with many categories, as in recommendation and click prediction, have pairs of features
//! whose weights cannot be learned one by one, because most pairs occur rarely or never. Here the
//! weight of a pair is the dot product of two short vectors, the *factors* of its features:
//!
//! ```text
//! score = b + Σ_i w_i x_i + Σ_{i<j} (v_i · v_j) x_i x_j
//! objective = Σ_examples [loss + ½ Σ_{i in example} (l2_linear w_i² + l2_factors |v_i|²)]
//! ```
//!
//! The loss is squared, for quantities (in units of their standard deviation, so that the learning
//! rate does not depend on their scale), or logistic, for two classes. A feature is regularized
//! whenever it occurs, as in libFM and as in [matrix factorization](crate::mf), which is the special
//! case of two features per example, a user and an item.
//!
//! **Optimization.** Mini-batches of [`batch_size`](FmBuilder::batch_size) random examples: their
//! gradients are summed by feature, and each feature takes one AdaGrad step (Duchi, Hazan, Singer
//! 2011), with one sum of squares for its weight and one for all of its factors. An epoch whose
//! objective is not finite, or twice that of the previous one, is undone and repeated with half the
//! learning rate. With a validation set the best model is kept, and training stops after `patience`
//! epochs without improvement.
//!
//! **Parallel execution.** Examples are distributed over peers; every peer has all parameters. In
//! each step, workers score the examples of the batch on their peer. Peers then exchange, for each
//! example, its features, its slope and `Σ x v`, from which every peer computes the same step; the
//! features are divided among its workers. All sums are in the order of the batch, which depends on
//! the seed alone. **The model has the same bits on any number of peers and workers.** A step of
//! several peers costs two collectives, so larger batches suit slower networks.
//!
//! ```
//! use hemiola_models::fm::FmLoss;
//! use hemiola_models::linear::data;
//! use hemiola_models::prelude::*;
//!
//! hemiola::standalone(2).workers(1).run(|cluster| {
//!     let examples = data::synthetic(cluster, 2000, Seed(1))?;
//!     let machine = FactorizationMachine::builder(FmLoss::Logistic).rank(4).epochs(5).validation(0.1).build()?;
//!     let trained = machine.fit(cluster, &examples)?;
//!     assert!(trained.report.result.validation.unwrap()["auc"] > 0.6);
//!     let predictions = trained.model.predict(cluster, &examples.features)?;
//!     assert!(predictions[0].probability.unwrap() <= 1.0);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | setting | default | meaning |
//! |---|---|---|
//! | `rank` | 16 | number of factors per feature; 0 leaves the pairs out |
//! | `l2_linear`, `l2_factors` | 0.00001, 0.0001 | L2 regularization of weights and of factors |
//! | `learning_rate` | 0.1 | AdaGrad adapts it per feature |
//! | `batch_size` | 64 | examples per step |
//! | `normalize` | logistic loss: true | whether each example is scaled to norm 1 |
//! | `epochs` | 10 | passes over the examples |
//! | `validation` | 0 | fraction held out for early stopping, if no validation set is given |
//!
//! With `normalize`, examples of many features weigh as much as those of few, which makes training
//! robust; without, more can be learned from examples of equally many features. Numeric columns
//! should be scaled to be near 1 (counts: their logarithm), or they dominate the pairs. A column that never occurs in training has no effect on predictions.
//!
//! | file | concept |
//! |---|---|
//! | `loss`, `settings` | losses; settings and their builder |
//! | `parameters` | weights and factors, and the score of an example |
//! | `batch` | scored examples of a batch, exchanged between peers |
//! | `step` | gradients by feature, and AdaGrad |
//! | `train` | epochs, divergence control, evaluation |
//! | `tune` | search and cross-validation |
//! | `model` | the trained model: prediction and saving |
//!
//! # References
//!
//! - S. Rendle: Factorization Machines. ICDM 2010.
//! - J. Duchi, E. Hazan, Y. Singer: Adaptive Subgradient Methods for Online Learning and Stochastic
//!   Optimization. JMLR 12, 2011.
//! - P. Xie, J. K. Kim, Y. Zhou, Q. Ho, A. Kumar, Y. Yu, E. Xing: Lighter-Communication Distributed
//!   Machine Learning via Sufficient Factor Broadcasting. UAI 2016.

#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod batch;
mod loss;
mod model;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod parameters;
mod settings;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod step;
mod train;
mod tune;

use crate::input::InputSchema;
pub use loss::FmLoss;
pub use model::{FmModel, FmPrediction};
pub use settings::{FmBuilder, FmSettings};

/// Factorization machine estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorizationMachine {
    settings: FmSettings,
    names: Vec<String>,
    input: Option<InputSchema>,
}

impl FactorizationMachine {
    /// Returns a builder with default settings.
    pub fn builder(loss: FmLoss) -> FmBuilder {
        FmBuilder::new(loss)
    }

    /// Sets class names: of label 0 and of label 1, as [`data::read`](crate::linear::data::read)
    /// finds them. The model keeps them.
    #[must_use]
    pub fn named(mut self, names: Vec<String>) -> Self {
        self.names = names;
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
