//! Whatever the order of gradients and results, every step ends and all copies are equal.

use crate::driver::Peers;
use hemiola_collective_proto::graph::Topology;
use hemiola_core::Rank;
use hemiola_strategy::{
    LinkSpec, ModelSpec, ResourceSpec, ShardPlacement, Strategy, StrategyBuilder, StrategyNode, Synchronizer,
    TableConsistency, VariableSpec,
};
use hemiola_sync_proto::row_key::key_of;
use hemiola_sync_proto::{GradientClip, GradientPayload, VariableId};

const STEPS: u64 = 4;
const PEERS: usize = 3;
/// Examples of each peer in every step.
const EXAMPLES: u64 = 2;

fn model() -> ModelSpec {
    ModelSpec::new(vec![
        VariableSpec::embedding("words", [9, 2], 4),
        VariableSpec::linear("wide", [3, 5], 2),
        VariableSpec::dense("bias", [5]),
        VariableSpec::dense("scale", [2, 3]),
    ])
    .unwrap()
}

/// Gradient of a variable on a peer: whole numbers, whose sums are exact in any order.
fn gradient(structured: bool, variable: usize, step: u64, peer: usize) -> GradientPayload {
    let number = |index: usize| ((index * 7 + variable * 5 + step as usize * 3 + peer) % 9) as f32 - 4.0;
    let touched = |row: usize| (row + step as usize + peer).is_multiple_of(4);
    let factors = |pair: usize| [number(pair), 1.0, 2.0, number(pair + 1), 0.0, 1.0, -1.0, 2.0];
    GradientPayload::Dense(match (variable, structured) {
        (0, true) => {
            let rows = (0..9).filter(|row| touched(*row));
            let parts = rows.flat_map(|row| key_of(row).into_iter().chain([number(row), number(row + 1)])).collect();
            return GradientPayload::Structured(parts);
        }
        (0, false) => {
            (0..18).map(|index| if touched(index / 2) { number(index / 2 + index % 2) } else { 0.0 }).collect()
        }
        (1, true) => return GradientPayload::Structured((0..EXAMPLES as usize).flat_map(factors).collect()),
        (1, false) => {
            let pairs: Vec<[f32; 8]> = (0..EXAMPLES as usize).map(factors).collect();
            (0..15).map(|index| pairs.iter().map(|pair| pair[index / 5] * pair[3 + index % 5]).sum()).collect()
        }
        (2, _) => (0..5).map(number).collect(),
        _ if step == 2 => return GradientPayload::Absent,
        _ => (0..6).map(number).collect(),
    })
}

fn strategy(builder: StrategyBuilder) -> Strategy {
    builder.build(&model(), &ResourceSpec::uniform(PEERS, LinkSpec::bits(1e9, 1e-4))).unwrap()
}

/// Trains with a random order of gradients and results; returns the peers after the last step.
fn train(strategy: &Strategy, clip: Option<GradientClip>, seed: u64) -> Peers {
    let mut peers = Peers::new(&model(), strategy, clip, seed);
    let structured = peers.plan().structured.clone();
    // Next gradient of each peer: step, and variables that are left.
    let mut progress: Vec<(u64, Vec<usize>)> = vec![(0, Vec::new()); PEERS];
    loop {
        let peer = peers.below(PEERS);
        let (step, left) = &mut progress[peer];
        // A forward pass waits for the values of the previous step.
        let ready = peers.published[peer].iter().all(|(version, _)| version == step);
        if left.is_empty() && *step < STEPS && ready {
            let examples = if peers.plan().trains(Rank::new(peer as u32)) { EXAMPLES } else { 0 };
            peers.node(peer).start_step(*step, examples, 1.0, 0.25).unwrap();
            *left = (0..model().variables.len()).collect();
            peers.poll(peer);
        } else if let (false, true) = (left.is_empty(), peers.below(2) == 0) {
            let variable = left.swap_remove(peers.below(left.len()));
            let trains = peers.plan().trains(Rank::new(peer as u32));
            let payload = gradient(structured[variable], variable, *step, peer);
            let payload = if trains { payload } else { GradientPayload::Absent };
            peers.add_gradient(peer, *step, VariableId::new(variable), payload);
            *step += u64::from(left.is_empty());
            peers.poll(peer);
        } else if !peers.deliver_one() && progress.iter().all(|(step, left)| *step == STEPS && left.is_empty()) {
            assert!(peers.are_idle(), "a step does not end with seed {seed}: {strategy:?}");
            return peers;
        }
    }
}

#[test]
fn every_order_ends_with_equal_copies() {
    for clip in [None, Some(GradientClip::Norm(0.5)), Some(GradientClip::Value(0.5))] {
        let expected = train(&strategy(StrategyBuilder::ParameterServer), clip, 0).published;
        for builder in StrategyBuilder::ALL {
            for seed in 1..60 {
                let published = train(&strategy(builder), clip, seed).published;
                for (peer, variables) in published.iter().enumerate() {
                    for ((version, values), (_, expected)) in variables.iter().zip(&expected[0]) {
                        assert_eq!(*version, STEPS, "{builder} {clip:?} seed {seed} peer {peer}");
                        let near = values.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-5);
                        assert!(near, "{builder} {clip:?} seed {seed} peer {peer}: {values:?} {expected:?}");
                    }
                    assert_eq!(variables, &published[0], "{builder} {clip:?} seed {seed} peer {peer}");
                }
            }
        }
    }
}

