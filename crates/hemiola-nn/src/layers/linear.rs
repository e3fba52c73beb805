//! Linear layer whose gradient can be taken as sufficient factors.

use super::structured_gradients::StructuredGradientOps;
use super::{dense_flag, wants_structured};
use burn::backend::Dispatch;
use burn::module::{Flag, Initializer, Module, Param};
use burn::nn;
use burn::tensor::{Device, Tensor};

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
    factors: Param<Flag>,
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
            return burn::tensor::module::linear(input, weight, bias);
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
