//! Output of training runs: models, locks, reports, and progress lines.

use crate::model::{hemiola, lab, text};
use crate::support::{Ended, launch, subcommand};
use crate::training::{TRAIN, arrays, started};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::process::Stdio;
use tempfile::TempDir;

#[test]
fn two_runs_never_write_to_one_folder() {
    let lab = lab();
    for peers in ["", "--peers 2"] {
        let made = hemiola(&lab, &format!("{TRAIN} --epochs 1 --output model -q"));
        assert_eq!(made.code, Some(0), "{}", text(&made.stderr));
        let before = arrays(&lab.path().join("model"));
        let first = started(&lab, &format!("{TRAIN} --epochs 1000000 --output model"));
        let second = hemiola(&lab, &format!("{TRAIN} --epochs 1 --output model {peers}"));
        let told = text(&second.stderr);
        assert_eq!(second.code, Some(2), "{told}");
        assert!(told.contains(&format!("`model` is being written by process {}", first.id())), "{told}");
        // A killed run releases its lock.
        first.signal(Signal::KILL);
        first.end();
        assert!(arrays(&lab.path().join("model")) == before, "the old model is as it was");
        let third = hemiola(&lab, &format!("{TRAIN} --epochs 1 --output model -q"));
        assert_eq!(third.code, Some(0), "{}", text(&third.stderr));
        assert!(!lab.path().join(".model.lock").exists() && !lab.path().join(".model.partial").exists());
    }
}

#[test]
fn a_locked_folder_is_reported_before_data_are_read() {
    let lab = lab();
    fs::write(lab.path().join("broken.csv"), "a,b,5\na,c,good\n").unwrap();
    let first = started(&lab, &format!("{TRAIN} --epochs 1000000 --output model"));
    for peers in ["", "--peers 2"] {
        let second = hemiola(&lab, &format!("train mf --data broken.csv --output model {peers}"));
        let told = text(&second.stderr);
        assert_eq!(second.code, Some(2), "{told}");
        assert!(told.contains("`model` is being written by process") && !told.contains("broken.csv"), "{told}");
    }
    first.signal(Signal::KILL);
    first.end();
}

#[test]
fn links_to_a_model_and_foreign_files_are_preserved() {
    let lab = lab();
    hemiola(&lab, &format!("{TRAIN} --epochs 1 --output model -q"));
    std::os::unix::fs::symlink("model", lab.path().join("link")).unwrap();
    let through = hemiola(&lab, &format!("{TRAIN} --epochs 3 --output link -q"));
    assert_eq!(through.code, Some(0), "{}", text(&through.stderr));
    assert!(fs::symlink_metadata(lab.path().join("link")).unwrap().is_symlink());
    let manifest: Value = serde_json::from_slice(&fs::read(lab.path().join("model/manifest.json")).unwrap()).unwrap();
    assert_eq!(
        manifest["metadata"]["training"]["progress"].as_array().unwrap().len(),
        3,
        "the link leads to the new model"
    );
    fs::write(lab.path().join("model/thesis.txt"), "years of work").unwrap();
    let beside = hemiola(&lab, &format!("{TRAIN} --epochs 3 --checkpoint-every 1 --output model"));
    assert_eq!(beside.code, Some(0), "{}", text(&beside.stderr));
    assert_eq!(fs::read_to_string(lab.path().join("model/thesis.txt")).unwrap(), "years of work");
}

#[test]
fn a_report_of_local_peers_on_standard_output_is_json() {
    let lab = lab();
    let ended = hemiola(&lab, &format!("{TRAIN} --epochs 2 --peers 2 --report -"));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    assert_eq!(report["cluster"]["peers"], 2);
}

#[test]
fn a_report_under_a_launcher_is_json_with_no_prefix() {
    let lab = lab();
    let train = format!("{} {TRAIN} --epochs 2 --report -", env!("CARGO_BIN_EXE_hemiola"));
    let ended = hemiola(&lab, &format!("run -n 2 --no-prefix -- {train}"));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    assert_eq!(report["cluster"]["peers"], 2);
    let prefixed = hemiola(&lab, &format!("run -n 2 -- {train}"));
    assert!(prefixed.stdout.iter().all(|line| line.starts_with(b"[0] ")), "{}", text(&prefixed.stdout));
}

