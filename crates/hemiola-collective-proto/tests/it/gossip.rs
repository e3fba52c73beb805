//! Model check of NOTIFY-ACK: random schedules of pushes, reduces and messages in any order,
//! compared after each reduce with a serial computation of the rounds. A version lost, used twice,
//! torn or used in another round would change the bits.

use hemiola_collective_proto::gossip::{GossipBody, GossipElement, GossipMessage, GossipRound};
use hemiola_collective_proto::{Error, GossipAverager, GossipSync, GossipWeights, Graph, Topology};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use std::collections::BTreeMap;

/// Change of a peer's values in a round: different for each element, peer and round, and never
/// exactly representable.
fn change(peer: Rank, round: u64, element: usize) -> f64 {
    1.0 / (1.0 + peer.index() as f64 + 10.0 * round as f64 + 1000.0 * element as f64)
}

fn step(values: &mut [f64], peer: Rank, round: u64) {
    for (element, value) in values.iter_mut().enumerate() {
        *value += change(peer, round, element);
    }
}

/// One round of all peers at once.
fn serial_round(values: &[Vec<f64>], weights: &GossipWeights) -> Vec<Vec<f64>> {
    let mean = |to: Rank| {
        let mut sums = vec![0.0; values[to.index()].len()];
        let mut denominator = 0.0;
        for &(from, units) in weights.row(to).units() {
            denominator += f64::from(units);
            for (sum, value) in sums.iter_mut().zip(&values[from.index()]) {
                *sum += f64::from(units) * value;
            }
        }
        sums.into_iter().map(|sum| sum / denominator).collect()
    };
    Rank::all(values.len()).map(|to| if weights.contains(to) { mean(to) } else { Vec::new() }).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Peers, their values, and messages in flight.
struct World {
    averagers: Vec<GossipAverager<f64>>,
    values: Vec<Vec<f64>>,
    done: Vec<u64>,
    /// Values of each peer after each round.
    history: Vec<Vec<Vec<f64>>>,
    reduced: Vec<GossipRound>,
    pool: Vec<GossipMessage>,
    random: SplitMix64,
}

impl World {
    fn new(weights: &GossipWeights, length: usize, piece: usize, synchronization: GossipSync, seed: u64) -> Self {
        let peers = weights.peers();
        let averager = |me| GossipAverager::new(me, weights.clone(), length, piece, synchronization).unwrap();
        Self {
            averagers: Rank::all(peers).map(averager).collect(),
            values: vec![vec![0.0; length]; peers],
            done: vec![0; peers],
            history: vec![Vec::new(); peers],
            reduced: Vec::new(),
            pool: Vec::new(),
            random: SplitMix64::new(seed),
        }
    }

    fn push(&mut self, peer: usize) {
        step(&mut self.values[peer], Rank::new(peer as u32), self.done[peer]);
        self.averagers[peer].push(&self.values[peer], &mut self.pool).unwrap();
    }

    fn reduce(&mut self, peer: usize) -> GossipRound {
        let reduced = self.averagers[peer].reduce(&mut self.values[peer], &mut self.pool).unwrap();
        assert_eq!(reduced.round, self.done[peer]);
        self.done[peer] += 1;
        self.history[peer].push(self.values[peer].clone());
        self.reduced.push(reduced);
        reduced
    }

    fn deliver_one(&mut self) -> Result<(), Error> {
        let message = self.pool.swap_remove(self.random.below(self.pool.len()));
        let bytes = message.to_payload().into_bytes();
        let message = GossipMessage::from_bytes(message.from, message.to, &bytes).unwrap();
        self.averagers[message.to.index()].receive(message)
    }

    /// Runs one possible action of some peers, or delivers a message; false if nothing is left to
    /// do before `rounds` are done.
    fn act(&mut self, who: &[usize], rounds: u64, slow: Option<usize>) -> bool {
        let can_push = |world: &Self, peer: usize| world.averagers[peer].can_push() && world.done[peer] < rounds;
        let able: Vec<usize> =
            who.iter().copied().filter(|&peer| can_push(self, peer) || self.averagers[peer].can_reduce()).collect();
        if able.is_empty() && self.pool.is_empty() {
            return false;
        }
        if !self.pool.is_empty() && (able.is_empty() || self.random.below(2) == 0) {
            self.deliver_one().unwrap();
            return true;
        }
        let peer = able[self.random.below(able.len())];
        // A slow peer acts in one of twenty turns.
        if slow == Some(peer) && (able.len() > 1 || !self.pool.is_empty()) && self.random.below(20) > 0 {
            return true;
        }
        if can_push(self, peer) {
            self.push(peer);
        } else {
            self.reduce(peer);
        }
        true
    }
}

fn kinds(peers: usize, random: &mut SplitMix64) -> Topology {
    match random.below(11) {
        0 => Topology::Complete,
        1 => Topology::Ring,
        2 => Topology::Chain,
        3 => Topology::Star,
        4 => Topology::RootExpander,
        5 => Topology::Halton { degree: None },
        6 => Topology::Chord,
        7 if peers > 1 => Topology::RandomRegular { degree: 1 + random.below(peers - 1), seed: random.next_u64() },
        8 => Topology::TwoLevel { group: [1, peers][random.below(2)] },
        9 if peers.is_multiple_of(2) => Topology::TwoLevel { group: 2 },
        _ => {
            // Arbitrary edges.
            let mut edges = Vec::new();
            for _ in 0..random.below(2 * peers * peers) {
                let (from, to) = (random.below(peers), random.below(peers));
                if from != to {
                    edges.push((Rank::new(from as u32), Rank::new(to as u32)));
                }
            }
            Topology::Edges { edges }
        }
    }
}

fn check_schedule(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let peers = 1 + random.below(7);
    let kind = kinds(peers, &mut random);
    let graph: Graph = kind.graph(peers).unwrap();
    let weights = GossipWeights::average(&graph);
    let (length, piece, rounds) = (random.below(5), 1 + random.below(3), 1 + random.below(4) as u64);
    let slow = (random.below(2) == 0).then(|| random.below(peers));
    let mut world = World::new(&weights, length, piece, GossipSync::NotifyAck, random.next_u64());
    let all_peers: Vec<usize> = (0..peers).collect();
    while world.act(&all_peers, rounds, slow) {
        for (from, to) in graph.edges() {
            let apart = world.done[from.index()].abs_diff(world.done[to.index()]);
            assert!(apart <= 1, "{kind:?} of {peers}: {from} and {to} are {apart} rounds apart, schedule {seed}");
        }
    }
    assert!(
        world.done.iter().all(|&done| done == rounds),
        "{kind:?} of {peers} stopped, schedule {seed}: {:?}",
        world.done
    );
    assert!(world.averagers.iter().all(|averager| averager.waits() == (Vec::new(), Vec::new())), "schedule {seed}");
    assert!(world.reduced.iter().all(|one| one.used == one.senders && one.torn == 0 && one.stale == 0));
    let mut expected = vec![vec![0.0; length]; peers];
    for round in 0..rounds {
        for peer in Rank::all(peers) {
            step(&mut expected[peer.index()], peer, round);
        }
        expected = serial_round(&expected, &weights);
        for (peer, values) in expected.iter().enumerate() {
            let found = &world.history[peer][round as usize];
            assert_eq!(bits(found), bits(values), "{kind:?} of {peers}, peer {peer}, round {round}, schedule {seed}");
        }
    }
}

#[test]
fn notify_ack_gives_the_bits_of_the_serial_rounds_in_a_hundred_thousand_schedules() {
    for seed in 0..100_000 {
        check_schedule(seed);
    }
}

#[test]
fn peers_far_apart_may_be_many_rounds_apart() {
    // In a ring no peer waits for the one opposite: the last one before a stopped peer is one round
    // behind the next, and so on.
    let graph = Topology::Ring.graph(6).unwrap();
    let mut world = World::new(&GossipWeights::average(&graph), 1, 1, GossipSync::NotifyAck, 1);
    while world.act(&[1, 2, 3, 4, 5], 100, None) {}
    let most = world.done.iter().max().unwrap();
    assert!(*most >= 2, "{:?}", world.done);
    assert_eq!(world.averagers[0].next_round(), 0);
    assert_eq!(world.averagers[1].waits(), (vec![], vec![Rank::new(0)]));
    while world.act(&[0, 1, 2, 3, 4, 5], 5, None) {}
    assert!(world.done.iter().all(|&done| done >= 5));
}

#[test]
fn a_write_before_the_ack_is_an_error() {
    let graph = Topology::Ring.graph(2).unwrap();
    let weights = GossipWeights::average(&graph);
    let mut receiver = GossipAverager::<f64>::new(Rank::new(0), weights, 1, 1, GossipSync::NotifyAck).unwrap();
    let message = |version, body| GossipMessage { from: Rank::new(1), to: Rank::new(0), version, body };
    let piece = || GossipBody::Piece { index: 0, values: bytes::Bytes::from_static(&[0; 8]) };
    receiver.receive(message(0, piece())).unwrap();
    receiver.receive(message(0, GossipBody::Notify)).unwrap();
    assert!(receiver.receive(message(1, piece())).is_err(), "version 0 has not been read");
    assert!(receiver.receive(message(0, GossipBody::Ack)).is_err(), "nothing was sent");
    assert!(receiver.receive(message(0, GossipBody::Piece { index: 1, values: bytes::Bytes::new() })).is_err());
    assert!(receiver.push(&[1.0; 2], &mut Vec::new()).is_err(), "another length");
    assert!(receiver.reduce(&mut [1.0], &mut Vec::new()).is_err(), "nothing was pushed");
    receiver.push(&[1.0], &mut Vec::new()).unwrap();
    assert!(receiver.push(&[1.0], &mut Vec::new()).is_err(), "the round has not ended");
    receiver.reduce(&mut [1.0], &mut Vec::new()).unwrap();
    assert!(!receiver.can_push(), "version 0 has not been acknowledged");
}

/// All elements of a vector have the same value, so a mean of parts of different versions would be
/// visible.
fn run_loosely(synchronization: GossipSync, seed: u64) -> Vec<GossipRound> {
    let (peers, length, rounds) = (6, 6, 8);
    let graph = Topology::Complete.graph(peers).unwrap();
    let mut world = World::new(&GossipWeights::average(&graph), length, 1, synchronization, seed);
    let mut reduced = Vec::new();
    let mut behind = vec![0_u64; peers];
    loop {
        let barrier = synchronization == GossipSync::Barrier;
        let slowest = *behind.iter().min().unwrap();
        let peer = world.random.below(peers);
        // A barrier before and after the reduce: no peer is in another round.
        let all_pushed = world.averagers.iter().all(|averager| averager.next_round() > slowest);
        if world.averagers[peer].can_push() && behind[peer] < rounds && (!barrier || behind[peer] == slowest) {
            world.values[peer].fill(world.random.symmetric());
            world.averagers[peer].push(&world.values[peer], &mut world.pool).unwrap();
        } else if world.averagers[peer].can_reduce() && (!barrier || all_pushed) {
            reduced.push(world.reduce(peer));
            behind[peer] += 1;
            let first = world.values[peer][0].to_bits();
            assert!(
                world.values[peer].iter().all(|value| value.to_bits() == first),
                "a torn read was used, seed {seed}"
            );
        }
        for _ in 0..world.random.below(60) {
            if !world.pool.is_empty() {
                world.deliver_one().unwrap();
            }
        }
        if behind.iter().all(|&done| done == rounds) {
            return reduced;
        }
    }
}

#[test]
fn only_notify_ack_is_always_consistent_and_torn_values_are_never_used() {
    let mut share = BTreeMap::new();
    for (name, synchronization) in [
        ("notify-ack", GossipSync::NotifyAck),
        ("barrier", GossipSync::Barrier),
        ("asynchronous", GossipSync::Asynchronous),
    ] {
        let all: Vec<GossipRound> = (0..200).flat_map(|seed| run_loosely(synchronization, seed)).collect();
        let torn: usize = all.iter().map(|one| one.torn).sum();
        let used: usize = all.iter().map(|one| one.used).sum();
        let of: usize = all.iter().map(|one| one.senders).sum();
        assert_eq!(torn == 0, name == "notify-ack", "the test would prove nothing without torn slots");
        share.insert(name, used as f64 / of as f64);
    }
    assert!((share["notify-ack"] - 1.0).abs() < 1e-12);
    assert!(share["barrier"] < 1.0 && share["asynchronous"] < 1.0, "{share:?}");
}

#[test]
fn the_remaining_peers_continue_with_doubly_stochastic_weights() {
    for seed in 0..5_000 {
        let mut random = SplitMix64::new(seed);
        let peers = 2 + random.below(5);
        let kind =
            [Topology::Ring, Topology::RootExpander, Topology::Star, Topology::Complete][random.below(4)].clone();
        let mut weights = GossipWeights::balanced(&kind.graph(peers).unwrap()).unwrap();
        let mut world = World::new(&weights, 2, 1, GossipSync::NotifyAck, random.next_u64());
        let mut left: Vec<usize> = (0..peers).collect();
        let mut from_round = 0;
        for _ in 0..=random.below(peers - 1).min(1) {
            for _ in 0..random.below(100) {
                world.act(&left, 4, None);
            }
            // A peer is lost; some of its messages may still arrive. The others stop pushing and
            // agree on a round.
            let gone = left.remove(random.below(left.len()));
            from_round = left.iter().map(|&peer| world.averagers[peer].next_round()).max().unwrap();
            for &peer in &left {
                world.averagers[peer].exclude(Rank::new(gone as u32), from_round).unwrap();
                for _ in 0..random.below(5) {
                    if !world.pool.is_empty() {
                        world.deliver_one().unwrap();
                    }
                }
            }
            world.pool.retain(|message| message.to.index() != gone);
            weights = weights.without(Rank::new(gone as u32));
            if left.len() == 1 {
                break;
            }
        }
        let rounds = from_round + 3;
        while world.act(&left, rounds, None) {}
        for &peer in &left {
            assert_eq!(
                world.done[peer],
                rounds,
                "{kind:?} of {peers}, schedule {seed}: {:?}",
                world.averagers[peer].waits()
            );
        }
        // From that round on, the rounds are those of the new weights, and the total over all peers
        // changes only by what they add.
        assert!(weights.is_doubly_stochastic());
        if from_round == 0 {
            continue;
        }
        let mut expected: Vec<Vec<f64>> = vec![Vec::new(); peers];
        for &peer in &left {
            expected[peer] = world.history[peer][from_round as usize - 1].clone();
        }
        for round in from_round..rounds {
            for &peer in &left {
                step(&mut expected[peer], Rank::new(peer as u32), round);
            }
            let before: f64 = left.iter().map(|&peer| expected[peer][0]).sum();
            expected = serial_round(&expected, &weights);
            let after: f64 = left.iter().map(|&peer| expected[peer][0]).sum();
            assert!((before - after).abs() < 1e-9, "the total moved, schedule {seed}");
            for &peer in &left {
                assert_eq!(bits(&world.history[peer][round as usize]), bits(&expected[peer]), "schedule {seed}");
            }
        }
    }
}

#[test]
fn excluding_from_a_started_round_is_refused() {
    let weights = GossipWeights::average(&Topology::Ring.graph(3).unwrap());
    let mut averager = GossipAverager::<f32>::new(Rank::new(0), weights, 1, 1, GossipSync::NotifyAck).unwrap();
    averager.push(&[1.0], &mut Vec::new()).unwrap();
    assert!(averager.exclude(Rank::new(1), 0).is_err(), "round 0 has started");
    assert!(averager.exclude(Rank::new(0), 1).is_err(), "an averager cannot exclude itself");
    assert!(averager.exclude(Rank::new(1), 1).is_ok());
}

#[test]
fn a_second_loss_may_name_an_earlier_round() {
    // Peer 2 is two rounds ahead of the agreed round when it is lost as well.
    let weights = GossipWeights::average(&Topology::Complete.graph(3).unwrap());
    let mut averager = GossipAverager::<f64>::new(Rank::new(0), weights, 1, 1, GossipSync::NotifyAck).unwrap();
    averager.exclude(Rank::new(1), 2).unwrap();
    averager.exclude(Rank::new(2), 0).unwrap();
    let (mut out, mut values) = (Vec::new(), [7.0]);
    for round in 0..3 {
        averager.push(&values, &mut out).unwrap();
        let reduced = averager.reduce(&mut values, &mut out).unwrap();
        assert_eq!((reduced.round, reduced.senders, out.len()), (round, 0, 0));
    }
}

#[test]
fn averages_converge_at_the_rate_of_the_spectral_gap() {
    for kind in [Topology::Complete, Topology::RootExpander, Topology::Ring] {
        let graph = kind.graph(8).unwrap();
        let weights = GossipWeights::average(&graph);
        let mut values: Vec<Vec<f64>> = (0..8_u8).map(|peer| vec![f64::from(peer) - 3.5]).collect();
        let norm = |values: &[Vec<f64>]| values.iter().map(|value| value[0] * value[0]).sum::<f64>().sqrt();
        for _ in 0..20 {
            let before = norm(&values);
            values = serial_round(&values, &weights);
            assert!(norm(&values) <= (1.0 - graph.spectral_gap()) * before + 1e-12, "{kind:?}");
        }
    }
    assert!((f32::from_f64(0.5_f32.to_f64()) - 0.5).abs() < 1e-12);
}
