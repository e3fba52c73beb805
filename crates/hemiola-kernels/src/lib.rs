//! Kernels of neural networks on CPUs: forward and backward passes of whole layers, over slices.
//!
//! A layer that is composed of tensor operations reads and writes memory once for every operation.
//! A kernel here does the work of the layer in one pass over each row, and its backward pass is
//! written by hand. The crate knows no tensor library and no autodiff; `hemiola-nn` registers the
//! kernels with Burn.
//!
//! | module | kernels |
//! |---|---|
//! | [`matrix`] | matrix product of strided views |
//! | [`cross_entropy`] | softmax and cross-entropy of logits |
//! | [`attention`] | causal self-attention of several heads |
//! | [`norm`] | layer and group normalization |
//! | [`activation`] | GELU and `ReLU` |
//! | [`lstm`] | an LSTM layer over whole sequences |
//! | [`convolution`] | 2-D convolution |
//! | [`pooling`] | 2 × 2 max pooling |
//! | [`parallel`] | division of work over threads |
//! | `math` | `exp`, `tanh`, error function |
//!
//! **Invariant:** a result does not depend on the number of threads. Work is divided into blocks of
//! fixed sizes, and sums over blocks are added in the order of the blocks.

#![expect(clippy::inline_always, reason = "only inlined code is compiled for the detected instruction set")]

pub mod activation;
pub mod attention;
pub mod convolution;
pub mod cross_entropy;
pub mod lstm;
mod math;
pub mod matrix;
pub mod norm;
pub mod parallel;
pub mod pooling;

#[cfg(test)]
mod testing;
