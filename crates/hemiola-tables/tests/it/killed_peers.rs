//! Killed peers, and jobs that resume from their last checkpoint.

#![expect(clippy::print_stdout, reason = "how a peer process tells how far it is")]

use crate::support::{delta, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane};
use hemiola_tables::{TableExt, serve};
use hemiola_testkit::PeerProcesses;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

const CLOCKS: u64 = 24;

/// Trains to the end, with a checkpoint every other clock that is written during the next clocks.
fn train(cluster: &Cluster, folder: &Path, hold: Option<u64>) -> Result<String> {
    let table = cluster.table::<f32>("w").rows(300).width(8).resume(folder).build()?;
    let peer = cluster.rank().index();
    let mut clock = table.start_clock().units();
    while clock < CLOCKS {
        let saving = (clock % 2 == 1).then(|| table.checkpoint(folder)).transpose()?;
        println!("clock {clock}");
        if hold == Some(clock) && cluster.is_root() {
            // Holds until the kill arrives, so that it comes before the end.
            let never = cluster
                .open_channel(ChannelId::of(ChannelOwner::Application, 0), Lane::Control)
                .receive(Duration::from_secs(100));
            assert!(never.is_err());
        }
        table.each_worker(|worker| {
            for at in 0..100 {
                let key = (at * 7 + clock * 11 + worker.id().index() as u64 * 50) % 300;
                let seen = worker.get(key, |row| row[3])?;
                let values: [f32; 8] = std::array::from_fn(|column| {
                    delta(peer, worker.id().index(), clock as usize, key, column) + seen / 16.0
                });
                worker.inc(key, &values)?;
            }
            worker.clock()
        })?;
        clock += 1;
        saving.map_or(Ok(()), hemiola_tables::TableCheckpoint::finish)?;
    }
    let mut digest = 0_u64;
    for (key, row) in table.collect()? {
        for value in row {
            digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(key ^ u64::from(value.to_bits()));
        }
    }
    Ok(format!("{digest:x}"))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_that_may_be_killed() {
    let folder = std::env::var_os("HEMIOLA_TEST_CHECKPOINT").unwrap();
    let hold = std::env::var_os("HEMIOLA_TEST_HOLD").map(|hold| hold.to_str().unwrap().parse().unwrap());
    let job = Cluster::builder().from_environment().unwrap();
    if std::env::var_os("HEMIOLA_SERVERS").is_some() && std::env::var_os("HEMIOLA_RANK").is_some_and(|rank| rank == "2")
    {
        // Its result depends on which process was killed.
        let _ = job.as_server().run(serve);
        return;
    }
    match job.run(|cluster| train(cluster, folder.as_ref(), hold)) {
        Ok(said) => println!("the end: {said}."),
        Err(error) => println!("failed: {error}"),
    }
}

/// Runs both peers, and a dedicated server if requested. Kills one process when the first peer
/// reaches a clock. Returns the final output, if the job finished.
fn run(folder: &Path, server: bool, kill: Option<(usize, u64)>) -> Option<String> {
    let size = 2 + u32::from(server);
    let mut peers = PeerProcesses::start(size, "killed_peers::the_peer_that_may_be_killed", |_, command| {
        command.env("HEMIOLA_TEST_CHECKPOINT", folder);
        if server {
            command.env("HEMIOLA_SERVERS", "1");
        }
        if let Some((_, at)) = kill {
            command.env("HEMIOLA_TEST_HOLD", (at + 3).to_string());
        }
    });
    let lines = BufReader::new(peers.peers()[0].child().stdout.take().unwrap()).lines();
    let mut end = None;
    for line in lines.map_while(std::result::Result::ok) {
        if let Some((peer, at)) = kill
            && line == format!("clock {at}")
        {
            peers.peers()[peer].kill().unwrap();
        }
        end = end.or(line.strip_prefix("the end: ").map(str::to_owned));
    }
    let _ = peers.outputs();
    end
}

#[test]
fn a_job_with_killed_peers_is_bit_identical_after_resuming() {
    with_watchdog(|| {
        let lab = tempfile::tempdir().unwrap();
        let alone =
            standalone(2).workers(2).run(|cluster| train(cluster, &lab.path().join("undisturbed"), None)).unwrap();
        let expected = Some(format!("{}.", alone[0]));
        for round in 0..5 {
            let folder = lab.path().join(format!("disturbed-{round}"));
            for (peer, at) in [(0, 1 + round), (1, 6 + round), (1, 12 + round), (0, 16 + round)] {
                assert_eq!(run(&folder, false, Some((peer, at))), None, "peer {peer} is killed at clock {at}");
            }
            assert_eq!(run(&folder, false, None), expected);
        }
    });
}

#[test]
fn a_job_with_a_killed_server_is_bit_identical_after_resuming() {
    with_watchdog(|| {
        let lab = tempfile::tempdir().unwrap();
        let alone =
            standalone(2).workers(2).run(|cluster| train(cluster, &lab.path().join("undisturbed"), None)).unwrap();
        let expected = Some(format!("{}.", alone[0]));
        for round in 0..3 {
            let folder = lab.path().join(format!("disturbed-{round}"));
            for (peer, at) in [(2, 1 + round), (0, 5 + round), (2, 9 + round), (1, 13 + round), (2, 17 + round)] {
                assert_eq!(run(&folder, true, Some((peer, at))), None, "peer {peer} is killed at clock {at}");
            }
            // The last part runs without a server in every other round.
            assert_eq!(run(&folder, round % 2 == 0, None), expected);
        }
    });
}
