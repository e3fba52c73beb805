//! Shuffle: every peer sends entries to every other peer.
//!
//! A chunk of a builder is one message: a small header, then its columns as they lie in memory. The
//! columns are passed to the transport without a copy and freed after they are written. All peers
//! run in lock-step rounds: one message to every other peer and one from each. No sender can outrun
//! its receivers, and there is no circular wait. **Invariant:** builders arrive with their entries
//! in the order they were sent.

use crate::dist::agree::agree;
use crate::dist::element::Element;
use crate::sparse::{KeyColumn, SparseBuilder};
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_cluster::{Cluster, WaitReason};
use hemiola_core::{ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};

/// Maximum message size in bytes: well below the send queue of a lane, so that sending never blocks
/// on the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

/// Header in front of the columns of a message.
#[derive(Debug, Serialize, Deserialize)]
struct ShuffleHeader {
    /// Index among the builders for this receiver.
    builder: usize,
    count: usize,
    /// True for each dimension whose keys have 32 bits.
    narrow: Vec<bool>,
    /// Marks the last message of this sender, which has no entries.
    last: bool,
}

/// *Collective.* Sends the builders of `outgoing[p]` to peer `p`. Every peer expects `expected`
/// builders from each peer, empty ones included. Returns the received builders by sender. Builders
/// for the own rank are returned unchanged.
///
/// ```
/// use hemiola_array::dist::shuffle;
/// use hemiola_array::sparse::SparseBuilder;
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let greeting = |to: usize| {
///         let mut builder = SparseBuilder::new();
///         builder.push([cluster.rank().index(), to], 1.0_f32);
///         vec![builder]
///     };
///     let received = shuffle(cluster, (0..3).map(greeting).collect(), 1)?;
///     let senders = received.iter().flat_map(|builders| builders[0].iter().map(|([from, _], _)| from));
///     let from: Vec<usize> = senders.collect();
///     assert_eq!(from, [0, 1, 2]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
///
/// # Panics
/// Panics if `outgoing` does not have one list of builders per peer.
pub fn shuffle<T: Element, const N: usize>(
    cluster: &Cluster,
    mut outgoing: Vec<Vec<SparseBuilder<T, N>>>,
    expected: usize,
) -> hemiola_cluster::Result<Vec<Vec<SparseBuilder<T, N>>>> {
    assert_eq!(outgoing.len(), cluster.size(), "outgoing must have one list of builders per peer");
    let channel = cluster.next_channel(ChannelOwner::ArrayShuffle);
    let receiver = cluster.open_channel(channel, Lane::Bulk);
    let size = cluster.size();
    let me = cluster.rank().index();
    let mut received: Vec<Vec<SparseBuilder<T, N>>> =
        (0..size).map(|_| (0..expected).map(|_| SparseBuilder::new()).collect()).collect();
    received[me] = std::mem::take(&mut outgoing[me]);
    let mut outgoing: Vec<_> = outgoing.into_iter().map(|builders| Some(messages(builders))).collect();
    outgoing[me] = None;
    let mut finished = vec![false; size];
    finished[me] = true;
    let mut problem = Ok(());
    while finished.iter().any(|finished| !finished) || outgoing.iter().any(Option::is_some) {
        for step in 1..size {
            let to = (me + step) % size;
            if let Some(messages) = &mut outgoing[to] {
                let payload = messages.next().unwrap_or_else(|| {
                    outgoing[to] = None;
                    encode_header(&ShuffleHeader { builder: 0, count: 0, narrow: Vec::new(), last: true }).into()
                });
                let message = OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Shuffle, payload };
                cluster.send(Rank::new(to as u32), message)?;
            }
            let from = (me + size - step) % size;
            if !finished[from] {
                let peer = Rank::new(from as u32);
                let reason = WaitReason { operation: "entries of a shuffle", number: None, site: None };
                let message = cluster.receive(&receiver, peer, Waiter::Driver, reason)?;
                // A bad message is recorded and the rounds continue, so that all peers leave them
                // together.
                match receive_entries(&message.payload, &mut received[from]) {
                    Ok(last) => finished[from] = last,
                    Err(error) => problem = problem.and(Err(error)),
                }
            }
        }
    }
    agree(cluster, problem)?;
    Ok(received)
}

