//! The way of time blocks through parts and peers, as one peer sees it: a function of the cuts alone.
//!
//! Each block of time visits the parts one after the other; its *stage* is the number of visits it has had. A part that has its block at the right stage runs it and hands it on, to the next part of the
//! same peer or, if it is the last there, to the next peer of the ring. In a rotation blocks go to ever lower parts and, from the first, to the last; in a wavefront to ever higher ones.
//!
//! The run time follows this on threads and sockets; a simulation can follow it in virtual time. **Invariant:** every peer sends every time block once and receives every
//! time block once, in an order that both ends know.

use super::{Block, Cuts, Schedule, steps, visit};
use hemiola_core::Rank;
use std::collections::VecDeque;
use std::ops::Range;

/// The way of blocks, from one of the peers.
#[derive(Clone, Debug)]
pub struct Route<'c> {
    cuts: &'c Cuts,
    me: Rank,
    peers: usize,
}

impl<'c> Route<'c> {
    /// As peer `me` of so many sees it.
    #[must_use]
    pub fn new(cuts: &'c Cuts, me: Rank, peers: usize) -> Self {
        Self { cuts, me, peers }
    }

    /// The parts that this peer runs.
    #[must_use]
    pub fn parts(&self) -> Range<usize> {
        self.cuts.parts_of(self.me)
    }

    /// How many steps a pass has.
    #[must_use]
    pub fn steps(&self) -> usize {
        steps(self.cuts)
    }

    /// The block that a part runs in a step, with the stage its time block must have come to; `None` if it rests.
    #[must_use]
    pub fn visit(&self, part: usize, step: usize) -> Option<(Block, usize)> {
        visit(self.cuts, part, step)
    }

    /// Whether time blocks go from peer to peer.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.cuts.peers_used > 1 && self.cuts.schedule != Schedule::Independent
    }

    /// The stage of a time block here when a pass begins; `usize::MAX` if it is elsewhere.
    #[must_use]
    pub fn first_stage(&self, time: usize) -> usize {
        let parts = self.parts();
        let is_here = match self.cuts.schedule {
            // At home it waits for its first visit; elsewhere it is expected.
            Schedule::Rotation { ratio } => parts.contains(&(time / ratio)),
            Schedule::Wavefront => parts.start == 0,
            Schedule::Independent => true,
        };
        if is_here { 0 } else { usize::MAX }
    }

    /// Whether a block goes to another peer after a part of this one has run it.
    #[must_use]
    pub fn leaves(&self, part: usize) -> bool {
        let parts = self.parts();
        match self.cuts.schedule {
            Schedule::Independent => false,
            Schedule::Wavefront => part + 1 == parts.end,
            Schedule::Rotation { .. } => part == parts.start,
        }
    }

    fn neighbour(&self, ahead: bool) -> Rank {
        Rank::new(((self.me.index() + if ahead { 1 } else { self.peers - 1 }) % self.peers) as u32)
    }

    /// The peer that blocks go to.
    #[must_use]
    pub fn receiver(&self) -> Rank {
        self.neighbour(self.cuts.schedule == Schedule::Wavefront)
    }

    /// The peer that blocks come from.
    #[must_use]
    pub fn sender(&self) -> Rank {
        self.neighbour(self.cuts.schedule != Schedule::Wavefront)
    }

    /// The time blocks that will come, in order, with the stage each has then.
    #[must_use]
    pub fn arrivals(&self) -> VecDeque<(usize, usize)> {
        let (parts, times) = (self.parts(), self.cuts.times());
        match self.cuts.schedule {
            _ if !self.is_ring() => VecDeque::new(),
            Schedule::Rotation { ratio } => {
                let top = parts.end - 1;
                (ratio..times + ratio).map(|step| ((ratio * top + step) % times, step / ratio)).collect()
            }
            // The first peer gets them when all parts have run them.
            _ if parts.start == 0 => (0..times).map(|time| (time, self.cuts.parts())).collect(),
            _ => (0..times).map(|time| (time, parts.start)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(parts: usize, times: usize, peers: usize, schedule: Schedule) -> Cuts {
        let bounds = |count: usize| (0..=count as u64).collect();
        Cuts { space: bounds(parts), time: bounds(times), skew: None, peers_used: peers, schedule }
    }

    #[test]
    fn what_leaves_one_peer_is_what_arrives_at_the_next() {
        for (peers, share, ratio) in [(2, 1, 1), (3, 1, 2), (2, 3, 2), (4, 2, 3)] {
            let parts = peers * share;
            for schedule in [Schedule::Rotation { ratio }, Schedule::Wavefront] {
                let cuts = cuts(parts, ratio * parts, peers, schedule);
                for me in Rank::all(peers) {
                    let here = Route::new(&cuts, me, peers);
                    let there = Route::new(&cuts, here.receiver(), peers);
                    assert_eq!(there.sender(), me);
                    let leaving = here.parts().find(|part| here.leaves(*part)).unwrap();
                    let sent = (0..here.steps()).filter_map(|step| here.visit(leaving, step));
                    let sent: Vec<usize> = sent.map(|(block, _)| block.time).collect();
                    let due: Vec<usize> = there.arrivals().into_iter().map(|(time, _)| time).collect();
                    assert_eq!(sent, due, "{schedule:?} of {peers} peers");
                }
            }
        }
    }
}
