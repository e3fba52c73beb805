//! Sending entries to the peer that holds their block.
//!
//! Each worker deals its pieces out to blocks; blocks of other peers travel as columns in messages of at most
//! [`MESSAGE_BYTES`]. All peers go through the same rounds: in each, one message to every other peer and one from each, so
//! that nobody sends faster than the others take and nothing waits in a circle. **Invariant:** a block receives its
//! entries in the order of the source: from the lowest rank first, and in the order each peer read them.

use crate::dist::agree::agree;
use crate::dist::element::Element;
use crate::dist::partition::Layout;
use crate::dist::place::in_parallel;
use crate::sparse::{KeyColumn, SparseBuilder};
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_cluster::{Cluster, Reason};
use hemiola_core::{Lane, Outgoing, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// Top byte of the channels that belong to arrays.
const OWNER: u8 = 3;
/// Largest message of a shuffle: well under what a lane queues, so that sending never waits for the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

/// What stands in front of the columns of a message.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// The block, counted over the whole array.
    block: usize,
    count: usize,
    /// By dimension: whether keys have 32 bits.
    narrow: Vec<bool>,
    /// The last message of this sender.
    last: bool,
}

/// *Collective.* Moves entries to the peers that hold them; the builders of this peer's blocks, in block order.
pub(crate) fn send_home<T: Element, const N: usize>(
    cluster: &Cluster,
    pieces: Vec<SparseBuilder<T, N>>,
    layout: &Layout,
) -> hemiola_cluster::Result<Vec<SparseBuilder<T, N>>> {
    let blocks = layout.parts() * layout.blocks_per_part();
    if blocks == 1 {
        let mut whole = SparseBuilder::new();
        for piece in pieces {
            whole.append(piece);
        }
        return Ok(vec![whole]);
    }
    let scattered = in_parallel(cluster, pieces, |piece| Ok(piece.scatter(blocks, |key| layout.block_of(key))))??;
    let mut dealt: Vec<SparseBuilder<T, N>> = (0..blocks).map(|_| SparseBuilder::new()).collect();
    for piece in scattered {
        dealt.iter_mut().zip(piece).for_each(|(block, part)| block.append(part));
    }
    if cluster.size() == 1 {
        return Ok(dealt);
    }
    let mut dealt: Vec<Option<SparseBuilder<T, N>>> = dealt.into_iter().map(Some).collect();
    let per_part = layout.blocks_per_part();
    let blocks_of = |peer: Rank| {
        let parts = layout.parts_of(peer);
        parts.start * per_part..parts.end * per_part
    };
    let mut outgoing: Vec<Outbox<T, N>> = Rank::all(cluster.size())
        .map(|peer| {
            let blocks = if peer == cluster.rank() { 0..0 } else { blocks_of(peer) };
            let queue = blocks.filter_map(|block| dealt[block].take().map(|builder| (block, builder))).collect();
            Outbox { queue, current: None, done: false }
        })
        .collect();
    let mine = blocks_of(cluster.rank());
    let received = exchange(cluster, &mut outgoing, mine.clone())?;
    // In rank order, this peer's own entries in their turn.
    let mut homes: Vec<SparseBuilder<T, N>> = mine.clone().map(|_| SparseBuilder::new()).collect();
    for (peer, blocks) in Rank::all(cluster.size()).zip(received) {
        if peer == cluster.rank() {
            homes
                .iter_mut()
                .zip(mine.clone())
                .for_each(|(home, block)| home.append(dealt[block].take().unwrap_or_default()));
        } else {
            homes.iter_mut().zip(blocks).for_each(|(home, builder)| home.append(builder));
        }
    }
    Ok(homes)
}

/// What still has to go to one peer.
struct Outbox<T, const N: usize> {
    queue: VecDeque<(usize, SparseBuilder<T, N>)>,
    /// The block that is being sent, as messages.
    current: Option<VecDeque<Bytes>>,
    done: bool,
}

impl<T: Element, const N: usize> Outbox<T, N> {
    /// The next message; the last one says so.
    fn next(&mut self) -> Bytes {
        loop {
            if let Some(message) = self.current.as_mut().and_then(VecDeque::pop_front) {
                return message;
            }
            let Some((block, builder)) = self.queue.pop_front() else {
                self.done = true;
                return encoded(&Head { block: 0, count: 0, narrow: Vec::new(), last: true }).into();
            };
            self.current = Some(messages(block, &builder));
        }
    }
}

