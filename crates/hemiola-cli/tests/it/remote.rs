//! Peers on other hosts, through a fake ssh that records its arguments and runs the last one
//! locally.

use crate::support::{Launched, entries, hemiola, launch};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Folder with the fake ssh, its records, and the temporary files of the remote side.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lab = Self { folder };
        fs::create_dir(lab.path("tmp")).unwrap();
        let script = r#"#!/bin/sh
echo "$1 $2 $3" >>"${0%/*}/calls"
tr '\0' '\n' </proc/$$/cmdline >>"${0%/*}/cmdlines"
for last; do :; done
cd / && exec sh -c "$last"
"#;
        fs::write(lab.path("ssh"), script).unwrap();
        fs::set_permissions(lab.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, options: &[&str], script: &str) -> Command {
        let ssh = self.path("ssh");
        let mut command = hemiola(&["--ssh", ssh.to_str().unwrap()]);
        command.args(options).args(["--", "sh", "-c", script, "name"]).env("TMPDIR", self.path("tmp"));
        command
    }

    fn launch(&self, options: &[&str], script: &str) -> Launched {
        launch(&mut self.command(options, script))
    }
}

#[test]
fn peers_are_assigned_in_blocks_with_a_rendezvous() {
    let lab = Lab::new();
    let show = r#"echo "$HEMIOLA_RANK/$HEMIOLA_SIZE $HEMIOLA_LOCAL_RANK $HEMIOLA_RENDEZVOUS $HEMIOLA_BIND $HEMIOLA_ADVERTISE $HEMIOLA_SILENCE_SECONDS $PWD""#;
    let mut command = lab.command(&["--hosts", "ada@a:2,b:1", "--port", "4321"], show);
    let ended = launch(command.env("HEMIOLA_SILENCE_SECONDS", "5").current_dir(lab.path("tmp"))).end();
    let here = lab.path("tmp").canonicalize().unwrap();
    let here = here.display();
    let expected = [(0, 0, "a"), (1, 1, "a"), (2, 0, "b")]
        .map(|(rank, local, host)| format!("[{rank}] {rank}/3 {local} a:4321 0.0.0.0 {host} 5 {here}"));
    assert_eq!(ended.sorted(), expected);
    assert_eq!(ended.code, Some(0));
    let mut calls: Vec<_> = fs::read_to_string(lab.path("calls")).unwrap().lines().map(str::to_owned).collect();
    calls.sort();
    assert_eq!(calls, ["-o BatchMode=yes ada@a", "-o BatchMode=yes ada@a", "-o BatchMode=yes b"]);
    assert_eq!(entries(&lab.path("tmp")), 0, "nothing is left");
}

#[test]
fn peers_on_localhost_listen_on_loopback_only() {
    let lab = Lab::new();
    let ended =
        lab.launch(&["--hosts", "localhost:2"], "echo ${HEMIOLA_BIND-loopback} ${HEMIOLA_ADVERTISE-unset}").end();
    assert_eq!(ended.sorted(), ["[0] loopback unset", "[1] loopback unset"]);
    let ended = lab.launch(&["--hosts", "localhost,b"], "true").end();
    assert_eq!(ended.code, Some(2), "other hosts cannot reach localhost");
}

#[test]
fn the_secret_is_on_no_command_line() {
    let lab = Lab::new();
    let script =
        r#"echo "$HEMIOLA_SECRET"; for parent in $$ $PPID; do tr '\0' '\n' </proc/$parent/cmdline; done >>"$1""#;
    let mut command = lab.command(&["--hosts", "a:2"], script);
    let ended = launch(command.arg(lab.path("cmdlines"))).end();
    let secrets = ended.sorted();
    assert_eq!(secrets.len(), 2, "{ended:?}");
    assert_eq!(secrets[0].len(), 4 + 64);
    assert_eq!(secrets[0][4..], secrets[1][4..]);
    let seen = fs::read_to_string(lab.path("cmdlines")).unwrap();
    assert!(seen.contains("HEMIOLA_RANK") && !seen.contains(&secrets[0][4..]));
}

