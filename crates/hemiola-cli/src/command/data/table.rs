//! The table view: rows of fields, a tally per column.
//!
//! What a column seems to hold is told from the first records, so that every range of the file agrees: numbers, if at least
//! half of its fields there are. If a field of it turns out to be no number, the column is text after all (postal codes are
//! numbers until one has a letter), and how many of its fields are numbers is told.

use super::deal::deal;
use super::description::{ColumnDescription, DataSetContents, FIRST_ROWS, FirstRows, MemoryEstimate, density};
use super::progress::{ProgressSteps, ReadProgress};
use super::tally::ValueTally;
use crate::error::CommandError;
use hemiola_array::read::{ByteRange, Csv, FieldValue, Fields, InputFile, ParseError, ReadReport, ReadSummary};
use hemiola_cluster::Cluster;

/// How many records columns are told by.
const SAMPLE: usize = 100;

/// What the first records say about the columns.
#[derive(Debug)]
pub(super) struct TableColumns {
    pub(super) names: Option<Vec<String>>,
    pub(super) kinds: Vec<ColumnKind>,
    pub(super) first: Vec<Vec<String>>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// Whole numbers from 0: what indices look like.
    Index,
    Number,
    Text,
}

impl TableColumns {
    /// Looks at the first records of a file. Columns named in `texts`, by name or number from 1, are text.
    pub(super) fn of(csv: &Csv, source: &InputFile, texts: &[String]) -> anyhow::Result<Self> {
        let records = csv.first_records(source, SAMPLE)?;
        // The most frequent number of fields; of several such, the first to come.
        let agreeing = |count: usize| records.iter().filter(|record| record.len() == count).count();
        let counts = records.iter().map(Vec::len).rev();
        let count = counts.max_by_key(|&count| agreeing(count)).unwrap_or(0);
        let kind = |place: usize| {
            let mut fields = Vec::new();
            fields.extend(records.iter().filter_map(|record| record.get(place)).filter(|field| !field.is_empty()));
            kind(&fields)
        };
        let mut kinds: Vec<ColumnKind> = (0..count).map(kind).collect();
        let names = csv.column_names(source)?.filter(|names| names.len() == count);
        for text in texts {
            let by_name = names.as_ref().and_then(|names| names.iter().position(|name| name == text));
            let by_number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let Some(kind) = by_name.or(by_number).and_then(|place| kinds.get_mut(place)) else {
                let message = format!("there is no column `{text}` to read as text");
                let names = names.map_or(String::new(), |names| format!(": {}", names.join(", ")));
                return Err(CommandError::usage(message).hint(format!("there are {count} columns{names}")).into());
            };
            *kind = ColumnKind::Text;
        }
        let first = records.iter().take(FIRST_ROWS).cloned().collect();
        Ok(Self { names, kinds, first })
    }

    /// Whether this looks like row, column and value, perhaps with a time after.
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

/// A field as it turns out to be.
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

/// A mistake if a field is left after the last one.
pub(super) fn must_end(fields: &mut Fields<'_>, columns: usize) -> Result<(), Box<ParseError>> {
    if fields.is_empty() {
        return Ok(());
    }
    fields.text()?;
    Err(fields.reject(format!("the end of the line after {columns} fields")))
}

/// One pass over all ranges.
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
        // A line is counted when all of it was good.
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
            must_end(fields, kinds.len())?;
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

/// What the tallies of all columns come to.
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
    let shape = [rows, tallies.len() as u64];
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
        // Only numbers go into an array.
        memory: MemoryEstimate::of_rows([rows, numeric().count() as u64]),
        skew: None,
        skipped: Vec::new(),
        first_rows,
    }
}
