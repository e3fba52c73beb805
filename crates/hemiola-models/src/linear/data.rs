//! Getting examples: from files, or made up.
//!
//! LIBSVM text is read as such. Of separated values the first field is the label and the others are features, by their place; zeros are
//! left out, so that wide and mostly empty tables stay small.
//!
//! Labels of separated values are names where none of them is a number: then the label of an example is the place of its name among all names in order. If some are numbers, a
//! label that is none is a mistake, and its line is named.

use super::shard::MOST_CLASSES;
use crate::Error;
use hemiola::array::Dictionary;
use hemiola::array::dist::{Labelled, Lazy, RecordSource};
use hemiola::array::read::{ByteRange, Csv, Fields, Format, Guess, Libsvm, Mistake, Report, Source, Summary};
use hemiola::array::synthetic::Logistic;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

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
    /// Separated values: the names of classes, if labels are names that are known already, such as those of a model. Another name is a label of its own, [`UNKNOWN`].
    pub names: Vec<String>,
}

/// The label of an example whose name is none of those that are known.
pub const UNKNOWN: f32 = -1.0;

/// Examples as they were read.
#[derive(Debug)]
pub struct Examples {
    /// Features and labels.
    pub labelled: Labelled,
    /// What labels are called, by label, if they are not numbers.
    pub names: Vec<String>,
}

/// *Collective.* Reads examples: LIBSVM text or separated values, whichever the first file shows.
pub fn read(cluster: &Cluster, options: &Options, pattern: &str) -> Result<Examples> {
    // The root looks; the others hear, so that all read alike.
    let looked = if cluster.is_root() { Some(look(options, pattern)) } else { None };
    match cluster.broadcast(looked)?.transpose()?.flatten() {
        None => {
            let libsvm = Libsvm::new().zero_based(options.zero_based).skip_bad_lines(options.skip_bad_lines);
            Ok(Examples { labelled: cluster.read_libsvm(libsvm, pattern)?, names: Vec::new() })
        }
        Some((separator, sources)) => read_separated(cluster, &separator, sources, &options.names),
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

/// What a first look at a part of the data found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Look {
    records: u64,
    /// Whether a label is a number.
    numbers: bool,
    /// Labels that are none, up to one more than there may be classes.
    names: BTreeSet<String>,
}

impl Look {
    fn see(&mut self, label: &[u8]) {
        self.records += 1;
        let label = String::from_utf8_lossy(label);
        if label.trim().parse::<f32>().is_ok() {
            self.numbers = true;
        } else if self.names.len() <= MOST_CLASSES && !self.names.contains(&*label) {
            self.names.insert(label.into_owned());
        }
    }
}

/// *Collective.* Rows are numbered over all files, so they are counted first and read then.
fn read_separated(cluster: &Cluster, separator: &str, sources: Vec<Source>, known: &[String]) -> Result<Examples> {
    let csv = Csv::new().separator(separator);
    let bytes: u64 = sources.iter().map(Source::bytes).sum();
    let units = (cluster.size() * cluster.workers() * 4) as u64;
    let ranges = cluster.broadcast(ByteRange::split(&sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
    let mine = |unit: &usize| unit % cluster.size() == cluster.rank().index();
    let count = |unit: usize| {
        let mut look = Look::default();
        // Whatever is wrong with a file is found again, and told, by those who read it.
        let _ = csv.read_fields(&ranges[unit], |fields| {
            look.see(&fields.text()?);
            fields.skip_rest();
            Ok(())
        });
        (unit, look)
    };
    let counted: Vec<(usize, Look)> = (0..ranges.len()).filter(mine).map(count).collect();
    let mut counted: Vec<_> = cluster.all_gather(counted)?.into_iter().flatten().collect();
    counted.sort_unstable_by_key(|(unit, _)| *unit);
    let firsts = counted.iter().scan(0, |next, (_, look)| {
        let first = *next;
        *next += look.records;
        Some(first)
    });
    let firsts: Vec<u64> = firsts.collect();
    let names = if known.is_empty() { names(&counted)? } else { known.to_vec() };
    let separated = Separated { csv, sources, ranges, firsts, names };
    let entries: DistArray<f32, 2> = Lazy::over(cluster, &separated).materialize()?;
    let labels = entries.entries().filter(|[_, column], _| column == 0).map_keys(|[row, _]| [row]).materialize()?;
    let features = entries.entries().filter(|[_, column], _| column > 0).map_keys(|[row, column]| [row, column - 1]);
    let features = features.materialize()?.named([None, feature_names(cluster, &separated)?]);
    Ok(Examples { labelled: Labelled { features, labels }, names: separated.names })
}

/// *Collective.* The names of features, if the first file begins with a line of names. Features without one, or with one that another has, go by their number, too.
fn feature_names(cluster: &Cluster, separated: &Separated) -> Result<Option<Arc<Dictionary>>> {
    let first = separated.sources.first().filter(|_| cluster.is_root());
    // Whatever is wrong with the file was told when it was read.
    let header = first.and_then(|first| separated.csv.column_names(first).ok().flatten());
    let Some(header) = cluster.broadcast(header)? else { return Ok(None) };
    let mut names = Dictionary::new();
    for (column, name) in header.iter().enumerate().skip(1) {
        let own = name.trim();
        let taken = own.is_empty() || names.number(own.as_bytes()).is_some();
        let mut name = if taken { format!("{own} ({column})").trim_start().to_owned() } else { own.to_owned() };
        while names.number(name.as_bytes()).is_some() {
            name.push('\'');
        }
        names.intern(name.as_bytes());
    }
    Ok(Some(Arc::new(names)))
}

/// The names of classes, in order; none, if a label is a number.
fn names(looks: &[(usize, Look)]) -> Result<Vec<String>> {
    if looks.iter().any(|(_, look)| look.numbers) {
        return Ok(Vec::new());
    }
    let names: BTreeSet<&String> = looks.iter().flat_map(|(_, look)| &look.names).collect();
    if names.len() > MOST_CLASSES {
        return Err(Error::ManyClasses { most: MOST_CLASSES }.into());
    }
    Ok(names.into_iter().cloned().collect())
}

/// Separated values: the label is column 0.
struct Separated {
    csv: Csv,
    sources: Vec<Source>,
    ranges: Vec<ByteRange>,
    /// The number of the first row of each range.
    firsts: Vec<u64>,
    /// What labels are called, if they are not numbers.
    names: Vec<String>,
}

impl Separated {
    fn label(&self, fields: &mut Fields<'_>) -> hemiola::array::Result<f32, Box<Mistake>> {
        if self.names.is_empty() {
            return fields.next::<f32>();
        }
        let name = fields.text()?;
        let Ok(name) = std::str::from_utf8(&name) else { return Err(fields.refuse("a label in UTF-8")) };
        if name.is_empty() {
            return Err(fields.refuse("a label"));
        }
        Ok(self.names.iter().position(|known| known == name).map_or(UNKNOWN, |place| place as f32))
    }
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
            visit(([row, 0], self.label(fields)?))?;
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
