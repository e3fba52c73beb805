//! A shard exactly as it was at a clock, taken while training goes on.
//!
//! The state at clock `at` holds every update of clocks before it and none of later ones. Under SSP fast clients' updates of later clocks
//! come before slow clients' of earlier ones, so the state never exists in the live rows at any moment. Hence *images*: the first
//! update of a clock `>= at` copies its row first; updates of clocks before `at` that come later are applied to the row and to
//! its image. Once all clients have reached `at`, the snapshot is *sealed*: no image changes any more, and the rows are read out piece by piece, each
//! from its image if it has one and from the live row if not. A live row that changes before it was read out is copied then.
//!
//! **Invariant:** slots below the cursor are written out; a slot at or above it reads as of `at`, from its image or the live row.

use super::rows::{Rows, Write};
use crate::batch::Batch;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::number::Cell;
use crate::procedure::{Procedure, UnknownVersion};
use crate::random::Random;
use crate::server::Server;
use crate::spec::{ShardId, Spec};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Rows as they were, with their procedure's state: as many numbers for each row as the procedure keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece<C: Cell> {
    /// The rows.
    pub batch: Batch<C>,
    /// Their state, one row after the other.
    pub state: Vec<C::Wide>,
}

/// What a shard saves besides its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The clock that all workers begin at again.
    pub at: Clock,
    /// What the procedure keeps for itself.
    pub procedure: Vec<u8>,
    /// The state of the generator.
    pub random: Random,
}

/// A snapshot that is being taken.
#[derive(Debug)]
pub(crate) struct Snapshot<C: Cell> {
    at: Clock,
    /// Copies of rows, in slots of their own.
    images: Rows<C>,
    /// The image of a live slot.
    by_slot: HashMap<u32, u32, FxBuildHasher>,
    /// Everything below has been read out.
    cursor: u32,
    summary: Option<Summary>,
}

impl<C: Cell> Snapshot<C> {
    /// Keeps a row as it is, if an update of this clock must not be seen in the snapshot.
    pub(crate) fn before_write(&mut self, slot: u32, clock: Clock, rows: &Rows<C>) {
        if clock >= self.at && slot >= self.cursor && !self.by_slot.contains_key(&slot) {
            let image = self.images.insert(rows.key(slot), rows.version(slot), &rows.cells(slot), rows.state(slot));
            self.by_slot.insert(slot, image);
        }
    }

    /// Applies an update of an earlier clock to the image of its row.
    pub(crate) fn write_image(
        &mut self,
        slot: u32,
        clock: Clock,
        write: &Write<'_, C::Wide>,
        procedure: &dyn Procedure<C::Wide>,
    ) -> Result<(), UnknownVersion> {
        match self.by_slot.get(&slot) {
            Some(image) if clock < self.at => self.images.write(*image, write, procedure),
            _ => Ok(()),
        }
    }
}

impl<C: Cell> Server<C> {
    /// Begins to keep the shard as it is at clock `at`, which no update of that clock or later may have reached yet: tell it a clock ahead, or
    /// as soon as the last snapshot has been read out.
    pub fn begin_snapshot(&mut self, at: Clock) -> Result<()> {
        let table = || self.spec.name.clone();
        if let Some(snapshot) = &self.snapshot {
            return Err(Error::SnapshotBusy { table: table(), at: snapshot.at });
        }
        if let Some(applied) = self.latest.filter(|latest| *latest >= at) {
            return Err(Error::SnapshotTooLate { table: table(), at, applied });
        }
        if !self.leases.is_empty() && at < self.clocks.min() {
            return Err(Error::SnapshotTooLate { table: table(), at, applied: self.clocks.min() });
        }
        let images = Rows::few(&self.spec, self.procedure.state_width(self.spec.width));
        let by_slot = HashMap::with_hasher(FxBuildHasher);
        self.snapshot = Some(Snapshot { at, images, by_slot, cursor: 0, summary: None });
        self.recall_all();
        Ok(())
    }

    /// The next rows of the snapshot, at least one and about as many as take `bytes`; nothing if clients have not all reached its clock, or
    /// leases are out that were recalled. An
    /// empty piece comes last.
    pub fn next_piece(&mut self, bytes: usize) -> Option<Piece<C>> {
        let back = self.leases.is_empty();
        let snapshot = self.snapshot.as_mut().filter(|snapshot| back && snapshot.at <= self.clocks.min())?;
        if snapshot.summary.is_none() {
            let (procedure, random) = (self.procedure.save(), self.random.clone());
            snapshot.summary = Some(Summary { at: snapshot.at, procedure, random });
        }
        let mut picked: Vec<(u64, u32)> = Vec::new();
        let mut taken = 0;
        while taken < bytes.max(1) && (snapshot.cursor as usize) < self.rows.len() {
            let slot = snapshot.cursor;
            taken += Batch::row_bytes(&self.rows.cells(slot)) + size_of_val(self.rows.state(slot));
            picked.push((self.rows.key(slot), slot));
            snapshot.cursor += 1;
        }
        picked.sort_unstable();
        let mut piece = Piece { batch: Batch::new(), state: Vec::new() };
        for (key, slot) in picked {
            let (rows, slot) = match snapshot.by_slot.remove(&slot) {
                Some(image) => (&snapshot.images, image),
                None => (&self.rows, slot),
            };
            piece.batch.push(key, rows.version(slot), &rows.cells(slot));
            piece.state.extend_from_slice(rows.state(slot));
        }
        Some(piece)
    }

    /// Ends a snapshot whose last piece has been taken. Before that there is nothing to end.
    pub fn end_snapshot(&mut self) -> Option<Summary> {
        let done =
            |snapshot: &mut Snapshot<C>| snapshot.cursor as usize == self.rows.len() && snapshot.summary.is_some();
        self.snapshot.take_if(done)?.summary
    }

    /// A shard that goes on from a snapshot. `pieces` are those of all shards there were, of whatever number; each takes its own rows.
    pub fn restore(
        spec: &Arc<Spec>,
        shard: ShardId,
        mut procedure: Box<dyn Procedure<C::Wide>>,
        summary: Summary,
        pieces: impl IntoIterator<Item = Piece<C>>,
    ) -> Result<Self> {
        let bad = |problem: String| Error::BadSnapshot { table: spec.name.clone(), problem };
        procedure.load(&summary.procedure).map_err(bad)?;
        let state_width = procedure.state_width(spec.width);
        let mut server = Self::new(spec.clone(), shard, procedure, summary.at, summary.random)?;
        for Piece { batch, state } in pieces {
            if state.len() != batch.len() * state_width {
                let found = state.len();
                return Err(bad(format!(
                    "{} rows have {found} numbers of state; were they saved with another procedure?",
                    batch.len()
                )));
            }
            for (at, row) in batch.iter().enumerate() {
                let wide: Vec<C::Wide> = row.cells.values().iter().map(|cell| cell.widen()).collect();
                let cells = match row.cells {
                    crate::Cells::Dense(_) => crate::Cells::Dense(&wide[..]),
                    crate::Cells::Sparse { columns, .. } => crate::Cells::Sparse { columns, values: &wide },
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
