//! Data from the command line: several files, standard input, archives, tables and duplicates.
//!
//! Each way of passing the same data must give the same model, bit for bit.

use crate::model::text;
use crate::support::{command, subcommand};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

const TRAIN: &str = "train mf --epochs 3 --rank 4 --workers 1 --validation 0 -q";

/// Ratings with the same users and items in all parts.
fn ratings(lines: std::ops::Range<u32>) -> String {
    lines.fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "u{},i{},{}", line % 13, line / 13 % 17, line % 9 % 5 + 1);
        text
    })
}

const HEADER: &str = "user,item,rating\n";

/// Writes `all.csv`, and its lines as three parts in `parts/`.
fn lab() -> tempfile::TempDir {
    let lab = tempfile::tempdir().unwrap();
    fs::create_dir(lab.path().join("parts")).unwrap();
    fs::write(lab.path().join("all.csv"), format!("{HEADER}{}", ratings(0..180))).unwrap();
    for (number, lines) in [0..70, 70..140, 140..180].into_iter().enumerate() {
        let part = format!("{HEADER}{}", ratings(lines));
        fs::write(lab.path().join(format!("parts/part-{number}.csv")), part).unwrap();
    }
    lab
}

/// Bytes of the arrays of a saved model.
fn arrays(model: &Path) -> Vec<u8> {
    let newest = fs::read_dir(model).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).max();
    let mut files: Vec<_> = fs::read_dir(newest.unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    files.sort();
    assert!(!files.is_empty());
    files.iter().flat_map(|path| fs::read(path).unwrap()).collect()
}

/// Trains with these arguments; returns the arrays of the model.
fn trained(lab: &Path, arguments: &str) -> Vec<u8> {
    let output = lab.join("model");
    let _ = fs::remove_dir_all(&output);
    let ended = command(lab, &format!("{TRAIN} {arguments} --output model"));
    assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
    arrays(&output)
}

/// Returns the message of a command that is wrong use.
fn refused(lab: &Path, line: &str) -> String {
    let ended = command(lab, line);
    assert_eq!(ended.code, Some(2), "{line}: {}", text(&ended.stderr));
    text(&ended.stderr)
}

#[test]
fn several_files_are_one_data_set_however_they_are_named() {
    let lab = lab();
    let expected = trained(lab.path(), "--data all.csv");
    for files in [
        "--data parts/part-0.csv parts/part-1.csv parts/part-2.csv",
        "--data parts/part-0.csv --data parts/part-1.csv --data parts/part-2.csv",
        "--data parts/part-*.csv", // no shell: the pattern arrives as it is
        "--data parts",
        "--data parts/part-0.csv parts/part-[12].csv --peers 1",
    ] {
        assert!(trained(lab.path(), files) == expected, "{files}");
    }
    let ended = command(lab.path(), "evaluate --model model --data parts/part-0.csv parts/part-1.csv");
    assert!(text(&ended.stdout).starts_with("140 ratings"), "{}", text(&ended.stdout));
    let said = refused(lab.path(), "train mf --data parts/part-0.csv parts/part-*.csv");
    assert!(said.contains("`parts/part-0.csv` is given twice; leave one out"), "{said}");
}

#[test]
fn parts_with_other_columns_are_refused_by_name() {
    let lab = lab();
    fs::write(lab.path().join("swapped.csv"), "item,user,rating\ni1,u1,3\n").unwrap();
    fs::write(lab.path().join("x.csv"), "y,a,b\n1,2,3\n0,3,1\n").unwrap();
    fs::write(lab.path().join("x2.csv"), "y,b,a\n1,2,3\n").unwrap();
    fs::write(lab.path().join("x3.csv"), "y,a,c\n1,2,3\n").unwrap();
    let said = refused(lab.path(), "train mf --data all.csv swapped.csv");
    assert!(said.contains("`all.csv` and `swapped.csv` have different columns"), "{said}");
    let said = refused(lab.path(), "train svm --data x.csv x3.csv");
    assert!(said.contains("`x.csv` and `x3.csv` have different columns"), "{said}");
    // Columns in another order are found by their names.
    assert_eq!(command(lab.path(), "train svm --data x.csv x2.csv -q --epochs 1").code, Some(0));
}

/// Trains on standard input; returns the arrays of the model.
fn trained_on_input(lab: &Path, arguments: &str, input: Stdio, bytes: &[u8]) -> Vec<u8> {
    let output = lab.join("model");
    let _ = fs::remove_dir_all(&output);
    let line = TRAIN.strip_prefix("train ").unwrap();
    let mut started = subcommand("train");
    started.args(line.split_whitespace()).args(arguments.split_whitespace()).args(["--output", "model"]);
    let mut child = started.current_dir(lab).stdin(input).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(bytes).unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ended.stderr));
    arrays(&output)
}

