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
    /// Fold later entries into the first one, then complete it with the number of entries.
    Aggregate {
        /// Folds a later entry into the first one.
        combine: fn(&mut T, &T),
        /// Completes the value of a key that occurred this often, at least twice.
        complete: fn(&mut T, u64),
    },
}

impl<T> DuplicatePolicy<T> {
    /// Policy that keeps the entry that arrived first.
    #[must_use]
    pub fn first() -> Self {
        Self::Combine(|_, _| {})
    }
}

impl DuplicatePolicy<f32> {
    /// Policy that takes the mean of the values.
    #[must_use]
    pub fn mean() -> Self {
        Self::Aggregate { combine: |total, value| *total += *value, complete: |total, count| *total /= count as f32 }
    }
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
