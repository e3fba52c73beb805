//! Data-parallel training of neural networks: any Burn module, trained by all peers of a cluster.
//!
//! A [`Trainer`] takes a Burn module unchanged, an [`Optimizer`] and a strategy (see
//! `hemiola-strategy`). The strategy chooses a synchronization method for every variable:
//! all-reduce, parameter server, sufficient factors, served rows or gossip averaging. Synchronous
//! training gives the same model as one process with the examples of all peers. Communication
//! overlaps computation: gradients are sent during the backward pass, and the next forward pass
//! waits for one variable at a time.
//!
//! | module | concept |
//! |---|---|
//! | [`trainer`] | [`Trainer`] and its builder |
//! | [`training`] | [`NetFit`](training::NetFit): epochs, evaluation, stopping, checkpoints, report |
//! | `compute_threads` | threads of a peer that compute |
//! | `device` | devices (CPU, GPU) and mixed precision |
//! | [`layers`] | layers that give their gradient as sufficient factors or rows |
//! | [`models`] | ready-made networks |
//! | [`data`] | data sets, synthetic data and the batch sampler |
//! | [`saved`] | use of saved nets: prediction, evaluation, generation |
//! | [`optimizer`] | update rules and learning-rate schedules |
//! | `hook` | hands a gradient over as soon as backpropagation has completed it |
//! | `variables` | collects the variables of a module and binds values to them |
//! | `kernel` | optimizers and matrix product for `hemiola-sync` |
//! | [`error`] | errors of this crate |
//!
//! Everything without a tensor is in `hemiola-sync`: synchronization by a strategy, checkpoints,
//! and the timeline of passes, waits and messages ([`trace`]).

mod compute_threads;
pub mod data;
mod device;
pub mod error;
mod hook;
mod kernel;
pub mod layers;
pub mod models;
pub mod optimizer;
pub mod saved;
pub mod trainer;
pub mod training;
mod variables;

/// Burn, re-exported in the version that this crate accepts.
pub use burn;

pub use compute_threads::use_compute_threads;
pub use device::{ComputePrecision, DeviceError, DeviceSpec};
pub use error::Error;
pub use hemiola_sync::{GradientClip, StrategyRecord, StrategySource, trace};
pub use optimizer::{LrSchedule, Optimizer};
pub use trainer::{Trainer, TrainerBuilder};

/// Guide to neural networks; its snippets run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/nets.md")]
struct NetsGuide;
