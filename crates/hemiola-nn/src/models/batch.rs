//! Mini-batches, the trait of networks, losses and metrics.
//!
//! **Invariant:** a loss is the mean over the examples of its batch. Code that combines batches
//! weights them by their sizes.

use crate::layers;
use burn::module::Module;
use burn::tensor::{ElementConversion as _, Int, Tensor};

/// Images with class labels.
#[derive(Clone, Debug)]
pub struct ImageBatch {
    /// Pixels, `[batch, channels, rows, columns]`.
    pub images: Tensor<4>,
    /// Class index of each image, `[batch]`.
    pub labels: Tensor<1, Int>,
}

/// Token sequences with the next token of each position.
#[derive(Clone, Debug)]
pub struct TextBatch {
    /// Token indices, `[batch, sequence]`.
    pub tokens: Tensor<2, Int>,
    /// Index of the next token, `[batch, sequence]`.
    pub targets: Tensor<2, Int>,
}

/// Ratings of users for items.
#[derive(Clone, Debug)]
pub struct RatingBatch {
    /// User index of each rating, `[batch]`.
    pub users: Tensor<1, Int>,
    /// Item index of each rating, `[batch]`.
    pub items: Tensor<1, Int>,
    /// Ratings to predict, `[batch]`.
    pub ratings: Tensor<1>,
}

/// Metrics of a network on a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalMetrics {
    /// Mean loss of the batch.
    pub loss: f64,
    /// Share of correct predictions; `None` for regression.
    pub accuracy: Option<f64>,
}

/// A network with a loss on batches.
pub trait NeuralNet: Module {
    /// Type of its mini-batches.
    type Batch;

    /// Computes the mean loss over the examples of a batch.
    fn loss(&self, batch: &Self::Batch) -> Tensor<1>;

    /// Computes the metrics on a batch. The default computes the loss alone; [`evaluate`] computes
    /// those of a classifier.
    fn evaluate(&self, batch: &Self::Batch) -> EvalMetrics {
        EvalMetrics { loss: scalar(self.loss(batch)), accuracy: None }
    }
}

/// Mean cross-entropy of `logits` (`[batch, classes]`) against `labels`.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    layers::cross_entropy(logits, labels, 0.0)
}

/// Computes cross-entropy and accuracy of `logits` (`[batch, classes]`) against `labels`.
#[must_use]
pub fn evaluate(logits: Tensor<2>, labels: Tensor<1, Int>) -> EvalMetrics {
    let [examples] = labels.dims();
    let best: Tensor<1, Int> = logits.clone().argmax(1).reshape([examples]);
    let correct: i64 = best.equal(labels.clone()).int().sum().into_scalar::<i64>().elem();
    EvalMetrics { loss: scalar(cross_entropy(logits, labels)), accuracy: Some(correct as f64 / examples as f64) }
}

/// Flattens logits `[batch, sequence, classes]` and targets to one example per position.
pub(super) fn flatten_positions(logits: Tensor<3>, targets: Tensor<2, Int>) -> (Tensor<2>, Tensor<1, Int>) {
    let [examples, positions, classes] = logits.dims();
    (logits.reshape([examples * positions, classes]), targets.reshape([examples * positions]))
}

/// Returns the value of a tensor with one element.
fn scalar(tensor: Tensor<1>) -> f64 {
    f64::from(tensor.into_scalar::<f32>())
}
