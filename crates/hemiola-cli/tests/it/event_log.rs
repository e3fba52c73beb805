//! The event log of `hemiola train` and `search`, the record of a run in reports, and interruptions
//! while reading and within an epoch.

use crate::model::{hemiola, lab, text};
use crate::support::{launch, subcommand};
use crate::training::started;
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use tempfile::TempDir;

/// Returns the events of a log, each of which is a whole line.
fn events(lab: &TempDir, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.path().join(file)).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).inspect(|event| assert!(event["time"].as_f64().unwrap() > 1e9, "{event}")).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn the_log_of_a_training_has_its_events_in_order() {
    for peers in ["--workers 2", "--peers 2"] {
        let lab = lab();
        let line = format!(
            "train mf --data ratings.csv --rank 4 --epochs 3 --patience 0 --checkpoint-every 2 {peers} --output model --log events.jsonl -q"
        );
        let ended = hemiola(&lab, &line);
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        let found = events(&lab, "events.jsonl");
        let expected = ["start", "loading", "loaded", "epoch", "epoch", "checkpoint", "epoch", "checkpoint", "end"];
        assert_eq!(kinds(&found), expected);
        let (start, epoch, end) = (&found[0], &found[4], &found[8]);
        assert!(start["command"].as_str().unwrap().contains("train mf --data ratings.csv"), "{start}");
        assert_eq!((&start["version"], &start["model"]), (&env!("CARGO_PKG_VERSION").into(), &"mf".into()));
        assert_eq!((&start["settings"]["rank"], &start["files"][0]["path"]), (&4.into(), &"ratings.csv".into()));
        assert_eq!(start["environment"]["peers"], if peers == "--peers 2" { 2 } else { 1 });
        assert!(found[2]["summary"].as_str().unwrap().contains("ratings of 40 users"), "{}", found[2]);
        assert_eq!((&epoch["epoch"], &found[5]["epoch"]), (&2.into(), &2.into()));
        assert!(epoch["validation"]["rmse"].as_f64().is_some() && epoch["seconds"].as_f64().is_some(), "{epoch}");
        assert_eq!((&end["exit_code"], &end["result"]["stop_reason"]), (&0.into(), &"all epochs done".into()));
        // A resumed run continues the log.
        let line = line.replace("--epochs 3", "--epochs 4") + " --resume";
        assert_eq!(hemiola(&lab, &line).code, Some(0));
        let found = events(&lab, "events.jsonl");
        assert_eq!(kinds(&found)[..9], expected);
        assert_eq!(kinds(&found)[9..], ["start", "loading", "loaded", "note", "epoch", "checkpoint", "end"]);
    }
}

