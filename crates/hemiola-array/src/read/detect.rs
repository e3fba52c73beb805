//! Detection of the format of a file from its first bytes and its name.
//!
//! [`detect_format`] is a pure function: every peer that sees the same bytes gets the same answer.
//! Contents come first and the name second, because names lie and compressed files have two
//! extensions. The name decides only where the contents fit two formats equally well.
//!
//! **Invariant:** detection never rejects a file for a few bad lines. A format is chosen if at
//! least half of the sampled lines match it; its reader then reports the others by line and column.
//!
//! Rules, in this order:
//!
//! 1. first bytes: `NumPy`, Parquet, Arrow IPC, `%%MatrixMarket`; JSON lines if the first line is an
//!    object;
//! 2. `number index:value ...` on the lines: LDA-C if each number counts the pairs after it, else
//!    LIBSVM;
//! 3. three lines with a single integer, then lines with three: UCI bag of words;
//! 4. otherwise separated values, with the separator that gives most lines the same number of
//!    fields, two or more.

use super::field::{Fields, NonFiniteHandling, Separator};
use super::input::InputFile;
use super::number;
use super::parse::first_line;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Maximum number of bytes that are examined.
const SAMPLE_BYTES: usize = 256 * 1024;
/// Maximum number of lines that are examined.
const SAMPLE_LINES: usize = 100;

/// File format with a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileFormat {
    /// Separated values, read by [`Csv`](super::Csv).
    Csv,
    /// `label index:value ...`, read by [`Libsvm`](super::Libsvm).
    Libsvm,
    /// UCI bag of words, read by [`Docword`](super::Docword).
    Docword,
    /// `count id:count ...`, read by [`Ldac`](super::Ldac).
    Ldac,
    /// Matrix Market, read by [`MatrixMarket`](super::MatrixMarket).
    MatrixMarket,
    /// `NumPy` array, read by [`Npy`](super::Npy).
    Npy,
    /// Parquet, read by `Columnar` with the feature `arrow`.
    Parquet,
    /// Arrow IPC, read by `Columnar` with the feature `arrow`.
    Arrow,
    /// A JSON object on each line, read as a table; see [`InputFile::as_tables`].
    JsonLines,
}

impl FileFormat {
    /// All formats, in the order of this enum.
    pub const ALL: [Self; 9] = [
        Self::Csv,
        Self::Libsvm,
        Self::Docword,
        Self::Ldac,
        Self::MatrixMarket,
        Self::Npy,
        Self::Parquet,
        Self::Arrow,
        Self::JsonLines,
    ];

    /// Name of the format as a user writes it: `matrix-market`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Libsvm => "libsvm",
            Self::Docword => "docword",
            Self::Ldac => "ldac",
            Self::MatrixMarket => "matrix-market",
            Self::Npy => "npy",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::JsonLines => "json-lines",
        }
    }

    /// Format that the file name suggests, ignoring the extension of a compression.
    #[must_use]
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let name = [".gz", ".zst", ".bz2"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
        if name.starts_with("docword.") {
            return Some(Self::Docword);
        }
        match name.rsplit_once('.')?.1 {
            "csv" | "tsv" | "tab" => Some(Self::Csv),
            "libsvm" | "svm" | "svmlight" | "libfm" => Some(Self::Libsvm),
            "docword" => Some(Self::Docword),
            "ldac" | "lda-c" => Some(Self::Ldac),
            "mtx" | "mm" => Some(Self::MatrixMarket),
            "npy" => Some(Self::Npy),
            "parquet" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// Result of format detection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedFormat {
    /// The detected file format.
    pub format: FileFormat,
    /// Field separator; only for [`FileFormat::Csv`].
    pub separator: Option<Separator>,
    /// First byte of comment lines, if there are any; only for [`FileFormat::Csv`].
    pub comment: Option<u8>,
    /// Reason for the choice, for users: `its first bytes`.
    pub evidence: String,
}

/// Reason that a file has no recognized format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnrecognizedFormat {
    /// There is no record to examine.
    #[error("it has no line with a record")]
    Empty,
    /// Text in the encoding UTF-16.
    #[error("it is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    /// Binary file of an unknown format.
    #[error("it is neither text nor a numpy, Parquet or Arrow file")]
    Binary,
    /// Binary format where lines of text are needed.
    #[error("it is in the format {0}, and lines of text are expected")]
    NotLines(FileFormat),
    /// JSON that is no object on each line.
    #[error("it is JSON, but not an object on each line; convert it with `jq -c .` or, if it is a list, `jq -c '.[]'`")]
    JsonDocument,
    /// Text without separated fields.
    #[error("its lines have no common structure")]
    NoStructure,
}

