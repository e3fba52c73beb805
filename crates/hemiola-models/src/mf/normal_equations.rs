//! Least squares for one row: normal equations, accumulated row by row and solved by Cholesky
//! factorization.
//!
//! [`NormalEquations`] represent `(start + Σ weight · row rowᵀ) x = Σ pull · row`. Rows are
//! buffered in a small block until there are [`BLOCK`] of them; then each tile of the matrix,
//! [`TILE`] rows of one register each, is loaded once for the whole block. The factorization uses
//! the same tiles and takes `TILE` pivots at a time. Only cells on and above the diagonal are
//! maintained.
//!
//! **Invariant:** every cell sums in the order in which rows were added, so results are
//! bit-identical whatever the register width. Machines with fused multiply-add differ from others
//! in the last bits.

use super::sgd::{LANES, dot};

/// Rows of a tile, and pivots taken together: the most sums that fit into the registers of any
/// machine. It divides [`LANES`], of which the width of a matrix is a multiple.
const TILE: usize = 8;

/// Rows buffered before they are added to the matrix.
const BLOCK: usize = 32;

/// A pivot this many times smaller than the original diagonal cell is rounding error of 0.
const PIVOT_TOLERANCE: f32 = 1e-6;

/// Normal equations under construction.
#[derive(Clone, Debug)]
pub(super) struct NormalEquations {
    width: usize,
    /// Row-major, `width` × `width`.
    matrix: Vec<f32>,
    right: Vec<f32>,
    /// Buffered rows, and the same rows times their weights.
    waiting: Vec<f32>,
    weighted: Vec<f32>,
}

impl NormalEquations {
    /// Starts from a symmetric matrix of `width` × `width` cells plus `ridge` on its diagonal.
    /// `width` is a multiple of [`LANES`].
    pub(super) fn start(width: usize, matrix: &[f32], ridge: f32) -> Self {
        debug_assert!(width.is_multiple_of(LANES) && matrix.len() == width * width, "{width}");
        let mut matrix = matrix.to_vec();
        matrix.iter_mut().step_by(width + 1).for_each(|cell| *cell += ridge);
        let block = || Vec::with_capacity(BLOCK * width);
        Self { width, matrix, right: vec![0.0; width], waiting: block(), weighted: block() }
    }

    /// Starts from a diagonal matrix of `ridge`.
    pub(super) fn ridge(width: usize, ridge: f32) -> Self {
        Self::start(width, &vec![0.0; width * width], ridge)
    }

    /// Adds a row of up to `width` numbers.
    #[inline]
    pub(super) fn add(&mut self, row: &[f32], weight: f32, pull: f32) {
        let filled = self.waiting.len() + self.width;
        self.waiting.extend_from_slice(row);
        self.waiting.resize(filled, 0.0);
        self.weighted.extend(row.iter().map(|value| weight * value));
        self.weighted.resize(filled, 0.0);
        self.right.iter_mut().zip(row).for_each(|(right, value)| *right += pull * value);
        if filled == BLOCK * self.width {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Self { width, matrix, waiting, weighted, .. } = self;
        pulp::Arch::new().dispatch(GramUpdate { width: *width, matrix, left: weighted, right: waiting });
        self.waiting.clear();
        self.weighted.clear();
    }

    /// Subtracts `strength` times a row from the right-hand side.
    pub(super) fn subtract_right(&mut self, strength: f32, row: &[f32]) {
        self.right.iter_mut().zip(row).for_each(|(right, value)| *right -= strength * value);
    }

    /// Returns the right-hand side.
    pub(super) fn right(&self) -> &[f32] {
        &self.right
    }

    /// Solves the equations. A direction without data stays 0.
    pub(super) fn solve(&mut self, solution: &mut [f32]) {
        self.flush();
        let Self { width, matrix, right, .. } = self;
        solution.copy_from_slice(&right[..solution.len()]);
        pulp::Arch::new().dispatch(CholeskySolve { width: *width, matrix, solution });
    }
}

/// Kernel: `matrix += Σ leftᵀ right`.
struct GramUpdate<'a> {
    width: usize,
    matrix: &'a mut [f32],
    left: &'a [f32],
    right: &'a [f32],
}

