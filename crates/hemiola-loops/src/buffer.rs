//! Write-back buffers: writes that may be late.
//!
//! `array.buffered(apply)` is a place to write to where a write to the array itself would make iterations depend on each
//! other. Each worker keeps its writes to itself until a block ends; then `apply` brings them into the array, cell by cell.
//! Writes to rows that a worker has to itself (the array is local or rotating) are applied by that worker at the end of its
//! block. All others are applied when the workers of all peers meet, at the end of every step, in the order of peers,
//! workers and rows: on every peer the same, so that copies of the array stay equal bit for bit.
//!
//! A cell whose update is the default (0 for numbers) was not written: `apply` does not see it.

use crate::arrays::Arrays;
use hemiola_array::{DistArray, Element};
use std::fmt;
use std::marker::PhantomData;

/// Most arrays that one buffer updates.
pub(crate) const MOST_TARGETS: usize = 4;

/// Writes to an array that wait until a block ends. Made by [`BufferArray::buffered`].
pub struct Buffer<U, R, const N: usize> {
    pub(crate) extents: [usize; N],
    pub(crate) rule: R,
    /// Entries after which workers meet, if not only at the end of a block.
    pub(crate) bound: Option<u64>,
    updates: PhantomData<fn(U)>,
}

impl<U, R, const N: usize> Buffer<U, R, N> {
    /// Lets writes wait for at most this many entries of a worker, rather than to the end of its block. If a loop has several
    /// buffers, the smallest bound holds for all.
    ///
    /// # Panics
    /// If `entries` is 0.
    #[must_use]
    pub fn every(mut self, entries: u64) -> Self {
        assert!(entries > 0, "writes wait for at least one entry");
        self.bound = Some(entries);
        self
    }
}

impl<U, R, const N: usize> fmt::Debug for Buffer<U, R, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("extents", &self.extents)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

/// How updates get into arrays. Implemented by what [`BufferArray`] makes.
pub trait Rule<'a, U>: Sync {
    /// The arrays it changes: first the buffered one.
    #[doc(hidden)]
    fn targets(&self, arrays: &mut Arrays<'a>) -> Vec<usize>;

    /// Applies the updates of a row.
    ///
    /// # Safety
    /// `rows[k]` must be the address of as many cells of target `k` as there are updates, and nobody else may use them.
    #[doc(hidden)]
    unsafe fn apply(&self, rows: &[*mut u8; MOST_TARGETS], updates: Vec<U>);
}

macro_rules! rule {
    ($rule:ident, $count:literal, [$($array:ident: $type:ident = $at:literal),*]) => {
        /// A rule over this many arrays.
        #[doc(hidden)]
        pub struct $rule<'a, $($type,)* F, const N: usize> {
            $($array: &'a DistArray<$type, N>,)*
            apply: F,
        }

        impl<$($type,)* F, const N: usize> fmt::Debug for $rule<'_, $($type,)* F, N> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a rule for updates")
            }
        }

        impl<'a, U: Default + PartialEq, $($type: Element,)* F, const N: usize> Rule<'a, U> for $rule<'a, $($type,)* F, N>
        where
            F: Fn($(&mut $type,)* U) + Sync,
        {
            fn targets(&self, arrays: &mut Arrays<'a>) -> Vec<usize> {
                vec![$(arrays.add(self.$array)),*]
            }

            unsafe fn apply(&self, rows: &[*mut u8; MOST_TARGETS], updates: Vec<U>) {
                let untouched = U::default();
                for (at, update) in updates.into_iter().enumerate() {
                    if update != untouched {
                        // SAFETY: the caller promises the cells; targets are different arrays, which was checked when the loop
                        // was planned, so the references do not overlap.
                        unsafe { (self.apply)($(&mut *rows[$at].cast::<$type>().add(at),)* update) };
                    }
                }
            }
        }
    };
}

rule!(Rule1, 1, [array: T = 0]);
rule!(Rule2, 2, [array: T = 0, second: A = 1]);
rule!(Rule3, 3, [array: T = 0, second: A = 1, third: B = 2]);
rule!(Rule4, 4, [array: T = 0, second: A = 1, third: B = 2, fourth: C = 3]);

/// Makes buffers of arrays.
///
/// The arrays of one buffer must be different ones, of the same shape.
pub trait BufferArray<T: Element, const N: usize> {
    /// A buffer whose updates `apply` brings into the cell they were written for.
    fn buffered<U, F: Fn(&mut T, U) + Sync>(&self, apply: F) -> Buffer<U, Rule1<'_, T, F, N>, N>;

    /// The same, with the cell of another array at the same place.
    fn buffered_with<'a, A: Element, U, F: Fn(&mut T, &mut A, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        apply: F,
    ) -> Buffer<U, Rule2<'a, T, A, F, N>, N>;

    /// The same, with the cells of two other arrays.
    fn buffered_with2<'a, A: Element, B: Element, U, F: Fn(&mut T, &mut A, &mut B, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        apply: F,
    ) -> Buffer<U, Rule3<'a, T, A, B, F, N>, N>;

    /// The same, with the cells of three other arrays.
    fn buffered_with3<'a, A: Element, B: Element, C: Element, U, F: Fn(&mut T, &mut A, &mut B, &mut C, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        fourth: &'a DistArray<C, N>,
        apply: F,
    ) -> Buffer<U, Rule4<'a, T, A, B, C, F, N>, N>;
}

fn buffer<T: Element, U, R, const N: usize>(array: &DistArray<T, N>, rule: R) -> Buffer<U, R, N> {
    let extents = array.shape().extents().map(|extent| extent as usize);
    Buffer { extents, rule, bound: None, updates: PhantomData }
}

impl<T: Element, const N: usize> BufferArray<T, N> for DistArray<T, N> {
    fn buffered<U, F: Fn(&mut T, U) + Sync>(&self, apply: F) -> Buffer<U, Rule1<'_, T, F, N>, N> {
        buffer(self, Rule1 { array: self, apply })
    }

    fn buffered_with<'a, A: Element, U, F: Fn(&mut T, &mut A, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        apply: F,
    ) -> Buffer<U, Rule2<'a, T, A, F, N>, N> {
        buffer(self, Rule2 { array: self, second, apply })
    }

    fn buffered_with2<'a, A: Element, B: Element, U, F: Fn(&mut T, &mut A, &mut B, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        apply: F,
    ) -> Buffer<U, Rule3<'a, T, A, B, F, N>, N> {
        buffer(self, Rule3 { array: self, second, third, apply })
    }

    fn buffered_with3<'a, A: Element, B: Element, C: Element, U, F: Fn(&mut T, &mut A, &mut B, &mut C, U) + Sync>(
        &'a self,
        second: &'a DistArray<A, N>,
        third: &'a DistArray<B, N>,
        fourth: &'a DistArray<C, N>,
        apply: F,
    ) -> Buffer<U, Rule4<'a, T, A, B, C, F, N>, N> {
        buffer(self, Rule4 { array: self, second, third, fourth, apply })
    }
}
