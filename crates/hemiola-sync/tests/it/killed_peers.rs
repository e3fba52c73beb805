//! Killed peers in every mode: the others end with an error, whatever step they are in, and the job
//! continues from its last checkpoint on another number of peers.

#![expect(clippy::print_stdout, reason = "how a peer process tells how far it is")]

use crate::linear_model::{assert_within, build, built, step, train_on, values};
use crate::modes::mode;
use hemiola_cluster::{Cluster, Result};
use hemiola_strategy::StrategyBuilder;
use hemiola_testkit::{PeerProcesses, with_watchdog};
use std::io::{BufRead, BufReader};
use std::path::Path;

const STEPS: u64 = 400;
const PEERS: usize = 3;

/// Modes of which one peer is killed: each synchronizer, and each path of updates.
const NAMES: [&str; 11] = [
    "all-reduce",
    "balanced",
    "poseidon",
    "two-level",
    "subset",
    "subset bsp",
    "bsp",
    "ssp:2",
    "async",
    "notify-ack",
    "gossip-async",
];

/// Trains to the end, with a checkpoint every fourth step of the first forty. Peer 0 tells each step.
fn train(cluster: &Cluster, name: &str, folder: &Path) -> Result<Vec<Vec<f32>>> {
    let mut sync = build(cluster, Some(mode(name, cluster.size()).into()), Some(folder.to_owned()))?;
    while sync.steps() < STEPS {
        step(cluster, &mut sync)?;
        println!("step {}", sync.steps());
        if sync.steps().is_multiple_of(4) && sync.steps() <= 40 {
            sync.save(folder)?;
        }
    }
    values(&mut sync)
}

#[test]
#[ignore = "entry point of a child process"]
fn the_training_that_may_be_killed() {
    let folder = std::env::var_os("HEMIOLA_TEST_CHECKPOINT").unwrap();
    let name = std::env::var_os("HEMIOLA_TEST_STRATEGY").unwrap().into_string().unwrap();
    match hemiola_cluster::run(|cluster| train(cluster, &name, folder.as_ref())) {
        Ok(_) => println!("the end"),
        Err(error) => println!("failed: {error}"),
    }
}

/// Runs the peers as processes and kills one of them when peer 0 has taken a step. Returns the
/// output of the others.
fn kill(name: &str, folder: &Path, victim: usize, at: u64) -> Vec<String> {
    let mut peers =
        PeerProcesses::start(PEERS as u32, "killed_peers::the_training_that_may_be_killed", |_, command| {
            command.env("HEMIOLA_TEST_CHECKPOINT", folder).env("HEMIOLA_TEST_STRATEGY", name);
        });
    let lines = BufReader::new(peers.peers()[0].child().stdout.take().unwrap()).lines();
    let mut first = String::new();
    for line in lines.map_while(std::result::Result::ok) {
        if line == format!("step {at}") {
            peers.peers()[victim].kill().unwrap();
        }
        first += &line;
        first.push('\n');
    }
    let outputs = peers.outputs().into_iter().enumerate().filter(|(rank, _)| *rank != victim);
    let text = |(rank, output): (usize, std::process::Output)| {
        if rank == 0 { first.clone() } else { String::from_utf8_lossy(&output.stdout).into_owned() }
    };
    outputs.map(text).collect()
}

#[test]
fn after_a_kill_the_others_name_the_peer_and_the_job_resumes() {
    with_watchdog(|| {
        let lab = tempfile::tempdir().unwrap();
        let alone = train_on(1, built(StrategyBuilder::default()), &lab.path().join("alone"), false, STEPS);
        for (round, name) in NAMES.into_iter().enumerate() {
            let folder = lab.path().join(format!("job-{round}"));
            for (victim, at) in [(1, 1), (2, 6 + round as u64), (1, 17)] {
                for output in kill(name, &folder, victim, at) {
                    assert!(output.contains("failed: "), "{name}, peer {victim} after step {at}: {output}");
                    assert!(output.contains(&format!("peer {victim}")), "{name}: {output}");
                }
            }
            // On two peers, which continue from the last checkpoint.
            let resumed = hemiola_cluster::standalone(2).run(|cluster| train(cluster, name, &folder)).unwrap();
            assert_within(0.02, &resumed[0], &alone[0], name);
        }
    });
}
