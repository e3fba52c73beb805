//! The words of a block: how often each was assigned to each topic. A block travels as a whole.
//!
//! A word that occurs often has a place for every topic; one that occurs seldom a list of topics and counts with room for as many topics as it can have, behind how many there are.
//! Words are ordered by frequency, so those with places come first.
//!
//! **Invariant:** the counts of a word add up to how often it occurs, over all parts; the topics of a list ascend, none has 0. So a row is known by its
//! counts alone, and sums over it are rounded in one order.

use super::entry::Entry;
use super::layout::{Layout, NARROW};

/// Rows of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    topics: usize,
    /// How many words have a place for every topic.
    dense: usize,
    /// Numbers of an entry of a list: 1, or 2 where topics or counts need more than 16 bits.
    width: usize,
    /// Where the row of each word begins, and the end of the last.
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

/// The row of a word.
pub(super) enum Row<'a> {
    /// By topic.
    Dense(&'a mut [u32]),
    /// How many entries there are, and those.
    List(&'a mut [u32]),
}

impl Block {
    /// All counts 0.
    pub(super) fn new(layout: &Layout, number: usize) -> Self {
        Self::with(layout, number, layout.dense_from())
    }

    /// The same with a place for every topic in all rows, so that any counts have room.
    pub(super) fn dense(layout: &Layout, number: usize) -> Self {
        Self::with(layout, number, 0)
    }

    /// Words that occur so often have a place for every topic.
    fn with(layout: &Layout, number: usize, from: u32) -> Self {
        let topics = layout.topics;
        // Lists are of words with fewer tokens than a quarter of the topics.
        let width = if topics > NARROW { 2 } else { 1 };
        let count = |word: &u32| layout.counts[*word as usize];
        let words = &layout.words[number];
        let dense = words.iter().take_while(|word| count(word) >= from).count();
        let mut offsets = vec![0];
        let mut end = 0;
        offsets.extend(words.iter().enumerate().map(|(place, word)| {
            end += if place < dense { topics } else { 1 + width * (count(word) as usize).min(topics) };
            end
        }));
        Self { topics, dense, width, rows: vec![0; end], offsets }
    }

    /// How many words it has.
    pub(super) fn words(&self) -> usize {
        self.offsets.len() - 1
    }

    #[inline]
    pub(super) fn row(&mut self, word: usize) -> Row<'_> {
        let row = &mut self.rows[self.offsets[word]..self.offsets[word + 1]];
        if word < self.dense { Row::Dense(row) } else { Row::List(row) }
    }

    /// Calls `with` for all topics of a word that have some of it.
    #[inline]
    pub(super) fn each(&self, word: usize, mut with: impl FnMut(usize, u32)) {
        let row = &self.rows[self.offsets[word]..self.offsets[word + 1]];
        if word < self.dense {
            row.iter().enumerate().filter(|(_, count)| **count > 0).for_each(|(topic, count)| with(topic, *count));
        } else {
            let (length, entries) = (row[0] as usize, &row[1..]);
            if self.width == 1 {
                entries[..length].iter().for_each(|entry| with(entry.topic(), Entry::count(*entry)));
            } else {
                entries[..2 * length]
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .for_each(|[topic, count]| with(*topic as usize, *count));
            }
        }
    }

    /// Makes a list that of these entries, whose topics ascend.
    ///
    /// # Panics
    /// If the word has a place for every topic, or less room.
    #[inline]
    pub(super) fn fill(&mut self, word: usize, entries: impl Iterator<Item = (usize, u32)>) {
        let width = self.width;
        let Row::List(row) = self.row(word) else { unreachable!("only lists are filled") };
        let mut length = 0;
        for (topic, count) in entries {
            if width == 1 {
                row[1 + length] = Entry::new(topic, count);
            } else {
                (row[1 + 2 * length], row[2 + 2 * length]) = (topic as u32, count);
            }
            length += 1;
        }
        row[0] = length as u32;
    }

    /// One token more of a topic.
    pub(super) fn add(&mut self, word: usize, topic: usize) {
        let width = self.width;
        match self.row(word) {
            Row::Dense(row) => row[topic] += 1,
            Row::List(row) => {
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
                    entries[at] = Entry::new(topic, 1);
                } else {
                    (entries[2 * at], entries[2 * at + 1]) = (topic as u32, 1);
                }
                row[0] += 1;
            }
        }
    }

    /// For each word, the topics whose counts are others than in `before`, and by how much. Both have a place for every topic.
    pub(super) fn changes(&self, before: &Self) -> Vec<(Vec<u32>, Vec<i32>)> {
        let rows = (0..self.words()).map(|word| self.offsets[word]..self.offsets[word + 1]);
        let of = |row: std::ops::Range<usize>| {
            let counts = self.rows[row.clone()].iter().zip(&before.rows[row]).enumerate();
            let changed = counts.filter(|(_, (now, before))| now != before);
            changed.map(|(topic, (now, before))| (topic as u32, now.wrapping_sub(*before).cast_signed())).unzip()
        };
        rows.map(of).collect()
    }

    /// All counts 0.
    pub(super) fn clear(&mut self) {
        self.rows.fill(0);
    }

    /// As it travels: for every word how many topics it has, then of each how far it is from the one before and how often it occurs, in as few bytes as these need.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut entries = Vec::new();
        for word in 0..self.words() {
            entries.clear();
            self.each(word, |topic, count| entries.push((topic, count)));
            put(&mut bytes, entries.len() as u64);
            let mut next = 0;
            for (topic, count) in &entries {
                put(&mut bytes, (*topic - next) as u64);
                put(&mut bytes, u64::from(*count));
                next = *topic + 1;
            }
        }
        bytes
    }

    /// What [`pack`](Self::pack) wrote, in a block of the same words. `None` if it is not that.
    pub(super) fn unpack(mut self, bytes: &[u8]) -> Option<Self> {
        self.clear();
        let mut bytes = bytes.iter();
        let mut entries = Vec::new();
        for word in 0..self.words() {
            entries.clear();
            let mut next = 0_u64;
            for _ in 0..take(&mut bytes)? {
                let topic = next.checked_add(take(&mut bytes)?).filter(|topic| *topic < self.topics as u64)?;
                entries.push((topic as usize, u32::try_from(take(&mut bytes)?).ok()?));
                next = topic + 1;
            }
            if let Row::Dense(row) = self.row(word) {
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
        bytes.next().is_none().then_some(self)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<u32>() + self.offsets.len() * size_of::<usize>()
    }
}

/// Seven bits in a byte, the lowest first; the eighth says that more come.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::random::Key;
    use crate::lda::{Corpus, Vocabulary};
    use std::sync::Arc;

    fn blocks(topics: usize) -> (Layout, Block) {
        let document: Vec<(u32, u32)> = (0..40).map(|word| (word, 1 + word * word / 8)).collect();
        let corpus = Corpus::new([document], Arc::new(Vocabulary::numbered(40))).unwrap();
        let layout = hemiola::standalone(1).run(|cluster| Layout::new(cluster, &corpus, topics, 1)).unwrap().remove(0);
        let block = Block::new(&layout, 0);
        (layout, block)
    }

    #[test]
    fn what_is_added_is_there_and_travels() {
        for topics in [3, 100, 70_000] {
            let (layout, mut block) = blocks(topics);
            let empty = block.clone();
            let key = Key::new(&[topics as u64]);
            let mut expected = vec![std::collections::BTreeMap::new(); block.words()];
            for (place, word) in layout.words[0].iter().enumerate() {
                for token in 0..layout.counts[*word as usize] {
                    let topic = key.below(u64::from(token % 7) + 100 * place as u64, topics as u64) as usize;
                    block.add(place, topic);
                    *expected[place].entry(topic).or_insert(0) += 1;
                }
            }
            assert_eq!(
                block.dense,
                layout.words[0].iter().filter(|word| layout.counts[**word as usize] >= layout.dense_from()).count()
            );
            for (place, expected) in expected.iter().enumerate() {
                let mut found = std::collections::BTreeMap::new();
                block.each(place, |topic, count| assert_eq!(found.insert(topic, count), None));
                assert_eq!(found, *expected);
            }
            assert_eq!(empty.clone().unpack(&block.pack()).unwrap(), block);
            let bytes = block.pack();
            assert_eq!(empty.clone().unpack(&bytes[..bytes.len() - 1]), None);
            assert_eq!(empty.clone().unpack(&[&bytes[..], &[0]].concat()), None);
            // As many topics as never fit.
            assert_eq!(empty.unpack(&[0xff; 30]), None);
        }
    }
}
