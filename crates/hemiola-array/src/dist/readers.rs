//! Reading files into arrays. All calls are *collective*.
//!
//! The root finds the files and splits them into units. It broadcasts both, so that all peers see
//! the same list even if files come and go. Every peer must be able to open the files under the
//! same path.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::build::in_parallel;
use crate::dist::constructors::row_layout;
use crate::dist::element::Element;
use crate::dist::lazy::LazyArray;
use crate::dist::row_per_line::{self, LabelledData};
use crate::dist::source::{Entry, RecordSource};
use crate::dist::string_keys;
use crate::read::npy::FromNumber;
use crate::read::{
    ByteRange, Csv, Docword, Fields, FromFields, InputFile, InputPaths, Ldac, Libsvm, LineReader, MatrixMarket, Npy,
    ParseError, ReadReport, ReadSummary,
};
use crate::sparse::DuplicatePolicy;
use crate::{DenseArray, Error, Result, Shape};
use hemiola_cluster::Cluster;

/// Units per worker: enough to balance the load, few enough that each is worth starting.
const UNITS_PER_WORKER: u64 = 4;
/// Minimum unit size of plain text in bytes.
const MIN_UNIT_BYTES: u64 = 64 * 1024;
/// Minimum unit size of an object in bytes: reading a unit should take longer than opening its
/// connection.
const MIN_OBJECT_UNIT_BYTES: u64 = 4 << 20;

/// *Collective.* Finds the files of `paths` (files, folders or globs), as the root sees them. The
/// root alone reads streams, whose copies the peers on its machine open. Returns an error if a peer
/// asks for other paths, or has a file of another size. Files found before are returned as they are.
pub fn find_files(cluster: &Cluster, paths: impl Into<InputPaths>) -> hemiola_cluster::Result<Vec<InputFile>> {
    let paths = paths.into();
    if paths.are_found() {
        return agree(cluster, paths.find());
    }
    let found = if cluster.is_root() { paths.find() } else { Ok(Vec::new()) };
    let files = cluster.broadcast(agree(cluster, found)?)?;
    if cluster.size() > 1 {
        let patterns = cluster.all_gather(paths)?;
        let differs = patterns.iter().enumerate().find(|(_, other)| **other != patterns[0]);
        agree(
            cluster,
            differs.map_or(Ok(()), |(rank, other)| {
                let (root, peer) = (patterns[0].clone(), other.clone());
                Err(Error::PeersReadDifferentFiles { rank, root: format!("`{root}`"), peer: format!("`{peer}`") })
            }),
        )?;
        agree(cluster, check_sizes(cluster, &files))?;
    }
    Ok(files)
}

/// Checks that this peer sees the files with the sizes that the root sees.
fn check_sizes(cluster: &Cluster, files: &[InputFile]) -> Result<()> {
    for file in files.iter().filter(|file| !file.is_object()) {
        // A file that cannot be opened is reported by its reader.
        let (stored, bytes) = file.stored_file();
        if let Ok(own) = std::fs::metadata(stored).map(|metadata| metadata.len())
            && own != bytes
        {
            let shown = |bytes: u64| format!("`{}` of {bytes} bytes", stored.display());
            let rank = cluster.rank().index();
            return Err(Error::PeersReadDifferentFiles { rank, root: shown(bytes), peer: shown(own) });
        }
    }
    Ok(())
}

/// *Collective.* Splits files into units for all workers of the job. The root decides: peers may
/// differ in workers, but not in units.
pub(crate) fn plan_units(cluster: &Cluster, sources: &[InputFile]) -> hemiola_cluster::Result<Vec<ByteRange>> {
    cluster.broadcast(ByteRange::split(sources, unit_bytes(cluster, sources)))
}

fn unit_bytes(cluster: &Cluster, sources: &[InputFile]) -> u64 {
    let total: u64 = sources.iter().map(InputFile::bytes).sum();
    let units = cluster.size() as u64 * cluster.workers() as u64 * UNITS_PER_WORKER;
    let far = sources.iter().any(InputFile::is_object);
    (total / units.max(1)).max(if far { MIN_OBJECT_UNIT_BYTES } else { MIN_UNIT_BYTES })
}

