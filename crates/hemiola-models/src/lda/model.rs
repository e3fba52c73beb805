//! A trained topic model: how often each word was assigned to each topic, and the priors.
//!
//! All peers have all of it. The probability of word `w` in topic `k` is `(n_wk + beta) / (n_k + V beta)`, of topic `k` in a document of `N` tokens
//! `(n_dk + alpha_k) / (N + Σ alpha)`, where `V` counts the words that occur; the model is independent of how it was trained.
//!
//! On disk it is a matrix by rows in three arrays, `offsets`, `topics` and `counts` (with scipy: `csr_matrix((counts, topics, offsets))`), `alpha`, `beta`, and the
//! names of words as lines of UTF-8 in `terms`.

use super::rows::WordTopics;
use super::tokenizer::Tokenizer;
use super::vocabulary::Vocabulary;
use crate::Error;
use crate::training::Keep;
use hemiola::array::Element;
use hemiola::array::dist::{Load, Save};
use hemiola::array::save::Stored;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::path::Path;
use std::sync::Arc;

/// What the note `model` of a save says.
pub(super) const KIND: &str = "lda";

/// Topics, and what words they are made of.
#[derive(Clone, Debug)]
pub struct TopicModel {
    /// The prior of each topic in a document.
    alpha: Vec<f64>,
    /// The prior of each word in a topic.
    beta: f64,
    rows: Arc<WordTopics>,
    /// How many tokens each topic has.
    totals: Vec<u64>,
    /// How many words occur.
    used: usize,
    vocabulary: Arc<Vocabulary>,
    /// How many documents it was trained on.
    documents: u64,
    cluster: Cluster,
}

impl TopicModel {
    /// A model with these counts, the same on every peer. There is a row for every word, and an alpha for every topic.
    pub fn new(
        cluster: &Cluster,
        alpha: Vec<f64>,
        beta: f64,
        rows: impl Into<Arc<WordTopics>>,
        vocabulary: Arc<Vocabulary>,
        documents: u64,
    ) -> Result<Self, Error> {
        let rows = rows.into();
        let refuse = |problem: String| Err(Error::NotThisModel { problem });
        if alpha.is_empty() || !alpha.iter().chain([&beta]).all(|prior| prior.is_finite() && *prior > 0.0) {
            return refuse("its priors are not all above 0".to_owned());
        }
        if rows.words() != vocabulary.len() {
            return refuse(format!("it has rows for {} words and names for {}", rows.words(), vocabulary.len()));
        }
        if let Some(topic) = rows.topics.iter().find(|topic| **topic as usize >= alpha.len()) {
            return refuse(format!("a word is in topic {topic} of {}", alpha.len()));
        }
        let totals = rows.totals(alpha.len());
        let used = rows.offsets.windows(2).filter(|row| row[1] > row[0]).count();
        Ok(Self { alpha, beta, rows, totals, used, vocabulary, documents, cluster: cluster.clone() })
    }

