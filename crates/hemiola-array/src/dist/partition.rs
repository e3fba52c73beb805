//! Partitioning of an array: the specification by a program, and the layout that peers compute from
//! the data.

use crate::{Histogram, Partitioner, Shape};
use hemiola_core::{Rank, Seed};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Method that assigns the indices of a dimension to parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PartitionMethod {
    /// Ranges of equal length.
    Range,
    /// Ranges with nearly equal numbers of entries.
    Balanced,
    /// Parts by a hash of the index.
    Hash {
        /// Seed of the hash function.
        seed: u64,
    },
}

/// Requested partitioning: dimensions, methods and numbers of parts.
///
/// ```
/// use hemiola_array::dist::{PartitionSpec, PartitionMethod};
/// // By user, balanced, two parts per worker; and by item into as many parts.
/// let partition = PartitionSpec::along(0).parts_per_worker(2).and_along(1, PartitionMethod::Balanced);
/// # let _ = partition;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct PartitionSpec {
    pub(crate) space: (usize, PartitionMethod),
    pub(crate) parts_per_worker: usize,
    pub(crate) time: Option<(usize, PartitionMethod)>,
    pub(crate) time_parts: Option<usize>,
}

impl Default for PartitionSpec {
    /// Along the first dimension, balanced, one part per worker.
    fn default() -> Self {
        Self::along(0)
    }
}

impl PartitionSpec {
    /// Partitions along `dimension`, balanced, one part per worker.
    pub fn along(dimension: usize) -> Self {
        Self { space: (dimension, PartitionMethod::Balanced), parts_per_worker: 1, time: None, time_parts: None }
    }

    /// Sets the method of the first partitioned dimension. Default: balanced.
    pub fn method(mut self, method: PartitionMethod) -> Self {
        self.space.1 = method;
        self
    }

    /// Sets the number of parts per worker. Default: 1. More parts even out the load that a
    /// partition into few parts cannot.
    ///
    /// # Panics
    /// Panics if `parts` is 0.
    pub fn parts_per_worker(mut self, parts: usize) -> Self {
        assert!(parts > 0, "a worker has at least one part");
        self.parts_per_worker = parts;
        self
    }

    /// Partitions along a second dimension too: each part becomes a row of blocks.
    pub fn and_along(mut self, dimension: usize, method: PartitionMethod) -> Self {
        self.time = Some((dimension, method));
        self
    }

    /// Sets the number of blocks per row. Default: the number of parts along the first dimension.
    ///
    /// # Panics
    /// Panics if `parts` is 0.
    pub fn time_parts(mut self, parts: usize) -> Self {
        assert!(parts > 0, "a row has at least one block");
        self.time_parts = Some(parts);
        self
    }

    /// Dimensions that need a histogram.
    pub(crate) fn balanced_dimensions(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.space)
            .chain(self.time)
            .filter(|(_, method)| *method == PartitionMethod::Balanced)
            .map(|(dimension, _)| dimension)
    }

    /// Layout for a dense array, if the specification is possible for one.
    pub(crate) fn row_layout<const N: usize>(
        &self,
        shape: Shape<N>,
        peers: usize,
        workers: usize,
    ) -> Option<ArrayLayout> {
        let ranges = self.space.0 == 0
            && matches!(self.space.1, PartitionMethod::Range | PartitionMethod::Balanced)
            && self.time.is_none();
        let partitioner = Partitioner::equal(shape.extent(0), peers * workers * self.parts_per_worker);
        ranges.then_some(ArrayLayout { space: PartitionedDimension { dimension: 0, partitioner }, time: None, peers })
    }

    /// Computes the layout. `histogram` is called for balanced dimensions only.
    pub(crate) fn resolve<const N: usize>(
        &self,
        shape: Shape<N>,
        peers: usize,
        workers: usize,
        histogram: impl Fn(usize) -> Histogram,
    ) -> ArrayLayout {
        let partitioned = |(dimension, method): (usize, PartitionMethod), parts: usize| {
            let extent = shape.extent(dimension);
            let partitioner = match method {
                PartitionMethod::Range => Partitioner::equal(extent, parts),
                PartitionMethod::Balanced => Partitioner::balanced(&histogram(dimension), parts),
                PartitionMethod::Hash { seed } => Partitioner::hashed(extent, parts, Seed(seed)),
            };
            PartitionedDimension { dimension, partitioner }
        };
        let parts = peers * workers * self.parts_per_worker;
        ArrayLayout {
            space: partitioned(self.space, parts),
            time: self.time.map(|time| partitioned(time, self.time_parts.unwrap_or(parts))),
            peers,
        }
    }
}

