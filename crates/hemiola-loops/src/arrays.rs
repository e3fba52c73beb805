//! Arrays of a loop, each once, whatever names the body has for them.
//!
//! [`LoopArrays`] stores them without their types: planning needs extents and sizes, execution
//! needs windows, and rotating blocks are bytes.
//!
//! **Invariant:** between [`LoopArrays::place`] and [`LoopArrays::finish`] every array is held, has
//! its [`ArrayPlacement`], and is accessed only through windows.

use crate::halo::{ArrayHalo, HaloChange, RowStrip};
use crate::plan::{ArrayPlacement, Cuts, LoopBlock};
use crate::served_block::{ServedBlock, home_shard};
use crate::view::Window;
use bytes::Bytes;
use hemiola_array::dist::{ArrayGuard, ArrayLayout, DenseBlock, PartitionedDimension, Storage};
use hemiola_array::{DenseArray, DistArray, Element, Partitioner, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Purpose, Rank};
use hemiola_tables_proto::RangePartition;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Size of the cells in one message, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// Arrays of one loop.
#[derive(Default)]
pub struct LoopArrays<'a> {
    list: Vec<Box<dyn ErasedArray + 'a>>,
}

impl<'a> LoopArrays<'a> {
    /// Returns the index of an array in the loop, adding it if it is new.
    pub(crate) fn add<T: Element, const N: usize>(&mut self, array: &'a DistArray<T, N>) -> usize {
        let address = std::ptr::from_ref(array).addr();
        if let Some(known) = self.list.iter().position(|known| known.address() == address) {
            return known;
        }
        self.list.push(Box::new(LoopArray::new(array)));
        self.list.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, array: usize) -> &(dyn ErasedArray + 'a) {
        &*self.list[array]
    }

    /// *Collective.* Holds every array and gives it the placement of the plan.
    pub(crate) fn place(
        &mut self,
        cluster: &Cluster,
        holder: &str,
        placements: &[ArrayPlacement],
        cuts: &Cuts,
    ) -> Result<()> {
        for array in &mut self.list {
            array.hold(holder)?;
        }
        self.list.iter_mut().zip(placements).try_for_each(|(array, placement)| array.place(cluster, *placement, cuts))
    }

    /// Returns the cells to every array and releases it.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.list.iter_mut().try_for_each(|array| array.finish())
    }

    /// Returns an error if an array is held by another loop, or was left incomplete by a failed
    /// one.
    pub(crate) fn check_free(&self, wanted_by: &str) -> Result<()> {
        self.list.iter().try_for_each(|array| array.check_free(wanted_by))
    }

    /// Marks arrays with blocks in flight as lost, after an unrecoverable failure such as a lost
    /// peer.
    pub(crate) fn abandon(&self, holder: &str) {
        self.list.iter().for_each(|array| array.abandon(holder));
    }

    /// *Collective.* Releases every array after a failed pass. Blocks may be on any peer; they are
    /// sent to their owners, so that arrays are complete, whatever the pass has written.
    pub(crate) fn recover(&mut self) -> Result<()> {
        self.list.iter_mut().try_for_each(|array| array.recover())
    }

    /// All arrays, with their indices.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &(dyn ErasedArray + 'a))> {
        self.list.iter().enumerate().map(|(number, array)| (number, &**array))
    }

    /// Arrays whose blocks move between peers, with their indices.
    pub(crate) fn rotating(&self) -> impl Iterator<Item = (usize, &(dyn ErasedArray + 'a))> {
        self.all().filter(|(_, array)| array.rotates())
    }
}

impl fmt::Debug for LoopArrays<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} arrays of a loop", self.list.len())
    }
}

/// Header of a message with some rows of a block.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockPiece {
    /// Index of the array in the loop.
    pub(crate) array: usize,
    pub(crate) time: usize,
    /// Indices of the first dimension, over the whole array.
    rows: Range<usize>,
}

