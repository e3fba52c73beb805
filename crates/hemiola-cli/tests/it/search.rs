//! `hemiola search`, `--folds` and `--metric`.

use crate::model::{hemiola, lab, text};
use crate::support::{launch, subcommand};
use rustix::process::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Trials of a report without times.
fn trials(report: &Value) -> Vec<(String, Value, Value)> {
    let of = |trial: &Value| (trial["settings"].to_string(), trial["best"].clone(), trial["status"].clone());
    report["trials"].as_array().unwrap().iter().map(of).collect()
}

const SPACE: &str = "rank=2..8,l2=0.01|0.05|0.2";

#[test]
fn a_search_saves_the_best_model_and_prints_its_command() {
    let lab = lab();
    let line = format!("search mf --data ratings.csv --epochs 9 --trials 5 --space {SPACE} --workers 2");
    let ended = hemiola(&lab, &format!("{line} --output model --report search.json"));
    let said = text(&ended.stdout);
    assert_eq!((ended.code, text(&ended.stderr)), (Some(0), String::new()), "{said}");
    assert!(said.contains("searching l2=0.01|0.05|0.2, rank=2..8") && said.contains("trial 1/5"), "{said}");
    assert!(said.contains("all trials done (5); best validation rmse") && said.contains("saved to `model`"), "{said}");
    let report = json(&lab.path().join("search.json"));
    let best = report["best"].as_u64().unwrap() as usize - 1;
    let values: Vec<f64> = report["trials"].as_array().unwrap().iter().map(|t| t["best"].as_f64().unwrap()).collect();
    assert!(values.iter().all(|value| *value >= values[best]), "{values:?}");
    // The final training is on all ratings, and the printed command repeats it.
    assert_eq!(
        (&report["training"]["data"]["train"], &report["training"]["data"]["validation"]),
        (&900.into(), &0.into())
    );
    let command = report["command"].as_str().unwrap();
    assert!(said.contains(command) && command.contains("--validation 0 --epochs "), "{command}");
    let again = command.split_once(" train ").unwrap().1;
    let again = hemiola(&lab, &format!("train {again} --report again.json"));
    assert_eq!(again.code, Some(0), "{}", text(&again.stderr));
    let again = json(&lab.path().join("again.json"));
    assert_eq!(again["result"]["objective"], report["training"]["result"]["objective"]);
    let plotted = hemiola(&lab, "plot search.json");
    assert_eq!(text(&plotted.stdout), "plotted the search of 5 trials to `search.svg`");
    assert!(fs::read_to_string(lab.path().join("search.svg")).unwrap().contains("best so far"));
    // The model is usable, and nothing else is left.
    assert_eq!(hemiola(&lab, "recommend --model model --user person-2").code, Some(0));
    assert!(!lab.path().join("model.search").exists());
    // The same search on two peers.
    let peers = line.replace("--workers 2", "--workers 1 --peers 2");
    let ended = hemiola(&lab, &format!("{peers} --report peers.json -q"));
    assert_eq!((ended.code, text(&ended.stdout)), (Some(0), String::new()), "{}", text(&ended.stderr));
    assert_eq!(trials(&json(&lab.path().join("peers.json"))), trials(&report));
}

