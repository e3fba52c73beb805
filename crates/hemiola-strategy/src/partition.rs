//! Partitioning of a variable into shards.
//!
//! A [`Partitioning`] has the number of pieces of each dimension. Pieces differ by at most one, so
//! any number up to the extent works, also for a prime extent. (`AutoDist` asks for divisors, and
//! makes as many shards as rows out of a prime number of rows.) With shares, the pieces of the only
//! dimension that is cut are in proportion to them, such as to the bandwidth of the peers that hold
//! them. Shards are in row-major order.

use crate::model::VariableSpec;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Number of pieces of each dimension of a variable. In a file, the numbers alone stand for equal
/// pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PartitioningForm", into = "PartitioningForm")]
pub struct Partitioning {
    /// Number of pieces, by dimension.
    pub pieces: Vec<usize>,
    /// Relative sizes of the pieces of the only dimension that is cut; empty for equal pieces.
    pub shares: Vec<u64>,
}

/// Forms of a [`Partitioning`] in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PartitioningForm {
    Equal(Vec<usize>),
    Uneven(UnevenForm),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnevenForm {
    pieces: Vec<usize>,
    shares: Vec<u64>,
}

impl From<PartitioningForm> for Partitioning {
    fn from(form: PartitioningForm) -> Self {
        match form {
            PartitioningForm::Equal(pieces) => Self::equal(pieces),
            PartitioningForm::Uneven(UnevenForm { pieces, shares }) => Self { pieces, shares },
        }
    }
}

