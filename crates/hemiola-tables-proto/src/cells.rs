//! Cells of a row: all columns, or selected columns.
//!
//! [`RowCells`] borrows cells. [`SparseRow`] owns the cells that are not zero. [`Delta`] owns the
//! sum of updates to a row; it starts with the touched columns and becomes dense as soon as that is
//! no larger. **Invariant:** columns ascend.

use crate::dtype::ComputeType;

/// Borrowed cells of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowCells<'a, T> {
    /// One value for every column.
    Dense(&'a [T]),
    /// Values of some columns.
    Sparse {
        /// Column indices in ascending order.
        columns: &'a [u32],
        /// Values, one per column index.
        values: &'a [T],
    },
}

impl<'a, T: Copy> RowCells<'a, T> {
    /// Iterates over pairs of column and value.
    pub fn iter(&self) -> impl Iterator<Item = (usize, T)> + 'a {
        let (columns, values) = match *self {
            Self::Dense(values) => (None, values),
            Self::Sparse { columns, values } => (Some(columns), values),
        };
        values.iter().enumerate().map(move |(at, value)| (columns.map_or(at, |columns| columns[at] as usize), *value))
    }

    /// The values in column order.
    #[must_use]
    pub fn values(&self) -> &'a [T] {
        match *self {
            Self::Dense(values) | Self::Sparse { values, .. } => values,
        }
    }

    /// Value of a column; `None` if the column is not present.
    #[must_use]
    pub fn get(&self, column: usize) -> Option<T> {
        match *self {
            Self::Dense(values) => values.get(column).copied(),
            Self::Sparse { columns, values } => {
                columns.binary_search(&u32::try_from(column).ok()?).ok().map(|at| values[at])
            }
        }
    }
}

impl<W: ComputeType> RowCells<'_, W> {
    /// First column that holds NaN or infinity.
    #[must_use]
    pub fn not_finite(&self) -> Option<usize> {
        if W::all_finite(self.values()) {
            None
        } else {
            self.iter().find(|(_, value)| !value.is_finite()).map(|(column, _)| column)
        }
    }

    /// Adds these cells, times `factor` if there is one, to a dense row.
    ///
    /// # Panics
    /// If the row is too short.
    #[inline]
    pub fn add_to(&self, row: &mut [W], factor: Option<W>) {
        match (*self, factor) {
            (Self::Dense(values), None) => {
                row.iter_mut().zip(values).for_each(|(cell, value)| *cell = cell.plus(*value));
            }
            (Self::Dense(values), Some(factor)) => {
                row.iter_mut().zip(values).for_each(|(cell, value)| *cell = cell.plus_scaled(factor, *value));
            }
            (Self::Sparse { columns, values }, factor) => {
                for (column, value) in columns.iter().zip(values) {
                    let cell = &mut row[*column as usize];
                    *cell = factor.map_or_else(|| cell.plus(*value), |factor| cell.plus_scaled(factor, *value));
                }
            }
        }
    }
}

/// Row that stores only the cells that are not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseRow<T> {
    columns: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> SparseRow<T> {
    /// Creates a row from ascending columns and their values.
    #[must_use]
    pub fn new(columns: &[u32], values: &[T]) -> Self {
        Self { columns: columns.to_vec(), values: values.to_vec() }
    }

    /// Borrows the cells of the row.
    #[must_use]
    pub fn cells(&self) -> RowCells<'_, T> {
        RowCells::Sparse { columns: &self.columns, values: &self.values }
    }

    /// Changes or creates a cell. A cell that becomes zero is removed.
    pub fn change(&mut self, column: u32, change: impl FnOnce(T) -> T) {
        match self.columns.binary_search(&column) {
            Ok(at) => {
                self.values[at] = change(self.values[at]);
                if self.values[at] == T::default() {
                    self.columns.remove(at);
                    self.values.remove(at);
                }
            }
            Err(at) => {
                let value = change(T::default());
                if value != T::default() {
                    self.columns.insert(at, column);
                    self.values.insert(at, value);
                }
            }
        }
    }

    /// Heap memory of the row in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.columns.capacity() * size_of::<u32>() + self.values.capacity() * size_of::<T>()
    }
}

