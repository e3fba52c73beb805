//! Row storage.
//!
//! | file | concept |
//! |---|---|
//! | [`slab`] | rows of equal width, in chunks that never move |
//! | [`index`] | index from keys to slots |
//! | `memory` | aligned memory, in huge pages where it is large |
//! | `prefetch` | prefetch instructions |
//!
//! A [`RowStore`] holds the cells of dense or sparse rows by slot. Its owner keeps the keys and all
//! other data of a row. For dense rows the whole overhead of a shard is below 64 bytes per row
//! (`server::rows` has the sum and a test). A sparse row has two vectors of its own, about 100
//! bytes more.

pub mod index;
pub(crate) mod memory;
pub(crate) mod prefetch;
pub mod slab;

use crate::cells::{RowCells, SparseRow};
use crate::dtype::{ComputeType, StorageType, rounding_noise};
use crate::spec::TableSpec;
pub use index::KeyIndex;
pub use slab::RowSlab;

/// Cells of rows, by slot.
#[derive(Debug)]
pub enum RowStore<C> {
    /// Dense rows: a cell for every column.
    Dense(RowSlab<C>),
    /// Sparse rows: cells that are not zero.
    Sparse {
        /// Rows, indexed by slot.
        rows: Vec<SparseRow<C>>,
        /// Free slots for reuse.
        free: Vec<u32>,
    },
}

impl<C: StorageType> RowStore<C> {
    /// Creates an empty store for rows of a table.
    #[must_use]
    pub fn new(spec: &TableSpec) -> Self {
        if spec.sparse {
            Self::Sparse { rows: Vec::new(), free: Vec::new() }
        } else {
            Self::Dense(RowSlab::new(spec.width))
        }
    }

    /// Creates an empty store for all rows of one shard.
    #[must_use]
    pub fn for_shard(spec: &TableSpec) -> Self {
        match spec.max_rows() {
            Some(rows) if !spec.sparse => Self::Dense(RowSlab::with_capacity(spec.width, rows)),
            _ => Self::new(spec),
        }
    }

    /// Allocates a slot for a new row; the caller sets its cells.
    ///
    /// # Panics
    /// If there are 2^32 - 1 rows already.
    pub fn take(&mut self) -> u32 {
        match self {
            Self::Dense(slab) => slab.take(),
            Self::Sparse { rows, free } => free.pop().unwrap_or_else(|| {
                rows.push(SparseRow::default());
                u32::try_from(rows.len() - 1).expect("a shard has fewer than 2^32 - 1 rows")
            }),
        }
    }

    /// Frees a slot for reuse.
    pub fn free(&mut self, slot: u32) {
        match self {
            Self::Dense(slab) => slab.free(slot),
            Self::Sparse { rows, free } => {
                rows[slot as usize] = SparseRow::default();
                free.push(slot);
            }
        }
    }

