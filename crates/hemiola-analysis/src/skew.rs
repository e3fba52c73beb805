//! Loop skewing: search for coordinates in which every dependence runs forward in space and time.
//!
//! A wavefront over (space, time) requires that no dependence goes backward in either dimension.
//! Slanting the time axis along the space axis, `time + factor * space`, can turn a backward
//! dependence forward, because the later iteration is further along in space. This is the skewing
//! of Wolf and Lam, which the thesis on Orion adopts in section 3.4.1. The search tries, in this
//! order:
//!
//! 1. time reversal (unordered loops only), which keeps blocks rectangular;
//! 2. time slanted by space, with the smallest factor that works; array parts that follow space
//!    stay where they are;
//! 3. space slanted by time;
//! 4. both rows from the general scheme: dimension by dimension, each is slanted by the outer ones
//!    until nothing is negative. For finite vectors this always succeeds: a lexicographically
//!    positive vector whose transformed elements so far are all zero cannot be negative next.
//!
//! The thesis requires finite vectors. The search uses only the least number of each element, and
//! "any positive number" has one. A vector such as (+, -1), which every in-place stencil over a
//! time loop has, can therefore be skewed as well.

use crate::unimodular::UnimodularMatrix;
use crate::vector::{DependenceDistance, DependenceVector};

/// Largest weight in a matrix that the search returns. A block slanted further would hold hardly an
/// iteration, and the limit keeps new coordinates far from overflow.
pub const MAX_WEIGHT: i64 = 1 << 16;

/// Reason why no skew exists: the vector that prevents it, and the kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SkewObstacle {
    pub(crate) vector: usize,
    pub(crate) kind: SkewObstacleKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkewObstacleKind {
    /// The vector goes backward, and no other dimension compensates for that.
    NoSkew,
    /// The vector needs a weight above [`MAX_WEIGHT`].
    TooSteep,
}

/// Returns whether no distance with these elements goes backward in space or in time.
pub(crate) fn runs_forward(space: DependenceDistance, time: DependenceDistance) -> bool {
    is_least_at(space, 0) && is_least_at(time, 0)
}

/// Returns whether no distance with these elements goes forward in one of space and time and
/// backward in the other. Then both iterations are in one block, or one block precedes the other in
/// a wavefront.
pub(crate) fn is_comparable(space: DependenceDistance, time: DependenceDistance) -> bool {
    space.is_zero() || time.is_zero() || runs_forward(space, time) || runs_forward(space.negated(), time.negated())
}

fn is_least_at(element: DependenceDistance, bound: i64) -> bool {
    element.least().is_some_and(|least| least >= bound)
}

/// Finds a matrix whose coordinates `space` and `time` allow a wavefront. `vectors` are normalized.
pub(crate) fn find(
    dimensions: usize,
    (space, time): (usize, usize),
    ordered: bool,
    vectors: &[&DependenceVector],
) -> Result<UnimodularMatrix, SkewObstacle> {
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
    // Lower triangular with ones on the diagonal; entries of the inverse are sums of two products
    // of weights at most.
    Ok(UnimodularMatrix::try_new(chosen)
        .expect("a unit matrix with two rows of bounded weight has an inverse in range"))
}

/// Returns the identity with one weight replaced. The weight must keep the matrix unimodular: off
/// the diagonal, or ±1 on it.
fn with_weight(dimensions: usize, row: usize, column: usize, weight: i64) -> UnimodularMatrix {
    let mut rows = identity_rows(dimensions);
    rows[row][column] = weight;
    UnimodularMatrix::try_new(rows).expect("a unit matrix with one such weight has determinant 1 or -1")
}

fn identity_rows(dimensions: usize) -> Vec<Vec<i64>> {
    UnimodularMatrix::identity(dimensions).into()
}

/// Smallest `factor >= 0` for which (`base`, `slanted + factor * base`) allows a wavefront.
fn factor(ordered: bool, vectors: &[&DependenceVector], base: usize, slanted: usize) -> Result<i64, SkewObstacle> {
    let mut largest = 0;
    for (position, vector) in vectors.iter().enumerate() {
        let (base, slanted) = (vector.at(base), vector.at(slanted));
        let fail = |kind| SkewObstacle { vector: position, kind };
        let needed = if ordered { forward_factor(base, slanted) } else { comparable_factor(base, slanted) };
        let needed = needed.ok_or(fail(SkewObstacleKind::NoSkew))?;
        if needed > i128::from(MAX_WEIGHT) {
            return Err(fail(SkewObstacleKind::TooSteep));
        }
        largest = largest.max(needed as i64);
    }
    Ok(largest)
}

/// Smallest factor with which one vector runs backward in neither dimension.
fn forward_factor(base: DependenceDistance, slanted: DependenceDistance) -> Option<i128> {
    let (base, slanted) = (i128::from(base.least()?), i128::from(slanted.least()?));
    match base {
        ..0 => None,
        0 => (slanted >= 0).then_some(0),
        _ => Some(lift(slanted, base)),
    }
}

