//! The two operations whose weights get their gradient in parts.
//!
//! In the backward pass the weights' node gets, instead of a matrix, the parts as rows of a tensor: for a linear layer `[input, gradient of output]` of every example, for an embedding `[row, gradient of what was
//! looked up]`. The [hook](crate::hook) of the weights hands that over as any gradient. **Invariant:** parts of several uses in one pass are put one below the other, never added; [`Uses`], fresh in
//! each copy of a layer, knows whether there was one before. Weights that are taken in parts must not be used in any other way.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, backend_extension};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the weights' node has parts already. A copy of a layer begins anew.
#[derive(Default)]
pub struct Uses(Arc<AtomicBool>);

impl Uses {
    /// The same, for the operation that will say so.
    pub(super) fn share(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Clone for Uses {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Uses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Uses")
    }
}

/// The same thing in the state of a backward pass, which is cloned and must stay the same.
#[derive(Clone, Debug)]
struct Seen(Arc<AtomicBool>);

/// What a backend needs for gradients in parts.
#[backend_extension(Flex, Autodiff)]
pub trait TakenOps: Backend {
    /// `input · weight`.
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>, uses: Uses) -> FloatTensor<Self>;
    /// Rows of `weight`; `keys` are the numbers that name them.
    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>, uses: Uses) -> FloatTensor<Self>;
}

impl TakenOps for Flex {
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>, _uses: Uses) -> FloatTensor<Self> {
        Self::float_matmul(input, weight)
    }

    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, _keys: FloatTensor<Self>, _uses: Uses) -> FloatTensor<Self> {
        Self::float_select(weight, 0, rows)
    }
}

/// Puts parts where the weights' gradient goes, below those that are there. A macro, since the type of a node has no name outside Burn.
macro_rules! put {
    ($gradients:expr, $weights:expr, $seen:expr, $parts:expr) => {
        // Relaxed: a backward pass is one thread's.
        let all = if $seen.0.swap(true, Ordering::Relaxed) {
            let before = $gradients.consume::<B>(&$weights);
            B::float_cat(vec![before, $parts], 0)
        } else {
            $parts
        };
        $gradients.register::<B>($weights.id, all);
    };
}

#[derive(Debug)]
struct Product;

impl<B: Backend> Backward<B, 2> for Product {
    type State = (FloatTensor<B>, FloatTensor<B>, Seen);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let [of_input, of_weight] = ops.parents;
        let gradient = gradients.consume::<B>(&ops.node);
        let (input, weight, seen) = ops.state;
        if let Some(node) = of_input {
            let transposed = B::float_swap_dims(weight, 0, 1);
            gradients.register::<B>(node.id, B::float_matmul(gradient.clone(), transposed));
        }
        if let Some(node) = of_weight {
            put!(gradients, node, seen, B::float_cat(vec![input, gradient], 1));
        }
    }
}

#[derive(Debug)]
struct LookedUp;

impl<B: Backend> Backward<B, 1> for LookedUp {
    type State = (FloatTensor<B>, Seen);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let [of_weight] = ops.parents;
        let gradient = gradients.consume::<B>(&ops.node);
        let (keys, seen) = ops.state;
        if let Some(node) = of_weight {
            put!(gradients, node, seen, B::float_cat(vec![keys, gradient], 1));
        }
    }
}

impl<B: Backend + TakenOps, C: CheckpointStrategy> TakenOps for Autodiff<B, C> {
    fn product(input: FloatTensor<Self>, weight: FloatTensor<Self>, uses: Uses) -> FloatTensor<Self> {
        let (input, of_input) = input.into_parts();
        let (weight, of_weight) = weight.into_parts();
        match Product.prepare::<C>([of_input, of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (input.clone(), weight.clone(), Seen(uses.0.clone()));
                preparation.finish(state, B::product(input, weight, uses))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::product(input, weight, uses)),
        }
    }

    fn looked_up(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>, uses: Uses) -> FloatTensor<Self> {
        let (weight, of_weight) = weight.into_parts();
        let (keys, _) = keys.into_parts();
        match LookedUp.prepare::<C>([of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (keys.clone(), Seen(uses.0.clone()));
                preparation.finish(state, B::looked_up(weight, rows, keys, uses))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::looked_up(weight, rows, keys, uses)),
        }
    }
}
