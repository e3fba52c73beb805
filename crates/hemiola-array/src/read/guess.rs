//! Which format a file has, told from its first bytes and its name.
//!
//! [`guess`] is a pure function: whoever has the beginning of a file can ask, and every peer that sees the same bytes gets
//! the same answer. Contents come first and the name second, because names lie and compressed files have two endings; the
//! name decides only where contents fit two formats alike.
//!
//! **Invariant:** a guess never fails a file for a few bad lines. A format is taken if at least half of the lines looked at
//! fit it, so that the format's own reader gets to say what is wrong with the others, by line and column.
//!
//! In this order:
//!
//! 1. first bytes: numpy, Parquet, Arrow IPC, `%%MatrixMarket`;
//! 2. `number index:value ...` on the lines: LDA-C if each number counts the pairs after it, else LIBSVM;
//! 3. three lines with a single whole number, then lines with three: UCI bag of words;
//! 4. otherwise separated values, by the separator that gives most lines the same number of fields, two or more.

use super::field::{Fields, NonFinite, Separator};
use super::number;
use super::pass::first_line;
use super::source::Source;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// How much of a file is worth looking at.
const HEAD: usize = 256 * 1024;
/// How many lines of that.
const LINES: usize = 100;

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// Separated values, by [`Csv`](super::Csv).
    Csv,
    /// `label index:value ...`, by [`Libsvm`](super::Libsvm).
    Libsvm,
    /// UCI bag of words, by [`Docword`](super::Docword).
    Docword,
    /// `count id:count ...`, by [`Ldac`](super::Ldac).
    Ldac,
    /// By [`MatrixMarket`](super::MatrixMarket).
    MatrixMarket,
    /// By [`Npy`](super::Npy).
    Npy,
    /// By `Columnar`, with the feature `arrow`.
    Parquet,
    /// By `Columnar`, with the feature `arrow`.
    Arrow,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Csv, Self::Libsvm, Self::Docword, Self::Ldac, Self::MatrixMarket, Self::Npy, Self::Parquet, Self::Arrow];

    /// The name a user writes: `matrix-market`.
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
        }
    }

    /// The format that a file's name speaks for, under any ending of a compression.
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
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// What a file seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The format.
    pub format: Format,
    /// What stands between fields; only for [`Format::Csv`].
    pub separator: Option<Separator>,
    /// What lines that are comments begin with; only for [`Format::Csv`], if there are any.
    pub comment: Option<u8>,
    /// What spoke for it, to be shown to people: `its first bytes`.
    pub evidence: String,
}

/// Why a file seems to be nothing that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrecognized {
    /// There is no record to look at.
    #[error("it has no line with a record")]
    Empty,
    /// Text of another encoding.
    #[error("it is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
    /// Not text.
    #[error("it is neither text nor a numpy, Parquet or Arrow file")]
    Binary,
    /// A format that is not read line by line, where lines are needed.
    #[error("it is in the format {0}, and lines of text are expected")]
    NotLines(Format),
    /// Text without fields.
    #[error("its lines have no common structure")]
    NoStructure,
}

/// Guesses from the beginning of a decoded file, which is `whole` if there is no more, and its name.
///
/// ```
/// use hemiola_array::read::guess::{Format, guess};
/// let ratings = guess(b"user::item::rating\n1::10::4.5\n", true, "ratings.dat".as_ref()).unwrap();
/// assert_eq!(ratings.separator.unwrap().to_string(), "`::`");
/// let examples = guess(b"+1 3:0.5 7:1\n-1 2:1\n", true, "train".as_ref()).unwrap();
/// assert_eq!(examples.format, Format::Libsvm);
/// ```
pub fn guess(head: &[u8], whole: bool, name: &Path) -> Result<Guess, Unrecognized> {
    let told =
        |format, evidence: &str| Ok(Guess { format, separator: None, comment: None, evidence: evidence.to_owned() });
    if let Some(format) = by_first_bytes(head) {
        return told(format, "its first bytes");
    }
    let lines = Lines::of(head, whole)?;
    if head.get(..14).is_some_and(|start| start.eq_ignore_ascii_case(b"%%MatrixMarket")) {
        return told(Format::MatrixMarket, "`%%MatrixMarket` at its beginning");
    }
    let named = Format::of_name(name);
    if let Some(guess) = lines.as_pairs(named) {
        return Ok(guess);
    }
    if lines.are_docword(named) {
        return told(Format::Docword, "three lines with one whole number each, then lines with three");
    }
    lines.as_table(name)
}