#[test]
fn standard_input_gives_the_model_of_the_file_on_any_number_of_peers() {
    let lab = lab();
    let all = fs::read(lab.path().join("all.csv")).unwrap();
    let packed = zstd::encode_all(&all[..], 1).unwrap();
    for peers in ["--peers 1", "--peers 2"] {
        let expected = trained(lab.path(), &format!("--data all.csv {peers}"));
        let from_pipe = |path: &str, bytes: &[u8]| {
            trained_on_input(lab.path(), &format!("--data {path} {peers}"), Stdio::piped(), bytes)
        };
        assert!(from_pipe("-", &all) == expected, "a pipe, {peers}");
        assert!(from_pipe("/dev/stdin", &packed) == expected, "a compressed pipe, {peers}");
        let file = File::open(lab.path().join("all.csv")).unwrap();
        assert!(trained_on_input(lab.path(), &format!("--data - {peers}"), file.into(), b"") == expected, "{peers}");
    }
}

#[test]
fn a_line_of_standard_input_is_named_in_a_message() {
    let lab = tempfile::tempdir().unwrap();
    let mut child = subcommand("train")
        .args(["mf", "--data", "-"])
        .current_dir(lab.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a,b,1\na,c,good\n").unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("`stdin:2:5`: expected a number, found `good`"), "{said}");
    let said = refused(lab.path(), "train mf --data -");
    assert!(said.contains("`stdin` is empty"), "{said}");
}

#[test]
fn a_named_pipe_is_read_once() {
    let lab = lab();
    let expected = trained(lab.path(), "--data all.csv");
    let pipe = lab.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let copy = "cat all.csv > pipe";
    let mut writer = std::process::Command::new("sh").args(["-c", copy]).current_dir(lab.path()).spawn().unwrap();
    assert!(trained(lab.path(), "--data pipe") == expected);
    writer.wait().unwrap();
}

#[test]
fn json_lines_and_archives_give_the_model_of_the_separated_values() {
    let lab = lab();
    let expected = trained(lab.path(), "--data all.csv");
    let mut json = String::new();
    for (number, line) in ratings(0..180).lines().enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let _ = match number % 2 {
            0 => writeln!(json, r#"{{"user": "{}", "rating": {}, "item": "{}"}}"#, fields[0], fields[2], fields[1]),
            _ => writeln!(
                json,
                r#"{{"item":"{}","at":null,"user":"{}","rating":{}.0}}"#,
                fields[1], fields[0], fields[2]
            ),
        };
    }
    fs::write(lab.path().join("all.jsonl"), &json).unwrap();
    fs::write(lab.path().join("all.jsonl.zst"), zstd::encode_all(json.as_bytes(), 1).unwrap()).unwrap();
    for files in ["all.jsonl", "all.jsonl.zst --peers 1"] {
        assert!(trained(lab.path(), &format!("--columns user,item,rating --data {files}")) == expected, "{files}");
    }
    let said = refused(lab.path(), "train mf --data all.jsonl --columns user,item,stars");
    assert!(said.contains("has no column `stars`") && said.contains("`user`, `rating`, `item`, `at`"), "{said}");
    fs::write(lab.path().join("bad.jsonl"), "{\"user\":1,\"item\":1,\"rating\":2}\n{\"user\":}\n").unwrap();
    let said = refused(lab.path(), "train mf --data bad.jsonl");
    assert!(said.contains("bad.jsonl:2:1`: expected a JSON object"), "{said}");
}

#[test]
fn examples_are_read_from_json_lines_by_the_name_of_the_label() {
    let lab = tempfile::tempdir().unwrap();
    let (mut json, mut csv) = (String::new(), "size,kind,y\n".to_owned());
    for number in 0..40 {
        let (size, kind, label) = (number % 7, number % 3, if number % 7 > 3 { "big" } else { "small" });
        let _ = writeln!(json, r#"{{"size": {size}, "kind": {kind}, "y": "{label}"}}"#);
        let _ = writeln!(csv, "{size},{kind},{label}");
    }
    fs::write(lab.path().join("a.jsonl"), json).unwrap();
    fs::write(lab.path().join("a.csv"), csv).unwrap();
    let model = |data: &str| {
        let line = format!("train svm --data {data} --label y --epochs 5 --workers 1 -q --output {data}.model");
        let ended = command(lab.path(), &line);
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        arrays(&lab.path().join(format!("{data}.model")))
    };
    assert!(model("a.jsonl") == model("a.csv"));
    let predicted = |data: &str| command(lab.path(), &format!("predict --model a.csv.model --data {data}")).stdout;
    assert_eq!(predicted("a.jsonl"), predicted("a.csv"));
}

#[cfg(not(feature = "arrow"))]
#[test]
fn a_build_without_arrow_names_the_feature_that_reads_parquet() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("a.parquet"), b"PAR1\0\0\0\0PAR1").unwrap();
    for model in ["mf", "svm"] {
        let said = refused(lab.path(), &format!("train {model} --data a.parquet"));
        assert!(said.contains("a.parquet") && said.contains("`arrow`"), "{said}");
    }
}

