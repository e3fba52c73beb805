//! The rows of a shard, with their versions, their procedure's state, and who has which of them.
//!
//! Overhead for each row: key, version and two bits for each client in words of 64, in one record (32 bytes up to 64 clients), the importance in tables with
//! managed communication (8 bytes), and a slot in the index (4 bytes, or 6 to 12 in a hash table): at most 52 bytes, and a thirty-second part of everything that is not used yet.
//! **Invariant:** a row has the same slot everywhere and keeps it for ever.

use crate::cells::Cells;
use crate::number::{Cell, Number};
use crate::priority::Priority;
use crate::procedure::{Procedure, UnknownVersion, Update, View};
use crate::spec::{ClientId, Spec};
use crate::store::prefetch::prefetch;
use crate::store::{Index, Slab, Store};

/// Where the key and the version are in a record; words of subscribers follow, then as many of those whose copy is old.
const KEY: usize = 0;
const VERSION: usize = 1;
const MARKS: usize = 2;

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
    /// One access to memory finds all that is needed of a row besides its cells.
    records: Slab<u64>,
    store: Store<C>,
    state: Slab<C::Wide>,
    /// How much a row has changed since everybody had it. Only for managed communication.
    importance: Slab<f64>,
    count: usize,
    /// Whether anybody ever subscribed to a row.
    shared: bool,
    scratch: Vec<C::Wide>,
}

impl<C: Cell> Rows<C> {
    /// No rows yet.
    #[must_use]
    pub fn new(spec: &Spec, state_width: usize) -> Self {
        let (most, marks) = (spec.most_rows().unwrap_or(0), MARKS + 2 * spec.clients.div_ceil(64));
        let records = Slab::with_most(marks, most);
        let state = Slab::with_most(state_width, most);
        Self {
            records,
            state,
            store: Store::for_shard(spec),
            ..Self::with_index(spec, state_width, Index::for_shard(spec))
        }
    }

    /// No rows yet, of which there will be few.
    #[must_use]
    pub(crate) fn few(spec: &Spec, state_width: usize) -> Self {
        Self::with_index(spec, state_width, Index::for_some())
    }

    fn with_index(spec: &Spec, state_width: usize, index: Index) -> Self {
        Self {
            index,
            records: Slab::new(MARKS + 2 * spec.clients.div_ceil(64)),
            store: Store::new(spec),
            state: Slab::new(state_width),
            importance: Slab::new(usize::from(spec.managed.is_some())),
            count: 0,
            shared: false,
            scratch: Vec::new(),
        }
    }

