//! Which rows go first when not all can go: the pool of rows that wait to be sent ahead of need.
//!
//! Importance of a row is how much it has changed since it was sent (Bösen, section 3.3.2). Sorting all of them each time costs
//! too much, so by default a few times as many rows as are wanted are sampled, and the best of the sample taken; an exact heap is the
//! alternative. **Invariant:** a row is in the pool once, and is chosen at most once per call; which ones depends on the generator's
//! state and on nothing else.

use crate::cells::Cells;
use crate::number::Number;
use crate::random::Random;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BinaryHeap};

/// What makes a row important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Priority {
    /// Having waited longest.
    RoundRobin,
    /// Chance.
    Random,
    /// The sum of what its columns changed by.
    AbsoluteMagnitude,
    /// The sum of what its columns changed by, relative to their values; a column that is zero or unknown counts as absolute.
    RelativeMagnitude,
}

/// How the most important rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Choice {
    /// The best of a sample this many times as large as wanted.
    Sampled(usize),
    /// The best of all, by a heap.
    Exact,
}

/// Managed communication: what is sent ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Managed {
    /// What makes a row important.
    pub priority: Priority,
    /// How important rows are found.
    pub choice: Choice,
}

impl Default for Managed {
    fn default() -> Self {
        Self { priority: Priority::RelativeMagnitude, choice: Choice::Sampled(5) }
    }
}

impl Priority {
    /// How much a change adds to the importance of a row that holds `row` (if that is known).
    pub fn importance<W: Number>(self, change: &Cells<'_, W>, row: impl Fn(usize) -> Option<W>) -> f64 {
        let size = |value: W| value.to_f64().abs();
        match self {
            Self::RoundRobin | Self::Random => 0.0,
            Self::AbsoluteMagnitude => change.iter().map(|(_, value)| size(value)).sum(),
            Self::RelativeMagnitude => {
                let relative = |(column, value): (usize, W)| match row(column).map(size) {
                    Some(base) if base > 0.0 => size(value) / base,
                    _ => size(value),
                };
                change.iter().map(relative).sum()
            }
        }
    }
}

/// Rows that wait, by slot.
#[derive(Debug)]
pub struct Pool {
    managed: Managed,
    members: Vec<u32>,
    /// Where a slot is in `members`, and its place in the order of arrival.
    places: HashMap<u32, (u32, u64), FxBuildHasher>,
    /// In the order of arrival; for round-robin alone.
    arrivals: BTreeMap<u64, u32>,
    arrived: u64,
}

