//! How an array is divided: what a program asks for, and what the peers decide from the data.

use crate::{Cut, Histogram, Shape};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How indices of a dimension are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Way {
    /// Ranges of equal length.
    Range,
    /// Ranges with near-equal numbers of entries.
    Balanced,
    /// By a hash of the index.
    Hash {
        /// Which hash.
        seed: u64,
    },
}

/// What a program asks for: along which dimensions, in which way, into how many parts.
///
/// ```
/// use hemiola_array::dist::{Partition, Way};
/// // Cut by user, balanced, two parts per worker; and by item into as many parts as there are workers in the job.
/// let partition = Partition::along(0).parts_per_worker(2).and(1, Way::Balanced);
/// # let _ = partition;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Partition {
    pub(crate) space: (usize, Way),
    pub(crate) per_worker: usize,
    pub(crate) time: Option<(usize, Way)>,
    pub(crate) time_parts: Option<usize>,
}

impl Default for Partition {
    /// Along the first dimension, balanced, one part per worker.
    fn default() -> Self {
        Self::along(0)
    }
}

impl Partition {
    /// Along `dimension`, balanced, one part per worker.
    pub fn along(dimension: usize) -> Self {
        Self { space: (dimension, Way::Balanced), per_worker: 1, time: None, time_parts: None }
    }

    /// In another way.
    pub fn by(mut self, way: Way) -> Self {
        self.space.1 = way;
        self
    }

    /// More parts than workers, which evens out what a cut cannot.
    ///
    /// # Panics
    /// If `parts` is 0.
    pub fn parts_per_worker(mut self, parts: usize) -> Self {
        assert!(parts > 0, "a worker has at least one part");
        self.per_worker = parts;
        self
    }

    /// Along a second dimension too: each part becomes a row of blocks.
    pub fn and(mut self, dimension: usize, way: Way) -> Self {
        self.time = Some((dimension, way));
        self
    }

    /// How many blocks a row has. Default: as many as there are parts along the first dimension.
    ///
    /// # Panics
    /// If `parts` is 0.
    pub fn time_parts(mut self, parts: usize) -> Self {
        assert!(parts > 0, "a row has at least one block");
        self.time_parts = Some(parts);
        self
    }

    /// The dimensions whose histogram decides the cut.
    pub(crate) fn balanced_dimensions(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.space)
            .chain(self.time)
            .filter(|(_, way)| *way == Way::Balanced)
            .map(|(dimension, _)| dimension)
    }

    /// The layout for a dense array, if it can be divided so.
    pub(crate) fn rows<const N: usize>(&self, shape: Shape<N>, peers: usize, workers: usize) -> Option<Layout> {
        let ranges = self.space.0 == 0 && matches!(self.space.1, Way::Range | Way::Balanced) && self.time.is_none();
        let cut = Cut::equal(shape.extent(0), peers * workers * self.per_worker);
        ranges.then_some(Layout { space: Axis { dimension: 0, cut }, time: None, peers })
    }

    /// Decides the cuts. `histogram` is asked for balanced dimensions alone.
    pub(crate) fn decide<const N: usize>(
        &self,
        shape: Shape<N>,
        peers: usize,
        workers: usize,
        histogram: impl Fn(usize) -> Histogram,
    ) -> Layout {
        let axis = |(dimension, way): (usize, Way), parts: usize| {
            let extent = shape.extent(dimension);
            let cut = match way {
                Way::Range => Cut::equal(extent, parts),
                Way::Balanced => Cut::balanced(&histogram(dimension), parts),
                Way::Hash { seed } => Cut::hashed(extent, parts, seed),
            };
            Axis { dimension, cut }
        };
        let parts = peers * workers * self.per_worker;
        Layout {
            space: axis(self.space, parts),
            time: self.time.map(|time| axis(time, self.time_parts.unwrap_or(parts))),
            peers,
        }
    }
}

/// A dimension and its cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Which dimension.
    pub dimension: usize,
    /// Its parts.
    pub cut: Cut,
}

