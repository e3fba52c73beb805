//! The joint likelihood of words and topics: how well the assignment of topics explains the documents.
//!
//! With topic and word distributions integrated out (Griffiths and Steyvers 2004), with `V` words that occur and `A = Σ alpha_k`:
//!
//! ```text
//! log p(w, z) = Σ_d [ ln Γ(A) - ln Γ(A + n_d) + Σ_k ( ln Γ(alpha_k + n_dk) - ln Γ(alpha_k) ) ]
//!             + Σ_k [ ln Γ(V beta) - ln Γ(V beta + n_k) + Σ_w ( ln Γ(beta + n_wk) - ln Γ(beta) ) ]
//! ```
//!
//! It is told per token. Counts of 0 add nothing, so only topics that occur are looked at.
//!
//! **Invariant:** what parts and blocks add is summed by their numbers, so the bits do not depend on who has them.

use super::block::Block;
use super::part::Part;
use super::special::{Rising, ln_gamma};

/// Counts of a topic in a document up to this are kept.
const KEPT_OF_DOCUMENT: usize = 64;
/// Counts of a word in a topic up to this are kept.
const KEPT_OF_WORD: usize = 4096;

/// The terms of the likelihood for given priors.
#[derive(Debug)]
pub(super) struct Terms {
    alpha: Vec<Rising>,
    all: Rising,
    beta: Rising,
}

impl Terms {
    pub(super) fn new(alpha: &[f64], beta: f64) -> Self {
        // With very many topics what is kept would take more than it spares.
        let kept = KEPT_OF_DOCUMENT.min((1 << 20) / alpha.len().max(1));
        Self {
            alpha: alpha.iter().map(|alpha| Rising::new(*alpha, kept)).collect(),
            all: Rising::new(alpha.iter().sum(), KEPT_OF_WORD),
            beta: Rising::new(beta, KEPT_OF_WORD),
        }
    }

    /// What the documents of a part add.
    pub(super) fn of_documents(&self, part: &Part) -> f64 {
        let mut sum = 0.0;
        for (document, length) in part.lengths.iter().enumerate() {
            let mut own = 0.0;
            part.counts.each(document, |topic, count| own += self.alpha[topic].at(u64::from(count)));
            sum += own - self.all.at(u64::from(*length));
        }
        sum
    }

    /// What the words of a block add.
    pub(super) fn of_words(&self, block: &Block) -> f64 {
        let mut sum = 0.0;
        for word in 0..block.words() {
            let mut own = 0.0;
            block.each(word, |_, count| own += self.beta.at(u64::from(count)));
            sum += own;
        }
        sum
    }
}

/// What the totals of topics add.
pub(super) fn of_totals(totals: &[i32], beta: f64, occurring: usize) -> f64 {
    let betas = beta * occurring as f64;
    let base = ln_gamma(betas);
    totals.iter().filter(|total| **total > 0).map(|total| base - ln_gamma(betas + f64::from(*total))).sum()
}
