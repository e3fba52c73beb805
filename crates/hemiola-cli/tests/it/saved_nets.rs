//! Use of saved nets by `evaluate`, `predict`, `recommend`, `similar`, `generate` and `show`.

use crate::model::{refused, said};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn json(lab: &TempDir, arguments: &str) -> Value {
    serde_json::from_str(&said(lab, &format!("{arguments} --report -"))).unwrap()
}

/// Writes an IDX file.
fn idx(path: &Path, extents: &[u32], bytes: &[u8]) {
    let mut file = vec![0, 0, 8, extents.len() as u8];
    file.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
    file.extend(bytes);
    fs::write(path, file).unwrap();
}

/// Image number `number` of 6 by 6 pixels, and its class of three: a bright row, with some noise.
pub(crate) fn image(number: u32) -> (Vec<u8>, u8) {
    let class = number % 3;
    let pixel = |at: u32| {
        let noise = (number * 31 + at * 17) % 60;
        (if at / 6 == 2 * class { 180 + noise } else { noise }) as u8
    };
    ((0..36).map(pixel).collect(), class as u8)
}

/// Writes 60 training images and 30 test images as MNIST has them.
pub(crate) fn digits(folder: &Path) {
    fs::create_dir(folder).unwrap();
    for (name, range) in [("train", 0..60), ("t10k", 100..130)] {
        let all: Vec<(Vec<u8>, u8)> = range.map(image).collect();
        let pixels: Vec<u8> = all.iter().flat_map(|(pixels, _)| pixels.clone()).collect();
        let labels: Vec<u8> = all.iter().map(|(_, label)| *label).collect();
        let count = all.len() as u32;
        idx(&folder.join(format!("{name}-images-idx3-ubyte")), &[count, 6, 6], &pixels);
        idx(&folder.join(format!("{name}-labels-idx1-ubyte")), &[count], &labels);
    }
}

