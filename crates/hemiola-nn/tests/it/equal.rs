//! Synchronous training is that of one process with all examples, whatever the strategy.

use crate::net::{distance, train};
use hemiola_collective::Encoding;
use hemiola_collective_proto::graph::Topology;
use hemiola_nn::Optimizer;
use hemiola_strategy::{Builder, Cluster, Link, Node, Strategy, Synchronizer};

/// Sums are added in another order: what that makes of numbers around 1 in twenty steps.
const TOLERANCE: f32 = 2e-4;

#[test]
fn every_builder_trains_what_one_process_trains() {
    for optimizer in [Optimizer::sgd(0.1).momentum(0.9), Optimizer::adam(0.01)] {
        let (alone, _) = train(1, 20, &optimizer, |builder| builder).unwrap();
        for peers in [2, 4] {
            for builder in Builder::ALL {
                let (all, _) = train(peers, 20, &optimizer, |set| set.strategy(builder)).unwrap();
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert!(
                    all.iter().all(|values| bits(values) == bits(&all[0])),
                    "{builder} on {peers} peers: copies differ"
                );
                let far = distance(&all[0], &alone[0]);
                assert!(far < TOLERANCE, "{builder} on {peers} peers with {optimizer:?}: {far}");
            }
        }
    }
}

#[test]
fn training_learns_and_repeats_its_bits() {
    let optimizer = Optimizer::adam(0.01);
    let run = || train(3, 60, &optimizer, |builder| builder.strategy(Builder::Parallax)).unwrap();
    let ((one, losses), (other, _)) = (run(), run());
    assert_eq!(one, other);
    assert!(losses[losses.len() - 1] < 0.9 * losses[0], "{losses:?}");
}

/// A strategy of a builder with every node changed.
fn changed(peers: usize, builder: Builder, change: impl Fn(&mut Node)) -> Strategy {
    let described = hemiola_cluster::standalone(1).run(|cluster| {
        let trainer = hemiola_nn::Trainer::new(cluster, crate::net::Net::new(), Optimizer::sgd(0.1)).build()?;
        Ok(trainer.variables().clone())
    });
    let described = &described.unwrap()[0];
    let network = Cluster::uniform(peers, Link::bits(1e9, 1e-4));
    let mut strategy = builder.build(described, &network).unwrap();
    strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes).for_each(change);
    strategy
}

#[test]
fn encodings_come_close_and_keep_copies_equal() {
    let optimizer = Optimizer::sgd(0.05);
    let (alone, _) = train(1, 20, &optimizer, |builder| builder).unwrap();
    for builder in [Builder::AllReduce { chunk: Some(3) }, Builder::Balanced] {
        for (encoding, near) in [(Encoding::Bf16, 0.02), (Encoding::OneBit { block: 64 }, 0.5)] {
            if builder == Builder::Balanced && encoding != Encoding::Bf16 {
                continue; // Servers keep no error of what they send back.
            }
            let strategy = changed(2, builder, |node| {
                if matches!(node.synchronizer, Synchronizer::AllReduce { .. } | Synchronizer::Served) {
                    node.encoding = encoding;
                }
            });
            let (all, _) = train(2, 20, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
            assert_eq!(all[0], all[1], "{builder} {encoding:?}");
            let far = distance(&all[0], &alone[0]);
            assert!(far < near && far > 0.0, "{builder} {encoding:?}: {far}");
        }
    }
}

#[test]
fn stale_copies_learn_and_agree_in_the_end() {
    let optimizer = Optimizer::sgd(0.05);
    for builder in [Builder::Balanced, Builder::Partitioned { most: Some(2) }, Builder::Parallax] {
        let strategy = changed(2, builder, |node| {
            if matches!(node.synchronizer, Synchronizer::Served | Synchronizer::ServedRows) {
                node.staleness = 2;
            }
        });
        let (all, losses) = train(2, 60, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
        assert_eq!(all[0], all[1], "{builder}");
        assert!(losses[losses.len() - 1] < 0.95 * losses[0], "{builder}: {losses:?}");
    }
}

#[test]
fn mixing_over_a_graph_comes_close() {
    let optimizer = Optimizer::sgd(0.05);
    let (alone, _) = train(1, 30, &optimizer, |builder| builder).unwrap();
    let strategy =
        changed(3, Builder::AllReduce { chunk: Some(1) }, |node| node.synchronizer = Synchronizer::Mix(Topology::Ring));
    let (all, _) = train(3, 30, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
    for values in &all {
        assert!(distance(values, &alone[0]) < 0.05, "{}", distance(values, &alone[0]));
    }
    assert!(all[0] != all[1], "copies of a graph are close, not equal");
}
