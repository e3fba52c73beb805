//! View of a plain value, which the body may read but not change.

use std::fmt;

/// A captured value that is no array, accumulator, buffer or table.
pub struct PlainView<'a, X: ?Sized>(pub(crate) &'a X);

impl<'a, X: ?Sized> PlainView<'a, X> {
    /// Returns the value. Generated code calls it for every captured name.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn resolve(&self) -> &'a X {
        self.0
    }
}

impl<X: ?Sized> fmt::Debug for PlainView<'_, X> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a captured value")
    }
}
