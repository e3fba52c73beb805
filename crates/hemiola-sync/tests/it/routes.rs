//! Two levels, orders of peers, proxies, subsets of replicas and uneven shards: each is executed, and
//! trains the model of one process. Those that the documentation names have the bits of reduce and
//! broadcast.

use crate::linear_model::{MomentumKernel, assert_within, built, spec, train_on};
use hemiola_collective::Compression;
use hemiola_collective::Route;
use hemiola_core::Rank;
use hemiola_strategy::{
    LinkSpec, ModelSpec, Partitioning, PeerSpec, ResourceSpec, ShardPlacement, Strategy, StrategyBuilder, StrategyNode,
    Synchronizer, TableConsistency, VariablePlan, VariableSpec,
};
use hemiola_sync::{ModelSync, PassKind, VariableId};

const STEPS: u64 = 10;
const TOLERANCE: f32 = 1e-5;

fn ranks(ranks: &[u32]) -> Vec<Rank> {
    ranks.iter().copied().map(Rank::new).collect()
}

fn route(groups: &[&[u32]]) -> Route {
    Route::new(groups.iter().map(|group| ranks(group)).collect())
}

/// Strategy of the linear model in which every variable has this node.
fn every(peers: usize, replicas: &[u32], node: &StrategyNode) -> Strategy {
    let plan = |variable: &VariableSpec| VariablePlan {
        variable: variable.name.clone(),
        shape: variable.shape.clone(),
        partitioning: Partitioning::whole(variable),
        nodes: vec![node.clone()],
    };
    let strategy = Strategy::new(peers, ranks(replicas), spec(peers).variables.iter().map(plan).collect());
    strategy.verify(&spec(peers), &ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4))).unwrap();
    strategy
}

/// Trains and returns the values of every peer.
fn trained(strategy: &Strategy) -> Vec<Vec<Vec<f32>>> {
    let folder = tempfile::tempdir().unwrap();
    train_on(strategy.peers, Some(strategy.clone().into()), folder.path(), false, STEPS)
}

fn alone() -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().unwrap();
    train_on(1, built(StrategyBuilder::default()), folder.path(), false, STEPS).remove(0)
}

#[test]
fn two_levels_and_proxies_have_the_documented_bits() {
    let alone = alone();
    let direct = |owner| StrategyNode::parameter_server(Rank::new(owner));
    let pairs = route(&[&[0, 1], &[2, 3]]);
    for owner in 0..4 {
        let reduced = trained(&every(4, &[0, 1, 2, 3], &direct(owner)));
        // Proxies pass values on, so they never change bits, whatever the groups are.
        for proxies in [&pairs, &route(&[&[1, 3, 0], &[2]]), &route(&[&[3, 1, 2, 0]])] {
            let found = trained(&every(4, &[0, 1, 2, 3], &direct(owner).with_proxies(proxies.clone())));
            assert_eq!(found, reduced, "owner {owner}, proxies {proxies}");
        }
        let found = trained(&every(4, &[0, 1, 2, 3], &direct(owner).over(pairs.clone()).with_proxies(pairs.clone())));
        assert!(found.iter().all(|values| *values == found[0]), "copies are equal");
        assert_within(TOLERANCE, &found[0], &alone, "two levels");
        // Groups of two consecutive peers, of which the owner is the first of one.
        if owner % 2 == 0 {
            assert_eq!(found, reduced, "owner {owner}");
        }
    }
}

#[test]
fn routes_of_every_shape_train_the_model_of_one_process() {
    let alone = alone();
    for (peers, groups) in [
        (2, route(&[&[1, 0]])),
        (3, route(&[&[2, 0], &[1]])),
        (4, route(&[&[3, 1, 0, 2]])),
        (5, route(&[&[4, 0], &[1, 2, 3]])),
        (6, route(&[&[0, 5], &[1, 4], &[2, 3]])),
    ] {
        let all: Vec<u32> = (0..peers).collect();
        for node in [
            StrategyNode::all_reduce(0),
            StrategyNode::parameter_server(Rank::new(peers - 1)).with_proxies(groups.clone()),
        ] {
            let found = trained(&every(peers as usize, &all, &node.over(groups.clone())));
            assert!(found.iter().all(|values| *values == found[0]), "{peers} peers over {groups}: copies differ");
            assert_within(TOLERANCE, &found[0], &alone, &format!("{peers} peers over {groups}"));
        }
    }
}

