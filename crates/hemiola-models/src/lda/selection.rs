//! Which words of a corpus are worth learning from.

use super::corpus::Corpus;
use crate::Error;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Which words are kept, by how often they occur. What is not said is as usual for the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// They occur so many times at least.
    pub min_count: Option<u64>,
    /// In so many documents at least.
    pub min_documents: Option<u64>,
    /// In at most this share of the documents that have words.
    pub max_share: Option<f64>,
}

impl Selection {
    /// All words.
    #[must_use]
    pub const fn all() -> Self {
        Self { min_count: Some(1), min_documents: Some(1), max_share: Some(1.0) }
    }

    /// Words that occur in two documents at least: one that occurs in a single document says nothing about which words go together.
    #[must_use]
    pub const fn of_text() -> Self {
        Self { min_documents: Some(2), ..Self::all() }
    }

    /// What is not said is as `usual` says.
    #[must_use]
    pub fn or(self, usual: Self) -> Self {
        Self {
            min_count: self.min_count.or(usual.min_count),
            min_documents: self.min_documents.or(usual.min_documents),
            max_share: self.max_share.or(usual.max_share),
        }
    }

    /// An error if it makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        match self.max_share {
            Some(share) if share.is_nan() || share <= 0.0 || share > 1.0 => {
                let (found, expected) = (share.to_string(), "above 0 and at most 1");
                Err(Error::Setting { setting: "max-share", found, expected })
            }
            _ => Ok(()),
        }
    }

    /// Whether a word is kept that occurs `count` times, in `of` of `documents`.
    pub(super) fn keeps(&self, count: u64, of: u64, documents: u64) -> bool {
        count >= self.min_count.unwrap_or(1)
            && of >= self.min_documents.unwrap_or(1)
            && of as f64 <= self.max_share.unwrap_or(1.0) * documents as f64
    }
}

/// What was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Different words that occur too rarely or in too many documents, and stop words of a vocabulary.
    pub words: u64,
    /// How often they occur.
    pub tokens: u64,
    /// Tokens of text that are stop words, numbers or too short.
    pub stopped: u64,
}

/// *Collective.* The same documents without the words that are not kept, which stay in the vocabulary, unused: ids are what they were.
pub(super) fn select(
    cluster: &Cluster,
    corpus: Corpus,
    selection: &Selection,
    stop_words: &BTreeSet<String>,
) -> Result<(Corpus, LeftOut)> {
    if *selection == Selection::all() && stop_words.is_empty() {
        return Ok((corpus, LeftOut::default()));
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
    let (mut sums, mut documents) = all.next().expect("there is this peer at least");
    for (peer, filled) in all {
        documents += filled;
        for (sum, own) in sums.iter_mut().zip(peer) {
            *sum = (sum.0 + own.0, sum.1 + own.1);
        }
    }
    let mut left_out = LeftOut::default();
    let vocabulary = corpus.vocabulary();
    let kept: Vec<bool> = (0_u32..)
        .zip(&sums)
        .map(|(word, (count, of))| {
            let named = vocabulary.terms().map(|terms| &*terms[word as usize]);
            let stops = named.is_some_and(|term| stop_words.contains(term));
            let keeps = !stops && selection.keeps(*count, *of, documents);
            if !keeps && *count > 0 {
                left_out.words += 1;
                left_out.tokens += count;
            }
            keeps
        })
        .collect();
    let mut builder = Corpus::builder(vocabulary.clone());
    for (words, counts) in corpus.iter() {
        let pairs = words.iter().copied().zip(counts.iter().copied());
        builder.push(pairs.filter(|(word, _)| kept[*word as usize]))?;
    }
    Ok((builder.gather(cluster)?, left_out))
}
