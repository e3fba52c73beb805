//! Topic coherence: normalized pointwise mutual information (Bouma 2009; Lau, Newman and Baldwin
//! 2014).
//!
//! For the top words of a topic, over documents of a reference corpus (the training set will do),
//!
//! ```text
//! NPMI(v, w) = ln( p(v,w) / (p(v) p(w)) ) / −ln p(v,w)        p: the fraction of documents that have the word, or both
//! ```
//!
//! is 1 for words that always occur together, 0 for independent words and −1 for words that never
//! co-occur. The coherence of a topic is the mean over all pairs of its words, and that of a model
//! the mean over its topics. Empty documents do not count, and topics with fewer than two words
//! have no coherence.

use super::corpus::Corpus;
use super::model::LdaModel;
use crate::Error;
use hemiola_cluster::{Cluster, Result};

/// Maximum number of top words.
pub(super) const MAX_WORDS: usize = 64;

impl LdaModel {
    /// *Collective.* Returns the coherence of each topic by its top `words` words (10 is usual, 64
    /// the maximum), in documents over the vocabulary of the model; `None` for a topic with fewer
    /// than two words. Equal on every peer.
    pub fn coherence(&self, cluster: &Cluster, reference: &Corpus, words: usize) -> Result<Vec<Option<f64>>> {
        if !(2..=MAX_WORDS).contains(&words) {
            return Err(
                Error::InvalidSetting { setting: "words", found: words.to_string(), expected: "from 2 to 64" }.into()
            );
        }
        let first: Vec<Vec<u32>> = self
            .top_words(words, 1.0)
            .into_iter()
            .map(|topic| topic.into_iter().map(|word| word.word).collect())
            .collect();
        // For each word, the topics it is a top word of, and its rank there.
        let mut places: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.words()];
        for (topic, words) in (0_u32..).zip(&first) {
            for (index, word) in (0_u32..).zip(words) {
                places[*word as usize].push((topic, index));
            }
        }
        // Number of documents with each pair of words, and with the word itself on the diagonal.
        let mut together = vec![0_u64; first.len() * words * words];
        let (mut masks, mut met, mut filled) = (vec![0_u64; first.len()], Vec::new(), 0_u64);
        for (of_document, _) in reference.iter() {
            filled += u64::from(!of_document.is_empty());
            for (topic, index) in of_document.iter().filter_map(|word| places.get(*word as usize)).flatten() {
                if masks[*topic as usize] == 0 {
                    met.push(*topic as usize);
                }
                masks[*topic as usize] |= 1 << index;
            }
            for topic in met.drain(..) {
                let mask = std::mem::take(&mut masks[topic]);
                let own = &mut together[topic * words * words..][..words * words];
                for left in bits(mask) {
                    bits(mask).for_each(|right| own[left * words + right] += 1);
                }
            }
        }
        let all = cluster.all_gather((together, filled))?;
        let (mut together, mut documents) = (vec![0_u64; first.len() * words * words], 0);
        for (peer, filled) in all {
            documents += filled;
            together.iter_mut().zip(peer).for_each(|(sum, own)| *sum += own);
        }
        if documents == 0 {
            return Err(Error::NoTokens.into());
        }
        let share = |count: u64| count as f64 / documents as f64;
        Ok(first
            .iter()
            .zip(together.chunks_exact(words * words))
            .map(|(list, counts)| {
                let at = |left: usize, right: usize| share(counts[left * words + right]);
                let pairs = (0..list.len()).flat_map(|left| (0..left).map(move |right| (left, right)));
                let (sum, count) = pairs.fold((0.0, 0_u32), |(sum, count), (left, right)| {
                    (sum + npmi(at(left, left), at(right, right), at(left, right)), count + 1)
                });
                (count > 0).then(|| sum / f64::from(count))
            })
            .collect())
    }
}

/// Indices of the set bits.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..MAX_WORDS).filter(move |index| mask >> index & 1 == 1)
}

/// Computes NPMI from the fractions of documents with one word, with the other and with both.
fn npmi(left: f64, right: f64, both: f64) -> f64 {
    if both == 0.0 {
        -1.0
    } else if both >= 1.0 {
        0.0 // words in every document carry no information
    } else {
        (both / (left * right)).ln() / -both.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npmi_separates_dependent_independent_and_exclusive_words() {
        assert!((npmi(0.2, 0.2, 0.2) - 1.0).abs() < 1e-12);
        assert!(npmi(0.5, 0.4, 0.2).abs() < 1e-12);
        assert!((npmi(0.5, 0.4, 0.0) + 1.0).abs() < 1e-12);
        assert!(npmi(1.0, 1.0, 1.0).abs() < 1e-12);
    }
}
