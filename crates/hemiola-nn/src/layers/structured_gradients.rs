//! The two operations whose weights get a structured gradient.
//!
//! In the backward pass, the node of the weights gets rows of a tensor instead of a dense gradient:
//! `[input, output gradient]` of every example for a linear layer, `[key, gradient]` of every
//! lookup for an embedding. The [hook](crate::hook) of the weights passes them on as any gradient.
//!
//! **Invariant:** rows of several uses in one pass are concatenated, never added. The operation
//! keeps the weights as a tensor of the graph, since only such a tensor tells whether it has a
//! gradient already. Weights with a structured gradient must not be used in any other operation.

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

/// Tensor that is tracked by autodiff.
type InGraph<B> = FloatTensor<Autodiff<B>>;

/// Operations that a backend needs for structured gradients.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub(super) trait StructuredGradientOps: Backend {
    /// Computes `input · weight`.
    fn matmul_factors(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;
    /// Looks up rows of `weight`; `keys` are the encoded indices.
    fn lookup_rows(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl StructuredGradientOps for Flex {
    fn matmul_factors(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(input, weight)
    }

    fn lookup_rows(weight: FloatTensor<Self>, rows: IntTensor<Self>, _keys: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_select(weight, 0, rows)
    }
}

#[cfg(feature = "cuda")]
impl StructuredGradientOps for Cube {
    fn matmul_factors(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_matmul(input, weight)
    }

    fn lookup_rows(weight: FloatTensor<Self>, rows: IntTensor<Self>, _keys: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_select(weight, 0, rows)
    }
}

/// Appends rows to the gradient of the weights.
fn append_parts<B: Backend>(gradients: &mut Gradients, weights: &InGraph<B>, parts: FloatTensor<B>) {
    let all = match gradients.remove::<B>(weights) {
        Some(before) => B::float_cat(vec![before, parts], 0),
        None => parts,
    };
    gradients.register::<B>(weights.id(), all);
}

#[derive(Debug)]
struct MatmulFactors;

impl<B: Backend> Backward<B, 2> for MatmulFactors {
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
            append_parts(gradients, &weights, B::float_cat(vec![input, gradient], 1));
        }
    }
}

#[derive(Debug)]
struct RowLookup;

impl<B: Backend> Backward<B, 1> for RowLookup {
    type State = (FloatTensor<B>, InGraph<B>);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let [of_weight] = ops.parents;
        let gradient = gradients.consume::<B>(&ops.node);
        let (keys, weights) = ops.state;
        if of_weight.is_some() {
            // Keys need `f32`, whatever the precision of the pass.
            append_parts(gradients, &weights, B::float_cat(vec![keys, B::float_cast(gradient, FloatDType::F32)], 1));
        }
    }
}

impl<B: Backend + StructuredGradientOps, C: CheckpointStrategy> StructuredGradientOps for Autodiff<B, C> {
    fn matmul_factors(input: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let tracked = weight.clone();
        let (input, of_input) = input.into_parts();
        let (weight, of_weight) = weight.into_parts();
        match MatmulFactors.prepare::<C>([of_input, of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (input.clone(), tracked);
                preparation.finish(state, B::matmul_factors(input, weight))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::matmul_factors(input, weight)),
        }
    }

    fn lookup_rows(weight: FloatTensor<Self>, rows: IntTensor<Self>, keys: FloatTensor<Self>) -> FloatTensor<Self> {
        let tracked = weight.clone();
        let (weight, of_weight) = weight.into_parts();
        let keys = keys.into_primitive();
        match RowLookup.prepare::<C>([of_weight]).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                let state = (keys.clone(), tracked);
                preparation.finish(state, B::lookup_rows(weight, rows, keys))
            }
            OpsKind::UnTracked(preparation) => preparation.finish(B::lookup_rows(weight, rows, keys)),
        }
    }
}
