//! Policy for duplicate keys.
//!
//! **Invariant:** the policy sees duplicates in the order of arrival, which is (file, offset) order
//! for a reader. `Last` and a sum of floats therefore do not depend on the sort.

use std::ops::AddAssign;

/// Policy for entries with the same key.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum DuplicatePolicy<T> {
    /// Return an error that names both origins. The default: a rating given twice is usually a
    /// mistake in the data.
    #[default]
    Error,
    /// Keep the entry that arrived last.
    Last,
    /// Fold later entries into the first one.
    Combine(fn(&mut T, &T)),
}

impl<T: Copy + AddAssign> DuplicatePolicy<T> {
    /// Policy that adds the values up.
    #[must_use]
    pub fn sum() -> Self {
        Self::Combine(|total, value| *total += *value)
    }
}

/// A policy is a choice or a function pointer, so it can be copied for any value type.
impl<T> Clone for DuplicatePolicy<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DuplicatePolicy<T> {}
