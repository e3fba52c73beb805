//! One test body on three drivers: threads of one process, TCP between processes, the simulator.
//!
//! The body is a script of each peer: collectives of several compressions and goals, all in flight
//! at once, among them one that peer 2 calls with another length; and rounds of gossip averaging.
//! **Invariant:** every driver gives the same bits and the same errors on every peer.

#![expect(clippy::print_stdout, reason = "how a peer process tells its outcomes")]

use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{CollectiveExt as _, Communicator, GossipExt as _, PendingCollective, PendingCompressed};
use hemiola_collective_proto::compress::{CollectiveContext, CollectiveGoal};
use hemiola_collective_proto::{Algorithm, Compression, Compressor, GossipSync, GossipWeights, ReduceOp, Topology};
use hemiola_core::Rank;
use hemiola_sim::actors::compressed::{CompressedActor, CompressedSetup, CompressedVector};
use hemiola_sim::actors::gossip::{GossipActor, GossipSetup};
use hemiola_sim::{ClusterSpec, SimDuration, Simulation};
use hemiola_testkit::{PeerProcesses, with_watchdog};
use std::sync::Arc;

const PEERS: usize = 3;
const UPDATES: usize = 3;
/// In a tree of three, only peer 0 receives before the sum is complete, so it alone detects that
/// peer 2 makes another call, and all peers report the same two.
const ALGORITHM: Algorithm = Algorithm::Tree;
const ROUNDS: u64 = 12;
const GOSSIP_LENGTH: usize = 100;

/// Value whose sums depend on the order of addition.
fn number(peer: Rank, update: usize, index: usize) -> f32 {
    let mixed = (peer.index() * 7919 + update * 31_337 + index * 104_729 + peer.index() * index * 31) % 10_007;
    mixed as f32 / 97.0 - 51.0
}

/// Vectors of a peer with the updates that it brings.
fn script(me: Rank) -> Vec<CompressedVector> {
    let vector = |compression, goal, (rows, columns): (usize, usize)| {
        let update = |update| (0..rows * columns).map(|index| number(me, update, index)).collect();
        CompressedVector { compression, goal, rows, columns, updates: (0..UPDATES).map(update).collect() }
    };
    let (all_reduce, root) = (CollectiveGoal::AllReduce, Rank::new(1));
    let mismatched = if me == Rank::new(2) { 41 } else { 40 };
    let mut vectors = vec![
        vector(Compression::Plain, all_reduce, (5000, 1)),
        vector(Compression::Bf16, all_reduce, (700, 1)),
        vector(Compression::Plain, all_reduce, (mismatched, 1)),
        vector(Compression::TopK { keep: 20 }, all_reduce, (300, 1)),
        vector(Compression::LowRank { rank: 2 }, all_reduce, (20, 30)),
        vector(Compression::OneBit { block: 64 }, CollectiveGoal::ReduceScatter, (500, 1)),
        vector(Compression::F16, CollectiveGoal::AllGather, (30, 1)),
        vector(Compression::TopK { keep: 3 }, CollectiveGoal::Broadcast { root }, (50, 1)),
        vector(Compression::Plain, CollectiveGoal::AllToAll, (9, 1)),
    ];
    if me == root {
        // Refused by all peers in the same call.
        vectors[3].updates[1][7] = f32::NAN;
    }
    vectors
}

/// Outcome of one update: a digest of the bits, or the text of the error. The tag is left out, since
/// a communicator counts from another first tag than the simulator.
fn outcome(result: std::result::Result<Vec<f32>, String>) -> String {
    match result {
        Ok(values) => {
            let digest = values.iter().fold(0_u64, |digest, value| {
                digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits()))
            });
            format!("{} values {digest:016x}", values.len())
        }
        Err(text) => match text.find("peer 0 does") {
            Some(start) => text[start..].to_owned(),
            None => text,
        },
    }
}

enum Pending {
    Plain(PendingCollective<f32>),
    Compressed(PendingCompressed),
}

/// Runs the script of this peer, with all collectives of an update in flight. Returns the outcomes
/// by update, then by vector.
fn collectives(cluster: &Cluster) -> Result<Vec<String>> {
    let communicator: Communicator = cluster.communicator()?.with_algorithm(ALGORITHM);
    let script = script(cluster.rank());
    let compressor = |of: &CompressedVector| communicator.matrix_compressor(of.compression, of.rows, of.columns);
    let mut compressors: Vec<Compressor> = script.iter().map(compressor).collect::<Result<_>>()?;
    let mut outcomes = Vec::new();
    for update in 0..UPDATES {
        let mut pending = Vec::new();
        for (of, compressor) in script.iter().zip(&compressors) {
            let values = &of.updates[update];
            let plain = of.compression == Compression::Plain && of.goal == CollectiveGoal::AllReduce;
            pending.push(if plain {
                Pending::Plain(communicator.begin_all_reduce(values.clone(), ReduceOp::Sum)?)
            } else {
                let compressor = compressor.clone();
                Pending::Compressed(communicator.begin_compressed(of.goal, values, ReduceOp::Sum, compressor)?)
            });
        }
        for (pending, compressor) in pending.into_iter().zip(&mut compressors) {
            let result = match pending {
                Pending::Plain(pending) => pending.wait(),
                Pending::Compressed(pending) => {
                    let result;
                    (*compressor, result) = pending.wait();
                    result
                }
            };
            outcomes.push(outcome(result.map_err(|error| error.to_string())));
        }
    }
    cluster.barrier()?;
    Ok(outcomes)
}

