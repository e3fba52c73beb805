//! Topic counts of the documents of a partition.
//!
//! There are three layouts, one per sampler:
//!
//! - *rows*: a 16-bit count for every topic, for few topics and short documents;
//! - *lists* of topics and counts, preceded by their length, with room for as many topics as the
//!   document can have;
//! - *tables*: hash tables from topics to counts.
//!
//! The head of a list is an entry of topic `topics`, which no token has, with the length as its
//! count; the unused slots at its end have the same topic. A sampler gives that topic the weight 0
//! and can process whole lines of eight.
//!
//! **Invariant:** the counts of a document sum to its tokens. The topics of a list ascend, so it is
//! determined by its counts, and sums over it are rounded in one order.

use super::hash_tables::DocumentHashTables;
use super::topic_count::TopicCount;

/// Topic counts by document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DocumentCounts {
    /// Dense: a count for every topic.
    Rows(CountRows),
    /// Lists with 32 bits per entry.
    Lists(CountLists<u32>),
    /// Lists with 64 bits per entry.
    WideLists(CountLists<u64>),
    /// Hash tables with 32 bits per entry.
    Tables(DocumentHashTables<u32>),
    /// Hash tables with 64 bits per entry.
    WideTables(DocumentHashTables<u64>),
}

/// Layout of topic counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountLayout {
    Rows,
    Lists,
    Tables,
}

impl DocumentCounts {
    /// Creates zero counts with room for documents of these lengths.
    pub(super) fn new(layout: CountLayout, wide: bool, topics: usize, lengths: &[u32]) -> Self {
        match (layout, wide) {
            (CountLayout::Rows, _) => Self::Rows(CountRows::new(topics, lengths.len())),
            (CountLayout::Lists, false) => Self::Lists(CountLists::new(topics, lengths)),
            (CountLayout::Lists, true) => Self::WideLists(CountLists::new(topics, lengths)),
            (CountLayout::Tables, false) => Self::Tables(DocumentHashTables::new(topics, lengths)),
            (CountLayout::Tables, true) => Self::WideTables(DocumentHashTables::new(topics, lengths)),
        }
    }

    /// Returns the handle by which tokens refer to a document.
    pub(super) fn handle(&self, document: usize) -> u32 {
        match self {
            Self::Lists(lists) => lists.offsets[document],
            Self::WideLists(lists) => lists.offsets[document],
            _ => document as u32,
        }
    }

    /// Adds one token of a topic to the document with this handle.
    pub(super) fn add(&mut self, handle: u32, topic: usize) {
        match self {
            Self::Rows(rows) => rows.of(handle).as_flattened_mut()[topic] += 1,
            Self::Lists(lists) => lists.add(handle, topic),
            Self::WideLists(lists) => lists.add(handle, topic),
            Self::Tables(tables) => tables.add(handle as usize, topic),
            Self::WideTables(tables) => tables.add(handle as usize, topic),
        }
    }

    /// Sets all counts to 0.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Rows(rows) => rows.cells.fill([0; 8]),
            Self::Lists(lists) => lists.clear(),
            Self::WideLists(lists) => lists.clear(),
            Self::Tables(tables) => tables.clear(),
            Self::WideTables(tables) => tables.clear(),
        }
    }

    /// Calls `with` for all topics that occur in a document, ascending.
    #[inline]
    pub(super) fn each(&self, document: usize, mut with: impl FnMut(usize, u32)) {
        match self {
            Self::Rows(rows) => {
                let row = rows.cells[document * rows.width..][..rows.width].as_flattened();
                row.iter()
                    .enumerate()
                    .filter(|(_, count)| **count > 0)
                    .for_each(|(at, count)| with(at, u32::from(*count)));
            }
            Self::Lists(lists) => {
                lists.list(document).iter().for_each(|entry| with(entry.topic(), TopicCount::count(*entry)));
            }
            Self::WideLists(lists) => {
                lists.list(document).iter().for_each(|entry| with(entry.topic(), TopicCount::count(*entry)));
            }
            Self::Tables(tables) => tables.each(document, with),
            Self::WideTables(tables) => tables.each(document, with),
        }
    }

    /// Returns the memory size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.cells.len() * 16,
            Self::Lists(lists) => lists.lines.len() * 32 + lists.offsets.len() * 4,
            Self::WideLists(lists) => lists.lines.len() * 64 + lists.offsets.len() * 4,
            Self::Tables(tables) => tables.bytes(),
            Self::WideTables(tables) => tables.bytes(),
        }
    }
}

