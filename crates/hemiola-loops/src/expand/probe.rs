//! How the expansion of `parallel_for!` learns what a captured name is: by asking its type.
//!
//! The macro writes `Probe::<_, WRITTEN>(&x).capture(0)` for a captured name `x` and cannot know what `x` is. Rust's method lookup
//! can. It first looks for methods that take `Probe<..>` as it is, and only if none applies for methods that take `&Probe<..>`. So
//! - [`CaptureShared`] is implemented for `Probe<X>` of each shared kind `X` (array, accumulator, buffer, table), and the same for `&X` and
//!   `&mut X`, because a name may be a reference (`fn train(w: &mut DistArray<..>)`);
//! - [`CapturePlain`] is implemented for `&Probe<T>` of *every* `T`, and catches the rest.
//!
//! `must_be_copy` works alike: [`AllowCopy`] for `Probe<T: Copy>`, [`RefuseMove`] for `&Probe<T>`. `must_be_shared` is an ordinary
//! method with a bound. The expansion imports all traits by `use probing::*` in a block that holds none of the user's code.
//!
//! Why traits and not inherent methods for the shared kinds, which are looked up first, too: where the type is not known, because the
//! user has mistyped the name, twelve inherent methods apply at once, and the compiler lists them all beneath the one line
//! that matters. One trait with twelve impls is one candidate.
//!
//! What does not work: a variable whose type is decided only by code after the loop (`let x = Default::default()`). The compiler
//! then asks for a type.
//!
//! The checks fail at the user's span: the expansion gives the method name the span of the captured name, and a bound that does
//! not hold on a method is reported there. Errors of type checking keep the compiler from going on to borrow checking, which would
//! complain about the same place once more, in words of the expansion.

use crate::buffer::{Buffer, Rule};
use crate::capture::{AccumulatorCapture, ArrayCapture, BufferCapture, PlainCapture, TableCapture};
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_tables_proto::in_loop::{InLoop, LoopTable};

/// A captured name, on its way to the kind that its type asks for. `WRITTEN` says whether the body writes it.
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized, const WRITTEN: bool>(pub &'a T);

/// Captures what is shared, by kind.
pub trait CaptureShared {
    /// What the loop makes of it.
    type Capture;
    /// Captures it under the number of its name.
    fn capture(self, name: usize) -> Self::Capture;
}

/// Captures what is not shared: borrowed as it is.
pub trait CapturePlain<'a> {
    /// Its type.
    type Value: ?Sized;
    /// Captures it under the number of its name.
    fn capture(self, name: usize) -> PlainCapture<'a, Self::Value>;
}

impl<'a, T: ?Sized, const WRITTEN: bool> CapturePlain<'a> for &Probe<'a, T, WRITTEN> {
    type Value = T;

    fn capture(self, _: usize) -> PlainCapture<'a, T> {
        PlainCapture { value: self.0 }
    }
}

/// Kinds that all workers may write. Implemented for the shared kinds and references to them, which the compiler's message lists.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot write to a captured variable of type `{Self}`",
    label = "this variable is shared by all workers and cannot be written",
    note = "to bring a result out of the loop, use an accumulator: `let sum = cluster.accumulator::<f64>();` and `sum += x` in the body",
    note = "to write to shared memory, use an array of the cluster, or a buffer (`array.buffered(..)`) if writes may arrive late"
)]
pub trait WrittenByAllWorkers {}

impl<T: ?Sized, const WRITTEN: bool> Probe<'_, T, WRITTEN> {
    /// Compiles if the captured name may be written.
    pub fn must_be_shared(self)
    where
        T: WrittenByAllWorkers,
    {
    }
}

/// Lets `Copy` values be taken.
pub trait AllowCopy: Sized {
    /// Compiles if the value can be taken by every iteration.
    fn must_be_copy(self) {}
}

impl<T: Copy, const WRITTEN: bool> AllowCopy for Probe<'_, T, WRITTEN> {}

/// Stands for "every iteration can take its value". Only what [`AllowCopy`] does not take asks for it, so nothing has it.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot move a captured variable of type `{Self}`",
    label = "this moves the variable, but every iteration needs it",
    note = "borrow it (`&x`) or clone it (`x.clone()`)",
    note = "to bring results out of the loop, use an accumulator (`cluster.accumulator`) or a buffer (`array.buffered(..)`)"
)]
pub trait TakenByEveryIteration {}

/// Nobody's type: with an implementation to show, the compiler does not advise to write one.
#[derive(Debug)]
#[expect(dead_code, reason = "it only has to exist")]
pub(super) enum Nothing {}

#[diagnostic::do_not_recommend]
impl TakenByEveryIteration for Nothing {}

/// Refuses to move what is not `Copy`.
pub trait RefuseMove: Sized {
    /// Its type.
    type Value: ?Sized;
    /// Never compiles.
    fn must_be_copy(self)
    where
        Self::Value: TakenByEveryIteration,
    {
    }
}

impl<T: ?Sized, const WRITTEN: bool> RefuseMove for &Probe<'_, T, WRITTEN> {
    type Value = T;
}

/// Makes a type a shared kind: captured as such, and may be written, by itself and behind references.
///
/// `shared_kind!([generics] Type, (bounds) => |value, name| expression: CaptureType)`. `WRITTEN` and `'a` may be used in the
/// types.
macro_rules! shared_kind {
    ([$($generics:tt)*] $kind:ty, ($($bounds:tt)*) => |$value:ident, $name:pat_param| $capture:expr, $captured:ty) => {
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for Probe<'a, $kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for Probe<'a, &$kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for Probe<'a, &mut $kind, WRITTEN>
        where
            $($bounds)*
        {
            type Capture = $captured;
            fn capture(self, $name: usize) -> $captured {
                let $value: &'a $kind = self.0;
                $capture
            }
        }
        impl<$($generics)*> WrittenByAllWorkers for $kind {}
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> WrittenByAllWorkers for &$kind {}
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> WrittenByAllWorkers for &mut $kind {}
    };
}

shared_kind!(
    [T, const N: usize] DistArray<T, N>, (T: Element)
        => |array, name| ArrayCapture { array, name }, ArrayCapture<'a, T, N, WRITTEN>
);
shared_kind!(
    [T, C] Accumulator<T, C>, (T: Element, C: Fn(T, T) -> T + Sync)
        => |accumulator, _| AccumulatorCapture { accumulator }, AccumulatorCapture<'a, T, C>
);
shared_kind!(
    [U, R, const N: usize] Buffer<U, R, N>, (U: Element + Default + PartialEq, R: Rule<'a, U>)
        => |buffer, name| BufferCapture { buffer, name }, BufferCapture<'a, U, R, N>
);
shared_kind!(
    ['t, T] InLoop<'t, T>, (T: LoopTable + 'a, T::Error: Into<hemiola_cluster::Error>)
        => |table, name| TableCapture { table, name }, TableCapture<'a, 't, T>
);