/// An array in a loop, without the type of its cells.
pub(crate) trait ErasedArray: Sync {
    fn address(&self) -> usize;
    fn extents(&self) -> Vec<usize>;
    fn cell_bytes(&self) -> usize;
    fn is_sparse(&self) -> bool;
    fn check_free(&self, wanted_by: &str) -> Result<()>;
    fn hold(&mut self, holder: &str) -> Result<()>;
    fn place(&mut self, cluster: &Cluster, placement: ArrayPlacement, cuts: &Cuts) -> Result<()>;
    /// Window for the worker that runs `block`. A rotating block must be on this peer.
    fn window(&self, block: LoopBlock) -> Window;
    fn rotates(&self) -> bool;
    /// Removes a time block from this peer and returns its rows as messages.
    fn pack(&self, number: usize, time: usize) -> Vec<Bytes>;
    /// Receives a message of [`pack`](Self::pack). Returns true if its block is complete.
    fn unpack(&self, piece: BlockPiece, cells: &[u8]) -> Result<bool>;
    /// Changes of rows that the next peer shares, as messages.
    fn halo_changes(&self, number: usize, time: usize) -> Vec<Bytes>;
    /// Receives a message of [`halo_changes`](Self::halo_changes).
    fn apply_halo_change(&self, change: &HaloChange, cells: &[u8]) -> Result<()>;
    /// Owners of the rows, if the array is served.
    fn owners(&self) -> Option<&RangePartition>;
    /// Appends the cells of rows that another peer requests.
    fn serve(&self, rows: &[u64], cells: &mut Vec<u8>) -> Result<()>;
    /// Index and value of the first cell on this peer that is NaN or infinite, if the array does not
    /// allow it. Called after a pass, while no worker runs.
    fn first_non_finite(&self) -> Option<(Vec<usize>, f64)>;
    fn finish(&mut self) -> Result<()>;
    fn abandon(&self, holder: &str);
    /// *Collective.* Like [`finish`](Self::finish), but blocks may be on any peer.
    fn recover(&mut self) -> Result<()>;
}

/// An array in a loop.
struct LoopArray<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    held: Option<ArrayGuard<'a, T, N>>,
    placement: ArrayPlacement,
    /// Windows by part or time block, or one for all. Rotating blocks have none.
    windows: Vec<Window>,
    /// Full copy of a replicated array.
    copy: Option<DenseArray<T, N>>,
    /// Blocks move between peers, or did while the loop ran.
    rotated: bool,
    /// Rotating blocks, by time block.
    blocks: Vec<Mutex<RotatingBlock<T, N>>>,
    /// Blocks of rows that no loop index reaches.
    unreached: Vec<DenseBlock<T, N>>,
    /// Rows of this peer followed by its halo, and the number of its own rows.
    with_halo: Option<(DenseBlock<T, N>, usize)>,
    /// The cells have been taken out of the array. If they are not returned, the array is
    /// incomplete.
    cells_taken: bool,
    halo: Option<ArrayHalo<T>>,
    /// Rows that this peer owns, if the array is served. Read by all workers; changed only inside
    /// barriers, through windows.
    served: Option<ServedBlock<T, N>>,
}

/// State of a rotating block on this peer.
enum RotatingBlock<T, const N: usize> {
    Absent,
    /// Some rows have arrived.
    Arriving(Vec<T>),
    Present(DenseBlock<T, N>),
}

impl<'a, T: Element, const N: usize> LoopArray<'a, T, N> {
    fn new(array: &'a DistArray<T, N>) -> Self {
        let (windows, blocks, rest) = (Vec::new(), Vec::new(), Vec::new());
        let placement = ArrayPlacement::Replicated;
        Self {
            array,
            held: None,
            placement,
            windows,
            copy: None,
            rotated: false,
            blocks,
            unreached: rest,
            with_halo: None,
            cells_taken: false,
            halo: None,
            served: None,
        }
    }

    fn held(&mut self) -> &mut ArrayGuard<'a, T, N> {
        self.held.as_mut().expect("an array is held before it is placed")
    }

    /// Rows of the first dimension that belong to a part.
    fn rows(&self, bounds: &[usize], offset: i64, part: usize) -> Range<usize> {
        array_rows(bounds, offset, self.array.shape().extent(0), part)
    }

    fn layout(&self, bounds: &[usize], offset: i64, peers: usize) -> ArrayLayout {
        let parts = bounds.len() - 1;
        let ends = (0..parts).map(|part| self.rows(bounds, offset, part).end);
        let cut = Partitioner::from_bounds(std::iter::once(0).chain(ends).collect());
        ArrayLayout { space: PartitionedDimension { dimension: 0, partitioner: cut }, time: None, peers }
    }

    /// Makes windows on the parts of a block that contains all of them.
    fn cut_windows(&mut self, bounds: &[usize], offset: i64, parts: Range<usize>) {
        let whole = self.block_window();
        let extents = self.array.shape().extents();
        let cells = cells_per_index::<N>(&extents, whole.stride);
        self.windows = (0..bounds.len() - 1)
            .map(|part| {
                if !parts.contains(&part) {
                    return Window::EMPTY;
                }
                let rows = self.rows(bounds, offset, part);
                whole.part(rows, cells, size_of::<T>())
            })
            .collect();
    }

    /// Window on the only block of this peer, or on the copy.
    fn block_window(&mut self) -> Window {
        if let Some(copy) = &mut self.copy {
            return window(copy, 0);
        }
        if let Some((block, _)) = &mut self.with_halo {
            return window(&mut block.cells, block.first);
        }
        match self.held().storage_mut() {
            Storage::Dense(blocks) => {
                blocks.first_mut().map_or(Window::EMPTY, |block| window(&mut block.cells, block.first))
            }
            Storage::Sparse(_) => Window::EMPTY,
        }
    }
}

