//! Regression tests: settings that were ignored, checked late, or blamed on another cause.

use crate::model::text;
use crate::support::{command, hemiola, launch, run, subcommand};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

#[test]
fn a_signal_is_handled_while_peers_are_being_started() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().to_str().unwrap();
    let script = "if [ $HEMIOLA_RANK = 0 ]; then kill -INT $PPID; fi; exec sleep 1000";
    let ended = run(&["-n", "250", "--log-dir", folder], script);
    assert_eq!(ended.code, Some(130), "{}", text(&ended.stderr));
    // Every started peer has a log.
    let started = fs::read_dir(logs.path()).unwrap().count();
    assert!(started < 250, "all peers were started before the signal was handled");
    assert!(text(&ended.stderr).contains("asked all peers to end"), "{}", text(&ended.stderr));
}

#[cfg(not(all(feature = "bench", feature = "sim")))]
#[test]
fn a_command_that_is_not_in_this_build_names_its_feature() {
    let lab = tempfile::tempdir().unwrap();
    let absent: [(&str, &str, bool); 3] = [
        ("bench net --rounds 1", "bench", cfg!(feature = "bench")),
        ("simulate train mf --peers 4", "sim", cfg!(feature = "sim")),
        ("study staleness --help", "sim", cfg!(feature = "sim")),
    ];
    for (arguments, feature, _) in absent.into_iter().filter(|(_, _, present)| !present) {
        let ended = command(lab.path(), arguments);
        let said = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{said}");
        assert!(said.contains(&format!("cargo build --release --features {feature}")), "{said}");
    }
}

#[cfg(feature = "bench")]
#[test]
fn an_unwritable_report_is_refused_before_anything_is_measured() {
    let lab = tempfile::tempdir().unwrap();
    for bench in ["net", "data", "tables", "loops", "collective", "compression", "convergence", "staleness"] {
        let ended = command(lab.path(), &format!("bench {bench} --report no/such/folder.json"));
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains("cannot write the report"), "{bench}: {said}");
        assert!(ended.stdout.is_empty(), "{bench} has measured something");
    }
}

#[test]
fn a_number_of_peers_that_differs_from_the_launcher_is_refused() {
    let train = ["-n", "2", "--", env!("CARGO_BIN_EXE_hemiola"), "train", "svm", "--epochs", "1", "--workers", "1"];
    let ended = launch(hemiola(&train).args(["--peers", "3"])).end();
    let said = text(&ended.stderr);
    assert!(ended.code == Some(2) && said.contains("--peers 3 is given in a job of 2 peers"), "{said}");
    // The same number is accepted.
    assert_eq!(launch(hemiola(&train).args(["--peers", "2"])).end().code, Some(0));
}

#[test]
fn similar_names_are_suggested() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("items.csv"), "1,One\n").unwrap();
    assert_eq!(command(lab.path(), "train mf --epochs 1 -q --output model").code, Some(0));
    for (line, hint) in [
        ("recommend --model modle --user 1", "did you mean `model`?"),
        ("recommend --model model --user 1 --titles item.csv", "did you mean `items.csv`?"),
        ("recommend --model elsewhere --user 1", "hemiola train MODEL --output DIR"),
    ] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains(hint), "{line}: {said}");
    }
}

#[test]
fn file_names_need_not_be_utf_8() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("data");
    fs::create_dir(&folder).unwrap();
    let name = OsStr::from_bytes(b"caf\xe9.csv");
    fs::write(folder.join(name), "1,2,0\n-1,0,3\n1,4,0\n-1,0,5\n").unwrap();
    for flags in ["", "--peers 2 --workers 1"] {
        let ended = command(lab.path(), &format!("train svm --validation 0 --epochs 2 -q --data data {flags}"));
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    }
    // An argument is a pattern, which must be UTF-8.
    let ended = launch(subcommand("train").args(["svm", "--data"]).arg(name).current_dir(&folder)).end();
    let said = text(&ended.stderr);
    assert!(ended.code == Some(2) && said.contains("is not UTF-8; name its folder"), "{said}");
}

#[test]
fn too_many_workers_are_refused_with_the_flag() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("a.csv"), "1,2,3\n").unwrap();
    for line in ["data describe a.csv -w 100000", "data make logistic --output x.libsvm -w 100000"] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains("100000") && said.contains("--workers"), "{line}: {said}");
        assert!(!said.contains("HEMIOLA_WORKERS"), "{line}: {said}");
    }
}

#[test]
fn every_error_starts_with_the_name_of_the_command() {
    let lab = tempfile::tempdir().unwrap();
    for line in ["train svm --no-such-flag", "topology --peers 0", "train mf --rank many", "nonsense --help-me"] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.starts_with("hemiola: "), "{line}: {said}");
    }
    assert_eq!(command(lab.path(), "train --help").code, Some(0));
}

#[test]
fn a_program_needs_no_separator_before_it() {
    let lines = |arguments: &[&str]| {
        let ended = launch(&mut hemiola(arguments)).end();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", text(&ended.stderr));
        ended.sorted()
    };
    let script = "echo $HEMIOLA_RANK of $HEMIOLA_SIZE \"$@\"";
    assert_eq!(lines(&["--peers", "2", "sh", "-c", script]), ["[0] 0 of 2", "[1] 1 of 2"]);
    // What follows the program is the program's, also if it looks like a flag of the launcher.
    let program = ["sh", "-c", script, "sh", "--peers", "7", "--", "-q"];
    let expected = ["[0] 0 of 1 --peers 7 -- -q"];
    assert_eq!(lines(&[&["-n", "1"], &program[..]].concat()), expected);
    assert_eq!(lines(&[&["-n", "1", "--"], &program[..]].concat()), expected);
    // A flag that the launcher does not have is not taken for the program.
    let said = text(&launch(&mut hemiola(&["--pears", "2", "true"])).end().stderr);
    assert!(said.contains("unexpected argument '--pears'") && said.contains("did you mean `--peers`?"), "{said}");
}

#[test]
fn an_error_of_all_peers_is_printed_once() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("broken.csv"), "a,b,5\na,c,good\n").unwrap();
    let ended = command(lab.path(), "train mf --data broken.csv --peers 4 --workers 1");
    let said = text(&ended.stderr);
    assert_eq!(ended.code, Some(2), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with('[') && lines[0].contains("hemiola: `broken.csv:2:5`: expected a number"), "{said}");
    assert!(lines[1].contains("hint: correct the line"), "{said}");
    assert_eq!(lines[2], "hemiola: the same error on all 4 peers (exit code 2)");
}
