//! Hash tables of topic counts per document: lookups take constant time however many topics a
//! document has.
//!
//! Open addressing with linear probing. The capacity is a power of two, at least two slots per
//! topic that the document can have. Removal moves later entries of the probe sequence back, so no
//! tombstones remain.
//!
//! **Invariant:** an entry is reached from its home slot over occupied slots. No entry has count 0.

use super::topic_count::TopicCount;

/// Hash tables of all documents of a partition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentHashTables<E> {
    /// Start of the table of each document, and the end of the last.
    offsets: Vec<u64>,
    entries: Vec<E>,
}

/// Hash table of one document.
pub(super) struct HashTableMut<'a, E>(&'a mut [E]);

impl<E: TopicCount> DocumentHashTables<E> {
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
    pub(super) fn of(&mut self, document: usize) -> HashTableMut<'_, E> {
        HashTableMut(&mut self.entries[self.offsets[document] as usize..self.offsets[document + 1] as usize])
    }

    pub(super) fn add(&mut self, document: usize, topic: usize) {
        self.of(document).more(topic);
    }

    /// Calls `with` for all topics of a document, ascending: the slots depend on history.
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

    /// Returns the first slot of the table of a document, for prefetching.
    #[inline]
    pub(super) fn start(&self, document: usize) -> usize {
        self.offsets[document] as usize
    }

    #[inline]
    pub(super) fn entries(&self) -> &[E] {
        &self.entries
    }
}

impl<E: TopicCount> HashTableMut<'_, E> {
    #[inline(always)]
    fn home_slot(&self, topic: usize) -> usize {
        // The upper bits of the product depend on all bits of the topic.
        ((topic as u32).wrapping_mul(0x9e37_79b9) >> 8) as usize & (self.0.len() - 1)
    }

    /// Returns the slot of a topic, or the empty slot where it would be inserted.
    #[inline(always)]
    fn slot(&self, topic: usize) -> usize {
        let mut at = self.home_slot(topic);
        while self.0[at].count() > 0 && self.0[at].topic() != topic {
            at = (at + 1) & (self.0.len() - 1);
        }
        at
    }

    /// Returns the count of a topic.
    #[inline(always)]
    pub(super) fn count(&self, topic: usize) -> u32 {
        self.0[self.slot(topic)].count()
    }

    /// Increments the count of a topic.
    #[inline(always)]
    pub(super) fn more(&mut self, topic: usize) {
        let at = self.slot(topic);
        self.0[at] = if self.0[at].count() > 0 { self.0[at].more() } else { E::new(topic, 1) };
    }

    /// Decrements the count of a topic that occurs.
    #[inline(always)]
    pub(super) fn less(&mut self, topic: usize) {
        let mut empty = self.slot(topic);
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
            // An entry may move to the empty slot if its home slot is not between the two.
            let home_slot = self.home_slot(self.0[at].topic());
            if (at.wrapping_sub(home_slot) & last) >= (at.wrapping_sub(empty) & last) {
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
    use crate::lda::rng::CounterRng;
    use std::collections::BTreeMap;

    #[test]
    fn removal_keeps_the_remaining_entries_reachable() {
        for topics in [1, 5, 300] {
            let mut hashed = DocumentHashTables::<u32>::new(topics, &[3, 12]);
            let key = CounterRng::new(&[topics as u64]);
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
