//! `hemiola data describe`: describes the contents of data files.
//!
//! Each argument is one data set: a file, or all files of a folder or a quoted pattern, which must
//! have one format. The format is detected by [`DetectedFormat`] unless it is given. Separated
//! values are entries of a sparse array if they start with two integer columns and a numeric
//! column, otherwise a table. One pass over the data on all workers computes everything; the output
//! does not depend on the number of workers.

use super::deal::{PIECE, local_cluster};
use super::description::{ColumnDescription, DataSetContents, DataSetDescription, DescribeReport};
use super::entries::{self, EntryLayout};
use super::table::{self, ColumnKind, TableColumns};
use super::{dense, show};
use crate::error::CommandError;
use crate::{output, report};
use clap::{Args, ValueEnum};
use hemiola_array::read::detect::UnrecognizedFormat;
use hemiola_array::read::{
    ByteRange, Csv, CsvHeader, DetectedFormat, Docword, FieldValue, FileFormat, InputFile, Ldac, Libsvm, MatrixMarket,
    NonFiniteHandling, Separator, lines,
};
use hemiola_array::save::PartReader;
use hemiola_array::{BadLine, Error};
use hemiola_cluster::Cluster;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola data describe ratings.csv
  hemiola data describe train.libsvm.zst test.libsvm.zst --report -
  hemiola data describe docword.kos.txt --vocabulary vocab.kos.txt
  hemiola data describe 'logs/part-*.csv' --skip-bad-lines 10
  hemiola data describe movies.dat --format csv --separator :: --header no

Each FILE is one data set: a file, all files of a folder or of a quoted pattern, a zip archive or a member of one \
(`set.zip/u.data`), or `-` for standard input. Compressed files (gzip, zstd, bzip2) are detected by their contents.

The report has one object per FILE in \"sets\": \"path\", \"files\", \"bytes\", \"compression\", \"format\", \
\"recognized_by\", \"separator\", \"header\"; \"view\" (\"entries\", \"table\" or \"dense\"), \"shape\", \"counted_from\", \
\"occupied\", \"entries\", \"density\", \"duplicates\"; \"values\" and \"labels\" (\"type\", \"min\", \"mean\", \"max\", \
\"not_finite\"); \"columns\" (\"name\", \"type\", \"missing\", \"numbers\", \"min\", \"mean\", \"max\"); \"memory\" (\"element\", \
\"sparse_bytes\", \"dense_bytes\"); \"skew\" (\"busiest_rows\", \"busiest_columns\", \"row_bin\", \"column_bin\"); \
\"skipped\" (\"file\", \"line\", \"column\", \"expected\", \"found\"); \"first_rows\" (\"names\", \"rows\"). Keys that do not \
apply are null.

Exit codes:
  0  all files were read
  2  wrong use, or a file does not match its format
  3  the system failed, or a file changed while it was read";

