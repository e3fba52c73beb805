//! Residual blocks, as He et al. (2016) use for CIFAR-10: with three blocks in each of three stages, a net of 20 layers.
//!
//! Where theirs normalizes over a batch, this one does over groups of channels of one image (Wu and He 2018): what is learned from an image does not depend on which others a peer has beside it.

use super::batch::{self, ImageBatch, Judged, Net};
use super::draw::{Draw, PLAIN};
use crate::layers::Linear;
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::{GroupNorm, GroupNormConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// Channels that are normalized together.
const GROUP: usize = 8;

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetConfig {
    /// Channels of an image. Default: 3.
    pub colours: usize,
    /// Channels of each stage, a multiple of 8; every stage but the first has images of half the size of those before. Default: 16, 32 and 64.
    pub stages: Vec<usize>,
    /// Blocks of each stage. Default: 3.
    pub blocks: usize,
    /// What may be on an image. Default: 10.
    pub classes: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        Self { colours: 3, stages: vec![16, 32, 64], blocks: 3, classes: 10, seed: 1 }
    }
}

impl ResnetConfig {
    /// The net.
    ///
    /// # Panics
    /// If there is no stage, or one whose channels are no multiple of 8.
    #[must_use]
    pub fn init(&self, device: &Device) -> Resnet {
        let mut draw = Draw::new(self.seed, device);
        let mut before = *self.stages.first().expect("a net has a stage");
        let first = Step::new(&mut draw, [self.colours, before], 3, 1, device);
        let mut blocks = Vec::new();
        for (stage, channels) in self.stages.iter().enumerate() {
            for block in 0..self.blocks {
                let step = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Block::new(&mut draw, [before, *channels], step, device));
                before = *channels;
            }
        }
        Resnet { first, blocks, output: draw.linear(before, self.classes, PLAIN) }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Resnet {
    first: Step,
    blocks: Vec<Block>,
    output: Linear,
}

impl Resnet {
    /// Scores by example and class.
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

impl Net for Resnet {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn judge(&self, batch: &ImageBatch) -> Judged {
        batch::judge(self.forward(batch.images.clone()), batch.labels.clone())
    }
}

/// What two convolutions add to a signal.
#[derive(Module, Debug)]
struct Block {
    first: Step,
    second: Step,
    /// Where the signal changes its shape.
    shortcut: Option<Step>,
}

impl Block {
    fn new(draw: &mut Draw<'_>, channels: [usize; 2], step: usize, device: &Device) -> Self {
        let changes = step > 1 || channels[0] != channels[1];
        Self {
            first: Step::new(draw, channels, 3, step, device),
            second: Step::new(draw, [channels[1]; 2], 3, 1, device),
            shortcut: changes.then(|| Step::new(draw, channels, 1, step, device)),
        }
    }

    fn forward(&self, signal: Tensor<4>) -> Tensor<4> {
        let added = self.second.forward(relu(self.first.forward(signal.clone())));
        let kept = match &self.shortcut {
            Some(shortcut) => shortcut.forward(signal),
            None => signal,
        };
        relu(kept + added)
    }
}

/// A convolution and a normalization.
#[derive(Module, Debug)]
struct Step {
    convolution: Conv2d,
    norm: GroupNorm,
}

impl Step {
    fn new(draw: &mut Draw<'_>, channels: [usize; 2], window: usize, step: usize, device: &Device) -> Self {
        let norm = GroupNormConfig::new(channels[1] / GROUP, channels[1]).init(device);
        Self { convolution: draw.convolution(channels, window, step), norm }
    }

    fn forward(&self, signal: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.convolution.forward(signal))
    }
}
