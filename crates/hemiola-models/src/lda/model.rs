//! Trained topic model: word-topic counts and the priors.
//!
//! All peers have the whole model. The probability of word `w` in topic `k` is `(n_wk + beta) /
//! (n_k + V beta)`, and that of topic `k` in a document of `N` tokens `(n_dk + alpha_k) / (N + Σ
//! alpha)`, where `V` counts the words that occur. The model does not depend on how it was trained.
//!
//! On disk it is a CSR matrix in three arrays, `offsets`, `topics` and `counts` (with scipy:
//! `csr_matrix((counts, topics, offsets))`), plus `alpha`, `beta`, and the names of words as lines
//! of UTF-8 in `terms`.

use super::corpus::Corpus;
use super::infer::{InferenceSettings, TopicMixture};
use super::tokenizer::Tokenizer;
use super::vocabulary::LdaVocabulary;
use super::word_topics::WordTopics;
use crate::input::InputSchema;
use crate::training::Checkpointable;
use crate::{Error, Predictor};
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_array::save::TensorElement;
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Kind of the model in saves and reports.
pub(super) const KIND: &str = "lda";

/// Trained topic model, replicated on all peers.
#[derive(Clone, Debug)]
pub struct LdaModel {
    /// Dirichlet prior of each topic in a document.
    alpha: Vec<f64>,
    /// Dirichlet prior of each word in a topic.
    beta: f64,
    rows: Arc<WordTopics>,
    /// Number of tokens by topic.
    totals: Vec<u64>,
    /// Number of words that occur.
    used: usize,
    vocabulary: Arc<LdaVocabulary>,
    /// Number of training documents.
    documents: usize,
}

impl LdaModel {
    /// Creates a model from counts, equal on every peer. There must be a row for every word and an
    /// alpha for every topic.
    pub fn new(
        alpha: Vec<f64>,
        beta: f64,
        rows: impl Into<Arc<WordTopics>>,
        vocabulary: Arc<LdaVocabulary>,
        documents: usize,
    ) -> Result<Self, Error> {
        let rows = rows.into();
        let refuse = |problem: String| Err(Error::InvalidSave { problem });
        if alpha.is_empty() || !alpha.iter().chain([&beta]).all(|prior| prior.is_finite() && *prior > 0.0) {
            return refuse("its priors are not all positive".to_owned());
        }
        if rows.words() != vocabulary.len() {
            return refuse(format!("it has rows for {} words and names for {}", rows.words(), vocabulary.len()));
        }
        if let Some(topic) = rows.topics.iter().find(|topic| **topic as usize >= alpha.len()) {
            return refuse(format!("a word is in topic {topic} of {}", alpha.len()));
        }
        let totals = rows.totals(alpha.len());
        let used = rows.offsets.windows(2).filter(|row| row[1] > row[0]).count();
        Ok(Self { alpha, beta, rows, totals, used, vocabulary, documents })
    }

    /// Returns the number of topics.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.alpha.len()
    }

    /// Returns the number of words that occur in training: the `V` of the probabilities.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the vocabulary size, including words that never occur.
    #[must_use]
    pub fn words(&self) -> usize {
        self.rows.words()
    }

    /// Returns the Dirichlet prior of each topic in a document.
    #[must_use]
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// Returns the Dirichlet prior of each word in a topic.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Returns the word-topic counts.
    #[must_use]
    pub fn rows(&self) -> &WordTopics {
        &self.rows
    }

    /// Returns the number of tokens by topic.
    #[must_use]
    pub fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// Returns the share of all tokens by topic; without tokens, that of the priors.
    #[must_use]
    pub fn sizes(&self) -> Vec<f64> {
        let tokens: u64 = self.tokens();
        if tokens == 0 {
            let sum: f64 = self.alpha.iter().sum();
            return self.alpha.iter().map(|alpha| alpha / sum).collect();
        }
        self.totals.iter().map(|total| *total as f64 / tokens as f64).collect()
    }

    /// Returns the number of training tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// Returns the number of training documents.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Returns the vocabulary of the documents.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<LdaVocabulary> {
        &self.vocabulary
    }

    /// Returns the frequency of a word in training: 0 for unused or unknown words.
    #[must_use]
    pub fn count(&self, word: u32) -> u64 {
        self.rows.row(word).1.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the probability of a word in a topic; for an unknown word, that of a word never
    /// seen.
    ///
    /// # Panics
    /// If the topic is out of range.
    #[must_use]
    pub fn probability(&self, word: u32, topic: usize) -> f64 {
        let (topics, counts) = self.rows.row(word);
        let count = topics.binary_search(&(topic as u32)).map_or(0, |index| counts[index]);
        self.smoothed_probability(topic, count)
    }

    /// Returns the probability of a word in a topic that has `count` of it.
    pub(super) fn smoothed_probability(&self, topic: usize, count: u32) -> f64 {
        (f64::from(count) + self.beta) / (self.totals[topic] as f64 + self.used.max(1) as f64 * self.beta)
    }
}

impl Predictor for LdaModel {
    type Input = Corpus;
    type Prediction = TopicMixture;
    const KINDS: &'static [&'static str] = &[KIND];

    fn kind(&self) -> &'static str {
        KIND
    }

    /// Infers the topic mixtures of all documents of this peer with the default
    /// [settings](InferenceSettings); see [`infer`](Self::infer).
    fn predict(&self, cluster: &Cluster, corpus: &Corpus) -> Result<Vec<TopicMixture>> {
        self.infer(cluster, corpus, 0..corpus.len(), InferenceSettings::default())
    }
}

