//! Behaviour of the network model: times, order, sharing and faults; and repeatability of runs.

use hemiola_core::{Lane, Rank};
use hemiola_sim::cluster_spec::{ComputeModel, Fault, LinkSharing, RackSpec};
use hemiola_sim::{
    Actor, ActorContext, ActorResult, ClusterSpec, DataRate, PendingWait, SimDuration, SimError, Simulation,
};

/// Sends messages at the start and records what it receives.
#[derive(Debug, Default)]
struct Sender {
    /// Receiver, lane, bytes.
    sends: Vec<(u32, Lane, usize)>,
    /// Number of expected messages.
    expects: usize,
    /// Sender, index and arrival time.
    received: Vec<(u32, usize, u64)>,
    lost: Vec<(u32, u64)>,
    starts: usize,
}

impl Actor for Sender {
    type Message = usize;

    fn on_start(&mut self, context: &mut ActorContext<'_, usize>) -> ActorResult {
        self.starts += 1;
        for (number, (to, lane, bytes)) in self.sends.iter().enumerate() {
            context.send(Rank::new(*to), *lane, *bytes, number);
        }
        Ok(())
    }

    fn on_message(&mut self, from: Rank, number: usize, context: &mut ActorContext<'_, usize>) -> ActorResult {
        self.received.push((from.number(), number, context.now().as_nanos()));
        Ok(())
    }

    fn on_timer(&mut self, _: u64, _: &mut ActorContext<'_, usize>) -> ActorResult {
        Ok(())
    }

    fn on_peer_lost(&mut self, peer: Rank, context: &mut ActorContext<'_, usize>) -> ActorResult {
        self.lost.push((peer.number(), context.now().as_nanos()));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.received.len() >= self.expects
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let missing = self.expects.saturating_sub(self.received.len());
        if missing == 0 {
            Vec::new()
        } else {
            vec![PendingWait::new("driver", format!("{missing} messages"), Vec::new())]
        }
    }
}

/// Links of one byte per nanosecond and a latency of 100 ns, without other costs.
fn simple(peers: usize, sharing: LinkSharing) -> ClusterSpec {
    let mut spec = ClusterSpec::new(peers);
    spec.link.bandwidth = DataRate::from_bytes(1_000_000_000);
    spec.link.latency = SimDuration::from_nanos(100);
    (spec.link.overhead, spec.link.header) = (SimDuration::ZERO, 0);
    spec.link.sharing = sharing;
    spec
}

/// Runs a cluster in which each peer sends these messages.
fn run(spec: &ClusterSpec, sends: &[&[(u32, Lane, usize)]]) -> Vec<Sender> {
    let mut simulation = Simulation::new(spec, 3, |me| Sender {
        sends: sends.get(me.index()).map_or(Vec::new(), |sends| sends.to_vec()),
        expects: sends.iter().flat_map(|sends| sends.iter()).filter(|send| send.0 == me.number()).count(),
        ..Sender::default()
    })
    .unwrap();
    simulation.run().unwrap();
    (0..spec.peers)
        .map(|peer| Sender { received: simulation.actors()[peer].received.clone(), ..Sender::default() })
        .collect()
}

const BULK: Lane = Lane::Bulk;

#[test]
fn a_message_alone_takes_latency_and_bytes_over_bandwidth() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let peers = run(&simple(2, sharing), &[&[(1, BULK, 5000)]]);
        assert_eq!(peers[1].received, [(0, 0, 5100)], "{sharing:?}");
    }
}

#[test]
fn every_packet_has_a_header() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let mut spec = simple(2, sharing);
        spec.link.header = 66;
        let received = |bytes: usize| run(&spec, &[&[(1, BULK, bytes)]])[1].received[0].2;
        assert_eq!([received(1), received(1448), received(1449)], [167, 1614, 1681], "{sharing:?}");
    }
}

#[test]
fn two_senders_share_a_receiver() {
    let sends: [&[_]; 2] = [&[(2, BULK, 1000)], &[(2, BULK, 1000)]];
    assert_eq!(run(&simple(3, LinkSharing::Queue), &sends)[2].received, [(0, 0, 1100), (1, 0, 2100)]);
    assert_eq!(run(&simple(3, LinkSharing::Fair), &sends)[2].received, [(0, 0, 2100), (1, 0, 2100)]);
}

