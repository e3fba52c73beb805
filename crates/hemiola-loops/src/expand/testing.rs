//! Loops that take a way of the caller's choice: tests run every legal one, not only the cheapest.

use crate::capture::Capture;
use crate::plan::Choice;
use crate::run::{Run, run};
use crate::site::Site;
use crate::space::entries::Entries;
use crate::space::ranges::Ranges;
use hemiola_array::{DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;

/// *Collective.* As [`for_each_entry_mut`](super::for_each_entry_mut), without a slice.
pub fn for_each_entry_mut<'a, T, const N: usize, C, F>(
    cluster: &Cluster,
    site: &'static Site,
    array: &mut DistArray<T, N>,
    captures: &C,
    body: F,
    choice: Choice<'_>,
) -> Result<Run>
where
    T: Element,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &mut T) + Sync,
{
    // SAFETY: no other call has the address at the same time, and the loop holds the array.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &mut *value });
    run(cluster, site, Entries::new(array), captures, body, |_, _, _| {}, choice)
}

/// *Collective.* As [`for_each_index`](super::for_each_index), without a slice.
pub fn for_each_index<'a, const N: usize, C, F>(
    cluster: &Cluster,
    site: &'static Site,
    ranges: [Range<usize>; N],
    captures: &C,
    body: F,
    choice: Choice<'_>,
) -> Result<Run>
where
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N]) + Sync,
{
    run(cluster, site, Ranges::new(ranges), captures, |view, key, _| body(view, key), |_, _, _| {}, choice)
}
