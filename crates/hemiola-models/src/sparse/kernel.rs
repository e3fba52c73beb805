//! SIMD kernels: sums over the rows of dense columns.
//!
//! Values may be stored in single precision and are widened on load; every sum is in `f64`. Several
//! columns are processed together, so that the vector is loaded once for all of them and the sums
//! are independent.
//!
//! **Invariant:** a dot product is summed in [`LANES`] lanes that are added in one fixed order, so
//! its bits depend neither on the register width (given fused multiply-add) nor on the columns
//! processed with it.

use pulp::{Simd, WithSimd};

/// Number of lanes of a sum.
const LANES: usize = 8;

/// Storage type of feature columns.
pub trait ColumnValue: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// Converts the value to `f64`.
    fn wide(self) -> f64;
}

impl ColumnValue for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl ColumnValue for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// Runs a kernel with the widest registers of this machine.
pub(super) fn run<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

type Lanes = [f64; LANES];

#[inline(always)]
fn widen<T: ColumnValue>(values: &[T; LANES]) -> Lanes {
    std::array::from_fn(|lane| values[lane].wide())
}

/// `sums += left · right`, lane by lane.
#[inline(always)]
fn multiply_add<S: Simd>(simd: S, sums: &mut Lanes, left: &Lanes, right: &Lanes) {
    let factors = S::as_simd_f64s(left).0.iter().zip(S::as_simd_f64s(right).0);
    for (sum, (left, right)) in S::as_mut_simd_f64s(sums).0.iter_mut().zip(factors) {
        *sum = simd.mul_add_f64s(*left, *right, *sum);
    }
}

/// Loads the last values of a column, padded with zeros.
#[inline(always)]
fn rest<T: ColumnValue>(values: &[T]) -> Lanes {
    let mut lanes = [0.0; LANES];
    for (lane, value) in lanes.iter_mut().zip(values) {
        *lane = value.wide();
    }
    lanes
}

#[inline(always)]
fn total(lanes: &Lanes) -> f64 {
    let pair = |lane: usize| lanes[lane] + lanes[lane + 4];
    (pair(0) + pair(2)) + (pair(1) + pair(3))
}

/// Dot products of columns with a vector.
pub(super) struct DotsKernel<'a, T, C> {
    /// Returns a column by its index in `out`.
    pub(super) column: C,
    pub(super) vector: &'a [f64],
    pub(super) out: &'a mut [f64],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: ColumnValue, C: Fn(usize) -> &'c [T]> WithSimd for DotsKernel<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { column, vector, out, .. } = self;
        let count = out.len();
        let (fours, last) = out.as_chunks_mut::<4>();
        for (four, out) in fours.iter_mut().enumerate() {
            let at = 4 * four;
            *out = four_dots(simd, [column(at), column(at + 1), column(at + 2), column(at + 3)], vector);
        }
        let first = count - last.len();
        for (index, out) in last.iter_mut().enumerate() {
            *out = dot(simd, column(first + index), vector);
        }
    }
}

#[inline(always)]
fn dot<S: Simd, T: ColumnValue>(simd: S, column: &[T], vector: &[f64]) -> f64 {
    let (head, tail) = column[..vector.len()].as_chunks::<LANES>();
    let (vectors, vector_tail) = vector.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (values, vector) in head.iter().zip(vectors) {
        multiply_add(simd, &mut sums, &widen(values), vector);
    }
    multiply_add(simd, &mut sums, &rest(tail), &rest(vector_tail));
    total(&sums)
}

