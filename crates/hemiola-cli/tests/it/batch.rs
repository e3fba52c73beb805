//! Results for many users, items, pairs and examples at once.

use crate::model::{hemiola, lab, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

fn rows(lab: &TempDir, file: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(lab.path().join(file)).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// Folder with a model of ratings.
fn trained() -> TempDir {
    let lab = lab();
    let trained = hemiola(&lab, "train mf --data ratings.csv --rank 4 --epochs 5 --output model -q");
    assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
    lab
}

#[test]
fn recommendations_of_many_users_are_those_of_each() {
    let lab = trained();
    let line = "recommend --model model --users all -k 4 --seen film-2 --seen-in ratings.csv --titles titles.txt";
    let ended = hemiola(&lab, &format!("{line} --output all.csv"));
    assert_eq!((ended.code, text(&ended.stderr), text(&ended.stdout)), (Some(0), String::new(), String::new()));
    let table = rows(&lab, "all.csv");
    assert_eq!(table[0], ["user", "rank", "item", "score", "title"]);
    assert_eq!(table.len(), 1 + 40 * 4);
    let users: BTreeSet<&String> = table[1..].iter().map(|row| &row[0]).collect();
    assert_eq!(users.len(), 40);
    for user in ["person-0", "person-17"] {
        let one = hemiola(
            &lab,
            &format!("recommend --model model --user {user} -k 4 --seen film-2 --seen-in ratings.csv --report -"),
        );
        let one: Value = serde_json::from_str(&text(&one.stdout)).unwrap();
        let own: Vec<&Vec<String>> = table.iter().filter(|row| row[0] == user).collect();
        for (rank, (row, expected)) in own.iter().zip(one.as_array().unwrap()).enumerate() {
            assert_eq!((&row[1], &row[2]), (&(rank + 1).to_string(), &expected["item"].as_str().unwrap().to_owned()));
            // The order of additions differs in the last bits.
            let difference = row[3].parse::<f64>().unwrap() - expected["score"].as_f64().unwrap();
            assert!(difference.abs() < 1e-4, "{row:?} {expected}");
            assert!(row[4].starts_with("Film No. "), "{row:?}");
        }
        assert_eq!(own.len(), 4);
    }
    // Some users, as JSON lines.
    fs::write(lab.path().join("some.txt"), "person-3\nperson-1\n").unwrap();
    assert_eq!(hemiola(&lab, "recommend --model model --users some.txt -k 2 --output some.jsonl").code, Some(0));
    let lines = fs::read_to_string(lab.path().join("some.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((lines.lines().count(), &first["user"], &first["rank"]), (4, &"person-3".into(), &1.into()));
    for (line, says) in [
        ("recommend --model model --user person-1 --output x.csv", "needs `--users FILE|all`"),
        ("recommend --model model --users all --output x.table", "cannot tell the format of `x.table`"),
        #[cfg(not(feature = "arrow"))]
        ("recommend --model model --users all --output x.parquet", "this build of `hemiola` cannot write Parquet"),
        #[cfg(feature = "arrow")]
        ("recommend --model model --users all --output x.parquet.gz", "Parquet files are compressed within"),
        ("recommend --model model --users all --output no/x.csv", "no/x.csv"),
        ("recommend --model model --users titles.txt --output x.csv", "the model has no user"),
        ("similar --model model --item film-2 --output x.csv", "needs `--items FILE|all`"),
    ] {
        let ended = hemiola(&lab, line);
        assert_eq!(ended.code, Some(2), "{line}");
        assert!(text(&ended.stderr).contains(says), "{line}: {}", text(&ended.stderr));
        assert!(!lab.path().join("x.csv").exists());
    }
}

#[test]
fn similar_items_of_many_items_are_those_of_each() {
    let lab = trained();
    assert_eq!(hemiola(&lab, "similar --model model --items all -k 3 --output similar.csv").code, Some(0));
    let table = rows(&lab, "similar.csv");
    assert_eq!((table[0].join(","), table.len()), ("item,rank,similar,score".to_owned(), 1 + 30 * 3));
    let one = hemiola(&lab, "similar --model model --item film-6 -k 3 --report -");
    let one: Value = serde_json::from_str(&text(&one.stdout)).unwrap();
    let own: Vec<&str> = table.iter().filter(|row| row[0] == "film-6").map(|row| row[2].as_str()).collect();
    let expected: Vec<&str> = one.as_array().unwrap().iter().map(|item| item["item"].as_str().unwrap()).collect();
    assert_eq!(own, expected);
}

#[test]
fn ratings_of_pairs_are_predicted_in_their_order() {
    let lab = trained();
    let pairs = "film,person\nfilm-5,person-3\nfilm-4,person-3\nfilm-5,person-3\nfilm-5,nobody\nnothing,person-3\n";
    fs::write(lab.path().join("pairs.csv"), pairs).unwrap();
    let ended = hemiola(&lab, "predict --model model --data pairs.csv --output predicted.csv");
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("2 of 5 pairs have a user or an item"), "{}", text(&ended.stderr));
    let table = rows(&lab, "predicted.csv");
    assert_eq!((table[0].join(","), table.len()), ("user,item,prediction".to_owned(), 6));
    assert_eq!(
        (&table[1][..2], &table[2][1]),
        (&["person-3".to_owned(), "film-5".to_owned()][..], &"film-4".to_owned())
    );
    assert_eq!(table[1], table[3]);
    let one = hemiola(&lab, "predict --model model --user person-3 --item film-5 --item film-4 --report -");
    let one: Value = serde_json::from_str(&text(&one.stdout)).unwrap();
    for (row, expected) in table[1..3].iter().zip(one.as_array().unwrap()) {
        assert!(
            (row[2].parse::<f64>().unwrap() - expected["score"].as_f64().unwrap()).abs() < 1e-5,
            "{row:?} {expected}"
        );
    }
    // Without a file, the table goes to standard output.
    let printed = text(&hemiola(&lab, "predict --model model --data pairs.csv").stdout);
    assert!(printed.starts_with("user,item,prediction\nperson-3,film-5,"), "{printed}");
}

#[test]
fn predictions_of_examples_have_ids_and_probabilities() {
    let lab = tempfile::tempdir().unwrap();
    let mut text_of = String::from("y,a,b\n");
    for row in 0..90 {
        let (a, b) = (row % 7, row * 5 % 11);
        let class = ["low", "mid", "high"][usize::from(a > 2) + usize::from(a > 4)];
        text_of.extend([class, ",", &a.to_string(), ",", &b.to_string(), "\n"]);
    }
    fs::write(lab.path().join("train.csv"), text_of).unwrap();
    fs::write(lab.path().join("new.csv"), "b,customer,a\n3,\"x, y\",0\n4,z,6\n").unwrap();
    for (model, columns) in [("logistic", "probability_"), ("svm", "decision_")] {
        let trained = hemiola(&lab, &format!("train {model} --data train.csv --output {model} -q --workers 1"));
        assert_eq!(trained.code, Some(0), "{}", text(&trained.stderr));
        let line = format!("predict --model {model} --data new.csv --id-column customer --output {model}.jsonl");
        let ended = hemiola(&lab, &line);
        assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
        let table = fs::read_to_string(lab.path().join(format!("{model}.jsonl"))).unwrap();
        let rows: Vec<Value> = table.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&rows[0]["customer"], &rows[1]["customer"]), (&"x, y".into(), &"z".into()));
        assert_eq!((&rows[0]["prediction"], &rows[1]["prediction"]), (&"low".into(), &"high".into()));
        let values: Vec<f64> =
            ["high", "low", "mid"].iter().map(|class| rows[0][format!("{columns}{class}")].as_f64().unwrap()).collect();
        assert!(values[1] > values[0], "{values:?}");
        if model == "logistic" {
            assert!((values.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{values:?}");
        }
    }
    let numbered = text(&hemiola(&lab, "predict --model svm --data new.csv --output -").stdout);
    assert!(numbered.starts_with("row,prediction,decision_high,decision_low,decision_mid\n1,low,"), "{numbered}");
    let refused = hemiola(&lab, "predict --model svm --data new.csv --id-column nobody --output x.csv");
    assert!(refused.code == Some(2) && text(&refused.stderr).contains("nobody"), "{}", text(&refused.stderr));
}

/// Compares the Parquet file and the CSV file of a command, cell by cell.
#[cfg(feature = "arrow")]
fn assert_same_tables(lab: &TempDir, line: &str) {
    use hemiola_array::read::{Columnar, InputFile};

    for name in ["x.csv", "x.parquet"] {
        let ended = hemiola(lab, &format!("{line} --output {name}"));
        assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
    }
    let expected = fs::read_to_string(lab.path().join("x.csv")).unwrap();
    let file = Columnar::open(&InputFile::open(lab.path().join("x.parquet")).unwrap()).unwrap();
    assert_eq!(file.columns().join(","), expected.lines().next().unwrap());
    // Any command that reads tables reads the file, ids and all.
    let described = text(&hemiola(lab, "data describe x.parquet").stdout);
    assert!(described.contains("parquet"), "{described}");
    let rows: Vec<Vec<String>> = rows(lab, "x.csv").split_off(1);
    for (index, (column, numeric)) in file.columns().iter().zip(file.numeric()).enumerate() {
        let mut found = Vec::new();
        if *numeric {
            file.read(0..file.groups(), &[column.as_str()], |(value,): (f64,)| found.push(value)).unwrap();
            let of_csv: Vec<f64> = rows.iter().map(|row| row[index].parse().unwrap()).collect();
            assert_eq!(found, of_csv, "{line}: {column}");
        } else {
            assert!(["user", "item", "similar", "customer", "prediction"].contains(&column.as_str()), "{column}");
        }
    }
}

#[cfg(feature = "arrow")]
#[test]
fn parquet_tables_have_the_cells_of_csv_tables() {
    let lab = trained();
    fs::write(lab.path().join("pairs.csv"), "film,person\nfilm-5,person-3\nfilm-4,person-3\n").unwrap();
    assert_same_tables(&lab, "recommend --model model --users all -k 4");
    assert_same_tables(&lab, "similar --model model --items all -k 3");
    assert_same_tables(&lab, "predict --model model --data pairs.csv");
    // The ids are those of the users: training on the table finds all of them.
    let retrained = hemiola(&lab, "recommend --model model --users all -k 4 --output x.parquet");
    assert_eq!(retrained.code, Some(0));
    let line = "train mf --data x.parquet --columns user,item,score --rank 2 --epochs 1 --validation 0 --output again";
    let again = hemiola(&lab, line);
    assert_eq!(again.code, Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("160 ratings of 40 users"), "{}", text(&again.stdout));
    let known = hemiola(&lab, "recommend --model again --user person-17 -k 1");
    assert_eq!(known.code, Some(0), "{}", text(&known.stderr));

    let mut numbers = String::from("y,customer,a,b\n");
    for row in 0..40 {
        let (y, a, b) = (row % 2, row % 7 + 3 * (row % 2), row * 5 % 11);
        numbers.extend([&y.to_string(), ",c", &row.to_string(), ",", &a.to_string(), ",", &b.to_string(), "\n"]);
    }
    fs::write(lab.path().join("rows.csv"), numbers).unwrap();
    for model in ["logistic", "svm", "softmax", "fm", "ridge"] {
        let line = format!("train {model} --data rows.csv --ignore customer --epochs 3 --output {model} -q");
        let ended = hemiola(&lab, &line);
        assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
        assert_same_tables(&lab, &format!("predict --model {model} --data rows.csv --id-column customer"));
        assert_same_tables(&lab, &format!("predict --model {model} --data rows.csv"));
    }
}
