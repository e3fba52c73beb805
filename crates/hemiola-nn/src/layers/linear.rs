//! A linear layer whose gradient can be had as factors.

use super::taken::TakenOps;
use super::{is_asked, unasked};
use burn::backend::Dispatch;
use burn::module::{Flag, Initializer, Module, Param};
use burn::nn;
use burn::tensor::{Device, Tensor};

/// Settings of a [`Linear`] layer.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `init`"]
pub struct LinearConfig {
    inner: nn::LinearConfig,
}

impl LinearConfig {
    /// From `inputs` numbers to `outputs`.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        Self { inner: nn::LinearConfig::new(inputs, outputs) }
    }

    /// Whether a number is added to each output. Default: yes.
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.inner = self.inner.with_bias(bias);
        self
    }

    /// What the weights are in the beginning.
    pub fn with_initializer(mut self, initializer: Initializer) -> Self {
        self.inner = self.inner.with_initializer(initializer);
        self
    }

    /// The layer.
    #[must_use]
    pub fn init(&self, device: &Device) -> Linear {
        let nn::Linear { weight, bias } = self.inner.init(device);
        Linear { factors: unasked(), weight, bias }
    }
}

/// `input · weight + bias`, as Burn's [`nn::Linear`].
#[derive(Module, Debug)]
pub struct Linear {
    factors: Param<Flag>,
    /// Inputs by outputs.
    pub weight: Param<Tensor<2>>,
    /// By output.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// The outputs for inputs in the last dimension.
    ///
    /// # Panics
    /// If that has another extent than the layer has inputs.
    #[must_use]
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        if !is_asked(&self.factors) {
            return burn::tensor::module::linear(input, weight, bias);
        }
        let [inputs, outputs] = weight.dims();
        let mut shape = input.dims();
        assert_eq!(shape[D - 1], inputs, "the layer has {inputs} inputs");
        let examples = shape.iter().product::<usize>() / inputs;
        shape[D - 1] = outputs;
        let flat: Tensor<2> = input.reshape([examples, inputs]);
        let product = Dispatch::product(flat.into_dispatch(), weight.into_dispatch());
        let product = Tensor::<2>::from_dispatch(product);
        let output = match bias {
            Some(bias) => product + bias.unsqueeze(),
            None => product,
        };
        output.reshape(shape)
    }
}
