//! `hemiola train lda`, and `topics`, `infer` and `evaluate` of its models.

use crate::model::{hemiola, text};
use crate::training::arrays;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

const SEA: [&str; 8] = ["ship", "sail", "anchor", "harbour", "storm", "captain", "wave", "tide"];
const BREAD: [&str; 8] = ["bread", "flour", "oven", "yeast", "dough", "salt", "crust", "baker"];

/// Creates a folder with `text.txt`, whose lines are about the sea or about bread, and `new.txt`.
fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for line in 0..120_usize {
        let words = if line % 2 == 0 { SEA } else { BREAD };
        let word = |index: usize| words[(line / 2 * 5 + index * 3) % 8];
        let _ =
            writeln!(lines, "The {}'s {} and {}, {} of a {}! No. {line}", word(0), word(1), word(2), word(3), word(4));
    }
    fs::write(lab.path().join("text.txt"), lines).unwrap();
    fs::write(lab.path().join("new.txt"), "Ships? A ship, a sail & the TIDE\n\nflour, yeast and unheard words\n")
        .unwrap();
    lab
}

fn json(lab: &TempDir, name: &str) -> Value {
    serde_json::from_slice(&fs::read(lab.path().join(name)).unwrap()).unwrap()
}

fn works(lab: &TempDir, arguments: &str) -> String {
    let ended = hemiola(lab, arguments);
    assert_eq!(ended.code, Some(0), "{arguments}\n{}", text(&ended.stderr));
    text(&ended.stdout)
}

#[test]
fn topics_are_learned_from_text() {
    let lab = lab();
    let told =
        works(&lab, "train lda --data text.txt --topics 2 --epochs 60 --output model --report run.json --workers 2");
    assert!(told.contains("text: 120 documents of 600 tokens over 16 words"), "{told}");
    assert!(told.contains("dropped: 720 tokens that are stop words, numbers or too short"), "{told}");
    assert!(told.contains("2 topics") && told.contains("saved to `model`") && told.contains("likelihood -"), "{told}");
    let run = json(&lab, "run.json");
    assert_eq!((&run["model"], &run["data"]["shape"]), (&"lda".into(), &serde_json::json!([120, 16])));
    assert_eq!(run["progress"].as_array().unwrap().len(), 60);

    let table = works(&lab, "topics --model model --words 8 --data text.txt");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("2 topics of 600 tokens in 120 documents") && lines.len() == 4, "{table}");
    for line in &lines[2..] {
        let sea = line.contains("ship");
        let (own, other) = if sea { (SEA, BREAD) } else { (BREAD, SEA) };
        assert!(own.iter().all(|word| line.contains(word)) && !other.iter().any(|word| line.contains(word)), "{table}");
    }
    let csv = works(&lab, "topics --model model --csv --words 3");
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some("topic,share,rank,word,count,probability,lift"), 7));
    let told = works(&lab, "train lda --data text.txt --topics 2 --epochs 60 --target -3.3 --workers 1");
    assert!(told.contains("target reached"), "{told}");
    let report: Value = serde_json::from_str(&works(&lab, "topics --model model --report - --relevance 0.6")).unwrap();
    assert_eq!(report.as_array().unwrap().len(), 2);
    let sea = report
        .as_array()
        .unwrap()
        .iter()
        .find(|topic| topic["words"].as_array().unwrap().iter().any(|word| word["word"] == "ship"));
    let sea = sea.unwrap()["topic"].as_u64().unwrap() as usize;

    let shares = hemiola(&lab, "infer --model model --data new.txt");
    let lines: Vec<Vec<String>> =
        text(&shares.stdout).lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    assert_eq!(lines[0], ["document", "tokens", "unseen", "topic1", "topic2"]);
    // `ships`, `unheard` and `words` are unknown; the second line is empty.
    assert_eq!((lines[1][1].as_str(), lines[1][2].as_str()), ("3", "1"));
    assert_eq!((lines[2][1].as_str(), lines[2][2].as_str()), ("0", "0"));
    assert_eq!((lines[3][1].as_str(), lines[3][2].as_str()), ("2", "2"));
    let share = |line: usize| lines[line][2 + sea].parse::<f64>().unwrap();
    assert!(share(1) > 0.7 && share(3) < 0.3, "{lines:?}");
    assert!(text(&shares.stderr).contains("ignored 3 tokens"), "{}", text(&shares.stderr));
    assert_eq!(text(&hemiola(&lab, "infer --model model --data new.txt").stdout), text(&shares.stdout), "repeatable");
    let lines_json = works(&lab, "infer --model model --data new.txt --output-format json -k 1");
    let first: Value = serde_json::from_str(lines_json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["document"], &first["topics"][0][0], lines_json.lines().count()), (&1.into(), &sea.into(), 3));
    works(&lab, "infer --model model --data new.txt --output shares.csv");
    assert_eq!(fs::read_to_string(lab.path().join("shares.csv")).unwrap().trim(), text(&shares.stdout));

    let told = works(&lab, "evaluate --model model --data text.txt");
    assert!(told.contains("perplexity ") && told.contains("coherence ") && told.contains("log-likelihood -"), "{told}");
    let evaluation: Value =
        serde_json::from_str(&works(&lab, "evaluate --model model --data text.txt --report -")).unwrap();
    let perplexity = evaluation["metrics"]["perplexity"].as_f64().unwrap();
    assert!((7.0..12.0).contains(&perplexity), "eight words are equally likely: {perplexity}");

    works(&lab, "topics --model model --data text.txt --pyldavis vis.json");
    let vis = json(&lab, "vis.json");
    let sizes = ["vocab", "term_frequency", "topic_term_dists", "doc_topic_dists", "doc_lengths"]
        .map(|field| vis[field].as_array().unwrap().len());
    assert_eq!(sizes, [16, 16, 2, 120, 120]);
}

