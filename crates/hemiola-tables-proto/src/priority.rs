//! Prioritization of eager sending: the pool of rows that wait, and the selection of the most
//! important ones.
//!
//! The importance of a row is the magnitude of its change since it was last sent (Bösen, section
//! 3.3.2). Sorting all rows each time is too expensive. By default a sample a few times as large as
//! needed is drawn, and its best rows are taken; an exact heap is the alternative. **Invariant:** a
//! row is in the pool once and is selected at most once per call; the selection depends on the
//! state of the generator and on nothing else.

use crate::cells::RowCells;
use crate::dtype::ComputeType;
use crate::selection_rng::SelectionRng;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BinaryHeap};

/// Prioritization policy: the importance of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PriorityPolicy {
    /// The row that has waited longest goes first.
    RoundRobin,
    /// A random row goes first.
    Random,
    /// Sum of the absolute changes of the columns.
    AbsoluteMagnitude,
    /// Sum of the changes relative to the current values. A column whose value is zero or unknown
    /// counts as absolute.
    RelativeMagnitude,
}

/// Method that finds the most important rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowSelection {
    /// Best rows of a sample this many times as large as needed.
    Sampled(usize),
    /// Best rows of all, found with a heap.
    Exact,
}

/// Policy of bandwidth-managed communication: the order of eager sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommPolicy {
    /// Importance of a row; relative magnitude by default.
    pub priority: PriorityPolicy,
    /// Selection of the most important rows; a sample of 5 times the need by default.
    pub selection: RowSelection,
}

impl Default for CommPolicy {
    fn default() -> Self {
        Self { priority: PriorityPolicy::RelativeMagnitude, selection: RowSelection::Sampled(5) }
    }
}

impl PriorityPolicy {
    /// Importance that a change adds to a row. `row` returns the current value of a column, if it
    /// is known.
    pub fn importance<W: ComputeType>(self, change: &RowCells<'_, W>, row: impl Fn(usize) -> Option<W>) -> f64 {
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

/// Pool of rows that wait to be sent eagerly, by slot.
#[derive(Debug)]
pub struct CandidatePool {
    comm_policy: CommPolicy,
    members: Vec<u32>,
    /// Index of a slot in `members`, and its arrival number.
    positions: HashMap<u32, (u32, u64), FxBuildHasher>,
    /// Slots by arrival number; only for round-robin.
    arrivals: BTreeMap<u64, u32>,
    arrived: u64,
}

/// Row with its importance, which is never NaN because updates are finite.
#[derive(Clone, Copy, PartialEq)]
struct RankedRow(f64, u32);

impl Eq for RankedRow {}

impl PartialOrd for RankedRow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedRow {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then_with(|| other.1.cmp(&self.1))
    }
}

impl CandidatePool {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(comm_policy: CommPolicy) -> Self {
        let positions = HashMap::with_hasher(FxBuildHasher);
        Self { comm_policy, members: Vec::new(), positions, arrivals: BTreeMap::new(), arrived: 0 }
    }

    /// Adds a row, unless it is in the pool.
    pub fn insert(&mut self, slot: u32) {
        let (at, arrived) = (self.members.len() as u32, self.arrived);
        if let hashbrown::hash_map::Entry::Vacant(entry) = self.positions.entry(slot) {
            entry.insert((at, arrived));
            self.members.push(slot);
            self.arrived += 1;
            if self.comm_policy.priority == PriorityPolicy::RoundRobin {
                self.arrivals.insert(arrived, slot);
            }
        }
    }

    /// Removes a row from the pool.
    pub fn remove(&mut self, slot: u32) {
        if let Some((at, arrived)) = self.positions.remove(&slot) {
            self.arrivals.remove(&arrived);
            self.members.swap_remove(at as usize);
            if let Some(moved) = self.members.get(at as usize) {
                self.positions.entry(*moved).and_modify(|entry| entry.0 = at);
            }
        }
    }

