//! Convolutions and large linear layers, after Simonyan and Zisserman (2015). Nearly all of its
//! parameters are in the linear layers, and nearly all of its computation is in the convolutions.
//! The choice of the synchronization method therefore matters most for this network.

use super::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
use super::initializer::{LINEAR_GAIN, LayerInitializer, RELU_GAIN};
use crate::layers::{Linear, convolution, max_pool_relu, relu};
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Vgg`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VggConfig {
    /// Channels, rows and columns of an image. Default: 3, 32 and 32.
    pub image_shape: [usize; 3],
    /// Channels of each stage; a stage halves rows and columns. Default: 32, 64 and 128.
    pub stages: Vec<usize>,
    /// Convolutions of each stage. Default: 1.
    pub depth: usize,
    /// Neurons of each hidden layer. Default: 2048 and 2048.
    pub hidden: Vec<usize>,
    /// Number of classes. Default: 10.
    pub classes: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for VggConfig {
    fn default() -> Self {
        Self {
            image_shape: [3, 32, 32],
            stages: vec![32, 64, 128],
            depth: 1,
            hidden: vec![2048, 2048],
            classes: 10,
            seed: 1,
        }
    }
}

impl VggConfig {
    /// Creates the network with seeded initial weights on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Vgg {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let [mut channels, mut rows, mut columns] = self.image_shape;
        let (mut stages, mut hidden) = (Vec::new(), Vec::new());
        for wanted in &self.stages {
            let mut convolutions = Vec::new();
            for _ in 0..self.depth {
                convolutions.push(initializer.convolution([channels, *wanted], 3, 1));
                channels = *wanted;
            }
            stages.push(convolutions);
            (rows, columns) = (rows / 2, columns / 2);
        }
        let mut inputs = channels * rows * columns;
        for neurons in &self.hidden {
            hidden.push(initializer.linear(inputs, *neurons, RELU_GAIN));
            inputs = *neurons;
        }
        let output = initializer.linear(inputs, self.classes, LINEAR_GAIN);
        Vgg { stages, hidden, output }
    }
}

/// A VGG-style network; see the module documentation.
#[derive(Module, Debug)]
pub struct Vgg {
    stages: Vec<Vec<Conv2d>>,
    hidden: Vec<Linear>,
    output: Linear,
}

impl Vgg {
    /// Computes the logits, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = images;
        for convolutions in &self.stages {
            let Some((last, before)) = convolutions.split_last() else { continue };
            for layer in before {
                signal = relu(convolution(layer, signal));
            }
            signal = max_pool_relu(convolution(last, signal));
        }
        let mut signal = signal.flatten::<2>(1, 3);
        for layer in &self.hidden {
            signal = relu(layer.forward(signal));
        }
        self.output.forward(signal)
    }
}

impl NeuralNet for Vgg {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn evaluate(&self, batch: &ImageBatch) -> EvalMetrics {
        batch::evaluate(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
