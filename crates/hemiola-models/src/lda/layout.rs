//! How documents and words are cut: documents in parts, words in as many blocks.
//!
//! A *cell* is what a part has of the words of a block. While a part works on a cell nobody else needs its documents or the block's words, so as many cells as there are parts are worked on
//! at once; then every block goes on to the part before, and after as many steps as there are parts all cells are done.
//!
//! Documents are cut in their order, evenly by tokens. Words are dealt out by their counts, the most frequent first, each to the block that has the fewest tokens; within a block
//! they keep that order, so the rows that are dense come first.
//!
//! **Invariant:** the layout depends on the documents, the number of topics and the number of parts alone, not on peers or workers. Parts are given to peers in their
//! order.

use super::Corpus;
use crate::Error;
use hemiola::core::Rank;
use hemiola::{Cluster, Result};
use std::cmp::Reverse;
use std::ops::Range;

/// The most tokens of a part: their places are kept in 32 bits.
const MOST_OF_PART: u64 = u32::MAX as u64;
/// The most tokens of all: totals of topics are kept in 32 bits with a sign, and there may be one topic.
const MOST: u64 = i32::MAX as u64;
/// Topics and counts up to this take 16 bits.
pub(super) const NARROW: usize = u16::MAX as usize;

/// How the documents of all peers and their words are cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) topics: usize,
    pub(super) parts: usize,
    pub(super) peers: usize,
    pub(super) documents: u64,
    pub(super) tokens: u64,
    /// Tokens of all documents before those of this peer.
    before: u64,
    /// Tokens of the longest document.
    pub(super) longest: u64,
    /// How many words occur.
    pub(super) occurring: usize,
    /// By block: its words, the most frequent first.
    pub(super) words: Vec<Vec<u32>>,
    /// By word: its block and its place there. Words that never occur have none.
    pub(super) homes: Vec<Option<(u32, u32)>>,
    /// By word: how often it occurs.
    pub(super) counts: Vec<u32>,
}

impl Layout {
    /// *Collective.* That of the documents of all peers.
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
        if tokens > MOST {
            return Err(Error::TooManyTokens { tokens, most: MOST }.into());
        }
        let before = of_peers[..cluster.rank().index()].iter().map(|of| of.0).sum();
        let longest = of_peers.iter().map(|of| of.1).max().unwrap_or(0);
        let mut counts = vec![0_u32; corpus.words()];
        for (_, _, of_peer) in of_peers {
            if of_peer.len() != counts.len() {
                return Err(Error::OtherColumns.into());
            }
            counts.iter_mut().zip(of_peer).for_each(|(count, more)| *count += more as u32);
        }
        let mut order: Vec<u32> = (0..counts.len() as u32).filter(|word| counts[*word as usize] > 0).collect();
        order.sort_by_key(|word| (Reverse(counts[*word as usize]), *word));
        let mut homes = vec![None; counts.len()];
        let mut words = vec![Vec::new(); parts];
        let mut loads = vec![0_u64; parts];
        for word in &order {
            let block = (0..parts).min_by_key(|block| loads[*block]).expect("there is a part");
            loads[block] += u64::from(counts[*word as usize]);
            homes[*word as usize] = Some((block as u32, words[block].len() as u32));
            words[block].push(*word);
        }
        let (peers, documents, occurring) = (cluster.size(), corpus.documents(), order.len());
        Ok(Self { topics, parts, peers, documents, tokens, before, longest, occurring, words, homes, counts })
    }

    /// Whether topics and counts of documents need more than 16 bits.
    pub(super) fn is_wide(&self) -> bool {
        self.topics > NARROW || self.longest > NARROW as u64
    }

    /// From which count on a word has a place for every topic: what it takes as a list is as much then, or nearly.
    pub(super) fn dense_from(&self) -> u32 {
        (self.topics as u32 / 4).max(1)
    }

    /// The parts of a peer.
    pub(super) fn parts_of(&self, rank: Rank) -> Range<usize> {
        let cut = |rank: usize| rank * self.parts / self.peers;
        cut(rank.index())..cut(rank.index() + 1)
    }

    /// The peer that has a part.
    pub(super) fn owner(&self, part: usize) -> Rank {
        let ranks = (0..self.peers).map(|rank| Rank::new(rank as u32));
        ranks.into_iter().find(|rank| self.parts_of(*rank).contains(&part)).expect("every part has a peer")
    }

    /// The part of each document of this peer, ascending.
    pub(super) fn cut(&self, corpus: &Corpus) -> Vec<usize> {
        let mut before = self.before;
        let part = |(_, counts): (&[u32], &[u32])| {
            let part = u128::from(before) * self.parts as u128 / u128::from(self.tokens.max(1));
            before += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            (part as usize).min(self.parts - 1) // empty documents at the end
        };
        corpus.iter().map(part).collect()
    }

    /// The block a part works on in a step.
    pub(super) fn block(&self, part: usize, step: usize) -> usize {
        (part + step) % self.parts
    }

    /// An error if a part has more tokens than its places can tell apart.
    pub(super) fn check_part(tokens: u64) -> Result<usize, Error> {
        if tokens > MOST_OF_PART {
            return Err(Error::TooManyTokens { tokens, most: MOST_OF_PART });
        }
        Ok(tokens as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::Vocabulary;
    use std::sync::Arc;

    fn corpus(documents: Vec<Vec<(u32, u32)>>) -> Corpus {
        Corpus::new(documents, Arc::new(Vocabulary::numbered(6))).unwrap()
    }

    #[test]
    fn words_are_dealt_out_evenly_and_documents_cut_in_order() {
        let corpus = corpus(vec![vec![(0, 8), (1, 2)], vec![], vec![(2, 6), (4, 4)], vec![(5, 20)], vec![]]);
        let layouts = hemiola::standalone(1).run(|cluster| Layout::new(cluster, &corpus, 8, 2)).unwrap();
        let layout = &layouts[0];
        assert_eq!((layout.tokens, layout.longest, layout.occurring, layout.dense_from()), (40, 20, 5, 2));
        assert_eq!(layout.words, [vec![5], vec![0, 2, 4, 1]]);
        assert_eq!((layout.homes[4], layout.homes[3]), (Some((1, 2)), None));
        assert_eq!(layout.cut(&corpus), [0, 0, 0, 1, 1]);
        assert_eq!((layout.block(1, 0), layout.block(1, 1)), (1, 0));
    }

    #[test]
    fn parts_are_given_to_peers_in_order() {
        let empty = corpus(vec![vec![(0, 3)]]);
        let layout = hemiola::standalone(1).run(|cluster| Layout::new(cluster, &empty, 8, 5)).unwrap().remove(0);
        let layout = Layout { peers: 3, ..layout };
        let parts = |rank| layout.parts_of(Rank::new(rank));
        assert_eq!([parts(0), parts(1), parts(2)], [0..1, 1..3, 3..5]);
        assert_eq!((0..5).map(|part| layout.owner(part).index()).collect::<Vec<_>>(), [0, 1, 1, 2, 2]);
    }

    #[test]
    fn nothing_to_learn_from_is_an_error() {
        let empty = corpus(vec![vec![], vec![]]);
        let error = hemiola::standalone(1).run(|cluster| Layout::new(cluster, &empty, 8, 2)).unwrap_err().to_string();
        assert!(error.contains("no words"), "{error}");
    }
}
