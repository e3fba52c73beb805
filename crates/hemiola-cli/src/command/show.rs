//! `hemiola show`: describes a trained model from its manifest.
//!
//! **Invariant:** values are read for `--verify` alone; everything else is in the manifest, so
//! models of any size are described at once.

use crate::error::CommandError;
use crate::output;
use crate::plural::counted;
use crate::terminal::Palette;
use crate::{readable, suggest};
use clap::{Args, ValueHint};
use hemiola_array::save::{ArrayRecord, Manifest, PartReader, StorageKind};
use hemiola_core::printable;
use hemiola_models::input::InputSchema;
use hemiola_models::training::{CheckpointMetadata, EpochProgress, Metrics};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola show model
  hemiola show model --json | jq .training.validation
  hemiola show model --verify                 also read all files, and compare their checksums

The JSON has \"kind\", \"format\", \"generation\", \"generations\" (all that can be loaded), \"bytes\", \"arrays\" (\"name\", \"storage\", \
\"dtype\", \"shape\", \"bytes\"), \"parameters\", \"input\" (layout of the training files), \"settings\", \"training\" (\"epochs\", \
\"best_epoch\", \"seconds\", \"peers\", \"workers\", \"data\", \"objective\", \"train\", \"validation\"), \"strategy\", \"optimizer\" \
and \"step\" of nets. Keys that do not apply are absent.

Exit codes:
  0  described
  2  no model, or one that is damaged";

/// Number of arrays that are listed by name.
const LISTED_ARRAYS: usize = 12;
/// Maximum number of classes of a net that are listed.
const LISTED_CLASSES: usize = 10;
/// Metadata key of a net.
const NET_KEY: &str = "net";
/// Folder of the arrays of a net, within that of the model.
const NET_FOLDER: &str = "net";

/// Arguments of `hemiola show`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ShowArgs {
    /// Folder of the trained model.
    #[arg(value_name = "MODEL", value_hint = ValueHint::DirPath)]
    model: PathBuf,

    /// Read all files of the model, and compare their checksums with the manifest.
    #[arg(long)]
    verify: bool,

    /// Print the description as JSON.
    #[arg(long)]
    json: bool,
}

