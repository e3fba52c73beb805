//! Ring: the route of blocks around positions that run them, as pure functions.
//!
//! Positions are workers (or parts of a loop), in order. Every block has a *home* position, and
//! blocks are numbered through: first those of position 0, then those of position 1. In a
//! *rotation* a block runs at its home, then at each following position, and is at home again at
//! the end. Its *stage* is the number of visits it has had. A position runs its own blocks first,
//! then those of the position before it, then those of the one before that:
//!
//! ```text
//!   3 positions, 2 blocks each, to lower      visit   0  1  2  3  4  5
//!                                    position 0       0  1  2  3  4  5
//!                                    position 1       2  3  4  5  0  1
//!                                    position 2       4  5  0  1  2  3
//! ```
//!
//! | schedule | ring |
//! |---|---|
//! | rotation of a loop | to lower positions, the same number of blocks at every part |
//! | wavefront of a loop | to higher positions, all blocks at home at the first part |
//! | independent parts of a loop | stationary, one block at every part |
//! | `RotationScheduler` | to higher positions, any number of blocks |
//!
//! The direction is part of the ring because it is part of the result: the serial order that a
//! rotation is equivalent to differs between directions.
//!
//! **Invariants:** in a rotation every block runs at every position exactly once, at one position
//! at a time, and is at home at the end. If every link preserves order, blocks arrive in the order
//! in which they run. The order is a function of the ring alone, so a rotation is bit-identical for
//! any speed of the workers.

use std::ops::Range;

/// Direction in which blocks travel around a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingDirection {
    /// To ever lower positions, and from the first to the last.
    ToLower,
    /// To ever higher positions, and from the last to the first.
    ToHigher,
    /// Blocks stay at home: the positions are independent.
    Stationary,
}

/// Ring of positions with the homes of all blocks. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    direction: RingDirection,
    /// First block of each home position; the last element is the number of all blocks.
    starts: Vec<usize>,
}

/// Visit of a block at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingVisit {
    /// Number of the block.
    pub block: usize,
    /// Number of visits that the block has had before.
    pub stage: usize,
}

impl Ring {
    /// Creates a ring with the given number of blocks at each home position.
    #[must_use]
    pub fn new(direction: RingDirection, blocks: impl IntoIterator<Item = usize>) -> Self {
        let mut starts = vec![0];
        for count in blocks {
            starts.push(starts[starts.len() - 1] + count);
        }
        Self { direction, starts }
    }

    /// Number of positions.
    #[must_use]
    pub fn size(&self) -> usize {
        self.starts.len() - 1
    }

    /// Direction of travel.
    #[must_use]
    pub fn direction(&self) -> RingDirection {
        self.direction
    }

