//! Rows in memory.
//!
//! | file | concept |
//! |---|---|
//! | [`slab`] | rows of one length, in chunks that never move |
//! | [`index`] | where the row with a key lies |
//! | `memory` | memory for many cells, in huge pages where it is much |
//! | `prefetch` | memory brought near ahead of use |
//!
//! A [`Store`] holds the cells of dense or sparse rows by slot; who uses it keeps keys and whatever else belongs to a row. For
//! dense rows a shard's whole overhead is below 64 bytes a row (`server` has the sum, and a test). A sparse row has two vectors
//! of its own, about 100 bytes more.

pub mod index;
pub(crate) mod memory;
pub(crate) mod prefetch;
pub mod slab;

use crate::cells::{Cells, SparseRow};
use crate::number::{Cell, Number, noise};
use crate::spec::Spec;
pub use index::Index;
pub use slab::Slab;

/// Cells of rows, by slot.
#[derive(Debug)]
pub enum Store<C> {
    /// Every column.
    Dense(Slab<C>),
    /// The columns that are not zero.
    Sparse {
        /// By slot.
        rows: Vec<SparseRow<C>>,
        /// Slots to be used again.
        free: Vec<u32>,
    },
}

impl<C: Cell> Store<C> {
    /// An empty store for rows of a table.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        if spec.sparse {
            Self::Sparse { rows: Vec::new(), free: Vec::new() }
        } else {
            Self::Dense(Slab::new(spec.width))
        }
    }

    /// An empty store for all rows of one shard.
    #[must_use]
    pub fn for_shard(spec: &Spec) -> Self {
        match spec.most_rows() {
            Some(rows) if !spec.sparse => Self::Dense(Slab::with_most(spec.width, rows)),
            _ => Self::new(spec),
        }
    }

    /// A slot for a new row; what it holds is to be set.
    ///
    /// # Panics
    /// If there are 2^32 - 1 rows already.
    pub fn take(&mut self) -> u32 {
        match self {
            Self::Dense(slab) => slab.take(),
            Self::Sparse { rows, free } => free.pop().unwrap_or_else(|| {
                rows.push(SparseRow::default());
                u32::try_from(rows.len() - 1).expect("a shard has less than 2^32 - 1 rows")
            }),
        }
    }

    /// Gives a slot back.
    pub fn free(&mut self, slot: u32) {
        match self {
            Self::Dense(slab) => slab.free(slot),
            Self::Sparse { rows, free } => {
                rows[slot as usize] = SparseRow::default();
                free.push(slot);
            }
        }
    }

    /// The cells of a row.
    #[must_use]
    #[inline]
    pub fn cells(&self, slot: u32) -> Cells<'_, C> {
        match self {
            Self::Dense(slab) => Cells::Dense(slab.row(slot)),
            Self::Sparse { rows, .. } => rows[slot as usize].cells(),
        }
    }

    /// A dense row, to be changed.
    ///
    /// # Panics
    /// If rows are sparse.
    #[must_use]
    #[inline]
    pub fn dense_mut(&mut self, slot: u32) -> &mut [C] {
        match self {
            Self::Dense(slab) => slab.row_mut(slot),
            Self::Sparse { .. } => unreachable!("a caller asks for dense rows of dense tables alone"),
        }
    }

    /// Sets a row to what it is before anybody has touched it.
    pub fn set_default(&mut self, slot: u32, key: u64, spec: &Spec) {
        match self {
            Self::Dense(slab) => {
                for (column, cell) in slab.row_mut(slot).iter_mut().enumerate() {
                    let value = C::Wide::from_f64(spec.defaults.value(key, column));
                    *cell = C::narrow(value, noise(key, 0, column));
                }
            }
            Self::Sparse { rows, .. } => rows[slot as usize] = SparseRow::default(),
        }
    }

    /// Sets a row to these cells, which fit it.
    pub fn set<D: Cell<Wide = C::Wide>>(&mut self, slot: u32, cells: &Cells<'_, D>) {
        match (self, cells) {
            (Self::Dense(slab), Cells::Dense(values)) => {
                let row = slab.row_mut(slot);
                row.iter_mut().zip(*values).for_each(|(cell, value)| *cell = C::narrow(value.widen(), 0));
            }
            (Self::Sparse { rows, .. }, Cells::Sparse { columns, values }) => {
                let values: Vec<C> = values.iter().map(|value| C::narrow(value.widen(), 0)).collect();
                rows[slot as usize] = SparseRow::new(columns, &values);
            }
            _ => unreachable!("the form of rows was checked"),
        }
    }

    /// Adds `factor` times the cells. `key` and `version` decide how coarse cells are rounded.
    #[inline]
    pub fn add(&mut self, slot: u32, cells: &Cells<'_, C::Wide>, factor: Option<C::Wide>, key: u64, version: u64) {
        match self {
            Self::Dense(slab) => {
                let row = slab.row_mut(slot);
                if let Some(row) = C::as_wide_mut(row) {
                    return cells.add_to(row, factor);
                }
                for (column, value) in cells.iter() {
                    let old = row[column].widen();
                    let new = factor.map_or_else(|| old.plus(value), |factor| old.plus_scaled(factor, value));
                    row[column] = C::narrow(new, noise(key, version, column));
                }
            }
            Self::Sparse { rows, .. } => {
                for (column, value) in cells.iter() {
                    let change = |old: C| {
                        let old = old.widen();
                        let new = factor.map_or_else(|| old.plus(value), |factor| old.plus_scaled(factor, value));
                        C::narrow(new, noise(key, version, column))
                    };
                    rows[slot as usize].change(column as u32, change);
                }
            }
        }
    }

    /// Bytes of memory it takes.
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
    use crate::spec::{Defaults, Ids};
    use half::bf16;

    #[test]
    fn dense_and_sparse_rows_hold_the_same_values() {
        let dense = Spec::new("t", Ids::Growing, 6);
        let sparse = Spec { sparse: true, ..dense.clone() };
        for spec in [dense, sparse] {
            let mut store = Store::<f32>::new(&spec);
            let slot = store.take();
            store.set_default(slot, 9, &spec);
            store.add(slot, &Cells::Sparse { columns: &[1, 4], values: &[2.0, 3.0] }, None, 9, 0);
            store.add(slot, &Cells::Sparse { columns: &[1], values: &[2.0] }, Some(-0.5), 9, 1);
            let values: Vec<f32> = (0..6).map(|column| store.cells(slot).get(column).unwrap_or(0.0)).collect();
            assert_eq!(values, [0.0, 1.0, 0.0, 0.0, 3.0, 0.0]);
            store.free(slot);
            let again = store.take();
            store.set_default(again, 3, &spec);
            assert!(store.cells(again).values().iter().all(|value| *value == 0.0));
        }
    }

    #[test]
    fn new_rows_are_the_same_everywhere() {
        let defaults = Defaults::Uniform { seed: 5, low: -1.0, high: 1.0 };
        let spec = Spec { defaults, ..Spec::new("t", Ids::Growing, 4) };
        let (mut one, mut two) = (Store::<bf16>::new(&spec), Store::<bf16>::new(&spec));
        let (_, first, second) = (one.take(), one.take(), two.take());
        one.set_default(first, 77, &spec);
        two.set_default(second, 77, &spec);
        assert_eq!(one.cells(first), two.cells(second));
        assert!(one.cells(first).values().iter().any(|value| *value != bf16::ZERO));
    }
}
