//! Topics of documents, found by their hash: however many topics a document has, a look takes as long.
//!
//! A table has a power of two places, at least two for every topic its document can have. An entry is at the place of its hash or at one of the next, with no empty place between; when one
//! is taken out, those behind it move up, so nothing is left of it.
//!
//! **Invariant:** an entry is reached from the place of its hash over places that are taken. No entry has count 0.

use super::entry::Entry;

/// A table for every document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hashed<E> {
    /// Where the table of each document begins, and the end of the last.
    offsets: Vec<u64>,
    entries: Vec<E>,
}

/// The table of a document.
pub(super) struct Table<'a, E>(&'a mut [E]);

impl<E: Entry> Hashed<E> {
    pub(super) fn new(topics: usize, lengths: &[u32]) -> Self {
        let mut offsets = vec![0];
        let mut end = 0;
        offsets.extend(lengths.iter().map(|length| {
            end += (2 * (*length as usize).min(topics)).next_power_of_two() as u64;
            end
        }));
        Self { offsets, entries: vec![E::default(); end as usize] }
    }

    pub(super) fn clear(&mut self) {
        self.entries.fill(E::default());
    }

    #[inline]
    pub(super) fn of(&mut self, document: usize) -> Table<'_, E> {
        Table(&mut self.entries[self.offsets[document] as usize..self.offsets[document + 1] as usize])
    }

    pub(super) fn add(&mut self, document: usize, topic: usize) {
        self.of(document).more(topic);
    }

    /// All topics of a document, ascending: where they are in the table depends on what was there before.
    pub(super) fn each(&self, document: usize, mut with: impl FnMut(usize, u32)) {
        let table = &self.entries[self.offsets[document] as usize..self.offsets[document + 1] as usize];
        let mut topics: Vec<(usize, u32)> =
            table.iter().filter(|entry| entry.count() > 0).map(|entry| (entry.topic(), entry.count())).collect();
        topics.sort_unstable();
        for (topic, count) in topics {
            with(topic, count);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<E>() + self.offsets.len() * 8
    }

    /// Where the table of a document begins, for those who want to fetch it early.
    #[inline]
    pub(super) fn start(&self, document: usize) -> usize {
        self.offsets[document] as usize
    }

    #[inline]
    pub(super) fn entries(&self) -> &[E] {
        &self.entries
    }
}

impl<E: Entry> Table<'_, E> {
    #[inline(always)]
    fn home(&self, topic: usize) -> usize {
        // The upper bits of a product depend on all bits of the topic.
        ((topic as u32).wrapping_mul(0x9e37_79b9) >> 8) as usize & (self.0.len() - 1)
    }

    /// Where a topic is, or the empty place where it would be.
    #[inline(always)]
    fn place(&self, topic: usize) -> usize {
        let mut at = self.home(topic);
        while self.0[at].count() > 0 && self.0[at].topic() != topic {
            at = (at + 1) & (self.0.len() - 1);
        }
        at
    }

    /// How often a topic occurs.
    #[inline(always)]
    pub(super) fn count(&self, topic: usize) -> u32 {
        self.0[self.place(topic)].count()
    }

    /// One more of a topic.
    #[inline(always)]
    pub(super) fn more(&mut self, topic: usize) {
        let at = self.place(topic);
        self.0[at] = if self.0[at].count() > 0 { self.0[at].more() } else { E::new(topic, 1) };
    }

    /// One less of a topic that occurs.
    #[inline(always)]
    pub(super) fn less(&mut self, topic: usize) {
        let mut empty = self.place(topic);
        if self.0[empty].count() > 1 {
            self.0[empty] = self.0[empty].less();
            return;
        }
        let last = self.0.len() - 1;
        let mut at = empty;
        loop {
            at = (at + 1) & last;
            if self.0[at].count() == 0 {
                break;
            }
            // It may move to the empty if its home is not between the two.
            let home = self.home(self.0[at].topic());
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(empty) & last) {
                self.0[empty] = self.0[at];
                empty = at;
            }
        }
        self.0[empty] = E::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lda::random::Key;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_taken_out_leaves_nothing_behind() {
        for topics in [1, 5, 300] {
            let mut hashed = Hashed::<u32>::new(topics, &[3, 12]);
            let key = Key::new(&[topics as u64]);
            let mut expected = BTreeMap::new();
            let mut held = Vec::new();
            for step in 0..4000 {
                let mut table = hashed.of(1);
                if held.len() < 12 && key.below(2 * step, 2) == 0 {
                    let topic = key.below(2 * step + 1, topics as u64) as usize;
                    held.push(topic);
                    table.more(topic);
                    *expected.entry(topic).or_insert(0) += 1;
                } else if !held.is_empty() {
                    let topic = held.swap_remove(key.below(2 * step + 1, held.len() as u64) as usize);
                    table.less(topic);
                    let left = expected.get_mut(&topic).unwrap();
                    *left -= 1;
                    if *left == 0 {
                        expected.remove(&topic);
                    }
                }
                for topic in 0..topics.min(20) {
                    assert_eq!(table.count(topic), expected.get(&topic).copied().unwrap_or(0));
                }
                let mut found = BTreeMap::new();
                hashed.each(1, |topic, count| assert_eq!(found.insert(topic, count), None));
                assert_eq!(found, expected);
            }
        }
    }
}
