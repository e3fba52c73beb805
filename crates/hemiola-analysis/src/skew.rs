//! Finding a change of coordinates in which two dimensions of a loop run forward along every dependence.
//!
//! A wavefront over (space, time) needs that no dependence goes backward in either. Where one does, slanting the time axis
//! along the space axis, `time + factor * space`, can turn it forward, because the later iteration is further along in
//! space. This is the skewing of Wolf and Lam, which the thesis on Orion takes over in section 3.4.1. Tried in this order:
//!
//! 1. (unordered loops) running time backwards, which keeps blocks rectangular;
//! 2. time slanted by space, with the smallest factor that works: parts of arrays that follow space stay where they are;
//! 3. space slanted by time;
//! 4. both rows from the general scheme: dimension after dimension, each slanted by those outside it until nothing is
//!    negative. For vectors that are all finite this always succeeds: a lexicographically positive vector whose
//!    transformed elements so far are all zero cannot be negative next.
//!
//! The thesis asks for finite vectors. All that is used of an element is the least number in it, and "any positive
//! number" has one; so a vector such as (+, -1), which every in-place stencil over a time loop has, can be skewed as well.

use crate::transform::Matrix;
use crate::vector::{Element, Vector};

/// The largest weight in a matrix that the search returns. A block slanted further would hold hardly an iteration, and
/// the limit keeps new coordinates far from overflowing.
pub const MAX_WEIGHT: i64 = 1 << 16;

/// Why there is no such change of coordinates: which vector is in the way, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) vector: usize,
    pub(crate) kind: ObstacleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObstacleKind {
    /// It goes backward, and no other dimension makes up for that.
    NoSkew,
    /// It needs a weight above [`MAX_WEIGHT`].
    TooSteep,
}

/// Whether no distance with these elements goes backward in space or in time.
pub(crate) fn runs_forward(space: Element, time: Element) -> bool {
    is_least_at(space, 0) && is_least_at(time, 0)
}

/// Whether no distance with these elements goes forward in one of space and time and backward in the other. Then the
/// blocks of the two iterations are the same, or one comes before the other in a wavefront.
pub(crate) fn is_comparable(space: Element, time: Element) -> bool {
    space.is_zero() || time.is_zero() || runs_forward(space, time) || runs_forward(space.negated(), time.negated())
}

fn is_least_at(element: Element, bound: i64) -> bool {
    element.least().is_some_and(|least| least >= bound)
}

/// A matrix in whose coordinates `space` and `time` a wavefront is legal. `vectors` are normalized.
pub(crate) fn find(
    dimensions: usize,
    (space, time): (usize, usize),
    ordered: bool,
    vectors: &[&Vector],
) -> Result<Matrix, Obstacle> {
    if !ordered && vectors.iter().all(|vector| is_comparable(vector.at(space), vector.at(time).negated())) {
        return Ok(with_weight(dimensions, time, time, -1));
    }
    let slanted_time = factor(ordered, vectors, space, time);
    if let Ok(factor) = slanted_time {
        return Ok(with_weight(dimensions, time, space, factor));
    }
    if let Ok(factor) = factor(ordered, vectors, time, space) {
        return Ok(with_weight(dimensions, space, time, factor));
    }
    let rows = general(dimensions, vectors);
    let mut chosen = identity_rows(dimensions);
    for dimension in [space, time] {
        chosen[dimension].clone_from(rows[dimension].as_ref().map_err(|obstacle| *obstacle)?);
    }
    // Lower triangular with ones on the diagonal; entries of the inverse are sums of two products of weights at most.
    Ok(Matrix::try_new(chosen).expect("a unit matrix with two gently slanted rows has an inverse in range"))
}

/// The identity with one weight replaced, which must leave it unimodular: off the diagonal, or ±1 on it.
fn with_weight(dimensions: usize, row: usize, column: usize, weight: i64) -> Matrix {
    let mut rows = identity_rows(dimensions);
    rows[row][column] = weight;
    Matrix::try_new(rows).expect("a unit matrix with one such weight has determinant 1 or -1")
}

