//! Averages over a graph: against one thread, with each synchronization, and without a peer that dies.

use crate::support::{number, with_watchdog};
use half::bf16;
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{MakeCollectives as _, MakeMixing as _, OnLoss, Operator, Synchronization, Topology, Weights};
use hemiola_collective_proto::encode::to_bf16;
use hemiola_core::Rank;
use std::sync::Mutex;

const LENGTH: usize = 70_001;

fn start(peer: usize) -> Vec<f64> {
    (0..LENGTH).map(|place| number(peer, place)).collect()
}

/// What all peers have after some rounds, computed by one thread.
fn serial(weights: &Weights, rounds: usize) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = (0..weights.peers()).map(start).collect();
    for _ in 0..rounds {
        let next = |peer: Rank| {
            let row = weights.row(peer);
            let sum = |place: usize| {
                row.units().iter().map(|&(from, units)| f64::from(units) * all[from.index()][place]).sum::<f64>()
            };
            (0..LENGTH).map(|place| sum(place) / f64::from(row.denominator())).collect()
        };
        all = Rank::all(weights.peers()).map(next).collect();
    }
    all
}

#[test]
fn averages_with_acknowledgement_are_those_of_one_thread_to_the_bit() {
    with_watchdog(|| {
        for (peers, kind) in
            [(1, Topology::Ring), (2, Topology::Complete), (5, Topology::RootExpander), (4, Topology::Star)]
        {
            let graph = kind.graph(peers).unwrap();
            let expected = serial(&Weights::balanced(&graph).unwrap(), 3);
            standalone(peers)
                .run(|cluster| {
                    let mut mixing = cluster.mixing::<f64>(&graph, LENGTH).build()?;
                    let mut values = start(cluster.rank().index());
                    for round in 0..3 {
                        let reduced = mixing.mix(&mut values)?;
                        assert_eq!((reduced.round, reduced.used), (round, graph.senders(cluster.rank()).len()));
                    }
                    assert_eq!(mixing.tally().consistent, 3);
                    assert!(values == expected[cluster.rank().index()], "{kind:?}");
                    Ok(())
                })
                .unwrap();
        }
    });
}

