//! Getting documents: bags of words, plain text, or made up.
//!
//! | format | a document is | words are |
//! |---|---|---|
//! | `docword` (UCI) | all lines `document word count` with its number | numbers from 1; names from a vocabulary file |
//! | `libsvm` | a line `label word:count ..`; the label is not looked at | numbers from 1, or from 0 if asked |
//! | `ldac` (LDA-C) | a line `n word:count ..` | numbers from 0 |
//! | `text` | a line | found by a [`Tokenizer`], numbered by frequency |
//!
//! Files may be compressed, and far away, as all others that are read into arrays. Bags of words keep their numbers whatever is left out, so that a model can be used with files of
//! the same numbers.

use super::corpus::{Bags, Corpus};
use super::model::TopicModel;
use super::selection::{LeftOut, Selection, select};
use super::text;
use super::tokenizer::Tokenizer;
use super::vocabulary::Vocabulary;
use crate::Error;
use hemiola::array::BadLine;
use hemiola::array::read::guess::Guess;
use hemiola::array::read::lines::{must_name, read_names};
use hemiola::array::read::{self, Ldac, Libsvm, Source};
use hemiola::array::synthetic;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Counts from here on have no exact place in the numbers that LIBSVM and LDA-C text are read into.
const TOO_LARGE: f32 = 16_777_216.0;
/// Made-up documents are about so long, over so many words and topics.
const MADE_UP: (u64, u64, u64) = (100, 2000, 20);

/// What files may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// UCI bag of words.
    Docword,
    /// `label word:count ..`
    Libsvm,
    /// `n word:count ..`
    Ldac,
    /// Plain text, a document on each line.
    Text,
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Docword => "docword",
            Self::Libsvm => "libsvm",
            Self::Ldac => "ldac",
            Self::Text => "text",
        })
    }
}

/// How files are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What they hold; `None`: what the first one shows. What is no bag of words is text.
    pub format: Option<Format>,
    /// Bags of words: a file with the name of a word on each line.
    pub vocabulary: Option<String>,
    /// LIBSVM: words count from 0 and not from 1.
    pub zero_based: bool,
    /// Bags of words: leave out up to so many lines that cannot be read.
    pub skip_bad_lines: u64,
    /// Text: what words are. `None`: the usual.
    pub tokenizer: Option<Tokenizer>,
    /// Bags of words with names: words that are left out.
    pub stop_words: BTreeSet<String>,
    /// Which words are kept. Usual: of bags of words all, of text those in two documents at least.
    pub selection: Selection,
}

/// Documents as they were read.
#[derive(Clone, Debug)]
pub struct Documents {
    /// This peer's share.
    pub corpus: Corpus,
    /// What the files hold.
    pub format: Format,
    /// Words that were left out.
    pub left_out: LeftOut,
    /// Words of the vocabulary that never occur: they are kept, and have no topics.
    pub unused: u64,
    /// Lines that were left out.
    pub skipped: Vec<BadLine>,
}

/// Documents for a model that was trained before.
#[derive(Clone, Debug)]
pub struct Known {
    /// This peer's share, over the words of the model.
    pub corpus: Corpus,
    /// How many tokens of each document of this peer are of words that the model does not know. They are left out.
    pub unseen: Vec<u64>,
    /// Lines that were left out.
    pub skipped: Vec<BadLine>,
}

