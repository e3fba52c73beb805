//! Many rows in one message: keys and versions, and their cells one after the other.

use crate::cells::Cells;
use crate::number::Cell;
use crate::values::Values;

/// Rows with their cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<T: Cell> {
    pub(crate) heads: Vec<Head>,
    pub(crate) columns: Vec<u32>,
    pub(crate) values: Values<T>,
}

/// What stands in front of a row's cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) key: u64,
    pub(crate) version: u64,
    /// Whether there is a value for every column, without their numbers.
    pub(crate) dense: bool,
    pub(crate) values: u32,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchRow<'a, T> {
    /// Its key.
    pub key: u64,
    /// Of a row: how often it was changed. Of an update: the version it was computed from.
    pub version: u64,
    /// Its cells.
    pub cells: Cells<'a, T>,
}

impl<T: Cell> Default for Batch<T> {
    fn default() -> Self {
        Self { heads: Vec::new(), columns: Vec::new(), values: Values::default() }
    }
}

impl<T: Cell> Batch<T> {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No rows, and room for some of so many values in all.
    pub(crate) fn with_room(rows: usize, values: usize) -> Self {
        let values = Values::Own(Vec::with_capacity(values));
        Self { heads: Vec::with_capacity(rows), columns: Vec::new(), values }
    }

    /// Appends a row.
    pub fn push(&mut self, key: u64, version: u64, cells: &Cells<'_, T>) {
        let dense = match *cells {
            Cells::Dense(_) => true,
            Cells::Sparse { columns, .. } => {
                self.columns.extend_from_slice(columns);
                false
            }
        };
        self.values.extend(cells.values());
        self.heads.push(Head { key, version, dense, values: cells.values().len() as u32 });
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The keys of the rows, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> + use<'_, T> {
        self.heads.iter().map(|head| head.key)
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = BatchRow<'_, T>> {
        let (mut columns, mut values) = (&self.columns[..], &self.values[..]);
        self.heads.iter().map(move |head| {
            let length = head.values as usize;
            let (these, rest) = values.split_at(length);
            values = rest;
            let cells = if head.dense {
                Cells::Dense(these)
            } else {
                let (named, rest) = columns.split_at(length);
                columns = rest;
                Cells::Sparse { columns: named, values: these }
            };
            BatchRow { key: head.key, version: head.version, cells }
        })
    }

    /// The most that a row takes on the wire.
    #[must_use]
    pub fn row_bytes(cells: &Cells<'_, T>) -> usize {
        // Numbers of variable length: a gap of keys, a version, a length, gaps of columns.
        10 + 10
            + 5
            + size_of_val(cells.values())
            + if let Cells::Sparse { columns, .. } = cells { columns.len() * 5 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_put_in() {
        let mut batch = Batch::new();
        let rows = [
            BatchRow { key: 3, version: 1, cells: Cells::Dense(&[1_i32, 2]) },
            BatchRow { key: 3, version: 2, cells: Cells::Sparse { columns: &[7], values: &[5] } },
            BatchRow { key: 9, version: 0, cells: Cells::Sparse { columns: &[], values: &[] } },
            BatchRow { key: 10, version: 0, cells: Cells::Dense(&[4, 4]) },
        ];
        for row in &rows {
            batch.push(row.key, row.version, &row.cells);
        }
        assert!(batch.iter().eq(rows));
        assert_eq!(batch.len(), 4);
    }
}
