//! Table view: rows of fields, with statistics per column.
//!
//! The kind of a column is determined from the first records, so that all ranges of the file agree:
//! numeric if at least half of its fields are numbers. If a later field is not a number, the column
//! becomes text (postal codes are numbers until one has a letter), and the number of its numeric
//! fields is reported.

use super::deal::deal;
use super::description::{ColumnDescription, DataSetContents, FIRST_ROWS, FirstRows, MemoryEstimate, density};
use super::progress::{ProgressSteps, ReadProgress};
use super::tally::ValueTally;
use crate::error::CommandError;
use hemiola_array::read::{ByteRange, Csv, FieldValue, Fields, InputFile, ParseError, ReadReport, ReadSummary};
use hemiola_cluster::Cluster;

/// Number of records that determine the kinds of columns.
const SAMPLE_RECORDS: usize = 100;

/// Columns of a table, as determined by the first records.
#[derive(Debug)]
pub(super) struct TableColumns {
    pub(super) names: Option<Vec<String>>,
    pub(super) kinds: Vec<ColumnKind>,
    pub(super) first: Vec<Vec<String>>,
}

/// Kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Non-negative integers, which may be indices.
    Index,
    Number,
    Text,
}

impl TableColumns {
    /// Determines the columns from the first records of a file. Columns in `texts`, by name or
    /// number from 1, are text.
    pub(super) fn of(csv: &Csv, source: &InputFile, texts: &[String]) -> anyhow::Result<Self> {
        let records = csv.first_records(source, SAMPLE_RECORDS)?;
        // The most frequent number of fields; in a tie, the first to occur.
        let agreeing = |count: usize| records.iter().filter(|record| record.len() == count).count();
        let counts = records.iter().map(Vec::len).rev();
        let count = counts.max_by_key(|&count| agreeing(count)).unwrap_or(0);
        let kind = |index: usize| {
            let mut fields = Vec::new();
            fields.extend(records.iter().filter_map(|record| record.get(index)).filter(|field| !field.is_empty()));
            kind(&fields)
        };
        let mut kinds: Vec<ColumnKind> = (0..count).map(kind).collect();
        let names = csv.column_names(source)?.filter(|names| names.len() == count);
        for text in texts {
            let by_name = names.as_ref().and_then(|names| names.iter().position(|name| name == text));
            let by_number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let Some(kind) = by_name.or(by_number).and_then(|index| kinds.get_mut(index)) else {
                let message = format!("there is no column `{text}`");
                let names = names.map_or(String::new(), |names| format!(": {}", names.join(", ")));
                return Err(CommandError::usage(message).hint(format!("there are {count} columns{names}")).into());
            };
            *kind = ColumnKind::Text;
        }
        let first = records.iter().take(FIRST_ROWS).cloned().collect();
        Ok(Self { names, kinds, first })
    }

    /// Returns true for columns that look like row, column and value, optionally followed by a
    /// time.
    pub(super) fn look_like_entries(&self) -> bool {
        matches!(
            self.kinds[..],
            [ColumnKind::Index, ColumnKind::Index, ColumnKind::Index | ColumnKind::Number]
                | [ColumnKind::Index, ColumnKind::Index, ColumnKind::Index | ColumnKind::Number, ColumnKind::Index]
        )
    }

    pub(super) fn all_names(&self) -> Vec<String> {
        let numbered = || (1..=self.kinds.len()).map(|number| format!("field {number}")).collect();
        self.names.clone().unwrap_or_else(numbered)
    }
}

fn kind(fields: &[&String]) -> ColumnKind {
    let most = |holds: fn(&str) -> bool| 2 * fields.iter().filter(|field| holds(field.trim())).count() >= fields.len();
    if fields.is_empty() || !most(|field| field.parse::<f64>().is_ok()) {
        ColumnKind::Text
    } else if most(|field| field.parse::<u64>().is_ok()) {
        ColumnKind::Index
    } else {
        ColumnKind::Number
    }
}

/// Parsed field of a table.
#[derive(Clone, Copy, Debug)]
enum TableCell {
    Empty,
    Number(f64),
    Text,
}

impl FieldValue for TableCell {
    const EXPECTED: &'static str = "a field";

