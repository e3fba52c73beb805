//! Description of a loop: the arrays its body uses, their subscripts, and reads and writes.
//!
//! The macro writes this description before types are known, as `static` tables. The run time
//! completes it, because only there is it known which names are arrays. For that reason [`Access`]
//! and [`Subscript`] borrow (`Cow::Borrowed`) in a table and own their data when they are
//! deserialized, and [`LoopSpec`] is built at run time.
//!
//! **Invariant:** a description may claim less than the source, never more. A subscript that is not
//! understood is [`Subscript::Unknown`], which may be any index of the array.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One subscript of an access: the set of indices it may name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Subscript {
    /// A loop index plus a constant: `i`, `i + 1`, `i - 1`.
    Index {
        /// Dimension of the loop, counted from zero and from the outermost.
        dimension: usize,
        /// Constant added to the loop index.
        offset: i64,
    },
    /// An integer literal of the source.
    Constant(i64),
    /// An expression of names that do not change while the loop runs. Equal text means equal value;
    /// different texts may have equal values as well.
    Invariant(Cow<'static, str>),
    /// All indices from `from` (included) to `to` (excluded). `None` is an open end.
    Range {
        /// First index of the range; `None` is the beginning.
        from: Option<i64>,
        /// Index after the last one; `None` is the end.
        to: Option<i64>,
    },
    /// A value that depends on data: it may be any index.
    Unknown,
}

impl Subscript {
    /// The full range `..`.
    pub const ALL: Self = Self::Range { from: None, to: None };

    /// Subscript that is the index of loop dimension `dimension`.
    #[must_use]
    pub const fn index(dimension: usize) -> Self {
        Self::Index { dimension, offset: 0 }
    }

    /// Subscript that is the index of loop dimension `dimension` plus `offset`.
    #[must_use]
    pub const fn shifted(dimension: usize, offset: i64) -> Self {
        Self::Index { dimension, offset }
    }

    /// Returns whether the subscript names no index at all, as `3..3` does.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self, Self::Range { from: Some(from), to: Some(to) } if *from >= *to)
    }
}

impl fmt::Display for Subscript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index { dimension, offset: 0 } => write!(f, "#{dimension}"),
            Self::Index { dimension, offset } if *offset < 0 => write!(f, "#{dimension} - {}", offset.unsigned_abs()),
            Self::Index { dimension, offset } => write!(f, "#{dimension} + {offset}"),
            Self::Constant(value) => write!(f, "{value}"),
            Self::Invariant(text) => f.write_str(text),
            Self::Range { from, to } => {
                from.iter().try_for_each(|from| write!(f, "{from}"))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| write!(f, "{to}"))
            }
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// Effect of an access on the elements it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccessMode {
    /// Reads the elements only.
    Read,
    /// Overwrites the elements without reading them.
    Write,
    /// Reads and overwrites the elements: `+=`, `&mut`.
    Update,
}

impl AccessMode {
    /// Returns whether the access may change the value of an element.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Update)
    }

    /// Returns whether the access depends on the value before it.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Update => "update",
        })
    }
}

/// One use of an array in the loop body.
///
/// A macro can write a table of them:
/// ```
/// use std::borrow::Cow;
/// use hemiola_analysis::{Access, AccessMode, Subscript};
///
/// static ACCESSES: &[Access] = &[Access {
///     name: 0,
///     subscripts: Cow::Borrowed(&[
///         Subscript::Index { dimension: 0, offset: 1 },
///         Subscript::Invariant(Cow::Borrowed("N")),
///     ]),
///     mode: AccessMode::Update,
///     text: Cow::Borrowed("w[[u + 1, N]] += 1.0"),
///     line: 12,
///     column: 9,
/// }];
/// assert!(ACCESSES[0].mode.writes());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Number of the captured name in the loop's list. The analysis itself does not use it.
    pub name: usize,
    /// One subscript per dimension of the array. Missing ones are [`Subscript::ALL`].
    pub subscripts: Cow<'static, [Subscript]>,
    /// Read, write or update.
    pub mode: AccessMode,
    /// Source text of the access, for messages.
    pub text: Cow<'static, str>,
    /// Line of the access in the user's file.
    pub line: u32,
    /// Column of the access in the user's file.
    pub column: u32,
}

impl Access {
    /// Returns the subscript of array dimension `dimension`, or [`Subscript::ALL`] if it is
    /// missing.
    #[must_use]
    pub fn subscript(&self, dimension: usize) -> &Subscript {
        self.subscripts.get(dimension).unwrap_or(&Subscript::ALL)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (line {}, {})", self.text, self.line, self.mode)
    }
}

/// Accesses of a loop to one array, under all names the body has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayAccesses {
    /// Name of the array, for messages.
    pub name: String,
    /// Number of dimensions of the array.
    pub dimensions: usize,
    /// Accesses that take effect immediately. They cause dependences.
    pub accesses: Vec<Access>,
    /// Accesses through a write-back buffer. Buffered writes are allowed to be late, so they cause
    /// no dependences. They still constrain where the array is placed.
    pub buffered: Vec<Access>,
}

impl ArrayAccesses {
    /// Iterates over all accesses, the buffered ones last.
    pub fn all_accesses(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().chain(&self.buffered)
    }
}

/// Description of a loop: the input of the analysis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSpec {
    /// Number of loop indices. The first is the outermost.
    pub dimensions: usize,
    /// Requires that iterations that depend on each other keep the order of the source. Otherwise
    /// any order is allowed, as long as it is *one* order.
    pub ordered: bool,
    /// Arrays that the body uses. Each array is listed once, even if the body has several names for
    /// it.
    pub arrays: Vec<ArrayAccesses>,
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Access] = &[Access {
        name: 0,
        subscripts: Cow::Borrowed(&[
            Subscript::Invariant(Cow::Borrowed("n")),
            Subscript::ALL,
            Subscript::shifted(1, -2),
        ]),
        mode: AccessMode::Read,
        text: Cow::Borrowed("a[[n, .., j - 2]]"),
        line: 3,
        column: 5,
    }];

    #[test]
    fn a_static_table_survives_serialization() {
        let json = serde_json::to_string(TABLE).unwrap();
        let back: Vec<Access> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, TABLE);
    }

    #[test]
    fn missing_subscripts_are_full_ranges() {
        assert_eq!(TABLE[0].subscript(2), &Subscript::shifted(1, -2));
        assert_eq!(TABLE[0].subscript(3), &Subscript::ALL);
    }

    #[test]
    fn only_ranges_with_two_ends_can_be_empty() {
        let range = |from, to| Subscript::Range { from, to };
        assert!(range(Some(3), Some(3)).is_empty());
        assert!(!range(Some(3), Some(4)).is_empty());
        assert!(!range(None, Some(0)).is_empty());
        assert!(!Subscript::Unknown.is_empty());
    }
}