#[test]
fn order_is_kept_inside_a_lane_and_the_control_lane_overtakes() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let mut spec = simple(2, sharing);
        spec.link.jitter = SimDuration::from_nanos(5000);
        spec.link.loss = 0.01;
        let sends: Vec<(u32, Lane, usize)> =
            (0..200).map(|_| (1, BULK, 1000)).chain([(1, Lane::Control, 10)]).collect();
        let received: Vec<usize> = run(&spec, &[&sends])[1].received.iter().map(|(_, number, _)| *number).collect();
        let bulk: Vec<usize> = received.iter().copied().filter(|number| *number < 200).collect();
        assert!(bulk.into_iter().eq(0..200), "{sharing:?}");
        assert!(received.iter().position(|number| *number == 200).unwrap() < 150, "{sharing:?} {received:?}");
    }
}

#[test]
fn an_uplink_limits_the_interfaces_behind_it() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let mut spec = simple(8, sharing);
        spec.racks =
            Some(RackSpec { peers: 4, uplink: DataRate::from_bytes(1_000_000_000), latency: SimDuration::ZERO });
        let across: Vec<[(u32, Lane, usize); 1]> = (4..8).map(|to| [(to, BULK, 1000)]).collect();
        let sends: Vec<&[(u32, Lane, usize)]> = across.iter().map(|send| &send[..]).collect();
        let last = run(&spec, &sends)[4..].iter().map(|peer| peer.received[0].2).max().unwrap();
        assert!((4100..4200).contains(&last), "{sharing:?}: four thousand bytes through one uplink took {last}");
    }
}

#[test]
fn a_slow_link_takes_longer_while_it_is_slow() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let mut spec = simple(2, sharing);
        let (at, until) = (SimDuration::ZERO, SimDuration::from_secs(1));
        spec.faults = vec![Fault::Slow { peer: 0, at, until, factor: 3.0 }];
        assert_eq!(run(&spec, &[&[(1, BULK, 1000)]])[1].received[0].2, 3100, "{sharing:?}");
    }
}

#[test]
fn a_partition_delays_messages_and_a_long_one_loses_peers() {
    let mut spec = simple(3, LinkSharing::Queue);
    spec.faults = vec![Fault::Partition { peers: vec![0], at: SimDuration::ZERO, until: SimDuration::from_millis(5) }];
    let peers = run(&spec, &[&[(1, BULK, 10)], &[(2, BULK, 10)]]);
    assert!(peers[1].received[0].2 > 5_000_000, "{:?}", peers[1].received);
    assert!(peers[2].received[0].2 < 1000, "both are on the other side");

    spec.deadline = SimDuration::from_millis(2);
    let mut simulation = Simulation::new(&spec, 1, |me| Sender {
        sends: if me == Rank::ROOT { vec![(1, BULK, 10)] } else { Vec::new() },
        ..Sender::default()
    })
    .unwrap();
    simulation.run().unwrap();
    assert_eq!(simulation.actors()[0].lost, [(1, 2_000_000), (2, 2_000_000)]);
    assert_eq!(simulation.actors()[1].lost, [(0, 2_000_000)]);
    assert!(simulation.actors()[1].received.is_empty(), "what comes from the lost is not heard");
}

#[test]
fn crashes_are_detected_and_peers_restart() {
    for silent in [false, true] {
        let mut spec = simple(2, LinkSharing::Queue);
        spec.faults = vec![
            Fault::Crash { peer: 1, at: SimDuration::from_millis(1), silent },
            Fault::Restart { peer: 1, at: SimDuration::from_secs(20) },
        ];
        let mut simulation =
            Simulation::new(&spec, 1, |_| Sender { sends: vec![(0, BULK, 10)], ..Sender::default() }).unwrap();
        simulation.run().unwrap();
        let noticed = if silent { 10_001_000_000 } else { 1_000_100 };
        assert_eq!(simulation.actors()[0].lost, [(1, noticed)]);
        assert_eq!(simulation.actors()[1].starts, 2);
        assert_eq!(simulation.actors()[0].received.len(), 3, "its own, and one of each life of the other");
    }
}