    /// How many topics there are.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.alpha.len()
    }

    /// How many words occur in what it was trained on: the `V` of its probabilities.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// How many words there are, those that never occur included.
    #[must_use]
    pub fn words(&self) -> usize {
        self.rows.words()
    }

    /// The prior of each topic in a document.
    #[must_use]
    pub fn alpha(&self) -> &[f64] {
        &self.alpha
    }

    /// The prior of each word in a topic.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// How often each word was assigned to each topic.
    #[must_use]
    pub fn rows(&self) -> &WordTopics {
        &self.rows
    }

    /// How many tokens each topic has.
    #[must_use]
    pub fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// The share of all tokens that each topic has. With no tokens at all, what the priors say.
    #[must_use]
    pub fn sizes(&self) -> Vec<f64> {
        let tokens: u64 = self.tokens();
        if tokens == 0 {
            let sum: f64 = self.alpha.iter().sum();
            return self.alpha.iter().map(|alpha| alpha / sum).collect();
        }
        self.totals.iter().map(|total| *total as f64 / tokens as f64).collect()
    }

    /// How many tokens it was trained on.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.totals.iter().sum()
    }

    /// How many documents it was trained on.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The words there are.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// How often a word occurs in what it was trained on: 0 for one that never does, or that it does not know.
    #[must_use]
    pub fn count(&self, word: u32) -> u64 {
        self.rows.row(word).1.iter().map(|count| u64::from(*count)).sum()
    }

    /// The probability of a word in a topic; that of one never seen, if it does not know the word.
    ///
    /// # Panics
    /// If there is no such topic.
    #[must_use]
    pub fn probability(&self, word: u32, topic: usize) -> f64 {
        let (topics, counts) = self.rows.row(word);
        let count = topics.binary_search(&(topic as u32)).map_or(0, |place| counts[place]);
        self.chance(topic, count)
    }

    /// The probability of a word in a topic that has `count` of it.
    pub(super) fn chance(&self, topic: usize, count: u32) -> f64 {
        (f64::from(count) + self.beta) / (self.totals[topic] as f64 + self.used.max(1) as f64 * self.beta)
    }

    /// *Collective.* Saves it in a folder, where nothing but an older save may be.
    pub fn save(&self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let mut save = Save::begin(cluster, folder)?;
        self.put(&mut save, "")?;
        save.note("model", &KIND);
        save.commit()
    }

    /// *Collective.* Loads what [`save`](Self::save) or a training wrote, on any number of peers.
    pub fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        Load::steady(cluster, folder, |load| {
            let kind: String = load.note("model")?.ok_or_else(|| missing("note `model`"))?;
            if kind != KIND {
                return Err(Error::NotThisModel { problem: format!("it is of a model `{kind}`") }.into());
            }
            Self::get(load, "")
        })
    }
}

fn missing(what: &str) -> Error {
    Error::NotThisModel { problem: format!("it has no {what}") }
}

/// *Collective.* All cells of a list, on every peer.
fn values<T: Element>(array: &DistArray<T, 1>) -> Result<Vec<T>> {
    Ok(array.collect()?.into_iter().map(|(_, value)| value).collect())
}

impl Keep for TopicModel {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let cluster = &self.cluster;
        let named = |name: &str| format!("{prefix}{name}");
        put(cluster, save, &named("offsets"), &self.rows.offsets)?;
        put(cluster, save, &named("topics"), &self.rows.topics)?;
        put(cluster, save, &named("counts"), &self.rows.counts)?;
        put(cluster, save, &named("alpha"), &self.alpha)?;
        put(cluster, save, &named("beta"), &[self.beta])?;
        put(cluster, save, &named("documents"), &[self.documents])?;
        if let Some(terms) = self.vocabulary.terms() {
            // Names come from lines or are parts of them, so none has an end of line in it.
            let lines: Vec<u8> = terms.iter().flat_map(|term| term.bytes().chain([b'\n'])).collect();
            put(cluster, save, &named("terms"), &lines)?;
        }
        if let Some(tokenizer) = self.vocabulary.tokenizer() {
            save.note("text", tokenizer);
        }
        Ok(())
    }

    fn get(load: &Load, prefix: &str) -> Result<Self> {
        let named = |name: &str| format!("{prefix}{name}");
        let offsets = load.get::<u64, 1>(&named("offsets"))?;
        let cluster = offsets.cluster().clone();
        let rows = WordTopics {
            offsets: values(&offsets)?,
            topics: values(&load.get::<u32, 1>(&named("topics"))?)?,
            counts: values(&load.get::<u32, 1>(&named("counts"))?)?,
        };
        let sound = rows.offsets.first() == Some(&0)
            && rows.offsets.is_sorted()
            && rows.offsets.last() == Some(&(rows.topics.len() as u64))
            && rows.topics.len() == rows.counts.len();
        if !sound {
            return Err(Error::NotThisModel { problem: "its rows do not fit together".to_owned() }.into());
        }
        let one = |found: Option<u64>, what: &str| found.ok_or_else(|| missing(what));
        let alpha = values(&load.get::<f64, 1>(&named("alpha"))?)?;
        let beta = values(&load.get::<f64, 1>(&named("beta"))?)?.first().copied().ok_or_else(|| missing("beta"))?;
        let documents = values(&load.get::<u64, 1>(&named("documents"))?)?;
        let documents = one(documents.first().copied(), "number of documents")?;
        let has_terms = load.names().any(|name| name == named("terms"));
        let vocabulary = if has_terms {
            let lines = values(&load.get::<u8, 1>(&named("terms"))?)?;
            let lines = String::from_utf8(lines)
                .map_err(|_| Error::NotThisModel { problem: "its names of words are not UTF-8".to_owned() })?;
            let terms = Vocabulary::named(lines.split_terminator('\n').map(Box::from).collect());
            match load.note::<Tokenizer>("text")? {
                Some(tokenizer) => terms.read_by(tokenizer),
                None => terms,
            }
        } else {
            Vocabulary::numbered(rows.words() as u32)
        };
        Ok(Self::new(&cluster, alpha, beta, rows, Arc::new(vocabulary), documents)?)
    }

    fn bytes(&self) -> u64 {
        let terms = self.vocabulary.terms().unwrap_or_default();
        let names: usize = terms.iter().map(|term| term.len() + 1).sum();
        (self.rows.offsets.len() * 8 + self.rows.topics.len() * 8 + self.alpha.len() * 8 + names) as u64
    }
}

