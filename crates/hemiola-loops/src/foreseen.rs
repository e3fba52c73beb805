//! What a loop that is `repeated` remembers: the rows each block reads.

use crate::plan::{Block, Cuts};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By block, and by the first of the entries that are run together: the rows of each served array, ascending.
#[derive(Debug)]
pub(crate) struct Foreseen {
    /// Blocks of other cuts are other blocks.
    cuts: Cuts,
    rows: Mutex<BTreeMap<(Block, u64), Rows>>,
}

/// Rows of each served array, in the order of names.
pub(crate) type Rows = Arc<Vec<Vec<u64>>>;

impl Foreseen {
    pub(crate) fn new(cuts: Cuts) -> Self {
        Self { cuts, rows: Mutex::default() }
    }

    pub(crate) fn is_of(&self, cuts: &Cuts) -> bool {
        self.cuts == *cuts
    }

    pub(crate) fn find(&self, block: Block, first: u64) -> Option<Rows> {
        self.rows.lock().get(&(block, first)).cloned()
    }

    pub(crate) fn remember(&self, block: Block, first: u64, rows: Rows) {
        self.rows.lock().insert((block, first), rows);
    }
}
