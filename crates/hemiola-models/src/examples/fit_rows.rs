//! Start of a fit: the examples that are trained on, and those of the validation set.
//!
//! **Invariant:** a row is held out by its number and the seed alone, so the choice is the same on
//! every peer, on any cluster, and for all models.

use super::{BlockedRows, ExampleWeights, weights_digest};
use crate::Error;
use crate::input::HeldOutRows;
use crate::linear::labels;
use crate::training::{DatasetInfo, labelled_digest};
use hemiola_array::DistArray;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Random choice of a fraction of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidationDraw(HeldOutRows);

impl ValidationDraw {
    /// Draws a fraction `share` of the rows, or none if a validation set is `given`.
    pub(crate) fn new(seed: u64, share: f64, given: bool) -> Self {
        Self(HeldOutRows { seed, fraction: if given { 0.0 } else { share } })
    }

    /// Returns true if a row is held out.
    pub(crate) fn holds_out(&self, row: usize) -> bool {
        self.0.contains(row)
    }

    /// Returns the labels of the rows that are trained on.
    pub(crate) fn trained_on(&self, labels: &[f32]) -> Vec<f32> {
        let kept = |(row, label): (usize, &f32)| (!self.holds_out(row)).then_some(*label);
        labels.iter().enumerate().filter_map(kept).collect()
    }

    /// *Collective.* Distributes the rows of `features`, with `labels` if there are some, and those of
    /// a given validation set.
    pub(crate) fn distribute(
        &self,
        cluster: &Cluster,
        (features, labels): (&DistArray<f32, 2>, Option<&[f32]>),
        validation: Option<(&DistArray<f32, 2>, Option<&[f32]>)>,
    ) -> Result<FitRows> {
        let [extent, columns] = features.shape().extents();
        let (rows, columns) = (labels.map_or(extent, <[f32]>::len), columns.max(1));
        let split = BlockedRows::distribute(cluster, features, labels, rows, columns, |row| self.holds_out(row))?;
        if split.train.examples == 0 {
            return Err(Error::NoExamples.into());
        }
        let validation = match validation {
            Some((features, labels)) => {
                let count = labels.map_or_else(|| features.shape().extent(0), <[f32]>::len);
                BlockedRows::distribute(cluster, features, labels, count, columns, |_| false)?.train
            }
            None => split.validation,
        };
        let data =
            DatasetInfo { shape: vec![rows, columns], train: split.train.examples, validation: validation.examples };
        Ok(FitRows { train: split.train, validation, data })
    }
}

/// Rows of a fit, distributed over all peers.
pub(crate) struct FitRows {
    pub(crate) train: BlockedRows,
    pub(crate) validation: BlockedRows,
    /// Sizes, for reports and checkpoints.
    pub(crate) data: DatasetInfo,
}

/// Labelled examples of a fit, before they are distributed.
pub(crate) struct LabelledFit<'a> {
    examples: &'a LabelledData,
    validation: Option<&'a LabelledData>,
    draw: ValidationDraw,
    /// Label of each example.
    pub(crate) labels: Vec<f32>,
    weights_digest: u64,
}

impl<'a> LabelledFit<'a> {
    /// *Collective.* Gathers the labels, and draws a fraction `share` of the examples for validation
    /// unless a validation set is given.
    pub(crate) fn new(
        examples: &'a LabelledData,
        validation: Option<&'a LabelledData>,
        (seed, share): (u64, f64),
    ) -> Result<Self> {
        let draw = ValidationDraw::new(seed, share, validation.is_some());
        Ok(Self { examples, validation, draw, labels: labels(examples)?, weights_digest: 0 })
    }

    /// Returns the weight of each example; `None` if all are 1. `classes` and `names` are those of the
    /// labels.
    pub(crate) fn weigh(
        &mut self,
        weights: &ExampleWeights,
        classes: (&[f32], &[String]),
    ) -> Result<Option<Arc<Vec<f64>>>> {
        let found = weights.of(&self.labels, classes, |row| !self.draw.holds_out(row))?;
        self.weights_digest = weights_digest(found.as_deref().map(Vec::as_slice));
        Ok(found)
    }

    /// Returns the number of columns, at least 1.
    pub(crate) fn columns(&self) -> usize {
        self.examples.features.shape().extent(1).max(1)
    }

    /// Returns the labels of the examples that are trained on.
    pub(crate) fn trained_on(&self) -> Vec<f32> {
        self.draw.trained_on(&self.labels)
    }

    /// *Collective.* Distributes the examples over all peers.
    pub(crate) fn distribute(&self, cluster: &Cluster) -> Result<FitRows> {
        let of_validation = self.validation.map(labels).transpose()?;
        let validation = self.validation.map(|examples| (&examples.features, of_validation.as_deref()));
        self.draw.distribute(cluster, (&self.examples.features, Some(&self.labels)), validation)
    }

    /// *Collective.* Returns the fingerprints of the weighed examples and of the validation set.
    pub(crate) fn digests(&self) -> Result<[u64; 2]> {
        Ok([labelled_digest(self.examples)? ^ self.weights_digest, self.validation.map_or(Ok(0), labelled_digest)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_validation_set_leaves_all_rows_for_training() {
        let labels: Vec<f32> = (0..1000).map(|row| row as f32).collect();
        let held_out = ValidationDraw::new(3, 0.2, false);
        let kept = held_out.trained_on(&labels);
        assert!((700..900).contains(&kept.len()), "{}", kept.len());
        assert!(kept.iter().all(|row| !held_out.holds_out(*row as usize)));
        assert_eq!(kept, ValidationDraw::new(3, 0.2, false).trained_on(&labels), "a function of the seed");
        assert_ne!(kept, ValidationDraw::new(4, 0.2, false).trained_on(&labels));
        for none in [ValidationDraw::new(3, 0.2, true), ValidationDraw::new(3, 0.0, false)] {
            assert_eq!(none.trained_on(&labels), labels);
        }
    }
}