#[test]
fn repeated_ratings_take_the_value_that_is_asked_for_on_any_number_of_peers() {
    let lab = tempfile::tempdir().unwrap();
    // Each pair occurs three times, far apart; the oracle has each once.
    let value = |round: u32, pair: u32| pair % 4 + round * (pair % 3) + 1;
    let pairs = |values: &dyn Fn(u32) -> Vec<f64>| {
        let mut text = String::new();
        let rounds = values(0).len();
        for round in 0..rounds {
            for pair in 0..90 {
                let _ = writeln!(text, "u{},i{},{}", pair % 9, pair / 9, values(pair)[round]);
            }
        }
        text
    };
    let all = |pair: u32| (0..3).map(|round| f64::from(value(round, pair))).collect::<Vec<_>>();
    fs::write(lab.path().join("all.csv"), pairs(&all)).unwrap();
    for (name, fold) in [
        ("first", Box::new(|values: Vec<f64>| values[0]) as Box<dyn Fn(Vec<f64>) -> f64>),
        ("last", Box::new(|values| values[2])),
        ("mean", Box::new(|values| values.iter().sum::<f64>() / 3.0)),
        ("sum", Box::new(|values| values.iter().sum())),
    ] {
        fs::write(lab.path().join("one.csv"), pairs(&|pair| vec![fold(all(pair))])).unwrap();
        let expected = trained(lab.path(), "--data one.csv");
        assert!(trained(lab.path(), &format!("--data all.csv --duplicates {name}")) == expected, "{name}");
        if name == "mean" {
            let expected = trained(lab.path(), "--data one.csv --peers 2");
            assert!(trained(lab.path(), "--data all.csv --duplicates mean --peers 2") == expected, "{name}, two peers");
        }
    }
    let said = refused(lab.path(), "train mf --data all.csv");
    assert!(said.contains("`all.csv:1` and `all.csv:91` have the same user and item"), "{said}");
    assert!(said.contains("`--duplicates last`"), "{said}");
}

#[test]
fn repeated_features_of_an_example_take_the_value_that_is_asked_for() {
    let lab = tempfile::tempdir().unwrap();
    let lines = |feature: &dyn Fn(u32) -> String| {
        (0..20).fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{} {} 5:1", if line % 2 == 0 { "+1" } else { "-1" }, feature(line));
            text
        })
    };
    fs::write(lab.path().join("two.libsvm"), lines(&|line| format!("3:{line} 3:2"))).unwrap();
    fs::write(lab.path().join("sum.libsvm"), lines(&|line| format!("3:{}", line + 2))).unwrap();
    fs::write(lab.path().join("last.libsvm"), lines(&|_| "3:2".to_owned())).unwrap();
    let said = refused(lab.path(), "train svm --data two.libsvm");
    assert!(said.contains("`two.libsvm:1`") && said.contains("`--duplicates"), "{said}");
    for name in ["sum", "last"] {
        let model = |arguments: &str| {
            let line = format!("train svm {arguments} --epochs 3 --workers 1 -q --output m");
            assert_eq!(command(lab.path(), &line).code, Some(0), "{line}");
            arrays(&lab.path().join("m"))
        };
        let expected = model(&format!("--data {name}.libsvm"));
        assert!(model(&format!("--data two.libsvm --duplicates {name}")) == expected, "{name}");
    }
}

