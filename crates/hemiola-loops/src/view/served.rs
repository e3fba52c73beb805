//! Rows of a served array that other peers own.
//!
//! A worker prefetches the rows of a block in bulk before it runs the block. A row that was not
//! prefetched is requested when it is read, in a message of its own. Such misses are counted. The
//! cache and the protocol are those of the parameter server (`ReadOnlyClient`); this file sends its
//! requests and receives the answers.

use crate::run::row_requests::RowRequests;
use crate::served_block::{bad_message, home_shard};
use hemiola_array::Element;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::WorkerId;
use hemiola_tables_proto::{RangePartition, ReadOnlyClient};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// Cached rows of a served array, for one worker.
pub(crate) struct ServedRows<T> {
    cluster: Cluster,
    requests: Arc<RowRequests>,
    worker: WorkerId,
    client: RefCell<ReadOnlyClient<T>>,
}

impl<T: Element> ServedRows<T> {
    /// Creates an empty cache for the array with index `array` in the loop.
    pub(crate) fn new(
        cluster: &Cluster,
        requests: &Arc<RowRequests>,
        worker: WorkerId,
        array: usize,
        partition: RangePartition,
        row_length: usize,
    ) -> Self {
        let client = ReadOnlyClient::new(array as u32, worker, home_shard(cluster), partition, row_length);
        Self { cluster: cluster.clone(), requests: Arc::clone(requests), worker, client: RefCell::new(client) }
    }

    /// Fetches ascending rows in bulk and drops all others. Rows of this peer are not fetched.
    pub(crate) fn prefetch(&self, rows: &[u64]) -> Result<()> {
        let mut client = self.client.borrow_mut();
        client.prefetch(rows);
        self.exchange(&mut client)
    }

    /// Address of a row of another peer, from the cache or by a request.
    pub(crate) fn row(&self, row: u64) -> *const T {
        if let Some(cells) = self.client.borrow().find(row) {
            return cells.as_ptr();
        }
        let mut client = self.client.borrow_mut();
        client.fetch_row(row);
        if let Err(error) = self.exchange(&mut client) {
            let owner = client.owner_of(row);
            // Ends the block without a backtrace: the loop reports the error.
            std::panic::resume_unwind(Box::new(format!("cannot read row {row} from its owner, peer {owner}: {error}")))
        }
        // Adding a row moves no other, so addresses returned before stay valid.
        client.find(row).expect("the row was just added").as_ptr()
    }

    /// Address of a range of rows as one slice. Each row comes from its owner; those of this peer
    /// are copied from `own`, which holds all of them.
    pub(crate) fn read_range(&self, rows: Range<u64>, own: &[T]) -> *const T {
        let mut client = self.client.borrow_mut();
        client.fetch_range(rows.clone(), own);
        let fetched = self.exchange(&mut client);
        fetched.unwrap_or_else(|error| panic!("cannot read rows {rows:?} from their owners: {error}"));
        client.last_range().as_ptr()
    }

    /// Drops all rows, because they may have changed.
    pub(crate) fn clear(&self) {
        self.client.borrow_mut().clear();
    }

    /// Number of reads that were not prefetched.
    pub(crate) fn misses(&self) -> u64 {
        self.client.borrow().misses()
    }

    /// Sends the requests of a fetch and receives the answers.
    fn exchange(&self, client: &mut ReadOnlyClient<T>) -> Result<()> {
        for (shard, request) in client.requests(self.requests.header()) {
            self.requests.send(&self.cluster, shard, request)?;
        }
        while let Some((shard, cells)) = client.awaited() {
            let answer = self.requests.receive(&self.cluster, shard, self.worker)?;
            client.on_rows(T::unpack(&answer, cells)?).map_err(|error| bad_message(&error))?;
        }
        Ok(())
    }
}
