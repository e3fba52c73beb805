//! Ready-made networks, each short enough to serve as an example.
//!
//! A network has a configuration with defaults. `init` turns it into a Burn module with `forward`
//! and `loss`. A network knows nothing of a cluster.
//!
//! | module | network | data |
//! |---|---|---|
//! | [`mlp`] | multilayer perceptron | images |
//! | [`cnn`] | two convolutions and two linear layers | images |
//! | [`resnet`] | residual network, as for CIFAR-10 | images |
//! | [`vgg`] | convolutions and large linear layers | images |
//! | [`lstm`] | LSTM language model | text |
//! | [`transformer`] | transformer language model | text |
//! | [`gpt`] | GPT-2 | text |
//! | [`ncf`] | neural collaborative filtering | ratings |
//! | [`initializer`] | seeded initial weights | |
//! | [`batch`] | mini-batches, losses and metrics | |
//!
//! **Invariant:** the output for an example does not depend on the other examples of its batch, so
//! a batch can be divided over peers in any way. No network here has batch normalization for this
//! reason; group normalization is used instead. Dropout is that of [`Dropout`](crate::layers::Dropout),
//! a function of the example and the step.

pub mod batch;
pub mod cnn;
pub mod gpt;
pub mod initializer;
pub mod lstm;
pub mod mlp;
pub mod ncf;
pub mod resnet;
pub mod transformer;
pub mod vgg;

pub use batch::{EvalMetrics, ImageBatch, NeuralNet, RatingBatch, TextBatch};
pub use cnn::{Cnn, CnnConfig};
pub use gpt::{Gpt, GptConfig, GptPreset};
pub use initializer::LayerInitializer;
pub use lstm::{Lstm, LstmConfig, LstmState};
pub use mlp::{Mlp, MlpConfig};
pub use ncf::{Ncf, NcfConfig};
pub use resnet::{Resnet, ResnetConfig, ResnetPreset};
pub use transformer::{Transformer, TransformerConfig};
pub use vgg::{Vgg, VggConfig};

pub use burn::tensor::Device;

#[cfg(test)]
mod tests;
