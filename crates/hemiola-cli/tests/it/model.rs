//! `hemiola train mf`, and use of its models.

use crate::support::{Ended, launch, subcommand};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Creates a folder with ratings of people for films: people with even numbers like even films,
/// others odd ones.
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

/// Runs a command that must succeed; returns its standard output.
pub(crate) fn said(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    text(&ended.stdout)
}

/// Runs a command of wrong use; returns its message.
pub(crate) fn refused(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    let told = text(&ended.stderr);
    assert_eq!(ended.code, Some(2), "{arguments}: {told}");
    told
}

pub(crate) fn text(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn recommendations_print_titles() {
    let lab = lab();
    let trained = hemiola(&lab, "train mf --data ratings.csv --rank 4 --output model --report run.json --workers 2");
    assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
    let told = text(&trained.stdout);
    assert!(told.contains("ratings of 40 users for 30 items") && told.contains("saved to `model`"), "{told}");

    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert_eq!((&report["model"], &report["cluster"]["workers"]), (&"mf".into(), &2.into()));
    assert!(report["result"]["validation"]["rmse"].as_f64().unwrap() < 1.0, "{report}");
    assert_eq!(report["plan"]["parallelization"]["TwoD"]["order"], "Rotation");

    let best = hemiola(&lab, "recommend --model model --user person-2 -k 3 --titles titles.txt");
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
    assert!(evaluated.contains("900 ratings, 0 of them") && evaluated.contains("rmse 0."), "{evaluated}");
}

#[test]
fn local_peers_train_the_same_model() {
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
fn invalid_arguments_are_reported_before_training_and_leave_nothing() {
    let lab = lab();
    fs::create_dir_all(lab.path().join("taken/by/others")).unwrap();
    fs::write(lab.path().join("broken.csv"), "a,b,5\na,c,good\n").unwrap();
    let cases = [
        ("train mf --data ratings.csv --output taken", "`taken` exists and is not a saved model"),
        ("train mf --data ratings.csv --output no/such/place", "cannot write to `no/such`"),
        ("train mf --data nothing.csv", "cannot open `nothing.csv`"),
        ("train mf --data ratngs.csv --peers 2", "hint: did you mean `ratings.csv`?"),
        ("train mf --data ratings.csv --validation 'no/*.csv'", "no/*.csv"),
        ("train mf --data broken.csv", "`broken.csv:2:5`: expected a number"),
        ("train mf --workers 100000", "invalid value '100000' for '--workers <N>': 100000 is not in 1..=4096"),
        ("train mf --rank 0", "`rank` is `0`, which must be from 1 to 4096"),
        ("recommend --model taken --user x", "`taken` is not a saved model"),
        ("train mf --data ratings.csv --target nan", "`nan` is not a finite number"),
        ("train mf --data ratings.csv --unobserved-weight 0.1", "hint: add `--loss one-class`, or leave it out"),
        (
            "train mf --data ratings.csv --frequency-exponent 0.5",
            "`--frequency-exponent` scales regularization by events",
        ),
        (
            "train mf --data ratings.csv --loss one-class --learning-rate 0.1",
            "`--learning-rate` is for gradient descent",
        ),
        (
            "plot nosuch.json --output x.svg",
            "hint: reports are written by `hemiola train`, `evaluate` and `topics` with `--report FILE`",
        ),
    ];
    for (arguments, expected) in cases {
        let ended = hemiola(&lab, arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
        assert_eq!(told.matches(expected).count(), 1, "printed once: {told}");
    }
    let mut names: Vec<_> = fs::read_dir(lab.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["broken.csv", "ratings.csv", "taken", "titles.txt"]);
}

#[test]
fn unknown_names_are_reported_with_suggestions() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 2 --epochs 1 --output model -q");
    fs::write(lab.path().join("films.txt"), "film-1|Alien (1979)\nfilm-2|Brazil (1985)\n").unwrap();
    let cases = [
        (
            "recommend --model model --user wilhelm",
            "the model has no user `wilhelm`\nhint: use a name of the training data",
        ),
        ("recommend --model model --user persn-12", "no user `persn-12`\nhint: did you mean `person-12`"),
        ("similar --model model --item flim-7", "no item `flim-7`\nhint: did you mean `film-7`"),
        ("similar --model model --titles titles.txt --item Film-No.9", "hint: did you mean `Film No. 9`"),
        ("similar --model model --titles films.txt --item Alein", "hint: did you mean `Alien (1979)`?"),
        (
            "similar --model model --titles titles.txt --item Film",
            "30 titles contain `Film`\nhint: choose one: `Film No.",
        ),
        ("predict --model model --ratings film-1 --item film-2", "`film-1` has no rating\nhint: write `ITEM:RATING`"),
        ("recommend --model model --ratings mine.csv", "there is no file or item `mine.csv`\nhint: check"),
        ("recommend --model model --ratings film-1:nan", "the rating of `film-1` is NaN\nhint: ratings are finite"),
        ("recommend --model model --ratings film-99:5", "the model has no item `film-99`\nhint: did you mean `film-9`"),
    ];
    for (arguments, expected) in cases {
        let ended = hemiola(&lab, arguments);
        assert_eq!(ended.code, Some(2), "{arguments}");
        assert!(text(&ended.stderr).contains(expected), "{arguments}: {}", text(&ended.stderr));
    }
}

#[test]
fn names_that_are_not_utf8_can_be_queried() {
    let lab = lab();
    fs::write(lab.path().join("latin.csv"), b"Jos\xe9,Am\xe9lie,5\nJos\xe9,Alien,1\nEva,Am\xe9lie,4\nEva,Alien,2\n")
        .unwrap();
    fs::write(lab.path().join("more.csv"), "José,Amélie,4\nEva,Alien,2\n").unwrap();
    let trained = hemiola(
        &lab,
        "train mf --data latin.csv --validation more.csv --rank 2 --epochs 2 --output model --report r.json",
    );
    assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["data"]["validation"], 2, "names are the same in both encodings");
    let predicted = hemiola(&lab, "predict --model model --user José --item Amélie");
    assert_eq!(predicted.code, Some(0), "{}", text(&predicted.stderr));
    assert!(text(&predicted.stdout).ends_with("Amélie"), "{}", text(&predicted.stdout));
}

#[test]
fn a_count_of_one_is_singular() {
    let lab = lab();
    fs::write(lab.path().join("one.csv"), "a,b,4\n").unwrap();
    let told = text(&hemiola(&lab, "train mf --data one.csv --validation 0 --epochs 1 --rank 2 --output model").stdout);
    assert!(told.starts_with("1 rating of 1 user for 1 item, 0 for validation"), "{told}");
    let told = text(&hemiola(&lab, "evaluate --model model --data one.csv").stdout);
    assert!(told.starts_with("1 rating, 0 of them"), "{told}");
}

#[test]
fn a_new_user_gets_recommendations_from_ratings() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 4 --output model -q");
    fs::write(lab.path().join("mine.csv"), "film-1,5\nfilm-2,1\nfilm-4,1\nfilm-7,5\n").unwrap();
    for ratings in ["film-1:5,film-2:1,film-4:1,film-7:5", "mine.csv"] {
        let best = hemiola(&lab, &format!("recommend --model model --ratings {ratings} -k 5 --titles titles.txt"));
        assert_eq!(best.code, Some(0), "{}", text(&best.stderr));
        let best = text(&best.stdout);
        let numbers: Vec<u32> = best.lines().map(|line| line.rsplit_once("No. ").unwrap().1.parse().unwrap()).collect();
        assert!(numbers.len() == 5 && numbers.iter().all(|number| number % 2 == 1), "{best}");
        assert!(!numbers.contains(&1) && !numbers.contains(&7), "rated items are excluded: {best}");
        let predicted =
            hemiola(&lab, &format!("predict --model model --ratings {ratings} --item film-9 --item film-8 --report -"));
        let predicted: Value = serde_json::from_str(&text(&predicted.stdout)).unwrap();
        assert!(predicted[0]["score"].as_f64().unwrap() > predicted[1]["score"].as_f64().unwrap() + 1.0, "{predicted}");
    }
}

