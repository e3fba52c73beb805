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
