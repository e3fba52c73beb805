//! What a topic is about: its first words.
//!
//! The most probable words of a topic are often those of every topic. The *relevance* of a word (Sievert and Shirley 2014) weighs its probability in the topic against its lift, by how much more probable
//! it is there than elsewhere:
//!
//! ```text
//! relevance = λ ln φ_kw + (1 − λ) ln (φ_kw / p_w)        φ_kw = (n_wk + β) / (n_k + V β)        p_w = n_w / N
//! ```
//!
//! With λ = 1 words are sorted by probability, with λ = 0 by lift; 0.6 is what its authors found people to understand best.

use super::model::TopicModel;
use serde::Serialize;
use std::cmp::Ordering;

/// A word of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TopWord {
    /// Its number.
    pub word: u32,
    /// How often it was assigned to the topic.
    pub count: u32,
    /// Its probability there.
    pub probability: f64,
    /// By how much it is more probable there than in all documents.
    pub lift: f64,
}

impl TopicModel {
    /// The first words of every topic, at most so many, by relevance with this λ: 1 for probability, 0 for lift. Words that were never assigned to the topic are none of its words.
    #[must_use]
    pub fn top_words(&self, most: usize, lambda: f64) -> Vec<Vec<TopWord>> {
        let tokens = self.tokens() as f64;
        let mut first: Vec<Vec<(f64, TopWord)>> = vec![Vec::new(); self.topics()];
        for number in 0..self.words() as u32 {
            let (row, times) = self.rows().row(number);
            let of_all = self.count(number) as f64 / tokens;
            for (topic, count) in row.iter().zip(times) {
                let probability = self.chance(*topic as usize, *count);
                let lift = probability / of_all;
                let relevance = lambda * probability.ln() + (1.0 - lambda) * lift.ln();
                let found = (relevance, TopWord { word: number, count: *count, probability, lift });
                let held = &mut first[*topic as usize];
                held.push(found);
                // Sorting now and then keeps helds short and costs little.
                if held.len() >= 2 * most.max(32) {
                    keep(held, most);
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

/// The first of a list, of equals the smaller number first.
fn keep(list: &mut Vec<(f64, TopWord)>, most: usize) {
    list.sort_unstable_by(|left, right| match right.0.total_cmp(&left.0) {
        Ordering::Equal => left.1.word.cmp(&right.1.word),
        other => other,
    });
    list.truncate(most);
}