fn simulated_collectives(seed: u64) -> Vec<Vec<String>> {
    let setup = |me: Rank| CompressedSetup {
        collective: CollectiveContext { me, peers: PEERS, operator: ReduceOp::Sum, algorithm: ALGORITHM },
        vectors: script(me),
        in_flight: 1 + seed as usize % 10,
        segment: 1 << 18,
        before: SimDuration::from_micros(20),
        tags_late: false,
    };
    let mut cluster = ClusterSpec::new(PEERS);
    cluster.link.jitter = SimDuration::from_micros(10 * seed);
    let mut actors: Vec<_> = Rank::all(PEERS).map(|me| CompressedActor::new(setup(me)).ok()).collect();
    let mut simulation = Simulation::new(&cluster, seed, |me| actors[me.index()].take()).unwrap();
    simulation.run().unwrap();
    let outcomes = |actor: &CompressedActor| {
        let vectors = script(Rank::ROOT).len();
        let at = |number: usize| actor.results(number % vectors)[number / vectors].clone();
        (0..UPDATES * vectors).map(|number| outcome(at(number).map_err(|error| error.to_string()))).collect()
    };
    simulation.actors().iter().flatten().map(outcomes).collect()
}

/// Local computation before a round of gossip averaging.
fn step(peer: Rank, round: u64, values: &mut [f64]) {
    for (element, value) in values.iter_mut().enumerate() {
        *value += 1.0 / (3.0 + peer.index() as f64 + 11.0 * round as f64 + 997.0 * element as f64);
    }
}

fn digest_of(values: &[f64]) -> String {
    let digest =
        values.iter().fold(0_u64, |digest, value| digest.rotate_left(7).wrapping_mul(31).wrapping_add(value.to_bits()));
    format!("{digest:016x}")
}

fn gossip(cluster: &Cluster) -> Result<String> {
    let graph = cluster.graph(&Topology::RootExpander)?;
    let mut gossip = cluster.gossip::<f64>(&graph, GOSSIP_LENGTH).build()?;
    let mut values = vec![0.0; GOSSIP_LENGTH];
    for round in 0..ROUNDS {
        step(cluster.rank(), round, &mut values);
        gossip.average(&mut values)?;
    }
    cluster.barrier()?;
    Ok(digest_of(&values))
}

fn simulated_gossip(seed: u64) -> Vec<String> {
    let graph = Topology::RootExpander.graph(PEERS).unwrap();
    let setup = GossipSetup {
        weights: GossipWeights::balanced(&graph).unwrap().into(),
        length: GOSSIP_LENGTH,
        piece: 1 + seed as usize * 7,
        value_bytes: 8,
        synchronization: GossipSync::NotifyAck,
        rounds: ROUNDS,
        step: Arc::new(step),
        work: SimDuration::from_micros(100),
        survives_losses: false,
        ignore_others: false,
    };
    let mut cluster = ClusterSpec::new(PEERS);
    cluster.link.jitter = SimDuration::from_micros(10 * seed);
    let mut simulation = Simulation::new(&cluster, seed, |me| GossipActor::new(me, PEERS, setup.clone()).ok()).unwrap();
    simulation.run().unwrap();
    let last = |actor: &GossipActor| digest_of(&actor.history().last().unwrap().0);
    simulation.actors().iter().flatten().map(last).collect()
}

/// Outcomes of one peer, one per line.
fn body(cluster: &Cluster) -> Result<String> {
    let mut lines = collectives(cluster)?;
    lines.push(gossip(cluster)?);
    Ok(lines.join("\n"))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_conforming_peer() {
    println!("<begin>{}<end>", hemiola_cluster::run(body).unwrap());
}

#[test]
fn threads_processes_and_the_simulator_agree() {
    with_watchdog(|| {
        let threads = standalone(PEERS).run(body).unwrap();
        let vectors = script(Rank::ROOT).len();
        for (peer, lines) in threads.iter().enumerate() {
            let lines: Vec<&str> = lines.lines().collect();
            assert_eq!(lines.len(), UPDATES * vectors + 1, "{lines:#?}");
            for (number, line) in lines.iter().enumerate() {
                let mismatch = number % vectors == 2 && number < UPDATES * vectors;
                let refused = number == vectors + 3;
                assert_eq!(line.contains("peer 2 does all-reduce (tree) of 41 f32"), mismatch, "{number}: {line}");
                assert_eq!(line.contains(if peer == 1 { "element 7" } else { "peer 1 has" }), refused, "{line}");
            }
        }
        let start = |_: u32, command: &mut std::process::Command| {
            command.env("HEMIOLA_WORKERS", "1");
        };
        let name = "collective_conformance::the_conforming_peer";
        let processes = PeerProcesses::start(PEERS as u32, name, start).finish();
        for (printed, expected) in processes.iter().zip(&threads) {
            let (_, rest) = printed.split_once("<begin>").expect("the peer prints its outcomes");
            assert_eq!(rest.split_once("<end>").map(|(outcomes, _)| outcomes), Some(&expected[..]));
        }
        for seed in 0..20 {
            let (collectives, gossip) = (simulated_collectives(seed), simulated_gossip(seed));
            for ((mut lines, gossip), expected) in collectives.into_iter().zip(gossip).zip(&threads) {
                lines.push(gossip);
                assert_eq!(lines.join("\n"), *expected, "seed {seed}");
            }
        }
    });
}
