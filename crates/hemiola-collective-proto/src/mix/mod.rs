//! Stochastic reduce over a graph, with NOTIFY-ACK: sections 3 and 4 of the ASAP paper.
//!
//! In each round a peer *pushes* its values to its receivers, waits for those of its senders, and *reduces*: its values become a weighted mean of
//! its own and theirs ([`crate::Weights`]). Each edge has one slot at the receiver. Data come in pieces that carry their version; a NOTIFY with the version
//! follows as footer; when the receiver has reduced, an ACK says that the slot may be written again. Nobody waits for anyone but its neighbours.
//!
//! **What holds** with [`Synchronization::NotifyAck`]:
//! 1. *A slot is never written before it was read*, since a sender has at most one unacknowledged version per edge and the ACK is sent after the reduce. So no read
//!    is torn or of mixed versions.
//! 2. *Each version is reduced exactly once by each receiver*, in the receiver's round of the same number: version `r` from everybody, then ACK, then `r + 1`.
//!    Results are therefore a function of inputs and weights, not of timing. Neighbours are at most one round apart.
//! 3. *No deadlock, also on cyclic graphs*, since a peer pushes before it waits. Take a peer that has completed the fewest rounds, `r`. Its receivers have completed
//!    at least `r`, so they have acknowledged version `r − 1`, and its push goes out. Its senders have completed at least `r` rounds, so their
//!    version `r` has been pushed or, by the same argument, can be. So it can complete its round.
//!
//! Pieces and NOTIFY may overtake each other: a slot is ready when footer and all pieces have one version. The paper needs a transport that keeps
//! them in order; this does not.
//!
//! The other two kinds of synchronization are there to be compared with. Both reduce with what happens to be in the slots, leave out what is torn,
//! missing or was read before, and count that.
//!
//! **When a peer is gone**, those who are left agree on a round that none of them has begun ([`Mixer::next_round`], the largest of all), and tell it to their
//! mixers ([`Mixer::lose`]). From that round on, weights are those [without](crate::Weights::without) it, doubly stochastic if they were. In rounds before, a value that it
//! did not send is replaced by the receiver's own.

mod message;
mod mixer;
mod slot;

pub use message::{Body, Message};
pub use mixer::{Mixed, Mixer, Reduced, Synchronization};
