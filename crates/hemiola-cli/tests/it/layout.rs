//! Layout of files: a model reads new files as its training files, and columns go by name.

use crate::model::{hemiola, text};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Houses whose price is `3 size - 2 age`; `noise` has no influence.
fn houses() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let mut csv = String::from("price,size,age,noise\n");
    let mut last = String::from("id,size,age,noise,y\n");
    for row in 0..80 {
        let (size, age, noise) = (50 + row * 37 % 100, row * 13 % 40, row % 3);
        let price = 3 * size - 2 * age;
        let _ = writeln!(csv, "{price},{size},{age},{noise}");
        let _ = writeln!(last, "h{row},{size},{age},{noise},{price}");
    }
    write(&lab, "houses.csv", &csv);
    write(&lab, "houses.bare", csv.split_once('\n').unwrap().1);
    write(&lab, "last.csv", &last);
    lab
}

fn write(lab: &TempDir, name: &str, contents: &str) {
    fs::write(lab.path().join(name), contents).unwrap();
}

/// Runs a command that must succeed; returns its standard output and standard error.
fn succeed(lab: &TempDir, arguments: &str) -> (String, String) {
    let ended = hemiola(lab, arguments);
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    (text(&ended.stdout), text(&ended.stderr))
}

/// Runs a command that must be refused; returns its standard error.
fn refuse(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    let told = text(&ended.stderr);
    assert_eq!(ended.code, Some(2), "{arguments}: {told}{}", text(&ended.stdout));
    told
}

fn predicted(lab: &TempDir, file: &str) -> f64 {
    let (out, _) = succeed(lab, &format!("predict --model model --data {file}"));
    out.trim().parse().unwrap_or_else(|_| panic!("one number: {out}"))
}

#[test]
fn predictions_match_columns_by_name() {
    let lab = houses();
    let (out, _) = succeed(&lab, "train lasso --data houses.csv --lambda 0.001 --output model --workers 1");
    assert!(out.lines().next().unwrap().contains("label `price`, features `size`, `age`, `noise`"), "{out}");
    write(&lab, "usual.csv", "price,size,age,noise\n0,100,10,0\n");
    write(&lab, "no_label.csv", "size,age,noise\n100,10,0\n");
    write(&lab, "swapped.csv", "price,noise,age,size\n0,0,10,100\n");
    write(&lab, "empty_label.csv", "price,size,age,noise\n,100,10,0\n");
    write(&lab, "tabs.tsv", "size\tage\tnoise\n100\t10\t0\n");
    for file in ["usual.csv", "no_label.csv", "swapped.csv", "empty_label.csv", "tabs.tsv"] {
        let price = predicted(&lab, file);
        assert!((price - 280.0).abs() < 1.0, "{file}: {price}");
    }
    write(&lab, "more.csv", "noise,town,size,age\n0,7,100,10\n");
    let (out, note) = succeed(&lab, "predict --model model --data more.csv");
    assert!((out.trim().parse::<f64>().unwrap() - 280.0).abs() < 1.0, "{out}");
    assert!(note.contains("ignored column `town`"), "{note}");
    write(&lab, "less.csv", "price,size,noise\n0,100,0\n");
    assert!(refuse(&lab, "predict --model model --data less.csv").contains("has no column `age`"));
    let told = refuse(&lab, "evaluate --model model --data no_label.csv");
    assert!(told.contains("has no column `price`"), "{told}");
}

#[test]
fn files_without_a_header_need_the_right_number_of_fields() {
    let lab = houses();
    succeed(&lab, "train lasso --data houses.bare --lambda 0.001 --output model --workers 1");
    write(&lab, "all", "0,100,10,0\n");
    write(&lab, "features", "100,10,0\n");
    for file in ["all", "features"] {
        assert!((predicted(&lab, file) - 280.0).abs() < 1.0, "{file}");
    }
    write(&lab, "short", "100,10\n");
    write(&lab, "long", "0,100,10,0,0\n");
    for (file, found) in [("short", 2), ("long", 5)] {
        let told = refuse(&lab, &format!("predict --model model --data {file}"));
        assert!(told.contains(&format!("has {found} fields")) && told.contains("3 (without the label) or 4"), "{told}");
    }
    let told = refuse(&lab, "evaluate --model model --data features");
    assert!(told.contains("has 3 fields") && told.contains("4 (with the label)"), "{told}");
    write(&lab, "ragged", "0,100,10,0\n0,100,10\n");
    assert!(refuse(&lab, "predict --model model --data ragged").contains("ragged:2"));
}