#[test]
fn seen_items_are_excluded_and_items_are_found_by_title() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 4 --output model -q");
    let rest =
        hemiola(&lab, "recommend --model model --user person-2 -k 30 --seen-in ratings.csv --seen film-2 --report -");
    let rest: Value = serde_json::from_str(&text(&rest.stdout)).unwrap();
    let rest: Vec<u32> =
        rest.as_array().unwrap().iter().map(|item| item["item"].as_str().unwrap()[5..].parse().unwrap()).collect();
    assert!(!rest.is_empty() && rest.iter().all(|film| (2 * 7 + film) % 4 == 0 && *film != 2), "{rest:?}");
    let by_name = text(&hemiola(&lab, "similar --model model --item film-17 --titles titles.txt").stdout);
    let mut by_title = subcommand("similar");
    let by_title = launch(
        by_title.args(["--model", "model", "--titles", "titles.txt", "--item", "no. 17"]).current_dir(lab.path()),
    );
    assert_eq!(text(&by_title.end().stdout), by_name);
}

#[test]
fn cold_users_and_items_are_counted_and_reported() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 4 --output model -q");
    fs::write(lab.path().join("test.csv"), "person-1,film-1,5\nunknown,film-1,3\nperson-1,unseen,3\n").unwrap();
    let evaluated = text(&hemiola(&lab, "evaluate --model model --data test.csv --report -").stdout);
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    assert_eq!((&evaluated["entries"], &evaluated["cold"]), (&3.into(), &2.into()), "{evaluated}");
    assert!(evaluated["metrics"]["rmse"].as_f64().unwrap() > 0.0, "{evaluated}");
}

