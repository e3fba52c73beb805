//! Largest singular values of dense matrices with hundreds of rows.
//!
//! Householder reflections from the left and the right reduce the matrix to bidiagonal form (Golub
//! and Kahan 1965) in about `8/3 n³` operations; Jacobi rotations need more than ten times as many.
//! The two diagonals, `d₁ e₁ d₂ e₂ …`, are the off-diagonal of a symmetric tridiagonal matrix whose
//! eigenvalues are the singular values and their negatives. The number of eigenvalues above a bound
//! is a count of signs (Sturm sequence), and bisection finds the requested one, with
//! multiplicities.
//!
//! **Invariant:** only the four basic operations and square roots, in an order that depends on the
//! size alone.

/// Number of independent partial sums: the same on all machines, and as many as a CPU adds at once.
const LANES: usize = 8;

/// Singular value with this index, counted from 0 for the largest, of a square matrix given by
/// rows.
pub(super) fn singular_value(mut rows: Vec<Vec<f64>>, index: usize) -> f64 {
    if index >= rows.len() {
        return 0.0;
    }
    let neighbours = bidiagonalize(&mut rows);
    let largest = |pair: &[f64]| pair.iter().map(|value| value.abs()).sum::<f64>();
    // No eigenvalue is above the largest absolute row sum.
    let bound = neighbours.windows(2).map(largest).fold(neighbours[0].abs(), f64::max);
    let (mut low, mut high) = (0.0, bound);
    // Bisection until no number lies between the two bounds.
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if above(&neighbours, middle) > index { low = middle } else { high = middle }
    }
}

/// Reduces a matrix to bidiagonal form and returns its two diagonals interleaved,
/// `d₁ e₁ d₂ e₂ … dₙ`.
fn bidiagonalize(rows: &mut [Vec<f64>]) -> Vec<f64> {
    let size = rows.len();
    let mut neighbours = Vec::with_capacity(2 * size);
    for step in 0..size {
        let mut column: Vec<f64> = rows[step..].iter().map(|row| row[step]).collect();
        let (diagonal, scale) = reflector(&mut column);
        neighbours.push(diagonal);
        if scale > 0.0 {
            let mut sums = vec![0.0; size - step];
            for (row, &factor) in rows[step..].iter().zip(&column) {
                add(&mut sums, factor * scale, &row[step..]);
            }
            for (row, &factor) in rows[step..].iter_mut().zip(&column) {
                add(&mut row[step..], -factor, &sums);
            }
        }
        if step + 1 == size {
            break;
        }
        let mut beside = rows[step][step + 1..].to_vec();
        let (above, scale) = reflector(&mut beside);
        neighbours.push(above);
        if scale > 0.0 {
            for row in &mut rows[step + 1..] {
                let along = dot(&row[step + 1..], &beside);
                add(&mut row[step + 1..], -along * scale, &beside);
            }
        }
    }
    neighbours
}

/// Householder reflector: turns a vector `x` into the `v` and `s` with
/// `(1 − s v vᵀ) x = (d, 0, 0, …)`. Returns `d` and `s`; `s` is 0 if nothing needs to be reflected.
fn reflector(vector: &mut [f64]) -> (f64, f64) {
    let norm = dot(vector, vector).sqrt();
    let first = vector[0];
    if norm == 0.0 || dot(&vector[1..], &vector[1..]) == 0.0 {
        return (first, 0.0);
    }
    // The sign avoids cancellation.
    let diagonal = if first > 0.0 { -norm } else { norm };
    vector[0] = first - diagonal;
    (diagonal, 2.0 / dot(vector, vector))
}

/// Number of eigenvalues above `bound` of the symmetric matrix with zero diagonal and this
/// off-diagonal.
fn above(neighbours: &[f64], bound: f64) -> usize {
    let mut count = 0;
    let mut pivot = -bound;
    for neighbour in std::iter::once(&0.0).chain(neighbours) {
        pivot = -bound - neighbour * neighbour / pivot;
        if pivot == 0.0 {
            pivot = f64::MIN_POSITIVE;
        }
        count += usize::from(pivot > 0.0);
    }
    count
}

fn add(into: &mut [f64], factor: f64, vector: &[f64]) {
    into.iter_mut().zip(vector).for_each(|(value, add)| *value += factor * add);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::spectral::singular_values;
    use hemiola_core::rng::SplitMix64;

    #[test]
    fn every_singular_value_is_that_of_rotations() {
        let mut random = SplitMix64::new(5);
        for size in 1..30 {
            let mut rows: Vec<Vec<f64>> = (0..size).map(|_| (0..size).map(|_| random.symmetric()).collect()).collect();
            if size % 3 == 0 {
                // A matrix of lower rank, with equal singular values.
                rows[0] = rows[size - 1].clone();
            }
            for (place, value) in singular_values(rows.clone()).into_iter().enumerate() {
                let found = singular_value(rows.clone(), place);
                assert!((found - value).abs() < 1e-12, "{place} of {size}: {found}, not {value}");
            }
        }
    }

    #[test]
    fn equal_values_count_each_and_nothing_is_nothing() {
        let identity = |size: usize| {
            (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect()
        };
        for place in 0..5 {
            assert!((singular_value(identity(5), place) - 1.0).abs() < 1e-15);
        }
        assert!(singular_value(vec![vec![0.0; 4]; 4], 0) == 0.0);
        assert!(singular_value(identity(3), 3) == 0.0);
        let ones = vec![vec![1.0; 100]; 100];
        assert!((singular_value(ones.clone(), 0) - 100.0).abs() < 1e-12 && singular_value(ones, 1) < 1e-13);
    }
}