#[inline(always)]
fn four_dots<S: Simd, T: ColumnValue>(simd: S, [a, b, c, d]: [&[T]; 4], vector: &[f64]) -> [f64; 4] {
    let rows = vector.len();
    let (vectors, vector_tail) = vector.as_chunks::<LANES>();
    let (a, a_tail) = a[..rows].as_chunks::<LANES>();
    let (b, b_tail) = b[..rows].as_chunks::<LANES>();
    let (c, c_tail) = c[..rows].as_chunks::<LANES>();
    let (d, d_tail) = d[..rows].as_chunks::<LANES>();
    let (mut of_a, mut of_b, mut of_c, mut of_d) = ([0.0; LANES], [0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for ((((vector, a), b), c), d) in vectors.iter().zip(a).zip(b).zip(c).zip(d) {
        multiply_add(simd, &mut of_a, &widen(a), vector);
        multiply_add(simd, &mut of_b, &widen(b), vector);
        multiply_add(simd, &mut of_c, &widen(c), vector);
        multiply_add(simd, &mut of_d, &widen(d), vector);
    }
    let vector = rest(vector_tail);
    multiply_add(simd, &mut of_a, &rest(a_tail), &vector);
    multiply_add(simd, &mut of_b, &rest(b_tail), &vector);
    multiply_add(simd, &mut of_c, &rest(c_tail), &vector);
    multiply_add(simd, &mut of_d, &rest(d_tail), &vector);
    [total(&of_a), total(&of_b), total(&of_c), total(&of_d)]
}

/// Adds multiples of columns to a vector.
pub(super) struct AxpyKernel<'a, T, C> {
    /// Returns a column by its index in `amounts`.
    pub(super) column: C,
    pub(super) amounts: &'a [f64],
    pub(super) vector: &'a mut [f64],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: ColumnValue, C: Fn(usize) -> &'c [T]> WithSimd for AxpyKernel<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { column, amounts, vector, .. } = self;
        // Columns with nonzero amounts are buffered until there are four to add together.
        let (mut waiting, mut count) = ([(0, 0.0); 4], 0);
        for (index, amount) in amounts.iter().enumerate() {
            if *amount != 0.0 {
                waiting[count] = (index, *amount);
                count += 1;
            }
            if count == waiting.len() {
                add_four(simd, waiting.map(|(index, amount)| (column(index), amount)), vector);
                count = 0;
            }
        }
        for (index, amount) in &waiting[..count] {
            add_one(simd, column(*index), *amount, vector);
        }
    }
}

#[inline(always)]
fn add_one<S: Simd, T: ColumnValue>(simd: S, column: &[T], amount: f64, vector: &mut [f64]) {
    let (head, tail) = column[..vector.len()].as_chunks::<LANES>();
    let (vectors, vector_tail) = vector.as_chunks_mut::<LANES>();
    for (vector, values) in vectors.iter_mut().zip(head) {
        multiply_add(simd, vector, &widen(values), &[amount; LANES]);
    }
    for (vector, value) in vector_tail.iter_mut().zip(tail) {
        *vector += value.wide() * amount;
    }
}

#[inline(always)]
fn add_four<S: Simd, T: ColumnValue>(simd: S, columns: [(&[T], f64); 4], vector: &mut [f64]) {
    let rows = vector.len();
    let [(a, by_a), (b, by_b), (c, by_c), (d, by_d)] = columns;
    let (vectors, vector_tail) = vector.as_chunks_mut::<LANES>();
    let (a, a_tail) = a[..rows].as_chunks::<LANES>();
    let (b, b_tail) = b[..rows].as_chunks::<LANES>();
    let (c, c_tail) = c[..rows].as_chunks::<LANES>();
    let (d, d_tail) = d[..rows].as_chunks::<LANES>();
    let (fa, fb, fc, fd) = ([by_a; LANES], [by_b; LANES], [by_c; LANES], [by_d; LANES]);
    for ((((vector, a), b), c), d) in vectors.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let mut sums = *vector;
        multiply_add(simd, &mut sums, &widen(a), &fa);
        multiply_add(simd, &mut sums, &widen(b), &fb);
        multiply_add(simd, &mut sums, &widen(c), &fc);
        multiply_add(simd, &mut sums, &widen(d), &fd);
        *vector = sums;
    }
    for (row, vector) in vector_tail.iter_mut().enumerate() {
        let [a, b, c, d] = [a_tail[row].wide(), b_tail[row].wide(), c_tail[row].wide(), d_tail[row].wide()];
        *vector += (a * by_a + b * by_b) + (c * by_c + d * by_d);
    }
}

