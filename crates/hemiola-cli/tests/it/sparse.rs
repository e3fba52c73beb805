//! `hemiola train lasso`, `elastic-net` and `logistic --penalty l1`, and use of their models.

use crate::model::{hemiola, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Creates a folder with quantities that depend on two of forty columns, and two classes that
/// depend on one.
fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let (mut quantities, mut classes) = (String::new(), String::new());
    let noise = |row: u64, column: u64| (row * 2_654_435_761 + column * 40_503 + row * column * 97) % 1000;
    let unit = |row: u64, column: u64| noise(row, column) as f64 / 500.0 - 1.0;
    for row in 0..150 {
        let features: Vec<f64> = (0..40).map(|column| unit(row, column)).collect();
        let quantity = 3.0 * features[4] - 2.0 * features[17] + 5.0 + 0.1 * unit(row, 99);
        let fields: Vec<String> =
            std::iter::once(quantity).chain(features.iter().copied()).map(|value| value.to_string()).collect();
        let _ = writeln!(quantities, "{}", fields.join(","));
        let _ = write!(classes, "{}", if features[4] + 0.2 * unit(row, 99) > 0.0 { 1 } else { -1 });
        for (column, value) in features.iter().enumerate().step_by(2) {
            let _ = write!(classes, " {}:{value}", column + 1);
        }
        classes.push('\n');
    }
    fs::write(lab.path().join("quantities.csv"), quantities).unwrap();
    fs::write(lab.path().join("classes.libsvm"), classes).unwrap();
    lab
}

fn report(lab: &TempDir, name: &str) -> Value {
    serde_json::from_slice(&fs::read(lab.path().join(name)).unwrap()).unwrap()
}

#[cfg(feature = "bench")]
#[test]
fn the_schedule_benchmark_reports_convergence() {
    let lab = tempfile::tempdir().unwrap();
    let measured = hemiola(&lab, "bench schedule --rounds 1 --size 3 --report -");
    assert_eq!((measured.code, text(&measured.stderr)), (Some(0), String::new()));
    let report: Value = serde_json::from_str(&text(&measured.stdout)).unwrap();
    let lasso = report["lasso"].as_array().unwrap();
    assert_eq!(lasso.len(), 8);
    for solver in lasso {
        assert!(solver["gap"].as_f64().unwrap() <= 1e-6 && solver["updates"].as_u64().unwrap() > 0, "{solver}");
    }
    assert!(report["scheduled_updates"].as_u64().unwrap() > 0, "{report}");
    assert!(report["heavy_first_speedup"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn coefficients_have_the_names_of_their_features() {
    let lab = lab();
    let plain = fs::read_to_string(lab.path().join("quantities.csv")).unwrap();
    let mut header: Vec<String> = (0..40).map(|column| format!("f{column}")).collect();
    // One repeated name, and one missing name.
    (header[4], header[5], header[6]) = ("area".to_owned(), "area".to_owned(), String::new());
    fs::write(lab.path().join("named.csv"), format!("price,{}\n{plain}", header.join(","))).unwrap();
    for (data, first, second) in [("named.csv", "area", "f17"), ("quantities.csv", "5", "18")] {
        let trained = hemiola(&lab, &format!("train lasso --data {data} --output {data}.model"));
        assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
        let told = text(&hemiola(&lab, &format!("coefficients --model {data}.model -k 2")).stdout);
        let names: Vec<&str> = told.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["intercept", first, second], "{told}");
        assert!(told.contains(" of 40 nonzero, lambda "), "{told}");
        let report = hemiola(&lab, &format!("coefficients --model {data}.model --report -"));
        let report: Value = serde_json::from_str(&text(&report.stdout)).unwrap();
        assert_eq!(report["coefficients"][0]["name"], first);
        assert!(report["coefficients"][0]["value"].as_f64().unwrap() > 1.0, "{report}");
    }
    hemiola(&lab, "train svm --data classes.libsvm --output classes");
    let refused = hemiola(&lab, "coefficients --model classes");
    assert_eq!(refused.code, Some(2));
    assert!(text(&refused.stderr).contains("has no coefficients to list"), "{}", text(&refused.stderr));
}

#[test]
fn quantities_are_predicted() {
    let lab = lab();
    for (model, kind) in [
        ("lasso", "lasso"),
        ("elastic-net --l1-ratio 0.9", "elastic-net"),
        ("lasso --folds 4", "lasso"),
        ("lasso --schedule priority --concurrent 4 --pipeline-depth 2", "lasso"),
    ] {
        let command = format!(
            "train {model} --data quantities.csv --validation 0.2 --output model --report run.json --workers 2"
        );
        let trained = hemiola(&lab, &command);
        assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
        let run = report(&lab, "run.json");
        assert_eq!(run["model"], kind);
        assert_eq!(run["result"]["stop_reason"], "converged", "{run}");
        assert!(run["result"]["validation"]["r2"].as_f64().unwrap() > 0.9, "{run}");
        let told = text(&hemiola(&lab, "evaluate --model model --data quantities.csv").stdout);
        assert!(told.starts_with("150 examples, ") && told.contains("r2 0.9"), "{told}");
        let told = text(&hemiola(&lab, "predict --model model --data quantities.csv").stdout);
        let told: Vec<f64> = told.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(told.len(), 150);
        let first = fs::read_to_string(lab.path().join("quantities.csv")).unwrap();
        let first: f64 = first.split(',').next().unwrap().parse().unwrap();
        assert!((told[0] - first).abs() < 1.5, "{} and not {first}", told[0]);
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
}

#[test]
fn sparse_logistic_regression_separates_two_classes() {
    let lab = lab();
    let trained = hemiola(
        &lab,
        "train logistic --penalty l1 --lambda-ratio 0.2 --data classes.libsvm --validation 0 --output model --report run.json --peers 2",
    );
    assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
    let run = report(&lab, "run.json");
    assert_eq!(run["model"], "sparse-logistic");
    let last = run["progress"].as_array().unwrap().last().unwrap();
    assert!(
        last["train"]["nonzero"].as_f64().unwrap() < 10.0 && last["train"]["gap"].as_f64().unwrap() <= 1e-6,
        "{last}"
    );
    let told = text(&hemiola(&lab, "evaluate --model model --data classes.libsvm").stdout);
    assert!(told.contains("accuracy 0.9") && told.contains("auc"), "{told}");
    assert!(told.contains("\n\ntrue \\ predicted") && told.contains("\nprecision"), "{told}");
    let told = text(&hemiola(&lab, "predict --model model --data classes.libsvm").stdout);
    assert!(told.lines().all(|line| line == "1" || line == "-1"), "{told}");
}

#[test]
fn invalid_arguments_are_refused() {
    let lab = lab();
    for (command, says) in [
        ("train lasso --data quantities.csv --lambda=-1", "`lambda` is `-1`"),
        ("train lasso --data quantities.csv --lambda 1 --lambda-ratio 0.1", "cannot be used with"),
        ("train lasso --data quantities.csv --one-standard-error", "--folds"),
        ("train elastic-net --data quantities.csv --l1-ratio 0", "`l1_ratio` is `0`"),
        ("train lasso --data quantities.csv --folds 1", "`folds` is `1`"),
        ("train lasso --data nothing.csv", "nothing.csv"),
        ("train logistic --lambda 1", "`--penalty l1`"),
        ("train logistic --penalty l1 --data quantities.csv", "more than two different values"),
    ] {
        let refused = hemiola(&lab, command);
        assert_eq!(refused.code, Some(2), "{command}");
        assert!(text(&refused.stderr).contains(says), "{command}: {}", text(&refused.stderr));
    }
}
