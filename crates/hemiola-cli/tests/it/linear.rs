//! `hemiola train svm` and `logistic`, and use of their models.

use crate::model::{hemiola, text};
use crate::training::arrays;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Creates a folder with LIBSVM examples of three classes: class 3 has feature 1, class 8 feature
/// 2, class -1 neither.
fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for row in 0..240 {
        let noise = f64::from(row * 37 % 100) / 100.0;
        let _ = match row % 3 {
            0 => writeln!(text, "3 1:{} 4:{noise}", 1.0 + noise),
            1 => writeln!(text, "8 2:{} 4:{noise}", 1.0 + noise),
            _ => writeln!(text, "-1 3:1 4:{noise}"),
        };
    }
    fs::write(lab.path().join("three.libsvm"), &text).unwrap();
    let two: Vec<&str> = text.lines().filter(|line| !line.starts_with('8')).collect();
    fs::write(lab.path().join("two.libsvm"), two.join("\n") + "\n").unwrap();
    lab
}

fn report(lab: &TempDir, name: &str) -> Value {
    serde_json::from_slice(&fs::read(lab.path().join(name)).unwrap()).unwrap()
}

#[test]
fn labels_are_predicted() {
    let lab = lab();
    for (model, data) in [("svm", "three"), ("logistic", "three"), ("svm --loss hinge", "two"), ("logistic", "two")] {
        let trained = hemiola(
            &lab,
            &format!(
                "train {model} --data {data}.libsvm -c 10 --tolerance 0.05 --validation 0.1 --output model --report run.json --workers 2"
            ),
        );
        assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
        let run = report(&lab, "run.json");
        assert_eq!(run["model"].as_str(), model.split(' ').next());
        assert_eq!(run["result"]["stop_reason"], "converged", "{run}");
        assert_eq!(run["result"]["validation"]["accuracy"], 1.0, "{run}");
        assert_eq!(run["result"]["validation"]["auc"].is_null(), data == "three");
        let told = text(&hemiola(&lab, &format!("predict --model model --data {data}.libsvm")).stdout);
        let labels: Vec<&str> = told.lines().collect();
        let expected: &[&str] = if data == "three" { &["3", "8", "-1"] } else { &["3", "-1"] };
        assert!(labels.iter().zip(expected.iter().cycle()).all(|(label, expected)| label == expected), "{told}");
        assert_eq!(labels.len(), if data == "three" { 240 } else { 160 });
        let evaluated = hemiola(&lab, &format!("evaluate --model model --data {data}.libsvm --report -"));
        let evaluated: Value = serde_json::from_str(&text(&evaluated.stdout)).unwrap();
        assert_eq!(evaluated["metrics"]["accuracy"], 1.0);
        assert_eq!(evaluated["metrics"]["logloss"].is_null(), model.starts_with("svm"));
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
}

#[test]
fn synthetic_examples_train_with_an_explanation() {
    let lab = lab();
    for model in ["svm", "logistic"] {
        let told = hemiola(
            &lab,
            &format!("train {model} --epochs 2 --validation 0.1 --peers 3 --graph ring --explain --workers 1"),
        );
        assert_eq!(told.code, Some(0), "{}", text(&told.stderr));
        let told = text(&told.stdout);
        assert!(
            told.contains("20000 examples") && told.contains("3 peers are averaged over a communication graph"),
            "{told}"
        );
        assert!(told.contains("NOTIFY-ACK") && told.contains("validation"), "{told}");
    }
}

#[test]
fn four_processes_are_bit_identical_to_four_peers_in_one() {
    use hemiola_models::linear::{LinearLoss, data};
    use hemiola_models::prelude::*;
    use hemiola_models::training::TrainingLimits;
    let lab = lab();
    let arguments = "train svm --data three.libsvm --graph root-expander --epochs 3 --tolerance 0 --workers 1";
    let ended = hemiola(&lab, &format!("{arguments} --peers 4 --output processes"));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let limits = TrainingLimits { epochs: 3, patience: None, ..TrainingLimits::default() };
    let settings = LinearClassifier::builder(LinearLoss::SquaredHinge)
        .graph(hemiola::collective::Topology::RootExpander)
        .tolerance(0.0)
        .validation(0.0)
        .limits(limits)
        .build()
        .unwrap();
    let (file, folder) = (lab.path().join("three.libsvm"), lab.path().join("standalone"));
    hemiola_cluster::standalone(4)
        .workers(1)
        .run(|cluster| {
            let examples = data::read(cluster, &data::LinearReadOptions::default(), file.to_str().unwrap())?.labelled;
            let session = FitOptions::new().with_checkpoints(Checkpoints::new(&folder));
            settings.fit_with(cluster, &examples, None, session)?;
            Ok(())
        })
        .unwrap();
    assert!(arrays(&lab.path().join("processes")) == arrays(&folder));
    let other = hemiola(&lab, &format!("{arguments} --peers 2 --output other"));
    assert_eq!(other.code, Some(0), "{}", text(&other.stderr));
    assert!(arrays(&lab.path().join("other")) != arrays(&folder), "the division does matter");
}

#[test]
fn a_resumed_run_is_bit_identical_and_refuses_other_settings() {
    let lab = lab();
    let train = |rest: &str| {
        let arguments = "train logistic --data three.libsvm --workers 1 --tolerance 0";
        hemiola(&lab, &format!("{arguments} {rest}"))
    };
    assert_eq!(train("--epochs 6 --output whole").code, Some(0));
    assert_eq!(train("--epochs 2 --output parts").code, Some(0));
    let resumed = train("--epochs 6 --output parts --resume");
    assert!(text(&resumed.stdout).contains("resuming after epoch 2"), "{}", text(&resumed.stderr));
    assert!(arrays(&lab.path().join("whole")) == arrays(&lab.path().join("parts")));
    let again = train("--epochs 6 --output parts --resume");
    assert!(text(&again.stdout).contains("nothing left to do after epoch 6"));
    for (flags, problem) in [("-c 2", "c was 1 and is 2"), ("--graph ring", "graph was"), ("--bias 0", "bias was 1")] {
        let refused = train(&format!("--epochs 9 --output parts --resume {flags}"));
        assert_eq!(refused.code, Some(2));
        assert!(text(&refused.stderr).contains(problem), "{flags}: {}", text(&refused.stderr));
    }
    let taken = hemiola(&lab, "train svm --data three.libsvm --output parts");
    assert!(text(&taken.stderr).contains("holds a model `logistic`"), "{}", text(&taken.stderr));
}

#[test]
fn errors_have_a_hint_and_leave_nothing() {
    let lab = lab();
    for (name, contents) in [
        ("one.libsvm", "1 1:1\n1 2:1\n1 3:1\n"),
        ("word.libsvm", "+1 1:1\nspam 2:1\n-1 1:1\n"),
        ("zero.libsvm", "+1 0:1\n-1 2:1\n"),
        ("nan.libsvm", "+1 1:nan\n-1 2:1\n"),
        ("empty.libsvm", ""),
        ("short.csv", "1,2,3\n-1,0,x\n1,4,5\n-1,0,1\n"),
    ] {
        fs::write(lab.path().join(name), contents).unwrap();
    }
    for (arguments, problem) in [
        ("--data one.libsvm", "a classifier needs at least two classes"),
        ("--data word.libsvm", "`word.libsvm:2:1`: expected a label"),
        ("--data zero.libsvm", "--zero-based"),
        ("--data nan.libsvm", "`nan.libsvm:1:"),
        ("--data empty.libsvm", "`empty.libsvm` is empty"),
        ("--data short.csv", "`short.csv:2:6`: expected a number, found `x`"),
        ("--data missing.libsvm", "cannot open `missing.libsvm`"),
        ("--data two.libsvm --graph tree", "expected complete, ring"),
        ("--data two.libsvm -c 0", "`c` is `0`, which must be"),
        ("--data two.libsvm --peers 3 --workers 1 --graph halton:7", "a degree of 7 is not between"),
        ("--data two.libsvm --sync never", "notify-ack"),
        ("--data two.libsvm --graph edges:one.libsvm", "line 1 of `one.libsvm`"),
        ("--data two.libsvm --peers 3 --workers 1 --graph edges:0-1,1-0", "values of peer 0 never reach peer 2"),
        ("--data two.libsvm --peers 3 --workers 1 --graph edges:0-1,1-2,2-0,0-2", "peer 0 sends to 2 peers"),
    ] {
        let ended = hemiola(&lab, &format!("train svm {arguments} --validation 0 --output model"));
        let told = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{arguments}: {told}");
        assert!(told.contains(problem), "{arguments}: {told}");
        assert!(!lab.path().join("model").exists(), "{arguments}");
    }
}

#[test]
fn unknown_features_are_ignored_and_counted() {
    let lab = lab();
    assert_eq!(hemiola(&lab, "train svm --data two.libsvm --output model -q").code, Some(0));
    fs::write(lab.path().join("wide.libsvm"), "3 1:1.5 900:4\n-1 3:1\n").unwrap();
    let told = hemiola(&lab, "evaluate --model model --data wide.libsvm");
    assert!(
        text(&told.stdout).contains("; ignored: 1 value of features the model has no weights for"),
        "{}",
        text(&told.stdout)
    );
    let told = hemiola(&lab, "predict --model model --data wide.libsvm");
    assert_eq!(text(&told.stdout), "3\n-1");
    assert!(
        text(&told.stderr).contains("ignored 1 value of features that the model does not know"),
        "{}",
        text(&told.stderr)
    );
    for (arguments, problem) in [
        ("predict --model model", "no examples are given"),
        ("predict --model model --user 3 --item 4", "no examples are given"),
        ("evaluate --model model --data two.libsvm --ranking", "ranking metrics need a model"),
        (
            "recommend --model model --user 3",
            "`model` is a classifier, and a recommendation needs a matrix factorization",
        ),
    ] {
        let ended = hemiola(&lab, arguments);
        assert_eq!(ended.code, Some(2), "{arguments}");
        assert!(text(&ended.stderr).contains(problem), "{arguments}: {}", text(&ended.stderr));
    }
}

#[test]
fn every_synchronization_converges() {
    let lab = lab();
    for sync in ["notify-ack", "barrier", "async"] {
        let arguments =
            format!("train svm --data three.libsvm --peers 3 --workers 1 --sync {sync} --report run.json -q");
        let ended = hemiola(&lab, &arguments);
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        let run = report(&lab, "run.json");
        assert_eq!(run["result"]["stop_reason"], "converged", "{sync}");
        let share = run["progress"][0]["train"]["consistent"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share) && (sync != "notify-ack" || share > 0.999), "{sync}: {share}");
    }
}

