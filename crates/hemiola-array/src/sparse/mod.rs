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
//! | `sort` | sorting all columns in place |
//! | [`duplicates`] | what happens when a key comes twice |
//! | [`block`] | the finished, sorted, immutable-in-shape block |

pub mod block;
pub mod builder;
pub mod duplicates;
pub mod keys;
mod sort;

pub use block::{RowIndex, SparseBlock};
pub use builder::SparseBuilder;
pub use duplicates::DuplicatePolicy;
pub use keys::KeyColumn;
