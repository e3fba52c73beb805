//! Rows that each block of a `repeated` loop reads, remembered between passes.

use crate::plan::{Cuts, LoopBlock};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Prefetch sets of a loop, by block and by the first entry of a chunk that runs together.
#[derive(Debug)]
pub(crate) struct PrefetchMemo {
    /// Cuts that the blocks belong to. Other cuts have other blocks.
    cuts: Cuts,
    rows: Mutex<BTreeMap<(LoopBlock, u64), PrefetchSet>>,
}

/// Rows of each served array and table that a block reads, in the order of the captured names,
/// ascending.
pub(crate) type PrefetchSet = Arc<Vec<Vec<u64>>>;

impl PrefetchMemo {
    pub(crate) fn new(cuts: Cuts) -> Self {
        Self { cuts, rows: Mutex::default() }
    }

    pub(crate) fn matches_cuts(&self, cuts: &Cuts) -> bool {
        self.cuts == *cuts
    }

    pub(crate) fn find(&self, block: LoopBlock, first: u64) -> Option<PrefetchSet> {
        self.rows.lock().get(&(block, first)).cloned()
    }

    pub(crate) fn insert(&self, block: LoopBlock, first: u64, rows: PrefetchSet) {
        self.rows.lock().insert((block, first), rows);
    }
}
