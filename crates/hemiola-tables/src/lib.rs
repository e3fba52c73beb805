//! Arrays served by shards. Each peer owns some rows of an array (its *shard*) and answers for them in bulk: reads of many
//! rows in one message, updates of many rows in another. A reader keeps what it was sent in a cache of rows.
//!
//! This is the part without clocks: between two points where all workers meet nothing changes, so whatever is cached is
//! true until then. **Invariant:** no socket, thread, wall clock or randomness is in here; messages are bytes that
//! others carry.
//!
//! | module | concept |
//! |---|---|
//! | [`owners`] | [`Owners`]: which peer owns which row |
//! | [`shard`] | [`Shard`]: the rows one peer owns; bulk get, bulk apply |
//! | [`cache`] | [`RowCache`]: rows a worker was sent |
//! | [`rows`] | lists of rows as they travel |

pub mod cache;
pub mod owners;
pub mod rows;
pub mod shard;

pub use cache::RowCache;
pub use owners::Owners;
pub use shard::Shard;
