//! Arguments for reading documents: for training, and for a trained topic model.

use super::train_args::must_exist;
use crate::error::CommandError;
use clap::{Args, ValueEnum};
use hemiola_array::read::InputFile;
use hemiola_array::read::lines::read_names;
use hemiola_models::lda::data::{CorpusFormat, CorpusReadOptions};
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
    /// Plain text, a document on each line.
    Text,
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
}

impl DocumentFileArgs {
    /// Returns the options for reading `pattern`, and checks that the vocabulary exists.
    pub(super) fn options(&self, pattern: Option<&str>) -> anyhow::Result<CorpusReadOptions> {
        let beside = pattern
            .and_then(vocabulary_beside)
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
            ..CorpusReadOptions::default()
        })
    }

    /// Returns the options for a trained model. A vocabulary found beside the data is ignored if
    /// the model has no words.
    pub(super) fn options_for(&self, pattern: &str, model: &LdaModel) -> anyhow::Result<CorpusReadOptions> {
        let mut options = self.options(Some(pattern))?;
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
            ("--skip-bad-lines", self.skip_bad_lines > 0),
            ("--zero-based", self.zero_based),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
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
