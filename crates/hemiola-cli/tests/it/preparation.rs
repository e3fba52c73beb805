//! Preparation of features from the command line: categories, missing values, scales, text, weights.

use crate::model::{hemiola, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Creates a folder with flats: whether one was sold depends on its size and its city. Some sizes
/// are missing.
fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let (mut train, mut new) = ("sold,size,city,note\n".to_owned(), "city,note,size\n".to_owned());
    for row in 0..300 {
        let size = 50 + row * 37 % 60;
        let city = ["Bonn", "Rome", "Oslo"][row % 3];
        let sold = if (size > 80) ^ (city == "Oslo") { "yes" } else { "no" };
        let note = ["bright rooms", "dark rooms", "near the river"][row % 3];
        let size = if row % 20 == 7 { "NA".to_owned() } else { size.to_string() };
        let _ = writeln!(train, "{sold},{size},{city},{note}");
        let _ = writeln!(new, "{city},{note},{size}");
    }
    fs::write(lab.path().join("flats.csv"), train).unwrap();
    fs::write(lab.path().join("new.csv"), new).unwrap();
    lab
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const FLAGS: &str =
    "--categorical city --missing median --missing-indicator --scale standard --text-column note --tfidf";

#[test]
fn models_keep_the_preparation_and_apply_it_to_new_files() {
    let lab = lab();
    for model in ["logistic", "svm", "logistic --penalty l1 --lambda 0.001"] {
        let labels = if model.contains("l1") { "01.csv" } else { "flats.csv" };
        let numbers =
            fs::read_to_string(lab.path().join("flats.csv")).unwrap().replace("yes,", "1,").replace("no,", "0,");
        fs::write(lab.path().join("01.csv"), numbers).unwrap();
        let mut models = Vec::new();
        for peers in ["", "--peers 2", "--peers 4"] {
            let flags = format!("{FLAGS} --tolerance 1e-6 --workers 1 {peers} --output model");
            let trained = hemiola(&lab, &format!("train {model} --data {labels} {flags}"));
            assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
            let shown = hemiola(&lab, "show model --json");
            models.push(json(&text(&shown.stdout))["input"].clone());
            let evaluated = hemiola(&lab, &format!("evaluate --model model --data {labels} --report -"));
            let accuracy = json(&text(&evaluated.stdout))["metrics"]["accuracy"].as_f64().unwrap();
            assert!(accuracy > 0.6, "{model}: {accuracy}");
            let predicted = hemiola(&lab, "predict --model model --data new.csv");
            assert_eq!(text(&predicted.stdout).lines().count(), 300, "{}", text(&predicted.stderr));
        }
        assert!(models.iter().all(|input| *input == models[0]), "statistics have the same bits on any number of peers");
        assert_eq!(models[0]["preparation"]["columns"][1]["names"], serde_json::json!(["Bonn", "Oslo", "Rome"]));
        let shown = text(&hemiola(&lab, "show model").stdout);
        assert!(shown.contains("categories of `city` (3)") && shown.contains("scale standard"), "{shown}");
        let without = "city,size\nBonn,60\n";
        fs::write(lab.path().join("without.csv"), without).unwrap();
        let refused = hemiola(&lab, "predict --model model --data without.csv");
        assert_eq!(refused.code, Some(2));
        assert!(text(&refused.stderr).contains("has no column `note`"), "{}", text(&refused.stderr));
        fs::write(lab.path().join("new.libsvm"), "1 1:2 3:1\n0 2:1\n").unwrap();
        let refused = hemiola(&lab, "predict --model model --data new.libsvm");
        assert!(text(&refused.stderr).contains("prepared for separated values"), "{}", text(&refused.stderr));
        fs::remove_dir_all(lab.path().join("model")).unwrap();
    }
}

#[test]
fn a_resumed_run_prepares_features_as_before() {
    let lab = lab();
    let train = |flags: &str| {
        hemiola(
            &lab,
            &format!(
                "train logistic --data flats.csv --categorical city --ignore note --tolerance 0 --output model {flags}"
            ),
        )
    };
    assert_eq!(train("--missing mean --epochs 2").code, Some(0));
    let resumed = train("--missing mean --epochs 3 --resume");
    assert_eq!(resumed.code, Some(0), "{}", text(&resumed.stderr));
    let other = train("--missing median --epochs 4 --resume");
    assert_eq!(other.code, Some(2));
    assert!(text(&other.stderr).contains("`missing` differs"), "{}", text(&other.stderr));
}

#[test]
fn unsuitable_flags_and_columns_are_explained() {
    let lab = lab();
    fs::write(lab.path().join("two.libsvm"), "1 1:2 3:1\n-1 2:1\n1 1:-1\n-1 3:4\n").unwrap();
    for (arguments, expected) in [
        ("svm --data flats.csv", "`--categorical city,note`"),
        ("svm --data flats.csv --ignore note,city", "--missing mean"),
        ("svm --data flats.csv --categorical citty", "did you mean `city`?"),
        ("svm --data flats.csv --categorical auto --tfidf", "--text-column COLUMN"),
        ("svm --data flats.csv --categorical auto --missing-indicator", "add `--missing mean`"),
        (
            "svm --data flats.csv --categorical city --text-column note --missing zero --min-df 1000",
            "no term of column `note`",
        ),
        ("svm --data flats.csv --hash-features 10", "--categorical"),
        ("svm --data two.libsvm --scale min-max", "`--scale max-abs`"),
        ("svm --data two.libsvm --categorical auto", "`--categorical` is for separated values"),
        ("svm --data two.libsvm --tfidf", "has a negative value in column `1`"),
        ("svm --scale standard", "the data are synthetic"),
        ("svm --data two.libsvm --class-weight 1=2,7=1", "no class `7`"),
        ("svm --data flats.csv --ignore note --categorical city --missing zero --weight-column city", "given twice"),
    ] {
        let refused = hemiola(&lab, &format!("train {arguments} --output model"));
        let told = text(&refused.stderr);
        assert_eq!(refused.code, Some(2), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
        assert!(!lab.path().join("model").exists(), "{arguments}");
    }
    // Bytes that are not UTF-8 are read as Latin-1.
    let latin = b"y,city\n1,K\xf6ln\n0,Bonn\n1,K\xf6ln\n0,Bonn\n".to_vec();
    fs::write(lab.path().join("latin.csv"), latin).unwrap();
    let trained = hemiola(&lab, "train svm --data latin.csv --categorical city --output model");
    assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
    assert!(text(&hemiola(&lab, "show model --json").stdout).contains("Köln"));
}

#[test]
fn an_example_of_weight_two_counts_as_two_examples() {
    let lab = tempfile::tempdir().unwrap();
    let (mut weighted, mut copies) = ("y,w,a,b\n".to_owned(), "y,a,b\n".to_owned());
    for row in 0..120 {
        let (a, b) = (row * 31 % 17, row * 7 % 11);
        let label = usize::from(a > b + row % 5);
        let weight = row % 3;
        let _ = writeln!(weighted, "{label},{weight},{a},{b}");
        (0..weight).for_each(|_| writeln!(copies, "{label},{a},{b}").unwrap());
    }
    fs::write(lab.path().join("weighted.csv"), weighted).unwrap();
    fs::write(lab.path().join("copies.csv"), copies).unwrap();
    for (model, flags) in [
        ("svm", "--tolerance 1e-9 --epochs 3000"),
        ("svm --loss hinge", "--tolerance 1e-7 --epochs 3000"),
        ("logistic", "--tolerance 1e-9 --epochs 3000"),
    ] {
        let objective = |data: &str| {
            let trained = hemiola(&lab, &format!("train {model} --data {data} {flags} --workers 1 --report -"));
            assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
            json(&text(&trained.stdout))["result"]["objective"].as_f64().unwrap()
        };
        let (of_weights, of_copies) = (objective("weighted.csv --weight-column w"), objective("copies.csv"));
        assert!((of_weights - of_copies).abs() < 1e-5 * of_copies, "{model}: {of_weights} {of_copies}");
    }
}

#[test]
fn balanced_classes_are_those_of_scikit_learn() {
    let lab = tempfile::tempdir().unwrap();
    let mut data = "y,a\n".to_owned();
    (0..90)
        .for_each(|row| writeln!(data, "{},{}", if row % 9 == 0 { "rare" } else { "usual" }, row * 29 % 13).unwrap());
    fs::write(lab.path().join("data.csv"), data).unwrap();
    let objective = |flags: &str| {
        let trained = hemiola(
            &lab,
            &format!("train logistic --data data.csv --tolerance 1e-9 --epochs 3000 --report - --workers 1 {flags}"),
        );
        assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
        json(&text(&trained.stdout))["result"]["objective"].as_f64().unwrap()
    };
    // 90 examples, 10 of them rare: 90 / (2 * 10) and 90 / (2 * 80).
    let balanced = objective("--class-weight balanced");
    assert!((balanced - objective("--class-weight rare=4.5,usual=0.5625")).abs() < 1e-6 * balanced);
    fs::write(lab.path().join("weights.txt"), "rare 4.5\nusual 0.5625\n").unwrap();
    assert!((balanced - objective("--class-weight weights.txt")).abs() < 1e-6 * balanced);
}
