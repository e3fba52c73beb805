//! Redistribution of the rows of dense arrays.
//!
//! *Rows* here are indices of the first dimension. Every peer knows which ranges of rows each peer
//! requests, and the owners of those rows send them. All peers run in lock-step rounds: one message
//! to every other peer and one from each. No sender can outrun its receivers, and there is no
//! circular wait.

use crate::dist::agree::agree;
use crate::dist::array::DenseBlock;
use crate::dist::element::Element;
use crate::dist::partition::ArrayLayout;
use crate::{DenseArray, Error, Result, Shape};
use hemiola_cluster::{Cluster, WaitReason};
use hemiola_core::{ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum cells of a message in bytes: well below the send queue of a lane, so that sending never
/// blocks on the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

/// Header in front of the cells of a message. An empty message is the last one of its sender.
#[derive(Debug, Serialize, Deserialize)]
struct RowsHeader {
    /// Index of the receiver's range.
    request: usize,
    rows: Range<usize>,
}

/// *Collective.* Sends every peer the rows it requests; returns one array per range that this peer
/// requests. `wants` lists the ranges by peer and is identical on all peers. Every row has one
/// owner.
pub(crate) fn fetch_rows<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    wants: &[Vec<Range<usize>>],
) -> hemiola_cluster::Result<Vec<DenseArray<T, N>>> {
    let me = cluster.rank().index();
    let mut received: Vec<Vec<ReceivedRows<T>>> = wants[me].iter().map(|_| Vec::new()).collect();
    if cluster.size() > 1 {
        exchange_rows(cluster, shape, blocks, wants, &mut received)?;
    }
    let built =
        wants[me].iter().zip(received).map(|(rows, received)| join_rows(shape, rows, blocks, &received)).collect();
    agree(cluster, built)
}

/// *Collective.* Moves the cells of a dense array into another layout of row ranges.
pub(crate) fn repartition_rows<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    layout: &ArrayLayout,
) -> hemiola_cluster::Result<Vec<DenseBlock<T, N>>> {
    let range = |part| layout.space.partitioner.range(part).unwrap_or(0..0);
    let wants: Vec<Vec<Range<usize>>> =
        Rank::all(cluster.size()).map(|peer| layout.parts_of(peer).map(range).collect()).collect();
    let parts = fetch_rows(cluster, shape, blocks, &wants)?;
    let mine = &wants[cluster.rank().index()];
    Ok(parts.into_iter().zip(mine).map(|(cells, rows)| DenseBlock { first: rows.start, cells }).collect())
}

/// Range of rows and their cells.
type ReceivedRows<T> = (Range<usize>, Vec<T>);

/// Blocks that contain some of `rows`, with those rows.
fn common_rows<'a, T, const N: usize>(
    blocks: &'a [DenseBlock<T, N>],
    rows: &'a Range<usize>,
) -> impl Iterator<Item = (&'a DenseBlock<T, N>, Range<usize>)> {
    blocks.iter().filter_map(move |block| {
        let end = block.first + block.cells.shape().extent(0);
        let common = rows.start.max(block.first)..rows.end.min(end);
        (!common.is_empty()).then_some((block, common))
    })
}

fn cells<T: Clone, const N: usize>(block: &DenseBlock<T, N>, rows: Range<usize>) -> Vec<T> {
    let per_row = block.cells.shape().extents()[1..].iter().product::<usize>();
    let mut all = Vec::with_capacity((rows.end - rows.start) * per_row);
    block.cells.slices(rows.start - block.first..rows.end - block.first).for_each(|slice| all.extend_from_slice(slice));
    all
}

/// Joins a range of rows from this peer's blocks and the received rows.
fn join_rows<T: Element, const N: usize>(
    shape: Shape<N>,
    rows: &Range<usize>,
    blocks: &[DenseBlock<T, N>],
    received: &[ReceivedRows<T>],
) -> Result<DenseArray<T, N>> {
    let mut extents = shape.extents();
    extents[0] = rows.end - rows.start;
    let part = Shape::new(extents);
    let own: usize = common_rows(blocks, rows).map(|(_, common)| common.end - common.start).sum();
    let found = own + received.iter().map(|(rows, _)| rows.end - rows.start).sum::<usize>();
    if found != extents[0] || received.iter().any(|(range, _)| range.start < rows.start || range.end > rows.end) {
        let problem = format!("received {found} rows for the range {rows:?}");
        return Err(Error::BadMessage { problem });
    }
    let first = common_rows(blocks, rows).find_map(|(block, _)| block.cells.rows().flatten().next());
    let Some(first) = first.or_else(|| received.iter().find_map(|(_, cells)| cells.first())) else {
        return DenseArray::from_values(part, Vec::new());
    };
    let mut dense = DenseArray::filled(part, first.clone())?;
    for (block, common) in common_rows(blocks, rows) {
        let theirs = block.cells.slices(common.start - block.first..common.end - block.first);
        let mine = dense.slices_mut(common.start - rows.start..common.end - rows.start);
        mine.zip(theirs).for_each(|(mine, theirs)| mine.clone_from_slice(theirs));
    }
    for (range, cells) in received {
        let mut cells = cells.as_slice();
        for mine in dense.slices_mut(range.start - rows.start..range.end - rows.start) {
            let (now, later) = cells.split_at(mine.len());
            mine.clone_from_slice(now);
            cells = later;
        }
    }
    Ok(dense)
}

