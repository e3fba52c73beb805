//! Split of the lines of files into training, validation and test set.
//!
//! The files are read twice: for the keys of the records, from which the sets follow, and for the
//! lines, which are passed on unchanged and in order. Memory is a few bytes for each record.
//! **Invariant:** every record is in exactly one set, and a header, which is no record, is offered
//! for each of them.

use super::column_error::ColumnError;
use super::example_columns::FileHead;
use super::inspect::head_of;
use super::split::{SplitFractions, SplitSet, split_at_random, split_by_class, split_by_group, split_by_time};
use crate::Error;
use hemiola_array::Dictionary;
use hemiola_array::read::{ByteRange, Csv, DetectedFormat, FileFormat, InputFile, LineReader, ReadReport, Separator};
use hemiola_cluster::Result;
use hemiola_core::Seed;
use std::str::FromStr;

/// Property of the records that a split respects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SplitBy {
    /// None: records are drawn at random.
    Record,
    /// Classes keep their shares: those of a column, or the labels of LIBSVM text.
    Class(Option<String>),
    /// Records with the same value of a column stay together.
    Group(String),
    /// The newest records by a column are for validation and test.
    Time(String),
}

impl FromStr for SplitBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "class" => Ok(Self::Class(None)),
            Some(("class", column)) if !column.is_empty() => Ok(Self::Class(Some(column.to_owned()))),
            Some(("group", column)) if !column.is_empty() => Ok(Self::Group(column.to_owned())),
            Some(("time", column)) if !column.is_empty() => Ok(Self::Time(column.to_owned())),
            _ => Err("expected class, class:COLUMN, group:COLUMN or time:COLUMN".to_owned()),
        }
    }
}

/// Records of files, each assigned to a set.
#[derive(Debug)]
pub struct FileSplit {
    files: Vec<SplitFile>,
    sets: Vec<SplitSet>,
}

/// File with the lines of it that are no records.
#[derive(Debug)]
struct SplitFile {
    file: InputFile,
    /// True if the first line that is neither blank nor a comment is a header.
    header: bool,
    comment: Option<u8>,
    whitespace: bool,
}

impl FileSplit {
    /// Reads the keys of all records and assigns them. `separator` is detected unless it is given.
    pub fn plan(
        files: Vec<InputFile>,
        separator: Option<&str>,
        by: &SplitBy,
        fractions: SplitFractions,
        seed: Seed,
    ) -> Result<Self> {
        let (keys, planned) = SplitKeys::of_files(files, separator, by)?;
        let sets = match by {
            SplitBy::Record => split_at_random(keys.records, fractions, seed),
            SplitBy::Class(_) => split_by_class(&keys.codes, fractions, seed),
            SplitBy::Group(_) => split_by_group(&keys.codes, fractions, seed),
            SplitBy::Time(_) if keys.texts.is_empty() => split_by_time(&keys.times, fractions),
            SplitBy::Time(_) => split_by_time(&keys.texts, fractions),
        };
        Ok(Self { files: planned, sets })
    }

    /// Number of records of a set.
    #[must_use]
    pub fn records(&self, set: SplitSet) -> usize {
        self.sets.iter().filter(|other| **other == set).count()
    }

    /// Calls `write` with every line and its set, in order; `None` is the header of all sets.
    pub fn write<E: From<hemiola_array::Error>>(
        &self,
        mut write: impl FnMut(Option<SplitSet>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut next, mut failed) = (0, Ok(()));
        for (number, split) in self.files.iter().enumerate() {
            let report = split.lines(|line, is_header| {
                let set = if is_header { None } else { self.sets.get(next).copied() };
                next += usize::from(!is_header);
                if failed.is_ok() && (set.is_some() || is_header && number == 0) {
                    failed = write(set, line);
                }
            });
            ReadReport::merge(std::slice::from_ref(&split.file), [report?], 0)?;
        }
        failed?;
        if next == self.sets.len() {
            return Ok(());
        }
        let file = self.files.last().map(|split| split.file.path().to_owned()).unwrap_or_default();
        let problem = format!("it had {} records and now has {next}", self.sets.len());
        Err(hemiola_array::Error::BadFile { file, problem }.into())
    }
}

