//! Shards: the examples of each worker.
//!
//! Rows are assigned to workers by a hash of their number, so that neighbouring examples in a file,
//! perhaps all of one class, go to different workers. **Invariant:** the rows of a worker and their
//! order follow from the number of rows, the seed and the total number of workers. Rows without
//! features are examples, too: they have the bias.

use crate::Error;
use hemiola_array::PartitionSpec;
use hemiola_array::dist::{LabelledData, PartitionMethod, Storage};
use hemiola_cluster::{Cluster, Result};

/// Class of an example whose label was not in the training data.
pub(crate) const UNKNOWN_CLASS: u32 = u32::MAX;
/// Maximum number of classes; more labels are measurements.
pub(super) const MAX_CLASSES: usize = 4096;

/// Rows of sparse features, each with a class.
#[derive(Debug, Default)]
pub(super) struct ExampleShard {
    /// Number of each row in the data.
    pub(super) rows: Vec<usize>,
    pub(super) classes: Vec<u32>,
    /// Start of each row; one more than there are rows.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl ExampleShard {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the features of a row by its index in the shard.
    #[inline]
    pub(super) fn row(&self, index: usize) -> ExampleRow<'_> {
        let range = self.starts[index]..self.starts[index + 1];
        ExampleRow { columns: &self.columns[range.clone()], values: &self.values[range] }
    }
}

/// Sparse features of one example.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExampleRow<'a> {
    columns: &'a [u32],
    values: &'a [f32],
}

impl ExampleRow<'_> {
    /// Dot product with a dense weight vector. Four independent sums shorten the dependency chain.
    #[inline]
    pub(super) fn dot(self, weights: &[f64]) -> f64 {
        let (columns, last_columns) = self.columns.as_chunks::<4>();
        let (values, last_values) = self.values.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for (columns, values) in columns.iter().zip(values) {
            for ((sum, column), value) in sums.iter_mut().zip(columns).zip(values) {
                *sum += weights[*column as usize] * f64::from(*value);
            }
        }
        let last = last_columns.iter().zip(last_values);
        let last: f64 = last.map(|(column, value)| weights[*column as usize] * f64::from(*value)).sum();
        (sums[0] + sums[1]) + (sums[2] + sums[3]) + last
    }

    /// Adds `factor` times the features to the weights.
    #[inline]
    pub(super) fn add_to(self, weights: &mut [f64], factor: f64) {
        for (column, value) in self.columns.iter().zip(self.values) {
            weights[*column as usize] += factor * f64::from(*value);
        }
    }

    /// Squared norm of the features.
    pub(super) fn square(self) -> f64 {
        self.values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
    }
}

/// Minimum number of examples for the check that labels repeat.
const FEWEST_FOR_CHECK: usize = 20;

/// *Collective.* Gathers the labels of all examples, by row.
pub(crate) fn labels(examples: &LabelledData) -> Result<Vec<f32>> {
    Ok(examples.labels.collect()?.into_iter().map(|(_, label)| label).collect())
}

/// Returns the name of the class with this label, if classes have names.
pub(crate) fn class_name(names: &[String], label: f32) -> Option<String> {
    names.get(label as usize).cloned()
}

/// Returns the names of classes with these labels, or their labels where classes have no names.
pub(crate) fn class_names(names: &[String], labels: &[f32]) -> Vec<String> {
    labels.iter().map(|label| class_name(names, *label).unwrap_or_else(|| label.to_string())).collect()
}

/// Returns the distinct labels, ascending. Fails for fewer than two.
pub(crate) fn classes(labels: &[f32], names: &[String]) -> Result<Vec<f32>, Error> {
    let mut classes: Vec<f32> = Vec::new();
    for (row, label) in labels.iter().enumerate() {
        if !label.is_finite() {
            return Err(Error::NotFinite { what: "label", row: row + 1, column: None });
        }
        // 0 and -0 are the same class.
        let label = label + 0.0;
        let index = classes.partition_point(|class| *class < label);
        if classes.get(index).is_none_or(|class| *class > label) {
            if classes.len() == MAX_CLASSES {
                return Err(Error::TooManyClasses { most: MAX_CLASSES });
            }
            classes.insert(index, label);
        }
    }
    match classes[..] {
        [] => Err(Error::NoExamples),
        [only] => {
            let label = names.get(only as usize).map_or_else(|| only.to_string(), |name| format!("`{name}`"));
            Err(Error::SingleClass { label })
        }
        // Quantities differ from row to row; classes repeat.
        _ if labels.len() >= FEWEST_FOR_CHECK && 2 * classes.len() > labels.len() => {
            Err(Error::LabelsAreNotClasses { classes: classes.len(), examples: labels.len() })
        }
        _ => Ok(classes),
    }
}

