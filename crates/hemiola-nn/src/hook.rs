//! A gradient is handed over as soon as it is complete, in the middle of the backward pass.
//!
//! An identity operation of our own stands between a parameter and everything that uses it. Backpropagation comes to it when all uses have added their part, and it gives the sum away: to a
//! [`Sink`], by ownership, since a tensor that is shared would have to be copied. Nothing is left for Burn to keep.
//!
//! **When that is.** Burn takes the operations of a graph by their depth, the deepest first. A hook that hung on its parameter alone would have the least depth of all and come last, after the whole backward pass. So
//! each hook also hangs on a chain that grows with every parameter that is used, faster than what is computed between two of them: what uses a parameter is then just above its hook, and the next that backpropagation comes to is the hook.

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
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Takes the gradient of the variable at a place, or says why there is none.
#[derive(Clone)]
pub(crate) struct Sink(Arc<dyn Fn(usize, Result<TensorData, String>) + Send + Sync>);

impl Sink {
    pub(crate) fn new(take: impl Fn(usize, Result<TensorData, String>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sink")
    }
}

/// What a backend needs so that gradients can be taken.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub(crate) trait HookOps: Backend {
    /// The tensor as it is; its gradient goes to the sink. It is deeper in the graph than `depth`.
    fn hooked(input: FloatTensor<Self>, depth: FloatTensor<Self>, place: usize, sink: Sink) -> FloatTensor<Self>;

    /// The tensor as it is, one deeper in the graph. No gradient goes through.
    fn deeper(input: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl HookOps for Flex {
    fn hooked(input: FloatTensor<Self>, _depth: FloatTensor<Self>, _place: usize, _sink: Sink) -> FloatTensor<Self> {
        input
    }

    fn deeper(input: FloatTensor<Self>) -> FloatTensor<Self> {
        input
    }
}

#[cfg(feature = "cuda")]
impl HookOps for Cube {
    fn hooked(input: FloatTensor<Self>, _depth: FloatTensor<Self>, _place: usize, _sink: Sink) -> FloatTensor<Self> {
        input
    }

    fn deeper(input: FloatTensor<Self>) -> FloatTensor<Self> {
        input
    }
}

#[derive(Debug)]
struct Deeper;

impl<B: Backend> Backward<B, 1> for Deeper {
    type State = ();

    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {}
}

#[derive(Debug)]
struct Hooked;

impl<B: Backend> Backward<B, 2> for Hooked {
    type State = (usize, Sink);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let (place, sink) = ops.state;
        let data = match burn::tensor::try_read_sync(B::float_into_data(gradient)) {
            Some(Ok(data)) => Ok(data),
            Some(Err(error)) => Err(format!("{error:?}")),
            None => Err("the device cannot be waited for".to_owned()),
        };
        (sink.0)(place, data);
    }
}

impl<B: Backend + HookOps, C: CheckpointStrategy> HookOps for Autodiff<B, C> {
    fn hooked(input: FloatTensor<Self>, depth: FloatTensor<Self>, place: usize, sink: Sink) -> FloatTensor<Self> {
        let (primitive, guard) = input.into_parts();
        match Hooked.prepare::<C>([guard, depth.node()]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish((place, sink), primitive),
            OpsKind::UnTracked(preparation) => preparation.finish(primitive),
        }
    }

    fn deeper(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let (primitive, guard) = input.into_parts();
        match Deeper.prepare::<C>([guard]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish((), primitive),
            OpsKind::UnTracked(preparation) => preparation.finish(primitive),
        }
    }
}

/// So many operations may come between the first uses of two parameters until a hook is called a little late.
const BETWEEN: usize = 24;

/// The chain of one pass that hooks hang on.
#[derive(Clone, Default)]
pub(crate) struct Chain(Arc<Mutex<Option<Tensor<1>>>>);

impl Chain {
    /// The next parameter that is used: its tensor as it is, whose gradient goes to the sink.
    pub(crate) fn hook<const D: usize>(&self, tensor: Tensor<D>, place: usize, sink: &Sink) -> Tensor<D> {
        let mut chain = self.0.lock();
        let end = chain.take().unwrap_or_else(|| Tensor::ones([1], &tensor.device()).require_grad());
        let mut end = end.into_dispatch();
        for _ in 0..BETWEEN {
            end = Dispatch::deeper(end);
        }
        let hooked = Dispatch::hooked(tensor.into_dispatch(), end.clone(), place, sink.clone());
        *chain = Some(Tensor::from_dispatch(end));
        Tensor::from_dispatch(hooked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn hooks_are_called_between_the_operations_of_a_backward_pass() {
        let (came, chain) = (Arc::new(Mutex::new(Vec::new())), Chain::default());
        let noting = came.clone();
        let sink = Sink::new(move |place, data| noting.lock().push((place, data.is_ok())));
        let device = Device::flex().autodiff();
        let weight = || Tensor::<2>::ones([3, 3], &device).require_grad();
        let mut signal = Tensor::<2>::ones([2, 3], &device);
        for layer in 0..4 {
            signal = signal.matmul(chain.hook(weight(), layer, &sink)).tanh().mul_scalar(0.5);
            // A parameter without our hook, whose gradient says how far the pass has come.
            let noting = came.clone();
            let marker = Sink::new(move |place, _| noting.lock().push((place, false)));
            let mark =
                Dispatch::hooked(signal.clone().into_dispatch(), signal.clone().into_dispatch(), 10 + layer, marker);
            signal = signal + Tensor::from_dispatch(mark);
        }
        drop(signal.sum().backward());
        let order: Vec<usize> = came.lock().iter().map(|(place, _)| *place).collect();
        assert_eq!(order, [13, 3, 12, 2, 11, 1, 10, 0]);
    }
}
