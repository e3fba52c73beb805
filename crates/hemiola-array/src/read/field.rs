//! Separated fields of one line, and the types they can become.
//!
//! [`Fields`] walks over a line from field to field. A plain number is parsed in place, and the
//! byte after it must be a separator or the end of the line: one look at each byte, and no prior
//! search for the end of the line. Everything else (quotes, spaces around a number, `nan`, errors)
//! takes the slow path, which isolates the field first and can report what is wrong.
//!
//! **Invariant:** the fast path accepts a subset of what the slow path accepts, with the same
//! value.

use super::number;
use super::parse::ParseError;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Separator between two fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Separator {
    /// One byte: a comma, a tab, a semicolon.
    Byte(u8),
    /// Several bytes, such as the `::` of the original MovieLens files.
    Bytes(Vec<u8>),
    /// Any run of spaces and tabs; those at both ends of a line are ignored.
    Whitespace,
}

impl Separator {
    /// Parses a separator as written by a user. A single space means a run of white space.
    ///
    /// # Panics
    /// Panics if the text is empty, or contains a quote or a line ending.
    #[must_use]
    pub fn new(text: &str) -> Self {
        assert!(
            !text.is_empty() && !text.contains(['"', '\n', '\r']),
            "a separator must not be empty, and must not contain quotes or line endings"
        );
        match text.as_bytes() {
            b" " => Self::Whitespace,
            [byte] => Self::Byte(*byte),
            bytes => Self::Bytes(bytes.to_vec()),
        }
    }

    /// Returns the separator as written by a user: the argument of [`new`](Self::new).
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Byte(byte) => char::from(*byte).to_string(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Whitespace => " ".to_owned(),
        }
    }
}

impl fmt::Display for Separator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(b'\t') => formatter.write_str("a tab"),
            Self::Byte(byte) => write!(formatter, "`{}`", byte.escape_ascii()),
            Self::Bytes(bytes) => write!(formatter, "`{}`", bytes.escape_ascii()),
            Self::Whitespace => formatter.write_str("white space"),
        }
    }
}

/// Handling of `nan`, `inf` and numbers too large for their type, in text and binary readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NonFiniteHandling {
    /// Text: the line is bad. Binary formats: an error that names file, row and column. The
    /// default: one such value spoils every sum it enters.
    #[default]
    Reject,
    /// Keep the value as it is.
    Keep,
}

/// Type that a field can become.
pub trait FieldValue: Sized {
    /// Description for messages: `a number`.
    const EXPECTED: &'static str;

    /// True if the field consumes the rest of its line, separators included.
    const TAKES_REST: bool = false;

    /// Parses a value in its plain form at the start of the text. Returns it with its length in
    /// bytes.
    #[must_use]
    #[inline]
    fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
        let _ = text;
        None
    }

    /// Parses a whole field, without surrounding white space.
    fn parse(text: &[u8]) -> Option<Self>;

    /// Returns false for NaN and the infinities.
    #[must_use]
    fn is_finite(&self) -> bool {
        true
    }
}

macro_rules! whole_field {
    ($($type:ty, $parse:path, $expected:literal;)*) => {$(
        impl FieldValue for $type {
            const EXPECTED: &'static str = $expected;
            #[inline]
            fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
                let (value, length) = $parse(text)?;
                Some((Self::try_from(value).ok()?, length))
            }
            fn parse(text: &[u8]) -> Option<Self> {
                std::str::from_utf8(text).ok()?.parse().ok()
            }
        }
    )*};
}
whole_field! {
    u8, number::unsigned, "a whole number from 0 to 255";
    u16, number::unsigned, "a whole number from 0 to 65535";
    u32, number::unsigned, "a whole number from 0 to 4294967295";
    u64, number::unsigned, "a whole number from 0 to 18446744073709551615";
    usize, number::unsigned, "a whole number from 0 to 18446744073709551615";
    i32, number::signed, "a whole number from -2147483648 to 2147483647";
    i64, number::signed, "a whole number from -9223372036854775808 to 9223372036854775807";
}

macro_rules! float_field {
    ($($type:ty, $parse:path;)*) => {$(
        impl FieldValue for $type {
            const EXPECTED: &'static str = "a number";
            #[inline]
            fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
                $parse(text)
            }
            fn parse(text: &[u8]) -> Option<Self> {
                fast_float2::parse(text).ok()
            }
            fn is_finite(&self) -> bool {
                <$type>::is_finite(*self)
            }
        }
    )*};
}
float_field! { f32, number::float32; f64, number::float64; }

