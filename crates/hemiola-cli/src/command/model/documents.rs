//! Arguments for reading documents: for training, and for a trained topic model.

use super::train_args::must_exist;
use crate::error::CommandError;
use clap::{Args, ValueEnum};
use hemiola_array::read::InputFile;
use hemiola_array::read::lines::read_names;
use hemiola_models::lda::data::{CorpusFormat, CorpusReadOptions, DocumentUnit};
use hemiola_models::lda::{LdaModel, Tokenizer, VocabularyFilter};
use std::collections::BTreeSet;
use std::path::Path;

/// Format of files with documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DocumentFormat {
    /// UCI bag of words: `document word count` after three header lines.
    Docword,
    /// LIBSVM: `label word:count ..`; the label is ignored.
    Libsvm,
    /// LDA-C: `n word:count ..`.
    Ldac,
    /// Plain text, a document on each line or in each file.
    Text,
}

/// Extent of a document in text, for `--documents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DocumentUnitName {
    /// A document on each line.
    Lines,
    /// A document in each file, also of subfolders.
    Files,
}

/// Arguments for the format of documents.
#[derive(Args, Debug)]
pub(super) struct DocumentFileArgs {
    /// Vocabulary of a bag of words, one word per line [default: `vocab.NAME` beside
    /// `docword.NAME`, if it exists]
    #[arg(long, value_name = "FILE", help_heading = "Document format")]
    vocabulary: Option<String>,

    /// Format of the files [default: detected from the first one]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Document format")]
    format: Option<DocumentFormat>,

    /// Text: extent of a document [default: files in a folder of folders or of small files, else
    /// lines]
    #[arg(long, value_enum, value_name = "UNIT", help_heading = "Document format")]
    documents: Option<DocumentUnitName>,

    /// Tables (JSON lines, Parquet, Arrow): column whose texts are the documents.
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["documents", "format"], help_heading = "Document format")]
    text_column: Option<String>,

    /// Ids of LIBSVM files, of words or features, count from 0 [default: as in training]
    #[arg(long, help_heading = "Document format")]
    zero_based: bool,

    /// Skip up to N invalid lines of a bag of words.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Document format")]
    skip_bad_lines: u64,
}

/// Arguments that select the words to train on.
#[derive(Args, Debug)]
pub(super) struct VocabularyArgs {
    /// Stop words: `english`, `none`, or a file with one word per line [default: `english` for
    /// text, `none` for bags of words]
    #[arg(long, value_name = "FILE|english|none", help_heading = "Vocabulary")]
    stop_words: Option<String>,

    /// Minimum number of occurrences of a word [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Vocabulary")]
    min_count: Option<u64>,

    /// Minimum document frequency: number of documents that contain a word [default: 2 for text, 1
    /// for bags of words]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Vocabulary")]
    min_df: Option<u64>,

    /// Maximum document frequency: fraction of documents that contain a word [default: 1]
    #[arg(long, value_name = "FRACTION", help_heading = "Vocabulary")]
    max_df: Option<f64>,

    /// Text: minimum length of a word in letters.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Vocabulary")]
    min_length: u32,

    /// Text: keep words that consist of digits.
    #[arg(long, help_heading = "Vocabulary")]
    keep_numbers: bool,

    /// Text: terms of one to N adjacent words (`1-2`), instead of single words.
    #[arg(long, value_name = "N-N", default_value = "1-1", value_parser = ngrams, help_heading = "Vocabulary")]
    ngrams: (u32, u32),
}

impl DocumentFileArgs {
    /// Returns the options for reading `paths`, and checks that the vocabulary exists.
    pub(super) fn options(&self, paths: &[String]) -> anyhow::Result<CorpusReadOptions> {
        let beside = paths
            .first()
            .and_then(|path| vocabulary_beside(path))
            .filter(|_| self.corpus_format().is_none_or(|format| format == CorpusFormat::Docword));
        let vocabulary = self.vocabulary.clone().or(beside);
        if let Some(vocabulary) = &vocabulary {
            must_exist(vocabulary)?;
        }
        Ok(CorpusReadOptions {
            format: self.corpus_format(),
            vocabulary,
            zero_based: self.zero_based,
            skip_bad_lines: self.skip_bad_lines,
            units: self.documents.map(|unit| match unit {
                DocumentUnitName::Lines => DocumentUnit::Line,
                DocumentUnitName::Files => DocumentUnit::File,
            }),
            text_column: self.text_column.clone(),
            ..CorpusReadOptions::default()
        })
    }

