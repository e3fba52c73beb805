//! Rows as they travel: each row is preceded by its key.

use super::unit_sync::SummedGradient;
use crate::layers::{KEY_LEN, key_of, row_of};
use hemiola_core::Rank;
use std::collections::BTreeMap;

/// Sums rows that occur several times, and groups them by owner.
pub(super) fn by_owner(parts: &[f32], width: usize, owners: &[Rank], peers: usize) -> Vec<Vec<f32>> {
    let mut sums = BTreeMap::new();
    add_rows(&mut sums, parts, width);
    let mut mine = vec![Vec::new(); peers];
    for (row, numbers) in sums {
        let owner = &mut mine[owners[row % owners.len()].index()];
        owner.extend(key_of(row));
        owner.extend(numbers);
    }
    mine
}

/// Adds rows with their keys to sums of rows.
pub(super) fn add_rows(sums: &mut BTreeMap<usize, Vec<f32>>, parts: &[f32], width: usize) {
    for part in parts.chunks_exact(KEY_LEN + width) {
        let numbers = &part[KEY_LEN..];
        sums.entry(row_of([part[0], part[1]]))
            .and_modify(|sum| sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number))
            .or_insert_with(|| numbers.to_vec());
    }
}

/// Keeps the rows whose gradient is not zero.
pub(super) fn into_rows(sums: BTreeMap<usize, Vec<f32>>) -> SummedGradient {
    let touched = sums.into_iter().filter(|(_, numbers)| numbers.iter().any(|number| *number != 0.0));
    let (rows, numbers): (Vec<usize>, Vec<Vec<f32>>) = touched.unzip();
    SummedGradient::Rows(rows, numbers.concat())
}

/// Serializes updated rows with their keys.
pub(super) fn with_keys(rows: Vec<usize>, values: &[f32], width: usize) -> Vec<f32> {
    let mut back = Vec::with_capacity(rows.len() * (KEY_LEN + width));
    for row in rows {
        back.extend(key_of(row));
        back.extend_from_slice(&values[row * width..(row + 1) * width]);
    }
    back
}

/// Stores rows with keys in the values of a piece.
pub(super) fn put_rows(block: &[f32], values: &mut [f32], width: usize) {
    for row in block.chunks_exact(KEY_LEN + width) {
        let start = row_of([row[0], row[1]]) * width;
        values[start..start + width].copy_from_slice(&row[KEY_LEN..]);
    }
}