#[test]
fn a_folder_of_texts_has_a_document_in_each_file() {
    let lab = tempfile::tempdir().unwrap();
    for number in 0..12 {
        let group = lab.path().join(format!("posts/group-{}", number % 2));
        fs::create_dir_all(&group).unwrap();
        let words = ["ship harbour storm\nship\n", "bread oven\r\nflour bread\n"][number % 2];
        fs::write(group.join(format!("{number}")), words).unwrap();
    }
    let train = |arguments: &str| {
        let ended = command(lab.path(), &format!("train lda --topics 2 --epochs 2 {arguments}"));
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
        (text(&ended.stdout), text(&ended.stderr))
    };
    let (said, note) = train("--data posts --output topics");
    assert!(said.contains("12 documents of 48 tokens over 6 words (each file is a document)"), "{said}");
    assert!(note.contains("`--documents lines`"), "{note}");
    let (said, note) = train("--data posts/group-0 --documents files");
    assert!(said.contains("6 documents of 24 tokens") && !note.contains("--documents"), "{said}{note}");
    let (said, _) = train("--data posts/group-0");
    assert!(said.contains("12 documents of 24 tokens over 3 words (each line is a document)"), "{said}");
    let inferred = command(lab.path(), "infer --model topics --data posts/group-1 --documents files");
    assert_eq!(text(&inferred.stdout).lines().count(), 7, "{}", text(&inferred.stderr));
}

#[test]
fn a_column_of_texts_is_a_corpus() {
    let lab = tempfile::tempdir().unwrap();
    let lines = "{\"id\": 1, \"text\": \"ship harbour\\nstorm\"}\n{\"id\": 2, \"text\": \"ship storm harbour\"}\n";
    fs::write(lab.path().join("posts.jsonl"), lines).unwrap();
    let said = refused(lab.path(), "train lda --data posts.jsonl");
    assert!(said.contains("`--text-column NAME`"), "{said}");
    let ended = command(lab.path(), "train lda --topics 2 --epochs 1 --data posts.jsonl --text-column text");
    let said = text(&ended.stdout);
    assert!(
        said.contains("2 documents of 6 tokens over 3 words (each text is a document)"),
        "{said}{}",
        text(&ended.stderr)
    );
}

#[test]
fn a_missing_file_is_explained() {
    let lab = lab();
    for (line, hint) in [
        ("train mf --data al.csv", "did you mean `all.csv`?"),
        ("train mf --data nothing/like/this.csv", "paths are relative to `"),
        ("train mf --data parts/part-0.csv,parts/part-1.csv", "separate several files by spaces"),
        ("train mf --data all.csv/u.data", "it is a file and no zip archive"),
    ] {
        let said = refused(lab.path(), line);
        assert!(said.contains(hint), "{line}: {said}");
    }
}

/// The archive is written by Python.
#[test]
fn members_of_an_archive_are_read_by_name() {
    let python = hemiola_testkit::require!(hemiola_testkit::python(&[]));
    let lab = lab();
    let expected = trained(lab.path(), "--data all.csv");
    let expected_of_parts = trained(lab.path(), "--data parts --peers 2");
    let pack = |archive: &str, files: &[&str]| {
        let mut packer = std::process::Command::new(&python);
        packer.args(["-m", "zipfile", "-c", archive]).args(files).current_dir(lab.path());
        assert!(packer.status().unwrap().success());
    };
    pack("one.zip", &["all.csv"]);
    pack("set.zip", &["all.csv", "parts"]);
    assert!(trained(lab.path(), "--data one.zip") == expected, "the only file");
    assert!(trained(lab.path(), "--data set.zip/all.csv --peers 1") == expected, "a member");
    assert!(trained(lab.path(), "--data set.zip/parts/*.csv --peers 2") == expected_of_parts, "a pattern");
    let said = refused(lab.path(), "train mf --data set.zip");
    assert!(said.contains("the archive contains 4 files: `all.csv`"), "{said}");
    assert!(said.contains("name one, such as `set.zip/all.csv`"), "{said}");
}

