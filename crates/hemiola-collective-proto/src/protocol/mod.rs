//! Collectives as lists of steps, and one machine that runs them all.
//!
//! An [`Operation`] and a peer's place among the others give a list of [`Step`]s: send this range to that peer, receive that range from this one and
//! replace or combine. A [`Machine`] goes through the list as messages come; an [`Engine`] holds several machines that are in flight at once. The
//! list depends on nothing but the arguments, and a step that receives names its sender, so a result is the same bits whatever order messages arrive in.
//! The k-th message that a peer sends another is the k-th that the other receives from it; numbers in the messages keep that true over any transport.
//!
//! # In which order numbers are summed
//!
//! `x(i)` is what peer `i` had; `+` rounds once to the type of the elements (`bf16` and `f16` add in `f32` and round); a vector of `n` elements is
//! cut into chunks `c` = elements `c·n/peers .. (c+1)·n/peers`.
//!
//! | way | order |
//! |---|---|
//! | ring, and reduce-scatter | chunk `c`: `((x(c+1) + x(c+2)) + …) + x(c)`, ranks modulo the number of peers |
//! | tree, and reduce | ranks relative to the root; the sum over `2ᵏ` aligned ranks is that of the lower half + that of the upper half; missing ranks are left out |
//! | halving and doubling, and doubling | `p` = largest power of two ≤ peers; first `x(i) + x(i+p)` where there is an `i+p`; then, for d = p/2, p/4, …, 1: `y(i) + y(i+d)` for i < d |
//! | two-level | a tree in each group, then the ring over the groups' sums |
//!
//! In each of them one peer computes the final value of an element and the others are told, or all compute the same: all have the same bits, even where a
//! sum is NaN, which is always the same NaN.

mod doubling;
mod element;
mod engine;
mod fuse;
mod halving;
mod machine;
mod message;
mod operation;
mod ring;
mod step;
mod tree;
mod two_level;

pub use element::{Element, ElementKind, Operator, count_nan};
pub(crate) use element::{replace, to_bytes};
pub use engine::{Engine, Wait};
pub use fuse::{Bucket, buckets, pack, unpack};
pub use machine::Machine;
pub use message::{Body, Disagreement, HEADER_BYTES, Lent, Message, Tag};
pub(crate) use operation::digest;
pub use operation::{Call, Operation};
pub use step::{How, Step, cut};
