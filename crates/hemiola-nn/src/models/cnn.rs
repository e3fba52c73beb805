//! Two convolutions and two linear layers: about `LeNet` (1998), for images such as MNIST.

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
pub struct CnnConfig {
    /// Channels, rows and columns of an image. Default: 1, 28 and 28, of MNIST.
    pub image: [usize; 3],
    /// Channels after each convolution. Default: 8 and 16.
    pub channels: [usize; 2],
    /// Neurons of the hidden layer. Default: 128.
    pub hidden: usize,
    /// What may be on an image. Default: 10.
    pub classes: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for CnnConfig {
    fn default() -> Self {
        Self { image: [1, 28, 28], channels: [8, 16], hidden: 128, classes: 10, seed: 1 }
    }
}

impl CnnConfig {
    /// The net.
    #[must_use]
    pub fn init(&self, device: &Device) -> Cnn {
        let mut draw = Draw::new(self.seed, device);
        let ([colours, rows, columns], [first, second]) = (self.image, self.channels);
        Cnn {
            first: draw.convolution([colours, first], 5, 1),
            second: draw.convolution([first, second], 5, 1),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            hidden: draw.linear(second * (rows / 4) * (columns / 4), self.hidden, RELU),
            output: draw.linear(self.hidden, self.classes, PLAIN),
        }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Cnn {
    first: Conv2d,
    second: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    output: Linear,
}

impl Cnn {
    /// Scores by example and class.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let signal = relu(self.pool.forward(self.first.forward(images)));
        let signal = relu(self.pool.forward(self.second.forward(signal)));
        let signal = relu(self.hidden.forward(signal.flatten::<2>(1, 3)));
        self.output.forward(signal)
    }
}

impl Net for Cnn {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn judge(&self, batch: &ImageBatch) -> Judged {
        batch::judge(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
