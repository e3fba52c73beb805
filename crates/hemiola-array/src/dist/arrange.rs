//! Moving the rows of dense arrays to where a loop needs them.
//!
//! *Rows* here are indices of the first dimension. Every peer says which ranges of rows each peer wants; whoever holds some
//! of them sends them. All peers go through the same rounds: in each, one message to every other peer and one from each, so
//! that nobody sends faster than the others take and nothing waits in a circle.

use crate::dist::agree::agree;
use crate::dist::array::DenseBlock;
use crate::dist::element::Element;
use crate::dist::partition::Layout;
use crate::{Dense, Error, Result, Shape};
use hemiola_cluster::{Cluster, Reason};
use hemiola_core::{Lane, Outgoing, Payload, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// Top byte of the channels that belong to arrays.
const OWNER: u8 = 3;
/// Cells of a message, in bytes: well under what a lane queues, so that sending never waits for the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

/// What stands in front of the cells of a message; a message without one is its sender's last.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Which of the receiver's ranges.
    want: usize,
    rows: Range<u64>,
}

/// *Collective.* The rows each peer wants, from the peers that hold them: one array per range this peer wants. `wants` is
/// by peer, and the same on all. Every row is held by one peer.
pub(crate) fn fetch<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    wants: &[Vec<Range<u64>>],
) -> hemiola_cluster::Result<Vec<Dense<T, N>>> {
    let me = cluster.rank().index();
    let mut pieces: Vec<Vec<Piece<T>>> = wants[me].iter().map(|_| Vec::new()).collect();
    if cluster.size() > 1 {
        exchange(cluster, shape, blocks, wants, &mut pieces)?;
    }
    let built = wants[me].iter().zip(pieces).map(|(rows, pieces)| joined(shape, rows, blocks, &pieces)).collect();
    agree(cluster, built)
}

/// *Collective.* The cells of a dense array as another division has them: ranges of the first dimension.
pub(crate) fn cut_again<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    layout: &Layout,
) -> hemiola_cluster::Result<Vec<DenseBlock<T, N>>> {
    let range = |part| layout.space.cut.range(part).unwrap_or(0..0);
    let wants: Vec<Vec<Range<u64>>> =
        Rank::all(cluster.size()).map(|peer| layout.parts_of(peer).map(range).collect()).collect();
    let parts = fetch(cluster, shape, blocks, &wants)?;
    let mine = &wants[cluster.rank().index()];
    Ok(parts.into_iter().zip(mine).map(|(cells, rows)| DenseBlock { first: rows.start, cells }).collect())
}

/// Some rows and their cells.
type Piece<T> = (Range<u64>, Vec<T>);

/// The blocks that hold some of `rows`, with those rows.
fn common_rows<'a, T, const N: usize>(
    blocks: &'a [DenseBlock<T, N>],
    rows: &'a Range<u64>,
) -> impl Iterator<Item = (&'a DenseBlock<T, N>, Range<u64>)> {
    blocks.iter().filter_map(move |block| {
        let end = block.first + block.cells.shape().extent(0);
        let common = rows.start.max(block.first)..rows.end.min(end);
        (!common.is_empty()).then_some((block, common))
    })
}

fn cells<T: Clone, const N: usize>(block: &DenseBlock<T, N>, rows: Range<u64>) -> Vec<T> {
    let per_row = block.cells.shape().extents()[1..].iter().product::<u64>();
    let mut all = Vec::with_capacity(((rows.end - rows.start) * per_row) as usize);
    block.cells.pieces(rows.start - block.first..rows.end - block.first).for_each(|piece| all.extend_from_slice(piece));
    all
}

/// Puts a range of rows together, from what this peer holds of them and what came.
fn joined<T: Element, const N: usize>(
    shape: Shape<N>,
    rows: &Range<u64>,
    blocks: &[DenseBlock<T, N>],
    came: &[Piece<T>],
) -> Result<Dense<T, N>> {
    let mut extents = shape.extents();
    extents[0] = rows.end - rows.start;
    let part = Shape::new(extents);
    let own: u64 = common_rows(blocks, rows).map(|(_, common)| common.end - common.start).sum();
    let held = own + came.iter().map(|(rows, _)| rows.end - rows.start).sum::<u64>();
    if held != extents[0] || came.iter().any(|(piece, _)| piece.start < rows.start || piece.end > rows.end) {
        let problem = format!("{held} rows came for rows {rows:?}");
        return Err(Error::BadMessage { problem });
    }
    let first = common_rows(blocks, rows).find_map(|(block, _)| block.cells.rows().flatten().next());
    let Some(first) = first.or_else(|| came.iter().find_map(|(_, cells)| cells.first())) else {
        return Dense::from_values(part, Vec::new());
    };
    let mut dense = Dense::filled(part, first.clone())?;
    for (block, common) in common_rows(blocks, rows) {
        let theirs = block.cells.pieces(common.start - block.first..common.end - block.first);
        let mine = dense.pieces_mut(common.start - rows.start..common.end - rows.start);
        mine.zip(theirs).for_each(|(mine, theirs)| mine.clone_from_slice(theirs));
    }
    for (piece, cells) in came {
        let mut cells = cells.as_slice();
        for mine in dense.pieces_mut(piece.start - rows.start..piece.end - rows.start) {
            let (now, later) = cells.split_at(mine.len());
            mine.clone_from_slice(now);
            cells = later;
        }
    }
    Ok(dense)
}