/// Dense topic counts, in lines of eight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountRows {
    /// Number of lines per row.
    pub(super) width: usize,
    pub(super) cells: Vec<[u16; 8]>,
}

impl CountRows {
    fn new(topics: usize, documents: usize) -> Self {
        let width = topics.div_ceil(8);
        Self { width, cells: vec![[0; 8]; width * documents] }
    }

    fn of(&mut self, document: u32) -> &mut [[u16; 8]] {
        &mut self.cells[document as usize * self.width..][..self.width]
    }
}

/// Sparse topic counts, in lines of eight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountLists<E> {
    topics: usize,
    /// First line of the list of each document.
    offsets: Vec<u32>,
    pub(super) lines: Vec<[E; 8]>,
}

impl<E: TopicCount> CountLists<E> {
    fn new(topics: usize, lengths: &[u32]) -> Self {
        let mut end = 0;
        let offsets = lengths.iter().map(|length| {
            let start = end as u32; // fits: a partition has fewer tokens
            end += (1 + (*length as usize).min(topics)).div_ceil(8);
            start
        });
        let offsets = offsets.collect();
        let mut lists = Self { topics, offsets, lines: vec![[E::default(); 8]; end] };
        lists.clear();
        lists
    }

    fn clear(&mut self) {
        self.lines.fill([E::new(self.topics, 0); 8]);
    }

    /// Returns the entries of a document.
    fn list(&self, document: usize) -> &[E] {
        let list = self.lines[self.offsets[document] as usize..].as_flattened();
        &list[1..=(list[0].count() as usize)]
    }

    fn add(&mut self, handle: u32, topic: usize) {
        let list = self.lines[handle as usize..].as_flattened_mut();
        let length = list[0].count() as usize;
        let at = 1 + list[1..=length].iter().take_while(|entry| entry.topic() < topic).count();
        if at <= length && list[at].topic() == topic {
            list[at] = list[at].more();
        } else {
            list.copy_within(at..=length, at + 1);
            list[at] = E::new(topic, 1);
            list[0] = list[0].more();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::rng::CounterRng;
    use std::collections::BTreeMap;

    #[test]
    fn all_layouts_count_the_same() {
        for topics in [1, 7, 8, 100] {
            let lengths = [3, 0, 40, 8, 200, 1];
            for (layout, wide) in [
                (CountLayout::Rows, false),
                (CountLayout::Lists, false),
                (CountLayout::Lists, true),
                (CountLayout::Tables, false),
                (CountLayout::Tables, true),
            ] {
                let mut counts = DocumentCounts::new(layout, wide, topics, &lengths);
                for _ in 0..2 {
                    let key = CounterRng::new(&[topics as u64]);
                    for (document, length) in lengths.iter().enumerate() {
                        let mut expected = BTreeMap::new();
                        for token in 0..*length {
                            let topic = key.below(u64::from(token) << 8 | document as u64, topics as u64) as usize;
                            counts.add(counts.handle(document), topic);
                            *expected.entry(topic).or_insert(0) += 1;
                        }
                        let mut found = BTreeMap::new();
                        counts.each(document, |topic, count| assert_eq!(found.insert(topic, count), None));
                        assert_eq!(found, expected, "{layout:?} {topics}");
                    }
                    counts.clear();
                }
            }
        }
    }
}