#[test]
fn labels_can_be_names() {
    let lab = lab();
    // Three classes with one characteristic feature each, a header, and a quoted name with a comma.
    let lines = |rows: std::ops::Range<usize>| {
        let line = |row: usize| match row % 3 {
            0 => format!("\"iris, wild\",{},0,0.5\n", 3 + row % 5),
            1 => format!("setosa,0,{},0.5\n", 3 + row % 4),
            _ => format!("aster,0.1,0.2,{}\n", 4 + row % 3),
        };
        rows.map(line).collect::<String>()
    };
    fs::write(lab.path().join("train.csv"), format!("kind,a,b,c\n{}", lines(0..90))).unwrap();
    fs::write(lab.path().join("test.csv"), lines(90..99)).unwrap();
    let expected = ["iris, wild", "setosa", "aster"].repeat(3).join("\n");
    for command in ["svm", "logistic --peers 2 --workers 1"] {
        let ended = hemiola(&lab, &format!("train {command} --data train.csv --validation test.csv --output model -q"));
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        let told = hemiola(&lab, "predict --model model --data test.csv");
        assert_eq!(text(&told.stdout), expected, "{}", text(&told.stderr));
        let told = hemiola(&lab, "predict --model model --data test.csv --report -");
        let report: serde_json::Value = serde_json::from_str(&text(&told.stdout)).unwrap();
        assert_eq!((&report[0]["name"], &report[0]["label"]), (&"iris, wild".into(), &1.0.into()));
        let told = hemiola(&lab, "evaluate --model model --data test.csv");
        assert!(text(&told.stdout).contains("accuracy 1.0000"), "{}", text(&told.stdout));
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
    // A name among numeric labels is an error, and so is a single class.
    fs::write(lab.path().join("mixed.csv"), "1,2,3\nspam,0,1\n-1,4,5\n").unwrap();
    fs::write(lab.path().join("one.csv"), "spam,2,3\nspam,0,1\n").unwrap();
    for (file, problem) in
        [("mixed.csv", "`mixed.csv:2:1`: expected a number, found `spam`"), ("one.csv", "have the label `spam`")]
    {
        let ended = hemiola(&lab, &format!("train svm --data {file} --validation 0"));
        assert!(ended.code == Some(2) && text(&ended.stderr).contains(problem), "{file}: {}", text(&ended.stderr));
    }
}
