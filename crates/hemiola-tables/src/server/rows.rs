//! The rows of a shard, with their versions, their procedure's state, and who has which of them.
//!
//! Overhead for each row: key, version and importance (24 bytes), two bits for each client in words of 64 (16 bytes up to 64 clients), and a
//! slot in the index (4 bytes, or 6 to 12 in a hash table): at most 52 bytes, plus one unfinished chunk per table.
//! **Invariant:** a row has the same slot everywhere and keeps it for ever.

use crate::cells::Cells;
use crate::number::{Cell, Number};
use crate::priority::Priority;
use crate::procedure::{Procedure, UnknownVersion, Update, View};
use crate::spec::{ClientId, Spec};
use crate::store::{Index, Slab, Store};

/// What a shard knows of a row besides its cells.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    key: u64,
    /// How many updates were applied.
    version: u64,
    /// How much it has changed since everybody had it.
    importance: f64,
}

/// An update of a row.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a, W> {
    /// The version it was computed from.
    pub version: u64,
    /// What to add.
    pub cells: Cells<'a, W>,
    /// What the client carried back.
    pub carried: &'a [W],
}

/// Rows by slot.
#[derive(Debug)]
pub struct Rows<C: Cell> {
    index: Index,
    heads: Slab<Head>,
    store: Store<C>,
    state: Slab<C::Wide>,
    /// Words of subscribers, then as many of those whose copy is old.
    marks: Slab<u64>,
    count: usize,
    scratch: Vec<C::Wide>,
}

impl<C: Cell> Rows<C> {
    /// No rows yet.
    #[must_use]
    pub fn new(spec: &Spec, state_width: usize) -> Self {
        Self::with_index(spec, state_width, Index::for_shard(spec))
    }

    /// No rows yet, of which there will be few.
    #[must_use]
    pub(crate) fn few(spec: &Spec, state_width: usize) -> Self {
        Self::with_index(spec, state_width, Index::for_some())
    }

    fn with_index(spec: &Spec, state_width: usize, index: Index) -> Self {
        Self {
            index,
            heads: Slab::new(1),
            store: Store::new(spec),
            state: Slab::new(state_width),
            marks: Slab::new(2 * spec.clients.div_ceil(64)),
            count: 0,
            scratch: Vec::new(),
        }
    }

    /// Where a row is.
    #[must_use]
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.heads.row(slot)[0].key)
    }

    /// Where a row is; it begins to exist if it did not.
    pub fn ensure(&mut self, key: u64, spec: &Spec, procedure: &dyn Procedure<C::Wide>) -> u32 {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.add(key, 0);
        self.store.set_default(slot, key, spec);
        self.state.row_mut(slot).fill(C::Wide::ZERO);
        if let Store::Dense(cells) = &mut self.store {
            with_wide(cells.row_mut(slot), &mut self.scratch, key, 0, |row| {
                procedure.created(key, row, self.state.row_mut(slot));
            });
        }
        slot
    }

    fn add(&mut self, key: u64, version: u64) -> u32 {
        let slot = self.heads.take();
        let others = (self.store.take(), self.state.take(), self.marks.take());
        debug_assert_eq!(others, (slot, slot, slot), "a row has the same slot everywhere");
        self.heads.row_mut(slot)[0] = Head { key, version, importance: 0.0 };
        self.index.insert(key, slot, |slot| self.heads.row(slot)[0].key);
        self.count += 1;
        slot
    }

    /// Adds a row that is not there yet, as it was saved.
    pub(crate) fn insert(&mut self, key: u64, version: u64, cells: &Cells<'_, C>, state: &[C::Wide]) -> u32 {
        let slot = self.add(key, version);
        match &mut self.store {
            Store::Dense(slab) => slab.row_mut(slot).copy_from_slice(cells.values()),
            sparse @ Store::Sparse { .. } => sparse.set(slot, cells),
        }
        self.state.row_mut(slot).copy_from_slice(state);
        slot
    }

    /// Applies an update.
    pub fn write(
        &mut self,
        slot: u32,
        write: &Write<'_, C::Wide>,
        procedure: &dyn Procedure<C::Wide>,
    ) -> Result<(), UnknownVersion> {
        let Head { key, version, .. } = self.heads.row(slot)[0];
        match procedure.view() {
            view @ (View::Add | View::Scaled(_)) => self.store.add(slot, &write.cells, view.factor(), key, version + 1),
            View::ReadOnly => {
                let update = Update { key, version: write.version, cells: write.cells, carried: write.carried };
                let (row, state) = (self.store.dense_mut(slot), self.state.row_mut(slot));
                with_wide(row, &mut self.scratch, key, version + 1, |row| procedure.apply(&update, row, state))?;
            }
        }
        self.heads.row_mut(slot)[0].version += 1;
        Ok(())
    }

    /// Notes that a row has changed. Returns whether somebody has an old copy of it now.
    pub(crate) fn changed(&mut self, slot: u32, importance: f64) -> bool {
        let marks = self.marks.row_mut(slot);
        let (subscribers, dirty) = marks.split_at_mut(marks.len() / 2);
        dirty.copy_from_slice(subscribers);
        let waiting = dirty.iter().any(|word| *word != 0);
        if waiting {
            self.heads.row_mut(slot)[0].importance += importance;
        }
        waiting
    }

    /// Resets the importance of a row of which nobody has an old copy. Returns whether that is so.
    pub(crate) fn settle(&mut self, slot: u32) -> bool {
        let marks = self.marks.row(slot);
        let settled = marks[marks.len() / 2..].iter().all(|word| *word == 0);
        if settled {
            self.heads.row_mut(slot)[0].importance = 0.0;
        }
        settled
    }

    pub(crate) fn subscribe(&mut self, slot: u32, client: ClientId) {
        self.marks.row_mut(slot)[client.index() / 64] |= 1 << (client.index() % 64);
    }

    pub(crate) fn unsubscribe(&mut self, slot: u32, client: ClientId) {
        self.marks.row_mut(slot)[client.index() / 64] &= !(1 << (client.index() % 64));
        self.clean(slot, client);
    }

    pub(crate) fn clean(&mut self, slot: u32, client: ClientId) {
        let marks = self.marks.row_mut(slot);
        marks[marks.len() / 2 + client.index() / 64] &= !(1 << (client.index() % 64));
    }

    pub(crate) fn is_dirty(&self, slot: u32, client: ClientId) -> bool {
        let marks = self.marks.row(slot);
        marks[marks.len() / 2 + client.index() / 64] >> (client.index() % 64) & 1 == 1
    }

    pub(crate) fn importance(&self, slot: u32, change: &Cells<'_, C::Wide>, priority: Priority) -> f64 {
        let cells = self.store.cells(slot);
        priority.importance(change, |column| cells.get(column).map(Cell::widen))
    }

    /// How important it is to send a row.
    pub(crate) fn waiting(&self, slot: u32) -> f64 {
        self.heads.row(slot)[0].importance
    }

    /// The least that a row takes in a message.
    pub(crate) fn least_bytes(&self) -> usize {
        match &self.store {
            Store::Dense(slab) => 6 + slab.width() * C::BYTES,
            Store::Sparse { .. } => 16,
        }
    }

    /// The key of a row.
    #[must_use]
    pub fn key(&self, slot: u32) -> u64 {
        self.heads.row(slot)[0].key
    }

    /// How many updates were applied to a row.
    #[must_use]
    pub fn version(&self, slot: u32) -> u64 {
        self.heads.row(slot)[0].version
    }

    /// The cells of a row.
    #[must_use]
    pub fn cells(&self, slot: u32) -> Cells<'_, C> {
        self.store.cells(slot)
    }

    /// The procedure's state of a row.
    #[must_use]
    pub fn state(&self, slot: u32) -> &[C::Wide] {
        self.state.row(slot)
    }

    /// Number of rows; their slots are the numbers below.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory, all in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.heads.bytes() + self.store.bytes() + self.state.bytes() + self.marks.bytes()
    }
}

