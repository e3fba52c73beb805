//! Description of topics by their top words.
//!
//! The most probable words of a topic are often those of every topic. The *relevance* of a word
//! (Sievert and Shirley 2014) weighs its probability in the topic against its lift, the ratio to
//! its overall probability:
//!
//! ```text
//! relevance = λ ln φ_kw + (1 − λ) ln (φ_kw / p_w)        φ_kw = (n_wk + β) / (n_k + V β)        p_w = n_w / N
//! ```
//!
//! With λ = 1 words are sorted by probability, with λ = 0 by lift; the authors found 0.6 to be
//! understood best.

use super::model::LdaModel;
use serde::Serialize;
use std::cmp::Ordering;

/// Top word of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TopWord {
    /// Word id, counted from 0.
    pub word: u32,
    /// Number of tokens of the word assigned to the topic.
    pub count: u32,
    /// Probability of the word in the topic.
    pub probability: f64,
    /// Ratio of the probability in the topic to that in all documents.
    pub lift: f64,
}

impl LdaModel {
    /// Returns the top words of every topic, at most `most`, by relevance with this λ: 1 for
    /// probability, 0 for lift. Words never assigned to the topic are excluded.
    #[must_use]
    pub fn top_words(&self, most: usize, lambda: f64) -> Vec<Vec<TopWord>> {
        let tokens = self.tokens() as f64;
        let mut first: Vec<Vec<(f64, TopWord)>> = vec![Vec::new(); self.topics()];
        for number in 0..self.words() as u32 {
            let (row, times) = self.rows().row(number);
            let of_all = self.count(number) as f64 / tokens;
            for (topic, count) in row.iter().zip(times) {
                let probability = self.smoothed_probability(*topic as usize, *count);
                let lift = probability / of_all;
                let relevance = lambda * probability.ln() + (1.0 - lambda) * lift.ln();
                let found = (relevance, TopWord { word: number, count: *count, probability, lift });
                let list_of_topic = &mut first[*topic as usize];
                list_of_topic.push(found);
                // Occasional sorting keeps the lists short at little cost.
                if list_of_topic.len() >= 2 * most.max(32) {
                    keep(list_of_topic, most);
                }
            }
        }
        first
            .into_iter()
            .map(|mut list| {
                keep(&mut list, most);
                list.into_iter().map(|(_, word)| word).collect()
            })
            .collect()
    }
}

/// Sorts by relevance, ties by word id, and truncates.
fn keep(list: &mut Vec<(f64, TopWord)>, most: usize) {
    list.sort_unstable_by(|left, right| match right.0.total_cmp(&left.0) {
        Ordering::Equal => left.1.word.cmp(&right.1.word),
        other => other,
    });
    list.truncate(most);
}