#[test]
fn a_data_set_is_split_by_fraction_class_group_and_time() {
    let lab = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..200)
        .map(|line| format!("u{},{},{}", line * line % 37, if line % 10 == 0 { "rare" } else { "often" }, line / 2))
        .collect();
    fs::write(lab.path().join("a.csv"), format!("user,kind,time\n{}\n", lines.join("\n"))).unwrap();
    let split = |arguments: &str| {
        let ended = command(lab.path(), &format!("data split a.csv --output sets --test 0.2 {arguments}"));
        assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
        ["train", "validation", "test"].map(|set| {
            let text = fs::read_to_string(lab.path().join(format!("sets/{set}.csv"))).unwrap();
            let mut lines = text.lines().map(str::to_owned);
            assert_eq!(lines.next().as_deref(), Some("user,kind,time"));
            lines.collect::<Vec<_>>()
        })
    };
    let field = |line: &String, column: usize| line.split(',').nth(column).unwrap().to_owned();
    let sets = split("");
    assert_eq!(sets.each_ref().map(Vec::len), [140, 20, 40]);
    let mut all = sets.concat();
    all.sort();
    let mut expected = lines.clone();
    expected.sort();
    assert_eq!(all, expected, "every record is in one set");
    assert_eq!(sets, split("--seed 1"), "the seed is 1 by default");
    assert_ne!(sets, split("--seed 2"));
    let rare = |set: &Vec<String>| set.iter().filter(|line| field(line, 1) == "rare").count();
    assert_eq!(split("--by class:kind").each_ref().map(rare), [14, 2, 4]);
    let [train, validation, test] = split("--by group:user");
    let users = |set: &[String]| set.iter().map(|line| field(line, 0)).collect::<std::collections::BTreeSet<_>>();
    assert!(users(&train).is_disjoint(&users(&validation)) && users(&train).is_disjoint(&users(&test)));
    assert!(users(&validation).is_disjoint(&users(&test)) && (30..=50).contains(&test.len()), "{}", test.len());
    let [train, validation, test] = split("--by time:time");
    assert_eq!((train, validation, test), (lines[..140].to_vec(), lines[140..160].to_vec(), lines[160..].to_vec()));
    for (arguments, hint) in [
        ("--by time:at", "has no column `at`"),
        ("--by kind", "expected class, class:COLUMN, group:COLUMN or time:COLUMN"),
        ("--validation 0.9", "no records are left for training"),
        ("--by time:user --separator ;", "has no column `user`"),
    ] {
        let said = refused(lab.path(), &format!("data split a.csv --output sets --test 0.2 {arguments}"));
        assert!(said.contains(hint), "{arguments}: {said}");
    }
}

#[test]
fn examples_of_libsvm_are_split_by_class() {
    let lab = tempfile::tempdir().unwrap();
    let lines = (0..100).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{} 1:{line} 3:0.5", if line % 4 == 0 { "+1" } else { "-1" });
        text
    });
    fs::write(lab.path().join("a.libsvm"), lines).unwrap();
    let ended = command(lab.path(), "data split a.libsvm --output sets --by class --validation 0.2");
    assert_eq!(text(&ended.stdout), "sets/train.libsvm: 80 records\nsets/validation.libsvm: 20 records");
    let positive = fs::read_to_string(lab.path().join("sets/validation.libsvm")).unwrap();
    assert_eq!(positive.lines().filter(|line| line.starts_with("+1")).count(), 5);
}

#[test]
fn json_lines_and_standard_input_are_described() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("a.jsonl"), "{\"user\":\"a\",\"x\":1}\n{\"user\":\"b\",\"x\":2.5}\n").unwrap();
    let said = text(&command(lab.path(), "data describe a.jsonl").stdout);
    assert!(said.contains("json-lines") && said.contains("user") && said.contains("2.5"), "{said}");
}

#[test]
fn the_posts_of_20_newsgroups_are_documents() {
    let archive = hemiola_testkit::require!(hemiola_testkit::data("20newsgroups/20news-bydate.tar.zst"));
    hemiola_testkit::require!(hemiola_testkit::program("tar", "tar", &["--version"]));
    let lab = tempfile::tempdir().unwrap();
    let groups = ["20news-bydate-test/talk.religion.misc", "20news-bydate-test/sci.med"];
    let mut unpack = std::process::Command::new("tar");
    let mut child = unpack.arg("-x").args(groups).current_dir(lab.path()).stdin(Stdio::piped()).spawn().unwrap();
    let mut posts = zstd::Decoder::new(File::open(archive).unwrap()).unwrap();
    // The program may stop reading when it has found the groups.
    let _ = std::io::copy(&mut posts, &mut child.stdin.take().unwrap());
    assert!(child.wait().unwrap().success());
    let ended = command(lab.path(), "train lda --data 20news-bydate-test --topics 5 --epochs 1");
    let said = text(&ended.stdout);
    assert!(said.contains("647 documents of") && said.contains("(each file is a document)"), "{said}");
}

#[test]
fn what_describe_cannot_read_is_named_with_the_command_that_can() {
    let lab = tempfile::tempdir().unwrap();
    fs::create_dir(lab.path().join("digits")).unwrap();
    fs::write(lab.path().join("digits/train-images-idx3-ubyte"), b"\0\0\x08\x03").unwrap();
    fs::write(lab.path().join("prose.txt"), "To be or not to be\nthat is: the question\nwhether\n'tis nobler in\n")
        .unwrap();
    assert_eq!(command(lab.path(), "train mf --epochs 1 -q --output model").code, Some(0));
    for (path, hint) in [
        ("digits", "`hemiola train cnn --data digits`"),
        ("prose.txt", "plain text is read by `train lda`"),
        ("model", "`hemiola show model`"),
    ] {
        let said = refused(lab.path(), &format!("data describe {path}"));
        assert!(said.contains(hint), "{path}: {said}");
    }
}
