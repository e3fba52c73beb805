//! Client of read-only rows: the rows that one worker has fetched, and its requests in flight.
//!
//! A fetch names rows. The client splits them by owner and creates one request per shard; its host
//! sends them, receives the answers in the order of the shards, and passes the cells on. One fetch
//! is in flight at a time. **Invariant:** references to cached rows stay valid until the next
//! prefetch is complete or the cache is cleared.

use super::message::{ReadOnlyError, RowRequest};
use super::row_cache::RowCache;
use crate::partition::RangePartition;
use crate::spec::ShardId;
use hemiola_core::WorkerId;
use std::ops::Range;

/// Cache and requests of one worker for one table of read-only rows.
#[derive(Debug)]
pub struct ReadOnlyClient<T> {
    table: u32,
    worker: WorkerId,
    /// Shard of this peer, whose rows are read in place.
    home: ShardId,
    partition: RangePartition,
    row_length: usize,
    cache: RowCache<T>,
    /// Ranges of rows that were read as one slice. Each has its own allocation, which lives until
    /// the cache is cleared.
    ranges: Vec<Box<[T]>>,
    fetch: RowFetch<T>,
    misses: u64,
}

/// Rows in flight.
#[derive(Debug)]
struct RowFetch<T> {
    kind: FetchKind<T>,
    /// Rows of other shards, ascending.
    rows: Vec<u64>,
    /// Shards that are asked, with the positions of their rows. Empty if nothing is in flight.
    shares: Vec<(ShardId, Range<usize>)>,
    /// Number of shards that have answered.
    answered: usize,
    cells: Vec<T>,
}

#[derive(Debug)]
enum FetchKind<T> {
    /// Rows that replace all cached ones.
    Block,
    /// One row, added to the cache.
    Row,
    /// Consecutive rows. The cells `own` of this peer belong at position `at`.
    Range { at: usize, own: Vec<T> },
}

impl<T: Clone> ReadOnlyClient<T> {
    /// Creates the client of a worker on the peer that holds the shard `home`.
    #[must_use]
    pub fn new(table: u32, worker: WorkerId, home: ShardId, partition: RangePartition, row_length: usize) -> Self {
        let cache = RowCache::new(partition.rows(), row_length);
        let (rows, shares, cells) = (Vec::new(), Vec::new(), Vec::new());
        let fetch = RowFetch { kind: FetchKind::Block, rows, shares, answered: 0, cells };
        Self { table, worker, home, partition, row_length, cache, ranges: Vec::new(), fetch, misses: 0 }
    }

    /// Cells of a row of another shard, if it is cached.
    #[must_use]
    #[inline]
    pub fn find(&self, row: u64) -> Option<&[T]> {
        self.cache.find(row)
    }

    /// Cells of the range that was fetched last. Empty if there is none.
    #[must_use]
    pub fn last_range(&self) -> &[T] {
        self.ranges.last().map_or(&[], |cells| &**cells)
    }

    /// Shard that owns a row.
    #[must_use]
    pub fn owner_of(&self, row: u64) -> ShardId {
        self.partition.shard_of(row)
    }

    /// Number of rows and ranges that were fetched when they were read.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Starts to fetch ascending rows, which will replace all others. Rows of this peer are
    /// skipped.
    pub fn prefetch(&mut self, rows: &[u64]) {
        self.begin(FetchKind::Block, rows);
    }

    /// Starts to fetch a row that is not cached.
    pub fn fetch_row(&mut self, row: u64) {
        self.misses += 1;
        self.begin(FetchKind::Row, &[row]);
    }

    /// Starts to fetch consecutive rows as one slice. Rows of this peer are copied from `own`,
    /// which holds all of them.
    ///
    /// # Panics
    /// If `own` has fewer cells than the rows of this peer.
    pub fn fetch_range(&mut self, rows: Range<u64>, own: &[T]) {
        self.misses += 1;
        let home = self.partition.range(self.home);
        let shared = rows.start.max(home.start)..rows.end.min(home.end);
        let cells = |rows: u64| rows as usize * self.row_length;
        let kind = if shared.is_empty() {
            FetchKind::Range { at: 0, own: Vec::new() }
        } else {
            let own = &own[cells(shared.start - home.start)..cells(shared.end - home.start)];
            FetchKind::Range { at: cells(shared.start - rows.start), own: own.to_vec() }
        };
        self.begin(kind, &rows.collect::<Vec<_>>());
    }

    fn begin(&mut self, kind: FetchKind<T>, rows: &[u64]) {
        let fetch = &mut self.fetch;
        fetch.kind = kind;
        (fetch.rows, fetch.cells, fetch.answered) = (Vec::with_capacity(rows.len()), Vec::new(), 0);
        fetch.shares.clear();
        for (shard, share) in self.partition.split(rows) {
            if shard != self.home && !share.is_empty() {
                let start = fetch.rows.len();
                fetch.rows.extend_from_slice(&rows[share]);
                fetch.shares.push((shard, start..fetch.rows.len()));
            }
        }
        if fetch.shares.is_empty() {
            self.complete();
        }
    }

    /// Requests of the fetch, encoded behind `prefix`, with the shards that they are sent to.
    pub fn requests(&self, prefix: &[u8]) -> impl Iterator<Item = (ShardId, Vec<u8>)> {
        self.fetch.shares.iter().map(move |(shard, share)| {
            let mut bytes = prefix.to_vec();
            RowRequest::encode(self.table, self.worker, &self.fetch.rows[share.clone()], &mut bytes);
            (*shard, bytes)
        })
    }

    /// Shard whose answer is expected next, and its number of cells. `None` if the fetch is
    /// complete.
    #[must_use]
    pub fn awaited(&self) -> Option<(ShardId, usize)> {
        self.fetch.shares.get(self.fetch.answered).map(|(shard, share)| (*shard, share.len() * self.row_length))
    }

    /// Takes the cells of an awaited answer.
    pub fn on_rows(&mut self, cells: Vec<T>) -> Result<(), ReadOnlyError> {
        let (shard, expected) = self.awaited().ok_or(ReadOnlyError::NotRequested)?;
        if cells.len() != expected {
            return Err(ReadOnlyError::WrongCells { shard, expected, found: cells.len() });
        }
        let fetch = &mut self.fetch;
        if fetch.answered == 0 {
            fetch.cells = cells;
        } else {
            fetch.cells.reserve_exact(fetch.rows.len() * self.row_length - fetch.cells.len());
            fetch.cells.extend(cells);
        }
        fetch.answered += 1;
        if fetch.answered == fetch.shares.len() {
            self.complete();
        }
        Ok(())
    }

    /// Moves the rows of the fetch to their place.
    fn complete(&mut self) {
        let fetch = &mut self.fetch;
        fetch.shares.clear();
        fetch.answered = 0;
        let (rows, mut cells) = (std::mem::take(&mut fetch.rows), std::mem::take(&mut fetch.cells));
        match std::mem::replace(&mut fetch.kind, FetchKind::Block) {
            FetchKind::Block => {
                self.ranges.clear();
                self.cache.fill(rows, cells);
            }
            FetchKind::Row => rows.into_iter().for_each(|row| self.cache.add(row, std::mem::take(&mut cells).into())),
            FetchKind::Range { at, own } => {
                cells.splice(at..at, own);
                self.ranges.push(cells.into());
            }
        }
    }

    /// Drops all rows, because they may have changed.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.cache.clear();
    }
}