/// Detects the format from the first decoded bytes of a file and its name. `whole` is true if
/// `head` is the entire file.
///
/// ```
/// use hemiola_array::read::detect::{FileFormat, detect_format};
/// let ratings = detect_format(b"user::item::rating\n1::10::4.5\n", true, "ratings.dat".as_ref()).unwrap();
/// assert_eq!(ratings.separator.unwrap().to_string(), "`::`");
/// let examples = detect_format(b"+1 3:0.5 7:1\n-1 2:1\n", true, "train".as_ref()).unwrap();
/// assert_eq!(examples.format, FileFormat::Libsvm);
/// ```
pub fn detect_format(head: &[u8], whole: bool, name: &Path) -> Result<DetectedFormat, UnrecognizedFormat> {
    let detected = |format, evidence: &str| {
        Ok(DetectedFormat { format, separator: None, comment: None, evidence: evidence.to_owned() })
    };
    if let Some(format) = by_magic_bytes(head) {
        return detected(format, "its first bytes");
    }
    let lines = SampleLines::of(head, whole)?;
    if head.get(..14).is_some_and(|start| start.eq_ignore_ascii_case(b"%%MatrixMarket")) {
        return detected(FileFormat::MatrixMarket, "`%%MatrixMarket` at its beginning");
    }
    let named = FileFormat::of_name(name);
    if lines.are_objects(name)? {
        return detected(FileFormat::JsonLines, "a JSON object on its first line");
    }
    if let Some(detected) = lines.as_pairs(named) {
        return Ok(detected);
    }
    if lines.are_docword(named) {
        return detected(FileFormat::Docword, "three lines with one whole number each, then lines with three");
    }
    lines.as_table(name)
}

/// Detects the separator of a file that is known to hold separated values.
pub fn detect_separator(head: &[u8], whole: bool, name: &Path) -> Result<DetectedFormat, UnrecognizedFormat> {
    if let Some(format) = by_magic_bytes(head) {
        return Err(UnrecognizedFormat::NotLines(format));
    }
    let lines = SampleLines::of(head, whole)?;
    if lines.are_objects(name)? {
        return Err(UnrecognizedFormat::NotLines(FileFormat::JsonLines));
    }
    lines.as_table(name)
}

/// Format of a binary file, from its magic bytes.
fn by_magic_bytes(head: &[u8]) -> Option<FileFormat> {
    let magic = [(&b"\x93NUMPY"[..], FileFormat::Npy), (b"PAR1", FileFormat::Parquet), (b"ARROW1", FileFormat::Arrow)];
    magic.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| format)
}

impl DetectedFormat {
    /// Detects the format of a file.
    pub fn of(file: &InputFile) -> Result<Self> {
        Self::with(file, detect_format)
    }

    /// Detects the separator of a file that is known to hold separated values.
    pub fn separator_of(file: &InputFile) -> Result<Self> {
        Self::with(file, detect_separator)
    }

    fn with(file: &InputFile, detect: fn(&[u8], bool, &Path) -> Result<Self, UnrecognizedFormat>) -> Result<Self> {
        if file.is_table() {
            let separator = Some(Separator::Byte(b','));
            return Ok(Self { format: FileFormat::Csv, separator, comment: None, evidence: "its columns".to_owned() });
        }
        let mut head = vec![0; SAMPLE_BYTES];
        let length = file.reader()?.fill(&mut head)?;
        detect(&head[..length], length < SAMPLE_BYTES, file.path()).map_err(|problem| match problem {
            UnrecognizedFormat::Empty => Error::EmptyInput { file: file.path().to_owned() },
            problem => Error::BadFile { file: file.path().to_owned(), problem: problem.to_string() },
        })
    }
}

/// First lines that are neither empty nor comments.
struct SampleLines<'a> {
    lines: Vec<&'a [u8]>,
    /// True if lines that start with `#` were skipped.
    comments: bool,
}

