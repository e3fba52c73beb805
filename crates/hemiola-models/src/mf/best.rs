//! The best of many, without keeping or sorting them all.
//!
//! Candidates wait until there are twice as many as wanted; then the worse half is dropped, and the worst that is left is
//! what later ones have to beat. **Invariant:** the better comes first, and of equals the one with the smaller number; a score
//! that is not a number is never among them.

use hemiola::array::Element;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Candidates, each a score and a number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Best {
    /// A candidate that is alone takes no memory of its own.
    one: Option<(f32, u64)>,
    many: Vec<(f32, u64)>,
    /// What a candidate has to beat, once something was dropped.
    bar: Option<(f32, u64)>,
}

impl Element for Best {}

fn order(left: &(f32, u64), right: &(f32, u64)) -> Ordering {
    right.0.total_cmp(&left.0).then(left.1.cmp(&right.1))
}

impl Best {
    /// A single candidate.
    pub(super) fn one(score: f32, number: u64) -> Self {
        Self { one: Some((score, number)), ..Self::default() }
    }

    /// Takes a candidate in, if it may be among the best `count`.
    #[inline]
    pub(super) fn offer(&mut self, count: usize, score: f32, number: u64) {
        if score.is_nan() || self.bar.is_some_and(|bar| order(&(score, number), &bar).is_ge()) {
            return;
        }
        self.many.push((score, number));
        if self.many.len() >= count.saturating_mul(2).max(16) {
            self.shrink(count);
        }
    }

    /// Whether a score is too low to be among the best, whatever its number.
    #[inline]
    pub(super) fn is_below(&self, score: f32) -> bool {
        self.bar.is_some_and(|bar| score < bar.0)
    }

    /// Drops all but the best `count`.
    fn shrink(&mut self, count: usize) {
        if self.many.len() <= count {
            return;
        }
        if count == 0 {
            self.many.clear();
            self.bar = Some((f32::INFINITY, 0));
            return;
        }
        self.many.select_nth_unstable_by(count - 1, order);
        self.many.truncate(count);
        self.bar = self.many.last().copied();
    }

    /// Candidates of both.
    pub(super) fn joined(mut self, count: usize, other: Self) -> Self {
        for (score, number) in self.one.take().into_iter().chain(other.one).chain(other.many) {
            self.offer(count, score, number);
        }
        self
    }

    /// The best `count`, best first.
    pub(super) fn sorted(mut self, count: usize) -> Vec<(u64, f32)> {
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
    fn they_are_the_first_of_all_when_sorted() {
        for count in [0, 1, 3, 10, 40, 5000] {
            let score = |number: u64| ((number * 7919 + 13) % 101) as f32;
            let mut all: Vec<(u64, f32)> = (0..1000).map(|number| (number, score(number))).collect();
            let singles = (0..500).map(|number| Best::one(score(number), number));
            let first = singles.fold(Best::default(), |best, one| best.joined(count, one));
            let mut second = Best::default();
            (500..1000).rev().for_each(|number| second.offer(count, score(number), number));
            second.offer(count, f32::NAN, 3);
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(count);
            assert_eq!(second.joined(count, first).sorted(count), all, "{count}");
        }
        assert_eq!(Best::one(2.0, 7).sorted(3), [(7, 2.0)]);
        assert_eq!(Best::one(f32::NAN, 7).sorted(3), []);
    }
}
