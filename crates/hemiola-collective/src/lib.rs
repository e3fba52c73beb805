//! Collectives on slices of numbers, and averages over a communication graph, on a cluster.
//!
//! This crate drives the state machines of `hemiola-collective-proto`: it gives them threads, time and the network, and decides nothing of the protocols.
//!
//! ```
//! use hemiola_collective::{MakeCollectives, Operator};
//!
//! hemiola_cluster::standalone(4).run(|cluster| {
//!     let collectives = cluster.collectives()?;
//!     let mut gradient = vec![1.0_f32; 10];
//!     collectives.all_reduce(&mut gradient, Operator::Sum)?;
//!     assert_eq!(gradient, [4.0; 10]);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! **Who does the work.** A call that blocks is carried through by the calling thread, which reads and writes sockets itself. One that was begun
//! is carried on by a service of the cluster, started for the first of them.
//!
//! [`Mixing`] averages over a sparse graph instead, where each peer waits for its neighbours alone, or for nobody.
//!
//! | file | concept |
//! |---|---|
//! | [`collectives`] | [`Collectives`]: the handle of a peer |
//! | `flight` | one collective on its way |
//! | [`encoded`] | all-reduce and others in fewer bytes; [`PendingEncoded`], [`Factors`] |
//! | `outcome` | what becomes of a collective that was begun |
//! | [`background`] | [`Pending`]: collectives that go on while the program computes |
//! | [`mixing`] | [`Mixing`]: averages over a graph; who goes on without whom |
//! | [`measure`] | [`Speeds`]: what each way to do an all-reduce takes here |
//! | [`probe`](mod@probe) | how fast pairs of peers talk |
//! | [`error`] | what can go wrong |

pub mod background;
pub mod collectives;
pub mod encoded;
pub mod error;
mod flight;
pub mod measure;
pub mod mixing;
mod outcome;
pub mod probe;

pub use background::Pending;
pub use collectives::{Collectives, MakeCollectives, Tally};
pub use encoded::{Factors, PendingEncoded};
pub use error::Error;
pub use hemiola_collective_proto::mix::{Mixed, Reduced};
pub use hemiola_collective_proto::protocol::cut;
pub use hemiola_collective_proto::{
    Algorithm, Element, Encoder, Encoding, Graph, Operator, Search, Synchronization, Topology, Weights,
};
pub use hemiola_collective_proto::{cost, encode};
pub use measure::Speeds;
pub use mixing::{MakeMixing, Mixing, MixingBuilder, MixingTally, OnLoss};
pub use probe::{Probed, probe};
