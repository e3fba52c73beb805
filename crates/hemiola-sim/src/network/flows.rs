//! Messages as flows of a fluid that share interfaces and uplinks fairly.
//!
//! Each connection that has something to send is one flow: its messages go one after the other. Rates are max-min fair: no flow can get more without one that has no more than it getting less. They are
//! found by progressive filling: the thing whose equal share is smallest gives that share to all flows through it, which are then settled; what they leave elsewhere is divided among the rest.
//!
//! **Invariants:** through no thing flows more than it carries; every flow passes some thing that is full. Rates change only when a flow begins or ends or a link changes, and are
//! found once for all changes of the same moment.

use super::{Way, Ways, stream};
use crate::describe::Description;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;

/// One flow.
#[derive(Clone, Debug)]
struct Flow {
    stream: u64,
    /// The message that flows, and what of it has not left.
    message: u32,
    left: f64,
    rate: f64,
    things: [u32; 4],
}

const NONE: u32 = u32::MAX;

/// All flows.
#[derive(Debug)]
pub(crate) struct Flows {
    peers: usize,
    racks: Option<(usize, f64)>,
    active: Vec<Flow>,
    /// By stream: messages behind the one that flows.
    waiting: HashMap<u64, VecDeque<(u32, Way)>, FxBuildHasher>,
    /// Up to when flows have flowed.
    until: u64,
    /// Whether rates have to be found again.
    changed: bool,
    /// How often they were.
    version: u32,
}

