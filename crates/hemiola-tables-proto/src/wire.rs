//! Wire format: a small serde header, then keys and columns as varint gaps, then values as raw
//! little-endian slices. The values of rows come last and begin at a multiple of [`ALIGNMENT`], so
//! they are sent and read without a copy.
//!
//! **Invariant:** no message can panic the receiver or make it allocate more than a small multiple
//! of its size: every length is compared with the remaining bytes before memory is allocated.

use crate::batch::{RowBatch, RowHeader};
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::key_list::{self, KeyOrder};
use crate::message::{ClientMessage, ServerMessage};
use crate::spec::TableSpec;
use crate::stream::Sequenced;
use crate::value_buffer::{COPIED_BYTES, ValueBuffer};
use bytes::Bytes;
use hemiola_core::Payload;
use hemiola_core::varint;
use serde::{Deserialize, Serialize};

/// Alignment of the values of rows, in bytes from the start of the message.
pub const ALIGNMENT: usize = 8;

/// Maximum size of a rows message without its rows.
pub const ROWS_HEAD_BYTES: usize = 64;

#[derive(Serialize, Deserialize)]
struct WireHeader<B> {
    number: u64,
    acknowledged: u64,
    body: Option<B>,
}

#[derive(Serialize, Deserialize)]
enum ClientMessageHeader {
    Get { need: Clock, keys: u64 },
    Update { clock: Clock, rows: u64, attachment: u64 },
    Clock(Clock),
    Forget { keys: u64 },
    Release { copies: u64 },
    Intend { keys: u64 },
    Return { keys: u64 },
}

#[derive(Serialize, Deserialize)]
enum ServerMessageHeader {
    Rows { fresh: Clock, included: u64, reply: bool, rows: u64, attachment: u64 },
    Lease { keys: u64 },
    Recall { keys: u64 },
}

fn encode_header<B: Serialize>(before: &[u8], number: u64, acknowledged: u64, body: Option<B>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(before.len() + ROWS_HEAD_BYTES);
    bytes.extend_from_slice(before);
    postcard::to_extend(&WireHeader { number, acknowledged, body }, bytes).expect("a header can always be encoded")
}

fn client_message_header<W: StorageType>(before: &[u8], message: &Sequenced<ClientMessage<W>>) -> Vec<u8> {
    let body = message.body.as_ref().map(|body| match body {
        ClientMessage::Get { need, keys } => ClientMessageHeader::Get { need: *need, keys: keys.len() as u64 },
        ClientMessage::Update { clock, batch, attachment } => {
            ClientMessageHeader::Update { clock: *clock, rows: batch.len() as u64, attachment: attachment.len() as u64 }
        }
        ClientMessage::Clock(clock) => ClientMessageHeader::Clock(*clock),
        ClientMessage::Forget { keys } => ClientMessageHeader::Forget { keys: keys.len() as u64 },
        ClientMessage::Release { copies } => ClientMessageHeader::Release { copies: copies.len() as u64 },
        ClientMessage::Intend { keys } => ClientMessageHeader::Intend { keys: keys.len() as u64 },
        ClientMessage::Return { keys } => ClientMessageHeader::Return { keys: keys.len() as u64 },
    });
    encode_header(before, message.number, message.acknowledged, body)
}

/// Encodes a message to a shard, behind the prefix `before`, whose length is a multiple of
/// [`ALIGNMENT`].
#[must_use]
pub fn encode_to_shard<W: StorageType>(before: &[u8], message: Sequenced<ClientMessage<W>>) -> Payload {
    let mut bytes = client_message_header(before, &message);
    match message.body {
        None | Some(ClientMessage::Clock(_)) => {}
        Some(
            ClientMessage::Get { keys, .. }
            | ClientMessage::Forget { keys }
            | ClientMessage::Intend { keys }
            | ClientMessage::Return { keys },
        ) => key_list::write(keys, KeyOrder::Any, &mut bytes),
        Some(ClientMessage::Update { batch, attachment, .. }) => return write_batch(batch, &attachment, bytes),
        Some(ClientMessage::Release { copies }) => {
            for (key, version, count) in copies {
                for number in [key, version, u64::from(count)] {
                    varint::write(number, &mut bytes);
                }
            }
        }
    }
    bytes.into()
}