/// Dimension with its partitioner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionedDimension {
    /// Index of the dimension.
    pub dimension: usize,
    /// Assignment of its indices to parts.
    pub partitioner: Partitioner,
}

/// Layout of an array over peers, identical on every peer.
///
/// Consecutive shares of parts along *space* belong to peers. Along *time*, each part is a row of
/// blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayLayout {
    /// The dimension distributed over peers and workers.
    pub space: PartitionedDimension,
    /// The second partitioned dimension, if any.
    pub time: Option<PartitionedDimension>,
    /// Number of peers that own parts.
    pub peers: usize,
}

impl ArrayLayout {
    /// Number of parts along space.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.space.partitioner.parts()
    }

    /// Number of blocks in each part.
    #[must_use]
    pub fn blocks_per_part(&self) -> usize {
        self.time.as_ref().map_or(1, |time| time.partitioner.parts())
    }

    /// Parts that `peer` owns.
    #[must_use]
    pub fn parts_of(&self, peer: Rank) -> Range<usize> {
        let share = self.parts() / self.peers;
        peer.index() * share..(peer.index() + 1) * share
    }

    /// Peer that owns a part.
    #[must_use]
    pub fn owner(&self, part: usize) -> Rank {
        Rank::new((part / (self.parts() / self.peers)) as u32)
    }

    /// Layout of a dense array with all rows in one block, on the first peer.
    #[must_use]
    pub fn single_block(extent: usize, peers: usize) -> Self {
        Self::one_block_per_peer(&std::iter::once(extent).chain((1..peers).map(|_| 0)).collect::<Vec<_>>())
    }

    /// Layout of a dense array with one block of consecutive rows per peer; `rows[p]` is the number
    /// of rows of peer `p`.
    ///
    /// # Panics
    /// Panics if `rows` is empty.
    #[must_use]
    pub fn one_block_per_peer(rows: &[usize]) -> Self {
        let bounds = std::iter::once(0).chain(rows.iter().scan(0, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        Self {
            space: PartitionedDimension { dimension: 0, partitioner: Partitioner::from_bounds(bounds.collect()) },
            time: None,
            peers: rows.len(),
        }
    }

    /// Rows of a dense array that `peer` owns; `None` if its parts are not ranges.
    #[must_use]
    pub fn rows_of(&self, peer: Rank) -> Option<Range<usize>> {
        let mut parts = self.parts_of(peer).map(|part| self.space.partitioner.range(part));
        let (first, last) = (parts.next()??, parts.next_back());
        Some(first.start..last.flatten().map_or(first.end, |last| last.end))
    }

    /// Returns true if each peer owns the same rows of a dense array under both layouts, regardless
    /// of the blocks.
    #[must_use]
    pub fn assigns_same_rows(&self, other: &Self) -> bool {
        let rows = |layout: &Self, peer| layout.rows_of(peer).map(|rows| if rows.is_empty() { 0..0 } else { rows });
        self == other
            || self.peers == other.peers
                && self.space.dimension == other.space.dimension
                && Rank::all(self.peers).all(|peer| rows(self, peer).is_some() && rows(self, peer) == rows(other, peer))
    }

    /// Number of the block of a key, counted over the whole array: part by part, time inside.
    #[must_use]
    pub fn block_of<const N: usize>(&self, key: [usize; N]) -> usize {
        let part = self.space.partitioner.part_of(key[self.space.dimension]);
        let time = self.time.as_ref().map_or(0, |time| time.partitioner.part_of(key[time.dimension]));
        part * self.blocks_per_part() + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_owner_and_peers_hold_equal_shares() {
        let shape = Shape::new([100, 40]);
        let partition = PartitionSpec::along(0)
            .method(PartitionMethod::Range)
            .parts_per_worker(2)
            .and_along(1, PartitionMethod::Hash { seed: 3 })
            .time_parts(5);
        let layout = partition.resolve(shape, 3, 2, |_| unreachable!("no dimension is balanced"));
        assert_eq!((layout.parts(), layout.blocks_per_part()), (12, 5));
        let all: Vec<usize> = Rank::all(3).flat_map(|peer| layout.parts_of(peer)).collect();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
        for peer in Rank::all(3) {
            assert!(layout.parts_of(peer).all(|part| layout.owner(part) == peer));
        }
        assert!((0..100).flat_map(|row| (0..40).map(move |column| [row, column])).all(|key| layout.block_of(key) < 60));
    }
}
