//! Synchronization of a model's variables on a cluster, by a
//! [`Strategy`](hemiola_strategy::Strategy) and for any tensor library.
//!
//! [`ModelSync`] takes the variables of a model (names, shapes, kinds of gradients, initial values)
//! and an [`UpdateKernel`], the arithmetic of a framework. A framework binding then runs passes:
//! it waits for values, hands over gradients as they become complete, and ends the step. One thread
//! per peer synchronizes meanwhile: all-reduce, parameter server (reduce and broadcast, or tables
//! with clocks), sufficient factors, served rows or gossip averaging, as the strategy says.
//! `hemiola-nn` is the binding to Burn.
//!
//! The protocol is the sans-I/O [`SyncNode`](hemiola_sync_proto::SyncNode). This crate gives it
//! a thread, communicators and a store of values. `README.md` beside this crate's manifest is the
//! design note: units, order of collectives, stages, and why peers cannot deadlock.
//!
//! | module | concept |
//! |---|---|
//! | `model_sync` | [`ModelSync`]: passes, values and steps of a model |
//! | `builder` | [`ModelSyncBuilder`]: strategy, clipping, resume |
//! | `strategy_choice` | [`StrategyRecord`]: choice of the strategy, and its repetition on resume |
//! | `agreement` | comparison of models and settings between peers |
//! | `gradient_sender` | [`GradientSender`]: gradients from a backward pass to the thread |
//! | `sync_thread` | the synchronization thread, which drives the node |
//! | `table_endpoint` | channel of the model's tables |
//! | `communicators` | communicators of the node's channels, and collectives in flight |
//! | `parameter_store` | newest values of each variable, which a forward pass waits for |
//! | `checkpoint` | training state on disk; [`StateArchive`] |
//! | `peer_arrays` | arrays of a checkpoint with a row per peer: residuals and diverged copies |
//! | [`trace`] | timeline of passes, waits and messages |
//! | [`error`] | errors of this crate |

mod agreement;
mod builder;
mod checkpoint;
mod communicators;
pub mod error;
mod gradient_sender;
mod model_sync;
mod parameter_store;
mod peer_arrays;
mod strategy_choice;
mod sync_thread;
mod table_endpoint;
pub mod trace;

pub use agreement::agree_on_success;
pub use builder::{ModelSyncBuilder, StrategySource};
pub use checkpoint::{Attachments, NamedArray, StateArchive};
pub use error::Error;
pub use gradient_sender::GradientSender;
pub use hemiola_sync_proto::Error as ProtocolError;
pub use hemiola_sync_proto::{GradientClip, UpdateKernel, VariableId, row_key};
pub use model_sync::{ModelSync, PassKind, PendingValues};
pub use strategy_choice::{DEFAULT_LINK, StrategyRecord};
