//! Selection of records of a data set: of ratings, labelled examples, or documents.
//!
//! **Invariant:** the selected records depend on the selection alone, not on the distribution over
//! peers. Selected examples and documents are numbered anew, in order.

use super::folds::{FoldAssignment, FoldBy, FoldRole};
use crate::lda::Corpus;
use crate::training::{DatasetInfo, digest, labelled_digest};
use hemiola_array::DistArray;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;

/// Data set whose records can be selected.
pub trait RecordSelection: Sized {
    /// *Collective.* Splits off about a `fraction` of the records at random: first the others, then
    /// these.
    fn split_off(&self, cluster: &Cluster, fraction: f64, seed: Seed) -> Result<(Self, Self)>;

    /// *Collective.* Assigns the records to folds.
    fn assign(&self, cluster: &Cluster, folds: usize, by: &FoldBy, seed: Seed) -> Result<FoldAssignment>;

    /// *Collective.* Returns the records that train in a fold, and those that it holds out.
    fn of_fold(&self, cluster: &Cluster, assignment: &FoldAssignment, fold: usize) -> Result<(Self, Self)>;

    /// Returns shape and size.
    fn info(&self) -> DatasetInfo;

    /// *Collective.* Returns a fingerprint of the data.
    fn fingerprint(&self, cluster: &Cluster) -> Result<u64>;
}

/// Ratings: a record is a pair of user and item.
impl RecordSelection for DistArray<f32, 2> {
    fn split_off(&self, _cluster: &Cluster, fraction: f64, seed: Seed) -> Result<(Self, Self)> {
        self.split(fraction, seed)
    }

    fn assign(&self, _cluster: &Cluster, folds: usize, by: &FoldBy, seed: Seed) -> Result<FoldAssignment> {
        by.of_pairs(folds, seed)
    }

    fn of_fold(&self, _cluster: &Cluster, assignment: &FoldAssignment, fold: usize) -> Result<(Self, Self)> {
        let of = |role: FoldRole| {
            let kept = self.entries().filter(|[user, item], _| assignment.of_pair(user, item, fold) == role);
            // The same shape, so that users and items keep their numbers.
            let kept: Self = kept.materialize()?;
            Ok::<_, hemiola_cluster::Error>(kept.with_names([self.shared_names(0), self.shared_names(1)]))
        };
        Ok((of(FoldRole::Train)?, of(FoldRole::HeldOut)?))
    }

    fn info(&self) -> DatasetInfo {
        DatasetInfo::of(self, None)
    }

    fn fingerprint(&self, _cluster: &Cluster) -> Result<u64> {
        digest(self)
    }
}

/// Labelled examples: a record is a row.
impl RecordSelection for LabelledData {
    fn split_off(&self, cluster: &Cluster, fraction: f64, seed: Seed) -> Result<(Self, Self)> {
        let roles = FoldAssignment::split(self.labels.len(), fraction, seed);
        self.of_fold(cluster, &roles, 0)
    }

    fn assign(&self, _cluster: &Cluster, folds: usize, by: &FoldBy, seed: Seed) -> Result<FoldAssignment> {
        let labels = || Ok(self.labels.collect()?.into_iter().map(|(_, label)| label).collect());
        by.of_rows(self.labels.len(), folds, labels, seed)
    }

    fn of_fold(&self, _cluster: &Cluster, assignment: &FoldAssignment, fold: usize) -> Result<(Self, Self)> {
        Ok((rows_with(self, assignment, fold, FoldRole::Train)?, rows_with(self, assignment, fold, FoldRole::HeldOut)?))
    }

    fn info(&self) -> DatasetInfo {
        DatasetInfo { shape: self.features.shape().extents().to_vec(), train: self.labels.len(), validation: 0 }
    }

    fn fingerprint(&self, _cluster: &Cluster) -> Result<u64> {
        labelled_digest(self)
    }
}

/// *Collective.* Returns the rows with a role, numbered anew.
fn rows_with(data: &LabelledData, assignment: &FoldAssignment, fold: usize, role: FoldRole) -> Result<LabelledData> {
    let rows = data.labels.len();
    let mut numbers = vec![usize::MAX; rows];
    let mut next = 0;
    for (row, number) in numbers.iter_mut().enumerate() {
        if assignment.of_row(row, fold) == role {
            *number = next;
            next += 1;
        }
    }
    let number = |row: usize| numbers.get(row).copied().unwrap_or(usize::MAX);
    let features = data.features.entries().filter(|[row, _], _| number(row) != usize::MAX);
    let features: DistArray<f32, 2> = features.map_keys(|[row, column]| [number(row), column]).materialize()?;
    let labels = data.labels.entries().filter(|[row], _| number(row) != usize::MAX);
    let labels = labels.map_keys(|[row]| [number(row)]).materialize()?;
    Ok(LabelledData { features: features.with_names([None, data.features.shared_names(1)]), labels })
}

/// Documents: a record is a document.
impl RecordSelection for Corpus {
    fn split_off(&self, cluster: &Cluster, fraction: f64, seed: Seed) -> Result<(Self, Self)> {
        self.split(cluster, fraction, seed)
    }

    fn assign(&self, _cluster: &Cluster, folds: usize, by: &FoldBy, seed: Seed) -> Result<FoldAssignment> {
        by.of_documents(self.documents(), folds, seed)
    }

    fn of_fold(&self, cluster: &Cluster, assignment: &FoldAssignment, fold: usize) -> Result<(Self, Self)> {
        let of = |role| self.select(cluster, |document| assignment.of_row(document, fold) == role);
        Ok((of(FoldRole::Train)?, of(FoldRole::HeldOut)?))
    }

    fn info(&self) -> DatasetInfo {
        DatasetInfo { shape: vec![self.documents(), self.words()], train: self.documents(), validation: 0 }
    }

    fn fingerprint(&self, cluster: &Cluster) -> Result<u64> {
        self.digest(cluster)
    }
}
