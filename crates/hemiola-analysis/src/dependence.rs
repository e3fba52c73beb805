//! Dependences between iterations, derived from pairs of accesses.
//!
//! Two iterations depend on each other if they touch the same element of an array and one of them
//! writes. The analysis therefore examines every pair of accesses to one array that contains a
//! write, **write–write pairs included**, and pairs every write with itself in another iteration.
//! For each pair it answers one question: if iteration `p` makes the first access, iteration `q`
//! makes the second, and both name the same element, what is `q - p`?
//!
//! **Invariant:** sound. The distance between any two iterations that touch the same element, one
//! of them writing, is contained in some vector of [`dependences`]. A subscript that says too
//! little gives [`DependenceDistance::Any`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Access, ArrayAccesses, LoopSpec, Subscript};
use crate::equations::OffsetEquations;
use crate::vector::{DependenceDistance, DependenceVector};

/// Two accesses that may name the same element, at least one of them writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessPair {
    /// Name of the array.
    pub array: String,
    /// Access that the body makes first.
    pub first: Access,
    /// Access that the body makes second. It equals `first` if a write meets itself in another
    /// iteration.
    pub second: Access,
}

impl fmt::Display for AccessPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.second {
            write!(f, "{} with itself", self.first)
        } else {
            write!(f, "{} with {}", self.first, self.second)
        }
    }
}

/// Set of distances at which iterations depend on each other, with its causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependence {
    /// Distances from the iteration that comes first in the source to the later one.
    pub vector: DependenceVector,
    /// Causes of the dependence; never empty. The first causes the whole vector, the others the
    /// whole or a part of it.
    pub pairs: Vec<AccessPair>,
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.vector)?;
        if let Some(pair) = self.pairs.first() {
            write!(f, " from {pair}")?;
        }
        match self.pairs.len() {
            0 | 1 => Ok(()),
            more => write!(f, " and {} more", more - 1),
        }
    }
}

/// Finds all dependences between different iterations of a loop. None covers another.
#[must_use]
pub fn dependences(spec: &LoopSpec) -> Vec<Dependence> {
    let mut found = Vec::new();
    for array in &spec.arrays {
        for (position, first) in array.accesses.iter().enumerate() {
            for second in &array.accesses[position..] {
                if !first.mode.writes() && !second.mode.writes() {
                    continue;
                }
                let Some(raw) = distance(spec.dimensions, array, first, second) else { continue };
                for vector in raw.normalized() {
                    let pair = AccessPair { array: array.name.clone(), first: first.clone(), second: second.clone() };
                    add(&mut found, Dependence { vector, pairs: vec![pair] });
                }
            }
        }
    }
    found
}

/// Adds a dependence and merges it with those that cover it or that it covers.
fn add(found: &mut Vec<Dependence>, mut new: Dependence) {
    if let Some(cover) = found.iter_mut().find(|old| old.vector.covers(&new.vector)) {
        merge_pairs(&mut cover.pairs, new.pairs);
        return;
    }
    found.retain_mut(|old| {
        let covered = new.vector.covers(&old.vector);
        if covered {
            merge_pairs(&mut new.pairs, std::mem::take(&mut old.pairs));
        }
        !covered
    });
    found.push(new);
}

fn merge_pairs(into: &mut Vec<AccessPair>, pairs: Vec<AccessPair>) {
    for pair in pairs {
        if !into.contains(&pair) {
            into.push(pair);
        }
    }
}

/// Computes the distances from an iteration that makes access `first` to one that makes access
/// `second` at the same element. `None` if they never share an element. The result is not
/// normalized.
fn distance(
    loop_dimensions: usize,
    array: &ArrayAccesses,
    first: &Access,
    second: &Access,
) -> Option<DependenceVector> {
    let mut question = SubscriptEquations::new(loop_dimensions);
    for dimension in 0..array.dimensions {
        if !question.may_equal(first.subscript(dimension), second.subscript(dimension)) {
            return None;
        }
    }
    let known = |dimension| question.equations.difference(dimension, loop_dimensions + dimension);
    Some(DependenceVector::new(
        (0..loop_dimensions)
            .map(|dimension| known(dimension).map_or(DependenceDistance::Any, DependenceDistance::of))
            .collect::<Vec<_>>(),
    ))
}

/// Equations between the indices of two iterations. The unknowns are numbered: indices of the first
/// iteration, indices of the second, a constant zero, then the values of invariant expressions.
struct SubscriptEquations<'a> {
    equations: OffsetEquations,
    loop_dimensions: usize,
    invariants: Vec<(&'a str, usize)>,
}

