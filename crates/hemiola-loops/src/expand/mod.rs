//! Items that the expansion of `parallel_for!` uses. Internal: they change with the macro.

pub use crate::capture::{
    AccumulatorCapture, ArrayCapture, BufferCapture, Capture, PassCapture, PlainCapture, PrefetchCapture, TableCapture,
};
pub use crate::site::LoopSite;
pub use hemiola_analysis::{Access, AccessMode, Subscript};
pub use hemiola_macros::parallel_for as parallel_for_at;
pub use probe::CaptureProbe;

mod probe;
pub mod testing;

use crate::plan::PlanSelector;
use crate::run::{LoopReport, run};
use crate::space::entries::EntrySpace;
use crate::space::ranges::RangeSpace;
use hemiola_array::{DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use std::ops::{Range, RangeInclusive};

/// Traits with the methods of probes.
pub mod probing {
    pub use super::probe::{
        AllowCopy, AllowShared, BorrowExclusive, BorrowShared, CapturePlain, CaptureShared, RefuseMove,
        RefuseSharedArray,
    };
}

/// Converts `a..=b` to a half-open range.
///
/// # Panics
/// If it ends with the largest index.
#[must_use]
pub fn half_open(range: RangeInclusive<usize>) -> Range<usize> {
    let (start, end) = range.into_inner();
    start..end.checked_add(1).expect("a range must end before the largest index")
}

/// *Collective.* Runs a loop over the entries of an array.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes temporaries")]
pub fn for_each_entry<'a, T, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static LoopSite,
    array: &DistArray<T, N>,
    captures: C,
    body: F,
    slice: P,
) -> Result<LoopReport>
where
    T: Element,
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &T) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], &T) + Sync,
{
    // SAFETY: no other call has the address at the same time, so a shared reference to the value is
    // sound.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &*value });
    // SAFETY: as above.
    let slice = |recorder: &mut C::Recorder, key, value: *mut T| slice(recorder, key, unsafe { &*value });
    run(cluster, site, EntrySpace::new(array), &captures, body, slice, PlanSelector::CHEAPEST)
}

/// *Collective.* Runs a loop over the entries of an array whose body changes the values.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes temporaries")]
pub fn for_each_entry_mut<'a, T, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static LoopSite,
    array: &mut DistArray<T, N>,
    captures: C,
    body: F,
    slice: P,
) -> Result<LoopReport>
where
    T: Element,
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &mut T) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], &T) + Sync,
{
    // SAFETY: no other call has the address at the same time, and the loop holds the array.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &mut *value });
    // SAFETY: as above.
    let slice = |recorder: &mut C::Recorder, key, value: *mut T| slice(recorder, key, unsafe { &*value });
    run(cluster, site, EntrySpace::written(array), &captures, body, slice, PlanSelector::CHEAPEST)
}

/// *Collective.* Runs a loop over ranges of indices.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes temporaries")]
pub fn for_each_index<'a, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static LoopSite,
    ranges: [Range<usize>; N],
    captures: C,
    body: F,
    slice: P,
) -> Result<LoopReport>
where
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N]) + Sync,
    P: Fn(&mut C::Recorder, [usize; N]) + Sync,
{
    run(
        cluster,
        site,
        RangeSpace::new(ranges),
        &captures,
        |view, key, _| body(view, key),
        |seen, key, _| slice(seen, key),
        PlanSelector::CHEAPEST,
    )
}
