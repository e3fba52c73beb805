//! Loops over the entries of an array.
//!
//! Sparse arrays are dealt out in blocks of space and time, each sorted; dense ones are walked key by key.

use super::grid::Keys;
use super::{Space, equal_cut};
use crate::foreseen::Foreseen;
use crate::plan::{Block, Plan, Predictions, Skew};
use crate::site::Site;
use crate::view::Window;
use hemiola_array::dist::{Axis, Holding, Layout, Storage};
use hemiola_array::sparse::SparseBlock;
use hemiola_array::{Cut, DistArray, Element, Histogram, JointHistogram};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use parking_lot::Mutex;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The entries of an array.
pub(crate) struct Entries<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    sparse: bool,
    state: Option<Arranged<'a, T, N>>,
}

/// Entries that are held and dealt out. Addresses point into `held`.
struct Arranged<'a, T: Element, const N: usize> {
    plan: Plan,
    /// The first part of this peer.
    first_part: usize,
    blocks: Vec<RawBlock<T, N>>,
    /// The cells of a dense array.
    window: Window,
    /// Kept for as long as workers use what they have of it.
    _held: Holding<'a, T, N>,
}

/// The keys of a sparse block and the address of its values, which workers may change.
struct RawBlock<T, const N: usize> {
    block: NonNull<SparseBlock<T, N>>,
    values: *mut T,
    /// By time: positions of its entries, if times are not dimensions of the loop.
    positions: Option<Vec<Vec<u32>>>,
}

// SAFETY: the addresses point into an array that is held for the loop. Keys are only read; each value is handed to the one
// worker that runs its block (see the argument in `view::window`).
unsafe impl<T: Element, const N: usize> Sync for RawBlock<T, N> {}
// SAFETY: as above.
unsafe impl<T: Element, const N: usize> Send for RawBlock<T, N> {}

// SAFETY: the holding is kept for its lifetime only and not used while workers share this.
unsafe impl<T: Element, const N: usize> Sync for Arranged<'_, T, N> {}

impl<'a, T: Element, const N: usize> Entries<'a, T, N> {
    pub(crate) fn new(array: &'a DistArray<T, N>) -> Self {
        Self { array, sparse: array.is_sparse(), state: None }
    }

    fn state(&self) -> &Arranged<'a, T, N> {
        self.state.as_ref().expect("a loop is arranged before it runs")
    }

    fn keys(&self, block: Block) -> Keys<N> {
        Keys::of(&self.state().plan, &self.extents(), block)
    }

    fn layout(&self, plan: &Plan, peers: usize) -> Layout {
        let extent = |dimension| self.array.shape().extent(dimension);
        if !self.sparse {
            if plan.cuts.peers_used == 1 {
                return Layout::in_one_block(extent(0), peers);
            }
            let rows = Rank::all(peers).map(|peer| {
                let parts = plan.cuts.parts_of(peer);
                plan.cuts.space[parts.end] - plan.cuts.space[parts.start]
            });
            return Layout::one_block_per_peer(&rows.collect::<Vec<_>>());
        }
        // Peers that run nothing hold empty parts.
        let idle = plan.cuts.parts() * (peers / plan.cuts.peers_used - 1);
        let (dimension, time) = plan.dimensions;
        let bounds = match &plan.cuts.skew {
            None => plan.cuts.space.clone(),
            Some(skew) if skew.own_space => plan.cuts.space.clone(),
            // The whole array goes to the first part of the peer that runs the loop; positions do the rest.
            Some(_) => std::iter::once(0).chain(std::iter::repeat_n(extent(0), plan.cuts.parts())).collect(),
        };
        let last = bounds[bounds.len() - 1];
        let bounds = bounds.into_iter().chain(std::iter::repeat_n(last, idle)).collect();
        let axis = |dimension, bounds| Axis { dimension, cut: Cut::at(bounds) };
        let time = time.map(|time| axis(time, plan.cuts.time.clone()));
        Layout { space: axis(dimension, bounds), time, peers }
    }
}

