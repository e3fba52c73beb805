//! How documents are read, as it is typed: for training, and for a model that was trained before.

use super::train_args::must_exist;
use crate::error::CommandError;
use clap::{Args, ValueEnum};
use hemiola_array::read::InputFile;
use hemiola_array::read::lines::read_names;
use hemiola_models::lda::data::{CorpusFormat, CorpusReadOptions};
use hemiola_models::lda::{LdaModel, Tokenizer, VocabularyFilter};
use std::collections::BTreeSet;
use std::path::Path;

/// What files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DocumentFormat {
    /// UCI bag of words: `document word count` after three lines of sizes.
    Docword,
    /// `label word:count ..`; the label is not looked at.
    Libsvm,
    /// LDA-C: `n word:count ..`.
    Ldac,
    /// Plain text, a document on each line.
    Text,
}

/// How files with documents are read.
#[derive(Args, Debug)]
pub(super) struct DocumentFileArgs {
    /// A file with the name of a word on each line, for bags of words. Default: `vocab.NAME` beside `docword.NAME`, if it is there.
    #[arg(long, value_name = "FILE", help_heading = "How documents are read")]
    vocabulary: Option<String>,

    /// What the files hold. Default: what the first one shows; what is no bag of words is text.
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "How documents are read")]
    format: Option<DocumentFormat>,

    /// Words of LIBSVM text are counted from 0.
    #[arg(long, help_heading = "How documents are read")]
    zero_based: bool,

    /// Leave out up to this many lines of a bag of words that cannot be read.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "How documents are read")]
    skip_bad_lines: u64,
}

/// Which words are learned from.
#[derive(Args, Debug)]
pub(super) struct VocabularyArgs {
    /// Words that do not count: `english`, `none`, or a file with one on each line. Default: english for text, none for bags of words.
    #[arg(long, value_name = "FILE|english|none", help_heading = "Which words count")]
    stop_words: Option<String>,

    /// Words occur so many times at least. Default: 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Which words count")]
    min_count: Option<u64>,

    /// Words occur in so many documents at least. Default: 2 for text, 1 for bags of words.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Which words count")]
    min_documents: Option<u64>,

    /// Words occur in at most this share of documents. Default: 1.
    #[arg(long, value_name = "SHARE", help_heading = "Which words count")]
    max_share: Option<f64>,

    /// Text: words have so many letters at least.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Which words count")]
    min_length: u32,

    /// Text: words of digits alone count, too.
    #[arg(long, help_heading = "Which words count")]
    numbers: bool,
}

impl DocumentFileArgs {
    /// For `pattern`, with files that must be there.
    pub(super) fn options(&self, pattern: Option<&str>) -> anyhow::Result<CorpusReadOptions> {
        let beside =
            pattern.and_then(beside).filter(|_| self.holds().is_none_or(|format| format == CorpusFormat::Docword));
        let vocabulary = self.vocabulary.clone().or(beside);
        if let Some(vocabulary) = &vocabulary {
            must_exist(vocabulary)?;
        }
        Ok(CorpusReadOptions {
            format: self.holds(),
            vocabulary,
            zero_based: self.zero_based,
            skip_bad_lines: self.skip_bad_lines,
            ..CorpusReadOptions::default()
        })
    }

    /// The same for a model that was trained before. Names that nobody asked for are of no use to one that knows none.
    pub(super) fn options_for(&self, pattern: &str, model: &LdaModel) -> anyhow::Result<CorpusReadOptions> {
        let mut options = self.options(Some(pattern))?;
        if model.vocabulary().terms().is_none() {
            options.vocabulary.clone_from(&self.vocabulary);
        }
        Ok(options)
    }

    /// An error if anything is said of documents, for models that are of something else.
    pub(super) fn must_not_be_given(&self) -> anyhow::Result<()> {
        let flags = [
            ("--vocabulary", self.vocabulary.is_some()),
            ("--format", self.format.is_some()),
            ("--zero-based", self.zero_based),
            ("--skip-bad-lines", self.skip_bad_lines > 0),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let message = format!("`{flag}` is for documents of topic models, and this model is of something else");
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            None => Ok(()),
        }
    }

    fn holds(&self) -> Option<CorpusFormat> {
        self.format.map(|format| match format {
            DocumentFormat::Docword => CorpusFormat::Docword,
            DocumentFormat::Libsvm => CorpusFormat::Libsvm,
            DocumentFormat::Ldac => CorpusFormat::Ldac,
            DocumentFormat::Text => CorpusFormat::Text,
        })
    }

    /// The names of words that were not asked for, but taken.
    pub(super) fn taken<'a>(&self, options: &'a CorpusReadOptions) -> Option<&'a str> {
        options.vocabulary.as_deref().filter(|_| self.vocabulary.is_none())
    }
}

/// The vocabulary that lies beside a bag of words, if one does.
fn beside(pattern: &str) -> Option<String> {
    let path = Path::new(pattern);
    let rest = path.file_name()?.to_str()?.strip_prefix("docword.")?;
    let plain = [".gz", ".zst", ".bz2"].iter().find_map(|ending| rest.strip_suffix(ending)).unwrap_or(rest);
    let found = [plain, rest].into_iter().map(|rest| path.with_file_name(format!("vocab.{rest}")));
    found.into_iter().find(|path| path.is_file())?.into_os_string().into_string().ok()
}

impl VocabularyArgs {
    /// Adds what is said of words.
    pub(super) fn complete(&self, mut options: CorpusReadOptions) -> anyhow::Result<CorpusReadOptions> {
        let stop_words = match self.stop_words.as_deref() {
            None | Some("english") => None,
            Some("none") => Some(BTreeSet::new()),
            Some(file) => Some(listed(file)?),
        };
        let english = Tokenizer::default().stop_words;
        // Where nobody asks for it, nothing is taken from a bag of words.
        options.stop_words = match (&self.stop_words, &stop_words) {
            (None, _) => BTreeSet::new(),
            (Some(_), Some(list)) => list.clone(),
            (Some(_), None) => english.clone(),
        };
        options.tokenizer = Some(Tokenizer {
            numbers: self.numbers,
            shortest: self.min_length,
            stop_words: stop_words.unwrap_or(english),
        });
        let Self { min_count, min_documents, max_share, .. } = *self;
        options.filter = VocabularyFilter { min_count, min_documents, max_share };
        options.filter.check().map_err(hemiola_cluster::Error::from)?;
        Ok(options)
    }
}

/// The words of a file, in lower case.
fn listed(file: &str) -> anyhow::Result<BTreeSet<String>> {
    must_exist(file)?;
    let names = InputFile::open(file).and_then(|source| read_names(&source));
    let names = names.map_err(|error| CommandError::array(&error, "a list of stop words has one on each line"))?;
    Ok(names.iter().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect())
}