/// Sum of updates to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta<W> {
    /// One value for every column.
    Dense(Vec<W>),
    /// Values of the touched columns.
    Sparse(SparseRow<W>),
}

impl<W: ComputeType> Delta<W> {
    /// Creates a delta from the first update.
    #[must_use]
    pub fn new(cells: &RowCells<'_, W>) -> Self {
        match *cells {
            RowCells::Dense(values) => Self::Dense(values.to_vec()),
            RowCells::Sparse { columns, values } => Self::Sparse(SparseRow::new(columns, values)),
        }
    }

    /// Adds an update. With `stay_sparse` the delta never becomes dense.
    pub fn add(&mut self, cells: &RowCells<'_, W>, width: usize, stay_sparse: bool) {
        let becomes_dense = match (&*self, cells) {
            (Self::Dense(_), _) => false,
            (Self::Sparse(_), RowCells::Dense(_)) => true,
            (Self::Sparse(row), RowCells::Sparse { columns, .. }) => {
                // A column index takes as much memory as a value of four bytes.
                !stay_sparse && (row.columns.len() + columns.len()) * 2 >= width
            }
        };
        if becomes_dense {
            let mut dense = vec![W::ZERO; width];
            self.cells().add_to(&mut dense, None);
            *self = Self::Dense(dense);
        }
        match self {
            Self::Dense(row) => cells.add_to(row, None),
            Self::Sparse(row) => {
                cells.iter().for_each(|(column, value)| row.change(column as u32, |old| old.plus(value)));
            }
        }
    }

    /// Borrows the cells of the sum.
    #[must_use]
    pub fn cells(&self) -> RowCells<'_, W> {
        match self {
            Self::Dense(values) => RowCells::Dense(values),
            Self::Sparse(row) => row.cells(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_delta_is_the_sum_of_its_updates(
            adds in prop::collection::vec(prop::collection::btree_map(0..20_u32, -5..5_i32, 0..20), 1..8),
            dense in any::<[bool; 8]>(), stay_sparse in any::<bool>(),
        ) {
            let mut plain = [0_i32; 20];
            let mut delta: Option<Delta<i32>> = None;
            for (add, dense) in adds.iter().zip(dense) {
                for (column, value) in add {
                    plain[*column as usize] += value;
                }
                let (columns, values): (Vec<u32>, Vec<i32>) = add.iter().unzip();
                let mut full = [0; 20];
                let sparse = RowCells::Sparse { columns: &columns, values: &values };
                sparse.add_to(&mut full, None);
                let cells = if dense && !stay_sparse { RowCells::Dense(&full[..]) } else { sparse };
                match &mut delta {
                    None => delta = Some(Delta::new(&cells)),
                    Some(delta) => delta.add(&cells, 20, stay_sparse),
                }
            }
            let delta = delta.unwrap();
            prop_assert!(!stay_sparse || matches!(delta, Delta::Sparse(_)));
            let mut sum = [0; 20];
            delta.cells().add_to(&mut sum, None);
            prop_assert_eq!(sum, plain);
        }
    }

    #[test]
    fn cells_that_become_zero_are_removed() {
        let mut row = SparseRow::<i32>::default();
        row.change(5, |old| old + 2);
        row.change(3, |old| old + 1);
        row.change(5, |old| old - 2);
        row.change(9, |old| old);
        assert_eq!(row.cells(), RowCells::Sparse { columns: &[3], values: &[1] });
        assert_eq!((row.cells().get(3), row.cells().get(5)), (Some(1), None));
    }

    #[test]
    fn nan_and_infinity_are_detected() {
        assert_eq!(RowCells::Dense(&[1.0_f32, 2.0]).not_finite(), None);
        assert_eq!(RowCells::Dense(&[1.0_f32, f32::NAN]).not_finite(), Some(1));
        let cells = RowCells::Sparse { columns: &[3, 8], values: &[1.0_f64, f64::NEG_INFINITY] };
        assert_eq!(cells.not_finite(), Some(8));
    }
}
