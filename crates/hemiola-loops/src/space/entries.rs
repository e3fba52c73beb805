//! Loops over the entries of an array.
//!
//! Entries of a sparse array are sorted into blocks of space and time. Dense arrays are visited key
//! by key.

use super::grid::BlockKeys;
use super::{IterationSpace, equal_cut};
use crate::arrays::first_non_finite;
use crate::plan::{LoopBlock, LoopPlan, PredictionMemo, SkewedCuts};
use crate::prefetch::PrefetchMemo;
use crate::site::LoopSite;
use crate::view::Window;
use hemiola_array::dist::{ArrayGuard, ArrayLayout, PartitionedDimension, Storage};
use hemiola_array::sparse::SparseBlock;
use hemiola_array::{DistArray, Element, Histogram, JointHistogram, Partitioner};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use parking_lot::Mutex;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Iteration space of the entries of an array.
pub(crate) struct EntrySpace<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    sparse: bool,
    /// The body changes values.
    written: bool,
    arranged: Option<ArrangedEntries<'a, T, N>>,
}

/// Entries held by the loop and sorted into blocks. Addresses point into `held`.
struct ArrangedEntries<'a, T: Element, const N: usize> {
    plan: LoopPlan,
    /// First part of this peer.
    first_part: usize,
    blocks: Vec<RawSparseBlock<T, N>>,
    /// Cells of a dense array.
    window: Window,
    /// Keeps the array held while workers use the addresses.
    held: ArrayGuard<'a, T, N>,
}

/// Keys of a sparse block, and the address of its values, which workers may change.
struct RawSparseBlock<T, const N: usize> {
    block: NonNull<SparseBlock<T, N>>,
    values: *mut T,
    /// Positions of the entries of each skewed block, if times are not dimensions of the loop.
    positions: Option<Vec<Vec<u32>>>,
}

// SAFETY: the addresses point into an array that is held for the loop. Keys are only read; each
// value is passed to the one worker that runs its block (see the argument in `view::window`).
unsafe impl<T: Element, const N: usize> Sync for RawSparseBlock<T, N> {}
// SAFETY: as above.
unsafe impl<T: Element, const N: usize> Send for RawSparseBlock<T, N> {}

// SAFETY: `held` is stored for its lifetime, and not used while workers share this value.
unsafe impl<T: Element, const N: usize> Sync for ArrangedEntries<'_, T, N> {}

impl<'a, T: Element, const N: usize> EntrySpace<'a, T, N> {
    pub(crate) fn new(array: &'a DistArray<T, N>) -> Self {
        Self { array, sparse: array.is_sparse(), written: false, arranged: None }
    }

    /// Entries whose values the body changes.
    pub(crate) fn written(array: &'a DistArray<T, N>) -> Self {
        Self { written: true, ..Self::new(array) }
    }

    fn arranged(&self) -> &ArrangedEntries<'a, T, N> {
        self.arranged.as_ref().expect("a loop is arranged before it runs")
    }

    fn keys(&self, block: LoopBlock) -> BlockKeys<N> {
        BlockKeys::of(&self.arranged().plan, &self.extents(), block)
    }

    fn layout(&self, plan: &LoopPlan, peers: usize) -> ArrayLayout {
        let extent = |dimension| self.array.shape().extent(dimension);
        if !self.sparse {
            if plan.cuts.peers_used == 1 {
                return ArrayLayout::single_block(extent(0), peers);
            }
            let rows = Rank::all(peers).map(|peer| {
                let parts = plan.cuts.parts_of(peer);
                plan.cuts.space[parts.end] - plan.cuts.space[parts.start]
            });
            return ArrayLayout::one_block_per_peer(&rows.collect::<Vec<_>>());
        }
        // Peers without blocks get empty parts.
        let idle = plan.cuts.parts() * (peers / plan.cuts.peers_used - 1);
        let (dimension, time) = plan.dimensions;
        let bounds = match &plan.cuts.skew {
            None => plan.cuts.space.clone(),
            Some(skew) if skew.unskewed_space => plan.cuts.space.clone(),
            // All entries go to the first part of the peer that runs the loop; positions select the
            // blocks.
            Some(_) => std::iter::once(0).chain(std::iter::repeat_n(extent(0), plan.cuts.parts())).collect(),
        };
        let last = bounds[bounds.len() - 1];
        let bounds = bounds.into_iter().chain(std::iter::repeat_n(last, idle)).collect();
        let axis =
            |dimension, bounds| PartitionedDimension { dimension, partitioner: Partitioner::from_bounds(bounds) };
        let time = time.map(|time| axis(time, plan.cuts.time.clone()));
        ArrayLayout { space: axis(dimension, bounds), time, peers }
    }
}

