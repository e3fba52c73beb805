//! Matrix Market files: `%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric`.
//!
//! A coordinate file lists `row column value` with indices from 1 and is read in byte ranges like any text. An array file
//! lists all values column by column, so a value's place is its number in the file: it is one range. Symmetric files hold
//! the lower triangle; the mirrored entries are handed out right after the originals.

use super::field::{Fields, NonFinite, Separator};
use super::pass::{Mistake, Report, Taken, first_line, pass, shown};
use super::source::Source;
use super::split::ByteRange;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Whether places are listed or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Layout {
    /// `row column value` per line.
    Coordinate,
    /// One value per line, column by column.
    Array,
}

/// Which half of the matrix stands for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Symmetry {
    /// None.
    General,
    /// The lower triangle with the diagonal.
    Symmetric,
    /// The lower triangle without the diagonal; mirrored entries change sign.
    SkewSymmetric,
}

/// A Matrix Market file whose header was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixMarket {
    source: Source,
    layout: Layout,
    pattern: bool,
    symmetry: Symmetry,
    rows: u64,
    columns: u64,
    /// Values in the file, mirrored ones not counted.
    stored: u64,
    /// Where the first value begins.
    body: u64,
    non_finite: NonFinite,
    allowed: u64,
}

impl MatrixMarket {
    /// Reads the header.
    pub fn open(source: &Source) -> Result<Self> {
        let bad = |problem: String| Error::BadFile { file: source.path().to_owned(), problem };
        let head = read_head(source)?;
        let (banner, mut at) = first_line(&head);
        let words: Vec<String> =
            String::from_utf8_lossy(banner).split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["%%matrixmarket", "matrix", layout, field, symmetry] = words[..] else {
            return Err(bad(format!(
                "expected `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY` on the first line, found `{}`",
                shown(banner)
            )));
        };
        let layout = match layout {
            "coordinate" => Layout::Coordinate,
            "array" => Layout::Array,
            other => return Err(bad(format!("expected the layout `coordinate` or `array`, found `{other}`"))),
        };
        let pattern = match field {
            "real" | "integer" | "double" => false,
            "pattern" if layout == Layout::Coordinate => true,
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
        let (rows, columns, stored) = match (layout, numbers.as_deref()) {
            (Layout::Coordinate, Some(&[rows, columns, stored])) => (rows, columns, stored),
            (Layout::Array, Some(&[rows, columns])) => (
                rows,
                columns,
                stored_in_array(rows, columns, symmetry).ok_or_else(|| bad("the matrix is too large".to_owned()))?,
            ),
            (layout, _) => {
                let expected = if layout == Layout::Array { "`rows columns`" } else { "`rows columns entries`" };
                return Err(bad(format!("expected the size line {expected}, found `{}`", shown(size))));
            }
        };
        if symmetry != Symmetry::General && rows != columns {
            return Err(bad(format!(
                "a symmetric matrix is square, but this one has {rows} rows and {columns} columns"
            )));
        }
        let source = source.clone();
        let (body, non_finite, allowed) = (at as u64, NonFinite::Refuse, 0);
        Ok(Self { source, layout, pattern, symmetry, rows, columns, stored, body, non_finite, allowed })
    }

    /// What to do with NaN and infinity. Default: the line is bad.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// How many bad lines are left out and reported before reading fails. Default: 0. An array file tolerates none,
    /// because a value left out would shift all others.
    #[must_use]
    pub fn skip_bad_lines(mut self, count: u64) -> Self {
        self.allowed = if self.layout == Layout::Array { 0 } else { count };
        self
    }

    /// How many bad lines are tolerated, for [`Report::settle`].
    #[must_use]
    pub fn bad_lines_allowed(&self) -> u64 {
        self.allowed
    }

    /// Rows and columns.
    #[must_use]
    pub fn shape(&self) -> [u64; 2] {
        [self.rows, self.columns]
    }

    /// Whether places are listed or counted.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The ranges the file may be read in.
    #[must_use]
    pub fn split(&self, target: u64) -> Vec<ByteRange> {
        match self.layout {
            Layout::Coordinate => ByteRange::split(std::slice::from_ref(&self.source), target),
            Layout::Array => vec![ByteRange::whole(self.source.clone())],
        }
    }

    /// Hands every entry of a range to `visit`: row and column from 0, and the value, 1 for a pattern.
    ///
    /// # Panics
    /// If the range is not one of [`split`](Self::split).
    pub fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(u64, u64, f64) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        assert!(self.layout == Layout::Coordinate || range.start() == 0, "an array file is one range");
        let (mut row_at, mut column_at) = self.next_place(self.first_row(0), 0);
        pass(range, self.allowed, |text, offset| {
            let (line, bytes) = first_line(text);
            if offset < self.body || line.starts_with(b"%") || line.trim_ascii().is_empty() {
                return Ok(Taken { bytes, records: 0 });
            }
            let mut fields = Fields::new(text, &Separator::Whitespace, self.non_finite, false);
            let (row, column, value) = match self.layout {
                Layout::Coordinate => {
                    let row: u64 = fields.next()?;
                    if row.wrapping_sub(1) >= self.rows {
                        return Err(fields.refuse(format!("a row from 1 to {}", self.rows)));
                    }
                    let column: u64 = fields.next()?;
                    if column.wrapping_sub(1) >= self.columns {
                        return Err(fields.refuse(format!("a column from 1 to {}", self.columns)));
                    }
                    let value = if self.pattern { 1.0 } else { fields.next()? };
                    (row - 1, column - 1, value)
                }
                Layout::Array => {
                    let value = fields.next()?;
                    if column_at >= self.columns {
                        return Err(Mistake::new(format!("the end of the file after {} values", self.stored)));
                    }
                    let place = (row_at, column_at, value);
                    (row_at, column_at) = self.next_place(row_at + 1, column_at);
                    place
                }
            };
            let bytes = fields.finish()?;
            match self.symmetry {
                Symmetry::Symmetric | Symmetry::SkewSymmetric if row < column => {
                    return Err(Mistake::new("an entry of the lower triangle (row not less than column)"));
                }
                Symmetry::SkewSymmetric if row == column => {
                    return Err(Mistake::new("no entry on the diagonal of a skew-symmetric matrix"));
                }
                _ => {}
            }
            visit(row, column, value)?;
            match self.symmetry {
                Symmetry::Symmetric if row != column => visit(column, row, value)?,
                Symmetry::SkewSymmetric => visit(column, row, -value)?,
                _ => {}
            }
            Ok(Taken { bytes, records: 1 })
        })
    }

