//! Assignment of records to folds: at random, by class, by group, or in the order of time.
//!
//! **Invariant:** each record is held out in exactly one fold, except the oldest ones with folds in
//! the order of time, which only train. The assignment follows from the records and the seed alone.

use crate::Error;
use crate::setters::require;
use hemiola_cluster::Result;
use hemiola_core::Seed;
use hemiola_core::rng::{PhiloxRng, mix64};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Random stream that assigns folds, and splits off validation records.
const FOLD_DRAW: u64 = 31;
const SPLIT_DRAW: u64 = 32;
/// Maximum number of folds.
const MOST_FOLDS: usize = 1000;

/// Property of the records that folds respect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FoldBy {
    /// None: records are assigned at random.
    #[default]
    Record,
    /// Each class of labelled examples has the same share of every fold.
    Class,
    /// Examples with the same number stay in one fold: a group for each row.
    Group(Vec<u32>),
    /// Folds in the order of time: a rank for each row, equal for equal times. Fold `i` of `k` holds
    /// out part `i + 1` of `k + 1` and trains on the parts before it.
    Time(Vec<u32>),
    /// Ratings of a user stay in one fold.
    User,
}

/// Use of a record in a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldRole {
    /// The record trains.
    Train,
    /// The record is held out, for the evaluation.
    HeldOut,
    /// Neither: the record is newer than those that are held out.
    Unused,
}

/// Folds of all records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FoldAssignment {
    /// Fold that holds out each row.
    Rows(Vec<u32>),
    /// Part of each row in the order of time, from 0.
    Parts(Vec<u32>),
    /// Folds drawn for each pair of user and item.
    Pairs(PhiloxRng, usize),
    /// Folds drawn for each user.
    Users(PhiloxRng, usize),
}

impl FoldBy {
    /// Assigns the rows of labelled examples; `labels` are called if needed.
    pub(super) fn of_rows(
        &self,
        rows: usize,
        folds: usize,
        labels: impl FnOnce() -> Result<Vec<f32>>,
        seed: Seed,
    ) -> Result<FoldAssignment> {
        check(folds, rows)?;
        let same_length = |codes: &[u32]| {
            if codes.len() == rows { Ok(()) } else { Err(Error::GroupCount { groups: codes.len(), rows }) }
        };
        Ok(match self {
            Self::Record => FoldAssignment::Rows(dealt(&vec![0; rows], folds, seed)),
            Self::Class => {
                let labels = labels()?;
                let code = |label: &f32| (label + 0.0).to_bits();
                FoldAssignment::Rows(dealt(&labels.iter().map(code).collect::<Vec<u32>>(), folds, seed))
            }
            Self::Group(groups) => {
                same_length(groups)?;
                FoldAssignment::Rows(by_group(groups, folds, seed)?)
            }
            Self::Time(times) => {
                same_length(times)?;
                FoldAssignment::Parts(by_time(times, folds)?)
            }
            Self::User => return Err(unsupported("user", "labelled examples").into()),
        })
    }

    /// Assigns documents.
    pub(super) fn of_documents(&self, documents: usize, folds: usize, seed: Seed) -> Result<FoldAssignment> {
        match self {
            Self::Record => self.of_rows(documents, folds, || Ok(Vec::new()), seed),
            _ => Err(unsupported("class, group, time or user", "documents").into()),
        }
    }

    /// Assigns ratings.
    pub(super) fn of_pairs(&self, folds: usize, Seed(seed): Seed) -> Result<FoldAssignment> {
        check(folds, usize::MAX)?;
        match self {
            Self::Record => Ok(FoldAssignment::Pairs(PhiloxRng::new(seed), folds)),
            Self::User => Ok(FoldAssignment::Users(PhiloxRng::new(seed), folds)),
            _ => Err(unsupported("class, group or time", "ratings").into()),
        }
    }
}

fn unsupported(by: &'static str, data: &'static str) -> Error {
    Error::UnsupportedFolds { by, data }
}

fn check(folds: usize, records: usize) -> Result<(), Error> {
    require("folds", &folds, (2..=MOST_FOLDS).contains(&folds), "from 2 to 1000")?;
    require("folds", &folds, folds <= records, "at most the number of records")
}

impl FoldAssignment {
    /// Splits off a fraction of rows at random, as the only fold.
    pub(super) fn split(rows: usize, fraction: f64, Seed(seed): Seed) -> Self {
        let random = PhiloxRng::new(seed);
        let chosen = |row: usize| u32::from(!random.random_bool(row as u64, SPLIT_DRAW, fraction));
        Self::Rows((0..rows).map(chosen).collect())
    }

