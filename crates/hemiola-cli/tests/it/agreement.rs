//! Peers that were started differently are refused, and so are flags and data without sense.

use crate::model::{hemiola, text};
use crate::support::run;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Ratings of twelve users for nine items.
fn ratings() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let mut csv = String::new();
    for user in 0..12 {
        for item in 0..9 {
            let _ = writeln!(csv, "{user},{item},{}", 1 + (user * item) % 5);
        }
    }
    fs::write(lab.path().join("a.csv"), &csv).unwrap();
    fs::write(lab.path().join("b.csv"), csv.replace(",3\n", ",4\n")).unwrap();
    lab
}

/// Runs three peers of which peer 1 gets other flags than the others.
fn differing(lab: &TempDir, usual: &str, other: &str) -> String {
    let hemiola = env!("CARGO_BIN_EXE_hemiola");
    let folder = lab.path().display();
    let script = format!(
        "cd {folder}; if [ $HEMIOLA_RANK = 1 ]; then exec {hemiola} train {other}; else exec {hemiola} train {usual}; fi"
    );
    let ended = run(&["-n", "3"], &script);
    let told = text(&ended.stderr);
    assert_eq!(ended.code, Some(2), "{told}");
    told
}

#[test]
fn peers_with_other_flags_are_refused() {
    let lab = ratings();
    let told = differing(&lab, "mf --data a.csv --rank 16", "mf --data a.csv --rank 8");
    assert!(told.contains("`--rank` is `8` on peer 1 and `16` on peer 0"), "{told}");
    let told = differing(&lab, "mf --data a.csv", "mf --data b.csv");
    assert!(told.contains("`--data` is `b.csv` on peer 1 and `a.csv` on peer 0"), "{told}");
    let told = differing(&lab, "mf --data a.csv --seed 3", "mf --data a.csv");
    assert!(told.contains("`--seed` is unset on peer 1 and `3` on peer 0"), "{told}");
    let told = differing(&lab, "svm --epochs 2", "logistic --epochs 2");
    assert!(told.contains("`loss` is `logistic` on peer 1"), "{told}");
}

/// Runs a training that must be refused before it starts; returns its standard error.
fn refuse(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    let told = text(&ended.stderr);
    assert_eq!(ended.code, Some(2), "{arguments}: {told}{}", text(&ended.stdout));
    told
}

#[test]
fn flags_without_effect_are_refused() {
    let lab = ratings();
    fs::write(lab.path().join("two.libsvm"), "1 1:1\n2 2:1\n1 1:2\n2 2:2\n").unwrap();
    fs::write(lab.path().join("posts.txt"), "the sea and the ship\na ship on the sea\n").unwrap();
    fs::write(lab.path().join("docs.ldac"), "2 0:1 1:2\n2 0:1 1:1\n").unwrap();
    let table = [
        ("logistic --data two.libsvm --penalty l1", "--c 3"),
        ("logistic --data two.libsvm --penalty l1", "--bias 2"),
        ("logistic --data two.libsvm --penalty l1", "--rounds 2"),
        ("logistic --data two.libsvm --penalty l1", "--sync barrier"),
        ("logistic --data two.libsvm --penalty l1", "--graph ring"),
        ("svm", "--zero-based"),
        ("svm", "--separator ,"),
        ("svm", "--label 2"),
        ("svm", "--ignore 2"),
        ("svm", "--skip-bad-lines 2"),
        ("logistic --penalty l1", "--zero-based"),
        ("svm --data a.csv", "--zero-based"),
        ("svm --data a.csv", "--skip-bad-lines 2"),
        ("svm --data two.libsvm", "--label 2"),
        ("svm --data two.libsvm", "--ignore 2"),
        ("mf", "--columns 1,2,3"),
        ("mf", "--separator ,"),
        ("mf", "--skip-bad-lines 2"),
        ("lda", "--format text"),
        ("lda", "--min-df 3"),
        ("lda", "--stop-words none"),
        ("lda --data posts.txt", "--zero-based"),
        ("lda --data posts.txt", "--skip-bad-lines 2"),
        ("lda --data docs.ldac", "--min-length 3"),
        ("lda --data docs.ldac", "--keep-numbers"),
        ("lda --data docs.ldac", "--zero-based"),
    ];
    for (command, flag) in table {
        let told = refuse(&lab, &format!("train {command} {flag}"));
        let name = flag.split(' ').next().unwrap();
        assert!(told.contains(&format!("`{name}`")), "{command} {flag}: {told}");
    }
}

