//! Output of `hemiola run`: lines, logs, closed pipes.

use crate::support::{hemiola, launch, run};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Stdio;

#[test]
fn streams_are_separate_and_lines_have_a_rank_prefix() {
    let ended = run(&["-n", "2"], "echo out; echo; echo err >&2; printf 'no newline'");
    assert_eq!(ended.sorted(), ["[0] ", "[0] no newline", "[0] out", "[1] ", "[1] no newline", "[1] out"]);
    let mut errors = ended.stderr.clone();
    errors.sort();
    assert_eq!(errors, [b"[0] err", b"[1] err"]);
}

#[test]
fn bytes_are_passed_unchanged() {
    let ended = run(&[], r"printf '\377\376\000\r\tx\n'");
    assert_eq!(ended.stdout, [b"[0] \xff\xfe\0\r\tx"]);
}

#[test]
fn lines_of_two_peers_never_mix() {
    // 2000 lines of 100 letters per peer and stream, with both streams in one pipe.
    let script = r#"letter=$(printf %s ABCD | cut -c $((HEMIOLA_RANK + 1))); line=$(printf '%0100d' 0 | tr 0 "$letter")
        i=0; while [ $i -lt 2000 ]; do echo "$line"; echo "$line" >&2; i=$((i + 1)); done"#;
    let merged = format!("exec \"$0\" run -n 4 -- sh -c '{}' 2>&1", script.replace('\'', r"'\''"));
    let mut command = std::process::Command::new("sh");
    let ended = launch(command.arg("-c").arg(merged).arg(env!("CARGO_BIN_EXE_hemiola"))).end();
    assert_eq!(ended.stdout.len(), 4 * 2 * 2000);
    for line in &ended.stdout {
        let rank = usize::from(line[1] - b'0');
        let expected = format!("[{rank}] {}", ["A", "B", "C", "D"][rank].repeat(100));
        assert_eq!(line, expected.as_bytes());
    }
}

#[test]
fn a_very_long_line_is_split() {
    let ended = run(&[], "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo after");
    let (last, pieces) = ended.stdout.split_last().unwrap();
    assert_eq!(last, b"[0] after");
    assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= 4 + 2 * 64 * 1024));
    assert_eq!(pieces.iter().map(|piece| piece.len() - 4).sum::<usize>(), 1_000_000);
}

#[test]
fn there_is_no_colour_without_a_terminal() {
    let ended = run(&["-n", "2"], "echo x; echo y >&2");
    assert!(ended.stdout.iter().chain(&ended.stderr).all(|line| !line.contains(&0x1b)));
}

#[test]
fn logs_contain_the_output_of_each_peer() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("new/logs");
    let ended = run(&["-n", "2", "--log-dir", logs.to_str().unwrap()], "echo one; echo two; printf $HEMIOLA_RANK");
    assert_eq!(ended.code, Some(0));
    for rank in 0..2 {
        let log = fs::read_to_string(logs.join(format!("peer-{rank}.log"))).unwrap();
        assert_eq!(log, format!("one\ntwo\n{rank}\n"));
    }
}

#[test]
fn a_full_disk_for_logs_is_reported_once_and_not_fatal() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..3 {
        symlink("/dev/full", folder.path().join(format!("peer-{rank}.log"))).unwrap();
    }
    let ended = run(&["-n", "4", "--log-dir", folder.path().to_str().unwrap()], "echo a; echo b >&2; echo c");
    assert_eq!((ended.code, ended.stdout.len()), (Some(0), 8));
    let notes = ended.notes();
    assert!(notes.len() == 1 && notes[0].contains("No space left"), "{notes:?}");
    assert_eq!(fs::read_to_string(folder.path().join("peer-3.log")).unwrap().lines().count(), 3);
}

#[test]
fn a_log_that_cannot_be_opened_is_reported_once_and_not_fatal() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("peer-0.log")).unwrap();
    let ended = run(&["-n", "2", "--log-dir", folder.path().to_str().unwrap()], "echo a");
    assert_eq!((ended.code, ended.notes().len()), (Some(0), 1), "{ended:?}");
}

#[test]
fn a_log_folder_that_cannot_be_created_is_an_error_before_the_start() {
    let ended = run(&["--log-dir", "/dev/null/logs"], "echo started");
    assert_eq!((ended.code, ended.stdout.len()), (Some(2), 0));
    assert!(ended.notes()[0].contains("/dev/null/logs"));
}

#[test]
fn a_full_disk_for_stdout_is_reported_once_and_not_fatal() {
    let mut command = hemiola(&["-n", "2", "--", "sh", "-c", "echo a; echo b; echo c >&2"]);
    let mut child = command.stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(stderr.matches("hemiola: cannot write to stdout").count(), 1, "{stderr}");
    assert!(stderr.contains("[0] c") && stderr.contains("[1] c"));
}

#[test]
fn peers_end_quietly_when_the_reader_closes_the_pipe() {
    let mut command = std::process::Command::new("sh");
    let script = r#""$0" run -n 2 -- sh -c 'while echo line; do :; done' | head -n 3"#;
    let ended = launch(command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_hemiola"))).end();
    assert_eq!((ended.code, ended.stdout.len()), (Some(0), 3));
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_closed_output_is_not_a_failure_of_the_launcher() {
    let mut command = std::process::Command::new("sh");
    let script = r#"{ "$0" run -n 2 -- yes; echo "code $?" >&2; } | head -n 1"#;
    let ended = launch(command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_hemiola"))).end();
    assert_eq!(ended.stderr, [b"code 0"]);
}

#[test]
fn escapes_in_names_of_files_users_and_items_reach_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let escape = "\u{1b}]0;owned\u{7}\u{1b}[2J";
    let ratings = (0..40).map(|line| format!("user{},{escape}item{},{}", line % 5, line % 8, 1 + line % 5));
    fs::write(folder.path().join("ratings.csv"), ratings.collect::<Vec<_>>().join("\n")).unwrap();
    let end = |arguments: &[&str]| {
        let mut command = crate::support::subcommand(arguments[0]);
        launch(command.args(&arguments[1..]).current_dir(folder.path())).end()
    };
    let missing = format!("{escape}.csv");
    let outcomes = [
        end(&["train", "mf", "--data", "ratings.csv", "--epochs", "2", "--output", "model"]),
        end(&["recommend", "--model", "model", "--user", "user1", "-k", "3"]),
        end(&["recommend", "--model", "model", "--user", &missing]),
        end(&["train", "mf", "--data", &missing]),
        end(&["data", "describe", "ratings.csv"]),
    ];
    for ended in &outcomes {
        for line in ended.stdout.iter().chain(&ended.stderr) {
            let line = String::from_utf8_lossy(line);
            assert!(!line.contains(['\u{1b}', '\u{7}']), "{line:?}");
        }
    }
    let shown = outcomes[1].stdout.concat();
    assert!(String::from_utf8_lossy(&shown).contains("owned"), "names are printed: {shown:?}");
}