fn identity_rows(dimensions: usize) -> Vec<Vec<i64>> {
    Matrix::identity(dimensions).into()
}

/// The smallest `factor >= 0` for which (`base`, `slanted + factor * base`) suits a wavefront.
fn factor(ordered: bool, vectors: &[&Vector], base: usize, slanted: usize) -> Result<i64, Obstacle> {
    let mut largest = 0;
    for (position, vector) in vectors.iter().enumerate() {
        let (base, slanted) = (vector.at(base), vector.at(slanted));
        let fail = |kind| Obstacle { vector: position, kind };
        let needed = if ordered { forward_factor(base, slanted) } else { comparable_factor(base, slanted) };
        let needed = needed.ok_or(fail(ObstacleKind::NoSkew))?;
        if needed > i128::from(MAX_WEIGHT) {
            return Err(fail(ObstacleKind::TooSteep));
        }
        largest = largest.max(needed as i64);
    }
    Ok(largest)
}

/// What one vector asks of the factor so that nothing runs backward.
fn forward_factor(base: Element, slanted: Element) -> Option<i128> {
    let (base, slanted) = (i128::from(base.least()?), i128::from(slanted.least()?));
    match base {
        ..0 => None,
        0 => (slanted >= 0).then_some(0),
        _ => Some(lift(slanted, base)),
    }
}

/// What one vector asks of the factor so that space and time do not run against each other.
fn comparable_factor(base: Element, slanted: Element) -> Option<i128> {
    // Without a distance along the base the slant changes nothing, and without one along the other dimension the slant
    // gives it the sign of the base.
    if base.is_zero() || slanted.is_zero() {
        return Some(0);
    }
    forward_factor(base, slanted).or_else(|| forward_factor(base.negated(), slanted.negated()))
}

/// The smallest `factor >= 0` with `value + factor * step >= 0`, for a positive step.
fn lift(value: i128, step: i128) -> i128 {
    if value >= 0 { 0 } else { (-value + step - 1) / step }
}

/// For each dimension a row that runs backward along no vector, as far as there is one.
fn general(dimensions: usize, vectors: &[&Vector]) -> Vec<Result<Vec<i64>, Obstacle>> {
    let mut rows: Vec<Result<Vec<i64>, Obstacle>> = Vec::new();
    // For each dimension done and each vector, a bound from below of the new coordinate's distance: never negative, and
    // zero where there is no row.
    let mut bounds: Vec<Vec<i128>> = Vec::new();
    for dimension in 0..dimensions {
        match general_row(dimension, dimensions, vectors, &rows, &bounds) {
            Ok((row, bound)) => {
                rows.push(Ok(row));
                bounds.push(bound);
            }
            Err(obstacle) => {
                rows.push(Err(obstacle));
                bounds.push(vec![0; vectors.len()]);
            }
        }
    }
    rows
}

/// The next row: the dimension itself plus multiples of the rows before, and its bounds.
fn general_row(
    dimension: usize,
    dimensions: usize,
    vectors: &[&Vector],
    rows: &[Result<Vec<i64>, Obstacle>],
    bounds: &[Vec<i128>],
) -> Result<(Vec<i64>, Vec<i128>), Obstacle> {
    let mut factors = vec![0_i128; dimension];
    let mut steepest = 0;
    let sum = |factors: &[i128], position: usize, least: i64| -> i128 {
        let slant: i128 = factors.iter().zip(bounds).map(|(factor, bound)| factor * bound[position]).sum();
        i128::from(least) + slant
    };
    for (position, vector) in vectors.iter().enumerate() {
        let fail = |kind| Obstacle { vector: position, kind };
        let least = vector.at(dimension).least().ok_or(fail(ObstacleKind::NoSkew))?;
        let value = sum(&factors, position, least);
        if value >= 0 {
            continue;
        }
        // Bounds are not negative, so that a larger factor for this vector harms no other.
        let outer = (0..dimension).find(|&outer| bounds[outer][position] > 0).ok_or(fail(ObstacleKind::NoSkew))?;
        factors[outer] += lift(value, bounds[outer][position]);
        steepest = position;
        if factors[outer] > i128::from(MAX_WEIGHT) {
            return Err(fail(ObstacleKind::TooSteep));
        }
    }
    let mut row = vec![0_i128; dimensions];
    row[dimension] = 1;
    for (factor, outer) in factors.iter().zip(rows) {
        for (weight, outer_weight) in row.iter_mut().zip(outer.iter().flatten()) {
            *weight += factor * i128::from(*outer_weight);
        }
    }
    if row.iter().any(|&weight| weight > i128::from(MAX_WEIGHT)) {
        return Err(Obstacle { vector: steepest, kind: ObstacleKind::TooSteep });
    }
    let bound = vectors.iter().enumerate().map(|(position, vector)| {
        let least = vector.at(dimension).least().expect("each vector was asked for it above");
        // A smaller bound is still one, and sums of these stay in range.
        sum(&factors, position, least).min(i128::from(i64::MAX))
    });
    Ok((row.into_iter().map(|weight| weight as i64).collect(), bound.collect()))
}

