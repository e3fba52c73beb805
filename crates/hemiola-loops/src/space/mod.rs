//! What a loop iterates over: entries of an array, or ranges of indices.

#[expect(unsafe_code, reason = "entries are reached by address; argued at each place")]
pub(crate) mod entries;
pub(crate) mod grid;
pub(crate) mod ranges;

use crate::foreseen::Foreseen;
use crate::plan::{Block, Plan, Predictions};
use crate::site::Site;
use hemiola_array::{Cut, Histogram, JointHistogram};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;
use std::sync::Arc;

/// An iteration space of `N` dimensions whose entries have a value.
pub(crate) trait Space<const N: usize>: Sync {
    /// What lies at an entry.
    type Value;

    /// The ranges of indices.
    fn extents(&self) -> [Range<u64>; N];

    /// The number of entries, over all peers.
    fn entries(&self) -> u64;

    /// *Collective.* How entries are spread along a dimension; `None` if evenly.
    fn histogram(&self, dimension: usize) -> Result<Option<Arc<Histogram>>>;

    /// *Collective.* Ends of near-equal parts of a dimension, from its first index on.
    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<u64>>;

    /// *Collective.* Entries by ranges of two dimensions; `None` if they are spread evenly.
    fn joint(&self, dimensions: [usize; 2], bounds: [Vec<u64>; 2]) -> Result<Option<Arc<JointHistogram>>>;

    /// What has been predicted of a loop over it before, if there is a place for that.
    fn predictions(&self, site: &'static Site) -> Arc<Predictions>;

    /// Whether its entries are stored in an order of our choice.
    fn sortable(&self) -> bool;

    /// Whether peers can have it cut along the first dimension only.
    fn rows_only(&self) -> bool;

    /// *Collective.* Takes hold of the entries and deals them out as the plan says.
    fn arrange(&mut self, cluster: &Cluster, plan: &Plan, holder: &str) -> Result<()>;

    /// What a repeated loop remembers from pass to pass, if there is a place for it.
    fn foreseen(&self, site: &'static Site) -> Option<Arc<Foreseen>>;

    /// Whether this is another plan than the last one of the same loop, as far as that can be known.
    fn is_news(&self, site: &'static Site, plan: &Plan) -> bool;

    /// The number of entries of a block of this peer.
    fn count(&self, block: Block) -> u64;

    /// Hands entries of a block of this peer to `visit`, in the plan's order: those whose places in the block are in
    /// `entries`. The address of the value is that of an entry that no other block has.
    fn visit(&self, block: Block, entries: Range<u64>, visit: impl FnMut([usize; N], *mut Self::Value));
}

/// Ends of parts of near-equal length.
pub(crate) fn equal_cut(range: &Range<u64>, parts: usize) -> Vec<u64> {
    let cut = Cut::equal(range.end.saturating_sub(range.start), parts);
    std::iter::once(range.start).chain(cut.ranges().map(|part| range.start + part.end)).collect()
}
