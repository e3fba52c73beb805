//! Partition: tokens of a range of documents, cell by cell and word by word, each with its topic.
//!
//! A token takes six bytes: the handle of its document's counts, and its topic in 16 bits (32 bits
//! for wide layouts, see [`LdaLayout::is_wide`]). Its word follows from its position.
//!
//! **Invariant:** document counts and word counts equal a recount of the topics.

use super::Corpus;
use super::block::WordBlock;
use super::counts::{CountLayout, DocumentCounts};
use super::layout::LdaLayout;
use super::rng::CounterRng;
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Purpose;
use std::ops::Range;

/// Topics of tokens, in 16 or 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenTopics {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl TokenTopics {
    #[inline]
    pub(super) fn get(&self, token: usize) -> usize {
        match self {
            Self::Narrow(topics) => topics[token] as usize,
            Self::Wide(topics) => topics[token] as usize,
        }
    }

    #[inline]
    pub(super) fn set(&mut self, token: usize, topic: usize) {
        match self {
            Self::Narrow(topics) => topics[token] = topic as u16,
            Self::Wide(topics) => topics[token] = topic as u32,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Narrow(topics) => topics.len(),
            Self::Wide(topics) => topics.len(),
        }
    }
}

/// Partition of documents with their tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentPartition {
    pub(super) number: usize,
    /// Number of tokens of each document.
    pub(super) lengths: Vec<u32>,
    /// By block: start of the tokens of each of its words, and the end of the last.
    pub(super) starts: Vec<Vec<u32>>,
    /// Document handle of each token.
    pub(super) handles: Vec<u32>,
    /// Topic of each token.
    pub(super) topics: TokenTopics,
    pub(super) counts: DocumentCounts,
    /// With hash tables: tokens grouped by document.
    pub(super) tokens: Vec<u32>,
    /// With hash tables: start of the tokens of each document.
    pub(super) firsts: Vec<u32>,
}

impl DocumentPartition {
    /// Creates tokens without topics: all have topic 0, and nothing is counted.
    fn new(
        layout: &LdaLayout,
        number: usize,
        form: CountLayout,
        documents: &PartitionDocuments<'_>,
    ) -> Result<Self, Error> {
        let mut lengths = Vec::new();
        let mut starts: Vec<Vec<u32>> = layout.words.iter().map(|words| vec![0; words.len() + 1]).collect();
        let home = |word: u32| layout.homes[word as usize].expect("words of documents have a block");
        let tokens = documents.iter().flat_map(|(_, counts)| counts).map(|count| u64::from(*count)).sum();
        let tokens = LdaLayout::check_part(tokens)?;
        for (words, counts) in documents.iter() {
            lengths.push(counts.iter().sum());
            for (word, count) in words.iter().zip(counts) {
                let (block, index) = home(*word);
                starts[block as usize][index as usize + 1] += count;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            for at in start.iter_mut() {
                end += *at;
                *at = end;
            }
        }
        let counts = DocumentCounts::new(form, layout.is_wide(), layout.topics, &lengths);
        let mut next: Vec<Vec<u32>> = starts.clone();
        let mut handles = vec![0; tokens];
        for (document, (words, counts_of)) in documents.iter().enumerate() {
            let handle = counts.handle(document);
            for (word, count) in words.iter().zip(counts_of) {
                let (block, index) = home(*word);
                let at = &mut next[block as usize][index as usize];
                handles[*at as usize..(*at + count) as usize].fill(handle);
                *at += count;
            }
        }
        drop(next);
        let topics =
            if layout.is_wide() { TokenTopics::Wide(vec![0; tokens]) } else { TokenTopics::Narrow(vec![0; tokens]) };
        let (mut of_documents, mut firsts) = (Vec::new(), Vec::new());
        if form == CountLayout::Tables {
            let mut end = 0;
            firsts = lengths.iter().map(|length| (end, end += length).0).collect();
            let mut next = firsts.clone();
            of_documents = vec![0; tokens];
            for (token, document) in handles.iter().enumerate() {
                let at = &mut next[*document as usize];
                of_documents[*at as usize] = token as u32;
                *at += 1;
            }
        }
        Ok(Self { number, lengths, starts, handles, topics, counts, tokens: of_documents, firsts })
    }

    /// Assigns a random topic to every token.
    pub(super) fn randomize_topics(&mut self, seed: u64, topics: usize) {
        let key = CounterRng::new(&[seed, u64::MAX, self.number as u64]);
        for token in 0..self.topics.len() {
            self.topics.set(token, key.below(token as u64, topics as u64) as usize);
        }
    }

    /// Returns the tokens of a word of a block.
    #[inline]
    pub(super) fn tokens_of(&self, block: usize, word: usize) -> Range<usize> {
        self.starts[block][word] as usize..self.starts[block][word + 1] as usize
    }

    /// Recounts the topics of documents.
    pub(super) fn count_documents(&mut self) {
        self.counts.clear();
        for (token, handle) in self.handles.iter().enumerate() {
            self.counts.add(*handle, self.topics.get(token));
        }
    }

    /// Adds the tokens of a cell to the rows of its block and to the topic totals.
    pub(super) fn count_words(&self, number: usize, block: &mut WordBlock, totals: &mut [i32]) {
        for word in 0..block.words() {
            for token in self.tokens_of(number, word) {
                let topic = self.topics.get(token);
                block.add(word, topic);
                totals[topic] += 1;
            }
        }
    }

    /// Returns the memory size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let topic = if matches!(self.topics, TokenTopics::Wide(_)) { 4 } else { 2 };
        let starts: usize = self.starts.iter().map(Vec::len).sum();
        let by_document = self.lengths.len() + self.tokens.len() + self.firsts.len();
        self.handles.len() * (4 + topic) + (starts + by_document) * 4 + self.counts.bytes()
    }
}

