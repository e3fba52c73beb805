//! The bytes of messages: a small head in serde, then keys and columns as gaps of variable length, then numbers as raw little-endian
//! slices. The numbers of rows come last and begin at a multiple of [`ALIGNMENT`], so that they are sent and read where they lie.
//!
//! **Invariant:** nothing a peer sends can panic the receiver or make it allocate more than a small multiple of what came: every
//! length is compared with the bytes that are left before memory is taken for it.

use crate::batch::{Batch, Head};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::message::{ToClient, ToShard};
use crate::number::Cell;
use crate::spec::Spec;
use crate::stream::Envelope;
use crate::values::{COPIED_BYTES, Values};
use bytes::Bytes;
use hemiola_core::Payload;
use serde::{Deserialize, Serialize};

/// Where the numbers of rows begin: at a multiple of this many bytes from the start.
pub const ALIGNMENT: usize = 8;

/// The most that a message of rows takes besides the rows.
pub const ROWS_HEAD_BYTES: usize = 64;

#[derive(Serialize, Deserialize)]
struct Front<B> {
    number: u64,
    acknowledged: u64,
    body: Option<B>,
}

#[derive(Serialize, Deserialize)]
enum ShardBody {
    Get { need: Clock, keys: u64 },
    Update { clock: Clock, rows: u64, carried: u64 },
    Clock(Clock),
    Forget { keys: u64 },
    Release { copies: u64 },
    Intend { keys: u64 },
    Return { keys: u64 },
}

#[derive(Serialize, Deserialize)]
enum ClientBody {
    Rows { fresh: Clock, included: u64, reply: bool, rows: u64, carried: u64 },
    Lease { keys: u64 },
    Recall { keys: u64 },
}

fn front<B: Serialize>(before: &[u8], number: u64, acknowledged: u64, body: Option<B>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(before.len() + ROWS_HEAD_BYTES);
    bytes.extend_from_slice(before);
    postcard::to_extend(&Front { number, acknowledged, body }, bytes).expect("a few numbers can always be written")
}

fn shard_front<W: Cell>(before: &[u8], envelope: &Envelope<ToShard<W>>) -> Vec<u8> {
    let body = envelope.body.as_ref().map(|body| match body {
        ToShard::Get { need, keys } => ShardBody::Get { need: *need, keys: keys.len() as u64 },
        ToShard::Update { clock, batch, carried } => {
            ShardBody::Update { clock: *clock, rows: batch.len() as u64, carried: carried.len() as u64 }
        }
        ToShard::Clock(clock) => ShardBody::Clock(*clock),
        ToShard::Forget { keys } => ShardBody::Forget { keys: keys.len() as u64 },
        ToShard::Release { copies } => ShardBody::Release { copies: copies.len() as u64 },
        ToShard::Intend { keys } => ShardBody::Intend { keys: keys.len() as u64 },
        ToShard::Return { keys } => ShardBody::Return { keys: keys.len() as u64 },
    });
    front(before, envelope.number, envelope.acknowledged, body)
}

/// The bytes of a message to a shard, behind those that stand `before` it: a multiple of [`ALIGNMENT`].
#[must_use]
pub fn encode_to_shard<W: Cell>(before: &[u8], envelope: Envelope<ToShard<W>>) -> Payload {
    let mut bytes = shard_front(before, &envelope);
    match envelope.body {
        None | Some(ToShard::Clock(_)) => {}
        Some(
            ToShard::Get { keys, .. } | ToShard::Forget { keys } | ToShard::Intend { keys } | ToShard::Return { keys },
        ) => write_gaps(keys.into_iter(), &mut bytes),
        Some(ToShard::Update { batch, carried, .. }) => return write_batch(batch, &carried, bytes),
        Some(ToShard::Release { copies }) => {
            for (key, version, count) in copies {
                for number in [key, version, u64::from(count)] {
                    write_number(number, &mut bytes);
                }
            }
        }
    }
    bytes.into()
}

