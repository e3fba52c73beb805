//! What `parallel_for!` expands to. Not for people: it changes with the macro.

pub use crate::capture::{AccumulatorCapture, ArrayCapture, BufferCapture, Capture, PlainCapture};
pub use crate::site::Site;
pub use crate::space::IntoRange;
pub use hemiola_analysis::{Access, Mode, Subscript};
pub use std::borrow::Cow;

use crate::buffer::{Buffer, Rule};
use crate::run::{Run, run};
use crate::space::entries::Entries;
use crate::space::ranges::Ranges;
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;

/// A captured name whose kind is still unknown: arrays, accumulators and buffers have methods of their own, which come
/// before those of the traits below, and everything else gets the latter.
#[derive(Debug)]
pub struct Probe<'a, X: ?Sized, const WRITTEN: bool>(pub &'a X);

macro_rules! shared_kinds {
    ($([$($generics:tt)*] $type:ty, ($($bounds:tt)*), |$value:ident, $name:ident| $capture:ty, $make:expr;)*) => {$(
        shared_kinds!(@one [$($generics)*] $type, [$type], ($($bounds)*), |$value, $name| $capture, $make);
        shared_kinds!(@one [$($generics)*] $type, [&$type], ($($bounds)*), |$value, $name| $capture, $make);
        shared_kinds!(@one [$($generics)*] $type, [&mut $type], ($($bounds)*), |$value, $name| $capture, $make);
    )*};
    (@one [$($generics:tt)*] $type:ty, [$held:ty], ($($bounds:tt)*), |$value:ident, $name:ident| $capture:ty, $make:expr) => {
        impl<'a, $($generics)*, const WRITTEN: bool> Probe<'a, $held, WRITTEN> where $($bounds)* {
            /// What the loop makes of it.
            #[must_use]
            #[allow(clippy::borrow_deref_ref, clippy::explicit_auto_deref, reason = "one body for values and references")]
            pub fn capture(self, $name: usize) -> $capture {
                let $value: &'a $type = &*self.0;
                $make
            }

            /// It can be written in a loop.
            pub fn must_be_shared(self) {}

            /// It can be named where values are moved.
            pub fn must_be_copy(self) {}
        }
    };
}

shared_kinds! {
    [T, const N: usize] DistArray<T, N>, (T: Element),
        |value, name| ArrayCapture<'a, T, N, WRITTEN>, ArrayCapture { array: value, name };
    [T, C] Accumulator<T, C>, (T: Element, C: Fn(T, T) -> T + Sync),
        |value, _name| AccumulatorCapture<'a, T, C>, AccumulatorCapture { accumulator: value };
    [U, R, const N: usize] Buffer<U, R, N>, (U: Element + Default + PartialEq, R: Rule<'a, U>),
        |value, name| BufferCapture<'a, U, R, N>, BufferCapture { buffer: value, name };
}

/// Captures what is nothing else.
pub trait CapturePlain<'a, X: ?Sized> {
    /// What the loop makes of it.
    fn capture(self, name: usize) -> PlainCapture<'a, X>;
}

impl<'a, X: ?Sized, const WRITTEN: bool> CapturePlain<'a, X> for Probe<'a, X, WRITTEN> {
    fn capture(self, _name: usize) -> PlainCapture<'a, X> {
        PlainCapture { value: self.0 }
    }
}

/// *Collective.* Runs a loop over the entries of an array.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes what it has just made")]
pub fn for_each_entry<'a, T, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static Site,
    array: &DistArray<T, N>,
    captures: C,
    body: F,
    slice: P,
) -> Result<Run>
where
    T: Element,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &T) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], &T) + Sync,
{
    // SAFETY: no other call has the address at the same time, so a shared reference to the value is sound.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &*value });
    // SAFETY: as above.
    let slice = |recorder: &mut C::Recorder, key, value: *mut T| slice(recorder, key, unsafe { &*value });
    run(cluster, site, Entries::new(array), &captures, body, slice)
}

/// *Collective.* The same, where the body changes the values.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes what it has just made")]
pub fn for_each_entry_mut<'a, T, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static Site,
    array: &mut DistArray<T, N>,
    captures: C,
    body: F,
    slice: P,
) -> Result<Run>
where
    T: Element,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], &mut T) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], &T) + Sync,
{
    // SAFETY: no other call has the address at the same time, and the loop holds the array.
    let body = |view: &mut C::View, key, value: *mut T| body(view, key, unsafe { &mut *value });
    // SAFETY: as above.
    let slice = |recorder: &mut C::Recorder, key, value: *mut T| slice(recorder, key, unsafe { &*value });
    run(cluster, site, Entries::new(array), &captures, body, slice)
}

/// *Collective.* Runs a loop over ranges of indices.
#[expect(clippy::needless_pass_by_value, reason = "generated code passes what it has just made")]
pub fn for_each_index<'a, I, const N: usize, C, F, P>(
    cluster: &Cluster,
    site: &'static Site,
    ranges: [I; N],
    captures: C,
    body: F,
    slice: P,
) -> Result<Run>
where
    I: IntoRange,
    C: Capture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N]) + Sync,
    P: Fn(&mut C::Recorder, [usize; N]) + Sync,
{
    let ranges: [Range<usize>; N] = ranges.map(IntoRange::into_range);
    run(cluster, site, Ranges::new(ranges), &captures, |view, key, _| body(view, key), |seen, key, _| slice(seen, key))
}