/// Documents of a partition, from one or more peers.
struct PartitionDocuments<'a> {
    pieces: Vec<DocumentSlice<'a>>,
}

enum DocumentSlice<'a> {
    /// Documents of this peer.
    Here(&'a Corpus, Range<usize>),
    /// Documents sent by another peer.
    Sent(Corpus),
}

impl PartitionDocuments<'_> {
    fn iter(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.pieces.iter().flat_map(|piece| {
            let (corpus, range) = match piece {
                DocumentSlice::Here(corpus, range) => (*corpus, range.clone()),
                DocumentSlice::Sent(corpus) => (corpus, 0..corpus.len()),
            };
            range.map(move |index| corpus.document(index))
        })
    }
}

/// *Collective.* Creates the partitions of this peer, in order, with their documents gathered from
/// all peers. Tokens have no topics yet.
pub(super) fn parts(
    cluster: &Cluster,
    corpus: &Corpus,
    layout: &LdaLayout,
    form: CountLayout,
) -> Result<Vec<DocumentPartition>> {
    let cut = layout.cut(corpus);
    let range = |part: usize| cut.partition_point(|of| *of < part)..cut.partition_point(|of| *of <= part);
    let mut sent = Vec::new();
    if cluster.size() > 1 {
        let me = cluster.rank();
        let mut outgoing = vec![Vec::new(); cluster.size()];
        for part in (0..layout.parts).filter(|part| layout.owner(*part) != me) {
            let bytes = &mut outgoing[layout.owner(part).index()];
            for index in range(part) {
                let (words, counts) = corpus.document(index);
                let numbers = [part as u32, words.len() as u32].into_iter();
                let entries = words.iter().zip(counts).flat_map(|(word, count)| [*word, *count]);
                bytes.extend(numbers.chain(entries).flat_map(u32::to_le_bytes));
            }
        }
        let outgoing = outgoing.into_iter().map(Into::into).collect();
        for (rank, bytes) in cluster.all_to_all(outgoing, Purpose::Shuffle)?.into_iter().enumerate() {
            if rank != me.index() {
                sent.push((rank, received(&bytes, corpus)?));
            }
        }
    }
    let part = |number: usize| {
        let before = |(rank, _): &&(usize, Vec<(usize, Corpus)>)| *rank < cluster.rank().index();
        let of = |(_, corpora): &(usize, Vec<(usize, Corpus)>)| {
            corpora
                .iter()
                .filter(|(part, _)| *part == number)
                .map(|(_, corpus)| DocumentSlice::Sent(corpus.clone()))
                .collect()
        };
        let mut pieces: Vec<DocumentSlice<'_>> =
            sent.iter().filter(before).flat_map(|sent| -> Vec<_> { of(sent) }).collect();
        pieces.push(DocumentSlice::Here(corpus, range(number)));
        pieces.extend(sent.iter().filter(|sent| !before(sent)).flat_map(|sent| -> Vec<_> { of(sent) }));
        DocumentPartition::new(layout, number, form, &PartitionDocuments { pieces })
    };
    Ok(layout.parts_of(cluster.rank()).map(part).collect::<Result<_, _>>()?)
}

/// Deserializes documents sent by another peer, by partition.
fn received(bytes: &[u8], like: &Corpus) -> Result<Vec<(usize, Corpus)>, Error> {
    let mut numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut parts: Vec<(usize, super::CorpusBuilder)> = Vec::new();
    while let (Some(part), Some(length)) = (numbers.next(), numbers.next()) {
        let part = part as usize;
        if parts.last().is_none_or(|(last, _)| *last != part) {
            parts.push((part, Corpus::builder(like.vocabulary().clone())));
        }
        let (_, builder) = parts.last_mut().expect("a partition was just added");
        let document: Vec<(u32, u32)> = (0..length).filter_map(|_| Some((numbers.next()?, numbers.next()?))).collect();
        builder.push(document)?;
    }
    Ok(parts.into_iter().map(|(part, builder)| (part, builder.build())).collect())
}
