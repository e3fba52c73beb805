//! Views: contents of a file as text of another form, so that the readers of text can read it.
//!
//! JSON lines, Parquet and Arrow IPC become separated values with a header, or the lines of one
//! column of texts. A file that is one document becomes one line. A view converts while the file is
//! read, in bounded memory, and on every peer that reads it; there is no intermediate file.
//!
//! **Invariant:** record number n is line n. The header of a table is line 0, which no message
//! names, and line endings inside texts become spaces. A file with a view is one unit of work, like
//! a compressed one.

#[cfg(feature = "arrow")]
use super::columnar_text::ColumnarText;
use super::detect::{DetectedFormat, FileFormat, is_named_json};
use super::input::{FileCompression, InputFile, InputReader};
use super::json_lines::{self, JsonLines};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Number of bytes that are converted at once.
const STEP_BYTES: usize = 64 * 1024;

/// Form in which readers see the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum InputView {
    /// Separated values with a header, of these columns.
    Table { encoding: TableEncoding, columns: Vec<String> },
    /// One line for each record: the text of one column.
    Texts { encoding: TableEncoding, column: String },
    /// One line: the whole file.
    Document,
}

/// Encoding of a table that is no separated text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TableEncoding {
    JsonLines,
    Columnar,
}

impl TableEncoding {
    /// Returns the encoding of a file; `None` for text that needs no view.
    fn of(file: &InputFile) -> Result<Option<Self>> {
        Ok(match DetectedFormat::of(file).map(|detected| detected.format) {
            Ok(FileFormat::JsonLines) => Some(Self::JsonLines),
            Ok(format @ (FileFormat::Parquet | FileFormat::Arrow)) => {
                // Its columns are read from many positions.
                if file.compression() != FileCompression::Plain {
                    let problem = format!("a {format} file cannot be read inside another one; unpack it first");
                    return Err(Error::BadFile { file: file.path().to_owned(), problem });
                }
                Some(Self::Columnar)
            }
            Err(error @ Error::BadFile { .. }) if is_named_json(file.path()) => return Err(error),
            _ => None,
        })
    }
}

impl InputView {
    pub(super) fn has_header(&self) -> bool {
        matches!(self, Self::Table { .. })
    }
}

impl InputFile {
    /// Presents tables in JSON lines, Parquet or Arrow IPC as separated values with a header;
    /// other files are unchanged. Files of JSON lines get the columns of all of them.
    pub fn as_tables(files: Vec<Self>) -> Result<Vec<Self>> {
        let encodings = files.iter().map(TableEncoding::of).collect::<Result<Vec<_>>>()?;
        let json = files.iter().zip(&encodings).filter(|(_, found)| **found == Some(TableEncoding::JsonLines));
        let keys = json_lines::keys(json.map(|(file, _)| file))?;
        let view = |(file, encoding): (Self, Option<TableEncoding>)| {
            let Some(encoding) = encoding else { return Ok(file) };
            let columns = match encoding {
                TableEncoding::JsonLines => keys.clone(),
                TableEncoding::Columnar => columnar_columns(&file)?,
            };
            Ok(Self { view: Some(InputView::Table { encoding, columns }), ..file })
        };
        files.into_iter().zip(encodings).map(view).collect()
    }

    /// Presents a column of tables as lines of text. Returns an error for other files.
    pub fn as_texts(files: Vec<Self>, column: &str) -> Result<Vec<Self>> {
        let tables = Self::as_tables(files)?;
        let view = |file: Self| {
            let problem = match &file.view {
                Some(InputView::Table { encoding, columns }) if columns.iter().any(|name| name == column) => {
                    let view = Some(InputView::Texts { encoding: *encoding, column: column.to_owned() });
                    return Ok(Self { view, ..file });
                }
                Some(InputView::Table { columns, .. }) => {
                    format!("it has no column `{column}`; its columns are: {}", columns.join(", "))
                }
                _ => format!("a column `{column}` of texts is read from JSON lines, Parquet or Arrow IPC"),
            };
            Err(Error::BadFile { file: file.path, problem })
        };
        tables.into_iter().map(view).collect()
    }

