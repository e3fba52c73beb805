//! Layout: documents are cut into partitions, words into as many blocks.
//!
//! A *cell* is the set of tokens of a partition with words of a block. While a partition processes
//! a cell, no other partition needs its documents or the block's words, so as many cells as there
//! are partitions are processed concurrently. Then every block moves to the previous partition, and
//! after as many steps as there are partitions all cells are done.
//!
//! Documents are cut in order, evenly by tokens. Words are assigned by descending frequency, each
//! to the block with the fewest tokens; within a block they keep that order, so dense rows come
//! first.
//!
//! **Invariant:** the layout depends on the documents, the number of topics and the number of
//! partitions alone, not on peers or workers. Partitions are assigned to peers in order.

use super::Corpus;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use std::cmp::Reverse;
use std::ops::Range;

/// Maximum number of tokens of a partition: their indices take 32 bits.
const MAX_PARTITION_TOKENS: u64 = u32::MAX as u64;
/// Maximum total number of tokens: topic totals are signed 32-bit integers, and there may be one
/// topic.
const MAX_TOKENS: u64 = i32::MAX as u64;
/// Largest topic or count that takes 16 bits.
pub(super) const MAX_NARROW: usize = u16::MAX as usize;

/// Partitioning of documents and words of all peers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LdaLayout {
    pub(super) topics: usize,
    pub(super) parts: usize,
    pub(super) peers: usize,
    pub(super) documents: usize,
    pub(super) tokens: u64,
    /// Number of tokens before those of this peer.
    before: u64,
    /// Number of tokens of the longest document.
    pub(super) longest: u64,
    /// Number of words that occur.
    pub(super) occurring: usize,
    /// Words of each block, by descending frequency.
    pub(super) words: Vec<Vec<u32>>,
    /// Block of each word and its index there; `None` for words that never occur.
    pub(super) homes: Vec<Option<(u32, u32)>>,
    /// Frequency of each word.
    pub(super) counts: Vec<u32>,
}

impl LdaLayout {
    /// *Collective.* Computes the layout of the documents of all peers.
    pub(super) fn new(cluster: &Cluster, corpus: &Corpus, topics: usize, parts: usize) -> Result<Self> {
        let longest = corpus.iter().map(|(_, counts)| counts.iter().map(|count| u64::from(*count)).sum()).max();
        let mut mine = vec![0_u64; corpus.words()];
        for (words, counts) in corpus.iter() {
            words.iter().zip(counts).for_each(|(word, count)| mine[*word as usize] += u64::from(*count));
        }
        let of_peers = cluster.all_gather((corpus.tokens(), longest.unwrap_or(0_u64), mine))?;
        let tokens: u64 = of_peers.iter().map(|of| of.0).sum();
        if tokens == 0 {
            return Err(Error::NoTokens.into());
        }
        if tokens > MAX_TOKENS {
            return Err(Error::TooManyTokens { tokens, most: MAX_TOKENS }.into());
        }
        let before = of_peers[..cluster.rank().index()].iter().map(|of| of.0).sum();
        let longest = of_peers.iter().map(|of| of.1).max().unwrap_or(0);
        let mut counts = vec![0_u32; corpus.words()];
        for (_, _, of_peer) in of_peers {
            if of_peer.len() != counts.len() {
                return Err(Error::ColumnMismatch.into());
            }
            counts.iter_mut().zip(of_peer).for_each(|(count, more)| *count += more as u32);
        }
        let mut order: Vec<u32> = (0..counts.len() as u32).filter(|word| counts[*word as usize] > 0).collect();
        order.sort_by_key(|word| (Reverse(counts[*word as usize]), *word));
        let mut homes = vec![None; counts.len()];
        let mut words = vec![Vec::new(); parts];
        let mut loads = vec![0_u64; parts];
        for word in &order {
            let block = (0..parts).min_by_key(|block| loads[*block]).expect("there is at least one partition");
            loads[block] += u64::from(counts[*word as usize]);
            homes[*word as usize] = Some((block as u32, words[block].len() as u32));
            words[block].push(*word);
        }
        let (peers, documents, occurring) = (cluster.size(), corpus.documents(), order.len());
        Ok(Self { topics, parts, peers, documents, tokens, before, longest, occurring, words, homes, counts })
    }

