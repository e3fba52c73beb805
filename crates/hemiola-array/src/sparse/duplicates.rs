//! What happens when a key comes twice.
//!
//! **Invariant:** the policy sees duplicates in the order of arrival, (file, offset) order for a reader, so `Last` and a sum
//! of floats do not depend on how the entries were sorted.

use std::ops::AddAssign;

/// What to do with entries that have the same key.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum DuplicatePolicy<T> {
    /// Refuse, naming both places. The default: a rating given twice is more often a mistake in the data than not.
    #[default]
    Error,
    /// Keep the entry that came last.
    Last,
    /// Fold later entries into the first one.
    Combine(fn(&mut T, &T)),
}

impl<T: Copy + AddAssign> DuplicatePolicy<T> {
    /// Add the values up.
    #[must_use]
    pub fn sum() -> Self {
        Self::Combine(|total, value| *total += *value)
    }
}

/// A policy is a choice or a function pointer: it can be copied whatever the values are.
impl<T> Clone for DuplicatePolicy<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DuplicatePolicy<T> {}
