//! `hemiola train` and what comes after it.

use crate::support::{Ended, launch, subcommand};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// A folder with ratings of people for films, by name: the even like the even, the odd the odd.
pub(crate) fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let mut text = String::from("person,film,stars,when\n");
    for person in 0..40 {
        for film in 0..30 {
            if (person * 7 + film) % 4 != 0 {
                let stars = if (person + film) % 2 == 0 { 5 } else { 1 };
                let _ = writeln!(text, "person-{person},film-{film},{stars},2026");
            }
        }
    }
    fs::write(lab.path().join("ratings.csv"), text).unwrap();
    let mut titles = String::new();
    (0..30).for_each(|film| writeln!(titles, "film-{film}|Film No. {film}|2026").unwrap());
    fs::write(lab.path().join("titles.txt"), titles).unwrap();
    lab
}

pub(crate) fn hemiola(lab: &TempDir, arguments: &str) -> Ended {
    let mut words = arguments.split_whitespace();
    let mut command = subcommand(words.next().unwrap());
    launch(command.args(words).current_dir(lab.path())).end()
}

pub(crate) fn text(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn names_go_in_and_titles_come_out() {
    let lab = lab();
    let trained = hemiola(&lab, "train mf --data ratings.csv --rank 4 --output model --report run.json --workers 2");
    assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
    let told = text(&trained.stdout);
    assert!(told.contains("ratings of 40 users for 30 items") && told.contains("saved to `model`"), "{told}");

    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert_eq!((&report["model"], &report["cluster"]["workers"]), (&"mf".into(), &2.into()));
    assert!(report["result"]["valid"]["rmse"].as_f64().unwrap() < 1.0, "{report}");
    assert_eq!(report["plan"]["strategy"]["TwoD"]["order"], "Rotation");

    let best = hemiola(&lab, "recommend --model model --user person-2 -k 3 --items titles.txt");
    let best = text(&best.stdout);
    assert_eq!(best.lines().count(), 3, "{best}");
    for line in best.lines() {
        let number: u32 = line.rsplit_once("Film No. ").unwrap().1.parse().unwrap();
        assert_eq!(number % 2, 0, "an even person likes even films: {best}");
    }
    let predicted = hemiola(&lab, "predict --model model --user person-3 --item film-5 --item film-4 --report -");
    let predicted: Value = serde_json::from_str(&text(&predicted.stdout)).unwrap();
    assert!(predicted[0]["score"].as_f64() > predicted[1]["score"].as_f64(), "{predicted}");
    let similar = text(&hemiola(&lab, "similar --model model --item film-6 -k 2").stdout);
    assert!(similar.lines().all(|line| line.rsplit_once('-').unwrap().1.parse::<u32>().unwrap() % 2 == 0), "{similar}");
    let evaluated = text(&hemiola(&lab, "evaluate --model model --data ratings.csv").stdout);
    assert!(evaluated.contains("900 of 900 ratings") && evaluated.contains("rmse 0."), "{evaluated}");
}

#[test]
fn peers_that_it_starts_itself_train_the_same_model() {
    let lab = lab();
    for (peers, workers) in [(1, 2), (2, 1)] {
        let ended = hemiola(
            &lab,
            &format!(
                "train mf --data ratings.csv --peers {peers} --workers {workers} --epochs 5 --report run-{peers}.json -q"
            ),
        );
        assert_eq!((ended.code, text(&ended.stdout)), (Some(0), String::new()), "{}", text(&ended.stderr));
    }
    let objective = |peers: usize| {
        let bytes = fs::read(lab.path().join(format!("run-{peers}.json"))).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()["result"]["objective"].clone()
    };
    assert_eq!(objective(1), objective(2));
}

#[test]
fn what_cannot_work_is_said_before_training_and_leaves_nothing() {
    let lab = lab();
    fs::create_dir(lab.path().join("taken")).unwrap();
    fs::write(lab.path().join("broken.csv"), "a,b,5\na,c,good\n").unwrap();
    let cases = [
        ("train mf --data ratings.csv --output taken", "`taken` exists and is no saved model"),
        ("train mf --data ratings.csv --output no/such/place", "cannot write to `no/such`"),
        ("train mf --data nothing.csv", "cannot open `nothing.csv`"),
        ("train mf --data ratngs.csv --peers 2", "hint: did you mean `ratings.csv`?"),
        ("train mf --data ratings.csv --valid 'no/*.csv'", "no/*.csv"),
        ("train mf --data broken.csv", "`broken.csv:2:5`: expected a number"),
        ("train mf --rank 0", "rank is 0, which must be from 1 to 4096"),
        ("recommend --model taken --user x", "`taken` is no saved model"),
    ];
    for (arguments, expected) in cases {
        let ended = hemiola(&lab, arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
        assert_eq!(told.matches(expected).count(), 1, "said once: {told}");
    }
    let mut names: Vec<_> = fs::read_dir(lab.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["broken.csv", "ratings.csv", "taken", "titles.txt"]);
}

#[test]
fn somebody_the_model_does_not_know_is_named() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 2 --epochs 1 --output model -q");
    let ended = hemiola(&lab, "recommend --model model --user nobody");
    assert_eq!(ended.code, Some(2));
    assert!(text(&ended.stderr).contains("the model has no user `nobody`"), "{}", text(&ended.stderr));
}
