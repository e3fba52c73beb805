//! Corpus: the documents of a peer as bags of words.
//!
//! Each document lies on one peer, and those of peers follow each other in rank order, so the
//! global number of a document is that of the peer's first plus its index.
//!
//! **Invariant:** the words of a document ascend without duplicates, are below the vocabulary size,
//! and have nonzero counts. A document may be empty: it keeps its number.

use super::vocabulary::LdaVocabulary;
use crate::Error;
use crate::training::hash_combine;
use hemiola_array::Element;
use hemiola_array::{DistArray, PartitionSpec};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use std::sync::Arc;

/// Random stream that selects the validation documents.
const VALIDATION_DRAW: u64 = 11;

/// Documents of one peer, as bags of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Start of each document, and the end of the last.
    offsets: Vec<u64>,
    words: Vec<u32>,
    counts: Vec<u32>,
    /// Global number of this peer's first document.
    first: usize,
    /// Number of documents of all peers.
    documents: usize,
    vocabulary: Arc<LdaVocabulary>,
}

/// Builder of a [`Corpus`].
#[derive(Clone, Debug)]
pub struct CorpusBuilder {
    offsets: Vec<u64>,
    words: Vec<u32>,
    counts: Vec<u32>,
    vocabulary: Arc<LdaVocabulary>,
    /// Scratch: words and counts of the document being added.
    document: Vec<(u32, u32)>,
}

impl CorpusBuilder {
    /// Adds a document: words and their counts, in any order. Counts of repeated words are summed,
    /// and zero counts are dropped.
    pub fn push(&mut self, document: impl IntoIterator<Item = (u32, u32)>) -> Result<(), Error> {
        let number = self.offsets.len(); // counted from 1
        let start = self.words.len();
        self.document.clear();
        self.document.extend(document.into_iter().filter(|(_, count)| *count > 0));
        if !self.document.is_sorted_by(|(left, _), (right, _)| left < right) {
            self.document.sort_unstable();
        }
        for (word, count) in self.document.drain(..) {
            if word as usize >= self.vocabulary.len() {
                let words = self.vocabulary.len();
                return Err(Error::WordOutOfRange { document: number, word: word as usize + 1, words });
            }
            if self.words[start..].last() == Some(&word)
                && let Some(last) = self.counts.last_mut()
            {
                let sum = last.checked_add(count);
                *last = sum.ok_or(Error::CountTooLarge { document: number, word: word as usize + 1 })?;
            } else {
                self.words.push(word);
                self.counts.push(count);
            }
        }
        self.offsets.push(self.words.len() as u64);
        Ok(())
    }

    /// Builds the corpus of a single-peer cluster.
    #[must_use]
    pub fn build(self) -> Corpus {
        let documents = self.offsets.len() - 1;
        self.of(0, documents)
    }

    /// *Collective.* Builds the corpus of all peers, in rank order.
    pub fn gather(self, cluster: &Cluster) -> Result<Corpus> {
        let all: Vec<usize> = cluster.all_gather(self.offsets.len() - 1)?;
        let first = all[..cluster.rank().index()].iter().sum();
        Ok(self.of(first, all.iter().sum()))
    }

    fn of(self, first: usize, documents: usize) -> Corpus {
        let Self { offsets, words, counts, vocabulary, .. } = self;
        Corpus { offsets, words, counts, first, documents, vocabulary }
    }
}

/// Documents as read from files, with word ids of the file. They are traversed once, so that only
/// the array and the result are in memory.
pub(super) struct BagOfWords<T> {
    array: DistArray<T, 2>,
    /// Extracts the word count from an entry.
    count: fn(&T) -> u32,
}

impl<T: Element> BagOfWords<T> {
    /// *Collective.* Returns this peer's rows of an array of documents by words.
    pub(super) fn of(array: &DistArray<T, 2>, count: fn(&T) -> u32) -> Result<Self> {
        let layout = array.layout();
        let in_rows = layout.space.dimension == 0 && layout.space.partitioner.is_range_based() && layout.time.is_none();
        Ok(Self { array: if in_rows { array.clone() } else { array.repartition(&PartitionSpec::along(0))? }, count })
    }

    /// Returns the number of words of all peers.
    pub(super) fn words(&self) -> usize {
        self.array.shape().extent(1)
    }