/// Decodes the output of [`encode_to_shard`].
pub fn decode_to_shard<W: StorageType>(bytes: &Bytes, spec: &TableSpec) -> Result<Sequenced<ClientMessage<W>>> {
    let (header, mut rest) = take_header::<ClientMessageHeader>(bytes, spec)?;
    let body = match header.body {
        None => None,
        Some(ClientMessageHeader::Get { need, keys }) => Some(ClientMessage::Get { need, keys: rest.gaps(keys)? }),
        Some(ClientMessageHeader::Intend { keys }) => Some(ClientMessage::Intend { keys: rest.gaps(keys)? }),
        Some(ClientMessageHeader::Return { keys }) => Some(ClientMessage::Return { keys: rest.gaps(keys)? }),
        Some(ClientMessageHeader::Forget { keys }) => Some(ClientMessage::Forget { keys: rest.gaps(keys)? }),
        Some(ClientMessageHeader::Clock(clock)) => Some(ClientMessage::Clock(clock)),
        Some(ClientMessageHeader::Update { clock, rows, attachment }) => {
            let (batch, attachment) = rest.batch(rows, attachment)?;
            Some(ClientMessage::Update { clock, batch, attachment })
        }
        Some(ClientMessageHeader::Release { copies }) => {
            let mut read = Vec::with_capacity(rest.check_count(copies, 3)?);
            for _ in 0..copies {
                let (key, version) = (rest.varint()?, rest.varint()?);
                let count = u32::try_from(rest.varint()?).map_err(|_| rest.bad("too many copies"))?;
                read.push((key, version, count));
            }
            Some(ClientMessage::Release { copies: read })
        }
    };
    rest.end()?;
    Ok(Sequenced { number: header.number, acknowledged: header.acknowledged, body })
}

fn server_message_header<C: StorageType, W: StorageType>(
    before: &[u8],
    message: &Sequenced<ServerMessage<C, W>>,
) -> Vec<u8> {
    let body = message.body.as_ref().map(|body| match body {
        ServerMessage::Rows { fresh, included, reply, batch, attachment } => ServerMessageHeader::Rows {
            fresh: *fresh,
            included: *included,
            reply: *reply,
            rows: batch.len() as u64,
            attachment: attachment.len() as u64,
        },
        ServerMessage::Lease { keys } => ServerMessageHeader::Lease { keys: keys.len() as u64 },
        ServerMessage::Recall { keys } => ServerMessageHeader::Recall { keys: keys.len() as u64 },
    });
    encode_header(before, message.number, message.acknowledged, body)
}

/// Encodes a message to a client, behind the prefix `before`, whose length is a multiple of
/// [`ALIGNMENT`].
#[must_use]
pub fn encode_to_client<C: StorageType>(before: &[u8], message: Sequenced<ServerMessage<C, C::Compute>>) -> Payload {
    let mut bytes = server_message_header(before, &message);
    match message.body {
        None => {}
        Some(ServerMessage::Rows { batch, attachment, .. }) => return write_batch(batch, &attachment, bytes),
        Some(ServerMessage::Lease { keys } | ServerMessage::Recall { keys }) => {
            key_list::write(keys, KeyOrder::Any, &mut bytes);
        }
    }
    bytes.into()
}

/// Encoded size of [`encode_to_client`] in bytes, computed without encoding.
#[must_use]
pub fn client_bytes<C: StorageType>(message: &Sequenced<ServerMessage<C, C::Compute>>) -> usize {
    let header = server_message_header(&[], message).len();
    match &message.body {
        Some(ServerMessage::Rows { batch, attachment, .. }) => bytes_with_batch(header, batch, attachment),
        Some(ServerMessage::Lease { keys } | ServerMessage::Recall { keys }) => header + key_list_bytes(keys),
        None => header,
    }
}

/// Encoded size of [`encode_to_shard`] in bytes, computed without encoding.
#[must_use]
pub fn shard_bytes<W: StorageType>(message: &Sequenced<ClientMessage<W>>) -> usize {
    let header = client_message_header(&[], message).len();
    match &message.body {
        None | Some(ClientMessage::Clock(_)) => header,
        Some(
            ClientMessage::Get { keys, .. }
            | ClientMessage::Forget { keys }
            | ClientMessage::Intend { keys }
            | ClientMessage::Return { keys },
        ) => header + key_list_bytes(keys),
        Some(ClientMessage::Update { batch, attachment, .. }) => bytes_with_batch(header, batch, attachment),
        Some(ClientMessage::Release { copies }) => {
            let numbers = |(key, version, count): &(u64, u64, u32)| {
                varint::encoded_len(*key) + varint::encoded_len(*version) + varint::encoded_len(u64::from(*count))
            };
            header + copies.iter().map(numbers).sum::<usize>()
        }
    }
}

