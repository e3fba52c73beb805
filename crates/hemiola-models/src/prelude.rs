//! Names that most programs with models need.
//!
//! ```
//! use hemiola_models::prelude::*;
//! ```

pub use crate::training::{Checkpoints, FitOptions};
pub use crate::{
    Estimator, FactorizationMachine, Fit, IncrementalEstimator, KMeans, LinearClassifier, MatrixFactorization,
    Predictor, RidgeRegression, SoftmaxRegression, SparseRegression, TopicModelling,
};
pub use hemiola_core::Seed;
