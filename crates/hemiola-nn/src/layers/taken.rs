//! The two operations whose weights get their gradient in parts.
//!
//! In the backward pass the weights' node gets, instead of a matrix, the parts as rows of a tensor: for a linear layer `[input, gradient of output]` of every example, for an embedding `[row, gradient of what was
//! looked up]`. The [hook](crate::hook) of the weights hands that over as any gradient. **Invariant:** parts of several uses in one pass are put one below the other, never added: an
//! operation holds the weights as a tensor of the graph, which alone can be asked whether it has a gradient yet. Weights that are taken in parts must not be used in any other way.

#[cfg(feature = "cuda")]
use burn::backend::Cube;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, backend_extension};
use burn::tensor::FloatDType;

/// A tensor of the graph that backpropagation follows.
type InGraph<B> = FloatTensor<Autodiff<B>>;

/// What a backend needs for gradients in parts.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub(super) trait TakenOps: Backend {
    /// `input · weight`.
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Rows of `weight`; `keys` are the numbers that name them.
    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl TakenOps for Flex {
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(input, weight)
    }

    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, _keys: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_select(weight, 0, rows)
    }
}

#[cfg(feature = "cuda")]
impl TakenOps for Cube {
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(input, weight)
    }

    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, _keys: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_select(weight, 0, rows)
    }
}

/// Puts parts where the weights' gradient goes, below those that are there.
fn put<B: Backend>(gradients: &mut Gradients, weights: &InGraph<B>, parts: FloatTensor<B>) {
    let all = match gradients.remove::<B>(weights) {
        Some(before) => B::float_cat(vec![before, parts], 0),
        None => parts,
    };
    gradients.register::<B>(weights.id(), all);
}

#[derive(Debug)]
struct Product;

impl<B: Backend> Backward<B, 2> for Product {
    type State = (FloatTensor<B>, InGraph<B>);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let [of_input, of_weight] = ops.parents;
        let gradient = gradients.consume::<B>(&ops.node);
        let (input, weights) = ops.state;
        if let Some(node) = of_input {
            let transposed = B::float_swap_dims(weights.primitive().clone(), 0, 1);
            gradients.register::<B>(node.id, B::float_matmul(gradient.clone(), transposed));
        }
        if of_weight.is_some() {
            put(gradients, &weights, B::float_cat(vec![input, gradient], 1));
        }
    }
}

#[derive(Debug)]
struct LookedUp;

impl<B: Backend> Backward<B, 1> for LookedUp {
    type State = (FloatTensor<B>, InGraph<B>);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let [of_weight] = ops.parents;
        let gradient = gradients.consume::<B>(&ops.node);
        let (keys, weights) = ops.state;
        if of_weight.is_some() {
            // Keys need all the digits of single precision, whatever else is computed with.
            put(gradients, &weights, B::float_cat(vec![keys, B::float_cast(gradient, FloatDType::F32)], 1));
        }
    }
}

impl<B: Backend + TakenOps, C: CheckpointStrategy> TakenOps for Autodiff<B, C> {
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let held = weight.clone();
        let (input, of_input) = input.into_parts();
        let (weight, of_weight) = weight.into_parts();
        match Product.prepare::<C>([of_input, of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (input.clone(), held);
                preparation.finish(state, B::product(input, weight))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::product(input, weight)),
        }
    }

    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>) -> FloatTensor<Self> {
        let held = weight.clone();
        let (weight, of_weight) = weight.into_parts();
        let keys = keys.into_primitive();
        match LookedUp.prepare::<C>([of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (keys.clone(), held);
                preparation.finish(state, B::looked_up(weight, rows, keys))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::looked_up(weight, rows, keys)),
        }
    }
}
