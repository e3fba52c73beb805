//! A gradient is handed over as soon as it is complete, in the middle of the backward pass.
//!
//! An identity operation of our own stands between a parameter and everything that uses it. Backpropagation comes to it when all uses have added their part, and it gives the sum away: to a
//! [`Sink`], by ownership, since a tensor that is shared would have to be copied. Nothing is left for Burn to keep.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Tensor, TensorData};
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
#[backend_extension(Flex, Autodiff)]
pub(crate) trait HookOps: Backend {
    /// The tensor as it is; its gradient goes to the sink.
    fn hooked(input: FloatTensor<Self>, place: usize, sink: Sink) -> FloatTensor<Self>;
}

impl HookOps for Flex {
    fn hooked(input: FloatTensor<Self>, _place: usize, _sink: Sink) -> FloatTensor<Self> {
        input
    }
}

#[derive(Debug)]
struct Hooked;

impl<B: Backend> Backward<B, 1> for Hooked {
    type State = (usize, Sink);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
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
    fn hooked(input: FloatTensor<Self>, place: usize, sink: Sink) -> FloatTensor<Self> {
        let (primitive, guard) = input.into_parts();
        match Hooked.prepare::<C>([guard]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => preparation.finish((place, sink), primitive),
            OpsKind::UnTracked(preparation) => preparation.finish(primitive),
        }
    }
}

/// The tensor as it is; its gradient goes to the sink.
pub(crate) fn hook<const D: usize>(tensor: Tensor<D>, place: usize, sink: &Sink) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::hooked(tensor.into_dispatch(), place, sink.clone()))
}
