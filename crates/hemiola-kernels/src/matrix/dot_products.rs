//! Products of a matrix of few rows with a transposed one: dot products of rows.
//!
//! `gemm` copies a transposed operand into another order first, which takes as long as the product
//! itself if the other operand has few rows. The elements of `left · rightᵀ` are dot products of
//! rows, which are consecutive in memory as they are. Tiles of 4 × 4 dot products stay in
//! registers.

use crate::parallel;
use pulp::{Simd, WithSimd};

/// Rows of the left matrix in a block: its rows are read again for every four rows on the right.
const ROWS: usize = 16;

/// Writes `left · rightᵀ` to `to`, all row-major without gaps. Both have
/// `inner` columns.
pub(super) fn multiply_rows(to: &mut [f32], left: &[f32], right: &[f32], inner: usize) {
    let columns = right.len() / inner;
    parallel::for_blocks(to, ROWS * columns, |block, to| {
        let rows = to.len() / columns;
        let left = &left[block * ROWS * inner..][..rows * inner];
        pulp::Arch::new().dispatch(DotProducts { to, left, right, inner });
    });
}

struct DotProducts<'a> {
    to: &'a mut [f32],
    left: &'a [f32],
    right: &'a [f32],
    inner: usize,
}

impl WithSimd for DotProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES >= 16 { self.run::<S, 4, 4>(simd) } else { self.run::<S, 2, 4>(simd) }
    }
}

impl DotProducts<'_> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const COLUMNS: usize>(self, simd: S) {
        let (rows, columns) = (self.left.len() / self.inner, self.right.len() / self.inner);
        for column in (0..columns).step_by(COLUMNS) {
            // Tiles at the edges compute their last row or column several times.
            let right: [&[f32]; COLUMNS] = std::array::from_fn(|at| {
                let at = (column + at).min(columns - 1);
                &self.right[at * self.inner..(at + 1) * self.inner]
            });
            for row in (0..rows).step_by(ROWS) {
                let left: [&[f32]; ROWS] = std::array::from_fn(|at| {
                    let at = (row + at).min(rows - 1);
                    &self.left[at * self.inner..(at + 1) * self.inner]
                });
                let sums = tile::<S, ROWS, COLUMNS>(simd, left, right);
                for (at, sums) in sums.into_iter().enumerate().take(rows - row) {
                    let start = (row + at) * columns + column;
                    for (to, sum) in self.to[start..(row + at + 1) * columns].iter_mut().zip(sums) {
                        *to = simd.reduce_sum_f32s(sum);
                    }
                }
            }
        }
    }
}

/// Dot products of every row on the left with every row on the right, by lane.
#[inline(always)]
fn tile<S: Simd, const ROWS: usize, const COLUMNS: usize>(
    simd: S,
    left: [&[f32]; ROWS],
    right: [&[f32]; COLUMNS],
) -> [[S::f32s; COLUMNS]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); COLUMNS]; ROWS];
    let (left, left_rest) = split::<S, ROWS>(left);
    let (right, right_rest) = split::<S, COLUMNS>(right);
    let count = left[0].len();
    let (left, right) = (left.map(|row| &row[..count]), right.map(|row| &row[..count]));
    for at in 0..count {
        let values = right.map(|row| row[at]);
        for (sums, row) in sums.iter_mut().zip(left) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = simd.mul_add_e_f32s(row[at], value, *sum);
            }
        }
    }
    if !left_rest[0].is_empty() {
        let values = right_rest.map(|row| simd.partial_load_f32s(row));
        for (sums, row) in sums.iter_mut().zip(left_rest) {
            let own = simd.partial_load_f32s(row);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = simd.mul_add_e_f32s(own, value, *sum);
            }
        }
    }
    sums
}

/// Registers of each row, and the elements that fill no register.
#[inline(always)]
fn split<S: Simd, const N: usize>(rows: [&[f32]; N]) -> ([&[S::f32s]; N], [&[f32]; N]) {
    let parts = rows.map(|row| S::as_simd_f32s(row));
    (parts.map(|part| part.0), parts.map(|part| part.1))
}