impl<'a> SampleLines<'a> {
    fn of(head: &'a [u8], whole: bool) -> Result<Self, UnrecognizedFormat> {
        if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Err(UnrecognizedFormat::Utf16);
        }
        if memchr::memchr(0, head).is_some() {
            return Err(UnrecognizedFormat::Binary);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let (mut lines, mut comments, mut at) = (Vec::new(), false, 0);
        while at < text.len() && lines.len() < SAMPLE_LINES {
            let (line, taken) = first_line(&text[at..]);
            at += taken;
            // A truncated line may be anything, unless it is the only one.
            if at == text.len() && !whole && !text.ends_with(b"\n") && !lines.is_empty() {
                break;
            }
            comments |= line.starts_with(b"#");
            if !line.trim_ascii().is_empty() && !line.starts_with(b"#") {
                lines.push(line);
            }
        }
        if lines.is_empty() { Err(UnrecognizedFormat::Empty) } else { Ok(Self { lines, comments }) }
    }

    /// Matches `number index:value ...`.
    fn as_pairs(&self, named: Option<FileFormat>) -> Option<DetectedFormat> {
        let detected =
            |format, evidence: String| Some(DetectedFormat { format, separator: None, comment: None, evidence });
        let parsed: Vec<Option<PairLine>> = self.lines.iter().map(|line| PairLine::of(line)).collect();
        let fitting: Vec<PairLine> = parsed.iter().copied().flatten().collect();
        let most = 2 * fitting.len() >= self.lines.len();
        if !most {
            return None;
        }
        if fitting.iter().all(|line| line.pairs == 0) {
            // Only numbers: a single column, unless the name says that they are labels.
            let named = named.filter(|format| matches!(format, FileFormat::Libsvm | FileFormat::Ldac))?;
            return detected(named, "numbers on its lines, and its name".to_owned());
        }
        let counted = fitting.iter().filter(|line| line.counted).count();
        if 2 * counted >= fitting.len() && named != Some(FileFormat::Libsvm) {
            // A constant label that happens to equal the number of pairs is too common, unless an
            // id is 0.
            let varied = fitting.iter().any(|line| line.pairs != fitting[0].pairs);
            if varied || named == Some(FileFormat::Ldac) || fitting.iter().any(|line| line.zero) {
                return detected(
                    FileFormat::Ldac,
                    "`count id:count ...` on its lines, where each count is right".to_owned(),
                );
            }
        }
        detected(FileFormat::Libsvm, "`label index:value ...` on its lines".to_owned())
    }

    /// Returns true for JSON lines. An object may be malformed: its reader reports that.
    fn are_objects(&self, name: &Path) -> Result<bool, UnrecognizedFormat> {
        let line = self.lines[0].trim_ascii();
        let inner = line.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
        let is_object = inner.is_some_and(|inner| inner.starts_with(b"\"") && inner.ends_with(b"}") || inner == b"}");
        let is_json = is_object || matches!(line, [b'{' | b'[', ..]) && is_named_json(name);
        if is_json && !is_object { Err(UnrecognizedFormat::JsonDocument) } else { Ok(is_object) }
    }

    fn are_docword(&self, named: Option<FileFormat>) -> bool {
        let [documents, words, entries, body @ ..] = self.lines.as_slice() else { return false };
        let single = |line: &[u8]| whole_numbers(line).filter(|numbers| numbers.len() == 1);
        let header = [documents, words, entries].map(|line| single(line));
        if header.iter().any(Option::is_none) {
            return false;
        }
        let fitting = body.iter().filter(|line| whole_numbers(line).is_some_and(|numbers| numbers.len() == 3)).count();
        if body.is_empty() { named == Some(FileFormat::Docword) } else { 2 * fitting >= body.len() }
    }

