//! Write buffers: delayed writes to arrays.
//!
//! `array.buffered(apply)` makes a buffer for loops in which direct writes to the array would make
//! iterations depend on each other. Each worker keeps its writes private until a block ends; then
//! `apply` merges them into the array, cell by cell. Writes to exclusive rows (the array is local
//! or rotating) are applied by their worker at the end of its block. All other writes are applied
//! at a barrier of all workers of all peers, at the end of every step, in the order of peers,
//! workers and rows. The order is the same on every peer, so copies of the array stay equal bit for
//! bit.
//!
//! A cell whose update equals the default (0 for numbers) counts as not written, and `apply` is not
//! called for it.

use crate::arrays::LoopArrays;
use hemiola_array::{DistArray, Element};
use std::fmt;
use std::marker::PhantomData;

/// Largest number of arrays that one buffer updates.
pub(crate) const MAX_TARGETS: usize = 4;

/// Delayed writes to an array, applied when a block ends. Made by [`BufferExt::buffered`].
pub struct WriteBuffer<U, R, const N: usize> {
    pub(crate) extents: [usize; N],
    pub(crate) rule: R,
    /// Entries of a worker after which writes are applied. `None` applies them at the end of a
    /// block only.
    pub(crate) flush_interval: Option<u64>,
    updates: PhantomData<fn(U)>,
}

impl<U, R, const N: usize> WriteBuffer<U, R, N> {
    /// Applies writes after this many entries of a worker, instead of at the end of its block. If a
    /// loop has several buffers, the smallest interval holds for all.
    ///
    /// # Panics
    /// If `entries` is 0.
    #[must_use]
    pub fn flush_every(mut self, entries: u64) -> Self {
        assert!(entries > 0, "the flush interval of a buffer is at least one entry");
        self.flush_interval = Some(entries);
        self
    }
}

impl<U, R, const N: usize> fmt::Debug for WriteBuffer<U, R, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("extents", &self.extents)
            .field("flush_interval", &self.flush_interval)
            .finish_non_exhaustive()
    }
}

/// Update rule of a buffer: applies updates to one or several arrays. Implemented by the types that
/// [`BufferExt`] makes.
pub trait ApplyRule<'a, U>: Sync {
    /// Registers the arrays that the rule changes, the buffered array first.
    #[doc(hidden)]
    fn targets(&self, arrays: &mut LoopArrays<'a>) -> Vec<usize>;

    /// Applies the updates of one row. Returns the position and value of a cell that is NaN or
    /// infinite afterwards, in an array that does not allow it.
    ///
    /// # Safety
    /// `rows[k]` must be the address of as many cells of target `k` as there are updates, and no
    /// other thread may access these cells during the call.
    #[doc(hidden)]
    unsafe fn apply(&self, rows: &[*mut u8; MAX_TARGETS], updates: Vec<U>) -> Option<(usize, f64)>;
}

macro_rules! rule {
    ($rule:ident, $count:literal, [$($array:ident: $type:ident = $at:literal),*]) => {
        /// Update rule over this many arrays.
        #[doc(hidden)]
        pub struct $rule<'a, $($type,)* F, const N: usize> {
            $($array: &'a DistArray<$type, N>,)*
            apply: F,
        }

        impl<$($type,)* F, const N: usize> fmt::Debug for $rule<'_, $($type,)* F, N> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an update rule")
            }
        }

        impl<'a, U: Default + PartialEq, $($type: Element,)* F, const N: usize> ApplyRule<'a, U> for $rule<'a, $($type,)* F, N>
        where
            F: Fn($(&mut $type,)* U) + Sync,
        {
            fn targets(&self, arrays: &mut LoopArrays<'a>) -> Vec<usize> {
                vec![$(arrays.add(self.$array)),*]
            }

            unsafe fn apply(&self, rows: &[*mut u8; MAX_TARGETS], updates: Vec<U>) -> Option<(usize, f64)> {
                let (untouched, count) = (U::default(), updates.len());
                for (at, update) in updates.into_iter().enumerate() {
                    if update != untouched {
                        // SAFETY: the caller guarantees the cells. Targets are different arrays, as
                        // checked by the planner, so the references do not overlap.
                        unsafe { (self.apply)($(&mut *rows[$at].cast::<$type>().add(at),)* update) };
                    }
                }
                $(
                    if $type::CAN_BE_NON_FINITE && !self.$array.allows_non_finite() {
                        // SAFETY: the caller guarantees the cells, and the references above are gone.
                        let cells = unsafe { std::slice::from_raw_parts(rows[$at].cast::<$type>().cast_const(), count) };
                        let found = $type::first_non_finite(cells);
                        if found.is_some() {
                            return found;
                        }
                    }
                )*
                None
            }
        }
    };
}

