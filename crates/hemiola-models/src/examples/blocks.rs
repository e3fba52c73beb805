//! Rows of features with a target each, in a fixed number of blocks of consecutive rows.
//!
//! **Invariant:** the rows of a block follow from the number of rows alone, and a peer has
//! consecutive blocks. Whatever is computed block by block therefore has the same bits on any number
//! of peers and workers.

use crate::Error;
use hemiola_array::dist::PartitionMethod;
use hemiola_array::sparse::DuplicatePolicy;
use hemiola_array::{DistArray, PartitionSpec, Partitioner};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::SplitMix64;
use std::ops::Range;

/// Maximum number of blocks, and of workers that share them.
const BLOCKS: usize = 64;

/// Rows of sparse features, each with a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExampleBlock {
    /// Number of each row in the data.
    pub(crate) numbers: Vec<usize>,
    /// Target of each row: its label as a number; 0 where there are no labels.
    pub(crate) targets: Vec<f64>,
    /// Start of each row; one more than there are rows.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl ExampleBlock {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the columns and the values of a row by its index in the block.
    #[inline]
    pub(crate) fn slices(&self, index: usize) -> (&[u32], &[f32]) {
        let range = self.starts[index]..self.starts[index + 1];
        (&self.columns[range.clone()], &self.values[range])
    }

    /// Iterates over the columns and values of a row by its index in the block.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let (columns, values) = self.slices(index);
        columns.iter().zip(values).map(|(column, value)| (*column as usize, *value))
    }

    /// Returns all columns and values of the block.
    pub(crate) fn entries(&self) -> (&[u32], &[f32]) {
        (&self.columns, &self.values)
    }

    /// Scales each row to norm 1.
    pub(crate) fn normalize(&mut self) {
        for row in self.starts.windows(2) {
            unit_norm(&mut self.values[row[0]..row[1]]);
        }
    }

    /// Joins consecutive blocks to one.
    pub(crate) fn concatenated(blocks: &[Self]) -> Self {
        let mut all = Self { starts: vec![0], ..Self::default() };
        for block in blocks {
            let offset = all.columns.len();
            all.numbers.extend(&block.numbers);
            all.targets.extend(&block.targets);
            all.starts.extend(block.starts.iter().skip(1).map(|start| start + offset));
            all.columns.extend(&block.columns);
            all.values.extend(&block.values);
        }
        all
    }

    /// Adds an entry of a row; returns false if the row is not in this block. Entries come in the
    /// order of rows.
    fn push(&mut self, row: usize, column: usize, value: f32) -> bool {
        while self.numbers.get(self.starts.len() - 1).is_some_and(|open| *open < row) {
            self.starts.push(self.columns.len());
        }
        let mine = self.numbers.get(self.starts.len() - 1) == Some(&row);
        if mine {
            self.columns.push(column as u32);
            self.values.push(value);
        }
        mine
    }
}

/// Blocks of the rows of this peer.
#[derive(Debug)]
pub(crate) struct BlockedRows {
    /// Blocks of this peer, in order.
    pub(crate) blocks: Vec<ExampleBlock>,
    /// Number of the first of them.
    first: usize,
    /// Number of blocks of all peers.
    total: usize,
    /// Number of examples of all peers.
    pub(crate) examples: usize,
}

/// Rows for training and for validation, and the number of values, over all peers, in columns
/// beyond those of the model, which are dropped.
pub(crate) struct RowSplit {
    pub(crate) train: BlockedRows,
    pub(crate) validation: BlockedRows,
    pub(crate) dropped: u64,
}

