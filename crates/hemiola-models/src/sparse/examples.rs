//! The examples of a peer: its rows of the features, by columns, and what is to be predicted for each.
//!
//! Whole rows lie on one peer, so sums over rows are sums over peers. **Invariant:** all peers have all columns, and store them alike: dense if enough cells of all
//! peers' rows have a value.

use super::csc::Csc;
use super::dense::Dense;
use super::design::Columns;
use super::kernel::Value;
use crate::Error;
use hemiola::array::dist::{Labelled, Way};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::sync::Arc;

/// From this share of cells on, a value for every cell is the shorter and faster way.
const DENSE: f64 = 0.25;

/// Examples of one peer.
#[derive(Clone, Debug)]
pub struct Examples<T> {
    /// The features of its rows.
    pub columns: Columns<T>,
    /// What is to be predicted for each: a quantity, or the label of one of two classes.
    pub target: Vec<f64>,
    /// The number of each row among those of all peers, which decides what is held out; ascending.
    pub numbers: Vec<u64>,
    /// Names of all columns, where they have some.
    pub names: Option<Arc<Vec<String>>>,
}

impl<T: Value> Examples<T> {
    /// All examples there are, on a single peer.
    #[must_use]
    pub fn new(columns: Columns<T>, target: Vec<f64>) -> Self {
        let numbers = (0..target.len() as u64).collect();
        Self { columns, target, numbers, names: None }
    }
}

/// *Collective.* The examples of this peer. Features beyond `columns` are left out; how many over all peers is returned.
pub(super) fn deal(cluster: &Cluster, examples: &Labelled, columns: u64) -> Result<(Examples<f32>, u64)> {
    let features = examples.features.repartition(&Partition::along(0).by(Way::Range))?;
    let labels = examples.labels.collect()?;
    let (layout, own) = (features.layout(), features.layout().parts_of(cluster.rank()));
    let (mut target, mut numbers, mut not_finite) = (Vec::new(), Vec::new(), None);
    for ([row], label) in labels {
        if own.contains(&layout.space.cut.part_of(row)) {
            if !label.is_finite() {
                not_finite = not_finite.or(Some(("label", row, None)));
            }
            numbers.push(row);
            target.push(f64::from(label));
        }
    }
    let (mut entries, mut left_out) = (Vec::new(), 0_u64);
    features.for_each(|[row, column], value| {
        if !value.is_finite() {
            not_finite = not_finite.or(Some(("feature", row, Some(column))));
        } else if column >= columns {
            left_out += 1;
        } else if *value != 0.0
            && let Ok(place) = numbers.binary_search(&row)
        {
            entries.push((column as u32, place as u32, *value));
        }
    });
    let mine = (not_finite.map(|(what, row, column)| (what.to_owned(), row, column)), left_out, entries.len() as u64);
    let found = cluster.all_gather((mine, numbers.len() as u64))?;
    if let Some((what, row, column)) = found.iter().find_map(|((not_finite, ..), _)| not_finite.clone()) {
        let what = if what == "label" { "label" } else { "feature" };
        return Err(Error::NotFinite { what, row: row + 1, column: column.map(|column| column + 1) }.into());
    }
    let cells = found.iter().map(|(_, rows)| rows).sum::<u64>() as f64 * columns as f64;
    let filled = found.iter().map(|((_, _, entries), _)| entries).sum::<u64>() as f64;
    let left_out = found.iter().map(|((_, left_out, _), _)| left_out).sum();
    let rows = numbers.len();
    let stored = if filled >= DENSE * cells {
        let mut values = vec![0.0; rows * columns as usize];
        for (column, row, value) in entries {
            values[column as usize * rows + row as usize] = value;
        }
        Columns::Dense(Dense::new(rows, columns as usize, values))
    } else {
        sparse(rows, columns as usize, entries)
    };
    let names = features.names(1).map(|names| {
        let name = |column: u64| {
            names.text(column as u32).map_or_else(|| (column + 1).to_string(), std::borrow::Cow::into_owned)
        };
        Arc::new((0..columns).map(name).collect())
    });
    Ok((Examples { columns: stored, target, numbers, names }, left_out))
}

/// Entries by column, row and value as a matrix.
fn sparse(rows: usize, columns: usize, mut entries: Vec<(u32, u32, f32)>) -> Columns<f32> {
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
    Columns::Sparse(Csc::new(rows, &starts, at, values))
}
