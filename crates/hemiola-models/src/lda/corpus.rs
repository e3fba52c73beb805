//! The documents of a peer: which words each has, and how often.
//!
//! Whole documents lie on one peer, and those of peers follow each other in the order of ranks, so a document's number in the whole job is that of the
//! peer's first plus its place here.
//!
//! **Invariant:** the words of a document are ascending, each once, below the size of the vocabulary, and occur at least once. A document may be empty: it
//! keeps its number.

use super::vocabulary::Vocabulary;
use crate::Error;
use crate::training::mixed;
use hemiola::array::Element;
use hemiola::array::random::Values;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::sync::Arc;

/// The draw that decides which documents are held out.
const HELD_OUT: u64 = 11;

/// Documents of one peer, as bags of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Where each document's words begin, and the end of the last.
    offsets: Vec<u64>,
    words: Vec<u32>,
    counts: Vec<u32>,
    /// The number of this peer's first document.
    first: u64,
    /// How many documents all peers have.
    documents: u64,
    vocabulary: Arc<Vocabulary>,
}

/// Collects documents.
#[derive(Clone, Debug)]
pub struct CorpusBuilder {
    offsets: Vec<u64>,
    words: Vec<u32>,
    counts: Vec<u32>,
    vocabulary: Arc<Vocabulary>,
    /// Words and counts of the document that is being added.
    document: Vec<(u32, u32)>,
}

impl CorpusBuilder {
    /// Adds a document: words and how often each occurs, in any order. What comes more than once is added up, and what occurs 0 times is left out.
    pub fn push(&mut self, document: impl IntoIterator<Item = (u32, u32)>) -> Result<(), Error> {
        let number = self.offsets.len() as u64; // from 1: as many as there will be
        let start = self.words.len();
        self.document.clear();
        self.document.extend(document.into_iter().filter(|(_, count)| *count > 0));
        if !self.document.is_sorted_by(|(left, _), (right, _)| left < right) {
            self.document.sort_unstable();
        }
        for (word, count) in self.document.drain(..) {
            if word as usize >= self.vocabulary.len() {
                let words = self.vocabulary.len() as u64;
                return Err(Error::UnknownWord { document: number, word: u64::from(word) + 1, words });
            }
            if self.words[start..].last() == Some(&word)
                && let Some(last) = self.counts.last_mut()
            {
                let sum = last.checked_add(count);
                *last = sum.ok_or(Error::CountTooLarge { document: number, word: u64::from(word) + 1 })?;
            } else {
                self.words.push(word);
                self.counts.push(count);
            }
        }
        self.offsets.push(self.words.len() as u64);
        Ok(())
    }

    /// All documents there are: those of a single peer.
    #[must_use]
    pub fn build(self) -> Corpus {
        let documents = self.offsets.len() as u64 - 1;
        self.of(0, documents)
    }

    /// *Collective.* The documents of all peers, in the order of ranks.
    pub fn gather(self, cluster: &Cluster) -> Result<Corpus> {
        let all: Vec<u64> = cluster.all_gather(self.offsets.len() as u64 - 1)?;
        let first = all[..cluster.rank().index()].iter().sum();
        Ok(self.of(first, all.iter().sum()))
    }

    fn of(self, first: u64, documents: u64) -> Corpus {
        let Self { offsets, words, counts, vocabulary, .. } = self;
        Corpus { offsets, words, counts, first, documents, vocabulary }
    }
}

/// Documents as they were read: words have the numbers of the file. They are gone over once, so that nothing is held but the array and what becomes of it.
pub(super) struct Bags<T> {
    array: DistArray<T, 2>,
    /// How often a word occurs, from its entry.
    count: fn(&T) -> u32,
}

impl<T: Element> Bags<T> {
    /// *Collective.* This peer's rows of an array of documents by words.
    pub(super) fn of(array: &DistArray<T, 2>, count: fn(&T) -> u32) -> Result<Self> {
        let layout = array.layout();
        let in_rows = layout.space.dimension == 0 && layout.space.cut.is_ranges() && layout.time.is_none();
        Ok(Self { array: if in_rows { array.clone() } else { array.repartition(&Partition::along(0))? }, count })
    }

    /// How many words there are in the whole job.
    pub(super) fn words(&self) -> u64 {
        self.array.shape().extent(1)
    }

