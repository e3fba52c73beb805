//! A captured write buffer: a worker's updates wait in its view until they are applied.
//!
//! Updates of rows that are exclusive to the worker are applied at the end of a block. All others
//! are submitted before a barrier and applied inside it, in the order of peers and workers.
//! **Invariant:** rows are changed by a worker that has exclusive access to them, or while no
//! worker runs.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::Error;
use crate::arrays::{LoopArrays, cell_index};
use crate::buffer::{ApplyRule, MAX_TARGETS, WriteBuffer};
use crate::plan::{ArrayPlacement, LoopBlock};
use crate::recorder::NoRecorder;
use crate::served_block::{bad_message, home_shard};
use crate::view::BufferView;
use crate::view::buffer::rows_of;
use hemiola_array::Element;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Purpose, WorkerId};
use hemiola_tables_proto::read_only::message::{read_updates, write_updates};
use hemiola_tables_proto::{RangePartition, ReadOnlyServer};
use parking_lot::Mutex;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A captured write buffer.
pub struct BufferCapture<'a, U, R, const N: usize> {
    pub(crate) buffer: &'a WriteBuffer<U, R, N>,
    pub(crate) name: usize,
}

impl<U, R, const N: usize> fmt::Debug for BufferCapture<'_, U, R, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(formatter)
    }
}

/// State of a buffer shared by the workers of a peer.
pub struct BufferShared<U> {
    /// Indices of the arrays that the buffer updates.
    targets: Vec<usize>,
    /// Each worker has exclusive access to the rows it writes, so no barrier is needed.
    exclusive: bool,
    /// Updates are sent to the owners of their rows instead of all peers.
    served: bool,
    /// Submitted updates, by worker.
    submitted: Vec<Mutex<RowUpdates<U>>>,
}

/// Rows in ascending order, and their updates.
type RowUpdates<U> = (Vec<u64>, Vec<U>);

impl<U> fmt::Debug for BufferShared<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BufferShared")
            .field("targets", &self.targets)
            .field("exclusive", &self.exclusive)
            .finish_non_exhaustive()
    }
}

/// True if each worker has exclusive access to the rows of these arrays. A plan gives all arrays of
/// a buffer the same placement.
pub(crate) fn has_exclusive_rows(placements: &[ArrayPlacement], targets: &[usize]) -> bool {
    matches!(placements[targets[0]], ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. })
}

impl<'a, U, R, const N: usize> Capture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: ApplyRule<'a, U>,
{
    type Shared = BufferShared<U>;
    type View = BufferView<U, N>;

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Buffer {
            targets: self.buffer.rule.targets(arrays),
            flush_interval: self.buffer.flush_interval,
        });
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> BufferShared<U> {
        let CaptureKind::Buffer { targets, .. } = &declared[self.name] else {
            unreachable!("a buffer capture declares a buffer")
        };
        let submitted = (0..context.cluster.workers()).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
        let exclusive = has_exclusive_rows(context.placements, targets);
        let served = context.peers_used > 1 && context.placements[targets[0]] == ArrayPlacement::Served;
        BufferShared { targets: targets.clone(), exclusive, served, submitted }
    }

    fn view(&self, _: &Self::Shared, context: LoopContext<'_, 'a>, _: WorkerId) -> Self::View {
        BufferView::new(context.names[self.name], self.buffer.extents)
    }
}

impl<'a, U, R, const N: usize> PrefetchCapture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: ApplyRule<'a, U>,
{
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, _: &Self::Shared, _: LoopContext<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }
}

impl<'a, U, R, const N: usize> PassCapture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: ApplyRule<'a, U>,
{
    fn end_block(
        &self,
        shared: &Self::Shared,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        block: LoopBlock,
    ) -> Result<()> {
        if shared.exclusive { self.apply(shared, context, block, view.pending.drain()) } else { Ok(()) }
    }

    fn submit_updates(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        if !shared.exclusive {
            *shared.submitted[worker.index()].lock() = view.pending.drain();
        }
    }

