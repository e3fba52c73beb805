//! Rows of a shard, with versions, rule state and subscriptions.
//!
//! Overhead per row: key, version and two bits per client in words of 64, in one record (32 bytes
//! up to 64 clients); the importance in tables with managed communication (8 bytes); and a slot in
//! the index (4 bytes, or 6 to 12 in a hash table). That is at most 52 bytes, plus 1/32 of the
//! total for unused capacity. **Invariant:** a row has the same slot in all stores and keeps it for
//! ever.

use crate::cells::RowCells;
use crate::dtype::{ComputeType, StorageType};
use crate::priority::PriorityPolicy;
use crate::spec::{ClientId, TableSpec};
use crate::store::prefetch::prefetch;
use crate::store::{KeyIndex, RowSlab, RowStore};
use crate::update_rule::{LocalApply, RowUpdate, UnknownVersion, UpdateRule};

/// Layout of a record: key, version, subscriber bits, and as many dirty bits.
const KEY: usize = 0;
const VERSION: usize = 1;
const MARKS: usize = 2;

/// Update of a row.
#[derive(Clone, Copy, Debug)]
pub struct RowWrite<'a, W> {
    /// Version that the update was computed from.
    pub version: u64,
    /// Cells to be added or passed to the rule.
    pub cells: RowCells<'a, W>,
    /// Attachment returned by the client.
    pub attachment: &'a [W],
}

/// Rows of a shard, by slot.
#[derive(Debug)]
pub struct ShardRows<C: StorageType> {
    index: KeyIndex,
    /// One memory access finds everything about a row except its cells.
    records: RowSlab<u64>,
    store: RowStore<C>,
    state: RowSlab<C::Compute>,
    /// Importance accumulated since all clients had the row; only for managed communication.
    importance: RowSlab<f64>,
    count: usize,
    /// True once any client has subscribed to a row.
    has_subscribers: bool,
    scratch: Vec<C::Compute>,
}

impl<C: StorageType> ShardRows<C> {
    /// Creates an empty collection for all rows of a shard.
    #[must_use]
    pub fn new(spec: &TableSpec, state_width: usize) -> Self {
        let (most, marks) = (spec.max_rows().unwrap_or(0), MARKS + 2 * spec.clients.div_ceil(64));
        let records = RowSlab::with_capacity(marks, most);
        let state = RowSlab::with_capacity(state_width, most);
        Self {
            records,
            state,
            store: RowStore::for_shard(spec),
            ..Self::with_index(spec, state_width, KeyIndex::for_shard(spec))
        }
    }

    /// Creates an empty collection that will hold few of the rows.
    #[must_use]
    pub(crate) fn with_hash_index(spec: &TableSpec, state_width: usize) -> Self {
        Self::with_index(spec, state_width, KeyIndex::for_subset())
    }

    fn with_index(spec: &TableSpec, state_width: usize, index: KeyIndex) -> Self {
        Self {
            index,
            records: RowSlab::new(MARKS + 2 * spec.clients.div_ceil(64)),
            store: RowStore::new(spec),
            state: RowSlab::new(state_width),
            importance: RowSlab::new(usize::from(spec.comm_policy.is_some())),
            count: 0,
            has_subscribers: false,
            scratch: Vec::new(),
        }
    }

