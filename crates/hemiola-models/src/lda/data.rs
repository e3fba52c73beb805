//! Reading documents: bags of words or plain text; and generating synthetic ones.
//!
//! | format | a document is | words are |
//! |---|---|---|
//! | `docword` (UCI) | all lines `document word count` with its number | numbers from 1; names from a vocabulary file |
//! | `libsvm` | a line `label word:count ..`; the label is ignored | numbers from 1, or from 0 with `zero_based` |
//! | `ldac` (LDA-C) | a line `n word:count ..` | numbers from 0 |
//! | `text` | a line, or a file | found by a [`Tokenizer`], numbered by frequency |
//!
//! Files may be compressed or remote, like all files read into arrays. Bags of words keep their
//! word ids whatever is filtered, so that a model can be used with files of the same ids.

use super::corpus::{BagOfWords, Corpus};
use super::corpus_files::{CorpusFiles, detect};
use super::model::LdaModel;
use super::text;
use super::tokenizer::Tokenizer;
use super::vocabulary::LdaVocabulary;
use super::vocabulary_filter::{FilteredWords, VocabularyFilter, select};
use crate::Error;
use hemiola_array::BadLine;
use hemiola_array::ReadExt;
use hemiola_array::read::lines::{check_vocabulary, read_names};
use hemiola_array::read::{InputFile, InputPaths, Ldac, Libsvm};
use hemiola_array::synthetic::SyntheticLda;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Counts from here on are not exact in the `f32` values that LIBSVM and LDA-C text are read into.
const TOO_LARGE: f32 = 16_777_216.0;
/// Length, vocabulary size and number of topics of synthetic documents.
const SYNTHETIC: (usize, usize, usize) = (100, 2000, 20);

/// File format of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CorpusFormat {
    /// UCI bag of words: lines `document word count`.
    Docword,
    /// LIBSVM: lines `label word:count ..`.
    Libsvm,
    /// LDA-C: lines `n word:count ..`.
    Ldac,
    /// Plain text, one document per line.
    Text,
}

impl fmt::Display for CorpusFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Docword => "docword",
            Self::Libsvm => "libsvm",
            Self::Ldac => "ldac",
            Self::Text => "text",
        })
    }
}

/// Extent of a document in files of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DocumentUnit {
    /// A document is a line.
    Line,
    /// A document is a file, also in subfolders.
    File,
}

/// Options for reading a corpus.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CorpusReadOptions {
    /// File format; `None` detects it from the first file. Anything that is no bag of words is
    /// text.
    pub format: Option<CorpusFormat>,
    /// Bags of words: file with one word per line.
    pub vocabulary: Option<String>,
    /// LIBSVM: whether word ids are counted from 0 instead of 1.
    pub zero_based: bool,
    /// Bags of words: maximum number of malformed lines to skip.
    pub skip_bad_lines: u64,
    /// Text: extent of a document; `None` decides by the files.
    pub units: Option<DocumentUnit>,
    /// Tables (JSON lines, Parquet, Arrow IPC): column of texts, a document each.
    pub text_column: Option<String>,
    /// Text: tokenizer; `None` uses the default.
    pub tokenizer: Option<Tokenizer>,
    /// Bags of words with a vocabulary: words to drop.
    pub stop_words: BTreeSet<String>,
    /// Word filter. Default: all words of bags of words, and words of text that occur in at least
    /// two documents.
    pub filter: VocabularyFilter,
}

/// Corpus read for training.
#[derive(Clone, Debug)]
pub struct LoadedCorpus {
    /// Documents of this peer.
    pub corpus: Corpus,
    /// Format of the files.
    pub format: CorpusFormat,
    /// Words dropped by the filter.
    pub filtered: FilteredWords,
    /// Number of vocabulary words that never occur: they are kept, without topics.
    pub unused: u64,
    /// Malformed lines that were skipped.
    pub skipped: Vec<BadLine>,
    /// Extent of a document in text.
    pub units: DocumentUnit,
}

/// Corpus mapped to the vocabulary of an existing model.
#[derive(Clone, Debug)]
pub struct MappedCorpus {
    /// Documents of this peer, over the vocabulary of the model.
    pub corpus: Corpus,
    /// For each document of this peer, the number of tokens unknown to the model, which are
    /// dropped.
    pub unseen: Vec<u64>,
    /// Malformed lines that were skipped.
    pub skipped: Vec<BadLine>,
}

