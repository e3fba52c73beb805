//! Messages as fluid flows with max-min fair rates.
//!
//! Each connection with data to send is one flow; its messages follow each other. Rates are max-min
//! fair: no flow can get more without taking from a flow that has no more. Progressive filling
//! computes them. The link with the smallest equal share gives that share to all its flows, which
//! are then fixed; their unused share of other links is divided among the remaining flows.
//!
//! **Invariants:** no link carries more than its capacity; every flow passes a saturated link.
//! Rates change only when a flow starts or ends or a link changes, and are computed once for all
//! changes of the same time.

use super::{MessageRoute, SimNetwork, stream};
use crate::cluster_spec::ClusterSpec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;

/// A connection with data to send.
#[derive(Clone, Debug)]
struct FluidFlow {
    stream: u64,
    /// Current message, and its remaining bytes.
    message: u32,
    left: f64,
    rate: f64,
    links: [u32; 4],
}

const NO_LINK: u32 = u32::MAX;

/// All active flows and their rates.
#[derive(Debug)]
pub(crate) struct FairFlows {
    peers: usize,
    racks: Option<(usize, f64)>,
    active: Vec<FluidFlow>,
    /// Messages behind the current one, by connection.
    waiting: HashMap<u64, VecDeque<(u32, MessageRoute)>, FxBuildHasher>,
    /// Time up to which the remaining bytes are computed.
    until: u64,
    /// Rates must be computed again.
    changed: bool,
    /// Number of rate computations; outdated events carry an older version.
    version: u32,
}

