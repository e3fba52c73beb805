//! Nets: any Burn module, trained by all peers of a cluster, each variable kept equal in a way of its own.
//!
//! A [`Trainer`] takes a module as it is, an [`Optimizer`] and a strategy (see `hemiola-strategy`), and trains as one process with all peers' examples would. Gradients leave in the middle of the backward pass, and a forward pass waits for
//! one variable at a time, so that messages travel while processors compute.
//!
//! | file | concept |
//! |---|---|
//! | [`trainer`] | [`Trainer`]: steps, and what a trainer is to be |
//! | `device` | where nets are computed, and with how many digits |
//! | [`layers`] | layers that tell what Burn's own cannot |
//! | [`models`] | nets to begin with |
//! | [`data`] | readers of what they learn from, and batches |
//! | [`optimizer`] | what a gradient does to values; [`Schedule`] |
//! | `hook` | a gradient is handed over as soon as it is complete |
//! | `variables` | the variables of a module |
//! | `slots` | values on their way to the forward pass that needs them |
//! | `exchange/` | gradients in, values out |
//! | `checkpoint` | a training on disk |
//! | [`trace`] | what happened when |
//! | [`error`] | what can go wrong |

mod checkpoint;
pub mod data;
mod device;
pub mod error;
mod exchange;
mod hook;
pub mod layers;
pub mod models;
pub mod optimizer;
mod slots;
pub mod trace;
pub mod trainer;
mod variables;

/// The library that modules are written with, in the version that this one takes.
pub use burn;

pub use device::{NoDevice, Place, Precision};
pub use error::Error;
pub use optimizer::{Optimizer, Schedule};
pub use trainer::{Clip, Trainer, TrainerBuilder};

/// The snippets of the guide to nets, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/nets.md")]
struct NetsGuide;
