//! A value that the body may look at but not change.

use std::fmt;

/// Any captured value that is no array, accumulator or buffer.
pub struct PlainView<'a, X: ?Sized>(pub(crate) &'a X);

impl<'a, X: ?Sized> PlainView<'a, X> {
    /// The value: how generated code gets at what a name stands for.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn place(&self) -> &'a X {
        self.0
    }
}

impl<X: ?Sized> fmt::Debug for PlainView<'_, X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a captured value")
    }
}
