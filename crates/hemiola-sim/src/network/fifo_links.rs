//! Interfaces and uplinks as FIFO queues.
//!
//! Messages are forwarded cut-through: the first byte moves on while the last is still arriving. A
//! single message therefore takes latency plus bytes over the smallest bandwidth. The control lane
//! does not wait: its messages are small, and connections share the interface. The work per message
//! and link is constant, for any number of peers.

use super::{MessageRoute, SimNetwork};
use crate::cluster_spec::ClusterSpec;
use crate::units::DataRate;
use hemiola_core::Lane;

/// Time from which each link is free.
#[derive(Debug)]
pub(crate) struct FifoLinks {
    out: Vec<u64>,
    into: Vec<u64>,
    /// Peers per rack, uplink and latency, if there are several racks.
    racks: Option<(usize, DataRate, u64)>,
    up: Vec<u64>,
    down: Vec<u64>,
}

/// Next event of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// Its first byte reaches the next link at this time.
    HeadAt(u64),
    /// It is delivered at this time.
    DeliveredAt(u64),
}

impl FifoLinks {
    pub(crate) fn new(spec: &ClusterSpec) -> Self {
        let racks = spec.racks.filter(|racks| racks.peers < spec.peers);
        let count = racks.map_or(0, |racks| spec.peers.div_ceil(racks.peers));
        Self {
            out: vec![0; spec.peers],
            into: vec![0; spec.peers],
            racks: racks.map(|racks| (racks.peers, racks.uplink, racks.latency.nanos())),
            up: vec![0; count],
            down: vec![0; count],
        }
    }

    /// Sends a message through the interface of its sender.
    pub(crate) fn send(&mut self, now: u64, route: &mut MessageRoute, network: &mut SimNetwork) -> NextHop {
        let takes = network.overhead() + network.occupancy(route.from, now, route.load);
        let begins = pass(&mut self.out[route.from as usize], now, takes, route.lane);
        let leaves = begins + network.overhead();
        let propagation = network.propagation(route, leaves);
        route.left = leaves;
        route.tail = begins + takes + propagation;
        NextHop::HeadAt(network.head_in_order(route, leaves + propagation))
    }

    /// Forwards a message whose first byte has reached a link.
    pub(crate) fn hop(&mut self, now: u64, route: &mut MessageRoute, network: &mut SimNetwork) -> NextHop {
        if let Some((peers, uplink, latency)) = self.racks
            && route.hop < 2
        {
            let (from, to) = (route.from as usize / peers, route.to as usize / peers);
            if from != to {
                let takes = uplink.transfer_time(route.load).nanos();
                let (link, then) = if route.hop == 0 { (&mut self.up[from], latency) } else { (&mut self.down[to], 0) };
                let begins = pass(link, now, takes, route.lane);
                route.tail = route.tail.max(begins + takes) + then;
                route.hop += 1;
                return NextHop::HeadAt(begins + then);
            }
        }
        let takes = network.occupancy(route.to, now, route.load);
        let begins = pass(&mut self.into[route.to as usize], now, takes, route.lane);
        let end = (begins + takes).max(route.tail);
        // The queue keeps the order of its messages.
        let keeps = route.lane == Lane::Bulk && network.has_constant_latency();
        NextHop::DeliveredAt(if keeps { end } else { network.in_order(route, end) })
    }
}

/// Returns the time at which a message starts to pass a link: after those before it, or at once on
/// the control lane.
fn pass(free: &mut u64, now: u64, takes: u64, lane: Lane) -> u64 {
    let begins = if lane == Lane::Control { now } else { now.max(*free) };
    *free = now.max(*free) + takes;
    begins
}
