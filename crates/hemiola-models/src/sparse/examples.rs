//! Examples of a peer: its rows of the features, by columns, and the target of each row.
//!
//! Each row lies on one peer, so sums over rows are sums over peers. **Invariant:** all peers have
//! all columns in the same storage: dense if enough cells of all peers' rows are nonzero.

use super::csc::CscMatrix;
use super::dense::DenseColumns;
use super::design::FeatureColumns;
use super::kernel::ColumnValue;
use crate::Error;
use crate::examples::feature_names;
use hemiola_array::PartitionSpec;
use hemiola_array::dist::{LabelledData, PartitionMethod};
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Fraction of nonzero cells from which dense storage is smaller and faster.
const DENSE_THRESHOLD: f64 = 0.25;

/// Training examples of one peer.
#[derive(Clone, Debug)]
pub struct SparseExamples<T> {
    /// Features of the rows of this peer.
    pub columns: FeatureColumns<T>,
    /// Target of each row: a quantity, or the label of one of two classes.
    pub target: Vec<f64>,
    /// Global number of each row, ascending; it decides the validation split and the fold.
    pub numbers: Vec<usize>,
    /// Column names, where there are some.
    pub names: Option<Arc<Vec<String>>>,
}

impl<T: ColumnValue> SparseExamples<T> {
    /// Creates the examples of a single-peer cluster.
    #[must_use]
    pub fn new(columns: FeatureColumns<T>, target: Vec<f64>) -> Self {
        let numbers = (0..target.len()).collect();
        Self { columns, target, numbers, names: None }
    }
}

/// *Collective.* Returns the examples of this peer, and the number of feature values of all peers
/// beyond `columns`, which are dropped.
pub(super) fn distribute(
    cluster: &Cluster,
    examples: &LabelledData,
    columns: usize,
) -> Result<(SparseExamples<f32>, u64)> {
    let features = examples.features.repartition(&PartitionSpec::along(0).method(PartitionMethod::Range))?;
    let labels = examples.labels.collect()?;
    let (layout, own) = (features.layout(), features.layout().parts_of(cluster.rank()));
    let (mut target, mut numbers, mut not_finite) = (Vec::new(), Vec::new(), None);
    for ([row], label) in labels {
        if own.contains(&layout.space.partitioner.part_of(row)) {
            if !label.is_finite() {
                not_finite = not_finite.or(Some(("label", row, None)));
            }
            numbers.push(row);
            target.push(f64::from(label));
        }
    }
    let (mut entries, mut dropped) = (Vec::new(), 0_u64);
    features.for_each(|[row, column], value| {
        if !value.is_finite() {
            not_finite = not_finite.or(Some(("feature", row, Some(column))));
        } else if column >= columns {
            dropped += 1;
        } else if *value != 0.0
            && let Ok(index) = numbers.binary_search(&row)
        {
            entries.push((column as u32, index as u32, *value));
        }
    });
    let mine = (not_finite.map(|(what, row, column)| (what.to_owned(), row, column)), dropped, entries.len());
    let found = cluster.all_gather((mine, numbers.len()))?;
    if let Some((what, row, column)) = found.iter().find_map(|((not_finite, ..), _)| not_finite.clone()) {
        let what = if what == "label" { "label" } else { "feature" };
        return Err(Error::NotFinite { what, row: row + 1, column: column.map(|column| column + 1) }.into());
    }
    let cells = found.iter().map(|(_, rows)| rows).sum::<usize>() as f64 * columns as f64;
    let filled = found.iter().map(|((_, _, entries), _)| entries).sum::<usize>() as f64;
    let dropped = found.iter().map(|((_, dropped, _), _)| dropped).sum();
    let rows = numbers.len();
    let stored = if filled >= DENSE_THRESHOLD * cells {
        let mut values = vec![0.0; rows * columns];
        for (column, row, value) in entries {
            values[column as usize * rows + row as usize] = value;
        }
        FeatureColumns::Dense(DenseColumns::new(rows, columns, values))
    } else {
        sparse(rows, columns, entries)
    };
    let names = feature_names(&features, columns);
    Ok((SparseExamples { columns: stored, target, numbers, names }, dropped))
}

/// Builds a sparse matrix from entries of column, row and value.
fn sparse(rows: usize, columns: usize, mut entries: Vec<(u32, u32, f32)>) -> FeatureColumns<f32> {
    entries.sort_unstable_by_key(|(column, row, _)| (*column, *row));
    let mut starts = vec![0; columns + 1];
    for (column, ..) in &entries {
        starts[*column as usize + 1] += 1;
    }
    for column in 0..columns {
        starts[column + 1] += starts[column];
    }
    let at = entries.iter().map(|(_, row, _)| *row).collect();
    let values = entries.iter().map(|(.., value)| *value).collect();
    FeatureColumns::Sparse(CscMatrix::new(rows, &starts, at, values))
}
