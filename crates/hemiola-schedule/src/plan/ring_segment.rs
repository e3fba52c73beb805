//! Segment of a ring: the neighbouring positions of one node, such as the workers of a peer.
//!
//! Inside a segment blocks move from position to position without messages. They leave it after the
//! *exit*, its last position in the direction of travel, and arrive at the *entry*, its first one.
//!
//! **Invariant:** unless a segment is the whole ring, it sends every block once in a rotation and
//! receives every block once, in an order that both ends know: the order in which the entry runs
//! them, then the entry's own blocks, which are home.

use super::ring::{Ring, RingDirection, RingVisit};
use std::ops::Range;
use std::sync::Arc;

/// Neighbouring positions of a ring. See the [module](self).
#[derive(Clone, Debug)]
pub struct RingSegment {
    ring: Arc<Ring>,
    positions: Range<usize>,
}

impl RingSegment {
    /// Creates the segment of some positions; of none for a node that takes no part.
    #[must_use]
    pub fn new(ring: Arc<Ring>, positions: Range<usize>) -> Self {
        Self { ring, positions }
    }

    /// Ring that this is a segment of.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Positions of this segment.
    #[must_use]
    pub fn positions(&self) -> Range<usize> {
        self.positions.clone()
    }

    /// Returns whether blocks leave this segment and arrive from others.
    #[must_use]
    pub fn has_links(&self) -> bool {
        let all = self.ring.size();
        self.ring.direction() != RingDirection::Stationary && !self.positions.is_empty() && self.positions.len() < all
    }

    /// Returns whether the home of a block is in this segment.
    #[must_use]
    pub fn is_home(&self, block: usize) -> bool {
        self.positions.contains(&self.ring.home_of(block))
    }

    /// Blocks whose home is in this segment.
    #[must_use]
    pub fn home_blocks(&self) -> Range<usize> {
        let first = |position: usize| {
            if position == self.ring.size() { self.ring.blocks() } else { self.ring.blocks_of(position).start }
        };
        first(self.positions.start)..first(self.positions.end)
    }

    /// Position at which blocks arrive.
    fn entry(&self) -> usize {
        if self.moves_to_lower() { self.positions.end - 1 } else { self.positions.start }
    }

    /// Position after which blocks leave.
    fn exit(&self) -> usize {
        if self.moves_to_lower() { self.positions.start } else { self.positions.end - 1 }
    }

    fn moves_to_lower(&self) -> bool {
        self.ring.direction() == RingDirection::ToLower
    }

    /// Position of another segment from which blocks arrive.
    #[must_use]
    pub fn source(&self) -> usize {
        self.ring.previous(self.entry())
    }

    /// Position of another segment to which blocks leave.
    #[must_use]
    pub fn destination(&self) -> usize {
        self.ring.next(self.exit())
    }

    /// Returns whether blocks leave this segment after a position has run them.
    #[must_use]
    pub fn leaves_after(&self, position: usize) -> bool {
        self.has_links() && position == self.exit()
    }

    /// Arrival `nth` of a rotation, from 0, with the stage of the block; `None` after the last one.
    #[must_use]
    pub fn arrival(&self, nth: usize) -> Option<RingVisit> {
        if !self.has_links() {
            return None;
        }
        let (entry, all) = (self.entry(), self.ring.blocks());
        let own = self.ring.blocks_of(entry);
        let after_own = nth + own.len();
        self.ring.visit(entry, after_own).or_else(|| {
            let home = after_own - all;
            (home < own.len()).then(|| RingVisit { block: own.start + home, stage: self.ring.size() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Cuts a ring into segments of the given lengths.
    fn segments(ring: &Arc<Ring>, lengths: &[usize]) -> Vec<RingSegment> {
        let mut start = 0;
        let segment = |length: &usize| {
            start += length;
            RingSegment::new(Arc::clone(ring), start - length..start)
        };
        lengths.iter().map(segment).collect()
    }

    proptest! {
        #[test]
        fn blocks_arrive_in_the_order_in_which_they_leave(
            lengths in prop::collection::vec(1..4_usize, 2..5),
            blocks in prop::collection::vec(0..4_usize, 15),
        ) {
            let size: usize = lengths.iter().sum();
            for direction in [RingDirection::ToLower, RingDirection::ToHigher] {
                let ring = Arc::new(Ring::new(direction, blocks[..size].iter().copied()));
                let all = segments(&ring, &lengths);
                for here in &all {
                    let there = all.iter().find(|there| there.positions().contains(&here.destination())).unwrap();
                    prop_assert!(here.positions().contains(&there.source()));
                    let exit = here.positions().find(|position| here.leaves_after(*position)).unwrap();
                    let left: Vec<RingVisit> = (0..).map_while(|nth| ring.visit(exit, nth)).collect();
                    let arrived: Vec<RingVisit> = (0..).map_while(|nth| there.arrival(nth)).collect();
                    let left: Vec<_> = left.iter().map(|visit| (visit.block, visit.stage + 1)).collect();
                    let arrived: Vec<_> = arrived.iter().map(|visit| (visit.block, visit.stage)).collect();
                    prop_assert_eq!(left, arrived);
                }
            }
        }
    }

    #[test]
    fn blocks_stay_on_a_whole_ring_and_on_a_stationary_one() {
        let whole = RingSegment::new(Arc::new(Ring::new(RingDirection::ToLower, [2, 1])), 0..2);
        let ring = Arc::new(Ring::new(RingDirection::Stationary, [2, 1]));
        let stationary = RingSegment::new(Arc::clone(&ring), 1..2);
        for segment in [whole, stationary.clone(), RingSegment::new(ring, 2..2)] {
            assert!(!segment.has_links());
            assert_eq!(segment.arrival(0), None);
        }
        assert_eq!(stationary.home_blocks(), 2..3);
    }
}