/// *Collective.* Reads documents to train on.
///
/// ```
/// use hemiola_models::lda::data;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("logs.txt");
/// std::fs::write(&path, "The ship left the harbour.\nA storm hit the ship in the harbour\n").unwrap();
/// # let path = path.to_str().unwrap();
/// hemiola::standalone(2).run(|cluster| {
///     let documents = data::read(cluster, &data::Options::default(), path)?;
///     let words: Vec<&str> = documents.corpus.vocabulary().terms().unwrap().iter().map(|word| &**word).collect();
///     assert_eq!(words, ["harbour", "ship"]);
///     assert_eq!(documents.corpus.documents(), 2);
///     assert_eq!(documents.left_out.words, 3); // left, storm, hit: in one document alone
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
pub fn read(cluster: &Cluster, options: &Options, pattern: &str) -> Result<Documents> {
    let (format, sources) = found(cluster, options, pattern)?;
    let selection = options.selection.or(match format {
        Format::Text => Selection::of_text(),
        _ => Selection::all(),
    });
    selection.check()?;
    let (corpus, left_out, skipped) = if format == Format::Text {
        let tokenizer = options.tokenizer.clone().unwrap_or_default();
        let (corpus, left_out) = text::read(cluster, &tokenizer, &selection, &sources)?;
        (corpus, left_out, Vec::new())
    } else {
        let (array, skipped) = bags(cluster, options, format, pattern)?;
        let vocabulary = if let Some(file) = &options.vocabulary {
            Vocabulary::named(names(cluster, file, array.words())?)
        } else {
            let words = u32::try_from(array.words());
            let too_many = |_| Error::UnknownWord { document: 0, word: array.words(), words: u64::from(u32::MAX) };
            Vocabulary::numbered(words.map_err(too_many)?)
        };
        if vocabulary.terms().is_none() && !options.stop_words.is_empty() {
            return Err(Error::NamelessStopWords.into());
        }
        let (corpus, _) = array.known(cluster, Arc::new(vocabulary), |word| Some(word as u32))?;
        let (corpus, left_out) = select(cluster, corpus, &selection, &options.stop_words)?;
        (corpus, left_out, skipped)
    };
    let (tokens, unused) = used(cluster, &corpus)?;
    if tokens == 0 {
        return Err(Error::NoTokens.into());
    }
    Ok(Documents { corpus, format, left_out, unused, skipped })
}

/// *Collective.* Reads documents for a model. Text is divided into words as that was which the model was trained on; bags of words have the model's numbers, or names that it knows if there is a
/// vocabulary.
pub fn read_known(cluster: &Cluster, options: &Options, pattern: &str, model: &TopicModel) -> Result<Known> {
    read_for(cluster, options, pattern, model.vocabulary())
}

/// *Collective.* The same for the words of another corpus: documents to hold out.
pub fn read_for(cluster: &Cluster, options: &Options, pattern: &str, vocabulary: &Arc<Vocabulary>) -> Result<Known> {
    let (format, sources) = found(cluster, options, pattern)?;
    if format == Format::Text {
        if vocabulary.terms().is_none() {
            return Err(Error::NoNames.into());
        }
        let tokenizer = options.tokenizer.as_ref().or(vocabulary.tokenizer()).cloned().unwrap_or_default();
        let (corpus, unseen) = text::read_known(cluster, &tokenizer, vocabulary, &sources)?;
        return Ok(Known { corpus, unseen, skipped: Vec::new() });
    }
    let (array, skipped) = bags(cluster, options, format, pattern)?;
    let (corpus, unseen) = match &options.vocabulary {
        None => {
            array.known(cluster, vocabulary.clone(), |word| (word < vocabulary.len() as u64).then_some(word as u32))?
        }
        Some(file) => {
            let known = vocabulary.by_name();
            if known.is_empty() {
                return Err(Error::NoNames.into());
            }
            let names = names(cluster, file, array.words())?;
            let numbers: Vec<Option<u32>> = names.iter().map(|name| known.get(&**name).copied()).collect();
            array.known(cluster, vocabulary.clone(), |word| numbers[word as usize])?
        }
    };
    Ok(Known { corpus, unseen, skipped })
}

/// *Collective.* Made-up documents over `word0`, `word1` and so on, of 20 topics, the same for the same seed however many peers there are.
pub fn made_up(cluster: &Cluster, documents: u64, seed: u64) -> Result<Corpus> {
    let (length, words, topics) = MADE_UP;
    let set = synthetic::Lda::new(documents, words, topics, length, seed);
    let terms = (0..words).map(|word| format!("word{word}").into()).collect();
    let mut builder = Corpus::builder(Arc::new(Vocabulary::named(terms)));
    let (peers, rank) = (cluster.size() as u64, cluster.rank().index() as u64);
    for document in documents * rank / peers..documents * (rank + 1) / peers {
        builder.push(set.row(document).into_iter().map(|(word, count)| (word as u32, count)))?;
    }
    builder.gather(cluster)
}