    /// Slot of a row, if the row exists.
    #[must_use]
    #[inline]
    pub fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.records.row(slot)[KEY])
    }

    /// Slot of a row; creates the row if it does not exist.
    pub fn ensure(&mut self, key: u64, spec: &TableSpec, rule: &dyn UpdateRule<C::Compute>) -> u32 {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.add(key, 0);
        self.store.set_default(slot, key, spec);
        self.state.row_mut(slot).fill(C::Compute::ZERO);
        if let RowStore::Dense(cells) = &mut self.store {
            with_compute_row(cells.row_mut(slot), &mut self.scratch, key, 0, |row| {
                rule.init_row(key, row, self.state.row_mut(slot));
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

    /// Inserts a row that does not exist, as it was saved.
    pub(crate) fn insert(&mut self, key: u64, version: u64, cells: &RowCells<'_, C>, state: &[C::Compute]) -> u32 {
        let slot = self.add(key, version);
        match &mut self.store {
            RowStore::Dense(slab) => slab.row_mut(slot).copy_from_slice(cells.values()),
            sparse @ RowStore::Sparse { .. } => sparse.set(slot, cells),
        }
        self.state.row_mut(slot).copy_from_slice(state);
        slot
    }

    /// Applies an update with the given rule.
    #[inline]
    pub fn write(
        &mut self,
        slot: u32,
        write: &RowWrite<'_, C::Compute>,
        rule: &dyn UpdateRule<C::Compute>,
    ) -> Result<(), UnknownVersion> {
        let record = self.records.row_mut(slot);
        let (key, version) = (record[KEY], record[VERSION]);
        match rule.local_apply() {
            view @ (LocalApply::Add | LocalApply::AddScaled(_)) => {
                self.store.add(slot, &write.cells, view.factor(), key, version + 1);
            }
            LocalApply::Never => {
                let update =
                    RowUpdate { key, version: write.version, cells: write.cells, attachment: write.attachment };
                let (row, state) = (self.store.dense_mut(slot), self.state.row_mut(slot));
                with_compute_row(row, &mut self.scratch, key, version + 1, |row| rule.apply(&update, row, state))?;
            }
        }
        self.records.row_mut(slot)[VERSION] += 1;
        Ok(())
    }

    /// Prefetches the memory that [`find`](Self::find) will read.
    #[inline]
    pub(crate) fn prefetch_key(&self, key: u64) {
        self.index.prefetch(key);
    }

    /// Prefetches the record and cells of a row.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.records.row(slot)[..MARKS]);
        if let RowStore::Dense(slab) = &self.store {
            prefetch(slab.row(slot));
        }
    }

    /// Marks a row dirty for its subscribers. Returns true if it has any.
    pub(crate) fn mark_dirty(&mut self, slot: u32, importance: f64) -> bool {
        if !self.has_subscribers {
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

    /// Resets the importance of a row that is dirty for no client. Returns true in that case.
    pub(crate) fn clear_if_clean(&mut self, slot: u32) -> bool {
        let marks = &self.records.row(slot)[MARKS..];
        let settled = marks[marks.len() / 2..].iter().all(|word| *word == 0);
        if settled {
            self.importance.row_mut(slot).fill(0.0);
        }
        settled
    }

    pub(crate) fn subscribe(&mut self, slot: u32, client: ClientId) {
        self.has_subscribers = true;
        self.records.row_mut(slot)[MARKS + client.index() / 64] |= 1 << (client.index() % 64);
    }

    pub(crate) fn unsubscribe(&mut self, slot: u32, client: ClientId) {
        self.records.row_mut(slot)[MARKS + client.index() / 64] &= !(1 << (client.index() % 64));
        self.clean(slot, client);
    }

    /// The single subscriber of a row, if there is exactly one.
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

    pub(crate) fn importance(&self, slot: u32, change: &RowCells<'_, C::Compute>, priority: PriorityPolicy) -> f64 {
        let cells = self.store.cells(slot);
        priority.importance(change, |column| cells.get(column).map(StorageType::to_compute))
    }

    /// Importance of sending a row.
    pub(crate) fn pending_importance(&self, slot: u32) -> f64 {
        self.importance.row(slot).first().copied().unwrap_or(0.0)
    }

    /// Minimum size of a row in a message.
    pub(crate) fn min_row_bytes(&self) -> usize {
        match &self.store {
            RowStore::Dense(slab) => 6 + slab.width() * C::BYTES,
            RowStore::Sparse { .. } => 16,
        }
    }

    /// Key of a row.
    #[must_use]
    pub fn key(&self, slot: u32) -> u64 {
        self.records.row(slot)[KEY]
    }

    /// Number of updates applied to a row.
    #[must_use]
    pub fn version(&self, slot: u32) -> u64 {
        self.records.row(slot)[VERSION]
    }

    /// Cells of a row.
    #[must_use]
    pub fn cells(&self, slot: u32) -> RowCells<'_, C> {
        self.store.cells(slot)
    }

    /// Rule state of a row.
    #[must_use]
    pub fn state(&self, slot: u32) -> &[C::Compute] {
        self.state.row(slot)
    }

    /// Number of rows; their slots are `0..len`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Total memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.records.bytes() + self.store.bytes() + self.state.bytes() + self.importance.bytes()
    }
}

/// Calls `change` with the row in its compute type, and converts the result back.
fn with_compute_row<C: StorageType, R>(
    row: &mut [C],
    scratch: &mut Vec<C::Compute>,
    key: u64,
    version: u64,
    change: impl FnOnce(&mut [C::Compute]) -> R,
) -> R {
    if let Some(row) = C::as_compute_mut(row) {
        return change(row);
    }
    scratch.clear();
    scratch.extend(row.iter().map(|cell| cell.to_compute()));
    let result = change(scratch);
    for (column, (cell, value)) in row.iter_mut().zip(scratch).enumerate() {
        // A value that did not change is representable and stays as it is.
        *cell = C::from_compute(*value, crate::dtype::rounding_noise(key, version, column));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::CommPolicy;
    use crate::spec::KeySpace;
    use crate::update_rule::Addition;

    #[test]
    fn a_row_takes_at_most_64_bytes_more_than_its_data() {
        const ROWS: u64 = 100_003;
        for key_space in [KeySpace::Fixed(ROWS), KeySpace::Growing] {
            let spec = TableSpec {
                clients: 40,
                comm_policy: Some(CommPolicy::default()),
                ..TableSpec::new("t", key_space, 64)
            };
            let mut rows = ShardRows::<f32>::new(&spec, 0);
            // At some of these counts a hash table has just doubled.
            for key in 0..ROWS {
                rows.ensure(key, &spec, &Addition);
                if key > 10_000 && key % 4096 < 3 {
                    let bytes = (rows.bytes() as u64).saturating_sub(if key_space == KeySpace::Growing {
                        0
                    } else {
                        (ROWS - key) * 4
                    });
                    let overhead = bytes as f64 / (key + 1) as f64 - 256.0;
                    assert!(overhead <= 64.0, "{overhead} bytes at {key} rows");
                }
            }
            let overhead = rows.bytes() as f64 / ROWS as f64 - 256.0;
            assert!(overhead <= 64.0, "{key_space:?}: {overhead} bytes");
        }
    }

    #[test]
    fn subscriptions_work_for_any_number_of_clients() {
        let spec = TableSpec { clients: 130, ..TableSpec::new("t", KeySpace::Growing, 1) };
        let mut rows = ShardRows::<f32>::new(&spec, 0);
        let slot = rows.ensure(u64::MAX, &spec, &Addition);
        let [low, high] = [ClientId::new(3), ClientId::new(129)];
        rows.subscribe(slot, low);
        rows.subscribe(slot, high);
        assert!(rows.mark_dirty(slot, 1.0));
        rows.clean(slot, low);
        assert!(!rows.clear_if_clean(slot) && rows.is_dirty(slot, high) && !rows.is_dirty(slot, low));
        rows.unsubscribe(slot, high);
        assert!(rows.clear_if_clean(slot));
        assert!(rows.mark_dirty(slot, 1.0) && rows.is_dirty(slot, low) && !rows.is_dirty(slot, high));
    }
}