impl pulp::WithSimd for GramUpdate<'_> {
    type Output = ();

    #[inline(always)] // so that it is compiled for the registers of the caller
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { width, matrix, left, right } = self;
        let (matrix, _) = S::as_mut_simd_f32s(matrix);
        let vectors = width / S::F32_LANES;
        for row in (0..width).step_by(TILE) {
            for column in row / S::F32_LANES..vectors {
                let sums = tile(simd, width, (row, column), left, right);
                for (at, sum) in sums.into_iter().enumerate() {
                    let cell = &mut matrix[(row + at) * vectors + column];
                    *cell = simd.add_f32s(*cell, sum);
                }
            }
        }
    }
}

/// Sums the outer products of rows in one tile: [`TILE`] rows from `row`, and the vector of columns
/// number `column`. The loop is written with explicit vectors, because the compiler vectorizes
/// scalar code along the wrong dimension.
#[inline(always)] // as above
fn tile<S: pulp::Simd>(
    simd: S,
    width: usize,
    (row, column): (usize, usize),
    left: &[f32],
    right: &[f32],
) -> [S::f32s; TILE] {
    let mut sums = [simd.splat_f32s(0.0); TILE];
    for (left, right) in left.chunks_exact(width).zip(right.chunks_exact(width)) {
        let left: &[f32; TILE] = left[row..].first_chunk().expect("the width is a multiple of the tile size");
        let right = S::as_simd_f32s(right).0[column];
        for at in 0..TILE {
            sums[at] = simd.mul_add_e_f32s(simd.splat_f32s(left[at]), right, sums[at]);
        }
    }
    sums
}

/// Kernel: factors the matrix and replaces the right-hand side by the solution.
struct CholeskySolve<'a> {
    width: usize,
    matrix: &'a mut [f32],
    solution: &'a mut [f32],
}

impl pulp::WithSimd for CholeskySolve<'_> {
    type Output = ();

    #[inline(always)] // as above
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { width, matrix, solution } = self;
        factor(simd, width, matrix);
        // The matrix is now `upperᵀ upper`. Rows of `upper` are contiguous, so the first
        // substitution also goes along rows.
        for at in 0..solution.len() {
            let row = &matrix[at * width..][..width];
            let value = if row[at] > 0.0 { solution[at] / row[at] } else { 0.0 };
            solution[at] = value;
            for (later, upper) in solution[at + 1..].iter_mut().zip(&row[at + 1..]) {
                *later -= value * upper;
            }
        }
        for at in (0..solution.len()).rev() {
            let row = &matrix[at * width..][..width];
            let known = product(&solution[at + 1..], &row[at + 1..]);
            solution[at] = if row[at] > 0.0 { (solution[at] - known) / row[at] } else { 0.0 };
        }
    }
}

/// Dot product of two rows of any length, summed in [`TILE`] lanes.
#[inline(always)] // as above
fn product(left: &[f32], right: &[f32]) -> f32 {
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<TILE>(), right.as_chunks::<TILE>());
    let mut sums = [0.0; TILE];
    for (left, right) in left.iter().zip(right) {
        for at in 0..TILE {
            sums[at] += left[at] * right[at];
        }
    }
    let rest = left_rest.iter().zip(right_rest).map(|(left, right)| left * right);
    rest.chain(sums).fold(0.0, |sum, more| sum + more)
}

/// Cholesky factorization in place: the upper triangle becomes a matrix whose transpose times
/// itself is the original. A pivot that is only rounding error zeroes its row.
#[inline(always)] // as above
fn factor<S: pulp::Simd>(simd: S, width: usize, matrix: &mut [f32]) {
    let vectors = width / S::F32_LANES;
    let mut least = [0.0_f32; TILE];
    for first in (0..width).step_by(TILE) {
        for (at, least) in least.iter_mut().enumerate() {
            *least = matrix[(first + at) * (width + 1)];
        }
        // Subtract the contribution of earlier rows of `upper`, all at once.
        let (above, below) = matrix.split_at_mut(first * width);
        for column in first / S::F32_LANES..vectors {
            let sums = tile(simd, width, (first, column), above, above);
            let (below, _) = S::as_mut_simd_f32s(below);
            for (at, sum) in sums.into_iter().enumerate() {
                let cell = &mut below[at * vectors + column];
                *cell = simd.sub_f32s(*cell, sum);
            }
        }
        // Then factor these rows among themselves.
        for at in 0..TILE {
            let (done, rest) = below.split_at_mut((at + 1) * width);
            let row = &mut done[at * width + first..];
            let pivot = row[at];
            if pivot <= least[at] * PIVOT_TOLERANCE || !pivot.is_finite() {
                row[at..].fill(0.0);
                continue;
            }
            let scale = 1.0 / pivot.sqrt();
            row[at..].iter_mut().for_each(|cell| *cell *= scale);
            for (next, cells) in (at + 1..TILE).zip(rest.chunks_exact_mut(width)) {
                let factor = row[next];
                let cells = cells[first + next..].iter_mut().zip(&row[next..]);
                cells.for_each(|(cell, upper)| *cell -= factor * upper);
            }
        }
    }
}