/// Lets `change` work on a row as values, whatever its cells are.
fn with_wide<C: Cell, R>(
    row: &mut [C],
    scratch: &mut Vec<C::Wide>,
    key: u64,
    version: u64,
    change: impl FnOnce(&mut [C::Wide]) -> R,
) -> R {
    if let Some(row) = C::as_wide_mut(row) {
        return change(row);
    }
    scratch.clear();
    scratch.extend(row.iter().map(|cell| cell.widen()));
    let result = change(scratch);
    for (column, (cell, value)) in row.iter_mut().zip(scratch).enumerate() {
        // A value that was not changed is a cell's already and stays as it is.
        *cell = C::narrow(*value, crate::number::noise(key, version, column));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedure::Add;
    use crate::spec::Ids;

    #[test]
    fn a_row_takes_at_most_64_bytes_more_than_its_data() {
        const ROWS: u64 = 100_003;
        for ids in [Ids::Fixed(ROWS), Ids::Growing] {
            let spec = Spec { clients: 40, ..Spec::new("t", ids, 64) };
            let mut rows = Rows::<f32>::new(&spec, 0);
            // A hash table has just doubled at some of these counts.
            for key in 0..ROWS {
                rows.ensure(key, &spec, &Add);
                if key > 10_000 && key % 4096 < 3 {
                    let bytes =
                        (rows.bytes() as u64).saturating_sub(if ids == Ids::Growing { 0 } else { (ROWS - key) * 4 });
                    let overhead = bytes as f64 / (key + 1) as f64 - 256.0;
                    // A chunk of 256 KiB for each of three slabs may be empty.
                    assert!(overhead <= 64.0 + 3.0 * 262_144.0 / (key + 1) as f64, "{overhead} bytes at {key} rows");
                }
            }
            let overhead = rows.bytes() as f64 / ROWS as f64 - 256.0;
            assert!(overhead <= 64.0, "{ids:?}: {overhead} bytes");
        }
    }

    #[test]
    fn marks_are_kept_for_any_number_of_clients() {
        let spec = Spec { clients: 130, ..Spec::new("t", Ids::Growing, 1) };
        let mut rows = Rows::<f32>::new(&spec, 0);
        let slot = rows.ensure(u64::MAX, &spec, &Add);
        let [low, high] = [ClientId::new(3), ClientId::new(129)];
        rows.subscribe(slot, low);
        rows.subscribe(slot, high);
        assert!(rows.changed(slot, 1.0));
        rows.clean(slot, low);
        assert!(!rows.settle(slot) && rows.is_dirty(slot, high) && !rows.is_dirty(slot, low));
        rows.unsubscribe(slot, high);
        assert!(rows.settle(slot));
        assert!(rows.changed(slot, 1.0) && rows.is_dirty(slot, low) && !rows.is_dirty(slot, high));
    }
}
