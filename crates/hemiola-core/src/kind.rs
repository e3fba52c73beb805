//! Three kinds of failure, which recovery code distinguishes without parsing text.

use std::fmt;

/// Party that has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Mistake of the caller: a flag, a variable, a shape. The same call fails again.
    Usage,
    /// Failure outside of Hemiola: a peer died, a disk is full, a deadline passed. A restart may
    /// help.
    External,
    /// Broken invariant of Hemiola itself. Please report it.
    Bug,
}

impl ErrorKind {
    /// Returns true if running the same job again may succeed.
    #[must_use]
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::External)
    }

    /// Returns the exit code of a program that ends with this error: 2, 3 or 70.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::External => 3,
            Self::Bug => 70,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Usage => "usage error",
            Self::External => "external failure",
            Self::Bug => "bug in hemiola",
        })
    }
}
