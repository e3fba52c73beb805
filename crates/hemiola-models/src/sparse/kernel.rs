//! Sums over the rows of dense columns, with wide registers.
//!
//! Values are stored narrow and widened on the way into a register; every sum is of `f64`. Several columns are visited together, so that the
//! vector they meet is loaded once for all of them and no addition waits for the one before.
//!
//! **Invariant:** a product of a column and a vector is summed in [`LANES`] lanes that are added up in one fixed order, so its bits do not depend on
//! how wide the registers are (where they have a fused multiplication) nor on which columns were visited with it.

use pulp::{Simd, WithSimd};

/// Lanes of a sum.
const LANES: usize = 8;

/// What columns may be stored as.
pub trait Value: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// As it is computed with.
    fn wide(self) -> f64;
}

impl Value for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Value for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// Runs a kernel with the registers of this machine.
pub(super) fn run<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

type Lanes = [f64; LANES];

#[inline(always)]
fn widen<T: Value>(values: &[T; LANES]) -> Lanes {
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

/// The last values of a column, filled up with zeros.
#[inline(always)]
fn rest<T: Value>(values: &[T]) -> Lanes {
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

/// The product of each of some columns with a vector.
pub(super) struct Dots<'a, T, C> {
    /// Where a column is, by its place in `out`.
    pub(super) column: C,
    pub(super) vector: &'a [f64],
    pub(super) out: &'a mut [f64],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: Value, C: Fn(usize) -> &'c [T]> WithSimd for Dots<'_, T, C> {
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
        for (place, out) in last.iter_mut().enumerate() {
            *out = dot(simd, column(first + place), vector);
        }
    }
}

#[inline(always)]
fn dot<S: Simd, T: Value>(simd: S, column: &[T], vector: &[f64]) -> f64 {
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
fn four_dots<S: Simd, T: Value>(simd: S, [a, b, c, d]: [&[T]; 4], vector: &[f64]) -> [f64; 4] {
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

/// Adds multiples of some columns to a vector.
pub(super) struct Add<'a, T, C> {
    /// Where a column is, by its place in `amounts`.
    pub(super) column: C,
    pub(super) amounts: &'a [f64],
    pub(super) vector: &'a mut [f64],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: Value, C: Fn(usize) -> &'c [T]> WithSimd for Add<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { column, amounts, vector, .. } = self;
        // Columns wait until there are enough to be added together.
        let (mut waiting, mut count) = ([(0, 0.0); 4], 0);
        for (place, amount) in amounts.iter().enumerate() {
            if *amount != 0.0 {
                waiting[count] = (place, *amount);
                count += 1;
            }
            if count == waiting.len() {
                add_four(simd, waiting.map(|(place, amount)| (column(place), amount)), vector);
                count = 0;
            }
        }
        for (place, amount) in &waiting[..count] {
            add_one(simd, column(*place), *amount, vector);
        }
    }
}

#[inline(always)]
fn add_one<S: Simd, T: Value>(simd: S, column: &[T], amount: f64, vector: &mut [f64]) {
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
fn add_four<S: Simd, T: Value>(simd: S, columns: [(&[T], f64); 4], vector: &mut [f64]) {
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

/// For each of some columns: its product with a vector, that of its squares with the same or with nothing, and its sum. See [`Moments`](super::design::Moments).
pub(super) struct Look<'a, T, C> {
    pub(super) column: C,
    pub(super) vector: &'a [f64],
    /// Whether squares meet the vector, too.
    pub(super) weighted: bool,
    pub(super) out: &'a mut [[f64; 3]],
    pub(super) values: std::marker::PhantomData<T>,
}

impl<'c, T: Value, C: Fn(usize) -> &'c [T]> WithSimd for Look<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { column, vector, weighted, out, .. } = self;
        let (vectors, vector_tail) = vector.as_chunks::<LANES>();
        let ones = [1.0; LANES];
        for (place, out) in out.iter_mut().enumerate() {
            let (head, tail) = column(place)[..vector.len()].as_chunks::<LANES>();
            let (mut products, mut squares, mut sums) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            let mut meet = |values: &Lanes, vector: &Lanes| {
                let mut weighed = [0.0; LANES];
                multiply_add(simd, &mut weighed, values, if weighted { vector } else { &ones });
                multiply_add(simd, &mut products, values, vector);
                multiply_add(simd, &mut squares, values, &weighed);
                multiply_add(simd, &mut sums, values, &ones);
            };
            for (values, vector) in head.iter().zip(vectors) {
                meet(&widen(values), vector);
            }
            meet(&rest(tail), &rest(vector_tail));
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

    fn plain(column: &[f32], vector: &[f64]) -> f64 {
        column.iter().zip(vector).map(|(value, of_vector)| f64::from(*value) * of_vector).sum()
    }

    #[test]
    fn products_are_those_of_a_plain_loop_for_all_lengths() {
        for rows in 0..40 {
            let data = columns(rows, 7);
            let vector: Vec<f64> = (0..rows).map(|row| (row as f64).sin()).collect();
            let column = |place: usize| &data[place * rows..(place + 1) * rows];
            let mut out = [0.0; 7];
            run(Dots { column, vector: &vector, out: &mut out, values: PhantomData });
            let mut looks = [[0.0; 3]; 7];
            run(Look { column, vector: &vector, weighted: false, out: &mut looks, values: PhantomData });
            let mut weighted = [[0.0; 3]; 7];
            run(Look { column, vector: &vector, weighted: true, out: &mut weighted, values: PhantomData });
            for place in 0..7 {
                let expected = plain(column(place), &vector);
                assert!((out[place] - expected).abs() < 1e-12, "{rows} rows");
                assert!((looks[place][0] - expected).abs() < 1e-12, "{rows} rows");
                let squares: f64 = column(place).iter().map(|value| f64::from(value * value)).sum();
                let sum: f64 = column(place).iter().map(|value| f64::from(*value)).sum();
                assert!((looks[place][1] - squares).abs() < 1e-4 && (looks[place][2] - sum).abs() < 1e-9);
                let of_squares = column(place).iter().zip(&vector);
                let of_squares: f64 = of_squares.map(|(value, weight)| f64::from(*value).powi(2) * weight).sum();
                assert!((weighted[place][1] - of_squares).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn what_is_added_is_what_a_plain_loop_adds() {
        for rows in 0..40 {
            let data = columns(rows, 6);
            let column = |place: usize| &data[place * rows..(place + 1) * rows];
            let amounts = [0.5, 0.0, -2.0, 1.5, 3.0, -0.25];
            let mut vector = vec![1.0; rows];
            run(Add { column, amounts: &amounts, vector: &mut vector, values: PhantomData });
            for (row, found) in vector.iter().enumerate() {
                let sum: f64 = (0..6).map(|place| amounts[place] * f64::from(column(place)[row])).sum();
                assert!((found - 1.0 - sum).abs() < 1e-12, "{rows} rows");
            }
        }
    }

    #[test]
    fn a_product_does_not_depend_on_the_columns_beside_it() {
        let data = columns(29, 5);
        let vector: Vec<f64> = (0..29).map(|row| f64::from(row).cos()).collect();
        let column = |place: usize| &data[place * 29..(place + 1) * 29];
        let mut together = [0.0; 5];
        run(Dots { column, vector: &vector, out: &mut together, values: PhantomData });
        for (place, found) in together.iter().enumerate() {
            let mut alone = [0.0];
            run(Dots { column: |_| column(place), vector: &vector, out: &mut alone, values: PhantomData });
            assert_eq!(alone[0].to_bits(), found.to_bits());
        }
    }
}