/// *Collective.* Reads documents for training.
///
/// ```
/// use hemiola_models::lda::data;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("logs.txt");
/// std::fs::write(&path, "The ship left the harbour.\nA storm hit the ship in the harbour\n").unwrap();
/// # let path = path.to_str().unwrap();
/// hemiola::standalone(2).run(|cluster| {
///     let documents = data::read(cluster, &data::CorpusReadOptions::default(), path)?;
///     let words: Vec<&str> = documents.corpus.vocabulary().terms().unwrap().iter().map(|word| &**word).collect();
///     assert_eq!(words, ["harbour", "ship"]);
///     assert_eq!(documents.corpus.documents(), 2);
///     assert_eq!(documents.filtered.words, 3); // left, storm, hit: in one document only
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
pub fn read(cluster: &Cluster, options: &CorpusReadOptions, paths: impl Into<InputPaths>) -> Result<LoadedCorpus> {
    let CorpusFiles { format, sources, units } = detect(cluster, options, &paths.into())?;
    let filter = options.filter.or(match format {
        CorpusFormat::Text => VocabularyFilter::of_text(),
        _ => VocabularyFilter::all(),
    });
    filter.check()?;
    let (corpus, filtered, skipped) = if format == CorpusFormat::Text {
        let tokenizer = options.tokenizer.clone().unwrap_or_default();
        let (corpus, filtered) = text::read(cluster, &tokenizer, &filter, &sources)?;
        (corpus, filtered, Vec::new())
    } else {
        let (array, skipped) = bags(cluster, options, format, sources)?;
        let vocabulary = if let Some(file) = &options.vocabulary {
            LdaVocabulary::named(names(cluster, file, array.words())?)
        } else {
            let words = u32::try_from(array.words());
            let word = array.words();
            let too_many = |_| Error::WordOutOfRange { document: 0, word, words: u32::MAX as usize };
            LdaVocabulary::numbered(words.map_err(too_many)?)
        };
        let vocabulary = vocabulary.with_zero_based(format == CorpusFormat::Libsvm && options.zero_based);
        if vocabulary.terms().is_none() && !options.stop_words.is_empty() {
            return Err(Error::StopWordsWithoutVocabulary.into());
        }
        let (corpus, _) = array.to_corpus(cluster, Arc::new(vocabulary), |word| Some(word as u32))?;
        let (corpus, filtered) = select(cluster, corpus, &filter, &options.stop_words)?;
        (corpus, filtered, skipped)
    };
    let (tokens, unused) = used(cluster, &corpus)?;
    if tokens == 0 {
        return Err(Error::NoTokens.into());
    }
    Ok(LoadedCorpus { corpus, format, filtered, unused, skipped, units })
}

/// *Collective.* Reads documents for a model. Text is tokenized as in training. Bags of words have
/// the model's word ids, or names that it knows if there is a vocabulary file.
pub fn read_for_model(
    cluster: &Cluster,
    options: &CorpusReadOptions,
    paths: impl Into<InputPaths>,
    model: &LdaModel,
) -> Result<MappedCorpus> {
    read_with_vocabulary(cluster, options, paths, model.vocabulary())
}

/// *Collective.* Reads documents over the vocabulary of another corpus, such as a validation set.
pub fn read_with_vocabulary(
    cluster: &Cluster,
    options: &CorpusReadOptions,
    paths: impl Into<InputPaths>,
    vocabulary: &Arc<LdaVocabulary>,
) -> Result<MappedCorpus> {
    let CorpusFiles { format, sources, .. } = detect(cluster, options, &paths.into())?;
    if format == CorpusFormat::Text {
        if vocabulary.terms().is_none() {
            return Err(Error::UnnamedVocabulary.into());
        }
        let tokenizer = options.tokenizer.as_ref().or(vocabulary.tokenizer()).cloned().unwrap_or_default();
        let (corpus, unseen) = text::read_for_model(cluster, &tokenizer, vocabulary, &sources)?;
        return Ok(MappedCorpus { corpus, unseen, skipped: Vec::new() });
    }
    // Ids of new files count as in training.
    let options = &CorpusReadOptions { zero_based: options.zero_based || vocabulary.zero_based(), ..options.clone() };
    let (array, skipped) = bags(cluster, options, format, sources)?;
    let (corpus, unseen) = match &options.vocabulary {
        None => {
            array.to_corpus(cluster, vocabulary.clone(), |word| (word < vocabulary.len()).then_some(word as u32))?
        }
        Some(file) => {
            let known = vocabulary.by_name();
            if known.is_empty() {
                return Err(Error::UnnamedVocabulary.into());
            }
            let names = names(cluster, file, array.words())?;
            let numbers: Vec<Option<u32>> = names.iter().map(|name| known.get(&**name).copied()).collect();
            array.to_corpus(cluster, vocabulary.clone(), |word| numbers[word])?
        }
    };
    Ok(MappedCorpus { corpus, unseen, skipped })
}

