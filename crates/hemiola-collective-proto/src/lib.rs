//! Sans-I/O collectives, gradient compression, gossip averaging, communication graphs and their
//! cost models, as plain values and state machines.
//!
//! **Invariant:** nothing here opens a socket, starts a thread, reads a clock or draws a random
//! number that is not a function of a given seed. The crate depends on `hemiola-core` alone.
//!
//! | module | concept |
//! |---|---|
//! | [`compress`] | [`Compression`]: gradient compression with error feedback |
//! | [`graph`] | [`Graph`]: directed communication graph; [`Topology`]: named graphs; spectral gap, weights, search |
//! | [`protocol`] | [`CollectiveCall`]: one collective in flight; its steps and the order of its sums |
//! | [`gossip`] | [`GossipNode`]: gossip averaging over a graph, with NOTIFY-ACK |
//! | [`cost`] | cheapest scheme for the update of a matrix; fastest all-reduce algorithm |
//! | [`algorithm`] | [`Algorithm`]: all-reduce algorithms |
//! | [`route`] | [`Route`]: members of a reduction, by group (two levels), in their order |
//!
//! **One driver core.** [`CollectiveCall`], [`compress::CompressedCall`] and [`GossipNode`] are what
//! drivers run: threads, TCP and the simulator. They own tags, lanes, headers, mismatches and
//! losses; a driver carries messages and time.

pub mod algorithm;
pub mod compress;
pub mod cost;
pub mod error;
pub mod gossip;
pub mod graph;
pub mod protocol;
pub mod route;

pub use algorithm::Algorithm;
pub use compress::{Compression, Compressor};
pub use error::{Error, Result};
pub use gossip::{GossipAverager, GossipNode, GossipSync};
pub use graph::{GossipWeights, Graph, LinkSpeeds, Topology, TopologySearch};
pub use protocol::{CollectiveCall, CollectiveElement, CollectiveMessage, Operation, ReduceOp, Tag};
pub use route::Route;
