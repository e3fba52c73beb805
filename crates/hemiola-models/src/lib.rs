//! Machine-learning models built on distributed arrays and `parallel_for!`, the same API that any
//! program can use.
//!
//! ```
//! use hemiola::prelude::*;
//! use hemiola_models::prelude::*;
//!
//! hemiola::standalone(1).workers(2).run(|cluster| {
//!     let all = cluster.from_fn([40, 30], |[user, item]| 1.0 + ((user + item) % 5) as f32)?;
//!     let ratings = all.entries().filter(|[user, item], _| (user * 7 + item) % 3 > 0).materialize()?;
//!     let trained = MatrixFactorization::builder().rank(8).epochs(30).build()?.fit(cluster, &ratings)?;
//!     let error = trained.model.predict(cluster, &[[0, 4]])?[0] - 5.0;
//!     assert!(error.abs() < 1.0, "{error}");
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`estimator`] | [`Estimator`] and [`Predictor`]: the contract of all model families |
//! | [`input`] | [`InputSchema`](input::InputSchema): layout of the training files, stored with a model |
//! | [`training`] | fit and checkpoints of models of arrays, by the loop of [`hemiola_training`] |
//! | [`mf`] | [`MatrixFactorization`]: ratings or implicit feedback explained by factors of users and items |
//! | [`linear`] | [`LinearClassifier`]: support vector machines and logistic regression |
//! | [`sparse`] | [`SparseRegression`]: lasso, elastic net, and L1-regularized logistic regression |
//! | [`fm`] | [`FactorizationMachine`]: weights of single features and of all their pairs |
//! | [`ridge`] | [`RidgeRegression`]: ridge regression and ordinary least squares |
//! | [`softmax`] | [`SoftmaxRegression`]: multinomial logistic regression |
//! | [`kmeans`] | [`KMeans`]: clusters of rows around their means |
//! | [`lda`] | [`TopicModelling`]: topic models (latent Dirichlet allocation) |
//! | [`metrics`] | metrics of classes, probabilities, quantities and rankings |
//! | [`selection`] | cross-validation, and search for good settings |
//! | [`memory`] | memory that a model needs, checked before it is taken |
//! | [`error`] | errors of training, evaluation and loading |

pub mod error;
pub mod estimator;
mod examples;
pub mod fm;
pub mod input;
pub mod kmeans;
pub mod lda;
pub mod linear;
pub mod memory;
pub mod metrics;
pub mod mf;
pub mod prelude;
pub mod ridge;
pub mod selection;
mod setters;
pub mod softmax;
pub mod sparse;
pub mod training;

pub use error::Error;
pub use estimator::{Estimator, IncrementalEstimator, Predictor};
pub use examples::{ClassWeights, ExampleEvaluation, ExampleWeights};
pub use fm::FactorizationMachine;
pub use kmeans::KMeans;
pub use lda::TopicModelling;
pub use linear::LinearClassifier;
pub use mf::MatrixFactorization;
pub use ridge::RidgeRegression;
pub use softmax::SoftmaxRegression;
pub use sparse::SparseRegression;
pub use training::Fit;
