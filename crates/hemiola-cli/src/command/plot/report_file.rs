//! Plottable contents of reports: of `hemiola train`, `search`, `evaluate` and `topics`.
//!
//! The content of a file tells its kind. Reports of other versions and models are accepted: only
//! what is plotted is read, and a metric may be missing, or null if it was not finite.

use crate::error::CommandError;
use hemiola_models::linear::ConfusionMatrix;
use hemiola_models::selection::SearchReport;
use hemiola_models::sparse::RegularizationReport;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

type EpochMetrics = BTreeMap<String, Option<f64>>;

/// Report read from a file, by its kind.
#[derive(Debug)]
pub(super) enum PlottedReport {
    /// Report of `hemiola train`.
    Run(Box<PlottedRun>),
    /// Report of `hemiola evaluate` for a classifier.
    Evaluation(ConfusionMatrix),
    /// Report of `hemiola search`.
    Search(Box<SearchReport>),
    /// Report of `hemiola topics`.
    Topics(Vec<ReportedTopic>),
}

/// Run read from a report, with its label.
#[derive(Debug)]
pub(super) struct PlottedRun {
    /// Label of the run in the plot.
    pub(super) label: String,
    /// Random seed, and everything else that must be equal in repetitions of the run; `None` in
    /// reports without settings.
    pub(super) repetition: Option<(u64, String)>,
    /// Kind of the model.
    pub(super) model: String,
    /// Choice of the penalty, if the model is a sparse regression.
    pub(super) regularization: Option<RegularizationReport>,
    epochs: Vec<EpochRecord>,
    best_epoch: Option<f64>,
    loading_bytes: f64,
}

#[derive(Debug, Deserialize)]
struct RunReport {
    progress: Vec<EpochRecord>,
    #[serde(default)]
    result: Option<PlottedSummary>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    settings: Option<Value>,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    cluster: Value,
    #[serde(default)]
    strategy: Value,
    #[serde(default)]
    regularization: Option<RegularizationReport>,
}

/// Topic in a report of `hemiola topics`.
#[derive(Debug, Deserialize)]
pub(super) struct ReportedTopic {
    /// Number of the topic, from 1.
    pub(super) topic: u64,
    pub(super) share: Option<f64>,
    pub(super) words: Vec<ReportedTerm>,
}

/// Term of a topic.
#[derive(Debug, Deserialize)]
pub(super) struct ReportedTerm {
    pub(super) word: String,
    pub(super) probability: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct PlottedSummary {
    best_epoch: Option<f64>,
    loading_bytes: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct EpochRecord {
    epoch: Option<f64>,
    seconds: Option<f64>,
    updates: Option<f64>,
    bytes_sent: Option<f64>,
    objective: Option<f64>,
    train: Option<EpochMetrics>,
    validation: Option<EpochMetrics>,
}

/// Quantity on the x axis of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CurveData {
    /// Number of epochs.
    Epochs,
    /// Training time in seconds, without loading and evaluation.
    Seconds,
    /// Number of updates: entries processed.
    Updates,
    /// Bytes sent by all peers, without those of loading the data where the report tells them.
    Bytes,
}

impl CurveData {
    /// Returns the label of the axis.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Epochs => "epochs",
            Self::Seconds => "seconds of training",
            Self::Updates => "updates",
            Self::Bytes => "bytes sent by all peers",
        }
    }

    /// Returns the problem of a plot in which no run has this quantity.
    pub(super) fn missing_reason(self) -> &'static str {
        match self {
            Self::Epochs => "no report has epoch numbers",
            Self::Seconds => "no report has seconds",
            Self::Updates => "no report has updates",
            Self::Bytes => "no run has sent bytes",
        }
    }
}

