//! Layer normalization and group normalization.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use burn::module::{Module, Param};
use burn::nn::{GroupNorm, LayerNormConfig};
use burn::tensor::{Device, Tensor};
use hemiola_kernels::norm::{self, NormParameters, NormShape};

/// Layer normalization with the results of Burn's [`LayerNorm`](burn::nn::LayerNorm).
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale of each element.
    pub gamma: Param<Tensor<1>>,
    /// Shift of each element.
    pub beta: Param<Tensor<1>>,
    epsilon: f64,
}

impl LayerNorm {
    /// Creates a normalization of the last dimension, which has `width` elements, on `device`.
    /// `epsilon` is added to variances.
    ///
    /// # Panics
    /// Never: Burn's configuration has a bias by default.
    #[must_use]
    pub fn new(width: usize, epsilon: f64, device: &Device) -> Self {
        let burn::nn::LayerNorm { gamma, beta, .. } = LayerNormConfig::new(width).init(device);
        Self { gamma, beta: beta.expect("a layer normalization has a bias by default"), epsilon }
    }

    /// Normalizes the last dimension of `input`.
    #[must_use]
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let (scale, shift) = (self.gamma.val(), self.beta.val());
        let dims = input.dims();
        if host_function::is_supported(&input) && input.shape().num_elements() > 0 {
            let row = dims[D - 1];
            let shape = NormShape { row, channel: 1, scales: row };
            let function = Normalization { shape, epsilon: self.epsilon as f32, dims: dims.to_vec() };
            return host_function::apply(vec![input.into(), scale.into(), shift.into()], function);
        }
        let centered = input.clone() - input.mean_dim(D - 1);
        let variance = centered.clone().powi_scalar(2).mean_dim(D - 1);
        centered / variance.add_scalar(self.epsilon).sqrt() * scale.unsqueeze() + shift.unsqueeze()
    }
}

/// Applies a group normalization of Burn to images `[batch, channels, rows, columns]`.
#[must_use]
pub fn group_norm(layer: &GroupNorm, input: Tensor<4>) -> Tensor<4> {
    let [_, channels, rows, columns] = input.dims();
    let (Some(scale), Some(shift), true) = (&layer.gamma, &layer.beta, host_function::is_supported(&input)) else {
        return layer.forward(input);
    };
    if input.shape().num_elements() == 0 || channels != layer.num_channels {
        return layer.forward(input);
    }
    let channel = rows * columns;
    let shape = NormShape { row: channels / layer.num_groups * channel, channel, scales: channels };
    let function = Normalization { shape, epsilon: layer.epsilon as f32, dims: input.dims().to_vec() };
    host_function::apply(vec![input.into(), scale.val().into(), shift.val().into()], function)
}

#[derive(Debug)]
struct Normalization {
    shape: NormShape,
    epsilon: f32,
    dims: Vec<usize>,
}

impl HostFunction for Normalization {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let parameters = NormParameters { scale: inputs[1], shift: inputs[2], epsilon: self.epsilon };
        let (values, moments) = norm::forward(inputs[0], parameters, self.shape);
        HostOutput { values, shape: self.dims.clone(), saved: vec![moments] }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let found = norm::backward(pass.inputs[0], pass.inputs[1], &pass.saved[0], pass.gradient, self.shape);
        vec![Some(found.0), Some(found.1), Some(found.2)]
    }
}