#[test]
fn folds_and_searches_log_each_fold_and_trial() {
    let lab = lab();
    let line = "--data ratings.csv --rank 4 --epochs 2 --patience 0 --log events.jsonl --report report.json -q";
    assert_eq!(hemiola(&lab, &format!("train mf {line} --folds 2")).code, Some(0));
    let found = events(&lab, "events.jsonl");
    let fold = ["epoch", "epoch", "fold"];
    assert_eq!(kinds(&found), [&["start", "loading", "loaded"][..], &fold, &fold, &["end"]].concat());
    assert_eq!((&found[3]["fold"], &found[8]["fold"]), (&1.into(), &2.into()));
    assert!(found[9]["result"]["mean"]["rmse"].as_f64().is_some(), "{}", found[9]);
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["files"][0]["path"], "ratings.csv");

    let line = format!("search mf {line} --search grid --space l2=0.01|0.1 --trials 2");
    let ended = hemiola(&lab, &line);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let found = events(&lab, "events.jsonl");
    let trials: Vec<&Value> = found.iter().filter(|event| event["event"] == "trial").collect();
    assert_eq!(trials.iter().map(|trial| trial["trial"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(trials[0]["settings"]["l2"].as_f64().is_some(), "{}", trials[0]);
    assert!(found.iter().any(|event| event["event"] == "epoch" && event["trial"] == 2));
    assert!(found.last().unwrap()["result"]["best"]["settings"]["l2"].as_f64().is_some());
}

#[test]
fn a_killed_run_leaves_whole_lines() {
    let lab = lab();
    let launched = started(
        &lab,
        "train mf --data ratings.csv --rank 4 --patience 0 --epochs 1000000 --workers 1 --log events.jsonl",
    );
    launched.signal(Signal::KILL);
    assert_eq!(launched.end().code, None);
    let found = events(&lab, "events.jsonl");
    assert_eq!(kinds(&found)[..5], ["start", "loading", "loaded", "epoch", "epoch"]);
    assert!(!kinds(&found).contains(&"end"));
}

#[test]
fn errors_of_the_log_are_told() {
    let lab = lab();
    for (line, code, says) in [
        ("--log no/events.jsonl", 2, "no/events.jsonl"),
        ("--log -", 2, "cannot be written to standard output"),
        ("--log /dev/full", 3, "cannot write the event log to `/dev/full`"),
        ("--columns nobody,film --log events.jsonl", 2, "nobody"),
    ] {
        let ended = hemiola(&lab, &format!("train mf --data ratings.csv --rank 4 --epochs 2 -q {line}"));
        assert_eq!(ended.code, Some(code), "{line}: {}", text(&ended.stderr));
        assert!(text(&ended.stderr).contains(says), "{line}: {}", text(&ended.stderr));
    }
    // A failed run says why.
    let found = events(&lab, "events.jsonl");
    assert_eq!(kinds(&found), ["start", "loading", "end"]);
    assert!(found[2]["error"].as_str().unwrap().contains("nobody"), "{}", found[2]);
}

#[test]
fn a_report_has_the_record_of_its_run() {
    let lab = lab();
    for (file, run) in [("one.json", "--workers 1"), ("two.json", "--peers 2 --workers 1")] {
        let line = format!("train mf --data ratings.csv --rank 4 --epochs 2 -q --report {file} {run}");
        assert_eq!(hemiola(&lab, &line).code, Some(0));
    }
    let read = |file: &str| -> Value { serde_json::from_slice(&fs::read(lab.path().join(file)).unwrap()).unwrap() };
    let (one, two) = (read("one.json"), read("two.json"));
    assert!(one["command"].as_str().unwrap().ends_with("--report one.json --workers 1"), "{}", one["command"]);
    assert_eq!(one["version"], env!("CARGO_PKG_VERSION"));
    let bytes = fs::read(lab.path().join("ratings.csv")).unwrap();
    assert_eq!(one["files"][0]["bytes"], bytes.len());
    let sum = std::process::Command::new("sha256sum").arg(lab.path().join("ratings.csv")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!(one["files"][0]["sha256"], sum.split_whitespace().next().unwrap());
    let environment = &one["environment"];
    for fact in ["host", "system", "architecture"] {
        assert!(!environment[fact].as_str().unwrap().is_empty(), "{fact}: {environment}");
    }
    assert!(environment["cores"].as_u64().unwrap() > 0 && environment["system"].as_str().unwrap().contains("Linux"));
    assert_eq!((&environment["peers"], &two["environment"]["peers"]), (&1.into(), &2.into()));
    let total = one["total_seconds"].as_f64().unwrap();
    assert!(total >= one["result"]["seconds"].as_f64().unwrap() - 1e-3 && one["started"].as_f64().unwrap() > 1e9);
    let bytes = |name: &str| two["result"][name].as_u64().unwrap();
    assert!(bytes("loading_bytes") > 0 && bytes("training_bytes") > 0);
    assert_eq!(bytes("bytes_sent"), bytes("loading_bytes") + bytes("training_bytes"));
    assert_eq!(one["settings"]["rank"], 4);
    // What is read is still what `hemiola plot` draws.
    assert_eq!(hemiola(&lab, "plot one.json two.json --text").code, Some(0));
}

/// Writes ratings whose epoch with a high rank takes far longer than a test.
fn endless(lab: &TempDir) {
    let mut many = String::new();
    (0..400_000).for_each(|n| writeln!(many, "{},{},{}", n % 2000, n / 2000, 1 + n % 5).unwrap());
    fs::write(lab.path().join("many.csv"), many).unwrap();
}

#[test]
fn a_signal_is_honoured_within_the_first_epoch() {
    let lab = lab();
    endless(&lab);
    let line = "train mf --data many.csv --rank 4096 --workers 1 --output model --log events.jsonl --epochs 2";
    let mut words = line.split_whitespace();
    let launched = launch(subcommand(words.next().unwrap()).args(words).current_dir(lab.path()));
    assert!(launched.line().contains("ratings of 2000 users"));
    launched.signal(Signal::TERM);
    let ended = launched.end();
    assert_eq!(ended.code, Some(143), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("interrupted within the first epoch"), "{}", text(&ended.stderr));
    let found = events(&lab, "events.jsonl");
    // No epoch has ended.
    assert_eq!(kinds(&found), ["start", "loading", "loaded", "interrupt", "end"]);
    assert_eq!((&found[3]["signal"], &found[4]["exit_code"]), (&15.into(), &143.into()));
    assert!(!lab.path().join("model/manifest.json").exists());
}

#[test]
fn a_time_limit_is_honoured_within_the_first_epoch() {
    let lab = lab();
    endless(&lab);
    let line = "train mf --data many.csv --rank 4096 --workers 1 --seconds 0.01 --epochs 2 -q";
    let ended = hemiola(&lab, line);
    assert_eq!(ended.code, Some(2), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("the time limit was reached within the first epoch"));
}

#[test]
fn a_signal_is_honoured_while_data_are_read() {
    let lab = lab();
    let pipe = lab.path().join("endless.csv");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let line = "train mf --data endless.csv --log events.jsonl";
    let mut words = line.split_whitespace();
    let launched = launch(subcommand(words.next().unwrap()).args(words).current_dir(lab.path()));
    // The reader has begun and waits for the rest, which never comes.
    let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(b"user,item,rating\nanna,film,4\n").unwrap();
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(ended.code, None, "the signal ends the process: {}", text(&ended.stderr));
    drop(writer);
    let found = events(&lab, "events.jsonl");
    assert_eq!(kinds(&found), ["start", "loading", "interrupt"]);
    assert_eq!(found[2]["ends_at_once"], true);
    assert!(!Path::new(&lab.path().join("model")).exists());
}
