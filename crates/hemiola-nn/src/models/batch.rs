//! What a net is given at once, and how its answers are judged.
//!
//! **Invariant:** a loss is the mean over the examples of its batch. Whoever joins batches weighs them by their examples.

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, ElementConversion as _, Int, Tensor};

/// Images and what is on them.
#[derive(Clone, Debug)]
pub struct ImageBatch {
    /// By example, channel, row and column.
    pub images: Tensor<4>,
    /// By example, the number of a class.
    pub labels: Tensor<1, Int>,
}

/// Pieces of text, and the word that follows each of their words.
#[derive(Clone, Debug)]
pub struct TextBatch {
    /// By example and position, the number of a word.
    pub words: Tensor<2, Int>,
    /// By example and position, the number of the word after it.
    pub next: Tensor<2, Int>,
}

/// Who rated what how.
#[derive(Clone, Debug)]
pub struct RatingBatch {
    /// By example, the number of a user.
    pub users: Tensor<1, Int>,
    /// By example, the number of an item.
    pub items: Tensor<1, Int>,
    /// By example.
    pub ratings: Tensor<1>,
}

/// How a net did on a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The mean loss.
    pub loss: f64,
    /// The share of answers that are right, where an answer is right or wrong.
    pub right: Option<f64>,
}

/// What can be trained on batches.
pub trait Net: Module {
    /// What it is given at once.
    type Batch;

    /// The mean loss over the examples of a batch.
    fn loss(&self, batch: &Self::Batch) -> Tensor<1>;

    /// How it does on a batch.
    fn judge(&self, batch: &Self::Batch) -> Judged;
}

/// The mean of what was lost by the chance that `scores`, by example and class, give the true class.
pub(super) fn cross_entropy(scores: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let [examples] = labels.dims();
    // Whatever scores were computed with: chances of rare classes need the digits.
    let scores = scores.cast(DType::F32);
    log_softmax(scores, 1).gather(1, labels.reshape([examples, 1])).mean().neg()
}

/// How scores for classes do.
pub(super) fn judge(scores: Tensor<2>, labels: Tensor<1, Int>) -> Judged {
    let [examples] = labels.dims();
    let best: Tensor<1, Int> = scores.clone().argmax(1).reshape([examples]);
    let right: i64 = best.equal(labels.clone()).int().sum().into_scalar::<i64>().elem();
    Judged { loss: number(cross_entropy(scores, labels)), right: Some(right as f64 / examples as f64) }
}

/// Scores by example, position and word, and the words, as those of that many examples.
pub(super) fn each_position(scores: Tensor<3>, words: Tensor<2, Int>) -> (Tensor<2>, Tensor<1, Int>) {
    let [examples, positions, classes] = scores.dims();
    (scores.reshape([examples * positions, classes]), words.reshape([examples * positions]))
}

/// The number that a tensor of one is.
pub(super) fn number(tensor: Tensor<1>) -> f64 {
    f64::from(tensor.into_scalar::<f32>())
}
