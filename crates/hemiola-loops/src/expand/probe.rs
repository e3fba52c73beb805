//! Probes: the expansion of `parallel_for!` finds the kind of a captured name by its type.
//!
//! The macro writes `CaptureProbe::<_, false>(&x).capture(0)` for a captured name `x` that the body
//! reads. It cannot know the type of `x`, but Rust's method lookup can (autoref specialization).
//! The lookup first considers methods that take `CaptureProbe<..>` by value, and only if none
//! applies, methods that take `&CaptureProbe<..>`. So
//!
//! - [`CaptureShared`] is implemented for `CaptureProbe<X>` of each shared kind `X` (array,
//!   accumulator, buffer, table), and for `&X` and `&mut X`, because a name may be a reference
//!   (`fn train(w: &mut DistArray<..>)`);
//! - [`CapturePlain`] is implemented for `&CaptureProbe<T>` of *every* `T`, and catches the rest.
//!
//! A name that the body writes becomes `CaptureProbe::<_, true>(x.borrow_written()).capture(0)`.
//! The lookup considers methods that borrow `x` by `&` before those that borrow it by `&mut`. So
//!
//! - [`BorrowShared`] is implemented for accumulators, buffers and tables, which are shared by
//!   design: `x` is borrowed by `&`;
//! - [`BorrowExclusive`] is implemented for *every* type and catches the arrays: `x` is borrowed by
//!   `&mut`, so that the compiler demands `let mut x` or `x: &mut DistArray<..>`, and refuses any
//!   other use of the array while the loop runs.
//!
//! The checks work in the same way. `must_be_copy`: [`AllowCopy`] for `CaptureProbe<T: Copy>`,
//! [`RefuseMove`] for `&CaptureProbe<T>`. `must_be_writable`: [`RefuseSharedArray`] for an array
//! behind `&`, [`AllowShared`] for `&CaptureProbe<T>`, with a bound on the type. The expansion
//! imports all traits by `use probing::*` in a block without user code.
//!
//! The shared kinds use traits instead of inherent methods, which the lookup also considers first.
//! If the type is unknown, because the user has mistyped the name, twelve inherent methods would
//! apply at once, and the compiler would list them all beneath the one line that matters. One trait
//! with twelve impls is one candidate.
//!
//! Limitation: a variable whose type is determined only by code after the loop
//! (`let x = Default::default()`). The compiler then asks for a type annotation.
//!
//! The checks fail at the user's span: the expansion gives the method name the span of the captured
//! name, and the compiler reports an unsatisfied bound of a method there. Type errors keep the
//! compiler from borrow checking, which would report the same line again, in terms of the
//! expansion.

use crate::buffer::{ApplyRule, WriteBuffer};
use crate::capture::{AccumulatorCapture, ArrayCapture, BufferCapture, PlainCapture, TableCapture};
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_tables_proto::in_loop::{LoopTable, TableInLoop};

/// A captured name whose kind is selected by its type. `WRITTEN` tells whether the body writes it.
#[derive(Debug)]
pub struct CaptureProbe<'a, T: ?Sized, const WRITTEN: bool>(pub &'a T);

/// Captures the shared kinds: arrays, accumulators, buffers, tables.
pub trait CaptureShared {
    /// Type of the capture.
    type Capture;
    /// Captures the variable with the index of its name.
    fn capture(self, name: usize) -> Self::Capture;
}

/// Captures all other values by reference.
pub trait CapturePlain<'a> {
    /// Type of the value.
    type Value: ?Sized;
    /// Captures the variable with the index of its name.
    fn capture(self, name: usize) -> PlainCapture<'a, Self::Value>;
}

impl<'a, T: ?Sized, const WRITTEN: bool> CapturePlain<'a> for &CaptureProbe<'a, T, WRITTEN> {
    type Value = T;

    fn capture(self, _: usize) -> PlainCapture<'a, T> {
        PlainCapture { value: self.0 }
    }
}

/// Borrows a written variable of a kind that is shared by design: accumulators, buffers, tables.
pub trait BorrowShared {
    /// Borrows the variable by `&`.
    fn borrow_written(&self) -> &Self {
        self
    }
}

impl<T, C> BorrowShared for Accumulator<T, C> {}
impl<U, R, const N: usize> BorrowShared for WriteBuffer<U, R, N> {}
impl<T> BorrowShared for TableInLoop<'_, T> {}

/// Borrows a written variable of any other type: the loop has it to itself.
pub trait BorrowExclusive {
    /// Borrows the variable by `&mut`.
    fn borrow_written(&mut self) -> &mut Self {
        self
    }
}

impl<T: ?Sized> BorrowExclusive for T {}

/// Kinds that a body may write. Implemented for the shared kinds and references to them, which the
/// compiler lists in its message.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot write to a captured variable of type `{Self}`",
    label = "this variable is shared by all workers and cannot be written",
    note = "to bring a result out of the loop, use an accumulator: `let sum = cluster.accumulator::<f64>();` and `sum += x` in the body",
    note = "to write to shared memory, use an array of the cluster, or a buffer (`array.buffered(..)`) if writes may arrive late"
)]
pub trait SharedWrite {}