/// Description of a model.
#[derive(Debug, Serialize)]
struct ModelDescription {
    kind: String,
    /// Version of the format of the manifest.
    format: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    generations: Vec<u64>,
    bytes: u64,
    files: usize,
    /// Number of trainable parameters of a net.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<u64>,
    arrays: Vec<ArrayDescription>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<InputSchema>,
    /// Kind and sizes of a net.
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<Value>,
    /// Data that a net takes, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    takes: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    settings: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    training: Option<TrainingDescription>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strategy: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    optimizer: Option<String>,
    /// Number of optimizer steps of a net.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    /// Reason why another generation than the newest is described.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Debug, Serialize)]
struct ArrayDescription {
    name: String,
    storage: &'static str,
    dtype: String,
    shape: Vec<usize>,
    bytes: u64,
}

/// History of the training run that saved the model.
#[derive(Debug, Serialize)]
struct TrainingDescription {
    epochs: usize,
    best_epoch: u32,
    seconds: f64,
    peers: usize,
    workers: usize,
    /// Extents of the training data.
    data: Vec<usize>,
    train_entries: usize,
    validation_entries: usize,
    objective: f64,
    train: Metrics,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<Metrics>,
}

impl ShowArgs {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let reader = open(&self.model)?;
        if self.verify {
            reader.verify()?;
        }
        let model = ModelDescription::of(&reader)?;
        if self.json {
            output::print(&format!("{}\n", serde_json::to_string_pretty(&model)?))?;
        } else {
            let mut text = text(&self.model, &model, Palette::stdout());
            if self.verify {
                let _ = writeln!(text, "{} are as they were saved", counted(model.files as u64, "file"));
            }
            output::print_styled(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Opens the save of a model, or the one in the folder of a net.
fn open(folder: &Path) -> anyhow::Result<PartReader> {
    let net = folder.join(NET_FOLDER);
    for candidate in [folder, &net] {
        if PartReader::exists(candidate) {
            return Ok(PartReader::open(candidate)?);
        }
    }
    let message = format!("`{}` is not a saved model", folder.display());
    let near = suggest::path_hint(folder);
    let hint = near.as_deref().unwrap_or("train one with `hemiola train MODEL --output DIR`");
    Err(CommandError::usage(message).hint(hint).into())
}

impl ModelDescription {
    fn of(reader: &PartReader) -> anyhow::Result<Self> {
        let manifest = reader.manifest();
        let text_of = |key: &str| manifest.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        let parsed = |key: &str| manifest.metadata.get(key).filter(|value| !value.is_null()).cloned();
        let damaged = |key: &str, error: serde_json::Error| {
            CommandError::usage(format!("`{key}` of the model is damaged: {error}"))
                .hint("it was saved by another version of hemiola; train it again, or use that version")
        };
        let training: Option<CheckpointMetadata> =
            parsed("training").map(serde_json::from_value).transpose().map_err(|error| damaged("training", error))?;
        let input = parsed("input").map(serde_json::from_value).transpose().map_err(|error| damaged("input", error))?;
        let net = manifest.metadata.get(NET_KEY).filter(|value| value.is_object());
        let of_net = |key: &str| net.and_then(|net| net.get(key)).filter(|value| !value.is_null()).cloned();
        let settings = parsed("settings")
            .or_else(|| training.as_ref().map(|training| training.settings.clone()))
            .unwrap_or(Value::Null);
        let arrays: Vec<_> = manifest.arrays.iter().map(|(name, record)| ArrayDescription::of(name, record)).collect();
        Ok(Self {
            kind: text_of("model").unwrap_or_else(|| "arrays".to_owned()),
            format: Manifest::FORMAT_VERSION,
            generation: reader.generation(),
            generations: reader.generations(),
            bytes: arrays.iter().map(|array| array.bytes).sum(),
            files: manifest.arrays.values().map(|record| record.parts.len() + record.names.len()).sum(),
            parameters: of_net("variables").as_ref().map(parameters),
            arrays,
            input,
            architecture: parsed("description").and_then(|net| net.get("architecture").cloned()),
            takes: parsed("description").and_then(|net| net_input(net.get("input")?)),
            settings,
            training: training.as_ref().and_then(TrainingDescription::of),
            strategy: of_net("strategy"),
            optimizer: of_net("optimizer").and_then(|name| name.as_str().map(str::to_owned)),
            step: of_net("step").and_then(|step| step.as_u64()),
            warning: reader.warning().map(str::to_owned),
        })
    }

    /// Returns the kind in words.
    fn title(&self) -> &str {
        match self.kind.as_str() {
            "mf" => "matrix factorization",
            "svm" => "linear support vector machine",
            "logistic" => "logistic regression",
            "sparse-logistic" => "logistic regression with an L1 penalty",
            "lasso" => "lasso",
            "elastic-net" => "elastic net",
            "fm" => "factorization machine",
            "ridge" => "ridge regression",
            "softmax" => "softmax regression",
            "kmeans" => "k-means",
            "lda" => "topic model (LDA)",
            "mlp" => "multilayer perceptron",
            "cnn" => "convolutional neural network",
            "resnet" => "residual network",
            "lstm" => "LSTM language model",
            "transformer" => "transformer language model",
            "gpt" => "GPT-2 language model",
            "ncf" => "neural collaborative filtering",
            other => other,
        }
    }
}

impl ArrayDescription {
    fn of(name: &str, record: &ArrayRecord) -> Self {
        let files = record.parts.iter().chain(record.names.values());
        Self {
            name: name.to_owned(),
            storage: match record.kind {
                StorageKind::Dense => "dense",
                _ => "sparse",
            },
            dtype: record.dtype.clone(),
            shape: record.shape.clone(),
            bytes: files.map(|part| part.bytes).sum(),
        }
    }
}

impl TrainingDescription {
    /// Describes the epoch whose model was kept; `None` before the first one.
    fn of(metadata: &CheckpointMetadata) -> Option<Self> {
        let last = metadata.progress.last()?;
        let EpochProgress { epoch, objective, train, validation, .. } = metadata.progress.get(metadata.best_index)?;
        Some(Self {
            epochs: metadata.progress.len(),
            best_epoch: *epoch,
            seconds: last.seconds,
            peers: metadata.cluster.peers,
            workers: metadata.cluster.workers,
            data: metadata.data.shape.clone(),
            train_entries: metadata.data.train,
            validation_entries: metadata.data.validation,
            objective: *objective,
            train: train.clone(),
            validation: validation.clone(),
        })
    }
}

/// Counts the elements of all variables: the products of the arrays named `shape`.
fn parameters(variables: &Value) -> u64 {
    match variables {
        Value::Object(fields) => match fields.get("shape").and_then(Value::as_array) {
            Some(shape) => shape.iter().filter_map(Value::as_u64).product(),
            None => fields.values().map(parameters).sum(),
        },
        Value::Array(items) => items.iter().map(parameters).sum(),
        _ => 0,
    }
}

/// Formats a description for people.
fn text(path: &Path, model: &ModelDescription, palette: Palette) -> String {
    let mut text = String::new();
    let heading = format!("{} in `{}`", model.title(), path.display());
    let _ = writeln!(text, "{}", palette.heading(&printable(&heading)));
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<11} {}", printable(value));
    };
    if let Some(training) = &model.training {
        row("data", &data_text(training));
    }
    if let Some(input) = &model.input {
        let layout = input.to_string();
        let base = if input.zero_based { "indices from 0" } else { "" };
        let parts = [layout.as_str(), base];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() {
            row("layout", &parts.join("; "));
        }
    }
    if let Some(takes) = &model.takes {
        row("input", takes);
    }
    let settings = settings_text(&model.settings);
    if !settings.is_empty() {
        row("settings", &settings);
    }
    if let Some(training) = &model.training {
        row("training", &training_text(training));
        row("metrics", &metrics_text(training));
    }
    if let Some(optimizer) = &model.optimizer {
        let step = model.step.map(|step| format!(", {}", counted(step, "step"))).unwrap_or_default();
        row("optimizer", &format!("{optimizer}{step}"));
    }
    if let Some(strategy) = &model.strategy {
        row("strategy", &strategy_text(strategy));
    }
    if let Some(parameters) = model.parameters {
        row("parameters", &readable::grouped(parameters));
    }
    let generation = match (model.generation, model.generations.as_slice()) {
        (Some(newest), generations) if generations.len() > 1 => {
            let older: Vec<String> =
                generations.iter().filter(|one| **one != newest).map(ToString::to_string).collect();
            format!("; checkpoint {newest}, before it {}", older.join(", "))
        }
        (Some(newest), _) => format!("; checkpoint {newest}"),
        (None, _) => String::new(),
    };
    let files = counted(model.files as u64, "file");
    row("size", &format!("{} in {files}{generation}; format {}", readable::bytes(model.bytes), model.format));
    if let Some(warning) = &model.warning {
        row("warning", warning);
    }
    let width = model.arrays.iter().map(|array| array.name.chars().count()).max().unwrap_or(0);
    for (index, array) in model.arrays.iter().take(LISTED_ARRAYS).enumerate() {
        let ArrayDescription { name, storage, dtype, shape, bytes } = array;
        let size = readable::bytes(*bytes);
        row(
            if index == 0 { "arrays" } else { "" },
            &format!("{name:<width$}  {storage} {dtype} {}, {size}", shape_text(shape)),
        );
    }
    if model.arrays.len() > LISTED_ARRAYS {
        row("", &format!("and {} more; `--json` lists all", model.arrays.len() - LISTED_ARRAYS));
    }
    text
}

/// Describes the data that a net takes, from its description.
fn net_input(input: &Value) -> Option<String> {
    let count = |key: &str| Some(readable::grouped(input.get(key)?.as_array()?.len() as u64));
    match input.get("kind")?.as_str()? {
        "images" => {
            let shape: Vec<u64> = input.get("shape")?.as_array()?.iter().filter_map(Value::as_u64).collect();
            let [channels, rows, columns] = shape[..] else { return None };
            let classes: Vec<&str> = input.get("classes")?.as_array()?.iter().filter_map(Value::as_str).collect();
            let more = if classes.len() > LISTED_CLASSES { ", .." } else { "" };
            let names = classes.iter().take(LISTED_CLASSES).copied().collect::<Vec<_>>().join(", ");
            let channels = counted(channels, "channel");
            let count = classes.len();
            Some(format!("images of {rows} by {columns} pixels in {channels}; {count} classes: {names}{more}"))
        }
        "text" => {
            let length = input.get("sequence_length")?.as_u64()?;
            Some(format!("text of {} distinct words, in sequences of {length}", count("vocabulary")?))
        }
        "ratings" => match (count("users"), count("items")) {
            (Some(users), Some(items)) => Some(format!("ratings of {users} users for {items} items")),
            _ => Some("ratings of users for items, by number".to_owned()),
        },
        _ => None,
    }
}

fn data_text(training: &TrainingDescription) -> String {
    let TrainingDescription { data, train_entries, validation_entries, .. } = training;
    let train = readable::grouped(*train_entries as u64);
    let validation = match validation_entries {
        0 => String::new(),
        entries => format!(", {} for validation", readable::grouped(*entries as u64)),
    };
    format!("{train} entries of {}{validation}", shape_text(data))
}

fn training_text(training: &TrainingDescription) -> String {
    let TrainingDescription { epochs, best_epoch, seconds, peers, workers, .. } = training;
    let best =
        if *best_epoch as usize == *epochs { String::new() } else { format!(", the best is epoch {best_epoch}") };
    let peers = counted(*peers as u64, "peer");
    format!(
        "{}{best}; {seconds:.1} s on {peers} of {}",
        counted(*epochs as u64, "epoch"),
        counted(*workers as u64, "worker")
    )
}

fn metrics_text(training: &TrainingDescription) -> String {
    let mut parts = vec![format!("objective {:.4}", training.objective)];
    let mut add = |set: &str, metrics: &Metrics| {
        // Counts are metrics, too.
        let number = |value: f64| if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.4}") };
        parts.extend(metrics.iter().map(|(name, value)| format!("{set} {name} {}", number(*value))));
    };
    add("train", &training.train);
    training.validation.iter().for_each(|metrics| add("validation", metrics));
    parts.join(", ")
}

/// Formats settings: names and values, those of nested objects too. Limits may change from run to
/// run, and are left out.
fn settings_text(settings: &Value) -> String {
    fn add(parts: &mut Vec<String>, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields.iter().filter(|(name, _)| *name != "limits") {
            let name = name.replace('_', " ");
            match value {
                // A choice with its value, such as `lambda value 0.1`.
                Value::Object(inner) if inner.len() == 1 => {
                    let mut own = Vec::new();
                    add(&mut own, inner);
                    parts.extend(own.into_iter().map(|part| format!("{name} {part}")));
                }
                Value::Object(inner) if !inner.is_empty() => add(parts, inner),
                Value::Null | Value::Object(_) => {}
                Value::String(text) => parts.push(format!("{name} {text}")),
                // Single-precision settings would otherwise have digits that were never typed.
                Value::Number(number) if number.is_f64() => {
                    parts.push(format!("{name} {}", number.as_f64().unwrap_or_default() as f32));
                }
                other => parts.push(format!("{name} {other}")),
            }
        }
    }
    let mut parts = Vec::new();
    settings.as_object().into_iter().for_each(|fields| add(&mut parts, fields));
    parts.join(", ")
}

/// Formats the source of a strategy.
fn strategy_text(strategy: &Value) -> String {
    let builder = strategy.get("builder").and_then(Value::as_str).unwrap_or("given explicitly");
    let is_tuned = strategy.get("tuned").and_then(Value::as_bool).unwrap_or(false);
    let tuned = if is_tuned { ", for the measured network" } else { "" };
    format!("{builder}{tuned}")
}

fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_listed_without_limits() {
        let settings = json!({
            "rank": 8,
            "l2": 0.045_f32,
            "limits": { "epochs": 3 },
            "net": { "hidden": [32, 16] },
            "lambda": { "value": 0.5 },
            "momentum": null,
            "optimizer": "adam",
        });
        assert_eq!(settings_text(&settings), "l2 0.045, lambda value 0.5, net hidden [32,16], optimizer adam, rank 8");
    }

    #[test]
    fn parameters_are_the_elements_of_all_variables() {
        let variables = json!({ "variables": [{ "name": "w", "shape": [3, 4] }, { "name": "b", "shape": [4] }] });
        assert_eq!(parameters(&variables), 16);
    }
}
