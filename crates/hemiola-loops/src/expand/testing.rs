//! Loops with a plan selected by the caller: tests run every legal plan, not only the cheapest.

use crate::capture::{PassCapture, PrefetchCapture};
use crate::plan::PlanSelector;
use crate::run::{LoopReport, run};
use crate::site::LoopSite;
use crate::space::entries::EntrySpace;
use crate::space::ranges::RangeSpace;
use hemiola_array::{DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;

/// *Collective.* Like [`for_each_entry_mut`](super::for_each_entry_mut), without a slice.
pub fn for_each_entry_mut<'a, T, const N: usize, C, F>(
    cluster: &Cluster,
    site: &'static LoopSite,
    array: &mut DistArray<T, N>,
    captures: &C,
    body: F,
    selector: PlanSelector<'_>,
) -> Result<LoopReport>
where
    T: Element,
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &mut T) + Sync,
{
    // SAFETY: no other call has the address at the same time, and the loop holds the array.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &mut *value });
    run(cluster, site, EntrySpace::written(array), captures, body, |_, _, _| {}, selector)
}

/// *Collective.* Like [`for_each_index`](super::for_each_index), without a slice.
pub fn for_each_index<'a, const N: usize, C, F>(
    cluster: &Cluster,
    site: &'static LoopSite,
    ranges: [Range<usize>; N],
    captures: &C,
    body: F,
    selector: PlanSelector<'_>,
) -> Result<LoopReport>
where
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N]) + Sync,
{
    run(cluster, site, RangeSpace::new(ranges), captures, |view, key, _| body(view, key), |_, _, _| {}, selector)
}