#[test]
fn an_interrupted_search_saves_the_best_so_far_and_resumes() {
    let lab = lab();
    let line = format!("search mf --data ratings.csv --epochs 27 --patience 0 --trials 12 --space {SPACE} --workers 2");
    let whole = hemiola(&lab, &format!("{line} --report whole.json -q"));
    assert_eq!(whole.code, Some(0), "{}", text(&whole.stderr));
    let mut command = subcommand("search");
    let words = line.split_whitespace().skip(1);
    command.args(words).args(["--output", "model"]).current_dir(lab.path());
    let running = launch(&mut command);
    while !running.line().starts_with("trial  2/12") {}
    running.signal(Signal::INT);
    let ended = running.end();
    let said = text(&ended.stdout);
    assert_eq!(ended.code, Some(130), "{said} {}", text(&ended.stderr));
    assert!(said.contains("the best model so far is saved to `model`") && said.contains("--resume"), "{said}");
    assert_eq!(hemiola(&lab, "recommend --model model --user person-2").code, Some(0));
    assert!(lab.path().join("model.search").is_dir());
    let resumed = hemiola(&lab, &format!("{line} --output model --resume --report resumed.json"));
    assert_eq!(resumed.code, Some(0), "{}", text(&resumed.stderr));
    let whole = json(&lab.path().join("whole.json"));
    assert_eq!(trials(&json(&lab.path().join("resumed.json"))), trials(&whole));
    assert!(!lab.path().join("model.search").exists());
    let nothing = hemiola(&lab, &format!("{line} --output model --resume"));
    assert_eq!(nothing.code, Some(2));
    assert!(text(&nothing.stderr).contains("cannot resume the search"), "{}", text(&nothing.stderr));
}

fn examples(lab: &Path) {
    let mut rows = String::from("label,group,when,x1,x2\n");
    for row in 0..120 {
        let (x1, x2) = (f64::from(row * 7 % 13) - 6.0, f64::from(row * 5 % 11) - 5.0);
        let label = if x1 + 0.5 * x2 > 0.0 { "yes" } else { "no" };
        let _ = writeln!(rows, "{label},g{},{},{x1},{x2}", row / 6, 2000 + row / 2);
    }
    fs::write(lab.join("examples.csv"), rows).unwrap();
}

#[test]
fn all_models_are_searched() {
    let lab = lab();
    examples(lab.path());
    let mut quantities = String::from("y,a,b\n");
    for row in 0..60 {
        let (a, b) = (f64::from(row % 7), f64::from(row * 3 % 5));
        let _ = writeln!(quantities, "{},{a},{b}", 2.0 * a - b);
    }
    fs::write(lab.path().join("quantities.csv"), quantities).unwrap();
    for (line, metric) in [
        ("logistic --data examples.csv --ignore group,when --metric auc", "auc"),
        ("logistic --data quantities.csv --label b --c 2 --space c=0.1|1 --search grid", "logloss"),
        ("svm --data examples.csv --ignore group,when", "accuracy"),
        ("lasso --data quantities.csv", "rmse"),
        ("elastic-net --data quantities.csv --search random", "rmse"),
        ("fm --data examples.csv --ignore group,when --epochs 3 --space rank=2|4 --metric auc", "auc"),
        ("ridge --data quantities.csv", "rmse"),
        ("softmax --data examples.csv --ignore group,when --class-weight yes=3", "logloss"),
        ("lda --space topics=3|5 --epochs 4", "perplexity"),
        ("mf --data ratings.csv --loss one-class --event-threshold 4 --epochs 4", "ndcg@10"),
    ] {
        let ended = hemiola(&lab, &format!("search {line} --trials 3 --report one.json --workers 1 -q"));
        assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
        let report = json(&lab.path().join("one.json"));
        assert_eq!(report["metric"], metric, "{line}");
        assert!(report["best"].as_u64().is_some() && report["training"]["result"].is_object(), "{line}: {report}");
    }
    for (line, says) in [
        ("mf --data ratings.csv --space depth=1..2", "no setting `depth` to search; its settings are rank, l2"),
        ("mf --data ratings.csv --space rank", "`rank` is no part of a search space"),
        ("mf --data ratings.csv --metric speed", "`speed` is no metric"),
        (
            "svm --data examples.csv --ignore group,when --space c=1|2|3 --search grid --trials 2",
            "the grid has 3 points",
        ),
    ] {
        let ended = hemiola(&lab, &format!("search {line}"));
        assert_eq!(ended.code, Some(2), "{line}");
        assert!(text(&ended.stderr).contains(says), "{line}: {}", text(&ended.stderr));
    }
}

