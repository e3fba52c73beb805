//! What to call to read files into arrays. All calls are *collective*.
//!
//! The root finds the files and cuts them into units; the others are told, so that all peers see the same list even if
//! files come and go. Every peer must be able to open them under the same path.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::element::Element;
use crate::dist::labelled::{self, Labelled};
use crate::dist::lazy::Lazy;
use crate::dist::make::rows_layout;
use crate::dist::named;
use crate::dist::place::in_parallel;
use crate::dist::source::{Entry, RecordSource};
use crate::read::npy::FromNumber;
use crate::read::{
    ByteRange, Csv, Docword, Fields, FromFields, Ldac, Libsvm, Lines, MatrixMarket, Mistake, Npy, Report, Source,
    Summary,
};
use crate::sparse::DuplicatePolicy;
use crate::{Dense, Error, Result, Shape};
use hemiola_cluster::Cluster;

/// Units per worker: enough to even out what a worker meets, few enough that each is worth starting.
const UNITS_PER_WORKER: u64 = 4;
/// No unit of plain text is smaller than this.
const SMALLEST_UNIT: u64 = 64 * 1024;
/// Objects are far away: a unit should take longer to arrive than the connection takes to open.
const SMALLEST_UNIT_OF_OBJECT: u64 = 4 << 20;

/// *Collective.* The files behind `pattern` (a file, a folder or a glob), as the root sees them.
pub(crate) fn find(cluster: &Cluster, pattern: &str) -> hemiola_cluster::Result<Vec<Source>> {
    let found = if cluster.is_root() { Source::find(pattern) } else { Ok(Vec::new()) };
    cluster.broadcast(agree(cluster, found)?)
}

/// *Collective.* Cuts files into units for all workers of the job. The root decides: peers may differ in workers, and the
/// units must not.
pub(crate) fn units(cluster: &Cluster, sources: &[Source]) -> hemiola_cluster::Result<Vec<ByteRange>> {
    cluster.broadcast(ByteRange::split(sources, target(cluster, sources)))
}

fn target(cluster: &Cluster, sources: &[Source]) -> u64 {
    let total: u64 = sources.iter().map(Source::bytes).sum();
    let units = cluster.size() as u64 * cluster.workers() as u64 * UNITS_PER_WORKER;
    let far = sources.iter().any(Source::is_object);
    (total / units.max(1)).max(if far { SMALLEST_UNIT_OF_OBJECT } else { SMALLEST_UNIT })
}

/// Text in byte ranges with a way to read one.
#[derive(Debug)]
pub struct Text<R> {
    sources: Vec<Source>,
    ranges: Vec<ByteRange>,
    reader: R,
    allowed: u64,
}

impl<R> Text<R> {
    fn find(cluster: &Cluster, pattern: &str, reader: R, allowed: u64) -> hemiola_cluster::Result<Self> {
        let sources = find(cluster, pattern)?;
        let ranges = units(cluster, &sources)?;
        Ok(Self { sources, ranges, reader, allowed })
    }
}

/// A way to read one byte range of text.
pub trait ReadRange: Sync {
    /// What a line becomes.
    type Record;

    /// Hands every record of a range to `visit`.
    fn read(&self, range: &ByteRange, visit: impl FnMut(Self::Record) -> Result<(), Box<Mistake>>) -> Result<Report>;
}

impl<R: ReadRange> RecordSource for Text<R> {
    type Record = R::Record;

    fn units(&self) -> usize {
        self.ranges.len()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.ranges[unit].cost()
    }

    fn visit(&self, unit: usize, visit: impl FnMut(R::Record) -> Result<(), Box<Mistake>>) -> Result<Report> {
        self.reader.read(&self.ranges[unit], visit)
    }

    fn settle(&self, reports: Vec<Report>) -> Result<Summary> {
        Report::settle(&self.sources, reports, self.allowed)
    }
}