impl FieldValue for String {
    const EXPECTED: &'static str = "UTF-8 text";
    fn parse(text: &[u8]) -> Option<Self> {
        Self::from_utf8(text.to_vec()).ok()
    }
}

impl FieldValue for Vec<u8> {
    const EXPECTED: &'static str = "a field";
    fn parse(text: &[u8]) -> Option<Self> {
        Some(text.to_vec())
    }
}

/// An empty field is `None`: a missing value.
impl<F: FieldValue> FieldValue for Option<F> {
    const EXPECTED: &'static str = F::EXPECTED;
    #[inline]
    fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
        F::parse_plain(text).map(|(value, length)| (Some(value), length))
    }
    fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() { Some(None) } else { F::parse(text).map(Some) }
    }
    fn is_finite(&self) -> bool {
        self.as_ref().is_none_or(F::is_finite)
    }
}

/// Field that must exist and is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredField;

impl FieldValue for IgnoredField {
    const EXPECTED: &'static str = "a field";
    fn parse(_text: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

/// All remaining fields, if any, ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestOfLine;

impl FieldValue for RestOfLine {
    const EXPECTED: &'static str = "anything";
    const TAKES_REST: bool = true;
    fn parse(_text: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

/// Record built from the fields of a line.
pub trait FromFields: Sized {
    /// Takes the fields of the record, and no more.
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Box<ParseError>>;
}

macro_rules! tuple {
    ($($field:ident)*) => {
        impl<$($field: FieldValue),*> FromFields for ($($field,)*) {
            #[inline]
            fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Box<ParseError>> {
                Ok(($(fields.next::<$field>()?,)*))
            }
        }
    };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);

/// Fields of one line, taken one after the other.
#[derive(Debug)]
pub struct Fields<'t> {
    /// The line and the text that follows it.
    text: &'t [u8],
    separator: &'t Separator,
    non_finite: NonFiniteHandling,
    quoted: bool,
    /// Offset of the next field or, if `ended`, of the next line.
    at: usize,
    /// Byte range of the field taken last.
    last: Range<usize>,
    /// Number of fields taken.
    taken: usize,
    /// True after the last field of the line was taken.
    ended: bool,
}

/// End of a field: offset of the next field or line, and which of the two it is.
struct Boundary {
    next: usize,
    ends_line: bool,
}

impl<'t> Fields<'t> {
    #[inline]
    pub(super) fn new(text: &'t [u8], separator: &'t Separator, non_finite: NonFiniteHandling, quoted: bool) -> Self {
        let at = if matches!(separator, Separator::Whitespace) { skip_blanks(text, 0) } else { 0 };
        Self { text, separator, non_finite, quoted, at, last: at..at, taken: 0, ended: false }
    }

    /// Parses the next field.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "fields of one line have different types")]
    pub fn next<F: FieldValue>(&mut self) -> Result<F, Box<ParseError>> {
        if !self.ended
            && let Some((value, length)) = F::parse_plain(&self.text[self.at..])
            && let Some(boundary) = self.boundary(self.at + length)
        {
            self.advance(self.at + length, &boundary);
            return Ok(value);
        }
        self.next_slow()
    }

    #[inline]
    fn advance(&mut self, end: usize, boundary: &Boundary) {
        self.last = self.at..end;
        self.at = boundary.next;
        self.ended = boundary.ends_line;
        self.taken += 1;
    }

    /// Boundary of a field that ends at `at`; `None` if it does not end there.
    #[inline]
    fn boundary(&self, at: usize) -> Option<Boundary> {
        // The two common cases, small enough to be inlined wherever a number ends.
        match (self.text.get(at), self.separator) {
            (Some(byte), Separator::Byte(separator)) if byte == separator => {
                Some(Boundary { next: at + 1, ends_line: false })
            }
            (Some(b'\n'), _) => Some(Boundary { next: at + 1, ends_line: true }),
            _ => self.other_boundary(at),
        }
    }

    #[inline(never)]
    fn other_boundary(&self, at: usize) -> Option<Boundary> {
        let text = self.text;
        match text.get(at) {
            None => return Some(Boundary { next: at, ends_line: true }),
            Some(b'\r') if matches!(text.get(at + 1), None | Some(b'\n')) => {
                return Some(Boundary { next: text.len().min(at + 2), ends_line: true });
            }
            Some(_) => {}
        }
        match self.separator {
            Separator::Bytes(separator) if text[at..].starts_with(separator) => {
                Some(Boundary { next: at + separator.len(), ends_line: false })
            }
            Separator::Whitespace if matches!(text[at], b' ' | b'\t') => {
                let next = skip_blanks(text, at);
                match self.boundary(next) {
                    Some(end) if end.ends_line => Some(end),
                    _ => Some(Boundary { next, ends_line: false }),
                }
            }
            _ => None,
        }
    }

    #[cold]
    fn next_slow<F: FieldValue>(&mut self) -> Result<F, Box<ParseError>> {
        if F::TAKES_REST {
            self.skip_rest();
            return F::parse(b"").ok_or_else(|| ParseError::new(F::EXPECTED));
        }
        let text = self.text()?;
        let value = F::parse(text.trim_ascii()).ok_or_else(|| self.reject(F::EXPECTED))?;
        if self.non_finite == NonFiniteHandling::Reject && !value.is_finite() {
            return Err(self.reject("a finite number"));
        }
        Ok(value)
    }

    /// Error that the field taken last is not what was expected: `a rating from 1 to 5`.
    #[must_use]
    #[cold]
    pub fn reject(&self, expected: impl Into<String>) -> Box<ParseError> {
        ParseError::at(self.last.clone(), expected)
    }

    /// Returns the next field as bytes, without its quotes. Borrowed unless quotes had to be
    /// undoubled.
    ///
    /// Best for names that go into a [`Dictionary`](crate::Dictionary): nothing is allocated.
    pub fn text(&mut self) -> Result<Cow<'t, [u8]>, Box<ParseError>> {
        if self.ended {
            let end = self.line_length();
            return Err(ParseError::at(end..end, format!("field {} after {}", self.taken + 1, self.separator)));
        }
        let start = self.at;
        if self.quoted && self.text.get(start) == Some(&b'"') {
            return self.quoted_text();
        }
        let length = self.raw_length(start);
        let Some(boundary) = self.boundary(start + length) else { unreachable!("a raw field ends at a boundary") };
        self.advance(start + length, &boundary);
        Ok(Cow::Borrowed(&self.text[start..start + length]))
    }

    fn quoted_text(&mut self) -> Result<Cow<'t, [u8]>, Box<ParseError>> {
        let start = self.at;
        let line_end = self.line_length();
        let mut text = Cow::Borrowed(&self.text[start..start]);
        let mut from = start + 1;
        loop {
            let Some(quote) = memchr::memchr(b'"', &self.text[from..line_end.max(from)]).map(|at| from + at) else {
                return Err(ParseError::at(start..line_end, "a closing quote on the same line"));
            };
            if text.is_empty() {
                text = Cow::Borrowed(&self.text[from..quote]);
            } else {
                text.to_mut().extend_from_slice(&self.text[from..quote]);
            }
            if self.text.get(quote + 1) == Some(&b'"') {
                text.to_mut().push(b'"');
                from = quote + 2;
                continue;
            }
            let Some(boundary) = self.boundary(quote + 1) else {
                let end = quote + 1 + self.raw_length(quote + 1);
                return Err(ParseError::at(quote + 1..end, format!("{} after a closing quote", self.separator)));
            };
            self.advance(quote + 1, &boundary);
            return Ok(text);
        }
    }

    /// Number of bytes from `start` to the next separator or the end of the line.
    fn raw_length(&self, start: usize) -> usize {
        // The first byte of a separator is rare in a field; for white space, check every byte.
        let first = match self.separator {
            Separator::Byte(byte) => *byte,
            Separator::Bytes(bytes) => bytes[0],
            Separator::Whitespace => {
                return (start..self.text.len()).find(|&at| self.boundary(at).is_some()).unwrap_or(self.text.len())
                    - start;
            }
        };
        memchr::memchr3_iter(first, b'\n', b'\r', &self.text[start..])
            .find(|&length| self.boundary(start + length).is_some())
            .unwrap_or(self.text.len() - start)
    }

    /// Length of the line without its ending.
    fn line_length(&self) -> usize {
        super::parse::first_line(self.text).0.len()
    }

    /// Returns true if all fields were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ended
    }

    /// Skips the rest of the line.
    pub fn skip_rest(&mut self) {
        if !self.ended {
            self.at = super::parse::first_line(self.text).1;
            self.ended = true;
        }
    }

    /// Returns the length of the line with its ending, or an error if fields are left.
    #[inline]
    pub(super) fn finish(self) -> Result<usize, Box<ParseError>> {
        if self.ended {
            return Ok(self.at);
        }
        let end = self.at + self.raw_length(self.at);
        // An extra empty field is invisible: show the separator before it.
        let start = if end == self.at { self.last.end } else { self.at };
        Err(ParseError::at(start..end, format!("the end of the line after {} fields", self.taken)))
    }
}

fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    at
}
