//! The arrays a loop uses, each once, under whatever names the body knows them.
//!
//! [`Arrays`] holds them without their types: planning needs extents and sizes, execution needs windows, and blocks that
//! travel are bytes. **Invariant:** between [`Arrays::place`] and [`Arrays::finish`] every array is held, lies as its
//! [`Placement`] says, and is reached through windows alone.

use crate::halo::{Change, Halo, Strip};
use crate::plan::{Block, Cuts, Placement};
use crate::view::Window;
use bytes::Bytes;
use hemiola_array::dist::{Axis, DenseBlock, Holding, Layout, Storage};
use hemiola_array::{Cut, Dense, DistArray, Element, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Purpose, Rank};
use hemiola_tables_proto::{Owners, Shard, rows};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Cells of a travelling message, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// The arrays of one loop.
#[derive(Default)]
pub struct Arrays<'a> {
    list: Vec<Box<dyn AnyArray + 'a>>,
}

impl<'a> Arrays<'a> {
    /// The number of an array in the loop; the same for the same array.
    pub(crate) fn add<T: Element, const N: usize>(&mut self, array: &'a DistArray<T, N>) -> usize {
        let address = std::ptr::from_ref(array).addr();
        if let Some(known) = self.list.iter().position(|known| known.address() == address) {
            return known;
        }
        self.list.push(Box::new(InLoop::new(array)));
        self.list.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, array: usize) -> &(dyn AnyArray + 'a) {
        &*self.list[array]
    }

    /// *Collective.* Takes hold of every array and puts it where the plan wants it.
    pub(crate) fn place(
        &mut self,
        cluster: &Cluster,
        holder: &str,
        placements: &[Placement],
        cuts: &Cuts,
    ) -> Result<()> {
        for array in &mut self.list {
            array.hold(holder)?;
        }
        self.list.iter_mut().zip(placements).try_for_each(|(array, placement)| array.place(cluster, *placement, cuts))
    }

    /// Gives every array back.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.list.iter_mut().try_for_each(|array| array.finish())
    }

    /// An error if an earlier loop has left one of them incomplete, or somebody holds one.
    pub(crate) fn must_be_free(&self, wanted_by: &str) -> Result<()> {
        self.list.iter().try_for_each(|array| array.must_be_free(wanted_by))
    }

    /// After a failure that cannot be recovered from, because a peer is lost: so are arrays whose blocks were under way.
    pub(crate) fn abandon(&self, holder: &str) {
        self.list.iter().for_each(|array| array.abandon(holder));
    }

    /// *Collective.* Gives every array back after a pass that failed. Blocks may be anywhere: they are sent home, so that
    /// arrays are whole, whatever the pass has done to their cells.
    pub(crate) fn recover(&mut self) -> Result<()> {
        self.list.iter_mut().try_for_each(|array| array.recover())
    }

    /// All arrays, with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &(dyn AnyArray + 'a))> {
        self.list.iter().enumerate().map(|(number, array)| (number, &**array))
    }

    /// The arrays whose blocks travel.
    pub(crate) fn travelling(&self) -> impl Iterator<Item = (usize, &(dyn AnyArray + 'a))> {
        self.all().filter(|(_, array)| array.travels())
    }
}

impl fmt::Debug for Arrays<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} arrays of a loop", self.list.len())
    }
}

/// Some rows of a block on their way to another peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The array's number in the loop.
    pub(crate) array: usize,
    pub(crate) time: usize,
    /// Indices of the first dimension, counted over the whole array.
    rows: Range<u64>,
}

/// An array in a loop, whatever it holds.
pub(crate) trait AnyArray: Sync {
    fn address(&self) -> usize;
    fn extents(&self) -> Vec<u64>;
    fn cell_bytes(&self) -> usize;
    fn is_sparse(&self) -> bool;
    fn must_be_free(&self, wanted_by: &str) -> Result<()>;
    fn hold(&mut self, holder: &str) -> Result<()>;
    fn place(&mut self, cluster: &Cluster, placement: Placement, cuts: &Cuts) -> Result<()>;
    /// Where the worker that runs `block` finds its part. Blocks that travel must be here.
    fn window(&self, block: Block) -> Window;
    fn travels(&self) -> bool;
    /// The rows of a time block as messages; the block is gone then.
    fn pack(&self, number: usize, time: usize) -> Vec<Bytes>;
    /// Takes in a message of [`pack`](Self::pack); says whether its block is complete.
    fn unpack(&self, piece: Piece, cells: &[u8]) -> Result<bool>;
    /// What has changed in rows that the next peer shares, as messages.
    fn changes(&self, number: usize, time: usize) -> Vec<Bytes>;
    /// Takes in a message of [`changes`](Self::changes).
    fn take_in(&self, change: &Change, cells: &[u8]) -> Result<()>;
    /// The owners of its rows, if it is served.
    fn owners(&self) -> Option<&Owners>;
    /// Appends the cells of rows that another peer asks for.
    fn serve(&self, rows: &[u8], cells: &mut Vec<u8>) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
    fn abandon(&self, holder: &str);
    /// *Collective.* As [`finish`](Self::finish), where a block may be on any peer.
    fn recover(&mut self) -> Result<()>;
}

