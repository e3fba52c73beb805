//! Matrix Market files: `%%MatrixMarket matrix coordinate|array real|integer|pattern
//! general|symmetric|skew-symmetric`.
//!
//! A coordinate file lists `row column value` with indices from 1 and is read in byte ranges like
//! any text. An array file lists all values column by column, so the position of a value is its
//! number in the file: it is one range. Symmetric files hold the lower triangle; the mirrored
//! entries are visited right after the originals.

use super::field::{Fields, NonFiniteHandling, Separator};
use super::input::InputFile;
use super::parse::{ParseError, ParsedLine, ReadReport, first_line, parse_lines, printable};
use super::split::ByteRange;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Format of the body: explicit coordinates or a full array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MatrixMarketFormat {
    /// `row column value` on each line.
    Coordinate,
    /// One value per line, column by column.
    Array,
}

/// Symmetry of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Symmetry {
    /// No symmetry: all entries are stored.
    General,
    /// The lower triangle with the diagonal is stored.
    Symmetric,
    /// The lower triangle without the diagonal is stored; mirrored entries change sign.
    SkewSymmetric,
}

/// Matrix Market file with its header read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixMarket {
    source: InputFile,
    format: MatrixMarketFormat,
    pattern: bool,
    symmetry: Symmetry,
    rows: usize,
    columns: usize,
    /// Number of values in the file, without mirrored ones.
    stored: u64,
    /// Offset of the first value.
    body: u64,
    non_finite: NonFiniteHandling,
    allowed: u64,
}

impl MatrixMarket {
    /// Reads the header of a file.
    pub fn open(source: &InputFile) -> Result<Self> {
        let bad = |problem: String| Error::BadFile { file: source.path().to_owned(), problem };
        let head = read_head(source)?;
        let (banner, mut at) = first_line(&head);
        let words: Vec<String> =
            String::from_utf8_lossy(banner).split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["%%matrixmarket", "matrix", format, field, symmetry] = words[..] else {
            return Err(bad(format!(
                "expected `%%MatrixMarket matrix FORMAT FIELD SYMMETRY` on the first line, found `{}`",
                printable(banner)
            )));
        };
        let format = match format {
            "coordinate" => MatrixMarketFormat::Coordinate,
            "array" => MatrixMarketFormat::Array,
            other => return Err(bad(format!("expected the format `coordinate` or `array`, found `{other}`"))),
        };
        let pattern = match field {
            "real" | "integer" | "double" => false,
            "pattern" if format == MatrixMarketFormat::Coordinate => true,
            other => return Err(bad(format!("expected the field `real`, `integer` or `pattern`, found `{other}`"))),
        };
        let symmetry = match symmetry {
            "general" => Symmetry::General,
            "symmetric" => Symmetry::Symmetric,
            "skew-symmetric" => Symmetry::SkewSymmetric,
            other => {
                let expected = "`general`, `symmetric` or `skew-symmetric`";
                return Err(bad(format!("expected the symmetry {expected}, found `{other}`")));
            }
        };
        let size = loop {
            let (line, taken) = first_line(&head[at..]);
            if taken == 0 {
                return Err(bad("expected a line with the size of the matrix, found the end of the file".to_owned()));
            }
            at += taken;
            if !line.starts_with(b"%") && !line.trim_ascii().is_empty() {
                break line;
            }
        };
        let text = String::from_utf8_lossy(size);
        let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        let (rows, columns, stored) = match (format, numbers.as_deref()) {
            (MatrixMarketFormat::Coordinate, Some(&[rows, columns, stored])) => {
                (rows as usize, columns as usize, stored)
            }
            (MatrixMarketFormat::Array, Some(&[rows, columns])) => (
                rows as usize,
                columns as usize,
                array_value_count(rows, columns, symmetry).ok_or_else(|| bad("the matrix is too large".to_owned()))?,
            ),
            (format, _) => {
                let expected =
                    if format == MatrixMarketFormat::Array { "`rows columns`" } else { "`rows columns entries`" };
                return Err(bad(format!("expected the size line {expected}, found `{}`", printable(size))));
            }
        };
        if symmetry != Symmetry::General && rows != columns {
            return Err(bad(format!(
                "a symmetric matrix is square, but this one has {rows} rows and {columns} columns"
            )));
        }
        let source = source.clone();
        let (body, non_finite, allowed) = (at as u64, NonFiniteHandling::Reject, 0);
        Ok(Self { source, format, pattern, symmetry, rows, columns, stored, body, non_finite, allowed })
    }

