//! Figures of papers, in virtual time: directions that our protocols must show as well.

use hemiola_collective::{Synchronization, Topology, Weights};
use hemiola_sim::actors::mixing::{Mixing, Setup};
use hemiola_sim::describe::Compute;
use hemiola_sim::{Description, Span, World};
use std::sync::Arc;

/// Seconds for each round, and the share of senders' values that reduces found whole and of their own round.
fn mixing(synchronization: Synchronization, compute: Vec<Compute>) -> (f64, f64) {
    let (peers, rounds) = (25, 100);
    let mut cluster = Description::new(peers);
    cluster.compute = compute;
    cluster.link.jitter = Span::from_micros(20);
    let setup = Setup {
        weights: Weights::average(&Topology::RootExpander.graph(peers).unwrap()),
        length: 2000,
        piece: 500,
        synchronization,
        rounds,
        step: Arc::new(|_, _, _| {}),
        work: Span::from_millis(1),
        outlives: false,
        alone: false,
    };
    let mut world = World::new(&cluster, 1, |me| Mixing::new(me, peers, setup.clone()).ok()).unwrap();
    let ended = world.run().unwrap();
    let reduced: Vec<_> = world.actors().iter().flatten().flat_map(Mixing::history).map(|(_, one)| *one).collect();
    let whole: usize = reduced.iter().map(|one| one.used - one.stale).sum();
    let senders: usize = reduced.iter().map(|one| one.senders).sum();
    (ended.at.secs() / rounds as f64, whole as f64 / senders as f64)
}

#[test]
fn notify_ack_beats_a_barrier_where_peers_are_uneven_and_loses_nothing() {
    // Figure 10 of the ASAP paper: 25 peers, a root expander; NOTIFY-ACK came to the same loss about three times as fast as BSP.
    for (name, compute) in [
        ("even", vec![]),
        ("jitter", vec![Compute::Jitter { deviation: 0.3 }]),
        ("stragglers", vec![Compute::Stragglers { chance: 0.02, factor: 10.0 }]),
    ] {
        let (fine, all) = mixing(Synchronization::NotifyAck, compute.clone());
        let (coarse, some) = mixing(Synchronization::Barrier, compute.clone());
        let (free, few) = mixing(Synchronization::Asynchronous, compute);
        let milli = |seconds: f64| 1e3 * seconds;
        let found = format!(
            "{name}: NOTIFY-ACK {:.2} ms, {all:.3} whole; barrier {:.2} ms, {some:.3}; neither {:.2} ms, {few:.3}",
            milli(fine),
            milli(coarse),
            milli(free)
        );
        assert!((all - 1.0).abs() < 1e-12, "{found}");
        assert!(few < all, "{found}");
        assert!(free <= fine && fine < coarse, "{found}");
        if name != "even" {
            assert!(coarse > 1.15 * fine, "{found}");
        }
    }
}