/// Text in byte ranges, with a reader of its format.
#[derive(Debug)]
pub struct TextSource<R> {
    sources: Vec<InputFile>,
    ranges: Vec<ByteRange>,
    reader: R,
    allowed: u64,
}

impl<R> TextSource<R> {
    fn find(cluster: &Cluster, paths: InputPaths, reader: R, allowed: u64) -> hemiola_cluster::Result<Self> {
        let sources = find_files(cluster, paths)?;
        let ranges = plan_units(cluster, &sources)?;
        Ok(Self { sources, ranges, reader, allowed })
    }
}

/// Reader of one byte range of text.
pub trait RangeReader: Sync {
    /// Type that a line becomes.
    type Record;

    /// Calls `visit` with every record of a range.
    fn read(
        &self,
        range: &ByteRange,
        visit: impl FnMut(Self::Record) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport>;
}

impl<R: RangeReader> RecordSource for TextSource<R> {
    type Record = R::Record;

    fn units(&self) -> usize {
        self.ranges.len()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.ranges[unit].cost()
    }

    fn visit(&self, unit: usize, visit: impl FnMut(R::Record) -> Result<(), Box<ParseError>>) -> Result<ReadReport> {
        self.reader.read(&self.ranges[unit], visit)
    }

    fn merge_reports(&self, reports: Vec<ReadReport>) -> Result<ReadSummary> {
        ReadReport::merge(&self.sources, reports, self.allowed)
    }
}

/// Reader of CSV lines as records of one type.
#[derive(Debug)]
pub struct CsvRecords<R>(Csv, std::marker::PhantomData<fn() -> R>);

impl<R: FromFields> RangeReader for CsvRecords<R> {
    type Record = R;

    fn read(&self, range: &ByteRange, visit: impl FnMut(R) -> Result<(), Box<ParseError>>) -> Result<ReadReport> {
        self.0.read(range, visit)
    }
}

/// Reader of lines through a user function.
#[derive(Debug)]
pub struct ParsedLines<P>(LineReader, P);

impl<O, P: Fn(&str) -> Result<O, String> + Sync> RangeReader for ParsedLines<P> {
    type Record = O;

    fn read(&self, range: &ByteRange, mut visit: impl FnMut(O) -> Result<(), Box<ParseError>>) -> Result<ReadReport> {
        self.0.read(range, |line| visit((self.1)(line).map_err(ParseError::new)?))
    }
}

impl RangeReader for Docword {
    type Record = (usize, usize, u32);

    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Self::Record) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        Self::read(self, range, |document, word, count| visit((document, word, count)))
    }
}

impl RangeReader for MatrixMarket {
    type Record = (usize, usize, f64);

    fn read(
        &self,
        range: &ByteRange,
        mut visit: impl FnMut(Self::Record) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        Self::read(self, range, |row, column, value| visit((row, column, value)))
    }
}

/// Format with a header that declares the shape of the array and the number of values.
pub trait HeaderedFormat: RangeReader {
    /// Extents of the array, from the header.
    fn extents(&self) -> Vec<usize>;

    /// Returns an error unless `found` values match the header.
    fn check_count(&self, found: u64) -> Result<()>;
}

impl HeaderedFormat for Docword {
    fn extents(&self) -> Vec<usize> {
        vec![self.documents(), self.words()]
    }

    fn check_count(&self, found: u64) -> Result<()> {
        Self::check_count(self, found)
    }
}

impl HeaderedFormat for MatrixMarket {
    fn extents(&self) -> Vec<usize> {
        self.shape().to_vec()
    }

    fn check_count(&self, found: u64) -> Result<()> {
        Self::check_count(self, found)
    }
}

/// Text whose header is trusted for the shape and checked for the count.
#[derive(Debug)]
pub struct HeaderedSource<R> {
    text: TextSource<R>,
}

