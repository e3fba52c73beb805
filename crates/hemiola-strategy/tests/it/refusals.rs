//! Invalid strategies are rejected with the name of the variable and the reason.

use crate::files::{cluster, model};
use hemiola_collective_proto::{Compression, Route, Topology};
use hemiola_core::Rank;
use hemiola_strategy::{
    Error, ModelSpec, Partitioning, ShardPlacement, Strategy, StrategyBuilder, StrategyNode, Synchronizer, VariableSpec,
};

/// Returns the error after this change of a valid strategy.
fn error_after(change: impl FnOnce(&mut Strategy)) -> String {
    let mut strategy = StrategyBuilder::AllReduce { chunk: Some(1) }.build(&model(), &cluster()).unwrap();
    change(&mut strategy);
    strategy.verify(&model(), &cluster()).unwrap_err().to_string()
}

fn node(strategy: &mut Strategy, plan: usize) -> &mut StrategyNode {
    &mut strategy.plans[plan].nodes[0]
}

#[test]
fn placements_and_synchronizers_must_match() {
    let text = error_after(|strategy| node(strategy, 1).placement = ShardPlacement::On(Rank::new(2)));
    assert!(
        text.contains("convolution.weight: its copies synchronize among themselves, and it is placed on a server"),
        "{text}"
    );
    let text = error_after(|strategy| node(strategy, 1).synchronizer = Synchronizer::ParameterServer);
    assert!(text.contains("convolution.weight: it is served and placed on every peer"), "{text}");
    let text = error_after(|strategy| *node(strategy, 1) = StrategyNode::parameter_server(Rank::new(4)));
    assert!(text.contains("it is placed on peer 4, and there are 4 peers"), "{text}");
    let text = error_after(|strategy| node(strategy, 1).staleness = 3);
    assert!(text.contains("a staleness of 3 needs a parameter server"), "{text}");
    let text = error_after(|strategy| {
        *node(strategy, 5) = StrategyNode {
            placement: ShardPlacement::Sharded(vec![Rank::new(0), Rank::new(1)]),
            ..StrategyNode::parameter_server(Rank::ROOT)
        }
    });
    assert!(text.contains("scale: its 1 rows cannot be sharded over 2 peers"), "{text}");
    let text = error_after(|strategy| {
        *node(strategy, 0) = StrategyNode::parameter_server_rows(vec![Rank::new(1), Rank::new(1)]);
    });
    assert!(text.contains("words: it is sharded over a peer that is named twice"), "{text}");
}

#[test]
fn gradients_must_match_the_synchronizer() {
    let text = error_after(|strategy| *node(strategy, 1) = StrategyNode::sufficient_factors(32));
    assert!(text.contains("convolution.weight: its gradient is not a sum of products"), "{text}");
    let text = error_after(|strategy| *node(strategy, 3) = StrategyNode::sufficient_factors(31));
    assert!(text.contains("hidden.weight: a batch has 32 pairs of factors"), "{text}");
    let text = error_after(|strategy| *node(strategy, 3) = StrategyNode::parameter_server_rows(vec![Rank::ROOT]));
    assert!(text.contains("hidden.weight: its gradient is not sparse by rows"), "{text}");
    let text = error_after(|strategy| node(strategy, 3).compression = Compression::SufficientFactors { pairs: 32 });
    assert!(text.contains("its compression is sufficient factors, but its synchronizer is not"), "{text}");
    let text = error_after(|strategy| {
        *node(strategy, 3) = StrategyNode {
            compression: Compression::OneBit { block: 64 },
            ..StrategyNode::parameter_server(Rank::ROOT)
        }
    });
    assert!(text.contains("a served variable cannot be compressed as one bit"), "{text}");
    let text = error_after(|strategy| {
        strategy.plans[3].partitioning = Partitioning::equal(vec![2, 1]);
        strategy.plans[3].nodes = vec![StrategyNode::sufficient_factors(32), StrategyNode::sufficient_factors(32)];
    });
    assert!(text.contains("hidden.weight, shard 1: factors are those of the whole matrix"), "{text}");
    // A row gradient is one message for the whole variable: a second shard would wait for it forever.
    let text = error_after(|strategy| {
        strategy.plans[0].partitioning = Partitioning::equal(vec![2, 1]);
        let rows = || StrategyNode::parameter_server_rows(vec![Rank::ROOT]);
        strategy.plans[0].nodes = vec![rows(), rows()];
    });
    assert!(text.contains("words, shard 1: its placement spreads the rows over peers: do not cut it"), "{text}");
}