    fn parse_plain(text: &[u8]) -> Option<(Self, usize)> {
        f64::parse_plain(text).map(|(value, length)| (Self::Number(value), length))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        Some(if text.is_empty() { Self::Empty } else { f64::parse(text).map_or(Self::Text, Self::Number) })
    }

    fn is_finite(&self) -> bool {
        !matches!(self, Self::Number(value) if !value.is_finite())
    }
}

/// Returns a parse error if fields remain after the last column.
pub(super) fn expect_end(fields: &mut Fields<'_>, columns: usize) -> Result<(), Box<ParseError>> {
    if fields.is_empty() {
        return Ok(());
    }
    fields.text()?;
    Err(fields.reject(format!("the end of the line after {columns} fields")))
}

/// Computes the statistics in one pass over all ranges.
pub(super) fn survey(
    cluster: &Cluster,
    sources: &[InputFile],
    ranges: &[ByteRange],
    csv: &Csv,
    columns: &TableColumns,
) -> anyhow::Result<(DataSetContents, ReadSummary)> {
    let progress = ReadProgress::new(cluster.env(), "fields read");
    let kinds = &columns.kinds;
    let work = |(): &mut (), piece: usize| {
        let mut tallies = vec![ValueTally::default(); kinds.len()];
        let mut steps = ProgressSteps::new(&progress);
        // A line is counted when all of it is valid.
        let mut line: Vec<TableCell> = Vec::with_capacity(kinds.len());
        let report = csv.read_fields(&ranges[piece], |fields| {
            line.clear();
            for kind in kinds {
                line.push(match kind {
                    ColumnKind::Text if fields.text()?.is_empty() => TableCell::Empty,
                    ColumnKind::Text => TableCell::Text,
                    ColumnKind::Index | ColumnKind::Number => fields.next()?,
                });
            }
            expect_end(fields, kinds.len())?;
            for (cell, tally) in line.iter().zip(&mut tallies) {
                match cell {
                    TableCell::Empty => tally.miss(),
                    TableCell::Text => tally.text(),
                    TableCell::Number(value) => tally.add(*value),
                }
            }
            steps.add(kinds.len() as u64);
            Ok(())
        })?;
        Ok((tallies, report))
    };
    let (_, parts) = deal(cluster, ranges.len(), || (), work)?;
    drop(progress);
    let mut tallies = vec![ValueTally::default(); kinds.len()];
    let mut reports = Vec::new();
    for (part, report) in parts {
        tallies.iter_mut().zip(&part).for_each(|(tally, next)| tally.join(next));
        reports.push(report);
    }
    let summary = ReadReport::merge(sources, reports, csv.bad_lines_allowed())?;
    let texts: Vec<bool> =
        kinds.iter().zip(&tallies).map(|(kind, tally)| *kind == ColumnKind::Text || tally.texts() > 0).collect();
    let first_rows = FirstRows { names: columns.all_names(), rows: columns.first.clone() };
    Ok((contents(summary.records, columns.all_names(), &texts, &tallies, first_rows), summary))
}

/// Builds the contents from the tallies of all columns.
pub(super) fn contents(
    rows: u64,
    names: Vec<String>,
    texts: &[bool],
    tallies: &[ValueTally],
    first_rows: FirstRows,
) -> DataSetContents {
    let mut numbers = ValueTally::default();
    let numeric = || texts.iter().zip(tallies).filter(|(text, _)| !**text);
    numeric().for_each(|(_, tally)| numbers.join(tally));
    let shape = [rows as usize, tallies.len()];
    let entries = tallies.iter().map(ValueTally::count).sum();
    let columns = names.into_iter().zip(texts).zip(tallies);
    DataSetContents {
        view: "table",
        shape: shape.to_vec(),
        counted_from: None,
        occupied: None,
        entries,
        density: density(entries, &shape),
        duplicates: None,
        values: numbers.stats(),
        labels: None,
        columns: columns.map(|((name, text), tally)| ColumnDescription::new(name, *text, tally)).collect(),
        // Only numeric columns become an array.
        memory: MemoryEstimate::of_rows([rows as usize, numeric().count()]),
        skew: None,
        skipped: Vec::new(),
        first_rows,
    }
}
