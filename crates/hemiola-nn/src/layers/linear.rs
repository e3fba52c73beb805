//! Linear layer whose gradient can be taken as sufficient factors.

use super::host_function::{self, HostFunction, HostOutput, HostPass};
use super::structured_gradients::StructuredGradientOps;
use super::{dense_flag, wants_structured};
use burn::backend::Dispatch;
use burn::module::{Flag, Initializer, Module, Param};
use burn::nn;
use burn::tensor::{Device, Tensor};
use hemiola_kernels::matrix::{self, MatrixView};

/// Configuration of a [`Linear`] layer.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `init`"]
pub struct LinearConfig {
    inner: nn::LinearConfig,
}

impl LinearConfig {
    /// Sets the number of inputs and outputs.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inner: nn::LinearConfig::new(inputs, outputs) }
    }

    /// Enables or disables the bias. Default: enabled.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.inner = self.inner.with_bias(bias);
        self
    }

    /// Sets the initializer of the weights.
    pub fn with_initializer(mut self, initializer: Initializer) -> Self {
        self.inner = self.inner.with_initializer(initializer);
        self
    }

    /// Creates the layer on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Linear {
        let nn::Linear { weight, bias } = self.inner.init(device);
        Linear { factors: dense_flag(), weight, bias }
    }
}

/// `input · weight + bias`, with the results of Burn's [`nn::Linear`].
#[derive(Module, Debug)]
pub struct Linear {
    pub(super) factors: Param<Flag>,
    /// Weight matrix of shape `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// Bias, `[outputs]`; `None` if disabled.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Applies the layer to the last dimension of `input`.
    ///
    /// # Panics
    /// If the last dimension does not have as many elements as the layer has inputs.
    #[must_use]
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        if !wants_structured(&self.factors) {
            return dense(input, weight, bias);
        }
        let [inputs, outputs] = weight.dims();
        let mut shape = input.dims();
        assert_eq!(shape[D - 1], inputs, "the layer has {inputs} inputs");
        let examples = shape.iter().product::<usize>() / inputs;
        shape[D - 1] = outputs;
        let flat: Tensor<2> = input.reshape([examples, inputs]);
        let product = Dispatch::matmul_factors(flat.into_dispatch(), weight.into_dispatch());
        let product = Tensor::<2>::from_dispatch(product);
        let output = match bias {
            Some(bias) => product + bias.unsqueeze(),
            None => product,
        };
        output.reshape(shape)
    }
}

/// `input · weight + bias` with dense gradients.
fn dense<const D: usize>(input: Tensor<D>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<D> {
    let [inputs, outputs] = weight.dims();
    let mut dims = input.dims().to_vec();
    assert_eq!(dims[D - 1], inputs, "the layer has {inputs} inputs");
    if !host_function::is_supported(&input) {
        return burn::tensor::module::linear(input, weight, bias);
    }
    dims[D - 1] = outputs;
    let mut tensors = vec![input.into(), weight.into()];
    tensors.extend(bias.map(Into::into));
    host_function::apply(tensors, DenseProduct { inputs, outputs, dims })
}

#[derive(Debug)]
struct DenseProduct {
    inputs: usize,
    outputs: usize,
    /// Shape of the output.
    dims: Vec<usize>,
}

impl HostFunction for DenseProduct {
    fn forward(&self, inputs: &[&[f32]], _: bool) -> HostOutput {
        let rows = inputs[0].len() / self.inputs.max(1);
        let mut values = match inputs.get(2) {
            Some(bias) => bias.repeat(rows),
            None => vec![0.0; rows * self.outputs],
        };
        let input = MatrixView::dense(inputs[0], rows, self.inputs);
        let weight = MatrixView::dense(inputs[1], self.inputs, self.outputs);
        matrix::multiply(&mut values, self.outputs, input, weight, 1.0, inputs.len() > 2);
        HostOutput { values, shape: self.dims.clone(), saved: Vec::new() }
    }

    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>> {
        let rows = pass.inputs[0].len() / self.inputs.max(1);
        let gradient = MatrixView::dense(pass.gradient, rows, self.outputs);
        let of_input = || {
            let mut product = vec![0.0; rows * self.inputs];
            matrix::multiply_transposed(&mut product, pass.gradient, pass.inputs[1], self.outputs);
            product
        };
        let of_weight = || {
            let input = MatrixView::dense(pass.inputs[0], rows, self.inputs).transposed();
            let mut product = vec![0.0; self.inputs * self.outputs];
            matrix::multiply(&mut product, self.outputs, input, gradient, 1.0, false);
            product
        };
        let mut found = vec![pass.wanted[0].then(of_input), pass.wanted[1].then(of_weight)];
        if pass.inputs.len() > 2 {
            let mut sums = vec![0.0; self.outputs];
            matrix::add_row_sums(&mut sums, pass.gradient);
            found.push(Some(sums));
        }
        found
    }
}