impl<'a> SubscriptEquations<'a> {
    fn new(loop_dimensions: usize) -> Self {
        Self { equations: OffsetEquations::new(2 * loop_dimensions + 1), loop_dimensions, invariants: Vec::new() }
    }

    /// Requires that two subscripts are equal. Returns false if they cannot be.
    fn may_equal(&mut self, first: &'a Subscript, second: &'a Subscript) -> bool {
        if first.is_empty() || second.is_empty() {
            return false;
        }
        if let (Some(left), Some(right)) = (self.term(first, 0), self.term(second, self.loop_dimensions)) {
            return self.equations.equate(left, right);
        }
        // Here one subscript is a range or depends on data. Only literal ends on both sides can
        // exclude an overlap.
        match (ends(first), ends(second)) {
            (Some((from, to)), Some((other_from, other_to))) => below(from, other_to) && below(other_from, to),
            _ => true,
        }
    }

    /// Returns the subscript as `unknown + constant`, if it has that form. `base` is the number of
    /// the iteration's first index.
    fn term(&mut self, subscript: &'a Subscript, base: usize) -> Option<(usize, i64)> {
        match subscript {
            Subscript::Index { dimension, offset } => Some((base + dimension, *offset)),
            Subscript::Constant(value) => Some((2 * self.loop_dimensions, *value)),
            Subscript::Invariant(text) => Some((self.invariant(text), 0)),
            Subscript::Range { .. } | Subscript::Unknown => None,
        }
    }

    fn invariant(&mut self, text: &'a str) -> usize {
        if let Some(&(_, unknown)) = self.invariants.iter().find(|(known, _)| *known == text) {
            return unknown;
        }
        let unknown = self.equations.add_unknown();
        self.invariants.push((text, unknown));
        unknown
    }
}

/// Returns the first index of a subscript with literal ends, and the index after its last one.
fn ends(subscript: &Subscript) -> Option<(Option<i128>, Option<i128>)> {
    match subscript {
        Subscript::Constant(value) => Some((Some(i128::from(*value)), Some(i128::from(*value) + 1))),
        Subscript::Range { from, to } => Some((from.map(i128::from), to.map(i128::from))),
        Subscript::Index { .. } | Subscript::Invariant(_) | Subscript::Unknown => None,
    }
}

/// Returns whether a range that begins at `from` begins before `to`. An open end is before and
/// after everything.
fn below(from: Option<i128>, to: Option<i128>) -> bool {
    from.zip(to).is_none_or(|(from, to)| from < to)
}

#[cfg(test)]
mod tests {
    use super::DependenceDistance::{Any, Exact, Positive};
    use super::*;
    use crate::access::AccessMode;
    use crate::fixtures::{array, read, spec, update, write};

    fn vectors(spec: &LoopSpec) -> Vec<DependenceVector> {
        dependences(spec).into_iter().map(|dependence| dependence.vector).collect()
    }

    fn index(dimension: usize) -> Subscript {
        Subscript::index(dimension)
    }

    /// Distances between a write by `first` and a read by `second` in a loop of two dimensions.
    fn between(first: &[Subscript], second: &[Subscript]) -> Option<DependenceVector> {
        let array = array("a", first.len().max(second.len()), []);
        distance(2, &array, &write(first), &read(second))
    }

    #[test]
    fn matrix_factorization_has_one_dependence_per_factor() {
        let spec = spec(2, [array("w", 1, [update(&[index(0)])]), array("h", 1, [update(&[index(1)])])]);
        assert_eq!(
            vectors(&spec),
            [DependenceVector::new([Exact(0), Positive]), DependenceVector::new([Positive, Exact(0)])]
        );
    }

    #[test]
    fn reads_alone_make_no_dependence() {
        let spec = spec(1, [array("a", 1, [read(&[Subscript::ALL]), read(&[index(0)])])]);
        assert_eq!(vectors(&spec), []);
    }

    #[test]
    fn writes_alone_make_a_dependence() {
        let spec = spec(2, [array("a", 1, [write(&[index(0)])])]);
        assert_eq!(vectors(&spec), [DependenceVector::new([Exact(0), Positive])]);
    }

    #[test]
    fn offsets_give_distances_and_contradictions_none() {
        let one = || Subscript::shifted(0, 1);
        assert_eq!(between(&[one()], &[index(0)]), Some(DependenceVector::new([Exact(1), Any])));
        assert_eq!(between(&[one(), index(0)], &[index(0), index(0)]), None);
        assert_eq!(
            between(&[one(), index(1)], &[index(0), index(1)]),
            Some(DependenceVector::new([Exact(1), Exact(0)]))
        );
    }

