//! Real processes under SIGKILL and SIGSTOP: the others end with an error that names the victim,
//! within the deadline.

use crate::support::{free_address, peer, short_deadlines, start_process, with_watchdog};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_testkit::PeerProcess;
use std::net::SocketAddr;
use std::time::Duration;

const SIZE: usize = 3;
const VICTIM: usize = 2;

/// Runs the operation during which the victim is killed, on every peer.
fn run_scenario(cluster: &Cluster, name: &str) -> Result<()> {
    let victim = cluster.rank().index() == VICTIM;
    cluster.barrier()?;
    println!("ready");
    match name {
        "barrier" if victim => loop {
            std::thread::park();
        },
        "bulk" => {
            let channel = ChannelId::of(ChannelOwner::Application, 1);
            if victim {
                let payload = bytes::Bytes::from(vec![3; 8 << 20]);
                loop {
                    for to in [0, 1].map(Rank::new) {
                        let payload = payload.clone().into();
                        cluster.send(
                            to,
                            OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Custom, payload },
                        )?;
                    }
                }
            }
            let receiver = cluster.open_channel(channel, Lane::Bulk);
            loop {
                match receiver.receive_from(Rank::new(VICTIM as u32), Duration::from_secs(20)) {
                    Ok(message) => assert!(message.payload.iter().all(|byte| *byte == 3)),
                    Err(hemiola_net::ReceiveError::Lost(loss)) => return Err(loss.into()),
                    Err(other) => panic!("{other}"),
                }
            }
        }
        _ => cluster.barrier(),
    }
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_process() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let (rank, address): (usize, SocketAddr) =
        (variable("TEST_RANK").parse().unwrap(), variable("TEST_ADDRESS").parse().unwrap());
    let outcome = peer(rank, SIZE, address).run(|cluster| run_scenario(cluster, &variable("TEST_SCENARIO")));
    println!("outcome: {}", outcome.map_or_else(|error| error.to_string(), |()| "ok".to_owned()));
}

fn start(scenario: &str) -> Vec<PeerProcess> {
    let address = free_address();
    (0..SIZE)
        .map(|rank| {
            let variables = [
                ("TEST_RANK", rank.to_string()),
                ("TEST_ADDRESS", address.to_string()),
                ("TEST_SCENARIO", scenario.to_owned()),
            ];
            start_process(None, "killing::the_peer_process", &variables)
        })
        .collect()
}

/// Kills the victim once all are ready. Returns the output of the survivors.
fn kill_during(scenario: &str, signal: &str) -> Vec<String> {
    let mut peers = start(scenario);
    for peer in &mut peers {
        peer.wait_for_line("ready");
    }
    peers[VICTIM].signal(signal);
    let victim = peers.pop();
    let output = peers.into_iter().map(|peer| peer.finish().1).collect();
    drop(victim);
    output
}

fn assert_all_blame_the_victim(output: &[String], cause: &str) {
    for text in output {
        assert!(text.contains("outcome: lost peer 2 at 127.0.0.1:"), "{text}");
        assert!(text.contains(cause), "{text}");
        assert!(text.contains("last sign of life"), "{text}");
    }
}

#[test]
fn sigkill_in_a_barrier() {
    with_watchdog(|| {
        let output = kill_during("barrier", "KILL");
        assert_all_blame_the_victim(&output, "its connection closed without a goodbye");
    });
}

#[test]
fn sigkill_in_a_bulk_send() {
    with_watchdog(|| {
        let output = kill_during("bulk", "KILL");
        assert_all_blame_the_victim(&output, "its connection closed without a goodbye");
    });
}

#[test]
fn sigstop_is_silence() {
    with_watchdog(|| {
        let output = kill_during("barrier", "STOP");
        assert_all_blame_the_victim(&output, "it has been silent for 3.");
    });
}

#[test]
fn sigkill_before_joining_is_named_when_the_join_deadline_ends() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = short_deadlines();
        deadlines.join = Duration::from_secs(3);
        // Rank 2 dies before it connects: it is never started.
        let outcomes = crate::support::over_tcp(
            (0..2).map(|rank| peer(rank, SIZE, address).deadlines(deadlines.clone())).collect(),
            |cluster| cluster.barrier(),
        );
        assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap_err().to_string().contains("for peer 2")));
    });
}

#[test]
fn sigkill_after_joining_while_others_are_missing_aborts_the_job() {
    with_watchdog(|| {
        let address = free_address();
        let variables =
            [("TEST_RANK", "1".to_owned()), ("TEST_ADDRESS", address.to_string()), ("TEST_SCENARIO", "none".into())];
        let mut other = start_process(None, "killing::the_peer_process", &variables);
        // Rank 2 never joins. Rank 1 is killed as soon as its connection is visible.
        let root = std::thread::scope(|scope| {
            let root = scope.spawn(|| peer(0, SIZE, address).run(|cluster| cluster.barrier()));
            let connected = || {
                let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
                let port = format!(":{:04X}", address.port());
                // State 01 is ESTABLISHED; the root's side has this port as its local one.
                sockets.lines().any(|line| {
                    line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port)) && line.contains(" 01 ")
                })
            };
            while !connected() {
                std::thread::yield_now();
            }
            std::thread::park_timeout(Duration::from_millis(300));
            other.signal("KILL");
            root.join().unwrap()
        });
        let text = root.unwrap_err().to_string();
        assert!(text.contains("peer 1 at 127.0.0.1:") && text.contains("was lost while the job was joining"), "{text}");
    });
}
