//! The tokens of a part: its documents, cell by cell and word by word, each with its topic.
//!
//! A token takes six bytes: how to find its document's counts, and its topic in 16 bits (32 where topics need them, or counts of documents, see [`Layout::is_wide`]). Which word it is follows
//! from where it stands.
//!
//! **Invariant:** counts of documents and of words are what a recount of topics gives.

use super::Corpus;
use super::block::Block;
use super::counts::{Counts, Form};
use super::layout::Layout;
use super::random::Key;
use crate::Error;
use hemiola::core::Purpose;
use hemiola::{Cluster, Result};
use std::ops::Range;

/// What a token's topic is kept as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topics {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

impl Topics {
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

/// Documents of a part, and their tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) number: usize,
    /// Tokens of each document.
    pub(super) lengths: Vec<u32>,
    /// By block: where the tokens of each of its words begin, and the end of the last.
    pub(super) starts: Vec<Vec<u32>>,
    /// Of each token: its document.
    pub(super) handles: Vec<u32>,
    /// Of each token.
    pub(super) topics: Topics,
    pub(super) counts: Counts,
    /// Where counts are tables: the tokens of each document, one after the other.
    pub(super) tokens: Vec<u32>,
    /// And where those of each document begin.
    pub(super) firsts: Vec<u32>,
}

impl Part {
    /// Tokens without topics: all have topic 0, and nothing is counted.
    fn new(layout: &Layout, number: usize, form: Form, documents: &Documents<'_>) -> Result<Self, Error> {
        let mut lengths = Vec::new();
        let mut starts: Vec<Vec<u32>> = layout.words.iter().map(|words| vec![0; words.len() + 1]).collect();
        let home = |word: u32| layout.homes[word as usize].expect("words of documents occur");
        let tokens = documents.iter().flat_map(|(_, counts)| counts).map(|count| u64::from(*count)).sum();
        let tokens = Layout::check_part(tokens)?;
        for (words, counts) in documents.iter() {
            lengths.push(counts.iter().sum());
            for (word, count) in words.iter().zip(counts) {
                let (block, place) = home(*word);
                starts[block as usize][place as usize + 1] += count;
            }
        }
        let mut end = 0;
        for start in &mut starts {
            for at in start.iter_mut() {
                end += *at;
                *at = end;
            }
        }
        let counts = Counts::new(form, layout.is_wide(), layout.topics, &lengths);
        let mut next: Vec<Vec<u32>> = starts.clone();
        let mut handles = vec![0; tokens];
        for (document, (words, counts_of)) in documents.iter().enumerate() {
            let handle = counts.handle(document);
            for (word, count) in words.iter().zip(counts_of) {
                let (block, place) = home(*word);
                let at = &mut next[block as usize][place as usize];
                handles[*at as usize..(*at + count) as usize].fill(handle);
                *at += count;
            }
        }
        drop(next);
        let topics = if layout.is_wide() { Topics::Wide(vec![0; tokens]) } else { Topics::Narrow(vec![0; tokens]) };
        let (mut of_documents, mut firsts) = (Vec::new(), Vec::new());
        if form == Form::Tables {
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

    /// Gives every token a random topic.
    pub(super) fn scatter(&mut self, seed: u64, topics: usize) {
        let key = Key::new(&[seed, u64::MAX, self.number as u64]);
        for token in 0..self.topics.len() {
            self.topics.set(token, key.below(token as u64, topics as u64) as usize);
        }
    }

    /// The tokens of a word of a block.
    #[inline]
    pub(super) fn tokens_of(&self, block: usize, word: usize) -> Range<usize> {
        self.starts[block][word] as usize..self.starts[block][word + 1] as usize
    }

    /// Counts topics of documents anew.
    pub(super) fn count_documents(&mut self) {
        self.counts.clear();
        for (token, handle) in self.handles.iter().enumerate() {
            self.counts.add(*handle, self.topics.get(token));
        }
    }

    /// Adds what the tokens of a cell have to the rows of its block, and to the totals of topics.
    pub(super) fn count_words(&self, number: usize, block: &mut Block, totals: &mut [i32]) {
        for word in 0..block.words() {
            for token in self.tokens_of(number, word) {
                let topic = self.topics.get(token);
                block.add(word, topic);
                totals[topic] += 1;
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let topic = if matches!(self.topics, Topics::Wide(_)) { 4 } else { 2 };
        let starts: usize = self.starts.iter().map(Vec::len).sum();
        let by_document = self.lengths.len() + self.tokens.len() + self.firsts.len();
        self.handles.len() * (4 + topic) + (starts + by_document) * 4 + self.counts.bytes()
    }
}

/// The documents of a part, some from each of some peers.
struct Documents<'a> {
    pieces: Vec<Piece<'a>>,
}

enum Piece<'a> {
    /// Those of this peer.
    Here(&'a Corpus, Range<usize>),
    /// Those of another.
    Sent(Corpus),
}

impl Documents<'_> {
    fn iter(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.pieces.iter().flat_map(|piece| {
            let (corpus, range) = match piece {
                Piece::Here(corpus, range) => (*corpus, range.clone()),
                Piece::Sent(corpus) => (corpus, 0..corpus.len()),
            };
            range.map(move |place| corpus.document(place))
        })
    }
}

/// *Collective.* The parts of this peer, in their order, with the documents that belong to them wherever they were. Tokens have no topics yet.
pub(super) fn parts(cluster: &Cluster, corpus: &Corpus, layout: &Layout, form: Form) -> Result<Vec<Part>> {
    let cut = layout.cut(corpus);
    let range = |part: usize| cut.partition_point(|of| *of < part)..cut.partition_point(|of| *of <= part);
    let mut sent = Vec::new();
    if cluster.size() > 1 {
        let me = cluster.rank();
        let mut outgoing = vec![Vec::new(); cluster.size()];
        for part in (0..layout.parts).filter(|part| layout.owner(*part) != me) {
            let bytes = &mut outgoing[layout.owner(part).index()];
            for place in range(part) {
                let (words, counts) = corpus.document(place);
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
            corpora.iter().filter(|(part, _)| *part == number).map(|(_, corpus)| Piece::Sent(corpus.clone())).collect()
        };
        let mut pieces: Vec<Piece<'_>> = sent.iter().filter(before).flat_map(|sent| -> Vec<_> { of(sent) }).collect();
        pieces.push(Piece::Here(corpus, range(number)));
        pieces.extend(sent.iter().filter(|sent| !before(sent)).flat_map(|sent| -> Vec<_> { of(sent) }));
        Part::new(layout, number, form, &Documents { pieces })
    };
    Ok(layout.parts_of(cluster.rank()).map(part).collect::<Result<_, _>>()?)
}

/// Documents that another peer sent, by part.
fn received(bytes: &[u8], like: &Corpus) -> Result<Vec<(usize, Corpus)>, Error> {
    let mut numbers = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
    let mut parts: Vec<(usize, super::CorpusBuilder)> = Vec::new();
    while let (Some(part), Some(length)) = (numbers.next(), numbers.next()) {
        let part = part as usize;
        if parts.last().is_none_or(|(last, _)| *last != part) {
            parts.push((part, Corpus::builder(like.vocabulary().clone())));
        }
        let (_, builder) = parts.last_mut().expect("one was added");
        let document: Vec<(u32, u32)> = (0..length).filter_map(|_| Some((numbers.next()?, numbers.next()?))).collect();
        builder.push(document)?;
    }
    Ok(parts.into_iter().map(|(part, builder)| (part, builder.build())).collect())
}