/// *Collective.* The files, and what they hold, as the root sees them.
fn found(cluster: &Cluster, options: &Options, pattern: &str) -> Result<(Format, Vec<Source>)> {
    let looked = if cluster.is_root() { Some(look(options.format, pattern)) } else { None };
    let (format, sources) = cluster.broadcast(looked)?.transpose()?.expect("the root has looked");
    Ok((format, sources))
}

fn look(format: Option<Format>, pattern: &str) -> hemiola::array::Result<(Format, Vec<Source>)> {
    let sources = Source::find(pattern)?;
    let Some(first) = sources.first() else {
        return Err(hemiola::array::Error::NoFiles { pattern: pattern.to_owned() });
    };
    if let Some(format) = format {
        return Ok((format, sources));
    }
    let format = match Guess::of(first).map(|guess| guess.format) {
        Ok(read::Format::Docword) => Format::Docword,
        Ok(read::Format::Libsvm) => Format::Libsvm,
        Ok(read::Format::Ldac) => Format::Ldac,
        Ok(other @ (read::Format::MatrixMarket | read::Format::Npy | read::Format::Parquet | read::Format::Arrow)) => {
            let problem =
                format!("it is a file of the format `{other}`; documents are read from docword, libsvm, ldac or text");
            return Err(hemiola::array::Error::BadFile { file: first.path().to_owned(), problem });
        }
        // Separated values and what has no structure.
        _ => Format::Text,
    };
    Ok((format, sources))
}

/// Documents by words, as numbers of one or the other kind.
enum Read {
    Counts(Bags<u32>),
    Values(Bags<f32>),
}

impl Read {
    fn words(&self) -> u64 {
        match self {
            Self::Counts(bags) => bags.words(),
            Self::Values(bags) => bags.words(),
        }
    }

    /// *Collective.* See [`Bags::known`].
    fn known(
        &self,
        cluster: &Cluster,
        vocabulary: Arc<Vocabulary>,
        number: impl Fn(u64) -> Option<u32>,
    ) -> Result<(Corpus, Vec<u64>)> {
        match self {
            Self::Counts(bags) => bags.known(cluster, vocabulary, number),
            Self::Values(bags) => bags.known(cluster, vocabulary, number),
        }
    }
}

/// *Collective.* Reads documents by words.
fn bags(cluster: &Cluster, options: &Options, format: Format, pattern: &str) -> Result<(Read, Vec<BadLine>)> {
    let skip = options.skip_bad_lines;
    if format == Format::Libsvm {
        let libsvm = Libsvm::new().zero_based(options.zero_based).skip_bad_lines(skip);
        let features = cluster.read_libsvm(libsvm, pattern)?.features;
        let mut wrong = None;
        features.for_each(|[document, word], count| {
            let whole = count.fract() == 0.0 && (0.0..TOO_LARGE).contains(count);
            wrong = wrong.or((!whole).then_some((document + 1, word + 1, *count)));
        });
        let first = cluster.all_gather(wrong)?.into_iter().flatten().min_by_key(|(document, ..)| *document);
        if let Some((document, word, count)) = first {
            return Err(Error::NotACount { document, word, count }.into());
        }
        return Ok((Read::Values(Bags::of(&features, |count| *count as u32)?), features.skipped_lines().to_vec()));
    }
    let array = if format == Format::Ldac {
        cluster.read_ldac(Ldac::new().skip_bad_lines(skip), pattern)?
    } else {
        cluster.read_docword_with(pattern, None, |file| file.skip_bad_lines(skip))?
    };
    Ok((Read::Counts(Bags::of(&array, |count| *count)?), array.skipped_lines().to_vec()))
}

/// *Collective.* The names of words, of which there must be `needed` at least.
fn names(cluster: &Cluster, file: &str, needed: u64) -> Result<Vec<Box<str>>> {
    let read = |file: &str| {
        let source = Source::open(file)?;
        let names = read_names(&source)?;
        must_name(&source, &names, needed)?;
        Ok::<_, hemiola::array::Error>(names)
    };
    let read = if cluster.is_root() { Some(read(file)) } else { None };
    let names: Vec<String> = cluster.broadcast(read)?.transpose()?.unwrap_or_default();
    Ok(names.into_iter().map(|name| name.trim().into()).collect())
}

/// *Collective.* How many tokens all peers have, and how many words of the vocabulary none of them has.
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
