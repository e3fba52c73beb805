//! How often topics occur in the documents of a part.
//!
//! There are three forms, one for each way to draw:
//!
//! - *rows*: a place of 16 bits for every topic, for few topics and documents that are not long;
//! - *lists* of topics and counts, behind how many there are, with room for as many topics as the document can have;
//! - *tables* in which a topic is found by its hash.
//!
//! The head of a list is an entry of topic `topics`, which no token has, with the length as its count; so are the empty places at its end. A sampler gives that topic the
//! weight 0 and can go over whole lines of eight.
//!
//! **Invariant:** the counts of a document add up to its tokens. The topics of a list ascend, so it is known by its counts alone, and sums over it are rounded in one order.

use super::entry::Entry;
use super::hashed::Hashed;

/// Counts of topics by document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Counts {
    /// A place for every topic.
    Rows(Rows),
    /// Lists in 32 bits for an entry.
    Lists(Lists<u32>),
    /// Lists in 64 bits for an entry.
    WideLists(Lists<u64>),
    /// Tables in 32 bits for an entry.
    Tables(Hashed<u32>),
    /// Tables in 64 bits for an entry.
    WideTables(Hashed<u64>),
}

/// Which form counts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Rows,
    Lists,
    Tables,
}

impl Counts {
    /// All 0, with room for documents of these lengths.
    pub(super) fn new(form: Form, wide: bool, topics: usize, lengths: &[u32]) -> Self {
        match (form, wide) {
            (Form::Rows, _) => Self::Rows(Rows::new(topics, lengths.len())),
            (Form::Lists, false) => Self::Lists(Lists::new(topics, lengths)),
            (Form::Lists, true) => Self::WideLists(Lists::new(topics, lengths)),
            (Form::Tables, false) => Self::Tables(Hashed::new(topics, lengths)),
            (Form::Tables, true) => Self::WideTables(Hashed::new(topics, lengths)),
        }
    }

    /// What tokens find their document by.
    pub(super) fn handle(&self, document: usize) -> u32 {
        match self {
            Self::Lists(lists) => lists.offsets[document],
            Self::WideLists(lists) => lists.offsets[document],
            _ => document as u32,
        }
    }

    /// One token more of a topic in the document with this handle.
    pub(super) fn add(&mut self, handle: u32, topic: usize) {
        match self {
            Self::Rows(rows) => rows.of(handle).as_flattened_mut()[topic] += 1,
            Self::Lists(lists) => lists.add(handle, topic),
            Self::WideLists(lists) => lists.add(handle, topic),
            Self::Tables(tables) => tables.add(handle as usize, topic),
            Self::WideTables(tables) => tables.add(handle as usize, topic),
        }
    }

    /// All 0.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Rows(rows) => rows.cells.fill([0; 8]),
            Self::Lists(lists) => lists.clear(),
            Self::WideLists(lists) => lists.clear(),
            Self::Tables(tables) => tables.clear(),
            Self::WideTables(tables) => tables.clear(),
        }
    }

    /// Calls `with` for all topics of a document that occur in it, ascending.
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
                lists.list(document).iter().for_each(|entry| with(entry.topic(), Entry::count(*entry)));
            }
            Self::WideLists(lists) => {
                lists.list(document).iter().for_each(|entry| with(entry.topic(), Entry::count(*entry)));
            }
            Self::Tables(tables) => tables.each(document, with),
            Self::WideTables(tables) => tables.each(document, with),
        }
    }

    /// Bytes of memory.
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

/// A place for every topic, in lines of eight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rows {
    /// Lines of a row.
    pub(super) width: usize,
    pub(super) cells: Vec<[u16; 8]>,
}

impl Rows {
    fn new(topics: usize, documents: usize) -> Self {
        let width = topics.div_ceil(8);
        Self { width, cells: vec![[0; 8]; width * documents] }
    }

    fn of(&mut self, document: u32) -> &mut [[u16; 8]] {
        &mut self.cells[document as usize * self.width..][..self.width]
    }
}

/// Lists of topics and counts, in lines of eight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lists<E> {
    topics: usize,
    /// By document, the line where its list begins.
    offsets: Vec<u32>,
    pub(super) lines: Vec<[E; 8]>,
}

impl<E: Entry> Lists<E> {
    fn new(topics: usize, lengths: &[u32]) -> Self {
        let mut end = 0;
        let offsets = lengths.iter().map(|length| {
            let start = end as u32; // a part has fewer tokens than that
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

    /// The entries of a document.
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
    use crate::lda::random::Key;
    use std::collections::BTreeMap;

    #[test]
    fn all_forms_count_the_same() {
        for topics in [1, 7, 8, 100] {
            let lengths = [3, 0, 40, 8, 200, 1];
            for (form, wide) in [
                (Form::Rows, false),
                (Form::Lists, false),
                (Form::Lists, true),
                (Form::Tables, false),
                (Form::Tables, true),
            ] {
                let mut counts = Counts::new(form, wide, topics, &lengths);
                for _ in 0..2 {
                    let key = Key::new(&[topics as u64]);
                    for (document, length) in lengths.iter().enumerate() {
                        let mut expected = BTreeMap::new();
                        for token in 0..*length {
                            let topic = key.below(u64::from(token) << 8 | document as u64, topics as u64) as usize;
                            counts.add(counts.handle(document), topic);
                            *expected.entry(topic).or_insert(0) += 1;
                        }
                        let mut found = BTreeMap::new();
                        counts.each(document, |topic, count| assert_eq!(found.insert(topic, count), None));
                        assert_eq!(found, expected, "{form:?} {topics}");
                    }
                    counts.clear();
                }
            }
        }
    }
}