/// Rows of an array with `extent` rows that belong to a part of a loop dimension, if the subscript
/// is the index plus `offset`. The first and the last part also contain the rows that no index
/// reaches.
pub(crate) fn array_rows(bounds: &[usize], offset: i64, extent: usize, part: usize) -> Range<usize> {
    let parts = bounds.len() - 1;
    let bound = |at: usize| match at {
        0 => 0,
        at if at == parts => extent,
        at => bounds[at].saturating_add_signed(offset as isize).min(extent),
    };
    bound(part)..bound(part + 1)
}

fn window<T, const N: usize>(cells: &mut DenseArray<T, N>, first: usize) -> Window {
    let count = cells.shape().extent(0);
    let (base, stride) = cells.as_mut_ptr();
    Window { base: base.cast(), first, count, stride }
}

/// Index and value of the first cell that is NaN or infinite. `first` is the first index of the
/// cells in the first dimension.
pub(crate) fn first_non_finite<T: Element, const N: usize>(
    cells: &DenseArray<T, N>,
    first: usize,
) -> Option<(Vec<usize>, f64)> {
    let find = |(row, cells): (usize, &[T])| T::first_non_finite(cells).map(|(at, value)| (row, at, value));
    let (row, at, value) = cells.rows().enumerate().find_map(find)?;
    let mut index = cell_index(cells.shape().extents(), row, at);
    index[0] += first;
    Some((index, value))
}

/// Index of a cell, from the number of its row over all dimensions but the last.
pub(crate) fn cell_index<const N: usize>(extents: [usize; N], row: usize, at: usize) -> Vec<usize> {
    let (mut index, mut rest) = (vec![at; N], row);
    for dimension in (0..N - 1).rev() {
        index[dimension] = rest % extents[dimension];
        rest /= extents[dimension];
    }
    index
}

/// Distance in cells from one index of the first dimension to the next.
fn cells_per_index<const N: usize>(extents: &[usize; N], stride: usize) -> usize {
    if N == 1 { 1 } else { extents[1..N - 1].iter().product::<usize>() * stride }
}

