//! Messages of read-only rows: requests, and the updates that are sent at barriers.
//!
//! As in [`wire`](crate::wire), a message is a small header, then keys as varint gaps, then cells.
//! The answer to a request has cells alone, because the client knows which rows it requested.
//! **Invariant:** no message can panic the receiver or make it allocate more than a small multiple
//! of its size.

use crate::key_list::{self, KeyListError, KeyOrder};
use crate::spec::ShardId;
use hemiola_core::WorkerId;
use hemiola_core::varint::{self, VarintError};
use std::ops::Range;

/// Violation of the protocol of read-only rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOnlyError {
    /// A key list is malformed.
    #[error("row list: {0}")]
    Keys(#[from] KeyListError),
    /// A number is malformed.
    #[error("header: {0}")]
    Header(#[from] VarintError),
    /// A number in a header is out of range.
    #[error("a number in the header exceeds 32 bits")]
    NumberTooLarge,
    /// Cells are announced that the message does not hold, or more follow than are announced.
    #[error("the message has more or fewer bytes than its header announces")]
    WrongLength,
    /// A row was requested twice in one message.
    #[error("a row is requested twice in one message")]
    RepeatedRow,
    /// A row was requested from a shard that does not own it.
    #[error("row {row} was requested from the owner of rows {owned:?}")]
    RowNotOwned {
        /// Row that was named.
        row: u64,
        /// Rows of the shard.
        owned: Range<u64>,
    },
    /// An answer has the wrong number of cells.
    #[error("shard {shard} answered with {found} cells, but {expected} were requested")]
    WrongCells {
        /// Shard that answered.
        shard: ShardId,
        /// Number of cells of the requested rows.
        expected: usize,
        /// Number of cells of the answer.
        found: usize,
    },
    /// An answer has no request.
    #[error("rows have arrived that were not requested")]
    NotRequested,
}

/// Request of a worker for rows of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRequest {
    /// Number of the table, on which the peers have agreed.
    pub table: u32,
    /// Worker of the sender that waits for the rows.
    pub worker: WorkerId,
    /// Requested rows, ascending.
    pub keys: Vec<u64>,
}

impl RowRequest {
    /// Appends a request for ascending rows.
    ///
    /// # Panics
    /// If the rows do not ascend.
    pub fn encode(table: u32, worker: WorkerId, keys: &[u64], bytes: &mut Vec<u8>) {
        // Room for the three numbers of the header, and gaps of two bytes.
        bytes.reserve(16 + 2 * keys.len());
        varint::write(u64::from(table), bytes);
        varint::write(worker.index() as u64, bytes);
        key_list::write_counted(keys, KeyOrder::Ascending, bytes);
    }

    /// Decodes the output of [`encode`](Self::encode).
    pub fn decode(mut bytes: &[u8]) -> Result<Self, ReadOnlyError> {
        let table = read_u32(&mut bytes)?;
        let worker = WorkerId::new(read_u32(&mut bytes)?);
        let keys = key_list::read_counted(&mut bytes, KeyOrder::Ascending)?;
        // Without repetitions the answer is at most as large as the shard.
        if !keys.is_sorted_by(|one, next| one < next) {
            return Err(ReadOnlyError::RepeatedRow);
        }
        if bytes.is_empty() { Ok(Self { table, worker, keys }) } else { Err(ReadOnlyError::WrongLength) }
    }
}

fn read_u32(bytes: &mut &[u8]) -> Result<u32, ReadOnlyError> {
    u32::try_from(varint::read(bytes)?).map_err(|_| ReadOnlyError::NumberTooLarge)
}

/// Appends updates of ascending rows, whose encoded cells are given. Several may follow each other.
///
/// # Panics
/// If the rows do not ascend.
pub fn write_updates(keys: &[u64], cells: &[u8], bytes: &mut Vec<u8>) {
    key_list::write_counted(keys, KeyOrder::Ascending, bytes);
    varint::write(cells.len() as u64, bytes);
    bytes.extend_from_slice(cells);
}

/// Reads the output of [`write_updates`] from the front of `bytes`: rows and encoded cells.
pub fn read_updates<'b>(bytes: &mut &'b [u8]) -> Result<(Vec<u64>, &'b [u8]), ReadOnlyError> {
    let keys = key_list::read_counted(bytes, KeyOrder::Ascending)?;
    let length = usize::try_from(varint::read(bytes)?).map_err(|_| ReadOnlyError::WrongLength)?;
    let (cells, rest) = bytes.split_at_checked(length).ok_or(ReadOnlyError::WrongLength)?;
    *bytes = rest;
    Ok((keys, cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::btree_set(any::<u64>(), 0..20).prop_map(|keys| keys.into_iter().collect())
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            table: u32, worker: u32, keys in keys(), updates in prop::collection::vec((keys(), any::<[u8; 5]>()), 0..4),
        ) {
            let worker = WorkerId::new(worker);
            let mut bytes = Vec::new();
            RowRequest::encode(table, worker, &keys, &mut bytes);
            prop_assert_eq!(RowRequest::decode(&bytes).unwrap(), RowRequest { table, worker, keys });
            bytes.push(0);
            prop_assert_eq!(RowRequest::decode(&bytes), Err(ReadOnlyError::WrongLength));
            bytes.clear();
            for (keys, cells) in &updates {
                write_updates(keys, cells, &mut bytes);
            }
            let mut rest = &bytes[..];
            for (keys, cells) in &updates {
                prop_assert_eq!(read_updates(&mut rest).unwrap(), (keys.clone(), &cells[..]));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_are_an_error_or_ascending_rows(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(request) = RowRequest::decode(&bytes) {
                prop_assert!(request.keys.is_sorted_by(|one, next| one < next));
                prop_assert!(request.keys.capacity() <= bytes.len());
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let Ok((keys, cells)) = read_updates(&mut rest) else { break };
                prop_assert!(keys.is_sorted() && keys.len() + cells.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_repeated_row_is_refused_so_that_a_small_request_has_no_huge_answer() {
        // Table 1, worker 2, three rows: 100 and two gaps of zero.
        assert_eq!(RowRequest::decode(&[1, 2, 3, 100, 0, 0]), Err(ReadOnlyError::RepeatedRow));
    }

    #[test]
    fn a_request_for_one_row_of_a_small_table_takes_four_bytes() {
        let mut bytes = Vec::new();
        RowRequest::encode(1, WorkerId::new(2), &[100], &mut bytes);
        assert_eq!(bytes, [1, 2, 1, 100]);
    }
}