/// Computes, sends to the next peer, and repeats.
#[derive(Debug)]
struct Busy {
    left: u32,
    ticks: u64,
}

impl Actor for Busy {
    type Message = u32;

    fn on_start(&mut self, context: &mut ActorContext<'_, u32>) -> ActorResult {
        context.compute(0, "computes", SimDuration::from_micros(100), 0);
        context.set_timer(SimDuration::from_millis(1), 1);
        Ok(())
    }

    fn on_message(&mut self, _: Rank, hops: u32, context: &mut ActorContext<'_, u32>) -> ActorResult {
        if hops > 0 {
            let peers = context.peers();
            let to = Rank::new(context.random().below(peers) as u32);
            context.send(to, Lane::Bulk, 1000, hops - 1);
        }
        Ok(())
    }

    fn on_timer(&mut self, token: u64, context: &mut ActorContext<'_, u32>) -> ActorResult {
        self.ticks = context.now().as_nanos();
        if token == 0 && self.left > 0 {
            self.left -= 1;
            let next = Rank::new(((context.rank().index() + 1) % context.peers()) as u32);
            context.send(next, Lane::Bulk, 5000, 3);
            context.compute(0, "computes", SimDuration::from_micros(100), 0);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        Vec::new()
    }
}

fn noisy(peers: usize, sharing: LinkSharing) -> ClusterSpec {
    let mut spec = ClusterSpec::new(peers);
    spec.compute =
        vec![ComputeModel::Jitter { deviation: 0.3 }, ComputeModel::Stragglers { probability: 0.05, factor: 4.0 }];
    (spec.link.jitter, spec.link.loss) = (SimDuration::from_micros(20), 0.01);
    spec.link.sharing = sharing;
    spec
}

#[test]
fn runs_repeat_with_the_same_seed_only() {
    for sharing in [LinkSharing::Queue, LinkSharing::Fair] {
        let run = |seed| {
            let mut simulation =
                Simulation::new(&noisy(12, sharing), seed, |_| Busy { left: 20, ticks: 0 }).unwrap().with_trace();
            let ended = simulation.run().unwrap();
            (ended, simulation.usage().to_vec(), simulation.trace().unwrap().clone())
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5).0.digest, run(6).0.digest);
    }
}

#[test]
fn a_thousand_peers_run() {
    let ended =
        Simulation::new(&noisy(1024, LinkSharing::Queue), 1, |_| Busy { left: 20, ticks: 0 }).unwrap().run().unwrap();
    assert!(ended.events > 1024 * 100, "{ended:?}");
}

#[test]
fn a_clock_that_drifts_shows_its_own_time() {
    let mut spec = ClusterSpec::new(2);
    spec.faults = vec![Fault::Drift { peer: 1, ppm: 1000.0 }];
    let mut simulation = Simulation::new(&spec, 1, |_| Busy { left: 0, ticks: 0 }).unwrap();
    let ended = simulation.run().unwrap();
    assert_eq!(simulation.actors()[0].ticks, 1_000_000);
    // A millisecond of the fast clock is a little less real time, and reads as a millisecond there.
    assert!(simulation.actors()[1].ticks.abs_diff(1_000_000) <= 1);
    assert_eq!(ended.end_time, SimDuration::from_millis(1));
}

#[test]
fn a_deadlock_reports_the_wait_graph() {
    let simulation =
        Simulation::new(&simple(2, LinkSharing::Queue), 1, |me| Sender { expects: me.index(), ..Sender::default() });
    let trouble = simulation.unwrap().run().unwrap_err();
    let SimError::Deadlock { at, .. } = &trouble else { panic!("{trouble}") };
    assert_eq!(*at, SimDuration::ZERO);
    assert_eq!(
        trouble.to_string(),
        "deadlock at 0ns: no event is left, and these actors wait\n  peer 1, driver waits for 1 messages"
    );
}