/// A block as messages, chunk by chunk.
fn messages<T: Element, const N: usize>(block: usize, builder: &SparseBuilder<T, N>) -> VecDeque<Bytes> {
    let per_message = (MESSAGE_BYTES / (size_of::<T>() + 8 * N).max(1)).max(1);
    let mut messages = VecDeque::new();
    for (keys, values) in builder.columns() {
        for start in (0..values.len()).step_by(per_message) {
            let end = (start + per_message).min(values.len());
            let narrow = keys.iter().map(|column| column.as_narrow().is_some()).collect();
            let head = Head { block, count: end - start, narrow, last: false };
            let mut bytes = encoded(&head);
            for column in keys {
                pack(column, start..end, &mut bytes);
            }
            T::pack(&values[start..end], &mut bytes);
            messages.push_back(bytes.into());
        }
    }
    messages
}

fn pack(column: &KeyColumn, positions: Range<usize>, bytes: &mut Vec<u8>) {
    match (column.as_narrow(), column.as_wide()) {
        (Some(keys), _) => u32::pack(&keys[positions], bytes),
        (_, Some(keys)) => u64::pack(&keys[positions], bytes),
        _ => unreachable!("a column is narrow or wide"),
    }
}

fn encoded(head: &Head) -> Vec<u8> {
    postcard::to_stdvec(head).expect("a head is plain data")
}

/// Rounds until every peer has sent everything; what came, by sender and block of this peer.
fn exchange<T: Element, const N: usize>(
    cluster: &Cluster,
    outgoing: &mut [Outbox<T, N>],
    mine: Range<usize>,
) -> hemiola_cluster::Result<Vec<Vec<SparseBuilder<T, N>>>> {
    let channel = cluster.next_channel(OWNER);
    let mailbox = cluster.open(channel, Lane::Bulk);
    let size = cluster.size();
    let me = cluster.rank().index();
    let mut received: Vec<Vec<SparseBuilder<T, N>>> =
        (0..size).map(|_| mine.clone().map(|_| SparseBuilder::new()).collect()).collect();
    let mut ended = vec![false; size];
    ended[me] = true;
    let mut problem = Ok(());
    while ended.iter().any(|ended| !ended)
        || outgoing.iter().enumerate().any(|(peer, outbox)| peer != me && !outbox.done)
    {
        for step in 1..size {
            let to = (me + step) % size;
            if !outgoing[to].done {
                let payload = outgoing[to].next().into();
                let message = Outgoing { lane: Lane::Bulk, channel, purpose: Purpose::Shuffle, payload };
                cluster.send(Rank::new(to as u32), message)?;
            }
            let from = (me + size - step) % size;
            if !ended[from] {
                let peer = Rank::new(from as u32);
                let reason = Reason { what: "entries of a shuffle", number: None, site: None };
                let message = cluster.receive(&mailbox, peer, Waiter::Driver, reason)?;
                // A bad message is remembered and the rounds go on, so that all peers come out of them together.
                match take_in(&message.payload, &mine, &mut received[from]) {
                    Ok(last) => ended[from] = last,
                    Err(error) => problem = problem.and(Err(error)),
                }
            }
        }
    }
    agree(cluster, problem)?;
    Ok(received)
}

/// Adds the entries of a message; says whether it was the sender's last.
fn take_in<T: Element, const N: usize>(
    message: &[u8],
    mine: &Range<usize>,
    blocks: &mut [SparseBuilder<T, N>],
) -> Result<bool> {
    let bad = |problem: &str| Error::BadMessage { problem: problem.to_owned() };
    let (head, mut rest) =
        postcard::take_from_bytes::<Head>(message).map_err(|error| Error::BadMessage { problem: error.to_string() })?;
    if head.last {
        return Ok(true);
    }
    if !mine.contains(&head.block) || head.narrow.len() != N {
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
    blocks[head.block - mine.start].push_columns(keys, T::unpack(rest, head.count)?);
    Ok(false)
}
