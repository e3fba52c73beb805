//! `hemiola train fm`, `ridge`, `softmax` and `kmeans`, and use of their models.

use crate::model::{hemiola, text};
use crate::training::arrays;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Creates a folder with examples for each model.
fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(lab.path().join(name), text).unwrap();
    // Two categories of four; the label is the parity of their sum, so that only the pair tells it.
    let (mut clicks, mut shifted) = (String::new(), String::new());
    for row in 0..400_u64 {
        let mixed = row.wrapping_mul(6_364_136_223_846_793_005).rotate_left(23) >> 7;
        let (left, right) = (mixed % 4, mixed / 4 % 4);
        let label = if (left + right) % 2 == 0 { 1 } else { -1 };
        let _ = writeln!(clicks, "{label} {left}:1 {}:1", 4 + right);
        let _ = writeln!(shifted, "{label} {}:1 {}:1", 1 + left, 5 + right);
    }
    write("clicks.libfm", &clicks);
    write("clicks.libsvm", &shifted);
    // A price that is an exact linear function of two columns; the third has no effect.
    let mut prices = String::from("size,age,noise,price\n");
    for row in 0..60 {
        let (size, age, noise) = (row % 7, row * 5 % 11, row * 3 % 13);
        let _ = writeln!(prices, "{size},{age},{noise},{}", 10 + 3 * size - 2 * age);
    }
    write("prices.csv", &prices);
    // Three groups of points with a name each.
    let mut groups = String::from("id,x,y,group\n");
    for row in 0..90 {
        let (group, offset) = (row % 3, f64::from(row * 7 % 10) / 10.0);
        let (x, y) = (f64::from(10 * group) + offset, f64::from(20 - 10 * group) - offset);
        let _ = writeln!(groups, "{row},{x},{y},{}", ["ash", "birch", "cedar"][group as usize]);
    }
    write("groups.csv", &groups);
    lab
}

fn json(lab: &TempDir, arguments: &str) -> Value {
    let ended = hemiola(lab, &format!("{arguments} --report -"));
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    serde_json::from_str(&text(&ended.stdout)).unwrap()
}

fn run(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    text(&ended.stdout)
}

const FM: &str = "train fm --data clicks.libsvm --rank 4 --epochs 60 --lr 0.5 --batch-size 16 --workers 1";

#[test]
fn a_factorization_machine_learns_pairs_and_counts_indices_as_libfm_does() {
    let lab = lab();
    run(&lab, &format!("{FM} --output one -q"));
    let found = hemiola(&lab, &format!("{} --output zero", FM.replace("libsvm", "libfm")));
    assert_eq!(found.code, Some(0), "{}", text(&found.stderr));
    let said = text(&found.stderr);
    assert!(said.contains("indices count from 0"), "{said}");
    assert!(text(&found.stdout).contains("400 examples with 800 values of 8 features"), "{}", text(&found.stdout));
    // The same features by other numbers give the same model.
    let (one, zero) = (arrays(&lab.path().join("one")), arrays(&lab.path().join("zero")));
    assert!(one == zero);
    // A file without the index 0 is read by the model's layout.
    let without: String = fs::read_to_string(lab.path().join("clicks.libfm")).unwrap();
    let without: Vec<&str> = without.lines().filter(|line| !line.contains(" 0:")).collect();
    fs::write(lab.path().join("without.libfm"), without.join("\n") + "\n").unwrap();
    let evaluated = json(&lab, "evaluate --model zero --data without.libfm");
    assert_eq!(evaluated["metrics"]["accuracy"], 1.0, "{evaluated}");
    assert_eq!((&evaluated["unknown_features"], &evaluated["examples"]), (&0.into(), &without.len().into()));
    let labels: Vec<&str> = without.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let predicted = run(&lab, "predict --model zero --data without.libfm");
    assert_eq!(predicted.lines().collect::<Vec<_>>(), labels);
    let predicted = json(&lab, "predict --model zero --data without.libfm");
    assert!(predicted[0]["probability"].as_f64().unwrap() <= 1.0, "{predicted}");
    // A linear model cannot learn pairs.
    run(&lab, "train fm --data clicks.libsvm --rank 0 --epochs 30 --output linear -q");
    let evaluated = json(&lab, "evaluate --model linear --data clicks.libsvm");
    assert!(evaluated["metrics"]["auc"].as_f64().unwrap() < 0.7, "{evaluated}");
}

