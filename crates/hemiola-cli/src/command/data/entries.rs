//! Entries view: rows, columns and values of a sparse array, counted without building it.
//!
//! Memory is bounded: counts per index are binned, and the keys for the search for duplicates are
//! limited to [`MAX_KEYS`]. Statistics that depend on the order of the file (float sums, row
//! lengths, bad lines, first rows) are kept per piece in an [`EntryPart`]; the others are kept per
//! worker in [`DimensionCounts`].

use super::counter::DistinctCounter;
use super::deal::deal;
use super::description::{
    ColumnDescription, DataSetContents, FIRST_ROWS, FirstRows, MemoryEstimate, SkewEstimate, density,
};
use super::progress::{ProgressSteps, ReadProgress};
use super::tally::ValueTally;
use hemiola_array::read::{ByteRange, Example, Fields, InputFile, ParseError, ReadReport, ReadSummary};
use hemiola_array::{Dictionary, Histogram};
use hemiola_cluster::Cluster;

/// Maximum number of keys kept for the search for duplicates: 128 MiB, per worker and in total.
const MAX_KEYS: usize = 1 << 24;
/// Maximum number of bins of the histogram of rows.
const BINS: usize = 1 << 22;
/// Maximum number of pairs shown of a line.
const SHOWN_PAIRS: usize = 4;

/// Keys of a dimension: integers, or names numbered in order of appearance.
#[derive(Debug)]
pub(super) enum EntryKeys {
    Numbers(DistinctCounter),
    Names { names: Dictionary, counts: Vec<u64> },
}

impl EntryKeys {
    pub(super) fn new(names: bool) -> Self {
        if names {
            Self::Names { names: Dictionary::new(), counts: Vec::new() }
        } else {
            Self::Numbers(DistinctCounter::default())
        }
    }

    /// Parses the next field as a key. It is counted when the whole line is valid.
    fn take(&mut self, fields: &mut Fields<'_>) -> Result<usize, Box<ParseError>> {
        match self {
            Self::Numbers(_) => fields.next::<usize>(),
            Self::Names { names, .. } => {
                let name = fields.text()?;
                if name.trim_ascii().is_empty() {
                    return Err(fields.reject("a name"));
                }
                Ok(names.intern(name.trim_ascii()) as usize)
            }
        }
    }

    fn count(&mut self, key: usize) {
        match self {
            Self::Numbers(counter) => counter.add(key),
            Self::Names { counts, .. } => {
                if key >= counts.len() {
                    counts.resize(key + 1, 0);
                }
                counts[key] += 1;
            }
        }
    }

    /// Adds the counts of another worker. Returns the new numbers of its names.
    fn merge(&mut self, other: Self) -> Option<Vec<u32>> {
        match (self, other) {
            (Self::Numbers(own), Self::Numbers(other)) => {
                own.merge(other);
                None
            }
            (Self::Names { names, counts }, Self::Names { names: others, counts: more }) => {
                let numbers = names.merge(&others);
                counts.resize(names.len(), 0);
                for (&number, more) in numbers.iter().zip(more) {
                    counts[number as usize] += more;
                }
                Some(numbers)
            }
            _ => unreachable!("all workers read the same columns"),
        }
    }

    /// Returns the first index, the extent, the number of occupied indices, and the counts.
    fn extent(&self, known: Option<usize>) -> (usize, usize, Option<u64>, Histogram) {
        match self {
            Self::Numbers(counter) => {
                let (smallest, largest) = counter.bounds().unwrap_or((0, 0));
                let empty = counter.bounds().is_none();
                // Indices that are all above 0 are assumed to count from 1, as most ids do.
                let base = if known.is_some() { 0 } else { smallest.min(1) };
                let found = if empty { 0 } else { (largest - base).saturating_add(1) };
                let extent = known.unwrap_or(found);
                (base, extent, counter.occupied(), counter.histogram(base, extent))
            }
            Self::Names { counts, .. } => {
                let extent = counts.len();
                let mut histogram = Histogram::new(extent, extent);
                (0..).zip(counts).for_each(|(index, &count)| histogram.add_weight(index, count));
                (0, extent, Some(counts.iter().filter(|&&count| count > 0).count() as u64), histogram)
            }
        }
    }
}

/// Counts of one worker.
#[derive(Debug)]
pub(super) struct DimensionCounts {
    rows: EntryKeys,
    columns: EntryKeys,
    /// Row and column of each entry, packed; `None` if there are too many or they are too large.
    keys: Option<Vec<u64>>,
}

/// Statistics of one piece of the file.
#[derive(Debug, Default)]
struct EntryPart {
    /// Separated values: statistics of numeric rows and columns.
    keys: [ValueTally; 2],
    values: ValueTally,
    labels: ValueTally,
    /// LIBSVM and LDA-C: number of pairs on each line.
    lengths: Vec<u32>,
    /// Number of pairs whose index is repeated on the same line.
    duplicates: u64,
    first: Vec<Vec<String>>,
    report: ReadReport,
}

