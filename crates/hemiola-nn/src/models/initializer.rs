//! Layers whose initial weights depend on a seed only.
//!
//! Burn draws initial weights when a parameter is first used, from a generator that all threads of
//! a process share; `Device::seed` seeds it for all. With peers as threads, the weights of a peer
//! would depend on timing. **Decision:** weights are drawn here by [`PhiloxRng`], as a function of the
//! seed, the position of the layer in the order of creation, and the element.
//!
//! Weights are uniform with variance `gain² / inputs`, which preserves the scale of activations (He
//! et al. 2015): [`LINEAR_GAIN`] or [`RELU_GAIN`]. Biases are 0.

use crate::layers::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::module::{Initializer, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::tensor::{Device, Tensor, TensorData};
use hemiola_core::rng::PhiloxRng;

/// Gain of a layer without a rectifier after it.
pub const LINEAR_GAIN: f32 = 1.0;
/// Gain of a layer before a `ReLU`.
pub const RELU_GAIN: f32 = std::f32::consts::SQRT_2;

/// Creates layers with seeded initial weights, in a fixed order.
#[derive(Debug)]
pub struct LayerInitializer<'a> {
    values: PhiloxRng,
    /// Number of tensors drawn so far.
    tensors_drawn: u64,
    device: &'a Device,
}

impl<'a> LayerInitializer<'a> {
    /// Creates an initializer with this random seed, for layers on `device`.
    #[must_use]
    pub fn new(seed: u64, device: &'a Device) -> Self {
        Self { values: PhiloxRng::new(seed), tensors_drawn: 0, device }
    }

    /// Creates a linear layer.
    pub fn linear(&mut self, inputs: usize, outputs: usize, gain: f32) -> Linear {
        let mut layer = LinearConfig::new(inputs, outputs).with_initializer(Initializer::Zeros).init(self.device);
        layer.weight = self.tensor([inputs, outputs], bound(gain, inputs));
        layer
    }

    /// Creates an embedding with elements in `-bound..bound`.
    pub fn embedding(&mut self, rows: usize, width: usize, bound: f32) -> Embedding {
        let mut layer = EmbeddingConfig::new(rows, width).with_initializer(Initializer::Zeros).init(self.device);
        layer.weight = self.tensor([rows, width], bound);
        layer
    }

    /// Creates a square convolution without bias, with zero padding of half the window. `step` is
    /// the stride.
    pub fn convolution(&mut self, channels: [usize; 2], window: usize, step: usize) -> Conv2d {
        let around = window / 2;
        let mut layer = Conv2dConfig::new(channels, [window; 2])
            .with_stride([step; 2])
            .with_padding(PaddingConfig2d::Explicit(around, around, around, around))
            .with_bias(false)
            .with_initializer(Initializer::Zeros)
            .init(self.device);
        let [from, to] = channels;
        layer.weight = self.tensor([to, from, window, window], bound(RELU_GAIN, from * window * window));
        layer
    }

    fn tensor<const D: usize>(&mut self, shape: [usize; D], bound: f32) -> Param<Tensor<D>> {
        let count = shape.iter().product::<usize>() as u64;
        let numbers: Vec<f32> =
            (0..count).map(|index| self.values.uniform_f32(index, self.tensors_drawn, -bound..bound)).collect();
        self.tensors_drawn += 1;
        Param::from_data(TensorData::new(numbers, shape), self.device)
    }
}

/// Bound of the uniform distribution with variance `gain² / inputs`.
fn bound(gain: f32, inputs: usize) -> f32 {
    gain * (3.0 / inputs as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_depend_on_the_seed_and_the_order_of_creation() {
        let device = Device::flex().autodiff();
        let draw = |seed, skip: usize| {
            let mut draw = LayerInitializer::new(seed, &device);
            for _ in 0..skip {
                draw.linear(3, 2, LINEAR_GAIN);
            }
            draw.linear(8, 4, LINEAR_GAIN).weight.val().into_data()
        };
        let first = draw(7, 0);
        // Burn's own generator has no influence.
        device.seed(1);
        assert_eq!(draw(7, 0), first);
        assert_ne!(draw(8, 0), first);
        assert_ne!(draw(7, 1), first);
    }

    #[test]
    fn weights_have_the_variance_of_he_initialization() {
        let device = Device::flex();
        let numbers = LayerInitializer::new(1, &device)
            .linear(200, 300, RELU_GAIN)
            .weight
            .val()
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        let square = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>() / numbers.len() as f64;
        // The mean square of 60,000 uniform numbers is 0.01 ± 0.4 %; the tolerance is five times
        // that.
        assert!((square - 2.0 / 200.0).abs() < 0.0002, "{square}");
    }
}
