//! Snapshot of a shard at a clock, taken while training continues.
//!
//! The state at clock `at` includes every update of earlier clocks and none of later ones. Under
//! SSP, updates of later clocks from fast clients arrive before those of earlier clocks from slow
//! clients, so this state never exists in the live rows. Hence *images*: the first update of a
//! clock `>= at` copies its row; later updates of clocks before `at` are applied to the row and to
//! its image. Once all clients have reached `at`, the snapshot is *sealed*: images do not change
//! any more, and rows are read out chunk by chunk, each from its image if it has one, else from the
//! live row. A live row that changes before it is read out is copied first. With the last row the
//! snapshot is *complete*: rows created later belong to later clocks.
//!
//! **Invariant:** slots below the cursor are written out; a slot at or above it reads as of `at`,
//! from its image or the live row.

use super::rows::{RowWrite, ShardRows};
use crate::batch::RowBatch;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::selection_rng::SelectionRng;
use crate::server::ShardServer;
use crate::spec::{ShardId, TableSpec};
use crate::update_rule::{UnknownVersion, UpdateRule};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Rows as of the snapshot, with their rule state.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotChunk<C: StorageType> {
    /// Rows with their versions.
    pub batch: RowBatch<C>,
    /// State of the rows, one row after the other.
    pub state: Vec<C::Compute>,
}

/// Data of a snapshot besides the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSummary {
    /// Clock at which all workers resume.
    pub at: Clock,
    /// Data that the update rule saved.
    pub rule: Vec<u8>,
    /// State of the selection generator.
    pub random: SelectionRng,
}

/// Snapshot that is in progress.
#[derive(Debug)]
pub(crate) struct ShardSnapshot<C: StorageType> {
    at: Clock,
    /// Images of rows, in slots of their own.
    images: ShardRows<C>,
    /// Image slot of a live slot.
    by_slot: HashMap<u32, u32, FxBuildHasher>,
    /// All slots below have been read out.
    cursor: u32,
    /// All rows have been read out. Rows that updates create afterwards are not in the snapshot:
    /// every client had reached `at` by then.
    complete: bool,
    summary: Option<SnapshotSummary>,
}

impl<C: StorageType> ShardSnapshot<C> {
    /// Copies a row if an update of this clock must not be visible in the snapshot.
    pub(crate) fn before_write(&mut self, slot: u32, clock: Clock, rows: &ShardRows<C>) {
        if clock >= self.at && slot >= self.cursor && !self.complete && !self.by_slot.contains_key(&slot) {
            let image = self.images.insert(rows.key(slot), rows.version(slot), &rows.cells(slot), rows.state(slot));
            self.by_slot.insert(slot, image);
        }
    }

    /// Applies an update of an earlier clock to the image of its row.
    pub(crate) fn write_image(
        &mut self,
        slot: u32,
        clock: Clock,
        write: &RowWrite<'_, C::Compute>,
        rule: &dyn UpdateRule<C::Compute>,
    ) -> Result<(), UnknownVersion> {
        match self.by_slot.get(&slot) {
            Some(image) if clock < self.at => self.images.write(*image, write, rule),
            _ => Ok(()),
        }
    }
}

impl<C: StorageType> ShardServer<C> {
    /// Begins a snapshot at clock `at`. No update of that clock or later may have arrived yet:
    /// request it a clock ahead, or when the last snapshot has been read out.
    pub fn begin_snapshot(&mut self, at: Clock) -> Result<()> {
        let table = || self.spec.name.clone();
        if let Some(snapshot) = &self.snapshot {
            return Err(Error::SnapshotBusy { table: table(), at: snapshot.at });
        }
        if let Some(applied) = self.latest_applied.filter(|latest| *latest >= at) {
            return Err(Error::SnapshotTooLate { table: table(), at, applied });
        }
        if !self.leases.is_empty() && at < self.clocks.min() {
            return Err(Error::SnapshotTooLate { table: table(), at, applied: self.clocks.min() });
        }
        let images = ShardRows::with_hash_index(&self.spec, self.rule.state_width(self.spec.width));
        let by_slot = HashMap::with_hasher(FxBuildHasher);
        self.snapshot = Some(ShardSnapshot { at, images, by_slot, cursor: 0, complete: false, summary: None });
        self.recall_all();
        Ok(())
    }

