//! Choice of the plotted metric: one that all runs have on the same set.
//!
//! Validation metrics come first. A comparison of the validation set of one run with the training
//! set of another is refused.

use super::report_file::{EpochRecords, PlottedRun};
use crate::error::CommandError;

/// Plotted metric, and the set it is computed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurveMetric {
    pub(super) name: String,
    pub(super) kind: CurveAxis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurveAxis {
    /// Objective that training minimizes.
    Objective,
    /// Metric on the validation set; with `train`, thin lines show the training set, too.
    Validation { train: bool },
    /// Metric on the training set, because no run has a validation set.
    Train,
}

/// Name of the objective on the command line and in plots.
const OBJECTIVE: &str = "objective";

impl CurveMetric {
    /// Returns the metric with a given name.
    pub(super) fn named(name: &str, runs: &[PlottedRun], train: bool) -> anyhow::Result<Self> {
        let metric = |kind| Self { name: name.to_owned(), kind };
        if name == OBJECTIVE {
            all_have(runs, name, EpochRecords::Objective)?;
            return Ok(metric(CurveAxis::Objective));
        }
        let validation = |run: &PlottedRun| run.has(EpochRecords::Validation(name));
        let training = |run: &PlottedRun| run.has(EpochRecords::Train(name));
        if runs.iter().all(validation) {
            return Ok(metric(CurveAxis::Validation { train: train && runs.iter().any(training) }));
        }
        if !runs.iter().any(validation) {
            all_have(runs, name, EpochRecords::Train(name))?;
            return Ok(metric(CurveAxis::Train));
        }
        if train {
            all_have(runs, name, EpochRecords::Train(name))?;
            return Ok(metric(CurveAxis::Validation { train: true }));
        }
        all_have(runs, name, EpochRecords::Validation(name))?;
        Ok(metric(CurveAxis::Validation { train: false }))
    }

    /// Returns the preferred validation metric that all runs have; the objective if no run has a
    /// validation set.
    pub(super) fn default_of(runs: &[PlottedRun], train: bool) -> anyhow::Result<Self> {
        let validation: Vec<Vec<&str>> = runs.iter().map(|run| run.names(true)).collect();
        if validation.iter().all(Vec::is_empty) {
            let common = common(runs, |run| run.names(false));
            return match common.first().filter(|_| !runs.iter().all(|run| run.has(EpochRecords::Objective))) {
                Some(name) => Self::named(name, runs, train),
                None => Self::named(OBJECTIVE, runs, train),
            };
        }
        if let Some(name) = common(runs, |run| run.names(true)).first() {
            return Self::named(name, runs, train);
        }
        let each = runs.iter().zip(validation).map(|(run, names)| match names.as_slice() {
            [] => format!("`{}` has none", run.label),
            names => format!("`{}` has {}", run.label, names.join(", ")),
        });
        let each: Vec<String> = each.collect();
        let message = format!("the runs have no validation metric in common: {}", each.join("; "));
        Err(CommandError::usage(message)
            .hint("plot them separately, or compare the objective with --y objective")
            .into())
    }

    /// Returns the label of the axis.
    pub(super) fn label(&self) -> String {
        let name = &self.name;
        match self.kind {
            CurveAxis::Objective => name.to_owned(),
            CurveAxis::Validation { train: false } => format!("{name} on the validation set"),
            CurveAxis::Validation { train: true } => format!("{name} on the validation set (thin: training set)"),
            CurveAxis::Train => format!("{name} on the training set"),
        }
    }

    /// Returns the lines of each run: the main one, and an optional thin one.
    pub(super) fn lines(&self) -> (EpochRecords<'_>, Option<EpochRecords<'_>>) {
        match self.kind {
            CurveAxis::Objective => (EpochRecords::Objective, None),
            CurveAxis::Validation { train } => {
                (EpochRecords::Validation(&self.name), train.then_some(EpochRecords::Train(&self.name)))
            }
            CurveAxis::Train => (EpochRecords::Train(&self.name), None),
        }
    }
}

/// Returns the metrics that all runs have, the preferred ones first.
fn common<'a>(runs: &'a [PlottedRun], names: impl Fn(&'a PlottedRun) -> Vec<&'a str>) -> Vec<&'a str> {
    const PREFERRED: [&str; 5] = ["rmse", "logloss", "ndcg", "recall", "perplexity"];
    let mut all = runs.first().map(&names).unwrap_or_default();
    all.retain(|name| runs.iter().all(|run| names(run).contains(name)));
    all.sort_by_key(|name| PREFERRED.iter().position(|known| name.starts_with(known)).unwrap_or(PREFERRED.len()));
    all
}

fn all_have(runs: &[PlottedRun], name: &str, metric: EpochRecords<'_>) -> anyhow::Result<()> {
    let without: Vec<String> =
        runs.iter().filter(|run| !run.has(metric)).map(|run| format!("`{}`", run.label)).collect();
    if without.is_empty() {
        return Ok(());
    }
    let set = if matches!(metric, EpochRecords::Validation(_)) { " on the validation set" } else { "" };
    let message = if without.len() == runs.len() {
        format!("no run has a metric `{name}`{set}")
    } else {
        format!("not every run has `{name}`{set}: missing in {}", without.join(", "))
    };
    let mut known = common(runs, |run| [run.names(true), run.names(false)].concat());
    known.dedup();
    known.push(OBJECTIVE);
    let train = if set.is_empty() { "" } else { ", or add --train to compare the training sets" };
    Err(CommandError::usage(message).hint(format!("all runs have: {}{train}", known.join(", "))).into())
}