/// Visitor of the entries of a piece.
pub(super) struct EntryVisitor<'a> {
    counts: &'a mut DimensionCounts,
    part: EntryPart,
    steps: ProgressSteps<'a>,
    scratch: Vec<u32>,
    /// First index of the file, added to shown indices.
    base: usize,
    words: &'a [String],
}

impl EntryVisitor<'_> {
    /// Counts one entry.
    pub(super) fn entry(&mut self, row: usize, column: usize, value: f64) {
        self.steps.add(1);
        self.counts.rows.count(row);
        self.counts.columns.count(column);
        self.part.values.add(value);
        if self.part.first.len() < FIRST_ROWS {
            let name = self.words.get(column).cloned();
            let name = name.unwrap_or_else(|| (column + self.base).to_string());
            self.part.first.push(vec![(row + self.base).to_string(), name, value.to_string()]);
        }
        if let Some(keys) = &mut self.counts.keys {
            let fit = u32::try_from(row).is_ok() && u32::try_from(column).is_ok();
            if fit && keys.len() < MAX_KEYS {
                keys.push((row << 32 | column) as u64);
            } else {
                self.counts.keys = None;
            }
        }
    }

    /// Counts the fields of a line of separated values.
    pub(super) fn fields(&mut self, fields: &mut Fields<'_>, columns: usize) -> Result<(), Box<ParseError>> {
        let row = self.counts.rows.take(fields)?;
        let column = self.counts.columns.take(fields)?;
        let value: f64 = fields.next()?;
        for _ in 3..columns {
            fields.text()?;
        }
        super::table::expect_end(fields, columns)?;
        for (tally, key, keys) in [(0, row, &self.counts.rows), (1, column, &self.counts.columns)] {
            match keys {
                EntryKeys::Numbers(_) => self.part.keys[tally].add(key as f64),
                EntryKeys::Names { .. } => self.part.keys[tally].text(),
            }
        }
        self.entry(row, column, value);
        Ok(())
    }

    /// Counts a line of LIBSVM or LDA-C.
    pub(super) fn line(&mut self, line: &Example<'_>, labelled: bool) {
        self.steps.add(line.columns.len() as u64);
        if labelled {
            self.part.labels.add(f64::from(line.label));
        }
        self.part.lengths.push(line.columns.len() as u32);
        for (&column, &value) in line.columns.iter().zip(line.values) {
            self.counts.columns.count(column as usize);
            self.part.values.add(f64::from(value));
        }
        if !line.columns.is_sorted_by(|left, right| left < right) {
            self.scratch.clear();
            self.scratch.extend_from_slice(line.columns);
            self.scratch.sort_unstable();
            self.part.duplicates += self.scratch.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        }
        if self.part.first.len() < FIRST_ROWS {
            let mut cells = vec![line.label.to_string()];
            for (&column, value) in line.columns.iter().zip(line.values).take(SHOWN_PAIRS) {
                let name = self.words.get(column as usize).cloned();
                cells.push(format!("{}:{value}", name.unwrap_or_else(|| (column as usize + self.base).to_string())));
            }
            if line.columns.len() > SHOWN_PAIRS {
                cells.push(format!("… {} more", line.columns.len() - SHOWN_PAIRS));
            }
            self.part.first.push(cells);
        }
    }
}

/// Layout of the data that a pass depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryLayout<'a> {
    /// True if rows, or columns, are names.
    pub(super) names: [bool; 2],
    /// Shape, if the file declares it.
    pub(super) shape: Option<[usize; 2]>,
    /// True if each line is a row (LIBSVM, LDA-C).
    pub(super) by_line: bool,
    /// First index, if the format defines it.
    pub(super) base: Option<usize>,
    pub(super) words: &'a [String],
    /// Maximum number of bad lines to skip.
    pub(super) allowed: u64,
}

