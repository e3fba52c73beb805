//! How well a model foretells words: perplexity by document completion.
//!
//! The tokens of each document are dealt to two halves by coins. One half is [folded in](super::infer), so that it is known what the document is about; the other is foretold:
//!
//! ```text
//! perplexity = exp( − Σ_d Σ_{w in the other half of d} ln Σ_k θ_dk φ_kw  /  tokens in other halves )
//! θ_dk = (n_dk + α_k) / (N_d + Σα)        φ_kw = (n_wk + β) / (n_k + V β)
//! ```
//!
//! So it depends on what the model knows of topics alone, not on how it was trained. A model that foretells nothing has about as much as there are words.
//!
//! **Invariant:** which tokens are in which half depends on the seed and the number of the document; logarithms of documents are added as whole numbers of 2⁻⁴⁰, so that
//! any division of documents gives the same bits.

use super::corpus::Corpus;
use super::infer::{Folding, Inference, in_parallel};
use super::model::TopicModel;
use crate::Error;
use hemiola::array::random::Values;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// What a sum of logarithms is a multiple of.
const UNIT: f64 = 1.0 / (1_u64 << 40) as f64;
/// Coins come from other numbers than the draws of topics.
const COINS: u64 = 0x9e37_79b9_7f4a_7c15;

/// How well the words of documents were foretold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The perplexity: as if a word were one of so many that are equally likely. Lower is better.
    pub perplexity: f64,
    /// The mean logarithm of the probability of a token, natural. Higher is better.
    pub log_likelihood: f64,
    /// How many tokens were foretold.
    pub tokens: u64,
    /// How many documents there were, those with nothing to foretell included.
    pub documents: u64,
    /// How many tokens were left out, because the model was not trained on their words.
    pub unseen: u64,
}

impl TopicModel {
    /// *Collective.* How well the model foretells the second halves of documents, whose words must be those of the model; the same on every peer.
    pub fn completion(&self, cluster: &Cluster, corpus: &Corpus, inference: Inference) -> Result<Completion> {
        inference.check()?;
        let folding = Folding::new(self, inference);
        let coins = Values::new(inference.seed ^ COINS);
        let found = in_parallel(cluster, 0..corpus.len(), |place, scratch| {
            let number = corpus.first() + place as u64;
            let (words, counts) = corpus.document(place);
            let (mut given, mut hidden, mut unseen, mut coin) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
            for (word, count) in words.iter().zip(counts) {
                if !folding.knows(*word) {
                    unseen += u64::from(*count);
                    continue;
                }
                let mut kept = 0_u32;
                for _ in 0..*count {
                    kept += u32::from(coins.chosen(number, coin, 0.5));
                    coin += 1;
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
            (as_units(self.foretold(&folding, &shares, &hidden)), tokens, unseen)
        })?;
        let mine = found.iter().fold((0_i128, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        let all = cluster.all_gather(mine)?;
        let (sum, tokens, unseen) =
            all.into_iter().fold((0_i128, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        if tokens == 0 {
            return Err(Error::NothingToForetell.into());
        }
        let log_likelihood = sum as f64 * UNIT / tokens as f64;
        let perplexity = (-log_likelihood).exp();
        Ok(Completion { perplexity, log_likelihood, tokens, documents: corpus.documents(), unseen })
    }

    /// *Collective.* The [perplexity](Self::completion) of held-out documents alone.
    pub fn perplexity(&self, cluster: &Cluster, corpus: &Corpus, seed: u64) -> Result<f64> {
        Ok(self.completion(cluster, corpus, Inference { seed, ..Inference::default() })?.perplexity)
    }

    /// The logarithm of the probability of words and counts, if a document has these shares of topics.
    fn foretold(&self, folding: &Folding<'_>, shares: &[f64], hidden: &[(u32, u32)]) -> f64 {
        // What every word has of every topic, whether it occurs in it or not.
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

/// A sum of logarithms as a whole number of [`UNIT`]s.
fn as_units(value: f64) -> i128 {
    (value / UNIT).round() as i128
}