impl Flows {
    pub(crate) fn new(description: &Description) -> Self {
        let racks = description.racks.filter(|racks| racks.peers < description.peers);
        Self {
            peers: description.peers,
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

    /// A message has something to send from now on.
    pub(crate) fn send(&mut self, now: u64, message: u32, way: &Way) {
        let key = stream(way);
        if let Some(behind) = self.waiting.get_mut(&key) {
            behind.push_back((message, *way));
            return;
        }
        self.waiting.insert(key, VecDeque::new());
        self.begin(now, message, way);
    }

    fn begin(&mut self, now: u64, message: u32, way: &Way) {
        self.flow_until(now);
        let peers = self.peers as u32;
        let mut things = [way.from, peers + way.to, NONE, NONE];
        if let Some((size, _)) = self.racks {
            let (from, to) = (way.from / size as u32, way.to / size as u32);
            let racks = (self.peers.div_ceil(size)) as u32;
            if from != to {
                things[2] = 2 * peers + from;
                things[3] = 2 * peers + racks + to;
            }
        }
        self.active.push(Flow { stream: stream(way), message, left: way.load.max(1) as f64, rate: 0.0, things });
        self.changed = true;
    }

    /// A link has changed.
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

    /// Messages whose last byte has left by now. What waited behind them flows from now on.
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
                Some((message, way)) => self.begin(now, message, &way),
                None => drop(self.waiting.remove(&key)),
            }
        }
        self.changed |= !ended.is_empty();
        ended
    }

    /// Finds rates again if they have to be, and says when the next flow ends.
    pub(crate) fn settle(&mut self, now: u64, ways: &Ways) -> Option<u64> {
        if !self.changed {
            return None;
        }
        self.changed = false;
        self.version += 1;
        self.fill(now, ways);
        let ends = self.active.iter().map(|flow| (flow.left / flow.rate).ceil().max(1.0));
        ends.min_by(f64::total_cmp).map(|after| now + after as u64)
    }

    /// Progressive filling.
    fn fill(&mut self, now: u64, ways: &Ways) {
        let racks = self.racks.map_or(0, |(size, _)| self.peers.div_ceil(size));
        let things = 2 * self.peers + 2 * racks;
        let mut through = vec![0_u32; things];
        let mut rest = vec![0.0; things];
        let mut used: Vec<u32> = Vec::new();
        for thing in self.active.iter().flat_map(|flow| flow.things).filter(|thing| *thing != NONE) {
            if through[thing as usize] == 0 {
                used.push(thing);
                let peer = thing as usize % self.peers.max(1);
                rest[thing as usize] = match self.racks {
                    Some((_, uplink)) if thing as usize >= 2 * self.peers => uplink,
                    _ => ways.capacity(peer as u32, now),
                };
            }
            through[thing as usize] += 1;
        }
        let mut open: Vec<usize> = (0..self.active.len()).collect();
        while !open.is_empty() {
            let share = |thing: &u32| rest[*thing as usize] / f64::from(through[*thing as usize]);
            let narrowest = used.iter().filter(|thing| through[**thing as usize] > 0);
            let thing = *narrowest.min_by(|a, b| share(a).total_cmp(&share(b))).expect("open flows pass something");
            let rate = share(&thing).max(1e-12);
            open.retain(|at| {
                let flow = &mut self.active[*at];
                if !flow.things.contains(&thing) {
                    return true;
                }
                flow.rate = rate;
                for passed in flow.things.into_iter().filter(|passed| *passed != NONE) {
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
    use crate::describe::{Racks, Sharing};
    use crate::units::Rate;
    use hemiola_core::Lane;

    fn rates(description: &Description, pairs: &[(u32, u32)]) -> Vec<f64> {
        let mut flows = Flows::new(description);
        let ways = Ways::new(description, 1);
        for (message, (from, to)) in pairs.iter().enumerate() {
            let way = Way { from: *from, to: *to, lane: Lane::Bulk, bytes: 1000, load: 1000, hop: 0, left: 0, tail: 0 };
            flows.send(0, message as u32, &way);
        }
        flows.settle(0, &ways);
        flows.active.iter().map(|flow| flow.rate).collect()
    }

    fn description(peers: usize) -> Description {
        let mut description = Description::new(peers);
        // A byte each nanosecond.
        (description.link.bandwidth, description.link.sharing) = (Rate::from_bytes(1_000_000_000), Sharing::Fair);
        description
    }

    #[test]
    fn what_one_flow_cannot_use_goes_to_the_others() {
        // Three come to peer 3; peer 0 sends to peer 4 as well, and gets what is left of its interface.
        let found = rates(&description(5), &[(0, 3), (1, 3), (2, 3), (0, 4)]);
        for (rate, expected) in found.iter().zip([1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]) {
            assert!((rate - expected).abs() < 1e-9, "{found:?}");
        }
    }

    #[test]
    fn an_uplink_is_shared_by_all_who_leave_the_rack() {
        let mut description = description(8);
        description.racks =
            Some(Racks { peers: 4, uplink: Rate::from_bytes(2_000_000_000), latency: crate::Span::ZERO });
        let found = rates(&description, &[(0, 4), (1, 5), (2, 6), (3, 7), (4, 5)]);
        for (rate, expected) in found.iter().zip([0.5, 0.5, 0.5, 0.5, 0.5]) {
            assert!((rate - expected).abs() < 1e-9, "{found:?}");
        }
        let inside = rates(&description, &[(0, 1), (2, 3)]);
        assert!(inside.iter().all(|rate| (rate - 1.0).abs() < 1e-9), "no uplink inside a rack");
    }

    #[test]
    fn rates_are_max_min_fair_for_random_pairs() {
        let mut random = hemiola_collective_proto::Random::new(3);
        for _ in 0..200 {
            let pairs: Vec<(u32, u32)> =
                (0..=random.below(20)).map(|_| (random.below(6) as u32, 6 + random.below(6) as u32)).collect();
            let mut seen = pairs.clone();
            seen.sort_unstable();
            seen.dedup();
            let found = rates(&description(12), &seen);
            let through = |peer: u32, at: fn(&(u32, u32)) -> u32| {
                seen.iter().zip(&found).filter(|(pair, _)| at(pair) == peer).map(|(_, rate)| *rate).collect::<Vec<_>>()
            };
            for (pair, rate) in seen.iter().zip(&found) {
                // Some thing on its way is full, and no other flow there has more.
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
