//! Gossip averaging: stochastic reduce over a communication graph, with NOTIFY-ACK (sections 3 and
//! 4 of the ASAP paper).
//!
//! In each round a peer *pushes* its values to its receivers, waits for those of its senders, and
//! *reduces*: its values become a weighted mean of its own and theirs ([`crate::GossipWeights`]).
//! Each edge has one slot at the receiver. Values arrive in pieces that carry their version; a
//! NOTIFY with the version follows as footer; after the reduce, an ACK says that the slot may be
//! overwritten. A peer waits for no one but its neighbours.
//!
//! **Guarantees** of [`GossipSync::NotifyAck`]:
//! 1. *A slot is never overwritten before it was read*, since a sender has at most one
//!    unacknowledged version per edge and the ACK is sent after the reduce. So no read is torn or
//!    of mixed versions.
//! 2. *Each version is reduced exactly once by each receiver*, in the receiver's round of the same
//!    number: version `r` from every sender, then ACK, then `r + 1`. Results are therefore a
//!    function of inputs and weights, not of timing. Neighbours are at most one round apart.
//! 3. *No deadlock, also on cyclic graphs*, since a peer pushes before it waits. Take a peer that
//!    has completed the fewest rounds, `r`. Its receivers have completed at least `r`, so they have
//!    acknowledged version `r − 1`, and its push goes out. Its senders have completed at least `r`
//!    rounds, so their version `r` has been pushed or, by the same argument, can be. So it can
//!    complete its round.
//!
//! Pieces and NOTIFY may overtake each other: a slot is ready when footer and all pieces have one
//! version. The paper needs a transport that keeps them in order; this protocol does not.
//!
//! The other two kinds of synchronization exist for comparison. Both reduce with whatever is in the
//! slots, leave out values that are torn, missing or already read, and count them.
//!
//! **Peer loss.** The remaining peers agree on a round that none of them has started (the largest
//! [`GossipAverager::next_round`] of all), and pass it to their averagers
//! ([`GossipAverager::exclude`]). From that round on, the weights are those
//! [without](crate::GossipWeights::without) the lost peer, doubly stochastic if they were before.
//! In earlier rounds, a value that it did not send is replaced by the receiver's own.

mod averager;
mod message;
mod slot;

pub use averager::{GossipAverager, GossipElement, GossipRound, GossipSync};
pub use message::{GossipBody, GossipMessage};