#[test]
fn folds_print_mean_and_deviation_alike_on_one_and_two_peers() {
    let lab = lab();
    examples(lab.path());
    let ended =
        hemiola(&lab, "train mf --data ratings.csv --rank 4 --epochs 3 --folds 3 --workers 2 --report one.json");
    let said = text(&ended.stdout);
    assert_eq!((ended.code, text(&ended.stderr)), (Some(0), String::new()));
    assert!(said.contains("fold 3/3") && said.contains("over 3 folds:") && said.contains(" ± "), "{said}");
    assert!(!said.contains("epoch"), "no model is trained without --output: {said}");
    let ended = hemiola(
        &lab,
        "train mf --data ratings.csv --rank 4 --epochs 3 --cv 3 --workers 1 --peers 2 --report two.json -q --output model",
    );
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let (one, two) = (json(&lab.path().join("one.json")), json(&lab.path().join("two.json")));
    assert_eq!(
        (&one["mean"], &one["deviation"]),
        (&two["cross_validation"]["mean"], &two["cross_validation"]["deviation"])
    );
    assert!(two["result"].is_object() && lab.path().join("model").is_dir());
    for flags in [
        "svm --folds 4",
        "logistic --folds 4 --group-column group",
        "logistic --folds 4 --time-column when",
        "softmax --folds 4 --time-column when",
        "fm --folds 4 --group-column group --rank 2 --epochs 20 --lr 0.5",
    ] {
        let ignore = if flags.contains("column group") { "when" } else { "group" };
        let ignore = if flags.starts_with("svm") { "group,when" } else { ignore };
        let line = format!("train {flags} --data examples.csv --ignore {ignore} --report folds.json --workers 1");
        let ended = hemiola(&lab, &line);
        assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
        let report = json(&lab.path().join("folds.json"));
        let sizes: Vec<u64> =
            report["folds"].as_array().unwrap().iter().map(|f| f["train"].as_u64().unwrap()).collect();
        let expected = if flags.contains("time") { [24, 48, 72, 96] } else { [90; 4] };
        assert_eq!(sizes, expected, "{line}");
        assert!(report["mean"]["accuracy"].as_f64().unwrap() > 0.75, "{line}: {report}");
    }
    let refused = hemiola(&lab, "train logistic --data examples.csv --ignore when --folds 3 --group-column none");
    assert!(text(&refused.stderr).contains("none") && refused.code == Some(2), "{}", text(&refused.stderr));
}

#[test]
fn evaluation_and_stopping_have_the_metrics_of_the_model() {
    let lab = lab();
    examples(lab.path());
    let line = "train logistic --data examples.csv --ignore group,when --validation 0.3 --metric accuracy --target 0.5 --output model";
    let trained = hemiola(&lab, &format!("{line} --report run.json"));
    assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
    assert_eq!(json(&lab.path().join("run.json"))["result"]["stop_reason"], "target reached");
    let found = text(&hemiola(&lab, "evaluate --model model --data examples.csv").stdout);
    for metric in ["accuracy", "auc", "brier", "f1", "logloss", "pr-auc", "precision", "recall"] {
        assert!(
            found.contains(&format!("{metric} 0.")) || found.contains(&format!("{metric} 1.")),
            "{metric}: {found}"
        );
    }
    assert_eq!(hemiola(&lab, "train mf --data ratings.csv --rank 4 --epochs 3 --output films").code, Some(0));
    let ranked = text(&hemiola(&lab, "evaluate --model films --data ratings.csv --ranking -k 5").stdout);
    for metric in ["recall@5", "ndcg@5", "precision@5", "map@5", "mrr@5", "coverage@5"] {
        assert!(ranked.contains(metric), "{metric}: {ranked}");
    }
    assert!(text(&hemiola(&lab, "evaluate --model films --data ratings.csv").stdout).contains("r2 "));
}