    /// Returns whether topics or document counts need more than 16 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.topics > MAX_NARROW || self.longest > MAX_NARROW as u64
    }

    /// Returns the frequency from which a word has a dense row: its list would be nearly as large.
    pub(super) fn dense_from(&self) -> u32 {
        (self.topics as u32 / 4).max(1)
    }

    /// Returns the partitions of a peer.
    pub(super) fn parts_of(&self, rank: Rank) -> Range<usize> {
        let cut = |rank: usize| rank * self.parts / self.peers;
        cut(rank.index())..cut(rank.index() + 1)
    }

    /// Returns the owner of a partition.
    pub(super) fn owner(&self, part: usize) -> Rank {
        let ranks = (0..self.peers).map(|rank| Rank::new(rank as u32));
        ranks.into_iter().find(|rank| self.parts_of(*rank).contains(&part)).expect("every partition has an owner")
    }

    /// Returns the partition of each document of this peer, ascending.
    pub(super) fn cut(&self, corpus: &Corpus) -> Vec<usize> {
        let mut before = self.before;
        let part = |(_, counts): (&[u32], &[u32])| {
            let part = u128::from(before) * self.parts as u128 / u128::from(self.tokens.max(1));
            before += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            (part as usize).min(self.parts - 1) // trailing empty documents
        };
        corpus.iter().map(part).collect()
    }

    /// Returns the block that a partition processes in a step.
    pub(super) fn block(&self, part: usize, step: usize) -> usize {
        (part + step) % self.parts
    }

    /// Fails if a partition has more tokens than its indices can address.
    pub(super) fn check_part(tokens: u64) -> Result<usize, Error> {
        if tokens > MAX_PARTITION_TOKENS {
            return Err(Error::TooManyTokens { tokens, most: MAX_PARTITION_TOKENS });
        }
        Ok(tokens as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::LdaVocabulary;
    use std::sync::Arc;

    fn corpus(documents: Vec<Vec<(u32, u32)>>) -> Corpus {
        Corpus::new(documents, Arc::new(LdaVocabulary::numbered(6))).unwrap()
    }

    #[test]
    fn words_are_balanced_and_documents_cut_in_order() {
        let corpus = corpus(vec![vec![(0, 8), (1, 2)], vec![], vec![(2, 6), (4, 4)], vec![(5, 20)], vec![]]);
        let layouts = hemiola_cluster::standalone(1).run(|cluster| LdaLayout::new(cluster, &corpus, 8, 2)).unwrap();
        let layout = &layouts[0];
        assert_eq!((layout.tokens, layout.longest, layout.occurring, layout.dense_from()), (40, 20, 5, 2));
        assert_eq!(layout.words, [vec![5], vec![0, 2, 4, 1]]);
        assert_eq!((layout.homes[4], layout.homes[3]), (Some((1, 2)), None));
        assert_eq!(layout.cut(&corpus), [0, 0, 0, 1, 1]);
        assert_eq!((layout.block(1, 0), layout.block(1, 1)), (1, 0));
    }

    #[test]
    fn partitions_are_assigned_to_peers_in_order() {
        let empty = corpus(vec![vec![(0, 3)]]);
        let layout =
            hemiola_cluster::standalone(1).run(|cluster| LdaLayout::new(cluster, &empty, 8, 5)).unwrap().remove(0);
        let layout = LdaLayout { peers: 3, ..layout };
        let parts = |rank| layout.parts_of(Rank::new(rank));
        assert_eq!([parts(0), parts(1), parts(2)], [0..1, 1..3, 3..5]);
        assert_eq!((0..5).map(|part| layout.owner(part).index()).collect::<Vec<_>>(), [0, 1, 1, 2, 2]);
    }

    #[test]
    fn an_empty_corpus_is_an_error() {
        let empty = corpus(vec![vec![], vec![]]);
        let error = hemiola_cluster::standalone(1)
            .run(|cluster| LdaLayout::new(cluster, &empty, 8, 2))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no words"), "{error}");
    }
}
