//! Layers whose first values depend on a seed alone.
//!
//! Burn draws first values when a parameter is first used, from a generator that all threads of a process share, and seeding it (`Device::seed`) seeds it for all. Where peers are threads, what a peer gets would depend on which of
//! them came first. **Decision:** weights are drawn here, by [`Values`], whose numbers depend on the seed, on the layer's place in the order of drawing, and on nothing else.
//!
//! Weights are uniform, with the variance `gain² / inputs` that keeps signals at their size (He et al. 2015): [`PLAIN`] or [`RELU`]. Biases are 0.

use crate::layers::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::module::{Initializer, Param};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::tensor::{Device, Tensor, TensorData};
use hemiola_array::random::Values;

/// The gain of a layer with nothing after it that cuts signals.
pub const PLAIN: f32 = 1.0;
/// The gain of a layer after which negative signals are cut.
pub const RELU: f32 = std::f32::consts::SQRT_2;

/// Makes layers, one after the other.
#[derive(Debug)]
pub struct Draw<'a> {
    values: Values,
    /// How many tensors were drawn.
    drawn: u64,
    device: &'a Device,
}

impl<'a> Draw<'a> {
    /// From a seed, for a device.
    #[must_use]
    pub fn new(seed: u64, device: &'a Device) -> Self {
        Self { values: Values::new(seed), drawn: 0, device }
    }

    /// A linear layer.
    pub fn linear(&mut self, inputs: usize, outputs: usize, gain: f32) -> Linear {
        let mut layer = LinearConfig::new(inputs, outputs).with_initializer(Initializer::Zeros).init(self.device);
        layer.weight = self.tensor([inputs, outputs], bound(gain, inputs));
        layer
    }

    /// An embedding, its numbers in `-bound..bound`.
    pub fn embedding(&mut self, rows: usize, width: usize, bound: f32) -> Embedding {
        let mut layer = EmbeddingConfig::new(rows, width).with_initializer(Initializer::Zeros).init(self.device);
        layer.weight = self.tensor([rows, width], bound);
        layer
    }

    /// A convolution of square windows without bias, which sees zeros around the image. Steps of more than one make the image that much smaller.
    pub fn convolution(&mut self, channels: [usize; 2], window: usize, step: usize) -> Conv2d {
        let around = window / 2;
        let mut layer = Conv2dConfig::new(channels, [window; 2])
            .with_stride([step; 2])
            .with_padding(PaddingConfig2d::Explicit(around, around, around, around))
            .with_bias(false)
            .with_initializer(Initializer::Zeros)
            .init(self.device);
        let [from, to] = channels;
        layer.weight = self.tensor([to, from, window, window], bound(RELU, from * window * window));
        layer
    }

    fn tensor<const D: usize>(&mut self, shape: [usize; D], bound: f32) -> Param<Tensor<D>> {
        let count = shape.iter().product::<usize>() as u64;
        let numbers: Vec<f32> =
            (0..count).map(|index| self.values.uniform_f32(index, self.drawn, -bound..bound)).collect();
        self.drawn += 1;
        Param::from_data(TensorData::new(numbers, shape), self.device)
    }
}

/// The bound of uniform numbers that have the variance.
fn bound(gain: f32, inputs: usize) -> f32 {
    gain * (3.0 / inputs as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_seed_and_the_place() {
        let device = Device::flex().autodiff();
        let draw = |seed, skip: usize| {
            let mut draw = Draw::new(seed, &device);
            for _ in 0..skip {
                draw.linear(3, 2, PLAIN);
            }
            draw.linear(8, 4, PLAIN).weight.val().into_data()
        };
        let first = draw(7, 0);
        // What others draw from Burn's own generator changes nothing.
        device.seed(1);
        assert_eq!(draw(7, 0), first);
        assert_ne!(draw(8, 0), first);
        assert_ne!(draw(7, 1), first);
    }

    #[test]
    fn weights_have_the_variance_that_keeps_signals() {
        let device = Device::flex();
        let numbers =
            Draw::new(1, &device).linear(200, 300, RELU).weight.val().into_data().try_to_vec::<f32>().unwrap();
        let square = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>() / numbers.len() as f64;
        // Of 60,000 uniform numbers: 0.01 ± 0.4 %; five times that.
        assert!((square - 2.0 / 200.0).abs() < 0.0002, "{square}");
    }
}
