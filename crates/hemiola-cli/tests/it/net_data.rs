//! Data of nets: image files, tokenizers, tables; and the interruption of a training on them.

use crate::model::{refused, said, text};
use crate::support::{launch, subcommand};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn json_of(lab: &TempDir, arguments: &str) -> Value {
    serde_json::from_str(&said(lab, &format!("{arguments} --report -"))).unwrap()
}

/// Writes an image of 10 by 8 pixels with a bright upper or lower half.
fn image(path: &Path, upper: bool, number: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    let mut encoder = png::Encoder::new(file, 8, 10);
    encoder.set_color(png::ColorType::Rgb);
    let tone = |row: u32, at: u32| {
        let noise = (number * 31 + at * 17 + row * 7) % 90;
        (if (row < 5) == upper { 160 + noise } else { noise }) as u8
    };
    let pixels: Vec<u8> = (0..10).flat_map(|row| (0..24).map(move |at| tone(row, at))).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
}

#[test]
fn folders_of_images_train_and_evaluate_classifiers() {
    let lab = tempfile::tempdir().unwrap();
    for number in 0..60 {
        let class = if number % 2 == 0 { "upper" } else { "lower" };
        image(&lab.path().join(format!("all/{class}/{number}.png")), number % 2 == 0, number);
    }
    for number in 100..110 {
        image(&lab.path().join(format!("plain/{number}.png")), number < 105, number);
    }
    let flags =
        "--data all --image-size 6 --validation 0.25 --random-flip --random-crop 1 --epochs 6 --batch-size 9 --lr 0.02";
    let trained = json_of(&lab, &format!("train mlp {flags} --hidden 8 --output net -q"));
    assert_eq!((&trained["data"]["train"], &trained["data"]["validation"]), (&json!(45), &json!(15)));
    let evaluation = json_of(&lab, "evaluate --model net --data all");
    assert_eq!(evaluation["examples"], 60);
    assert!(evaluation["metrics"]["accuracy"].as_f64().unwrap() > 0.9, "{evaluation}");
    let predicted = said(&lab, "predict --model net --data plain");
    let classes: Vec<&str> = predicted.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(classes, [["upper"; 5], ["lower"; 5]].concat());
    assert!(said(&lab, "predict --model net --data plain/109.png").starts_with("lower "));
    assert!(said(&lab, "show net").contains("images of 6 by 6 pixels in 3 channels; 2 classes: lower, upper"));
    // Another augmentation is another training.
    let told = refused(
        &lab,
        "train mlp --data all --image-size 6 --validation 0.25 --hidden 8 --epochs 9 --batch-size 9 --lr 0.02 --output net --resume",
    );
    assert!(told.contains("augmentation"), "{told}");
    fs::write(lab.path().join("all/upper/x.jpg"), b"\xff\xd8 no image").unwrap();
    let told = refused(&lab, "train mlp --data all --epochs 1");
    assert!(told.contains("x.jpg") && told.contains("cannot be decoded"), "{told}");
}

/// A tokenizer of bytes and two merges, as GPT-2 has it.
fn tokenizer() -> Value {
    let is_printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut letters: Vec<String> = (0..256).filter(is_printable).filter_map(char::from_u32).map(String::from).collect();
    letters.extend((0x100..0x100 + 256 - letters.len() as u32).filter_map(char::from_u32).map(String::from));
    letters.extend(["th", "the"].map(str::to_owned));
    let vocab: serde_json::Map<String, Value> =
        letters.iter().enumerate().map(|(number, token)| (token.clone(), number.into())).collect();
    json!({
        "added_tokens": [{ "id": letters.len(), "content": "<|endoftext|>" }],
        "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false },
        "model": { "type": "BPE", "vocab": vocab, "merges": ["t h", "th e"] }
    })
}

