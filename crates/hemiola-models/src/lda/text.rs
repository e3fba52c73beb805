//! Plain text, one document per line, becomes a corpus over a vocabulary that all peers agree on.
//!
//! Each peer reads its share of the files and numbers the words it meets locally. Then all peers
//! exchange their words and frequencies and build the same vocabulary: by descending frequency,
//! ties in the order of their text. **Invariant:** vocabulary and documents depend on the text
//! alone, not on its distribution.

use super::corpus::{BagOfWords, Corpus};
use super::tokenizer::Tokenizer;
use super::vocabulary::LdaVocabulary;
use super::vocabulary_filter::{FilteredWords, VocabularyFilter};
use crate::Error;
use hemiola_array::Dictionary;
use hemiola_array::dist::{LazyArray, RecordSource};
use hemiola_array::read::{ByteRange, InputFile, LineReader, ParseError, ReadReport};
use hemiola_array::{DistArray, PartitionSpec};
use hemiola_cluster::{Cluster, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Minimum size of a unit of work in bytes.
const SMALLEST_UNIT: u64 = 64 * 1024;

/// Words and counts of documents.
type Lists = Vec<Vec<(u32, u32)>>;

/// Documents of this peer's share of the files, with locally numbered words.
struct PeerText {
    names: Dictionary,
    /// For each word: its frequency, and the number of documents with it.
    counts: Vec<(u64, u64)>,
    /// By unit, in order: the number of the first document, and the documents.
    units: Vec<(usize, Lists)>,
    /// Number of documents of all peers, and number of non-empty ones.
    documents: u64,
    filled: u64,
    stopped: u64,
}

/// Content of one unit of a file.
#[derive(Default)]
struct TextUnit {
    names: Dictionary,
    documents: Lists,
    stopped: u64,
}

impl TextUnit {
    fn read(range: &ByteRange, tokenizer: &Tokenizer) -> (Self, hemiola_array::Result<ReadReport>) {
        let mut unit = Self::default();
        let mut words: Vec<u32> = Vec::new();
        let report = LineReader::new().read_bytes(range, |line| {
            words.clear();
            if is_binary(line) {
                return Err(ParseError::new("text, not the bytes of a binary file"));
            }
            let line = crate::mf::data::decode_text(line);
            unit.stopped += tokenizer.terms(&line, |word| words.push(unit.names.intern(word.as_bytes())));
            words.sort_unstable();
            let counted = |same: &[u32]| u32::try_from(same.len()).map(|count| (same[0], count));
            let document = words.chunk_by(PartialEq::eq).map(counted).collect::<Result<Vec<_>, _>>();
            unit.documents.push(document.map_err(|_| ParseError::new("a document of fewer than 2^32 words"))?);
            Ok(())
        });
        (unit, report)
    }
}

/// Returns true for bytes that are no text in any usual encoding.
fn is_binary(line: &[u8]) -> bool {
    let control = |byte: &u8| matches!(byte, 1..=8 | 14..=26 | 28..=31);
    line.contains(&0) || std::str::from_utf8(line).is_err() && line.iter().any(control)
}

/// Merges the reports of all peers into one result.
fn merge_reports(
    cluster: &Cluster,
    sources: &[InputFile],
    reports: Vec<(usize, hemiola_array::Result<ReadReport>)>,
) -> Result<Vec<u64>> {
    let mut all: Vec<_> = cluster.all_gather(reports)?.into_iter().flatten().collect();
    all.sort_by_key(|(unit, _)| *unit);
    let reports = all.into_iter().map(|(_, report)| report).collect::<hemiola_array::Result<Vec<ReadReport>>>()?;
    let records = reports.iter().map(|report| report.records).collect();
    ReadReport::merge(sources, reports, 0)?;
    Ok(records)
}

impl PeerText {
    /// *Collective.* Reads this peer's share.
    fn read(cluster: &Cluster, tokenizer: &Tokenizer, sources: &[InputFile]) -> Result<Self> {
        let bytes: u64 = sources.iter().map(InputFile::bytes).sum();
        let units = (cluster.size() * cluster.workers() * 4) as u64;
        let ranges = cluster.broadcast(ByteRange::split(sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
        // Each peer gets consecutive units, so that its documents are consecutive.
        let mine: Vec<usize> = {
            let mut before = 0;
            let owner = |range: &ByteRange| {
                let middle = u128::from(2 * before + range.cost()) * cluster.size() as u128;
                before += range.cost();
                ((middle / (2 * u128::from(bytes.max(1)))) as usize).min(cluster.size() - 1)
            };
            let owners: Vec<usize> = ranges.iter().map(owner).collect();
            (0..ranges.len()).filter(|unit| owners[*unit] == cluster.rank().index()).collect()
        };
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        cluster.each_worker(|_| {
            // Relaxed: the counter only distributes units; results are published through the mutex.
            while let Some(unit) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
                let read = TextUnit::read(&ranges[*unit], tokenizer);
                done.lock().unwrap_or_else(PoisonError::into_inner).push((*unit, read));
            }
        })?;
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(unit, _)| *unit);
        let mut reports = Vec::new();
        let mut found = Self {
            names: Dictionary::new(),
            counts: Vec::new(),
            units: Vec::new(),
            documents: 0,
            filled: 0,
            stopped: 0,
        };
        for (number, (unit, report)) in done {
            reports.push((number, report));
            found.add(number, unit);
        }
        let records = merge_reports(cluster, sources, reports)?;
        for (unit, _) in &mut found.units {
            *unit = records[..*unit].iter().sum::<u64>() as usize;
        }
        found.documents = records.iter().sum();
        let all = cluster.all_gather((found.filled, found.stopped))?;
        (found.filled, found.stopped) = all.into_iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        Ok(found)
    }

    /// Adds the next unit.
    fn add(&mut self, number: usize, mut unit: TextUnit) {
        let renumbered = self.names.merge(&unit.names);
        self.counts.resize(self.names.len(), (0, 0));
        for document in &mut unit.documents {
            self.filled += u64::from(!document.is_empty());
            for (word, count) in document {
                *word = renumbered[*word as usize];
                let sums = &mut self.counts[*word as usize];
                *sums = (sums.0 + u64::from(*count), sums.1 + 1);
            }
        }
        self.stopped += unit.stopped;
        self.units.push((number, unit.documents));
    }

    /// *Collective.* Builds the vocabulary of the words of all peers that pass the filter.
    fn agree(&self, cluster: &Cluster, filter: &VocabularyFilter) -> Result<(LdaVocabulary, FilteredWords)> {
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).expect("words are UTF-8");
        let mine: Vec<(String, (u64, u64))> = self.names.names().map(text).zip(self.counts.iter().copied()).collect();
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (word, (count, of)) in cluster.all_gather(mine)?.into_iter().flatten() {
            let sums = all.entry(word).or_default();
            *sums = (sums.0 + count, sums.1 + of);
        }
        let mut filtered = FilteredWords { stopped: self.stopped, ..FilteredWords::default() };
        let mut kept = Vec::new();
        for (word, (count, of)) in all {
            if filter.keeps(count, of, self.filled) {
                kept.push((word, count));
            } else {
                filtered.words += 1;
                filtered.tokens += count;
            }
        }
        // They are in the order of their text, which a stable sort keeps among equals.
        kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok((LdaVocabulary::named(kept.into_iter().map(|(word, _)| word.into()).collect()), filtered))
    }

    /// *Collective.* Builds an array of documents by words of a vocabulary, with one more column
    /// for unknown words.
    fn by_words(mut self, cluster: &Cluster, vocabulary: &LdaVocabulary) -> Result<DistArray<u32, 2>> {
        let known = vocabulary.by_name();
        let unseen = vocabulary.len() as u32;
        let number = |name: &[u8]| std::str::from_utf8(name).ok().and_then(|name| known.get(name)).copied();
        let numbers: Vec<u32> = self.names.names().map(|name| number(name).unwrap_or(unseen)).collect();
        for (word, _) in self.units.iter_mut().flat_map(|(_, documents)| documents).flatten() {
            *word = numbers[*word as usize];
        }
        let source = TextRecordSource {
            peers: cluster.size(),
            extents: vec![self.documents as usize, unseen as usize + 1],
            units: self.units,
        };
        let duplicates = hemiola_array::sparse::DuplicatePolicy::sum();
        LazyArray::from_source(cluster, source).materialize_as(&PartitionSpec::along(0), duplicates)
    }
}

