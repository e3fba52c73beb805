//! Plain text, one document on each line, becomes documents over words that all peers agree on.
//!
//! Each peer reads its share of the files and numbers the words it meets by itself; then all peers tell each other which words they have met and how often,
//! and all of them make the same vocabulary of that: the most frequent word first, of equals the first in the order of their text. **Invariant:** vocabulary and documents
//! depend on the text alone, not on how it was divided.

use super::corpus::{Bags, Corpus};
use super::selection::{LeftOut, Selection};
use super::tokenizer::Tokenizer;
use super::vocabulary::Vocabulary;
use crate::Error;
use hemiola::array::Dictionary;
use hemiola::array::dist::{Lazy, RecordSource};
use hemiola::array::read::{ByteRange, Lines, Mistake, Report, Source};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// No part of a file is smaller than this.
const SMALLEST_UNIT: u64 = 64 * 1024;

/// Words and counts of documents.
type Lists = Vec<Vec<(u32, u32)>>;

/// Documents of this peer's share of the files, whose words are numbered by this peer alone.
struct Share {
    names: Dictionary,
    /// For each word: how often, and in how many documents.
    counts: Vec<(u64, u64)>,
    /// Unit after unit, in order: the number of the first document, and documents.
    units: Vec<(u64, Lists)>,
    /// How many documents all peers have, and how many of them have words.
    documents: u64,
    filled: u64,
    stopped: u64,
}

/// What a part of a file holds.
#[derive(Default)]
struct Unit {
    names: Dictionary,
    documents: Lists,
    stopped: u64,
}

impl Unit {
    fn read(range: &ByteRange, tokenizer: &Tokenizer) -> (Self, hemiola::array::Result<Report>) {
        let mut unit = Self::default();
        let mut words: Vec<u32> = Vec::new();
        let report = Lines::new().read_bytes(range, |line| {
            words.clear();
            let line = crate::mf::data::text(line);
            unit.stopped += tokenizer.words(&line, |word| words.push(unit.names.intern(word.as_bytes())));
            words.sort_unstable();
            let counted = |same: &[u32]| u32::try_from(same.len()).map(|count| (same[0], count));
            let document = words.chunk_by(PartialEq::eq).map(counted).collect::<Result<Vec<_>, _>>();
            unit.documents.push(document.map_err(|_| Mistake::new("a document of fewer than 2^32 words"))?);
            Ok(())
        });
        (unit, report)
    }
}

/// Makes one error of those of all peers.
fn settled(
    cluster: &Cluster,
    sources: &[Source],
    reports: Vec<(usize, hemiola::array::Result<Report>)>,
) -> Result<Vec<u64>> {
    let mut all: Vec<_> = cluster.all_gather(reports)?.into_iter().flatten().collect();
    all.sort_by_key(|(unit, _)| *unit);
    let reports = all.into_iter().map(|(_, report)| report).collect::<hemiola::array::Result<Vec<Report>>>()?;
    let records = reports.iter().map(|report| report.records).collect();
    Report::settle(sources, reports, 0)?;
    Ok(records)
}

impl Share {
    /// *Collective.* Reads this peer's share.
    fn read(cluster: &Cluster, tokenizer: &Tokenizer, sources: &[Source]) -> Result<Self> {
        let bytes: u64 = sources.iter().map(Source::bytes).sum();
        let units = (cluster.size() * cluster.workers() * 4) as u64;
        let ranges = cluster.broadcast(ByteRange::split(sources, (bytes / units.max(1)).max(SMALLEST_UNIT)))?;
        // Consecutive parts for each peer, so that documents of peers follow each other.
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
            // Relaxed: the counter only deals units out; what is read travels through the mutex.
            while let Some(unit) = mine.get(next.fetch_add(1, Ordering::Relaxed)) {
                let read = Unit::read(&ranges[*unit], tokenizer);
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
            found.add(number as u64, unit);
        }
        let records = settled(cluster, sources, reports)?;
        for (unit, _) in &mut found.units {
            *unit = records[..*unit as usize].iter().sum();
        }
        found.documents = records.iter().sum();
        let all = cluster.all_gather((found.filled, found.stopped))?;
        (found.filled, found.stopped) = all.into_iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        Ok(found)
    }

