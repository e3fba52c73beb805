//! What the modelled network does to messages: times, order, sharing, faults; and that a run can be repeated.

use hemiola_core::{Lane, Rank};
use hemiola_sim::describe::{Compute, Fault, Racks, Sharing};
use hemiola_sim::{Actor, Context, Description, Outcome, Rate, Span, Trouble, Wait, World};

/// Sends what it is told to at the beginning, and writes down what comes when.
#[derive(Debug, Default)]
struct Sender {
    /// Receiver, lane, bytes.
    sends: Vec<(u32, Lane, usize)>,
    /// Messages that will come.
    expects: usize,
    /// Sender, number, and when.
    came: Vec<(u32, usize, u64)>,
    lost: Vec<(u32, u64)>,
    starts: usize,
}

impl Actor for Sender {
    type Message = usize;

    fn start(&mut self, context: &mut Context<'_, usize>) -> Outcome {
        self.starts += 1;
        for (number, (to, lane, bytes)) in self.sends.iter().enumerate() {
            context.send(Rank::new(*to), *lane, *bytes, number);
        }
        Ok(())
    }

    fn receive(&mut self, from: Rank, number: usize, context: &mut Context<'_, usize>) -> Outcome {
        self.came.push((from.number(), number, context.now().as_nanos()));
        Ok(())
    }

    fn timer(&mut self, _: u64, _: &mut Context<'_, usize>) -> Outcome {
        Ok(())
    }

    fn lost(&mut self, peer: Rank, context: &mut Context<'_, usize>) -> Outcome {
        self.lost.push((peer.number(), context.now().as_nanos()));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.came.len() >= self.expects
    }

    fn waits(&self) -> Vec<Wait> {
        let missing = self.expects.saturating_sub(self.came.len());
        if missing == 0 { Vec::new() } else { vec![Wait::new("driver", format!("{missing} messages"), Vec::new())] }
    }
}

/// A link of a byte each nanosecond and a latency of 100 ns, with no costs beside that.
fn simple(peers: usize, sharing: Sharing) -> Description {
    let mut description = Description::new(peers);
    description.link.bandwidth = Rate::from_bytes(1_000_000_000);
    description.link.latency = Span::from_nanos(100);
    (description.link.overhead, description.link.header) = (Span::ZERO, 0);
    description.link.sharing = sharing;
    description
}

/// Lets each peer send, and gives what came to whom.
fn run(description: &Description, sends: &[&[(u32, Lane, usize)]]) -> Vec<Sender> {
    let mut world = World::new(description, 3, |me| Sender {
        sends: sends.get(me.index()).map_or(Vec::new(), |sends| sends.to_vec()),
        expects: sends.iter().flat_map(|sends| sends.iter()).filter(|send| send.0 == me.number()).count(),
        ..Sender::default()
    })
    .unwrap();
    world.run().unwrap();
    (0..description.peers).map(|peer| Sender { came: world.actors()[peer].came.clone(), ..Sender::default() }).collect()
}

const BULK: Lane = Lane::Bulk;

#[test]
fn a_message_alone_takes_latency_and_bytes_over_bandwidth() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let peers = run(&simple(2, sharing), &[&[(1, BULK, 5000)]]);
        assert_eq!(peers[1].came, [(0, 0, 5100)], "{sharing:?}");
    }
}

#[test]
fn every_packet_has_a_header() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let mut description = simple(2, sharing);
        description.link.header = 66;
        let came = |bytes: usize| run(&description, &[&[(1, BULK, bytes)]])[1].came[0].2;
        assert_eq!([came(1), came(1448), came(1449)], [167, 1614, 1681], "{sharing:?}");
    }
}