#[test]
fn image_classifiers_are_evaluated_and_predict_classes() {
    let lab = tempfile::tempdir().unwrap();
    digits(&lab.path().join("digits"));
    for (net, flags) in
        [("mlp", "--hidden 8"), ("cnn", "--channels 2,4 --hidden 8"), ("resnet", "--stages 8 --blocks 1")]
    {
        let flags = format!("{flags} --data digits --epochs 8 --batch-size 12 --lr 0.02 --output {net}");
        let trained = json(&lab, &format!("train {net} {flags} -q"));
        let evaluation = json(&lab, &format!("evaluate --model {net} --data digits"));
        // The test set of the folder was the validation set of the training.
        for metric in ["loss", "accuracy"] {
            let (found, wanted) = (&evaluation["metrics"][metric], &trained["result"]["validation"][metric]);
            assert!(
                (found.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() < 1e-5,
                "{net} {metric}: {found} {wanted}"
            );
        }
        assert_eq!(evaluation["examples"], 30);
        assert!(evaluation["metrics"]["accuracy"].as_f64().unwrap() > 0.8, "{net}: {evaluation}");
        let counts = evaluation["confusion"]["counts"].as_array().unwrap();
        let right: u64 = (0..3).map(|class| counts[class][class].as_u64().unwrap()).sum();
        let accuracy = evaluation["metrics"]["accuracy"].as_f64().unwrap();
        assert_eq!((30.0 * accuracy).round() as u64, right);

        let predicted = json(&lab, &format!("predict --model {net} --data digits/t10k-images-idx3-ubyte"));
        let predicted = predicted.as_array().unwrap();
        let hits = (100..130).zip(predicted).filter(|(number, one)| {
            one["class"].as_str() == ["0", "1", "2"].get(usize::from(image(*number).1)).copied()
        });
        assert_eq!(hits.count() as u64, right, "{net}");
        for one in predicted {
            let all: Vec<f64> = one["probabilities"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-5 && all.len() == 3, "{one}");
            assert!(all.iter().all(|probability| *probability <= one["probability"].as_f64().unwrap()), "{one}");
        }
    }
    let told = said(&lab, "evaluate --model mlp --data digits");
    assert!(told.starts_with("30 images\naccuracy ") && told.contains("loss "), "{told}");
    assert!(told.contains("predicted") && told.lines().count() > 6, "{told}");
    let told = said(&lab, "predict --model mlp --data digits");
    let (class, probability) = told.lines().next().unwrap().split_once(' ').unwrap();
    assert!(class.parse::<u32>().unwrap() < 3 && probability.parse::<f64>().unwrap() > 0.3, "{told}");
    let told = said(&lab, "show mlp");
    assert!(told.contains("images of 6 by 6 pixels in 1 channel; 3 classes: 0, 1, 2"), "{told}");
    let shown: Value = serde_json::from_str(&said(&lab, "show mlp --json")).unwrap();
    assert_eq!(shown["architecture"]["hidden"][0], 8, "{shown}");
}

#[test]
fn wrong_uses_of_nets_name_the_way_out() {
    let lab = tempfile::tempdir().unwrap();
    digits(&lab.path().join("digits"));
    said(&lab, "train mlp --data digits --hidden 4 --epochs 1 --output net -q");
    fs::create_dir(lab.path().join("wide")).unwrap();
    for name in ["t10k", "train"] {
        idx(&lab.path().join(format!("wide/{name}-images-idx3-ubyte")), &[1, 7, 6], &[0; 42]);
        idx(&lab.path().join(format!("wide/{name}-labels-idx1-ubyte")), &[1], &[0]);
    }
    fs::create_dir(lab.path().join("more")).unwrap();
    idx(&lab.path().join("more/t10k-images-idx3-ubyte"), &[1, 6, 6], &[0; 36]);
    idx(&lab.path().join("more/t10k-labels-idx1-ubyte"), &[1], &[7]);
    idx(&lab.path().join("plain"), &[1, 6, 6], &[0; 36]);
    for (arguments, expected) in [
        ("evaluate --model net --data wide", "the images have 7 by 6 pixels in 1 channel, and the net takes 6 by 6"),
        ("evaluate --model net --data more", "the label 7, and the net knows 3 classes"),
        ("evaluate --model net --data plain", "`plain` has no labels"),
        ("evaluate --model net --data nowhere", "nowhere"),
        ("evaluate --model net --data digits --ranking", "`--ranking` has no effect: the model is a net"),
        ("predict --model net", "add `--data FILE`"),
        ("recommend --model net --user 1", "is of the kind `mlp`, and a model of users and items is needed"),
        ("similar --model net --item 1", "a model of users and items is needed"),
        ("generate --model net", "a language model is needed"),
        ("generate --model nowhere", "`nowhere` is not a saved model"),
        ("topics --model net", "is a neural net, which this command cannot use"),
    ] {
        let told = refused(&lab, arguments);
        assert!(told.contains(expected), "{arguments}: {told}");
    }
}

#[test]
fn language_models_are_evaluated_and_generate_text() {
    let lab = tempfile::tempdir().unwrap();
    let mut words = String::new();
    (0..120).for_each(|_| words += "the cat sat on the mat\nthe dog <unk> on the log\n");
    fs::write(lab.path().join("train.txt"), &words).unwrap();
    fs::write(lab.path().join("test.txt"), &words[..words.len() / 4]).unwrap();
    let sizes = "--embedding-size 12 --sequence-length 8 --lr 0.02 --epochs 4";
    for (net, flags) in [
        ("lstm", "--hidden-size 16"),
        ("transformer", "--heads 2 --blocks 1"),
        ("gpt", "--heads 2 --blocks 1 --dropout 0.05"),
    ] {
        let train = format!("train {net} {sizes} {flags} --data train.txt --validation test.txt --output {net} -q");
        let trained = json(&lab, &train);
        let evaluation = json(&lab, &format!("evaluate --model {net} --data test.txt"));
        let (found, wanted) = (&evaluation["metrics"]["perplexity"], &trained["result"]["validation"]["perplexity"]);
        assert!((found.as_f64().unwrap() - wanted.as_f64().unwrap()).abs() < 1e-4, "{net}: {found} {wanted}");
        assert!(found.as_f64().unwrap() < 3.0, "{net}: {found}");

        let generate = |rest: &str| json(&lab, &format!("generate --model {net} --prompt the {rest}"));
        let words = |text: &Value| text["text"].as_str().unwrap().to_owned();
        let best = words(&generate("--length 12 --temperature 0"));
        let next = best.split_whitespace().next().unwrap();
        assert!(["cat", "dog", "mat", "log"].contains(&next), "{best}");
        let (first, again) = (generate("--length 20 --seed 4"), generate("--length 20 --seed 4"));
        assert_eq!(first, again);
        let longer = words(&generate("--length 30 --seed 4"));
        assert!(longer.starts_with(&words(&first)), "{longer:?} {first}");
        assert_ne!(words(&first), words(&generate("--length 20 --seed 5")));
        assert_eq!(words(&generate("--length 12 --top-k 1")), best);
    }
    let told = said(&lab, "generate --model lstm --prompt bird --length 3 --temperature 0");
    assert!(told.starts_with("<unk> "), "an unknown word becomes <unk>: {told}");
    assert!(refused(&lab, "generate --model lstm --temperature -1").contains("--temperature"));
    assert!(refused(&lab, "predict --model lstm --data test.txt").contains("hemiola generate"));
    assert!(said(&lab, "show transformer").contains("text of 9 distinct words, in sequences of 8"));
    // Without `<unk>`, other words are refused.
    fs::write(lab.path().join("known.txt"), "a b c d a b c d\n".repeat(8)).unwrap();
    said(
        &lab,
        "train lstm --data known.txt --validation 0 --sequence-length 4 --embedding-size 4 --hidden-size 4 --epochs 1 --output known -q",
    );
    let told = refused(&lab, "generate --model known --prompt e");
    assert!(told.contains("does not know the word `e`"), "{told}");
}

#[test]
fn a_collaborative_filter_recommends_and_is_evaluated() {
    let lab = crate::model::lab();
    let flags = "--embedding-size 6 --hidden 8 --batch-size 64 --lr 0.02 --epochs 12 --validation 0";
    said(&lab, &format!("train ncf --data ratings.csv {flags} --output ncf -q"));
    let evaluated = said(&lab, "evaluate --model ncf --data ratings.csv");
    assert!(evaluated.starts_with("900 ratings, 0 of them of unknown users or items\nmae 0."), "{evaluated}");
    assert!(evaluated.contains("rmse 0."), "{evaluated}");
    let best = said(&lab, "recommend --model ncf --user person-2 -k 3 --titles titles.txt");
    assert_eq!(best.lines().count(), 3, "{best}");
    for line in best.lines() {
        let number: u32 = line.rsplit_once("Film No. ").unwrap().1.parse().unwrap();
        assert_eq!(number % 2, 0, "an even person likes even films: {best}");
    }
    let predicted = json(&lab, "predict --model ncf --user person-3 --item film-5 --item film-4");
    assert!(predicted[0]["score"].as_f64() > predicted[1]["score"].as_f64(), "{predicted}");
    let similar = said(&lab, "similar --model ncf --item film-6 -k 2");
    assert!(similar.lines().all(|line| line.rsplit_once('-').unwrap().1.parse::<u32>().unwrap() % 2 == 0), "{similar}");
    // Films of the training are left out on request, and single ones.
    let unseen = json(&lab, "recommend --model ncf --user person-2 -k 30 --seen-in ratings.csv");
    let rated = |film: u32| !(2 * 7 + film).is_multiple_of(4);
    assert_eq!(unseen.as_array().unwrap().len(), (0..30).filter(|film| !rated(*film)).count());
    let first = unseen[0]["item"].as_str().unwrap();
    let without =
        json(&lab, &format!("recommend --model ncf --user person-2 -k 30 --seen-in ratings.csv --seen {first}"));
    assert_eq!(without.as_array().unwrap().len() + 1, unseen.as_array().unwrap().len());

    let mut others = String::from("person,film,stars\nperson-1,film-1,5\nsomebody,film-1,5\n");
    let _ = writeln!(others, "person-1,something,1");
    fs::write(lab.path().join("others.csv"), others).unwrap();
    let evaluated = said(&lab, "evaluate --model ncf --data others.csv");
    assert!(evaluated.starts_with("3 ratings, 2 of them of unknown"), "{evaluated}");
    for (arguments, expected) in [
        ("recommend --model ncf --user person-77", "did you mean `person-7`"),
        ("recommend --model ncf --ratings film-1:5", "`--ratings` has no effect: a net has no factors for new users"),
        ("recommend --model ncf", "no user is given"),
        ("predict --model ncf --user person-1", "no user or no item is given"),
        ("predict --model ncf --data ratings.csv", "this is a model of users and items"),
    ] {
        let told = refused(&lab, arguments);
        assert!(told.contains(expected), "{arguments}: {told}");
    }
    assert!(said(&lab, "show ncf").contains("ratings of 40 users for 30 items"));
}