/// Reads what [`encode_to_shard`] wrote.
pub fn decode_to_shard<W: Cell>(bytes: &Bytes, spec: &Spec) -> Result<Envelope<ToShard<W>>> {
    let (front, mut rest) = take_front::<ShardBody>(bytes, spec)?;
    let body = match front.body {
        None => None,
        Some(ShardBody::Get { need, keys }) => Some(ToShard::Get { need, keys: rest.gaps(keys)? }),
        Some(ShardBody::Intend { keys }) => Some(ToShard::Intend { keys: rest.gaps(keys)? }),
        Some(ShardBody::Return { keys }) => Some(ToShard::Return { keys: rest.gaps(keys)? }),
        Some(ShardBody::Forget { keys }) => Some(ToShard::Forget { keys: rest.gaps(keys)? }),
        Some(ShardBody::Clock(clock)) => Some(ToShard::Clock(clock)),
        Some(ShardBody::Update { clock, rows, carried }) => {
            let (batch, carried) = rest.batch(rows, carried)?;
            Some(ToShard::Update { clock, batch, carried })
        }
        Some(ShardBody::Release { copies }) => {
            let mut read = Vec::with_capacity(rest.room(copies, 3)?);
            for _ in 0..copies {
                let (key, version) = (rest.number()?, rest.number()?);
                let count = u32::try_from(rest.number()?).map_err(|_| rest.bad("too many copies"))?;
                read.push((key, version, count));
            }
            Some(ToShard::Release { copies: read })
        }
    };
    rest.end()?;
    Ok(Envelope { number: front.number, acknowledged: front.acknowledged, body })
}

fn client_front<C: Cell, W: Cell>(before: &[u8], envelope: &Envelope<ToClient<C, W>>) -> Vec<u8> {
    let body = envelope.body.as_ref().map(|body| match body {
        ToClient::Rows { fresh, included, reply, batch, carried } => ClientBody::Rows {
            fresh: *fresh,
            included: *included,
            reply: *reply,
            rows: batch.len() as u64,
            carried: carried.len() as u64,
        },
        ToClient::Lease { keys } => ClientBody::Lease { keys: keys.len() as u64 },
        ToClient::Recall { keys } => ClientBody::Recall { keys: keys.len() as u64 },
    });
    front(before, envelope.number, envelope.acknowledged, body)
}

/// The bytes of a message to a client, behind those that stand `before` it: a multiple of [`ALIGNMENT`].
#[must_use]
pub fn encode_to_client<C: Cell>(before: &[u8], envelope: Envelope<ToClient<C, C::Wide>>) -> Payload {
    let mut bytes = client_front(before, &envelope);
    match envelope.body {
        None => {}
        Some(ToClient::Rows { batch, carried, .. }) => return write_batch(batch, &carried, bytes),
        Some(ToClient::Lease { keys } | ToClient::Recall { keys }) => write_gaps(keys.into_iter(), &mut bytes),
    }
    bytes.into()
}

/// How many bytes [`encode_to_client`] makes, without making them.
#[must_use]
pub fn client_bytes<C: Cell>(envelope: &Envelope<ToClient<C, C::Wide>>) -> usize {
    let front = client_front(&[], envelope).len();
    match &envelope.body {
        Some(ToClient::Rows { batch, carried, .. }) => with_batch(front, batch, carried),
        Some(ToClient::Lease { keys } | ToClient::Recall { keys }) => front + gap_bytes(keys),
        None => front,
    }
}

/// How many bytes [`encode_to_shard`] makes, without making them.
#[must_use]
pub fn shard_bytes<W: Cell>(envelope: &Envelope<ToShard<W>>) -> usize {
    let front = shard_front(&[], envelope).len();
    match &envelope.body {
        None | Some(ToShard::Clock(_)) => front,
        Some(
            ToShard::Get { keys, .. } | ToShard::Forget { keys } | ToShard::Intend { keys } | ToShard::Return { keys },
        ) => front + gap_bytes(keys),
        Some(ToShard::Update { batch, carried, .. }) => with_batch(front, batch, carried),
        Some(ToShard::Release { copies }) => {
            let numbers = |(key, version, count): &(u64, u64, u32)| {
                number_bytes(*key) + number_bytes(*version) + number_bytes(u64::from(*count))
            };
            front + copies.iter().map(numbers).sum::<usize>()
        }
    }
}

/// How many bytes [`encode_to_shard`] makes of an update, without making them.
#[must_use]
pub fn update_bytes<W: Cell>(number: u64, acknowledged: u64, clock: Clock, batch: &Batch<W>, carried: &[W]) -> usize {
    let body = ShardBody::Update { clock, rows: batch.len() as u64, carried: carried.len() as u64 };
    with_batch(front(&[], number, acknowledged, Some(body)).len(), batch, carried)
}

