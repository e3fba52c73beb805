//! Convolutions before large linear layers, after Simonyan and Zisserman (2015). Nearly all of its weights are in the linear layers and nearly all of its work in the convolutions: the net where the way in which copies are kept equal counts most.

use super::batch::{self, ImageBatch, Judged, Net};
use super::draw::{Draw, PLAIN, RELU};
use crate::layers::Linear;
use burn::module::Module;
use burn::nn::conv::Conv2d;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VggConfig {
    /// Channels, rows and columns of an image. Default: 3, 32 and 32.
    pub image: [usize; 3],
    /// Channels of each stage, which halves rows and columns. Default: 32, 64 and 128.
    pub stages: Vec<usize>,
    /// Convolutions of each stage. Default: 1.
    pub depth: usize,
    /// Neurons of each hidden layer. Default: 2048 and 2048.
    pub hidden: Vec<usize>,
    /// What may be on an image. Default: 10.
    pub classes: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for VggConfig {
    fn default() -> Self {
        Self { image: [3, 32, 32], stages: vec![32, 64, 128], depth: 1, hidden: vec![2048, 2048], classes: 10, seed: 1 }
    }
}

impl VggConfig {
    /// The net.
    #[must_use]
    pub fn init(&self, device: &Device) -> Vgg {
        let mut draw = Draw::new(self.seed, device);
        let [mut channels, mut rows, mut columns] = self.image;
        let (mut stages, mut hidden) = (Vec::new(), Vec::new());
        for wanted in &self.stages {
            let mut convolutions = Vec::new();
            for _ in 0..self.depth {
                convolutions.push(draw.convolution([channels, *wanted], 3, 1));
                channels = *wanted;
            }
            stages.push(convolutions);
            (rows, columns) = (rows / 2, columns / 2);
        }
        let mut inputs = channels * rows * columns;
        for neurons in &self.hidden {
            hidden.push(draw.linear(inputs, *neurons, RELU));
            inputs = *neurons;
        }
        let output = draw.linear(inputs, self.classes, PLAIN);
        Vgg { stages, pool: MaxPool2dConfig::new([2, 2]).init(), hidden, output }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Vgg {
    stages: Vec<Vec<Conv2d>>,
    pool: MaxPool2d,
    hidden: Vec<Linear>,
    output: Linear,
}

impl Vgg {
    /// Scores by example and class.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = images;
        for convolutions in &self.stages {
            for convolution in convolutions {
                signal = relu(convolution.forward(signal));
            }
            signal = self.pool.forward(signal);
        }
        let mut signal = signal.flatten::<2>(1, 3);
        for layer in &self.hidden {
            signal = relu(layer.forward(signal));
        }
        self.output.forward(signal)
    }
}

impl Net for Vgg {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn judge(&self, batch: &ImageBatch) -> Judged {
        batch::judge(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
