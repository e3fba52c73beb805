//! Inference: topic mixtures of new documents by Gibbs sampling with fixed word-topic counts.
//!
//! Each token of the document in turn is sampled from
//!
//! ```text
//! p(k) ∝ (n_dk + α_k) (n_wk + β) / (n_k + V β)
//!
//! n_wk and n_k of the model, n_dk of the document without the token
//! ```
//!
//! for a number of sweeps, and the topic shares are the mean over the later sweeps of `(n_dk + α_k)
//! / (N + Σα)`. The product is split as in SparseLDA (Yao, Mimno and McCallum 2009): topics of the
//! word, topics of the document, and a remainder that is the same for all tokens; so a draw takes
//! as many steps as the word and the document have topics.
//!
//! **Invariant:** the result depends on the model, the words of the document, its number and the
//! seed alone: not on other documents, peers or workers. Words that never occurred in training are
//! dropped and counted.

use super::corpus::Corpus;
use super::model::LdaModel;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Settings of inference by Gibbs sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InferenceSettings {
    /// Number of Gibbs sweeps over a document.
    pub sweeps: u32,
    /// Number of burn-in sweeps, which are discarded.
    pub burn_in: u32,
    /// Random seed of all draws.
    pub seed: u64,
}

impl Default for InferenceSettings {
    /// 50 sweeps, of which 20 are burn-in.
    fn default() -> Self {
        Self { sweeps: 50, burn_in: 20, seed: 1 }
    }
}

impl InferenceSettings {
    /// Fails if the settings are out of range.
    pub fn check(&self) -> Result<(), Error> {
        if self.sweeps == 0 || self.burn_in >= self.sweeps {
            let (found, expected) = (self.sweeps.to_string(), "above the number of burn-in sweeps");
            return Err(Error::InvalidSetting { setting: "sweeps", found, expected });
        }
        Ok(())
    }
}

/// Topic mixture of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopicMixture {
    /// Share of each topic; the shares sum to 1.
    pub shares: Vec<f64>,
    /// Number of tokens known to the model.
    pub tokens: u64,
    /// Number of unknown tokens, which were dropped.
    pub unseen: u64,
}

/// Model prepared for inference.
pub(super) struct FoldIn<'a> {
    pub(super) model: &'a LdaModel,
    inference: InferenceSettings,
    values: PhiloxRng,
    /// `1 / (n_k + V β)` by topic.
    pub(super) inverse: Vec<f64>,
    /// Prefix sums of `α_k β / (n_k + V β)` over topics.
    rest: Vec<f64>,
    alpha: f64,
}

/// Scratch buffers of a worker.
#[derive(Default)]
pub(super) struct FoldInScratch {
    /// Word and topic of each token.
    tokens: Vec<(u32, u32)>,
    /// Number of tokens of the document by topic.
    counts: Vec<u32>,
    /// Topics with a nonzero count.
    present: Vec<u32>,
    /// Sums of counts over the sweeps after burn-in.
    sums: Vec<u64>,
    /// Running sums over the topics of a word.
    running: Vec<f64>,
}

impl<'a> FoldIn<'a> {
    pub(super) fn new(model: &'a LdaModel, inference: InferenceSettings) -> Self {
        let inverse: Vec<f64> =
            (0..model.topics()).map(|topic| model.smoothed_probability(topic, 0) / model.beta()).collect();
        let mut sum = 0.0;
        let terms = model.alpha().iter().zip(&inverse).map(|(alpha, inverse)| {
            sum += alpha * model.beta() * inverse;
            sum
        });
        let rest = terms.collect();
        let alpha = model.alpha().iter().sum();
        Self { model, inference, values: PhiloxRng::new(inference.seed), inverse, rest, alpha }
    }

    /// Returns the topic shares of the document with this number, from tokens known to the model.
    pub(super) fn fold(&self, number: u64, tokens: impl Iterator<Item = u32>, scratch: &mut FoldInScratch) -> Vec<f64> {
        let topics = self.model.topics();
        let FoldInScratch { tokens: sampled, counts, present, sums, .. } = scratch;
        sampled.clear();
        sampled.extend(tokens.map(|word| (word, u32::MAX)));
        counts.clear();
        counts.resize(topics, 0);
        sums.clear();
        sums.resize(topics, 0);
        present.clear();
        let mut draw = 0;
        for sweep in 0..self.inference.sweeps {
            for index in 0..scratch.tokens.len() {
                self.step(scratch, index, self.values.random_f64(number, draw));
                draw += 1;
            }
            if sweep >= self.inference.burn_in {
                for topic in &scratch.present {
                    scratch.sums[*topic as usize] += u64::from(scratch.counts[*topic as usize]);
                }
            }
        }
        let counted_sweeps = f64::from(self.inference.sweeps - self.inference.burn_in);
        let total = scratch.tokens.len() as f64 + self.alpha;
        let share = |(sum, alpha): (&u64, &f64)| (*sum as f64 / counted_sweeps + alpha) / total;
        scratch.sums.iter().zip(self.model.alpha()).map(share).collect()
    }

