//! Residual networks (He et al. 2016): by default the one for CIFAR-10, where three blocks in each of
//! three stages give 20 layers. [`ResnetPreset`] has ResNet-18 and ResNet-50.
//!
//! It uses group normalization (Wu and He 2018) instead of batch normalization, so that the
//! gradient of an image does not depend on the other images of a peer's batch.

use super::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
use super::initializer::{LINEAR_GAIN, LayerInitializer};
use crate::layers::{Linear, convolution, group_norm, relu};
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{GroupNorm, GroupNormConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Channels per normalization group.
const GROUP: usize = 8;
/// Outputs of a bottleneck block per channel of its stage.
pub(crate) const EXPANSION: usize = 4;
/// Smallest rows and columns of images that [`ResnetPreset`] begins with a window of 7 and pooling.
const LARGE_IMAGE: usize = 64;

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
    /// Blocks by stage, in place of `blocks`. Default: empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stage_blocks: Vec<usize>,
    /// Blocks of three convolutions, with windows of 1, 3 and 1 and four times as many outputs.
    /// Default: no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bottleneck: bool,
    /// First convolution with a window of 7 and a stride of 2, and max pooling after it, for large
    /// images. Default: no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub large_stem: bool,
    /// Number of classes. Default: 10.
    pub classes: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        Self {
            image_channels: 3,
            stages: vec![16, 32, 64],
            blocks: 3,
            stage_blocks: Vec::new(),
            bottleneck: false,
            large_stem: false,
            classes: 10,
            seed: 1,
        }
    }
}

/// Known residual networks. They have group instead of batch normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResnetPreset {
    /// ResNet-18: two blocks of two convolutions in each of four stages.
    Resnet18,
    /// ResNet-50: 3, 4, 6 and 3 blocks of three convolutions.
    Resnet50,
}

impl ResnetPreset {
    /// Returns the configuration for images `[channels, rows, columns]`. Images of fewer than 64 rows
    /// or columns are not reduced before the first stage.
    #[must_use]
    pub fn config(self, [image_channels, rows, columns]: [usize; 3], classes: usize, seed: u64) -> ResnetConfig {
        let (stage_blocks, bottleneck) = match self {
            Self::Resnet18 => (vec![2, 2, 2, 2], false),
            Self::Resnet50 => (vec![3, 4, 6, 3], true),
        };
        let large_stem = rows.min(columns) >= LARGE_IMAGE;
        let stages = vec![64, 128, 256, 512];
        ResnetConfig { image_channels, stages, blocks: 2, stage_blocks, bottleneck, large_stem, classes, seed }
    }
}

impl FromStr for ResnetPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "resnet18" => Ok(Self::Resnet18),
            "resnet50" => Ok(Self::Resnet50),
            _ => Err(format!("`{text}` is no preset; use `resnet18` or `resnet50`")),
        }
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
        let (window, step) = if self.large_stem { (7, 2) } else { (3, 1) };
        let first = ConvNorm::new(&mut initializer, [self.image_channels, before], window, step, device);
        let mut blocks = Vec::new();
        for (stage, channels) in self.stages.iter().enumerate() {
            for block in 0..self.blocks_of(stage) {
                let step = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(ResidualBlock::new(&mut initializer, [before, *channels], step, self.bottleneck, device));
                before = self.outputs_of(*channels);
            }
        }
        let output = initializer.linear(before, self.classes, LINEAR_GAIN);
        Resnet { first, blocks, output, pooled: self.large_stem }
    }

    /// Number of blocks of a stage.
    pub(crate) fn blocks_of(&self, stage: usize) -> usize {
        self.stage_blocks.get(stage).copied().unwrap_or(self.blocks)
    }

    /// Channels of the output of a block.
    pub(crate) fn outputs_of(&self, channels: usize) -> usize {
        if self.bottleneck { channels.saturating_mul(EXPANSION) } else { channels }
    }
}

/// A residual network; see the module documentation.
#[derive(Module, Debug)]
pub struct Resnet {
    first: ConvNorm,
    blocks: Vec<ResidualBlock>,
    output: Linear,
    /// Max pooling after the first convolution.
    pooled: bool,
}

impl Resnet {
    /// Computes the logits, `[batch, classes]`.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = relu(self.first.forward(images));
        if self.pooled {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            signal = MaxPool2dConfig::new([3, 3]).with_strides([2, 2]).with_padding(padding).init().forward(signal);
        }
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

/// Two or three convolutions with a skip connection.
#[derive(Module, Debug)]
struct ResidualBlock {
    first: ConvNorm,
    second: ConvNorm,
    /// Last convolution of a bottleneck.
    third: Option<ConvNorm>,
    /// Projection of the skip connection, where the shape changes.
    shortcut: Option<ConvNorm>,
}

impl ResidualBlock {
    fn new(
        initializer: &mut LayerInitializer<'_>,
        channels: [usize; 2],
        step: usize,
        bottleneck: bool,
        device: &Device,
    ) -> Self {
        let [inputs, inner] = channels;
        let outputs = if bottleneck { EXPANSION * inner } else { inner };
        let changes = step > 1 || inputs != outputs;
        // The stride of a bottleneck is that of its window of 3.
        let (window, steps) = if bottleneck { (1, [1, step]) } else { (3, [step, 1]) };
        Self {
            first: ConvNorm::new(initializer, channels, window, steps[0], device),
            second: ConvNorm::new(initializer, [inner; 2], 3, steps[1], device),
            third: bottleneck.then(|| ConvNorm::new(initializer, [inner, outputs], 1, 1, device)),
            shortcut: changes.then(|| ConvNorm::new(initializer, [inputs, outputs], 1, step, device)),
        }
    }

    fn forward(&self, signal: Tensor<4>) -> Tensor<4> {
        let mut added = self.second.forward(relu(self.first.forward(signal.clone())));
        if let Some(third) = &self.third {
            added = third.forward(relu(added));
        }
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
        group_norm(&self.norm, convolution(&self.convolution, signal))
    }
}