#[test]
fn shards_and_groups_must_fit() {
    let text = error_after(|strategy| strategy.plans[3].partitioning = Partitioning::equal(vec![2, 2]));
    assert!(text.contains("hidden.weight: it is cut into 4 shards, and 1 nodes are given"), "{text}");
    let text = error_after(|strategy| strategy.plans[2].partitioning = Partitioning::equal(vec![65]));
    assert!(text.contains("convolution.bias: dimension 0 has 64 elements and cannot be cut into 65 pieces"), "{text}");
    let text = error_after(|strategy| {
        node(strategy, 1).synchronizer = Synchronizer::AllReduce { algorithm: None, group: 0 };
        node(strategy, 1).compression = Compression::Bf16;
    });
    assert!(
        text.contains("it is in group 0 with convolution.weight, whose algorithm or compression differs"),
        "{text}"
    );
    let text = error_after(|strategy| {
        for plan in [1, 3] {
            node(strategy, plan).synchronizer = Synchronizer::AllReduce { algorithm: None, group: 77 };
            node(strategy, plan).compression = Compression::LowRank { rank: 2 };
        }
    });
    assert!(text.contains("a matrix of low rank cannot share group 77"), "{text}");
    let text = error_after(|strategy| {
        node(strategy, 1).synchronizer = Synchronizer::Gossip(Topology::Halton { degree: Some(9) }.into());
    });
    assert!(text.contains("convolution.weight: its gossip graph is invalid"), "{text}");
}

fn route(groups: &[&[u32]]) -> Route {
    Route::new(groups.iter().map(|group| group.iter().copied().map(Rank::new).collect()).collect())
}

#[test]
fn routes_must_connect_the_peers_that_train() {
    let all_reduce = || StrategyNode::all_reduce(50);
    let served = || StrategyNode::parameter_server(Rank::ROOT);
    let half = Compression::Bf16;
    for (changed, expected) in [
        (all_reduce().over(route(&[&[0, 1], &[2]])), "its route leaves out peer 3, which trains"),
        (all_reduce().over(route(&[&[0, 1], &[2, 3, 4]])), "its route names peer 4, and there are 4 peers"),
        (all_reduce().over(route(&[&[0, 1], &[2, 3, 1]])), "its route names peer 1 twice"),
        (served().with_proxies(route(&[&[0, 1], &[2]])), "its proxies leave out peer 3, which trains"),
        (all_reduce().with_proxies(route(&[&[0, 1, 2, 3]])), "proxies are for reduce and broadcast only"),
        (StrategyNode::gossip(Topology::Ring).over(route(&[&[0, 1, 2, 3]])), "a route is for all-reduce and"),
        (
            StrategyNode { compression: half, ..served().over(route(&[&[0, 1], &[2, 3]])) },
            "updates along a route cannot be compressed as bf16",
        ),
    ] {
        let text = error_after(|strategy| *node(strategy, 1) = changed);
        assert!(text.contains("convolution.weight: ") && text.contains(expected), "{text}");
    }
    let text = error_after(|strategy| {
        *node(strategy, 1) = StrategyNode::all_reduce(0).over(route(&[&[3, 2, 1, 0]]));
    });
    assert!(text.contains("it is in group 0 with convolution.weight, whose route differs"), "{text}");
}

