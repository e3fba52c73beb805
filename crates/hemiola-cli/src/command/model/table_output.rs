//! Result tables: rows as separated values, JSON lines or, with the feature `arrow`, Parquet, to a
//! file or to standard output.
//!
//! **Invariant:** rows are written as they come, so memory does not grow with the table. A file
//! appears complete or not at all.

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use crate::report;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Size of text from which it is passed on.
const BUFFER: usize = 1 << 16;

/// Argument for a result table.
#[derive(Args, Debug)]
pub(super) struct TableArg {
    /// File for the results, or `-` for CSV on standard output: CSV, TSV (`.tsv`), JSON lines
    /// (`.jsonl`), compressed if its name ends with `.gz` or `.zst`, or Parquet (`.parquet`).
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl TableArg {
    /// Returns true if a table was asked for.
    pub(super) fn is_given(&self) -> bool {
        self.output.is_some()
    }

    /// Checks, before work begins, that the table can be written.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.output.as_deref() {
            Some(target) if target != Path::new("-") => {
                TableFormat::of(target)?;
                OutputCompression::of_name(target)?;
                report::check(target)
            }
            _ => Ok(()),
        }
    }

    /// Begins the table with these columns, on standard output if no file was given.
    pub(super) fn begin(&self, columns: Vec<TableColumn>) -> anyhow::Result<TableWriter> {
        TableWriter::begin(self.output.as_deref().unwrap_or(Path::new("-")), columns)
    }
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
}

/// Values of a column. Parquet stores them by it; the other formats write values as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    Integer,
    Number,
}

impl TableColumn {
    pub(super) fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ColumnKind::Text }
    }

    pub(super) fn integer(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ColumnKind::Integer }
    }

    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ColumnKind::Number }
    }

    /// Column of predicted classes, which are these.
    pub(super) fn classes<'a>(name: impl Into<String>, classes: impl IntoIterator<Item = &'a String>) -> Self {
        let mut kind = ColumnKind::Integer;
        for class in classes {
            kind = match (kind, class.parse::<i64>(), class.parse::<f64>()) {
                (ColumnKind::Integer, Ok(_), _) => ColumnKind::Integer,
                (ColumnKind::Integer | ColumnKind::Number, _, Ok(_)) => ColumnKind::Number,
                _ => ColumnKind::Text,
            };
        }
        Self { name: name.into(), kind }
    }
}

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableFormat {
    Separated(char),
    JsonLines,
    Parquet,
}

impl TableFormat {
    /// Returns the format that a name selects.
    fn of(target: &Path) -> anyhow::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match plain.rsplit_once('.').map(|(_, ending)| ending) {
            Some("csv") => Ok(Self::Separated(',')),
            Some("tsv") => Ok(Self::Separated('\t')),
            Some("jsonl" | "ndjson") => Ok(Self::JsonLines),
            Some("parquet") if plain != name => {
                let message = format!("cannot write `{}`: Parquet files are compressed within", target.display());
                Err(CommandError::usage(message).hint("let the name end with `.parquet`").into())
            }
            Some("parquet") if cfg!(feature = "arrow") => Ok(Self::Parquet),
            Some("parquet") => {
                let message = format!("this build of `hemiola` cannot write Parquet, as `{}`", target.display());
                let hint = "build it with `--features arrow`, or let the name end with `.csv`, `.tsv` or `.jsonl`";
                Err(CommandError::usage(message).hint(hint).into())
            }
            _ => {
                let message = format!("cannot tell the format of `{}`", target.display());
                let hint = "let the name end with `.csv`, `.tsv`, `.jsonl` or `.parquet`; `.gz` or `.zst` after the \
                            first three compresses it";
                Err(CommandError::usage(message).hint(hint).into())
            }
        }
    }
}

/// Table in progress.
pub(super) enum TableWriter {
    Text(TextTable),
    #[cfg(feature = "arrow")]
    Parquet(Box<super::parquet_output::ParquetFile>),
}

impl TableWriter {
    fn begin(target: &Path, columns: Vec<TableColumn>) -> anyhow::Result<Self> {
        let standard = target == Path::new("-");
        let format = if standard { TableFormat::Separated(',') } else { TableFormat::of(target)? };
        #[cfg(feature = "arrow")]
        if format == TableFormat::Parquet {
            return Ok(Self::Parquet(Box::new(super::parquet_output::ParquetFile::create(target, &columns)?)));
        }
        let file = if standard {
            None
        } else {
            Some(Box::new(StagedFile::create(target, OutputCompression::of_name(target)?)?))
        };
        Ok(Self::Text(TextTable::new(format, file, columns)))
    }

    /// Writes a row, with a value for each column; null is an empty field.
    pub(super) fn row(&mut self, values: &[Value]) -> anyhow::Result<()> {
        match self {
            Self::Text(table) => table.row(values),
            #[cfg(feature = "arrow")]
            Self::Parquet(table) => table.row(values),
        }
    }

