//! Collectives, gradient compression and gossip averaging on a cluster.
//!
//! This crate drives the state machines of `hemiola-collective-proto`: it gives them threads, time
//! and the network, and contains no protocol logic.
//!
//! ```
//! use hemiola_collective::{CollectiveExt, ReduceOp};
//!
//! hemiola_cluster::standalone(4).run(|cluster| {
//!     let communicator = cluster.communicator()?;
//!     let mut gradient = vec![1.0_f32; 10];
//!     communicator.all_reduce(&mut gradient, ReduceOp::Sum)?;
//!     assert_eq!(gradient, [4.0; 10]);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! **Threads.** A blocking call runs on the calling thread, which reads and writes sockets itself.
//! Non-blocking collectives are driven by one background service of the cluster, started for the
//! first of them.
//!
//! [`Gossip`] averages over a sparse communication graph instead, where each peer waits only for
//! its neighbours, or for no peer.
//!
//! | file | concept |
//! |---|---|
//! | [`communicator`] | [`Communicator`]: collective calls of a peer |
//! | `in_flight` | one collective in flight |
//! | [`compressed`] | compressed all-reduce and other collectives; [`PendingCompressed`], [`SufficientFactors`] |
//! | `completion` | completion of a non-blocking collective |
//! | [`background`] | [`PendingCollective`]: non-blocking collectives and the thread that drives them |
//! | [`gossip`] | [`Gossip`]: gossip averaging over a graph; exclusion of lost peers |
//! | [`measure`] | [`AlgorithmTimings`]: measured time of each all-reduce algorithm |
//! | [`probe`](mod@probe) | measured latency and bandwidth of pairs of peers |
//! | [`error`] | errors of this crate |

pub mod background;
pub mod communicator;
mod completion;
pub mod compressed;
pub mod error;
pub mod gossip;
mod in_flight;
pub mod measure;
pub mod probe;

pub use background::PendingCollective;
pub use communicator::{CollectiveExt, CollectiveStats, Communicator};
pub use compressed::{PendingCompressed, SufficientFactors};
pub use error::Error;
pub use gossip::{Gossip, GossipBuilder, GossipExt, GossipStats, PeerLossPolicy};
pub use hemiola_collective_proto::Error as ProtocolError;
pub use hemiola_collective_proto::gossip::{GossipElement, GossipRound};
pub use hemiola_collective_proto::protocol::chunk_range;
pub use hemiola_collective_proto::{
    Algorithm, CollectiveElement, Compression, Compressor, GossipSync, GossipWeights, Graph, Operation, ReduceOp,
    Route, Topology, TopologySearch,
};
pub use hemiola_collective_proto::{compress, cost};
pub use measure::AlgorithmTimings;
pub use probe::{LinkMeasurement, probe};