/// Returns a number for each record of files: equal for equal values of a column of groups, and
/// ascending with a column of times.
pub fn record_codes(files: Vec<InputFile>, separator: Option<&str>, by: &SplitBy) -> Result<Vec<u32>> {
    let (keys, _) = SplitKeys::of_files(files, separator, by)?;
    let ranks = |order: Vec<usize>, same: &dyn Fn(usize, usize) -> bool| {
        let (mut codes, mut rank) = (vec![0; order.len()], 0);
        for (position, record) in order.iter().enumerate() {
            rank += u32::from(position > 0 && !same(*record, order[position - 1]));
            codes[*record] = rank;
        }
        codes
    };
    let mut order: Vec<usize> = (0..keys.records).collect();
    Ok(match by {
        SplitBy::Time(_) if keys.texts.is_empty() => {
            let times = &keys.times;
            order.sort_by(|left, right| times[*left].total_cmp(&times[*right]));
            ranks(order, &|left, right| times[left].total_cmp(&times[right]).is_eq())
        }
        SplitBy::Time(_) => {
            let times = &keys.texts;
            order.sort_by(|left, right| times[*left].cmp(&times[*right]));
            ranks(order, &|left, right| times[left] == times[right])
        }
        _ => keys.codes,
    })
}

/// Returns the values of a column of files, in order, as text.
pub fn column_texts(files: Vec<InputFile>, separator: Option<&str>, column: &str) -> Result<Vec<String>> {
    let (keys, _) = SplitKeys::of_files(files, separator, &SplitBy::Group(column.to_owned()))?;
    let names: Vec<String> = keys.names.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Ok(keys.codes.iter().map(|code| names[*code as usize].clone()).collect())
}

/// Returns the reader of separated values with what was detected; `None` for other lines of text.
fn separated(file: &InputFile, separator: Option<&str>) -> Result<Option<(Csv, DetectedFormat)>> {
    let detected = match DetectedFormat::of(file) {
        Ok(detected) if detected.format == FileFormat::Csv => detected,
        Ok(detected) if matches!(detected.format, FileFormat::Libsvm | FileFormat::Ldac) => return Ok(None),
        Ok(other) => {
            let problem = format!("a file of the format {} cannot be split by lines", other.format);
            return Err(hemiola_array::Error::BadFile { file: file.path().to_owned(), problem }.into());
        }
        // Lines without a common structure are records, too.
        Err(_) => return Ok(None),
    };
    let text = separator.map(str::to_owned).or(detected.separator.as_ref().map(Separator::text));
    let detected = DetectedFormat { separator: text.as_deref().map(Separator::new), ..detected };
    Ok(text.map(|text| (Csv::new().comment(detected.comment).separator(&text), detected)))
}

/// Returns an error unless two files have the same header, or none.
fn check_header(csv: &Csv, first: &InputFile, other: &InputFile) -> Result<()> {
    if csv.column_names(first)? == csv.column_names(other)? {
        return Ok(());
    }
    let (first, other) = (first.path().to_owned(), other.path().to_owned());
    Err(Error::from(ColumnError::DifferentFiles { first, other }).into())
}

impl SplitFile {
    /// Calls `visit` with every line that is neither blank nor a comment, and with true for the
    /// header.
    fn lines(&self, mut visit: impl FnMut(&[u8], bool)) -> hemiola_array::Result<ReadReport> {
        let mut header = self.header;
        LineReader::new().read_bytes(&ByteRange::whole(self.file.clone()), |line| {
            let blank = line.is_empty() || self.whitespace && line.trim_ascii().is_empty();
            let comment = self.comment.is_some() && self.comment == line.first().copied();
            if !blank && !comment {
                visit(line, header);
                header = false;
            }
            Ok(())
        })
    }
}

