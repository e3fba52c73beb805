//! The examples of a worker.
//!
//! Rows are dealt out by a hash of their number, so that examples that stand together in a file, all of one class perhaps, come to
//! different workers. **Invariant:** which worker has which rows, and in which order, follows from the number of rows, the seed and the number of workers of
//! all peers. Rows without features are examples, too: they have the bias.

use crate::Error;
use hemiola::array::dist::{Labelled, Storage, Way};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// The class of an example whose label was not among those trained on.
pub(crate) const UNKNOWN: u32 = u32::MAX;
/// More labels than this are not classes but measurements.
pub(super) const MOST_CLASSES: usize = 4096;

/// Rows of sparse features, each with a class.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// The number of each row in the data.
    pub(super) rows: Vec<u64>,
    pub(super) classes: Vec<u32>,
    /// Where each row begins; one more than there are rows.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The columns and values of a row, by its place here.
    #[inline]
    pub(super) fn row(&self, place: usize) -> Row<'_> {
        let range = self.starts[place]..self.starts[place + 1];
        Row { columns: &self.columns[range.clone()], values: &self.values[range] }
    }
}

/// The features of an example.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    columns: &'a [u32],
    values: &'a [f32],
}

impl Row<'_> {
    /// The product with a vector that has a weight for every column. Four sums are kept, so that no addition waits for the one before.
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

    /// The squared length.
    pub(super) fn square(self) -> f64 {
        self.values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
    }
}

/// *Collective.* The labels of all examples, by row.
pub(super) fn labels(examples: &Labelled) -> Result<Vec<f32>> {
    Ok(examples.labels.collect()?.into_iter().map(|(_, label)| label).collect())
}

/// The classes there are, in the order of their labels. At least two.
pub(super) fn classes(labels: &[f32], names: &[String]) -> Result<Vec<f32>, Error> {
    let mut classes: Vec<f32> = Vec::new();
    for (row, label) in labels.iter().enumerate() {
        if !label.is_finite() {
            return Err(Error::NotFinite { what: "label", row: row as u64 + 1, column: None });
        }
        // 0 and -0 are the same class.
        let label = label + 0.0;
        let place = classes.partition_point(|class| *class < label);
        if classes.get(place).is_none_or(|class| *class > label) {
            if classes.len() == MOST_CLASSES {
                return Err(Error::ManyClasses { most: MOST_CLASSES });
            }
            classes.insert(place, label);
        }
    }
    match classes[..] {
        [] => Err(Error::NoExamples),
        [only] => {
            let label = names.get(only as usize).map_or_else(|| only.to_string(), |name| format!("`{name}`"));
            Err(Error::OneClass { label })
        }
        _ => Ok(classes),
    }
}

/// Examples of this peer's workers, and how many features of all examples no weight is for.
pub(super) struct Dealt {
    /// For each worker of this peer.
    pub(super) shards: Vec<Shard>,
    /// For each as well, the rows that were chosen to be held out.
    pub(super) held_out: Vec<Shard>,
    /// Workers of all peers.
    pub(super) workers: usize,
    /// The number of the first shard here among those of all peers.
    pub(super) first: usize,
    /// Features of all peers' examples that were left out, because their columns are not among `columns`.
    pub(super) left_out: u64,
}

/// *Collective.* Deals examples out to workers; those for which `apart` says so, apart.
pub(super) fn deal(
    cluster: &Cluster,
    examples: &Labelled,
    labels: &[f32],
    classes: &[f32],
    (columns, seed): (u64, u64),
    apart: impl Fn(u64) -> bool,
) -> Result<Dealt> {
    let features = examples.features.repartition(&Partition::along(0).by(Way::Hash { seed }))?;
    let layout = features.layout();
    let own = layout.parts_of(cluster.rank());
    let mut shards: Vec<Shard> = own.clone().map(|_| Shard::default()).collect();
    let mut held_out: Vec<Shard> = own.clone().map(|_| Shard::default()).collect();
    for (number, label) in labels.iter().enumerate() {
        let row = number as u64;
        let part = layout.space.cut.part_of(row);
        if own.contains(&part) {
            let lists = if apart(row) { &mut held_out } else { &mut shards };
            let shard = &mut lists[part - own.start];
            shard.rows.push(row);
            let class = classes.binary_search_by(|class| class.total_cmp(&(label + 0.0)));
            shard.classes.push(class.map_or(UNKNOWN, |class| class as u32));
        }
    }
    let (mut left_out, mut not_finite) = (0, None);
    if let Storage::Sparse(blocks) = &*features.storage() {
        for (place, block) in blocks.iter().enumerate() {
            let mut fill = [Fill::new(&mut shards[place]), Fill::new(&mut held_out[place])];
            for ([row, column], value) in block.iter() {
                if !value.is_finite() {
                    not_finite = not_finite.or(Some((row, column)));
                } else if column >= columns {
                    left_out += 1;
                } else if !fill[0].take(row, column, *value) {
                    fill[1].take(row, column, *value);
                }
            }
            fill.into_iter().for_each(Fill::end);
        }
    }
    let found = cluster.all_gather((left_out, not_finite))?;
    if let Some((row, column)) = found.iter().find_map(|(_, not_finite)| *not_finite) {
        return Err(Error::NotFinite { what: "feature", row: row + 1, column: Some(column + 1) }.into());
    }
    let left_out = found.into_iter().map(|(left_out, _)| left_out).sum();
    Ok(Dealt { shards, held_out, workers: layout.parts(), first: own.start, left_out })
}

/// Puts entries, which come row by row, into a shard whose rows are known.
struct Fill<'a> {
    shard: &'a mut Shard,
}

impl<'a> Fill<'a> {
    fn new(shard: &'a mut Shard) -> Self {
        shard.starts.push(0);
        Self { shard }
    }

    /// Whether the row is of this shard.
    fn take(&mut self, row: u64, column: u64, value: f32) -> bool {
        let Shard { rows, starts, columns, values, .. } = &mut *self.shard;
        // Rows before have ended.
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
        let Shard { rows, starts, columns, .. } = self.shard;
        starts.resize(rows.len() + 1, columns.len());
    }
}
