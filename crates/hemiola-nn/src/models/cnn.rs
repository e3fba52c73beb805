//! Two convolutions and two linear layers, similar to `LeNet` (1998), for images such as MNIST.

use super::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
use super::initializer::{LINEAR_GAIN, LayerInitializer, RELU_GAIN};
use crate::layers::{Linear, convolution, max_pool_relu, relu};
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Cnn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CnnConfig {
    /// Channels, rows and columns of an image. Default: 1, 28 and 28, of MNIST.
    pub image_shape: [usize; 3],
    /// Channels after each convolution. Default: 8 and 16.
    pub channels: [usize; 2],
    /// Neurons of the hidden layer. Default: 128.
    pub hidden: usize,
    /// Number of classes. Default: 10.
    pub classes: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for CnnConfig {
    fn default() -> Self {
        Self { image_shape: [1, 28, 28], channels: [8, 16], hidden: 128, classes: 10, seed: 1 }
    }
}

impl CnnConfig {
    /// Creates the network with seeded initial weights on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Cnn {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let ([image_channels, rows, columns], [first, second]) = (self.image_shape, self.channels);
        Cnn {
            first: initializer.convolution([image_channels, first], 5, 1),
            second: initializer.convolution([first, second], 5, 1),
            hidden: initializer.linear(second * (rows / 4) * (columns / 4), self.hidden, RELU_GAIN),
            output: initializer.linear(self.hidden, self.classes, LINEAR_GAIN),
        }
    }
}

/// A convolutional network; see the module documentation.
#[derive(Module, Debug)]
pub struct Cnn {
    first: Conv2d,
    second: Conv2d,
    hidden: Linear,
    output: Linear,
}

impl Cnn {
    /// Computes the logits, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let signal = max_pool_relu(convolution(&self.first, images));
        let signal = max_pool_relu(convolution(&self.second, signal));
        let signal = relu(self.hidden.forward(signal.flatten::<2>(1, 3)));
        self.output.forward(signal)
    }
}

impl NeuralNet for Cnn {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn evaluate(&self, batch: &ImageBatch) -> EvalMetrics {
        batch::evaluate(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