    /// *Collective.* Documents over the words of a vocabulary, to which `number` leads from those here; and of each of this peer how many tokens lead to none.
    pub(super) fn known(
        &self,
        cluster: &Cluster,
        vocabulary: Arc<Vocabulary>,
        number: impl Fn(u64) -> Option<u32>,
    ) -> Result<(Corpus, Vec<u64>)> {
        let rows = self.array.layout().rows_of(cluster.rank()).unwrap_or(0..0);
        let mut builder = Corpus::builder(vocabulary);
        let mut unseen = vec![0; (rows.end - rows.start) as usize];
        let (mut current, mut document, mut failed) = (rows.start, Vec::new(), Ok(()));
        self.array.for_each(|[of, word], value| {
            assert!(of >= current, "the entries of a block are sorted, and blocks follow each other");
            while current < of && failed.is_ok() {
                failed = builder.push(document.drain(..));
                current += 1;
            }
            let count = (self.count)(value);
            match number(word) {
                Some(word) => document.push((word, count)),
                None => unseen[(of - rows.start) as usize] += u64::from(count),
            }
        });
        while current < rows.end && failed.is_ok() {
            failed = builder.push(document.drain(..));
            current += 1;
        }
        failed?;
        Ok((builder.gather(cluster)?, unseen))
    }
}

impl Corpus {
    /// Collects documents over these words.
    #[must_use]
    pub fn builder(vocabulary: Arc<Vocabulary>) -> CorpusBuilder {
        CorpusBuilder { offsets: vec![0], words: Vec::new(), counts: Vec::new(), vocabulary, document: Vec::new() }
    }

    /// All documents there are, on a single peer: words and how often each occurs, in any order.
    ///
    /// ```
    /// use hemiola_models::lda::{Corpus, Vocabulary};
    /// let vocabulary = Vocabulary::named(vec!["sea".into(), "ship".into(), "sail".into()]);
    /// let corpus = Corpus::new([vec![(2, 1), (0, 3), (2, 1)], vec![]], vocabulary.into())?;
    /// assert_eq!(corpus.document(0), (&[0, 2][..], &[3, 2][..]));
    /// assert_eq!((corpus.len(), corpus.tokens()), (2, 5));
    /// # Ok::<(), hemiola_models::Error>(())
    /// ```
    pub fn new<D>(documents: impl IntoIterator<Item = D>, vocabulary: Arc<Vocabulary>) -> Result<Self, Error>
    where
        D: IntoIterator<Item = (u32, u32)>,
    {
        let mut builder = Self::builder(vocabulary);
        for document in documents {
            builder.push(document)?;
        }
        Ok(builder.build())
    }

    /// *Collective.* The same from an array of documents by words, whose rows are divided among peers evenly by entries.
    pub fn from_array(cluster: &Cluster, array: &DistArray<u32, 2>, vocabulary: Arc<Vocabulary>) -> Result<Self> {
        let words = array.shape().extent(1);
        if words > vocabulary.len() as u64 {
            return Err(Error::UnknownWord { document: 0, word: words, words: vocabulary.len() as u64 }.into());
        }
        Ok(Bags::of(array, |count| *count)?.known(cluster, vocabulary, |word| Some(word as u32))?.0)
    }

    /// How many documents this peer has, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether this peer has no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many documents all peers have.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The number of this peer's first document among those of all.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The words of a document, ascending, and how often each occurs.
    ///
    /// # Panics
    /// If this peer does not have so many.
    #[must_use]
    pub fn document(&self, place: usize) -> (&[u32], &[u32]) {
        let range = self.offsets[place] as usize..self.offsets[place + 1] as usize;
        (&self.words[range.clone()], &self.counts[range])
    }