    /// Adds the next part.
    fn add(&mut self, number: u64, mut unit: Unit) {
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

    /// *Collective.* The words that all peers have met and that are kept.
    fn agree(&self, cluster: &Cluster, selection: &Selection) -> Result<(Vocabulary, LeftOut)> {
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).expect("words are made of characters");
        let mine: Vec<(String, (u64, u64))> = self.names.names().map(text).zip(self.counts.iter().copied()).collect();
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (word, (count, of)) in cluster.all_gather(mine)?.into_iter().flatten() {
            let sums = all.entry(word).or_default();
            *sums = (sums.0 + count, sums.1 + of);
        }
        let mut left_out = LeftOut { stopped: self.stopped, ..LeftOut::default() };
        let mut kept = Vec::new();
        for (word, (count, of)) in all {
            if selection.keeps(count, of, self.filled) {
                kept.push((word, count));
            } else {
                left_out.words += 1;
                left_out.tokens += count;
            }
        }
        // They came in the order of their text, which a stable sort keeps among equals.
        kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok((Vocabulary::named(kept.into_iter().map(|(word, _)| word.into()).collect()), left_out))
    }

    /// *Collective.* Documents by words of a vocabulary, and one more column for all words that it does not have.
    fn by_words(mut self, cluster: &Cluster, vocabulary: &Vocabulary) -> Result<DistArray<u32, 2>> {
        let known = vocabulary.by_name();
        let unseen = vocabulary.len() as u32;
        let number = |name: &[u8]| std::str::from_utf8(name).ok().and_then(|name| known.get(name)).copied();
        let numbers: Vec<u32> = self.names.names().map(|name| number(name).unwrap_or(unseen)).collect();
        for (word, _) in self.units.iter_mut().flat_map(|(_, documents)| documents).flatten() {
            *word = numbers[*word as usize];
        }
        let held =
            Held { peers: cluster.size(), extents: vec![self.documents, u64::from(unseen) + 1], units: self.units };
        let duplicates = hemiola::array::sparse::DuplicatePolicy::sum();
        Lazy::over(cluster, held).materialize_as(&Partition::along(0), duplicates)
    }
}

/// Documents that lie in the memory of those who have read them, to be divided evenly.
struct Held {
    peers: usize,
    extents: Vec<u64>,
    units: Vec<(u64, Lists)>,
}

impl RecordSource for Held {
    type Record = ([u64; 2], u32);

    fn units(&self) -> usize {
        self.peers
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn home(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(
        &self,
        _unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola::array::Result<(), Box<Mistake>>,
    ) -> hemiola::array::Result<Report> {
        let mut report = Report::default();
        for (first, documents) in &self.units {
            for (document, words) in (*first..).zip(documents) {
                for (word, count) in words {
                    report.records += 1;
                    // What lies in memory is never refused.
                    let _ = visit(([document, u64::from(*word)], *count));
                }
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<u64>> {
        Some(self.extents.clone())
    }
}

/// *Collective.* Reads text to train on.
pub(super) fn read(
    cluster: &Cluster,
    tokenizer: &Tokenizer,
    selection: &Selection,
    sources: &[Source],
) -> Result<(Corpus, LeftOut)> {
    let found = Share::read(cluster, tokenizer, sources)?;
    let (vocabulary, left_out) = found.agree(cluster, selection)?;
    if vocabulary.is_empty() {
        return Err(Error::NoTokens.into());
    }
    let vocabulary = Arc::new(vocabulary.read_by(tokenizer.clone()));
    let array = found.by_words(cluster, &vocabulary)?;
    // Words that are not kept were counted already.
    Ok((known(cluster, &array, &vocabulary)?.0, left_out))
}

/// *Collective.* Reads text for a model that knows its words: documents, and how many words of each it does not know.
pub(super) fn read_known(
    cluster: &Cluster,
    tokenizer: &Tokenizer,
    vocabulary: &Arc<Vocabulary>,
    sources: &[Source],
) -> Result<(Corpus, Vec<u64>)> {
    let found = Share::read(cluster, tokenizer, sources)?;
    let array = found.by_words(cluster, vocabulary)?;
    known(cluster, &array, vocabulary)
}

/// *Collective.* Documents whose last column is all words that are not known.
fn known(cluster: &Cluster, array: &DistArray<u32, 2>, vocabulary: &Arc<Vocabulary>) -> Result<(Corpus, Vec<u64>)> {
    let number = |word: u64| (word < vocabulary.len() as u64).then_some(word as u32);
    Bags::of(array, |count| *count)?.known(cluster, vocabulary.clone(), number)
}
