//! Dependence vectors: distances, per loop dimension, between iterations that touch one element.
//!
//! A vector stands for a *set* of distances, because one pair of accesses usually links infinitely
//! many pairs of iterations. Each [`DependenceDistance`] is a set of integers, and the vector is
//! their product.
//!
//! **Invariant:** [`DependenceVector::normalized`] returns vectors with lexicographically positive
//! distances only, that is, from the iteration that comes first in the source to the later one.
//! Together they contain every distance of the original vector, or its negative, except zero: an
//! iteration does not depend on itself.
//!
//! The idea follows the thesis on Orion, section 3.4.1. The infinities there mean "any number above
//! zero" and "any number below zero"; here they are `Positive` and `Negative`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Distance along one loop dimension, as a set of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DependenceDistance {
    /// Exactly this one distance.
    Exact(i64),
    /// Any distance from 1 up.
    Positive,
    /// Any distance from -1 down.
    Negative,
    /// Any distance, zero included.
    Any,
}

impl DependenceDistance {
    /// The set that contains only zero.
    pub const ZERO: Self = Self::Exact(0);

    /// Returns the set of one distance. A distance that exceeds `i64` keeps only its sign.
    #[must_use]
    pub fn of(distance: i128) -> Self {
        match i64::try_from(distance) {
            Ok(distance) => Self::Exact(distance),
            Err(_) if distance > 0 => Self::Positive,
            Err(_) => Self::Negative,
        }
    }

    /// Returns whether the set contains only zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Exact(0))
    }

    /// Returns the smallest number in the set, if there is one.
    #[must_use]
    pub const fn least(self) -> Option<i64> {
        match self {
            Self::Exact(distance) => Some(distance),
            Self::Positive => Some(1),
            Self::Negative | Self::Any => None,
        }
    }

    /// Returns the set with all signs reversed.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Exact(distance) => Self::of(-i128::from(distance)),
            Self::Positive => Self::Negative,
            Self::Negative => Self::Positive,
            Self::Any => Self::Any,
        }
    }

    /// Returns whether `distance` is in the set.
    #[must_use]
    pub const fn contains(self, distance: i64) -> bool {
        match self {
            Self::Exact(own) => own == distance,
            Self::Positive => distance > 0,
            Self::Negative => distance < 0,
            Self::Any => true,
        }
    }

    /// Returns whether every number of `other` is in this set.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        match other {
            Self::Exact(distance) => self.contains(distance),
            _ => self == Self::Any || self == other,
        }
    }
}

impl fmt::Display for DependenceDistance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(distance) => write!(f, "{distance}"),
            Self::Positive => f.write_str("+"),
            Self::Negative => f.write_str("-"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// Set of distances between iterations: one [`DependenceDistance`] per dimension of the loop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DependenceVector(Vec<DependenceDistance>);

impl DependenceVector {
    /// Creates a vector from its elements, the outermost dimension first.
    #[must_use]
    pub fn new(elements: impl Into<Vec<DependenceDistance>>) -> Self {
        Self(elements.into())
    }

    /// Elements of the vector, the outermost dimension first.
    #[must_use]
    pub fn elements(&self) -> &[DependenceDistance] {
        &self.0
    }

    /// Returns the element of one dimension of the loop.
    ///
    /// # Panics
    /// If the loop has no such dimension.
    #[must_use]
    pub fn at(&self, dimension: usize) -> DependenceDistance {
        self.0[dimension]
    }

    /// Returns whether `distance` is in the set.
    #[must_use]
    pub fn contains(&self, distance: &[i64]) -> bool {
        self.0.len() == distance.len() && self.0.iter().zip(distance).all(|(element, &d)| element.contains(d))
    }

    /// Returns whether every distance of `other` is in this set.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(own, &theirs)| own.covers(theirs))
    }

    /// Returns the set with all signs reversed.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self(self.0.iter().map(|element| element.negated()).collect())
    }

    /// Splits the set into vectors that point from the earlier iteration in the source to the
    /// later.
    ///
    /// The first element that is not zero decides the sign. If that element is `Any`, the set is
    /// split: the positive part stays, the negative part is negated, and for the zero part the next
    /// element decides.
    /// ```
    /// use hemiola_analysis::vector::{DependenceDistance::{Any, Exact, Positive}, DependenceVector};
    ///
    /// let parts = DependenceVector::new([Any, Exact(1)]).normalized();
    /// assert_eq!(parts, [
    ///     DependenceVector::new([Positive, Exact(1)]),
    ///     DependenceVector::new([Positive, Exact(-1)]),
    ///     DependenceVector::new([Exact(0), Exact(1)]),
    /// ]);
    /// ```
    #[must_use]
    pub fn normalized(&self) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut add = |part: Self| {
            if !parts.contains(&part) {
                parts.push(part);
            }
        };
        let mut rest = self.clone();
        for dimension in 0..rest.0.len() {
            match rest.0[dimension] {
                DependenceDistance::Exact(0) => {}
                DependenceDistance::Exact(1..) | DependenceDistance::Positive => {
                    add(rest);
                    return parts;
                }
                DependenceDistance::Exact(_) | DependenceDistance::Negative => {
                    add(rest.negated());
                    return parts;
                }
                DependenceDistance::Any => {
                    rest.0[dimension] = DependenceDistance::Positive;
                    add(rest.clone());
                    rest.0[dimension] = DependenceDistance::Negative;
                    add(rest.negated());
                    rest.0[dimension] = DependenceDistance::ZERO;
                }
            }
        }
        parts
    }
}

impl fmt::Display for DependenceVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (position, element) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{element}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::DependenceDistance::{Any, Exact, Negative, Positive};
    use super::*;

    const ELEMENTS: [DependenceDistance; 8] =
        [Exact(-2), Exact(-1), Exact(0), Exact(1), Exact(2), Positive, Negative, Any];

    #[test]
    fn covering_is_containing_every_number() {
        for left in ELEMENTS {
            for right in ELEMENTS {
                let every = (-4..=4).all(|number| !right.contains(number) || left.contains(number));
                assert_eq!(left.covers(right), every, "{left} {right}");
            }
        }
    }

    #[test]
    fn normalized_parts_hold_the_same_distances_up_to_sign() {
        for first in ELEMENTS {
            for second in ELEMENTS {
                let vector = DependenceVector::new([first, second]);
                let parts = vector.normalized();
                for distance in (-3..=3).flat_map(|a| (-3..=3).map(move |b| [a, b])) {
                    let forward = distance > [0, 0];
                    let expected =
                        forward && (vector.contains(&distance) || vector.contains(&distance.map(|element| -element)));
                    let found = parts.iter().any(|part| part.contains(&distance));
                    assert_eq!(found, expected, "{vector} {distance:?}");
                }
            }
        }
    }

    #[test]
    fn the_zero_vector_is_no_dependence() {
        assert_eq!(DependenceVector::new([Exact(0), Exact(0)]).normalized(), []);
    }

    #[test]
    fn numbers_beyond_the_type_keep_their_sign() {
        assert_eq!(Exact(i64::MIN).negated(), Positive);
        assert_eq!(DependenceDistance::of(i128::from(i64::MIN) - 1), Negative);
        assert_eq!(DependenceVector::new([Exact(i64::MIN)]).normalized(), [DependenceVector::new([Positive])]);
    }

    #[test]
    fn vectors_are_printed_as_in_the_literature() {
        assert_eq!(DependenceVector::new([Positive, Exact(-1), Any, Negative]).to_string(), "(+, -1, *, -)");
    }
}