    fn apply_updates(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Result<()> {
        if shared.exclusive {
            return Ok(());
        }
        let mine: Vec<RowUpdates<U>> =
            shared.submitted.iter().map(|updates| std::mem::take(&mut *updates.lock())).collect();
        let all = if context.peers_used == 1 {
            mine
        } else if shared.served {
            let owners = context.arrays.get(shared.targets[0]).owners().expect("a served array has owners");
            match send_to_owners(context.cluster, &mine, owners, rows_of(self.buffer.extents).1) {
                Ok(all) => all,
                Err(error) => {
                    // The others wait at the barrier below.
                    context.cluster.barrier()?;
                    return Err(error);
                }
            }
        } else {
            gather_updates(context.cluster, mine)?
        };
        // Arrays are replicated, or all rows belong to this peer: any block's window covers them.
        let any_block = LoopBlock { part: 0, time: 0 };
        let apply = || all.into_iter().try_for_each(|updates| self.apply(shared, context, any_block, updates));
        // A panic of the rule must not keep this peer from the barrier, where the others wait.
        let applied = catch_unwind(AssertUnwindSafe(apply));
        if shared.served {
            // No peer may request a row before its owner has applied all updates.
            context.cluster.barrier()?;
        }
        applied.unwrap_or_else(|panic| Err(context.rule_error(&*panic)))
    }
}

impl<'a, U: Element + Default + PartialEq, R: ApplyRule<'a, U>, const N: usize> BufferCapture<'a, U, R, N> {
    /// Applies updates to the arrays, through the windows of `block`. Fails if a cell becomes NaN or
    /// infinite in an array that does not allow it.
    fn apply(
        &self,
        shared: &BufferShared<U>,
        context: LoopContext<'_, 'a>,
        block: LoopBlock,
        (rows, updates): RowUpdates<U>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (_, row_length) = rows_of(self.buffer.extents);
        let per_index: usize = if N == 1 { 1 } else { self.buffer.extents[1..N - 1].iter().product() };
        let windows: Vec<_> = shared.targets.iter().map(|target| context.arrays.get(*target).window(block)).collect();
        let sizes: Vec<_> = shared.targets.iter().map(|target| context.arrays.get(*target).cell_bytes()).collect();
        let mut updates = updates.into_iter();
        for row in rows {
            let row = row as usize;
            let mut addresses = [std::ptr::null_mut(); MAX_TARGETS];
            for (address, (window, size)) in addresses.iter_mut().zip(windows.iter().zip(&sizes)) {
                let index = (row / per_index).wrapping_sub(window.first);
                assert!(index < window.count, "rows of a buffer lie in the window of its array");
                let cell = if N == 1 { index } else { (index * per_index + row % per_index) * window.stride };
                *address = window.base.wrapping_add(cell * size);
            }
            let of_row = updates.by_ref().take(row_length).collect();
            // SAFETY: every address is that of a row inside the window, which has `row_length`
            // cells. The worker has exclusive access to the rows, or no worker runs (see
            // `view::window`).
            let non_finite = unsafe { self.buffer.rule.apply(&addresses, of_row) };
            if let Some((at, value)) = non_finite {
                let row = if N == 1 { (0, row) } else { (row, at) };
                return Err(self.non_finite(context, row, value));
            }
        }
        Ok(())
    }

    #[cold]
    fn non_finite(
        &self,
        context: LoopContext<'_, 'a>,
        (row, at): (usize, usize),
        value: f64,
    ) -> hemiola_cluster::Error {
        let (site, name) = (context.title.to_owned(), context.names[self.name].to_owned());
        let index = cell_index(self.buffer.extents, row, at);
        Error::NonFinite { site, name, index, value: value.to_string(), rank: context.cluster.rank() }.into()
    }
}

/// *Collective.* Sends updates to the owners of their rows. Returns the updates of all workers for
/// the rows of this peer, in the order of peers and workers.
fn send_to_owners<U: Element>(
    cluster: &Cluster,
    mine: &[RowUpdates<U>],
    owners: &RangePartition,
    row_length: usize,
) -> Result<Vec<RowUpdates<U>>> {
    let mut outgoing: Vec<Vec<u8>> = (0..cluster.size()).map(|_| Vec::new()).collect();
    for (rows, updates) in mine {
        for (bytes, (_, share)) in outgoing.iter_mut().zip(owners.split(rows)) {
            let mut packed = Vec::new();
            U::pack(&updates[share.start * row_length..share.end * row_length], &mut packed);
            write_updates(&rows[share], &packed, bytes);
        }
    }
    let incoming = cluster.all_to_all(outgoing.into_iter().map(Into::into).collect(), Purpose::Served)?;
    let server = ReadOnlyServer::new(owners, home_shard(cluster));
    let mut all = Vec::new();
    for bytes in incoming {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (rows, packed) = read_updates(&mut rest).map_err(|error| bad_message(&error))?;
            server.check(&rows).map_err(|error| bad_message(&error))?;
            let updates = U::unpack(packed, rows.len() * row_length)?;
            all.push((rows, updates));
        }
    }
    Ok(all)
}

/// *Collective.* Returns the updates of the workers of all peers, in the order of peers and
/// workers.
fn gather_updates<U: Element>(cluster: &Cluster, mine: Vec<RowUpdates<U>>) -> Result<Vec<RowUpdates<U>>> {
    let packed: Vec<(Vec<u64>, u64, Vec<u8>)> = mine
        .into_iter()
        .map(|(rows, updates)| {
            let mut bytes = Vec::new();
            U::pack(&updates, &mut bytes);
            (rows, updates.len() as u64, bytes)
        })
        .collect();
    let mut all = Vec::new();
    for peer in cluster.all_gather(packed)? {
        for (rows, count, bytes) in peer {
            all.push((rows, U::unpack(&bytes, count as usize)?));
        }
    }
    Ok(all)
}