    /// Presents the file as one line of text.
    #[must_use]
    pub fn as_document(self) -> Self {
        Self { view: Some(InputView::Document), ..self }
    }

    /// Returns true if the file is seen as a table of separated values, whatever its format is.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.has_header()
    }
}

#[cfg(feature = "arrow")]
fn columnar_columns(file: &InputFile) -> Result<Vec<String>> {
    Ok(super::columnar::Columnar::open(file)?.columns().to_vec())
}

#[cfg(not(feature = "arrow"))]
fn columnar_columns(file: &InputFile) -> Result<Vec<String>> {
    Err(Error::NeedsFeature { input: file.path().display().to_string(), feature: "arrow".to_owned() })
}

/// Converter of the contents of a file.
pub(super) struct ViewReader {
    converter: Converter,
    /// Text that was converted, and the number of bytes that were read of it.
    text: Vec<u8>,
    taken: usize,
    finished: bool,
}

enum Converter {
    Json(JsonLines),
    #[cfg(feature = "arrow")]
    Columnar(Box<ColumnarText>),
    Document,
    /// A peer that was built without the feature received a view from one built with it.
    #[cfg(not(feature = "arrow"))]
    Missing,
}

impl ViewReader {
    pub(super) fn new(view: &InputView) -> Self {
        let mut text = Vec::new();
        let converter = match view {
            InputView::Document => Converter::Document,
            InputView::Table { encoding, columns } => {
                push_row(&mut text, columns.iter().map(String::as_bytes), true);
                Converter::of(*encoding, columns, true)
            }
            InputView::Texts { encoding, column } => Converter::of(*encoding, std::slice::from_ref(column), false),
        };
        Self { converter, text, taken: 0, finished: false }
    }

    /// Reads converted text; returns 0 only at its end.
    pub(super) fn read(&mut self, input: &mut InputReader, buffer: &mut [u8]) -> Result<usize> {
        while self.taken == self.text.len() && !self.finished {
            self.text.clear();
            self.taken = 0;
            self.finished = !self.converter.convert(input, &mut self.text)?;
        }
        let count = buffer.len().min(self.text.len() - self.taken);
        buffer[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Converter {
    fn of(encoding: TableEncoding, columns: &[String], quoted: bool) -> Self {
        match encoding {
            TableEncoding::JsonLines => Self::Json(JsonLines::new(columns, quoted)),
            #[cfg(feature = "arrow")]
            TableEncoding::Columnar => Self::Columnar(Box::new(ColumnarText::new(columns, quoted))),
            #[cfg(not(feature = "arrow"))]
            TableEncoding::Columnar => Self::Missing,
        }
    }

    /// Appends the next piece of text. Returns false at the end.
    fn convert(&mut self, input: &mut InputReader, text: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Json(lines) => lines.convert(input, text),
            #[cfg(feature = "arrow")]
            Self::Columnar(columnar) => columnar.convert(input.source(), text),
            #[cfg(not(feature = "arrow"))]
            Self::Missing => columnar_columns(input.source()).map(|_| false),
            Self::Document => {
                text.resize(STEP_BYTES, 0);
                let count = input.read_decoded(text)?;
                text.truncate(count);
                text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
                if count == 0 {
                    text.push(b'\n');
                }
                Ok(count > 0)
            }
        }
    }
}

/// Appends a row of separated values, or of plain texts if it is not `quoted`.
pub(super) fn push_row<'a>(text: &mut Vec<u8>, fields: impl Iterator<Item = &'a [u8]>, quoted: bool) {
    for (number, field) in fields.enumerate() {
        if number > 0 {
            text.push(b',');
        }
        let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
        let padded =
            field.first().is_some_and(u8::is_ascii_whitespace) || field.last().is_some_and(u8::is_ascii_whitespace);
        if !(padded || field.iter().any(special)) {
            text.extend_from_slice(field);
            continue;
        }
        let quoted = quoted && (padded || field.iter().any(|byte| matches!(byte, b',' | b'"')));
        text.extend(quoted.then_some(b'"'));
        for byte in field {
            match byte {
                b'\n' | b'\r' => text.push(b' '),
                b'"' if quoted => text.extend_from_slice(b"\"\""),
                byte => text.push(*byte),
            }
        }
        text.extend(quoted.then_some(b'"'));
    }
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::super::{Csv, ReadReport};
    use super::*;

    fn rows(file: &InputFile) -> Result<Vec<(String, String, f32)>> {
        let mut rows = Vec::new();
        let csv = Csv::new();
        let ranges = super::super::ByteRange::split(std::slice::from_ref(file), 8);
        assert_eq!(ranges.len(), 1, "a file with a view is one unit");
        let report = csv.read(&ranges[0], |row: (String, String, f32)| {
            rows.push(row);
            Ok(())
        })?;
        ReadReport::merge(std::slice::from_ref(file), [report], 0)?;
        Ok(rows)
    }

    fn table(text: &str) -> Result<InputFile> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.keep().join("x.jsonl");
        std::fs::write(&path, text).unwrap();
        Ok(InputFile::as_tables(vec![InputFile::open(&path)?])?.remove(0))
    }

