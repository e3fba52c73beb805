//! `hemiola plot`: plots of training reports.

use crate::support::{Ended, launch, subcommand};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use tempfile::TempDir;

/// Returns a report of five epochs whose metrics decrease from `start`.
fn report(start: f64) -> Value {
    let epoch = |epoch: i32| {
        let metric = start / f64::from(epoch);
        json!({"epoch": epoch, "seconds": 0.5 * f64::from(epoch), "objective": metric * metric, "train": {"rmse": metric},
            "validation": {"mae": metric, "rmse": metric + 0.1}, "updates": 1000 * epoch, "bytes_sent": 0})
    };
    let progress: Vec<Value> = (1..=5).map(epoch).collect();
    json!({"model": "mf", "progress": progress, "result": {"best_epoch": 4}})
}

/// Creates a folder with these reports.
fn lab(reports: &[(&str, Value)]) -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    for (name, report) in reports {
        fs::create_dir_all(lab.path().join(name).parent().unwrap()).unwrap();
        fs::write(lab.path().join(name), report.to_string()).unwrap();
    }
    lab
}

fn plot(lab: &TempDir, arguments: &str) -> Ended {
    launch(subcommand("plot").args(arguments.split_whitespace()).current_dir(lab.path())).end()
}

fn text(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join("\n")
}