    /// Where a row is.
    #[must_use]
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.records.row(slot)[KEY])
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
        let slot = self.records.take();
        let others = (self.store.take(), self.state.take(), self.importance.take());
        debug_assert_eq!(others, (slot, slot, slot), "a row has the same slot everywhere");
        let record = self.records.row_mut(slot);
        (record[KEY], record[VERSION]) = (key, version);
        self.index.insert(key, slot, |slot| self.records.row(slot)[KEY]);
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
    #[inline]
    pub fn write(
        &mut self,
        slot: u32,
        write: &Write<'_, C::Wide>,
        procedure: &dyn Procedure<C::Wide>,
    ) -> Result<(), UnknownVersion> {
        let record = self.records.row_mut(slot);
        let (key, version) = (record[KEY], record[VERSION]);
        match procedure.view() {
            view @ (View::Add | View::Scaled(_)) => self.store.add(slot, &write.cells, view.factor(), key, version + 1),
            View::ReadOnly => {
                let update = Update { key, version: write.version, cells: write.cells, carried: write.carried };
                let (row, state) = (self.store.dense_mut(slot), self.state.row_mut(slot));
                with_wide(row, &mut self.scratch, key, version + 1, |row| procedure.apply(&update, row, state))?;
            }
        }
        self.records.row_mut(slot)[VERSION] += 1;
        Ok(())
    }

    /// Brings near what [`find`](Self::find) is going to look at.
    #[inline]
    pub(crate) fn prefetch_key(&self, key: u64) {
        self.index.prefetch(key);
    }

    /// Brings a row near.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.records.row(slot)[..MARKS]);
        if let Store::Dense(slab) = &self.store {
            prefetch(slab.row(slot));
        }
    }

    /// Notes that a row has changed. Returns whether somebody has an old copy of it now.
    pub(crate) fn changed(&mut self, slot: u32, importance: f64) -> bool {
        if !self.shared {
            return false;
        }
        let marks = &mut self.records.row_mut(slot)[MARKS..];
        let (subscribers, dirty) = marks.split_at_mut(marks.len() / 2);
        dirty.copy_from_slice(subscribers);
        let waiting = dirty.iter().any(|word| *word != 0);
        if let Some(sum) = self.importance.row_mut(slot).first_mut().filter(|_| waiting) {
            *sum += importance;
        }
        waiting
    }

    /// Resets the importance of a row of which nobody has an old copy. Returns whether that is so.
    pub(crate) fn settle(&mut self, slot: u32) -> bool {
        let marks = &self.records.row(slot)[MARKS..];
        let settled = marks[marks.len() / 2..].iter().all(|word| *word == 0);
        if settled {
            self.importance.row_mut(slot).fill(0.0);
        }
        settled
    }

    pub(crate) fn subscribe(&mut self, slot: u32, client: ClientId) {
        self.shared = true;
        self.records.row_mut(slot)[MARKS + client.index() / 64] |= 1 << (client.index() % 64);
    }

    pub(crate) fn unsubscribe(&mut self, slot: u32, client: ClientId) {
        self.records.row_mut(slot)[MARKS + client.index() / 64] &= !(1 << (client.index() % 64));
        self.clean(slot, client);
    }

    /// The client that has a copy of a row, if there is just one.
    pub(crate) fn only_subscriber(&self, slot: u32) -> Option<ClientId> {
        let marks = &self.records.row(slot)[MARKS..];
        let subscribers = &marks[..marks.len() / 2];
        let (word, bits) = subscribers.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        let alone = subscribers.iter().map(|bits| bits.count_ones()).sum::<u32>() == 1;
        alone.then(|| ClientId::new(word as u32 * 64 + bits.trailing_zeros()))
    }

    pub(crate) fn clean(&mut self, slot: u32, client: ClientId) {
        let marks = &mut self.records.row_mut(slot)[MARKS..];
        marks[marks.len() / 2 + client.index() / 64] &= !(1 << (client.index() % 64));
    }

    pub(crate) fn is_dirty(&self, slot: u32, client: ClientId) -> bool {
        let marks = &self.records.row(slot)[MARKS..];
        marks[marks.len() / 2 + client.index() / 64] >> (client.index() % 64) & 1 == 1
    }

    pub(crate) fn importance(&self, slot: u32, change: &Cells<'_, C::Wide>, priority: Priority) -> f64 {
        let cells = self.store.cells(slot);
        priority.importance(change, |column| cells.get(column).map(Cell::widen))
    }

    /// How important it is to send a row.
    pub(crate) fn waiting(&self, slot: u32) -> f64 {
        self.importance.row(slot).first().copied().unwrap_or(0.0)
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
        self.records.row(slot)[KEY]
    }

    /// How many updates were applied to a row.
    #[must_use]
    pub fn version(&self, slot: u32) -> u64 {
        self.records.row(slot)[VERSION]
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
        self.index.bytes() + self.records.bytes() + self.store.bytes() + self.state.bytes() + self.importance.bytes()
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
    use crate::priority::Managed;
    use crate::procedure::Add;
    use crate::spec::Ids;

    #[test]
    fn a_row_takes_at_most_64_bytes_more_than_its_data() {
        const ROWS: u64 = 100_003;
        for ids in [Ids::Fixed(ROWS), Ids::Growing] {
            let spec = Spec { clients: 40, managed: Some(Managed::default()), ..Spec::new("t", ids, 64) };
            let mut rows = Rows::<f32>::new(&spec, 0);
            // A hash table has just doubled at some of these counts.
            for key in 0..ROWS {
                rows.ensure(key, &spec, &Add);
                if key > 10_000 && key % 4096 < 3 {
                    let bytes =
                        (rows.bytes() as u64).saturating_sub(if ids == Ids::Growing { 0 } else { (ROWS - key) * 4 });
                    let overhead = bytes as f64 / (key + 1) as f64 - 256.0;
                    assert!(overhead <= 64.0, "{overhead} bytes at {key} rows");
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
