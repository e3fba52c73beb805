//! Jobs of several processes: this test binary, started once per peer to run one test.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::support::{delta, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_tables::TableExt;
use hemiola_testkit::PeerProcesses;

fn train(cluster: &Cluster, staleness: u64) -> Result<String> {
    let table = cluster.table::<f32>("w").rows(2000).width(16).staleness(staleness).build()?;
    let peer = cluster.rank().index();
    table.each_worker(|worker| {
        for clock in 0..5 {
            let keys: Vec<u64> =
                (0..600).map(|at| (at * 3 + clock as u64 + worker.id().index() as u64) % 2000).collect();
            let mut seen = 0.0;
            worker.get_many(&keys, |place, row| {
                if place == 17 {
                    seen = row[2];
                }
            })?;
            for key in keys {
                let values: Vec<f32> = (0..16)
                    .map(|column| (delta(peer, worker.id().index(), clock, key, column) + seen / 64.0).floor())
                    .collect();
                worker.inc(key, &values)?;
            }
            worker.clock()?;
        }
        Ok(())
    })?;
    let rows = table.collect()?;
    let mut digest = 0_u64;
    for (key, row) in &rows {
        for value in row {
            digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(*key ^ u64::from(value.to_bits()));
        }
    }
    Ok(format!("{} rows, {digest:x}", rows.len()))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_of_two() {
    let staleness = std::env::var_os("HEMIOLA_TEST_STALENESS").unwrap();
    let staleness = staleness.to_str().unwrap().parse().unwrap();
    println!("said: {}", hemiola_cluster::run(|cluster| train(cluster, staleness)).unwrap());
}

#[test]
fn two_processes_equal_two_threads() {
    with_watchdog(|| {
        let expected = standalone(2).workers(2).run(|cluster| train(cluster, 0)).unwrap().remove(0);
        for staleness in [0, 2] {
            let peers = PeerProcesses::start(2, "processes::the_peer_of_two", |_, command| {
                command.env("HEMIOLA_TEST_STALENESS", staleness.to_string());
            });
            for said in peers.finish() {
                let expected = if staleness == 0 { &expected } else { "said: 1803 rows" };
                assert!(said.contains(expected), "{said}, expected {expected}");
            }
        }
    });
}