#[test]
fn the_label_is_the_column_that_was_asked_for() {
    let lab = houses();
    let told = refuse(&lab, "train lasso --data last.csv");
    assert!(told.contains("`--label y`") && told.contains("`--label id`"), "{told}");
    let train = "train lasso --data last.csv --lambda 0.001 --ignore id --output model --workers 1";
    let (out, _) = succeed(&lab, &format!("{train} --label y"));
    assert!(out.contains("label `y`, features `size`, `age`, `noise`, 1 ignored"), "{out}");
    write(&lab, "new.csv", "size,age,noise\n100,10,0\n");
    assert!((predicted(&lab, "new.csv") - 280.0).abs() < 1.0);
    let (evaluated, _) = succeed(&lab, "evaluate --model model --data last.csv");
    assert!(evaluated.starts_with("80 examples"), "{evaluated}");
    succeed(&lab, &format!("{train} --label 5"));
    assert!((predicted(&lab, "new.csv") - 280.0).abs() < 1.0);
    assert!(refuse(&lab, &format!("{train} --label price")).contains("has no column `price`"));
    assert!(refuse(&lab, &format!("{train} --label id")).contains("given twice"));
    write(&lab, "a.libsvm", "1 1:1\n2 2:1\n");
    assert!(refuse(&lab, "train lasso --data a.libsvm --label y").contains("`--label` is for separated values"));
    assert!(refuse(&lab, "train lasso --data houses.csv --zero-based").contains("`--zero-based` is for LIBSVM text"));
}

#[test]
fn classes_are_predicted_from_features_alone() {
    let lab = tempfile::tempdir().unwrap();
    let mut csv = String::from("width,height,kind\n");
    for row in 0..60 {
        let _ = writeln!(csv, "{},{},{}", row % 7, 10 * (row % 2) + row % 3, if row % 2 == 0 { "rose" } else { "oak" });
    }
    write(&lab, "plants.csv", &csv);
    for model in ["svm", "logistic"] {
        succeed(&lab, &format!("train {model} --data plants.csv --label kind --output {model} --workers 1"));
        write(&lab, "new.csv", "height,width\n12,3\n1,3\n");
        let (out, _) = succeed(&lab, &format!("predict --model {model} --data new.csv"));
        assert_eq!(out.trim_end(), "oak\nrose");
        let (out, _) = succeed(&lab, &format!("evaluate --model {model} --data plants.csv"));
        assert!(out.contains("accuracy 1.0000"), "{out}");
    }
}

#[test]
fn zero_based_models_read_new_files_from_zero() {
    let lab = tempfile::tempdir().unwrap();
    let (mut train, mut test) = (String::new(), String::new());
    for row in 0..120 {
        let (label, feature) = (row % 2, 1 + row % 2);
        let _ = writeln!(train, "{label} {feature}:1{}", if row == 0 { " 0:0.5" } else { "" }.trim_end());
        let _ = writeln!(test, "{label} {feature}:1");
    }
    // Indices ascend in LIBSVM text.
    let train = train.replacen("0 1:1 0:0.5", "0 0:0.5 1:1", 1);
    write(&lab, "train.svm", &train);
    write(&lab, "test.svm", &test);
    succeed(&lab, "train logistic --data train.svm --zero-based --output model --workers 1");
    for again in ["", "--zero-based"] {
        let (out, note) = succeed(&lab, &format!("evaluate --model model --data test.svm {again}"));
        assert!(out.contains("accuracy 1.0000"), "{out}");
        assert_eq!(note, "");
        let (out, _) = succeed(&lab, &format!("predict --model model --data test.svm {again}"));
        assert!(out.lines().zip(["0", "1"].into_iter().cycle()).all(|(label, expected)| label == expected), "{out}");
    }
    let one_based = test.replace("2:", "3:").replace(" 1:", " 2:");
    write(&lab, "one.svm", &one_based);
    succeed(&lab, "train lasso --data one.svm --output model.one --workers 1");
    let (_, note) = succeed(&lab, "evaluate --model model.one --data test.svm --zero-based");
    assert!(note.contains("trained on indices from 1"), "{note}");
}

