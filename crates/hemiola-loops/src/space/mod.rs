//! Iteration spaces: entries of an array, or ranges of indices.

#[expect(unsafe_code, reason = "entries are reached by address; each use has its argument")]
pub(crate) mod entries;
pub(crate) mod grid;
pub(crate) mod ranges;

use crate::plan::{LoopBlock, LoopPlan, PredictionMemo};
use crate::prefetch::PrefetchMemo;
use crate::site::LoopSite;
use hemiola_array::{Histogram, JointHistogram, Partitioner};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;
use std::sync::Arc;

/// An iteration space of `N` dimensions whose entries have a value.
pub(crate) trait IterationSpace<const N: usize>: Sync {
    /// Type of the value of an entry.
    type Value;

    /// Index ranges, by dimension.
    fn extents(&self) -> [Range<usize>; N];

    /// Number of entries, over all peers.
    fn entries(&self) -> u64;

    /// *Collective.* Distribution of entries along a dimension; `None` if it is uniform.
    fn histogram(&self, dimension: usize) -> Result<Option<Arc<Histogram>>>;

    /// *Collective.* Bounds of near-equal parts of a dimension, starting with its first index.
    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<usize>>;

    /// *Collective.* Entries by ranges of two dimensions; `None` if they are uniform.
    fn joint_histogram(&self, dimensions: [usize; 2], bounds: [Vec<usize>; 2]) -> Result<Option<Arc<JointHistogram>>>;

    /// Earlier predictions for this loop, cached with the array.
    fn prediction_memo(&self, site: &'static LoopSite) -> Arc<PredictionMemo>;

    /// True if the planner may choose the order in which entries are stored.
    fn sortable(&self) -> bool;

    /// True if peers can divide the space along the first dimension only.
    fn rows_only(&self) -> bool;

    /// *Collective.* Holds the entries and moves them to the peers and blocks of the plan.
    fn arrange(&mut self, cluster: &Cluster, plan: &LoopPlan, holder: &str) -> Result<()>;

    /// Prefetch sets of a repeated loop, cached with the array; `None` if there is no array.
    fn prefetch_memo(&self, site: &'static LoopSite) -> Option<Arc<PrefetchMemo>>;

    /// True if this plan differs from the last one of the same loop, or if that is unknown.
    fn plan_changed(&self, site: &'static LoopSite, plan: &LoopPlan) -> bool;

    /// Key and value of the first entry on this peer that is NaN or infinite, if the body changes
    /// entries and the array does not allow it. Called after a pass, while no worker runs.
    fn first_non_finite(&self) -> Option<(Vec<usize>, f64)> {
        None
    }

    /// Number of entries in a block of this peer.
    fn count(&self, block: LoopBlock) -> u64;

    /// Calls `visit` for the entries of a block of this peer, in the plan's order, whose positions
    /// in the block lie in `entries`. The address is that of the value of the entry, which no other
    /// block has.
    fn visit(&self, block: LoopBlock, entries: Range<u64>, visit: impl FnMut([usize; N], *mut Self::Value));
}

/// Bounds of parts of near-equal length.
pub(crate) fn equal_cut(range: &Range<usize>, parts: usize) -> Vec<usize> {
    let cut = Partitioner::equal(range.end.saturating_sub(range.start), parts);
    std::iter::once(range.start).chain(cut.ranges().map(|part| range.start + part.end)).collect()
}
