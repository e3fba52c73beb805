//! Cross-entropy of logits in two passes over each row, forward, and one, backward.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Int, Tensor};
use hemiola_kernels::cross_entropy;

/// Mean cross-entropy of `logits` (`[batch, classes]`) against `labels`, with label smoothing: the
/// target of an example is `1 - smoothing` for its label, plus `smoothing / classes` for every
/// class.
///
/// # Panics
/// If a label is not below the number of classes.
#[must_use]
pub fn cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>, smoothing: f32) -> Tensor<1> {
    // In `f32` whatever the precision of the pass: probabilities of rare classes need it.
    let logits = logits.cast(DType::F32);
    let [examples, classes] = logits.dims();
    if examples > 0 && host_function::is_supported(&logits) {
        let labels =
            labels.into_data().iter::<i64>().map(|label| usize::try_from(label).unwrap_or(usize::MAX)).collect();
        return host_function::apply(vec![logits.into()], CrossEntropy { labels, classes, smoothing });
    }
    let logs = log_softmax(logits, 1);
    let own = logs.clone().gather(1, labels.reshape([examples, 1])).mean().neg();
    if smoothing == 0.0 {
        return own;
    }
    own.mul_scalar(1.0 - smoothing) - logs.mean().mul_scalar(smoothing)
}

#[derive(Debug)]
struct CrossEntropy {
    labels: Vec<usize>,
    classes: usize,
    smoothing: f32,
}

impl HostFunction for CrossEntropy {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let (losses, sums) = cross_entropy::forward(inputs[0], &self.labels, self.classes, self.smoothing);
        let mean = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / losses.len() as f64;
        HostOutput { values: vec![mean as f32], shape: vec![1], saved: vec![sums] }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let mut gradient = vec![0.0; pass.inputs[0].len()];
        let settings = (self.classes, self.smoothing, pass.gradient[0] / self.labels.len() as f32);
        cross_entropy::backward(&mut gradient, pass.inputs[0], &self.labels, &pass.saved[0], settings);
        vec![Some(gradient)]
    }
}
