//! Collectives as lists of steps, and one state machine that runs them all.
//!
//! An [`Operation`] and a peer's rank determine a list of [`CollectiveStep`]s: send this range to
//! that peer, receive that range from this peer and replace or combine. A [`CollectiveMachine`]
//! executes the list as messages arrive; a [`CollectiveCall`] is the machine with everything that a
//! driver needs around it. The list depends on nothing but the arguments, and a receiving step names its
//! sender, so a result has the same bits in whatever order messages arrive. The k-th message that
//! one peer sends to another is the k-th that the other receives from it; sequence numbers in the
//! messages keep that true over any transport.
//!
//! # Order of the additions
//!
//! `x(i)` is the value of peer `i`; `+` rounds once to the element type (`bf16` and `f16` add in
//! `f32` and round); a vector of `n` elements is cut into chunks `c` = elements
//! `c·n/peers .. (c+1)·n/peers`.
//!
//! | algorithm | order |
//! |---|---|
//! | ring, and reduce-scatter | chunk `c`: `((x(c+1) + x(c+2)) + …) + x(c)`, ranks modulo the number of peers |
//! | tree, and reduce | lower half + upper half of `2ᵏ` aligned ranks, relative to the root |
//! | halving and doubling, and doubling | first `x(i) + x(i+p)`; then `y(i) + y(i+d)` for i < d |
//! | two-level | a tree in each group, then the ring over the groups' sums |
//! | routed | a tree in each group of the route, then the algorithm (or the tree to the root) over the stations, in the order of the route |
//!
//! In a tree, missing ranks are left out. In halving and doubling, `p` is the largest power of two
//! ≤ peers; the first sums exist where there is an `i+p`, and the others follow for d = p/2, p/4,
//! …, 1.
//!
//! In each algorithm either one peer computes the final value of an element and sends it to the
//! others, or all peers compute it from the same operands. So all peers have the same bits, even
//! where a sum is NaN, which is always the same NaN.

mod call;
mod doubling;
mod early;
mod element;
mod fusion;
mod halving;
mod machine;
mod message;
mod operation;
mod ring;
mod routed;
mod step;
mod tags;
mod tree;
mod two_level;

pub use call::{CallBuffer, CallFailure, CallProgress, CallSetup, CollectiveCall};
pub use early::EarlyMessages;
pub use element::{CollectiveElement, ElementKind, ReduceOp, count_nan};
pub(crate) use element::{replace, to_bytes};
pub use fusion::{Bucket, buckets, unpack};
pub use machine::CollectiveMachine;
pub use message::{BorrowedMessage, CollectiveBody, CollectiveMessage, CollectiveMismatch, HEADER_BYTES, Tag};
pub(crate) use operation::digest;
pub use operation::{CallSignature, Operation};
pub use step::{CollectiveStep, ReceiveAction, chunk_range};
pub use tags::{TagRange, TagSequence};