/// Decrease of the sum of squares at a solution: its dot product with the right-hand side.
pub(super) fn gain(solution: &[f32], right: &[f32]) -> f64 {
    f64::from(dot(solution, &right[..solution.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_testkit::{MissingRequirement, require};

    fn values(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn solutions_satisfy_the_equations() {
        for (width, rows) in [(16, 3), (16, 100), (48, 40), (80, 7), (64, 333)] {
            let all = values(rows * width, width as u64);
            let (weights, pulls) = (values(rows, 7), values(rows, 9));
            let mut system = NormalEquations::ridge(width, 0.1);
            for ((row, weight), pull) in all.chunks_exact(width).zip(&weights).zip(&pulls) {
                system.add(row, weight + 1.0, *pull);
            }
            let mut solution = vec![0.0; width];
            system.solve(&mut solution);
            for at in 0..width {
                let mut left = 0.1 * f64::from(solution[at]);
                let mut right = 0.0;
                for ((row, weight), pull) in all.chunks_exact(width).zip(&weights).zip(&pulls) {
                    let product: f64 = row.iter().zip(&solution).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    left += f64::from(weight + 1.0) * f64::from(row[at]) * product;
                    right += f64::from(*pull) * f64::from(row[at]);
                }
                // Single precision, and a condition number of up to a thousand.
                assert!((left - right).abs() < 1e-3, "{width} {rows} {at}: {left} {right}");
            }
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn bits_do_not_depend_on_the_width_of_registers() {
        use pulp::x86::{V3, V4};
        let missing = || MissingRequirement::new("simd", "this machine has no 512-bit registers");
        let (narrow, wide) = require!(V3::try_new().zip(V4::try_new()).ok_or_else(missing));
        let width = 48;
        let rows = values(77 * width, 3);
        let solved = |update: &dyn Fn(GramUpdate<'_>), solve: &dyn Fn(CholeskySolve<'_>)| {
            let mut system = NormalEquations::ridge(width, 0.1);
            update(GramUpdate { width, matrix: &mut system.matrix, left: &rows, right: &rows });
            let mut solution = rows[..width].to_vec();
            solve(CholeskySolve { width, matrix: &mut system.matrix, solution: &mut solution });
            solution.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let with_narrow = solved(&|update| narrow.vectorize(SimdComputation(update, narrow)), &|solve| {
            narrow.vectorize(SimdComputation(solve, narrow));
        });
        let with_wide = solved(&|update| wide.vectorize(SimdComputation(update, wide)), &|solve| {
            wide.vectorize(SimdComputation(solve, wide));
        });
        assert_eq!(with_narrow, with_wide);
    }

    /// Computation compiled for one kind of registers.
    struct SimdComputation<W, S>(W, S);

    impl<W: pulp::WithSimd, S: pulp::Simd> pulp::NullaryFnOnce for SimdComputation<W, S> {
        type Output = W::Output;

        #[inline(always)] // as above
        fn call(self) -> W::Output {
            self.0.with_simd(self.1)
        }
    }

    #[test]
    fn a_direction_without_data_stays_zero() {
        let mut system = NormalEquations::ridge(LANES, 0.0);
        system.add(&[2.0], 1.0, 3.0);
        let mut solution = [9.0; LANES];
        system.solve(&mut solution);
        let mut expected = [0.0; LANES];
        expected[0] = 1.5;
        assert_eq!(solution.map(f32::to_bits), expected.map(f32::to_bits));
    }
}
