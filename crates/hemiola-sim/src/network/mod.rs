//! Network model: transfer of messages through interfaces and uplinks.
//!
//! A message passes the interface of its sender, the uplinks of both racks if they differ, and the
//! interface of its receiver. Messages share these as [FIFO queues](FifoLinks) or as [fair
//! flows](FairFlows); see [`LinkSharing`](crate::cluster_spec::LinkSharing). Propagation takes the
//! latency with jitter, the time to retransmit lost packets, and the rest of a partition.
//!
//! **Invariants:** no message is lost or duplicated. Messages of one lane from one peer to another
//! arrive in the order of sending, as on a connection; two lanes are unordered.

mod fair_flows;
mod fifo_links;

pub(crate) use fair_flows::FairFlows;
pub(crate) use fifo_links::{FifoLinks, NextHop};

use crate::cluster_spec::{ClusterSpec, Fault, LinkModel};
use crate::sampling;
use hashbrown::HashMap;
use hemiola_core::Lane;
use hemiola_core::rng::SplitMix64;
use rustc_hash::FxBuildHasher;

/// Payload bytes of a packet.
const PACKET_BYTES: u64 = 1448;
/// Minimum retransmission timeout, in addition to a round trip.
const RETRANSMIT_NANOS: u64 = 1_000_000;

/// A message on its way through the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageRoute {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) lane: Lane,
    pub(crate) bytes: u64,
    /// Bytes that an interface carries: message and packet headers.
    pub(crate) load: u64,
    /// Number of passed links.
    pub(crate) hop: u8,
    /// Time at which the first byte left.
    pub(crate) left: u64,
    /// Time at which the last byte reaches the position of the first.
    pub(crate) tail: u64,
}

/// Link parameters, faults and random state of the network.
#[derive(Debug)]
pub(crate) struct SimNetwork {
    link: LinkModel,
    partitions: Vec<(Vec<bool>, u64, u64)>,
    slow: Vec<Vec<(u64, u64, f64)>>,
    random: Vec<SplitMix64>,
    /// All messages have the same latency, so none overtakes another.
    constant_latency: bool,
    /// Per connection: arrival of the first byte of the last message at the next link, and of its
    /// last byte at the receiver.
    last: HashMap<u64, (u64, u64), FxBuildHasher>,
}

impl SimNetwork {
    pub(crate) fn new(spec: &ClusterSpec, seed: u64) -> Self {
        let mut partitions = Vec::new();
        let mut slow = vec![Vec::new(); spec.peers];
        for fault in &spec.faults {
            match fault {
                Fault::Partition { peers, at, until } => {
                    let mut side = vec![false; spec.peers];
                    for peer in peers {
                        side[*peer] = true;
                    }
                    partitions.push((side, at.nanos(), until.nanos()));
                }
                Fault::Slow { peer, at, until, factor } => slow[*peer].push((at.nanos(), until.nanos(), *factor)),
                Fault::Crash { .. } | Fault::Restart { .. } | Fault::Drift { .. } => {}
            }
        }
        let random = (0..spec.peers).map(|peer| sampling::generator(seed, 0x20_0000 + peer as u64)).collect();
        let link = spec.link;
        let constant_latency = link.jitter.nanos() == 0 && link.loss == 0.0 && partitions.is_empty();
        Self { link, partitions, slow, random, constant_latency, last: HashMap::default() }
    }

    /// Factor of transfer times on a peer's link.
    pub(crate) fn slow_down(&self, peer: u32, now: u64) -> f64 {
        let now_slow = self.slow[peer as usize].iter().filter(|(at, until, _)| (*at..*until).contains(&now));
        now_slow.map(|(.., factor)| factor).product()
    }

    /// Time for which a message occupies a peer's interface.
    pub(crate) fn occupancy(&self, peer: u32, now: u64, bytes: u64) -> u64 {
        let span = self.link.bandwidth.transfer_time(bytes).nanos();
        if self.slow[peer as usize].is_empty() { span } else { (span as f64 * self.slow_down(peer, now)) as u64 }
    }

    /// Capacity of a peer's interface in bytes per nanosecond.
    pub(crate) fn capacity(&self, peer: u32, now: u64) -> f64 {
        self.link.bandwidth.bytes_per_second() as f64 * 1e-9 / self.slow_down(peer, now)
    }

    /// Returns the bytes of a message with its packet headers.
    pub(crate) fn load(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(PACKET_BYTES).max(1) * self.link.header
    }

    pub(crate) fn has_constant_latency(&self) -> bool {
        self.constant_latency
    }

    pub(crate) fn overhead(&self) -> u64 {
        self.link.overhead.nanos()
    }

    /// Returns the propagation delay of a message that leaves now.
    pub(crate) fn propagation(&mut self, route: &MessageRoute, leaves: u64) -> u64 {
        let random = &mut self.random[route.from as usize];
        let mut takes = self.link.latency.nanos();
        if self.link.jitter.nanos() > 0 {
            takes += random.below(self.link.jitter.nanos() as usize + 1) as u64;
        }
        let resend = RETRANSMIT_NANOS + 2 * self.link.latency.nanos();
        if self.link.loss > 0.0 {
            let mut packets = route.bytes / PACKET_BYTES + 1;
            let mut wait = resend;
            // Each round retransmits lost packets and doubles the timeout.
            while packets > 0 && wait < resend << 12 {
                let lost = 1.0 - libm::pow(1.0 - self.link.loss, packets as f64);
                if !sampling::bernoulli(random, lost) {
                    break;
                }
                takes += wait;
                wait *= 2;
                packets = (packets as f64 * self.link.loss).ceil() as u64;
            }
        }
        for (side, at, until) in &self.partitions {
            let arrives = leaves + takes;
            let apart = side[route.from as usize] != side[route.to as usize];
            if apart && leaves < *until && arrives >= *at {
                takes = until - leaves + resend;
            }
        }
        takes
    }

    /// Delays the first byte of a message behind those before it on the connection.
    pub(crate) fn head_in_order(&mut self, route: &MessageRoute, head: u64) -> u64 {
        // With a constant latency messages stay in order: the bulk lane by its queue, the control
        // lane by immediate sending.
        if self.constant_latency {
            return head;
        }
        let (last, _) = self.last.entry(stream(route)).or_insert((0, 0));
        *last = head.max(*last);
        *last
    }

    /// Delays the delivery of a message behind those before it on the connection.
    pub(crate) fn in_order(&mut self, route: &MessageRoute, end: u64) -> u64 {
        let (_, last) = self.last.entry(stream(route)).or_insert((0, 0));
        *last = end.max(*last);
        *last
    }
}

/// Identifies the connection of a message.
pub(crate) fn stream(route: &MessageRoute) -> u64 {
    u64::from(route.from) << 33 | u64::from(route.to) << 1 | route.lane.index() as u64
}
