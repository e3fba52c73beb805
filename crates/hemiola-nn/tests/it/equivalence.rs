//! Synchronous training equals training in one process with all examples, for every strategy.

use crate::test_net::{BATCH, Net, distance, loss_of, train};
use hemiola_collective::{Compression, Topology};
use hemiola_nn::Optimizer;
use hemiola_strategy::{
    LinkSpec, ResourceSpec, ShardPlacement, Strategy, StrategyBuilder, StrategyNode, Synchronizer, TableConsistency,
};

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
fn bsp_tables_have_the_bits_of_reduce_and_broadcast() {
    let bsp = StrategyBuilder::Tables { consistency: TableConsistency::Bsp };
    for optimizer in [Optimizer::sgd(0.1).momentum(0.9), Optimizer::adam(0.01), Optimizer::adamw(0.01)] {
        for peers in [2, 3] {
            let reduced = changed(peers, bsp, |node| node.synchronizer = Synchronizer::ParameterServer);
            let (expected, _) = train(peers, 20, &optimizer, |set| set.strategy(reduced.clone())).unwrap();
            let (found, _) = train(peers, 20, &optimizer, |set| set.strategy(bsp)).unwrap();
            let bits = |all: &[Vec<f32>]| all.concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{optimizer:?} on {peers} peers");
        }
    }
}

/// Every synchronizer with every consistency model: the loss over all examples after training is
/// that of one process within a fifth of the decrease. Asynchronous updates of three peers are
/// three times as many, so their learning rate is a third.
#[test]
fn every_synchronizer_and_consistency_reaches_the_loss_of_one_process() {
    const STEPS: usize = 80;
    const PEERS: usize = 3;
    let gossip = |node: &mut StrategyNode| {
        (node.synchronizer, node.placement) = (Synchronizer::Gossip(Topology::Ring.into()), ShardPlacement::Replicated);
    };
    for optimizer in [Optimizer::sgd(0.06), Optimizer::adam(0.003)] {
        let loss = |values: &[f32]| loss_of(values, STEPS * BATCH);
        let (alone, _) = train(1, STEPS, &optimizer, |builder| builder).unwrap();
        let (before, expected) = (loss(&Net::new().values()), loss(&alone[0]));
        assert!(expected < 0.9 * before, "one process learns: {before} {expected}");
        let tolerance = 0.2 * (before - expected);
        let mut all: Vec<(String, Strategy, f64)> = Vec::new();
        for builder in StrategyBuilder::ALL.into_iter().chain(StrategyBuilder::TABLES) {
            let is_stale =
                matches!(builder, StrategyBuilder::Tables { consistency } if consistency != TableConsistency::Bsp);
            let rate = optimizer.learning_rate() / if is_stale { PEERS as f64 } else { 1.0 };
            all.push((builder.to_string(), changed(PEERS, builder, |_| {}), rate));
        }
        let averaged = changed(PEERS, StrategyBuilder::AllReduce { chunk: Some(1) }, gossip);
        all.push(("gossip".to_owned(), averaged, optimizer.learning_rate()));
        for (name, strategy, rate) in all {
            let set = optimizer.clone().with_learning_rate(rate);
            let (all, _) = train(PEERS, STEPS, &set, |set| set.strategy(strategy.clone())).unwrap();
            let found = loss(&all[0]);
            assert!((found - expected).abs() < tolerance, "{name}, {optimizer:?}: {found} instead of {expected}");
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
        node.synchronizer = Synchronizer::Gossip(Topology::Ring.into());
    });
    let (all, _) = train(3, 30, &optimizer, |set| set.strategy(strategy.clone())).unwrap();
    for values in &all {
        assert!(distance(values, &alone[0]) < 0.05, "{}", distance(values, &alone[0]));
    }
    assert!(all[0] != all[1], "gossip copies are close, not equal");
}