/// Record source of documents in the memory of their readers, to be distributed evenly.
struct TextRecordSource {
    peers: usize,
    extents: Vec<usize>,
    units: Vec<(usize, Lists)>,
}

impl RecordSource for TextRecordSource {
    type Record = ([usize; 2], u32);

    fn units(&self) -> usize {
        self.peers
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn pinned_peer(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(
        &self,
        _unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let mut report = ReadReport::default();
        for (first, documents) in &self.units {
            for (document, words) in (*first..).zip(documents) {
                for (word, count) in words {
                    report.records += 1;
                    // Documents in memory are never rejected.
                    let _ = visit(([document, *word as usize], *count));
                }
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<usize>> {
        Some(self.extents.clone())
    }
}

/// *Collective.* Reads text for training.
pub(super) fn read(
    cluster: &Cluster,
    tokenizer: &Tokenizer,
    filter: &VocabularyFilter,
    sources: &[InputFile],
) -> Result<(Corpus, FilteredWords)> {
    let found = PeerText::read(cluster, tokenizer, sources)?;
    let (vocabulary, filtered) = found.agree(cluster, filter)?;
    if vocabulary.is_empty() {
        return Err(Error::NoTokens.into());
    }
    let vocabulary = Arc::new(vocabulary.with_tokenizer(tokenizer.clone()));
    let array = found.by_words(cluster, &vocabulary)?;
    // Filtered words were counted already.
    Ok((known(cluster, &array, &vocabulary)?.0, filtered))
}

/// *Collective.* Reads text over an existing vocabulary. Also returns the number of unknown tokens
/// of each document.
pub(super) fn read_for_model(
    cluster: &Cluster,
    tokenizer: &Tokenizer,
    vocabulary: &Arc<LdaVocabulary>,
    sources: &[InputFile],
) -> Result<(Corpus, Vec<u64>)> {
    let found = PeerText::read(cluster, tokenizer, sources)?;
    let array = found.by_words(cluster, vocabulary)?;
    known(cluster, &array, vocabulary)
}

/// *Collective.* Converts documents whose last column counts unknown words.
fn known(cluster: &Cluster, array: &DistArray<u32, 2>, vocabulary: &Arc<LdaVocabulary>) -> Result<(Corpus, Vec<u64>)> {
    let number = |word: usize| (word < vocabulary.len()).then_some(word as u32);
    BagOfWords::of(array, |count| *count)?.to_corpus(cluster, vocabulary.clone(), number)
}
