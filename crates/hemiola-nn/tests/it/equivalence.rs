//! Synchronous training equals training in one process with all examples, for every strategy.

use crate::test_net::{distance, train};
use hemiola_collective::{Compression, Topology};
use hemiola_nn::Optimizer;
use hemiola_strategy::{LinkSpec, ResourceSpec, Strategy, StrategyBuilder, StrategyNode, Synchronizer};

/// Effect of another order of summation after twenty steps, for values of about 1.
const TOLERANCE: f32 = 2e-4;

#[test]
fn every_builder_trains_the_model_of_one_process() {
    for optimizer in [Optimizer::sgd(0.1).momentum(0.9), Optimizer::adam(0.01)] {
        let (alone, _) = train(1, 20, &optimizer, |builder| builder).unwrap();
        for peers in [2, 4] {
            for builder in StrategyBuilder::ALL {
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
    let run = || train(3, 60, &optimizer, |builder| builder.strategy(StrategyBuilder::Parallax)).unwrap();
    let ((one, losses), (other, _)) = (run(), run());
    assert_eq!(one, other);
    assert!(losses[losses.len() - 1] < 0.9 * losses[0], "{losses:?}");
}

/// Strategy of a builder, with `change` applied to every node.
fn changed(peers: usize, builder: StrategyBuilder, change: impl Fn(&mut StrategyNode)) -> Strategy {
    let variables = hemiola_cluster::standalone(1).run(|cluster| {
        let trainer =
            hemiola_nn::Trainer::builder(cluster, crate::test_net::Net::new(), Optimizer::sgd(0.1)).build()?;
        Ok(trainer.variables().clone())
    });
    let variables = &variables.unwrap()[0];
    let network = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
    let mut strategy = builder.build(variables, &network).unwrap();
    strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes).for_each(change);
    strategy
}

#[test]
fn compression_comes_close_and_keeps_copies_equal() {
    let optimizer = Optimizer::sgd(0.05);
    let (alone, _) = train(1, 20, &optimizer, |builder| builder).unwrap();
    for builder in [StrategyBuilder::AllReduce { chunk: Some(3) }, StrategyBuilder::Balanced] {
        for (compression, near) in [(Compression::Bf16, 0.02), (Compression::OneBit { block: 64 }, 0.5)] {
            if builder == StrategyBuilder::Balanced && compression != Compression::Bf16 {
                continue; // Servers have no error feedback for values.
            }
            let strategy = changed(2, builder, |node| {
                if matches!(node.synchronizer, Synchronizer::AllReduce { .. } | Synchronizer::ParameterServer) {
                    node.compression = compression;
                }
            });
            let (all, _) = train(2, 20, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
            assert_eq!(all[0], all[1], "{builder} {compression:?}");
            let far = distance(&all[0], &alone[0]);
            assert!(far < near && far > 0.0, "{builder} {compression:?}: {far}");
        }
    }
}

#[test]
fn stale_copies_learn_and_agree_at_the_end() {
    let optimizer = Optimizer::sgd(0.05);
    for builder in
        [StrategyBuilder::Balanced, StrategyBuilder::Partitioned { most: Some(2) }, StrategyBuilder::Parallax]
    {
        let strategy = changed(2, builder, |node| {
            if matches!(node.synchronizer, Synchronizer::ParameterServer | Synchronizer::ParameterServerRows) {
                node.staleness = 2;
            }
        });
        let (all, losses) = train(2, 60, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
        assert_eq!(all[0], all[1], "{builder}");
        // Batches differ, and the newest known loss depends on timing: compare with the mean of ten.
        let last: f64 = losses[losses.len() - 10..].iter().sum::<f64>() / 10.0;
        assert!(last < 0.95 * losses[0], "{builder}: {losses:?}");
    }
}

#[test]
fn gossip_averaging_comes_close() {
    let optimizer = Optimizer::sgd(0.05);
    let (alone, _) = train(1, 30, &optimizer, |builder| builder).unwrap();
    let strategy = changed(3, StrategyBuilder::AllReduce { chunk: Some(1) }, |node| {
        node.synchronizer = Synchronizer::Gossip(Topology::Ring);
    });
    let (all, _) = train(3, 30, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
    for values in &all {
        assert!(distance(values, &alone[0]) < 0.05, "{}", distance(values, &alone[0]));
    }
    assert!(all[0] != all[1], "gossip copies are close, not equal");
}