#[test]
fn synthetic_documents_and_generated_files_train() {
    let lab = lab();
    let told = works(&lab, "train lda --epochs 3 --explain --output one --workers 2");
    assert!(told.contains("synthetic: 1000 documents") && told.contains("20 topics"), "{told}");
    works(&lab, "data make lda --output docword.toy.txt.gz --documents 200 --words 300 --topics 5");
    let told = works(
        &lab,
        "train lda --data docword.toy.txt.gz -k 5 --epochs 5 --validation 0.2 --peers 2 --workers 1 --output two",
    );
    assert!(told.contains("docword: 200 documents") && told.contains("(words from `vocab.toy.txt`)"), "{told}");
    assert!(told.contains("validation perplexity"), "{told}");
    let tables = "train lda --data docword.toy.txt.gz -k 5 --epochs 5 --peers 2 --workers 1 --mode tables --explain";
    let told = works(&lab, &format!("{tables} --staleness 2 --bandwidth-budget 1000000"));
    assert!(told.contains("word counts are in tables") && told.contains("staleness bound 2"), "{told}");
    assert!(works(&lab, "topics --model two").contains("word"));
    assert!(works(&lab, "evaluate --model two --data docword.toy.txt.gz").contains("perplexity"));
}

#[test]
fn a_resumed_run_is_bit_identical() {
    let lab = lab();
    works(&lab, "train lda --data text.txt -k 3 --epochs 8 --workers 2 --output whole -q");
    works(&lab, "train lda --data text.txt -k 3 --epochs 5 --workers 2 --output parts -q");
    let told = works(&lab, "train lda --data text.txt -k 3 --epochs 8 --workers 2 --output parts --resume");
    assert!(told.contains("resuming after epoch 5"), "{told}");
    assert!(arrays(&lab.path().join("parts")) == arrays(&lab.path().join("whole")));
    let ended = hemiola(&lab, "train lda --data text.txt -k 4 --epochs 8 --workers 2 --output parts --resume");
    assert!(ended.code == Some(2) && text(&ended.stderr).contains("topics was 3 and is 4"), "{}", text(&ended.stderr));
    let ended = hemiola(&lab, "train lda --data new.txt --min-df 1 -k 3 --epochs 9 --output parts --resume");
    assert!(ended.code == Some(2) && text(&ended.stderr).contains("other data"), "{}", text(&ended.stderr));
}

#[test]
fn the_same_partitions_give_a_bit_identical_model_on_any_workers() {
    let lab = lab();
    for (name, flags) in [("one", "--workers 1"), ("two", "--workers 2"), ("three", "--peers 2 --workers 1")] {
        works(&lab, &format!("train lda --data text.txt -k 3 --epochs 4 --partitions 4 --output {name} -q {flags}"));
    }
    // Other numbers of peers write other files with the same contents.
    let topics = |name: &str| works(&lab, &format!("topics --model {name} --report - --words 100"));
    assert_eq!(topics("one"), topics("two"));
    assert_eq!(topics("one"), topics("three"));
}

