//! Treatment of entries that occur twice: a rating given again, a feature repeated on a line.

use hemiola_array::sparse::DuplicatePolicy;
use std::fmt;
use std::str::FromStr;

/// Value of entries with the same key, in the order of files and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DuplicateHandling {
    /// An error that names both lines.
    Error,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// The mean of the values.
    Mean,
    /// The sum of the values.
    Sum,
}

impl DuplicateHandling {
    /// All choices, in the order of this enum.
    pub const ALL: [Self; 5] = [Self::Error, Self::First, Self::Last, Self::Mean, Self::Sum];

    /// Name of the choice: `last`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::First => "first",
            Self::Last => "last",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// Returns the policy of arrays. Sums and means add in the order of files and lines, so their
    /// bits do not depend on peers and workers.
    pub(crate) fn policy(self) -> DuplicatePolicy<f32> {
        match self {
            Self::Error => DuplicatePolicy::Error,
            Self::First => DuplicatePolicy::first(),
            Self::Last => DuplicatePolicy::Last,
            Self::Mean => DuplicatePolicy::mean(),
            Self::Sum => DuplicatePolicy::sum(),
        }
    }
}

impl fmt::Display for DuplicateHandling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for DuplicateHandling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|choice| choice.name() == text)
            .ok_or_else(|| format!("expected one of {}", expected()))
    }
}