#[test]
fn ratings_are_read_by_column() {
    let lab = tempfile::tempdir().unwrap();
    let (mut csv, mut other, mut bare) =
        (String::from("id,when,user,stars,film\n"), String::from("film,stars,user\n"), String::new());
    for user in 0..20 {
        for film in 0..10 {
            let stars = 1 + (user + film) % 5;
            let _ = writeln!(csv, "{},{},u{user},{stars},f{film}", user * 10 + film, user * 1000);
            let _ = writeln!(other, "f{film},{stars},u{user}");
            let _ = writeln!(bare, "{},{},u{user},{stars},f{film}", user * 10 + film, user * 1000);
        }
    }
    write(&lab, "stars.csv", &csv);
    write(&lab, "other.csv", &other);
    write(&lab, "bare.csv", &bare);
    for columns in ["user,film,stars", "3,5,4"] {
        let (out, _) = succeed(
            &lab,
            &format!("train mf --data stars.csv --columns {columns} --rank 4 --epochs 3 --output model --workers 1"),
        );
        let first = out.lines().next().unwrap();
        assert!(first.contains("of 20 users for 10 items"), "{out}");
        assert!(first.contains("user `user`, item `film`, rating `stars`"), "{out}");
        let (expected, _) = succeed(&lab, "evaluate --model model --data stars.csv");
        for file in ["other.csv", "bare.csv"] {
            assert_eq!(succeed(&lab, &format!("evaluate --model model --data {file}")).0, expected, "{file}");
        }
        let (out, _) = succeed(&lab, "recommend --model model --user u3 --seen-in other.csv");
        assert_eq!(out, "", "all ten films are known");
    }
    write(&lab, "wrong.csv", "user,movie,stars\nu1,f1,3\n");
    assert!(refuse(&lab, "evaluate --model model --data wrong.csv").contains("has no column `film`"));
    succeed(&lab, "evaluate --model model --data wrong.csv --columns user,movie,stars");
    assert!(refuse(&lab, "train mf --data stars.csv --columns user,movie,stars").contains("has no column `movie`"));
    assert!(refuse(&lab, "train mf --data stars.csv --columns user").contains("user, item and rating"));
    write(&lab, "clicks.csv", "u1,f1\nu2,f2\n");
    assert!(refuse(&lab, "train mf --data clicks.csv").contains("`--loss one-class`"));
}

#[test]
fn a_separator_that_was_given_is_kept() {
    let lab = tempfile::tempdir().unwrap();
    let mut data = String::new();
    for row in 0..60 {
        let _ = writeln!(data, "{}~{}~{}", row % 2, row % 2 * 3, row % 5);
    }
    write(&lab, "tilde", &data);
    succeed(&lab, "train svm --data tilde --separator ~ --output model --workers 1");
    let manifest = fs::read_to_string(Path::new(lab.path()).join("model/manifest.json")).unwrap();
    assert!(manifest.contains("\"separator\""), "{manifest}");
    let (out, note) = succeed(&lab, "evaluate --model model --data tilde --separator ~");
    assert!(out.contains("accuracy 1.0000") && note.is_empty(), "{out}{note}");
    write(&lab, "comma", &data.replace('~', ","));
    let (out, note) = succeed(&lab, "evaluate --model model --data comma --separator ,");
    assert!(out.contains("accuracy 1.0000") && note.contains("separated by `,`, and were by `~`"), "{out}{note}");
}
