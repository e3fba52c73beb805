//! Loops over TCP: processes, peers with different numbers of workers, a peer that is killed.
//!
//! The processes are this test binary, running only [`the_peer`].

use super::run;
use crate::with_watchdog;
use hemiola::cluster::{Cluster, Result};
use hemiola::core::Deadlines;
use hemiola::launch::{JobOutcome, Launcher, Output, ProcessExit};
use hemiola::net::Rendezvous;
use hemiola::prelude::*;
use std::net::TcpListener;
use std::process::Command;

/// A rotation with a buffer that is applied at barriers and a served array. Returns a digest of all
/// results.
fn program(cluster: &Cluster, is_victim: bool) -> Result<u64> {
    let all = cluster.from_fn([300, 70], |[u, i]| (u * 31 + i * 17) % 5000)?;
    let entries = all.entries().filter(|[u, i], _| (u + i * i) % 5 > 0).materialize()?;
    let mut w = cluster.uniform([300, 4], 0.0..1.0, Seed(1))?;
    let mut h = cluster.uniform([70, 4], 0.0..1.0, Seed(2))?;
    let (table, totals) = (cluster.uniform([30_000], 0.0..0.1, Seed(3))?, cluster.zeros::<f32, 1>([9])?);
    let mut digest = 0_u64;
    for pass in 0..3 {
        let sums = totals.buffered(|cell: &mut f32, update: f32| *cell = *cell * 0.999 + update);
        let run = parallel_for!(
            cluster,
            for ([u, i], value) in &entries {
                if pass == 1 && is_victim && value % 50 == 7 {
                    // The signal takes a moment; this worker must not continue meanwhile.
                    Command::new("kill").args(["-KILL", &std::process::id().to_string()]).status().unwrap();
                    loop {
                        std::thread::park();
                    }
                }
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let error = table[*value * 37 % 30_000] - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
                for k in 0..4 {
                    let (a, b) = (wu[k], hi[k]);
                    wu[k] += 0.01 * error * b;
                    hi[k] += 0.01 * error * a;
                }
                sums[*value % 9] += error;
            }
        )?;
        assert!(run.plan().cuts.peers_used == cluster.size() && run.plan().cuts.times() > 1, "{}", run.plan());
        let cells = w.collect()?.into_iter().chain(h.collect()?).map(|(_, cell)| cell);
        for cell in cells.chain(totals.collect()?.into_iter().map(|(_, cell)| cell)) {
            digest = digest.rotate_left(5).wrapping_mul(31) ^ u64::from(cell.to_bits());
        }
    }
    Ok(digest)
}

/// Runs the program if this process was started by a launcher.
fn as_peer(victim: Option<usize>) {
    let outcome = hemiola::run(|cluster| {
        let is_victim = victim == Some(cluster.rank().index());
        println!("digest {:x}", program(cluster, is_victim)?);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer() {
    as_peer(None);
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_of_a_victim() {
    as_peer(Some(2));
}

/// Runs a test of this file in three processes. Returns the outcome, stdout and stderr.
fn processes(test: &str) -> (JobOutcome, String, String) {
    with_watchdog(|| {
        let ((out, printed), (err, complaints)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let readers = [out, err].map(|pipe| std::thread::spawn(move || std::io::read_to_string(pipe).unwrap()));
        let test = format!("conditions::processes::{test}");
        let arguments = hemiola_testkit::entry_arguments(&test);
        let launcher = Launcher::new(std::env::current_exe().unwrap(), arguments).peers(3).workers(Some(2));
        let outcome = launcher.forward_signals(false).run(Output::new(printed, complaints)).unwrap();
        let [out, err] = readers.map(|reader| reader.join().unwrap());
        (outcome, out, err)
    })
}

#[test]
fn processes_give_the_bits_that_threads_give() {
    let expected = run(3, 2, |cluster| program(cluster, false));
    assert!(expected.iter().all(|digest| *digest == expected[0]));
    let (outcome, out, err) = processes("the_peer");
    assert_eq!(outcome.code(), 0, "{err}");
    assert_eq!(out.matches(&format!("digest {:x}", expected[0])).count(), 3, "{out}");
}

#[test]
fn a_peer_that_is_killed_in_a_rotation_is_named_by_the_others() {
    let (outcome, _, err) = processes("the_peer_of_a_victim");
    let culprit = outcome.culprit().unwrap();
    assert_eq!((culprit.rank.index(), &culprit.exit), (2, &ProcessExit::Killed(9)), "{err}");
    for rank in [0, 1] {
        assert!(
            err.lines().any(|line| line.starts_with(&format!("[{rank}]")) && line.contains("lost peer 2")),
            "{err}"
        );
    }
}

#[test]
fn peers_may_have_different_numbers_of_workers() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let results: Vec<_> = with_watchdog(|| {
        std::thread::scope(|scope| {
            let peers: Vec<_> = (0..3)
                .map(|rank| {
                    let mut deadlines = Deadlines::default();
                    deadlines.wait = std::time::Duration::from_secs(30);
                    let builder = Cluster::builder().peer(rank, 3).workers([2, 1, 3][rank]).deadlines(deadlines);
                    let builder = builder.rendezvous(Rendezvous::Address(address.to_string()));
                    scope.spawn(move || builder.run(|cluster| program(cluster, false)))
                })
                .collect();
            peers.into_iter().map(|peer| peer.join().unwrap().unwrap()).collect()
        })
    });
    // The plan has three workers per peer, the most of any peer; buffers are applied worker by
    // worker.
    assert!(results.iter().all(|digest| *digest == results[0]), "{results:?}");
}
