//! Top-k selection without keeping or sorting all candidates.
//!
//! Candidates are buffered until there are twice as many as wanted. Then the worse half is dropped,
//! and the worst candidate left becomes the threshold for later ones. **Invariant:** candidates are
//! ordered by descending score, then by ascending number; a NaN score is never selected.

use hemiola_array::Element;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Candidates for a top-k list, each a score and a number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TopKCandidates {
    /// A single candidate needs no heap allocation.
    one: Option<(f32, usize)>,
    many: Vec<(f32, usize)>,
    /// Worst candidate kept, once one was dropped; later candidates must beat it.
    threshold: Option<(f32, usize)>,
}

impl Element for TopKCandidates {}

fn order(left: &(f32, usize), right: &(f32, usize)) -> Ordering {
    right.0.total_cmp(&left.0).then(left.1.cmp(&right.1))
}

impl TopKCandidates {
    /// Creates a list of one candidate.
    pub(super) fn one(score: f32, number: usize) -> Self {
        Self { one: Some((score, number)), ..Self::default() }
    }

    /// Adds a candidate if it may be among the best `count`.
    #[inline]
    pub(super) fn offer(&mut self, count: usize, score: f32, number: usize) {
        if score.is_nan() || self.threshold.is_some_and(|threshold| order(&(score, number), &threshold).is_ge()) {
            return;
        }
        self.many.push((score, number));
        if self.many.len() >= count.saturating_mul(2).max(16) {
            self.shrink(count);
        }
    }

    /// Returns whether a score is too low for the list, whatever its number.
    #[inline]
    pub(super) fn is_below(&self, score: f32) -> bool {
        self.threshold.is_some_and(|threshold| score < threshold.0)
    }

    /// Keeps only the best `count`.
    fn shrink(&mut self, count: usize) {
        if self.many.len() <= count {
            return;
        }
        if count == 0 {
            self.many.clear();
            self.threshold = Some((f32::INFINITY, 0));
            return;
        }
        self.many.select_nth_unstable_by(count - 1, order);
        self.many.truncate(count);
        self.threshold = self.many.last().copied();
    }

    /// Merges two candidate lists.
    pub(super) fn joined(mut self, count: usize, other: Self) -> Self {
        for (score, number) in self.one.take().into_iter().chain(other.one).chain(other.many) {
            self.offer(count, score, number);
        }
        self
    }

    /// Returns the best `count`, best first.
    pub(super) fn sorted(mut self, count: usize) -> Vec<(usize, f32)> {
        self.many.extend(self.one.take().filter(|(score, _)| !score.is_nan()));
        self.shrink(count);
        self.many.sort_unstable_by(order);
        self.many.into_iter().map(|(score, number)| (number, score)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_k_equals_a_sorted_prefix() {
        for count in [0, 1, 3, 10, 40, 5000] {
            let score = |number: usize| ((number * 7919 + 13) % 101) as f32;
            let mut all: Vec<(usize, f32)> = (0..1000).map(|number| (number, score(number))).collect();
            let singles = (0..500).map(|number| TopKCandidates::one(score(number), number));
            let first = singles.fold(TopKCandidates::default(), |best, one| best.joined(count, one));
            let mut second = TopKCandidates::default();
            (500..1000).rev().for_each(|number| second.offer(count, score(number), number));
            second.offer(count, f32::NAN, 3);
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(count);
            assert_eq!(second.joined(count, first).sorted(count), all, "{count}");
        }
        assert_eq!(TopKCandidates::one(2.0, 7).sorted(3), [(7, 2.0)]);
        assert_eq!(TopKCandidates::one(f32::NAN, 7).sorted(3), []);
    }
}