rule!(ApplyRule1, 1, [array: T = 0]);
rule!(ApplyRule2, 2, [array: T = 0, second: A = 1]);
rule!(ApplyRule3, 3, [array: T = 0, second: A = 1, third: B = 2]);
rule!(ApplyRule4, 4, [array: T = 0, second: A = 1, third: B = 2, fourth: C = 3]);

/// Extension trait of [`DistArray`] that makes write buffers.
///
/// The arrays of one buffer must be different arrays of the same shape.
pub trait BufferExt<T: Element, const N: usize> {
    /// Makes a buffer whose updates are merged by `apply` into the cell they were written to.
    fn buffered<U, F: Fn(&mut T, U) + Sync>(&self, apply: F) -> WriteBuffer<U, ApplyRule1<'_, T, F, N>, N>;

    /// Makes a buffer whose `apply` also gets the cell of a second array at the same index.
    fn buffered_with<'a, A: Element, U, F: Fn(&mut T, &mut A, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule2<'a, T, A, F, N>, N>;

    /// Makes a buffer whose `apply` also gets the cells of two more arrays at the same index.
    fn buffered_with2<'a, A: Element, B: Element, U, F: Fn(&mut T, &mut A, &mut B, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule3<'a, T, A, B, F, N>, N>;

    /// Makes a buffer whose `apply` also gets the cells of three more arrays at the same index.
    fn buffered_with3<'a, A: Element, B: Element, C: Element, U, F: Fn(&mut T, &mut A, &mut B, &mut C, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        fourth: &'a DistArray<C, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule4<'a, T, A, B, C, F, N>, N>;
}

fn buffer<T: Element, U, R, const N: usize>(array: &DistArray<T, N>, rule: R) -> WriteBuffer<U, R, N> {
    let extents = array.shape().extents();
    WriteBuffer { extents, rule, flush_interval: None, updates: PhantomData }
}

impl<T: Element, const N: usize> BufferExt<T, N> for DistArray<T, N> {
    fn buffered<U, F: Fn(&mut T, U) + Sync>(&self, apply: F) -> WriteBuffer<U, ApplyRule1<'_, T, F, N>, N> {
        buffer(self, ApplyRule1 { array: self, apply })
    }

    fn buffered_with<'a, A: Element, U, F: Fn(&mut T, &mut A, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule2<'a, T, A, F, N>, N> {
        buffer(self, ApplyRule2 { array: self, second, apply })
    }

    fn buffered_with2<'a, A: Element, B: Element, U, F: Fn(&mut T, &mut A, &mut B, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule3<'a, T, A, B, F, N>, N> {
        buffer(self, ApplyRule3 { array: self, second, third, apply })
    }

    fn buffered_with3<'a, A: Element, B: Element, C: Element, U, F: Fn(&mut T, &mut A, &mut B, &mut C, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        fourth: &'a DistArray<C, N>,
        apply: F,
    ) -> WriteBuffer<U, ApplyRule4<'a, T, A, B, C, F, N>, N> {
        buffer(self, ApplyRule4 { array: self, second, third, fourth, apply })
    }
}