impl<T: Element, const N: usize> IterationSpace<N> for EntrySpace<'_, T, N> {
    type Value = T;

    fn extents(&self) -> [Range<usize>; N] {
        self.array.shape().extents().map(|extent| 0..extent)
    }

    fn entries(&self) -> u64 {
        self.array.len() as u64
    }

    fn histogram(&self, dimension: usize) -> Result<Option<Arc<Histogram>>> {
        if self.sparse { self.array.shared_histogram(dimension).map(Some) } else { Ok(None) }
    }

    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<usize>> {
        if !self.sparse {
            return Ok(equal_cut(&self.extents()[dimension], parts));
        }
        let cut = self.array.balanced_partitioner(dimension, parts)?;
        Ok(std::iter::once(0).chain(cut.ranges().map(|range| range.end)).collect())
    }

    fn joint_histogram(&self, dimensions: [usize; 2], bounds: [Vec<usize>; 2]) -> Result<Option<Arc<JointHistogram>>> {
        if self.sparse { self.array.joint_histogram(dimensions, bounds).map(Some) } else { Ok(None) }
    }

    fn prediction_memo(&self, site: &'static LoopSite) -> Arc<PredictionMemo> {
        // A distinct key for the memo: the address of another field of the site.
        let owner = std::ptr::from_ref(&site.ordered).addr();
        self.array.cached(owner, |_: &PredictionMemo| true, PredictionMemo::default)
    }

    fn sortable(&self) -> bool {
        self.sparse
    }

    fn rows_only(&self) -> bool {
        !self.sparse
    }

    fn arrange(&mut self, cluster: &Cluster, plan: &LoopPlan, holder: &str) -> Result<()> {
        let mut held = self.array.lock(holder)?;
        held.redistribute(&self.layout(plan, cluster.size()), std::array::from_fn(|at| plan.entry_order[at]))?;
        let (mut blocks, mut window) = (Vec::new(), Window::EMPTY);
        match held.storage_mut() {
            Storage::Sparse(held) => {
                blocks = held.iter_mut().map(|block| RawSparseBlock::new(block, plan)).collect();
            }
            Storage::Dense(held) => {
                if let Some(block) = held.first_mut() {
                    let (count, first) = (block.cells.shape().extent(0), block.first);
                    let (base, stride) = block.cells.as_mut_ptr();
                    window = Window { base: base.cast(), first, count, stride };
                }
            }
        }
        let first_part = plan.cuts.parts_of(cluster.rank()).start;
        self.arranged = Some(ArrangedEntries { plan: plan.clone(), first_part, blocks, window, held });
        Ok(())
    }

    fn prefetch_memo(&self, site: &'static LoopSite) -> Option<Arc<PrefetchMemo>> {
        let cuts = &self.arranged().plan.cuts;
        let owner = std::ptr::from_ref(site).addr();
        site.repeated.then(|| {
            self.array.cached(
                owner,
                |known: &PrefetchMemo| known.matches_cuts(cuts),
                || PrefetchMemo::new(cuts.clone()),
            )
        })
    }

    fn plan_changed(&self, site: &'static LoopSite, plan: &LoopPlan) -> bool {
        // A distinct key for the memo: the address of another field of the site.
        let owner = std::ptr::from_ref(&site.explain).addr();
        let last = self.array.cached(owner, |_: &Mutex<Option<LoopPlan>>| true, Mutex::default);
        let before = last.lock().replace(plan.clone());
        before.as_ref() != Some(plan)
    }

    fn first_non_finite(&self) -> Option<(Vec<usize>, f64)> {
        if !self.written || !T::CAN_BE_NON_FINITE || self.array.allows_non_finite() {
            return None;
        }
        let of_sparse = |block: &SparseBlock<T, N>| {
            T::first_non_finite(block.values()).map(|(at, value)| (block.key(at).to_vec(), value))
        };
        match self.arranged().held.storage() {
            Storage::Sparse(blocks) => blocks.iter().find_map(of_sparse),
            Storage::Dense(blocks) => blocks.iter().find_map(|block| first_non_finite(&block.cells, block.first)),
        }
    }

    fn count(&self, block: LoopBlock) -> u64 {
        if !self.sparse {
            return self.keys(block).count();
        }
        let state = self.arranged();
        match &state.plan.cuts.skew {
            None => state.block(block).len() as u64,
            Some(skew) => state.positions(skew, block).len() as u64,
        }
    }

    fn visit(&self, block: LoopBlock, entries: Range<u64>, mut visit: impl FnMut([usize; N], *mut T)) {
        let state = self.arranged();
        if !self.sparse {
            let extents = self.array.shape().extents();
            let window = state.window;
            self.keys(block).for_each(entries, |key| visit(key, cell_at(window, &extents, key)));
            return;
        }
        let (raw, positions) = match &state.plan.cuts.skew {
            None => (state.raw(block), None),
            Some(skew) => (state.skewed(skew, block), Some(state.positions(skew, block))),
        };
        let held = raw.block();
        let count = held.len();
        let columns: [Option<&[u32]>; N] = std::array::from_fn(|dimension| held.keys(dimension).as_narrow());
        let narrow = columns.iter().all(Option::is_some);
        let columns = columns.map(|column| column.map_or(&[][..], |column| &column[..count]));
        // `visit` is the body of a loop. It has a single call site, so that it can be inlined into
        // this loop.
        for position in clamp_positions(&entries, positions.map_or(count, <[u32]>::len)) {
            let at = positions.map_or(position, |positions| positions[position] as usize);
            let key =
                if narrow { std::array::from_fn(|dimension| columns[dimension][at] as usize) } else { held.key(at) };
            // SAFETY: there is one value for each of the `count` keys, and positions are of this
            // block.
            visit(key, unsafe { raw.values.add(at) });
        }
    }
}

