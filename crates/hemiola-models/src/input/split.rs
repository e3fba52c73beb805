//! Splits of a data set into training, validation and test set, by fraction, class, group or time.
//!
//! A split assigns each record to a set. It is a function of the keys of the records and of the
//! seed: the order of a group or class is that of a random number drawn for each of them, so the
//! same data and seed give the same sets, and sets have the requested sizes exactly where the keys
//! allow it. **Invariant:** records of one group, and records of the same time, are never in two
//! sets.

use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use std::collections::BTreeMap;

/// Set of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SplitSet {
    /// Training set.
    Train,
    /// Validation set.
    Validation,
    /// Test set.
    Test,
}

/// Fractions of the records in the validation set and in the test set; the others are for training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitFractions {
    /// Fraction of the validation set.
    pub validation: f64,
    /// Fraction of the test set.
    pub test: f64,
}

impl SplitFractions {
    /// Number of records of validation and test set among `records`.
    fn counts(self, records: usize) -> [usize; 2] {
        let count = |fraction: f64| (fraction * records as f64).round() as usize;
        let test = count(self.test).min(records);
        [count(self.validation).min(records - test), test]
    }
}

/// Assigns `records` at random.
#[must_use]
pub fn split_at_random(records: usize, fractions: SplitFractions, seed: Seed) -> Vec<SplitSet> {
    split_by_class(&vec![0; records], fractions, seed)
}

/// Assigns records at random, with the fractions of the whole within each class.
#[must_use]
pub fn split_by_class(classes: &[u32], fractions: SplitFractions, seed: Seed) -> Vec<SplitSet> {
    let random = PhiloxRng::new(seed.0);
    let mut members: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    for (record, class) in classes.iter().enumerate() {
        members.entry(*class).or_default().push((random.random_u64(record as u64, 0), record));
    }
    let mut sets = vec![SplitSet::Train; classes.len()];
    for mut records in members.into_values() {
        records.sort_unstable();
        let [validation, test] = fractions.counts(records.len());
        for (position, (_, record)) in records.into_iter().enumerate() {
            sets[record] = set_of(position, validation, test);
        }
    }
    sets
}

/// Assigns whole groups at random. Groups are drawn until a set is as near to its fraction of the
/// records as another group would bring it.
#[must_use]
pub fn split_by_group(groups: &[u32], fractions: SplitFractions, seed: Seed) -> Vec<SplitSet> {
    let random = PhiloxRng::new(seed.0);
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for group in groups {
        *sizes.entry(*group).or_default() += 1;
    }
    let mut order: Vec<(u64, u32)> =
        sizes.keys().map(|group| (random.random_u64(u64::from(*group), 0), *group)).collect();
    order.sort_unstable();
    let [validation, test] = fractions.counts(groups.len());
    let mut wanted = [(SplitSet::Test, test), (SplitSet::Validation, validation)].into_iter();
    let mut current = wanted.next();
    let mut sets: BTreeMap<u32, SplitSet> = BTreeMap::new();
    for (_, group) in order {
        let size = sizes[&group];
        // Half a group too many is as near as half a group too few.
        while let Some((_, left)) = current
            && left < size.div_ceil(2)
        {
            current = wanted.next();
        }
        let Some((set, left)) = current else { break };
        sets.insert(group, set);
        current = Some((set, left.saturating_sub(size)));
    }
    groups.iter().map(|group| sets.get(group).copied().unwrap_or(SplitSet::Train)).collect()
}

