//! Filtering of words by frequency.

use super::corpus::Corpus;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Thresholds of the word filter. `None` uses the default of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VocabularyFilter {
    /// Minimum number of occurrences.
    pub min_count: Option<u64>,
    /// Minimum number of documents with the word.
    pub min_documents: Option<u64>,
    /// Maximum fraction of the non-empty documents with the word.
    pub max_share: Option<f64>,
}

impl VocabularyFilter {
    /// Returns a filter that keeps all words.
    #[must_use]
    pub const fn all() -> Self {
        Self { min_count: Some(1), min_documents: Some(1), max_share: Some(1.0) }
    }

    /// Returns the default of text: words in at least two documents. A word of a single document
    /// carries no information about co-occurrence.
    #[must_use]
    pub const fn of_text() -> Self {
        Self { min_documents: Some(2), ..Self::all() }
    }

    /// Fills unset thresholds from `usual`.
    #[must_use]
    pub fn or(self, usual: Self) -> Self {
        Self {
            min_count: self.min_count.or(usual.min_count),
            min_documents: self.min_documents.or(usual.min_documents),
            max_share: self.max_share.or(usual.max_share),
        }
    }

    /// Fails if a threshold is out of range.
    pub fn check(&self) -> Result<(), Error> {
        match self.max_share {
            Some(share) if share.is_nan() || share <= 0.0 || share > 1.0 => {
                let (found, expected) = (share.to_string(), "above 0 and at most 1");
                Err(Error::InvalidSetting { setting: "max_share", found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether to keep a word that occurs `count` times, in `of` of `documents`.
    pub(super) fn keeps(&self, count: u64, of: u64, documents: u64) -> bool {
        count >= self.min_count.unwrap_or(1)
            && of >= self.min_documents.unwrap_or(1)
            && of as f64 <= self.max_share.unwrap_or(1.0) * documents as f64
    }
}

/// Statistics of dropped words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FilteredWords {
    /// Number of distinct words dropped by frequency, and of stop words in a vocabulary.
    pub words: u64,
    /// Number of their tokens.
    pub tokens: u64,
    /// Number of text tokens dropped as stop words, numbers or too short.
    pub stopped: u64,
}

/// *Collective.* Removes the tokens of filtered words from the documents. The words stay in the
/// vocabulary, unused, so word ids do not change.
pub(super) fn select(
    cluster: &Cluster,
    corpus: Corpus,
    filter: &VocabularyFilter,
    stop_words: &BTreeSet<String>,
) -> Result<(Corpus, FilteredWords)> {
    if *filter == VocabularyFilter::all() && stop_words.is_empty() {
        return Ok((corpus, FilteredWords::default()));
    }
    let mut mine = vec![(0_u64, 0_u64); corpus.words()];
    let mut filled = 0_u64;
    for (words, counts) in corpus.iter() {
        filled += u64::from(!words.is_empty());
        for (word, count) in words.iter().zip(counts) {
            mine[*word as usize].0 += u64::from(*count);
            mine[*word as usize].1 += 1;
        }
    }
    let mut all = cluster.all_gather((mine, filled))?.into_iter();
    let (mut sums, mut documents) = all.next().expect("there is at least this peer");
    for (peer, filled) in all {
        documents += filled;
        for (sum, own) in sums.iter_mut().zip(peer) {
            *sum = (sum.0 + own.0, sum.1 + own.1);
        }
    }
    let mut filtered = FilteredWords::default();
    let vocabulary = corpus.vocabulary();
    let kept: Vec<bool> = (0_u32..)
        .zip(&sums)
        .map(|(word, (count, of))| {
            let named = vocabulary.terms().map(|terms| &*terms[word as usize]);
            let stops = named.is_some_and(|term| stop_words.contains(term));
            let keeps = !stops && filter.keeps(*count, *of, documents);
            if !keeps && *count > 0 {
                filtered.words += 1;
                filtered.tokens += count;
            }
            keeps
        })
        .collect();
    let mut builder = Corpus::builder(vocabulary.clone());
    for (words, counts) in corpus.iter() {
        let pairs = words.iter().copied().zip(counts.iter().copied());
        builder.push(pairs.filter(|(word, _)| kept[*word as usize]))?;
    }
    Ok((builder.gather(cluster)?, filtered))
}