impl<R: HeaderedFormat> RecordSource for HeaderedSource<R> {
    type Record = R::Record;

    fn units(&self) -> usize {
        self.text.units()
    }

    fn cost(&self, unit: usize) -> u64 {
        self.text.cost(unit)
    }

    fn visit(&self, unit: usize, visit: impl FnMut(R::Record) -> Result<(), Box<ParseError>>) -> Result<ReadReport> {
        self.text.visit(unit, visit)
    }

    fn merge_reports(&self, reports: Vec<ReadReport>) -> Result<ReadSummary> {
        let records = reports.iter().map(|report| report.records + report.bad.len() as u64).sum();
        let promised = self.text.reader.check_count(records);
        // A header may declare zero values; such a file is not empty input.
        if records == 0 && promised.is_ok() {
            return Ok(ReadSummary::default());
        }
        let summary = self.text.merge_reports(reports)?;
        promised.map(|()| summary)
    }

    fn extents(&self) -> Option<Vec<usize>> {
        Some(self.text.reader.extents())
    }
}

/// Lazy chain over CSV lines that become an `R` each.
pub type CsvLazy<R, F> = LazyArray<TextSource<CsvRecords<R>>, F>;
/// Lazy chain over lines that a user function parses.
pub type LinesLazy<P, F> = LazyArray<TextSource<ParsedLines<P>>, F>;

/// Extension trait of [`Cluster`] that reads files into arrays. All methods are *collective*; an
/// error is identical on every peer.
///
/// Paths may be files, folders, globs, zip archives or `-` for standard input; several are read as
/// one data set. Files may be plain or compressed with gzip, zstd or bzip2.
pub trait ReadExt {
    /// Reads separated values: each line becomes an `R` (such as a tuple of numbers) and then an
    /// entry.
    fn read_csv<R: FromFields, T, const N: usize>(
        &self,
        paths: impl Into<InputPaths>,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        self.read_csv_with(Csv::new(), paths, entry)
    }