    /// Slots in the pool, in no particular order.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Selects up to `count` rows that `wanted` accepts, the most important first. They stay in the
    /// pool.
    pub fn choose(
        &mut self,
        count: usize,
        random: &mut SelectionRng,
        wanted: impl Fn(u32) -> bool,
        importance: impl Fn(u32) -> f64,
    ) -> Vec<u32> {
        if self.comm_policy.priority == PriorityPolicy::RoundRobin {
            return self.arrivals.values().copied().filter(|slot| wanted(*slot)).take(count).collect();
        }
        let candidates = match (self.comm_policy.priority, self.comm_policy.selection) {
            (PriorityPolicy::Random, _) => self.sample(count, random, wanted),
            (_, RowSelection::Sampled(times)) => self.sample(count.saturating_mul(times), random, wanted),
            (_, RowSelection::Exact) => self.members.iter().copied().filter(|slot| wanted(*slot)).collect(),
        };
        if self.comm_policy.priority == PriorityPolicy::Random {
            return candidates;
        }
        let mut heap: BinaryHeap<RankedRow> =
            candidates.into_iter().map(|slot| RankedRow(importance(slot), slot)).collect();
        std::iter::from_fn(|| heap.pop()).take(count).map(|ranked| ranked.1).collect()
    }

    /// Draws up to `count` distinct rows: a partial Fisher-Yates shuffle.
    fn sample(&mut self, count: usize, random: &mut SelectionRng, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut sample = Vec::new();
        for at in 0..self.members.len() {
            if sample.len() >= count {
                break;
            }
            let other = at + random.below(self.members.len() - at);
            self.members.swap(at, other);
            for position in [at, other] {
                self.positions.entry(self.members[position]).and_modify(|found| found.0 = position as u32);
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

    fn pool(priority: PriorityPolicy, selection: RowSelection, slots: impl IntoIterator<Item = u32>) -> CandidatePool {
        let mut pool = CandidatePool::new(CommPolicy { priority, selection });
        slots.into_iter().for_each(|slot| pool.insert(slot));
        pool
    }

    proptest! {
        #[test]
        fn a_pool_holds_inserted_rows_until_they_are_removed(
            steps in prop::collection::vec((any::<bool>(), 0..20_u32), 0..200), priority in 0..4_usize, seed in any::<u64>(),
        ) {
            let priority = [PriorityPolicy::RoundRobin, PriorityPolicy::Random, PriorityPolicy::AbsoluteMagnitude, PriorityPolicy::RelativeMagnitude][priority];
            let mut pool = pool(priority, RowSelection::Sampled(2), []);
            let mut plain = std::collections::BTreeSet::new();
            let mut random = SelectionRng::new(seed);
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
    fn exact_selection_takes_the_most_important_rows() {
        let mut pool = pool(PriorityPolicy::AbsoluteMagnitude, RowSelection::Exact, 0..100);
        let chosen = pool.choose(3, &mut SelectionRng::new(1), |slot| slot != 98, f64::from);
        assert_eq!(chosen, [99, 97, 96]);
    }

    #[test]
    fn sampled_selection_is_nearly_as_good() {
        let mut pool = pool(PriorityPolicy::RelativeMagnitude, RowSelection::Sampled(5), 0..1000);
        let chosen = pool.choose(20, &mut SelectionRng::new(1), |_| true, f64::from);
        let mean = chosen.iter().map(|slot| f64::from(*slot)).sum::<f64>() / 20.0;
        // The upper fifth of a uniform sample has a mean of 0.9; random selection would have 0.5.
        assert!((mean - 900.0).abs() < 50.0, "{mean}");
    }

    #[test]
    fn round_robin_selects_in_order_of_arrival() {
        let mut pool = pool(PriorityPolicy::RoundRobin, RowSelection::Exact, [5, 3, 9]);
        assert_eq!(pool.choose(2, &mut SelectionRng::new(1), |_| true, f64::from), [5, 3]);
        pool.remove(5);
        pool.insert(5);
        assert_eq!(pool.choose(3, &mut SelectionRng::new(1), |_| true, f64::from), [3, 9, 5]);
    }

    #[test]
    fn importance_is_relative_to_known_values() {
        let change = RowCells::Dense(&[1.0_f32, -2.0, 3.0]);
        assert_eq!(PriorityPolicy::AbsoluteMagnitude.importance(&change, |_| None), 6.0);
        let row = [Some(2.0), Some(0.0), None];
        assert_eq!(PriorityPolicy::RelativeMagnitude.importance(&change, |column| row[column]), 0.5 + 2.0 + 3.0);
    }
}
