//! Word-topic counts: for every word a sparse list of topics and counts.
//!
//! Most words occur in few of many topics, so zeros are not stored: eight bytes for every nonzero
//! pair, and eight for every word.

/// Word-topic counts in compressed sparse rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTopics {
    /// Start of the list of each word, and the end of the last.
    pub(super) offsets: Vec<u64>,
    /// Topics, ascending within a word.
    pub(super) topics: Vec<u32>,
    pub(super) counts: Vec<u32>,
}

impl Default for WordTopics {
    fn default() -> Self {
        Self { offsets: vec![0], topics: Vec::new(), counts: Vec::new() }
    }
}

impl WordTopics {
    /// Appends the list of the next word: ascending topics and counts; zero counts are dropped.
    ///
    /// # Panics
    /// If topics do not ascend.
    pub fn push(&mut self, row: impl IntoIterator<Item = (u32, u32)>) {
        let start = self.topics.len();
        for (topic, count) in row {
            if count > 0 {
                assert!(self.topics[start..].last().is_none_or(|last| *last < topic), "topics of a word must ascend");
                self.topics.push(topic);
                self.counts.push(count);
            }
        }
        self.offsets.push(self.topics.len() as u64);
    }

    /// Returns the number of words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the number of nonzero pairs of word and topic.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.topics.len() as u64
    }

    /// Returns the topics of a word, ascending, and their counts. Empty for an unknown word.
    #[must_use]
    pub fn row(&self, word: u32) -> (&[u32], &[u32]) {
        let word = word as usize;
        if word >= self.words() {
            return (&[], &[]);
        }
        let range = self.offsets[word] as usize..self.offsets[word + 1] as usize;
        (&self.topics[range.clone()], &self.counts[range])
    }

    /// Iterates over word, topic and count of every nonzero pair, by word.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u32)> {
        (0..self.words() as u32).flat_map(|word| {
            let (topics, counts) = self.row(word);
            topics.iter().zip(counts).map(move |(topic, count)| (word, *topic, *count))
        })
    }

    /// Returns the number of tokens of each of `topics` topics.
    ///
    /// # Panics
    /// If a row has a topic out of range.
    #[must_use]
    pub fn totals(&self, topics: usize) -> Vec<u64> {
        let mut totals = vec![0; topics];
        for (topic, count) in self.topics.iter().zip(&self.counts) {
            totals[*topic as usize] += u64::from(*count);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sparse() {
        let mut rows = WordTopics::default();
        rows.push([(0, 3), (2, 0), (5, 1)]);
        rows.push([]);
        rows.push([(5, 70_000)]);
        assert_eq!(rows.row(0), (&[0, 5][..], &[3, 1][..]));
        assert_eq!((rows.row(1), rows.row(7)), ((&[][..], &[][..]), (&[][..], &[][..])));
        assert_eq!(rows.totals(6), [3, 0, 0, 0, 0, 70_001]);
        assert_eq!((rows.words(), rows.entries(), rows.iter().count()), (3, 3, 3));
    }
}