#[test]
fn two_senders_share_a_receiver_and_queues_serve_the_first_first() {
    let sends: [&[_]; 2] = [&[(2, BULK, 1000)], &[(2, BULK, 1000)]];
    assert_eq!(run(&simple(3, Sharing::Queue), &sends)[2].came, [(0, 0, 1100), (1, 0, 2100)]);
    assert_eq!(run(&simple(3, Sharing::Fair), &sends)[2].came, [(0, 0, 2100), (1, 0, 2100)]);
}

#[test]
fn order_is_kept_inside_a_lane_and_the_control_lane_overtakes() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let mut description = simple(2, sharing);
        description.link.jitter = Span::from_nanos(5000);
        description.link.loss = 0.01;
        let sends: Vec<(u32, Lane, usize)> =
            (0..200).map(|_| (1, BULK, 1000)).chain([(1, Lane::Control, 10)]).collect();
        let came: Vec<usize> = run(&description, &[&sends])[1].came.iter().map(|(_, number, _)| *number).collect();
        let bulk: Vec<usize> = came.iter().copied().filter(|number| *number < 200).collect();
        assert!(bulk.into_iter().eq(0..200), "{sharing:?}");
        assert!(came.iter().position(|number| *number == 200).unwrap() < 150, "{sharing:?} {came:?}");
    }
}

#[test]
fn an_uplink_is_narrower_than_the_interfaces_behind_it() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let mut description = simple(8, sharing);
        description.racks = Some(Racks { peers: 4, uplink: Rate::from_bytes(1_000_000_000), latency: Span::ZERO });
        let across: Vec<[(u32, Lane, usize); 1]> = (4..8).map(|to| [(to, BULK, 1000)]).collect();
        let sends: Vec<&[(u32, Lane, usize)]> = across.iter().map(|send| &send[..]).collect();
        let last = run(&description, &sends)[4..].iter().map(|peer| peer.came[0].2).max().unwrap();
        assert!((4100..4200).contains(&last), "{sharing:?}: four thousand bytes through one uplink took {last}");
    }
}

#[test]
fn a_slow_link_takes_longer_while_it_is_slow() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let mut description = simple(2, sharing);
        let (at, until) = (Span::ZERO, Span::from_secs(1));
        description.faults = vec![Fault::Slow { peer: 0, at, until, factor: 3.0 }];
        assert_eq!(run(&description, &[&[(1, BULK, 1000)]])[1].came[0].2, 3100, "{sharing:?}");
    }
}

#[test]
fn a_partition_holds_messages_back_and_a_long_one_loses_peers() {
    let mut description = simple(3, Sharing::Queue);
    description.faults = vec![Fault::Partition { peers: vec![0], at: Span::ZERO, until: Span::from_millis(5) }];
    let peers = run(&description, &[&[(1, BULK, 10)], &[(2, BULK, 10)]]);
    assert!(peers[1].came[0].2 > 5_000_000, "{:?}", peers[1].came);
    assert!(peers[2].came[0].2 < 1000, "both are on the other side");

    description.deadline = Span::from_millis(2);
    let mut world = World::new(&description, 1, |me| Sender {
        sends: if me == Rank::ROOT { vec![(1, BULK, 10)] } else { Vec::new() },
        ..Sender::default()
    })
    .unwrap();
    world.run().unwrap();
    assert_eq!(world.actors()[0].lost, [(1, 2_000_000), (2, 2_000_000)]);
    assert_eq!(world.actors()[1].lost, [(0, 2_000_000)]);
    assert!(world.actors()[1].came.is_empty(), "what comes from the lost is not heard");
}

#[test]
fn a_crash_is_noticed_at_once_or_by_the_deadline_and_a_restart_begins_anew() {
    for silent in [false, true] {
        let mut description = simple(2, Sharing::Queue);
        description.faults = vec![
            Fault::Crash { peer: 1, at: Span::from_millis(1), silent },
            Fault::Restart { peer: 1, at: Span::from_secs(20) },
        ];
        let mut world =
            World::new(&description, 1, |_| Sender { sends: vec![(0, BULK, 10)], ..Sender::default() }).unwrap();
        world.run().unwrap();
        let noticed = if silent { 10_001_000_000 } else { 1_000_100 };
        assert_eq!(world.actors()[0].lost, [(1, noticed)]);
        assert_eq!(world.actors()[1].starts, 2);
        assert_eq!(world.actors()[0].came.len(), 3, "its own, and one of each life of the other");
    }
}

