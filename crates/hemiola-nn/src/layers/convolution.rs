//! Convolutions and pooling of images.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use burn::nn::PaddingConfig2d;
use burn::nn::conv::Conv2d;
use burn::nn::pool::MaxPool2dConfig;
use burn::tensor::{Tensor, activation};
use hemiola_kernels::convolution::{self, ConvolutionShape};
use hemiola_kernels::pooling::{self, PlaneShape};

/// Applies a convolution of Burn to images `[batch, channels, rows, columns]`. Square windows
/// without groups and dilation are computed by kernels of this crate.
#[must_use]
pub fn convolution(layer: &Conv2d, input: Tensor<4>) -> Tensor<4> {
    let shape = supported_shape(layer, &input);
    let (Some(shape), true) = (shape, host_function::is_supported(&input)) else { return layer.forward(input) };
    let output = host_function::apply(vec![input.into(), layer.weight.val().into()], Convolution { shape });
    match &layer.bias {
        Some(bias) => output + bias.val().reshape([1, shape.outputs, 1, 1]),
        None => output,
    }
}

/// Sizes of the convolution, if the kernels can compute it.
fn supported_shape(layer: &Conv2d, input: &Tensor<4>) -> Option<ConvolutionShape> {
    let [batch, inputs, rows, columns] = input.dims();
    let [outputs, weights, window, across] = layer.weight.lazy_shape().dims();
    let padding = match layer.padding {
        PaddingConfig2d::Valid => 0,
        PaddingConfig2d::Explicit(top, left, bottom, right) if [left, bottom, right] == [top; 3] => top,
        PaddingConfig2d::Same | PaddingConfig2d::Explicit(..) => return None,
    };
    let square = window == across && layer.stride[0] == layer.stride[1];
    let plain = layer.groups == 1 && layer.dilation == [1, 1] && weights == inputs && batch > 0;
    let shape = ConvolutionShape { batch, inputs, outputs, rows, columns, window, stride: layer.stride[0], padding };
    (square && plain && shape.is_supported()).then_some(shape)
}

/// Rectifier of the maximum of each window of 2 × 2: `relu(max_pool(input))`.
#[must_use]
pub fn max_pool_relu(input: Tensor<4>) -> Tensor<4> {
    let [batch, channels, rows, columns] = input.dims();
    if host_function::is_supported(&input) {
        let shape = PlaneShape { planes: batch * channels, rows, columns };
        return host_function::apply(vec![input.into()], MaxPoolRelu { shape, batch });
    }
    activation::relu(MaxPool2dConfig::new([2, 2]).init().forward(input))
}

#[derive(Debug)]
struct Convolution {
    shape: ConvolutionShape,
}

impl HostFunction for Convolution {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let shape = self.shape;
        let values = convolution::forward(inputs[0], inputs[1], shape);
        let dims = vec![shape.batch, shape.outputs, shape.output_rows(), shape.output_columns()];
        HostOutput { values, shape: dims, saved: Vec::new() }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let of_input = || convolution::backward_input(pass.inputs[1], pass.gradient, self.shape);
        let of_weight = || convolution::backward_weight(pass.inputs[0], pass.gradient, self.shape);
        vec![pass.wanted[0].then(of_input), pass.wanted[1].then(of_weight)]
    }
}

#[derive(Debug)]
struct MaxPoolRelu {
    shape: PlaneShape,
    batch: usize,
}

impl HostFunction for MaxPoolRelu {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let PlaneShape { planes, rows, columns } = self.shape;
        let (values, chosen) = pooling::forward(inputs[0], self.shape);
        let dims = vec![self.batch, planes / self.batch.max(1), rows / 2, columns / 2];
        HostOutput { values, shape: dims, saved: vec![chosen] }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        vec![Some(pooling::backward(&pass.saved[0], pass.gradient, self.shape))]
    }
}
