//! What cannot work is refused by the name of the variable, with the reason.

use crate::files::{cluster, model};
use hemiola_collective_proto::{Encoding, Topology};
use hemiola_core::Rank;
use hemiola_strategy::{Builder, Error, Model, Node, Partitioning, Placement, Strategy, Synchronizer, Variable};

/// What is said when a good strategy is changed like this.
fn said(change: impl FnOnce(&mut Strategy)) -> String {
    let mut strategy = Builder::AllReduce { chunk: Some(1) }.build(&model(), &cluster()).unwrap();
    change(&mut strategy);
    strategy.verify(&model(), &cluster()).unwrap_err().to_string()
}

fn node(strategy: &mut Strategy, plan: usize) -> &mut Node {
    &mut strategy.plans[plan].nodes[0]
}

#[test]
fn placements_and_synchronizers_have_to_go_together() {
    let text = said(|strategy| node(strategy, 1).placement = Placement::On(Rank::new(2)));
    assert!(
        text.contains("convolution.weight: its copies agree among themselves, and it is placed on a server"),
        "{text}"
    );
    let text = said(|strategy| node(strategy, 1).synchronizer = Synchronizer::Served);
    assert!(text.contains("convolution.weight: who serves it?"), "{text}");
    let text = said(|strategy| *node(strategy, 1) = Node::served(Rank::new(4)));
    assert!(text.contains("it is placed on peer 4, and there are 4 peers"), "{text}");
    let text = said(|strategy| node(strategy, 1).staleness = 3);
    assert!(text.contains("a staleness of 3 needs a server"), "{text}");
    let text = said(|strategy| {
        *node(strategy, 5) =
            Node { placement: Placement::Sharded(vec![Rank::new(0), Rank::new(1)]), ..Node::served(Rank::ROOT) }
    });
    assert!(text.contains("scale: its 1 rows cannot be sharded over 2 peers"), "{text}");
    let text = said(|strategy| *node(strategy, 0) = Node::served_rows(vec![Rank::new(1), Rank::new(1)]));
    assert!(text.contains("words: it is sharded over a peer that is named twice"), "{text}");
}

#[test]
fn gradients_have_to_be_what_is_sent() {
    let text = said(|strategy| *node(strategy, 1) = Node::factors(32));
    assert!(text.contains("convolution.weight: its gradient is not a sum of products"), "{text}");
    let text = said(|strategy| *node(strategy, 3) = Node::factors(31));
    assert!(text.contains("hidden.weight: a batch has 32 pairs of factors"), "{text}");
    let text = said(|strategy| *node(strategy, 3) = Node::served_rows(vec![Rank::ROOT]));
    assert!(text.contains("hidden.weight: its gradient is not made of rows"), "{text}");
    let text = said(|strategy| node(strategy, 3).encoding = Encoding::SufficientFactors { pairs: 32 });
    assert!(text.contains("no factors are broadcast"), "{text}");
    let text = said(|strategy| {
        *node(strategy, 3) = Node { encoding: Encoding::OneBit { block: 64 }, ..Node::served(Rank::ROOT) }
    });
    assert!(text.contains("what is served cannot travel as one bit"), "{text}");
    let text = said(|strategy| {
        strategy.plans[3].partitioning = Partitioning(vec![2, 1]);
        strategy.plans[3].nodes = vec![Node::factors(32), Node::factors(32)];
    });
    assert!(text.contains("hidden.weight, shard 1: factors are those of the whole matrix"), "{text}");
}

#[test]
fn shards_and_groups_have_to_fit() {
    let text = said(|strategy| strategy.plans[3].partitioning = Partitioning(vec![2, 2]));
    assert!(text.contains("hidden.weight: it is cut into 4 shards, and 1 nodes are given"), "{text}");
    let text = said(|strategy| strategy.plans[2].partitioning = Partitioning(vec![65]));
    assert!(text.contains("convolution.bias: dimension 0 has 64 elements and cannot be cut into 65 pieces"), "{text}");
    let text = said(|strategy| {
        node(strategy, 1).synchronizer = Synchronizer::AllReduce { algorithm: None, group: 0 };
        node(strategy, 1).encoding = Encoding::Bf16;
    });
    assert!(
        text.contains("it is in group 0 with convolution.weight, whose algorithm or encoding is another"),
        "{text}"
    );
    let text = said(|strategy| {
        for plan in [1, 3] {
            node(strategy, plan).synchronizer = Synchronizer::AllReduce { algorithm: None, group: 77 };
            node(strategy, plan).encoding = Encoding::LowRank { rank: 2 };
        }
    });
    assert!(text.contains("a matrix of low rank cannot share group 77"), "{text}");
    let text =
        said(|strategy| node(strategy, 1).synchronizer = Synchronizer::Mix(Topology::Halton { degree: Some(9) }));
    assert!(text.contains("convolution.weight: the graph it is mixed over cannot be"), "{text}");
}

#[test]
fn strategies_of_other_models_and_clusters_are_found_out() {
    let text = said(|strategy| strategy.peers = 5);
    assert!(text.contains("it was made for 5 peers, and the cluster has 4"), "{text}");
    let text = said(|strategy| strategy.replicas.clear());
    assert!(text.contains("nobody trains"), "{text}");
    let text = said(|strategy| strategy.replicas[1] = Rank::ROOT);
    assert!(text.contains("peer 0 is named twice among the replicas"), "{text}");
    let text = said(|strategy| drop(strategy.plans.remove(2)));
    assert!(text.contains("convolution.bias: it has no plan"), "{text}");
    let strategy = Builder::Cheapest.build(&model(), &cluster()).unwrap();
    let other = Model::new(vec![Variable::dense("scale", [2]), Variable::dense("new", [1])]).unwrap();
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
fn files_that_are_no_strategies_are_refused() {
    for (text, said) in [
        ("{", "the strategy cannot be read: EOF"),
        ("format = 1\npeers = 2\nreplicas = [0]\nplan = []", "plan"),
        (
            "{\"format\": 9, \"peers\": 1, \"replicas\": [0], \"plans\": []}",
            "it has format 9, and this version reads format 1",
        ),
    ] {
        let error = Strategy::parse(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
