//! Residual network as He et al. (2016) use for CIFAR-10: three blocks in each of three stages give
//! 20 layers.
//!
//! It uses group normalization (Wu and He 2018) instead of batch normalization, so that the
//! gradient of an image does not depend on the other images of a peer's batch.

use super::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
use super::initializer::{LINEAR_GAIN, LayerInitializer};
use crate::layers::Linear;
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::{GroupNorm, GroupNormConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Channels per normalization group.
const GROUP: usize = 8;

/// Sizes and seed of a [`Resnet`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetConfig {
    /// Channels of an image. Default: 3.
    pub image_channels: usize,
    /// Channels of each stage, multiples of 8. Every stage but the first halves the image size.
    /// Default: 16, 32 and 64.
    pub stages: Vec<usize>,
    /// Blocks of each stage. Default: 3.
    pub blocks: usize,
    /// Number of classes. Default: 10.
    pub classes: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        Self { image_channels: 3, stages: vec![16, 32, 64], blocks: 3, classes: 10, seed: 1 }
    }
}

impl ResnetConfig {
    /// Creates the network with seeded initial weights on `device`.
    ///
    /// # Panics
    /// If there is no stage, or one whose channels are not a multiple of 8.
    #[must_use]
    pub fn init(&self, device: &Device) -> Resnet {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let mut before = *self.stages.first().expect("a residual network has at least one stage");
        let first = ConvNorm::new(&mut initializer, [self.image_channels, before], 3, 1, device);
        let mut blocks = Vec::new();
        for (stage, channels) in self.stages.iter().enumerate() {
            for block in 0..self.blocks {
                let step = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(ResidualBlock::new(&mut initializer, [before, *channels], step, device));
                before = *channels;
            }
        }
        Resnet { first, blocks, output: initializer.linear(before, self.classes, LINEAR_GAIN) }
    }
}

/// A residual network; see the module documentation.
#[derive(Module, Debug)]
pub struct Resnet {
    first: ConvNorm,
    blocks: Vec<ResidualBlock>,
    output: Linear,
}

impl Resnet {
    /// Computes the logits, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = relu(self.first.forward(images));
        for block in &self.blocks {
            signal = block.forward(signal);
        }
        let [examples, channels, rows, columns] = signal.dims();
        let means = signal.reshape([examples, channels, rows * columns]).mean_dim(2).reshape([examples, channels]);
        self.output.forward(means)
    }
}

impl NeuralNet for Resnet {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn evaluate(&self, batch: &ImageBatch) -> EvalMetrics {
        batch::evaluate(self.forward(batch.images.clone()), batch.labels.clone())
    }
}

/// Two convolutions with a skip connection.
#[derive(Module, Debug)]
struct ResidualBlock {
    first: ConvNorm,
    second: ConvNorm,
    /// Projection of the skip connection, where the shape changes.
    shortcut: Option<ConvNorm>,
}

impl ResidualBlock {
    fn new(initializer: &mut LayerInitializer<'_>, channels: [usize; 2], step: usize, device: &Device) -> Self {
        let changes = step > 1 || channels[0] != channels[1];
        Self {
            first: ConvNorm::new(initializer, channels, 3, step, device),
            second: ConvNorm::new(initializer, [channels[1]; 2], 3, 1, device),
            shortcut: changes.then(|| ConvNorm::new(initializer, channels, 1, step, device)),
        }
    }

    fn forward(&self, signal: Tensor<4>) -> Tensor<4> {
        let added = self.second.forward(relu(self.first.forward(signal.clone())));
        let skipped = match &self.shortcut {
            Some(shortcut) => shortcut.forward(signal),
            None => signal,
        };
        relu(skipped + added)
    }
}

/// Convolution followed by group normalization.
#[derive(Module, Debug)]
struct ConvNorm {
    convolution: Conv2d,
    norm: GroupNorm,
}

impl ConvNorm {
    fn new(
        initializer: &mut LayerInitializer<'_>,
        channels: [usize; 2],
        window: usize,
        step: usize,
        device: &Device,
    ) -> Self {
        let norm = GroupNormConfig::new(channels[1] / GROUP, channels[1]).init(device);
        Self { convolution: initializer.convolution(channels, window, step), norm }
    }

    fn forward(&self, signal: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolution.forward(signal))
    }
}