    /// Sets the handling of NaN and infinity. Default: the line is bad.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFiniteHandling) -> Self {
        self.non_finite = policy;
        self
    }

    /// Sets the number of bad lines that are skipped and reported before reading fails. Default: 0.
    /// An array file tolerates none, because a skipped value would shift all others.
    #[must_use]
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = if self.format == MatrixMarketFormat::Array { 0 } else { count };
        self
    }

    /// Number of tolerated bad lines, for [`ReadReport::merge`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Number of rows and of columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Format of the body: coordinates or array.
    #[must_use]
    pub fn format(&self) -> MatrixMarketFormat {
        self.format
    }

    /// Byte ranges of about `target` bytes; a single range for an array file.
    #[must_use]
    pub fn split(&self, target: u64) -> Vec<ByteRange> {
        match self.format {
            MatrixMarketFormat::Coordinate => ByteRange::split(std::slice::from_ref(&self.source), target),
            MatrixMarketFormat::Array => vec![ByteRange::whole(self.source.clone())],
        }
    }

    /// Calls `visit` with every entry of a range: row and column from 0, and the value, 1 for a
    /// pattern.
    ///
    /// # Panics
    /// Panics if the range is not one of [`split`](Self::split).
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(usize, usize, f64) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        assert!(self.format == MatrixMarketFormat::Coordinate || range.start() == 0, "an array file is one range");
        let (mut row_at, mut column_at) = self.next_cell(self.first_row(0), 0);
        parse_lines(range, self.allowed, |text, offset| {
            let (line, bytes) = first_line(text);
            if offset < self.body || line.starts_with(b"%") || line.trim_ascii().is_empty() {
                return Ok(ParsedLine { bytes, records: 0 });
            }
            let mut fields = Fields::new(text, &Separator::Whitespace, self.non_finite, false);
            let (row, column, value) = match self.format {
                MatrixMarketFormat::Coordinate => {
                    let row: usize = fields.next()?;
                    if row.wrapping_sub(1) >= self.rows {
                        return Err(fields.reject(format!("a row from 1 to {}", self.rows)));
                    }
                    let column: usize = fields.next()?;
                    if column.wrapping_sub(1) >= self.columns {
                        return Err(fields.reject(format!("a column from 1 to {}", self.columns)));
                    }
                    let value = if self.pattern { 1.0 } else { fields.next()? };
                    (row - 1, column - 1, value)
                }
                MatrixMarketFormat::Array => {
                    let value = fields.next()?;
                    if column_at >= self.columns {
                        return Err(ParseError::new(format!("the end of the file after {} values", self.stored)));
                    }
                    let entry = (row_at, column_at, value);
                    (row_at, column_at) = self.next_cell(row_at + 1, column_at);
                    entry
                }
            };
            let bytes = fields.finish()?;
            match self.symmetry {
                Symmetry::Symmetric | Symmetry::SkewSymmetric if row < column => {
                    return Err(ParseError::new("an entry of the lower triangle (row not less than column)"));
                }
                Symmetry::SkewSymmetric if row == column => {
                    return Err(ParseError::new("no entry on the diagonal of a skew-symmetric matrix"));
                }
                _ => {}
            }
            visit(row, column, value)?;
            match self.symmetry {
                Symmetry::Symmetric if row != column => visit(column, row, value)?,
                Symmetry::SkewSymmetric => visit(column, row, -value)?,
                _ => {}
            }
            Ok(ParsedLine { bytes, records: 1 })
        })
    }

    /// Returns an error unless the file had as many values, good and bad, as its header declares.
    pub fn check_count(&self, found: u64) -> Result<()> {
        if found == self.stored {
            return Ok(());
        }
        let problem = format!("the header declares {} values, the file has {found}; is it complete?", self.stored);
        Err(Error::BadFile { file: self.source.path().to_owned(), problem })
    }

    /// Returns the cell itself or, if it lies below the matrix, the top of the next column that
    /// stores values.
    fn next_cell(&self, mut row: usize, mut column: usize) -> (usize, usize) {
        while row >= self.rows && column < self.columns {
            column += 1;
            row = self.first_row(column);
        }
        (row, column)
    }

    /// First stored row of a column of an array file.
    fn first_row(&self, column: usize) -> usize {
        match self.symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::SkewSymmetric => column + 1,
        }
    }
}

fn array_value_count(rows: u64, columns: u64, symmetry: Symmetry) -> Option<u64> {
    match symmetry {
        Symmetry::General => rows.checked_mul(columns),
        Symmetry::Symmetric => Some(rows.checked_mul(rows.checked_add(1)?)? / 2),
        Symmetry::SkewSymmetric => Some(rows.checked_mul(rows.saturating_sub(1))? / 2),
    }
}

/// Start of the file: banner, comments and size line. Comments may be long, but not a megabyte.
fn read_head(source: &InputFile) -> Result<Vec<u8>> {
    let mut reader = source.reader()?;
    let mut head = vec![0; 1 << 20];
    let length = reader.fill(&mut head)?;
    head.truncate(length);
    Ok(head)
}