impl<T: Element, const N: usize> ErasedArray for LoopArray<'_, T, N> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self.array).addr()
    }

    fn extents(&self) -> Vec<usize> {
        self.array.shape().extents().to_vec()
    }

    fn cell_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn is_sparse(&self) -> bool {
        self.array.is_sparse()
    }

    fn check_free(&self, wanted_by: &str) -> Result<()> {
        Ok(self.array.lock(wanted_by).map(drop)?)
    }

    fn hold(&mut self, holder: &str) -> Result<()> {
        self.held = Some(self.array.lock(holder)?);
        Ok(())
    }

    fn place(&mut self, cluster: &Cluster, placement: ArrayPlacement, cuts: &Cuts) -> Result<()> {
        self.placement = placement;
        let (peers, extent) = (cluster.size(), self.array.shape().extent(0));
        let order = std::array::from_fn(|dimension| dimension);
        let my_parts = cuts.parts_of(cluster.rank());
        if cuts.peers_used == 1 {
            // All workers share the memory of this peer: one block, with a window for each.
            self.held().redistribute(&ArrayLayout::single_block(extent, peers), order)?;
            if !cluster.is_root() {
                return Ok(());
            }
            match placement {
                ArrayPlacement::Local { offset } => self.cut_windows(&cuts.space, offset, my_parts),
                ArrayPlacement::Rotating { offset } => self.cut_windows(&cuts.time, offset, 0..cuts.time.len() - 1),
                ArrayPlacement::Replicated | ArrayPlacement::Served | ArrayPlacement::Halo { .. } => {
                    self.windows = vec![self.block_window()];
                }
            }
            return Ok(());
        }
        match placement {
            ArrayPlacement::Local { offset } => {
                self.arrange_along_space(cluster, cuts, offset)?;
                self.cut_windows(&cuts.space, offset, my_parts);
            }
            ArrayPlacement::Halo { low, high, written: sent } => {
                self.place_with_halo(cluster, cuts, low..high, sent)?;
            }
            ArrayPlacement::Rotating { offset } => {
                let time = cuts.home_time_bounds(peers);
                let layout = self.layout(&time, offset, peers);
                self.held().redistribute(&layout, order)?;
                let first = layout.parts_of(cluster.rank()).start;
                let Storage::Dense(blocks) = self.held().storage_mut() else {
                    unreachable!("the planner rejects sparse arrays")
                };
                let mut blocks: Vec<_> = std::mem::take(blocks).into_iter().map(Some).collect();
                let mut here = |time: usize| time.checked_sub(first).and_then(|at| blocks.get_mut(at)?.take());
                let times = cuts.time.len() - 1;
                let block = |time| here(time).map_or(RotatingBlock::Absent, RotatingBlock::Present);
                self.blocks = (0..times).map(block).map(Mutex::new).collect();
                self.unreached = blocks.into_iter().flatten().collect();
                self.rotated = true;
            }
            ArrayPlacement::Replicated => {
                self.copy = Some(self.held().replicate(|_| true)?);
                self.windows = vec![self.block_window()];
            }
            ArrayPlacement::Served => self.serve_own_rows(cluster)?,
        }
        Ok(())
    }

    fn window(&self, block: LoopBlock) -> Window {
        let at = match self.placement {
            ArrayPlacement::Local { .. } => block.part,
            ArrayPlacement::Rotating { .. } => block.time,
            ArrayPlacement::Replicated | ArrayPlacement::Served | ArrayPlacement::Halo { .. } => 0,
        };
        if self.blocks.is_empty() {
            return self.windows.get(at).copied().unwrap_or(Window::EMPTY);
        }
        match &mut *self.blocks[at].lock() {
            RotatingBlock::Present(block) => window(&mut block.cells, block.first),
            _ => Window::EMPTY,
        }
    }

    fn rotates(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn pack(&self, number: usize, time: usize) -> Vec<Bytes> {
        let RotatingBlock::Present(block) = std::mem::replace(&mut *self.blocks[time].lock(), RotatingBlock::Absent)
        else {
            unreachable!("a worker sends the block it has just run")
        };
        let shape = block.cells.shape();
        let cells = shape.extents()[1..].iter().product::<usize>();
        let rows_per_message = (MESSAGE_BYTES / (cells * size_of::<T>()).max(1)).max(1);
        let mut messages = Vec::new();
        let mut start = 0;
        // A block without rows is sent, too, because its receiver counts blocks.
        while start < shape.extent(0) || messages.is_empty() {
            let end = (start + rows_per_message).min(shape.extent(0));
            let piece = BlockPiece { array: number, time, rows: block.first + start..block.first + end };
            let mut bytes = crate::run::endpoint::encode_piece(piece);
            bytes.reserve((end - start) * cells * size_of::<T>());
            let mut pieces = block.cells.slices(start..end);
            if T::CONCATENABLE {
                pieces.for_each(|piece| T::pack(piece, &mut bytes));
            } else {
                let all: Vec<T> = pieces.by_ref().flatten().cloned().collect();
                T::pack(&all, &mut bytes);
            }
            messages.push(bytes.into());
            start = end;
        }
        messages
    }

    fn unpack(&self, piece: BlockPiece, cells: &[u8]) -> Result<bool> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let shape = self.array.shape();
        let per_row = shape.extents()[1..].iter().product::<usize>();
        let mut slot = self.blocks.get(piece.time).ok_or_else(|| bad("a block is not in the plan"))?.lock();
        let rows = piece.rows.end.checked_sub(piece.rows.start).filter(|_| piece.rows.end <= shape.extent(0));
        let count = rows.ok_or_else(|| bad("rows are out of bounds"))? * per_row;
        let expected = self.expected(piece.time);
        let values = T::unpack(cells, count)?;
        let mut all = match std::mem::replace(&mut *slot, RotatingBlock::Absent) {
            RotatingBlock::Absent => values,
            RotatingBlock::Arriving(mut before) => {
                before.extend(values);
                before
            }
            RotatingBlock::Present(_) => return Err(bad("a block has arrived twice").into()),
        };
        let needed = (expected.end - expected.start) * per_row;
        if all.len() < needed {
            all.reserve_exact(needed - all.len());
            *slot = RotatingBlock::Arriving(all);
            return Ok(false);
        }
        let mut extents = shape.extents();
        extents[0] = expected.end - expected.start;
        if all.len() != needed {
            return Err(bad("a block has too many rows").into());
        }
        let cells = DenseArray::from_values(Shape::new(extents), all)?;
        *slot = RotatingBlock::Present(DenseBlock { first: expected.start, cells });
        Ok(true)
    }

    fn halo_changes(&self, number: usize, time: usize) -> Vec<Bytes> {
        self.halo.iter().flat_map(|halo| halo.changes(number, time)).map(Bytes::from).collect()
    }

    fn apply_halo_change(&self, change: &HaloChange, cells: &[u8]) -> Result<()> {
        let bad = || hemiola_array::Error::BadMessage { problem: "an array without halo has changes".to_owned() };
        self.halo.as_ref().ok_or_else(bad)?.apply(change, cells)
    }

    fn owners(&self) -> Option<&RangePartition> {
        self.served.as_ref().map(ServedBlock::partition)
    }

    fn serve(&self, rows: &[u64], cells: &mut Vec<u8>) -> Result<()> {
        let bad = || hemiola_array::Error::BadMessage { problem: "an array is not served".to_owned() };
        Ok(self.served.as_ref().ok_or_else(bad)?.serve(rows, cells)?)
    }

    fn first_non_finite(&self) -> Option<(Vec<usize>, f64)> {
        if !T::CAN_BE_NON_FINITE || self.array.allows_non_finite() {
            return None;
        }
        let of_block = |block: &DenseBlock<T, N>| first_non_finite(&block.cells, block.first);
        if let Some(copy) = &self.copy {
            return first_non_finite(copy, 0);
        }
        if let Some((block, _)) = &self.with_halo {
            return of_block(block);
        }
        let rotating = self.blocks.iter().find_map(|block| match &*block.lock() {
            RotatingBlock::Present(block) => of_block(block),
            RotatingBlock::Absent | RotatingBlock::Arriving(_) => None,
        });
        let held = || match self.held.as_ref()?.storage() {
            Storage::Dense(blocks) => blocks.iter().find_map(of_block),
            Storage::Sparse(_) => None,
        };
        rotating.or_else(held)
    }

    fn abandon(&self, holder: &str) {
        if self.rotated || self.cells_taken {
            self.array.poison(holder);
        }
    }

    fn recover(&mut self) -> Result<()> {
        self.give_back()?;
        if self.rotated {
            self.held().restore_layout()?;
        }
        self.held = None;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.give_back()?;
        self.held = None;
        Ok(())
    }
}

