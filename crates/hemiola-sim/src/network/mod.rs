//! How messages travel: what an interface, an uplink and the way between do to them.
//!
//! A message passes the interface of its sender, the uplinks of both racks if they differ, and the interface of its receiver. Messages share these either in [queues](Queues)
//! or as [flows](Flows); see [`Sharing`](crate::describe::Sharing). Between them it takes the latency, with jitter, the time to send
//! lost packets again, and as long as the two sides cannot reach each other.
//!
//! **Invariants:** nothing is lost and nothing is said twice; messages of one lane from one peer to another arrive in the order they were sent
//! (that is what connections give), messages of two lanes in any.

mod flows;
mod queues;

pub(crate) use flows::Flows;
pub(crate) use queues::{Next, Queues};

use crate::chance;
use crate::describe::{Description, Fault, Link};
use hashbrown::HashMap;
use hemiola_collective_proto::Random;
use hemiola_core::Lane;
use rustc_hash::FxBuildHasher;

/// Bytes of a packet.
const PACKET: u64 = 1448;
/// A transport waits at least so long before it sends again, beside a round trip.
const RETRANSMIT: u64 = 1_000_000;

/// A message's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) lane: Lane,
    pub(crate) bytes: u64,
    /// What an interface has to carry of it: its bytes, and the headers of its packets.
    pub(crate) load: u64,
    /// Things passed.
    pub(crate) hop: u8,
    /// When its first byte left.
    pub(crate) left: u64,
    /// When its last byte will be where its first is now.
    pub(crate) tail: u64,
}

/// What all ways have in common.
#[derive(Debug)]
pub(crate) struct Ways {
    link: Link,
    partitions: Vec<(Vec<bool>, u64, u64)>,
    slow: Vec<Vec<(u64, u64, f64)>>,
    random: Vec<Random>,
    /// Whether all messages are equally long on their way, so that none overtakes another there.
    steady: bool,
    /// By sender, receiver and lane: when the first byte of the last message reaches the next thing, and when its last byte arrives.
    last: HashMap<u64, (u64, u64), FxBuildHasher>,
}

impl Ways {
    pub(crate) fn new(description: &Description, seed: u64) -> Self {
        let mut partitions = Vec::new();
        let mut slow = vec![Vec::new(); description.peers];
        for fault in &description.faults {
            match fault {
                Fault::Partition { peers, at, until } => {
                    let mut side = vec![false; description.peers];
                    for peer in peers {
                        side[*peer] = true;
                    }
                    partitions.push((side, at.nanos(), until.nanos()));
                }
                Fault::Slow { peer, at, until, factor } => slow[*peer].push((at.nanos(), until.nanos(), *factor)),
                Fault::Crash { .. } | Fault::Restart { .. } | Fault::Drift { .. } => {}
            }
        }
        let random = (0..description.peers).map(|peer| chance::generator(seed, 0x20_0000 + peer as u64)).collect();
        let link = description.link;
        let steady = link.jitter.nanos() == 0 && link.loss == 0.0 && partitions.is_empty();
        Self { link, partitions, slow, random, steady, last: HashMap::default() }
    }

    /// How much longer everything takes on a peer's link.
    pub(crate) fn slow_down(&self, peer: u32, now: u64) -> f64 {
        let now_slow = self.slow[peer as usize].iter().filter(|(at, until, _)| (*at..*until).contains(&now));
        now_slow.map(|(.., factor)| factor).product()
    }

    /// How long bytes occupy a peer's interface.
    pub(crate) fn occupancy(&self, peer: u32, now: u64, bytes: u64) -> u64 {
        let span = self.link.bandwidth.span_of(bytes).nanos();
        if self.slow[peer as usize].is_empty() { span } else { (span as f64 * self.slow_down(peer, now)) as u64 }
    }

    /// What a peer's interface carries, in bytes per nanosecond.
    pub(crate) fn capacity(&self, peer: u32, now: u64) -> f64 {
        self.link.bandwidth.bytes_per_second() as f64 * 1e-9 / self.slow_down(peer, now)
    }

    /// The bytes of a message and the headers of its packets.
    pub(crate) fn load(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(PACKET).max(1) * self.link.header
    }

    pub(crate) fn is_steady(&self) -> bool {
        self.steady
    }

    pub(crate) fn overhead(&self) -> u64 {
        self.link.overhead.nanos()
    }

    /// How long a message that leaves now is on its way, beside what it waits for.
    pub(crate) fn propagation(&mut self, way: &Way, leaves: u64) -> u64 {
        let random = &mut self.random[way.from as usize];
        let mut takes = self.link.latency.nanos();
        if self.link.jitter.nanos() > 0 {
            takes += random.below(self.link.jitter.nanos() as usize + 1) as u64;
        }
        let resend = RETRANSMIT + 2 * self.link.latency.nanos();
        if self.link.loss > 0.0 {
            let mut packets = way.bytes / PACKET + 1;
            let mut wait = resend;
            // Each round sends again what was lost, and waits twice as long.
            while packets > 0 && wait < resend << 12 {
                let lost = 1.0 - libm::pow(1.0 - self.link.loss, packets as f64);
                if !chance::happens(random, lost) {
                    break;
                }
                takes += wait;
                wait *= 2;
                packets = (packets as f64 * self.link.loss).ceil() as u64;
            }
        }
        for (side, at, until) in &self.partitions {
            let arrives = leaves + takes;
            let apart = side[way.from as usize] != side[way.to as usize];
            if apart && leaves < *until && arrives >= *at {
                takes = until - leaves + resend;
            }
        }
        takes
    }

    /// When the first byte of a message that could be there at `head` is there, after those before it.
    pub(crate) fn head_in_order(&mut self, way: &Way, head: u64) -> u64 {
        // They leave in order: one lane in the order of its queue, the other at once.
        if self.steady {
            return head;
        }
        let (last, _) = self.last.entry(stream(way)).or_insert((0, 0));
        *last = head.max(*last);
        *last
    }

    /// The same for the last byte, and the receiver.
    pub(crate) fn in_order(&mut self, way: &Way, end: u64) -> u64 {
        let (_, last) = self.last.entry(stream(way)).or_insert((0, 0));
        *last = end.max(*last);
        *last
    }
}

/// The connection that a message travels on.
pub(crate) fn stream(way: &Way) -> u64 {
    u64::from(way.from) << 33 | u64::from(way.to) << 1 | way.lane.index() as u64
}
