//! Dense view: a numpy array.

use super::deal::deal;
use super::description::{DataSetContents, FIRST_ROWS, FirstRows, MemoryEstimate, density};
use super::progress::ReadProgress;
use super::tally::ValueTally;
use hemiola_array::read::{FileCompression, InputFile, NonFiniteHandling, Npy};
use hemiola_array::{DenseArray, Shape};
use hemiola_cluster::Cluster;
use std::collections::BTreeMap;

/// Number of elements per piece of work.
const PIECE: usize = 1 << 19;
/// Maximum number of cells shown of a row.
const SHOWN_CELLS: usize = 8;

/// Computes the statistics in one pass over all elements.
pub(super) fn survey(
    cluster: &Cluster,
    source: &InputFile,
    non_finite: NonFiniteHandling,
) -> anyhow::Result<DataSetContents> {
    let npy = Npy::open(source)?.non_finite(non_finite);
    let elements = npy.elements();
    // A compressed file can only be read from its start, so it is one piece.
    let piece = if source.compression() == FileCompression::Plain { PIECE } else { elements.max(1) };
    let row_length = npy.shape().last().copied().unwrap_or(1);
    let shown = |index: usize| index / row_length < FIRST_ROWS && index % row_length < SHOWN_CELLS;
    let progress = ReadProgress::new(cluster.env(), "elements read");
    let (_, parts) = deal(
        cluster,
        elements.div_ceil(piece),
        || (),
        |(), number| {
            let start = number * piece;
            let end = elements.min(start + piece);
            let (mut tally, mut nonzero, mut first) = (ValueTally::default(), 0_u64, BTreeMap::new());
            npy.read(start..end, |index, value: f64| {
                tally.add(value);
                nonzero += u64::from(value != 0.0);
                if shown(index) {
                    first.insert(index, value.to_string());
                }
            })?;
            progress.add((end - start) as u64);
            Ok((tally, nonzero, first))
        },
    )?;
    let (mut values, mut nonzero, mut cells) = (ValueTally::default(), 0, BTreeMap::new());
    for (tally, count, first) in parts {
        values.join(&tally);
        nonzero += count;
        cells.extend(first);
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, cell) in cells {
        let row = index / row_length;
        rows.resize(rows.len().max(row + 1), Vec::new());
        rows[row].push(cell);
    }
    let omitted = row_length.saturating_sub(SHOWN_CELLS);
    if omitted > 0 {
        for row in &mut rows {
            row.push(format!("… {omitted} more"));
        }
    }
    let names = (0..row_length.min(SHOWN_CELLS)).map(|column| column.to_string()).collect();
    Ok(DataSetContents {
        view: "dense",
        shape: npy.shape().to_vec(),
        counted_from: None,
        occupied: None,
        entries: elements as u64,
        density: density(nonzero, npy.shape()),
        duplicates: None,
        values: values.stats(),
        labels: None,
        columns: Vec::new(),
        memory: memory(&npy, row_length),
        skew: None,
        skipped: Vec::new(),
        first_rows: FirstRows { names, rows },
    })
}

fn memory(npy: &Npy, row_length: usize) -> MemoryEstimate {
    let element = npy.element_type();
    let shape = Shape::new([npy.elements().checked_div(row_length).unwrap_or(0), row_length]);
    let dense_bytes = match &element[1..] {
        "8" => DenseArray::<u8, 2>::memory_for(shape),
        "16" => DenseArray::<u16, 2>::memory_for(shape),
        "32" => DenseArray::<u32, 2>::memory_for(shape),
        _ => DenseArray::<u64, 2>::memory_for(shape),
    };
    MemoryEstimate { element, sparse_bytes: None, dense_bytes }
}