#[test]
fn subsets_and_shares_must_fit() {
    // A subset with its own route is accepted.
    let mut strategy = StrategyBuilder::AllReduce { chunk: Some(1) }.build(&model(), &cluster()).unwrap();
    strategy.replicas = vec![Rank::new(1), Rank::new(3)];
    *node(&mut strategy, 1) = StrategyNode::all_reduce(50).over(route(&[&[3, 1]]));
    *node(&mut strategy, 3) = StrategyNode::parameter_server(Rank::new(2)).with_proxies(route(&[&[3], &[1]]));
    strategy.verify(&model(), &cluster()).unwrap();
    let text = error_after(|strategy| {
        strategy.replicas.truncate(2);
        *node(strategy, 1) = StrategyNode::all_reduce(50).over(route(&[&[0, 1, 2]]));
    });
    assert!(text.contains("convolution.weight: its route names peer 2, which does not train"), "{text}");
    let text = error_after(|strategy| {
        strategy.replicas.truncate(3);
        *node(strategy, 2) = StrategyNode::gossip(Topology::Ring);
    });
    assert!(
        text.contains("convolution.bias: gossip averages the copies of all peers, and some do not train"),
        "{text}"
    );
    let text = error_after(|strategy| {
        strategy.plans[2].partitioning = Partitioning { pieces: vec![2], shares: vec![1, 1000] };
        strategy.plans[2].nodes = vec![StrategyNode::all_reduce(50), StrategyNode::all_reduce(51)];
    });
    assert!(text.contains("convolution.bias: share 0 of its shares [1, 1000] is too small for any element"), "{text}");
    let text = error_after(|strategy| {
        strategy.plans[3].partitioning = Partitioning { pieces: vec![2, 1], shares: vec![1, 1, 1] };
    });
    assert!(text.contains("hidden.weight: its 3 shares need a single dimension"), "{text}");
    let gossip = StrategyBuilder::GOSSIP[0].build(&model(), &cluster()).unwrap().with_serving_peers(1);
    let text = gossip.verify(&model(), &cluster()).unwrap_err().to_string();
    assert!(text.contains("words: gossip averages the copies of all peers"), "{text}");
    let none = StrategyBuilder::Balanced.build(&model(), &cluster()).unwrap().with_serving_peers(4);
    assert!(none.verify(&model(), &cluster()).unwrap_err().to_string().contains("it names no replicas"));
}

#[test]
fn strategies_of_other_models_and_clusters_are_rejected() {
    let text = error_after(|strategy| strategy.peers = 5);
    assert!(text.contains("it was made for 5 peers, and the cluster has 4"), "{text}");
    let text = error_after(|strategy| strategy.replicas.clear());
    assert!(text.contains("it names no replicas"), "{text}");
    let text = error_after(|strategy| strategy.replicas[1] = Rank::ROOT);
    assert!(text.contains("peer 0 is named twice among the replicas"), "{text}");
    let text = error_after(|strategy| drop(strategy.plans.remove(2)));
    assert!(text.contains("convolution.bias: it has no plan"), "{text}");
    let strategy = StrategyBuilder::Cheapest.build(&model(), &cluster()).unwrap();
    let other = ModelSpec::new(vec![VariableSpec::dense("scale", [2]), VariableSpec::dense("new", [1])]).unwrap();
    let Err(Error::Strategy(problems)) = strategy.verify(&other, &cluster()) else { panic!("it passed") };
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(
        all.iter().any(|text| text == "scale: the strategy was made for the shape [], and the model has [2]"),
        "{all:?}"
    );
    assert!(all.iter().any(|text| text == "new: it has no plan, so its copies would drift apart"), "{all:?}");
    assert!(all.iter().any(|text| text.starts_with("words: the model has no such variable")), "{all:?}");
    let text = strategy.verify(&other, &cluster()).unwrap_err().to_string();
    assert!(text.contains("; and 2 more"), "{text}");
}

#[test]
fn invalid_files_are_rejected() {
    for (text, expected) in [
        ("{", "the strategy cannot be read: EOF"),
        ("format = 1\npeers = 2\nreplicas = [0]\nplan = []", "plan"),
        (
            "{\"format\": 9, \"peers\": 1, \"replicas\": [0], \"plans\": []}",
            "it has format 9, and this version reads format 1",
        ),
    ] {
        let error = Strategy::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