    /// Reads separated values with options: separator, header, bad lines to skip.
    fn read_csv_with<R: FromFields, T, const N: usize>(
        &self,
        options: Csv,
        paths: impl Into<InputPaths>,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>>;

    #[expect(clippy::type_complexity, reason = "the type of the chain, which users never write out")]
    /// Reads any text: `parse` turns a line into an entry, skips it (`None`), or says what it
    /// expected.
    fn read_lines<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        paths: impl Into<InputPaths>,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>> {
        self.read_lines_with(LineReader::new(), paths, parse)
    }

    #[expect(clippy::type_complexity, reason = "the type of the chain, which users never write out")]
    /// Reads any text, with a number of bad lines to skip.
    fn read_lines_with<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        options: LineReader,
        paths: impl Into<InputPaths>,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>>;

    /// Reads separated values whose keys are strings: `entry` takes the fields of a line and
    /// returns the strings and the value. Strings become indices in the order of first appearance;
    /// [`DistArray::names`] maps back.
    fn read_named<T: Element, const N: usize>(
        &self,
        options: Csv,
        paths: impl Into<InputPaths>,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([string_keys::Name<'f>; N], T), Box<ParseError>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        self.read_named_as(options, paths, DuplicatePolicy::Error, entry)
    }

    /// Reads separated values with string keys and a duplicate policy, for instance to count
    /// events.
    fn read_named_as<T: Element, const N: usize>(
        &self,
        options: Csv,
        paths: impl Into<InputPaths>,
        duplicates: DuplicatePolicy<T>,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([string_keys::Name<'f>; N], T), Box<ParseError>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>>;

    /// Reads LIBSVM text: features and labels.
    fn read_libsvm(&self, options: Libsvm, paths: impl Into<InputPaths>) -> hemiola_cluster::Result<LabelledData>;

    /// Reads LDA-C text: documents by words.
    fn read_ldac(&self, options: Ldac, paths: impl Into<InputPaths>) -> hemiola_cluster::Result<DistArray<u32, 2>>;

    /// Reads a UCI bag of words (`docword`): documents by words. With a vocabulary, words have
    /// names.
    fn read_docword(
        &self,
        docword: impl Into<InputPaths>,
        vocabulary: Option<&str>,
    ) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        self.read_docword_with(docword, vocabulary, std::convert::identity)
    }

    /// Reads a UCI bag of words with options, set on the opened file: `|file|
    /// file.skip_bad_lines(3)`.
    fn read_docword_with(
        &self,
        docword: impl Into<InputPaths>,
        vocabulary: Option<&str>,
        options: impl Fn(Docword) -> Docword,
    ) -> hemiola_cluster::Result<DistArray<u32, 2>>;

    /// Reads a Matrix Market file.
    fn read_matrix_market(&self, path: &str) -> hemiola_cluster::Result<DistArray<f64, 2>> {
        self.read_matrix_market_with(path, std::convert::identity)
    }

    /// Reads a Matrix Market file with options, set on the opened file: `|file|
    /// file.skip_bad_lines(3)`.
    fn read_matrix_market_with(
        &self,
        path: &str,
        options: impl Fn(MatrixMarket) -> MatrixMarket,
    ) -> hemiola_cluster::Result<DistArray<f64, 2>>;

    /// Reads a `NumPy` file as a dense array.
    fn read_npy<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        self.read_npy_with(path, std::convert::identity)
    }

    /// Reads a `NumPy` file with options, set on the opened file: `|file|
    /// file.non_finite(NonFiniteHandling::Keep)`.
    fn read_npy_with<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
        options: impl Fn(Npy) -> Npy,
    ) -> hemiola_cluster::Result<DistArray<T, N>>;
}

impl ReadExt for Cluster {
    fn read_csv_with<R: FromFields, T, const N: usize>(
        &self,
        options: Csv,
        paths: impl Into<InputPaths>,
        entry: impl Fn(R) -> Entry<T, N> + Sync,
    ) -> hemiola_cluster::Result<CsvLazy<R, impl Fn(R) -> Option<Entry<T, N>> + Sync>> {
        let allowed = options.bad_lines_allowed();
        let source = TextSource::find(self, paths.into(), CsvRecords(options, std::marker::PhantomData), allowed)?;
        Ok(LazyArray::new(self, source, move |record| Some(entry(record))))
    }

    fn read_lines_with<T, const N: usize, P: Fn(&str) -> Result<Option<Entry<T, N>>, String> + Sync>(
        &self,
        options: LineReader,
        paths: impl Into<InputPaths>,
        parse: P,
    ) -> hemiola_cluster::Result<LinesLazy<P, impl Fn(Option<Entry<T, N>>) -> Option<Entry<T, N>> + Sync>> {
        let allowed = options.bad_lines_allowed();
        let source = TextSource::find(self, paths.into(), ParsedLines(options, parse), allowed)?;
        Ok(LazyArray::new(self, source, std::convert::identity))
    }

    fn read_named_as<T: Element, const N: usize>(
        &self,
        options: Csv,
        paths: impl Into<InputPaths>,
        duplicates: DuplicatePolicy<T>,
        entry: impl for<'f> Fn(&mut Fields<'f>) -> Result<([string_keys::Name<'f>; N], T), Box<ParseError>> + Sync,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        string_keys::read(self, &options, paths.into(), duplicates, entry)
    }

    fn read_libsvm(&self, options: Libsvm, paths: impl Into<InputPaths>) -> hemiola_cluster::Result<LabelledData> {
        row_per_line::read_libsvm(self, &options, paths.into())
    }

    fn read_ldac(&self, options: Ldac, paths: impl Into<InputPaths>) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        row_per_line::read_ldac(self, &options, paths.into())
    }

    fn read_docword_with(
        &self,
        docword: impl Into<InputPaths>,
        vocabulary: Option<&str>,
        options: impl Fn(Docword) -> Docword,
    ) -> hemiola_cluster::Result<DistArray<u32, 2>> {
        let source = open_one(self, &docword.into())?;
        let reader = options(agree(self, Docword::open(&source))?);
        let names = vocabulary.map(|path| string_keys::read_vocabulary(self, path, reader.words())).transpose()?;
        let ranges = plan_units(self, std::slice::from_ref(&source))?;
        let allowed = reader.bad_lines_allowed();
        let headed = HeaderedSource { text: TextSource { sources: vec![source], ranges, reader, allowed } };
        let lazy = LazyArray::new(self, headed, |(document, word, count): (usize, usize, u32)| {
            Some(([document, word], count))
        });
        let array: DistArray<u32, 2> = lazy.materialize()?;
        Ok(array.with_names([None, names]))
    }

    fn read_matrix_market_with(
        &self,
        path: &str,
        options: impl Fn(MatrixMarket) -> MatrixMarket,
    ) -> hemiola_cluster::Result<DistArray<f64, 2>> {
        let source = open_one(self, &path.into())?;
        let reader = options(agree(self, MatrixMarket::open(&source))?);
        let ranges = self.broadcast(reader.split(unit_bytes(self, std::slice::from_ref(&source))))?;
        let allowed = reader.bad_lines_allowed();
        let headed = HeaderedSource { text: TextSource { sources: vec![source], ranges, reader, allowed } };
        LazyArray::new(self, headed, |(row, column, value): (usize, usize, f64)| Some(([row, column], value)))
            .materialize()
    }

    fn read_npy_with<T: Element + FromNumber + Default, const N: usize>(
        &self,
        path: &str,
        options: impl Fn(Npy) -> Npy,
    ) -> hemiola_cluster::Result<DistArray<T, N>> {
        let source = open_one(self, &path.into())?;
        let npy = options(agree(self, Npy::open(&source))?);
        let dimensions = npy.shape().to_vec();
        let extents = <[usize; N]>::try_from(dimensions.clone()).map_err(|_| Error::BadFile {
            file: source.path().to_owned(),
            problem: format!("it has {} dimensions, {N} were requested", dimensions.len()),
        })?;
        let shape = Shape::new(extents);
        let layout = row_layout(self, shape)?;
        let row = if shape.extent(0) == 0 { 0 } else { shape.cells()? / shape.extent(0) };
        let ranges =
            layout.parts_of(self.rank()).map(|part| layout.space.partitioner.range(part).unwrap_or(0..0)).collect();
        let blocks = in_parallel(self, ranges, |range: std::ops::Range<usize>| {
            let mut part = extents;
            part[0] = range.end - range.start;
            let mut cells = DenseArray::filled(Shape::new(part), T::default())?;
            let part = cells.shape();
            let mine = range.start * row..range.end * row;
            // In Fortran order, the rows of a part are scattered over the whole file.
            let elements = if npy.is_fortran_ordered() && !mine.is_empty() { 0..npy.elements() } else { mine.clone() };
            npy.read(elements, |linear, value| {
                if mine.contains(&linear) {
                    cells[part.key(linear - mine.start)] = value;
                }
            })?;
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let blocks = agree(self, blocks)?;
        DistArray::from_local_storage(self, shape, layout, Storage::Dense(blocks))
    }
}

/// *Collective.* Opens the single file of some paths.
fn open_one(cluster: &Cluster, paths: &InputPaths) -> hemiola_cluster::Result<InputFile> {
    let only = |files: Vec<InputFile>| match <[InputFile; 1]>::try_from(files) {
        Ok([file]) => Ok(Some(file)),
        Err(files) => Err(Error::BadFile {
            file: files.first().map(|file| file.path().to_owned()).unwrap_or_default(),
            problem: format!("a file of this format is a whole data set, and `{paths}` are {} files", files.len()),
        }),
    };
    let opened = if cluster.is_root() { paths.find().and_then(only) } else { Ok(None) };
    let source = cluster.broadcast(agree(cluster, opened)?)?;
    source.ok_or_else(|| hemiola_cluster::Error::program("the root broadcast no file to read"))
}
