//! Route of time blocks through parts and peers, as one peer sees it: a pure function of the cuts.
//!
//! The parts of a loop are the positions of a [`Ring`], and its time blocks travel around it. A
//! part that has its time block at the right stage runs it and passes it on, to the next part of
//! the same peer or, from the last part there, to the next peer of the ring. A rotation moves
//! blocks to lower parts. A wavefront moves them to higher parts, and all blocks are at home at the
//! first part. Independent parts have a block each, which stays.
//!
//! The run time follows the route on threads and sockets, and the simulator in virtual time.
//!
//! **Invariant:** every peer sends every time block once and receives every time block once, in an
//! order that both ends know. The order of blocks is the one of
//! [`block_order`](hemiola_analysis::block_order), which is proved there.

use super::{Cuts, LoopBlock, LoopSchedule, steps};
use hemiola_core::Rank;
use hemiola_schedule::plan::ring::{Ring, RingDirection, RingVisit};
use hemiola_schedule::plan::ring_segment::RingSegment;
use std::iter::{once, repeat_n};
use std::ops::Range;
use std::sync::Arc;

/// Route of time blocks, from the view of one peer.
#[derive(Clone, Debug)]
pub struct BlockRoute {
    schedule: LoopSchedule,
    steps: usize,
    segment: RingSegment,
    /// Peers before and after this one on the ring.
    sender: Rank,
    receiver: Rank,
}

impl BlockRoute {
    /// Route as seen by peer `me`.
    #[must_use]
    pub fn new(cuts: &Cuts, me: Rank) -> Self {
        let parts = cuts.parts();
        let ring = match cuts.schedule {
            LoopSchedule::Rotation { ratio } => Ring::new(RingDirection::ToLower, repeat_n(ratio, parts)),
            LoopSchedule::Wavefront => {
                Ring::new(RingDirection::ToHigher, once(cuts.times()).chain(repeat_n(0, parts - 1)))
            }
            LoopSchedule::Independent => Ring::new(RingDirection::Stationary, repeat_n(1, parts)),
        };
        let segment = RingSegment::new(Arc::new(ring), cuts.parts_of(me));
        let (sender, receiver) = if segment.has_links() {
            (cuts.owner(segment.source()), cuts.owner(segment.destination()))
        } else {
            (me, me)
        };
        Self { schedule: cuts.schedule, steps: steps(cuts), segment, sender, receiver }
    }

    /// Parts of this peer, as positions of the ring of all parts.
    #[must_use]
    pub fn segment(&self) -> &RingSegment {
        &self.segment
    }

    /// Parts that this peer runs.
    #[must_use]
    pub fn parts(&self) -> Range<usize> {
        self.segment.positions()
    }

    /// Number of steps of a pass.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Block that any part runs in a step, with the stage its time block must have reached. `None`
    /// if the part is idle in this step.
    #[must_use]
    pub fn visit(&self, part: usize, step: usize) -> Option<(LoopBlock, usize)> {
        // In a wavefront a part starts one step after the part before it.
        let nth = if self.schedule == LoopSchedule::Wavefront { step.checked_sub(part)? } else { step };
        let visit = self.segment.ring().visit(part, nth)?;
        Some((self.loop_block(part, visit), visit.stage))
    }

    /// Block of the loop that a visit of the ring stands for.
    #[must_use]
    pub fn loop_block(&self, part: usize, visit: RingVisit) -> LoopBlock {
        LoopBlock { part, time: if self.schedule == LoopSchedule::Independent { 0 } else { visit.block } }
    }

    /// Stage of a time block on this peer at the start of a pass; `usize::MAX` if it is on another
    /// peer.
    #[must_use]
    pub fn initial_stage(&self, time: usize) -> usize {
        // On its home peer a block waits for its first visit; other peers expect its arrival.
        let is_here = self.schedule == LoopSchedule::Independent || self.segment.is_home(time);
        if is_here { 0 } else { usize::MAX }
    }

