//! Batch of rows in one message: keys and versions, followed by the cells of all rows.

use crate::cells::RowCells;
use crate::dtype::StorageType;
use crate::value_buffer::ValueBuffer;

/// Rows with their cells.
#[derive(Clone, Debug, PartialEq)]
pub struct RowBatch<T: StorageType> {
    pub(crate) headers: Vec<RowHeader>,
    pub(crate) columns: Vec<u32>,
    pub(crate) values: ValueBuffer<T>,
}

/// Header of one row of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowHeader {
    pub(crate) key: u64,
    pub(crate) version: u64,
    /// The row has a value for every column, and no column indices.
    pub(crate) dense: bool,
    pub(crate) values: u32,
}

/// One row of a batch, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchRow<'a, T> {
    /// Key of the row.
    pub key: u64,
    /// Version of the row; for an update, the version that the update was computed from.
    pub version: u64,
    /// Cells of the row.
    pub cells: RowCells<'a, T>,
}

impl<T: StorageType> Default for RowBatch<T> {
    fn default() -> Self {
        Self { headers: Vec::new(), columns: Vec::new(), values: ValueBuffer::default() }
    }
}

impl<T: StorageType> RowBatch<T> {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty batch with capacity for `rows` rows and `values` values.
    pub(crate) fn with_capacity(rows: usize, values: usize) -> Self {
        let values = ValueBuffer::Own(Vec::with_capacity(values));
        Self { headers: Vec::with_capacity(rows), columns: Vec::new(), values }
    }

    /// Appends a row to the batch.
    pub fn push(&mut self, key: u64, version: u64, cells: &RowCells<'_, T>) {
        let dense = match *cells {
            RowCells::Dense(_) => true,
            RowCells::Sparse { columns, .. } => {
                self.columns.extend_from_slice(columns);
                false
            }
        };
        self.values.extend(cells.values());
        self.headers.push(RowHeader { key, version, dense, values: cells.values().len() as u32 });
    }

    /// Number of rows in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Returns true if the batch has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Keys of the rows, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> + use<'_, T> {
        self.headers.iter().map(|head| head.key)
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = BatchRow<'_, T>> {
        let (mut columns, mut values) = (&self.columns[..], &self.values[..]);
        self.headers.iter().map(move |head| {
            let length = head.values as usize;
            let (these, rest) = values.split_at(length);
            values = rest;
            let cells = if head.dense {
                RowCells::Dense(these)
            } else {
                let (named, rest) = columns.split_at(length);
                columns = rest;
                RowCells::Sparse { columns: named, values: these }
            };
            BatchRow { key: head.key, version: head.version, cells }
        })
    }

    /// Upper bound of the encoded size of a row in bytes.
    #[must_use]
    pub fn row_bytes(cells: &RowCells<'_, T>) -> usize {
        // Varints: key gap (10), version (10), length (5), and 5 per column gap.
        10 + 10
            + 5
            + size_of_val(cells.values())
            + if let RowCells::Sparse { columns, .. } = cells { columns.len() * 5 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_returns_its_rows() {
        let mut batch = RowBatch::new();
        let rows = [
            BatchRow { key: 3, version: 1, cells: RowCells::Dense(&[1_i32, 2]) },
            BatchRow { key: 3, version: 2, cells: RowCells::Sparse { columns: &[7], values: &[5] } },
            BatchRow { key: 9, version: 0, cells: RowCells::Sparse { columns: &[], values: &[] } },
            BatchRow { key: 10, version: 0, cells: RowCells::Dense(&[4, 4]) },
        ];
        for row in &rows {
            batch.push(row.key, row.version, &row.cells);
        }
        assert!(batch.iter().eq(rows));
        assert_eq!(batch.len(), 4);
    }
}