impl<T: Element, const N: usize> Space<N> for Entries<'_, T, N> {
    type Value = T;

    fn extents(&self) -> [Range<u64>; N] {
        self.array.shape().extents().map(|extent| 0..extent)
    }

    fn entries(&self) -> u64 {
        self.array.len()
    }

    fn histogram(&self, dimension: usize) -> Result<Option<Arc<Histogram>>> {
        if self.sparse { self.array.histogram_shared(dimension).map(Some) } else { Ok(None) }
    }

    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<u64>> {
        if !self.sparse {
            return Ok(equal_cut(&self.extents()[dimension], parts));
        }
        let cut = self.array.balanced_cut(dimension, parts)?;
        Ok(std::iter::once(0).chain(cut.ranges().map(|range| range.end)).collect())
    }

    fn joint(&self, dimensions: [usize; 2], bounds: [Vec<u64>; 2]) -> Result<Option<Arc<JointHistogram>>> {
        if self.sparse { self.array.joint_histogram(dimensions, bounds).map(Some) } else { Ok(None) }
    }

    fn predictions(&self, site: &'static Site) -> Arc<Predictions> {
        // A name of its own: the address of another field of the site.
        let owner = std::ptr::from_ref(&site.ordered).addr();
        self.array.memo(owner, |_: &Predictions| true, Predictions::default)
    }

    fn sortable(&self) -> bool {
        self.sparse
    }

    fn rows_only(&self) -> bool {
        !self.sparse
    }

    fn arrange(&mut self, cluster: &Cluster, plan: &Plan, holder: &str) -> Result<()> {
        let mut held = self.array.hold(holder)?;
        held.arrange(&self.layout(plan, cluster.size()), std::array::from_fn(|at| plan.entry_order[at]))?;
        let (mut blocks, mut window) = (Vec::new(), Window::EMPTY);
        match held.storage_mut() {
            Storage::Sparse(held) => {
                blocks = held.iter_mut().map(|block| RawBlock::new(block, plan)).collect();
            }
            Storage::Dense(held) => {
                if let Some(block) = held.first_mut() {
                    let (count, first) = (block.cells.shape().extent(0) as usize, block.first as usize);
                    let (base, stride) = block.cells.as_mut_ptr();
                    window = Window { base: base.cast(), first, count, stride };
                }
            }
        }
        let first_part = plan.cuts.parts_of(cluster.rank()).start;
        self.state = Some(Arranged { plan: plan.clone(), first_part, blocks, window, _held: held });
        Ok(())
    }

    fn foreseen(&self, site: &'static Site) -> Option<Arc<Foreseen>> {
        let cuts = &self.state().plan.cuts;
        let owner = std::ptr::from_ref(site).addr();
        site.repeated
            .then(|| self.array.memo(owner, |known: &Foreseen| known.is_of(cuts), || Foreseen::new(cuts.clone())))
    }

    fn is_news(&self, site: &'static Site, plan: &Plan) -> bool {
        // A name of its own: the address of another field of the site.
        let owner = std::ptr::from_ref(&site.explain).addr();
        let last = self.array.memo(owner, |_: &Mutex<Option<Plan>>| true, Mutex::default);
        let before = last.lock().replace(plan.clone());
        before.as_ref() != Some(plan)
    }

    fn count(&self, block: Block) -> u64 {
        if !self.sparse {
            return self.keys(block).count();
        }
        let state = self.state();
        match &state.plan.cuts.skew {
            None => state.block(block).len() as u64,
            Some(skew) => state.positions(skew, block).len() as u64,
        }
    }

    fn visit(&self, block: Block, entries: Range<u64>, mut visit: impl FnMut([usize; N], *mut T)) {
        let state = self.state();
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
        // `visit` is the body of a loop. It is called in one place, so that it can become a part of this loop.
        for place in within(&entries, positions.map_or(count, <[u32]>::len)) {
            let at = positions.map_or(place, |positions| positions[place] as usize);
            let key = if narrow {
                std::array::from_fn(|dimension| columns[dimension][at] as usize)
            } else {
                held.key(at).map(|index| index as usize)
            };
            // SAFETY: there is one value for each of the `count` keys, and positions are of this block.
            visit(key, unsafe { raw.values.add(at) });
        }
    }
}

/// Places that are among `count`.
fn within(places: &Range<u64>, count: usize) -> Range<usize> {
    let end = (places.end.min(count as u64)) as usize;
    (places.start.min(end as u64)) as usize..end
}

/// The address of a cell of a dense array. The key lies in the window, because blocks of a peer are cut from its rows.
fn cell_at<T, const N: usize>(window: Window, extents: &[u64; N], key: [usize; N]) -> *mut T {
    let first = key[0] - window.first;
    assert!(first < window.count, "a block of this peer lies in its rows");
    let base = window.base.cast::<T>();
    let offset = if N == 1 {
        first
    } else {
        let row = (1..N - 1).fold(first, |row, dimension| row * extents[dimension] as usize + key[dimension]);
        row * window.stride + key[N - 1]
    };
    // SAFETY: the first index was checked, the others come from ranges inside the extents.
    unsafe { base.add(offset) }
}

impl<T: Element, const N: usize> Arranged<'_, T, N> {
    fn raw(&self, block: Block) -> &RawBlock<T, N> {
        let times = if self.plan.dimensions.1.is_some() { self.plan.cuts.times() } else { 1 };
        &self.blocks[(block.part - self.first_part) * times + block.time]
    }

    fn block(&self, block: Block) -> &SparseBlock<T, N> {
        self.raw(block).block()
    }

    /// The entries among which those of a skewed block are.
    fn skewed(&self, skew: &Skew, block: Block) -> &RawBlock<T, N> {
        &self.blocks[if skew.own_space { block.part - self.first_part } else { 0 }]
    }

    /// Positions of a skewed block's entries.
    fn positions(&self, skew: &Skew, block: Block) -> &[u32] {
        let times = self.plan.cuts.times();
        self.skewed(skew, block).positions.as_ref().map_or(&[], |all| &all[block.part * times + block.time])
    }
}

impl<T: Element, const N: usize> RawBlock<T, N> {
    fn new(block: &mut SparseBlock<T, N>, plan: &Plan) -> Self {
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
        // SAFETY: the block is held and nobody moves or changes its keys while the loop runs. Values are behind a pointer
        // of their own, so that this reference does not cover them.
        unsafe { self.block.as_ref() }
    }
}