/// Allows writes to the shared kinds.
pub trait AllowShared: Sized {
    /// Type of the captured variable.
    type Value: ?Sized;
    /// Compiles only if the captured variable may be written.
    fn must_be_writable(self)
    where
        Self::Value: SharedWrite,
    {
    }
}

impl<T: ?Sized, const WRITTEN: bool> AllowShared for &CaptureProbe<'_, T, WRITTEN> {
    type Value = T;
}

/// Bound of written arrays that are borrowed by `&`. No usable type implements it.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot write to an array behind a shared reference",
    label = "the body writes this array, but its type is `{Self}`",
    note = "a loop takes the arrays that it writes as `&mut`: change the type to `&mut DistArray<..>`",
    note = "arrays that a loop only reads, accumulators, buffers and tables may stay behind `&`"
)]
pub trait ExclusiveReference {}

#[diagnostic::do_not_recommend]
impl ExclusiveReference for NeverCaptured {}

/// Rejects writes to arrays behind shared references.
pub trait RefuseSharedArray: Sized {
    /// Type of the reference.
    type Reference;
    /// Never compiles, because no usable type satisfies the bound.
    fn must_be_writable(self)
    where
        Self::Reference: ExclusiveReference,
    {
    }
}

impl<'r, T, const N: usize, const WRITTEN: bool> RefuseSharedArray for CaptureProbe<'_, &'r DistArray<T, N>, WRITTEN> {
    type Reference = &'r DistArray<T, N>;
}

/// Allows `Copy` values to be moved into the body.
pub trait AllowCopy: Sized {
    /// Compiles if every iteration can copy the value.
    fn must_be_copy(self) {}
}

impl<T: Copy, const WRITTEN: bool> AllowCopy for CaptureProbe<'_, T, WRITTEN> {}

/// Bound of moved values that [`AllowCopy`] does not cover. No usable type implements it.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot move a captured variable of type `{Self}`",
    label = "this moves the variable, but every iteration needs it",
    note = "borrow it (`&x`) or clone it (`x.clone()`)",
    note = "to bring results out of the loop, use an accumulator (`cluster.accumulator`) or a buffer (`array.buffered(..)`)"
)]
pub trait CopyPerIteration {}

/// Uninhabited type with an implementation, so that the compiler does not suggest writing one.
#[derive(Debug)]
#[expect(dead_code, reason = "only its implementation is needed")]
pub(super) enum NeverCaptured {}

#[diagnostic::do_not_recommend]
impl CopyPerIteration for NeverCaptured {}

/// Rejects moves of values that are not `Copy`.
pub trait RefuseMove: Sized {
    /// Type of the value.
    type Value: ?Sized;
    /// Never compiles, because no usable type satisfies the bound.
    fn must_be_copy(self)
    where
        Self::Value: CopyPerIteration,
    {
    }
}

impl<T: ?Sized, const WRITTEN: bool> RefuseMove for &CaptureProbe<'_, T, WRITTEN> {
    type Value = T;
}

/// Declares a shared kind: it is captured as such, directly and behind references, and may be
/// written behind references.
///
/// `shared_kind!([generics] Type, (bounds) => |value, name| expression, CaptureType)`. `WRITTEN`
/// and `'a` may be used in the types.
macro_rules! shared_kind {
    ([$($generics:tt)*] $kind:ty, ($($bounds:tt)*) => |$value:ident, $name:pat_param| $capture:expr, $captured:ty) => {
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, $kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, &$kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, &mut $kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> SharedWrite for &$kind {}
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> SharedWrite for &mut $kind {}
    };
}

// Outside of the macro, so that the compiler lists these lines and not the macro.
impl<T, const N: usize> SharedWrite for DistArray<T, N> {}
impl<T, C> SharedWrite for Accumulator<T, C> {}
impl<U, R, const N: usize> SharedWrite for WriteBuffer<U, R, N> {}
impl<T> SharedWrite for TableInLoop<'_, T> {}

shared_kind!(
    [T, const N: usize] DistArray<T, N>, (T: Element)
        => |array, name| ArrayCapture { array, name }, ArrayCapture<'a, T, N, WRITTEN>
);
shared_kind!(
    [T, C] Accumulator<T, C>, (T: Element, C: Fn(T, T) -> T + Sync)
        => |accumulator, _| AccumulatorCapture { accumulator }, AccumulatorCapture<'a, T, C>
);
shared_kind!(
    [U, R, const N: usize] WriteBuffer<U, R, N>, (U: Element + Default + PartialEq, R: ApplyRule<'a, U>)
        => |buffer, name| BufferCapture { buffer, name }, BufferCapture<'a, U, R, N>
);
shared_kind!(
    ['t, T] TableInLoop<'t, T>, (T: LoopTable + 'a, T::Error: Into<hemiola_cluster::Error>)
        => |table, name| TableCapture { table, name }, TableCapture<'a, 't, T>
);
