//! One run: what a report of `hemiola train` says that can be drawn.
//!
//! Reports of other versions and other models are read as well: only the epochs matter, and a figure may be missing or, where it
//! was not finite, null.

use crate::error::CommandError;
use serde::Deserialize;
use serde_json::error::Category;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

type Figures = BTreeMap<String, Option<f64>>;

/// A report as it was read, and what it is called.
#[derive(Debug)]
pub(super) struct PlottedRun {
    /// Its name on the picture.
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
    train: Option<Figures>,
    validation: Option<Figures>,
}

/// What a picture goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CurveData {
    /// Passes over the data.
    Epochs,
    /// Seconds of training; loading and evaluation are not counted.
    Seconds,
    /// Entries used.
    Updates,
    /// Bytes that all peers have sent.
    Bytes,
}

impl CurveData {
    /// What an axis along it says.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Epochs => "epochs",
            Self::Seconds => "seconds of training",
            Self::Updates => "updates",
            Self::Bytes => "bytes sent by all peers",
        }
    }

    /// What is the matter if no run has gone anywhere along it.
    pub(super) fn nowhere(self) -> &'static str {
        match self {
            Self::Epochs => "no run has numbered its epochs",
            Self::Seconds => "no run has counted its seconds",
            Self::Updates => "no run has counted its updates",
            Self::Bytes => "no run has sent any bytes",
        }
    }
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochRecords<'a> {
    /// What is minimized.
    Objective,
    /// This figure on entries that were trained on.
    Train(&'a str),
    /// This figure on held-out entries.
    HeldOut(&'a str),
}

/// Where reports come from.
const WRITTEN: &str = "reports are written by `hemiola train MODEL --report FILE`";

impl PlottedRun {
    /// Reads a report; `-` is standard input.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let (name, text) = if path == Path::new("-") {
            let mut text = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut text);
            read.map_err(|error| CommandError::io("read", Path::new("standard input"), &error))?;
            ("standard input".to_owned(), text)
        } else {
            let read = std::fs::read(path).map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => CommandError::io("read", path, &error).hint(WRITTEN),
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
                Category::Data => format!("`{name}` is no report of a training: {error}"),
                _ => format!("`{name}` is not JSON: {error}"),
            };
            CommandError::usage(message).hint(WRITTEN)
        })?;
        if report.progress.is_empty() {
            let message = format!("`{name}` has no epochs: its `progress` is empty");
            return Err(CommandError::usage(message).hint("train for at least one epoch").into());
        }
        let best_epoch = report.result.and_then(|result| result.best_epoch);
        Ok(Self { label: name.to_owned(), epochs: report.progress, best_epoch })
    }

    /// The names of its figures on held-out entries, or on those trained on.
    pub(super) fn names(&self, held_out: bool) -> Vec<&str> {
        let figures =
            self.epochs.iter().filter_map(|epoch| if held_out { &epoch.validation } else { &epoch.train }.as_ref());
        let mut names: Vec<&str> = figures.flat_map(|figures| figures.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether it has this figure, be it a number or not.
    pub(super) fn has(&self, figure: EpochRecords<'_>) -> bool {
        match figure {
            EpochRecords::Objective => self.epochs.iter().any(|epoch| epoch.objective.is_some()),
            EpochRecords::Train(name) => self.names(false).contains(&name),
            EpochRecords::HeldOut(name) => self.names(true).contains(&name),
        }
    }

    /// A point for each epoch; what is missing is not a number.
    pub(super) fn points(&self, along: CurveData, figure: EpochRecords<'_>) -> Vec<[f64; 2]> {
        let figure = |epoch: &EpochRecord| match figure {
            EpochRecords::Objective => epoch.objective,
            EpochRecords::Train(name) => epoch.train.as_ref()?.get(name).copied()?,
            EpochRecords::HeldOut(name) => epoch.validation.as_ref()?.get(name).copied()?,
        };
        let point = |epoch: &EpochRecord| [epoch.along(along), figure(epoch)].map(|value| value.unwrap_or(f64::NAN));
        self.epochs.iter().map(point).collect()
    }

    /// Which point is that of the model that was kept.
    pub(super) fn kept(&self) -> Option<usize> {
        let best = self.best_epoch?;
        // Epochs are small whole numbers, so half of one is a safe distance.
        self.epochs.iter().rposition(|epoch| epoch.epoch.is_some_and(|epoch| (epoch - best).abs() < 0.5))
    }
}

impl EpochRecord {
    fn along(&self, course: CurveData) -> Option<f64> {
        match course {
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
    fn figures_may_be_missing_or_null() {
        let run = parse(
            r#"{"progress": [{"epoch": 1, "seconds": 0.5, "objective": 2.0, "validation": {"rmse": 1.5}, "new": 1},
                {"epoch": 2, "seconds": 1.0, "objective": null, "validation": {"rmse": null}}, {"epoch": 3}],
                "result": {"best_epoch": 2}}"#,
        );
        let run = run.unwrap();
        assert_eq!(
            (run.epochs.len(), run.kept(), run.names(true), run.names(false)),
            (3, Some(1), vec!["rmse"], vec![])
        );
        let points = run.points(CurveData::Seconds, EpochRecords::HeldOut("rmse"));
        assert_eq!(points[0].map(f64::to_bits), [0.5, 1.5].map(f64::to_bits));
        assert!(points[1][1].is_nan() && points[2].iter().all(|value| value.is_nan()));
        assert!(
            run.has(EpochRecords::HeldOut("rmse"))
                && !run.has(EpochRecords::Train("rmse"))
                && run.has(EpochRecords::Objective)
        );
    }

    #[test]
    fn what_is_no_report_is_told_apart() {
        assert_eq!(parse("").unwrap_err(), "`run.json` is empty");
        assert_eq!(parse(r#"{"progress": []}"#).unwrap_err(), "`run.json` has no epochs: its `progress` is empty");
        for (text, expected) in [
            ("{", "`run.json` is not JSON: EOF"),
            ("epoch 1", "`run.json` is not JSON: expected value at line 1"),
            (r#"{"rmse": 1}"#, "`run.json` is no report of a training: missing field `progress`"),
            ("[1, 2]", "`run.json` is no report of a training"),
            (r#"{"progress": [{"epoch": "x"}]}"#, "`run.json` is no report of a training: invalid type"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
