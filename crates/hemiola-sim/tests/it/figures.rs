//! Figures of papers in virtual time: tendencies that Hemiola's protocols must reproduce.

use hemiola_collective_proto::{GossipSync, GossipWeights, Topology};
use hemiola_sim::actors::gossip::{GossipActor, GossipSetup};
use hemiola_sim::cluster_spec::ComputeModel;
use hemiola_sim::paper_figures::{FigureName, PaperFigure};
use hemiola_sim::{ClusterSpec, SimDuration, Simulation};
use std::sync::Arc;

/// Returns the seconds per round, and the share of senders' values that were complete and current.
fn gossip(synchronization: GossipSync, compute: Vec<ComputeModel>) -> (f64, f64) {
    let (peers, rounds) = (25, 100);
    let mut cluster = ClusterSpec::new(peers);
    cluster.compute = compute;
    cluster.link.jitter = SimDuration::from_micros(20);
    let setup = GossipSetup {
        weights: GossipWeights::average(&Topology::RootExpander.graph(peers).unwrap()).into(),
        length: 2000,
        piece: 500,
        value_bytes: 8,
        synchronization,
        rounds,
        step: Arc::new(|_, _, _| {}),
        work: SimDuration::from_millis(1),
        survives_losses: false,
        ignore_others: false,
    };
    let mut simulation = Simulation::new(&cluster, 1, |me| GossipActor::new(me, peers, setup.clone()).ok()).unwrap();
    let ended = simulation.run().unwrap();
    let reduced: Vec<_> =
        simulation.actors().iter().flatten().flat_map(GossipActor::history).map(|(_, one)| *one).collect();
    let whole: usize = reduced.iter().map(|one| one.used - one.stale).sum();
    let senders: usize = reduced.iter().map(|one| one.senders).sum();
    (ended.end_time.secs() / rounds as f64, whole as f64 / senders as f64)
}

#[test]
fn notify_ack_beats_a_barrier_with_uneven_peers() {
    // Figure 10 of the ASAP paper: 25 peers, a root expander; NOTIFY-ACK reached the same loss
    // about three times as fast as BSP.
    for (name, compute) in [
        ("even", vec![]),
        ("jitter", vec![ComputeModel::Jitter { deviation: 0.3 }]),
        ("stragglers", vec![ComputeModel::Stragglers { probability: 0.02, factor: 10.0 }]),
    ] {
        let (fine, all) = gossip(GossipSync::NotifyAck, compute.clone());
        let (coarse, some) = gossip(GossipSync::Barrier, compute.clone());
        let (free, few) = gossip(GossipSync::Asynchronous, compute);
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

/// Returns a column of the rows whose first cells are these.
fn column(figure: &PaperFigure, first_cells: &[&str], column: &str) -> Vec<f64> {
    let place = figure.columns.iter().position(|name| *name == column).unwrap();
    let rows = figure.rows.iter().filter(|row| row.iter().zip(first_cells).all(|(cell, begin)| cell == begin));
    rows.map(|row| row[place].trim_end_matches(" %").parse().unwrap_or(f64::NAN)).collect()
}

#[test]
fn a_rotation_is_faster_than_a_barrier() {
    // Figure 8 of SMPFRAME: 1.3 times.
    let figure = FigureName::Ring.draw(&[25], 1).unwrap();
    for network in ["20gbit", "1gbit"] {
        let faster = column(&figure, &["ring, 4 blocks each", "25", network], "times faster");
        assert!(faster.is_sorted() && faster[0] >= 1.0, "{faster:?}");
        assert!(faster[1] > 1.15 && faster[1] < 1.6, "with a tenth more or less: {faster:?}");
    }
}

#[test]
fn a_barrier_is_slow_on_a_busy_network() {
    let figure = FigureName::NotifyAck.draw(&[25], 1).unwrap();
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