struct InLoop<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    held: Option<Holding<'a, T, N>>,
    placement: Placement,
    /// By part or time block, or one for all: where workers find their rows. Travelling blocks have none.
    windows: Vec<Window>,
    /// A copy of the whole array, where peers other than the owner of a row need it.
    copy: Option<Dense<T, N>>,
    /// Blocks go from peer to peer, or did while the loop ran.
    travelled: bool,
    /// By time block: a block that travels, while it is here.
    blocks: Vec<Mutex<Travelling<T, N>>>,
    /// Blocks of rows that no index reaches.
    rest: Vec<DenseBlock<T, N>>,
    /// This peer's rows with its halo after them, and how many rows are its own.
    grown: Option<(DenseBlock<T, N>, u64)>,
    /// Its cells are not in the array: should they not be given back, it is incomplete.
    taken: bool,
    halo: Option<Halo<T>>,
    /// The rows this peer owns, if the array is served. Read by all; changed only where all workers meet, through windows.
    shard: Option<Shard<T, N>>,
    owners: Option<Owners>,
}

enum Travelling<T, const N: usize> {
    Elsewhere,
    /// Some rows have come.
    Arriving(Vec<T>),
    Here(DenseBlock<T, N>),
}

impl<'a, T: Element, const N: usize> InLoop<'a, T, N> {
    fn new(array: &'a DistArray<T, N>) -> Self {
        let (windows, blocks, rest) = (Vec::new(), Vec::new(), Vec::new());
        let placement = Placement::Whole;
        Self {
            array,
            held: None,
            placement,
            windows,
            copy: None,
            travelled: false,
            blocks,
            rest,
            grown: None,
            taken: false,
            halo: None,
            shard: None,
            owners: None,
        }
    }