    fn as_table(&self, name: &Path) -> Result<DetectedFormat, UnrecognizedFormat> {
        let comment = self.comments.then_some(b'#');
        let detected = |separator, evidence| {
            Ok(DetectedFormat { format: FileFormat::Csv, separator: Some(separator), comment, evidence })
        };
        let mut best: Option<(usize, usize, Separator)> = None;
        for separator in ["\t", "::", ",", ";", "|", " "].map(Separator::new) {
            if let Some((agreeing, fields)) = self.agreement(&separator)
                && best.as_ref().is_none_or(|&(most, _, _)| agreeing > most)
            {
                best = Some((agreeing, fields, separator));
            }
        }
        let lines = self.lines.len();
        match best {
            Some((agreeing, fields, separator)) if 2 * agreeing >= lines => {
                let evidence = format!("{fields} fields, separated by {separator}, on {agreeing} of {lines} lines");
                detected(separator, evidence)
            }
            None => {
                let tab = name.to_string_lossy().contains(".tsv");
                detected(Separator::Byte(if tab { b'\t' } else { b',' }), "one field on every line".to_owned())
            }
            Some((_, _, separator)) if FileFormat::of_name(name) == Some(FileFormat::Csv) => {
                detected(separator, "its name".to_owned())
            }
            Some(_) => Err(UnrecognizedFormat::NoStructure),
        }
    }

    /// Number of lines with the most frequent number of fields (two or more), and that number.
    fn agreement(&self, separator: &Separator) -> Option<(usize, usize)> {
        let counts: Vec<usize> = self.lines.iter().map(|line| count_fields(line, separator)).collect();
        let several = counts.iter().copied().filter(|&count| count > 1);
        let agreeing = |fields: usize| counts.iter().filter(|&&count| count == fields).count();
        several.map(|fields| (agreeing(fields), fields)).max()
    }
}

/// Returns true for the name of a JSON file, compressed or not.
pub(super) fn is_named_json(name: &Path) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    [".json", ".jsonl", ".ndjson"].iter().any(|ending| name.contains(ending))
}

