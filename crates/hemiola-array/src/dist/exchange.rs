//! Every peer sends entries to every other: the part of a shuffle that uses the network.
//!
//! A chunk of a builder is a message: a small head, then its columns as they lie in memory, which are handed to the
//! transport without being copied and freed when they are written. All peers go through the same rounds: in each, one
//! message to every other peer and one from each, so that nobody sends faster than the others take and nothing waits in a
//! circle. **Invariant:** builders arrive with their entries in the order they were sent.

use crate::dist::agree::agree;
use crate::dist::element::Element;
use crate::sparse::{KeyColumn, SparseBuilder};
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_cluster::{Cluster, Reason};
use hemiola_core::{Lane, Outgoing, Payload, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};

/// Top byte of the channels that belong to arrays.
const OWNER: u8 = 3;
/// Largest message: well under what a lane queues, so that sending never waits for the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

/// What stands in front of the columns of a message.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Which of the builders sent to this peer.
    builder: usize,
    count: usize,
    /// By dimension: whether keys have 32 bits.
    narrow: Vec<bool>,
    /// The last message of this sender.
    last: bool,
}

/// *Collective.* Sends the builders of `outgoing[p]` to peer `p`. Every peer expects `expected` builders from each peer,
/// empty ones included; what each has sent comes back by sender. What a peer has for itself comes back as it is.
///
/// ```
/// use hemiola_array::dist::exchange;
/// use hemiola_array::sparse::SparseBuilder;
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let greeting = |to: u64| {
///         let mut builder = SparseBuilder::new();
///         builder.push([cluster.rank().index() as u64, to], 1.0_f32);
///         vec![builder]
///     };
///     let came = exchange(cluster, (0..3).map(greeting).collect(), 1)?;
///     let from: Vec<u64> = came.iter().flat_map(|builders| builders[0].iter().map(|([from, _], _)| from)).collect();
///     assert_eq!(from, [0, 1, 2]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
///
/// # Panics
/// If there is not one list of builders for every peer.
pub fn exchange<T: Element, const N: usize>(
    cluster: &Cluster,
    mut outgoing: Vec<Vec<SparseBuilder<T, N>>>,
    expected: usize,
) -> hemiola_cluster::Result<Vec<Vec<SparseBuilder<T, N>>>> {
    assert_eq!(outgoing.len(), cluster.size(), "one list of builders for every peer");
    let channel = cluster.next_channel(OWNER);
    let mailbox = cluster.open(channel, Lane::Bulk);
    let size = cluster.size();
    let me = cluster.rank().index();
    let mut received: Vec<Vec<SparseBuilder<T, N>>> =
        (0..size).map(|_| (0..expected).map(|_| SparseBuilder::new()).collect()).collect();
    received[me] = std::mem::take(&mut outgoing[me]);
    let mut outgoing: Vec<_> = outgoing.into_iter().map(|builders| Some(messages(builders))).collect();
    outgoing[me] = None;
    let mut ended = vec![false; size];
    ended[me] = true;
    let mut problem = Ok(());
    while ended.iter().any(|ended| !ended) || outgoing.iter().any(Option::is_some) {
        for step in 1..size {
            let to = (me + step) % size;
            if let Some(messages) = &mut outgoing[to] {
                let payload = messages.next().unwrap_or_else(|| {
                    outgoing[to] = None;
                    encoded(&Head { builder: 0, count: 0, narrow: Vec::new(), last: true }).into()
                });
                let message = Outgoing { lane: Lane::Bulk, channel, purpose: Purpose::Shuffle, payload };
                cluster.send(Rank::new(to as u32), message)?;
            }
            let from = (me + size - step) % size;
            if !ended[from] {
                let peer = Rank::new(from as u32);
                let reason = Reason { what: "entries of a shuffle", number: None, site: None };
                let message = cluster.receive(&mailbox, peer, Waiter::Driver, reason)?;
                // A bad message is remembered and the rounds go on, so that all peers come out of them together.
                match take_in(&message.payload, &mut received[from]) {
                    Ok(last) => ended[from] = last,
                    Err(error) => problem = problem.and(Err(error)),
                }
            }
        }
    }
    agree(cluster, problem)?;
    Ok(received)
}

/// The builders as messages, made when they are asked for.
fn messages<T: Element, const N: usize>(builders: Vec<SparseBuilder<T, N>>) -> impl Iterator<Item = Payload> {
    let per_message = (MESSAGE_BYTES / (size_of::<T>() + 8 * N).max(1)).max(1);
    builders.into_iter().enumerate().flat_map(move |(builder, entries)| {
        entries.into_columns().flat_map(move |(keys, values)| {
            let head = |count| {
                let narrow = keys.iter().map(|column| column.as_narrow().is_some()).collect();
                encoded(&Head { builder, count, narrow, last: false })
            };
            if values.len() <= per_message {
                let head = head(values.len());
                let columns = keys.into_iter().map(column_bytes);
                let parts = std::iter::once(head).chain(columns).chain([T::into_bytes(values)]);
                return vec![Payload::from_parts(parts)];
            }
            // Larger than any chunk that was dealt out: it came as columns of its own.
            let starts = (0..values.len()).step_by(per_message);
            let piece = |start: usize| {
                let end = (start + per_message).min(values.len());
                let part = |column: &KeyColumn| match column {
                    KeyColumn::Narrow(keys) => column_bytes(KeyColumn::Narrow(keys[start..end].to_vec())),
                    KeyColumn::Wide(keys) => column_bytes(KeyColumn::Wide(keys[start..end].to_vec())),
                };
                let parts = std::iter::once(head(end - start)).chain(keys.iter().map(part));
                Payload::from_parts(parts.chain([T::into_bytes(values[start..end].to_vec())]))
            };
            starts.map(piece).collect()
        })
    })
}

fn column_bytes(column: KeyColumn) -> Bytes {
    match column {
        KeyColumn::Narrow(keys) => u32::into_bytes(keys),
        KeyColumn::Wide(keys) => u64::into_bytes(keys),
    }
}

fn encoded(head: &Head) -> Bytes {
    postcard::to_stdvec(head).expect("a head is plain data").into()
}

/// Adds the entries of a message; says whether it was the sender's last.
fn take_in<T: Element, const N: usize>(message: &[u8], builders: &mut [SparseBuilder<T, N>]) -> Result<bool> {
    let bad = |problem: &str| Error::BadMessage { problem: problem.to_owned() };
    let (head, mut rest) =
        postcard::take_from_bytes::<Head>(message).map_err(|error| Error::BadMessage { problem: error.to_string() })?;
    if head.last {
        return Ok(true);
    }
    if head.builder >= builders.len() || head.narrow.len() != N {
        return Err(bad("entries for a block that is not here"));
    }
    let mut keys = Vec::with_capacity(N);
    for narrow in head.narrow {
        let bytes = head.count.checked_mul(if narrow { 4 } else { 8 }).ok_or_else(|| bad("too many keys"))?;
        let column = rest.split_at_checked(bytes).ok_or_else(|| bad("keys are missing"))?;
        rest = column.1;
        keys.push(if narrow {
            KeyColumn::Narrow(u32::unpack(column.0, head.count)?)
        } else {
            KeyColumn::Wide(u64::unpack(column.0, head.count)?)
        });
    }
    let keys: [KeyColumn; N] = keys.try_into().map_err(|_| bad("keys are missing"))?;
    builders[head.builder].push_columns(keys, T::unpack(rest, head.count)?);
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
        let mut came = vec![SparseBuilder::<T, 2>::new(), SparseBuilder::new()];
        for message in messages(vec![SparseBuilder::new(), builder]) {
            assert!(message.len() <= MESSAGE_BYTES + 64);
            assert!(!take_in(&joined(message), &mut came).unwrap());
        }
        assert!(came[0].is_empty());
        let expected = entries.iter().zip(0_u64..).map(|(entry, number)| ([number, number << 33], entry));
        assert!(came[1].iter().eq(expected));
    }

    #[test]
    fn columns_of_any_length_arrive_as_they_were() {
        round_trip::<f64>(&[]);
        round_trip(&[1.5_f32, -0.0]);
        round_trip(&(0..1_000_000_u32).map(|number| number as u16).collect::<Vec<_>>());
        round_trip(&(0..300_000_u64).collect::<Vec<_>>());
        round_trip(&["a".to_owned(), String::new()]);
        round_trip(&[(); 5]);
    }

    #[test]
    fn foreign_bytes_are_an_error_and_no_panic() {
        let mut builder = SparseBuilder::new();
        builder.push([1, 2], 3.0_f32);
        let message = joined(messages(vec![builder]).next().unwrap());
        let mut came = vec![SparseBuilder::<f32, 2>::new()];
        for end in 0..message.len() {
            assert!(take_in(&message[..end], &mut came).is_err(), "cut at {end}");
        }
        let elsewhere = encoded(&Head { builder: 1, count: 0, narrow: vec![true, true], last: false });
        assert!(take_in(&elsewhere, &mut came).is_err());
        let endless = encoded(&Head { builder: 0, count: usize::MAX, narrow: vec![true, false], last: false });
        assert!(take_in(&endless, &mut came).is_err());
        assert!(came[0].is_empty());
    }
}