/// Reads csv lines as records of one type.
#[derive(Debug)]
pub struct CsvRecords<R>(Csv, std::marker::PhantomData<fn() -> R>);

impl<R: FromFields> ReadRange for CsvRecords<R> {
    type Record = R;

    fn read(&self, range: &ByteRange, visit: impl FnMut(R) -> Result<(), Box<Mistake>>) -> Result<Report> {
        self.0.read(range, visit)
    }
}

/// Reads lines through a function of the user's.
#[derive(Debug)]
pub struct ParsedLines<P>(Lines, P);

impl<O, P: Fn(&str) -> Result<O, String> + Sync> ReadRange for ParsedLines<P> {
    type Record = O;

    fn read(&self, range: &ByteRange, mut visit: impl FnMut(O) -> Result<(), Box<Mistake>>) -> Result<Report> {
        self.0.read(range, |line| visit((self.1)(line).map_err(Mistake::new)?))
    }
}

impl ReadRange for Docword {
    type Record = (u64, u64, u32);

    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Self::Record) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        Self::read(self, range, |document, word, count| visit((document, word, count)))
    }
}

impl ReadRange for MatrixMarket {
    type Record = (u64, u64, f64);

    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Self::Record) -> Result<(), Box<Mistake>>,
    ) -> Result<Report> {
        Self::read(self, range, |row, column, value| visit((row, column, value)))
    }
}

/// A format whose header says how large the array is and how many values follow.
pub trait Header: ReadRange {
    /// The extents.
    fn extents(&self) -> Vec<u64>;

    /// An error unless `found` values are what the header promises.
    fn must_have(&self, found: u64) -> Result<()>;
}

impl Header for Docword {
    fn extents(&self) -> Vec<u64> {
        vec![self.documents(), self.words()]
    }

    fn must_have(&self, found: u64) -> Result<()> {
        Self::must_have(self, found)
    }
}

impl Header for MatrixMarket {
    fn extents(&self) -> Vec<u64> {
        self.shape().to_vec()
    }

    fn must_have(&self, found: u64) -> Result<()> {
        Self::must_have(self, found)
    }
}

/// Text with a header that is believed and checked.
#[derive(Debug)]
pub struct Headed<R> {
    text: Text<R>,
}

impl<R: Header> RecordSource for Headed<R> {
    type Record = R::Record;

    fn units(&self) -> usize {
        self.text.units()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.text.cost(unit)
    }

    fn visit(&self, unit: usize, visit: impl FnMut(R::Record) -> Result<(), Box<Mistake>>) -> Result<Report> {
        self.text.visit(unit, visit)
    }

    fn settle(&self, reports: Vec<Report>) -> Result<Summary> {
        let records = reports.iter().map(|report| report.records + report.bad.len() as u64).sum();
        let promised = self.text.reader.must_have(records);
        // A header may promise nothing at all, which is no empty file.
        if records == 0 && promised.is_ok() {
            return Ok(Summary::default());
        }
        let summary = self.text.settle(reports)?;
        promised.map(|()| summary)
    }

    fn extents(&self) -> Option<Vec<u64>> {
        Some(self.text.reader.extents())
    }
}

/// A chain over csv lines that become an `R` each.
pub type CsvLazy<R, F> = Lazy<Text<CsvRecords<R>>, F>;
/// A chain over lines that a function of the user's parses.
pub type LinesLazy<P, F> = Lazy<Text<ParsedLines<P>>, F>;

/// Reads files into arrays. All methods are *collective*; an error is the same on every peer.
///
/// Paths may be files, folders or globs; files may be plain or compressed with gzip, zstd or bzip2.
pub trait ReadArrays {
    /// Separated values: each line becomes an `R` (a tuple of numbers, say) and then an entry.
    fn read_csv<R: FromFields, T, const N: usize>(
        &self,
        pattern: &str,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        self.read_csv_with(Csv::new(), pattern, entry)
    }

