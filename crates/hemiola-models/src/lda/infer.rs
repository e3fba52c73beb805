//! What new documents are about: their tokens are assigned to topics while the counts of words stay as they are.
//!
//! A document is folded in by Gibbs sampling: each of its tokens in turn is drawn anew from
//!
//! ```text
//! p(k) ∝ (n_dk + α_k) (n_wk + β) / (n_k + V β)          n_wk and n_k of the model, n_dk of the document without the token
//! ```
//!
//! for a number of passes, and the shares of topics are the mean over the later ones of `(n_dk + α_k) / (N + Σα)`. The product is taken apart as in SparseLDA (Yao, Mimno and McCallum 2009): topics
//! of the word, topics of the document, and a rest that is the same for all tokens; so a draw takes as many steps as the word and the document have topics.
//!
//! **Invariant:** the result depends on the model, the words of the document, its number and the seed alone: not on other documents, peers or workers.
//! Words that never occurred in training are left out, and counted.

use super::corpus::Corpus;
use super::model::TopicModel;
use crate::Error;
use hemiola::array::random::Values;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How documents are folded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inference {
    /// How many passes are made over a document.
    pub passes: u32,
    /// How many of them are not looked at.
    pub burn_in: u32,
    /// What all chance comes from.
    pub seed: u64,
}

impl Default for Inference {
    /// 50 passes, of which 20 are not looked at.
    fn default() -> Self {
        Self { passes: 50, burn_in: 20, seed: 1 }
    }
}

impl Inference {
    /// An error if it makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        if self.passes == 0 || self.burn_in >= self.passes {
            let (found, expected) = (self.passes.to_string(), "above the passes that are not looked at");
            return Err(Error::Setting { setting: "passes", found, expected });
        }
        Ok(())
    }
}

/// What a document is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixture {
    /// The share of each topic; they add up to 1.
    pub shares: Vec<f64>,
    /// How many tokens it has that the model knows.
    pub tokens: u64,
    /// How many it has that the model does not know. They were left out.
    pub unseen: u64,
}

/// A model that documents are folded into.
pub(super) struct Folding<'a> {
    pub(super) model: &'a TopicModel,
    inference: Inference,
    values: Values,
    /// `1 / (n_k + V β)` by topic.
    pub(super) inverse: Vec<f64>,
    /// Sums of `α_k β / (n_k + V β)` up to each topic.
    rest: Vec<f64>,
    alpha: f64,
}

/// What a worker needs while it folds a document in.
#[derive(Default)]
pub(super) struct Scratch {
    /// Word and topic of each token.
    tokens: Vec<(u32, u32)>,
    /// How many tokens of the document each topic has.
    counts: Vec<u32>,
    /// Topics that have some.
    present: Vec<u32>,
    /// Sums of counts over the passes that are looked at.
    sums: Vec<u64>,
    /// Running sums of the topics of a word.
    running: Vec<f64>,
}

impl<'a> Folding<'a> {
    pub(super) fn new(model: &'a TopicModel, inference: Inference) -> Self {
        let inverse: Vec<f64> = (0..model.topics()).map(|topic| model.chance(topic, 0) / model.beta()).collect();
        let mut sum = 0.0;
        let terms = model.alpha().iter().zip(&inverse).map(|(alpha, inverse)| {
            sum += alpha * model.beta() * inverse;
            sum
        });
        let rest = terms.collect();
        let alpha = model.alpha().iter().sum();
        Self { model, inference, values: Values::new(inference.seed), inverse, rest, alpha }
    }

    /// Shares of topics of the document with this number, of tokens that the model knows.
    pub(super) fn fold(&self, number: u64, tokens: impl Iterator<Item = u32>, scratch: &mut Scratch) -> Vec<f64> {
        let topics = self.model.topics();
        let Scratch { tokens: held, counts, present, sums, .. } = scratch;
        held.clear();
        held.extend(tokens.map(|word| (word, u32::MAX)));
        counts.clear();
        counts.resize(topics, 0);
        sums.clear();
        sums.resize(topics, 0);
        present.clear();
        let mut draw = 0;
        for pass in 0..self.inference.passes {
            for place in 0..scratch.tokens.len() {
                self.step(scratch, place, self.values.unit(number, draw));
                draw += 1;
            }
            if pass >= self.inference.burn_in {
                for topic in &scratch.present {
                    scratch.sums[*topic as usize] += u64::from(scratch.counts[*topic as usize]);
                }
            }
        }
        let looked_at = f64::from(self.inference.passes - self.inference.burn_in);
        let total = scratch.tokens.len() as f64 + self.alpha;
        let share = |(sum, alpha): (&u64, &f64)| (*sum as f64 / looked_at + alpha) / total;
        scratch.sums.iter().zip(self.model.alpha()).map(share).collect()
    }

