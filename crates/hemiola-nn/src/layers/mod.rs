//! Layers with backward passes of their own, and layers that can give the gradient of their weights
//! in structured form.
//!
//! # Fused layers
//!
//! On CPUs, Burn's autodiff composes a softmax, a normalization or the backward pass of a
//! convolution of many passes over memory. The layers here are single nodes of its graph, computed
//! by `hemiola-kernels` with the results of Burn's layers up to rounding: [`Linear`],
//! [`LayerNorm`], [`group_norm`], [`convolution`], [`max_pool_relu`], [`causal_attention`],
//! [`gelu`], [`relu`] and [`cross_entropy`]. Their bits do not depend on the number of threads. On
//! other devices and in other precisions than `f32` they are Burn's operations.
//!
//! [`Dropout`] is repeatable, which Burn's is not.
//!
//! # Structured gradients
//!
//! A gradient in structured form has fewer bytes than a dense matrix. [`Linear`] and [`Embedding`] compute the same as Burn's layers. On request of a
//! [`Trainer`](crate::Trainer), they do not form the dense gradient of their weights. A linear
//! layer gives its inputs and output gradients (*sufficient factors*), an embedding the rows that
//! were looked up. With these layers instead of Burn's, strategies may choose the corresponding
//! synchronization methods.
//!
//! **Request.** Only mappers reach the layers inside a module, and a mapper sees parameters. Each
//! of these layers therefore has a flag among its parameters. The request is the *identity* of the
//! flag, not its value: Burn's mappers never change it, records do not store it, and the trainer's
//! mapper sets it on the copy of the model for one pass.

mod activation;
mod attention;
mod convolution;
mod cross_entropy;
mod dropout;
mod embedding;
mod host_function;
mod linear;
mod lstm;
mod norm;
mod structured_gradients;

pub use activation::{GeluForm, gelu, relu};
pub use attention::causal_attention;
pub use convolution::{convolution, max_pool_relu};
pub use cross_entropy::cross_entropy;
pub use dropout::Dropout;
pub(crate) use dropout::{DROPOUT_FLAG, STEP_FLAG, request_dropout};
pub use embedding::{Embedding, EmbeddingConfig};
pub use linear::{Linear, LinearConfig};
pub(crate) use lstm::lstm_sequence;
pub use norm::{LayerNorm, group_norm};

use burn::module::{Flag, Param, ParamId};

/// Field name of the flag of a [`Linear`] layer.
pub(crate) const FACTORS_FLAG: &str = "factors";
/// Field name of the flag of an [`Embedding`].
pub(crate) const ROWS_FLAG: &str = "rows";
/// Identity of a flag that requests a structured gradient.
const STRUCTURED_FLAG_ID: u64 = 0x9e6d_1a3b_5c27_f481;

/// Creates a flag that requests a dense gradient.
fn dense_flag() -> Param<Flag> {
    Param::<Flag>::from_bool(false)
}

/// Returns the flag with a request for a structured or a dense gradient.
pub(crate) fn request_structured(flag: Param<Flag>, parts: bool) -> Param<Flag> {
    match (parts, wants_structured(&flag)) {
        (true, false) => Param::initialized(ParamId::from(STRUCTURED_FLAG_ID), Flag::new(flag.is_enabled())),
        (false, true) => Param::initialized(ParamId::new(), Flag::new(flag.is_enabled())),
        _ => flag,
    }
}

fn wants_structured(flag: &Param<Flag>) -> bool {
    flag.id.val() == STRUCTURED_FLAG_ID
}

#[cfg(test)]
mod tests;