#[test]
fn unusual_documents_train_and_invalid_ones_are_reported() {
    let lab = lab();
    let write = |name: &str, text: &str| fs::write(lab.path().join(name), text).unwrap();
    // Empty documents, counts of 0 and of more than 16 bits, words that never occur.
    write("docword.odd.txt", "6\n4\n4\n2 1 70000\n2 3 0\n5 3 2\n6 1 1\n");
    write("vocab.short.txt", "one\ntwo\n");
    write("vocab.long.txt", "one\ntwo\nthree\nfour\nfive\n");
    let told = works(
        &lab,
        "train lda --data docword.odd.txt --vocabulary vocab.long.txt -k 2 --epochs 3 --output odd --report run.json",
    );
    assert!(told.contains("6 documents of 70003 tokens over 5 words; 3 words of the vocabulary never occur"), "{told}");
    assert_eq!(json(&lab, "run.json")["data"]["train"], 70_003);
    let report: Value = serde_json::from_str(&works(&lab, "topics --model odd --report -")).unwrap();
    let tokens: u64 = report.as_array().unwrap().iter().map(|topic| topic["tokens"].as_u64().unwrap()).sum();
    assert_eq!(tokens, 70_003);
    // A model without a vocabulary takes word ids, even if a vocabulary is beside the data.
    works(&lab, "train lda --data docword.odd.txt -k 2 --epochs 2 --output nameless");
    write("vocab.odd.txt", "one\ntwo\nthree\nfour\n");
    assert!(works(&lab, "infer --model nameless --data docword.odd.txt").contains("\n2,70000,0,"));
    fs::remove_file(lab.path().join("vocab.odd.txt")).unwrap();
    // One topic, and more topics than tokens.
    write("few.ldac", "2 0:1 1:1\n1 2:1\n");
    for topics in [1, 500] {
        works(&lab, &format!("train lda --data few.ldac -k {topics} --epochs 3 --output few{topics}"));
        assert!(works(&lab, &format!("topics --model few{topics}")).contains(" of 3 tokens in 2 documents"));
    }
    // A document of a million tokens.
    let mut large = String::from("1");
    (1..=1000).for_each(|word| write!(large, " {word}:1000").unwrap());
    write("large.libsvm", &format!("{large}\n1 5:1\n1\n"));
    let told = works(&lab, "train lda --data large.libsvm -k 3 --epochs 2 --output large");
    assert!(told.contains("3 documents of 1000001 tokens over 1000 words"), "{told}");

    write("fraction.libsvm", "1 1:0.5\n");
    write("nothing.txt", "the and\nof\n");
    for (arguments, problem, hint) in [
        (
            "--data docword.odd.txt --vocabulary vocab.short.txt",
            "the vocabulary has 2 words, but ids go up to word 4",
            "",
        ),
        ("--data docword.odd.txt --vocabulary vocab.log.txt", "vocab.log.txt", "did you mean `vocab.long.txt`"),
        ("--data docword.odd.txt --stop-words english", "stop words need names", ""),
        ("--data docword.odd.txt --min-count 100000", "no words to train on", ""),
        ("--data fraction.libsvm", "document `1` has the word `1` `0.5` times", ""),
        ("--data nothing.txt", "no words to train on", ""),
        ("--data texts.txt", "texts.txt", "did you mean `text.txt`?"),
        ("--data text.txt --topics 0", "`topics` is `0`, which must be from 1", ""),
        ("--data text.txt --max-df 0", "`max_share` is `0`", ""),
        ("--data text.txt --staleness 2", "--staleness and --bandwidth-budget need tables", "--mode tables"),
        ("--data few.ldac --format docword", "three header lines", ""),
        ("--data text.txt --topic 3", "'--topic'", ""),
    ] {
        let ended = hemiola(&lab, &format!("train lda --output no {arguments}"));
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains(problem) && said.contains(hint), "{arguments}: {said}");
        assert!(!lab.path().join("no").exists(), "{arguments}");
    }
}

#[test]
fn commands_refuse_models_of_another_family() {
    let lab = lab();
    works(&lab, "train lda --data text.txt -k 2 --epochs 2 --output model -q");
    works(&lab, "train svm --epochs 2 --output svm -q");
    for (arguments, problem) in [
        ("topics --model svm", "`svm` has no topics"),
        ("infer --model svm --data new.txt", "`svm` has no topics"),
        ("predict --model model --data new.txt", "a topic model does not predict"),
        ("evaluate --model model --data text.txt --ranking", "ranking metrics need a model"),
        ("evaluate --model svm --data text.txt --zero-based", "`--zero-based` is for LIBSVM text"),
        ("train svm --output model", "must not replace"),
        ("topics --model modle", "did you mean `model`?"),
        ("topics --model model --relevance 2", "is not a number from 0 to 1"),
        ("topics --model model --pyldavis vis.json", "--data"),
        ("infer --model model --data nwe.txt", "did you mean `new.txt`?"),
    ] {
        let ended = hemiola(&lab, arguments);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains(problem), "{arguments}: {said}");
    }
}
