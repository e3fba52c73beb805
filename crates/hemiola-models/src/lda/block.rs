//! Word blocks: topic counts of the words of a block. A block travels as a whole.
//!
//! A frequent word has a dense row with a count per topic. A rare word has a list of topics and
//! counts, preceded by its length, with room for as many topics as it can have. Words are ordered
//! by frequency, so dense rows come first.
//!
//! **Invariant:** the counts of a word sum to its frequency over all partitions; the topics of a
//! list ascend and have nonzero counts. So a row is determined by its counts, and sums over it are
//! rounded in one order.

use super::layout::{LdaLayout, MAX_NARROW};
use super::topic_count::TopicCount;
use hemiola_core::varint;

/// Topic counts of the words of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WordBlock {
    topics: usize,
    /// Number of words with a dense row.
    dense: usize,
    /// Numbers per list entry: 1, or 2 where topics or counts need more than 16 bits.
    width: usize,
    /// Start of the row of each word, and the end of the last.
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

/// Row of a word.
pub(super) enum WordRow<'a> {
    /// Dense: a count per topic.
    Dense(&'a mut [u32]),
    /// Sparse: the number of entries, then the entries.
    List(&'a mut [u32]),
}

impl WordBlock {
    /// Creates a block with all counts 0.
    pub(super) fn new(layout: &LdaLayout, number: usize) -> Self {
        Self::with(layout, number, layout.dense_from())
    }

    /// Creates a block with dense rows only, so that any counts fit.
    pub(super) fn dense(layout: &LdaLayout, number: usize) -> Self {
        Self::with(layout, number, 0)
    }

    /// Creates a block where words of frequency `from` or more have dense rows.
    fn with(layout: &LdaLayout, number: usize, from: u32) -> Self {
        let topics = layout.topics;
        // Lists are for words with fewer tokens than a quarter of the topics.
        let width = if topics > MAX_NARROW { 2 } else { 1 };
        let count = |word: &u32| layout.counts[*word as usize];
        let words = &layout.words[number];
        let dense = words.iter().take_while(|word| count(word) >= from).count();
        let mut offsets = vec![0];
        let mut end = 0;
        offsets.extend(words.iter().enumerate().map(|(index, word)| {
            end += if index < dense { topics } else { 1 + width * (count(word) as usize).min(topics) };
            end
        }));
        Self { topics, dense, width, rows: vec![0; end], offsets }
    }

    /// Returns the number of words.
    pub(super) fn words(&self) -> usize {
        self.offsets.len() - 1
    }

    #[inline]
    pub(super) fn row(&mut self, word: usize) -> WordRow<'_> {
        let row = &mut self.rows[self.offsets[word]..self.offsets[word + 1]];
        if word < self.dense { WordRow::Dense(row) } else { WordRow::List(row) }
    }

    /// Calls `with` for all topics with a nonzero count of a word.
    #[inline]
    pub(super) fn each(&self, word: usize, mut with: impl FnMut(usize, u32)) {
        let row = &self.rows[self.offsets[word]..self.offsets[word + 1]];
        if word < self.dense {
            row.iter().enumerate().filter(|(_, count)| **count > 0).for_each(|(topic, count)| with(topic, *count));
        } else {
            let (length, entries) = (row[0] as usize, &row[1..]);
            if self.width == 1 {
                entries[..length].iter().for_each(|entry| with(entry.topic(), TopicCount::count(*entry)));
            } else {
                entries[..2 * length]
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .for_each(|[topic, count]| with(*topic as usize, *count));
            }
        }
    }

    /// Replaces a list by these entries, whose topics ascend.
    ///
    /// # Panics
    /// If the word has a dense row, or less room.
    #[inline]
    pub(super) fn fill(&mut self, word: usize, entries: impl Iterator<Item = (usize, u32)>) {
        let width = self.width;
        let WordRow::List(row) = self.row(word) else { unreachable!("only lists can be filled") };
        let mut length = 0;
        for (topic, count) in entries {
            if width == 1 {
                row[1 + length] = TopicCount::new(topic, count);
            } else {
                (row[1 + 2 * length], row[2 + 2 * length]) = (topic as u32, count);
            }
            length += 1;
        }
        row[0] = length as u32;
    }

    /// Adds one token of a topic to a word.
    pub(super) fn add(&mut self, word: usize, topic: usize) {
        let width = self.width;
        match self.row(word) {
            WordRow::Dense(row) => row[topic] += 1,
            WordRow::List(row) => {
                let length = row[0] as usize;
                let end = row.len().min(1 + width * (length + 1));
                let entries = &mut row[1..end];
                let found = |at: usize| if width == 1 { entries[at].topic() } else { entries[2 * at] as usize };
                let at = (0..length).take_while(|at| found(*at) < topic).count();
                if at < length && found(at) == topic {
                    entries[width * at + width - 1] += 1;
                    return;
                }
                entries.copy_within(width * at..width * length, width * (at + 1));
                if width == 1 {
                    entries[at] = TopicCount::new(topic, 1);
                } else {
                    (entries[2 * at], entries[2 * at + 1]) = (topic as u32, 1);
                }
                row[0] += 1;
            }
        }
    }

    /// Returns for each word the topics whose counts differ from `before`, and the differences.
    /// Both blocks have dense rows only.
    pub(super) fn changes(&self, before: &Self) -> Vec<(Vec<u32>, Vec<i32>)> {
        let rows = (0..self.words()).map(|word| self.offsets[word]..self.offsets[word + 1]);
        let of = |row: std::ops::Range<usize>| {
            let counts = self.rows[row.clone()].iter().zip(&before.rows[row]).enumerate();
            let changed = counts.filter(|(_, (now, before))| now != before);
            changed.map(|(topic, (now, before))| (topic as u32, now.wrapping_sub(*before).cast_signed())).unzip()
        };
        rows.map(of).collect()
    }

    /// Sets all counts to 0.
    pub(super) fn clear(&mut self) {
        self.rows.fill(0);
    }

    /// Serializes the block: for every word the number of its topics, then for each the gap to the
    /// previous topic and its count, as variable-length integers.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut entries = Vec::new();
        for word in 0..self.words() {
            entries.clear();
            self.each(word, |topic, count| entries.push((topic, count)));
            varint::write(entries.len() as u64, &mut bytes);
            let mut next = 0;
            for (topic, count) in &entries {
                varint::write((*topic - next) as u64, &mut bytes);
                varint::write(u64::from(*count), &mut bytes);
                next = *topic + 1;
            }
        }
        bytes
    }

    /// Deserializes what [`pack`](Self::pack) wrote, into a block of the same words. Returns `None`
    /// for malformed bytes.
    pub(super) fn unpack(mut self, bytes: &[u8]) -> Option<Self> {
        self.clear();
        let mut rest = bytes;
        let mut entries = Vec::new();
        for word in 0..self.words() {
            entries.clear();
            let mut next = 0_u64;
            for _ in 0..varint::read(&mut rest).ok()? {
                let topic =
                    next.checked_add(varint::read(&mut rest).ok()?).filter(|topic| *topic < self.topics as u64)?;
                entries.push((topic as usize, u32::try_from(varint::read(&mut rest).ok()?).ok()?));
                next = topic + 1;
            }
            if let WordRow::Dense(row) = self.row(word) {
                for (topic, count) in &entries {
                    row[*topic] = *count;
                }
                continue;
            }
            let room = (self.offsets[word + 1] - self.offsets[word] - 1) / self.width;
            if entries.len() > room {
                return None;
            }
            self.fill(word, entries.iter().copied());
        }
        rest.is_empty().then_some(self)
    }

    /// Returns the memory size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<u32>() + self.offsets.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::rng::CounterRng;
    use crate::lda::{Corpus, LdaVocabulary};
    use std::sync::Arc;

    fn blocks(topics: usize) -> (LdaLayout, WordBlock) {
        let document: Vec<(u32, u32)> = (0..40).map(|word| (word, 1 + word * word / 8)).collect();
        let corpus = Corpus::new([document], Arc::new(LdaVocabulary::numbered(40))).unwrap();
        let layout = hemiola_cluster::standalone(1)
            .run(|cluster| LdaLayout::new(cluster, &corpus, topics, 1))
            .unwrap()
            .remove(0);
        let block = WordBlock::new(&layout, 0);
        (layout, block)
    }

    #[test]
    fn added_counts_survive_serialization() {
        for topics in [3, 100, 70_000] {
            let (layout, mut block) = blocks(topics);
            let empty = block.clone();
            let key = CounterRng::new(&[topics as u64]);
            let mut expected = vec![std::collections::BTreeMap::new(); block.words()];
            for (index, word) in layout.words[0].iter().enumerate() {
                for token in 0..layout.counts[*word as usize] {
                    let topic = key.below(u64::from(token % 7) + 100 * index as u64, topics as u64) as usize;
                    block.add(index, topic);
                    *expected[index].entry(topic).or_insert(0) += 1;
                }
            }
            assert_eq!(
                block.dense,
                layout.words[0].iter().filter(|word| layout.counts[**word as usize] >= layout.dense_from()).count()
            );
            for (index, expected) in expected.iter().enumerate() {
                let mut found = std::collections::BTreeMap::new();
                block.each(index, |topic, count| assert_eq!(found.insert(topic, count), None));
                assert_eq!(found, *expected);
            }
            assert_eq!(empty.clone().unpack(&block.pack()).unwrap(), block);
            let bytes = block.pack();
            assert_eq!(empty.clone().unpack(&bytes[..bytes.len() - 1]), None);
            assert_eq!(empty.clone().unpack(&[&bytes[..], &[0]].concat()), None);
            // More topics than can fit.
            assert_eq!(empty.unpack(&[0xff; 30]), None);
        }
    }
}
