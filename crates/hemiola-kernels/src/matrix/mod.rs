//! Matrix product of strided views.
//!
//! The products are those of the crate `gemm`, which packs strided operands and chooses its
//! instructions at run time. It divides rows and columns over threads but never the inner
//! dimension, so the bits do not depend on the number of threads.

#![expect(unsafe_code, reason = "`gemm` takes pointers; the bounds are checked here")]

mod dot_products;

use crate::parallel;

/// Rows up to which products with a transposed matrix are computed as [dot products](dot_products).
const FEW_ROWS: usize = 192;

/// Multiplications below which a product runs on one thread.
const PARALLEL_MULTIPLICATIONS: usize = 128 * 128 * 128;

/// View of a matrix in a slice.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> MatrixView<'a> {
    /// Views `rows` rows of `columns` elements. Rows begin `row_stride` elements apart.
    ///
    /// # Panics
    /// If the slice is too short.
    #[must_use]
    pub fn new(data: &'a [f32], (rows, columns): (usize, usize), row_stride: usize) -> Self {
        check(data.len(), (rows, columns), (row_stride, 1));
        Self { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// Views a row-major matrix without gaps.
    ///
    /// # Panics
    /// If the slice is too short.
    #[must_use]
    pub fn dense(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::new(data, (rows, columns), columns)
    }

    /// Returns the transposed view.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

fn check(len: usize, (rows, columns): (usize, usize), (row_stride, column_stride): (usize, usize)) {
    let last = (rows.max(1) - 1)
        .checked_mul(row_stride)
        .zip((columns.max(1) - 1).checked_mul(column_stride))
        .and_then(|(row, column)| row.checked_add(column));
    let fits = rows == 0 || columns == 0 || last.is_some_and(|last| last < len);
    assert!(
        fits,
        "a matrix of {rows} × {columns} with strides {row_stride} and {column_stride} is beyond {len} elements"
    );
}

/// Writes `scale · left · right` to the matrix `to`, whose rows begin `row_stride` elements apart;
/// with `add`, adds it.
///
/// # Panics
/// If sizes differ or the slice is too short.
pub fn multiply(to: &mut [f32], row_stride: usize, left: MatrixView<'_>, right: MatrixView<'_>, scale: f32, add: bool) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    assert_eq!(inner, right.rows, "the inner sizes of a product are equal");
    assert!(row_stride >= columns, "rows of a product do not overlap");
    check(to.len(), (rows, columns), (row_stride, 1));
    if rows == 0 || columns == 0 {
        return;
    }
    let work = rows.saturating_mul(columns).saturating_mul(inner);
    let threads = if work < PARALLEL_MULTIPLICATIONS { 1 } else { parallel::threads() };
    let parallelism = if threads == 1 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(threads) };
    let stride = usize::cast_signed;
    // SAFETY: `check` has compared the last element of every operand with the length of its slice
    // when the view was created and above for `to`. Strides are not negative, so all other elements
    // lie before the last. `to` is borrowed exclusively, so it overlaps no operand, and its rows do
    // not overlap each other.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            to.as_mut_ptr(),
            1,
            stride(row_stride),
            add,
            left.data.as_ptr(),
            stride(left.column_stride),
            stride(left.row_stride),
            right.data.as_ptr(),
            stride(right.column_stride),
            stride(right.row_stride),
            1.0_f32,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Writes `left · rightᵀ` to `to`, all row-major without gaps; `left` and `right` have `inner`
/// columns.
///
/// # Panics
/// If sizes differ.
pub fn multiply_transposed(to: &mut [f32], left: &[f32], right: &[f32], inner: usize) {
    if inner == 0 || to.is_empty() {
        to.fill(0.0);
        return;
    }
    let (rows, columns) = (left.len() / inner, right.len() / inner);
    assert_eq!(
        (rows * inner, columns * inner, rows * columns),
        (left.len(), right.len(), to.len()),
        "sizes of a product"
    );
    if rows <= FEW_ROWS && inner >= 64 {
        dot_products::multiply_rows(to, left, right, inner);
    } else {
        let right = MatrixView::dense(right, columns, inner).transposed();
        multiply(to, columns, MatrixView::dense(left, rows, inner), right, 1.0, false);
    }
}

/// Adds the sum of the rows of a dense matrix to `sums`, in blocks of rows.
pub fn add_row_sums(sums: &mut [f32], matrix: &[f32]) {
    const ROWS: usize = 64;
    let width = sums.len();
    if width == 0 {
        return;
    }
    let blocks = matrix.len().div_ceil(ROWS * width);
    let parts = parallel::map_blocks(blocks, matrix.len(), |block| {
        let mut part = vec![0.0; width];
        let end = matrix.len().min((block + 1) * ROWS * width);
        pulp::Arch::new().dispatch(|| {
            for row in matrix[block * ROWS * width..end].chunks_exact(width) {
                crate::math::add_to(&mut part, row);
            }
        });
        part
    });
    for part in parts {
        crate::math::add_to(sums, &part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::{assert_close, numbers};

    fn reference(left: &[f32], right: &[f32], (m, k, n): (usize, usize, usize)) -> Vec<f32> {
        let mut to = vec![0.0; m * n];
        for row in 0..m {
            for column in 0..n {
                let sum: f64 = (0..k).map(|at| f64::from(left[row * k + at]) * f64::from(right[at * n + column])).sum();
                to[row * n + column] = sum as f32;
            }
        }
        to
    }

    #[test]
    fn products_of_odd_shapes_and_transposed_views() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 7), (17, 1, 9), (64, 33, 130), (1, 200, 40), (70, 131, 9), (2, 64, 3)] {
            let (left, right) = (numbers(m * k, 1), numbers(k * n, 2));
            let expected = reference(&left, &right, (m, k, n));
            let mut found = vec![1.0; m * n];
            multiply(&mut found, n, MatrixView::dense(&left, m, k), MatrixView::dense(&right, k, n), 1.0, false);
            assert_close(&found, &expected, 1e-5);
            let across: Vec<f32> = (0..n * k).map(|at| right[at % k * n + at / k]).collect();
            multiply_transposed(&mut found, &left, &across, k);
            assert_close(&found, &expected, 1e-5);
            // The same product from transposed copies, added to itself.
            let turned: Vec<f32> = (0..k * m).map(|at| left[at % m * k + at / m]).collect();
            multiply(
                &mut found,
                n,
                MatrixView::dense(&turned, k, m).transposed(),
                MatrixView::dense(&right, k, n),
                1.0,
                true,
            );
            let double: Vec<f32> = expected.iter().map(|value| 2.0 * value).collect();
            assert_close(&found, &double, 2e-5);
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let (m, k, n) = (130, 700, 257);
        let (left, right) = (numbers(m * k, 1), numbers(k * n, 2));
        let run = || {
            let mut to = vec![0.0; m * n];
            multiply(&mut to, n, MatrixView::dense(&left, m, k), MatrixView::dense(&right, k, n), 0.5, false);
            let mut sums = vec![0.0; n];
            add_row_sums(&mut sums, &to);
            multiply_transposed(&mut to, &left, &right[..k * n], k);
            (to, sums)
        };
        let one = run();
        for threads in [1, 2, 3] {
            assert!(on_threads(threads, run) == one, "{threads} threads");
        }
    }

    #[test]
    #[should_panic(expected = "beyond 11 elements")]
    fn a_view_beyond_its_slice_is_refused() {
        let _ = MatrixView::dense(&[0.0; 11], 3, 4);
    }
}
