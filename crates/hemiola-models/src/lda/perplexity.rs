//! Perplexity by document completion.
//!
//! The tokens of each document are split at random into two halves. One half is [folded
//! in](super::infer) to estimate the topic mixture; the other is predicted:
//!
//! ```text
//! perplexity = exp( − Σ_d Σ_{w in the other half of d} ln Σ_k θ_dk φ_kw  /  tokens in other halves )
//! θ_dk = (n_dk + α_k) / (N_d + Σα)        φ_kw = (n_wk + β) / (n_k + V β)
//! ```
//!
//! The result depends on the topics of the model alone, not on how it was trained. An uninformed
//! model has a perplexity of about the vocabulary size.
//!
//! **Invariant:** the split depends on the seed and the number of the document. Log-likelihoods of
//! documents are summed as integers in units of 2⁻⁴⁰, so that any distribution of documents gives
//! the same bits.

use super::corpus::Corpus;
use super::infer::{FoldIn, InferenceSettings, in_parallel};
use super::model::LdaModel;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_core::rng::{GOLDEN_GAMMA, PhiloxRng};
use serde::{Deserialize, Serialize};

/// Unit of the fixed-point sums of logarithms.
const UNIT: f64 = 1.0 / (1_u64 << 40) as f64;
/// Separates the random stream of the split from that of the topics.
const SPLIT_SEED: u64 = GOLDEN_GAMMA;

/// Result of document completion.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentCompletion {
    /// Perplexity: the effective number of equally likely words. Lower is better.
    pub perplexity: f64,
    /// Mean natural log-probability of a token. Higher is better.
    pub log_likelihood: f64,
    /// Number of predicted tokens.
    pub tokens: u64,
    /// Number of documents, including those with nothing to predict.
    pub documents: usize,
    /// Number of tokens dropped because their words are unknown to the model.
    pub unseen: u64,
}

impl LdaModel {
    /// *Collective.* Evaluates how well the model predicts the second halves of documents over its
    /// vocabulary; equal on every peer.
    pub fn completion(
        &self,
        cluster: &Cluster,
        corpus: &Corpus,
        inference: InferenceSettings,
    ) -> Result<DocumentCompletion> {
        inference.check()?;
        let folding = FoldIn::new(self, inference);
        let split = PhiloxRng::new(inference.seed ^ SPLIT_SEED);
        let stop = cluster.stop_request();
        let found = in_parallel(cluster, 0..corpus.len(), |index, scratch| {
            if stop.is_accepted() {
                return (0_i128, 0, 0);
            }
            let number = (corpus.first() + index) as u64;
            let (words, counts) = corpus.document(index);
            let (mut given, mut hidden, mut unseen, mut draw) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
            for (word, count) in words.iter().zip(counts) {
                if !folding.knows(*word) {
                    unseen += u64::from(*count);
                    continue;
                }
                let mut kept = 0_u32;
                for _ in 0..*count {
                    kept += u32::from(split.random_bool(number, draw, 0.5));
                    draw += 1;
                }
                given.push((*word, kept));
                hidden.push((*word, *count - kept));
            }
            let tokens: u64 = hidden.iter().map(|(_, count)| u64::from(*count)).sum();
            if tokens == 0 {
                return (0_i128, 0, unseen);
            }
            let each = given.iter().flat_map(|(word, count)| (0..*count).map(|_| *word));
            let shares = folding.fold(number, each, scratch);
            (as_units(self.log_likelihood_of(&folding, &shares, &hidden)), tokens, unseen)
        })?;
        cluster.check_stop()?;
        let mine = found.iter().fold((0_i128, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        let all = cluster.all_gather(mine)?;
        let (sum, tokens, unseen) =
            all.into_iter().fold((0_i128, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        if tokens == 0 {
            return Err(Error::NothingToPredict.into());
        }
        let log_likelihood = sum as f64 * UNIT / tokens as f64;
        let perplexity = (-log_likelihood).exp();
        Ok(DocumentCompletion { perplexity, log_likelihood, tokens, documents: corpus.documents(), unseen })
    }

    /// *Collective.* Returns only the [perplexity](Self::completion) of a validation set.
    pub fn perplexity(&self, cluster: &Cluster, corpus: &Corpus, Seed(seed): Seed) -> Result<f64> {
        Ok(self.completion(cluster, corpus, InferenceSettings { seed, ..InferenceSettings::default() })?.perplexity)
    }

    /// Returns the log-probability of words and counts for a document with these topic shares.
    fn log_likelihood_of(&self, folding: &FoldIn<'_>, shares: &[f64], hidden: &[(u32, u32)]) -> f64 {
        // Smoothing that every word has of every topic, whether it occurs in it or not.
        let smooth: f64 =
            shares.iter().zip(&folding.inverse).map(|(share, inverse)| share * inverse * self.beta()).sum();
        let log = |(word, count): &(u32, u32)| {
            let (topics, counts) = self.rows().row(*word);
            let part = |(topic, count): (&u32, &u32)| {
                shares[*topic as usize] * f64::from(*count) * folding.inverse[*topic as usize]
            };
            f64::from(*count) * (smooth + topics.iter().zip(counts).map(part).sum::<f64>()).ln()
        };
        hidden.iter().filter(|(_, count)| *count > 0).map(log).sum()
    }
}

/// Converts a sum of logarithms to a whole number of [`UNIT`]s.
fn as_units(value: f64) -> i128 {
    (value / UNIT).round() as i128
}