/// Guesses the separator of a file that is known to hold separated values.
pub fn guess_separator(head: &[u8], whole: bool, name: &Path) -> Result<Guess, Unrecognized> {
    if let Some(format) = by_first_bytes(head) {
        return Err(Unrecognized::NotLines(format));
    }
    Lines::of(head, whole)?.as_table(name)
}

/// The format of a file that is not text.
fn by_first_bytes(head: &[u8]) -> Option<Format> {
    let magic = [(&b"\x93NUMPY"[..], Format::Npy), (b"PAR1", Format::Parquet), (b"ARROW1", Format::Arrow)];
    magic.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| format)
}

impl Guess {
    /// Guesses from a file.
    pub fn of(source: &Source) -> Result<Self> {
        Self::with(source, guess)
    }

    /// Guesses the separator of a file that is known to hold separated values.
    pub fn separator_of(source: &Source) -> Result<Self> {
        Self::with(source, guess_separator)
    }

    fn with(source: &Source, guess: fn(&[u8], bool, &Path) -> Result<Self, Unrecognized>) -> Result<Self> {
        let mut head = vec![0; HEAD];
        let length = source.reader()?.fill(&mut head)?;
        guess(&head[..length], length < HEAD, source.path()).map_err(|problem| match problem {
            Unrecognized::Empty => Error::EmptyInput { file: source.path().to_owned() },
            problem => Error::BadFile { file: source.path().to_owned(), problem: problem.to_string() },
        })
    }
}

/// The first lines that are neither empty nor comments.
struct Lines<'a> {
    lines: Vec<&'a [u8]>,
    /// Whether lines were left out because they begin with `#`.
    comments: bool,
}

impl<'a> Lines<'a> {
    fn of(head: &'a [u8], whole: bool) -> Result<Self, Unrecognized> {
        if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            return Err(Unrecognized::Utf16);
        }
        if memchr::memchr(0, head).is_some() {
            return Err(Unrecognized::Binary);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let (mut lines, mut comments, mut at) = (Vec::new(), false, 0);
        while at < text.len() && lines.len() < LINES {
            let (line, taken) = first_line(&text[at..]);
            at += taken;
            // A line that the head cuts off may be anything, unless it is all there is.
            if at == text.len() && !whole && !text.ends_with(b"\n") && !lines.is_empty() {
                break;
            }
            comments |= line.starts_with(b"#");
            if !line.trim_ascii().is_empty() && !line.starts_with(b"#") {
                lines.push(line);
            }
        }
        if lines.is_empty() { Err(Unrecognized::Empty) } else { Ok(Self { lines, comments }) }
    }

    /// `number index:value ...`.
    fn as_pairs(&self, named: Option<Format>) -> Option<Guess> {
        let told = |format, evidence: String| Some(Guess { format, separator: None, comment: None, evidence });
        let parsed: Vec<Option<PairLine>> = self.lines.iter().map(|line| PairLine::of(line)).collect();
        let fitting: Vec<PairLine> = parsed.iter().copied().flatten().collect();
        let most = 2 * fitting.len() >= self.lines.len();
        if !most {
            return None;
        }
        if fitting.iter().all(|line| line.pairs == 0) {
            // Nothing but numbers: a column of them, unless the name says that they are labels.
            let named = named.filter(|format| matches!(format, Format::Libsvm | Format::Ldac))?;
            return told(named, "numbers on its lines, and its name".to_owned());
        }
        let counted = fitting.iter().filter(|line| line.counted).count();
        if 2 * counted >= fitting.len() && named != Some(Format::Libsvm) {
            // One label for all and as many pairs as it says: too common by chance, but for an id of 0.
            let varied = fitting.iter().any(|line| line.pairs != fitting[0].pairs);
            if varied || named == Some(Format::Ldac) || fitting.iter().any(|line| line.zero) {
                return told(Format::Ldac, "`count id:count ...` on its lines, where each count is right".to_owned());
            }
        }
        told(Format::Libsvm, "`label index:value ...` on its lines".to_owned())
    }

    fn are_docword(&self, named: Option<Format>) -> bool {
        let [documents, words, entries, body @ ..] = self.lines.as_slice() else { return false };
        let single = |line: &[u8]| whole_numbers(line).filter(|numbers| numbers.len() == 1);
        let header = [documents, words, entries].map(|line| single(line));
        if header.iter().any(Option::is_none) {
            return false;
        }
        let fitting = body.iter().filter(|line| whole_numbers(line).is_some_and(|numbers| numbers.len() == 3)).count();
        if body.is_empty() { named == Some(Format::Docword) } else { 2 * fitting >= body.len() }
    }

