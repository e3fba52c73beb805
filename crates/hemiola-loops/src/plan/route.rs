//! Route of time blocks through parts and peers, as one peer sees it: a pure function of the cuts.
//!
//! Each time block visits the parts one after the other; its *stage* is the number of visits it has
//! had. A part that has its block at the right stage runs it and passes it on, to the next part of
//! the same peer or, from the last part there, to the next peer of the ring. In a rotation blocks
//! move to ever lower parts and, from the first, to the last; in a wavefront to ever higher parts.
//!
//! The run time follows the route on threads and sockets; a simulation can follow it in virtual
//! time.
//!
//! **Invariant:** every peer sends every time block once and receives every time block once, in an
//! order that both ends know.

use super::{Cuts, LoopBlock, LoopSchedule, steps, visit};
use hemiola_core::Rank;
use std::collections::VecDeque;
use std::ops::Range;

/// Route of time blocks, from the view of one peer.
#[derive(Clone, Debug)]
pub struct BlockRoute<'c> {
    cuts: &'c Cuts,
    me: Rank,
    peers: usize,
}

impl<'c> BlockRoute<'c> {
    /// Route as seen by peer `me` of `peers` peers.
    #[must_use]
    pub fn new(cuts: &'c Cuts, me: Rank, peers: usize) -> Self {
        Self { cuts, me, peers }
    }

    /// Parts that this peer runs.
    #[must_use]
    pub fn parts(&self) -> Range<usize> {
        self.cuts.parts_of(self.me)
    }

    /// Number of steps of a pass.
    #[must_use]
    pub fn steps(&self) -> usize {
        steps(self.cuts)
    }

    /// Block that a part runs in a step, with the stage its time block must have reached. `None` if
    /// the part is idle in this step.
    #[must_use]
    pub fn visit(&self, part: usize, step: usize) -> Option<(LoopBlock, usize)> {
        visit(self.cuts, part, step)
    }

    /// True if time blocks move between peers.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.cuts.peers_used > 1 && self.cuts.schedule != LoopSchedule::Independent
    }

    /// Stage of a time block on this peer at the start of a pass; `usize::MAX` if it is on another
    /// peer.
    #[must_use]
    pub fn initial_stage(&self, time: usize) -> usize {
        let parts = self.parts();
        let is_here = match self.cuts.schedule {
            // On its home peer a block waits for its first visit; other peers expect its arrival.
            LoopSchedule::Rotation { ratio } => parts.contains(&(time / ratio)),
            LoopSchedule::Wavefront => parts.start == 0,
            LoopSchedule::Independent => true,
        };
        if is_here { 0 } else { usize::MAX }
    }

    /// True if a block moves to another peer after a part of this one has run it.
    #[must_use]
    pub fn sends_after(&self, part: usize) -> bool {
        let parts = self.parts();
        match self.cuts.schedule {
            LoopSchedule::Independent => false,
            LoopSchedule::Wavefront => part + 1 == parts.end,
            LoopSchedule::Rotation { .. } => part == parts.start,
        }
    }

    fn neighbour(&self, ahead: bool) -> Rank {
        Rank::new(((self.me.index() + if ahead { 1 } else { self.peers - 1 }) % self.peers) as u32)
    }

    /// Peer that this one sends blocks to.
    #[must_use]
    pub fn receiver(&self) -> Rank {
        self.neighbour(self.cuts.schedule == LoopSchedule::Wavefront)
    }

    /// Peer that this one receives blocks from.
    #[must_use]
    pub fn sender(&self) -> Rank {
        self.neighbour(self.cuts.schedule != LoopSchedule::Wavefront)
    }

    /// Time blocks that arrive at this peer, in order, with the stage of each on arrival.
    #[must_use]
    pub fn arrivals(&self) -> VecDeque<(usize, usize)> {
        let (parts, times) = (self.parts(), self.cuts.times());
        match self.cuts.schedule {
            _ if !self.is_ring() => VecDeque::new(),
            LoopSchedule::Rotation { ratio } => {
                let top = parts.end - 1;
                (ratio..times + ratio).map(|step| ((ratio * top + step) % times, step / ratio)).collect()
            }
            // The first peer receives blocks that all parts have run.
            _ if parts.start == 0 => (0..times).map(|time| (time, self.cuts.parts())).collect(),
            _ => (0..times).map(|time| (time, parts.start)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(parts: usize, times: usize, peers: usize, schedule: LoopSchedule) -> Cuts {
        let bounds = |count: usize| (0..=count as u64).collect();
        Cuts { space: bounds(parts), time: bounds(times), skew: None, peers_used: peers, schedule }
    }

    #[test]
    fn blocks_arrive_in_the_order_in_which_they_are_sent() {
        for (peers, share, ratio) in [(2, 1, 1), (3, 1, 2), (2, 3, 2), (4, 2, 3)] {
            let parts = peers * share;
            for schedule in [LoopSchedule::Rotation { ratio }, LoopSchedule::Wavefront] {
                let cuts = cuts(parts, ratio * parts, peers, schedule);
                for me in Rank::all(peers) {
                    let here = BlockRoute::new(&cuts, me, peers);
                    let there = BlockRoute::new(&cuts, here.receiver(), peers);
                    assert_eq!(there.sender(), me);
                    let leaving = here.parts().find(|part| here.sends_after(*part)).unwrap();
                    let sent = (0..here.steps()).filter_map(|step| here.visit(leaving, step));
                    let sent: Vec<usize> = sent.map(|(block, _)| block.time).collect();
                    let due: Vec<usize> = there.arrivals().into_iter().map(|(time, _)| time).collect();
                    assert_eq!(sent, due, "{schedule:?} of {peers} peers");
                }
            }
        }
    }
}