impl BlockedRows {
    /// *Collective.* Distributes `rows` rows over all peers. `labels` has one number for each, if
    /// there are some. Rows selected by `is_validation` go to the validation rows.
    pub(crate) fn distribute(
        cluster: &Cluster,
        features: &DistArray<f32, 2>,
        labels: Option<&[f32]>,
        rows: usize,
        columns: usize,
        is_validation: impl Fn(usize) -> bool,
    ) -> Result<RowSplit> {
        let length = rows.div_ceil(BLOCKS).max(1);
        let total = rows.div_ceil(length);
        let parts = cluster.size() * cluster.workers();
        let (entries, partitioner) = if features.is_empty() {
            (None, Partitioner::equal(total.max(1), parts))
        } else {
            let entries = features.entries().filter(|[row, _], _| row < rows);
            let blocked = entries.map_keys(|[row, column]| [row / length, row, column]);
            let ranges = PartitionSpec::along(0).method(PartitionMethod::Range);
            let blocked: DistArray<f32, 3> = blocked.materialize_as(&ranges, DuplicatePolicy::Error)?;
            let partitioner = blocked.layout().space.partitioner.clone();
            (Some(blocked), partitioner)
        };
        // The last blocks may have no entries, and no index in the array.
        let peer_of = |block: usize| partitioner.part_of(block.min(partitioner.extent() - 1)) / cluster.workers();
        let own = (0..total).filter(|block| peer_of(*block) == cluster.rank().index());
        let own = own.clone().next().map_or(0..0, |first| first..first + own.count());
        let mut not_finite = None;
        let mut split = [Vec::new(), Vec::new()];
        for block in own.clone() {
            let mut pair = [ExampleBlock::default(), ExampleBlock::default()];
            for row in block * length..rows.min((block + 1) * length) {
                let to = &mut pair[usize::from(is_validation(row))];
                let label = labels.map_or(0.0, |labels| labels[row]);
                if !label.is_finite() {
                    not_finite = not_finite.or(Some((row, None)));
                }
                to.numbers.push(row);
                to.targets.push(f64::from(label));
            }
            for (all, mut block) in split.iter_mut().zip(pair) {
                block.starts.push(0);
                all.push(block);
            }
        }
        let mut dropped = 0_u64;
        if let Some(entries) = entries {
            entries.for_each(|[block, row, column], value| {
                let [train, validation] = &mut split;
                let index = block - own.start;
                if !value.is_finite() {
                    not_finite = not_finite.or(Some((row, Some(column))));
                } else if column >= columns {
                    dropped += 1;
                } else if *value != 0.0 && !train[index].push(row, column, *value) {
                    validation[index].push(row, column, *value);
                }
            });
        }
        for block in split.iter_mut().flatten() {
            block.starts.resize(block.numbers.len() + 1, block.columns.len());
        }
        let counts = split.each_ref().map(|blocks| blocks.iter().map(ExampleBlock::len).sum::<usize>());
        let found = cluster.all_gather((not_finite, dropped, counts))?;
        if let Some((row, column)) = found.iter().filter_map(|(not_finite, ..)| *not_finite).min() {
            let what = if column.is_some() { "feature" } else { "label" };
            return Err(Error::NotFinite { what, row: row + 1, column: column.map(|column| column + 1) }.into());
        }
        let dropped = found.iter().map(|(_, dropped, _)| dropped).sum();
        let examples = |which: usize| found.iter().map(|(.., counts)| counts[which]).sum();
        let [train, validation] = split;
        Ok(RowSplit {
            train: Self { blocks: train, first: own.start, total, examples: examples(0) },
            validation: Self { blocks: validation, first: own.start, total, examples: examples(1) },
            dropped,
        })
    }

    /// Numbers of the blocks of this peer.
    pub(crate) fn own_blocks(&self) -> Range<usize> {
        self.first..self.first + self.blocks.len()
    }

    /// Number of blocks of all peers.
    pub(crate) fn total_blocks(&self) -> usize {
        self.total
    }
}

/// Divides a vector by its norm, unless all values are 0.
pub(crate) fn unit_norm(values: &mut [f32]) {
    let square: f64 = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
    if square > 0.0 {
        let factor = square.sqrt().recip();
        for value in values {
            *value = (f64::from(*value) * factor) as f32;
        }
    }
}

/// Returns the targets of the rows of some blocks, in order.
pub(crate) fn targets_of(blocks: &[ExampleBlock]) -> Vec<f64> {
    blocks.iter().flat_map(|block| block.targets.iter().copied()).collect()
}

/// Returns a random order of `0..rows` for an epoch, equal on every peer.
pub(crate) fn shuffled_rows(rows: usize, seed: u64, epoch: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    SplitMix64::new(hemiola_core::rng::mix64(seed ^ (u64::from(epoch) << 32))).shuffle(&mut order);
    order
}
