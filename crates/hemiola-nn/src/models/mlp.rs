//! Multilayer perceptron for images of any size.

use super::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
use super::initializer::{LINEAR_GAIN, LayerInitializer, RELU_GAIN};
use crate::layers::{Linear, relu};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Mlp`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpConfig {
    /// Elements of an image: channels times rows times columns. Default: 784, of MNIST.
    pub inputs: usize,
    /// Neurons of each hidden layer. Default: 256 and 128.
    pub hidden: Vec<usize>,
    /// Number of classes. Default: 10.
    pub classes: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for MlpConfig {
    fn default() -> Self {
        Self { inputs: 28 * 28, hidden: vec![256, 128], classes: 10, seed: 1 }
    }
}

impl MlpConfig {
    /// Creates the network with seeded initial weights on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Mlp {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let mut inputs = self.inputs;
        let mut hidden = Vec::new();
        for neurons in &self.hidden {
            hidden.push(initializer.linear(inputs, *neurons, RELU_GAIN));
            inputs = *neurons;
        }
        Mlp { hidden, output: initializer.linear(inputs, self.classes, LINEAR_GAIN) }
    }
}

/// A multilayer perceptron; see the module documentation.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Vec<Linear>,
    output: Linear,
}

impl Mlp {
    /// Computes the logits, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = images.flatten::<2>(1, 3);
        for layer in &self.hidden {
            signal = relu(layer.forward(signal));
        }
        self.output.forward(signal)
    }
}

impl NeuralNet for Mlp {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn evaluate(&self, batch: &ImageBatch) -> EvalMetrics {
        batch::evaluate(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
