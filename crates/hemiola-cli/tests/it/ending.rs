//! Exit codes, attribution of failures, signals.

use crate::support::{hemiola, launch, run};
use rustix::process::Signal;

/// Returns a script in which peer 1 runs `act`, and the others wait until SIGTERM.
fn peer_1(act: &str) -> String {
    format!("if [ $HEMIOLA_RANK = 1 ]; then {act}; fi; exec sleep 1000")
}

#[test]
fn the_exit_code_of_the_failing_peer_is_returned_and_reported() {
    let ended = run(&["-n", "3", "--grace", "0"], &peer_1("exit 3"));
    assert_eq!(ended.code, Some(3));
    let notes = ended.notes();
    assert!(notes.len() == 1 && notes[0].starts_with("hemiola: peer 1 (pid "), "{notes:?}");
    assert!(notes[0].ends_with("exited with code 3"), "{notes:?}");
}

#[test]
fn death_by_signal_exits_with_128_plus_the_signal() {
    let ended = run(&["-n", "3", "--grace", "0"], &peer_1("kill -9 $$"));
    assert_eq!(ended.code, Some(137));
    let notes = ended.notes();
    assert!(notes.len() == 1 && notes[0].ends_with("was killed by signal 9 (SIGKILL)"), "{notes:?}");
}

#[test]
fn the_reason_of_a_failing_peer_is_reported() {
    let report = r#"echo '{"rank":1,"kind":"failed","message":"row 7 is not a number"}' >"$HEMIOLA_STATUS_DIR/status-1.json"; exit 3"#;
    let ended = run(&["-n", "2", "--grace", "0"], &peer_1(report));
    assert_eq!(ended.code, Some(3));
    assert!(ended.notes()[0].ends_with("exited with code 3: row 7 is not a number"), "{ended:?}");
}

#[test]
fn the_failing_peer_is_reported_even_if_another_exits_first() {
    // Peer 0 reports a lost peer and exits before peer 1, which is the cause.
    let script = r#"if [ $HEMIOLA_RANK = 0 ]; then
            echo '{"rank":0,"kind":"lost-peer","message":"lost peer 1"}' >"$HEMIOLA_STATUS_DIR/status-0.json"; exit 4
        else
            while [ ! -e "$HEMIOLA_STATUS_DIR/status-0.json" ]; do :; done
            echo '{"rank":1,"kind":"failed","message":"my fault"}' >"$HEMIOLA_STATUS_DIR/status-1.json"; exit 5
        fi"#;
    let ended = run(&["-n", "2", "--grace", "60"], script);
    assert_eq!(ended.code, Some(5));
    assert!(ended.notes()[0].ends_with("exited with code 5: my fault"), "{ended:?}");
}

#[test]
fn peers_that_exit_within_the_grace_period_get_no_signal() {
    // Peer 0 runs until peer 1 is gone, and prints a line on SIGTERM.
    let script = r#"folder=$HEMIOLA_STATUS_DIR
        if [ $HEMIOLA_RANK = 1 ]; then echo $$ >"$folder/pid.new"; mv "$folder/pid.new" "$folder/pid"; exit 3; fi
        trap 'echo terminated' TERM; until [ -e "$folder/pid" ]; do :; done
        while kill -0 "$(cat "$folder/pid")" 2>/dev/null; do :; done; echo done"#;
    let ended = run(&["-n", "2", "--grace", "60"], script);
    assert_eq!((ended.code, ended.sorted()), (Some(3), vec!["[0] done".to_owned()]));
}

#[test]
fn a_peer_that_ignores_sigterm_is_killed() {
    let script = r"trap '' TERM; echo ready; if [ $HEMIOLA_RANK = 1 ]; then exit 3; fi; while :; do sleep 1000; done";
    let ended = run(&["-n", "2", "--grace", "0"], script);
    assert_eq!(ended.code, Some(3));
    assert_eq!(ended.notes().len(), 1, "the killed peer is not reported as the cause: {ended:?}");
}

#[test]
fn an_interrupt_reaches_all_peers() {
    let script = r"trap 'echo interrupted; exit 0' INT; echo $$; while :; do sleep 1000 & wait; done";
    let launched = launch(&mut hemiola(&["-n", "3", "--", "sh", "-c", script]));
    let peers = launched.pids(3);
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(ended.code, Some(130));
    assert_eq!(ended.sorted(), ["[0] interrupted", "[1] interrupted", "[2] interrupted"]);
    assert!(peers.iter().all(super::support::Process::has_ended));
    assert_eq!(ended.notes(), ["hemiola: SIGINT: asked all peers to end; Ctrl-C again kills them"]);
}

#[test]
fn other_signals_are_forwarded_too() {
    for (signal, name, code) in [(Signal::TERM, "TERM", 143), (Signal::HUP, "HUP", 129)] {
        let heeded = signal != Signal::HUP || !hangup_is_ignored();
        hemiola_testkit::require!(hemiola_testkit::condition("signals", heeded, "the tests run under nohup"));
        let script = format!("trap 'echo {name}; exit 9' {name}; echo $$; while :; do sleep 1000 & wait; done");
        let launched = launch(&mut hemiola(&["-n", "2", "--quiet", "--", "sh", "-c", &script]));
        launched.pids(2);
        launched.signal(signal);
        let ended = launched.end();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(ended.sorted(), [format!("[0] {name}"), format!("[1] {name}")]);
        assert!(ended.stderr.is_empty(), "{ended:?}");
    }
}

/// Returns true if this process, and so its children, ignores SIGHUP.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 == 1
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let script = r"trap 'echo heard' INT; trap '' TERM; echo $$; while :; do sleep 1000 & wait; done";
    let launched = launch(&mut hemiola(&["-n", "2", "--grace", "1000", "--", "sh", "-c", script]));
    let peers = launched.pids(2);
    launched.signal(Signal::INT);
    assert!(launched.line().ends_with("heard") && launched.line().ends_with("heard"));
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(ended.code, Some(130));
    assert!(peers.iter().all(super::support::Process::has_ended));
}

#[test]
fn nohup_is_respected() {
    let script = r#"echo $$; read -r line <"$0"; echo "$line""#;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut command = std::process::Command::new("sh");
    let ignoring = r#"trap '' HUP; exec "$0" run -- sh -c "$1" "$2""#;
    let launched = launch(command.args(["-c", ignoring, env!("CARGO_BIN_EXE_hemiola"), script]).arg(&fifo));
    launched.pids(1);
    launched.signal(Signal::HUP);
    std::fs::write(&fifo, "still here\n").unwrap();
    let ended = launched.end();
    assert_eq!((ended.code, ended.sorted()), (Some(0), vec!["[0] still here".to_owned()]));
}
