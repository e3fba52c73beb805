//! Getting examples: from files, or made up.
//!
//! LIBSVM text is read as such. Of separated values the first field is the label and the others are features, by their place; zeros are
//! left out, so that wide and mostly empty tables stay small.

use hemiola::array::dist::{Labelled, Lazy, RecordSource};
use hemiola::array::read::{ByteRange, Csv, Format, Guess, Libsvm, Mistake, Report, Source, Summary};
use hemiola::array::synthetic::Logistic;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Made-up examples that are made together.
const ROWS_PER_UNIT: u64 = 256;
/// Features of a made-up example, about, and of all of them.
const FEATURES_PER_ROW: u64 = 12;
const FEATURES: u64 = 500;
/// Separated values are read in pieces of at least so many bytes.
const SMALLEST_UNIT: u64 = 1 << 16;

/// How examples are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// LIBSVM: columns are counted from 0 and not from 1.
    pub zero_based: bool,
    /// LIBSVM: leave out up to so many lines that cannot be read.
    pub skip_bad_lines: u64,
    /// Separated values: what separates them, if it is not what the file shows.
    pub separator: Option<String>,
}

/// *Collective.* Reads examples: LIBSVM text or separated values, whichever the first file shows.
pub fn read(cluster: &Cluster, options: &Options, pattern: &str) -> Result<Labelled> {
    // The root looks; the others hear, so that all read alike.
    let looked = if cluster.is_root() { Some(look(options, pattern)) } else { None };
    match cluster.broadcast(looked)?.transpose()?.flatten() {
        None => {
            let libsvm = Libsvm::new().zero_based(options.zero_based).skip_bad_lines(options.skip_bad_lines);
            cluster.read_libsvm(libsvm, pattern)
        }
        Some((separator, sources)) => read_separated(cluster, &separator, sources),
    }
}

/// What separates fields, and the files; `None` for LIBSVM text.
fn look(options: &Options, pattern: &str) -> hemiola::array::Result<Option<(String, Vec<Source>)>> {
    let sources = Source::find(pattern)?;
    let Some(first) = sources.first() else {
        return Err(hemiola::array::Error::NoFiles { pattern: pattern.to_owned() });
    };
    if let Some(separator) = &options.separator {
        return Ok(Some((separator.clone(), sources)));
    }
    // What cannot be recognized is LIBSVM text with a mistake in it, for its reader to name.
    Ok(match Guess::of(first) {
        Ok(Guess { format: Format::Csv, separator: Some(separator), .. }) => Some((separator.text(), sources)),
        _ => None,
    })
}

/// *Collective.* Rows are numbered over all files, so they are counted first and read then.
fn read_separated(cluster: &Cluster, separator: &str, sources: Vec<Source>) -> Result<Labelled> {
    let csv = Csv::new().separator(separator);
    let bytes: u64 = sources.iter().map(Source::bytes).sum();
    let units = (cluster.size() * cluster.workers() * 4) as u64;
    let ranges = cluster.broadcast(ByteRange::split(&sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
    let mine = |unit: &usize| unit % cluster.size() == cluster.rank().index();
    let count = |unit: usize| {
        let mut records = 0_u64;
        // Whatever is wrong with a file is found again, and told, by those who read it.
        let _ = csv.read_fields(&ranges[unit], |fields| {
            fields.skip_rest();
            records += 1;
            Ok(())
        });
        (unit, records)
    };
    let counted: Vec<(usize, u64)> = (0..ranges.len()).filter(mine).map(count).collect();
    let mut counted: Vec<_> = cluster.all_gather(counted)?.into_iter().flatten().collect();
    counted.sort_unstable();
    let firsts = counted.iter().scan(0, |next, (_, records)| {
        let first = *next;
        *next += records;
        Some(first)
    });
    let firsts: Vec<u64> = firsts.collect();
    let separated = Separated { csv, sources, ranges, firsts };
    let entries: DistArray<f32, 2> = Lazy::over(cluster, &separated).materialize()?;
    let labels = entries.entries().filter(|[_, column], _| column == 0).map_keys(|[row, _]| [row]).materialize()?;
    let features = entries.entries().filter(|[_, column], _| column > 0).map_keys(|[row, column]| [row, column - 1]);
    let features = features.materialize()?;
    Ok(Labelled { features, labels })
}

/// Separated values: the label is column 0.
struct Separated {
    csv: Csv,
    sources: Vec<Source>,
    ranges: Vec<ByteRange>,
    /// The number of the first row of each range.
    firsts: Vec<u64>,
}

impl RecordSource for &Separated {
    type Record = ([u64; 2], f32);

    fn units(&self) -> usize {
        self.ranges.len()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.ranges[unit].cost()
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola::array::Result<(), Box<Mistake>>,
    ) -> hemiola::array::Result<Report> {
        let mut row = self.firsts[unit];
        self.csv.read_fields(&self.ranges[unit], |fields| {
            visit(([row, 0], fields.next::<f32>()?))?;
            let mut column = 1;
            while !fields.is_empty() {
                let value = fields.next::<f32>()?;
                if value != 0.0 {
                    visit(([row, column], value))?;
                }
                column += 1;
            }
            row += 1;
            Ok(())
        })
    }

    fn settle(&self, reports: Vec<Report>) -> hemiola::array::Result<Summary> {
        Report::settle(&self.sources, reports, 0)
    }
}

/// *Collective.* Made-up examples of two classes, the same for the same seed.
pub fn made_up(cluster: &Cluster, rows: u64, seed: u64) -> Result<Labelled> {
    let made = Logistic::new(rows, FEATURES, FEATURES_PER_ROW, seed);
    let features = Lazy::over(cluster, MadeUp(&made)).materialize()?;
    let labels = cluster.from_fn([rows], |[row]| made.row(row).0)?;
    Ok(Labelled { features, labels })
}

struct MadeUp<'a>(&'a Logistic);

impl RecordSource for MadeUp<'_> {
    type Record = ([u64; 2], f32);

    fn units(&self) -> usize {
        self.0.rows().div_ceil(ROWS_PER_UNIT) as usize
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola::array::Result<(), Box<Mistake>>,
    ) -> hemiola::array::Result<Report> {
        let first = unit as u64 * ROWS_PER_UNIT;
        let mut report = Report::default();
        for row in first..(first + ROWS_PER_UNIT).min(self.0.rows()) {
            for (column, value) in self.0.row(row).1 {
                report.records += 1;
                // Made-up entries are never refused.
                let _ = visit(([row, column], value));
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<u64>> {
        Some(vec![self.0.rows(), self.0.columns()])
    }
}
