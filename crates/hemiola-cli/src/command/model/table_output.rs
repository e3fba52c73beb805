//! Result tables: rows as separated values or JSON lines, to a file or to standard output.
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
    /// File for the results, or `-` for CSV on standard output: CSV, TSV (`.tsv`) or JSON lines
    /// (`.jsonl`); compressed if its name ends with `.gz` or `.zst`.
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
    pub(super) fn begin(&self, columns: Vec<String>) -> anyhow::Result<TableWriter> {
        TableWriter::begin(self.output.as_deref().unwrap_or(Path::new("-")), columns)
    }
}

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableFormat {
    Separated(char),
    JsonLines,
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
            _ => {
                let message = format!("cannot tell the format of `{}`", target.display());
                let hint = "let the name end with `.csv`, `.tsv` or `.jsonl`, and `.gz` or `.zst` to compress it";
                Err(CommandError::usage(message).hint(hint).into())
            }
        }
    }
}

/// Table in progress.
pub(super) struct TableWriter {
    columns: Vec<String>,
    format: TableFormat,
    /// File; `None` for standard output.
    file: Option<Box<StagedFile>>,
    text: String,
}

impl TableWriter {
    fn begin(target: &Path, columns: Vec<String>) -> anyhow::Result<Self> {
        let standard = target == Path::new("-");
        let format = if standard { TableFormat::Separated(',') } else { TableFormat::of(target)? };
        let file = if standard {
            None
        } else {
            Some(Box::new(StagedFile::create(target, OutputCompression::of_name(target)?)?))
        };
        let mut table = Self { columns, format, file, text: String::new() };
        if let TableFormat::Separated(separator) = format {
            let names: Vec<String> = table.columns.iter().map(|name| quoted(name, separator)).collect();
            table.text = names.join(&separator.to_string()) + "\n";
        }
        Ok(table)
    }

    /// Writes a row, with a value for each column; null is an empty field.
    pub(super) fn row(&mut self, values: &[Value]) -> anyhow::Result<()> {
        match self.format {
            TableFormat::Separated(separator) => {
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
            }
            TableFormat::JsonLines => {
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

    /// Completes the table; a file appears now.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
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
        let mut table = TableWriter::begin(&path, vec!["b".into(), "a,\"x\"".into()]).unwrap();
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
    fn names_select_the_format() {
        let of = |name: &str| TableFormat::of(Path::new(name)).ok();
        assert_eq!(of("a.CSV.gz"), Some(TableFormat::Separated(',')));
        assert_eq!((of("a.ndjson.zst"), of("a.txt"), of("csv")), (Some(TableFormat::JsonLines), None, None));
        assert_eq!((number(f32::NAN), label(-1.0), label(0.5)), (Value::Null, Value::from(-1), Value::from(0.5)));
    }
}