fn exchange<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    wants: &[Vec<Range<u64>>],
    pieces: &mut [Vec<Piece<T>>],
) -> hemiola_cluster::Result<()> {
    let (me, size) = (cluster.rank().index(), cluster.size());
    let cells_per_row = shape.extents()[1..].iter().product::<u64>();
    let rows_per_message = (MESSAGE_BYTES as u64 / (cells_per_row * size_of::<T>() as u64).max(1)).max(1);
    // Only what will be sent is kept, not its bytes: those are made message by message.
    let mut outgoing: Vec<VecDeque<Head>> = (0..size).map(|_| VecDeque::new()).collect();
    for (peer, queue) in outgoing.iter_mut().enumerate().filter(|(peer, _)| *peer != me) {
        for (want, rows) in wants[peer].iter().enumerate() {
            for (_, common) in common_rows(blocks, rows) {
                for start in common.clone().step_by(rows_per_message as usize) {
                    queue.push_back(Head { want, rows: start..(start + rows_per_message).min(common.end) });
                }
            }
        }
    }
    let channel = cluster.next_channel(OWNER);
    let mailbox = cluster.open(channel, Lane::Bulk);
    let mut told: Vec<bool> = (0..size).map(|peer| peer == me).collect();
    let mut ended = told.clone();
    let mut problem = Ok(());
    while told.iter().chain(&ended).any(|done| !done) {
        for step in 1..size {
            let to = (me + step) % size;
            if !told[to] {
                let next = outgoing[to].pop_front();
                told[to] = next.is_none();
                let payload = next.map_or_else(Payload::empty, |head| message(blocks, &head));
                let message = Outgoing { lane: Lane::Bulk, channel, purpose: Purpose::Shuffle, payload };
                cluster.send(Rank::new(to as u32), message)?;
            }
            let from = (me + size - step) % size;
            if !ended[from] {
                let reason = Reason { what: "rows of an array", number: None, site: None };
                let message = cluster.receive(&mailbox, Rank::new(from as u32), Waiter::Driver, reason)?;
                // A bad message is remembered and the rounds go on, so that all peers come out of them together.
                match take_in::<T>(&message.payload, cells_per_row, pieces) {
                    Ok(last) => ended[from] = last,
                    Err(error) => problem = problem.and(Err(error)),
                }
            }
        }
    }
    agree(cluster, problem)
}

fn message<T: Element, const N: usize>(blocks: &[DenseBlock<T, N>], head: &Head) -> Payload {
    let bytes = postcard::to_stdvec(head).expect("a head is plain data").into();
    let mut common = common_rows(blocks, &head.rows).map(|(block, common)| cells(block, common));
    // The rows of a message lie in one block, as its head was made.
    let mut cells = common.next().unwrap_or_default();
    common.for_each(|more| cells.extend(more));
    Payload::from_parts([bytes, T::into_bytes(cells)])
}

/// Keeps the rows of a message; says whether it was the sender's last.
fn take_in<T: Element>(message: &[u8], cells_per_row: u64, pieces: &mut [Vec<Piece<T>>]) -> Result<bool> {
    if message.is_empty() {
        return Ok(true);
    }
    let bad = |problem: &str| Error::BadMessage { problem: problem.to_owned() };
    let (head, rest) =
        postcard::take_from_bytes::<Head>(message).map_err(|error| Error::BadMessage { problem: error.to_string() })?;
    let wanted = pieces.get_mut(head.want).ok_or_else(|| bad("rows that nobody asked for"))?;
    let count = head.rows.end.checked_sub(head.rows.start).and_then(|rows| rows.checked_mul(cells_per_row));
    let count = count.ok_or_else(|| bad("rows that cannot be counted"))?;
    wanted.push((head.rows, T::unpack(rest, count as usize)?));
    Ok(false)
}
