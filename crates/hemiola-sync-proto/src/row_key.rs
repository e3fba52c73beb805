//! Rows as they travel: each row is preceded by its key, the index of the row as two `f32` numbers.
//!
//! **Invariant:** both numbers of a key are integers that `f32` represents exactly, so that rows
//! and keys can travel in one message of floating-point numbers.

use std::collections::BTreeMap;

/// Number of elements of the key in front of a row.
pub const KEY_LEN: usize = 2;
/// Base of the key: the second element counts up to this.
pub const KEY_BASE: usize = 1 << 12;

/// Encodes a row index as two numbers that `f32` represents exactly.
#[must_use]
pub fn key_of(row: usize) -> [f32; KEY_LEN] {
    [(row / KEY_BASE) as f32, (row % KEY_BASE) as f32]
}

/// Decodes a row index from its key.
#[must_use]
pub fn row_of(key: [f32; KEY_LEN]) -> usize {
    key[0] as usize * KEY_BASE + key[1] as usize
}

/// Adds rows with their keys to sums of rows.
pub(crate) fn add_rows(sums: &mut BTreeMap<usize, Vec<f32>>, parts: &[f32], width: usize) {
    for part in parts.chunks_exact(KEY_LEN + width) {
        let numbers = &part[KEY_LEN..];
        sums.entry(row_of([part[0], part[1]]))
            .and_modify(|sum| sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number))
            .or_insert_with(|| numbers.to_vec());
    }
}

/// Serializes rows of a matrix with their keys.
pub(crate) fn with_keys(rows: &[usize], values: &[f32], width: usize) -> Vec<f32> {
    let mut keyed = Vec::with_capacity(rows.len() * (KEY_LEN + width));
    for row in rows {
        keyed.extend(key_of(*row));
        keyed.extend_from_slice(&values[row * width..(row + 1) * width]);
    }
    keyed
}

/// Stores rows with keys in a matrix.
pub(crate) fn put_rows(block: &[f32], values: &mut [f32], width: usize) {
    for row in block.chunks_exact(KEY_LEN + width) {
        let start = row_of([row[0], row[1]]) * width;
        values[start..start + width].copy_from_slice(&row[KEY_LEN..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip() {
        for row in [0, 1, KEY_BASE - 1, KEY_BASE, 1_000_003, (1 << 32) - 1] {
            assert_eq!(row_of(key_of(row)), row);
        }
    }
}