/// Runs a command that must succeed, and returns the plot.
fn drawn(lab: &TempDir, arguments: &str, picture: &str) -> String {
    let ended = plot(lab, arguments);
    assert_eq!((ended.code, text(&ended.stderr)), (Some(0), String::new()), "{arguments}");
    fs::read_to_string(lab.path().join(picture)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

#[test]
fn two_runs_are_plotted_together() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(
        lab.path().join("ratings.csv"),
        (0..600).fold(String::new(), |text, n| text + &format!("{},{},{}\n", n % 40, n / 40, n % 7)),
    )
    .unwrap();
    for rank in [2, 8] {
        let arguments = format!("mf --data ratings.csv --epochs 4 --rank {rank} --report rank-{rank}.json -q");
        let trained = launch(subcommand("train").args(arguments.split_whitespace()).current_dir(lab.path())).end();
        assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
    }
    let ended = plot(&lab, "rank-2.json rank-8.json");
    assert_eq!((ended.code, text(&ended.stderr)), (Some(0), String::new()));
    assert_eq!(text(&ended.stdout), "plotted rmse of 2 runs to `convergence.svg`");
    let svg = fs::read_to_string(lab.path().join("convergence.svg")).unwrap();
    for expected in
        [">rank-2<", ">rank-8<", ">epochs<", ">seconds of training<", ">rmse on the validation set<", "saved model"]
    {
        assert!(svg.contains(expected), "{expected} is not in {svg}");
    }
    let lines = |series: usize| svg.matches(&format!("<polyline class=\"series-{series}-line\"")).count();
    // One line per panel and one in the legend.
    assert_eq!((lines(0), lines(1), lines(2)), (3, 3, 0));
    assert_eq!(names(lab.path()), ["convergence.svg", "rank-2.json", "rank-8.json", "ratings.csv"]);
}

#[test]
fn png_is_chosen_by_extension_and_can_be_dark() {
    let lab = lab(&[("a.json", report(2.0))]);
    for (arguments, file) in [("a.json -o light.png", "light.png"), ("a.json -o dark.PNG --dark", "dark.PNG")] {
        let ended = plot(&lab, arguments);
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        assert!(fs::read(lab.path().join(file)).unwrap().starts_with(b"\x89PNG\r\n"));
    }
    assert_ne!(fs::read(lab.path().join("light.png")).unwrap(), fs::read(lab.path().join("dark.PNG")).unwrap());
}

#[test]
fn metrics_axes_labels_and_titles_are_selected() {
    let lab = lab(&[("one/run.json", report(2.0)), ("two/run.json", report(3.0))]);
    let svg = drawn(&lab, "one/run.json two/run.json", "convergence.svg");
    assert!(svg.contains(">one/run<") && svg.contains(">two/run<"), "{svg}");
    let both = "one/run.json two/run.json";
    let svg = drawn(&lab, &format!("{both} --label small --label large --title <Runs> -o x.svg"), "x.svg");
    assert!(svg.contains(">small<") && svg.contains(">large<") && svg.contains(">&lt;Runs&gt;<"), "{svg}");
    let svg = drawn(&lab, &format!("{both} --x updates --y objective,mae --log-y -o x.svg"), "x.svg");
    assert!(svg.contains(">objective<") && svg.contains(">mae on the validation set<"), "{svg}");
    assert_eq!((svg.matches(">updates<").count(), svg.matches(">epochs<").count()), (2, 0));
    let svg = drawn(&lab, &format!("{both} --train --x epochs -o x.svg"), "x.svg");
    assert_eq!(
        svg.matches("<polyline class=\"series-1-line\"").count(),
        3,
        "legend, validation and training set: {svg}"
    );
}

#[test]
fn a_report_from_standard_input_is_plotted_as_text() {
    let lab = lab(&[("a.json", report(2.0))]);
    let input = || File::open(lab.path().join("a.json")).unwrap();
    let shown = launch(subcommand("plot").args(["-", "--text"]).stdin(input()).current_dir(lab.path())).end();
    assert_eq!(shown.code, Some(0), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("A  standard input") && shown.contains("rmse on the validation set") && shown.contains('⠒'),
        "{shown}"
    );
    let piped = launch(subcommand("plot").args(["-", "-o", "-"]).stdin(input()).current_dir(lab.path())).end();
    let piped = text(&piped.stdout);
    assert!(piped.starts_with("<svg") && piped.ends_with("</svg>"), "{piped}");
    assert_eq!(names(lab.path()), ["a.json"], "no file was requested");
}

#[test]
fn without_a_validation_set_the_objective_is_plotted() {
    let mut bare = report(2.0);
    for epoch in bare["progress"].as_array_mut().unwrap() {
        epoch.as_object_mut().unwrap().remove("validation");
    }
    let lab = lab(&[("bare.json", bare), ("full.json", report(2.0))]);
    let svg = drawn(&lab, "bare.json", "convergence.svg");
    assert!(svg.contains(">objective<") && !svg.contains("saved model"), "{svg}");
    let svg = drawn(&lab, "bare.json --y rmse", "convergence.svg");
    assert!(svg.contains(">rmse on the training set<"), "{svg}");
    fs::remove_file(lab.path().join("convergence.svg")).unwrap();

    let mixed = plot(&lab, "bare.json full.json");
    let told = text(&mixed.stderr);
    assert!(told.contains("no validation metric in common: `bare` has none; `full` has mae, rmse"), "{told}");
    let mixed = plot(&lab, "bare.json full.json --y rmse");
    let told = text(&mixed.stderr);
    assert!(
        told.contains("not every run has `rmse` on the validation set: missing in `bare`") && told.contains("--train"),
        "{told}"
    );
    assert_eq!((mixed.code, names(lab.path())), (Some(2), vec!["bare.json".into(), "full.json".into()]));
    drawn(&lab, "bare.json full.json --y objective", "convergence.svg");
    drawn(&lab, "bare.json full.json --y rmse --train", "convergence.svg");
}

#[test]
fn non_finite_values_are_gaps_with_a_note() {
    let mut broken = report(2.0);
    broken["progress"][2]["validation"]["rmse"] = Value::Null;
    let lab = lab(&[("broken.json", broken)]);
    let ended = plot(&lab, "broken.json --x epochs");
    assert_eq!(ended.code, Some(0));
    assert_eq!(text(&ended.stderr), "hemiola: 1 of 5 values of rmse of `broken` are not finite, and become gaps");
    let svg = fs::read_to_string(lab.path().join("convergence.svg")).unwrap();
    assert_eq!(svg.matches("<polyline class=\"series-0-line\"").count(), 3, "legend and two pieces: {svg}");
}

#[test]
fn invalid_plots_are_refused_and_nothing_is_written() {
    let mut nothing = report(2.0);
    for epoch in nothing["progress"].as_array_mut().unwrap() {
        epoch["validation"] = json!({"rmse": null});
    }
    let lab = lab(&[
        ("a.json", report(2.0)),
        ("empty.json", json!({"model": "mf", "progress": []})),
        ("other.json", json!({"rmse": 3})),
        ("lda.json", json!({"progress": [{"epoch": 1, "seconds": 1.0, "validation": {"perplexity": 900.0}}]})),
        ("nothing.json", nothing),
    ]);
    fs::write(lab.path().join("cut.json"), "{\"model\": \"mf\", \"progress\": [{").unwrap();
    fs::write(lab.path().join("blank.json"), "").unwrap();
    let before = names(lab.path());
    for (arguments, expected) in [
        ("missing.json", "cannot read `missing.json`"),
        (".", "cannot read `.`"),
        ("cut.json", "`cut.json` is not JSON: EOF"),
        ("blank.json", "`blank.json` is empty"),
        ("other.json", "`other.json` is not a training report: missing field `progress`"),
        ("empty.json", "`empty.json` has no epochs"),
        ("a.json cut.json", "`cut.json` is not JSON"),
        ("nothing.json", "no value of rmse can be plotted"),
        ("a.json lda.json", "no validation metric in common: `a` has mae, rmse; `lda` has perplexity"),
        ("a.json --y speed", "no run has a metric `speed`"),
        ("a.json --x bytes", "no run has sent bytes"),
        ("a.json --x miles", "invalid value 'miles'"),
        ("a.json --label x --label y", "--label is given 2 times for 1 reports"),
        ("a.json -o picture.gif", "cannot plot to `picture.gif`: the formats are SVG and PNG"),
        ("a.json -o no/such/picture.svg", "cannot write `no/such/picture.svg`"),
        ("a.json --dark", "--dark is for PNG"),
        ("a.json --text -o -", "both --text and --output - go to standard output"),
        ("- -", "standard input can be read only once"),
        ("-", "`standard input` is empty"),
        ("", "required arguments were not provided"),
    ] {
        let ended = plot(&lab, arguments);
        let told = text(&ended.stderr);
        assert_eq!((ended.code, text(&ended.stdout)), (Some(2), String::new()), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
        assert_eq!(names(lab.path()), before, "{arguments}");
    }
}

/// Returns a report with settings, of a run of `epochs` epochs with this seed.
fn repetition(seed: u64, rank: u32, epochs: usize) -> Value {
    let mut report = report(2.0 + 0.1 * seed as f64);
    report["progress"].as_array_mut().unwrap().truncate(epochs);
    report["seed"] = json!(seed);
    report["settings"] = json!({"rank": rank, "seed": seed});
    report
}

#[test]
fn runs_that_differ_by_seed_are_a_mean_with_a_band() {
    let seeds =
        |rank: u32| (1..=3).map(move |seed| (format!("rank{rank}-seed-{seed}.json"), repetition(seed, rank, 5)));
    let reports: Vec<(String, Value)> = seeds(8).chain(seeds(16)).collect();
    let lab = lab(&reports.iter().map(|(name, report)| (name.as_str(), report.clone())).collect::<Vec<_>>());
    let all: Vec<&str> = reports.iter().map(|(name, _)| name.as_str()).collect();
    let (all, three) = (all.join(" "), all[..3].join(" "));
    let shapes =
        |svg: &str, shape: &str, series: usize| svg.matches(&format!("<{shape} class=\"series-{series}")).count();

    let svg = drawn(&lab, &all, "convergence.svg");
    assert!(svg.contains(">rank8: mean of 3 seeds, min to max<") && svg.contains(">rank16: mean of 3 seeds"), "{svg}");
    assert_eq!((shapes(&svg, "polygon", 0), shapes(&svg, "polygon", 1), shapes(&svg, "polyline", 2)), (2, 2, 0));
    assert!(!svg.contains("saved model"), "each run saved another epoch");
    let svg = drawn(&lab, &format!("{all} --label small --label large --band quartiles -o x.svg"), "x.svg");
    assert!(svg.contains(">small: median of 3 seeds, quartiles<") && svg.contains(">large: median of 3"), "{svg}");
    let svg = drawn(&lab, &format!("{three} --band none -o x.svg"), "x.svg");
    assert!(svg.contains(">rank8-seed-3<") && shapes(&svg, "polygon", 0) == 0, "{svg}");
    assert_eq!((0..3).map(|run| shapes(&svg, "polyline", run)).collect::<Vec<_>>(), [3, 3, 3]);
    // Equal labels group what reports do not.
    let svg = drawn(&lab, "rank8-seed-1.json rank16-seed-1.json --label a --label a -o x.svg", "x.svg");
    assert!(svg.contains(">a: mean of 2 seeds, min to max<"), "{svg}");
    let shown = plot(&lab, &format!("{three} --text --x epochs"));
    assert!(text(&shown.stdout).contains("A  rank8: mean of 3 seeds, min to max"), "{}", text(&shown.stdout));
    let refused = plot(&lab, &format!("{all} --label a --label b --label c"));
    assert!(text(&refused.stderr).contains("--label is given 3 times for 6 reports"), "{}", text(&refused.stderr));
}

#[test]
fn a_mean_is_drawn_only_where_all_runs_have_a_value() {
    let mut gap = repetition(2, 8, 5);
    gap["progress"][1]["validation"]["rmse"] = Value::Null;
    let lab = lab(&[("s1.json", repetition(1, 8, 5)), ("s2.json", gap), ("s3.json", repetition(3, 8, 4))]);
    let ended = plot(&lab, "s1.json s2.json s3.json --x epochs --y rmse");
    let told = text(&ended.stderr);
    assert_eq!(ended.code, Some(0), "{told}");
    assert!(
        told.contains("`s: mean of 3 seeds, min to max`: rmse is drawn for the 4 epochs that all 3 runs have"),
        "{told}"
    );
    assert!(told.contains("1 of 5 values of rmse of `s2` are not finite"), "{told}");
    let svg = fs::read_to_string(lab.path().join("convergence.svg")).unwrap();
    // The first epoch is a dot, then there is a gap, then a line with its band.
    let count = |start: &str| svg.matches(start).count();
    assert_eq!(
        (count("<polyline class=\"series-0"), count("<polygon class=\"series-0"), count("<circle class=\"series-0")),
        (2, 1, 1),
        "{svg}"
    );
    // The same seed twice is no repetition.
    let svg = drawn(&lab, "s1.json s1.json -o x.svg", "x.svg");
    assert!(svg.contains(">s1<") && svg.contains(">s1 (2)<"), "{svg}");
}

#[test]
fn the_confusion_matrix_of_an_evaluation_is_plotted() {
    let lab = tempfile::tempdir().unwrap();
    let flower = |n: usize| ["setosa", "versi<color>", "virginica"][n % 3];
    let line = |n: usize| format!("{},{},{}\n", flower(n), n % 3 * 10 + n % 4, 7 - n % 3);
    fs::write(lab.path().join("iris.csv"), format!("kind,a,b\n{}", (0..60).map(line).collect::<String>())).unwrap();
    let run = |arguments: &str| crate::model::hemiola(&lab, arguments);
    assert_eq!(run("train svm --data iris.csv --output model --workers 1 -q").code, Some(0));
    let shown = run("evaluate --model model --data iris.csv");
    let table = text(&shown.stdout);
    assert!(table.contains("true \\ predicted") && table.contains("setosa") && table.contains("precision"), "{table}");
    let evaluated = run("evaluate --model model --data iris.csv --report test.json");
    assert_eq!((evaluated.code, text(&evaluated.stderr)), (Some(0), String::new()));
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("test.json")).unwrap()).unwrap();
    let matrix = &report["confusion"];
    assert_eq!(matrix["classes"], json!(["setosa", "versi<color>", "virginica"]));
    let total: u64 = matrix["counts"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!((total, matrix.get("unknown")), (60, None), "{matrix}");
    let correct: u64 = (0..3).map(|class| matrix["counts"][class][class].as_u64().unwrap()).sum();
    assert!((report["metrics"]["accuracy"].as_f64().unwrap() - correct as f64 / 60.0).abs() < 1e-12, "{report}");

    let ended = plot(&lab, "test.json --title Flowers");
    assert_eq!(text(&ended.stdout), "plotted the confusion matrix of 3 classes to `confusion.svg`");
    let svg = fs::read_to_string(lab.path().join("confusion.svg")).unwrap();
    assert!(svg.contains(">versi&lt;color&gt;<") && svg.contains(">recall<") && svg.contains(">Flowers<"), "{svg}");
    assert_eq!(plot(&lab, "test.json -o dark.png --dark").code, Some(0));
    assert!(fs::read(lab.path().join("dark.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(text(&plot(&lab, "test.json --text").stdout).contains("true \\ predicted"));
}

#[test]
fn topics_are_plotted() {
    let word =
        |word: &str, probability: Value| json!({"word": word, "count": 3, "probability": probability, "lift": 2.0});
    let topic = |number: u32, share: f64| {
        json!({"topic": number, "share": share, "tokens": 9, "alpha": 0.1,
            "words": [word("network", json!(0.25)), word("<script>\u{1b}", json!(null))]})
    };
    let many: Vec<Value> = (1..=130).map(|number| topic(number, f64::from(number) / 8515.0)).collect();
    let lab = lab(&[("two.json", json!([topic(1, 0.25), topic(2, 0.75)])), ("many.json", json!(many))]);
    let svg = drawn(&lab, "two.json --title Topics", "topics.svg");
    assert!(svg.contains(">network<") && svg.contains(">.250<") && svg.contains(">75.0 %<"), "{svg}");
    assert!(svg.contains(">&lt;script&gt;\u{fffd}<") && svg.find(">75.0 %<") < svg.find(">25.0 %<"), "{svg}");
    let shown = text(&plot(&lab, "two.json --text").stdout);
    assert!(shown.contains("\n1      25.0 %  ████          network .250"), "{shown}");
    let svg = drawn(&lab, "many.json -o x.svg", "x.svg");
    assert!(svg.contains(">not shown: the 30 smallest topics, with 5.5 % of the tokens<"), "{svg}");
}

#[test]
fn the_regularization_path_of_a_lasso_is_plotted() {
    let lab = tempfile::tempdir().unwrap();
    let line = |n: usize| {
        let (a, b, c) = (n * 7 % 11, n * 5 % 13, n * 3 % 5);
        format!("{},{a},{b},{c}\n", 3 * a + b)
    };
    fs::write(lab.path().join("data.csv"), format!("y,a & <b>,weight,rest\n{}", (0..90).map(line).collect::<String>()))
        .unwrap();
    let run = |arguments: &str| crate::model::hemiola(&lab, arguments);
    let trained = run("train lasso --data data.csv --folds 3 --regularization-path --report lasso.json --workers 1 -q");
    assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("lasso.json")).unwrap()).unwrap();
    let (chosen, path) = (&report["regularization"], &report["regularization"]["path"]);
    let lambdas: Vec<f64> = path["lambdas"].as_array().unwrap().iter().map(|lambda| lambda.as_f64().unwrap()).collect();
    assert!(lambdas.windows(2).all(|pair| pair[0] > pair[1]) && lambdas.contains(&chosen["lambda"].as_f64().unwrap()));
    assert_eq!((&path["nonzero"][0], &path["coefficients"][0]["name"]), (&json!(0), &json!("a & <b>")), "{path}");
    assert_eq!(chosen["cross_validation"]["mean"].as_array().unwrap().len(), 50);

    let ended = plot(&lab, "lasso.json --regularization-path");
    assert_eq!(text(&ended.stdout), "plotted the regularization path of `lasso` to `regularization-path.svg`");
    let svg = fs::read_to_string(lab.path().join("regularization-path.svg")).unwrap();
    assert!(svg.contains(">a &amp; &lt;b&gt;<") && svg.contains(">lambda of the model: "), "{svg}");
    assert!(svg.contains(">cross-validated mean squared error (band: one standard error)<"), "{svg}");
    let shown = text(&plot(&lab, "lasso.json --regularization-path --text").stdout);
    assert!(shown.contains("A  a & <b>") && shown.contains("vertical line: lambda of the model"), "{shown}");
    drawn(&lab, "lasso.json", "convergence.svg");
    let refused = run("train lasso --data data.csv --regularization-path");
    assert!(text(&refused.stderr).contains("--report"), "{}", text(&refused.stderr));
}

#[test]
fn reports_that_do_not_go_together_are_refused() {
    let matrix = json!({"metrics": {}, "examples": 4, "confusion": {"classes": ["a"], "counts": [[4]]}});
    let mut chosen = report(2.0);
    chosen["regularization"] = json!({"lambda": 0.1, "l1_ratio": 1.0});
    let mut zeros = report(2.0);
    zeros["regularization"] = json!({"lambda": 0.1, "l1_ratio": 1.0,
        "path": {"lambdas": [0.1], "nonzero": [0], "features": 0, "coefficients": []}});
    let lab = lab(&[
        ("a.json", report(2.0)),
        ("matrix.json", matrix),
        ("topics.json", json!([{"topic": 1, "share": 1.0, "words": []}])),
        ("chosen.json", chosen),
        ("zeros.json", zeros),
        ("regression.json", json!({"metrics": {"rmse": 1.0}, "examples": 4})),
        ("none.json", json!([])),
    ]);
    let before = names(lab.path());
    for (arguments, expected) in [
        ("a.json matrix.json", "a confusion matrix is a picture of its own, and 2 reports are given"),
        ("topics.json topics.json", "a list of topics is a picture of its own"),
        ("matrix.json --log-x", "`--log-x` has no effect: it is for learning curves"),
        ("topics.json --band none", "`--band` has no effect"),
        ("topics.json --regularization-path", "only reports of `hemiola train` have a regularization path"),
        ("a.json --regularization-path", "`a` has no regularization path: it is no report of a sparse regression"),
        ("chosen.json --regularization-path", "`chosen` has no regularization path"),
        ("zeros.json --regularization-path", "`zeros` has no coefficient to plot"),
        ("a.json chosen.json --regularization-path", "a regularization path is a picture of its own"),
        ("regression.json", "`regression.json` is an evaluation without a confusion matrix"),
        ("none.json", "`none.json` is an empty list"),
    ] {
        let ended = plot(&lab, arguments);
        let told = text(&ended.stderr);
        assert_eq!((ended.code, text(&ended.stdout)), (Some(2), String::new()), "{arguments}: {told}");
        assert!(told.contains(expected) && told.contains("hint: "), "{arguments}: {told}");
        assert_eq!(names(lab.path()), before, "{arguments}");
    }
}

#[cfg(feature = "bench")]
#[test]
fn a_staleness_benchmark_of_two_peers_can_be_plotted() {
    let lab = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_hemiola");
    let bench = "bench staleness --staleness 1 --epochs 2 --clocks 2 --width 4 --report ssp.json";
    let ended = crate::model::hemiola(&lab, &format!("run -n 2 --workers 1 -- {program} {bench}"));
    assert_eq!((ended.code, text(&ended.stderr)), (Some(0), String::new()));
    assert!(text(&ended.stdout).contains("epoch 2: rmse "), "{}", text(&ended.stdout));
    let svg = drawn(&lab, "ssp.json --y rmse --x seconds,epochs -o ssp.svg", "ssp.svg");
    assert!(svg.contains("rmse"), "{svg}");
}
