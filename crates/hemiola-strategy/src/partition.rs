//! Partitioning of a variable into shards.
//!
//! A [`Partitioning`] has the number of pieces of each dimension. Pieces differ by at most one, so
//! any number up to the extent works, also for a prime extent. (`AutoDist` asks for divisors, and
//! makes as many shards as rows out of a prime number of rows.) Shards are in row-major order.

use crate::model::VariableSpec;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Number of pieces of each dimension of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partitioning(pub Vec<usize>);

/// Piece of a variable: a range of each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableShard {
    /// Range of indices, by dimension.
    pub ranges: Vec<Range<usize>>,
}

impl VariableShard {
    /// Number of elements of the shard.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).product()
    }

    /// Shape as a matrix: the first dimension, and the product of all others.
    #[must_use]
    pub fn matrix(&self) -> (usize, usize) {
        match self.ranges.split_first() {
            None => (1, 1),
            Some((first, rest)) => (first.len(), rest.iter().map(ExactSizeIterator::len).product()),
        }
    }
}

impl Partitioning {
    /// Returns the partitioning into one piece.
    #[must_use]
    pub fn whole(variable: &VariableSpec) -> Self {
        Self(vec![1; variable.shape.len()])
    }

    /// Cuts one dimension into `pieces`, or as many as its extent allows. A scalar stays whole.
    #[must_use]
    pub fn along(variable: &VariableSpec, dimension: usize, pieces: usize) -> Self {
        let mut partitioning = Self::whole(variable);
        if let (Some(cut), Some(extent)) = (partitioning.0.get_mut(dimension), variable.shape.get(dimension)) {
            *cut = pieces.clamp(1, *extent);
        }
        partitioning
    }

    /// Number of resulting shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns true if there is only one piece.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.shards() == 1
    }

    /// Returns the reason why a variable cannot be cut like this, if any.
    #[must_use]
    pub fn problem(&self, variable: &VariableSpec) -> Option<String> {
        if self.0.len() != variable.shape.len() {
            let (has, named) = (variable.shape.len(), self.0.len());
            return Some(format!(
                "its partitioning {self} names {named} dimensions, and its shape {:?} has {has}",
                variable.shape
            ));
        }
        let bad = self.0.iter().zip(&variable.shape).position(|(cut, extent)| *cut == 0 || cut > extent)?;
        Some(format!(
            "dimension {bad} has {} elements and cannot be cut into {} pieces",
            variable.shape[bad], self.0[bad]
        ))
    }

    /// Returns the shards, in row-major order. The partitioning must [fit](Partitioning::problem)
    /// the shape.
    #[must_use]
    pub fn cut(&self, shape: &[usize]) -> Vec<VariableShard> {
        let mut shards = vec![VariableShard { ranges: Vec::new() }];
        for (extent, pieces) in shape.iter().zip(&self.0) {
            let piece = |index: usize| index * extent / pieces..(index + 1) * extent / pieces;
            shards = shards
                .into_iter()
                .flat_map(|shard| {
                    (0..*pieces).map(move |index| {
                        let mut ranges = shard.ranges.clone();
                        ranges.push(piece(index));
                        VariableShard { ranges }
                    })
                })
                .collect();
        }
        shards
    }
}

impl fmt::Display for Partitioning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cuts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(formatter, "{}", cuts.join("×"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_cover_every_element_once(shape in prop::collection::vec(1..8_usize, 0..4), cuts in prop::collection::vec(1..8_usize, 4)) {
            let cuts: Vec<usize> = shape.iter().zip(cuts).map(|(extent, cut)| cut.min(*extent)).collect();
            let partitioning = Partitioning(cuts);
            let variable = VariableSpec::dense("v", shape.clone());
            prop_assert_eq!(partitioning.problem(&variable), None);
            let shards = partitioning.cut(&shape);
            prop_assert_eq!(shards.len(), partitioning.shards());
            prop_assert_eq!(shards.iter().map(VariableShard::elements).sum::<u64>(), variable.elements());
            let inside = |shard: &VariableShard, index: &[usize]| shard.ranges.iter().zip(index).all(|(range, coordinate)| range.contains(coordinate));
            let mut index = vec![0; shape.len()];
            for number in 0..variable.elements() as usize {
                let mut rest = number;
                for (coordinate, extent) in index.iter_mut().zip(&shape).rev() {
                    *coordinate = rest % extent;
                    rest /= extent;
                }
                prop_assert_eq!(shards.iter().filter(|shard| inside(shard, &index)).count(), 1);
            }
            // Pieces of one dimension differ by at most one.
            for dimension in 0..shape.len() {
                let lengths = || shards.iter().map(|shard| shard.ranges[dimension].len());
                prop_assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn prime_extents_are_cut_evenly() {
        let variable = VariableSpec::dense("v", [10_007, 64]);
        let shards = Partitioning::along(&variable, 0, 4).cut(&variable.shape);
        let rows: Vec<usize> = shards.iter().map(|shard| shard.ranges[0].len()).collect();
        assert_eq!(rows, [2501, 2502, 2502, 2502]);
        assert_eq!(Partitioning::along(&variable, 0, 1 << 20).shards(), 10_007);
        assert!(Partitioning::along(&VariableSpec::dense("v", []), 0, 4).is_whole());
    }

    #[test]
    fn misfits_are_reported() {
        let variable = VariableSpec::dense("v", [3, 4]);
        let problem = |cuts: &[usize]| Partitioning(cuts.to_vec()).problem(&variable).unwrap();
        assert!(problem(&[2]).contains("names 1 dimensions, and its shape [3, 4] has 2"));
        assert!(problem(&[1, 5]).contains("dimension 1 has 4 elements and cannot be cut into 5 pieces"));
        assert!(problem(&[0, 1]).contains("dimension 0"));
    }
}