/// Moments of columns: dot product with a vector, sum of squares (optionally weighted by the
/// vector), and sum. See [`Moments`](super::design::Moments).
pub(super) struct MomentsKernel<'a, T, C> {
    pub(super) column: C,
    pub(super) vector: &'a [f64],
    /// Weights squares by the vector.
    pub(super) weighted: bool,
    pub(super) out: &'a mut [[f64; 3]],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: ColumnValue, C: Fn(usize) -> &'c [T]> WithSimd for MomentsKernel<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { column, vector, weighted, out, .. } = self;
        let (vectors, vector_tail) = vector.as_chunks::<LANES>();
        let ones = [1.0; LANES];
        for (index, out) in out.iter_mut().enumerate() {
            let (head, tail) = column(index)[..vector.len()].as_chunks::<LANES>();
            let (mut products, mut squares, mut sums) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            let mut accumulate = |values: &Lanes, vector: &Lanes| {
                let mut weighed = [0.0; LANES];
                multiply_add(simd, &mut weighed, values, if weighted { vector } else { &ones });
                multiply_add(simd, &mut products, values, vector);
                multiply_add(simd, &mut squares, values, &weighed);
                multiply_add(simd, &mut sums, values, &ones);
            };
            for (values, vector) in head.iter().zip(vectors) {
                accumulate(&widen(values), vector);
            }
            accumulate(&rest(tail), &rest(vector_tail));
            *out = [total(&products), total(&squares), total(&sums)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::marker::PhantomData;

    fn columns(rows: usize, count: usize) -> Vec<f32> {
        (0..rows * count).map(|at| ((at * 37 % 101) as f32 - 50.0) / 16.0).collect()
    }

    fn scalar_dot(column: &[f32], vector: &[f64]) -> f64 {
        column.iter().zip(vector).map(|(value, of_vector)| f64::from(*value) * of_vector).sum()
    }

    #[test]
    fn dots_and_moments_match_a_scalar_loop() {
        for rows in 0..40 {
            let data = columns(rows, 7);
            let vector: Vec<f64> = (0..rows).map(|row| (row as f64).sin()).collect();
            let column = |index: usize| &data[index * rows..(index + 1) * rows];
            let mut out = [0.0; 7];
            run(DotsKernel { column, vector: &vector, out: &mut out, values: PhantomData });
            let mut moments = [[0.0; 3]; 7];
            run(MomentsKernel { column, vector: &vector, weighted: false, out: &mut moments, values: PhantomData });
            let mut weighted = [[0.0; 3]; 7];
            run(MomentsKernel { column, vector: &vector, weighted: true, out: &mut weighted, values: PhantomData });
            for index in 0..7 {
                let expected = scalar_dot(column(index), &vector);
                assert!((out[index] - expected).abs() < 1e-12, "{rows} rows");
                assert!((moments[index][0] - expected).abs() < 1e-12, "{rows} rows");
                let squares: f64 = column(index).iter().map(|value| f64::from(value * value)).sum();
                let sum: f64 = column(index).iter().map(|value| f64::from(*value)).sum();
                assert!((moments[index][1] - squares).abs() < 1e-4 && (moments[index][2] - sum).abs() < 1e-9);
                let of_squares = column(index).iter().zip(&vector);
                let of_squares: f64 = of_squares.map(|(value, weight)| f64::from(*value).powi(2) * weight).sum();
                assert!((weighted[index][1] - of_squares).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn axpy_matches_a_scalar_loop() {
        for rows in 0..40 {
            let data = columns(rows, 6);
            let column = |index: usize| &data[index * rows..(index + 1) * rows];
            let amounts = [0.5, 0.0, -2.0, 1.5, 3.0, -0.25];
            let mut vector = vec![1.0; rows];
            run(AxpyKernel { column, amounts: &amounts, vector: &mut vector, values: PhantomData });
            for (row, found) in vector.iter().enumerate() {
                let sum: f64 = (0..6).map(|index| amounts[index] * f64::from(column(index)[row])).sum();
                assert!((found - 1.0 - sum).abs() < 1e-12, "{rows} rows");
            }
        }
    }

    #[test]
    fn a_dot_product_does_not_depend_on_its_neighbours() {
        let data = columns(29, 5);
        let vector: Vec<f64> = (0..29).map(|row| f64::from(row).cos()).collect();
        let column = |index: usize| &data[index * 29..(index + 1) * 29];
        let mut together = [0.0; 5];
        run(DotsKernel { column, vector: &vector, out: &mut together, values: PhantomData });
        for (index, found) in together.iter().enumerate() {
            let mut alone = [0.0];
            run(DotsKernel { column: |_| column(index), vector: &vector, out: &mut alone, values: PhantomData });
            assert_eq!(alone[0].to_bits(), found.to_bits());
        }
    }
}
