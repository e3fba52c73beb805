//! Public data sets have their published sizes and statistics.

use hemiola_nn::data::{Dataset as _, ImageDataset, RatingDataset, TextDataset};
use hemiola_testkit::{data, require};

#[test]
fn mnist() {
    let folder = require!(data("mnist"));
    let [train, test] = ImageDataset::read(&folder).unwrap();
    assert_eq!((train.len(), test.len(), train.shape(), train.classes()), (60_000, 10_000, [1, 28, 28], 10));
    let [mean, deviation] = train.normalization().next().unwrap();
    assert!((mean - 0.1307).abs() < 5e-5 && (deviation - 0.3081).abs() < 5e-5, "{mean} {deviation}");
}

#[test]
fn cifar_10_as_jpeg_files() {
    let file = require!(data("cifar10-jpeg/test.jpk.zst"));
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    let (test, has_labels) = ImageDataset::read_for(&file, [3, 32, 32], &classes).unwrap();
    assert_eq!((test.len(), test.shape(), has_labels), (10_000, [3, 32, 32], true));
    let mut counts = [0; 10];
    test.labels().iter().for_each(|label| counts[*label as usize] += 1);
    assert_eq!(counts, [1000; 10]);
    // Means of the channels of the original test set are 0.494, 0.485 and 0.450.
    let means: Vec<f32> = test.normalization().map(|[mean, _]| mean).collect();
    for (mean, wanted) in means.iter().zip([0.494, 0.485, 0.450]) {
        assert!((mean - wanted).abs() < 0.004, "{means:?}");
    }
}

#[test]
fn penn_treebank() {
    let folder = require!(data("ptb"));
    let path = |part: &str| folder.join(format!("ptb.{part}.txt.zst")).to_str().unwrap().to_owned();
    let (train, vocabulary) = TextDataset::read(&path("train"), 35).unwrap();
    let valid = TextDataset::read_with(&path("valid"), 35, &vocabulary).unwrap();
    assert_eq!((train.words(), valid.words(), vocabulary.len()), (929_589, 73_760, 10_000));
}

#[test]
fn movielens() {
    let file = require!(data("movielens-100k/u.data.zst"));
    let ratings = RatingDataset::read(file.to_str().unwrap()).unwrap();
    assert_eq!((ratings.len(), ratings.users(), ratings.items()), (100_000, 943, 1682));
    assert!((ratings.mean() - 3.52986).abs() < 1e-9);
}