/// Source of a plotted metric within an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochRecords<'a> {
    /// Objective that training minimizes.
    Objective,
    /// Metric on the training set.
    Train(&'a str),
    /// Metric on the validation set.
    Validation(&'a str),
}

/// Hint that says how reports are written.
const REPORT_HINT: &str = "reports are written by `hemiola train`, `evaluate` and `topics` with `--report FILE`";

impl PlottedReport {
    /// Reads a report from a file; `-` is standard input.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let (name, text) = if path == Path::new("-") {
            let mut text = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut text);
            read.map_err(|error| CommandError::io("read", Path::new("standard input"), &error))?;
            ("standard input".to_owned(), text)
        } else {
            let read = std::fs::read(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => CommandError::io("read", path, &error).hint(REPORT_HINT),
                _ => CommandError::io("read", path, &error),
            });
            (path.display().to_string(), read?)
        };
        Self::parse(&name, &text)
    }

    fn parse(name: &str, text: &[u8]) -> anyhow::Result<Self> {
        let refused = |message: String| CommandError::usage(message).hint(REPORT_HINT);
        if text.is_empty() {
            return Err(refused(format!("`{name}` is empty")).into());
        }
        let value: Value =
            serde_json::from_slice(text).map_err(|error| refused(format!("`{name}` is not JSON: {error}")))?;
        if value.is_array() {
            let topics: Vec<ReportedTopic> = typed(name, "a list of topics", value)?;
            if topics.is_empty() {
                return Err(refused(format!("`{name}` is an empty list, and no topics can be plotted")).into());
            }
            return Ok(Self::Topics(topics));
        }
        if let Some(confusion) = value.get("confusion") {
            let matrix: ConfusionMatrix = typed(name, "an evaluation report", confusion.clone())?;
            let classes = matrix.classes.len();
            let rows = matrix.counts.iter().chain((!matrix.unknown.is_empty()).then_some(&matrix.unknown));
            if classes == 0 || matrix.counts.len() != classes || rows.into_iter().any(|row| row.len() != classes) {
                let message = format!("`{name}` has no square confusion matrix of its {classes} classes");
                return Err(refused(message).into());
            }
            return Ok(Self::Evaluation(matrix));
        }
        if value.get("trials").is_some() {
            return Ok(Self::Search(Box::new(typed(name, "a report of a search", value)?)));
        }
        if value.get("metrics").is_some() && value.get("progress").is_none() {
            let message = format!("`{name}` is an evaluation without a confusion matrix");
            let hint = "only evaluations of classifiers with at most 500 classes have one";
            return Err(CommandError::usage(message).hint(hint).into());
        }
        Ok(Self::Run(Box::new(PlottedRun::of(name, typed(name, "a training report", value)?)?)))
    }
}

/// Converts JSON to a report of this kind.
fn typed<T: DeserializeOwned>(name: &str, kind: &str, value: Value) -> anyhow::Result<T> {
    serde_json::from_value(value).map_err(|error| {
        let message = format!("`{name}` is not {kind}: {error}");
        CommandError::usage(message).hint(REPORT_HINT).into()
    })
}

impl PlottedRun {
    fn of(name: &str, report: RunReport) -> anyhow::Result<Self> {
        if report.progress.is_empty() {
            let message = format!("`{name}` has no epochs: its `progress` is empty");
            return Err(CommandError::usage(message).hint("train for at least one epoch").into());
        }
        let repetition = report.repetition();
        let (best_epoch, loading_bytes) =
            report.result.map_or((None, None), |result| (result.best_epoch, result.loading_bytes));
        Ok(Self {
            label: name.to_owned(),
            repetition,
            model: report.model.unwrap_or_default(),
            regularization: report.regularization,
            epochs: report.progress,
            best_epoch,
            loading_bytes: loading_bytes.unwrap_or(0.0),
        })
    }

    /// Returns the numbers of the epochs.
    pub(super) fn epoch_numbers(&self) -> Vec<f64> {
        self.epochs.iter().map(|epoch| epoch.epoch.unwrap_or(f64::NAN)).collect()
    }