#[test]
fn quantities_are_no_classes() {
    let lab = tempfile::tempdir().unwrap();
    let rows = (0..60).map(|row| format!("{}.5,{},{}\n", row * 7 % 61, row % 3, row % 5)).collect::<Vec<_>>().concat();
    fs::write(lab.path().join("prices.csv"), rows).unwrap();
    for model in ["svm", "logistic"] {
        let told = refuse(&lab, &format!("train {model} --data prices.csv"));
        assert!(told.contains("60 examples have 60 different labels") && told.contains("lasso"), "{told}");
    }
}

#[test]
fn ratings_without_sense_are_refused() {
    let lab = ratings();
    let told = refuse(&lab, "train mf --data a.csv --loss logistic");
    assert!(told.contains("no rating is 0 or below") && told.contains("one-class"), "{told}");
    let (mut clicks, mut constant) = (String::from("id,click,hour\n"), String::new());
    for row in 0..150 {
        let _ = writeln!(clicks, "{row},{},{}", row % 2, 14_102_100 + row % 24);
        let _ = writeln!(constant, "{},{},1", row / 10, row % 10);
    }
    fs::write(lab.path().join("clicks.csv"), clicks).unwrap();
    fs::write(lab.path().join("constant.csv"), constant).unwrap();
    let told = refuse(&lab, "train mf --data clicks.csv");
    assert!(
        told.contains("2 different items") && told.contains("item `click`") && told.contains("--columns"),
        "{told}"
    );
    let told = refuse(&lab, "train mf --data constant.csv");
    assert!(told.contains("ratings are 1, so there is nothing to predict") && told.contains("one-class"), "{told}");
}

#[test]
fn bytes_are_no_documents() {
    let lab = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0_u32..20_000).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(lab.path().join("random.bin"), bytes).unwrap();
    let told = refuse(&lab, "train lda --data random.bin");
    assert!(told.contains("text, not the bytes of a binary file"), "{told}");
}

#[test]
fn sizes_beyond_memory_are_errors() {
    let lab = tempfile::tempdir().unwrap();
    let wide = (0..20).map(|row| format!("{} {}:1 4294967296:1\n", row % 2, 1 + row % 2)).collect::<Vec<_>>().concat();
    fs::write(lab.path().join("wide.libsvm"), wide).unwrap();
    for model in ["svm", "logistic", "lasso"] {
        let told = refuse(&lab, &format!("train {model} --data wide.libsvm --workers 2"));
        assert!(told.contains("4294967296 features") && told.contains("this machine has"), "{told}");
    }
}

#[test]
fn counts_beyond_memory_are_errors() {
    let lab = tempfile::tempdir().unwrap();
    let (words, count) = (200, 4_000_000_000_u32);
    let mut docword = format!("1\n{words}\n{words}\n");
    for word in 1..=words {
        let _ = writeln!(docword, "1 {word} {count}");
    }
    fs::write(lab.path().join("docword.many.txt"), docword).unwrap();
    let told = refuse(&lab, "train lda --data docword.many.txt --workers 1");
    assert!(told.contains("a topic for each of 800000000000 tokens needs"), "{told}");
    assert!(told.contains("this machine has"), "{told}");
}

#[test]
fn classifiers_train_on_all_rows() {
    let lab = tempfile::tempdir().unwrap();
    let rows = (0..40).map(|row| format!("{} {}:1\n", row % 2, 1 + row % 2)).collect::<Vec<_>>().concat();
    fs::write(lab.path().join("two.libsvm"), rows).unwrap();
    for model in ["svm", "logistic"] {
        let ended = hemiola(&lab, &format!("train {model} --data two.libsvm --report run.json --workers 1"));
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        let run: serde_json::Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
        assert_eq!((&run["data"]["train"], &run["data"]["validation"]), (&40.into(), &0.into()), "{run}");
        let ended = hemiola(&lab, &format!("train {model} --data two.libsvm --validation 0.25 --workers 1"));
        assert!(text(&ended.stdout).contains("a fraction of 0.25 held out for validation"));
    }
}
