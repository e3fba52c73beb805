//! Functions with a backward pass of their own, over `f32` values in host memory.
//!
//! A [`HostFunction`] computes an output from some inputs, and gradients of the inputs from the
//! gradient of the output. [`apply`] makes it one node of Burn's graph. Layers use this on Burn's
//! CPU backend in single precision, [`is_supported`]; elsewhere they are composed of Burn's
//! operations.
//!
//! The node keeps its inputs, which share memory with the tensors, and what the forward pass
//! [returns](HostFunction::forward) for the backward pass.

#[cfg(feature = "cuda")]
use burn::backend::Cube;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::fmt;
use std::sync::Arc;

/// Tensor of Burn's CPU backend.
type HostTensor = FloatTensor<Flex>;

/// Result of a forward pass.
#[derive(Debug)]
pub(super) struct HostOutput {
    pub(super) values: Vec<f32>,
    pub(super) shape: Vec<usize>,
    /// Values that the backward pass needs.
    pub(super) saved: Vec<Vec<f32>>,
}

/// Values that a backward pass works on.
#[derive(Debug)]
pub(super) struct HostPass<'a> {
    pub(super) inputs: &'a [&'a [f32]],
    /// Output of the forward pass; empty unless the function [keeps](HostFunction::keeps_output) it.
    pub(super) output: &'a [f32],
    pub(super) saved: &'a [Vec<f32>],
    /// Gradient of the output.
    pub(super) gradient: &'a [f32],
    /// Tells which inputs need a gradient.
    pub(super) wanted: &'a [bool],
}

/// A differentiable function of arrays.
pub(super) trait HostFunction: fmt::Debug + Send + Sync + 'static {
    /// Computes the output. `tracked` tells that a backward pass may follow.
    fn forward(&self, inputs: &[&[f32]], tracked: bool) -> HostOutput;

    /// Computes a gradient for each wanted input, of the input's size; others may be `None`.
    fn backward(&self, pass: &HostPass<'_>) -> Vec<Option<Vec<f32>>>;

    /// Tells whether the backward pass needs the output.
    fn keeps_output(&self) -> bool {
        false
    }
}

/// Shared handle of a function.
pub(super) type FunctionHandle = Arc<dyn HostFunction>;

/// Tells whether host functions are computed without copies: on the CPU backend, in `f32`.
pub(super) fn is_supported<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && tensor.device() == Device::flex()
}

/// Input of a host function, whatever its rank.
pub(super) struct Input(<Dispatch as burn::backend::BackendTypes>::FloatTensorPrimitive);

impl<const D: usize> From<Tensor<D>> for Input {
    fn from(tensor: Tensor<D>) -> Self {
        Self(tensor.into_dispatch())
    }
}

/// Applies a function to 1 to 3 tensors that are [supported](is_supported). The output has rank `D`.
pub(super) fn apply<const D: usize>(inputs: Vec<Input>, function: impl HostFunction) -> Tensor<D> {
    let function: FunctionHandle = Arc::new(function);
    let mut inputs = inputs.into_iter().map(|input| input.0);
    let first = inputs.next().expect("a host function has an input");
    Tensor::from_dispatch(match (inputs.next(), inputs.next()) {
        (None, _) => Dispatch::apply_to_one(first, function),
        (Some(second), None) => Dispatch::apply_to_two(first, second, function),
        (Some(second), Some(third)) => Dispatch::apply_to_three(first, second, third, function),
    })
}

/// Operations that a backend needs for host functions.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub(super) trait HostFunctionOps: Backend {
    /// Applies a function of one input.
    fn apply_to_one(first: FloatTensor<Self>, function: FunctionHandle) -> FloatTensor<Self>;
    /// Applies a function of two inputs.
    fn apply_to_two(first: FloatTensor<Self>, second: FloatTensor<Self>, function: FunctionHandle)
    -> FloatTensor<Self>;
    /// Applies a function of three inputs.
    fn apply_to_three(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        third: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self>;
}

/// Backends whose tensors can be moved to host memory.
pub(super) trait HostTransfer: Backend {
    fn to_host(tensor: FloatTensor<Self>) -> HostTensor;
    fn from_host(tensor: HostTensor) -> FloatTensor<Self>;
}

impl HostTransfer for Flex {
    fn to_host(tensor: FloatTensor<Self>) -> HostTensor {
        tensor
    }

    fn from_host(tensor: HostTensor) -> FloatTensor<Self> {
        tensor
    }
}