#[test]
fn arguments_survive_two_shells() {
    let lab = Lab::new();
    let mut command = lab.command(&["--hosts", "a"], r#"printf '<%s>' "$@""#);
    let nasty = ["two words", "it's", "\"$HOME\"", "`id`", "a\nb", "\\", "", "*"];
    let ended = launch(command.args(nasty)).end();
    let text = ended.stdout.iter().map(|line| String::from_utf8_lossy(&line[4..])).collect::<Vec<_>>().join("\n");
    assert_eq!(text, nasty.map(|word| format!("<{word}>")).concat());
}

#[test]
fn a_failing_peer_is_reported_with_host_and_reason() {
    let lab = Lab::new();
    let script = r#"if [ $HEMIOLA_RANK = 1 ]; then
            echo '{"rank":1,"kind":"failed","message":"no data"}' >"$HEMIOLA_STATUS_DIR/status-1.json"; exit 4
        fi; exec sleep 1000"#;
    let ended = lab.launch(&["--hosts", "a,b", "--grace", "0"], script).end();
    assert_eq!(ended.code, Some(4));
    assert_eq!(ended.stderr, [b"hemiola: peer 1 on b exited with code 4: no data"]);
    assert_eq!(entries(&lab.path("tmp")), 0);
}

#[test]
fn death_by_signal_is_reported_across_hosts() {
    let lab = Lab::new();
    let ended =
        lab.launch(&["--hosts", "a,b", "--grace", "0"], "[ $HEMIOLA_RANK = 0 ] && kill -9 $$; exec sleep 1000").end();
    assert_eq!(ended.code, Some(137));
    assert_eq!(ended.stderr, [b"hemiola: peer 0 on a was killed by signal 9 (SIGKILL)"]);
}

#[test]
fn an_interrupt_reaches_the_other_hosts() {
    let lab = Lab::new();
    let script = "trap 'echo interrupted; exit 0' INT; echo $$; while :; do sleep 1000 & wait; done";
    let launched = lab.launch(&["--hosts", "a:2"], script);
    let peers = launched.pids(2);
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(
        (ended.code, ended.sorted()),
        (Some(130), vec!["[0] interrupted".to_owned(), "[1] interrupted".to_owned()])
    );
    assert!(peers.iter().all(crate::support::Process::has_ended));
}

#[test]
fn a_remote_peer_that_ignores_sigterm_is_killed() {
    let lab = Lab::new();
    let script = r#"trap '' TERM; echo $$; if [ $HEMIOLA_RANK = 1 ]; then until [ -e "$1" ]; do :; done; exit 3; fi
        : >"$1"; while :; do sleep 1000; done"#;
    let launched = launch(lab.command(&["--hosts", "a:2", "--grace", "0"], script).arg(lab.path("ready")));
    let peers = launched.pids(2);
    assert_eq!(launched.end().code, Some(3));
    peers.iter().for_each(crate::support::Process::wait_for_end);
    assert_eq!(entries(&lab.path("tmp")), 0);
}

#[test]
fn a_killed_launcher_leaves_nothing_on_the_other_hosts() {
    let lab = Lab::new();
    let mut launched = lab.launch(&["--hosts", "a:2"], "sleep 1000 & echo $$ $!; wait");
    let family = launched.pids(2);
    assert_eq!(family.len(), 4);
    launched.signal(Signal::KILL);
    launched.wait();
    for process in family {
        process.wait_for_end();
    }
}

#[test]
fn a_missing_ssh_is_reported() {
    let ended = launch(&mut hemiola(&["--hosts", "a", "--ssh", "/no/such/ssh", "--", "true"])).end();
    assert_eq!(ended.code, Some(127));
    assert!(ended.notes()[0].contains("/no/such/ssh"));
}