    fn as_table(&self, name: &Path) -> Result<Guess, Unrecognized> {
        let comment = self.comments.then_some(b'#');
        let told =
            |separator, evidence| Ok(Guess { format: Format::Csv, separator: Some(separator), comment, evidence });
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
                told(separator, evidence)
            }
            None => {
                let tab = name.to_string_lossy().contains(".tsv");
                told(Separator::Byte(if tab { b'\t' } else { b',' }), "one field on every line".to_owned())
            }
            Some((_, _, separator)) if Format::of_name(name) == Some(Format::Csv) => {
                told(separator, "its name".to_owned())
            }
            Some(_) => Err(Unrecognized::NoStructure),
        }
    }

    /// How many lines have the most frequent number of fields of those with two and more, and that number.
    fn agreement(&self, separator: &Separator) -> Option<(usize, usize)> {
        let counts: Vec<usize> = self.lines.iter().map(|line| count_fields(line, separator)).collect();
        let several = counts.iter().copied().filter(|&count| count > 1);
        let agreeing = |fields: usize| counts.iter().filter(|&&count| count == fields).count();
        several.map(|fields| (agreeing(fields), fields)).max()
    }
}

/// 0 if quotes are wrong.
fn count_fields(line: &[u8], separator: &Separator) -> usize {
    let mut fields = Fields::new(line, separator, NonFinite::Keep, true);
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

/// A line of LIBSVM or LDA-C.
#[derive(Clone, Copy)]
struct PairLine {
    pairs: usize,
    /// Whether the line begins with the number of its pairs, which are of whole numbers.
    counted: bool,
    /// Whether an index is 0.
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
    //! Every format, and every pair of formats that look alike.

    use super::*;

    fn format(text: impl AsRef<[u8]>, name: &str) -> Format {
        guess(text.as_ref(), true, name.as_ref()).unwrap().format
    }

    /// The separator of what must be a table.
    fn separator(text: impl AsRef<[u8]>, name: &str) -> String {
        let guess = guess(text.as_ref(), true, name.as_ref()).unwrap();
        assert_eq!(guess.format, Format::Csv);
        guess.separator.unwrap().to_string()
    }

    #[test]
    fn binary_files_are_told_by_their_first_bytes() {
        assert_eq!(format(b"\x93NUMPY\x01\x00\x76\x00{", "x.csv"), Format::Npy);
        assert_eq!(format(b"PAR1\x00\x00", "x"), Format::Parquet);
        assert_eq!(format(b"ARROW1\x00\x00", "x"), Format::Arrow);
        assert_eq!(guess(b"\x00\x01\x02", true, "x".as_ref()), Err(Unrecognized::Binary));
        assert_eq!(guess(b"\xff\xfe1\x00", true, "x".as_ref()), Err(Unrecognized::Utf16));
    }

    #[test]
    fn matrix_market_has_a_banner() {
        assert_eq!(
            format("%%MatrixMarket matrix coordinate real general\n% c\n1 1 1\n1 1 2\n", "x"),
            Format::MatrixMarket
        );
        assert_eq!(format("%%matrixmarket matrix array real general\n1 1\n2\n", "x"), Format::MatrixMarket);
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
        // The body of a bag of words without its header is a table of three columns.
        assert_eq!(separator("1 2 1\n1 3 2\n2 3 1\n", "docword.x.txt"), "white space");
    }

    #[test]
    fn one_column_of_whole_numbers_is_a_table_and_no_bag_of_words() {
        assert_eq!(format("5\n6\n7\n8\n9\n", "x"), Format::Csv);
        assert_eq!(format("5\n6\n7\n", "x"), Format::Csv);
        assert_eq!(format("5\n6\n0\n", "docword.none.txt"), Format::Docword);
    }

    #[test]
    fn a_bag_of_words_has_three_numbers_before_its_triples() {
        assert_eq!(format("2\n3\n2\n1 1 5\n2 3 1\n", "x"), Format::Docword);
        assert_eq!(format("2\r\n3\r\n2\r\n1 1 5\r\n2 3 1\r\n", "x"), Format::Docword);
        assert_eq!(format("\u{feff}2\n3\n2\n1 1 5\n2 3 1", "x"), Format::Docword);
        assert_eq!(format("2\n3\n2\n1 1 5\n2 x 1\n", "x"), Format::Docword, "a bad line is the reader's to refuse");
    }

    #[test]
    fn libsvm_has_pairs_after_a_label() {
        assert_eq!(format("+1 1:0.5 3:1\n-1 2:1\n", "x"), Format::Libsvm);
        assert_eq!(format("1 qid:7 1:0.5 3:1 # best\n", "x"), Format::Libsvm);
        assert_eq!(format("-1\n+1 4:1\n-1\n", "x"), Format::Libsvm, "an example may have no features");
        assert_eq!(format("# made by us\n\n1 1:2\n", "x"), Format::Libsvm);
        assert_eq!(format("1 1:2\r\n0 1:3\r\n", "x"), Format::Libsvm);
        assert_eq!(format("1 1:2\n1 x:3\n", "x"), Format::Libsvm, "a bad line is the reader's to refuse");
        assert_eq!(format("1 1:1\n1 2:1\n", "x"), Format::Libsvm, "one label and one feature are no count");
        assert_eq!(format("2 1:1 2:1\n1 2:1\n", "x.svm"), Format::Libsvm);
    }

    #[test]
    fn labels_alone_are_a_column_unless_the_name_says_otherwise() {
        assert_eq!(format("1\n-1\n1\n", "x.txt"), Format::Csv);
        assert_eq!(format("1\n-1\n1\n", "x.libsvm.zst"), Format::Libsvm);
        assert_eq!(format("1 2\n-1 3\n", "x.libsvm"), Format::Csv);
    }

    #[test]
    fn ldac_counts_its_pairs() {
        assert_eq!(format("2 0:1 5:2\n3 1:1 2:1 3:1\n", "x"), Format::Ldac);
        assert_eq!(format("2 1:1 5:2\n3 1:1 2:1 3:1\n", "x"), Format::Ldac);
        assert_eq!(format("1 0:4\n1 7:1\n", "x"), Format::Ldac, "an id of 0");
        assert_eq!(format("1 4:4\n1 7:1\n", "x.ldac"), Format::Ldac);
        assert_eq!(format("2 1:1 5:2.5\n3 1:1 2:0.5 3:1\n", "x"), Format::Libsvm, "counts are whole");
    }

    #[test]
    fn empty_lines_comments_marks_and_line_endings_do_not_matter() {
        assert_eq!(separator("\n\r\n# a, b: c\n1,2\n\n3,4", "x"), "`,`");
        assert_eq!(guess(b"# c\n1,2\n", true, "x".as_ref()).unwrap().comment, Some(b'#'));
        assert_eq!(separator("\u{feff}a,b\r\n1,2\r\n", "x"), "`,`");
        assert_eq!(guess(b"\n \n# only this\n", true, "x".as_ref()), Err(Unrecognized::Empty));
        assert_eq!(guess(b"", true, "x".as_ref()), Err(Unrecognized::Empty));
        assert_eq!(guess(b"\xef\xbb\xbf", true, "x".as_ref()), Err(Unrecognized::Empty));
    }

    #[test]
    fn a_line_that_the_head_cuts_off_is_not_counted() {
        let cut = guess(b"1 1:2 2:3\n1 7", false, "x".as_ref()).unwrap();
        assert_eq!(cut.format, Format::Libsvm);
        let table = guess(b"1,2,3\n4,5", false, "x".as_ref()).unwrap();
        assert_eq!(table.evidence, "3 fields, separated by `,`, on 1 of 1 lines");
        assert_eq!(guess(b"1,2,3", false, "x".as_ref()).unwrap().format, Format::Csv, "all there is");
    }

    #[test]
    fn prose_is_nothing_and_a_list_of_names_is_one_column() {
        let prose =
            "To be or not to be\nthat is the question:\nwhether 'tis nobler\nin the mind to suffer for\nslings\n";
        assert_eq!(guess(prose.as_bytes(), true, "x.txt".as_ref()), Err(Unrecognized::NoStructure));
        assert_eq!(separator(prose, "x.csv"), "white space");
        assert_eq!(separator("apple\npear\n", "vocab.txt"), "`,`");
    }

    #[test]
    fn names_are_understood_under_compression() {
        let of = |name: &str| Format::of_name(name.as_ref());
        assert_eq!(of("a/docword.kos.txt.gz"), Some(Format::Docword));
        assert_eq!(of("ratings.TSV.zst"), Some(Format::Csv));
        assert_eq!(of("m.mtx.bz2"), Some(Format::MatrixMarket));
        assert_eq!((of("train.txt"), of("train"), of("..")), (None, None, None));
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
    }
}