#[test]
fn ridge_regression_finds_exact_coefficients_by_name() {
    let lab = lab();
    let trained = run(&lab, "train ridge --data prices.csv --label price --alpha 0 --output model --report run.json");
    assert!(trained.contains("label `price`, features `size`, `age`, `noise`"), "{trained}");
    let listed = run(&lab, "coefficients --model model -k 2");
    let names: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["intercept", "size", "age"], "{listed}");
    let listed = json(&lab, "coefficients --model model");
    assert_eq!((&listed["alpha"], listed["lambda"].is_null()), (&0.0.into(), true), "{listed}");
    for (found, expected) in [
        (&listed["intercept"], 10.0),
        (&listed["coefficients"][0]["value"], 3.0),
        (&listed["coefficients"][1]["value"], -2.0),
    ] {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-6, "{listed}");
    }
    let evaluated = json(&lab, "evaluate --model model --data prices.csv");
    assert!((evaluated["metrics"]["r2"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{evaluated}");
    // Columns are matched by name, in any order, and the target may be missing.
    fs::write(lab.path().join("new.csv"), "noise,age,size\n0,1,4\n5,0,0\n").unwrap();
    let predicted = run(&lab, "predict --model model --data new.csv");
    let predicted: Vec<f64> = predicted.lines().map(|line| line.parse().unwrap()).collect();
    assert!((predicted[0] - 20.0).abs() < 1e-6 && (predicted[1] - 10.0).abs() < 1e-6, "{predicted:?}");
    // A penalty shrinks.
    run(&lab, "train ridge --data prices.csv --label price --alpha 1000 --output shrunk -q");
    let shrunk = json(&lab, "coefficients --model shrunk");
    assert!(shrunk["coefficients"][0]["value"].as_f64().unwrap().abs() < 2.5, "{shrunk}");
}

#[test]
fn softmax_regression_predicts_names_and_counts_them() {
    let lab = lab();
    run(
        &lab,
        "train softmax --data groups.csv --label group --ignore id --output model --validation 0.2 --report run.json",
    );
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert_eq!((&report["model"], &report["result"]["stop_reason"]), (&"softmax".into(), &"converged".into()));
    assert!(report["result"]["validation"]["logloss"].as_f64().unwrap() < 0.1, "{report}");
    let predicted = run(&lab, "predict --model model --data groups.csv");
    assert!(predicted.lines().zip(["ash", "birch", "cedar"].iter().cycle()).all(|(found, name)| found == *name));
    let evaluated = run(&lab, "evaluate --model model --data groups.csv");
    assert!(evaluated.contains("accuracy 1.0000") && evaluated.contains("true \\ predicted"), "{evaluated}");
    fs::write(lab.path().join("evaluated.json"), json(&lab, "evaluate --model model --data groups.csv").to_string())
        .unwrap();
    for report in ["evaluated.json", "run.json"] {
        assert!(run(&lab, &format!("plot {report} --text")).lines().count() > 3, "{report}");
    }
}

#[test]
fn kmeans_finds_groups_without_labels() {
    let lab = lab();
    let flags = "--data groups.csv --label group --ignore id -k 3 --workers 1";
    let trained = run(&lab, &format!("train kmeans {flags} --output model"));
    assert!(trained.contains("90 examples with") && trained.contains("of 2 features"), "{trained}");
    assert!(trained.contains("converged"), "{trained}");
    let predicted = run(&lab, "predict --model model --data groups.csv");
    let clusters: Vec<&str> = predicted.lines().collect();
    assert_eq!(clusters.len(), 90);
    assert!((3..90).all(|row| clusters[row] == clusters[row % 3]), "{predicted}");
    assert!(clusters[0] != clusters[1] && clusters[1] != clusters[2] && clusters[0] != clusters[2], "{predicted}");
    // Neither the label nor ignored columns are needed for new rows.
    fs::write(lab.path().join("new.csv"), "y,x\n20,0\n0,20\n").unwrap();
    let found = run(&lab, "predict --model model --data new.csv");
    assert_eq!(found.lines().collect::<Vec<_>>(), [clusters[0], clusters[2]]);
    let evaluated = json(&lab, "evaluate --model model --data groups.csv");
    assert!(evaluated["metrics"]["distance"].as_f64().unwrap() < 1.0, "{evaluated}");
    // Without a label all columns are coordinates.
    fs::write(lab.path().join("plain.csv"), "0 0\n0 1\n9 9\n9 8\n").unwrap();
    let trained = run(&lab, "train kmeans --data plain.csv --clusters 2 --output plain");
    assert!(trained.contains("of 2 features"), "{trained}");
    let found = run(&lab, "predict --model plain --data plain.csv");
    let clusters: Vec<&str> = found.lines().collect();
    assert!(clusters[0] == clusters[1] && clusters[2] == clusters[3] && clusters[0] != clusters[2], "{found}");
}

#[test]
fn any_number_of_peers_and_a_resumed_run_give_the_same_bits() {
    let lab = lab();
    for (model, data, epochs) in [
        ("fm --rank 4 --validation 0.2 --patience 0", "clicks.libfm", 6),
        ("ridge --label price --alpha 2", "prices.csv", 1),
        ("softmax --label group --ignore id --tol 0", "groups.csv", 4),
        ("kmeans --label group --ignore id -k 5 --batch-size 16", "groups.csv", 4),
    ] {
        let train = |rest: &str| run(&lab, &format!("train {model} --data {data} {rest} -q"));
        // Files are divided among peers, so predictions are compared, which have all digits.
        let predicted = |name: &str| json(&lab, &format!("predict --model {name} --data {data}"));
        train(&format!("--epochs {epochs} --workers 1 --output whole"));
        let whole = predicted("whole");
        assert!(whole.as_array().unwrap().len() >= 60, "{whole}");
        train(&format!("--epochs {epochs} --peers 2 --workers 1 --output peers"));
        assert!(whole == predicted("peers"), "{model}");
        if epochs > 1 {
            train(&format!("--epochs {} --workers 2 --output parts", epochs / 2));
            assert!(whole != predicted("parts"), "{model}: the second half does something");
            train(&format!("--epochs {epochs} --workers 1 --output parts --resume"));
            assert!(whole == predicted("parts"), "{model}");
        }
        for name in ["whole", "peers", "parts"] {
            let _ = fs::remove_dir_all(lab.path().join(name));
        }
    }
}

/// Writes examples with a column of weights, and as many copies of each as its weight.
fn weighted_lab() -> TempDir {
    let lab = lab();
    let (mut once, mut copies) = (String::from("y,class,a,b,w\n"), String::from("y,class,a,b,w\n"));
    for row in 0..90 {
        let (a, b, weight) = (row * 7 % 13, row * 5 % 11, row * 3 % 4);
        let class = if row % 9 == 0 { "rare" } else { ["low", "high"][usize::from(a + b > 11)] };
        let line = format!("{},{class},{a},{b}", 3 * a - b + row % 5);
        let _ = writeln!(once, "{line},{weight}");
        for _ in 0..weight {
            let _ = writeln!(copies, "{line},1");
        }
    }
    fs::write(lab.path().join("once.csv"), once).unwrap();
    fs::write(lab.path().join("copies.csv"), copies).unwrap();
    lab
}

#[test]
fn an_example_of_weight_two_counts_as_two() {
    let lab = weighted_lab();
    let objective = |flags: &str| {
        let report = json(&lab, &format!("train {flags} --workers 1"));
        report["result"]["objective"].as_f64().unwrap()
    };
    for model in ["ridge --label y --tol 0", "softmax --label class --tol 1e-8"] {
        let ignored = if model.starts_with("ridge") { "class" } else { "y" };
        let by_column = objective(&format!("{model} --data once.csv --ignore {ignored} --weight-column w"));
        let by_copies = objective(&format!("{model} --data copies.csv --ignore {ignored},w"));
        assert!((by_column - by_copies).abs() < 1e-6 * by_copies, "{model}: {by_column} {by_copies}");
        let without = objective(&format!("{model} --data once.csv --ignore {ignored},w"));
        assert!((by_column - without).abs() > 0.01 * without, "{model}: {by_column} {without}");
    }
    // The class of few examples is found more often if it has more weight.
    let recall = |flags: &str| {
        run(&lab, &format!("train softmax --label class --data once.csv --ignore y,w {flags} --output model -q"));
        let found = run(&lab, "predict --model model --data once.csv");
        found.lines().filter(|class| *class == "rare").count()
    };
    let (equal, balanced, heavy) = (recall(""), recall("--class-weight balanced"), recall("--class-weight rare=1000"));
    assert!(equal < balanced && balanced < heavy, "{equal} {balanced} {heavy}");
    for (command, says) in [
        ("train softmax --data once.csv --label class --weight-column w --folds 3", "a weight belongs to a row"),
        ("search ridge --data once.csv --label y --ignore class --weight-column w", "a weight belongs to a row"),
        ("train softmax --data once.csv --label class --class-weight none=2", "`none`"),
        ("train softmax --data once.csv --label class --class-weight rare", "cannot open `rare`"),
        ("train ridge --data once.csv --label y --ignore class --weight-column none", "none"),
        ("train ridge --data once.csv --label y --class-weight balanced", "set by `--weight-column COLUMN`"),
    ] {
        let refused = hemiola(&lab, command);
        assert_eq!(refused.code, Some(2), "{command}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(says), "{command}: {}", text(&refused.stderr));
    }
}

#[test]
fn folds_hold_out_quantities_at_random() {
    let lab = lab();
    let flags = "train ridge --data prices.csv --label price --alpha 0 --folds 5 --workers 1";
    let report = json(&lab, flags);
    let sizes: Vec<&Value> = report["folds"].as_array().unwrap().iter().map(|fold| &fold["held_out"]).collect();
    assert_eq!(sizes, [&Value::from(12); 5], "{report}");
    assert!(report["mean"]["rmse"].as_f64().unwrap() < 1e-6, "{report}");
    run(&lab, &format!("{flags} --output model --report run.json -q"));
    let trained: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(trained["cross_validation"]["mean"], report["mean"]);
    assert_eq!(trained["data"]["train"], 60);
}

#[test]
fn predictions_are_written_as_tables_with_ids() {
    let lab = lab();
    for (train, data, id, header, cells) in [
        ("fm --data clicks.libsvm --epochs 2", "clicks.libsvm", "", "row,prediction,probability_1", 3),
        ("ridge --label price --data prices.csv", "prices.csv", "", "row,prediction", 2),
        (
            "softmax --label group --ignore id --data groups.csv",
            "groups.csv",
            "--id-column id",
            "id,prediction,probability_ash,probability_birch,probability_cedar",
            5,
        ),
        ("kmeans -k 3 --label group --ignore id --data groups.csv", "groups.csv", "", "row,cluster,distance", 3),
    ] {
        run(&lab, &format!("train {train} --output model --workers 1 -q"));
        let lines = run(&lab, &format!("predict --model model --data {data}"));
        let table = run(&lab, &format!("predict --model model --data {data} {id} --output -"));
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0].join(","), header, "{train}");
        assert!(rows.iter().all(|row| row.len() == cells), "{train}: {table}");
        // In the table, quantities are written as in JSON: `20.0`.
        let value = |cell: &str| cell.parse::<f64>().map_or_else(|_| cell.to_owned(), |value| value.to_string());
        let predicted: Vec<String> = rows[1..].iter().map(|row| value(row[1])).collect();
        assert_eq!(predicted, lines.lines().map(value).collect::<Vec<_>>(), "{train}");
        let first = if id.is_empty() { ["1", "2"] } else { ["0", "1"] };
        assert_eq!([rows[1][0], rows[2][0]], first, "{train}");
        run(&lab, &format!("predict --model model --data {data} {id} --output found.jsonl"));
        let found = fs::read_to_string(lab.path().join("found.jsonl")).unwrap();
        let last: Value = serde_json::from_str(found.lines().last().unwrap()).unwrap();
        let titles: Vec<&str> = header.split(',').collect();
        assert_eq!(last.as_object().unwrap().len(), titles.len(), "{train}: {last}");
        let last_cell: f64 = rows[rows.len() - 1][cells - 1].parse().unwrap();
        assert_eq!(last[titles[cells - 1]].as_f64(), Some(last_cell), "{train}: {last}");
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
    run(&lab, "train ridge --label price --data prices.csv --output model -q");
    let refused = hemiola(&lab, "predict --model model --data prices.csv --output found.txt");
    assert!(refused.code == Some(2) && text(&refused.stderr).contains("format"), "{}", text(&refused.stderr));
}

#[test]
fn wrong_use_is_refused() {
    let lab = lab();
    run(&lab, "train kmeans --data groups.csv --label group --output groups -q");
    for (command, says) in [
        ("train fm --data clicks.libsvm --rank 5000", "`rank` is `5000`"),
        ("train fm --data groups.csv --label group --ignore id", "more than two different values"),
        ("train fm --data groups.csv --label group --ignore id --loss squared", "are names, such as `ash`"),
        ("train ridge --data groups.csv --label group", "are names, such as `ash`"),
        ("train ridge --data prices.csv --label price --alpha=-1", "`alpha` is `-1`"),
        ("train softmax --data prices.csv --label size -C 0", "`c` is `0`"),
        ("train kmeans --data prices.csv --clusters 61", "61 clusters need as many rows, and there are 60"),
        ("train kmeans --data groups.csv", "has words in column `group`"),
        ("train kmeans --data prices.csv --clusters 0", "`clusters` is `0`"),
        ("train kmeans --zero-based", "the data are synthetic"),
        ("train svm --data clicks.libfm", "--zero-based"),
        ("coefficients --model groups", "has no coefficients to list"),
        ("recommend --model groups --user 1", "is a k-means clustering"),
        ("predict --model groups", "add `--data FILES`"),
        ("train svm --data clicks.libsvm --output groups", "holds a model `kmeans`"),
    ] {
        let refused = hemiola(&lab, command);
        assert_eq!(refused.code, Some(2), "{command}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(says), "{command}: {}", text(&refused.stderr));
    }
}

#[test]
fn events_are_ranked_by_bpr() {
    let lab = crate::model::lab();
    let command = "train mf --data ratings.csv --loss bpr --event-threshold 4 --rank 4 --lr 0.2 --epochs 60 --patience 0 --workers 1";
    run(&lab, &format!("{command} --output model --report run.json"));
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert_eq!(report["settings"]["loss"], "bpr", "{report}");
    assert!(report["result"]["validation"]["ndcg@10"].as_f64().unwrap() > 0.3, "{report}");
    let best = run(&lab, "recommend --model model --user person-2 -k 3 --titles titles.txt");
    let even = |line: &str| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap().is_multiple_of(2);
    assert!(best.lines().count() == 3 && best.lines().all(even), "an even person likes even films: {best}");
    let found = run(&lab, "recommend --model model --ratings film-1:1,film-3:1,film-5:1 -k 3 --titles titles.txt");
    assert!(found.lines().count() == 3 && !found.lines().any(even), "{found}");
    assert_eq!(run(&lab, "similar --model model --item film-6 -k 2").lines().count(), 2);
    let evaluated = run(&lab, "evaluate --model model --data ratings.csv --event-threshold 4");
    assert!(evaluated.contains("ndcg@10"), "{evaluated}");
    run(&lab, &format!("{command} --peers 2 --output peers"));
    let scores = |model: &str| json(&lab, &format!("recommend --model {model} --user person-7 -k 30"));
    assert_eq!(scores("model"), scores("peers"), "bit-identical on two peers");
    for (flag, says) in [
        ("--unobserved-weight 0.1", "which needs the loss `one-class`"),
        ("--frequency-exponent 1", "which needs the loss `one-class`"),
        ("--profile x.json", "not those of events"),
    ] {
        let refused = hemiola(&lab, &format!("{command} {flag}"));
        assert!(refused.code == Some(2) && text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
}