/// Examples of this peer's workers.
pub(super) struct ShardedExamples {
    /// Training shard of each worker of this peer.
    pub(super) shards: Vec<ExampleShard>,
    /// Validation shard of each worker of this peer.
    pub(super) validation_shards: Vec<ExampleShard>,
    /// Total number of workers.
    pub(super) workers: usize,
    /// Global index of the first shard of this peer.
    pub(super) first: usize,
    /// Number of feature values, over all peers, whose columns are unknown and were dropped.
    pub(super) dropped: u64,
}

/// *Collective.* Distributes examples over workers; those selected by `is_validation` go to the
/// validation shards.
pub(super) fn distribute(
    cluster: &Cluster,
    examples: &LabelledData,
    labels: &[f32],
    classes: &[f32],
    (columns, seed): (usize, u64),
    is_validation: impl Fn(usize) -> bool,
) -> Result<ShardedExamples> {
    let features = examples.features.repartition(&PartitionSpec::along(0).method(PartitionMethod::Hash { seed }))?;
    let layout = features.layout();
    let own = layout.parts_of(cluster.rank());
    let mut shards: Vec<ExampleShard> = own.clone().map(|_| ExampleShard::default()).collect();
    let mut validation_shards: Vec<ExampleShard> = own.clone().map(|_| ExampleShard::default()).collect();
    for (row, label) in labels.iter().enumerate() {
        let part = layout.space.partitioner.part_of(row);
        if own.contains(&part) {
            let lists = if is_validation(row) { &mut validation_shards } else { &mut shards };
            let shard = &mut lists[part - own.start];
            shard.rows.push(row);
            let class = classes.binary_search_by(|class| class.total_cmp(&(label + 0.0)));
            shard.classes.push(class.map_or(UNKNOWN_CLASS, |class| class as u32));
        }
    }
    let (mut dropped, mut not_finite) = (0, None);
    if let Storage::Sparse(blocks) = &*features.storage() {
        for (index, block) in blocks.iter().enumerate() {
            let mut writers = [ShardWriter::new(&mut shards[index]), ShardWriter::new(&mut validation_shards[index])];
            for ([row, column], value) in block.iter() {
                if !value.is_finite() {
                    not_finite = not_finite.or(Some((row, column)));
                } else if column >= columns {
                    dropped += 1;
                } else if !writers[0].push(row, column, *value) {
                    writers[1].push(row, column, *value);
                }
            }
            writers.into_iter().for_each(ShardWriter::end);
        }
    }
    let found = cluster.all_gather((dropped, not_finite))?;
    if let Some((row, column)) = found.iter().find_map(|(_, not_finite)| *not_finite) {
        return Err(Error::NotFinite { what: "feature", row: row + 1, column: Some(column + 1) }.into());
    }
    let dropped = found.into_iter().map(|(dropped, _)| dropped).sum();
    Ok(ShardedExamples { shards, validation_shards, workers: layout.parts(), first: own.start, dropped })
}

/// Writer of entries, in row order, into a shard with known rows.
struct ShardWriter<'a> {
    shard: &'a mut ExampleShard,
}

impl<'a> ShardWriter<'a> {
    fn new(shard: &'a mut ExampleShard) -> Self {
        shard.starts.push(0);
        Self { shard }
    }

    /// Adds an entry; returns false if the row is not in this shard.
    fn push(&mut self, row: usize, column: usize, value: f32) -> bool {
        let ExampleShard { rows, starts, columns, values, .. } = &mut *self.shard;
        // Close the rows before this one.
        while rows.get(starts.len() - 1).is_some_and(|open| *open < row) {
            starts.push(columns.len());
        }
        let mine = rows.get(starts.len() - 1) == Some(&row);
        if mine {
            columns.push(column as u32);
            values.push(value);
        }
        mine
    }

    fn end(self) {
        let ExampleShard { rows, starts, columns, .. } = self.shard;
        starts.resize(rows.len() + 1, columns.len());
    }
}
