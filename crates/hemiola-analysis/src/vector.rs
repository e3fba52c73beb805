//! Dependence vectors: how far apart, in each dimension of the loop, two iterations are that touch the same element.
//!
//! A vector stands for a *set* of distances, because one pair of accesses usually links infinitely many pairs of
//! iterations. Each [`Element`] is a set of integers and the vector is their product.
//!
//! **Invariant:** vectors that leave [`Vector::normalized`] hold only lexicographically positive distances, that is
//! "from the iteration that comes first in the source to the one that comes later". Together they hold every distance of
//! the vector they came from, or its negative, except zero: an iteration does not depend on itself.
//!
//! The idea is that of the thesis on Orion, section 3.4.1. There the infinities of an element mean "any number above" and
//! "any number below zero"; here they are called what they are.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is known of a distance along one dimension: a set of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    /// This number.
    Distance(i64),
    /// Any number from 1 up.
    Positive,
    /// Any number from -1 down.
    Negative,
    /// Any number.
    Any,
}

impl Element {
    /// The element for exactly zero.
    pub const ZERO: Self = Self::Distance(0);

    /// The element for a number that may be too large for one: what is kept then is its sign.
    #[must_use]
    pub fn of(distance: i128) -> Self {
        match i64::try_from(distance) {
            Ok(distance) => Self::Distance(distance),
            Err(_) if distance > 0 => Self::Positive,
            Err(_) => Self::Negative,
        }
    }

    /// Whether this is zero for certain.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Distance(0))
    }

    /// The smallest number in the set, if there is one.
    #[must_use]
    pub const fn least(self) -> Option<i64> {
        match self {
            Self::Distance(distance) => Some(distance),
            Self::Positive => Some(1),
            Self::Negative | Self::Any => None,
        }
    }

    /// The set with all signs turned.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Distance(distance) => Self::of(-i128::from(distance)),
            Self::Positive => Self::Negative,
            Self::Negative => Self::Positive,
            Self::Any => Self::Any,
        }
    }

    /// Whether `distance` is in the set.
    #[must_use]
    pub const fn contains(self, distance: i64) -> bool {
        match self {
            Self::Distance(own) => own == distance,
            Self::Positive => distance > 0,
            Self::Negative => distance < 0,
            Self::Any => true,
        }
    }

    /// Whether every number of `other` is in this set.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        match other {
            Self::Distance(distance) => self.contains(distance),
            _ => self == Self::Any || self == other,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distance(distance) => write!(f, "{distance}"),
            Self::Positive => f.write_str("+"),
            Self::Negative => f.write_str("-"),
            Self::Any => f.write_str("*"),
        }
    }
}

/// A set of distances between iterations: one [`Element`] per dimension of the loop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Vector(Vec<Element>);

impl Vector {
    /// The vector with these elements.
    #[must_use]
    pub fn new(elements: impl Into<Vec<Element>>) -> Self {
        Self(elements.into())
    }

    /// Its elements, the outermost dimension first.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.0
    }

    /// The element of one dimension of the loop.
    ///
    /// # Panics
    /// If the loop has no such dimension.
    #[must_use]
    pub fn at(&self, dimension: usize) -> Element {
        self.0[dimension]
    }

    /// Whether the distance `distance` is in the set.
    #[must_use]
    pub fn contains(&self, distance: &[i64]) -> bool {
        self.0.len() == distance.len() && self.0.iter().zip(distance).all(|(element, &d)| element.contains(d))
    }

    /// Whether every distance of `other` is in this set.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(own, &theirs)| own.covers(theirs))
    }

    /// The set with all signs turned.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self(self.0.iter().map(|element| element.negated()).collect())
    }

    /// The same dependences, each told from the iteration that comes first in the source.
    ///
    /// The first element that is not zero decides the sign. Where that is `Any`, the set is taken apart: what is positive
    /// stays, what is negative is turned round, and where it is zero the next element decides.
    /// ```
    /// use hemiola_analysis::vector::{Element::{Any, Distance, Positive}, Vector};
    ///
    /// let parts = Vector::new([Any, Distance(1)]).normalized();
    /// assert_eq!(parts, [
    ///     Vector::new([Positive, Distance(1)]),
    ///     Vector::new([Positive, Distance(-1)]),
    ///     Vector::new([Distance(0), Distance(1)]),
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
                Element::Distance(0) => {}
                Element::Distance(1..) | Element::Positive => {
                    add(rest);
                    return parts;
                }
                Element::Distance(_) | Element::Negative => {
                    add(rest.negated());
                    return parts;
                }
                Element::Any => {
                    rest.0[dimension] = Element::Positive;
                    add(rest.clone());
                    rest.0[dimension] = Element::Negative;
                    add(rest.negated());
                    rest.0[dimension] = Element::ZERO;
                }
            }
        }
        parts
    }
}

impl fmt::Display for Vector {
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
    use super::Element::{Any, Distance, Negative, Positive};
    use super::*;

    const ELEMENTS: [Element; 8] =
        [Distance(-2), Distance(-1), Distance(0), Distance(1), Distance(2), Positive, Negative, Any];

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
                let vector = Vector::new([first, second]);
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
        assert_eq!(Vector::new([Distance(0), Distance(0)]).normalized(), []);
    }

    #[test]
    fn numbers_beyond_the_type_keep_their_sign() {
        assert_eq!(Distance(i64::MIN).negated(), Positive);
        assert_eq!(Element::of(i128::from(i64::MIN) - 1), Negative);
        assert_eq!(Vector::new([Distance(i64::MIN)]).normalized(), [Vector::new([Positive])]);
    }

    #[test]
    fn vectors_read_as_in_the_literature() {
        assert_eq!(Vector::new([Positive, Distance(-1), Any, Negative]).to_string(), "(+, -1, *, -)");
    }
}
