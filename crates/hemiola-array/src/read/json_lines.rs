//! JSON lines: a flat object on each line, converted to separated values.
//!
//! Columns are the keys of all objects, in the order of their first appearance; a key that an object
//! lacks, and `null`, are empty fields. `true` and `false` become 1 and 0. Nested values become
//! their JSON text, which only matters if such a column is used.

use super::input::{InputFile, InputReader};
use super::parse::printable;
use super::view::push_row;
use crate::error::BadLine;
use crate::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 1 << 16;
/// Number of bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 1 << 30;

/// Returns the keys of all objects of files, in the order of their first appearance.
pub(super) fn keys<'a>(files: impl Iterator<Item = &'a InputFile>) -> Result<Vec<String>> {
    let mut columns = Columns::default();
    for file in files {
        let (mut reader, mut lines) = (file.reader()?, RawLines::default());
        while let Some((line, number)) = lines.next(&mut reader)? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut parser = serde_json::Deserializer::from_slice(line);
            let found = parser.deserialize_map(KeyCollector(&mut columns)).and_then(|()| parser.end());
            found.map_err(|_| not_an_object(file, line, number))?;
            if columns.names.len() > MAX_COLUMNS {
                let problem = format!("its objects have more than {MAX_COLUMNS} different keys; expected a table");
                return Err(Error::BadFile { file: file.path().to_owned(), problem });
            }
        }
    }
    Ok(columns.names)
}

fn not_an_object(file: &InputFile, line: &[u8], number: u64) -> Error {
    let (file, found) = (file.path().to_owned(), Some(printable(line.trim_ascii())));
    Error::BadLine(Box::new(BadLine { file, line: number, column: 1, expected: "a JSON object".to_owned(), found }))
}

/// Names of columns with their positions.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    positions: BTreeMap<String, usize>,
}

impl Columns {
    /// Returns the position of a key. Objects mostly have their keys in the same order, so the one
    /// after the last is tried first.
    fn position(&self, key: &str, expected: usize) -> Option<usize> {
        if self.names.get(expected).is_some_and(|name| name == key) {
            return Some(expected);
        }
        self.positions.get(key).copied()
    }

    fn add(&mut self, key: &str) {
        self.positions.insert(key.to_owned(), self.names.len());
        self.names.push(key.to_owned());
    }
}

/// Lines of a file that is read in pieces.
#[derive(Default)]
struct RawLines {
    buffer: Vec<u8>,
    /// Start of the next line in the buffer, and the part of it without a line ending.
    start: usize,
    searched: usize,
    /// Number of lines returned.
    count: u64,
    ended: bool,
}

impl RawLines {
    /// Returns the next line without its ending, and its number.
    fn next(&mut self, reader: &mut InputReader) -> Result<Option<(&[u8], u64)>> {
        let end = loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                break self.searched + at;
            }
            self.searched = self.buffer.len();
            if self.ended {
                break self.buffer.len();
            }
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            let before = self.buffer.len();
            if before > MAX_LINE_BYTES {
                let file = reader.source().path().to_owned();
                return Err(Error::LineTooLong { file, limit: MAX_LINE_BYTES as u64 });
            }
            self.buffer.resize(before + READ_BYTES, 0);
            let count = reader.read_decoded(&mut self.buffer[before..])?;
            self.buffer.truncate(before + count);
            self.ended = count == 0;
        };
        if end == self.buffer.len() && self.start == end {
            return Ok(None);
        }
        let line = &self.buffer[self.start..end];
        self.start = (end + 1).min(self.buffer.len());
        self.searched = self.start;
        self.count += 1;
        let mark: &[u8] = if self.count == 1 { b"\xef\xbb\xbf" } else { b"" };
        Ok(Some((line.strip_prefix(mark).unwrap_or(line), self.count)))
    }
}

/// Converter of JSON lines.
pub(super) struct JsonLines {
    columns: Columns,
    quoted: bool,
    lines: RawLines,
    /// Text of each column of the current object.
    fields: Vec<Vec<u8>>,
}

impl JsonLines {
    /// Creates a converter to rows of these columns; other keys are left out.
    pub(super) fn new(columns: &[String], quoted: bool) -> Self {
        let mut known = Columns::default();
        for name in columns {
            known.add(name);
        }
        Self { columns: known, quoted, lines: RawLines::default(), fields: vec![Vec::new(); columns.len()] }
    }

    /// Appends the rows of some lines. Returns false at the end.
    pub(super) fn convert(&mut self, input: &mut InputReader, text: &mut Vec<u8>) -> Result<bool> {
        while text.len() < READ_BYTES {
            let Some((line, number)) = self.lines.next(input)? else { return Ok(false) };
            if line.trim_ascii().is_empty() {
                text.push(b'\n');
                continue;
            }
            self.fields.iter_mut().for_each(Vec::clear);
            let mut parser = serde_json::Deserializer::from_slice(line);
            let row = RowCollector { columns: &self.columns, fields: &mut self.fields };
            let parsed = parser.deserialize_map(row).and_then(|()| parser.end());
            parsed.map_err(|_| not_an_object(input.source(), line, number))?;
            push_row(text, self.fields.iter().map(Vec::as_slice), self.quoted);
        }
        Ok(true)
    }
}

/// Visitor that adds the keys of an object to the columns.
struct KeyCollector<'a>(&'a mut Columns);

impl<'de> Visitor<'de> for KeyCollector<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut expected = 0;
        while let Some(key) = map.next_key_seed(KeyText)? {
            match self.0.position(&key, expected) {
                Some(position) => expected = position + 1,
                None => self.0.add(&key),
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Key of an object, borrowed if it has no escapes.
struct KeyText;

impl<'de> DeserializeSeed<'de> for KeyText {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyText {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Visitor that writes the values of an object as fields.
struct RowCollector<'a> {
    columns: &'a Columns,
    fields: &'a mut [Vec<u8>],
}

impl<'de> Visitor<'de> for RowCollector<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut expected = 0;
        while let Some(key) = map.next_key_seed(KeyText)? {
            match self.columns.position(&key, expected) {
                Some(position) => {
                    expected = position + 1;
                    self.fields[position].clear();
                    map.next_value_seed(FieldText(&mut self.fields[position]))?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Text of one value.
struct FieldText<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for FieldText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl FieldText<'_> {
    fn write(self, value: impl fmt::Display) {
        // Writing to memory succeeds.
        let _ = write!(self.0, "{value}");
    }
}

impl<'de> Visitor<'de> for FieldText<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.write(u8::from(value));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.write(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.write(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.write(value);
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<serde_json::Value>()? {
            values.push(value);
        }
        self.write(serde_json::Value::from(values));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut values = serde_json::Map::new();
        while let Some((key, value)) = map.next_entry::<String, serde_json::Value>()? {
            values.insert(key, value);
        }
        self.write(serde_json::Value::from(values));
        Ok(())
    }
}