    /// Peer that this one sends blocks to; itself if no blocks leave.
    #[must_use]
    pub fn receiver(&self) -> Rank {
        self.receiver
    }

    /// Peer that this one receives blocks from; itself if none arrive.
    #[must_use]
    pub fn sender(&self) -> Rank {
        self.sender
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_analysis::block_order::{rotation_block, rotation_first_part, rotation_steps, wavefront_step};

    fn cuts(parts: usize, times: usize, peers: usize, schedule: LoopSchedule) -> Cuts {
        let bounds = |count: usize| (0..=count).collect();
        Cuts { space: bounds(parts), time: bounds(times), skew: None, peers_used: peers, schedule }
    }

    #[test]
    fn the_ring_has_the_block_order_of_the_analysis() {
        for (parts, ratio) in (1..=5).flat_map(|parts| (1..=3).map(move |ratio| (parts, ratio))) {
            let times = ratio * parts;
            let rotation = BlockRoute::new(&cuts(parts, times, 1, LoopSchedule::Rotation { ratio }), Rank::ROOT);
            assert_eq!(rotation.steps(), rotation_steps(ratio, parts));
            for (part, step) in (0..parts).flat_map(|part| (0..rotation.steps()).map(move |step| (part, step))) {
                let block = LoopBlock { part, time: rotation_block(part, step, ratio, parts) };
                assert_eq!(rotation.visit(part, step), Some((block, step / ratio)));
                assert_eq!(rotation.segment().ring().home_of(block.time), rotation_first_part(block.time, ratio));
            }
            let wavefront = BlockRoute::new(&cuts(parts, times, 1, LoopSchedule::Wavefront), Rank::ROOT);
            for (part, time) in (0..parts).flat_map(|part| (0..times).map(move |time| (part, time))) {
                let block = LoopBlock { part, time };
                assert_eq!(wavefront.visit(part, wavefront_step(block)), Some((block, part)));
            }
            let blocks = (0..wavefront.steps()).flat_map(|step| (0..parts).map(move |part| (part, step)));
            assert_eq!(blocks.filter_map(|(part, step)| wavefront.visit(part, step)).count(), parts * times);
            let independent = BlockRoute::new(&cuts(parts, 1, 1, LoopSchedule::Independent), Rank::ROOT);
            for part in 0..parts {
                assert_eq!(independent.visit(part, 0), Some((LoopBlock { part, time: 0 }, 0)));
            }
        }
    }

    #[test]
    fn blocks_move_to_lower_peers_in_a_rotation_and_to_higher_ones_in_a_wavefront() {
        for (peers, share, ratio) in [(2, 1, 1), (3, 1, 2), (2, 3, 2), (4, 2, 3)] {
            let parts = peers * share;
            for schedule in [LoopSchedule::Rotation { ratio }, LoopSchedule::Wavefront] {
                let cuts = cuts(parts, ratio * parts, peers, schedule);
                for me in Rank::all(peers) {
                    let route = BlockRoute::new(&cuts, me);
                    let ahead = if schedule == LoopSchedule::Wavefront { 1 } else { peers - 1 };
                    assert_eq!(route.receiver(), Rank::new(((me.index() + ahead) % peers) as u32));
                    assert_eq!(BlockRoute::new(&cuts, route.receiver()).sender(), me);
                    let at_home = (0..ratio * parts).filter(|time| route.initial_stage(*time) == 0).count();
                    let home_peers = if schedule == LoopSchedule::Wavefront { me == Rank::ROOT } else { true };
                    assert_eq!(at_home > 0, home_peers);
                }
            }
        }
        let alone = BlockRoute::new(&cuts(2, 4, 1, LoopSchedule::Rotation { ratio: 2 }), Rank::new(1));
        assert!(alone.parts().is_empty() && !alone.segment().has_links());
    }
}