#[cfg(test)]
mod tests {
    use super::Element::{Any, Distance, Positive};
    use super::*;

    fn rows(matrix: Result<Matrix, Obstacle>) -> Vec<Vec<i64>> {
        matrix.unwrap().into()
    }

    fn vector<const N: usize>(elements: [i64; N]) -> Vector {
        Vector::new(elements.map(Distance))
    }

    #[test]
    fn a_diagonal_is_slanted_by_the_smallest_factor() {
        let (near, far) = (vector([1, -1]), vector([2, -5]));
        assert_eq!(rows(find(2, (0, 1), true, &[&near])), [[1, 0], [1, 1]]);
        assert_eq!(rows(find(2, (0, 1), true, &[&near, &far])), [[1, 0], [3, 1]]);
    }

    #[test]
    fn an_unordered_loop_turns_time_round_where_that_is_enough() {
        let diagonal = vector([1, -1]);
        assert_eq!(rows(find(2, (0, 1), false, &[&diagonal])), [[1, 0], [0, -1]]);
        let other = vector([1, 1]);
        assert_eq!(rows(find(2, (0, 1), false, &[&diagonal, &other])), [[1, 0], [1, 1]]);
    }

    #[test]
    fn space_is_slanted_where_time_cannot_be() {
        assert_eq!(rows(find(2, (1, 0), true, &[&vector([1, -2])])), [[1, 0], [2, 1]]);
    }

    #[test]
    fn a_stencil_in_place_can_be_skewed() {
        let vectors = [
            Vector::new([Positive, Distance(1)]),
            Vector::new([Positive, Distance(-1)]),
            Vector::new([Distance(0), Distance(1)]),
        ];
        let vectors: Vec<_> = vectors.iter().collect();
        assert_eq!(rows(find(2, (0, 1), true, &vectors)), [[1, 0], [1, 1]]);
    }

    #[test]
    fn two_slanted_rows_come_from_the_general_scheme() {
        // Neither of dimensions 1 and 2 can lift the other; both need dimension 0.
        let vectors = [vector([1, -2, 0]), vector([1, 0, -3])];
        let vectors: Vec<_> = vectors.iter().collect();
        assert_eq!(rows(find(3, (1, 2), true, &vectors)), [[1, 0, 0], [2, 1, 0], [3, 0, 1]]);
    }

    #[test]
    fn backward_and_steep_vectors_are_named() {
        let (fine, unbounded, steep) = (vector([1, 0]), Vector::new([Positive, Any]), vector([1, -MAX_WEIGHT - 1]));
        let obstacle = find(2, (0, 1), true, &[&fine, &unbounded]).unwrap_err();
        assert_eq!(obstacle, Obstacle { vector: 1, kind: ObstacleKind::NoSkew });
        let obstacle = find(2, (0, 1), true, &[&fine, &steep]).unwrap_err();
        assert_eq!(obstacle, Obstacle { vector: 1, kind: ObstacleKind::TooSteep });
    }
}
