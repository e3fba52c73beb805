//! Activations in one pass: GELU and `ReLU`.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use burn::tensor::Tensor;
use burn::tensor::activation;
use hemiola_kernels::activation as kernels;
pub use hemiola_kernels::activation::GeluForm;

/// Gaussian error linear unit, with the results of Burn's [`gelu`](activation::gelu) or
/// [`gelu_approximate`](activation::gelu_approximate).
#[must_use]
pub fn gelu<const D: usize>(input: Tensor<D>, form: GeluForm) -> Tensor<D> {
    if host_function::is_supported(&input) {
        let shape = input.dims().to_vec();
        return host_function::apply(vec![input.into()], Gelu { form, shape });
    }
    match form {
        GeluForm::Exact => activation::gelu(input),
        GeluForm::Tanh => activation::gelu_approximate(input),
    }
}

/// Rectified linear unit, with the results of Burn's [`relu`](activation::relu).
#[must_use]
pub fn relu<const D: usize>(input: Tensor<D>) -> Tensor<D> {
    if host_function::is_supported(&input) {
        let shape = input.dims().to_vec();
        return host_function::apply(vec![input.into()], Relu { shape });
    }
    activation::relu(input)
}

#[derive(Debug)]
struct Gelu {
    form: GeluForm,
    shape: Vec<usize>,
}

impl HostFunction for Gelu {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let mut values = vec![0.0; inputs[0].len()];
        kernels::gelu(&mut values, inputs[0], self.form);
        HostOutput { values, shape: self.shape.clone(), saved: Vec::new() }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let mut gradient = vec![0.0; pass.gradient.len()];
        kernels::gelu_backward(&mut gradient, pass.inputs[0], pass.gradient, self.form);
        vec![Some(gradient)]
    }
}

#[derive(Debug)]
struct Relu {
    shape: Vec<usize>,
}

impl HostFunction for Relu {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let mut values = vec![0.0; inputs[0].len()];
        kernels::relu(&mut values, inputs[0]);
        HostOutput { values, shape: self.shape.clone(), saved: Vec::new() }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let mut gradient = vec![0.0; pass.gradient.len()];
        // The input is positive where the output is.
        kernels::relu_backward(&mut gradient, pass.inputs[0], pass.gradient);
        vec![Some(gradient)]
    }
}