#[test]
fn averages_in_half_the_bytes_come_together_to_their_precision() {
    with_watchdog(|| {
        standalone(4)
            .run(|cluster| {
                let graph = cluster.graph(&Topology::RootExpander)?;
                let mut mixing = cluster.mixing::<bf16>(&graph, 100).build()?;
                // The model stays in f32; what mixing changes in its rounded copy is added to it.
                let mut model: Vec<f32> = (0..100).map(|place| number(cluster.rank().index(), place) as f32).collect();
                for _ in 0..30 {
                    let rounded = to_bf16(&model);
                    let mut mixed = rounded.clone();
                    mixing.mix(&mut mixed)?;
                    for ((value, mixed), rounded) in model.iter_mut().zip(mixed).zip(rounded) {
                        *value += mixed.to_f32() - rounded.to_f32();
                    }
                }
                for (place, value) in model.into_iter().enumerate() {
                    let mean = (0..4).map(|peer| number(peer, place)).sum::<f64>() / 4.0;
                    // Numbers up to 52, rounded to 8 bits: steps of a quarter, one for each of a few rounds.
                    assert!((f64::from(value) - mean).abs() < 1.0, "{value}, not {mean}");
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn every_synchronization_keeps_to_what_was_sent() {
    with_watchdog(|| {
        let graph = Topology::RootExpander.graph(4).unwrap();
        for synchronization in [Synchronization::NotifyAck, Synchronization::Barrier, Synchronization::Asynchronous] {
            standalone(4)
                .run(|cluster| {
                    let me = cluster.rank().index() as f32;
                    let mut mixing = cluster.mixing::<f32>(&graph, LENGTH).synchronization(synchronization).build()?;
                    let mut values = vec![me; LENGTH];
                    for _ in 0..30 {
                        mixing.push(&values)?;
                        mixing.reduce(&mut values)?;
                        // A torn read would leave parts that differ.
                        assert!(values.iter().all(|value| value.to_bits() == values[0].to_bits()));
                        assert!((0.0..=3.0).contains(&values[0]));
                    }
                    let tally = mixing.tally();
                    assert_eq!(tally.reduces, 30);
                    assert!(tally.consistent_share() <= 1.0 && tally.bytes > 0);
                    if synchronization == Synchronization::NotifyAck {
                        assert_eq!((tally.consistent, tally.torn, tally.missing, tally.stale), (30, 0, 0, 0));
                        assert!((values[0] - 1.5).abs() < 1e-3, "{}", values[0]);
                    }
                    Ok(())
                })
                .unwrap();
        }
    });
}

/// Peer 2 fails in round 5; what became of the others.
fn without_one(synchronization: Synchronization, on_loss: OnLoss) -> Vec<Result<(f64, Vec<Rank>)>> {
    let outcomes = Mutex::new(Vec::new());
    let program = |cluster: &Cluster| -> Result<(f64, Vec<Rank>)> {
        let graph = Topology::RootExpander.graph(5).unwrap();
        let mixing = cluster.mixing::<f64>(&graph, 1000).synchronization(synchronization).on_loss(on_loss);
        let mut mixing = mixing.build()?;
        let mut values = vec![cluster.rank().index() as f64; 1000];
        for round in 0..200 {
            if round == 5 && cluster.rank() == Rank::new(2) {
                return Err("out of luck".into());
            }
            mixing.mix(&mut values)?;
        }
        assert!(values.iter().all(|value| value.to_bits() == values[0].to_bits()));
        Ok((values[0], mixing.tally().lost.clone()))
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
fn the_others_go_on_without_a_peer_if_they_are_told_to() {
    with_watchdog(|| {
        for synchronization in [Synchronization::NotifyAck, Synchronization::Barrier] {
            let outcomes = without_one(synchronization, OnLoss::Drop);
            assert_eq!(outcomes.len(), 4);
            let values: Vec<(f64, Vec<Rank>)> = outcomes.into_iter().map(Result::unwrap).collect();
            for (value, lost) in &values {
                assert_eq!(*lost, [Rank::new(2)]);
                if synchronization == Synchronization::NotifyAck {
                    assert!((value - values[0].0).abs() < 1e-9, "all agree: {values:?}");
                }
                assert!((0.0..=4.0).contains(value));
            }
        }
    });
}

#[test]
fn or_they_fail_and_name_it() {
    with_watchdog(|| {
        for synchronization in [Synchronization::NotifyAck, Synchronization::Barrier, Synchronization::Asynchronous] {
            let outcomes = without_one(synchronization, OnLoss::Fail);
            let failed = outcomes.into_iter().filter_map(Result::err).collect::<Vec<_>>();
            // Who waits for nobody may have come to the end before.
            assert!(synchronization == Synchronization::Asynchronous || failed.len() == 4);
            assert!(failed.iter().all(|error| error.to_string().contains('2')), "{failed:?}");
        }
    });
}

#[test]
fn settings_that_differ_are_an_error_on_all() {
    with_watchdog(|| {
        standalone(3)
            .run(|cluster| {
                let graph = Topology::Ring.graph(3).unwrap();
                let length = if cluster.rank() == Rank::new(1) { 11 } else { 10 };
                let error = cluster.mixing::<f32>(&graph, length).build().unwrap_err().to_string();
                assert!(error.contains("peer 1") && error.contains("10 f32") && error.contains("11 f32"), "{error}");
                let chain = Topology::Chain.graph(3).unwrap();
                let error = cluster.mixing::<f32>(&chain, 10).build().unwrap_err().to_string();
                assert!(error.contains("never reach"), "{error}");
                let mut one = [1.0_f32];
                cluster.collectives()?.all_reduce(&mut one, Operator::Sum)?;
                assert_eq!(one.to_vec(), [3.0]);
                Ok(())
            })
            .unwrap();
    });
}
