//! Sufficient factors (Poseidon): an update that is a sum of outer products `u vᵀ`, sent as the
//! pairs `(u, v)`; receivers multiply and sum. Exact, and smaller whenever the pairs are few
//! compared with the sides of the matrix (see [`crate::cost::scheme`]).
//!
//! Pairs travel one after the other, `u` then `v`. Every peer rebuilds all peers' matrices in the
//! order of ranks, its own included, so all have the same bits.

use crate::{Error, Result};

/// Packs pairs for sending: `u` holds `pairs` rows of `rows` elements, `v` as many rows of
/// `columns`.
pub fn pack_factors(u: &[f32], v: &[f32], rows: usize, columns: usize) -> Result<Vec<f32>> {
    let bad = |problem| Err(Error::CorruptPayload { length: rows.saturating_mul(columns), problem });
    if rows == 0 || columns == 0 {
        return if u.is_empty() && v.is_empty() { Ok(Vec::new()) } else { bad("an empty matrix has no factors") };
    }
    if !u.len().is_multiple_of(rows) || !v.len().is_multiple_of(columns) || u.len() / rows != v.len() / columns {
        return bad("the numbers of left and right factors differ");
    }
    Ok(u.chunks(rows).zip(v.chunks(columns)).flat_map(|(u, v)| u.iter().chain(v).copied()).collect())
}

/// Adds the sum of the products of packed pairs to a row-major matrix.
pub fn rebuild(factors: &[f32], rows: usize, columns: usize, matrix: &mut [f32]) -> Result<()> {
    let length = matrix.len();
    if rows.checked_mul(columns) != Some(length) {
        return Err(Error::CorruptPayload { length, problem: "the matrix has another shape" });
    }
    if length == 0 {
        return Ok(());
    }
    let pairs = factors.chunks_exact(rows + columns);
    if !pairs.remainder().is_empty() {
        return Err(Error::CorruptPayload { length, problem: "the factors have another shape" });
    }
    for pair in pairs {
        let (u, v) = pair.split_at(rows);
        for (row, u) in matrix.chunks_mut(columns).zip(u) {
            row.iter_mut().zip(v).for_each(|(value, v)| *value += u * v);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compression;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn the_sum_of_products_is_rebuilt() {
        let mut random = SplitMix64::new(3);
        // Small whole numbers, whose sums are exact in any order.
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.below(9) as f32 - 4.0).collect() };
        for (rows, columns, pairs) in [(3, 4, 2), (1, 1, 5), (5, 2, 0), (0, 3, 0)] {
            let (u, v) = (numbers(rows * pairs), numbers(columns * pairs));
            let packed = pack_factors(&u, &v, rows, columns).unwrap();
            assert_eq!(packed.len() as u64 * 4, Compression::SufficientFactors { pairs }.bytes(rows, columns));
            let mut matrix = vec![1.0; rows * columns];
            rebuild(&packed, rows, columns, &mut matrix).unwrap();
            for row in 0..rows {
                for column in 0..columns {
                    let expected: f32 = (0..pairs).map(|k| u[k * rows + row] * v[k * columns + column]).sum();
                    assert!((matrix[row * columns + column] - 1.0 - expected).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        assert!(pack_factors(&[1.0; 4], &[1.0; 3], 2, 3).is_err());
        assert!(pack_factors(&[1.0; 3], &[1.0; 3], 2, 3).is_err());
        assert!(pack_factors(&[1.0], &[], 0, 3).is_err());
        assert!(rebuild(&[1.0; 6], 2, 3, &mut [0.0; 6]).is_err());
        assert!(rebuild(&[1.0; 5], 2, 3, &mut [0.0; 5]).is_err());
    }
}
