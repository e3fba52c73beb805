//! Real sets are what they are known to be.
#![expect(clippy::print_stdout, reason = "whoever runs the tests wants to know what was skipped")]

use hemiola_nn::data::{Examples as _, Images, Ratings, Text};
use std::path::PathBuf;

/// A file or folder of the data that are there.
fn data(path: &str) -> Option<PathBuf> {
    let Some(data) = std::env::var_os("HEMIOLA_DATA") else {
        println!("skipped: HEMIOLA_DATA is not set");
        return None;
    };
    Some(PathBuf::from(data).join(path))
}

#[test]
fn mnist() {
    let Some(folder) = data("mnist") else { return };
    let [train, test] = Images::read(&folder).unwrap();
    assert_eq!((train.len(), test.len(), train.shape(), train.classes()), (60_000, 10_000, [1, 28, 28], 10));
    let [mean, deviation] = train.tones().next().unwrap();
    assert!((mean - 0.1307).abs() < 5e-5 && (deviation - 0.3081).abs() < 5e-5, "{mean} {deviation}");
}

#[test]
fn penn_treebank() {
    let Some(folder) = data("ptb") else { return };
    let path = |part: &str| folder.join(format!("ptb.{part}.txt.zst")).to_str().unwrap().to_owned();
    let (train, vocabulary) = Text::read(&path("train"), 35).unwrap();
    let valid = Text::read_with(&path("valid"), 35, &vocabulary).unwrap();
    assert_eq!((train.words(), valid.words(), vocabulary.len()), (929_589, 73_760, 10_000));
}

#[test]
fn movielens() {
    let Some(file) = data("movielens-100k/u.data.zst") else { return };
    let ratings = Ratings::read(file.to_str().unwrap()).unwrap();
    assert_eq!((ratings.len(), ratings.users(), ratings.items()), (100_000, 943, 1682));
    assert!((ratings.mean() - 3.52986).abs() < 1e-9);
}