/// Number of fields of a line; 0 if quotes are malformed.
fn count_fields(line: &[u8], separator: &Separator) -> usize {
    let mut fields = Fields::new(line, separator, NonFiniteHandling::Keep, true);
    let mut count = 0;
    while !fields.is_empty() {
        if fields.text().is_err() {
            return 0;
        }
        count += 1;
    }
    count
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn whole_numbers(line: &[u8]) -> Option<Vec<u64>> {
    words(line).map(whole_number).collect()
}

fn whole_number(word: &[u8]) -> Option<u64> {
    number::unsigned(word).filter(|&(_, length)| length == word.len()).map(|(value, _)| value)
}

/// Line of LIBSVM or LDA-C.
#[derive(Clone, Copy)]
struct PairLine {
    pairs: usize,
    /// True if the line starts with the number of its pairs, which consist of integers.
    counted: bool,
    /// True if an index is 0.
    zero: bool,
}

impl PairLine {
    fn of(line: &[u8]) -> Option<Self> {
        let number = |word: &[u8]| number::float64(word).is_some_and(|(_, length)| length == word.len());
        let mut words = words(line).take_while(|word| !word.starts_with(b"#"));
        let first = words.next().filter(|word| number(word))?;
        let mut found = Self { pairs: 0, counted: true, zero: false };
        for word in words.filter(|word| !word.starts_with(b"qid:")) {
            let colon = memchr::memchr(b':', word)?;
            let (index, value) = (&word[..colon], &word[colon + 1..]);
            found.zero |= whole_number(index)? == 0;
            found.counted &= whole_number(value).is_some();
            found.pairs += 1;
            number(value).then_some(())?;
        }
        found.counted &= whole_number(first) == Some(found.pairs as u64);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of every format, and of every pair of similar formats.

    use super::*;

    fn format(text: impl AsRef<[u8]>, name: &str) -> FileFormat {
        detect_format(text.as_ref(), true, name.as_ref()).unwrap().format
    }

    /// Separator of text that must be detected as a table.
    fn separator(text: impl AsRef<[u8]>, name: &str) -> String {
        let detected = detect_format(text.as_ref(), true, name.as_ref()).unwrap();
        assert_eq!(detected.format, FileFormat::Csv);
        detected.separator.unwrap().to_string()
    }

    #[test]
    fn binary_files_are_detected_by_their_first_bytes() {
        assert_eq!(format(b"\x93NUMPY\x01\x00\x76\x00{", "x.csv"), FileFormat::Npy);
        assert_eq!(format(b"PAR1\x00\x00", "x"), FileFormat::Parquet);
        assert_eq!(format(b"ARROW1\x00\x00", "x"), FileFormat::Arrow);
        assert_eq!(detect_format(b"\x00\x01\x02", true, "x".as_ref()), Err(UnrecognizedFormat::Binary));
        assert_eq!(detect_format(b"\xff\xfe1\x00", true, "x".as_ref()), Err(UnrecognizedFormat::Utf16));
    }

    #[test]
    fn json_lines_have_an_object_on_each_line() {
        assert_eq!(format("{\"user\":1,\"item\":2}\n{\"user\":2}\n", "x"), FileFormat::JsonLines);
        assert_eq!(format("\n { \"a b\": \"c\" }\n", "x.json.gz"), FileFormat::JsonLines);
        let detect = |text: &str, name: &str| detect_format(text.as_bytes(), true, name.as_ref());
        assert_eq!(detect("{\n  \"user\": 1\n}\n", "x.json"), Err(UnrecognizedFormat::JsonDocument));
        assert_eq!(detect("[{\"user\": 1}]\n", "x.json"), Err(UnrecognizedFormat::JsonDocument));
        assert_eq!(separator("{1},2\n{2},3\n", "x"), "`,`");
    }

    #[test]
    fn matrix_market_has_a_banner() {
        assert_eq!(
            format("%%MatrixMarket matrix coordinate real general\n% c\n1 1 1\n1 1 2\n", "x"),
            FileFormat::MatrixMarket
        );
        assert_eq!(format("%%matrixmarket matrix array real general\n1 1\n2\n", "x"), FileFormat::MatrixMarket);
    }

    #[test]
    fn separators_are_found() {
        assert_eq!(separator("user,item,rating\n1,2,3\n", "x"), "`,`");
        assert_eq!(separator("1\t2\t3\n1\t3\t4\n", "x"), "a tab");
        assert_eq!(separator("1::Toy Story (1995)::Animation|Comedy\n2::Jumanji (1995)::Adventure\n", "x"), "`::`");
        assert_eq!(separator("a;b\n1,5;2\n2,5;3\n", "x"), "`;`");
        assert_eq!(separator("1|Toy Story|1995\n2|Heat|1995\n", "x"), "`|`");
        assert_eq!(separator("  1   2.5\t3\n4 5 6\n", "x"), "white space");
        assert_eq!(separator("1, 2, 3\n4, 5, 6\n", "x"), "`,`");
        assert_eq!(separator("\"a,b\",1\n\"c\",2\n", "x"), "`,`");
        assert_eq!(separator("Smith, John\t3\nMiller, Ann\t4\n", "x"), "a tab");
    }

    #[test]
    fn two_columns_of_whole_numbers_are_a_table_and_no_bag_of_words() {
        assert_eq!(separator("1,2\n1,3\n2,3\n", "x"), "`,`");
        assert_eq!(separator("1 2\n1 3\n2 3\n", "x"), "white space");
        // Without its header, the body of a bag of words is a table of three columns.
        assert_eq!(separator("1 2 1\n1 3 2\n2 3 1\n", "docword.x.txt"), "white space");
    }

    #[test]
    fn one_column_of_whole_numbers_is_a_table_and_no_bag_of_words() {
        assert_eq!(format("5\n6\n7\n8\n9\n", "x"), FileFormat::Csv);
        assert_eq!(format("5\n6\n7\n", "x"), FileFormat::Csv);
        assert_eq!(format("5\n6\n0\n", "docword.none.txt"), FileFormat::Docword);
    }

    #[test]
    fn a_bag_of_words_has_three_numbers_before_its_triples() {
        assert_eq!(format("2\n3\n2\n1 1 5\n2 3 1\n", "x"), FileFormat::Docword);
        assert_eq!(format("2\r\n3\r\n2\r\n1 1 5\r\n2 3 1\r\n", "x"), FileFormat::Docword);
        assert_eq!(format("\u{feff}2\n3\n2\n1 1 5\n2 3 1", "x"), FileFormat::Docword);
        assert_eq!(format("2\n3\n2\n1 1 5\n2 x 1\n", "x"), FileFormat::Docword, "the reader reports the bad line");
    }

    #[test]
    fn libsvm_has_pairs_after_a_label() {
        assert_eq!(format("+1 1:0.5 3:1\n-1 2:1\n", "x"), FileFormat::Libsvm);
        assert_eq!(format("1 qid:7 1:0.5 3:1 # best\n", "x"), FileFormat::Libsvm);
        assert_eq!(format("-1\n+1 4:1\n-1\n", "x"), FileFormat::Libsvm, "an example may have no features");
        assert_eq!(format("# a comment\n\n1 1:2\n", "x"), FileFormat::Libsvm);
        assert_eq!(format("1 1:2\r\n0 1:3\r\n", "x"), FileFormat::Libsvm);
        assert_eq!(format("1 1:2\n1 x:3\n", "x"), FileFormat::Libsvm, "the reader reports the bad line");
        assert_eq!(format("1 1:1\n1 2:1\n", "x"), FileFormat::Libsvm, "one label and one feature are no count");
        assert_eq!(format("2 1:1 2:1\n1 2:1\n", "x.svm"), FileFormat::Libsvm);
    }

    #[test]
    fn labels_alone_are_a_column_unless_the_name_says_otherwise() {
        assert_eq!(format("1\n-1\n1\n", "x.txt"), FileFormat::Csv);
        assert_eq!(format("1\n-1\n1\n", "x.libsvm.zst"), FileFormat::Libsvm);
        assert_eq!(format("1 2\n-1 3\n", "x.libsvm"), FileFormat::Csv);
    }

    #[test]
    fn ldac_counts_its_pairs() {
        assert_eq!(format("2 0:1 5:2\n3 1:1 2:1 3:1\n", "x"), FileFormat::Ldac);
        assert_eq!(format("2 1:1 5:2\n3 1:1 2:1 3:1\n", "x"), FileFormat::Ldac);
        assert_eq!(format("1 0:4\n1 7:1\n", "x"), FileFormat::Ldac, "an id of 0");
        assert_eq!(format("1 4:4\n1 7:1\n", "x.ldac"), FileFormat::Ldac);
        assert_eq!(format("2 1:1 5:2.5\n3 1:1 2:0.5 3:1\n", "x"), FileFormat::Libsvm, "counts are whole");
    }

    #[test]
    fn empty_lines_comments_marks_and_line_endings_do_not_matter() {
        assert_eq!(separator("\n\r\n# a, b: c\n1,2\n\n3,4", "x"), "`,`");
        assert_eq!(detect_format(b"# c\n1,2\n", true, "x".as_ref()).unwrap().comment, Some(b'#'));
        assert_eq!(separator("\u{feff}a,b\r\n1,2\r\n", "x"), "`,`");
        assert_eq!(detect_format(b"\n \n# only this\n", true, "x".as_ref()), Err(UnrecognizedFormat::Empty));
        assert_eq!(detect_format(b"", true, "x".as_ref()), Err(UnrecognizedFormat::Empty));
        assert_eq!(detect_format(b"\xef\xbb\xbf", true, "x".as_ref()), Err(UnrecognizedFormat::Empty));
    }

    #[test]
    fn a_truncated_line_is_not_counted() {
        let cut = detect_format(b"1 1:2 2:3\n1 7", false, "x".as_ref()).unwrap();
        assert_eq!(cut.format, FileFormat::Libsvm);
        let table = detect_format(b"1,2,3\n4,5", false, "x".as_ref()).unwrap();
        assert_eq!(table.evidence, "3 fields, separated by `,`, on 1 of 1 lines");
        assert_eq!(detect_format(b"1,2,3", false, "x".as_ref()).unwrap().format, FileFormat::Csv, "all there is");
    }

    #[test]
    fn prose_is_not_recognized_and_a_list_of_names_is_one_column() {
        let prose =
            "To be or not to be\nthat is the question:\nwhether 'tis nobler\nin the mind to suffer for\nslings\n";
        assert_eq!(detect_format(prose.as_bytes(), true, "x.txt".as_ref()), Err(UnrecognizedFormat::NoStructure));
        assert_eq!(separator(prose, "x.csv"), "white space");
        assert_eq!(separator("apple\npear\n", "vocab.txt"), "`,`");
    }

    #[test]
    fn names_are_understood_under_compression() {
        let of = |name: &str| FileFormat::of_name(name.as_ref());
        assert_eq!(of("a/docword.kos.txt.gz"), Some(FileFormat::Docword));
        assert_eq!(of("ratings.TSV.zst"), Some(FileFormat::Csv));
        assert_eq!(of("m.mtx.bz2"), Some(FileFormat::MatrixMarket));
        assert_eq!((of("train.txt"), of("train"), of("..")), (None, None, None));
        for format in FileFormat::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
    }
}