    /// Returns the names of the metrics on the validation set, or on the training set.
    pub(super) fn names(&self, validation: bool) -> Vec<&str> {
        let metrics =
            self.epochs.iter().filter_map(|epoch| if validation { &epoch.validation } else { &epoch.train }.as_ref());
        let mut names: Vec<&str> = metrics.flat_map(|metrics| metrics.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns true if the run has a metric, also if all its values are null.
    pub(super) fn has(&self, metric: EpochRecords<'_>) -> bool {
        match metric {
            EpochRecords::Objective => self.epochs.iter().any(|epoch| epoch.objective.is_some()),
            EpochRecords::Train(name) => self.names(false).contains(&name),
            EpochRecords::Validation(name) => self.names(true).contains(&name),
        }
    }

    /// Returns a point per epoch; missing values are NaN.
    pub(super) fn points(&self, x: CurveData, metric: EpochRecords<'_>) -> Vec<[f64; 2]> {
        let metric = |epoch: &EpochRecord| match metric {
            EpochRecords::Objective => epoch.objective,
            EpochRecords::Train(name) => epoch.train.as_ref()?.get(name).copied()?,
            EpochRecords::Validation(name) => epoch.validation.as_ref()?.get(name).copied()?,
        };
        let loading = if x == CurveData::Bytes { self.loading_bytes } else { 0.0 };
        let point = |epoch: &EpochRecord| {
            let across = epoch.x_value(x).map(|value| value - loading);
            [across, metric(epoch)].map(|value| value.unwrap_or(f64::NAN))
        };
        self.epochs.iter().map(point).collect()
    }

    /// Returns the index of the epoch whose model was saved.
    pub(super) fn best_index(&self) -> Option<usize> {
        let best = self.best_epoch?;
        // Epochs are small integers, so 0.5 is a safe tolerance.
        self.epochs.iter().rposition(|epoch| epoch.epoch.is_some_and(|epoch| (epoch - best).abs() < 0.5))
    }
}

impl RunReport {
    /// Returns the seed, and model, settings, data, cluster and strategy as text. Seeds, and the
    /// sizes of sets that the seed draws, are left out.
    fn repetition(&self) -> Option<(u64, String)> {
        let mut settings = self.settings.clone()?;
        if let Value::Object(settings) = &mut settings {
            settings.remove("seed");
        }
        let size = |name: &str| self.data.get(name).and_then(Value::as_u64).unwrap_or(0);
        let examples = size("train") + size("validation");
        let same = [&settings, &self.cluster, &self.strategy].map(Value::to_string).join("\n");
        Some((self.seed?, format!("{}\n{examples}\n{same}", self.model.as_deref().unwrap_or_default())))
    }
}

impl EpochRecord {
    fn x_value(&self, x: CurveData) -> Option<f64> {
        match x {
            CurveData::Epochs => self.epoch,
            CurveData::Seconds => self.seconds,
            CurveData::Updates => self.updates,
            CurveData::Bytes => self.bytes_sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PlottedRun, String> {
        match PlottedReport::parse("run.json", text.as_bytes()).map_err(|error| error.to_string())? {
            PlottedReport::Run(run) => Ok(*run),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn metrics_may_be_missing_or_null() {
        let run = parse(
            r#"{"progress": [{"epoch": 1, "seconds": 0.5, "objective": 2.0, "validation": {"rmse": 1.5}, "new": 1},
                {"epoch": 2, "seconds": 1.0, "objective": null, "validation": {"rmse": null}}, {"epoch": 3}],
                "result": {"best_epoch": 2}}"#,
        );
        let run = run.unwrap();
        assert_eq!(
            (run.epochs.len(), run.best_index(), run.names(true), run.names(false)),
            (3, Some(1), vec!["rmse"], vec![])
        );
        let points = run.points(CurveData::Seconds, EpochRecords::Validation("rmse"));
        assert_eq!(points[0].map(f64::to_bits), [0.5, 1.5].map(f64::to_bits));
        assert!(points[1][1].is_nan() && points[2].iter().all(|value| value.is_nan()));
        assert!(
            run.has(EpochRecords::Validation("rmse"))
                && !run.has(EpochRecords::Train("rmse"))
                && run.has(EpochRecords::Objective)
        );
    }

    #[test]
    fn invalid_reports_have_distinct_errors() {
        assert_eq!(parse("").unwrap_err(), "`run.json` is empty");
        assert_eq!(parse(r#"{"progress": []}"#).unwrap_err(), "`run.json` has no epochs: its `progress` is empty");
        for (text, expected) in [
            ("{", "`run.json` is not JSON: EOF"),
            ("epoch 1", "`run.json` is not JSON: expected value at line 1"),
            (r#"{"rmse": 1}"#, "`run.json` is not a training report: missing field `progress`"),
            ("3", "`run.json` is not a training report"),
            ("[1, 2]", "`run.json` is not a list of topics"),
            ("[]", "`run.json` is an empty list"),
            (r#"{"metrics": {"rmse": 1}}"#, "`run.json` is an evaluation without a confusion matrix"),
            (r#"{"confusion": {"classes": ["a"], "counts": [[1, 2]]}}"#, "`run.json` has no square confusion matrix"),
            (r#"{"confusion": {"classes": [], "counts": []}}"#, "`run.json` has no square confusion matrix"),
            (r#"{"confusion": {"classes": ["a"], "counts": [[-1]]}}"#, "`run.json` is not an evaluation report"),
            (r#"{"progress": [{"epoch": "x"}]}"#, "`run.json` is not a training report: invalid type"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }
    #[test]
    fn repetitions_differ_by_seed_only() {
        let run = |seed: u64, rank: u32, train: u32| {
            let text = format!(
                r#"{{"progress": [{{"epoch": 1, "bytes_sent": 70}}], "model": "mf", "seed": {seed},
                "settings": {{"rank": {rank}, "seed": {seed}}}, "data": {{"train": {train}, "validation": {}}},
                "result": {{"loading_bytes": 50}}}}"#,
                100 - train
            );
            parse(&text).unwrap()
        };
        let same = |run: &PlottedRun| run.repetition.clone().unwrap().1;
        assert_eq!(same(&run(1, 8, 90)), same(&run(2, 8, 91)), "the seed draws the validation set");
        assert_ne!(same(&run(1, 8, 90)), same(&run(2, 16, 90)));
        assert_eq!(run(7, 8, 90).repetition.map(|repetition| repetition.0), Some(7));
        assert_eq!(parse(r#"{"progress": [{"epoch": 1}], "seed": 1}"#).unwrap().repetition, None);
        let sent = run(1, 8, 90).points(CurveData::Bytes, EpochRecords::Objective);
        assert_eq!(sent[0][0].to_bits(), 20_f64.to_bits(), "loading is subtracted");
    }
}