#[test]
fn events_train_without_ratings() {
    let lab = lab();
    let mut clicks = String::new();
    for person in 0..40 {
        for film in 0..30 {
            if (person + film) % 2 == 0 && (person * 5 + film * 3) % 7 != 0 {
                let _ = writeln!(clicks, "person-{person},film-{film}");
            }
        }
    }
    // A repeated event counts twice.
    clicks.push_str("person-0,film-2\n");
    fs::write(lab.path().join("clicks.csv"), clicks).unwrap();
    let trained =
        hemiola(&lab, "train mf --data clicks.csv --loss one-class --rank 4 --output model --report run.json");
    let told = text(&trained.stdout);
    assert_eq!((trained.code, text(&trained.stderr)), (Some(0), String::new()));
    assert!(told.contains("events of 40 users for 30 items") && told.contains("validation ndcg@10"), "{told}");
    let report: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
    assert!(report["result"]["validation"]["recall@10"].as_f64().unwrap() > 0.8, "{report}");
    assert!(report["plan"]["parallelization"]["OneD"].is_object(), "{}", report["plan"]["parallelization"]);
    let best = text(&hemiola(&lab, "recommend --model model --ratings film-1,film-3,film-9:2 -k 5").stdout);
    assert!(best.lines().all(|line| line.rsplit_once('-').unwrap().1.parse::<u32>().unwrap() % 2 == 1), "{best}");
    let metrics = text(&hemiola(&lab, "evaluate --model model --data clicks.csv -k 5").stdout);
    assert!(metrics.contains("means over 40 users") && metrics.contains("recall@5 0.9"), "{metrics}");

    // Ratings above a threshold are events, and a model of ratings can be evaluated by its ranking.
    let split = "train mf --data ratings.csv --loss one-class --event-threshold 4 --rank 4 --epochs 3 -q --report -";
    let report: Value = serde_json::from_str(&text(&hemiola(&lab, split).stdout)).unwrap();
    let counted = report["data"]["train"].as_u64().unwrap() + report["data"]["validation"].as_u64().unwrap();
    assert_eq!(counted, 300, "half of the 600 pairs are rated five");
    hemiola(&lab, "train mf --data ratings.csv --rank 4 --output rated -q");
    let metrics =
        text(&hemiola(&lab, "evaluate --model rated --data ratings.csv --ranking --event-threshold 5").stdout);
    // The fifteen films that a person likes rank first, rated or not.
    assert!(metrics.contains("300 of 300 entries") && metrics.contains("recall@20 1.0000"), "{metrics}");
    let refused = hemiola(&lab, "train mf --data ratings.csv --event-threshold 4");
    assert_eq!(refused.code, Some(2));
    for flag in ["--event-threshold 4", "-k 5", "--seen-in ratings.csv"] {
        let refused = hemiola(&lab, &format!("evaluate --model rated --data ratings.csv {flag}"));
        assert_eq!(refused.code, Some(2), "{flag}");
        assert!(text(&refused.stderr).contains("hint: add `--ranking`, or leave it out"), "{}", text(&refused.stderr));
    }
}

#[test]
fn hints_name_flags_of_the_command() {
    let lab = lab();
    hemiola(&lab, "train mf --data ratings.csv --rank 2 --epochs 1 --output model -q");
    fs::write(lab.path().join("twice.csv"), "person-1,film-1,5\nperson-2,film-1,5\nperson-1,film-1,3\n").unwrap();
    fs::write(lab.path().join("broken.csv"), "a,b,5\na,c,good\n").unwrap();
    for command in ["train mf", "train mf --peers 2", "evaluate --model model"] {
        let told = text(&hemiola(&lab, &format!("{command} --data twice.csv")).stderr);
        assert!(told.contains("hint: keep one of them") && !told.contains("policy"), "{command}: {told}");
    }
    let told = text(&hemiola(&lab, "evaluate --model model --data broken.csv").stderr);
    assert!(told.contains("hint: correct or remove the line") && !told.contains("--skip-bad-lines"), "{told}");
}
