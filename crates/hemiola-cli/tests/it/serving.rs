//! Jobs with dedicated parameter servers. The program is this test binary.

use crate::support::{launch, subcommand};
use hemiola::Cluster;
use hemiola::tables::TableExt as _;
use rustix::process::Signal;
use std::process::Command;

fn program(arguments: &[&str]) -> Command {
    let mut command = subcommand("run");
    command.args(arguments).arg("--").arg(std::env::current_exe().unwrap());
    command.args(hemiola_testkit::entry_arguments("serving::the_program"));
    command
}

#[test]
#[ignore = "entry point of a child process"]
#[expect(clippy::print_stdout, reason = "standard output carries the result to the test")]
fn the_program() {
    let work = |cluster: &Cluster| {
        let interrupt = hemiola::cluster::Interrupt::watch(|_| ())?;
        let table = cluster.table::<f32>("w").staleness(1).build()?;
        if std::env::var_os("HEMIOLA_TEST_SIGNAL").is_some() {
            println!("ready");
            while interrupt.signal().is_none() {
                cluster.env().sleep(std::time::Duration::from_millis(1));
            }
        }
        table.each_worker(|worker| worker.inc(5, &[1.0]).and_then(|()| worker.clock()))?;
        let (sum, servers) = (table.collect()?[&5][0], cluster.servers().len());
        println!("result: {} peers, {servers} servers, sum {sum}, {} bytes here", cluster.size(), table.memory_bytes());
        Ok(())
    };
    hemiola_cluster::run(work).unwrap();
}

#[test]
fn servers_hold_the_tables_of_an_unchanged_program() {
    let ended = launch(&mut program(&["-n", "3", "--servers", "2", "--workers", "2"])).end();
    assert_eq!(ended.code, Some(0), "{:?}", ended.stderr);
    let lines = ended.sorted();
    let results: Vec<&String> = lines.iter().filter(|line| line.contains("result: 3 peers")).collect();
    assert_eq!(results.len(), 3, "{lines:?}");
    for (rank, line) in results.into_iter().enumerate() {
        assert!(line.starts_with(&format!("[{rank}] ")), "{line}");
        assert!(line.ends_with("result: 3 peers, 2 servers, sum 6, 0 bytes here"), "{line}");
    }
}

#[test]
fn servers_leave_a_signal_to_the_program() {
    let mut command = program(&["-n", "2", "--servers", "1", "--workers", "1"]);
    let running = launch(command.env("HEMIOLA_TEST_SIGNAL", "1"));
    let mut ready = 0;
    while ready < 2 {
        ready += usize::from(running.line().ends_with("ready"));
    }
    running.signal(Signal::INT);
    let ended = running.end();
    let said = ended.sorted().into_iter().filter(|line| line.contains("sum 2")).count();
    assert_eq!((ended.code, said), (Some(130), 2), "{ended:?}");
}

#[test]
fn a_server_without_a_job_has_a_hint() {
    let ended = launch(&mut subcommand("serve")).end();
    assert_eq!(ended.code, Some(2));
    assert!(ended.notes()[0].contains("start it with `hemiola run --servers 1`"), "{ended:?}");
}

#[test]
fn a_program_started_as_a_server_gets_an_error() {
    let mut command = program(&["-n", "1"]);
    let ended = launch(command.env("HEMIOLA_SERVERS", "1")).end();
    assert_eq!(ended.code, Some(0), "servers of a surrounding job do not count: {:?}", ended.stderr);
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(hemiola_testkit::entry_arguments("serving::the_program")).env("HEMIOLA_RENDEZVOUS", "file:/x");
    let alone = alone.env("HEMIOLA_RANK", "1").env("HEMIOLA_SIZE", "2").env("HEMIOLA_SERVERS", "1").output().unwrap();
    let said = String::from_utf8_lossy(&alone.stdout).into_owned() + &String::from_utf8_lossy(&alone.stderr);
    assert!(said.contains("run `hemiola serve` there"), "{said}");
}

#[test]
fn servers_exit_with_a_program_that_never_joins() {
    let ended = launch(subcommand("run").args(["-n", "2", "--servers", "1", "--grace", "0.2", "--", "true"])).end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn too_many_peers_are_refused_before_the_start() {
    let ended = launch(subcommand("run").args(["-n", "2", "--servers", "100000", "--", "true"])).end();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let said: Vec<String> = ended.stderr.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    assert!(said.concat().contains("100002 peers and servers exceed the limit of"), "{said:?}");
}