impl FairFlows {
    pub(crate) fn new(spec: &ClusterSpec) -> Self {
        let racks = spec.racks.filter(|racks| racks.peers < spec.peers);
        Self {
            peers: spec.peers,
            racks: racks.map(|racks| (racks.peers, racks.uplink.bytes_per_second() as f64 * 1e-9)),
            active: Vec::new(),
            waiting: HashMap::default(),
            until: 0,
            changed: false,
            version: 0,
        }
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Queues a message on its connection.
    pub(crate) fn send(&mut self, now: u64, message: u32, route: &MessageRoute) {
        let key = stream(route);
        if let Some(behind) = self.waiting.get_mut(&key) {
            behind.push_back((message, *route));
            return;
        }
        self.waiting.insert(key, VecDeque::new());
        self.begin(now, message, route);
    }

    fn begin(&mut self, now: u64, message: u32, route: &MessageRoute) {
        self.flow_until(now);
        let peers = self.peers as u32;
        let mut links = [route.from, peers + route.to, NO_LINK, NO_LINK];
        if let Some((size, _)) = self.racks {
            let (from, to) = (route.from / size as u32, route.to / size as u32);
            let racks = (self.peers.div_ceil(size)) as u32;
            if from != to {
                links[2] = 2 * peers + from;
                links[3] = 2 * peers + racks + to;
            }
        }
        self.active.push(FluidFlow {
            stream: stream(route),
            message,
            left: route.load.max(1) as f64,
            rate: 0.0,
            links,
        });
        self.changed = true;
    }

    /// Requests new rates after a link has changed.
    pub(crate) fn link_changed(&mut self, now: u64) {
        self.flow_until(now);
        self.changed = true;
    }

    fn flow_until(&mut self, now: u64) {
        let elapsed = (now - self.until) as f64;
        if elapsed > 0.0 {
            self.active.iter_mut().for_each(|flow| flow.left -= flow.rate * elapsed);
        }
        self.until = now;
    }

    /// Removes the messages whose last byte has left, and starts the next ones of their
    /// connections.
    pub(crate) fn ended(&mut self, now: u64) -> Vec<u32> {
        self.flow_until(now);
        let mut ended = Vec::new();
        let mut next = Vec::new();
        self.active.retain(|flow| {
            let over = flow.left < 0.5;
            if over {
                ended.push(flow.message);
                next.push(flow.stream);
            }
            !over
        });
        for key in next {
            match self.waiting.get_mut(&key).and_then(VecDeque::pop_front) {
                Some((message, route)) => self.begin(now, message, &route),
                None => drop(self.waiting.remove(&key)),
            }
        }
        self.changed |= !ended.is_empty();
        ended
    }

    /// Computes the rates if needed, and returns the end of the next flow.
    pub(crate) fn update_rates(&mut self, now: u64, network: &SimNetwork) -> Option<u64> {
        if !self.changed {
            return None;
        }
        self.changed = false;
        self.version += 1;
        self.fill(now, network);
        let ends = self.active.iter().map(|flow| (flow.left / flow.rate).ceil().max(1.0));
        ends.min_by(f64::total_cmp).map(|after| now + after as u64)
    }

    /// Computes max-min fair rates by progressive filling.
    fn fill(&mut self, now: u64, network: &SimNetwork) {
        let racks = self.racks.map_or(0, |(size, _)| self.peers.div_ceil(size));
        let links = 2 * self.peers + 2 * racks;
        let mut through = vec![0_u32; links];
        let mut rest = vec![0.0; links];
        let mut used: Vec<u32> = Vec::new();
        for link in self.active.iter().flat_map(|flow| flow.links).filter(|link| *link != NO_LINK) {
            if through[link as usize] == 0 {
                used.push(link);
                let peer = link as usize % self.peers.max(1);
                rest[link as usize] = match self.racks {
                    Some((_, uplink)) if link as usize >= 2 * self.peers => uplink,
                    _ => network.capacity(peer as u32, now),
                };
            }
            through[link as usize] += 1;
        }
        let mut open: Vec<usize> = (0..self.active.len()).collect();
        while !open.is_empty() {
            let share = |link: &u32| rest[*link as usize] / f64::from(through[*link as usize]);
            let narrowest = used.iter().filter(|link| through[**link as usize] > 0);
            let link = *narrowest.min_by(|a, b| share(a).total_cmp(&share(b))).expect("open flows pass something");
            let rate = share(&link).max(1e-12);
            open.retain(|at| {
                let flow = &mut self.active[*at];
                if !flow.links.contains(&link) {
                    return true;
                }
                flow.rate = rate;
                for passed in flow.links.into_iter().filter(|passed| *passed != NO_LINK) {
                    through[passed as usize] -= 1;
                    rest[passed as usize] = (rest[passed as usize] - rate).max(0.0);
                }
                false
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_spec::{LinkSharing, RackSpec};
    use crate::units::DataRate;
    use hemiola_core::Lane;

    fn rates(spec: &ClusterSpec, pairs: &[(u32, u32)]) -> Vec<f64> {
        let mut flows = FairFlows::new(spec);
        let network = SimNetwork::new(spec, 1);
        for (message, (from, to)) in pairs.iter().enumerate() {
            let route = MessageRoute {
                from: *from,
                to: *to,
                lane: Lane::Bulk,
                bytes: 1000,
                load: 1000,
                hop: 0,
                left: 0,
                tail: 0,
            };
            flows.send(0, message as u32, &route);
        }
        flows.update_rates(0, &network);
        flows.active.iter().map(|flow| flow.rate).collect()
    }

    fn spec(peers: usize) -> ClusterSpec {
        let mut spec = ClusterSpec::new(peers);
        // One byte per nanosecond.
        (spec.link.bandwidth, spec.link.sharing) = (DataRate::from_bytes(1_000_000_000), LinkSharing::Fair);
        spec
    }

    #[test]
    fn unused_shares_go_to_other_flows() {
        // Three flows go to peer 3. Peer 0 also sends to peer 4, with the rest of its interface.
        let found = rates(&spec(5), &[(0, 3), (1, 3), (2, 3), (0, 4)]);
        for (rate, expected) in found.iter().zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]) {
            assert!((rate - expected).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn an_uplink_is_shared_by_the_flows_of_a_rack() {
        let mut spec = spec(8);
        spec.racks =
            Some(RackSpec { peers: 4, uplink: DataRate::from_bytes(2_000_000_000), latency: crate::SimDuration::ZERO });
        let found = rates(&spec, &[(0, 4), (1, 5), (2, 6), (3, 7), (4, 5)]);
        for (rate, expected) in found.iter().zip([0.5, 0.5, 0.5, 0.5, 0.5]) {
            assert!((rate - expected).abs() < 1e-9, "{found:?}");
        }
        let inside = rates(&spec, &[(0, 1), (2, 3)]);
        assert!(inside.iter().all(|rate| (rate - 1.0).abs() < 1e-9), "no uplink inside a rack");
    }

    #[test]
    fn rates_are_max_min_fair_for_random_pairs() {
        let mut random = hemiola_core::rng::SplitMix64::new(3);
        for _ in 0..200 {
            let pairs: Vec<(u32, u32)> =
                (0..=random.below(20)).map(|_| (random.below(6) as u32, 6 + random.below(6) as u32)).collect();
            let mut seen = pairs.clone();
            seen.sort_unstable();
            seen.dedup();
            let found = rates(&spec(12), &seen);
            let through = |peer: u32, at: fn(&(u32, u32)) -> u32| {
                seen.iter().zip(&found).filter(|(pair, _)| at(pair) == peer).map(|(_, rate)| *rate).collect::<Vec<_>>()
            };
            for (pair, rate) in seen.iter().zip(&found) {
                // A link on its path is saturated, and no other flow there has more.
                let ends = [through(pair.0, |pair| pair.0), through(pair.1, |pair| pair.1)];
                let full = |rates: &Vec<f64>| {
                    (rates.iter().sum::<f64>() - 1.0).abs() < 1e-6 && rates.iter().all(|other| *other <= rate + 1e-9)
                };
                assert!(ends.iter().any(full), "{seen:?} {found:?}");
                assert!(ends.iter().all(|rates| rates.iter().sum::<f64>() < 1.0 + 1e-6));
            }
        }
    }
}
