//! Training with invalid and unusual data. Invalid input is refused with a reason and a hint, exits
//! with 2 (or 3 if the system failed) and leaves nothing; unusual data are learned correctly.

use crate::model::{hemiola, lab, text};
use crate::support::launch;
use hemiola_testkit::require;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

fn names(lab: &TempDir) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(lab.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(lab: &TempDir, name: &str, contents: &[u8]) {
    fs::write(lab.path().join(name), contents).unwrap();
}

#[test]
fn bad_data_are_reported_with_file_and_line_and_leave_nothing() {
    let lab = lab();
    write(&lab, "word.csv", b"a,b,5\na,c,good\n");
    write(&lab, "nan.csv", b"a,b,5\na,c,NaN\n");
    write(&lab, "inf.csv", b"a,b,-inf\n");
    write(&lab, "short.csv", b"a,b,5\nb\n");
    write(&lab, "twice.csv", b"a,b,5\nc,d,1\na,b,3\n");
    write(&lab, "empty.csv", b"");
    write(&lab, "heading.csv", b"user,item,rating\n");
    write(&lab, "binary.csv", &[0_u8, 159, 146, 150, 1, 2].repeat(100));
    write(&lab, "prose.txt", b"one\nnow two\nand then three\nand so it is four\n");
    write(&lab, "ratings.npy", b"\x93NUMPY\x01\x00v\x00");
    write(&lab, "cut.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b]);
    fs::create_dir(lab.path().join("folder")).unwrap();
    let before = names(&lab);
    let mend = "hint: correct the line, or skip up to N invalid lines with `--skip-bad-lines N`";
    let lines = "hint: a line is a user, an item and a rating; set the separator with `--separator TEXT`";
    let cases = [
        ("word.csv", "`word.csv:2:5`: expected a number, found `good`", mend),
        ("nan.csv", "`nan.csv:2:5`: expected a finite number, found `NaN`", mend),
        ("inf.csv", "`inf.csv:1:5`: expected a finite number, found `-inf`", mend),
        ("short.csv", "`short.csv:2:2`: expected field 2 after `,`", mend),
        ("twice.csv", "`twice.csv:1` and `twice.csv:3` have the same user and item", "hint: keep one of them"),
        ("empty.csv", "`empty.csv` is empty", "expected at least one line"),
        ("heading.csv", "`heading.csv:1:11`: expected a number, found `rating`", mend),
        ("binary.csv", "`binary.csv`: it is neither text nor a numpy, Parquet or Arrow file", lines),
        ("prose.txt", "`prose.txt`: its lines have no common structure", lines),
        ("ratings.npy", "`ratings.npy`: it is in the format npy, and lines of text are expected", lines),
        ("cut.csv.gz", "`cut.csv.gz` is not a complete gzip file", "fetch or compress it again"),
        ("folder", "`folder` matches no file", "check the path"),
        ("missing.csv", "cannot open `missing.csv`: no such file", "hint: "),
    ];
    for (file, problem, way_out) in cases {
        for flag in ["--data", "--data ratings.csv --validation"] {
            let ended = hemiola(&lab, &format!("train mf {flag} {file} --output model --report run.json"));
            let told = text(&ended.stderr);
            assert_eq!(ended.code, Some(2), "{flag} {file}: {told}");
            assert!(told.contains(problem) && told.contains(way_out), "{flag} {file}: {told}");
            assert_eq!(told.matches(problem).count(), 1, "printed once: {told}");
            assert!(ended.stdout.is_empty(), "nothing else is printed: {}", text(&ended.stdout));
            assert_eq!(names(&lab), before, "{flag} {file}");
        }
    }
    let ended = hemiola(&lab, "train mf --data word.csv --peers 2 --output model");
    assert_eq!(ended.code, Some(2), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("`word.csv:2:5`"), "{}", text(&ended.stderr));
    assert_eq!(names(&lab), before);
}

#[test]
fn unwritable_paths_are_reported_before_data_are_read() {
    let lab = lab();
    fs::create_dir_all(lab.path().join("folder/of/others")).unwrap();
    write(&lab, "file", b"");
    hemiola(&lab, "data make mf --ratings 50 --users 10 --items 10 --output made.csv");
    let before = names(&lab);
    // The data do not exist, so an error about results must come before they are read.
    for (arguments, expected) in [
        ("--output folder", "`folder` exists and is not a saved model"),
        ("--output file", "`file` exists and is not a saved model"),
        ("--output no/such/place", "cannot write to `no/such`"),
        ("--output /proc/model", "cannot write to `/proc`"),
        ("--report folder", "cannot write the report to `folder`: it is a folder"),
        ("--report no/such/run.json", "cannot write the report to `no/such/run.json`"),
        ("--report /proc/run.json", "cannot write the report to `/proc/run.json`"),
    ] {
        for peers in ["", "--peers 2"] {
            let ended = hemiola(&lab, &format!("train mf --data missing.csv {arguments} {peers}"));
            let told = text(&ended.stderr);
            assert_eq!(ended.code, Some(2), "{arguments}: {told}");
            assert!(told.contains(expected) && !told.contains("missing.csv"), "{arguments}: {told}");
            assert_eq!(names(&lab), before);
        }
    }
}

#[test]
fn a_disk_that_is_too_small_is_reported_before_training() {
    let lab = lab();
    fs::create_dir(lab.path().join("disk")).unwrap();
    // A private disk of a few pages that ends with the shell; the script then lists its contents.
    let script = r#"mount -t tmpfs -o size=96k none disk 2>/dev/null || { echo "no mount"; exit 0; }
        "$0" train mf --data ratings.csv --epochs 2 --output disk/model $1; code=$?; echo "left: $(ls -A disk)"; exit $code"#;
    let on_small_disk = |options: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_hemiola"), options]);
        launch(command.current_dir(lab.path())).end()
    };
    require!(hemiola_testkit::program("mount", "unshare", &["--map-root-user", "--mount", "true"]));
    let can_mount = !on_small_disk("").sorted().contains(&"no mount".into());
    require!(hemiola_testkit::condition("mount", can_mount, "this user may not mount a small disk"));
    for peers in ["", "--peers 2"] {
        let ended = on_small_disk(&format!("--rank 512 {peers}"));
        let (told, lines) = (text(&ended.stderr), text(&ended.stdout));
        assert_eq!(ended.code, Some(3), "{told}");
        assert!(told.contains("`disk/model` needs ") && told.contains("on its disk, which has "), "{told}");
        assert!(!lines.contains("epoch") && lines.ends_with("left: "), "{lines}");
    }
    let ended = on_small_disk("--rank 2");
    assert_eq!(ended.code, Some(0), "what fits is saved: {}", text(&ended.stderr));
    assert!(text(&ended.stdout).ends_with("left: model"), "{}", text(&ended.stdout));
}

fn report(lab: &TempDir, arguments: &str) -> Value {
    let ended = hemiola(lab, &format!("train mf --report - {arguments}"));
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    serde_json::from_str(&text(&ended.stdout)).unwrap()
}

#[test]
fn unusual_data_are_learned() {
    let lab = lab();
    write(&lab, "one.csv", b"a,b,4\n");
    write(&lab, "one-user.csv", b"a,b,4\na,c,2\na,d,5\na,e,1\na,f,3\n");
    write(&lab, "constant.csv", b"a,b,3\na,c,3\nb,b,3\nb,c,3\nc,b,3\n");
    write(&lab, "train.csv", b"a,b,4\na,c,2\nb,b,5\nb,z,1\nc,c,1\n");
    let is_near = |lab: &TempDir, data: &str, pair: &str, rating: f64| {
        let trained = hemiola(lab, &format!("train mf --data {data} --validation 0 --epochs 200 --l2 0 --output m -q"));
        assert_eq!(trained.code, Some(0), "{data}: {}", text(&trained.stderr));
        let told = text(&hemiola(lab, &format!("predict --model m {pair} --report -")).stdout);
        let predicted: Value = serde_json::from_str(&told).unwrap();
        let predicted = predicted[0]["score"].as_f64().unwrap();
        assert!((predicted - rating).abs() < 0.2, "{data}: {predicted}");
    };
    is_near(&lab, "one.csv", "--user a --item b", 4.0);
    is_near(&lab, "one-user.csv --rank 3", "--user a --item d", 5.0);
    is_near(&lab, "constant.csv", "--user c --item c", 3.0);
    is_near(&lab, "constant.csv --rank 300", "--user c --item c", 3.0);
    is_near(&lab, "constant.csv --learning-rate 10", "--user c --item c", 3.0);
    is_near(&lab, "train.csv --peers 3 --workers 2", "--user b --item z", 1.0);
    // A fraction of one rating is none, so there is no validation metric, and the last model is
    // saved.
    let one = report(&lab, "--data one.csv --validation 0.1 --target 0.5 --epochs 3");
    assert_eq!((&one["data"]["validation"], &one["result"]["validation"]), (&0.into(), &Value::Null));
}

#[test]
fn items_without_training_ratings_are_allowed() {
    let lab = lab();
    // Most ratings are for validation, so that some users and items have no training ratings.
    let few = report(&lab, "--data ratings.csv --validation 0.98 --epochs 3");
    assert!(few["data"]["train"].as_u64().unwrap() < 40, "{few}");
    assert!(few["result"]["validation"]["rmse"].as_f64().unwrap() < 3.0, "{few}");
    write(&lab, "train.csv", b"a,b,4\na,c,2\nb,b,5\nb,c,1\nc,c,1\n");
    write(&lab, "validation.csv", b"a,b,4\nx,b,1\na,nothing,2\n");
    write(&lab, "unknown.csv", b"x,y,1\n");
    let known = report(&lab, "--data train.csv --validation validation.csv --epochs 3");
    assert_eq!(known["data"]["validation"], 1, "ratings of unknown users are ignored");
    let ended = hemiola(&lab, "train mf --data train.csv --validation unknown.csv --output model");
    assert_eq!(ended.code, Some(2));
    assert!(text(&ended.stderr).contains("no rating of `unknown.csv` has a user and an item"), "{ended:?}");
    assert!(!lab.path().join("model").exists());
}

#[test]
fn divergence_is_detected_and_reported() {
    let lab = lab();
    let ended = hemiola(&lab, "train mf --data ratings.csv --learning-rate 10 --epochs 20 --rank 8 --report run.json");
    let told = text(&ended.stdout);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    assert!(told.contains("(the epoch diverged and was repeated with half the learning rate"), "{told}");
    let run: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert!(run["progress"][0]["note"].as_str().unwrap().contains("half the learning rate"), "{run}");
    // The standard deviation of these ratings is 2.
    assert!(run["result"]["validation"]["rmse"].as_f64().unwrap() < 1.5, "{run}");
    write(&lab, "vast.csv", b"a,b,1e38\na,c,-1e38\nb,b,3\n");
    let ended = hemiola(&lab, "train mf --data vast.csv --output model");
    assert_eq!(ended.code, Some(2));
    assert!(text(&ended.stderr).contains("look for outliers"), "{ended:?}");
    assert!(!lab.path().join("model").exists());
}

#[test]
fn the_report_has_the_documented_fields() {
    let lab = lab();
    for (arguments, validation) in
        [("--validation 0.1", true), ("--validation 0", false), ("--validation 0.1 --peers 2", true)]
    {
        hemiola(
            &lab,
            &format!("train mf --data ratings.csv --epochs 3 --seed 7 --report r.json --output m {arguments}"),
        );
        let report: Value = serde_json::from_slice(&fs::read(lab.path().join("r.json")).unwrap()).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let of_run = ["command", "environment", "files", "started", "total_seconds", "version"];
        let of_report = keys(&report).into_iter().filter(|key| !of_run.contains(&key.as_str())).collect::<Vec<_>>();
        assert_eq!(of_report, ["cluster", "data", "model", "plan", "progress", "result", "seed", "settings"]);
        assert_eq!(keys(&report).len(), of_report.len() + of_run.len());
        assert_eq!((&report["settings"]["rank"], &report["settings"]["seed"]), (&32.into(), &7.into()));
        assert_eq!((report["model"].as_str(), report["seed"].as_u64()), (Some("mf"), Some(7)));
        assert_eq!(keys(&report["cluster"]), ["peers", "workers"]);
        assert_eq!(keys(&report["data"]), ["shape", "train", "validation"]);
        assert_eq!(report["data"]["shape"], serde_json::json!([40, 30]));
        assert_eq!(report["data"]["train"].as_u64().unwrap() + report["data"]["validation"].as_u64().unwrap(), 900);
        let metrics = |value: &Value, names: &[&str]| {
            assert_eq!(keys(value), names);
            assert!(value.as_object().unwrap().values().all(|metric| metric.as_f64().unwrap() > 0.0), "{value}");
        };
        let progress = report["progress"].as_array().unwrap();
        assert_eq!(progress.len(), 3);
        for (number, epoch) in (1..).zip(progress) {
            let mut expected = vec!["bytes_sent", "epoch", "objective", "seconds", "train", "updates"];
            if validation {
                expected.push("validation");
                metrics(&epoch["validation"], &["mae", "rmse"]);
            }
            assert_eq!(keys(epoch), expected);
            metrics(&epoch["train"], &["rmse"]);
            assert_eq!(epoch["epoch"], number);
            assert_eq!(epoch["updates"].as_u64().unwrap(), number * report["data"]["train"].as_u64().unwrap());
            assert!(epoch["seconds"].as_f64().unwrap() > 0.0 && epoch["objective"].as_f64().unwrap() > 0.0);
        }
        let result = &report["result"];
        let mut expected = vec![
            "best_epoch",
            "bytes_sent",
            "evaluation_seconds",
            "loading_bytes",
            "loading_seconds",
            "objective",
            "peak_rss_bytes",
            "saving_seconds",
            "seconds",
            "stop_reason",
            "training_bytes",
            "updates_per_second",
        ];
        if validation {
            expected.push("validation");
        }
        assert_eq!(keys(result), expected);
        assert_eq!(result["stop_reason"], "all epochs done");
        assert_eq!(result["seconds"], progress[2]["seconds"]);
        assert!(result["loading_seconds"].as_f64().unwrap() > 0.0 && result["saving_seconds"].as_f64().unwrap() > 0.0);
        assert!(report["plan"]["parallelization"].is_object());
        let [loading, first] =
            [&result["loading_bytes"], &progress[0]["bytes_sent"]].map(|bytes| bytes.as_u64().unwrap());
        let alone = report["cluster"]["peers"] == 1;
        assert!(
            loading <= first && (loading == 0) == alone,
            "{loading} bytes before the first epoch, {first} after it"
        );
    }
}