    /// All documents of this peer, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        (0..self.len()).map(|place| self.document(place))
    }

    /// How many words this peer's documents have, counting each as often as it occurs.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// How many pairs of a document and a word this peer has.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.words.len() as u64
    }

    /// How many words the vocabulary has; their numbers are below it.
    #[must_use]
    pub fn words(&self) -> usize {
        self.vocabulary.len()
    }

    /// The words there are.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// *Collective.* Documents to train on, and a random `share` of them to hold out. Which they are depends on the seed and their numbers alone.
    pub fn split(&self, cluster: &Cluster, share: f64, seed: u64) -> Result<(Self, Self)> {
        let values = Values::new(seed);
        let (mut kept, mut apart) = (Self::builder(self.vocabulary.clone()), Self::builder(self.vocabulary.clone()));
        for (place, (words, counts)) in self.iter().enumerate() {
            let out = values.chosen(self.first + place as u64, HELD_OUT, share);
            let builder = if out { &mut apart } else { &mut kept };
            builder.push(words.iter().copied().zip(counts.iter().copied()))?;
        }
        Ok((kept.gather(cluster)?, apart.gather(cluster)?))
    }

    /// *Collective.* The words and counts of all documents and the names of words in one number, however documents are divided among peers.
    pub fn digest(&self, cluster: &Cluster) -> Result<u64> {
        let mut sum = 0_u64;
        for (place, (words, counts)) in self.iter().enumerate() {
            let number = self.first + place as u64;
            let digest = words.iter().zip(counts).fold(mixed(number, 0), |digest, (word, count)| {
                mixed(digest, u64::from(*word) << 32 | u64::from(*count))
            });
            sum = sum.wrapping_add(digest);
        }
        let all = cluster.all_gather(sum)?.into_iter().fold(self.words() as u64, u64::wrapping_add);
        let terms = self.vocabulary.terms().unwrap_or_default();
        Ok(terms.iter().fold(all, |digest, term| {
            term.bytes().fold(mixed(digest, term.len() as u64), |digest, byte| mixed(digest, u64::from(byte)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(len: u32) -> Arc<Vocabulary> {
        Arc::new(Vocabulary::numbered(len))
    }

    #[test]
    fn words_that_come_twice_are_added_up_and_those_that_never_come_left_out() {
        let corpus = Corpus::new([vec![(3, 1), (1, 0), (0, 2), (3, 5)], vec![], vec![(2, 0)]], words(4)).unwrap();
        assert_eq!(corpus.document(0), (&[0, 3][..], &[2, 6][..]));
        assert_eq!(corpus.document(1), (&[][..], &[][..]));
        assert_eq!(corpus.document(2), (&[][..], &[][..]));
        assert_eq!((corpus.len(), corpus.tokens(), corpus.entries(), corpus.words()), (3, 8, 2, 4));
        // The last word of a document and the first of the next may be the same.
        let twice = Corpus::new([vec![(3, 1)], vec![(3, 2)]], words(4)).unwrap();
        assert_eq!(twice.document(1), (&[3][..], &[2][..]));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let unknown = Corpus::new([vec![(0, 1)], vec![(4, 1)]], words(4));
        assert_eq!(unknown.unwrap_err(), Error::UnknownWord { document: 2, word: 5, words: 4 });
        let large = Corpus::new([vec![(1, u32::MAX), (1, 1)]], words(4));
        assert_eq!(large.unwrap_err(), Error::CountTooLarge { document: 1, word: 2 });
        assert_eq!(Corpus::new([vec![(1, u32::MAX)]], words(4)).unwrap().tokens(), u64::from(u32::MAX));
    }

    #[test]
    fn documents_of_peers_follow_each_other() {
        let of = |peers: usize| {
            let found = hemiola::standalone(peers).run(|cluster| {
                let array = cluster.from_fn([9, 4], |[row, column]| ((row * column) % 3) as u32)?;
                let array = array.entries().filter(|[row, _], count| row != 5 && *count > 0).materialize()?;
                let corpus = Corpus::from_array(cluster, &array, words(6))?;
                let (kept, apart) = corpus.split(cluster, 0.4, 1)?;
                assert_eq!(kept.documents() + apart.documents(), corpus.documents());
                let digests = [corpus.digest(cluster)?, kept.digest(cluster)?, apart.digest(cluster)?];
                let own: Vec<_> = corpus.iter().map(|(words, counts)| (words.to_vec(), counts.to_vec())).collect();
                Ok((corpus.first(), own, digests))
            });
            let found = found.unwrap();
            let mut documents = Vec::new();
            for (first, own, digests) in &found {
                assert_eq!((*first, digests), (documents.len() as u64, &found[0].2));
                documents.extend(own.clone());
            }
            (documents, found[0].2)
        };
        let (documents, digests) = of(1);
        // The last rows of the array may be empty, and count.
        assert_eq!((documents.len(), &documents[5].0[..], &documents[8]), (9, &[][..], &(vec![1, 2], vec![2, 1])));
        assert_eq!(of(3), (documents.clone(), digests));
        assert_eq!(of(2), (documents, digests));
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    }
}
