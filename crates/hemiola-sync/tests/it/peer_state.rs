//! State of which each peer has its own: residuals of compressors, and copies under gossip
//! averaging. A checkpoint keeps it, for as many peers bit by bit.

use crate::linear_model::{assert_within, build, built, spec, step, train_on, values};
use hemiola_collective::{Compression, GossipSync, Topology};
use hemiola_strategy::{GossipPlan, LinkSpec, ResourceSpec, Strategy, StrategyBuilder, StrategyNode, Synchronizer};

fn all_reduced(peers: usize, change: impl Fn(&mut StrategyNode)) -> Strategy {
    let network = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
    let mut strategy = StrategyBuilder::AllReduce { chunk: Some(1) }.build(&spec(peers), &network).unwrap();
    strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes).for_each(change);
    strategy
}

fn compressed(peers: usize, compression: Compression) -> Strategy {
    all_reduced(peers, |node| node.compression = compression)
}

fn gossip(peers: usize) -> Strategy {
    all_reduced(peers, |node| node.synchronizer = Synchronizer::Gossip(Topology::Ring.into()))
}

/// Low rank, one bit, and the largest element, with a learning that ends close to the optimum.
const COMPRESSIONS: [Compression; 3] =
    [Compression::OneBit { block: 2 }, Compression::TopK { keep: 1 }, Compression::LowRank { rank: 1 }];

#[test]
fn a_resumed_run_with_error_feedback_repeats_the_bits_of_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    for compression in COMPRESSIONS {
        let strategy = compressed(3, compression);
        let straight = train_on(3, Some(strategy.clone().into()), &folder.path().join("straight"), false, 12);
        let half = folder.path().join(format!("{compression}"));
        train_on(3, Some(strategy.into()), &half, false, 5);
        assert_eq!(train_on(3, None, &half, true, 12), straight, "{compression}");
    }
}

#[test]
fn residuals_are_sent_whatever_the_peers_and_the_strategy_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let alone = train_on(1, built(StrategyBuilder::default()), &folder.path().join("alone"), false, 400);
    for compression in COMPRESSIONS {
        let half = folder.path().join(format!("{compression}"));
        train_on(3, Some(compressed(3, compression).into()), &half, false, 20);
        for peers in [1, 2, 4] {
            let plain = train_on(peers, built(StrategyBuilder::AllReduce { chunk: None }), &half, true, 400);
            assert_within(1e-3, &plain[0], &alone[0], &format!("{compression}, then plain on {peers} peers"));
            let again = train_on(peers, Some(compressed(peers, compression).into()), &half, true, 400);
            assert_within(0.05, &again[0], &alone[0], &format!("{compression} on {peers} peers"));
        }
    }
}

#[test]
fn each_kind_of_gossip_synchronization_learns_and_tells_which_averages_were_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let alone = train_on(1, built(StrategyBuilder::default()), &folder.path().join("alone"), false, 400);
    for synchronization in [GossipSync::NotifyAck, GossipSync::Barrier, GossipSync::Asynchronous] {
        let plan = GossipPlan { topology: Topology::Ring, synchronization };
        let strategy = all_reduced(3, |node| node.synchronizer = Synchronizer::Gossip(plan.clone()));
        let text = strategy.to_json();
        assert_eq!(Strategy::parse(&text).unwrap(), strategy, "{text}");
        let stats = hemiola_cluster::standalone(3).run(|cluster| {
            let mut sync = build(cluster, Some(strategy.clone().into()), None)?;
            for _ in 0..400 {
                step(cluster, &mut sync)?;
            }
            let values = values(&mut sync)?;
            cluster.barrier()?;
            Ok((values, sync.gossip_stats().expect("every step averages")))
        });
        for (values, stats) in stats.unwrap() {
            assert_within(0.02, &values, &alone[0], &format!("{synchronization:?}"));
            assert_eq!(stats.reduces, 800, "two variables in 400 steps");
            if synchronization == GossipSync::NotifyAck {
                assert_eq!(stats.consistent, 800, "{stats:?}");
            }
        }
    }
    // A graph alone stands for NOTIFY-ACK, as in files of earlier versions.
    assert!(gossip(3).to_json().contains(r#""gossip": "ring""#), "{}", gossip(3).to_json());
}

#[test]
fn diverged_copies_return_to_their_peers() {
    let folder = tempfile::tempdir().unwrap();
    let straight = train_on(3, Some(gossip(3).into()), &folder.path().join("straight"), false, 12);
    assert_ne!(straight[0], straight[1], "copies under gossip averaging differ");
    let half = folder.path().join("half");
    let before = train_on(3, Some(gossip(3).into()), &half, false, 5);
    assert_eq!(train_on(3, None, &half, true, 12), straight);
    // Another strategy or number of peers continues from the mean of the copies.
    for peers in [2, 3] {
        let resumed = train_on(peers, built(StrategyBuilder::Balanced), &half, true, 5);
        for (index, value) in resumed[0].iter().flatten().enumerate() {
            let copies = before.iter().map(|copy| *copy.iter().flatten().nth(index).unwrap());
            let mean = copies.map(f64::from).sum::<f64>() / 3.0;
            assert_eq!(value.to_bits(), (mean as f32).to_bits(), "{peers} peers, element {index}");
        }
    }
}
