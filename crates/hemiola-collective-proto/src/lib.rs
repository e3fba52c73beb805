//! How peers agree on numbers: collectives, communication graphs and what they cost, as plain values and state machines.
//!
//! **Invariant:** nothing here opens a socket, starts a thread, reads a clock or draws a random number that is not a function of a given seed.
//! The crate depends on `hemiola-core` alone.
//!
//! | module | concept |
//! |---|---|
//! | [`encode`] | [`Encoding`]: fewer bytes for an update, at a price in precision that later updates pay back |
//! | [`graph`] | [`Graph`]: who sends to whom; [`Topology`]: its kinds; spectral gap, mixing weights, search for a good one |
//! | [`protocol`] | [`Engine`]: collectives in flight; the steps they are made of and the order of their sums |
//! | [`mix`] | [`Mixer`]: averages over a graph, with NOTIFY-ACK |
//! | [`cost`] | which scheme sends the fewest numbers for a matrix; which all-reduce takes the least time |
//! | [`algorithm`] | [`Algorithm`]: ways to do an all-reduce |
//! | [`random`] | [`Random`]: a seeded generator |

pub mod algorithm;
pub mod cost;
pub mod encode;
pub mod error;
pub mod graph;
pub mod mix;
pub mod protocol;
pub mod random;

pub use algorithm::Algorithm;
pub use encode::{Encoder, Encoding};
pub use error::{Error, Result};
pub use graph::{Graph, LinkSpeeds, Search, Topology, Weights};
pub use mix::{Mixer, Synchronization};
pub use protocol::{Element, Engine, Message, Operation, Operator, Tag};
pub use random::Random;