    /// Next rows of the snapshot: at least one, and about `bytes` in size. Returns `None` while
    /// clients have not reached the clock or recalled leases are outstanding. An empty chunk comes
    /// last.
    pub fn next_chunk(&mut self, bytes: usize) -> Option<SnapshotChunk<C>> {
        let leases_returned = self.leases.is_empty();
        let snapshot = self.snapshot.as_mut().filter(|snapshot| leases_returned && snapshot.at <= self.clocks.min())?;
        if snapshot.summary.is_none() {
            let (rule, random) = (self.rule.save(), self.random.clone());
            snapshot.summary = Some(SnapshotSummary { at: snapshot.at, rule, random });
        }
        let mut selected: Vec<(u64, u32)> = Vec::new();
        let mut size = 0;
        while !snapshot.complete && size < bytes.max(1) && (snapshot.cursor as usize) < self.rows.len() {
            let slot = snapshot.cursor;
            size += RowBatch::row_bytes(&self.rows.cells(slot)) + size_of_val(self.rows.state(slot));
            selected.push((self.rows.key(slot), slot));
            snapshot.cursor += 1;
        }
        snapshot.complete |= snapshot.cursor as usize == self.rows.len();
        selected.sort_unstable();
        let mut chunk = SnapshotChunk { batch: RowBatch::new(), state: Vec::new() };
        for (key, slot) in selected {
            let (rows, slot) = match snapshot.by_slot.remove(&slot) {
                Some(image) => (&snapshot.images, image),
                None => (&self.rows, slot),
            };
            chunk.batch.push(key, rows.version(slot), &rows.cells(slot));
            chunk.state.extend_from_slice(rows.state(slot));
        }
        Some(chunk)
    }

    /// Ends a snapshot whose last chunk has been taken, whatever updates have come since; returns
    /// `None` before that.
    pub fn end_snapshot(&mut self) -> Option<SnapshotSummary> {
        self.snapshot.take_if(|snapshot| snapshot.complete)?.summary
    }

    /// Restores a shard from a snapshot. `chunks` are the chunks of all former shards, of whatever
    /// number; the shard takes its own rows.
    pub fn restore(
        spec: &Arc<TableSpec>,
        shard: ShardId,
        mut rule: Box<dyn UpdateRule<C::Compute>>,
        summary: SnapshotSummary,
        chunks: impl IntoIterator<Item = SnapshotChunk<C>>,
    ) -> Result<Self> {
        let bad = |problem: String| Error::BadSnapshot { table: spec.name.clone(), problem };
        rule.load(&summary.rule).map_err(bad)?;
        let state_width = rule.state_width(spec.width);
        let mut server = Self::new(spec.clone(), shard, rule, summary.at, summary.random)?;
        for SnapshotChunk { batch, state } in chunks {
            if state.len() != batch.len() * state_width {
                let found = state.len();
                return Err(bad(format!(
                    "{} rows have {found} state values; restore them with the update rule they were saved with",
                    batch.len()
                )));
            }
            for (at, row) in batch.iter().enumerate() {
                let wide: Vec<C::Compute> = row.cells.values().iter().map(|cell| cell.to_compute()).collect();
                let cells = match row.cells {
                    crate::RowCells::Dense(_) => crate::RowCells::Dense(&wide[..]),
                    crate::RowCells::Sparse { columns, .. } => crate::RowCells::Sparse { columns, values: &wide },
                };
                let fits = spec.check_row(row.key).and_then(|()| spec.check_cells(row.key, &cells));
                fits.map_err(|error| bad(error.to_string()))?;
                if spec.shard_of(row.key) != shard {
                    continue;
                }
                if server.rows.find(row.key).is_some() {
                    return Err(bad(format!("row {} was saved twice", row.key)));
                }
                server.rows.insert(row.key, row.version, &row.cells, &state[at * state_width..][..state_width]);
            }
        }
        Ok(server)
    }
}