    /// Returns the options for a trained model. A vocabulary found beside the data is ignored if
    /// the model has no words.
    pub(super) fn options_for(&self, paths: &[String], model: &LdaModel) -> anyhow::Result<CorpusReadOptions> {
        let mut options = self.options(paths)?;
        if model.vocabulary().terms().is_none() {
            options.vocabulary.clone_from(&self.vocabulary);
        }
        Ok(options)
    }

    /// Returns the name of a flag that was given, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--vocabulary", self.vocabulary.is_some()),
            ("--format", self.format.is_some()),
            ("--documents", self.documents.is_some()),
            ("--text-column", self.text_column.is_some()),
            ("--skip-bad-lines", self.skip_bad_lines > 0),
            ("--zero-based", self.zero_based),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Returns the column of texts, if tables are read.
    pub(super) fn text_column(&self) -> Option<&str> {
        self.text_column.as_deref()
    }

    /// Returns true if the extent of a document was given.
    pub(super) fn units_are_given(&self) -> bool {
        self.documents.is_some()
    }

    /// Returns true if ids count from 0 by flag.
    pub(super) fn zero_based(&self) -> bool {
        self.zero_based
    }

    fn corpus_format(&self) -> Option<CorpusFormat> {
        self.format.map(|format| match format {
            DocumentFormat::Docword => CorpusFormat::Docword,
            DocumentFormat::Libsvm => CorpusFormat::Libsvm,
            DocumentFormat::Ldac => CorpusFormat::Ldac,
            DocumentFormat::Text => CorpusFormat::Text,
        })
    }

    /// Returns the vocabulary file that was found beside the data, if it is used.
    pub(super) fn detected_vocabulary<'a>(&self, options: &'a CorpusReadOptions) -> Option<&'a str> {
        options.vocabulary.as_deref().filter(|_| self.vocabulary.is_none())
    }
}

/// Parses the numbers of words of a term: `1-2`, or `2` for pairs alone.
pub(super) fn ngrams(text: &str) -> Result<(u32, u32), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.trim().parse(), most.trim().parse()) {
        (Ok(least), Ok(most)) if (1..=most).contains(&least) && most <= 8 => Ok((least, most)),
        _ => Err("give the smallest and the largest number of words, such as `1-2`, from 1 to 8".to_owned()),
    }
}

/// Returns the vocabulary file beside a bag of words, if it exists.
fn vocabulary_beside(pattern: &str) -> Option<String> {
    let path = Path::new(pattern);
    let rest = path.file_name()?.to_str()?.strip_prefix("docword.")?;
    let plain = [".gz", ".zst", ".bz2"].iter().find_map(|ending| rest.strip_suffix(ending)).unwrap_or(rest);
    let found = [plain, rest].into_iter().map(|rest| path.with_file_name(format!("vocab.{rest}")));
    found.into_iter().find(|path| path.is_file())?.into_os_string().into_string().ok()
}

impl VocabularyArgs {
    /// Adds tokenizer, stop words and frequency filter to the options.
    pub(super) fn apply(&self, mut options: CorpusReadOptions) -> anyhow::Result<CorpusReadOptions> {
        let stop_words = match self.stop_words.as_deref() {
            None | Some("english") => None,
            Some("none") => Some(BTreeSet::new()),
            Some(file) => Some(read_word_list(file)?),
        };
        let english = Tokenizer::default().stop_words;
        // By default a bag of words has no stop words.
        options.stop_words = match (&self.stop_words, &stop_words) {
            (None, _) => BTreeSet::new(),
            (Some(_), Some(list)) => list.clone(),
            (Some(_), None) => english.clone(),
        };
        options.tokenizer = Some(Tokenizer {
            numbers: self.keep_numbers,
            shortest: self.min_length,
            stop_words: stop_words.unwrap_or(english),
            ngrams: self.ngrams,
        });
        let Self { min_count, min_df, max_df, .. } = *self;
        options.filter = VocabularyFilter { min_count, min_documents: min_df, max_share: max_df };
        options.filter.check().map_err(hemiola_cluster::Error::from)?;
        Ok(options)
    }
}

/// Reads the words of a file, in lower case.
fn read_word_list(file: &str) -> anyhow::Result<BTreeSet<String>> {
    must_exist(file)?;
    let names = InputFile::open(file).and_then(|source| read_names(&source));
    let names = names.map_err(|error| CommandError::array(&error, "a list of stop words has one word per line"))?;
    Ok(names.iter().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect())
}