    fn held(&mut self) -> &mut Holding<'a, T, N> {
        self.held.as_mut().expect("an array is placed after it was taken")
    }

    /// Rows of the first dimension that belong to a part, in the array's own numbers.
    fn rows(&self, bounds: &[u64], offset: i64, part: usize) -> Range<u64> {
        array_rows(bounds, offset, self.array.shape().extent(0), part)
    }

    fn layout(&self, bounds: &[u64], offset: i64, peers: usize) -> Layout {
        let parts = bounds.len() - 1;
        let ends = (0..parts).map(|part| self.rows(bounds, offset, part).end);
        let cut = Cut::at(std::iter::once(0).chain(ends).collect());
        Layout { space: Axis { dimension: 0, cut }, time: None, peers }
    }

    /// Windows on parts of one block that holds all of them.
    fn cut_windows(&mut self, bounds: &[u64], offset: i64, parts: Range<usize>) {
        let whole = self.block_window();
        let extents = self.array.shape().extents();
        let cells = cells_per_index::<N>(&extents, whole.stride);
        self.windows = (0..bounds.len() - 1)
            .map(|part| {
                if !parts.contains(&part) {
                    return Window::EMPTY;
                }
                let rows = self.rows(bounds, offset, part);
                whole.part(rows.start as usize..rows.end as usize, cells, size_of::<T>())
            })
            .collect();
    }

    /// The window on this peer's only block, or on the copy.
    fn block_window(&mut self) -> Window {
        if let Some(copy) = &mut self.copy {
            return window(copy, 0);
        }
        if let Some((block, _)) = &mut self.grown {
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

/// Rows of an array of `extent` rows that belong to a part of a loop's dimension, when its subscript is the index plus
/// `offset`. The first and the last part also have the rows that no index reaches.
pub(crate) fn array_rows(bounds: &[u64], offset: i64, extent: u64, part: usize) -> Range<u64> {
    let parts = bounds.len() - 1;
    let bound = |at: usize| match at {
        0 => 0,
        at if at == parts => extent,
        at => bounds[at].saturating_add_signed(offset).min(extent),
    };
    bound(part)..bound(part + 1)
}

fn window<T, const N: usize>(cells: &mut Dense<T, N>, first: u64) -> Window {
    let count = cells.shape().extent(0) as usize;
    let (base, stride) = cells.as_mut_ptr();
    Window { base: base.cast(), first: first as usize, count, stride }
}

/// Cells from one index of the first dimension to the next.
fn cells_per_index<const N: usize>(extents: &[u64; N], stride: usize) -> usize {
    if N == 1 { 1 } else { extents[1..N - 1].iter().product::<u64>() as usize * stride }
}

impl<T: Element, const N: usize> AnyArray for InLoop<'_, T, N> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self.array).addr()
    }

    fn extents(&self) -> Vec<u64> {
        self.array.shape().extents().to_vec()
    }

    fn cell_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn is_sparse(&self) -> bool {
        self.array.is_sparse()
    }

    fn must_be_free(&self, wanted_by: &str) -> Result<()> {
        Ok(self.array.hold(wanted_by).map(drop)?)
    }

    fn hold(&mut self, holder: &str) -> Result<()> {
        self.held = Some(self.array.hold(holder)?);
        Ok(())
    }

    fn place(&mut self, cluster: &Cluster, placement: Placement, cuts: &Cuts) -> Result<()> {
        self.placement = placement;
        let (peers, extent) = (cluster.size(), self.array.shape().extent(0));
        let order = std::array::from_fn(|dimension| dimension);
        let my_parts = cuts.parts_of(cluster.rank());
        if cuts.peers_used == 1 {
            // All workers share this peer's memory: one block, in which each has its window.
            self.held().arrange(&Layout::in_one_block(extent, peers), order)?;
            if !cluster.is_root() {
                return Ok(());
            }
            match placement {
                Placement::Local { offset } => self.cut_windows(&cuts.space, offset, my_parts),
                Placement::Rotating { offset } => self.cut_windows(&cuts.time, offset, 0..cuts.time.len() - 1),
                Placement::Whole | Placement::Served | Placement::Halo { .. } => {
                    self.windows = vec![self.block_window()];
                }
            }
            return Ok(());
        }
        match placement {
            Placement::Local { offset } => {
                self.arrange_along_space(cluster, cuts, offset)?;
                self.cut_windows(&cuts.space, offset, my_parts);
            }
            Placement::Halo { low, high, sent } => self.share_edges(cluster, cuts, low..high, sent)?,
            Placement::Rotating { offset } => {
                let time = cuts.time_by_home(peers);
                let layout = self.layout(&time, offset, peers);
                self.held().arrange(&layout, order)?;
                let first = layout.parts_of(cluster.rank()).start;
                let Storage::Dense(blocks) = self.held().storage_mut() else {
                    unreachable!("checked when it was planned")
                };
                let mut blocks: Vec<_> = std::mem::take(blocks).into_iter().map(Some).collect();
                let mut here = |time: usize| time.checked_sub(first).and_then(|at| blocks.get_mut(at)?.take());
                let times = cuts.time.len() - 1;
                let block = |time| here(time).map_or(Travelling::Elsewhere, Travelling::Here);
                self.blocks = (0..times).map(block).map(Mutex::new).collect();
                self.rest = blocks.into_iter().flatten().collect();
                self.travelled = true;
            }
            Placement::Whole => {
                self.copy = Some(self.held().copy_of_all(|_| true)?);
                self.windows = vec![self.block_window()];
            }
            Placement::Served => self.open_shard(cluster)?,
        }
        Ok(())
    }

    fn window(&self, block: Block) -> Window {
        let at = match self.placement {
            Placement::Local { .. } => block.part,
            Placement::Rotating { .. } => block.time,
            Placement::Whole | Placement::Served | Placement::Halo { .. } => 0,
        };
        if self.blocks.is_empty() {
            return self.windows.get(at).copied().unwrap_or(Window::EMPTY);
        }
        match &mut *self.blocks[at].lock() {
            Travelling::Here(block) => window(&mut block.cells, block.first),
            _ => Window::EMPTY,
        }
    }

    fn travels(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn pack(&self, number: usize, time: usize) -> Vec<Bytes> {
        let Travelling::Here(block) = std::mem::replace(&mut *self.blocks[time].lock(), Travelling::Elsewhere) else {
            unreachable!("a worker sends a block that it has just run")
        };
        let shape = block.cells.shape();
        let cells = shape.extents()[1..].iter().product::<u64>() as usize;
        let rows_per_message = (MESSAGE_BYTES / (cells * size_of::<T>()).max(1)).max(1);
        let mut messages = Vec::new();
        let mut start = 0;
        // A block without rows travels too: its receiver counts blocks.
        while start < shape.extent(0) || messages.is_empty() {
            let end = (start + rows_per_message as u64).min(shape.extent(0));
            let piece = Piece { array: number, time, rows: block.first + start..block.first + end };
            let mut bytes = crate::run::post::encoded_piece(piece);
            bytes.reserve((end - start) as usize * cells * size_of::<T>());
            let mut pieces = block.cells.pieces(start..end);
            if T::PLAIN {
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

    fn unpack(&self, piece: Piece, cells: &[u8]) -> Result<bool> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let shape = self.array.shape();
        let per_row = shape.extents()[1..].iter().product::<u64>();
        let mut slot = self.blocks.get(piece.time).ok_or_else(|| bad("a block that is not in the plan"))?.lock();
        let rows = piece.rows.end.checked_sub(piece.rows.start).filter(|_| piece.rows.end <= shape.extent(0));
        let count = rows.ok_or_else(|| bad("rows outside of the array"))? * per_row;
        let expected = self.expected(piece.time);
        let values = T::unpack(cells, count as usize)?;
        let mut all = match std::mem::replace(&mut *slot, Travelling::Elsewhere) {
            Travelling::Elsewhere => values,
            Travelling::Arriving(mut before) => {
                before.extend(values);
                before
            }
            Travelling::Here(_) => return Err(bad("a block that is here already").into()),
        };
        let needed = (expected.end - expected.start) * per_row;
        if (all.len() as u64) < needed {
            all.reserve_exact(needed as usize - all.len());
            *slot = Travelling::Arriving(all);
            return Ok(false);
        }
        let mut extents = shape.extents();
        extents[0] = expected.end - expected.start;
        if all.len() as u64 != needed {
            return Err(bad("more rows than the block has").into());
        }
        let cells = Dense::from_values(Shape::new(extents), all)?;
        *slot = Travelling::Here(DenseBlock { first: expected.start, cells });
        Ok(true)
    }

    fn changes(&self, number: usize, time: usize) -> Vec<Bytes> {
        self.halo.iter().flat_map(|halo| halo.changes(number, time)).map(Bytes::from).collect()
    }

    fn take_in(&self, change: &Change, cells: &[u8]) -> Result<()> {
        let bad = || hemiola_array::Error::BadMessage { problem: "changes of an array that is not shared".to_owned() };
        self.halo.as_ref().ok_or_else(bad)?.take_in(change, cells)
    }

    fn owners(&self) -> Option<&Owners> {
        self.owners.as_ref()
    }

    fn serve(&self, rows: &[u8], cells: &mut Vec<u8>) -> Result<()> {
        let bad = || hemiola_array::Error::BadMessage { problem: "rows of an array that is not served".to_owned() };
        let (shard, owners) = self.shard.as_ref().zip(self.owners.as_ref()).ok_or_else(bad)?;
        shard.get(&rows::unpack(rows, owners.rows())?, cells)?;
        Ok(())
    }

    fn abandon(&self, holder: &str) {
        if self.travelled || self.taken {
            self.array.abandon(holder);
        }
    }

    fn recover(&mut self) -> Result<()> {
        self.give_back()?;
        if self.travelled {
            self.held().gather_rows()?;
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

impl<T: Element, const N: usize> InLoop<'_, T, N> {
    /// Puts the cells back into the array, which stays held.
    fn give_back(&mut self) -> Result<()> {
        self.windows.clear();
        self.halo = None;
        if let Some((DenseBlock { first, cells }, own)) = self.grown.take() {
            *self.held().storage_mut() = Storage::Dense(vec![DenseBlock { first, cells: cells.shrunk(own) }]);
            self.taken = false;
        }
        if let Some(shard) = self.shard.take() {
            *self.held().storage_mut() = Storage::Dense(vec![shard.into_block()]);
        }
        if let Some(copy) = self.copy.take() {
            self.held().take_from(&copy)?;
        }
        if !self.blocks.is_empty() {
            let here = std::mem::take(&mut self.blocks).into_iter().filter_map(|block| match block.into_inner() {
                Travelling::Here(block) => Some(block),
                _ => None,
            });
            let blocks = here.chain(std::mem::take(&mut self.rest)).collect();
            *self.held().storage_mut() = Storage::Dense(blocks);
        }
        Ok(())
    }

    /// *Collective.* Each peer has the rows of its parts in one block.
    fn arrange_along_space(&mut self, cluster: &Cluster, cuts: &Cuts, offset: i64) -> Result<()> {
        let rows = Rank::all(cluster.size()).map(|peer| {
            let parts = cuts.parts_of(peer);
            self.rows(&cuts.space, offset, parts.end - 1).end - self.rows(&cuts.space, offset, parts.start).start
        });
        let layout = Layout::one_block_per_peer(&rows.collect::<Vec<_>>());
        self.held().arrange(&layout, std::array::from_fn(|dimension| dimension))
    }

    /// *Collective.* Each peer has the rows that its parts touch: those from the least offset on are its own, the others are
    /// copied from the next peer.
    fn share_edges(&mut self, cluster: &Cluster, cuts: &Cuts, offsets: Range<i64>, sent: bool) -> Result<()> {
        self.arrange_along_space(cluster, cuts, offsets.start)?;
        let (extents, peers, me) = (self.array.shape().extents(), cluster.size(), cluster.rank().index());
        // The rows that a peer shares with the one before it.
        let shared = |peer: usize| match peer {
            0 => 0..0,
            peer if peer == peers => extents[0]..extents[0],
            peer => {
                let part = cuts.parts_of(Rank::new(peer as u32)).start;
                let start = |offset| array_rows(&cuts.space, offset, extents[0], part).start;
                start(offsets.start)..start(offsets.end)
            }
        };
        let Storage::Dense(blocks) = self.held().storage_mut() else { unreachable!("checked when it was planned") };
        let DenseBlock { first, cells } = blocks.pop().expect("one block for each peer");
        let own = cells.shape().extent(0);
        let mut outgoing = vec![Bytes::new(); peers];
        if me > 0 {
            let rows = shared(me);
            let values = cells.pieces(rows.start - first..rows.end - first).flatten().cloned().collect();
            outgoing[me - 1] = T::into_bytes(values);
        }
        self.taken = true;
        let incoming = cluster.all_to_all(outgoing, Purpose::Rotation)?;
        let wanted = shared(me + 1);
        let count = (wanted.end - wanted.start) * extents[1..].iter().product::<u64>();
        let halo = if me + 1 < peers { T::unpack(&incoming[me + 1], count as usize)? } else { Vec::new() };
        let known = (sent && me + 1 < peers).then(|| halo.clone());
        self.grown = Some((DenseBlock { first, cells: cells.grown(halo)? }, own));
        let window = self.block_window();
        let strip = |rows| Strip::new::<T, N>(window, &extents, rows);
        self.halo = Some(Halo::new(strip(shared(me)), strip(wanted), known));
        self.windows = vec![window];
        Ok(())
    }

    /// *Collective.* Each peer owns the rows it has in one block.
    fn open_shard(&mut self, cluster: &Cluster) -> Result<()> {
        let (peers, extents) = (cluster.size(), self.array.shape().extents());
        let shares = |layout: &Layout| {
            let most = Rank::all(peers).filter_map(|peer| layout.rows_of(peer)).map(|rows| rows.end - rows.start).max();
            layout.parts() == peers && most.is_some_and(|most| most < extents[0])
        };
        if !shares(self.held().layout()) {
            let rows: Vec<u64> = Cut::equal(extents[0], peers).ranges().map(|rows| rows.end - rows.start).collect();
            let order = std::array::from_fn(|dimension| dimension);
            self.held().arrange(&Layout::one_block_per_peer(&rows), order)?;
        }
        let per_index = if N == 1 { 1 } else { extents[1..N - 1].iter().product::<u64>() };
        let layout = self.held().layout().clone();
        let ends = Rank::all(peers).map(|peer| layout.rows_of(peer).map_or(0, |rows| rows.end) * per_index).collect();
        self.owners = Some(Owners::new(ends));
        let Storage::Dense(blocks) = self.held().storage_mut() else { unreachable!("checked when it was planned") };
        let mut shard = Shard::new(blocks.pop().expect("one block for each peer"));
        let block = shard.block_mut();
        self.windows = vec![window(&mut block.cells, block.first)];
        self.shard = Some(shard);
        Ok(())
    }

    /// The rows of a time block.
    fn expected(&self, time: usize) -> Range<u64> {
        let layout = self.held.as_ref().map(Holding::layout);
        layout.and_then(|layout| layout.space.cut.range(time)).unwrap_or(0..0)
    }
}