/// Encoded size of an update by [`encode_to_shard`] in bytes, computed without encoding.
#[must_use]
pub fn update_bytes<W: StorageType>(
    number: u64,
    acknowledged: u64,
    clock: Clock,
    batch: &RowBatch<W>,
    attachment: &[W],
) -> usize {
    let body = ClientMessageHeader::Update { clock, rows: batch.len() as u64, attachment: attachment.len() as u64 };
    bytes_with_batch(encode_header(&[], number, acknowledged, Some(body)).len(), batch, attachment)
}

/// Decodes the output of [`encode_to_client`].
pub fn decode_to_client<C: StorageType>(
    bytes: &Bytes,
    spec: &TableSpec,
) -> Result<Sequenced<ServerMessage<C, C::Compute>>> {
    let (header, mut rest) = take_header::<ServerMessageHeader>(bytes, spec)?;
    let body = match header.body {
        None => None,
        Some(ServerMessageHeader::Rows { fresh, included, reply, rows, attachment }) => {
            let (batch, attachment) = rest.batch(rows, attachment)?;
            Some(ServerMessage::Rows { fresh, included, reply, batch, attachment })
        }
        Some(ServerMessageHeader::Lease { keys }) => Some(ServerMessage::Lease { keys: rest.gaps(keys)? }),
        Some(ServerMessageHeader::Recall { keys }) => Some(ServerMessage::Recall { keys: rest.gaps(keys)? }),
    };
    rest.end()?;
    Ok(Sequenced { number: header.number, acknowledged: header.acknowledged, body })
}

/// Encodes rows with their state, as a snapshot stores them.
#[must_use]
pub fn encode_rows<C: StorageType>(batch: RowBatch<C>, state: &[C::Compute]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint::write(batch.len() as u64, &mut bytes);
    varint::write(state.len() as u64, &mut bytes);
    let parts = write_batch(batch, state, bytes);
    parts.into_bytes().into()
}

/// Decodes the output of [`encode_rows`].
pub fn decode_rows<C: StorageType>(bytes: &Bytes, spec: &TableSpec) -> Result<(RowBatch<C>, Vec<C::Compute>)> {
    let mut rest = WireReader { all: bytes, bytes, spec };
    let (rows, state) = (rest.varint()?, rest.varint()?);
    let read = rest.batch(rows, state)?;
    rest.end()?;
    Ok(read)
}

fn key_list_bytes(keys: &[u64]) -> usize {
    key_list::encoded_len(keys.iter().copied(), KeyOrder::Any)
}

/// Appends row headers and other values, and then, aligned, the values of the rows.
fn write_batch<T: StorageType, W: StorageType>(batch: RowBatch<T>, others: &[W], mut bytes: Vec<u8>) -> Payload {
    bytes.reserve(batch.len() * 8 + size_of_val(others) + COPIED_BYTES);
    let mut before = 0;
    for head in &batch.headers {
        varint::write(key_list::signed_gap(before, head.key), &mut bytes);
        varint::write(head.version, &mut bytes);
        varint::write(u64::from(head.values) << 1 | u64::from(head.dense), &mut bytes);
        before = head.key;
    }
    let mut columns = &batch.columns[..];
    for head in batch.headers.iter().filter(|head| !head.dense) {
        let (these, rest) = columns.split_at(head.values as usize);
        key_list::write(these.iter().map(|column| u64::from(*column)), KeyOrder::Any, &mut bytes);
        columns = rest;
    }
    W::write_le(others, &mut bytes);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    let values = batch.values.into_wire(&mut bytes);
    Payload::from_parts([bytes.into(), values])
}

/// Encoded size of a message after rows and other values are appended.
fn bytes_with_batch<T: StorageType, W: StorageType>(header: usize, batch: &RowBatch<T>, others: &[W]) -> usize {
    let values = size_of_val(&batch.values[..]);
    (header + batch_bytes(batch) - values + size_of_val(others)).next_multiple_of(ALIGNMENT) + values
}

fn batch_bytes<T: StorageType>(batch: &RowBatch<T>) -> usize {
    let (mut bytes, mut before, mut columns) = (size_of_val(&batch.values[..]), 0, &batch.columns[..]);
    for head in &batch.headers {
        bytes += varint::encoded_len(key_list::signed_gap(before, head.key)) + varint::encoded_len(head.version);
        bytes += varint::encoded_len(u64::from(head.values) << 1 | 1);
        before = head.key;
        if !head.dense {
            let (these, rest) = columns.split_at(head.values as usize);
            bytes += key_list::encoded_len(these.iter().map(|column| u64::from(*column)), KeyOrder::Any);
            columns = rest;
        }
    }
    bytes
}

