//! Three kinds of failure, which recovery code tells apart without reading text.

use std::fmt;

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asked for something wrong: a flag, a variable, a shape. The same call will fail again.
    Usage,
    /// The world failed: a peer died, a disk is full, a deadline passed. Starting again may help.
    World,
    /// Hemiola broke one of its own promises. Please report it.
    Bug,
}

impl ErrorKind {
    /// Whether running the same job again has a chance.
    #[must_use]
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::World)
    }

    /// The exit code of a program that ends for this reason: 2, 3 or 70.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::World => 3,
            Self::Bug => 70,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Usage => "wrong use",
            Self::World => "outside failure",
            Self::Bug => "bug in hemiola",
        })
    }
}