    /// Returns the use of a row in a fold.
    #[must_use]
    pub fn of_row(&self, row: usize, fold: usize) -> FoldRole {
        match self {
            Self::Rows(folds) => role(folds.get(row).is_some_and(|own| *own as usize == fold)),
            Self::Parts(parts) => match parts.get(row).map(|part| (*part as usize).cmp(&(fold + 1))) {
                Some(std::cmp::Ordering::Less) => FoldRole::Train,
                Some(std::cmp::Ordering::Equal) => FoldRole::HeldOut,
                _ => FoldRole::Unused,
            },
            Self::Pairs(..) | Self::Users(..) => FoldRole::Unused,
        }
    }

    /// Returns the use of a pair of user and item in a fold.
    #[must_use]
    pub fn of_pair(&self, user: usize, item: usize, fold: usize) -> FoldRole {
        let drawn = |random: &PhiloxRng, index: u64, folds: usize| {
            role((random.random_f64(index, FOLD_DRAW) * folds as f64) as usize == fold)
        };
        match self {
            Self::Pairs(random, folds) => drawn(random, mix64(mix64(user as u64).wrapping_add(item as u64)), *folds),
            Self::Users(random, folds) => drawn(random, user as u64, *folds),
            Self::Rows(_) | Self::Parts(_) => FoldRole::Unused,
        }
    }
}

fn role(held_out: bool) -> FoldRole {
    if held_out { FoldRole::HeldOut } else { FoldRole::Train }
}

/// Deals the rows of each class to the folds in random order. Each class begins where the one before
/// ended, so that folds have equal sizes.
fn dealt(classes: &[u32], folds: usize, Seed(seed): Seed) -> Vec<u32> {
    let random = PhiloxRng::new(seed);
    let mut members: BTreeMap<u32, Vec<(u64, usize)>> = BTreeMap::new();
    for (row, class) in classes.iter().enumerate() {
        members.entry(*class).or_default().push((random.random_u64(row as u64, FOLD_DRAW), row));
    }
    let (mut of_row, mut next) = (vec![0; classes.len()], 0);
    for mut rows in members.into_values() {
        rows.sort_unstable();
        for (_, row) in rows {
            of_row[row] = (next % folds) as u32;
            next += 1;
        }
    }
    of_row
}

/// Assigns whole groups: the largest first, each to the fold with the fewest rows. Groups of equal
/// size are in random order.
fn by_group(groups: &[u32], folds: usize, Seed(seed): Seed) -> Result<Vec<u32>, Error> {
    let random = PhiloxRng::new(seed);
    let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
    for group in groups {
        *sizes.entry(*group).or_default() += 1;
    }
    if sizes.len() < folds {
        return Err(Error::TooFewGroups { groups: sizes.len(), folds });
    }
    let drawn = |group: u32| random.random_u64(u64::from(group), FOLD_DRAW);
    let mut order: Vec<(std::cmp::Reverse<usize>, u64, u32)> =
        sizes.into_iter().map(|(group, size)| (std::cmp::Reverse(size), drawn(group), group)).collect();
    order.sort_unstable();
    let (mut filled, mut of_group) = (vec![0; folds], BTreeMap::new());
    for (std::cmp::Reverse(size), _, group) in order {
        let fold = (0..folds).min_by_key(|fold| filled[*fold]).unwrap_or(0);
        filled[fold] += size;
        of_group.insert(group, fold as u32);
    }
    Ok(groups.iter().map(|group| of_group[group]).collect())
}