fn take_header<'a, B: Deserialize<'a>>(all: &'a Bytes, spec: &'a TableSpec) -> Result<(WireHeader<B>, WireReader<'a>)> {
    let (header, bytes) = postcard::take_from_bytes(all)
        .map_err(|error| Error::BadMessage { table: spec.name.clone(), problem: error.to_string() })?;
    Ok((header, WireReader { all, bytes, spec }))
}

struct WireReader<'a> {
    /// The whole message, from its start.
    all: &'a Bytes,
    /// Bytes not yet read.
    bytes: &'a [u8],
    spec: &'a TableSpec,
}

impl WireReader<'_> {
    fn bad(&self, problem: &str) -> Error {
        Error::BadMessage { table: self.spec.name.clone(), problem: problem.to_owned() }
    }

    /// Checks that `count` items of at least `each` bytes can follow, and returns `count`.
    fn check_count(&self, count: u64, each: usize) -> Result<usize> {
        let fits = usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(each).is_some_and(|all| all <= self.bytes.len()));
        fits.ok_or_else(|| self.bad("the header announces more than the message holds"))
    }

    fn varint(&mut self) -> Result<u64> {
        varint::read(&mut self.bytes).map_err(|error| self.bad(&error.to_string()))
    }

    fn gaps(&mut self, count: u64) -> Result<Vec<u64>> {
        key_list::read(&mut self.bytes, count, KeyOrder::Any).map_err(|error| self.bad(&error.to_string()))
    }

    fn values<T: StorageType>(&mut self, count: u64) -> Result<Vec<T>> {
        let length = self.check_count(count, T::BYTES)? * T::BYTES;
        let (these, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(these.chunks_exact(T::BYTES).map(T::read_le).collect())
    }

    /// Reads rows and `others` other values.
    fn batch<T: StorageType, W: StorageType>(&mut self, rows: u64, others: u64) -> Result<(RowBatch<T>, Vec<W>)> {
        let mut headers = Vec::with_capacity(self.check_count(rows, 3)?);
        let (mut key, mut values) = (0_u64, 0_u64);
        for _ in 0..rows {
            key = key_list::after_signed_gap(key, self.varint()?);
            let (version, length) = (self.varint()?, self.varint()?);
            let cells = u32::try_from(length >> 1).map_err(|_| self.bad("a row has more than 2^32 - 1 cells"))?;
            values += u64::from(cells);
            headers.push(RowHeader { key, version, dense: length & 1 == 1, values: cells });
        }
        let mut columns = Vec::new();
        for head in headers.iter().filter(|head| !head.dense) {
            for column in self.gaps(u64::from(head.values))? {
                columns.push(u32::try_from(column).map_err(|_| self.bad("a column index exceeds 32 bits"))?);
            }
        }
        let others = self.values(others)?;
        let at = self.all.len() - self.bytes.len();
        let gap = at.next_multiple_of(ALIGNMENT) - at;
        self.check_count(1, gap)?;
        self.bytes = &self.bytes[gap..];
        let length = self.check_count(values, T::BYTES)? * T::BYTES;
        self.bytes = &self.bytes[length..];
        let values = ValueBuffer::from_wire(self.all.slice(at + gap..at + gap + length));
        Ok((RowBatch { headers, columns, values }, others))
    }

    fn end(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.bad("the message holds more than the header announces")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::RowCells;
    use crate::spec::KeySpace;
    use half::bf16;
    use proptest::prelude::*;

    fn spec() -> TableSpec {
        TableSpec::new("t", KeySpace::Growing, 3)
    }

    fn batches<T: StorageType>(make: fn(i16) -> T) -> impl Strategy<Value = RowBatch<T>> {
        let row = (
            any::<u64>(),
            any::<u64>(),
            prop::option::of(prop::collection::btree_set(any::<u32>(), 0..5)),
            any::<[i16; 5]>(),
        );
        prop::collection::vec(row, 0..6).prop_map(move |rows| {
            let mut batch = RowBatch::new();
            for (key, version, columns, values) in rows {
                let values = values.map(make);
                match columns {
                    None => batch.push(key, version, &RowCells::Dense(&values)),
                    Some(columns) => {
                        let columns: Vec<u32> = columns.into_iter().collect();
                        batch.push(
                            key,
                            version,
                            &RowCells::Sparse { columns: &columns, values: &values[..columns.len()] },
                        );
                    }
                }
            }
            batch
        })
    }

    fn to_shard() -> impl Strategy<Value = ClientMessage<f32>> {
        let clock = || any::<u64>().prop_map(Clock::new);
        let keys = || prop::collection::vec(any::<u64>(), 0..8);
        prop_oneof![
            (clock(), keys()).prop_map(|(need, keys)| ClientMessage::Get { need, keys }),
            (clock(), batches(f32::from), prop::collection::vec(any::<i16>(), 0..8)).prop_map(
                |(clock, batch, attachment)| ClientMessage::Update {
                    clock,
                    batch,
                    attachment: attachment.into_iter().map(f32::from).collect()
                }
            ),
            clock().prop_map(ClientMessage::Clock),
            keys().prop_map(|keys| ClientMessage::Forget { keys }),
            keys().prop_map(|keys| ClientMessage::Intend { keys }),
            keys().prop_map(|keys| ClientMessage::Return { keys }),
            prop::collection::vec(any::<(u64, u64, u32)>(), 0..5).prop_map(|copies| ClientMessage::Release { copies }),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            number in any::<u64>(), acknowledged in any::<u64>(), body in prop::option::of(to_shard()),
            batch in batches(|value| bf16::from_f32(value.into())), numbers in any::<[u64; 2]>(), reply in any::<bool>(),
        ) {
            let message = Sequenced { number, acknowledged, body };
            let bytes = encode_to_shard(&[], message.clone()).into_bytes();
            prop_assert_eq!(decode_to_shard(&bytes, &spec()).unwrap(), message.clone());
            prop_assert_eq!(shard_bytes(&message), bytes.len());
            // The prefix of a message changes nothing in it.
            let behind = encode_to_shard(&[7; ALIGNMENT], message.clone()).into_bytes();
            prop_assert_eq!(&behind[ALIGNMENT..], &bytes[..]);
            if let Some(ClientMessage::Update { clock, batch, attachment }) = &message.body {
                prop_assert_eq!(update_bytes(number, acknowledged, *clock, batch, attachment), bytes.len());
                let bound: usize = batch.iter().map(|row| RowBatch::row_bytes(&row.cells)).sum();
                prop_assert!(bytes.len() <= ROWS_HEAD_BYTES + bound + attachment.len() * 4);
            }
            let state = vec![0.5_f32; numbers[0] as usize % 9];
            prop_assert_eq!(decode_rows(&encode_rows(batch.clone(), &state).into(), &spec()).unwrap(), (batch.clone(), state));
            let [fresh, included] = numbers;
            let body = Some(ServerMessage::Rows { fresh: Clock::new(fresh), included, reply, batch, attachment: vec![1.0, 2.0] });
            let message = Sequenced { number, acknowledged, body };
            let bytes = encode_to_client::<bf16>(&[], message.clone()).into_bytes();
            prop_assert_eq!(client_bytes(&message), bytes.len());
            prop_assert_eq!(decode_to_client(&bytes, &spec()).unwrap(), message);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(bytes);
            let _ = decode_to_shard::<f32>(&bytes, &spec());
            let _ = decode_to_client::<bf16>(&bytes, &spec());
            let _ = decode_rows::<f64>(&bytes, &spec());
        }

        #[test]
        fn damaged_messages_are_decoded_or_rejected(body in to_shard(), changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4), cut in any::<usize>()) {
            let mut bytes = encode_to_shard(&[], Sequenced { number: 1, acknowledged: 0, body: Some(body) }).into_bytes().to_vec();
            for (at, byte) in changes {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            bytes.truncate(cut % (bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Ok(Sequenced { body: Some(ClientMessage::Update { batch, .. }), .. }) = decode_to_shard::<f32>(&bytes, &spec()) {
                prop_assert_eq!(batch.iter().count(), batch.len());
                prop_assert!(batch.values.len() * 4 <= bytes.len() && batch.headers.capacity() <= bytes.len());
            }
        }
    }

    #[test]
    fn lengths_are_checked_before_allocation() {
        let body = Some(ClientMessageHeader::Get { need: Clock::ZERO, keys: u64::MAX });
        assert!(decode_to_shard::<f32>(&encode_header(&[], 1, 0, body).into(), &spec()).is_err());
        let body = Some(ClientMessageHeader::Update { clock: Clock::ZERO, rows: 1 << 60, attachment: 0 });
        assert!(decode_to_shard::<f32>(&encode_header(&[], 1, 0, body).into(), &spec()).is_err());
        let mut bytes =
            encode_header(&[], 1, 0, Some(ClientMessageHeader::Update { clock: Clock::ZERO, rows: 1, attachment: 0 }));
        for number in [key_list::signed_gap(0, 5), 0, u64::from(u32::MAX) << 1 | 1] {
            varint::write(number, &mut bytes);
        }
        assert!(decode_to_shard::<f32>(&bytes.into(), &spec()).is_err());
    }
}