fn exchange_rows<T: Element, const N: usize>(
    cluster: &Cluster,
    shape: Shape<N>,
    blocks: &[DenseBlock<T, N>],
    wants: &[Vec<Range<usize>>],
    received: &mut [Vec<ReceivedRows<T>>],
) -> hemiola_cluster::Result<()> {
    let (me, size) = (cluster.rank().index(), cluster.size());
    let cells_per_row = shape.extents()[1..].iter().product::<usize>();
    let rows_per_message = (MESSAGE_BYTES / (cells_per_row * size_of::<T>()).max(1)).max(1);
    // Only headers are queued; the bytes are encoded message by message.
    let mut outgoing: Vec<VecDeque<RowsHeader>> = (0..size).map(|_| VecDeque::new()).collect();
    for (peer, queue) in outgoing.iter_mut().enumerate().filter(|(peer, _)| *peer != me) {
        for (request, rows) in wants[peer].iter().enumerate() {
            for (_, common) in common_rows(blocks, rows) {
                for start in common.clone().step_by(rows_per_message) {
                    queue.push_back(RowsHeader { request, rows: start..(start + rows_per_message).min(common.end) });
                }
            }
        }
    }
    let channel = cluster.next_channel(ChannelOwner::ArrayRedistribution);
    let receiver = cluster.open_channel(channel, Lane::Bulk);
    let mut finished_sending: Vec<bool> = (0..size).map(|peer| peer == me).collect();
    let mut finished_receiving = finished_sending.clone();
    let mut problem = Ok(());
    while finished_sending.iter().chain(&finished_receiving).any(|done| !done) {
        for step in 1..size {
            let to = (me + step) % size;
            if !finished_sending[to] {
                let next = outgoing[to].pop_front();
                finished_sending[to] = next.is_none();
                let payload = next.map_or_else(Payload::empty, |header| rows_message(blocks, &header));
                let message = OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Shuffle, payload };
                cluster.send(Rank::new(to as u32), message)?;
            }
            let from = (me + size - step) % size;
            if !finished_receiving[from] {
                let reason = WaitReason { operation: "rows of an array", number: None, site: None };
                let message = cluster.receive(&receiver, Rank::new(from as u32), Waiter::Driver, reason)?;
                // A bad message is recorded and the rounds continue, so that all peers leave them
                // together.
                match receive_rows::<T>(&message.payload, cells_per_row, received) {
                    Ok(last) => finished_receiving[from] = last,
                    Err(error) => problem = problem.and(Err(error)),
                }
            }
        }
    }
    agree(cluster, problem)
}

fn rows_message<T: Element, const N: usize>(blocks: &[DenseBlock<T, N>], header: &RowsHeader) -> Payload {
    let bytes = postcard::to_stdvec(header).expect("a header is plain data").into();
    let mut common = common_rows(blocks, &header.rows).map(|(block, common)| cells(block, common));
    // The rows of a message lie in one block, because its header was made from one.
    let mut cells = common.next().unwrap_or_default();
    common.for_each(|more| cells.extend(more));
    Payload::from_parts([bytes, T::into_bytes(cells)])
}

/// Stores the rows of a message. Returns true for the last message of the sender.
fn receive_rows<T: Element>(
    message: &[u8],
    cells_per_row: usize,
    received: &mut [Vec<ReceivedRows<T>>],
) -> Result<bool> {
    if message.is_empty() {
        return Ok(true);
    }
    let bad = |problem: &str| Error::BadMessage { problem: problem.to_owned() };
    let (header, rest) = postcard::take_from_bytes::<RowsHeader>(message)
        .map_err(|error| Error::BadMessage { problem: error.to_string() })?;
    let wanted = received.get_mut(header.request).ok_or_else(|| bad("rows without a request"))?;
    let count = header.rows.end.checked_sub(header.rows.start).and_then(|rows| rows.checked_mul(cells_per_row));
    let count = count.ok_or_else(|| bad("an invalid range of rows"))?;
    wanted.push((header.rows, T::unpack(rest, count)?));
    Ok(false)
}