    /// An error unless the file had as many values, good and bad, as its header promises.
    pub fn must_have(&self, found: u64) -> Result<()> {
        if found == self.stored {
            return Ok(());
        }
        let problem = format!("the header promises {} values, the file has {found}; is it complete?", self.stored);
        Err(Error::BadFile { file: self.source.path().to_owned(), problem })
    }

    /// The place itself, or the top of the next column that stores anything if it lies below the matrix.
    fn next_place(&self, mut row: u64, mut column: u64) -> (u64, u64) {
        while row >= self.rows && column < self.columns {
            column += 1;
            row = self.first_row(column);
        }
        (row, column)
    }

    /// The first row stored of a column of an array file.
    fn first_row(&self, column: u64) -> u64 {
        match self.symmetry {
            Symmetry::General => 0,
            Symmetry::Symmetric => column,
            Symmetry::SkewSymmetric => column + 1,
        }
    }
}

fn stored_in_array(rows: u64, columns: u64, symmetry: Symmetry) -> Option<u64> {
    match symmetry {
        Symmetry::General => rows.checked_mul(columns),
        Symmetry::Symmetric => Some(rows.checked_mul(rows.checked_add(1)?)? / 2),
        Symmetry::SkewSymmetric => Some(rows.checked_mul(rows.saturating_sub(1))? / 2),
    }
}

/// The beginning of the file: banner, comments and size line. Comments may be long, but not a megabyte.
fn read_head(source: &Source) -> Result<Vec<u8>> {
    let mut reader = source.reader()?;
    let mut head = vec![0; 1 << 20];
    let length = reader.fill(&mut head)?;
    head.truncate(length);
    Ok(head)
}