/// *Collective.* Saves a list that every peer has.
fn put<T: Element + Stored>(cluster: &Cluster, save: &mut Save, name: &str, values: &[T]) -> Result<()> {
    save.put(name, &cluster.from_fn([values.len() as u64], |[place]| values[place as usize])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_number_of_peers_saved_another_loads() {
        let folder = tempfile::tempdir().unwrap();
        for (peers, with_names) in [(1, true), (2, false), (3, true)] {
            let path = folder.path().join(peers.to_string());
            let make = |cluster: &Cluster| {
                let mut rows = WordTopics::default();
                rows.push([(0, 3), (2, 70_000)]);
                rows.push([]);
                rows.push([(1, 5)]);
                let terms = vec!["naïve".into(), "b c".into(), "".into()];
                let named_terms = || Vocabulary::named(terms.clone()).read_by(Tokenizer::default());
                let vocabulary = if with_names { named_terms() } else { Vocabulary::numbered(3) };
                TopicModel::new(cluster, vec![0.1, 0.2, 0.3], 0.01, rows, vocabulary.into(), 9)
            };
            hemiola::standalone(peers).run(|cluster| make(cluster)?.save(cluster, &path)).unwrap();
            let outcome = hemiola::standalone(4 - peers).run(|cluster| {
                let (loaded, fresh) = (TopicModel::load(cluster, &path)?, make(cluster)?);
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
    fn counts_that_do_not_fit_together_are_refused() {
        hemiola::standalone(1)
            .run(|cluster| {
                let mut rows = WordTopics::default();
                rows.push([(2, 1)]);
                let words = |len| Arc::new(Vocabulary::numbered(len));
                let refused = |alpha: Vec<f64>, beta, words| {
                    TopicModel::new(cluster, alpha, beta, rows.clone(), words, 1).unwrap_err().to_string()
                };
                assert!(refused(vec![0.1; 2], 0.1, words(1)).contains("topic 2 of 2"));
                assert!(refused(vec![0.1; 3], 0.1, words(2)).contains("rows for 1 words and names for 2"));
                assert!(refused(vec![0.1; 3], 0.0, words(1)).contains("priors"));
                assert!(refused(vec![], 0.1, words(1)).contains("priors"));
                Ok(())
            })
            .unwrap();
    }
}
