//! Gossip averaging: stochastic reduce over a communication graph, with NOTIFY-ACK (sections 3 and
//! 4 of the ASAP paper).
//!
//! In each round a peer *pushes* its values to its receivers, waits for those of its senders, and
//! *reduces*: its values become a weighted mean of its own and theirs ([`crate::GossipWeights`]).
//! Values arrive in pieces that carry their version; a NOTIFY with the version follows as footer;
//! after the reduce, an ACK says that the slot may be overwritten. A peer waits for no one but its
//! neighbours.
//!
//! **Guarantees** of [`GossipSync::NotifyAck`]: a slot is never overwritten before it was read;
//! each version is reduced exactly once by each receiver, in the round of the same number; no
//! deadlock, also on cyclic graphs. See README.md, sections Guarantees (the proofs), Losses and
//! Races.
//!
//! After a loss, the remaining peers agree on a round that none of them has started, and pass it to
//! their averagers ([`GossipAverager::exclude`]). The other two kinds of synchronization exist for
//! comparison.

mod averager;
mod channel;
mod message;
mod node;
mod slot;

pub use averager::{GossipAverager, GossipElement, GossipRound, GossipSync};
pub use channel::{GossipChannel, GossipNodeMessage};
pub use message::{GossipBody, GossipMessage};
pub use node::{GossipNode, GossipWait};