/// Cuts the rows in the order of time into one part more than there are folds. Rows of the same time
/// are in one part.
fn by_time(times: &[u32], folds: usize) -> Result<Vec<u32>, Error> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|row| times[*row]);
    let mut part_of = vec![0; times.len()];
    let (mut part, mut parts_used) = (0, 0);
    for (position, row) in order.iter().enumerate() {
        let starts = position == 0 || times[*row] != times[order[position - 1]];
        if starts {
            part = (position * (folds + 1) / times.len()) as u32;
            parts_used += usize::from(position == 0 || part != part_of[order[position - 1]]);
        }
        part_of[*row] = part;
    }
    if parts_used < folds + 1 {
        return Err(Error::TooFewGroups { groups: parts_used, folds: folds + 1 });
    }
    Ok(part_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(by: &FoldBy, count: usize, folds: usize, labels: &[f32]) -> FoldAssignment {
        by.of_rows(count, folds, || Ok(labels.to_vec()), Seed(3)).unwrap()
    }

    fn held_out(assignment: &FoldAssignment, count: usize, fold: usize) -> Vec<usize> {
        (0..count).filter(|row| assignment.of_row(*row, fold) == FoldRole::HeldOut).collect()
    }

    #[test]
    fn every_row_is_held_out_once_and_folds_have_equal_sizes() {
        let random = rows(&FoldBy::Record, 103, 5, &[]);
        let mut all: Vec<usize> = (0..5).flat_map(|fold| held_out(&random, 103, fold)).collect();
        assert!((0..5).all(|fold| (20..=21).contains(&held_out(&random, 103, fold).len())));
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<_>>());
        assert_ne!(held_out(&random, 103, 0), (0..21).collect::<Vec<_>>());
    }

    #[test]
    fn classes_have_equal_shares_of_every_fold() {
        let labels: Vec<f32> = (0..200).map(|row| f32::from(u8::from(row % 10 == 0))).collect();
        let stratified = rows(&FoldBy::Class, 200, 4, &labels);
        for fold in 0..4 {
            let rows = held_out(&stratified, 200, fold);
            assert_eq!((rows.len(), rows.iter().filter(|row| labels[**row] > 0.0).count()), (50, 5));
        }
    }

    #[test]
    fn groups_are_whole_and_folds_balanced() {
        let groups: Vec<u32> = (0..300_u32).map(|row| row * row % 53).collect();
        let grouped = rows(&FoldBy::Group(groups.clone()), 300, 4, &[]);
        let mut fold_of = BTreeMap::new();
        for fold in 0..4 {
            let rows = held_out(&grouped, 300, fold);
            assert!((65..=85).contains(&rows.len()), "{}", rows.len());
            assert!(rows.iter().all(|row| *fold_of.entry(groups[*row]).or_insert(fold) == fold));
        }
        let few = FoldBy::Group(vec![1; 10]).of_rows(10, 2, || Ok(Vec::new()), Seed(1)).unwrap_err();
        assert!(few.to_string().contains("1 group"), "{few}");
        let short = FoldBy::Group(vec![1; 9]).of_rows(10, 2, || Ok(Vec::new()), Seed(1)).unwrap_err();
        assert!(short.to_string().contains("9 groups"), "{short}");
    }

    #[test]
    fn folds_in_the_order_of_time_train_on_older_rows_only() {
        let times: Vec<u32> = (0..120_u32).map(|row| row * 7919 % 120 / 2).collect();
        let ordered = rows(&FoldBy::Time(times.clone()), 120, 5, &[]);
        for fold in 0..5 {
            let (ordered, times) = (&ordered, &times);
            let of = |role| (0..120).filter(move |row| ordered.of_row(*row, fold) == role).map(move |row| times[row]);
            let (train, held_out) = (of(FoldRole::Train), of(FoldRole::HeldOut));
            assert_eq!((train.clone().count(), held_out.clone().count()), (20 * (fold + 1), 20));
            assert!(train.max() < held_out.min());
        }
        assert!(FoldBy::Time(vec![0; 10]).of_rows(10, 2, || Ok(Vec::new()), Seed(1)).is_err());
    }

    #[test]
    fn ratings_are_dealt_by_pair_or_by_user() {
        let (pairs, users) = (FoldBy::Record.of_pairs(4, Seed(1)).unwrap(), FoldBy::User.of_pairs(4, Seed(1)).unwrap());
        let fold = |assignment: &FoldAssignment, user, item| {
            let mut folds = (0..4).filter(|fold| assignment.of_pair(user, item, *fold) == FoldRole::HeldOut);
            let found = folds.next().unwrap();
            assert_eq!(folds.next(), None);
            found
        };
        let mut sizes = [0; 4];
        for user in 0..60 {
            (0..40).for_each(|item| sizes[fold(&pairs, user, item)] += 1);
            assert!((0..40).all(|item| fold(&users, user, item) == fold(&users, user, 0)));
        }
        assert!(sizes.iter().all(|size| (540..=660).contains(size)), "{sizes:?}");
        assert!(FoldBy::Class.of_pairs(3, Seed(1)).is_err() && FoldBy::Record.of_pairs(1, Seed(1)).is_err());
        assert!(FoldBy::Class.of_documents(10, 2, Seed(1)).is_err());
    }
}
