//! Gradients in, values out: what happens to each variable between a backward pass and the next forward pass.
//!
//! One thread of a peer has the peer's values and carries the strategy out. It is told of a gradient as soon as that is complete, sends what is to be sent, and publishes new values as they come; the
//! backward pass goes on meanwhile, and the next forward pass waits for each variable alone.
//!
//! | file | concept |
//! |---|---|
//! | `block` | a shard inside its variable |
//! | `plan` | shards with their values, and units: what travels together |
//! | `turns` | the order in which all peers begin what they begin |
//! | `flight` | a unit on its way: which messages follow which |
//! | `rows` | rows that travel with their numbers |
//! | `factors` | factors become a gradient |
//! | `clip` | gradients that are too large |
//! | `worker` | the thread |

mod block;
mod clip;
mod factors;
mod flight;
mod plan;
mod rows;
mod turns;
mod worker;

pub(crate) use block::Block;
pub(crate) use plan::{Layout, Piece, Unit, Way};
pub(crate) use worker::{Event, Holdings, Settings, Taken, Worker};