/// Computes, sends to the next, and so on.
#[derive(Debug)]
struct Busy {
    left: u32,
    ticks: u64,
}

impl Actor for Busy {
    type Message = u32;

    fn start(&mut self, context: &mut Context<'_, u32>) -> Outcome {
        context.compute(0, "computes", Span::from_micros(100), 0);
        context.after(Span::from_millis(1), 1);
        Ok(())
    }

    fn receive(&mut self, _: Rank, hops: u32, context: &mut Context<'_, u32>) -> Outcome {
        if hops > 0 {
            let peers = context.peers();
            let to = Rank::new(context.random().below(peers) as u32);
            context.send(to, Lane::Bulk, 1000, hops - 1);
        }
        Ok(())
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_, u32>) -> Outcome {
        self.ticks = context.now().as_nanos();
        if token == 0 && self.left > 0 {
            self.left -= 1;
            let next = Rank::new(((context.me().index() + 1) % context.peers()) as u32);
            context.send(next, Lane::Bulk, 5000, 3);
            context.compute(0, "computes", Span::from_micros(100), 0);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }

    fn waits(&self) -> Vec<Wait> {
        Vec::new()
    }
}

fn noisy(peers: usize, sharing: Sharing) -> Description {
    let mut description = Description::new(peers);
    description.compute = vec![Compute::Jitter { deviation: 0.3 }, Compute::Stragglers { chance: 0.05, factor: 4.0 }];
    (description.link.jitter, description.link.loss) = (Span::from_micros(20), 0.01);
    description.link.sharing = sharing;
    description
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    for sharing in [Sharing::Queue, Sharing::Fair] {
        let run = |seed| {
            let mut world = World::new(&noisy(12, sharing), seed, |_| Busy { left: 20, ticks: 0 }).unwrap().traced();
            let ended = world.run().unwrap();
            (ended, world.accounts().to_vec(), world.trace().unwrap().clone())
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5).0.digest, run(6).0.digest);
    }
}

#[test]
fn a_thousand_peers_run() {
    let ended = World::new(&noisy(1024, Sharing::Queue), 1, |_| Busy { left: 20, ticks: 0 }).unwrap().run().unwrap();
    assert!(ended.events > 1024 * 100, "{ended:?}");
}

#[test]
fn a_clock_that_drifts_shows_its_own_time() {
    let mut description = Description::new(2);
    description.faults = vec![Fault::Drift { peer: 1, millionths: 1000.0 }];
    let mut world = World::new(&description, 1, |_| Busy { left: 0, ticks: 0 }).unwrap();
    let ended = world.run().unwrap();
    assert_eq!(world.actors()[0].ticks, 1_000_000);
    // A millisecond of its own clock is a bit less of true time, and reads as a millisecond there.
    assert!(world.actors()[1].ticks.abs_diff(1_000_000) <= 1);
    assert_eq!(ended.at, Span::from_millis(1));
}

#[test]
fn nothing_left_to_happen_is_told_with_who_waits() {
    let world = World::new(&simple(2, Sharing::Queue), 1, |me| Sender { expects: me.index(), ..Sender::default() });
    let trouble = world.unwrap().run().unwrap_err();
    let Trouble::Stuck { at, .. } = &trouble else { panic!("{trouble}") };
    assert_eq!(*at, Span::ZERO);
    assert_eq!(
        trouble.to_string(),
        "stuck at 0ns: nothing can happen any more, and somebody waits\n  peer 1, driver waits for 1 messages"
    );
}
