//! Rows that each block of a `repeated` loop reads, remembered between passes.

use crate::plan::{Cuts, LoopBlock};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Prefetch sets of a loop, by block and by the entries of a chunk that runs together.
#[derive(Debug)]
pub(crate) struct PrefetchMemo {
    /// Cuts that the blocks belong to. Other cuts have other blocks.
    cuts: Cuts,
    rows: Mutex<BTreeMap<(LoopBlock, u64, u64), PrefetchSet>>,
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

    pub(crate) fn find(&self, block: LoopBlock, chunk: &Range<u64>) -> Option<PrefetchSet> {
        self.rows.lock().get(&(block, chunk.start, chunk.end)).cloned()
    }

    pub(crate) fn insert(&self, block: LoopBlock, chunk: &Range<u64>, rows: PrefetchSet) {
        self.rows.lock().insert((block, chunk.start, chunk.end), rows);
    }
}
