//! Evaluation of a model on examples.

use crate::linear::ConfusionMatrix;
use crate::training::Metrics;
use serde::Serialize;

/// Evaluation of a model on examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExampleEvaluation {
    /// Metrics of the examples, by name.
    pub metrics: Metrics,
    /// Number of evaluated examples.
    pub examples: u64,
    /// Number of feature values unknown to the model; they were dropped.
    pub unknown_features: u64,
    /// Examples by true and predicted class; `None` for quantities, clusters, and more than
    /// [`ConfusionMatrix::MAX_CLASSES`] classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<ConfusionMatrix>,
}
