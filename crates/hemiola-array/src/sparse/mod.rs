//! Sparse storage: a block of entries, each a key and a value, as a structure of arrays.
//!
//! A loop over entries streams through one column per dimension and one of values, 12 bytes for a 2-D `f32` entry, with
//! no pointer between. Entries are sorted by a chosen order of dimensions, so that the rows a loop body touches are
//! touched again while they are in cache.
//!
//! | file | concept |
//! |---|---|
//! | [`keys`] | one column of keys, in 32 bits where the shape allows |
//! | [`builder`] | entries arrive in any order, in chunks, without knowing the shape |
//! | `chunk` | a run of entries that a builder has collected |
//! | `sort` | from chunks to sorted columns |
//! | `digits`, `bucket` | the stable pass over leading bits that sorting begins with |
//! | `in_place` | sorting without a second column, for what does not suit that pass |
//! | `deal` | dealing entries out to parts |
//! | [`duplicates`] | what happens when a key comes twice |
//! | [`block`] | the finished, sorted, immutable-in-shape block |

pub mod block;
mod bucket;
pub mod builder;
mod chunk;
pub(crate) mod deal;
mod digits;
pub mod duplicates;
mod in_place;
pub mod keys;
mod sort;

pub use block::{RowIndex, SparseBlock};
pub use builder::SparseBuilder;
pub use duplicates::DuplicatePolicy;
pub use keys::KeyColumn;
