//! Topic model (latent Dirichlet allocation, LDA) by Gibbs sampling on a parameter server.
//!
//! Documents stay with their workers. The topic counts of words are a table whose last row holds
//! the totals. A worker resamples the topic of each token and adds the change to the table. It sees
//! its own changes at once and those of other workers in the next clock. No count is lost.
//! `cargo run --release --example lda`:
//! ```text
//! perplexity after each sweep: [258.0, 73.1, 56.8, 46.8, 40.7, 37.0, 32.5, 29.9]
//! ```

use hemiola::core::rng::PhiloxRng;
use hemiola::prelude::*;
use hemiola::tables::{Consistency, Table, TableWorker};

const TOPICS: usize = 8;
pub(crate) const WORDS: u64 = 160;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let (_, perplexity) = train(cluster, 8)?;
        cluster.println(format_args!("perplexity after each sweep: {perplexity:.1?}"));
        Ok(())
    })
}

/// Trains on synthetic documents. Returns the counts and the perplexity after each sweep.
pub(crate) fn train(cluster: &Cluster, sweeps: u64) -> hemiola::Result<(Table<i32>, Vec<f64>)> {
    let counts = cluster.table::<i32>("topics").rows(WORDS + 1).width(TOPICS).consistency(Consistency::Bsp).build()?;
    let mut curves = counts.each_worker(|worker| {
        let word = |token: u64| 8 * PhiloxRng::new(7).random_below(token, 0, WORDS / 8) + token / 30 % 8;
        let mut tokens: Vec<(u64, usize)> = (0..1200).map(|token| (word(token), TOPICS)).collect();
        (0..sweeps).map(|number| Ok(sweep(worker, &mut tokens, PhiloxRng::new(number))?)).collect()
    })?;
    Ok((counts, curves.swap_remove(0)))
}

/// Resamples the topics of all tokens, by documents of 30 tokens. Returns the perplexity.
fn sweep(counts: &mut TableWorker<'_, i32>, tokens: &mut [(u64, usize)], random: PhiloxRng) -> hemiola::Result<f64> {
    let mut log_likelihood = 0.0;
    for (number, document) in tokens.chunks_mut(30).enumerate() {
        for n in 0..document.len() {
            let ((word, old), draw) = (document[n], (30 * number + n) as u64);
            let (of_word, totals) = (counts.read(word)?, counts.read(WORDS)?);
            let weight = |k: usize| {
                let others = |count: f64| count - f64::from(k == old); // without this token
                let of_doc = others(document.iter().filter(|(_, topic)| *topic == k).count() as f64);
                (of_doc + 0.5) * (others(of_word[k].into()) + 0.1) / (others(totals[k].into()) + 0.1 * WORDS as f64)
            };
            log_likelihood += ((0..TOPICS).map(weight).sum::<f64>() / (29.0 + 0.5 * TOPICS as f64)).ln();
            // Gumbel-max trick: the probability of a topic is proportional to its weight.
            let score = |k: &usize| weight(*k).ln() - (-random.random_f64(draw, *k as u64).ln()).ln();
            let new = (0..TOPICS).max_by(|a, b| score(a).total_cmp(&score(b))).unwrap_or(0);
            document[n].1 = new;
            let change: Vec<i32> = (0..TOPICS).map(|k| i32::from(k == new) - i32::from(k == old)).collect();
            counts.inc_many(&[word, WORDS], &change.repeat(2))?;
        }
    }
    counts.clock()?;
    Ok((-log_likelihood / tokens.len() as f64).exp())
}