/// Reads what [`encode_to_client`] wrote.
pub fn decode_to_client<C: Cell>(bytes: &Bytes, spec: &Spec) -> Result<Envelope<ToClient<C, C::Wide>>> {
    let (front, mut rest) = take_front::<ClientBody>(bytes, spec)?;
    let body = match front.body {
        None => None,
        Some(ClientBody::Rows { fresh, included, reply, rows, carried }) => {
            let (batch, carried) = rest.batch(rows, carried)?;
            Some(ToClient::Rows { fresh, included, reply, batch, carried })
        }
        Some(ClientBody::Lease { keys }) => Some(ToClient::Lease { keys: rest.gaps(keys)? }),
        Some(ClientBody::Recall { keys }) => Some(ToClient::Recall { keys: rest.gaps(keys)? }),
    };
    rest.end()?;
    Ok(Envelope { number: front.number, acknowledged: front.acknowledged, body })
}

/// The bytes of rows alone, as a snapshot stores them.
#[must_use]
pub fn encode_rows<C: Cell>(batch: Batch<C>, state: &[C::Wide]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_number(batch.len() as u64, &mut bytes);
    write_number(state.len() as u64, &mut bytes);
    let parts = write_batch(batch, state, bytes);
    parts.into_bytes().into()
}

/// Reads what [`encode_rows`] wrote.
pub fn decode_rows<C: Cell>(bytes: &Bytes, spec: &Spec) -> Result<(Batch<C>, Vec<C::Wide>)> {
    let mut rest = Reader { all: bytes, bytes, spec };
    let (rows, state) = (rest.number()?, rest.number()?);
    let read = rest.batch(rows, state)?;
    rest.end()?;
    Ok(read)
}

fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number_bytes(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// A gap as a number that is small if the gap is short, up or down.
fn folded(gap: u64) -> u64 {
    gap << 1 ^ (gap.cast_signed() >> 63).cast_unsigned()
}

fn unfolded(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

fn write_gaps(numbers: impl Iterator<Item = u64>, bytes: &mut Vec<u8>) {
    let mut before = 0;
    for number in numbers {
        write_number(folded(number.wrapping_sub(before)), bytes);
        before = number;
    }
}

fn gap_bytes(numbers: &[u64]) -> usize {
    let mut before = 0;
    let gap = |number: &u64| number_bytes(folded(number.wrapping_sub(std::mem::replace(&mut before, *number))));
    numbers.iter().map(gap).sum()
}

/// Appends rows and other numbers, and then, aligned, the numbers of the rows.
fn write_batch<T: Cell, W: Cell>(batch: Batch<T>, others: &[W], mut bytes: Vec<u8>) -> Payload {
    bytes.reserve(batch.len() * 8 + size_of_val(others) + COPIED_BYTES);
    let mut before = 0;
    for head in &batch.heads {
        write_number(folded(head.key.wrapping_sub(before)), &mut bytes);
        write_number(head.version, &mut bytes);
        write_number(u64::from(head.values) << 1 | u64::from(head.dense), &mut bytes);
        before = head.key;
    }
    let mut columns = &batch.columns[..];
    for head in batch.heads.iter().filter(|head| !head.dense) {
        let (these, rest) = columns.split_at(head.values as usize);
        write_gaps(these.iter().map(|column| u64::from(*column)), &mut bytes);
        columns = rest;
    }
    W::write(others, &mut bytes);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    let values = batch.values.into_wire(&mut bytes);
    Payload::from_parts([bytes.into(), values])
}

/// How long a message becomes when rows and other numbers are appended.
fn with_batch<T: Cell, W: Cell>(front: usize, batch: &Batch<T>, others: &[W]) -> usize {
    let values = size_of_val(&batch.values[..]);
    (front + batch_bytes(batch) - values + size_of_val(others)).next_multiple_of(ALIGNMENT) + values
}

fn batch_bytes<T: Cell>(batch: &Batch<T>) -> usize {
    let (mut bytes, mut before, mut columns) = (size_of_val(&batch.values[..]), 0, &batch.columns[..]);
    for head in &batch.heads {
        bytes += number_bytes(folded(head.key.wrapping_sub(before))) + number_bytes(head.version);
        bytes += number_bytes(u64::from(head.values) << 1 | 1);
        before = head.key;
        if !head.dense {
            let (these, rest) = columns.split_at(head.values as usize);
            let mut last = 0;
            for column in these {
                bytes += number_bytes(folded(u64::from(*column).wrapping_sub(last)));
                last = u64::from(*column);
            }
            columns = rest;
        }
    }
    bytes
}

fn take_front<'a, B: Deserialize<'a>>(all: &'a Bytes, spec: &'a Spec) -> Result<(Front<B>, Reader<'a>)> {
    let (front, bytes) = postcard::take_from_bytes(all)
        .map_err(|error| Error::BadMessage { table: spec.name.clone(), problem: error.to_string() })?;
    Ok((front, Reader { all, bytes, spec }))
}

struct Reader<'a> {
    /// From the start.
    all: &'a Bytes,
    /// What is left.
    bytes: &'a [u8],
    spec: &'a Spec,
}

impl Reader<'_> {
    fn bad(&self, problem: &str) -> Error {
        Error::BadMessage { table: self.spec.name.clone(), problem: problem.to_owned() }
    }

    /// `count`, if so many things of at least `each` bytes can follow.
    fn room(&self, count: u64, each: usize) -> Result<usize> {
        let fits = usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(each).is_some_and(|all| all <= self.bytes.len()));
        fits.ok_or_else(|| self.bad("more is announced than came"))
    }

    fn number(&mut self) -> Result<u64> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let (byte, rest) = self.bytes.split_first().ok_or_else(|| self.bad("it ends in the middle of a number"))?;
            self.bytes = rest;
            let part = u64::from(byte & 0x7f);
            if shift >= 64 || part << shift >> shift != part {
                return Err(self.bad("a number of more than 64 bits"));
            }
            number |= part << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
    }

    fn gaps(&mut self, count: u64) -> Result<Vec<u64>> {
        let mut numbers = Vec::with_capacity(self.room(count, 1)?);
        let mut number = 0_u64;
        for _ in 0..count {
            number = number.wrapping_add(unfolded(self.number()?));
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn numbers<T: Cell>(&mut self, count: u64) -> Result<Vec<T>> {
        let length = self.room(count, T::BYTES)? * T::BYTES;
        let (these, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(these.chunks_exact(T::BYTES).map(T::read).collect())
    }

    /// Rows, and so many other numbers.
    fn batch<T: Cell, W: Cell>(&mut self, rows: u64, others: u64) -> Result<(Batch<T>, Vec<W>)> {
        let mut heads = Vec::with_capacity(self.room(rows, 3)?);
        let (mut key, mut values) = (0_u64, 0_u64);
        for _ in 0..rows {
            key = key.wrapping_add(unfolded(self.number()?));
            let (version, length) = (self.number()?, self.number()?);
            let cells = u32::try_from(length >> 1).map_err(|_| self.bad("a row of more than 2^32 - 1 cells"))?;
            values += u64::from(cells);
            heads.push(Head { key, version, dense: length & 1 == 1, values: cells });
        }
        let mut columns = Vec::new();
        for head in heads.iter().filter(|head| !head.dense) {
            for column in self.gaps(u64::from(head.values))? {
                columns.push(u32::try_from(column).map_err(|_| self.bad("a column of more than 32 bits"))?);
            }
        }
        let others = self.numbers(others)?;
        let at = self.all.len() - self.bytes.len();
        let gap = at.next_multiple_of(ALIGNMENT) - at;
        self.room(1, gap)?;
        self.bytes = &self.bytes[gap..];
        let length = self.room(values, T::BYTES)? * T::BYTES;
        self.bytes = &self.bytes[length..];
        let values = Values::from_wire(self.all.slice(at + gap..at + gap + length));
        Ok((Batch { heads, columns, values }, others))
    }

    fn end(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.bad("more came than was announced")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Cells;
    use crate::spec::Ids;
    use half::bf16;
    use proptest::prelude::*;

    fn spec() -> Spec {
        Spec::new("t", Ids::Growing, 3)
    }

    fn batches<T: Cell>(make: fn(i16) -> T) -> impl Strategy<Value = Batch<T>> {
        let row = (
            any::<u64>(),
            any::<u64>(),
            prop::option::of(prop::collection::btree_set(any::<u32>(), 0..5)),
            any::<[i16; 5]>(),
        );
        prop::collection::vec(row, 0..6).prop_map(move |rows| {
            let mut batch = Batch::new();
            for (key, version, columns, values) in rows {
                let values = values.map(make);
                match columns {
                    None => batch.push(key, version, &Cells::Dense(&values)),
                    Some(columns) => {
                        let columns: Vec<u32> = columns.into_iter().collect();
                        batch.push(
                            key,
                            version,
                            &Cells::Sparse { columns: &columns, values: &values[..columns.len()] },
                        );
                    }
                }
            }
            batch
        })
    }

    fn to_shard() -> impl Strategy<Value = ToShard<f32>> {
        let clock = || any::<u64>().prop_map(Clock::new);
        let keys = || prop::collection::vec(any::<u64>(), 0..8);
        prop_oneof![
            (clock(), keys()).prop_map(|(need, keys)| ToShard::Get { need, keys }),
            (clock(), batches(f32::from), prop::collection::vec(any::<i16>(), 0..8)).prop_map(
                |(clock, batch, carried)| ToShard::Update {
                    clock,
                    batch,
                    carried: carried.into_iter().map(f32::from).collect()
                }
            ),
            clock().prop_map(ToShard::Clock),
            keys().prop_map(|keys| ToShard::Forget { keys }),
            keys().prop_map(|keys| ToShard::Intend { keys }),
            keys().prop_map(|keys| ToShard::Return { keys }),
            prop::collection::vec(any::<(u64, u64, u32)>(), 0..5).prop_map(|copies| ToShard::Release { copies }),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_the_journey(
            number in any::<u64>(), acknowledged in any::<u64>(), body in prop::option::of(to_shard()),
            batch in batches(|value| bf16::from_f32(value.into())), numbers in any::<[u64; 2]>(), reply in any::<bool>(),
        ) {
            let envelope = Envelope { number, acknowledged, body };
            let bytes = encode_to_shard(&[], envelope.clone()).into_bytes();
            prop_assert_eq!(decode_to_shard(&bytes, &spec()).unwrap(), envelope.clone());
            prop_assert_eq!(shard_bytes(&envelope), bytes.len());
            // What stands before a message changes nothing in it.
            let behind = encode_to_shard(&[7; ALIGNMENT], envelope.clone()).into_bytes();
            prop_assert_eq!(&behind[ALIGNMENT..], &bytes[..]);
            if let Some(ToShard::Update { clock, batch, carried }) = &envelope.body {
                prop_assert_eq!(update_bytes(number, acknowledged, *clock, batch, carried), bytes.len());
                let bound: usize = batch.iter().map(|row| Batch::row_bytes(&row.cells)).sum();
                prop_assert!(bytes.len() <= ROWS_HEAD_BYTES + bound + carried.len() * 4);
            }
            let state = vec![0.5_f32; numbers[0] as usize % 9];
            prop_assert_eq!(decode_rows(&encode_rows(batch.clone(), &state).into(), &spec()).unwrap(), (batch.clone(), state));
            let [fresh, included] = numbers;
            let body = Some(ToClient::Rows { fresh: Clock::new(fresh), included, reply, batch, carried: vec![1.0, 2.0] });
            let envelope = Envelope { number, acknowledged, body };
            let bytes = encode_to_client::<bf16>(&[], envelope.clone()).into_bytes();
            prop_assert_eq!(client_bytes(&envelope), bytes.len());
            prop_assert_eq!(decode_to_client(&bytes, &spec()).unwrap(), envelope);
        }

        #[test]
        fn foreign_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(bytes);
            let _ = decode_to_shard::<f32>(&bytes, &spec());
            let _ = decode_to_client::<bf16>(&bytes, &spec());
            let _ = decode_rows::<f64>(&bytes, &spec());
        }

        #[test]
        fn damaged_messages_are_understood_or_refused(body in to_shard(), changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4), cut in any::<usize>()) {
            let mut bytes = encode_to_shard(&[], Envelope { number: 1, acknowledged: 0, body: Some(body) }).into_bytes().to_vec();
            for (at, byte) in changes {
                let length = bytes.len();
                bytes[at % length] = byte;
            }
            bytes.truncate(cut % (bytes.len() + 1));
            let bytes = Bytes::from(bytes);
            if let Ok(Envelope { body: Some(ToShard::Update { batch, .. }), .. }) = decode_to_shard::<f32>(&bytes, &spec()) {
                prop_assert_eq!(batch.iter().count(), batch.len());
                prop_assert!(batch.values.len() * 4 <= bytes.len() && batch.heads.capacity() <= bytes.len());
            }
        }
    }

    #[test]
    fn lengths_are_checked_before_memory_is_taken() {
        let body = Some(ShardBody::Get { need: Clock::ZERO, keys: u64::MAX });
        assert!(decode_to_shard::<f32>(&front(&[], 1, 0, body).into(), &spec()).is_err());
        let body = Some(ShardBody::Update { clock: Clock::ZERO, rows: 1 << 60, carried: 0 });
        assert!(decode_to_shard::<f32>(&front(&[], 1, 0, body).into(), &spec()).is_err());
        let mut bytes = front(&[], 1, 0, Some(ShardBody::Update { clock: Clock::ZERO, rows: 1, carried: 0 }));
        for number in [folded(5), 0, u64::from(u32::MAX) << 1 | 1] {
            write_number(number, &mut bytes);
        }
        assert!(decode_to_shard::<f32>(&bytes.into(), &spec()).is_err());
    }
}
