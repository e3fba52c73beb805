//! Type-directed dispatch: selects the kind of a captured name by its type.
//!
//! The macro writes `CaptureProbe::<_, WRITTEN>(&x).capture(0)` for a captured name `x` and cannot
//! know its type. Rust's method lookup can. It first tries methods that take `CaptureProbe<..>`
//! itself, and only if none applies, methods that take `&CaptureProbe<..>`. Therefore
//! - [`CaptureShared`] is implemented for `CaptureProbe<X>` of each shared kind `X` (array,
//!   accumulator, buffer), and for `&X` and `&mut X`, because a name may be a reference
//!   (`fn train(w: &mut DistArray<..>)`);
//! - [`CapturePlain`] is implemented for `&CaptureProbe<T>` of *every* `T`, and catches the rest.
//!
//! `must_be_copy` works alike: [`AllowCopy`] for `CaptureProbe<T: Copy>`, [`RefuseMove`] for
//! `&CaptureProbe<T>`. `must_be_shared` is an ordinary method with a bound. The expansion imports
//! all traits by `use probing::*` in a block that holds no user code.
//!
//! Inherent methods for the shared kinds are looked up first as well, but give worse messages. If
//! the type is unknown, because the user has mistyped the name, nine inherent methods apply at
//! once, and the compiler lists them all below the one line that matters. One trait with nine impls
//! is one candidate.
//!
//! A variable whose type is decided only by code after the loop (`let x = Default::default()`) does
//! not work: the compiler asks for a type.
//!
//! The checks fail at the user's span. The expansion gives the method name the span of the captured
//! name, and an unsatisfied bound on a method is reported there. Type errors keep the compiler from
//! borrow checking, which would report the same expression once more, in terms of the expansion.

use super::captures::Plain;

/// A captured name before its type selects the kind. `WRITTEN` is true if the body writes it.
#[derive(Debug)]
pub struct CaptureProbe<'a, T: ?Sized, const WRITTEN: bool>(pub &'a T);

/// Captures shared state, by kind.
pub trait CaptureShared {
    type Capture;
    fn capture(self, name: usize) -> Self::Capture;
}

/// Captures all other values by reference.
pub trait CapturePlain<'a> {
    type Value: ?Sized;
    fn capture(self, name: usize) -> Plain<'a, Self::Value>;
}

impl<'a, T: ?Sized, const WRITTEN: bool> CapturePlain<'a> for &CaptureProbe<'a, T, WRITTEN> {
    type Value = T;

    fn capture(self, _: usize) -> Plain<'a, T> {
        Plain(self.0)
    }
}

/// Kinds that all workers may write. Implemented for the shared kinds and references to them, which
/// the compiler's message lists.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot write to a captured variable of type `{Self}`",
    label = "this variable is shared by all workers and cannot be written",
    note = "to bring a result out of the loop, use an accumulator: `let sum = cluster.accumulator::<f64>();` and `sum += x` in the body",
    note = "to write to shared memory, use an array of the cluster, or a buffer (`array.buffered(..)`) if writes may arrive late"
)]
pub trait SharedWrite {}

impl<T: ?Sized, const WRITTEN: bool> CaptureProbe<'_, T, WRITTEN> {
    /// Compiles if the captured name may be written.
    pub fn must_be_shared(self)
    where
        T: SharedWrite,
    {
    }
}

/// Allows `Copy` values to be used by value.
pub trait AllowCopy: Sized {
    fn must_be_copy(self) {}
}

impl<T: Copy, const WRITTEN: bool> AllowCopy for CaptureProbe<'_, T, WRITTEN> {}

/// Marks types whose value every iteration can take. Only types without [`AllowCopy`] require it,
/// so no type implements it.
#[diagnostic::on_unimplemented(
    message = "a parallel loop cannot move a captured variable of type `{Self}`",
    label = "this moves the variable, but every iteration needs it",
    note = "borrow it (`&x`) or clone it (`x.clone()`)",
    note = "to bring results out of the loop, use an accumulator (`cluster.accumulator`) or a buffer (`array.buffered(..)`)"
)]
pub trait CopyPerIteration {}

// With an implementation to show, the compiler does not suggest to write one.
#[diagnostic::do_not_recommend]
impl CopyPerIteration for std::convert::Infallible {}

/// Rejects a move of a value that is not `Copy`.
pub trait RefuseMove: Sized {
    type Value: ?Sized;
    fn must_be_copy(self)
    where
        Self::Value: CopyPerIteration,
    {
    }
}

impl<T: ?Sized, const WRITTEN: bool> RefuseMove for &CaptureProbe<'_, T, WRITTEN> {
    type Value = T;
}

/// Makes a type a shared kind: captured as such, and writable, by itself and behind references.
///
/// `shared_kind!([generics] Type => capture_function: CaptureType)`, where
/// `capture_function(&'a Type, name)` creates the capture. `WRITTEN` and `'a` may be used in the
/// types.
macro_rules! shared_kind {
    ([$($generics:tt)*] $kind:ty => $capture:path: $captured:ty) => {
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, $kind, WRITTEN> {
            type Capture = $captured;
            fn capture(self, name: usize) -> $captured {
                $capture(self.0, name)
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, &$kind, WRITTEN> {
            type Capture = $captured;
            fn capture(self, name: usize) -> $captured {
                $capture(*self.0, name)
            }
        }
        impl<'a, $($generics)*, const WRITTEN: bool> CaptureShared for CaptureProbe<'a, &mut $kind, WRITTEN> {
            type Capture = $captured;
            fn capture(self, name: usize) -> $captured {
                $capture(&**self.0, name)
            }
        }
        impl<$($generics)*> SharedWrite for $kind {}
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> SharedWrite for &$kind {}
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> SharedWrite for &mut $kind {}
    };
}
pub(super) use shared_kind;