impl Checkpointable for LdaModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let named = |name: &str| format!("{prefix}{name}");
        put(save, &named("offsets"), &self.rows.offsets)?;
        put(save, &named("topics"), &self.rows.topics)?;
        put(save, &named("counts"), &self.rows.counts)?;
        put(save, &named("alpha"), &self.alpha)?;
        put(save, &named("beta"), &[self.beta])?;
        put(save, &named("documents"), &[self.documents as u64])?;
        if let Some(terms) = self.vocabulary.terms() {
            // Names come from lines or parts of lines, so none contains a newline.
            let lines: Vec<u8> = terms.iter().flat_map(|term| term.bytes().chain([b'\n'])).collect();
            put(save, &named("terms"), &lines)?;
        }
        if let Some(tokenizer) = self.vocabulary.tokenizer() {
            save.put_metadata("text", tokenizer);
        }
        let schema = self.vocabulary.zero_based().then(|| InputSchema::libsvm(true));
        InputSchema::put(schema.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let named = |name: &str| format!("{prefix}{name}");
        let rows = WordTopics {
            offsets: values(load, &named("offsets"))?,
            topics: values(load, &named("topics"))?,
            counts: values(load, &named("counts"))?,
        };
        let sound = rows.offsets.first() == Some(&0)
            && rows.offsets.is_sorted()
            && rows.offsets.last() == Some(&(rows.topics.len() as u64))
            && rows.topics.len() == rows.counts.len();
        if !sound {
            return Err(Error::InvalidSave { problem: "its rows are inconsistent".to_owned() }.into());
        }
        let alpha = values(load, &named("alpha"))?;
        let beta = values::<f64>(load, &named("beta"))?.first().copied().ok_or_else(|| Error::missing("beta"))?;
        let documents: Vec<u64> = values(load, &named("documents"))?;
        let documents =
            documents.first().map(|count| *count as usize).ok_or_else(|| Error::missing("number of documents"))?;
        let has_terms = load.names().any(|name| name == named("terms"));
        let vocabulary = if has_terms {
            let lines = values(load, &named("terms"))?;
            let lines = String::from_utf8(lines)
                .map_err(|_| Error::InvalidSave { problem: "its word names are not UTF-8".to_owned() })?;
            let terms = LdaVocabulary::named(lines.split_terminator('\n').map(Box::from).collect());
            match load.metadata::<Tokenizer>("text")? {
                Some(tokenizer) => terms.with_tokenizer(tokenizer),
                None => terms,
            }
        } else {
            LdaVocabulary::numbered(rows.words() as u32)
        };
        let zero_based = InputSchema::get(load)?.is_some_and(|schema| schema.zero_based);
        let vocabulary = vocabulary.with_zero_based(zero_based);
        Ok(Self::new(alpha, beta, rows, Arc::new(vocabulary), documents)?)
    }

    fn bytes(&self) -> u64 {
        let terms = self.vocabulary.terms().unwrap_or_default();
        let names: usize = terms.iter().map(|term| term.len() + 1).sum();
        (self.rows.offsets.len() * 8 + self.rows.topics.len() * 8 + self.alpha.len() * 8 + names) as u64
    }
}

/// *Collective.* Saves a list that every peer has.
fn put<T: TensorElement>(save: &mut ArraySaver, name: &str, values: &[T]) -> Result<()> {
    save.put_values(name, [values.len()], values)
}

/// *Collective.* Loads a list to every peer.
fn values<T: TensorElement>(load: &ArrayLoader, name: &str) -> Result<Vec<T>> {
    Ok(load.values::<T, 1>(name)?.values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saves_load_on_any_number_of_peers() {
        let folder = tempfile::tempdir().unwrap();
        for (peers, with_names) in [(1, true), (2, false), (3, true)] {
            let path = folder.path().join(peers.to_string());
            let make = || {
                let mut rows = WordTopics::default();
                rows.push([(0, 3), (2, 70_000)]);
                rows.push([]);
                rows.push([(1, 5)]);
                let terms = vec!["naïve".into(), "b c".into(), "".into()];
                let named_terms = || LdaVocabulary::named(terms.clone()).with_tokenizer(Tokenizer::default());
                let vocabulary = if with_names { named_terms() } else { LdaVocabulary::numbered(3) };
                LdaModel::new(vec![0.1, 0.2, 0.3], 0.01, rows, vocabulary.into(), 9)
            };
            hemiola_cluster::standalone(peers).run(|cluster| make()?.save(cluster, &path)).unwrap();
            let outcome = hemiola_cluster::standalone(4 - peers).run(|cluster| {
                let (loaded, fresh) = (LdaModel::load(cluster, &path)?, make()?);
                assert_eq!((loaded.alpha(), loaded.beta()), (fresh.alpha(), fresh.beta()));
                assert_eq!((loaded.rows(), loaded.totals()), (fresh.rows(), fresh.totals()));
                assert_eq!((loaded.vocabulary(), loaded.documents()), (fresh.vocabulary(), 9));
                assert_eq!((loaded.tokens(), loaded.count(0), loaded.count(8)), (70_008, 70_003, 0));
                Ok(())
            });
            outcome.unwrap();
        }
    }

    #[test]
    fn inconsistent_counts_are_rejected() {
        let mut rows = WordTopics::default();
        rows.push([(2, 1)]);
        let words = |len| Arc::new(LdaVocabulary::numbered(len));
        let refused =
            |alpha: Vec<f64>, beta, words| LdaModel::new(alpha, beta, rows.clone(), words, 1).unwrap_err().to_string();
        assert!(refused(vec![0.1; 2], 0.1, words(1)).contains("topic 2 of 2"));
        assert!(refused(vec![0.1; 3], 0.1, words(2)).contains("rows for 1 words and names for 2"));
        assert!(refused(vec![0.1; 3], 0.0, words(1)).contains("priors"));
        assert!(refused(vec![], 0.1, words(1)).contains("priors"));
    }
}