    /// The same with a separator, a header, or bad lines to skip.
    fn read_csv_with<R: FromFields, T, const N: usize>(
        &self,
        options: Csv,
        pattern: &str,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>>;

    #[expect(clippy::type_complexity, reason = "what the chain holds, which nobody has to write down")]
    /// Any text: `parse` turns a line into an entry, leaves it out (`None`), or says what it expected instead.
    fn read_lines<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        pattern: &str,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>> {
        self.read_lines_with(Lines::new(), pattern, parse)
    }

    #[expect(clippy::type_complexity, reason = "what the chain holds, which nobody has to write down")]
    /// The same with bad lines to skip.
    fn read_lines_with<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        options: Lines,
        pattern: &str,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>>;

    /// Separated values whose keys are names: `entry` takes the fields of a line and gives the names and the value. Names
    /// become numbers in the order they first occur; [`DistArray::names`] finds back.
    fn read_named<T: Element, const N: usize>(
        &self,
        options: Csv,
        pattern: &str,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([named::Name<'f>; N], T), Box<Mistake>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        self.read_named_as(options, pattern, DuplicatePolicy::Error, entry)
    }

    /// The same where names may come together more than once: an event that is counted.
    fn read_named_as<T: Element, const N: usize>(
        &self,
        options: Csv,
        pattern: &str,
        duplicates: DuplicatePolicy<T>,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([named::Name<'f>; N], T), Box<Mistake>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>>;

    /// LIBSVM text: features and labels.
    fn read_libsvm(&self, options: Libsvm, pattern: &str) -> hemiola_cluster::Result<Labelled>;

    /// LDA-C text: documents by words.
    fn read_ldac(&self, options: Ldac, pattern: &str) -> hemiola_cluster::Result<DistArray<u32, 2>>;

    /// A UCI bag of words (`docword`): documents by words. With a vocabulary, words have names.
    fn read_docword(&self, docword: &str, vocabulary: Option<&str>) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        self.read_docword_with(docword, vocabulary, std::convert::identity)
    }

    /// The same with options, set on the opened file: `|file| file.skip_bad_lines(3)`.
    fn read_docword_with(
        &self,
        docword: &str,
        vocabulary: Option<&str>,
        options: impl Fn(Docword) -> Docword,
    ) -> hemiola_cluster::Result<DistArray<u32, 2>>;

    /// A Matrix Market file.
    fn read_matrix_market(&self, path: &str) -> hemiola_cluster::Result<DistArray<f64, 2>> {
        self.read_matrix_market_with(path, std::convert::identity)
    }

    /// The same with options, set on the opened file: `|file| file.skip_bad_lines(3)`.
    fn read_matrix_market_with(
        &self,
        path: &str,
        options: impl Fn(MatrixMarket) -> MatrixMarket,
    ) -> hemiola_cluster::Result<DistArray<f64, 2>>;

    /// A numpy file, as a dense array.
    fn read_npy<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        self.read_npy_with(path, std::convert::identity)
    }

    /// The same with options, set on the opened file: `|file| file.non_finite(NonFinite::Keep)`.
    fn read_npy_with<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
        options: impl Fn(Npy) -> Npy,
    ) -> hemiola_cluster::Result<DistArray<T, N>>;
}

impl ReadArrays for Cluster {
    fn read_csv_with<R: FromFields, T, const N: usize>(
        &self,
        options: Csv,
        pattern: &str,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        let allowed = options.bad_lines_allowed();
        let source = Text::find(self, pattern, CsvRecords(options, std::marker::PhantomData), allowed)?;
        Ok(Lazy::new(self, source, move |record| Some(entry(record))))
    }

    fn read_lines_with<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        options: Lines,
        pattern: &str,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>> {
        let allowed = options.bad_lines_allowed();
        let source = Text::find(self, pattern, ParsedLines(options, parse), allowed)?;
        Ok(Lazy::new(self, source, std::convert::identity))
    }

    fn read_named_as<T: Element, const N: usize>(
        &self,
        options: Csv,
        pattern: &str,
        duplicates: DuplicatePolicy<T>,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([named::Name<'f>; N], T), Box<Mistake>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        named::read(self, &options, pattern, duplicates, entry)
    }

    fn read_libsvm(&self, options: Libsvm, pattern: &str) -> hemiola_cluster::Result<Labelled> {
        labelled::read_libsvm(self, &options, pattern)
    }

    fn read_ldac(&self, options: Ldac, pattern: &str) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        labelled::read_ldac(self, &options, pattern)
    }

    fn read_docword_with(
        &self,
        docword: &str,
        vocabulary: Option<&str>,
        options: impl Fn(Docword) -> Docword,
    ) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        let source = one(self, docword)?;
        let reader = options(agree(self, Docword::open(&source))?);
        let names = vocabulary.map(|path| named::read_vocabulary(self, path, reader.words())).transpose()?;
        let ranges = units(self, std::slice::from_ref(&source))?;
        let allowed = reader.bad_lines_allowed();
        let headed = Headed { text: Text { sources: vec![source], ranges, reader, allowed } };
        let lazy = Lazy::new(self, headed, |(document, word, count): (u64, u64, u32)| Some(([document, word], count)));
        let array: DistArray<u32, 2> = lazy.materialize()?;
        Ok(array.with_names([None, names]))
    }

    fn read_matrix_market_with(
        &self,
        path: &str,
        options: impl Fn(MatrixMarket) -> MatrixMarket,
    ) -> hemiola_cluster::Result<DistArray<f64, 2>> {
        let source = one(self, path)?;
        let reader = options(agree(self, MatrixMarket::open(&source))?);
        let ranges = self.broadcast(reader.split(target(self, std::slice::from_ref(&source))))?;
        let allowed = reader.bad_lines_allowed();
        let headed = Headed { text: Text { sources: vec![source], ranges, reader, allowed } };
        Lazy::new(self, headed, |(row, column, value): (u64, u64, f64)| Some(([row, column], value))).materialize()
    }

    fn read_npy_with<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
        options: impl Fn(Npy) -> Npy,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        let source = one(self, path)?;
        let npy = options(agree(self, Npy::open(&source))?);
        let dimensions = npy.shape().to_vec();
        let extents = <[u64; N]>::try_from(dimensions.clone()).map_err(|_| Error::BadFile {
            file: source.path().to_owned(),
            problem: format!("it has {} dimensions, {N} were asked for", dimensions.len()),
        })?;
        let shape = Shape::new(extents);
        let layout = rows_layout(self, shape)?;
        let row = if shape.extent(0) == 0 { 0 } else { shape.cells()? / shape.extent(0) };
        let ranges = layout.parts_of(self.rank()).map(|part| layout.space.cut.range(part).unwrap_or(0..0)).collect();
        let blocks = in_parallel(self, ranges, |range: std::ops::Range<u64>| {
            let mut part = extents;
            part[0] = range.end - range.start;
            let mut cells = Dense::filled(Shape::new(part), T::default())?;
            let part = cells.shape();
            let mine = range.start * row..range.end * row;
            // In Fortran order the rows of a part are scattered over the whole file.
            let elements = if npy.is_fortran_ordered() && !mine.is_empty() { 0..npy.elements() } else { mine.clone() };
            npy.read(elements, |linear, value| {
                if mine.contains(&linear) {
                    cells[part.key(linear - mine.start)] = value;
                }
            })?;
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let blocks = agree(self, blocks)?;
        DistArray::assemble(self, shape, layout, Storage::Dense(blocks))
    }
}

/// *Collective.* The one file behind a path.
fn one(cluster: &Cluster, path: &str) -> hemiola_cluster::Result<Source> {
    let opened = if cluster.is_root() { Source::open(path).map(Some) } else { Ok(None) };
    let source = cluster.broadcast(agree(cluster, opened)?)?;
    source.ok_or_else(|| hemiola_cluster::Error::program("the root did not say which file to read"))
}