    /// Cells of a row.
    #[must_use]
    #[inline]
    pub fn cells(&self, slot: u32) -> RowCells<'_, C> {
        match self {
            Self::Dense(slab) => RowCells::Dense(slab.row(slot)),
            Self::Sparse { rows, .. } => rows[slot as usize].cells(),
        }
    }

    /// Mutable cells of a dense row.
    ///
    /// # Panics
    /// If rows are sparse.
    #[must_use]
    #[inline]
    pub fn dense_mut(&mut self, slot: u32) -> &mut [C] {
        match self {
            Self::Dense(slab) => slab.row_mut(slot),
            Self::Sparse { .. } => unreachable!("only dense tables have dense rows"),
        }
    }

    /// Sets a row to its initial values.
    pub fn set_default(&mut self, slot: u32, key: u64, spec: &TableSpec) {
        match self {
            Self::Dense(slab) => {
                for (column, cell) in slab.row_mut(slot).iter_mut().enumerate() {
                    let value = C::Compute::from_f64(spec.initializer.value(key, column));
                    *cell = C::from_compute(value, rounding_noise(key, 0, column));
                }
            }
            Self::Sparse { rows, .. } => rows[slot as usize] = SparseRow::default(),
        }
    }

    /// Overwrites a row with cells of matching shape.
    pub fn set<D: StorageType<Compute = C::Compute>>(&mut self, slot: u32, cells: &RowCells<'_, D>) {
        match (self, cells) {
            (Self::Dense(slab), RowCells::Dense(values)) => {
                let row = slab.row_mut(slot);
                row.iter_mut().zip(*values).for_each(|(cell, value)| *cell = C::from_compute(value.to_compute(), 0));
            }
            (Self::Sparse { rows, .. }, RowCells::Sparse { columns, values }) => {
                let values: Vec<C> = values.iter().map(|value| C::from_compute(value.to_compute(), 0)).collect();
                rows[slot as usize] = SparseRow::new(columns, &values);
            }
            _ => unreachable!("the shape of the row was checked"),
        }
    }

    /// Adds the cells, times `factor` if there is one. `key` and `version` seed the stochastic
    /// rounding.
    #[inline]
    pub fn add(
        &mut self,
        slot: u32,
        cells: &RowCells<'_, C::Compute>,
        factor: Option<C::Compute>,
        key: u64,
        version: u64,
    ) {
        match self {
            Self::Dense(slab) => {
                let row = slab.row_mut(slot);
                if let Some(row) = C::as_compute_mut(row) {
                    return cells.add_to(row, factor);
                }
                for (column, value) in cells.iter() {
                    let old = row[column].to_compute();
                    let new = factor.map_or_else(|| old.plus(value), |factor| old.plus_scaled(factor, value));
                    row[column] = C::from_compute(new, rounding_noise(key, version, column));
                }
            }
            Self::Sparse { rows, .. } => {
                for (column, value) in cells.iter() {
                    let change = |old: C| {
                        let old = old.to_compute();
                        let new = factor.map_or_else(|| old.plus(value), |factor| old.plus_scaled(factor, value));
                        C::from_compute(new, rounding_noise(key, version, column))
                    };
                    rows[slot as usize].change(column as u32, change);
                }
            }
        }
    }

    /// Memory of the store in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense(slab) => slab.bytes(),
            Self::Sparse { rows, free } => {
                let heap: usize = rows.iter().map(SparseRow::heap_bytes).sum();
                heap + rows.capacity() * size_of::<SparseRow<C>>() + free.capacity() * 4
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{KeySpace, RowInitializer};
    use half::bf16;

    #[test]
    fn dense_and_sparse_rows_hold_the_same_values() {
        let dense = TableSpec::new("t", KeySpace::Growing, 6);
        let sparse = TableSpec { sparse: true, ..dense.clone() };
        for spec in [dense, sparse] {
            let mut store = RowStore::<f32>::new(&spec);
            let slot = store.take();
            store.set_default(slot, 9, &spec);
            store.add(slot, &RowCells::Sparse { columns: &[1, 4], values: &[2.0, 3.0] }, None, 9, 0);
            store.add(slot, &RowCells::Sparse { columns: &[1], values: &[2.0] }, Some(-0.5), 9, 1);
            let values: Vec<f32> = (0..6).map(|column| store.cells(slot).get(column).unwrap_or(0.0)).collect();
            assert_eq!(values, [0.0, 1.0, 0.0, 0.0, 3.0, 0.0]);
            store.free(slot);
            let again = store.take();
            store.set_default(again, 3, &spec);
            assert!(store.cells(again).values().iter().all(|value| *value == 0.0));
        }
    }

    #[test]
    fn initial_values_are_identical_in_all_stores() {
        let initializer = RowInitializer::Uniform { seed: 5, low: -1.0, high: 1.0 };
        let spec = TableSpec { initializer, ..TableSpec::new("t", KeySpace::Growing, 4) };
        let (mut one, mut two) = (RowStore::<bf16>::new(&spec), RowStore::<bf16>::new(&spec));
        let (_, first, second) = (one.take(), one.take(), two.take());
        one.set_default(first, 77, &spec);
        two.set_default(second, 77, &spec);
        assert_eq!(one.cells(first), two.cells(second));
        assert!(one.cells(first).values().iter().any(|value| *value != bf16::ZERO));
    }
}