/// Keys of the records of all files.
#[derive(Default)]
struct SplitKeys {
    records: usize,
    names: Dictionary,
    /// Number of the class or group of each record.
    codes: Vec<u32>,
    /// Time of each record, as a number or, if the first is none, as text.
    times: Vec<f64>,
    texts: Vec<String>,
}

impl SplitKeys {
    /// Reads the keys of all records.
    fn of_files(files: Vec<InputFile>, separator: Option<&str>, by: &SplitBy) -> Result<(Self, Vec<SplitFile>)> {
        let files = InputFile::as_tables(files)?;
        let mut keys = Self::default();
        let mut planned: Vec<SplitFile> = Vec::new();
        for file in files {
            let csv = separated(&file, separator)?;
            if let (Some(first), Some((csv, _))) = (planned.first(), &csv) {
                check_header(csv, &first.file, &file)?;
            }
            let header = match &csv {
                Some((csv, _)) => csv.column_names(&file)?.is_some(),
                None => false,
            };
            let (comment, whitespace) = match &csv {
                Some((_, detected)) => {
                    (detected.comment, detected.separator.as_ref().is_some_and(|separator| separator.text() == " "))
                }
                None => (None, true),
            };
            let split = SplitFile { file, header, comment, whitespace };
            keys.read(&split, csv.map(|(csv, _)| csv), by)?;
            planned.push(split);
        }
        Ok((keys, planned))
    }

    fn read(&mut self, split: &SplitFile, csv: Option<Csv>, by: &SplitBy) -> Result<()> {
        let column = match by {
            SplitBy::Record => None,
            SplitBy::Class(column) => column.as_deref(),
            SplitBy::Group(column) | SplitBy::Time(column) => Some(column.as_str()),
        };
        let report = match (csv, column) {
            (Some(csv), Some(column)) => {
                let (header, fields) = head_of(&csv, &split.file)?;
                let head = FileHead { path: split.file.path(), header: header.as_deref(), fields };
                let position = head.position(&head.names(), column).map_err(Error::from)?;
                csv.read_fields(&ByteRange::whole(split.file.clone()), |fields| {
                    for _ in 0..position {
                        fields.text()?;
                    }
                    let is_time = matches!(by, SplitBy::Time(_));
                    let text = fields.text()?;
                    if is_time && !self.add_time(&text) {
                        return Err(hemiola_array::read::ParseError::new("times that are all numbers, or all texts"));
                    }
                    if !is_time {
                        self.codes.push(self.names.intern(&text));
                    }
                    self.records += 1;
                    Ok(())
                })?
            }
            (None, Some(column)) => {
                let (flag, file) = (format!("--by ..:{column}"), split.file.path().to_owned());
                return Err(Error::from(ColumnError::NotSeparated { flag, file }).into());
            }
            (Some(csv), None) if *by == SplitBy::Class(None) => {
                let names = csv.column_names(&split.file)?.unwrap_or_default();
                let file = split.file.path().to_owned();
                let (column, columns) = ("class".to_owned(), names);
                return Err(Error::from(ColumnError::Unknown { file, column, columns }).into());
            }
            _ => split.lines(|line, is_header| {
                if !is_header {
                    self.records += 1;
                    let label = line.trim_ascii_start().split(u8::is_ascii_whitespace).next().unwrap_or_default();
                    if *by != SplitBy::Record {
                        self.codes.push(self.names.intern(label));
                    }
                }
            })?,
        };
        ReadReport::merge(std::slice::from_ref(&split.file), [report], 0)?;
        Ok(())
    }

    /// Adds a time. Returns false if it is a number and others are texts, or the reverse.
    fn add_time(&mut self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        match text.trim().parse::<f64>() {
            Ok(time) if self.texts.is_empty() && time.is_finite() => self.times.push(time),
            Err(_) if self.times.is_empty() && !text.trim().is_empty() => self.texts.push(text.trim().to_owned()),
            _ => return false,
        }
        true
    }
}
