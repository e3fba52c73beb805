//! Server of read-only rows: one shard, whose rows stay where their owner keeps them.
//!
//! **Invariant:** a shard answers with the cells of exactly the rows that were requested, in their
//! order; a row of another shard is an error.

use super::message::ReadOnlyError;
use crate::partition::RangePartition;
use crate::spec::ShardId;
use std::ops::Range;

/// Rows of one shard, in the memory of their owner.
pub trait RowSource {
    /// Appends the encoded cells of the given rows, which belong to the shard.
    fn append_rows(&self, rows: &[u64], cells: &mut Vec<u8>);
}

/// One shard of a table of read-only rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyServer {
    owned: Range<u64>,
}

impl ReadOnlyServer {
    /// Creates a shard of a partition.
    ///
    /// # Panics
    /// If there is no such shard.
    #[must_use]
    pub fn new(partition: &RangePartition, shard: ShardId) -> Self {
        Self { owned: partition.range(shard) }
    }

    /// Range of the shard's rows.
    #[must_use]
    pub fn owned(&self) -> Range<u64> {
        self.owned.clone()
    }

    /// Checks that rows named by another peer belong to the shard.
    pub fn check(&self, rows: &[u64]) -> Result<(), ReadOnlyError> {
        match rows.iter().find(|row| !self.owned.contains(row)) {
            Some(row) => Err(ReadOnlyError::RowNotOwned { row: *row, owned: self.owned.clone() }),
            None => Ok(()),
        }
    }

    /// Appends the answer to a request: the cells of its rows.
    pub fn answer(&self, rows: &[u64], source: &impl RowSource, cells: &mut Vec<u8>) -> Result<(), ReadOnlyError> {
        self.check(rows)?;
        source.append_rows(rows, cells);
        Ok(())
    }
}
