//! Loops over ranges of indices.

use super::grid::BlockKeys;
use super::{IterationSpace, equal_cut};
use crate::plan::{LoopBlock, LoopPlan, PredictionMemo};
use crate::prefetch::PrefetchMemo;
use crate::site::LoopSite;
use hemiola_array::{Histogram, JointHistogram};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;
use std::sync::Arc;

/// Iteration space of all keys of a box.
pub(crate) struct RangeSpace<const N: usize> {
    extents: [Range<usize>; N],
    plan: Option<LoopPlan>,
}

impl<const N: usize> RangeSpace<N> {
    pub(crate) fn new(ranges: [Range<usize>; N]) -> Self {
        let extents = ranges.map(|range| range.start..range.end.max(range.start));
        Self { extents, plan: None }
    }

    fn keys(&self, block: LoopBlock) -> BlockKeys<N> {
        BlockKeys::of(self.plan.as_ref().expect("a loop is arranged before it runs"), &self.extents, block)
    }
}

impl<const N: usize> IterationSpace<N> for RangeSpace<N> {
    type Value = ();

    fn extents(&self) -> [Range<usize>; N] {
        self.extents.clone()
    }

    fn entries(&self) -> u64 {
        self.extents.iter().map(|range| range.end - range.start).product::<usize>() as u64
    }

    fn histogram(&self, _dimension: usize) -> Result<Option<Arc<Histogram>>> {
        Ok(None)
    }

    fn cut(&self, dimension: usize, parts: usize) -> Result<Vec<usize>> {
        Ok(equal_cut(&self.extents[dimension], parts))
    }

    fn joint_histogram(&self, _: [usize; 2], _: [Vec<usize>; 2]) -> Result<Option<Arc<JointHistogram>>> {
        Ok(None)
    }

    fn prediction_memo(&self, _site: &'static LoopSite) -> Arc<PredictionMemo> {
        Arc::default()
    }

    fn sortable(&self) -> bool {
        false
    }

    fn rows_only(&self) -> bool {
        false
    }

    fn arrange(&mut self, _cluster: &Cluster, plan: &LoopPlan, _holder: &str) -> Result<()> {
        self.plan = Some(plan.clone());
        Ok(())
    }

    fn prefetch_memo(&self, _site: &'static LoopSite) -> Option<Arc<PrefetchMemo>> {
        None
    }

    fn plan_changed(&self, _site: &'static LoopSite, _plan: &LoopPlan) -> bool {
        true
    }

    fn count(&self, block: LoopBlock) -> u64 {
        self.keys(block).count()
    }

    fn visit(&self, block: LoopBlock, entries: Range<u64>, mut visit: impl FnMut([usize; N], *mut ())) {
        self.keys(block).for_each(entries, |key| visit(key, std::ptr::dangling_mut()));
    }
}