/// A number that can be compared: importances are never NaN, as updates are finite.
#[derive(Clone, Copy, PartialEq)]
struct Ranked(f64, u32);

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then_with(|| other.1.cmp(&self.1))
    }
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(managed: Managed) -> Self {
        let places = HashMap::with_hasher(FxBuildHasher);
        Self { managed, members: Vec::new(), places, arrivals: BTreeMap::new(), arrived: 0 }
    }

    /// Adds a row that is not in it yet.
    pub fn insert(&mut self, slot: u32) {
        let (at, arrived) = (self.members.len() as u32, self.arrived);
        if let hashbrown::hash_map::Entry::Vacant(place) = self.places.entry(slot) {
            place.insert((at, arrived));
            self.members.push(slot);
            self.arrived += 1;
            if self.managed.priority == Priority::RoundRobin {
                self.arrivals.insert(arrived, slot);
            }
        }
    }

    /// Takes a row out.
    pub fn remove(&mut self, slot: u32) {
        if let Some((at, arrived)) = self.places.remove(&slot) {
            self.arrivals.remove(&arrived);
            self.members.swap_remove(at as usize);
            if let Some(moved) = self.members.get(at as usize) {
                self.places.entry(*moved).and_modify(|place| place.0 = at);
            }
        }
    }

    /// The rows in it, in no particular order.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Up to `count` rows that `wanted` accepts, the most important first. They stay in the pool.
    pub fn choose(
        &mut self,
        count: usize,
        random: &mut Random,
        wanted: impl Fn(u32) -> bool,
        importance: impl Fn(u32) -> f64,
    ) -> Vec<u32> {
        if self.managed.priority == Priority::RoundRobin {
            return self.arrivals.values().copied().filter(|slot| wanted(*slot)).take(count).collect();
        }
        let candidates = match (self.managed.priority, self.managed.choice) {
            (Priority::Random, _) => self.sample(count, random, wanted),
            (_, Choice::Sampled(times)) => self.sample(count.saturating_mul(times), random, wanted),
            (_, Choice::Exact) => self.members.iter().copied().filter(|slot| wanted(*slot)).collect(),
        };
        if self.managed.priority == Priority::Random {
            return candidates;
        }
        let mut heap: BinaryHeap<Ranked> = candidates.into_iter().map(|slot| Ranked(importance(slot), slot)).collect();
        std::iter::from_fn(|| heap.pop()).take(count).map(|ranked| ranked.1).collect()
    }

    /// Up to `count` different rows by chance: the front of a shuffle that stops early.
    fn sample(&mut self, count: usize, random: &mut Random, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut sample = Vec::new();
        for at in 0..self.members.len() {
            if sample.len() >= count {
                break;
            }
            let other = at + random.below(self.members.len() - at);
            self.members.swap(at, other);
            for place in [at, other] {
                self.places.entry(self.members[place]).and_modify(|found| found.0 = place as u32);
            }
            let slot = self.members[at];
            if wanted(slot) {
                sample.push(slot);
            }
        }
        sample
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(priority: Priority, choice: Choice, slots: impl IntoIterator<Item = u32>) -> Pool {
        let mut pool = Pool::new(Managed { priority, choice });
        slots.into_iter().for_each(|slot| pool.insert(slot));
        pool
    }

    proptest! {
        #[test]
        fn a_pool_holds_what_was_put_in_and_not_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0..20_u32), 0..200), priority in 0..4_usize, seed in any::<u64>(),
        ) {
            let priority = [Priority::RoundRobin, Priority::Random, Priority::AbsoluteMagnitude, Priority::RelativeMagnitude][priority];
            let mut pool = pool(priority, Choice::Sampled(2), []);
            let mut plain = std::collections::BTreeSet::new();
            let mut random = Random::new(seed);
            for (put, slot) in steps {
                if put {
                    pool.insert(slot);
                    plain.insert(slot);
                } else {
                    pool.remove(slot);
                    plain.remove(&slot);
                }
                let chosen = pool.choose(3, &mut random, |_| true, f64::from);
                prop_assert_eq!(chosen.len(), plain.len().min(3));
                prop_assert!(chosen.iter().all(|slot| plain.contains(slot)));
                let mut members = pool.members().to_vec();
                members.sort_unstable();
                prop_assert!(members.iter().eq(&plain));
            }
        }
    }

    #[test]
    fn exact_choice_takes_the_most_important() {
        let mut pool = pool(Priority::AbsoluteMagnitude, Choice::Exact, 0..100);
        let chosen = pool.choose(3, &mut Random::new(1), |slot| slot != 98, f64::from);
        assert_eq!(chosen, [99, 97, 96]);
    }

    #[test]
    fn sampled_choice_is_nearly_as_good() {
        let mut pool = pool(Priority::RelativeMagnitude, Choice::Sampled(5), 0..1000);
        let chosen = pool.choose(20, &mut Random::new(1), |_| true, f64::from);
        let mean = chosen.iter().map(|slot| f64::from(*slot)).sum::<f64>() / 20.0;
        // The upper fifth of a uniform sample has a mean of 0.9; chance would have 0.5.
        assert!((mean - 900.0).abs() < 50.0, "{mean}");
    }

    #[test]
    fn round_robin_serves_in_the_order_of_arrival() {
        let mut pool = pool(Priority::RoundRobin, Choice::Exact, [5, 3, 9]);
        assert_eq!(pool.choose(2, &mut Random::new(1), |_| true, f64::from), [5, 3]);
        pool.remove(5);
        pool.insert(5);
        assert_eq!(pool.choose(3, &mut Random::new(1), |_| true, f64::from), [3, 9, 5]);
    }

    #[test]
    fn importance_is_relative_where_it_can_be() {
        let change = Cells::Dense(&[1.0_f32, -2.0, 3.0]);
        assert_eq!(Priority::AbsoluteMagnitude.importance(&change, |_| None), 6.0);
        let row = [Some(2.0), Some(0.0), None];
        assert_eq!(Priority::RelativeMagnitude.importance(&change, |column| row[column]), 0.5 + 2.0 + 3.0);
    }
}