/// Assigns the newest records to the test set, and the newest of the others to the validation set.
/// Records of the same time stay together, in the older of two sets.
#[must_use]
pub fn split_by_time<T: PartialOrd>(times: &[T], fractions: SplitFractions) -> Vec<SplitSet> {
    let mut newest: Vec<usize> = (0..times.len()).collect();
    newest.sort_by(|a, b| times[*b].partial_cmp(&times[*a]).unwrap_or(std::cmp::Ordering::Equal).then(b.cmp(a)));
    let [validation, test] = fractions.counts(times.len());
    // A boundary inside a run of equal times moves to its newer end.
    let boundary = |mut at: usize| {
        while at > 0 && at < newest.len() && times[newest[at]] == times[newest[at - 1]] {
            at -= 1;
        }
        at
    };
    let (first, second) = (boundary(test), boundary(test + validation));
    let mut sets = vec![SplitSet::Train; times.len()];
    for (position, record) in newest.iter().enumerate() {
        sets[*record] = set_of(position, second - first, first);
    }
    sets
}

/// Set of a position, where the test set comes first and the validation set second.
fn set_of(position: usize, validation: usize, test: usize) -> SplitSet {
    match position {
        position if position < test => SplitSet::Test,
        position if position < test + validation => SplitSet::Validation,
        _ => SplitSet::Train,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTHS: SplitFractions = SplitFractions { validation: 0.1, test: 0.2 };

    fn count(sets: &[SplitSet], set: SplitSet) -> usize {
        sets.iter().filter(|other| **other == set).count()
    }

    #[test]
    fn fractions_are_exact_and_depend_on_the_seed_alone() {
        let sets = split_at_random(1000, TENTHS, Seed(1));
        assert_eq!((count(&sets, SplitSet::Validation), count(&sets, SplitSet::Test)), (100, 200));
        assert_eq!(sets, split_at_random(1000, TENTHS, Seed(1)));
        assert_ne!(sets, split_at_random(1000, TENTHS, Seed(2)));
        assert_eq!(count(&split_at_random(0, TENTHS, Seed(1)), SplitSet::Test), 0);
    }

    #[test]
    fn classes_keep_their_shares() {
        let classes: Vec<u32> = (0..1000).map(|record| u32::from(record % 10 == 0)).collect();
        let sets = split_by_class(&classes, TENTHS, Seed(3));
        let rare: Vec<SplitSet> =
            sets.iter().zip(&classes).filter(|(_, class)| **class == 1).map(|(set, _)| *set).collect();
        assert_eq!((rare.len(), count(&rare, SplitSet::Validation), count(&rare, SplitSet::Test)), (100, 10, 20));
        assert_eq!(count(&sets, SplitSet::Test), 200);
    }

    #[test]
    fn groups_are_whole_and_sets_near_their_fractions() {
        let groups: Vec<u32> = (0..1000).map(|record| record * record % 83).collect();
        let sets = split_by_group(&groups, TENTHS, Seed(4));
        let mut of_group: BTreeMap<u32, SplitSet> = BTreeMap::new();
        for (group, set) in groups.iter().zip(&sets) {
            assert_eq!(*of_group.entry(*group).or_insert(*set), *set);
        }
        let (validation, test) = (count(&sets, SplitSet::Validation), count(&sets, SplitSet::Test));
        assert!((85..=115).contains(&validation) && (185..=215).contains(&test), "{validation} {test}");
    }

    #[test]
    fn no_record_is_older_than_one_of_an_older_set() {
        let times: Vec<f64> = (0..1000).map(|record| f64::from(record * 7919 % 1000 / 3)).collect();
        let sets = split_by_time(&times, TENTHS);
        let range = |set: SplitSet| {
            let of_set = times.iter().zip(&sets).filter(|(_, other)| **other == set).map(|(time, _)| *time);
            of_set.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), time| (least.min(time), most.max(time)))
        };
        assert!(range(SplitSet::Train).1 < range(SplitSet::Validation).0);
        assert!(range(SplitSet::Validation).1 < range(SplitSet::Test).0);
        assert!((97..=100).contains(&count(&sets, SplitSet::Validation)), "{}", count(&sets, SplitSet::Validation));
        assert_eq!(count(&split_by_time(&[1.0; 10], TENTHS), SplitSet::Train), 10, "equal times cannot be split");
    }
}