/// *Collective.* Generates documents of 20 topics over `word0`, `word1` and so on; the same seed
/// gives the same documents on any number of peers.
pub fn synthetic(cluster: &Cluster, documents: usize, Seed(seed): Seed) -> Result<Corpus> {
    let (length, words, topics) = SYNTHETIC;
    let set = SyntheticLda { documents, words, topics, length, seed, ..SyntheticLda::default() }.generator();
    let terms = (0..words).map(|word| format!("word{word}").into()).collect();
    let mut builder = Corpus::builder(Arc::new(LdaVocabulary::named(terms)));
    let (peers, rank) = (cluster.size(), cluster.rank().index());
    for document in documents * rank / peers..documents * (rank + 1) / peers {
        builder.push(set.row(document).into_iter().map(|(word, count)| (word as u32, count)))?;
    }
    builder.gather(cluster)
}

/// Array of documents by words, with integer or floating-point counts.
enum BagArray {
    Counts(BagOfWords<u32>),
    Values(BagOfWords<f32>),
}

impl BagArray {
    fn words(&self) -> usize {
        match self {
            Self::Counts(bags) => bags.words(),
            Self::Values(bags) => bags.words(),
        }
    }

    /// *Collective.* Maps the documents; see [`BagOfWords::to_corpus`].
    fn to_corpus(
        &self,
        cluster: &Cluster,
        vocabulary: Arc<LdaVocabulary>,
        number: impl Fn(usize) -> Option<u32>,
    ) -> Result<(Corpus, Vec<u64>)> {
        match self {
            Self::Counts(bags) => bags.to_corpus(cluster, vocabulary, number),
            Self::Values(bags) => bags.to_corpus(cluster, vocabulary, number),
        }
    }
}

/// *Collective.* Reads an array of documents by words.
fn bags(
    cluster: &Cluster,
    options: &CorpusReadOptions,
    format: CorpusFormat,
    sources: Vec<InputFile>,
) -> Result<(BagArray, Vec<BadLine>)> {
    let skip = options.skip_bad_lines;
    if format == CorpusFormat::Libsvm {
        let libsvm = Libsvm::new().zero_based(options.zero_based).skip_bad_lines(skip);
        let features = cluster.read_libsvm(libsvm, sources)?.features;
        let mut wrong = None;
        features.for_each(|[document, word], count| {
            let whole = count.fract() == 0.0 && (0.0..TOO_LARGE).contains(count);
            wrong = wrong.or((!whole).then_some((document + 1, word + 1, *count)));
        });
        let first = cluster.all_gather(wrong)?.into_iter().flatten().min_by_key(|(document, ..)| *document);
        if let Some((document, word, count)) = first {
            return Err(Error::InvalidCount { document, word, count }.into());
        }
        return Ok((
            BagArray::Values(BagOfWords::of(&features, |count| *count as u32)?),
            features.skipped_lines().to_vec(),
        ));
    }
    let array = if format == CorpusFormat::Ldac {
        cluster.read_ldac(Ldac::new().skip_bad_lines(skip), sources)?
    } else {
        cluster.read_docword_with(sources, None, |file| file.skip_bad_lines(skip))?
    };
    Ok((BagArray::Counts(BagOfWords::of(&array, |count| *count)?), array.skipped_lines().to_vec()))
}

/// *Collective.* Reads the names of words, at least `needed`.
fn names(cluster: &Cluster, file: &str, needed: usize) -> Result<Vec<Box<str>>> {
    let read = |file: &str| {
        let source = InputFile::open(file)?;
        let names = read_names(&source)?;
        check_vocabulary(&source, &names, needed)?;
        Ok::<_, hemiola_array::Error>(names)
    };
    let read = if cluster.is_root() { Some(read(file)) } else { None };
    let names: Vec<String> = cluster.broadcast(read)?.transpose()?.unwrap_or_default();
    Ok(names.into_iter().map(|name| name.trim().into()).collect())
}

/// *Collective.* Returns the number of tokens of all peers, and the number of vocabulary words that
/// never occur.
fn used(cluster: &Cluster, corpus: &Corpus) -> Result<(u64, u64)> {
    let mut occurs = vec![false; corpus.words()];
    for word in corpus.iter().flat_map(|(words, _)| words) {
        occurs[*word as usize] = true;
    }
    let mut tokens = 0;
    for (peer, own) in cluster.all_gather((occurs.clone(), corpus.tokens()))? {
        tokens += own;
        occurs.iter_mut().zip(peer).for_each(|(occurs, peer)| *occurs |= peer);
    }
    Ok((tokens, occurs.iter().filter(|occurs| !**occurs).count() as u64))
}