impl From<Partitioning> for PartitioningForm {
    fn from(partitioning: Partitioning) -> Self {
        let Partitioning { pieces, shares } = partitioning;
        if shares.is_empty() { Self::Equal(pieces) } else { Self::Uneven(UnevenForm { pieces, shares }) }
    }
}

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
    /// Creates a partitioning into so many equal pieces by dimension.
    #[must_use]
    pub const fn equal(pieces: Vec<usize>) -> Self {
        Self { pieces, shares: Vec::new() }
    }

    /// Returns the partitioning into one piece.
    #[must_use]
    pub fn whole(variable: &VariableSpec) -> Self {
        Self::equal(vec![1; variable.shape.len()])
    }

    /// Cuts one dimension into `pieces`, or as many as its extent allows. A scalar stays whole.
    #[must_use]
    pub fn along(variable: &VariableSpec, dimension: usize, pieces: usize) -> Self {
        let mut partitioning = Self::whole(variable);
        if let (Some(cut), Some(extent)) = (partitioning.pieces.get_mut(dimension), variable.shape.get(dimension)) {
            *cut = pieces.clamp(1, *extent);
        }
        partitioning
    }

    /// Cuts one dimension into a piece for each share, in proportion to the shares. Returns `None`
    /// if a piece would be empty.
    #[must_use]
    pub fn in_shares(variable: &VariableSpec, dimension: usize, shares: &[u64]) -> Option<Self> {
        let mut partitioning = Self::whole(variable);
        *partitioning.pieces.get_mut(dimension)? = shares.len();
        partitioning.shares = shares.to_vec();
        partitioning.problem(variable).is_none().then_some(partitioning)
    }

    /// Number of resulting shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.pieces.iter().product()
    }

    /// Returns true if there is only one piece.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.shards() == 1
    }

    /// Returns the reason why a variable cannot be cut like this, if any.
    #[must_use]
    pub fn problem(&self, variable: &VariableSpec) -> Option<String> {
        if self.pieces.len() != variable.shape.len() {
            let (has, named) = (variable.shape.len(), self.pieces.len());
            return Some(format!(
                "its partitioning {self} names {named} dimensions, and its shape {:?} has {has}",
                variable.shape
            ));
        }
        let bad = self.pieces.iter().zip(&variable.shape).position(|(cut, extent)| *cut == 0 || cut > extent);
        if let Some(bad) = bad {
            return Some(format!(
                "dimension {bad} has {} elements and cannot be cut into {} pieces",
                variable.shape[bad], self.pieces[bad]
            ));
        }
        if self.shares.is_empty() {
            return None;
        }
        if self.shares.iter().try_fold(0_u64, |sum, share| sum.checked_add(*share)).is_none() {
            return Some("its shares are too large to be added: state the same proportion in smaller numbers".into());
        }
        let (cuts, shares) = (self.pieces.iter().filter(|pieces| **pieces > 1).count(), self.shares.len());
        if cuts > 1 || shares != self.shards() {
            return Some(format!("its {shares} shares need a single dimension that is cut into as many pieces"));
        }
        let empty = self.cut(&variable.shape).iter().position(|shard| shard.elements() == 0)?;
        Some(format!("share {} of its shares {:?} is too small for any element", empty, self.shares))
    }

    /// Start of a piece of a dimension, or the extent after the last one.
    fn edge(&self, extent: usize, pieces: usize, index: usize) -> usize {
        if pieces > 1 && self.shares.len() == pieces {
            // 128 bits, since an extent times a sum of shares need not fit into 64.
            let sum = |shares: &[u64]| shares.iter().map(|share| u128::from(*share)).sum::<u128>();
            return (extent as u128 * sum(&self.shares[..index]) / sum(&self.shares).max(1)) as usize;
        }
        index * extent / pieces
    }

    /// Returns the shards, in row-major order. The partitioning must [fit](Partitioning::problem)
    /// the shape.
    #[must_use]
    pub fn cut(&self, shape: &[usize]) -> Vec<VariableShard> {
        let mut shards = vec![VariableShard { ranges: Vec::new() }];
        for (extent, pieces) in shape.iter().zip(&self.pieces) {
            let piece = |index: usize| self.edge(*extent, *pieces, index)..self.edge(*extent, *pieces, index + 1);
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
        let join = |numbers: Vec<String>, by: &str| numbers.join(by);
        write!(formatter, "{}", join(self.pieces.iter().map(ToString::to_string).collect(), "×"))?;
        if !self.shares.is_empty() {
            write!(formatter, " as {}", join(self.shares.iter().map(ToString::to_string).collect(), ":"))?;
        }
        Ok(())
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
            let partitioning = Partitioning::equal(cuts);
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
    fn shares_are_in_proportion_and_never_empty() {
        let variable = VariableSpec::dense("v", [3, 1000]);
        let cut = Partitioning::in_shares(&variable, 1, &[3, 1, 6]).unwrap();
        let columns: Vec<usize> = cut.cut(&variable.shape).iter().map(|shard| shard.ranges[1].len()).collect();
        assert_eq!((columns, cut.to_string().as_str()), (vec![300, 100, 600], "1×3 as 3:1:6"));
        let file = serde_json::to_string(&cut).unwrap();
        assert_eq!(file, r#"{"pieces":[1,3],"shares":[3,1,6]}"#);
        assert_eq!(serde_json::from_str::<Partitioning>(&file).unwrap(), cut);
        assert_eq!(serde_json::to_string(&Partitioning::equal(vec![1, 3])).unwrap(), "[1,3]");
        assert_eq!(Partitioning::in_shares(&variable, 0, &[5, 1, 5]), None, "a row for each, but none for the second");
        assert_eq!(Partitioning::in_shares(&variable, 1, &[0, 0]), None);
        let large = Partitioning::in_shares(&variable, 1, &[u64::MAX / 2, u64::MAX / 2]).unwrap();
        assert_eq!(large.cut(&variable.shape)[1].ranges[1], 500..1000);
        assert_eq!(Partitioning::in_shares(&variable, 1, &[u64::MAX, 1]), None, "their sum");
        let wrong = Partitioning { pieces: vec![3, 2], shares: vec![1; 6] }.problem(&variable).unwrap();
        assert!(wrong.contains("need a single dimension"), "{wrong}");
    }

    #[test]
    fn misfits_are_reported() {
        let variable = VariableSpec::dense("v", [3, 4]);
        let problem = |cuts: &[usize]| Partitioning::equal(cuts.to_vec()).problem(&variable).unwrap();
        assert!(problem(&[2]).contains("names 1 dimensions, and its shape [3, 4] has 2"));
        assert!(problem(&[1, 5]).contains("dimension 1 has 4 elements and cannot be cut into 5 pieces"));
        assert!(problem(&[0, 1]).contains("dimension 0"));
    }
}