impl<T: Element, const N: usize> LoopArray<'_, T, N> {
    /// Returns the cells to the array, which stays held.
    fn give_back(&mut self) -> Result<()> {
        self.windows.clear();
        self.halo = None;
        if let Some((DenseBlock { first, cells }, own)) = self.with_halo.take() {
            *self.held().storage_mut() = Storage::Dense(vec![DenseBlock { first, cells: cells.truncated(own) }]);
            self.cells_taken = false;
        }
        if let Some(served) = self.served.take() {
            *self.held().storage_mut() = Storage::Dense(vec![served.into_block()]);
        }
        if let Some(copy) = self.copy.take() {
            self.held().copy_from(&copy)?;
        }
        if !self.blocks.is_empty() {
            let here = std::mem::take(&mut self.blocks).into_iter().filter_map(|block| match block.into_inner() {
                RotatingBlock::Present(block) => Some(block),
                _ => None,
            });
            let blocks = here.chain(std::mem::take(&mut self.unreached)).collect();
            *self.held().storage_mut() = Storage::Dense(blocks);
        }
        Ok(())
    }

    /// *Collective.* Moves the rows of each peer's parts to one block on that peer.
    fn arrange_along_space(&mut self, cluster: &Cluster, cuts: &Cuts, offset: i64) -> Result<()> {
        let rows = Rank::all(cluster.size()).map(|peer| {
            let parts = cuts.parts_of(peer);
            self.rows(&cuts.space, offset, parts.end - 1).end - self.rows(&cuts.space, offset, parts.start).start
        });
        let layout = ArrayLayout::one_block_per_peer(&rows.collect::<Vec<_>>());
        self.held().redistribute(&layout, std::array::from_fn(|dimension| dimension))
    }

    /// *Collective.* Gives each peer the rows that its parts access. Rows from the smallest offset
    /// on are its own, the others are copied from the next peer.
    fn place_with_halo(&mut self, cluster: &Cluster, cuts: &Cuts, offsets: Range<i64>, sent: bool) -> Result<()> {
        self.arrange_along_space(cluster, cuts, offsets.start)?;
        let (extents, peers, me) = (self.array.shape().extents(), cluster.size(), cluster.rank().index());
        // Rows that a peer shares with the previous one.
        let shared = |peer: usize| match peer {
            0 => 0..0,
            peer if peer == peers => extents[0]..extents[0],
            peer => {
                let part = cuts.parts_of(Rank::new(peer as u32)).start;
                let start = |offset| array_rows(&cuts.space, offset, extents[0], part).start;
                start(offsets.start)..start(offsets.end)
            }
        };
        let Storage::Dense(blocks) = self.held().storage_mut() else {
            unreachable!("the planner rejects sparse arrays")
        };
        let DenseBlock { first, cells } = blocks.pop().expect("one block for each peer");
        let own = cells.shape().extent(0);
        let mut outgoing = vec![Bytes::new(); peers];
        if me > 0 {
            let rows = shared(me);
            let values = cells.slices(rows.start - first..rows.end - first).flatten().cloned().collect();
            outgoing[me - 1] = T::into_bytes(values);
        }
        self.cells_taken = true;
        let incoming = cluster.all_to_all(outgoing, Purpose::Rotation)?;
        let wanted = shared(me + 1);
        let count = (wanted.end - wanted.start) * extents[1..].iter().product::<usize>();
        let halo = if me + 1 < peers { T::unpack(&incoming[me + 1], count)? } else { Vec::new() };
        let known = (sent && me + 1 < peers).then(|| halo.clone());
        self.with_halo = Some((DenseBlock { first, cells: cells.extended(halo)? }, own));
        let window = self.block_window();
        let strip = |rows| RowStrip::new::<T, N>(window, &extents, rows);
        self.halo = Some(ArrayHalo::new(strip(shared(me)), strip(wanted), known));
        self.windows = vec![window];
        Ok(())
    }

    /// *Collective.* Makes each peer the owner of the rows it has in one block.
    fn serve_own_rows(&mut self, cluster: &Cluster) -> Result<()> {
        let (peers, extents) = (cluster.size(), self.array.shape().extents());
        let shares = |layout: &ArrayLayout| {
            let largest =
                Rank::all(peers).filter_map(|peer| layout.rows_of(peer)).map(|rows| rows.end - rows.start).max();
            layout.parts() == peers && largest.is_some_and(|largest| largest < extents[0])
        };
        if !shares(self.held().layout()) {
            let rows: Vec<usize> =
                Partitioner::equal(extents[0], peers).ranges().map(|rows| rows.end - rows.start).collect();
            let order = std::array::from_fn(|dimension| dimension);
            self.held().redistribute(&ArrayLayout::one_block_per_peer(&rows), order)?;
        }
        let per_index = if N == 1 { 1 } else { extents[1..N - 1].iter().product::<usize>() };
        let layout = self.held().layout().clone();
        let end = |peer| layout.rows_of(peer).map_or(0, |rows| rows.end) * per_index;
        let ends = Rank::all(peers).map(|peer| end(peer) as u64).collect();
        let Storage::Dense(blocks) = self.held().storage_mut() else {
            unreachable!("the planner rejects sparse arrays")
        };
        let block = blocks.pop().expect("one block for each peer");
        let mut served = ServedBlock::new(block, RangePartition::new(ends), home_shard(cluster));
        let block = served.block_mut();
        self.windows = vec![window(&mut block.cells, block.first)];
        self.served = Some(served);
        Ok(())
    }

    /// Rows of a time block.
    fn expected(&self, time: usize) -> Range<usize> {
        let layout = self.held.as_ref().map(ArrayGuard::layout);
        layout.and_then(|layout| layout.space.partitioner.range(time)).unwrap_or(0..0)
    }
}