    #[test]
    fn constants_exclude_each_other_and_ranges() {
        let range = |from, to| Subscript::Range { from: Some(from), to: Some(to) };
        let anywhere = Some(DependenceVector::new([Any, Any]));
        assert_eq!(between(&[Subscript::Constant(1)], &[Subscript::Constant(2)]), None);
        assert_eq!(between(&[Subscript::Constant(1)], &[Subscript::Constant(1)]), anywhere);
        assert_eq!(between(&[Subscript::Constant(4)], &[range(2, 4)]), None);
        assert_eq!(between(&[Subscript::Constant(3)], &[range(2, 4)]), anywhere);
        assert_eq!(between(&[range(0, 2)], &[range(2, 4)]), None);
        assert_eq!(between(&[range(0, 3)], &[range(2, 4)]), anywhere);
        assert_eq!(between(&[range(3, 3)], &[Subscript::Unknown]), None);
        assert_eq!(between(&[range(2, 4)], &[Subscript::ALL]), anywhere);
    }

    #[test]
    fn literal_subscripts_overlap_exactly_if_they_share_an_index() {
        let ends: Vec<Option<i64>> = [None].into_iter().chain((0..4).map(Some)).collect();
        let ranges = ends.iter().flat_map(|&from| ends.iter().map(move |&to| Subscript::Range { from, to }));
        let all: Vec<_> = ranges.chain((0..4).map(Subscript::Constant)).collect();
        let holds = |subscript: &Subscript, index: i64| match *subscript {
            Subscript::Constant(value) => value == index,
            Subscript::Range { from, to } => from.is_none_or(|from| from <= index) && to.is_none_or(|to| index < to),
            _ => false,
        };
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            let meet = (-2..6).any(|index| holds(one, index) && holds(other, index));
            let found = between(std::slice::from_ref(one), std::slice::from_ref(other));
            assert_eq!(found.is_some(), meet, "{one} {other}");
        }
    }

    #[test]
    fn invariants_are_equal_by_text_and_may_be_equal_otherwise() {
        let n = || Subscript::Invariant("n".into());
        let m = || Subscript::Invariant("m".into());
        assert_eq!(between(&[n(), index(0)], &[m(), index(0)]), Some(DependenceVector::new([Exact(0), Any])));
        // i = n in both iterations.
        assert_eq!(between(&[index(0), n()], &[n(), index(0)]), Some(DependenceVector::new([Exact(0), Any])));
        // The distance is unknown if i is m in one iteration and n in the other.
        assert_eq!(between(&[index(0), n()], &[m(), index(0)]), Some(DependenceVector::new([Any, Any])));
        let one_two = [Subscript::Constant(1), Subscript::Constant(2)];
        assert_eq!(between(&[n(), m()], &one_two), Some(DependenceVector::new([Any, Any])));
        // n = 1 contradicts n = 2.
        assert_eq!(between(&[n(), n()], &[Subscript::Constant(1), Subscript::Constant(2)]), None);
    }

    #[test]
    fn dimensions_of_an_array_are_solved_together() {
        let zero = || Subscript::Constant(0);
        assert_eq!(between(&[index(0), zero()], &[zero(), index(0)]), Some(DependenceVector::new([Exact(0), Any])));
        assert_eq!(between(&[index(0), index(1)], &[index(1), index(0)]), Some(DependenceVector::new([Any, Any])));
    }

    #[test]
    fn unknown_subscripts_may_be_any_index() {
        assert_eq!(between(&[Subscript::Unknown], &[index(0)]), Some(DependenceVector::new([Any, Any])));
        assert_eq!(
            between(&[index(1), Subscript::Unknown], &[index(1), Subscript::Unknown]),
            Some(DependenceVector::new([Any, Exact(0)]))
        );
    }

    #[test]
    fn covered_vectors_are_merged_and_keep_their_causes() {
        let narrow = update(&[index(0), index(1)]);
        let wide = Access { mode: AccessMode::Update, ..read(&[index(0)]) };
        for accesses in [[narrow.clone(), wide.clone()], [wide, narrow]] {
            let found = dependences(&spec(2, [array("a", 2, accesses)]));
            let vectors: Vec<_> = found.iter().map(|dependence| dependence.vector.clone()).collect();
            assert_eq!(vectors, [DependenceVector::new([Exact(0), Positive])]);
            // Wide with wide, wide with narrow. Narrow meets itself in no other iteration.
            assert_eq!(found[0].pairs.len(), 2);
        }
    }
}
