//! Layers of neurons, for images of any size.

use super::batch::{self, ImageBatch, Judged, Net};
use super::draw::{Draw, PLAIN, RELU};
use crate::layers::Linear;
use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MlpConfig {
    /// Numbers of an image: channels times rows times columns. Default: 784, of MNIST.
    pub inputs: usize,
    /// Neurons of each hidden layer. Default: 256 and 128.
    pub hidden: Vec<usize>,
    /// What may be on an image. Default: 10.
    pub classes: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for MlpConfig {
    fn default() -> Self {
        Self { inputs: 28 * 28, hidden: vec![256, 128], classes: 10, seed: 1 }
    }
}

impl MlpConfig {
    /// The net.
    #[must_use]
    pub fn init(&self, device: &Device) -> Mlp {
        let mut draw = Draw::new(self.seed, device);
        let mut inputs = self.inputs;
        let mut hidden = Vec::new();
        for neurons in &self.hidden {
            hidden.push(draw.linear(inputs, *neurons, RELU));
            inputs = *neurons;
        }
        Mlp { hidden, output: draw.linear(inputs, self.classes, PLAIN) }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Vec<Linear>,
    output: Linear,
}

impl Mlp {
    /// Scores by example and class.
    #[must_use]
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut signal = images.flatten::<2>(1, 3);
        for layer in &self.hidden {
            signal = relu(layer.forward(signal));
        }
        self.output.forward(signal)
    }
}

impl Net for Mlp {
    type Batch = ImageBatch;

    fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
        batch::cross_entropy(self.forward(batch.images.clone()), batch.labels.clone())
    }

    fn judge(&self, batch: &ImageBatch) -> Judged {
        batch::judge(self.forward(batch.images.clone()), batch.labels.clone())
    }
}