#[cfg(feature = "cuda")]
impl HostTransfer for Cube {
    fn to_host(tensor: FloatTensor<Self>) -> HostTensor {
        let data = burn::tensor::try_read_sync(Self::float_into_data(tensor));
        HostTensor::from_data(data.and_then(Result::ok).expect("tensors of this device can be read"))
    }

    fn from_host(tensor: HostTensor) -> FloatTensor<Self> {
        Self::float_from_data(tensor.into_data(), &burn::backend::BackendTypes::Device::default())
    }
}

impl HostFunctionOps for Flex {
    fn apply_to_one(first: FloatTensor<Self>, function: FunctionHandle) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first], &function, false).0
    }

    fn apply_to_two(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first, second], &function, false).0
    }

    fn apply_to_three(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        third: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first, second, third], &function, false).0
    }
}

#[cfg(feature = "cuda")]
impl HostFunctionOps for Cube {
    fn apply_to_one(first: FloatTensor<Self>, function: FunctionHandle) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first], &function, false).0
    }

    fn apply_to_two(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first, second], &function, false).0
    }

    fn apply_to_three(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        third: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        run_forward::<Self>(vec![first, second, third], &function, false).0
    }
}

fn tensor_of(values: Vec<f32>, shape: Vec<usize>) -> HostTensor {
    HostTensor::from_data(TensorData::new(values, shape))
}

/// Runs the forward pass; returns the output and the state for the backward pass.
fn run_forward<B: HostTransfer>(
    inputs: Vec<FloatTensor<B>>,
    function: &FunctionHandle,
    tracked: bool,
) -> (FloatTensor<B>, HostState) {
    let inputs: Vec<HostTensor> = inputs.into_iter().map(|input| B::to_host(input).to_contiguous()).collect();
    let slices: Vec<&[f32]> = inputs.iter().map(HostTensor::storage).collect();
    let HostOutput { values, shape, saved } = function.forward(&slices, tracked);
    let output = tensor_of(values, shape);
    let kept = (tracked && function.keeps_output()).then(|| output.clone());
    (B::from_host(output), HostState { function: function.clone(), inputs, output: kept, saved: Arc::new(saved) })
}

#[derive(Clone, Debug)]
struct HostState {
    function: FunctionHandle,
    inputs: Vec<HostTensor>,
    output: Option<HostTensor>,
    saved: Arc<Vec<Vec<f32>>>,
}

#[derive(Debug)]
struct HostStep;

impl<B: HostTransfer, const N: usize> Backward<B, N> for HostStep {
    type State = HostState;

    fn backward(self, ops: Ops<HostState, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = B::to_host(gradients.consume::<B>(&ops.node)).to_contiguous();
        let HostState { function, inputs, output, saved } = ops.state;
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let slices: Vec<&[f32]> = inputs.iter().map(HostTensor::storage).collect();
        let output = output.as_ref().map_or(&[][..], |output| output.storage());
        let pass = HostPass { inputs: &slices, output, saved: &saved, gradient: gradient.storage(), wanted: &wanted };
        let found = function.backward(&pass);
        for ((parent, values), input) in ops.parents.into_iter().zip(found).zip(&inputs) {
            if let Some((node, values)) = parent.zip(values) {
                let shape = input.layout().shape().to_vec();
                gradients.register::<B>(node.id, B::from_host(tensor_of(values, shape)));
            }
        }
    }
}

impl<B: HostFunctionOps + HostTransfer, C: CheckpointStrategy> HostFunctionOps for Autodiff<B, C> {
    fn apply_to_one(first: FloatTensor<Self>, function: FunctionHandle) -> FloatTensor<Self> {
        track::<B, C, 1>([first], &function)
    }

    fn apply_to_two(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        track::<B, C, 2>([first, second], &function)
    }

    fn apply_to_three(
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        third: FloatTensor<Self>,
        function: FunctionHandle,
    ) -> FloatTensor<Self> {
        track::<B, C, 3>([first, second, third], &function)
    }
}

fn track<B: HostTransfer, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    function: &FunctionHandle,
) -> FloatTensor<Autodiff<B, C>> {
    let (mut primitives, mut nodes) = (Vec::with_capacity(N), Vec::with_capacity(N));
    for input in inputs {
        let (primitive, node) = input.into_parts();
        primitives.push(primitive);
        nodes.push(node);
    }
    let nodes: [_; N] = nodes.try_into().expect("the caller has counted the inputs");
    match HostStep.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(preparation) => {
            let (output, state) = run_forward::<B>(primitives, function, true);
            preparation.finish(state, output)
        }
        OpsKind::UnTracked(preparation) => preparation.finish(run_forward::<B>(primitives, function, false).0),
    }
}
