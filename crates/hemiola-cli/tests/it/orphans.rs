//! No process or folder is left, however the job ends.

use crate::support::{entries, hemiola, launch, run};
use rustix::process::Signal;

/// Script of a peer with a child, both of which run for long.
const FAMILY: &str = "sleep 1000 & echo $$ $!; wait";

#[test]
fn a_killed_launcher_leaves_no_process_and_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut launched = launch(hemiola(&["-n", "3", "--", "sh", "-c", FAMILY]).env("TMPDIR", folder.path()));
    let family = launched.pids(3);
    assert_eq!(family.len(), 6);
    assert_eq!(entries(folder.path()), 1);
    let children = launched.children();
    assert_eq!(children.len(), 3 + 1, "three peers and a guard process");
    launched.signal(Signal::KILL);
    assert_eq!(launched.wait(), None);
    for process in family.iter().chain(&children) {
        process.wait_for_end();
    }
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn children_end_with_a_failing_peer_and_with_the_other_peers() {
    // Peer 1 fails when the others have printed.
    let script = r#"sleep 1000 & echo $$ $!; : >"$HEMIOLA_STATUS_DIR/ready-$HEMIOLA_RANK"
        [ $HEMIOLA_RANK = 1 ] || wait
        for rank in 0 2; do until [ -e "$HEMIOLA_STATUS_DIR/ready-$rank" ]; do :; done; done; exit 3"#;
    let launched = launch(&mut hemiola(&["-n", "3", "--grace", "0", "--", "sh", "-c", script]));
    let family = launched.pids(3);
    let ended = launched.end();
    assert_eq!(ended.code, Some(3));
    for process in family {
        process.wait_for_end();
    }
}

#[test]
fn children_end_with_a_peer_that_ends_well() {
    let launched = launch(&mut hemiola(&["-n", "2", "--", "sh", "-c", "sleep 1000 & echo $!"]));
    let children = launched.pids(2);
    assert_eq!(launched.end().code, Some(0));
    for process in children {
        process.wait_for_end();
    }
}

#[test]
fn a_daemon_that_holds_the_output_does_not_block_the_launcher() {
    let launched = launch(&mut hemiola(&["--", "sh", "-c", "setsid sleep 1000 & echo $!"]));
    let daemon = launched.line();
    let ended = launched.end();
    assert_eq!(ended.code, Some(0));
    let pid = daemon.split_whitespace().nth(1).unwrap();
    let _ = std::process::Command::new("kill").arg(pid).status();
}

#[test]
fn the_folder_is_removed_however_the_job_ends() {
    let folder = tempfile::tempdir().unwrap();
    for script in ["exit 0", "exit 1", "kill -9 $$"] {
        let mut command = hemiola(&["-n", "2", "--grace", "0", "--", "sh", "-c", script]);
        launch(command.env("TMPDIR", folder.path())).end();
        assert_eq!(entries(folder.path()), 0);
    }
}

#[test]
fn peers_read_nothing_from_stdin() {
    assert_eq!(run(&["-n", "2"], "cat; echo end").sorted(), ["[0] end", "[1] end"]);
}