/// Encodes builders as messages, lazily.
fn messages<T: Element, const N: usize>(builders: Vec<SparseBuilder<T, N>>) -> impl Iterator<Item = Payload> {
    let per_message = (MESSAGE_BYTES / (size_of::<T>() + 8 * N).max(1)).max(1);
    builders.into_iter().enumerate().flat_map(move |(builder, entries)| {
        entries.into_columns().flat_map(move |(keys, values)| {
            let header = |count| {
                let narrow = keys.iter().map(|column| column.as_narrow().is_some()).collect();
                encode_header(&ShuffleHeader { builder, count, narrow, last: false })
            };
            if values.len() <= per_message {
                let header = header(values.len());
                let columns = keys.into_iter().map(column_bytes);
                let parts = std::iter::once(header).chain(columns).chain([T::into_bytes(values)]);
                return vec![Payload::from_parts(parts)];
            }
            // Larger than any chunk of a shuffle: it was pushed as columns.
            let starts = (0..values.len()).step_by(per_message);
            let slice = |start: usize| {
                let end = (start + per_message).min(values.len());
                let part = |column: &KeyColumn| match column {
                    KeyColumn::Narrow(keys) => column_bytes(KeyColumn::Narrow(keys[start..end].to_vec())),
                    KeyColumn::Wide(keys) => column_bytes(KeyColumn::Wide(keys[start..end].to_vec())),
                };
                let parts = std::iter::once(header(end - start)).chain(keys.iter().map(part));
                Payload::from_parts(parts.chain([T::into_bytes(values[start..end].to_vec())]))
            };
            starts.map(slice).collect()
        })
    })
}

fn column_bytes(column: KeyColumn) -> Bytes {
    match column {
        KeyColumn::Narrow(keys) => u32::into_bytes(keys),
        KeyColumn::Wide(keys) => u64::into_bytes(keys),
    }
}

fn encode_header(header: &ShuffleHeader) -> Bytes {
    postcard::to_stdvec(header).expect("a header is plain data").into()
}

/// Appends the entries of a message. Returns true for the last message of the sender.
fn receive_entries<T: Element, const N: usize>(message: &[u8], builders: &mut [SparseBuilder<T, N>]) -> Result<bool> {
    let bad = |problem: &str| Error::BadMessage { problem: problem.to_owned() };
    let (header, mut rest) = postcard::take_from_bytes::<ShuffleHeader>(message)
        .map_err(|error| Error::BadMessage { problem: error.to_string() })?;
    if header.last {
        return Ok(true);
    }
    if header.builder >= builders.len() || header.narrow.len() != N {
        return Err(bad("entries for an unknown block"));
    }
    let mut keys = Vec::with_capacity(N);
    for narrow in header.narrow {
        let bytes = header.count.checked_mul(if narrow { 4 } else { 8 }).ok_or_else(|| bad("too many keys"))?;
        let column = rest.split_at_checked(bytes).ok_or_else(|| bad("keys are missing"))?;
        rest = column.1;
        keys.push(if narrow {
            KeyColumn::Narrow(u32::unpack(column.0, header.count)?)
        } else {
            KeyColumn::Wide(u64::unpack(column.0, header.count)?)
        });
    }
    let keys: [KeyColumn; N] = keys.try_into().map_err(|_| bad("keys are missing"))?;
    builders[header.builder].push_columns(keys, T::unpack(rest, header.count)?);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(payload: Payload) -> Bytes {
        payload.into_bytes()
    }

    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(entries: &[T]) {
        let mut builder = SparseBuilder::new();
        let keys = (0..entries.len() as u32).collect::<Vec<_>>();
        let wide = keys.iter().map(|&key| u64::from(key) << 33).collect();
        builder.push_columns([KeyColumn::Narrow(keys), KeyColumn::Wide(wide)], entries.to_vec());
        let mut received = vec![SparseBuilder::<T, 2>::new(), SparseBuilder::new()];
        for message in messages(vec![SparseBuilder::new(), builder]) {
            assert!(message.len() <= MESSAGE_BYTES + 64);
            assert!(!receive_entries(&joined(message), &mut received).unwrap());
        }
        assert!(received[0].is_empty());
        let expected = entries.iter().zip(0_usize..).map(|(entry, number)| ([number, number << 33], entry));
        assert!(received[1].iter().eq(expected));
    }

    #[test]
    fn columns_of_any_length_round_trip() {
        round_trip::<f64>(&[]);
        round_trip(&[1.5_f32, -0.0]);
        round_trip(&(0..1_000_000_u32).map(|number| number as u16).collect::<Vec<_>>());
        round_trip(&(0..300_000_u64).collect::<Vec<_>>());
        round_trip(&["a".to_owned(), String::new()]);
        round_trip(&[(); 5]);
    }

    #[test]
    fn malformed_bytes_are_an_error_and_no_panic() {
        let mut builder = SparseBuilder::new();
        builder.push([1, 2], 3.0_f32);
        let message = joined(messages(vec![builder]).next().unwrap());
        let mut received = vec![SparseBuilder::<f32, 2>::new()];
        for end in 0..message.len() {
            assert!(receive_entries(&message[..end], &mut received).is_err(), "truncated at {end}");
        }
        let elsewhere = encode_header(&ShuffleHeader { builder: 1, count: 0, narrow: vec![true, true], last: false });
        assert!(receive_entries(&elsewhere, &mut received).is_err());
        let endless =
            encode_header(&ShuffleHeader { builder: 0, count: usize::MAX, narrow: vec![true, false], last: false });
        assert!(receive_entries(&endless, &mut received).is_err());
        assert!(received[0].is_empty());
    }
}