    /// Completes the table; a file appears now.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Text(table) => table.finish(),
            #[cfg(feature = "arrow")]
            Self::Parquet(table) => table.finish(),
        }
    }
}

/// Table of text in progress.
pub(super) struct TextTable {
    columns: Vec<String>,
    format: TableFormat,
    /// File; `None` for standard output.
    file: Option<Box<StagedFile>>,
    text: String,
}

impl TextTable {
    fn new(format: TableFormat, file: Option<Box<StagedFile>>, columns: Vec<TableColumn>) -> Self {
        let columns: Vec<String> = columns.into_iter().map(|column| column.name).collect();
        let mut text = String::new();
        if let TableFormat::Separated(separator) = format {
            let names: Vec<String> = columns.iter().map(|name| quoted(name, separator)).collect();
            text = names.join(&separator.to_string()) + "\n";
        }
        Self { columns, format, file, text }
    }

    fn row(&mut self, values: &[Value]) -> anyhow::Result<()> {
        if let TableFormat::Separated(separator) = self.format {
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    self.text.push(separator);
                }
                match value {
                    Value::Null => {}
                    Value::String(text) => self.text += &quoted(text, separator),
                    other => self.text += &other.to_string(),
                }
            }
        } else {
            // Not a map, which would sort the columns.
            self.text.push('{');
            for (index, (name, value)) in self.columns.iter().zip(values).enumerate() {
                if index > 0 {
                    self.text.push(',');
                }
                self.text.push_str(&Value::from(name.as_str()).to_string());
                self.text.push(':');
                self.text.push_str(&value.to_string());
            }
            self.text.push('}');
        }
        self.text.push('\n');
        if self.text.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let text = std::mem::take(&mut self.text);
        match &mut self.file {
            Some(file) => file.write(text.as_bytes()),
            None => output::print(&text),
        }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.flush()?;
        match self.file {
            Some(file) => file.finish()?.publish(),
            None => Ok(()),
        }
    }
}

/// Returns a number as a value of a table; null if it is not finite.
pub(super) fn number(value: f32) -> Value {
    // The shortest decimal that gives the same number; as a double it would have more digits.
    value.to_string().parse::<f64>().ok().filter(|value| value.is_finite()).map_or(Value::Null, Value::from)
}

/// Returns a label as a value of a table: a whole number without decimals.
pub(super) fn label(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// Quotes a field if it needs to be (RFC 4180).
fn quoted(text: &str, separator: char) -> String {
    if text.contains(['"', '\n', '\r', separator]) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str) -> String {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join(name);
        let mut table =
            TableWriter::begin(&path, vec![TableColumn::text("b"), TableColumn::number("a,\"x\"")]).unwrap();
        table.row(&["one, \"two\"".into(), number(0.1)]).unwrap();
        table.row(&[Value::Null, 7.into()]).unwrap();
        assert!(!path.exists(), "nothing appears before the end");
        table.finish().unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn rows_are_quoted_by_format() {
        assert_eq!(written("x.csv"), "b,\"a,\"\"x\"\"\"\n\"one, \"\"two\"\"\",0.1\n,7\n");
        assert_eq!(written("x.tsv"), "b\t\"a,\"\"x\"\"\"\n\"one, \"\"two\"\"\"\t0.1\n\t7\n");
        let lines = written("x.jsonl");
        assert_eq!(lines, "{\"b\":\"one, \\\"two\\\"\",\"a,\\\"x\\\"\":0.1}\n{\"b\":null,\"a,\\\"x\\\"\":7}\n");
        for line in lines.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }

    #[test]
    fn classes_select_the_type_of_their_column() {
        let kind = |classes: &[&str]| {
            let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
            TableColumn::classes("prediction", &classes).kind
        };
        assert_eq!((kind(&["-1", "1"]), kind(&["0.5", "1"])), (ColumnKind::Integer, ColumnKind::Number));
        assert_eq!((kind(&["1", "0.5"]), kind(&["1", "0.5", "x"])), (ColumnKind::Number, ColumnKind::Text));
    }

    #[test]
    fn names_select_the_format() {
        let of = |name: &str| TableFormat::of(Path::new(name)).ok();
        assert_eq!(of("a.CSV.gz"), Some(TableFormat::Separated(',')));
        assert_eq!((of("a.ndjson.zst"), of("a.txt"), of("csv")), (Some(TableFormat::JsonLines), None, None));
        for name in ["a.parquet.gz", "a.parquet.zst"] {
            let message = TableFormat::of(Path::new(name)).unwrap_err().to_string();
            assert!(message.contains("compressed within"), "{message}");
        }
        assert_eq!((number(f32::NAN), label(-1.0), label(0.5)), (Value::Null, Value::from(-1), Value::from(0.5)));
    }
}
