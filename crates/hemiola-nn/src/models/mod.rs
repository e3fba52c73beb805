//! Nets to begin with, each short enough to be read as an example.
//!
//! A net is a configuration with defaults, which `init` turns into a Burn module with `forward` and `loss`. Nothing in it knows of a cluster.
//!
//! | file | net | examples |
//! |---|---|---|
//! | [`mlp`] | layers of neurons | images |
//! | [`cnn`] | two convolutions and two linear layers | images |
//! | [`resnet`] | residual blocks, as for CIFAR-10 | images |
//! | [`vgg`] | convolutions before large linear layers | images |
//! | [`lstm`] | a recurrent language model | text |
//! | [`transformer`] | a language model of attention | text |
//! | [`ncf`] | neural collaborative filtering | ratings |
//! | [`draw`] | layers whose first values depend on a seed alone | |
//! | [`batch`] | what a net is given at once, and how its answers are judged | |
//!
//! **Invariant:** an example has no part in what a net makes of another, so that a batch may be divided over peers in any way. That is why no net here has batch normalization (groups of channels are normalized in its
//! place). Nor has one dropout: Burn draws from a generator that all threads of a process share, and a run could not be repeated.

pub mod batch;
pub mod cnn;
pub mod draw;
pub mod lstm;
pub mod mlp;
pub mod ncf;
pub mod resnet;
pub mod transformer;
pub mod vgg;

pub use batch::{ImageBatch, Judged, Net, RatingBatch, TextBatch};
pub use cnn::{Cnn, CnnConfig};
pub use draw::Draw;
pub use lstm::{Lstm, LstmConfig};
pub use mlp::{Mlp, MlpConfig};
pub use ncf::{Ncf, NcfConfig};
pub use resnet::{Resnet, ResnetConfig};
pub use transformer::{Transformer, TransformerConfig};
pub use vgg::{Vgg, VggConfig};

pub use burn::tensor::Device;

#[cfg(test)]
mod tests;