#[test]
fn skipped_lines_are_reported() {
    let lab = lab();
    fs::write(lab.path().join("some.csv"), "a,b,5\na,c,good\nb,c,1\nb,b\nc,b,3\n").unwrap();
    let told = |arguments: &str| text(&hemiola(&lab, arguments).stderr);
    let common = "--validation 0 --epochs 1 --rank 2 --skip-bad-lines 5";
    for peers in ["", "--peers 2"] {
        let told = told(&format!("train mf --data some.csv {common} {peers}"));
        assert!(told.contains("skipped 2 lines of `some.csv`; the first is `some.csv:2:5`"), "{told}");
        assert_eq!(told.matches("skipped").count(), 1, "{told}");
    }
    assert_eq!(told(&format!("train mf --data some.csv {common} -q")), "");
    fs::write(lab.path().join("none.csv"), "a,b,x\na,c,good\n").unwrap();
    let nothing = told(&format!("train mf --data none.csv {common}"));
    assert!(nothing.contains("skipped 2 lines of `none.csv`; the first is `none.csv:1:5`"), "{nothing}");
}

/// Trains with standard output on a full disk.
fn onto_full_disk(lab: &TempDir, arguments: &str) -> (Option<i32>, String) {
    let mut words = arguments.split_whitespace();
    let mut command = subcommand(words.next().unwrap());
    let command = command.args(words).current_dir(lab.path());
    let child = command.stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = child.wait_with_output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn a_full_disk_is_a_system_failure_with_a_hint() {
    let lab = lab();
    for peers in ["", "--peers 2"] {
        let written = hemiola(&lab, &format!("{TRAIN} --epochs 1 --report /dev/full {peers}"));
        let told = text(&written.stderr);
        assert_eq!(written.code, Some(3), "{told}");
        assert!(told.contains("`/dev/full`") && told.contains("hint: free some space"), "{told}");
    }
    for output in ["--report -", "--output model", "--output model --peers 2"] {
        let (code, told) = onto_full_disk(&lab, &format!("{TRAIN} --epochs 2 {output}"));
        assert_eq!(code, Some(3), "{output}: {told}");
        assert!(told.contains("stdout") || told.contains("standard output"), "{output}: {told}");
    }
    // Progress lines are lost, but the model is saved.
    assert_eq!(hemiola(&lab, "recommend --model model --user person-2 -k 1").code, Some(0));
}

#[test]
fn a_closed_pipe_does_not_stop_training() {
    let lab = lab();
    for peers in ["", "--peers 2"] {
        let train = format!("\"$0\" {TRAIN} --epochs 60 --output model {peers}; echo \"code $?\" >&2");
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", &format!("{{ {train}; }} | head -n 1"), env!("CARGO_BIN_EXE_hemiola")]);
        let Ended { stderr, .. } = launch(shell.current_dir(lab.path())).end();
        assert_eq!(text(&stderr), "code 0", "{peers}");
        let manifest = fs::read(lab.path().join("model/manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["metadata"]["training"]["progress"].as_array().unwrap().len(), 60, "{peers}");
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
}

#[test]
fn a_failed_checkpoint_is_reported_and_retried_at_the_next_interval() {
    let lab = lab();
    // A file prevents the creation of the folder.
    fs::write(lab.path().join(".model.partial"), "in the way").unwrap();
    let ended = hemiola(&lab, &format!("{TRAIN} --epochs 6 --checkpoint-every 2 --output model --quiet"));
    let told = text(&ended.stderr);
    assert!(ended.code.is_some_and(|code| code == 2 || code == 3), "{told}");
    for epoch in [2, 4] {
        assert!(told.contains(&format!("hemiola: failed to save the checkpoint after epoch {epoch}")), "{told}");
    }
    assert_eq!(told.matches("the checkpoint after").count(), 2, "{told}");
}
