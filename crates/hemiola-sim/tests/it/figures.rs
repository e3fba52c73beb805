//! Figures of papers, in virtual time: directions that our protocols must show as well.

use hemiola_collective_proto::{Synchronization, Topology, Weights};
use hemiola_sim::actors::mixing::{Mixing, Setup};
use hemiola_sim::describe::Compute;
use hemiola_sim::figure::{Figure, Name};
use hemiola_sim::{Description, Span, World};
use std::sync::Arc;

/// Seconds for each round, and the share of senders' values that reduces found whole and of their own round.
fn mixing(synchronization: Synchronization, compute: Vec<Compute>) -> (f64, f64) {
    let (peers, rounds) = (25, 100);
    let mut cluster = Description::new(peers);
    cluster.compute = compute;
    cluster.link.jitter = Span::from_micros(20);
    let setup = Setup {
        weights: Weights::average(&Topology::RootExpander.graph(peers).unwrap()).into(),
        length: 2000,
        piece: 500,
        value_bytes: 8,
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

/// A column of a figure's rows whose first cells begin like this.
fn column(figure: &Figure, begins: &[&str], column: &str) -> Vec<f64> {
    let place = figure.columns.iter().position(|name| *name == column).unwrap();
    let rows = figure.rows.iter().filter(|row| row.iter().zip(begins).all(|(cell, begin)| cell == begin));
    rows.map(|row| row[place].trim_end_matches(" %").parse().unwrap_or(f64::NAN)).collect()
}

#[test]
fn a_ring_is_faster_than_a_barrier_and_more_so_where_visits_vary() {
    // Figure 8 of SMPFRAME: 1.3 times.
    let figure = Name::Ring.draw(&[25], 1).unwrap();
    for network in ["20gbit", "1gbit"] {
        let faster = column(&figure, &["ring, 4 blocks each", "25", network], "times faster");
        assert!(faster.is_sorted() && faster[0] >= 1.0, "{faster:?}");
        assert!(faster[1] > 1.15 && faster[1] < 1.6, "with a tenth more or less: {faster:?}");
    }
}

#[test]
fn a_barrier_is_late_where_the_network_is_busy_and_nothing_waits_for_values() {
    let figure = Name::NotifyAck.draw(&[25], 1).unwrap();
    for name in ["NOTIFY-ACK", "barrier", "neither"] {
        let whole = column(&figure, &[name], "whole");
        assert!(whole.is_sorted(), "the less there is to send, the more is in time: {name} {whole:?}");
        assert_eq!(whole.iter().all(|share| (share - 100.0).abs() < 1e-9), name == "NOTIFY-ACK", "{name} {whole:?}");
    }
    let last = |name| column(&figure, &[name], "loss at the end")[0];
    assert!(last("NOTIFY-ACK") < last("barrier") && last("barrier") < last("neither"));
    let times = column(&figure, &["barrier"], "times to 20 %");
    assert!(times.iter().all(|times| *times > 1.15), "{times:?}");
}
