//! Sparse storage in coordinate format: a block of entries as a structure of arrays.
//!
//! A loop over entries streams through one column per dimension and one column of values: 12 bytes
//! for a 2-D `f32` entry, with no pointers. Entries are sorted by a chosen order of dimensions, so
//! that a loop body revisits rows while they are in cache.
//!
//! | file | concept |
//! |---|---|
//! | [`keys`] | one column of keys, in 32 bits where the shape allows |
//! | [`builder`] | collection of entries in any order, in chunks, before the shape is known |
//! | `chunk` | chunk of entries that a builder has collected |
//! | `sort` | sort of chunks into columns |
//! | `digits`, `bucket` | stable bucket pass over the leading key bits |
//! | `in_place` | in-place sort where a bucket pass does not fit |
//! | `scatter` | scatter of entries to parts |
//! | [`duplicates`] | policy for duplicate keys |
//! | [`block`] | finished, sorted block with immutable keys |

pub mod block;
mod bucket;
pub mod builder;
mod chunk;
mod digits;
pub mod duplicates;
mod in_place;
pub mod keys;
pub(crate) mod scatter;
mod sort;

pub use block::{RowOffsets, SparseBlock};
pub use builder::SparseBuilder;
pub use duplicates::DuplicatePolicy;
pub use keys::KeyColumn;
