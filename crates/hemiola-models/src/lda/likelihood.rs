//! Joint log-likelihood of words and topics.
//!
//! With topic and word distributions integrated out (Griffiths and Steyvers 2004), with `V` words
//! that occur and `A = Σ alpha_k`:
//!
//! ```text
//! log p(w, z) = Σ_d [ ln Γ(A) - ln Γ(A + n_d) + Σ_k ( ln Γ(alpha_k + n_dk) - ln Γ(alpha_k) ) ]
//!             + Σ_k [ ln Γ(V beta) - ln Γ(V beta + n_k) + Σ_w ( ln Γ(beta + n_wk) - ln Γ(beta) ) ]
//! ```
//!
//! It is reported per token. Counts of 0 contribute nothing, so only topics that occur are visited.
//!
//! **Invariant:** contributions of partitions and blocks are summed in the order of their numbers,
//! so the bits do not depend on the owners.

use super::block::WordBlock;
use super::partition::DocumentPartition;
use super::special::{LnRisingFactorial, ln_gamma};

/// Topic counts of a document up to this are cached.
const CACHED_DOCUMENT_COUNTS: usize = 64;
/// Word counts of a topic up to this are cached.
const CACHED_WORD_COUNTS: usize = 4096;

/// Cached terms of the likelihood for given priors.
#[derive(Debug)]
pub(super) struct LikelihoodTerms {
    alpha: Vec<LnRisingFactorial>,
    all: LnRisingFactorial,
    beta: LnRisingFactorial,
}

impl LikelihoodTerms {
    pub(super) fn new(alpha: &[f64], beta: f64) -> Self {
        // With very many topics the cache would cost more than it saves.
        let kept = CACHED_DOCUMENT_COUNTS.min((1 << 20) / alpha.len().max(1));
        Self {
            alpha: alpha.iter().map(|alpha| LnRisingFactorial::new(*alpha, kept)).collect(),
            all: LnRisingFactorial::new(alpha.iter().sum(), CACHED_WORD_COUNTS),
            beta: LnRisingFactorial::new(beta, CACHED_WORD_COUNTS),
        }
    }

    /// Returns the contribution of the documents of a partition.
    pub(super) fn of_documents(&self, part: &DocumentPartition) -> f64 {
        let mut sum = 0.0;
        for (document, length) in part.lengths.iter().enumerate() {
            let mut own = 0.0;
            part.counts.each(document, |topic, count| own += self.alpha[topic].at(u64::from(count)));
            sum += own - self.all.at(u64::from(*length));
        }
        sum
    }

    /// Returns the contribution of the words of a block.
    pub(super) fn of_words(&self, block: &WordBlock) -> f64 {
        let mut sum = 0.0;
        for word in 0..block.words() {
            let mut own = 0.0;
            block.each(word, |_, count| own += self.beta.at(u64::from(count)));
            sum += own;
        }
        sum
    }
}

/// Returns the contribution of the topic totals.
pub(super) fn of_totals(totals: &[i32], beta: f64, occurring: usize) -> f64 {
    let betas = beta * occurring as f64;
    let base = ln_gamma(betas);
    totals.iter().filter(|total| **total > 0).map(|total| base - ln_gamma(betas + f64::from(*total))).sum()
}
