//! Rows of a served array that other peers own.
//!
//! A worker prefetches the rows of a block in bulk before it runs the block. A row that was not
//! prefetched is requested when it is read, in a message of its own. Such misses are counted.

use crate::run::endpoint::RowRequests;
use crate::served::{Owners, RowCache};
use hemiola_array::Element;
use hemiola_cluster::{ChannelReceiver, Cluster, Result, WaitReason};
use hemiola_core::{Rank, Waiter, WorkerId};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

/// Cached rows of a served array, for one worker.
pub(crate) struct ServedRows<T> {
    pub(crate) cluster: Cluster,
    pub(crate) requests: Arc<RowRequests>,
    pub(crate) worker: WorkerId,
    /// Index of the array in the loop.
    pub(crate) array: usize,
    pub(crate) owners: Owners,
    pub(crate) row_length: usize,
    cache: RefCell<RowCache<T>>,
    /// Ranges of rows that were read as one slice. Each has its own allocation, which lives until
    /// the cache is cleared.
    ranges: RefCell<Vec<Box<[T]>>>,
    misses: Cell<u64>,
}

impl<T: Element> ServedRows<T> {
    pub(crate) fn new(
        cluster: &Cluster,
        requests: &Arc<RowRequests>,
        worker: WorkerId,
        array: usize,
        owners: Owners,
        row_length: usize,
    ) -> Self {
        let cache = RefCell::new(RowCache::new(owners.rows(), row_length));
        let (cluster, requests, runs) = (cluster.clone(), Arc::clone(requests), RefCell::default());
        Self { cluster, requests, worker, array, owners, row_length, cache, ranges: runs, misses: Cell::new(0) }
    }

    /// Fetches ascending rows in bulk and drops all others. Rows of this peer are not fetched.
    pub(crate) fn prefetch(&self, rows: &[u64]) -> Result<()> {
        let me = self.cluster.rank().index();
        let mut cells = Vec::new();
        let mut kept = Vec::with_capacity(rows.len());
        let shares = self.owners.divide(rows);
        let asked: Vec<_> =
            shares.iter().enumerate().filter(|(peer, share)| *peer != me && !share.is_empty()).collect();
        for (peer, share) in &asked {
            self.request(Rank::new(*peer as u32), &rows[(*share).clone()])?;
        }
        for (peer, share) in asked {
            cells.extend(self.receive_rows(Rank::new(peer as u32), share.len())?);
            kept.extend_from_slice(&rows[share.clone()]);
        }
        self.ranges.borrow_mut().clear();
        self.cache.borrow_mut().fill(kept, cells);
        Ok(())
    }

    /// Address of a row of another peer, from the cache or by a request.
    pub(crate) fn row(&self, row: u64) -> *const T {
        if let Some(cells) = self.cache.borrow().find(row) {
            return cells.as_ptr();
        }
        self.misses.set(self.misses.get() + 1);
        let owner = self.owners.owner_of(row);
        let cells = self.request(owner, &[row]).and_then(|()| self.receive_rows(owner, 1));
        let cells = cells.unwrap_or_else(|error| {
            // Ends the block without a backtrace: the loop reports the error.
            std::panic::resume_unwind(Box::new(format!("cannot read row {row} from its owner, peer {owner}: {error}")))
        });
        // Adding a row moves no other, so addresses returned before stay valid.
        let mut cache = self.cache.borrow_mut();
        cache.add(row, cells.into());
        cache.find(row).expect("the row was just added").as_ptr()
    }

    /// Address of a range of rows as one slice. Each row comes from its owner; those of this peer
    /// are copied from `own`, whose first row is `first`.
    pub(crate) fn read_range(&self, rows: Range<u64>, own: &[T], first: u64) -> *const T {
        self.misses.set(self.misses.get() + 1);
        let wanted: Vec<u64> = rows.clone().collect();
        let me = self.cluster.rank().index();
        let fetch = || -> Result<Vec<T>> {
            let shares = self.owners.divide(&wanted);
            let asked = |peer: usize| peer != me && !shares[peer].is_empty();
            for peer in (0..shares.len()).filter(|peer| asked(*peer)) {
                self.request(Rank::new(peer as u32), &wanted[shares[peer].clone()])?;
            }
            let mut cells = Vec::with_capacity(wanted.len() * self.row_length);
            for (peer, share) in shares.iter().enumerate() {
                if peer == me && !share.is_empty() {
                    let start = (wanted[share.start] - first) as usize * self.row_length;
                    cells.extend_from_slice(&own[start..start + share.len() * self.row_length]);
                } else if asked(peer) {
                    cells.extend(self.receive_rows(Rank::new(peer as u32), share.len())?);
                }
            }
            Ok(cells)
        };
        let cells = fetch().unwrap_or_else(|error| panic!("cannot read rows {rows:?} from their owners: {error}"));
        let mut runs = self.ranges.borrow_mut();
        runs.push(cells.into());
        runs[runs.len() - 1].as_ptr()
    }

    /// Drops all rows, because they may have changed.
    pub(crate) fn clear(&self) {
        self.ranges.borrow_mut().clear();
        self.cache.borrow_mut().clear();
    }

    /// Number of reads that were not prefetched.
    pub(crate) fn misses(&self) -> u64 {
        self.misses.get()
    }

    fn request(&self, owner: Rank, rows: &[u64]) -> Result<()> {
        self.requests.send_request(&self.cluster, owner, self.worker, self.array, rows)
    }

    fn receive_rows(&self, owner: Rank, rows: usize) -> Result<Vec<T>> {
        let mailbox: &ChannelReceiver = &self.requests.answers[self.worker.index()];
        let reason = WaitReason { operation: "rows of an array", number: None, site: None };
        let message = self.cluster.receive(mailbox, owner, Waiter::Worker(self.worker), reason)?;
        let cells = T::unpack(&message.payload, rows * self.row_length)?;
        // `Element::unpack` is user code; views rely on the number of cells.
        assert_eq!(cells.len(), rows * self.row_length, "an element unpacks as many values as were packed");
        Ok(cells)
    }
}