    /// Samples the topic of a token anew, or for the first time.
    fn step(&self, scratch: &mut FoldInScratch, index: usize, unit: f64) {
        let FoldInScratch { tokens, counts, present, running, .. } = scratch;
        let (word, before) = tokens[index];
        if before != u32::MAX {
            counts[before as usize] -= 1;
            if counts[before as usize] == 0 {
                let at = present.iter().position(|topic| *topic == before).expect("the topic of the token is present");
                present.swap_remove(at);
            }
        }
        let (row, times) = self.model.rows().row(word);
        let (alpha, beta) = (self.model.alpha(), self.model.beta());
        running.clear();
        let mut of_word = 0.0;
        for (topic, count) in row.iter().zip(times) {
            let topic = *topic as usize;
            of_word += (f64::from(counts[topic]) + alpha[topic]) * f64::from(*count) * self.inverse[topic];
            running.push(of_word);
        }
        let of_document: f64 =
            present.iter().map(|topic| f64::from(counts[*topic as usize]) * beta * self.inverse[*topic as usize]).sum();
        let rest = self.rest[self.rest.len() - 1];
        let mut at = unit * (of_word + of_document + rest);
        let topic = if at < of_word {
            row[running.partition_point(|sum| *sum <= at).min(row.len() - 1)]
        } else {
            at -= of_word;
            let mut found = None;
            if at < of_document {
                for topic in present.iter() {
                    at -= f64::from(counts[*topic as usize]) * beta * self.inverse[*topic as usize];
                    found = Some(*topic);
                    if at < 0.0 {
                        break;
                    }
                }
            }
            // The remainder is small; rounding may lead beyond its end.
            let last = self.rest.len() - 1;
            found.unwrap_or_else(|| self.rest.partition_point(|sum| *sum <= at - of_document).min(last) as u32)
        };
        if counts[topic as usize] == 0 {
            present.push(topic);
        }
        counts[topic as usize] += 1;
        tokens[index].1 = topic;
    }

    /// Returns whether the word occurred in training.
    pub(super) fn knows(&self, word: u32) -> bool {
        !self.model.rows().row(word).0.is_empty()
    }
}

impl LdaModel {
    /// Infers the topic mixtures of documents of this peer, in order. `range` are their indices in
    /// the corpus, which must be over the vocabulary of the model. Workers of this peer share the
    /// work. Words unknown to the model are dropped and counted.
    ///
    /// ```
    /// use hemiola_models::lda::{Corpus, InferenceSettings, LdaModel, LdaVocabulary, WordTopics};
    /// use std::sync::Arc;
    /// hemiola::standalone(1).run(|cluster| {
    ///     // Two topics: of ships, and of bread.
    ///     let words = ["ship", "sail", "bread", "salt"].map(Box::from).to_vec();
    ///     let vocabulary = Arc::new(LdaVocabulary::named(words));
    ///     let mut rows = WordTopics::default();
    ///     rows.push([(0, 50)]);
    ///     rows.push([(0, 30)]);
    ///     rows.push([(1, 60)]);
    ///     rows.push([]); // never seen
    ///     let model = LdaModel::new(vec![0.1, 0.1], 0.01, rows, vocabulary.clone(), 10)?;
    ///     let corpus = Corpus::new([vec![(0, 3), (1, 2), (3, 4)]], vocabulary)?;
    ///     let mixtures = model.infer(cluster, &corpus, 0..1, InferenceSettings::default())?;
    ///     assert!(mixtures[0].shares[0] > 0.95);
    ///     assert_eq!((mixtures[0].tokens, mixtures[0].unseen), (5, 4));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola::Error>(())
    /// ```
    pub fn infer(
        &self,
        cluster: &Cluster,
        corpus: &Corpus,
        range: Range<usize>,
        inference: InferenceSettings,
    ) -> Result<Vec<TopicMixture>> {
        inference.check()?;
        let folding = FoldIn::new(self, inference);
        in_parallel(cluster, range, |index, scratch| {
            let (words, counts) = corpus.document(index);
            let known = || words.iter().zip(counts).filter(|(word, _)| folding.knows(**word));
            let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let tokens = known().map(|(_, count)| u64::from(*count)).sum();
            let each = known().flat_map(|(word, count)| (0..*count).map(|_| *word));
            let shares = folding.fold((corpus.first() + index) as u64, each, scratch);
            TopicMixture { shares, tokens, unseen: all - tokens }
        })
    }
}

/// Runs `work` for all indices on all workers of this peer; returns the results in order.
pub(super) fn in_parallel<T: Send>(
    cluster: &Cluster,
    range: Range<usize>,
    work: impl Fn(usize, &mut FoldInScratch) -> T + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(range.start);
    let done = Mutex::new(Vec::with_capacity(range.len()));
    cluster.each_worker(|_| {
        let (mut scratch, mut own) = (FoldInScratch::default(), Vec::new());
        loop {
            // Relaxed: the counter only distributes indices; results are published through the
            // mutex.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= range.end {
                break;
            }
            own.push((index, work(index, &mut scratch)));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, found)| found).collect())
}
