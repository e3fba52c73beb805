//! A peer under the launcher is killed: all peers end, the victim is named, no process survives.
//!
//! The peers are this test binary, running only [`the_peer`].

use crate::with_watchdog;
use hemiola::launch::{Launcher, Output, ProcessExit};
use std::io::{BufRead, BufReader, PipeWriter};
use std::process::Command;

#[test]
#[ignore = "entry point of a child process"]
fn the_peer() {
    let outcome = hemiola::run(|cluster| {
        cluster.barrier()?;
        println!("process {} of peer {}", std::process::id(), cluster.rank());
        if cluster.rank().index() == 2 {
            loop {
                std::thread::park();
            }
        }
        Ok(cluster.barrier()?)
    });
    outcome.unwrap();
}

#[test]
fn the_victim_is_named_and_no_process_survives() {
    with_watchdog(|| {
        let (out, printed) = pipe();
        let (err, complaints) = pipe();
        let reader = std::thread::spawn(move || {
            let mut processes = Vec::new();
            for line in BufReader::new(out).lines().map(Result::unwrap) {
                let printed = line.split_once("process ").and_then(|(_, rest)| rest.split_once(" of peer "));
                if let Some((process, rank)) = printed {
                    processes.push(process.to_owned());
                    if rank == "2" {
                        assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
                    }
                }
            }
            processes
        });
        let noted = std::thread::spawn(move || std::io::read_to_string(err).unwrap());
        let program = std::env::current_exe().unwrap();
        let arguments = hemiola_testkit::entry_arguments("killed::the_peer");
        let launcher = Launcher::new(program, arguments).peers(4).workers(Some(1)).forward_signals(false);
        let outcome = launcher.run(Output::new(printed, complaints)).unwrap();
        let (processes, noted) = (reader.join().unwrap(), noted.join().unwrap());

        assert_eq!(outcome.code(), 128 + 9);
        let culprit = outcome.culprit().unwrap();
        assert_eq!((culprit.rank.index(), &culprit.exit), (2, &ProcessExit::Killed(9)));
        assert!(noted.contains("peer 2 (pid ") && noted.contains("was killed by signal 9 (SIGKILL)"), "{noted}");
        // The surviving peers name the lost peer.
        assert!(noted.contains("[0] ") && noted.contains("lost peer 2 at 127.0.0.1:"), "{noted}");
        assert_eq!(processes.len(), 4);
        for process in processes {
            assert!(!std::path::Path::new("/proc").join(&process).exists(), "process {process} is still running");
        }
    });
}

fn pipe() -> (std::io::PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}
