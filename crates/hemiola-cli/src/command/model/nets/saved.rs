//! Use of saved nets by `evaluate`, `predict`, `recommend` and `similar`: the library computes, and
//! the results are printed as those of other models.

use super::super::linear::confusion_table;
use super::super::names::{TitlesFile, lines, user};
use super::super::serving::ModelArgs;
use super::super::train_args::must_exist;
use super::NetUse;
use super::text::in_folder;
use crate::error::CommandError;
use crate::output;
use crate::plural::counted;
use hemiola_cluster::Error;
use hemiola_models::linear::ConfusionMatrix;
use hemiola_models::training::Metrics;
use hemiola_nn::data::ImageDataset;
use hemiola_nn::models::Device;
use hemiola_nn::saved::{
    ImageClassifier, ImageEvaluation, ImageInput, NetInput, RatingEvaluation, SavedNet, TextEvaluation,
};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Reads a saved net, with a note if an older checkpoint had to be read.
pub(super) fn open(folder: &Path) -> anyhow::Result<SavedNet> {
    let net = SavedNet::open(folder).map_err(Error::from)?;
    net.warning().into_iter().for_each(output::note);
    Ok(net)
}

/// Uses a saved net, and prints or reports the result.
pub(in super::super) fn use_net(common: &ModelArgs, wanted: NetUse<'_>) -> anyhow::Result<ExitCode> {
    let net = open(&common.model)?;
    match (wanted, &net.description().input) {
        (NetUse::Evaluate { data }, NetInput::Images(_)) => evaluate_images(common, &net, data),
        (NetUse::Evaluate { data }, NetInput::Text(_)) => evaluate_text(common, &net, data),
        (NetUse::Evaluate { data }, _) => evaluate_ratings(common, &net, data),
        (NetUse::Predict { data: Some(data), .. }, NetInput::Images(_)) => predict_images(common, &net, data),
        (NetUse::Predict { data: None, .. }, NetInput::Images(_)) => {
            let failure = CommandError::usage("the net classifies images, and no images are given");
            Err(failure.hint("add `--data FILE`").into())
        }
        (NetUse::Predict { .. }, NetInput::Text(_)) => {
            let failure = CommandError::usage("the net is a language model, which generates text");
            Err(failure.hint("use `hemiola generate --model DIR --prompt TEXT`").into())
        }
        (NetUse::Predict { data: Some(_), .. }, _) => {
            let failure = CommandError::usage("`--data` is for classifiers, and this is a model of users and items");
            Err(failure.hint("use `--user ID --item ID`").into())
        }
        (NetUse::Predict { data: None, user, items, titles }, _) => {
            let (Some(user), false) = (user, items.is_empty()) else {
                let failure = CommandError::usage("no user or no item is given");
                return Err(failure.hint("use `--user ID --item ID`").into());
            };
            predict_ratings(common, &net, user, items, titles)
        }
        (NetUse::Recommend { user: None, .. }, _) => {
            Err(CommandError::usage("no user is given").hint("add `--user ID`").into())
        }
        (NetUse::Recommend { user: Some(user), count, seen, seen_in, titles }, _) => {
            recommend(common, &net, user, count, (seen, seen_in), titles)
        }
        (NetUse::Similar { item, count, titles }, _) => similar(common, &net, item, count, titles),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Report of an image classifier, in the layout of other classifiers.
#[derive(Serialize)]
struct ImageReport {
    metrics: Metrics,
    examples: usize,
    confusion: ConfusionMatrix,
}

fn evaluate_images(common: &ModelArgs, net: &SavedNet, data: &str) -> anyhow::Result<()> {
    let classifier = net.image_classifier(&Device::flex()).map_err(Error::from)?;
    let (images, has_labels) = images(&classifier, data)?;
    if !has_labels {
        let failure = CommandError::usage(format!("`{data}` has no labels"));
        let hint = "put the file of labels beside it (`..-labels-idx1-ubyte`), or use `hemiola predict`";
        return Err(failure.hint(hint).into());
    }
    let ImageEvaluation { mut metrics, examples, confusion } = classifier.evaluate(&images).map_err(Error::from)?;
    let confusion =
        ConfusionMatrix { classes: classifier.input().classes.clone(), counts: confusion, unknown: Vec::new() };
    metrics.extend(confusion.metrics());
    let mut text = metric_lines(&counted(examples, "image"), &metrics);
    text += &confusion_table(Some(&confusion));
    common.write(&text, &ImageReport { metrics, examples, confusion })
}

/// Class of an image by name, with its probability.
#[derive(Serialize)]
struct NamedPrediction<'a> {
    class: &'a str,
    probability: f32,
    /// Probability of each class, in the order of the classes.
    probabilities: Vec<f32>,
}

fn predict_images(common: &ModelArgs, net: &SavedNet, data: &str) -> anyhow::Result<()> {
    let classifier = net.image_classifier(&Device::flex()).map_err(Error::from)?;
    let (images, _) = images(&classifier, data)?;
    let classes = &classifier.input().classes;
    let predictions: Vec<NamedPrediction<'_>> = classifier
        .predict(&images)
        .map_err(Error::from)?
        .into_iter()
        .map(|one| NamedPrediction {
            class: &classes[one.class],
            probability: one.probability,
            probabilities: one.probabilities,
        })
        .collect();
    let mut text = String::new();
    for NamedPrediction { class, probability, .. } in &predictions {
        let _ = writeln!(text, "{class} {probability:.4}");
    }
    common.write(&text, &predictions)
}

fn images(classifier: &ImageClassifier, data: &str) -> anyhow::Result<(ImageDataset, bool)> {
    if !Path::new(data).is_dir() {
        must_exist(data)?;
    }
    let ImageInput { shape, classes, .. } = classifier.input();
    Ok(ImageDataset::read_for(Path::new(data), *shape, classes)?)
}

fn evaluate_text(common: &ModelArgs, net: &SavedNet, data: &str) -> anyhow::Result<()> {
    let model = net.language_model(&Device::flex()).map_err(Error::from)?;
    let folder = Path::new(data);
    let file = if folder.is_dir() { in_folder(folder, "test")? } else { data.to_owned() };
    must_exist(&file)?;
    let text = model.codec().read(&file, model.input().sequence_length)?;
    let evaluation = model.evaluate(&text).map_err(Error::from)?;
    let TextEvaluation { metrics, words } = &evaluation;
    common.write(&metric_lines(&counted(*words, model.codec().unit()), metrics), &evaluation)
}

fn evaluate_ratings(common: &ModelArgs, net: &SavedNet, data: &str) -> anyhow::Result<()> {
    must_exist(data)?;
    let model = net.rating_model(&Device::flex()).map_err(Error::from)?;
    let (ratings, cold) = model.read(data).map_err(Error::from)?;
    let evaluation = model.evaluate(&ratings, cold).map_err(Error::from)?;
    let RatingEvaluation { metrics, entries, cold } = &evaluation;
    let headline = format!("{}, {cold} of them of unknown users or items", counted(*entries, "rating"));
    common.write(&metric_lines(&headline, metrics), &evaluation)
}

fn predict_ratings(
    common: &ModelArgs,
    net: &SavedNet,
    name: &str,
    items: &[String],
    titles: &TitlesFile,
) -> anyhow::Result<()> {
    let (model, titles) = (net.rating_model(&Device::flex()).map_err(Error::from)?, titles.read()?);
    let user = user(&model, name)?;
    let items = items.iter().map(|name| titles.item(&model, name)).collect::<anyhow::Result<Vec<usize>>>()?;
    let scores = model.predict(user, &items).map_err(Error::from)?;
    let found = titles.scored(&model, items.into_iter().zip(scores).collect());
    common.write(&lines(&found), &found)
}

fn recommend(
    common: &ModelArgs,
    net: &SavedNet,
    name: &str,
    count: usize,
    (seen, seen_in): (&[String], Option<&str>),
    titles: &TitlesFile,
) -> anyhow::Result<()> {
    let (model, titles) = (net.rating_model(&Device::flex()).map_err(Error::from)?, titles.read()?);
    let user = user(&model, name)?;
    let mut seen = seen.iter().map(|name| titles.item(&model, name)).collect::<anyhow::Result<Vec<usize>>>()?;
    if let Some(files) = seen_in {
        must_exist(files)?;
        let (known, _) = model.read(files).map_err(Error::from)?;
        seen.extend(
            known.entries().iter().filter(|([of, _], _)| *of as usize == user).map(|([_, item], _)| *item as usize),
        );
    }
    let found = titles.scored(&model, model.recommend(user, count, &seen).map_err(Error::from)?);
    common.write(&lines(&found), &found)
}

fn similar(common: &ModelArgs, net: &SavedNet, name: &str, count: usize, titles: &TitlesFile) -> anyhow::Result<()> {
    let (model, titles) = (net.rating_model(&Device::flex()).map_err(Error::from)?, titles.read()?);
    let item = titles.item(&model, name)?;
    let found = titles.scored(&model, model.similar(item, count));
    common.write(&lines(&found), &found)
}

/// Formats a headline and a line per metric.
fn metric_lines(headline: &str, metrics: &Metrics) -> String {
    let mut text = format!("{headline}\n");
    for (name, value) in metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    text
}
