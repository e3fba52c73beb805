//! Loops over ranges of indices.

use super::grid::Keys;
use super::{Space, equal_cut};
use crate::foreseen::Foreseen;
use crate::plan::{Block, Plan, Predictions};
use crate::site::Site;
use hemiola_array::{Histogram, JointHistogram};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;
use std::sync::Arc;

/// All keys of a box.
pub(crate) struct Ranges<const N: usize> {
    extents: [Range<u64>; N],
    plan: Option<Plan>,
}

impl<const N: usize> Ranges<N> {
    pub(crate) fn new(ranges: [Range<usize>; N]) -> Self {
        let extents = ranges.map(|range| range.start as u64..(range.end as u64).max(range.start as u64));
        Self { extents, plan: None }
    }

    fn keys(&self, block: Block) -> Keys<N> {
        Keys::of(self.plan.as_ref().expect("a loop is arranged before it runs"), &self.extents, block)
    }
}

impl<const N: usize> Space<N> for Ranges<N> {
    type Value = ();

    fn extents(&self) -> [Range<u64>; N] {
        self.extents.clone()
    }

    fn entries(&self) -> u64 {
        self.extents.iter().map(|range| range.end - range.start).product()
    }

    fn histogram(&self, _dimension: usize) -> Result<Option<Arc<Histogram>>> {
        Ok(None)
    }

    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<u64>> {
        Ok(equal_cut(&self.extents[dimension], parts))
    }

    fn joint(&self, _: [usize; 2], _: [Vec<u64>; 2]) -> Result<Option<Arc<JointHistogram>>> {
        Ok(None)
    }

    fn predictions(&self, _site: &'static Site) -> Arc<Predictions> {
        Arc::default()
    }

    fn sortable(&self) -> bool {
        false
    }

    fn rows_only(&self) -> bool {
        false
    }

    fn arrange(&mut self, _cluster: &Cluster, plan: &Plan, _holder: &str) -> Result<()> {
        self.plan = Some(plan.clone());
        Ok(())
    }

    fn foreseen(&self, _site: &'static Site) -> Option<Arc<Foreseen>> {
        None
    }

    fn is_news(&self, _site: &'static Site, _plan: &Plan) -> bool {
        true
    }

    fn count(&self, block: Block) -> u64 {
        self.keys(block).count()
    }

    fn visit(&self, block: Block, entries: Range<u64>, mut visit: impl FnMut([usize; N], *mut ())) {
        self.keys(block).for_each(entries, |key| visit(key, std::ptr::dangling_mut()));
    }
}
