//! Plottable contents of a report of `hemiola train`.
//!
//! Reports of other versions and models are accepted: only the epochs are read, and a metric may be
//! missing, or null if it was not finite.

use crate::error::CommandError;
use serde::Deserialize;
use serde_json::error::Category;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

type EpochMetrics = BTreeMap<String, Option<f64>>;

/// Run read from a report, with its label.
#[derive(Debug)]
pub(super) struct PlottedRun {
    /// Label of the run in the plot.
    pub(super) label: String,
    epochs: Vec<EpochRecord>,
    best_epoch: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct RunReport {
    progress: Vec<EpochRecord>,
    #[serde(default)]
    result: Option<PlottedSummary>,
}

#[derive(Debug, Deserialize)]
struct PlottedSummary {
    best_epoch: Option<f64>,
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
    /// Bytes sent by all peers.
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
const REPORT_HINT: &str = "reports are written by `hemiola train MODEL --report FILE`";

impl PlottedRun {
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
        let report: RunReport = serde_json::from_slice(text).map_err(|error| {
            let message = match error.classify() {
                _ if text.is_empty() => format!("`{name}` is empty"),
                Category::Data => format!("`{name}` is not a training report: {error}"),
                _ => format!("`{name}` is not JSON: {error}"),
            };
            CommandError::usage(message).hint(REPORT_HINT)
        })?;
        if report.progress.is_empty() {
            let message = format!("`{name}` has no epochs: its `progress` is empty");
            return Err(CommandError::usage(message).hint("train for at least one epoch").into());
        }
        let best_epoch = report.result.and_then(|result| result.best_epoch);
        Ok(Self { label: name.to_owned(), epochs: report.progress, best_epoch })
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
        let point = |epoch: &EpochRecord| [epoch.x_value(x), metric(epoch)].map(|value| value.unwrap_or(f64::NAN));
        self.epochs.iter().map(point).collect()
    }

    /// Returns the index of the epoch whose model was saved.
    pub(super) fn best_index(&self) -> Option<usize> {
        let best = self.best_epoch?;
        // Epochs are small integers, so 0.5 is a safe tolerance.
        self.epochs.iter().rposition(|epoch| epoch.epoch.is_some_and(|epoch| (epoch - best).abs() < 0.5))
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
        PlottedRun::parse("run.json", text.as_bytes()).map_err(|error| error.to_string())
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
            ("[1, 2]", "`run.json` is not a training report"),
            (r#"{"progress": [{"epoch": "x"}]}"#, "`run.json` is not a training report: invalid type"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