    /// Draws the topic of a token anew, or for the first time.
    fn step(&self, scratch: &mut Scratch, place: usize, unit: f64) {
        let Scratch { tokens, counts, present, running, .. } = scratch;
        let (word, before) = tokens[place];
        if before != u32::MAX {
            counts[before as usize] -= 1;
            if counts[before as usize] == 0 {
                let at = present.iter().position(|topic| *topic == before).expect("the token's topic is present");
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
            // The rest is a small part, where rounding may lead beyond its end.
            let last = self.rest.len() - 1;
            found.unwrap_or_else(|| self.rest.partition_point(|sum| *sum <= at - of_document).min(last) as u32)
        };
        if counts[topic as usize] == 0 {
            present.push(topic);
        }
        counts[topic as usize] += 1;
        tokens[place].1 = topic;
    }

    /// Whether the model was trained on the word.
    pub(super) fn knows(&self, word: u32) -> bool {
        !self.model.rows().row(word).0.is_empty()
    }
}

impl TopicModel {
    /// What some documents of this peer are about, in order; `range` are their places in the corpus, whose words must be those of the model. Workers of this
    /// peer share them. Words that the model was not trained on are left out and counted.
    ///
    /// ```
    /// use hemiola_models::lda::{Corpus, Inference, TopicModel, Vocabulary, WordTopics};
    /// use std::sync::Arc;
    /// hemiola::standalone(1).run(|cluster| {
    ///     // Two topics: of ships, and of bread.
    ///     let words = ["ship", "sail", "bread", "salt"].map(Box::from).to_vec();
    ///     let vocabulary = Arc::new(Vocabulary::named(words));
    ///     let mut rows = WordTopics::default();
    ///     rows.push([(0, 50)]);
    ///     rows.push([(0, 30)]);
    ///     rows.push([(1, 60)]);
    ///     rows.push([]); // never seen
    ///     let model = TopicModel::new(cluster, vec![0.1, 0.1], 0.01, rows, vocabulary.clone(), 10)?;
    ///     let corpus = Corpus::new([vec![(0, 3), (1, 2), (3, 4)]], vocabulary)?;
    ///     let mixtures = model.infer(cluster, &corpus, 0..1, Inference::default())?;
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
        inference: Inference,
    ) -> Result<Vec<Mixture>> {
        inference.check()?;
        let folding = Folding::new(self, inference);
        in_parallel(cluster, range, |place, scratch| {
            let (words, counts) = corpus.document(place);
            let known = || words.iter().zip(counts).filter(|(word, _)| folding.knows(**word));
            let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let tokens = known().map(|(_, count)| u64::from(*count)).sum();
            let each = known().flat_map(|(word, count)| (0..*count).map(|_| *word));
            let shares = folding.fold(corpus.first() + place as u64, each, scratch);
            Mixture { shares, tokens, unseen: all - tokens }
        })
    }
}

/// Results of places in order, found by all workers of this peer.
pub(super) fn in_parallel<T: Send>(
    cluster: &Cluster,
    range: Range<usize>,
    work: impl Fn(usize, &mut Scratch) -> T + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(range.start);
    let done = Mutex::new(Vec::with_capacity(range.len()));
    cluster.each_worker(|_| {
        let (mut scratch, mut own) = (Scratch::default(), Vec::new());
        loop {
            // Relaxed: the counter only deals places out; what is found travels through the mutex.
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= range.end {
                break;
            }
            own.push((place, work(place, &mut scratch)));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(place, _)| *place);
    Ok(done.into_iter().map(|(_, found)| found).collect())
}