    #[test]
    fn json_lines_are_tables_with_a_header() {
        let text = "{\"user\": \"a,\\\"b\\\"\", \"item\": 7, \"rating\": 4.5}\n\n{\"rating\":3,\"user\":\" c\\nd\",\"item\":true}\r\n";
        let file = table(text).unwrap();
        assert_eq!(Csv::new().column_names(&file).unwrap().unwrap(), ["user", "item", "rating"]);
        let row = |user: &str, item: &str, rating| (user.to_owned(), item.to_owned(), rating);
        assert_eq!(rows(&file).unwrap(), [row("a,\"b\"", "7", 4.5), row("c d", "1", 3.0)]);
    }

    #[test]
    fn messages_name_the_line_of_the_record() {
        let told = |text: &str| table(text).and_then(|file| rows(&file)).unwrap_err().to_string();
        let first = "{\"u\":1,\"i\":2,\"r\":3}\n";
        let bad = told(&format!("{first}\n{{\"u\":1,\"i\":2,\"r\":\"good\"}}\n"));
        assert!(bad.contains("x.jsonl:3:5`: expected a number, found `good`"), "{bad}");
        let bad = told(&format!("{first}{{\"u\":1,\"i\":2}}\n"));
        assert!(bad.contains("x.jsonl:2:5`: expected a number, found the end of the line"), "{bad}");
        let bad = told(&format!("{first}{first}oops\n"));
        assert!(bad.contains("x.jsonl:3:1`: expected a JSON object, found `oops`"), "{bad}");
    }

    #[test]
    fn a_document_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("post");
        std::fs::write(&path, "Dear all,\r\nhello\n").unwrap();
        let mut reader = InputFile::open(&path).unwrap().as_document().reader().unwrap();
        let mut text = [0; 100];
        let count = reader.fill(&mut text).unwrap();
        assert_eq!(&text[..count], b"Dear all,  hello \n");
    }

    #[test]
    fn a_column_of_texts_is_chosen_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("posts.jsonl");
        std::fs::write(&path, "{\"id\":1,\"text\":\"a \\\"b\\\",\\nc\"}\n{\"text\":\"d\"}\n").unwrap();
        let file = || vec![InputFile::open(&path).unwrap()];
        let mut reader = InputFile::as_texts(file(), "text").unwrap()[0].reader().unwrap();
        let mut text = [0; 100];
        let count = reader.fill(&mut text).unwrap();
        assert_eq!(&text[..count], b"a \"b\", c\nd\n");
        let told = InputFile::as_texts(file(), "body").unwrap_err().to_string();
        assert!(told.ends_with("it has no column `body`; its columns are: id, text"), "{told}");
    }
}