/// Arguments of `hemiola data describe`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DescribeArgs {
    /// Files, folders, quoted patterns, zip archives, or `-` for standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,

    /// Format: csv, libsvm, docword, ldac, matrix-market, npy, parquet, arrow or json-lines
    /// [default: detected].
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,

    /// Field separator of separated values: `,`, `tab`, `::`, `space` [default: detected].
    #[arg(long, value_name = "TEXT", value_parser = separator, allow_hyphen_values = true)]
    separator: Option<String>,

    /// Presence of a header line in separated values.
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    header: HeaderChoice,

    /// View of separated values.
    #[arg(long, value_name = "VIEW", default_value = "auto")]
    view: DescribeView,

    /// Columns of separated values to read as text, by name or by number from 1.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    text_columns: Vec<String>,

    /// Feature indices of LIBSVM files count from 0.
    #[arg(long)]
    zero_based: bool,

    /// Vocabulary of a bag of words (docword, ldac), one word per line.
    #[arg(long, value_name = "FILE")]
    vocabulary: Option<PathBuf>,

    /// Skip and report up to N invalid lines.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,

    /// Count NaN and infinite values instead of refusing them.
    #[arg(long)]
    keep_nan: bool,

    /// File for the report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Worker threads [default: the cores of this machine].
    #[arg(short, long, visible_alias = "threads", visible_short_alias = 'j', value_name = "W", value_parser = clap::value_parser!(u32).range(1..=hemiola_cluster::MAX_WORKERS as i64))]
    workers: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HeaderChoice {
    Yes,
    No,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DescribeView {
    /// Entries if the first two columns are integers and the third is numeric, else a table.
    Auto,
    /// Entries: row, column and value in the first three columns; rows and columns may be names.
    Entries,
    /// Table: rows of fields.
    Table,
}

impl DescribeArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let mut sets = Vec::new();
        let quiet = self.report.as_deref() == Some(Path::new("-"));
        for (number, path) in self.files.iter().enumerate() {
            let set = local_cluster(self.workers).run(|cluster| self.describe(cluster, path))?;
            if !quiet {
                output::print(&format!("{}{}", if number > 0 { "\n" } else { "" }, show::text(&set)))?;
            }
            sets.push(set);
        }
        if let Some(target) = &self.report {
            report::write(target, &DescribeReport { sets })?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Adds a hint with the flag that helps, depending on the format if it is known.
    fn explain(&self, error: anyhow::Error, format: Option<FileFormat>) -> anyhow::Error {
        let Some(problem) = error.downcast_ref::<Error>() else { return error };
        let is_not_finite = |line: &BadLine| {
            line.found.as_deref().and_then(|found| found.parse().ok()).is_some_and(|number: f64| !number.is_finite())
        };
        let hint = match problem {
            Error::NotFinite { .. } => "`--keep-nan` counts such values instead",
            Error::BadLine(line) if is_not_finite(line) => {
                "`--keep-nan` counts such values instead, `--skip-bad-lines N` skips up to N such lines"
            }
            Error::BadLine(line)
                if format == Some(FileFormat::Csv) && line.expected == <f64 as FieldValue>::EXPECTED =>
            {
                "`--text-columns COLUMN` reads a column as text, `--skip-bad-lines N` skips up to N such lines"
            }
            Error::BadLine(line) if format == Some(FileFormat::Libsvm) && line.found.as_deref() == Some("0") => {
                "`--zero-based` if the first index is 0, else `--skip-bad-lines N` skips up to N such lines"
            }
            Error::BadLine(_) => "`--skip-bad-lines N` skips up to N such lines",
            Error::TooManyBadLines { .. } => "allow more with `--skip-bad-lines`, or set the right `--format`",
            Error::BadFile { problem, .. } if *problem == UnrecognizedFormat::NoStructure.to_string() => {
                "plain text is read by `train lda` (a document on each line or in each file) and `train lstm` (a sentence on \
                 each line); for a table, set `--format csv --separator TEXT`"
            }
            Error::BadFile { file, .. } if self.format.is_none() && self.vocabulary.as_ref() != Some(file) => {
                "if the format was detected wrongly, set it with `--format`"
            }
            _ => return error,
        };
        CommandError::array(problem, hint).into()
    }

    fn describe(&self, cluster: &Cluster, path: &str) -> anyhow::Result<DataSetDescription> {
        refuse_what_train_describes(path)?;
        let mut sources = InputFile::find(path)?;
        let mut detected = self.detect(&sources).map_err(|error| self.explain(error, None))?;
        self.check_flags_of_format(detected.format)?;
        if detected.format == FileFormat::JsonLines {
            sources = InputFile::as_tables(sources)?;
            detected.separator = Some(Separator::Byte(b','));
        }
        let (contents, header) =
            self.contents(cluster, &sources, &detected).map_err(|error| self.explain(error, Some(detected.format)))?;
        let first = sources[0].compression();
        let mixed = sources.iter().any(|source| source.compression() != first);
        Ok(DataSetDescription {
            path: path.to_owned(),
            files: sources.len(),
            bytes: sources.iter().map(InputFile::bytes).sum(),
            compression: if mixed { "mixed".to_owned() } else { first.to_string() },
            format: detected.format.name(),
            recognized_by: detected.evidence,
            separator: detected
                .separator
                .filter(|_| detected.format == FileFormat::Csv)
                .map(|separator| separator.to_string()),
            header: header.filter(|_| detected.format == FileFormat::Csv),
            contents,
        })
    }

    /// Returns the contents of the files, and for separated values the presence of a header.
    fn contents(
        &self,
        cluster: &Cluster,
        sources: &[InputFile],
        detected: &DetectedFormat,
    ) -> anyhow::Result<(DataSetContents, Option<bool>)> {
        let contents = match detected.format {
            FileFormat::Csv | FileFormat::JsonLines => {
                let (contents, header) = self.separated(cluster, sources, detected)?;
                return Ok((contents, Some(header)));
            }
            FileFormat::Libsvm | FileFormat::Ldac => self.by_line(cluster, sources, detected.format)?,
            FileFormat::Docword => self.docword(cluster, single_file(sources, detected.format)?)?,
            FileFormat::MatrixMarket => self.matrix_market(cluster, single_file(sources, detected.format)?)?,
            FileFormat::Npy => dense::survey(cluster, single_file(sources, detected.format)?, self.non_finite())?,
            #[cfg(feature = "arrow")]
            FileFormat::Parquet | FileFormat::Arrow => {
                super::columnar::survey(cluster, single_file(sources, detected.format)?, self.non_finite())?
            }
            other => {
                let message =
                    format!("`{}`: this build of `hemiola` cannot read {other} files", sources[0].path().display());
                return Err(CommandError::usage(message).hint("build it with `--features arrow`").into());
            }
        };
        Ok((contents, None))
    }

    fn non_finite(&self) -> NonFiniteHandling {
        if self.keep_nan { NonFiniteHandling::Keep } else { NonFiniteHandling::Reject }
    }

    /// Returns the format of all files: as given, or detected from the first one.
    fn detect(&self, sources: &[InputFile]) -> anyhow::Result<DetectedFormat> {
        // Files of a set may be empty; the first other one determines the format.
        let nonempty = |source: &&InputFile| source.bytes() > 0;
        let first = sources.iter().find(nonempty).unwrap_or(&sources[0]);
        let named = |format| DetectedFormat { format, separator: None, comment: None, evidence: "--format".to_owned() };
        let mut detected = match (self.format, &self.separator) {
            (Some(FileFormat::Csv), None) => {
                let detected = DetectedFormat::separator_of(first)?;
                DetectedFormat { evidence: format!("--format; separator by {}", detected.evidence), ..detected }
            }
            (Some(format), _) => named(format),
            (None, Some(_)) => DetectedFormat { evidence: "--separator".to_owned(), ..named(FileFormat::Csv) },
            (None, None) => DetectedFormat::of(first)?,
        };
        if let (FileFormat::Csv, Some(text)) = (detected.format, &self.separator) {
            detected.separator = Some(Separator::new(text));
        }
        Ok(detected)
    }

    /// Returns an error for flags that have no effect on files of the format.
    fn check_flags_of_format(&self, format: FileFormat) -> anyhow::Result<()> {
        let is = |formats: &[FileFormat]| formats.contains(&format);
        let wrong = [
            ("--separator", self.separator.is_some() && !is(&[FileFormat::Csv])),
            ("--header", self.header != HeaderChoice::Auto && !is(&[FileFormat::Csv])),
            ("--view", self.view != DescribeView::Auto && !is(&[FileFormat::Csv, FileFormat::JsonLines])),
            ("--text-columns", !self.text_columns.is_empty() && !is(&[FileFormat::Csv, FileFormat::JsonLines])),
            ("--zero-based", self.zero_based && !is(&[FileFormat::Libsvm])),
            (
                "--skip-bad-lines",
                self.skip_bad_lines > 0 && is(&[FileFormat::Npy, FileFormat::Parquet, FileFormat::Arrow]),
            ),
            ("--keep-nan", self.keep_nan && is(&[FileFormat::Docword, FileFormat::Ldac])),
            ("--vocabulary", self.vocabulary.is_some() && !is(&[FileFormat::Docword, FileFormat::Ldac])),
        ];
        match wrong.iter().find(|(_, wrong)| *wrong) {
            Some((option, _)) => {
                let message = format!("{option} has no effect on files of the format {format}");
                Err(CommandError::usage(message).hint("leave it out, or set the right `--format`").into())
            }
            None => Ok(()),
        }
    }

    /// Describes separated values; also returns the presence of a header.
    fn separated(
        &self,
        cluster: &Cluster,
        sources: &[InputFile],
        detected: &DetectedFormat,
    ) -> anyhow::Result<(DataSetContents, bool)> {
        let header = match self.header {
            HeaderChoice::Yes => CsvHeader::Present,
            HeaderChoice::No => CsvHeader::Absent,
            HeaderChoice::Auto => CsvHeader::Detect,
        };
        let csv = Csv::new().comment(detected.comment).header(header);
        let mut csv = csv.skip_bad_lines(self.skip_bad_lines).non_finite(self.non_finite());
        if let Some(separator) = &detected.separator {
            csv = csv.separator(&separator_text(separator));
        }
        let first = sources.iter().find(|source| source.bytes() > 0).unwrap_or(&sources[0]);
        let columns = TableColumns::of(&csv, first, &self.text_columns)?;
        let header = csv.column_names(first)?.is_some();
        if columns.kinds.is_empty() {
            return Err(Error::EmptyInput { file: first.path().to_owned() }.into());
        }
        let ranges = ByteRange::split(sources, PIECE);
        let as_entries = match self.view {
            DescribeView::Auto => columns.look_like_entries(),
            DescribeView::Entries => true,
            DescribeView::Table => false,
        };
        if !as_entries {
            let (contents, summary) = table::survey(cluster, sources, &ranges, &csv, &columns)?;
            return Ok((DataSetContents { skipped: summary.skipped, ..contents }, header));
        }
        let count = columns.kinds.len();
        if count < 3 {
            let message = format!("entries have at least 3 fields (row, column, value), but the lines have {count}");
            return Err(CommandError::usage(message).hint("leave out `--view entries`").into());
        }
        let names = [columns.kinds[0] != ColumnKind::Index, columns.kinds[1] != ColumnKind::Index];
        let layout = EntryLayout { names, allowed: self.skip_bad_lines, ..EntryLayout::default() };
        let (mut contents, summary) = entries::survey(cluster, sources, &ranges, layout, |range, visitor| {
            csv.read_fields(range, |fields| visitor.fields(fields, count))
        })?;
        contents.skipped = summary.skipped;
        let all_names = columns.all_names();
        for (column, name) in contents.columns.iter_mut().zip(&all_names) {
            column.name.clone_from(name);
        }
        contents.columns.extend(all_names.iter().skip(3).cloned().map(ColumnDescription::not_read));
        contents.first_rows.names = all_names;
        contents.first_rows.rows = columns.first;
        Ok((contents, header))
    }

    /// Describes LIBSVM and LDA-C files, in which a line is a row.
    fn by_line(&self, cluster: &Cluster, sources: &[InputFile], format: FileFormat) -> anyhow::Result<DataSetContents> {
        let words = self.words()?.map_or(Vec::new(), |(_, words)| words);
        let labelled = format == FileFormat::Libsvm;
        let base = usize::from(labelled && !self.zero_based);
        let known = (!words.is_empty()).then_some(words.len());
        let libsvm = Libsvm::new().zero_based(self.zero_based).non_finite(self.non_finite());
        let libsvm = libsvm.skip_bad_lines(self.skip_bad_lines);
        let ldac = Ldac::new().words(known).skip_bad_lines(self.skip_bad_lines);
        let allowed = self.skip_bad_lines;
        let layout = EntryLayout { by_line: true, base: Some(base), words: &words, allowed, ..EntryLayout::default() };
        let ranges = ByteRange::split(sources, PIECE);
        let (contents, summary) = entries::survey(cluster, sources, &ranges, layout, |range, visitor| {
            if labelled {
                libsvm.read(range, |example| {
                    visitor.line(&example, true);
                    Ok(())
                })
            } else {
                ldac.read(range, |document| {
                    visitor.line(&document, false);
                    Ok(())
                })
            }
        })?;
        Ok(DataSetContents { skipped: summary.skipped, ..contents })
    }

    fn docword(&self, cluster: &Cluster, source: &InputFile) -> anyhow::Result<DataSetContents> {
        let docword = Docword::open(source)?.skip_bad_lines(self.skip_bad_lines);
        let words = match self.words()? {
            Some((vocabulary, words)) => {
                lines::check_vocabulary(&vocabulary, &words, docword.words())?;
                words
            }
            None => Vec::new(),
        };
        let shape = Some([docword.documents(), docword.words()]);
        let layout = EntryLayout {
            shape,
            base: Some(1),
            words: &words,
            allowed: docword.bad_lines_allowed(),
            ..EntryLayout::default()
        };
        let sources = std::slice::from_ref(source);
        let ranges = ByteRange::split(sources, PIECE);
        let (mut contents, summary) = entries::survey(cluster, sources, &ranges, layout, |range, visitor| {
            docword.read(range, |document, word, count| {
                visitor.entry(document, word, f64::from(count));
                Ok(())
            })
        })?;
        docword.check_count(summary.records + summary.skipped.len() as u64)?;
        contents.skipped = summary.skipped;
        contents.first_rows.names = ["document", "word", "count"].map(str::to_owned).to_vec();
        Ok(contents)
    }

    fn matrix_market(&self, cluster: &Cluster, source: &InputFile) -> anyhow::Result<DataSetContents> {
        let matrix = MatrixMarket::open(source)?.non_finite(self.non_finite()).skip_bad_lines(self.skip_bad_lines);
        let layout = EntryLayout {
            shape: Some(matrix.shape()),
            base: Some(1),
            allowed: matrix.bad_lines_allowed(),
            ..EntryLayout::default()
        };
        let ranges = matrix.split(PIECE);
        let (contents, summary) =
            entries::survey(cluster, std::slice::from_ref(source), &ranges, layout, |range, visitor| {
                matrix.read(range, |row, column, value| {
                    visitor.entry(row, column, value);
                    Ok(())
                })
            })?;
        matrix.check_count(summary.records + summary.skipped.len() as u64)?;
        Ok(DataSetContents { skipped: summary.skipped, ..contents })
    }

    fn words(&self) -> anyhow::Result<Option<(InputFile, Vec<String>)>> {
        let Some(path) = &self.vocabulary else { return Ok(None) };
        let source = InputFile::open(path)?;
        let words = lines::read_names(&source)?;
        Ok(Some((source, words)))
    }
}

/// Returns the only file of a set, for formats with a header per file.
fn single_file(sources: &[InputFile], format: FileFormat) -> anyhow::Result<&InputFile> {
    if let [source] = sources {
        return Ok(source);
    }
    let message = format!("{} {format} files cannot be read as one data set: each has its own header", sources.len());
    Err(CommandError::usage(message).hint("give each as an argument of its own").into())
}

/// Parses a field separator.
pub(super) fn separator(text: &str) -> Result<String, String> {
    let text = match text {
        "tab" | "\\t" => "\t",
        "space" | "whitespace" => " ",
        "comma" => ",",
        text => text,
    };
    if text.is_empty() || text.contains(['"', '\n', '\r']) {
        return Err(
            "expected one or more characters other than quotes and line endings, such as `,`, `tab`, `::`".into()
        );
    }
    Ok(text.to_owned())
}

/// Returns a separator in the form of [`Csv::separator`].
fn separator_text(separator: &Separator) -> String {
    match separator {
        Separator::Byte(byte) => char::from(*byte).to_string(),
        Separator::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => " ".to_owned(),
    }
}

/// Refuses folders that are no data files, with the command that is for them: saved models, and the
/// images of MNIST and CIFAR-10.
fn refuse_what_train_describes(path: &str) -> anyhow::Result<()> {
    let folder = Path::new(path);
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    if PartReader::exists(folder) || PartReader::exists(&folder.join("net")) {
        let failure = CommandError::usage(format!("`{path}` is a saved model, and no data"));
        return Err(failure.hint(format!("`hemiola show {path}` describes it")).into());
    }
    let names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let has = |start: &str| names.iter().any(|name| name.starts_with(start));
    let kind = match () {
        () if has("train-images") || has("t10k-images") => "images in the format of MNIST (IDX)",
        () if has("data_batch_") || has("test_batch") => "images in the format of CIFAR-10",
        () => return Ok(()),
    };
    let failure = CommandError::usage(format!("`{path}` contains {kind}"));
    Err(failure
        .hint(format!("`hemiola train cnn --data {path}` reads the folder, and prints its number of images"))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_parsed() {
        assert_eq!(separator("tab"), Ok("\t".to_owned()));
        assert_eq!(separator("::"), Ok("::".to_owned()));
        assert_eq!(separator("space"), Ok(" ".to_owned()));
        for text in ["", "\"", "a\nb"] {
            assert!(separator(text).is_err(), "{text:?}");
        }
        for text in [",", "\t", "::", " ", "|"] {
            assert_eq!(separator_text(&Separator::new(text)), text);
        }
    }
}