    /// Number of all blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.starts[self.size()]
    }

    /// Blocks whose home is a position.
    #[must_use]
    pub fn blocks_of(&self, home: usize) -> Range<usize> {
        self.starts[home]..self.starts[home + 1]
    }

    /// Home position of a block.
    #[must_use]
    pub fn home_of(&self, block: usize) -> usize {
        self.starts.partition_point(|start| *start <= block) - 1
    }

    /// Position that a block visits after this one.
    #[must_use]
    pub fn next(&self, position: usize) -> usize {
        self.travel(position, 1)
    }

    /// Position that a block visits before this one.
    #[must_use]
    pub fn previous(&self, position: usize) -> usize {
        self.home_at(position, 1)
    }

    /// Home of the blocks that a position runs at a stage. At stage [`size`](Self::size) its own
    /// blocks come back.
    #[must_use]
    pub fn home_at(&self, position: usize, stage: usize) -> usize {
        self.travel(position, self.size() - stage % self.size())
    }

    /// Position `distance` further in the direction of travel.
    fn travel(&self, position: usize, distance: usize) -> usize {
        let (size, distance) = (self.size(), distance % self.size());
        match self.direction {
            RingDirection::ToHigher => (position + distance) % size,
            RingDirection::ToLower => (position + size - distance) % size,
            RingDirection::Stationary => position,
        }
    }

    /// Number of visits that a position makes in a rotation.
    #[must_use]
    pub fn visits(&self, position: usize) -> usize {
        if self.direction == RingDirection::Stationary { self.blocks_of(position).len() } else { self.blocks() }
    }

    /// Visit `nth` of a position, from 0; `None` after its last one.
    #[must_use]
    pub fn visit(&self, position: usize, nth: usize) -> Option<RingVisit> {
        if nth >= self.visits(position) {
            return None;
        }
        let (size, all) = (self.size(), self.blocks());
        Some(match self.direction {
            RingDirection::Stationary => RingVisit { block: self.starts[position] + nth, stage: 0 },
            RingDirection::ToLower => {
                let block = (self.starts[position] + nth) % all;
                RingVisit { block, stage: (self.home_of(block) + size - position) % size }
            }
            RingDirection::ToHigher => {
                // Homes come in descending order: from this position to 0, then from the last one.
                let until_first = self.starts[position + 1];
                let (top, nth) = if nth < until_first { (until_first, nth) } else { (all, nth - until_first) };
                let home = self.home_of(top - nth - 1);
                let block = self.starts[home] + nth - (top - self.starts[home + 1]);
                RingVisit { block, stage: (position + size - home) % size }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIRECTIONS: [RingDirection; 3] = [RingDirection::ToLower, RingDirection::ToHigher, RingDirection::Stationary];

    /// Visits of a position by the definition: own blocks, then those of the position before it.
    fn visits(ring: &Ring, position: usize) -> Vec<RingVisit> {
        let stages = if ring.direction() == RingDirection::Stationary { 1 } else { ring.size() };
        let blocks = |stage| ring.blocks_of(ring.home_at(position, stage)).map(move |block| RingVisit { block, stage });
        (0..stages).flat_map(blocks).collect()
    }

    proptest! {
        #[test]
        fn a_position_runs_the_blocks_of_each_position_before_it(
            blocks in prop::collection::vec(0..4_usize, 1..7),
        ) {
            for direction in DIRECTIONS {
                let ring = Ring::new(direction, blocks.iter().copied());
                prop_assert_eq!(ring.size(), blocks.len());
                for position in 0..ring.size() {
                    let all: Vec<RingVisit> = (0..).map_while(|nth| ring.visit(position, nth)).collect();
                    prop_assert_eq!(all.len(), ring.visits(position));
                    prop_assert_eq!(all, visits(&ring, position));
                    prop_assert_eq!(ring.next(ring.previous(position)), position);
                    for block in ring.blocks_of(position) {
                        prop_assert_eq!(ring.home_of(block), position);
                    }
                }
            }
        }

        #[test]
        fn a_block_visits_every_position_in_the_direction_of_travel(
            blocks in prop::collection::vec(0..4_usize, 1..7),
        ) {
            for direction in [RingDirection::ToLower, RingDirection::ToHigher] {
                let ring = Ring::new(direction, blocks.iter().copied());
                for block in 0..ring.blocks() {
                    let mut position = ring.home_of(block);
                    for stage in 0..ring.size() {
                        let visit = RingVisit { block, stage };
                        prop_assert!(visits(&ring, position).contains(&visit));
                        position = ring.next(position);
                    }
                    prop_assert_eq!(position, ring.home_of(block));
                }
            }
        }
    }

    #[test]
    fn blocks_move_to_lower_or_higher_positions() {
        let order = |direction, position| -> Vec<usize> {
            let ring = Ring::new(direction, [1, 2, 0, 1]);
            (0..4).filter_map(|nth| ring.visit(position, nth)).map(|visit| visit.block).collect()
        };
        assert_eq!(order(RingDirection::ToLower, 1), [1, 2, 3, 0]);
        assert_eq!(order(RingDirection::ToHigher, 1), [1, 2, 0, 3]);
        assert_eq!(order(RingDirection::ToHigher, 2), [1, 2, 0, 3]);
        assert_eq!(order(RingDirection::Stationary, 1), [1, 2]);
    }
}