#[test]
fn language_models_take_a_tokenizer_and_a_column_of_texts() {
    let lab = tempfile::tempdir().unwrap();
    fs::write(lab.path().join("tokenizer.json"), tokenizer().to_string()).unwrap();
    fs::write(lab.path().join("text.txt"), "the bee, the tree\n".repeat(80)).unwrap();
    let mut rows = String::new();
    for row in 0..80 {
        let _ = writeln!(rows, "{}", json!({ "row": row, "body": "the bee, the tree" }));
    }
    fs::write(lab.path().join("rows.jsonl"), rows).unwrap();
    let sizes =
        "--tokenizer tokenizer.json --sequence-length 16 --embedding-size 12 --epochs 8 --batch-size 4 --lr 0.02";
    for (net, data) in [
        ("lstm", "--data text.txt --hidden-size 24"),
        ("gpt", "--data rows.jsonl --text-column body --heads 2 --blocks 1 --dropout 0"),
    ] {
        let told = said(&lab, &format!("train {net} {sizes} {data} --output {net}"));
        assert!(told.contains("tokens, 259 distinct"), "{told}");
        let told = said(&lab, &format!("generate --model {net} --prompt the --length 14 --temperature 0"));
        assert!(told.starts_with("the bee, the") || told.starts_with("the tree"), "{net}: {told:?}");
    }
    assert!(said(&lab, "evaluate --model lstm --data text.txt").contains(" tokens\n"));
    let mut other = tokenizer();
    other["model"]["type"] = json!("WordPiece");
    fs::write(lab.path().join("other.json"), other.to_string()).unwrap();
    let told = refused(&lab, "train lstm --data text.txt --tokenizer other.json");
    assert!(told.contains("other.json") && told.contains("`WordPiece`"), "{told}");
    let told = refused(&lab, "train lstm --data rows.jsonl --text-column text");
    assert!(told.contains("no column `text`"), "{told}");
}

#[test]
fn ratings_of_json_lines_train_a_collaborative_filter() {
    let lab = tempfile::tempdir().unwrap();
    let mut rows = String::new();
    for row in 0..40 {
        let (user, item, stars) = (row % 8, row / 8, row % 5);
        let _ = writeln!(rows, "{{\"user\": \"u{user}\", \"item\": \"i{item}\", \"stars\": {stars}}}");
    }
    fs::write(lab.path().join("ratings.jsonl"), rows).unwrap();
    let told = said(&lab, "train ncf --data ratings.jsonl --embedding-size 2 --hidden 4 --epochs 1 --validation 0");
    assert!(told.contains("40 ratings of 8 users for 5 items") || told.contains("40 ratings"), "{told}");
}

#[test]
fn a_signal_stops_a_net_within_an_epoch_and_it_resumes_with_equal_bits() {
    let lab = tempfile::tempdir().unwrap();
    // The epoch takes several seconds: a signal leaves one that does not end in a second.
    let flags = "train cnn --epochs 1 --batch-size 8 --channels 64,96 --hidden 16 --max-examples 1600 --workers 1";
    let whole = json_of(&lab, &format!("{flags} --quiet"));
    let (name, arguments) = flags.split_once(' ').unwrap();
    let mut command = subcommand(name);
    command.args(arguments.split_whitespace()).args(["--output", "net"]).current_dir(lab.path());
    let running = launch(&mut command);
    assert!(running.line().contains("1600 synthetic images"));
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_eq!(ended.code, Some(143), "{}", text(&ended.stderr));
    assert!(
        text(&ended.stderr)
            .contains("training stops after this epoch, or in it if it is long, then the model is saved")
    );
    let told = text(&ended.stdout);
    let place = told.lines().find_map(|line| line.strip_prefix("stopped in epoch 1 after step ")).unwrap();
    assert!(place.strip_suffix(" of 200").unwrap().parse::<u32>().unwrap() < 200, "{told}");
    let resumed = json_of(&lab, &format!("{flags} --quiet --output net --resume"));
    let curve =
        |report: &Value| (report["progress"][0]["objective"].clone(), report["progress"][0]["validation"].clone());
    assert_eq!(curve(&resumed), curve(&whole));
    for (flag, expected) in [("0steps", "no interval"), ("2h", "no interval"), ("-3s", "--checkpoint-every")] {
        let told = refused(&lab, &format!("{flags} --output other --checkpoint-every={flag}"));
        assert!(told.contains(expected), "{told}");
    }
}