/// Computes the statistics in one pass over all ranges.
pub(super) fn survey(
    cluster: &Cluster,
    sources: &[InputFile],
    ranges: &[ByteRange],
    layout: EntryLayout<'_>,
    read: impl Fn(&ByteRange, &mut EntryVisitor<'_>) -> hemiola_array::Result<ReadReport> + Sync,
) -> anyhow::Result<(DataSetContents, ReadSummary)> {
    let progress = ReadProgress::new(cluster.env(), "entries read");
    let counts = || DimensionCounts {
        rows: EntryKeys::new(layout.names[0]),
        columns: EntryKeys::new(layout.names[1]),
        keys: (!layout.by_line).then(Vec::new),
    };
    let (workers, parts) = deal(cluster, ranges.len(), counts, |counts, piece| {
        let (steps, base) = (ProgressSteps::new(&progress), layout.base.unwrap_or(0));
        let mut visitor =
            EntryVisitor { counts, part: EntryPart::default(), steps, scratch: Vec::new(), base, words: layout.words };
        let report = read(&ranges[piece], &mut visitor)?;
        Ok(EntryPart { report, ..visitor.part })
    })?;
    drop(progress);
    let mut workers = workers.into_iter();
    let mut all = workers.next().unwrap_or_else(counts);
    workers.for_each(|counts| all.merge(counts));
    let mut whole = EntryPart::default();
    let mut reports = Vec::new();
    for part in parts {
        whole.keys.iter_mut().zip(&part.keys).for_each(|(tally, next)| tally.join(next));
        whole.values.join(&part.values);
        whole.labels.join(&part.labels);
        whole.lengths.extend(part.lengths);
        whole.duplicates += part.duplicates;
        whole.first.extend(part.first);
        reports.push(part.report);
    }
    whole.first.truncate(FIRST_ROWS);
    let summary = ReadReport::merge(sources, reports, layout.allowed)?;
    Ok((contents(all, whole, layout), summary))
}

impl DimensionCounts {
    fn merge(&mut self, other: Self) {
        let rows = self.rows.merge(other.rows);
        let columns = self.columns.merge(other.columns);
        let Some((own, others)) = self.keys.as_mut().zip(other.keys) else {
            self.keys = None;
            return;
        };
        let renumber = |numbers: &Option<Vec<u32>>, key: u64| match numbers {
            Some(numbers) => u64::from(numbers[key as usize]),
            None => key,
        };
        own.extend(
            others.into_iter().map(|key| renumber(&rows, key >> 32) << 32 | renumber(&columns, key & 0xffff_ffff)),
        );
    }

    fn duplicates(&mut self) -> Option<u64> {
        // Several workers may stay below the limit each; the answer must not depend on their
        // number.
        let keys = self.keys.as_mut().filter(|keys| keys.len() <= MAX_KEYS)?;
        keys.sort_unstable();
        Some(keys.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64)
    }
}

fn contents(mut counts: DimensionCounts, whole: EntryPart, layout: EntryLayout<'_>) -> DataSetContents {
    let known = |dimension: usize| layout.shape.map(|shape| shape[dimension]);
    let (row_base, rows, rows_occupied, row_counts) = if layout.by_line {
        let rows = whole.lengths.len();
        let mut histogram = Histogram::new(rows, BINS);
        (0..).zip(&whole.lengths).for_each(|(row, &length)| histogram.add_weight(row, u64::from(length)));
        let occupied = whole.lengths.iter().filter(|&&length| length > 0).count() as u64;
        (0, rows, Some(occupied), histogram)
    } else {
        counts.rows.extent(known(0))
    };
    // If the format defines the first index, readers shift indices to count from 0.
    let vocabulary = (!layout.words.is_empty()).then_some(layout.words.len());
    let column_known = known(1).or(vocabulary).or_else(|| match (&counts.columns, layout.base) {
        (EntryKeys::Numbers(counter), Some(_)) => Some(counter.bounds().map_or(0, |(_, largest)| largest + 1)),
        _ => None,
    });
    let (column_base, columns, columns_occupied, column_counts) = counts.columns.extent(column_known);
    let shape = [rows, columns];
    let entries = whole.values.count();
    let counted_from = match (layout.base, layout.by_line) {
        (Some(base), true) => Some([1, base]),
        (Some(base), false) => Some([base, base]),
        (None, _) if layout.names == [false, false] => Some([row_base, column_base]),
        (None, _) => None,
    };
    // Only separated values have columns of fields.
    let mut fields = Vec::new();
    if layout.base.is_none() {
        let [rows, columns] = layout.names;
        fields.push(ColumnDescription::new("row".to_owned(), rows, &whole.keys[0]));
        fields.push(ColumnDescription::new("column".to_owned(), columns, &whole.keys[1]));
        fields.push(ColumnDescription::new("value".to_owned(), false, &whole.values));
    }
    let names = if layout.by_line {
        vec![if layout.base == Some(0) { "words" } else { "label" }.to_owned()]
    } else {
        ["row", "column", "value"].map(str::to_owned).to_vec()
    };
    DataSetContents {
        view: "entries",
        shape: shape.to_vec(),
        counted_from,
        occupied: Some([rows_occupied, columns_occupied]),
        entries,
        density: density(entries, &shape),
        duplicates: if layout.by_line { Some(whole.duplicates) } else { counts.duplicates() },
        values: whole.values.stats(),
        labels: whole.labels.stats(),
        columns: fields,
        memory: MemoryEstimate::of_entries(shape, entries),
        skew: Some(SkewEstimate::of(&row_counts, &column_counts)),
        skipped: Vec::new(),
        first_rows: FirstRows { names, rows: whole.first },
    }
}
