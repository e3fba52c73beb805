//! The vocabulary in which a loop describes itself: which arrays its body uses, by which subscripts, reading or writing.
//!
//! A macro writes this description before types are known, as `static` tables; the run time completes it, because only
//! there is it known which names are arrays. So [`Access`] and [`Subscript`] borrow (`Cow::Borrowed`) where a table needs
//! it and own where they come from a file, and [`LoopSpec`] is put together at run time.
//!
//! **Invariant:** a description may say less than the source does, never more. What is not understood is
//! [`Subscript::Unknown`], which may be any place of the array.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What one subscript of an access says about the place it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Subscript {
    /// A loop index plus a constant: `i`, `i + 1`, `i - 1`.
    Index {
        /// Which dimension of the loop, counted from zero and from the outside.
        dimension: usize,
        /// What is added to the index.
        offset: i64,
    },
    /// A literal.
    Constant(i64),
    /// An expression of names that do not change while the loop runs. Equal text means equal value; different texts may
    /// have equal values, too.
    Invariant(Cow<'static, str>),
    /// All places from `from` up to, but without, `to`. `None` is an open end.
    Range {
        /// The first place, or the beginning.
        from: Option<i64>,
        /// One behind the last place, or the end.
        to: Option<i64>,
    },
    /// Depends on data: may be any place.
    Unknown,
}

impl Subscript {
    /// Every place: `..`.
    pub const ALL: Self = Self::Range { from: None, to: None };

    /// The index of loop dimension `dimension`, as it is.
    #[must_use]
    pub const fn index(dimension: usize) -> Self {
        Self::Index { dimension, offset: 0 }
    }

    /// The index of loop dimension `dimension` plus `offset`.
    #[must_use]
    pub const fn shifted(dimension: usize, offset: i64) -> Self {
        Self::Index { dimension, offset }
    }

    /// Whether this names no place at all, as `3..3` does.
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

/// What an access does with the places it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Looks only.
    Read,
    /// Overwrites without looking.
    Write,
    /// Looks and overwrites: `+=`, `&mut`.
    Update,
}

impl Mode {
    /// Whether the place may hold another value afterwards.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Update)
    }

    /// Whether the value before matters.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Update => "update",
        })
    }
}

/// One place in the body where an array is used.
///
/// A macro can write a table of them:
/// ```
/// use std::borrow::Cow;
/// use hemiola_analysis::{Access, Mode, Subscript};
///
/// static ACCESSES: &[Access] = &[Access {
///     name: 0,
///     subscripts: Cow::Borrowed(&[Subscript::Index { dimension: 0, offset: 1 }, Subscript::Invariant(Cow::Borrowed("N"))]),
///     mode: Mode::Update,
///     text: Cow::Borrowed("w[[u + 1, N]] += 1.0"),
///     line: 12,
///     column: 9,
/// }];
/// assert!(ACCESSES[0].mode.writes());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    /// Which of the names that the loop captures; the analysis itself does not look at it.
    pub name: usize,
    /// One per dimension of the array. Where there are fewer, the rest is [`Subscript::ALL`].
    pub subscripts: Cow<'static, [Subscript]>,
    /// Reading or writing.
    pub mode: Mode,
    /// As the user wrote it, for messages.
    pub text: Cow<'static, str>,
    /// Line in the user's file.
    pub line: u32,
    /// Column in the user's file.
    pub column: u32,
}

impl Access {
    /// The subscript for array dimension `dimension`, whether it was written or not.
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

/// How one array is used by a loop, under whatever names the body knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayUse {
    /// For messages.
    pub name: String,
    /// How many dimensions the array has.
    pub dimensions: usize,
    /// Accesses that take effect at once: these make dependences.
    pub accesses: Vec<Access>,
    /// Accesses through a write-back buffer. Being late is what a buffer is for, so they make no dependences; they still
    /// say where the array should be.
    pub buffered: Vec<Access>,
}

impl ArrayUse {
    /// All accesses, the buffered ones last.
    pub fn all(&self) -> impl Iterator<Item = &Access> {
        self.accesses.iter().chain(&self.buffered)
    }
}

/// All the analysis has to know of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopSpec {
    /// How many indices the loop has. The first is the outermost.
    pub dimensions: usize,
    /// Whether iterations that depend on each other must keep the order of the source. If not, any order will do, as
    /// long as it is *one* order.
    pub ordered: bool,
    /// The arrays the body uses. Each array once, even if the body knows it under several names.
    pub arrays: Vec<ArrayUse>,
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
        mode: Mode::Read,
        text: Cow::Borrowed("a[[n, .., j - 2]]"),
        line: 3,
        column: 5,
    }];

    #[test]
    fn a_static_table_survives_a_round_trip_through_text() {
        let json = serde_json::to_string(TABLE).unwrap();
        let back: Vec<Access> = serde_json::from_str(&json).unwrap();
        assert_eq!(back, TABLE);
    }

    #[test]
    fn missing_subscripts_are_everything() {
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