/// How an array is divided, the same on every peer.
///
/// Parts along *space* belong to peers in consecutive shares; along *time*, each part is a row of blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The dimension over peers and workers.
    pub space: Axis,
    /// The second dimension, if there is one.
    pub time: Option<Axis>,
    /// How many peers hold it.
    pub peers: usize,
}

impl Layout {
    /// Number of parts along space.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.space.cut.parts()
    }

    /// Number of blocks in each part.
    #[must_use]
    pub fn blocks_per_part(&self) -> usize {
        self.time.as_ref().map_or(1, |axis| axis.cut.parts())
    }

    /// The parts that `peer` holds.
    #[must_use]
    pub fn parts_of(&self, peer: Rank) -> Range<usize> {
        let share = self.parts() / self.peers;
        peer.index() * share..(peer.index() + 1) * share
    }

    /// The peer that holds a part.
    #[must_use]
    pub fn owner(&self, part: usize) -> Rank {
        Rank::new((part / (self.parts() / self.peers)) as u32)
    }

    /// A dense array with all its rows in one block, on the first peer.
    #[must_use]
    pub fn in_one_block(extent: u64, peers: usize) -> Self {
        Self::one_block_per_peer(&std::iter::once(extent).chain((1..peers).map(|_| 0)).collect::<Vec<_>>())
    }

    /// A dense array of which each peer holds its number of consecutive rows in one block.
    ///
    /// # Panics
    /// If there is no peer.
    #[must_use]
    pub fn one_block_per_peer(rows: &[u64]) -> Self {
        let bounds = std::iter::once(0).chain(rows.iter().scan(0, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        Self { space: Axis { dimension: 0, cut: Cut::at(bounds.collect()) }, time: None, peers: rows.len() }
    }

    /// The rows of a dense array that `peer` holds; `None` if its parts are no ranges.
    #[must_use]
    pub fn rows_of(&self, peer: Rank) -> Option<Range<u64>> {
        let mut parts = self.parts_of(peer).map(|part| self.space.cut.range(part));
        let (first, last) = (parts.next()??, parts.next_back());
        Some(first.start..last.flatten().map_or(first.end, |last| last.end))
    }

    /// Whether each peer holds the same rows of a dense array under both layouts, however they are cut into blocks.
    #[must_use]
    pub fn holds_the_same_rows(&self, other: &Self) -> bool {
        let rows = |layout: &Self, peer| layout.rows_of(peer).map(|rows| if rows.is_empty() { 0..0 } else { rows });
        self == other
            || self.peers == other.peers
                && self.space.dimension == other.space.dimension
                && Rank::all(self.peers).all(|peer| rows(self, peer).is_some() && rows(self, peer) == rows(other, peer))
    }

    /// The number of the block a key belongs to, counted over the whole array: part by part, time inside.
    #[must_use]
    pub fn block_of<const N: usize>(&self, key: [u64; N]) -> usize {
        let part = self.space.cut.part_of(key[self.space.dimension]);
        let time = self.time.as_ref().map_or(0, |axis| axis.cut.part_of(key[axis.dimension]));
        part * self.blocks_per_part() + time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_owner_and_peers_hold_equal_shares() {
        let shape = Shape::new([100, 40]);
        let partition =
            Partition::along(0).by(Way::Range).parts_per_worker(2).and(1, Way::Hash { seed: 3 }).time_parts(5);
        let layout = partition.decide(shape, 3, 2, |_| unreachable!("nothing is balanced"));
        assert_eq!((layout.parts(), layout.blocks_per_part()), (12, 5));
        let all: Vec<usize> = Rank::all(3).flat_map(|peer| layout.parts_of(peer)).collect();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
        for peer in Rank::all(3) {
            assert!(layout.parts_of(peer).all(|part| layout.owner(part) == peer));
        }
        assert!((0..100).flat_map(|row| (0..40).map(move |column| [row, column])).all(|key| layout.block_of(key) < 60));
    }
}