/// Peers that do not train own shards and get the values at the end, with every synchronizer.
#[test]
fn subsets_of_replicas_train_and_others_serve() {
    let alone = alone();
    let rows = |owner: u32| StrategyNode {
        placement: ShardPlacement::On(Rank::new(owner)),
        ..StrategyNode::parameter_server(Rank::ROOT)
    };
    let bf16 = StrategyNode { compression: Compression::Bf16, ..StrategyNode::all_reduce(0) };
    for replicas in [&[0, 1, 2][..], &[1, 3], &[2], &[3, 0]] {
        let nodes = [
            (StrategyNode::all_reduce(0), TOLERANCE),
            (rows(0), TOLERANCE),
            (rows(1), TOLERANCE),
            (rows(3), TOLERANCE),
            (bf16.clone(), 0.02),
            (StrategyNode::table(Rank::new(0), TableConsistency::Bsp), TOLERANCE),
            (StrategyNode::table(Rank::new(3), TableConsistency::Bsp), TOLERANCE),
            (StrategyNode::table(Rank::new(1), TableConsistency::Ssp(1)), f32::INFINITY),
            (StrategyNode::table(Rank::new(2), TableConsistency::Async), f32::INFINITY),
        ];
        for (node, tolerance) in nodes {
            let case = format!("{node:?} with replicas {replicas:?}");
            let found = trained(&every(4, replicas, &node));
            assert!(found.iter().all(|values| *values == found[0]), "{case}: copies differ at the end");
            assert_within(tolerance, &found[0], &alone, &case);
            assert!(found[0].iter().flatten().any(|value| (value - 0.1).abs() > 0.05), "{case}: it learns");
        }
        // A table has the bits of reduce and broadcast, also if its server does not train.
        let reduced = trained(&every(4, replicas, &rows(3)));
        let table = trained(&every(4, replicas, &StrategyNode::table(Rank::new(3), TableConsistency::Bsp)));
        assert_eq!(table, reduced, "{replicas:?}");
    }
}

#[test]
fn a_subset_resumes_as_all_peers_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let alone = alone();
    let half = folder.path().join("half");
    let on = |strategy: &Strategy, resume, steps| {
        train_on(strategy.peers, Some(strategy.clone().into()), &half, resume, steps)
    };
    for owner in [0, 2] {
        let table = StrategyNode::table(Rank::new(owner), TableConsistency::Bsp);
        for node in [StrategyNode::all_reduce(0), StrategyNode::parameter_server(Rank::new(owner)), table] {
            // Peer 0, which writes the checkpoint, does not train.
            let subset = every(3, &[1, 2], &node);
            on(&subset, false, 4);
            for then in [every(2, &[0, 1], &StrategyNode::all_reduce(0)), subset] {
                let resumed = on(&then, true, STEPS);
                assert_within(TOLERANCE, &resumed[0], &alone, &format!("{node:?}, then {then}"));
            }
        }
    }
}

#[test]
fn examples_on_a_peer_that_does_not_train_are_refused() {
    let error = hemiola_cluster::standalone(2).run(|cluster| {
        let model = ModelSpec::new(vec![VariableSpec::dense("w", [4])]).map_err(hemiola_sync::Error::from)?;
        let plan = VariablePlan {
            variable: "w".into(),
            shape: vec![4],
            partitioning: Partitioning::equal(vec![1]),
            nodes: vec![StrategyNode::all_reduce(0)],
        };
        let strategy = Strategy::new(2, ranks(&[0]), vec![plan]);
        let sync = ModelSync::builder(cluster, model, vec![vec![1.0; 4]], MomentumKernel);
        let mut sync = sync.strategy(strategy).build()?;
        let gradients = sync.begin_pass(PassKind::Step);
        sync.forward_complete(PassKind::Step, 3, 0.0, 0.1);
        gradients.send(VariableId::new(0), vec![1.0; 4]);
        sync.end_pass(PassKind::Step)?;
        sync.wait()
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("step 1: peer 1 has 3 examples, and the strategy does not let it train"), "{error}");
}

#[test]
fn uneven_shards_and_builders_of_every_shape_train_the_model_of_one_process() {
    let alone = alone();
    let mut cluster = ResourceSpec::uniform(3, LinkSpec::bits(1e9, 1e-4));
    cluster.peers = ["a", "b", "a"].map(PeerSpec::on).to_vec();
    cluster.within_host = LinkSpec::bits(4e10, 1e-6);
    for builder in StrategyBuilder::SHAPED {
        let strategy = builder.build(&spec(3), &cluster).unwrap();
        let found = trained(&strategy);
        assert!(found.iter().all(|values| *values == found[0]), "{builder}: copies differ");
        assert_within(TOLERANCE, &found[0], &alone, &builder.to_string());
    }
    // The builders keep small variables whole; this one is cut by hand, two rows and one.
    let owners = [Rank::new(1), Rank::new(2)];
    let mut strategy = every(3, &[0, 1, 2], &StrategyNode::parameter_server(Rank::ROOT));
    strategy.plans[0].partitioning = Partitioning { pieces: vec![2, 1], shares: vec![2, 1] };
    strategy.plans[0].nodes = owners.map(StrategyNode::parameter_server).to_vec();
    let even = {
        let mut even = strategy.clone();
        even.plans[0].partitioning = Partitioning::equal(vec![3, 1]);
        even.plans[0].nodes = [1, 1, 2].map(|owner| StrategyNode::parameter_server(Rank::new(owner))).to_vec();
        trained(&even)
    };
    assert_eq!(trained(&strategy), even, "the same owners of the same elements");
    for node in &mut strategy.plans[0].nodes {
        node.synchronizer = Synchronizer::Table { consistency: TableConsistency::Bsp };
    }
    assert_eq!(trained(&strategy), even, "in tables");
}