    /// *Collective.* Maps the documents to a vocabulary by `number`. Also returns, for each
    /// document of this peer, the number of tokens without a mapping.
    pub(super) fn to_corpus(
        &self,
        cluster: &Cluster,
        vocabulary: Arc<LdaVocabulary>,
        number: impl Fn(usize) -> Option<u32>,
    ) -> Result<(Corpus, Vec<u64>)> {
        let rows = self.array.layout().rows_of(cluster.rank()).unwrap_or(0..0);
        let mut builder = Corpus::builder(vocabulary);
        let mut unseen = vec![0; rows.end - rows.start];
        let (mut current, mut document, mut failed) = (rows.start, Vec::new(), Ok(()));
        self.array.for_each(|[of, word], value| {
            assert!(of >= current, "entries of a block are sorted, and blocks are consecutive");
            while current < of && failed.is_ok() {
                failed = builder.push(document.drain(..));
                current += 1;
            }
            let count = (self.count)(value);
            match number(word) {
                Some(word) => document.push((word, count)),
                None => unseen[of - rows.start] += u64::from(count),
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
    /// Returns a builder of documents over a vocabulary.
    #[must_use]
    pub fn builder(vocabulary: Arc<LdaVocabulary>) -> CorpusBuilder {
        CorpusBuilder { offsets: vec![0], words: Vec::new(), counts: Vec::new(), vocabulary, document: Vec::new() }
    }

    /// Creates the corpus of a single-peer cluster: words and their counts, in any order.
    ///
    /// ```
    /// use hemiola_models::lda::{Corpus, LdaVocabulary};
    /// let vocabulary = LdaVocabulary::named(vec!["sea".into(), "ship".into(), "sail".into()]);
    /// let corpus = Corpus::new([vec![(2, 1), (0, 3), (2, 1)], vec![]], vocabulary.into())?;
    /// assert_eq!(corpus.document(0), (&[0, 2][..], &[3, 2][..]));
    /// assert_eq!((corpus.len(), corpus.tokens()), (2, 5));
    /// # Ok::<(), hemiola_models::Error>(())
    /// ```
    pub fn new<D>(documents: impl IntoIterator<Item = D>, vocabulary: Arc<LdaVocabulary>) -> Result<Self, Error>
    where
        D: IntoIterator<Item = (u32, u32)>,
    {
        let mut builder = Self::builder(vocabulary);
        for document in documents {
            builder.push(document)?;
        }
        Ok(builder.build())
    }

    /// Returns the number of documents of this peer, including empty ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether this peer has no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of documents of all peers.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Returns the global number of this peer's first document.
    #[must_use]
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns the words of a document, ascending, and their counts.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn document(&self, index: usize) -> (&[u32], &[u32]) {
        let range = self.offsets[index] as usize..self.offsets[index + 1] as usize;
        (&self.words[range.clone()], &self.counts[range])
    }

    /// Iterates over the documents of this peer, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u32], &[u32])> {
        (0..self.len()).map(|index| self.document(index))
    }

    /// Returns the number of tokens of this peer.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the number of (document, word) pairs of this peer.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.words.len() as u64
    }

    /// Returns the vocabulary size; word ids are below it.
    #[must_use]
    pub fn words(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the vocabulary of the documents.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<LdaVocabulary> {
        &self.vocabulary
    }

    /// *Collective.* Splits off a random `share` of the documents for validation. The choice
    /// depends on the seed and the document numbers alone.
    pub fn split(&self, cluster: &Cluster, share: f64, Seed(seed): Seed) -> Result<(Self, Self)> {
        let values = PhiloxRng::new(seed);
        let (mut kept, mut apart) = (Self::builder(self.vocabulary.clone()), Self::builder(self.vocabulary.clone()));
        for (index, (words, counts)) in self.iter().enumerate() {
            let out = values.random_bool((self.first + index) as u64, VALIDATION_DRAW, share);
            let builder = if out { &mut apart } else { &mut kept };
            builder.push(words.iter().copied().zip(counts.iter().copied()))?;
        }
        Ok((kept.gather(cluster)?, apart.gather(cluster)?))
    }

    /// *Collective.* Returns the documents whose global numbers are wanted, numbered anew.
    pub fn select(&self, cluster: &Cluster, wanted: impl Fn(usize) -> bool) -> Result<Self> {
        let mut kept = Self::builder(self.vocabulary.clone());
        for (_, (words, counts)) in self.iter().enumerate().filter(|(index, _)| wanted(self.first + index)) {
            kept.push(words.iter().copied().zip(counts.iter().copied()))?;
        }
        kept.gather(cluster)
    }

    /// *Collective.* Returns a digest of all documents and word names, independent of the
    /// distribution over peers.
    pub fn digest(&self, cluster: &Cluster) -> Result<u64> {
        let mut sum = 0_u64;
        for (index, (words, counts)) in self.iter().enumerate() {
            let number = (self.first + index) as u64;
            let digest = words.iter().zip(counts).fold(hash_combine(number, 0), |digest, (word, count)| {
                hash_combine(digest, u64::from(*word) << 32 | u64::from(*count))
            });
            sum = sum.wrapping_add(digest);
        }
        let all = cluster.all_gather(sum)?.into_iter().fold(self.words() as u64, u64::wrapping_add);
        let terms = self.vocabulary.terms().unwrap_or_default();
        Ok(terms.iter().fold(all, |digest, term| {
            term.bytes()
                .fold(hash_combine(digest, term.len() as u64), |digest, byte| hash_combine(digest, u64::from(byte)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::ArrayExt;

    fn words(len: u32) -> Arc<LdaVocabulary> {
        Arc::new(LdaVocabulary::numbered(len))
    }

    #[test]
    fn repeated_words_are_summed_and_zero_counts_dropped() {
        let corpus = Corpus::new([vec![(3, 1), (1, 0), (0, 2), (3, 5)], vec![], vec![(2, 0)]], words(4)).unwrap();
        assert_eq!(corpus.document(0), (&[0, 3][..], &[2, 6][..]));
        assert_eq!(corpus.document(1), (&[][..], &[][..]));
        assert_eq!(corpus.document(2), (&[][..], &[][..]));
        assert_eq!((corpus.len(), corpus.tokens(), corpus.entries(), corpus.words()), (3, 8, 2, 4));
        // The last word of a document may equal the first of the next.
        let twice = Corpus::new([vec![(3, 1)], vec![(3, 2)]], words(4)).unwrap();
        assert_eq!(twice.document(1), (&[3][..], &[2][..]));
    }

    #[test]
    fn out_of_range_words_and_counts_are_rejected() {
        let unknown = Corpus::new([vec![(0, 1)], vec![(4, 1)]], words(4));
        assert_eq!(unknown.unwrap_err(), Error::WordOutOfRange { document: 2, word: 5, words: 4 });
        let large = Corpus::new([vec![(1, u32::MAX), (1, 1)]], words(4));
        assert_eq!(large.unwrap_err(), Error::CountTooLarge { document: 1, word: 2 });
        assert_eq!(Corpus::new([vec![(1, u32::MAX)]], words(4)).unwrap().tokens(), u64::from(u32::MAX));
    }

    #[test]
    fn documents_of_peers_are_consecutive() {
        let of = |peers: usize| {
            let found = hemiola_cluster::standalone(peers).run(|cluster| {
                let array = cluster.from_fn([9, 4], |[row, column]| ((row * column) % 3) as u32)?;
                let array = array.entries().filter(|[row, _], count| row != 5 && *count > 0).materialize()?;
                let bags = BagOfWords::of(&array, |count| *count)?;
                let corpus = bags.to_corpus(cluster, words(6), |word| Some(word as u32))?.0;
                let (kept, apart) = corpus.split(cluster, 0.4, Seed(1))?;
                assert_eq!(kept.documents() + apart.documents(), corpus.documents());
                let digests = [corpus.digest(cluster)?, kept.digest(cluster)?, apart.digest(cluster)?];
                let own: Vec<_> = corpus.iter().map(|(words, counts)| (words.to_vec(), counts.to_vec())).collect();
                Ok((corpus.first(), own, digests))
            });
            let found = found.unwrap();
            let mut documents = Vec::new();
            for (first, own, digests) in &found {
                assert_eq!((*first, digests), (documents.len(), &found[0].2));
                documents.extend(own.clone());
            }
            (documents, found[0].2)
        };
        let (documents, digests) = of(1);
        // Trailing empty rows of the array count as documents.
        assert_eq!((documents.len(), &documents[5].0[..], &documents[8]), (9, &[][..], &(vec![1, 2], vec![2, 1])));
        assert_eq!(of(3), (documents.clone(), digests));
        assert_eq!(of(2), (documents, digests));
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    }
}
