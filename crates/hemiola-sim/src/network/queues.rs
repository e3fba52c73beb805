//! Interfaces and uplinks as queues: one message after the other.
//!
//! The first byte of a message goes on while the last is still coming (cut-through), so a message alone takes latency plus bytes over the narrowest bandwidth. The control lane does
//! not wait: its messages are small, and connections share. Constant work for each message and thing it passes, however many peers there are.

use super::{Way, Ways};
use crate::describe::Description;
use crate::units::Rate;
use hemiola_core::Lane;

/// When each thing is free.
#[derive(Debug)]
pub(crate) struct Queues {
    out: Vec<u64>,
    into: Vec<u64>,
    /// Rack of each peer, if there are several.
    racks: Option<(usize, Rate, u64)>,
    up: Vec<u64>,
    down: Vec<u64>,
}

/// What comes next for a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Its first byte reaches the next thing then.
    Head(u64),
    /// It is there then.
    There(u64),
}

impl Queues {
    pub(crate) fn new(description: &Description) -> Self {
        let racks = description.racks.filter(|racks| racks.peers < description.peers);
        let count = racks.map_or(0, |racks| description.peers.div_ceil(racks.peers));
        Self {
            out: vec![0; description.peers],
            into: vec![0; description.peers],
            racks: racks.map(|racks| (racks.peers, racks.uplink, racks.latency.nanos())),
            up: vec![0; count],
            down: vec![0; count],
        }
    }

    /// A message begins its way.
    pub(crate) fn send(&mut self, now: u64, way: &mut Way, ways: &mut Ways) -> Next {
        let takes = ways.overhead() + ways.occupancy(way.from, now, way.load);
        let begins = pass(&mut self.out[way.from as usize], now, takes, way.lane);
        let leaves = begins + ways.overhead();
        let propagation = ways.propagation(way, leaves);
        way.left = leaves;
        way.tail = begins + takes + propagation;
        Next::Head(ways.head_in_order(way, leaves + propagation))
    }

    /// The first byte of a message reaches the next thing.
    pub(crate) fn hop(&mut self, now: u64, way: &mut Way, ways: &mut Ways) -> Next {
        if let Some((peers, uplink, latency)) = self.racks
            && way.hop < 2
        {
            let (from, to) = (way.from as usize / peers, way.to as usize / peers);
            if from != to {
                let takes = uplink.span_of(way.load).nanos();
                let (link, then) = if way.hop == 0 { (&mut self.up[from], latency) } else { (&mut self.down[to], 0) };
                let begins = pass(link, now, takes, way.lane);
                way.tail = way.tail.max(begins + takes) + then;
                way.hop += 1;
                return Next::Head(begins + then);
            }
        }
        let takes = ways.occupancy(way.to, now, way.load);
        let begins = pass(&mut self.into[way.to as usize], now, takes, way.lane);
        let end = (begins + takes).max(way.tail);
        // What waits in queues keeps its order there.
        let keeps = way.lane == Lane::Bulk && ways.is_steady();
        Next::There(if keeps { end } else { ways.in_order(way, end) })
    }
}

/// When a message begins to pass, after those before it unless it is on the control lane.
fn pass(free: &mut u64, now: u64, takes: u64, lane: Lane) -> u64 {
    let begins = if lane == Lane::Control { now } else { now.max(*free) };
    *free = now.max(*free) + takes;
    begins
}
