//! Gradient hooks: a gradient is handed over as soon as it is complete, during the backward pass.
//!
//! An identity operation stands between a parameter and everything that uses it. Backpropagation
//! reaches it when all uses have contributed to the gradient. The operation then moves the gradient
//! into a [`GradientSink`]; a shared tensor would have to be copied. Burn keeps nothing.
//!
//! **Order.** Burn executes the operations of a graph by depth, the deepest first. A hook with its
//! parameter as only parent would have the least depth and run last, after the whole backward pass.
//! Each hook therefore has a second parent, a chain that grows with every parameter in use, and
//! faster than the computation between two parameters. The users of a parameter are then just above
//! its hook, and backpropagation runs the hook right after them.

#[cfg(feature = "cuda")]
use burn::backend::Cube;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Tensor, TensorData};
use hemiola_sync::VariableId;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Receives the gradient of a variable, or the reason why it could not be read.
#[derive(Clone)]
pub(crate) struct GradientSink(Arc<dyn Fn(VariableId, Result<TensorData, String>) + Send + Sync>);

impl GradientSink {
    pub(crate) fn new(take: impl Fn(VariableId, Result<TensorData, String>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for GradientSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GradientSink")
    }
}

/// Operations that a backend needs for gradient hooks.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub(crate) trait HookOps: Backend {
    /// Identity whose gradient goes to the sink. Its depth in the graph is greater than that of
    /// `depth`.
    fn hook_gradient(
        input: FloatTensor<Self>,
        depth: FloatTensor<Self>,
        variable: VariableId,
        sink: GradientSink,
    ) -> FloatTensor<Self>;

    /// Identity that adds one to the depth in the graph and stops gradients.
    fn deepen(input: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl HookOps for Flex {
    fn hook_gradient(
        input: FloatTensor<Self>,
        _depth: FloatTensor<Self>,
        _variable: VariableId,
        _sink: GradientSink,
    ) -> FloatTensor<Self> {
        input
    }

    fn deepen(input: FloatTensor<Self>) -> FloatTensor<Self> {
        input
    }
}

#[cfg(feature = "cuda")]
impl HookOps for Cube {
    fn hook_gradient(
        input: FloatTensor<Self>,
        _depth: FloatTensor<Self>,
        _variable: VariableId,
        _sink: GradientSink,
    ) -> FloatTensor<Self> {
        input
    }

    fn deepen(input: FloatTensor<Self>) -> FloatTensor<Self> {
        input
    }
}

#[derive(Debug)]
struct DepthNode;

impl<B: Backend> Backward<B, 1> for DepthNode {
    type State = ();

    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {}
}

#[derive(Debug)]
struct GradientHook;

impl<B: Backend> Backward<B, 2> for GradientHook {
    type State = (VariableId, GradientSink);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let (variable, sink) = ops.state;
        let data = match burn::tensor::try_read_sync(B::float_into_data(gradient)) {
            Some(Ok(data)) => Ok(data),
            Some(Err(error)) => Err(format!("{error:?}")),
            None => Err("the device cannot be waited for".to_owned()),
        };
        (sink.0)(variable, data);
    }
}

impl<B: Backend + HookOps, C: CheckpointStrategy> HookOps for Autodiff<B, C> {
    fn hook_gradient(
        input: FloatTensor<Self>,
        depth: FloatTensor<Self>,
        variable: VariableId,
        sink: GradientSink,
    ) -> FloatTensor<Self> {
        let (primitive, guard) = input.into_parts();
        match GradientHook.prepare::<C>([guard, depth.node()]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish((variable, sink), primitive),
            OpsKind::UnTracked(preparation) => preparation.finish(primitive),
        }
    }

    fn deepen(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let (primitive, guard) = input.into_parts();
        match DepthNode.prepare::<C>([guard]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish((), primitive),
            OpsKind::UnTracked(preparation) => preparation.finish(primitive),
        }
    }
}

/// Length of the chain between two hooks. With more operations than this between the first uses of
/// two parameters, a hook runs a little late; nothing else changes.
const DEPTH_PER_HOOK: usize = 24;

/// Chain of depth nodes of one pass.
#[derive(Clone, Default)]
pub(crate) struct HookChain(Arc<Mutex<Option<Tensor<1>>>>);

impl HookChain {
    /// Hooks the next parameter in use: returns its tensor unchanged and sends its gradient to the
    /// sink.
    pub(crate) fn hook<const D: usize>(
        &self,
        tensor: Tensor<D>,
        variable: VariableId,
        sink: &GradientSink,
    ) -> Tensor<D> {
        let mut chain = self.0.lock();
        let end = chain.take().unwrap_or_else(|| Tensor::ones([1], &tensor.device()).require_grad());
        let mut end = end.into_dispatch();
        for _ in 0..DEPTH_PER_HOOK {
            end = Dispatch::deepen(end);
        }
        let hook_gradient = Dispatch::hook_gradient(tensor.into_dispatch(), end.clone(), variable, sink.clone());
        *chain = Some(Tensor::from_dispatch(end));
        Tensor::from_dispatch(hook_gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn hooks_are_called_between_the_operations_of_a_backward_pass() {
        let (came, chain) = (Arc::new(Mutex::new(Vec::new())), HookChain::default());
        let noting = came.clone();
        let sink = GradientSink::new(move |variable, data| noting.lock().push((variable, data.is_ok())));
        let device = Device::flex().autodiff();
        let weight = || Tensor::<2>::ones([3, 3], &device).require_grad();
        let mut signal = Tensor::<2>::ones([2, 3], &device);
        for layer in 0..4 {
            signal = signal.matmul(chain.hook(weight(), VariableId::new(layer), &sink)).tanh().mul_scalar(0.5);
            // A second hook on the activations, which shows how far the pass has come.
            let noting = came.clone();
            let marker = GradientSink::new(move |variable, _| noting.lock().push((variable, false)));
            let mark = Dispatch::hook_gradient(
                signal.clone().into_dispatch(),
                signal.clone().into_dispatch(),
                VariableId::new(10 + layer),
                marker,
            );
            signal = signal + Tensor::from_dispatch(mark);
        }
        drop(signal.sum().backward());
        let order: Vec<usize> = came.lock().iter().map(|(variable, _)| variable.index()).collect();
        assert_eq!(order, [13, 3, 12, 2, 11, 1, 10, 0]);
    }
}