/// Peer 1 serves and does not train: every order of gradients and results ends, the peers that train
/// have equal copies, and they are those of any other order.
#[test]
fn subsets_end_with_equal_copies_of_the_peers_that_train() {
    let served = StrategyNode::parameter_server(Rank::new(1));
    let table = StrategyNode::table(Rank::new(1), TableConsistency::Bsp);
    for (node, clip) in [
        (StrategyNode::all_reduce(0), None),
        (StrategyNode::all_reduce(0), Some(GradientClip::Norm(0.5))),
        (served.clone(), None),
        (served.clone(), Some(GradientClip::Norm(0.5))),
        (table, Some(GradientClip::Value(0.5))),
    ] {
        let mut subset = strategy(StrategyBuilder::AllReduce { chunk: Some(1) });
        subset.replicas.remove(1);
        subset.plans.iter_mut().for_each(|plan| plan.nodes = vec![node.clone()]);
        subset.verify(&model(), &ResourceSpec::uniform(PEERS, LinkSpec::bits(1e9, 1e-4))).unwrap();
        let expected = train(&subset, clip, 0).published;
        for seed in 1..60 {
            let published = train(&subset, clip, seed).published;
            assert_eq!(published[0], expected[0], "{node:?} {clip:?} seed {seed}");
            assert_eq!(published[2], published[0], "{node:?} {clip:?} seed {seed}");
            assert!(published[0].iter().all(|(version, _)| *version == STEPS));
        }
    }
}

/// Strategy of tables, with the peers of each shard.
fn tables(consistency: TableConsistency) -> Strategy {
    strategy(StrategyBuilder::Tables { consistency })
}

#[test]
fn bsp_tables_give_the_bits_of_reduce_and_broadcast_in_every_order() {
    for clip in [None, Some(GradientClip::Value(0.5))] {
        let mut reduced = tables(TableConsistency::Bsp);
        let nodes = reduced.plans.iter_mut().flat_map(|plan| &mut plan.nodes);
        nodes.for_each(|node| node.synchronizer = Synchronizer::ParameterServer);
        let expected = train(&reduced, clip, 0).published;
        for seed in 1..100 {
            let published = train(&tables(TableConsistency::Bsp), clip, seed).published;
            assert_eq!(published, expected, "{clip:?} seed {seed}");
        }
    }
}

#[test]
fn stale_tables_apply_every_update_once_and_end_with_equal_copies() {
    // Plain gradient descent adds up gradients, whatever their order.
    let expected = train(&strategy(StrategyBuilder::ParameterServer), None, 0).published;
    for consistency in [TableConsistency::Ssp(1), TableConsistency::Ssp(2), TableConsistency::Async] {
        for seed in 0..100 {
            let mut peers = train(&tables(consistency), None, seed);
            (0..PEERS).for_each(|peer| {
                peers.node(peer).refresh_tables().unwrap();
                peers.poll(peer);
            });
            while peers.deliver_one() {}
            assert!(peers.are_idle(), "{consistency} seed {seed}");
            let values = |peer: usize| peers.published[peer].iter().map(|(_, values)| values);
            for (variable, (first, (_, summed))) in values(0).zip(&expected[0]).enumerate() {
                for peer in 1..PEERS {
                    assert_eq!(values(peer).nth(variable), Some(first), "{consistency} seed {seed} peer {peer}");
                }
                // Each update is scaled by the examples of one peer, in place of all three.
                for (index, (value, summed)) in first.iter().zip(summed).enumerate() {
                    let start = (index as f32).sin();
                    let (moved, expected) = (value - start, 3.0 * (summed - start));
                    assert!((moved - expected).abs() < 1e-4, "{consistency} seed {seed}: {moved} {expected}");
                }
            }
            // Every peer ends; its shards are served until the last one has.
            for peer in 0..PEERS {
                peers.node(peer).finish_tables().unwrap();
                peers.poll(peer);
                while peers.deliver_one() {}
                let served = (0..PEERS).all(|peer| peers.node(peer).tables_are_served());
                assert_eq!(served, peer == PEERS - 1, "{consistency} seed {seed}");
            }
        }
    }
}

#[test]
fn plans_without_sums_over_peers_start_no_collective() {
    let mut gossip = strategy(StrategyBuilder::AllReduce { chunk: Some(1) });
    let nodes = gossip.plans.iter_mut().flat_map(|plan| &mut plan.nodes);
    nodes.for_each(|node| node.synchronizer = Synchronizer::Gossip(Topology::Ring.into()));
    for strategy in [gossip, tables(TableConsistency::Async), tables(TableConsistency::Ssp(3))] {
        let peers = train(&strategy, None, 5);
        assert_eq!(peers.collectives(), 0, "{strategy}");
        assert!(!peers.plan().sums_over_peers());
    }
    assert!(train(&strategy(StrategyBuilder::Cheapest), None, 5).collectives() > 0);
}

#[test]
fn gossip_averages_come_in_the_same_order_on_all_peers() {
    let mut strategy = strategy(StrategyBuilder::AllReduce { chunk: Some(1) });
    let nodes = strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes);
    nodes.for_each(|node| node.synchronizer = Synchronizer::Gossip(Topology::Ring.into()));
    for seed in 0..200 {
        let averages = train(&strategy, None, seed).averages;
        assert_eq!(averages[0].len(), STEPS as usize * model().variables.len());
        assert!(averages.iter().all(|peer| *peer == averages[0]), "seed {seed}: {averages:?}");
    }
}

#[test]
fn peers_that_update_nothing_wait_for_the_totals() {
    let mut strategy = strategy(StrategyBuilder::AllReduce { chunk: Some(1) });
    for node in strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
        node.synchronizer = Synchronizer::ParameterServer;
        node.placement = ShardPlacement::On(Rank::ROOT);
    }
    for clip in [None, Some(GradientClip::Norm(0.5))] {
        for seed in 0..200 {
            let published = train(&strategy, clip, seed).published;
            assert!(published.iter().all(|peer| *peer == published[0]), "{clip:?} seed {seed}");
        }
    }
}
