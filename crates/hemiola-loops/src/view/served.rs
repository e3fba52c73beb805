//! Rows of an array that other peers own.
//!
//! A worker fetches the rows a block will need in bulk, before it runs it. A row that nobody foresaw is fetched when it is
//! read, with one request for it alone; such reads are counted.

use crate::run::post::Requests;
use hemiola_array::Element;
use hemiola_cluster::{Cluster, Mailbox, Reason, Result};
use hemiola_core::{Rank, Waiter, WorkerId};
use hemiola_tables_proto::{Owners, RowCache};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

/// A worker's access to the rows of a served array.
pub(crate) struct Served<T> {
    pub(crate) cluster: Cluster,
    pub(crate) requests: Arc<Requests>,
    pub(crate) worker: WorkerId,
    /// The array's number in the loop.
    pub(crate) array: usize,
    pub(crate) owners: Owners,
    pub(crate) row_length: usize,
    cache: RefCell<RowCache<T>>,
    /// Runs of rows that were read as one slice. Each has its own memory, which stays until all is forgotten.
    runs: RefCell<Vec<Box<[T]>>>,
    unforeseen: Cell<u64>,
}

impl<T: Element> Served<T> {
    pub(crate) fn new(
        cluster: &Cluster,
        requests: &Arc<Requests>,
        worker: WorkerId,
        array: usize,
        owners: Owners,
        row_length: usize,
    ) -> Self {
        let cache = RefCell::new(RowCache::new(owners.rows(), row_length));
        let (cluster, requests, runs) = (cluster.clone(), Arc::clone(requests), RefCell::default());
        Self { cluster, requests, worker, array, owners, row_length, cache, runs, unforeseen: Cell::new(0) }
    }

    /// Fetches ascending rows in bulk; all others are forgotten. Rows of this peer need not be fetched.
    pub(crate) fn prefetch(&self, rows: &[u64]) -> Result<()> {
        let me = self.cluster.rank().index();
        let mut cells = Vec::new();
        let mut kept = Vec::with_capacity(rows.len());
        let shares = self.owners.divide(rows);
        let asked: Vec<_> =
            shares.iter().enumerate().filter(|(peer, share)| *peer != me && !share.is_empty()).collect();
        for (peer, share) in &asked {
            self.ask(Rank::new(*peer as u32), &rows[(*share).clone()])?;
        }
        for (peer, share) in asked {
            cells.extend(self.answer(Rank::new(peer as u32), share.len())?);
            kept.extend_from_slice(&rows[share.clone()]);
        }
        self.runs.borrow_mut().clear();
        self.cache.borrow_mut().fill(kept, cells);
        Ok(())
    }

    /// A row of another peer: from the cache, or with a request of its own.
    pub(crate) fn row(&self, row: u64) -> *const T {
        if let Some(cells) = self.cache.borrow().find(row) {
            return cells.as_ptr();
        }
        self.unforeseen.set(self.unforeseen.get() + 1);
        let owner = self.owners.of(row);
        let cells = self.ask(owner, &[row]).and_then(|()| self.answer(owner, 1));
        let cells = cells.unwrap_or_else(|error| {
            // The end of the block, not a bug that needs a trace: the loop reports it.
            std::panic::resume_unwind(Box::new(format!("cannot read row {row} of its owner, peer {owner}: {error}")))
        });
        // Adding a row moves no other, so that addresses handed out before stay good.
        let mut cache = self.cache.borrow_mut();
        cache.add(row, cells.into());
        cache.find(row).expect("it was just added").as_ptr()
    }

    /// A run of rows as one slice: each from its owner, those of this peer from `own`, which begins with row `first`.
    pub(crate) fn run(&self, rows: Range<u64>, own: &[T], first: u64) -> *const T {
        self.unforeseen.set(self.unforeseen.get() + 1);
        let wanted: Vec<u64> = rows.clone().collect();
        let me = self.cluster.rank().index();
        let fetch = || -> Result<Vec<T>> {
            let shares = self.owners.divide(&wanted);
            let asked = |peer: usize| peer != me && !shares[peer].is_empty();
            for peer in (0..shares.len()).filter(|peer| asked(*peer)) {
                self.ask(Rank::new(peer as u32), &wanted[shares[peer].clone()])?;
            }
            let mut cells = Vec::with_capacity(wanted.len() * self.row_length);
            for (peer, share) in shares.iter().enumerate() {
                if peer == me && !share.is_empty() {
                    let start = (wanted[share.start] - first) as usize * self.row_length;
                    cells.extend_from_slice(&own[start..start + share.len() * self.row_length]);
                } else if asked(peer) {
                    cells.extend(self.answer(Rank::new(peer as u32), share.len())?);
                }
            }
            Ok(cells)
        };
        let cells = fetch().unwrap_or_else(|error| panic!("cannot read rows {rows:?} of their owners: {error}"));
        let mut runs = self.runs.borrow_mut();
        runs.push(cells.into());
        runs[runs.len() - 1].as_ptr()
    }

    /// Forgets all rows: they may have changed.
    pub(crate) fn forget(&self) {
        self.runs.borrow_mut().clear();
        self.cache.borrow_mut().clear();
    }

    /// Reads that nobody foresaw.
    pub(crate) fn unforeseen(&self) -> u64 {
        self.unforeseen.get()
    }

    fn ask(&self, owner: Rank, rows: &[u64]) -> Result<()> {
        self.requests.ask(&self.cluster, owner, self.worker, self.array, rows)
    }

    fn answer(&self, owner: Rank, rows: usize) -> Result<Vec<T>> {
        let mailbox: &Mailbox = &self.requests.answers[self.worker.index()];
        let reason = Reason { what: "rows of an array", number: None, site: None };
        let message = self.cluster.receive(mailbox, owner, Waiter::Worker(self.worker), reason)?;
        let cells = T::unpack(&message.payload, rows * self.row_length)?;
        // An element may unpack itself as it likes; views rely on the number.
        assert_eq!(cells.len(), rows * self.row_length, "an element unpacks as many values as were packed");
        Ok(cells)
    }
}
