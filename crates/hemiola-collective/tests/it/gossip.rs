//! Gossip averaging: against a serial reference, with each synchronization, and with a lost peer.

use crate::support::{number, with_watchdog};
use half::bf16;
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{
    CollectiveExt as _, GossipExt as _, GossipSync, GossipWeights, PeerLossPolicy, ReduceOp, Topology,
};
use hemiola_core::Rank;
use std::sync::Mutex;

const LENGTH: usize = 70_001;

fn start(peer: usize) -> Vec<f64> {
    (0..LENGTH).map(|index| number(peer, index)).collect()
}

/// Serial reference: values of all peers after some rounds.
fn serial(weights: &GossipWeights, rounds: usize) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = (0..weights.peers()).map(start).collect();
    for _ in 0..rounds {
        let next = |peer: Rank| {
            let row = weights.row(peer);
            let sum = |index: usize| {
                row.units().iter().map(|&(from, units)| f64::from(units) * all[from.index()][index]).sum::<f64>()
            };
            (0..LENGTH).map(|index| sum(index) / f64::from(row.denominator())).collect()
        };
        all = Rank::all(weights.peers()).map(next).collect();
    }
    all
}

#[test]
fn averages_with_notify_ack_equal_the_serial_reference_to_the_bit() {
    with_watchdog(|| {
        for (peers, kind) in
            [(1, Topology::Ring), (2, Topology::Complete), (5, Topology::RootExpander), (4, Topology::Star)]
        {
            let graph = kind.graph(peers).unwrap();
            let expected = serial(&GossipWeights::balanced(&graph).unwrap(), 3);
            standalone(peers)
                .run(|cluster| {
                    let mut gossip = cluster.gossip::<f64>(&graph, LENGTH).build()?;
                    let mut values = start(cluster.rank().index());
                    for round in 0..3 {
                        let reduced = gossip.average(&mut values)?;
                        assert_eq!((reduced.round, reduced.used), (round, graph.senders(cluster.rank()).len()));
                    }
                    assert_eq!(gossip.stats().consistent, 3);
                    assert!(values == expected[cluster.rank().index()], "{kind:?}");
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn averages_in_half_precision_converge_to_their_precision() {
    with_watchdog(|| {
        standalone(4)
            .run(|cluster| {
                let graph = cluster.graph(&Topology::RootExpander)?;
                let mut gossip = cluster.gossip::<bf16>(&graph, 100).build()?;
                // The model stays in f32; the change of its rounded copy is added to it.
                let mut model: Vec<f32> = (0..100).map(|index| number(cluster.rank().index(), index) as f32).collect();
                for _ in 0..30 {
                    let rounded: Vec<bf16> = model.iter().copied().map(bf16::from_f32).collect();
                    let mut mixed = rounded.clone();
                    gossip.average(&mut mixed)?;
                    for ((value, mixed), rounded) in model.iter_mut().zip(mixed).zip(rounded) {
                        *value += mixed.to_f32() - rounded.to_f32();
                    }
                }
                for (index, value) in model.into_iter().enumerate() {
                    let mean = (0..4).map(|peer| number(peer, index)).sum::<f64>() / 4.0;
                    // Values up to 52, rounded to 8 bits: steps of a quarter, one for each of a few
                    // rounds.
                    assert!((f64::from(value) - mean).abs() < 1.0, "{value}, not {mean}");
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn no_synchronization_invents_values() {
    with_watchdog(|| {
        let graph = Topology::RootExpander.graph(4).unwrap();
        for synchronization in [GossipSync::NotifyAck, GossipSync::Barrier, GossipSync::Asynchronous] {
            standalone(4)
                .run(|cluster| {
                    let me = cluster.rank().index() as f32;
                    let mut gossip = cluster.gossip::<f32>(&graph, LENGTH).synchronization(synchronization).build()?;
                    let mut values = vec![me; LENGTH];
                    for _ in 0..30 {
                        gossip.push(&values)?;
                        gossip.reduce(&mut values)?;
                        // A torn read would leave elements that differ.
                        assert!(values.iter().all(|value| value.to_bits() == values[0].to_bits()));
                        assert!((0.0..=3.0).contains(&values[0]));
                    }
                    let stats = gossip.stats();
                    assert_eq!(stats.reduces, 30);
                    assert!(stats.consistent_share() <= 1.0 && stats.bytes > 0);
                    if synchronization == GossipSync::NotifyAck {
                        assert_eq!((stats.consistent, stats.torn, stats.missing, stats.stale), (30, 0, 0, 0));
                        assert!((values[0] - 1.5).abs() < 1e-3, "{}", values[0]);
                    }
                    Ok(())
                })
                .unwrap();
        }
    });
}

/// Peer 2 fails in round 5; returns the results of the others.
fn without_one(synchronization: GossipSync, on_peer_loss: PeerLossPolicy) -> Vec<Result<(f64, Vec<Rank>)>> {
    let outcomes = Mutex::new(Vec::new());
    let program = |cluster: &Cluster| -> Result<(f64, Vec<Rank>)> {
        let graph = Topology::RootExpander.graph(5).unwrap();
        let gossip = cluster.gossip::<f64>(&graph, 1000).synchronization(synchronization).on_peer_loss(on_peer_loss);
        let mut gossip = gossip.build()?;
        let mut values = vec![cluster.rank().index() as f64; 1000];
        for round in 0..200 {
            if round == 5 && cluster.rank() == Rank::new(2) {
                return Err("out of luck".into());
            }
            gossip.average(&mut values)?;
        }
        assert!(values.iter().all(|value| value.to_bits() == values[0].to_bits()));
        Ok((values[0], gossip.stats().lost.clone()))
    };
    let outcome = standalone(5).run(|cluster| {
        let found = program(cluster);
        if cluster.rank() == Rank::new(2) {
            return found.map(drop);
        }
        let failed = found.as_ref().err().map(ToString::to_string);
        outcomes.lock().unwrap().push(found);
        failed.map_or(Ok(()), |text| Err(text.into()))
    });
    assert!(outcome.unwrap_err().to_string().contains("out of luck"));
    outcomes.into_inner().unwrap()
}

#[test]
fn the_remaining_peers_continue_if_lost_peers_are_excluded() {
    with_watchdog(|| {
        for synchronization in [GossipSync::NotifyAck, GossipSync::Barrier] {
            let outcomes = without_one(synchronization, PeerLossPolicy::Exclude);
            assert_eq!(outcomes.len(), 4);
            let values: Vec<(f64, Vec<Rank>)> = outcomes.into_iter().map(Result::unwrap).collect();
            for (value, lost) in &values {
                assert_eq!(*lost, [Rank::new(2)]);
                if synchronization == GossipSync::NotifyAck {
                    assert!((value - values[0].0).abs() < 1e-9, "all agree: {values:?}");
                }
                assert!((0.0..=4.0).contains(value));
            }
        }
    });
}

#[test]
fn the_remaining_peers_fail_and_name_the_lost_peer_by_default() {
    with_watchdog(|| {
        for synchronization in [GossipSync::NotifyAck, GossipSync::Barrier, GossipSync::Asynchronous] {
            let outcomes = without_one(synchronization, PeerLossPolicy::Fail);
            let failed = outcomes.into_iter().filter_map(Result::err).collect::<Vec<_>>();
            // A peer that waits for none may have finished before.
            assert!(synchronization == GossipSync::Asynchronous || failed.len() == 4);
            assert!(failed.iter().all(|error| error.to_string().contains('2')), "{failed:?}");
        }
    });
}

#[test]
fn different_settings_are_an_error_on_all() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let graph = Topology::Ring.graph(3).unwrap();
                let length = if cluster.rank() == Rank::new(1) { 11 } else { 10 };
                let error = cluster.gossip::<f32>(&graph, length).build().unwrap_err().to_string();
                assert!(error.contains("peer 1") && error.contains("10 f32") && error.contains("11 f32"), "{error}");
                let chain = Topology::Chain.graph(3).unwrap();
                let error = cluster.gossip::<f32>(&chain, 10).build().unwrap_err().to_string();
                assert!(error.contains("never reach"), "{error}");
                let mut one = [1.0_f32];
                cluster.communicator()?.all_reduce(&mut one, ReduceOp::Sum)?;
                assert_eq!(one.to_vec(), [3.0]);
                Ok(())
            })
            .unwrap();
    });
}