/// Smallest factor with which space and time of one vector do not have opposite signs.
fn comparable_factor(base: DependenceDistance, slanted: DependenceDistance) -> Option<i128> {
    // Without a distance along the base, the slant changes nothing. Without a distance along the
    // slanted dimension, the slant gives it the sign of the base.
    if base.is_zero() || slanted.is_zero() {
        return Some(0);
    }
    forward_factor(base, slanted).or_else(|| forward_factor(base.negated(), slanted.negated()))
}

/// Smallest `factor >= 0` with `value + factor * step >= 0`, for a positive step.
fn lift(value: i128, step: i128) -> i128 {
    if value >= 0 { 0 } else { (-value + step - 1) / step }
}

/// For each dimension, a row that runs backward along no vector, or the obstacle.
fn general(dimensions: usize, vectors: &[&DependenceVector]) -> Vec<Result<Vec<i64>, SkewObstacle>> {
    let mut rows: Vec<Result<Vec<i64>, SkewObstacle>> = Vec::new();
    // For each finished dimension and each vector, a lower bound of the distance along the new
    // coordinate: never negative, and zero if the dimension has no row.
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

/// Computes the next row, the dimension plus multiples of the rows before it, and its bounds.
fn general_row(
    dimension: usize,
    dimensions: usize,
    vectors: &[&DependenceVector],
    rows: &[Result<Vec<i64>, SkewObstacle>],
    bounds: &[Vec<i128>],
) -> Result<(Vec<i64>, Vec<i128>), SkewObstacle> {
    let mut factors = vec![0_i128; dimension];
    let mut steepest = 0;
    let sum = |factors: &[i128], position: usize, least: i64| -> i128 {
        let slant: i128 = factors.iter().zip(bounds).map(|(factor, bound)| factor * bound[position]).sum();
        i128::from(least) + slant
    };
    for (position, vector) in vectors.iter().enumerate() {
        let fail = |kind| SkewObstacle { vector: position, kind };
        let least = vector.at(dimension).least().ok_or(fail(SkewObstacleKind::NoSkew))?;
        let value = sum(&factors, position, least);
        if value >= 0 {
            continue;
        }
        // Bounds are not negative, so a larger factor for this vector harms no other.
        let outer = (0..dimension).find(|&outer| bounds[outer][position] > 0).ok_or(fail(SkewObstacleKind::NoSkew))?;
        factors[outer] += lift(value, bounds[outer][position]);
        steepest = position;
        if factors[outer] > i128::from(MAX_WEIGHT) {
            return Err(fail(SkewObstacleKind::TooSteep));
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
        return Err(SkewObstacle { vector: steepest, kind: SkewObstacleKind::TooSteep });
    }
    let bound = vectors.iter().enumerate().map(|(position, vector)| {
        let least = vector.at(dimension).least().expect("the loop above returned for a vector without a least element");
        // A smaller bound is still a bound, and sums of these stay in range.
        sum(&factors, position, least).min(i128::from(i64::MAX))
    });
    Ok((row.into_iter().map(|weight| weight as i64).collect(), bound.collect()))
}

#[cfg(test)]
mod tests {
    use super::DependenceDistance::{Any, Exact, Positive};
    use super::*;

    fn rows(matrix: Result<UnimodularMatrix, SkewObstacle>) -> Vec<Vec<i64>> {
        matrix.unwrap().into()
    }

    fn vector<const N: usize>(elements: [i64; N]) -> DependenceVector {
        DependenceVector::new(elements.map(Exact))
    }

    #[test]
    fn a_diagonal_is_slanted_by_the_smallest_factor() {
        let (near, far) = (vector([1, -1]), vector([2, -5]));
        assert_eq!(rows(find(2, (0, 1), true, &[&near])), [[1, 0], [1, 1]]);
        assert_eq!(rows(find(2, (0, 1), true, &[&near, &far])), [[1, 0], [3, 1]]);
    }

    #[test]
    fn an_unordered_loop_reverses_time_if_that_is_enough() {
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
            DependenceVector::new([Positive, Exact(1)]),
            DependenceVector::new([Positive, Exact(-1)]),
            DependenceVector::new([Exact(0), Exact(1)]),
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
    fn backward_and_steep_vectors_are_reported() {
        let (fine, unbounded, steep) =
            (vector([1, 0]), DependenceVector::new([Positive, Any]), vector([1, -MAX_WEIGHT - 1]));
        let obstacle = find(2, (0, 1), true, &[&fine, &unbounded]).unwrap_err();
        assert_eq!(obstacle, SkewObstacle { vector: 1, kind: SkewObstacleKind::NoSkew });
        let obstacle = find(2, (0, 1), true, &[&fine, &steep]).unwrap_err();
        assert_eq!(obstacle, SkewObstacle { vector: 1, kind: SkewObstacleKind::TooSteep });
    }
}