/// Limits a range of positions to `count`.
fn clamp_positions(positions: &Range<u64>, count: usize) -> Range<usize> {
    let end = (positions.end.min(count as u64)) as usize;
    (positions.start.min(end as u64)) as usize..end
}

/// Address of a cell of a dense array. The key lies in the window, because the blocks of a peer are
/// cut from its rows.
fn cell_at<T, const N: usize>(window: Window, extents: &[usize; N], key: [usize; N]) -> *mut T {
    let first = key[0] - window.first;
    assert!(first < window.count, "blocks of a peer lie in its rows");
    let base = window.base.cast::<T>();
    let offset = if N == 1 {
        first
    } else {
        let row = (1..N - 1).fold(first, |row, dimension| row * extents[dimension] + key[dimension]);
        row * window.stride + key[N - 1]
    };
    // SAFETY: the first index was checked, the others come from ranges inside the extents.
    unsafe { base.add(offset) }
}

impl<T: Element, const N: usize> ArrangedEntries<'_, T, N> {
    fn raw(&self, block: LoopBlock) -> &RawSparseBlock<T, N> {
        let times = if self.plan.dimensions.1.is_some() { self.plan.cuts.times() } else { 1 };
        &self.blocks[(block.part - self.first_part) * times + block.time]
    }

    fn block(&self, block: LoopBlock) -> &SparseBlock<T, N> {
        self.raw(block).block()
    }

    /// Block of entries that contains those of a skewed block.
    fn skewed(&self, skew: &SkewedCuts, block: LoopBlock) -> &RawSparseBlock<T, N> {
        &self.blocks[if skew.unskewed_space { block.part - self.first_part } else { 0 }]
    }

    /// Positions of the entries of a skewed block.
    fn positions(&self, skew: &SkewedCuts, block: LoopBlock) -> &[u32] {
        let times = self.plan.cuts.times();
        self.skewed(skew, block).positions.as_ref().map_or(&[], |all| &all[block.part * times + block.time])
    }
}

impl<T: Element, const N: usize> RawSparseBlock<T, N> {
    fn new(block: &mut SparseBlock<T, N>, plan: &LoopPlan) -> Self {
        let values = block.values_mut().as_mut_ptr();
        let positions = plan.cuts.skew.as_ref().map(|_| {
            let times = plan.cuts.times();
            let mut positions = vec![Vec::new(); plan.cuts.parts() * times];
            for at in 0..block.len() {
                let found = plan.block_of(&block.key(at));
                positions[found.part * times + found.time].push(at as u32);
            }
            positions
        });
        Self { block: NonNull::from(block), values, positions }
    }

    fn block(&self) -> &SparseBlock<T, N> {
        // SAFETY: the block is held, and its keys are not moved or changed while the loop runs.
        // Values are behind a separate pointer, so this reference does not cover them.
        unsafe { self.block.as_ref() }
    }
}
