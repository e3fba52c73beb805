//! Served arrays: rows that stay with their owner while workers fetch copies.
//!
//! Rows change only at barriers of all workers, so a fetched row stays valid until the next
//! barrier, and the protocol needs no clocks.
//!
//! | file | concept |
//! |---|---|
//! | [`owners`] | [`Owners`]: the row ranges of all peers |
//! | [`array_shard`] | [`ArrayShard`]: rows of an array that one peer owns |
//! | [`row_cache`] | [`RowCache`]: rows that a worker has fetched |
//! | [`row_list`] | encoding of sorted row lists |

mod array_shard;
mod owners;
mod row_cache;
pub(crate) mod row_list;

pub(crate) use array_shard::ArrayShard;
pub(crate) use owners::Owners;
pub(crate) use row_cache::RowCache;
