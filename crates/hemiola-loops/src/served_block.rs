//! Rows of a served array that this peer owns.
//!
//! The parameter server is that of tables (`hemiola_tables_proto::read_only`): rows change only at
//! barriers of all workers, so fetched copies are valid until the next one. *Rows* run over all
//! dimensions but the last; in a one-dimensional array each cell is a row. **Invariant:** the rows
//! stay in the block of the array; the server reads them there.

use hemiola_array::dist::DenseBlock;
use hemiola_array::{Element, Error};
use hemiola_cluster::Cluster;
use hemiola_tables_proto::read_only::{ReadOnlyError, ReadOnlyServer, RowSource};
use hemiola_tables_proto::{RangePartition, ShardId};

/// Block of a served array on its owner, with the owners of all rows.
#[derive(Debug)]
pub(crate) struct ServedBlock<T, const N: usize> {
    block: DenseBlock<T, N>,
    partition: RangePartition,
    server: ReadOnlyServer,
}

/// Shard of a peer: every peer holds the shard with its own number.
pub(crate) fn home_shard(cluster: &Cluster) -> ShardId {
    ShardId::new(cluster.rank().number())
}

/// Converts a violation of the protocol into the error of a message.
pub(crate) fn bad_message(error: &ReadOnlyError) -> Error {
    Error::BadMessage { problem: error.to_string() }
}

impl<T: Element, const N: usize> ServedBlock<T, N> {
    /// Serves the rows of a block.
    ///
    /// # Panics
    /// If the block does not have the rows of the shard.
    pub(crate) fn new(block: DenseBlock<T, N>, partition: RangePartition, shard: ShardId) -> Self {
        let server = ReadOnlyServer::new(&partition, shard);
        let served = Self { block, partition, server };
        let (per_index, owned) = (rows_per_index(&served), served.server.owned());
        let first = (served.block.first * per_index) as u64;
        let rows = (served.block.cells.shape().extent(0) * per_index) as u64;
        assert!(rows == 0 && owned.is_empty() || (first..first + rows) == owned, "a peer serves the rows it has");
        served
    }

    /// Returns the block of rows.
    pub(crate) fn into_block(self) -> DenseBlock<T, N> {
        self.block
    }

    /// Mutable access to the block.
    pub(crate) fn block_mut(&mut self) -> &mut DenseBlock<T, N> {
        &mut self.block
    }

    /// Owners of the rows of the array.
    pub(crate) fn partition(&self) -> &RangePartition {
        &self.partition
    }

    /// Appends the encoded cells of rows that another peer requests.
    pub(crate) fn serve(&self, rows: &[u64], cells: &mut Vec<u8>) -> Result<(), Error> {
        self.server.answer(rows, self, cells).map_err(|error| bad_message(&error))
    }

    fn row(&self, row: u64) -> &[T] {
        let at = (row - self.server.owned().start) as usize;
        if N == 1 { &self.block.cells.row(0)[at..=at] } else { self.block.cells.row(at) }
    }
}

/// Number of rows of one index of the first dimension.
fn rows_per_index<T, const N: usize>(served: &ServedBlock<T, N>) -> usize {
    let extents = served.block.cells.shape().extents();
    if N == 1 { 1 } else { extents[1..N - 1].iter().product() }
}

impl<T: Element, const N: usize> RowSource for ServedBlock<T, N> {
    fn append_rows(&self, rows: &[u64], cells: &mut Vec<u8>) {
        if T::CONCATENABLE {
            for row in rows {
                T::pack(self.row(*row), cells);
            }
        } else {
            let all: Vec<T> = rows.iter().flat_map(|row| self.row(*row)).cloned().collect();
            T::pack(&all, cells);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::{DenseArray, Shape};

    #[test]
    fn rows_are_returned_in_request_order() {
        let cells = DenseArray::from_fn(Shape::new([3, 2, 2]), |index| index as u32).unwrap();
        let partition = RangePartition::new(vec![10, 16, 20]);
        let served = ServedBlock::new(DenseBlock { first: 5, cells }, partition, ShardId::new(1));
        let mut bytes = Vec::new();
        served.serve(&[11, 15, 10], &mut bytes).unwrap();
        assert_eq!(u32::unpack(&bytes, 6).unwrap(), [2, 3, 10, 11, 0, 1]);
        let error = served.serve(&[16], &mut bytes).unwrap_err().to_string();
        assert!(error.contains("row 16 was requested from the owner of rows 10..16"), "{error}");
    }

    #[test]
    fn one_dimensional_arrays_and_any_element_type_work() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let cells = DenseArray::from_values(Shape::new([3]), names).unwrap();
        let partition = RangePartition::new(vec![4, 7]);
        let served = ServedBlock::new(DenseBlock { first: 4, cells }, partition, ShardId::new(1));
        let mut bytes = Vec::new();
        served.serve(&[6, 4], &mut bytes).unwrap();
        assert_eq!(String::unpack(&bytes, 2).unwrap(), ["c", "a"]);
    }
}
