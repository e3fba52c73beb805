//! Which figure is drawn: one that all runs have, of the same kind of entries.
//!
//! Held-out entries come first, since that is what a model is for. What would compare held-out entries of one run with training
//! entries of another is refused.

use super::report_file::{EpochRecords, PlottedRun};
use crate::error::CommandError;

/// A figure, and where it comes from in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurveFigure {
    pub(super) name: String,
    pub(super) kind: CurveAxis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurveAxis {
    /// What is minimized.
    Objective,
    /// On held-out entries; with `train`, thin lines for training entries, too.
    HeldOut { train: bool },
    /// On training entries, as no run has held any out.
    Train,
}

/// The objective's name on the command line and on pictures.
const OBJECTIVE: &str = "objective";

impl CurveFigure {
    /// The figure of this name.
    pub(super) fn named(name: &str, runs: &[PlottedRun], train: bool) -> anyhow::Result<Self> {
        let figure = |kind| Self { name: name.to_owned(), kind };
        if name == OBJECTIVE {
            all_have(runs, name, EpochRecords::Objective)?;
            return Ok(figure(CurveAxis::Objective));
        }
        let held_out = |run: &PlottedRun| run.has(EpochRecords::HeldOut(name));
        let trained = |run: &PlottedRun| run.has(EpochRecords::Train(name));
        if runs.iter().all(held_out) {
            return Ok(figure(CurveAxis::HeldOut { train: train && runs.iter().any(trained) }));
        }
        if !runs.iter().any(held_out) {
            all_have(runs, name, EpochRecords::Train(name))?;
            return Ok(figure(CurveAxis::Train));
        }
        if train {
            all_have(runs, name, EpochRecords::Train(name))?;
            return Ok(figure(CurveAxis::HeldOut { train: true }));
        }
        all_have(runs, name, EpochRecords::HeldOut(name))?;
        Ok(figure(CurveAxis::HeldOut { train: false }))
    }

    /// The figure on held-out entries that all runs have and that says most; the objective if none has held any out.
    pub(super) fn best(runs: &[PlottedRun], train: bool) -> anyhow::Result<Self> {
        let held_out: Vec<Vec<&str>> = runs.iter().map(|run| run.names(true)).collect();
        if held_out.iter().all(Vec::is_empty) {
            let common = common(runs, |run| run.names(false));
            return match common.first().filter(|_| !runs.iter().all(|run| run.has(EpochRecords::Objective))) {
                Some(name) => Self::named(name, runs, train),
                None => Self::named(OBJECTIVE, runs, train),
            };
        }
        if let Some(name) = common(runs, |run| run.names(true)).first() {
            return Self::named(name, runs, train);
        }
        let each = runs.iter().zip(held_out).map(|(run, names)| match names.as_slice() {
            [] => format!("`{}` has none", run.label),
            names => format!("`{}` has {}", run.label, names.join(", ")),
        });
        let each: Vec<String> = each.collect();
        let message = format!("the runs have no figure on held-out entries in common: {}", each.join("; "));
        Err(CommandError::usage(message)
            .hint("draw them apart, or compare what was minimized with --y objective")
            .into())
    }

    /// What the axis says.
    pub(super) fn label(&self) -> String {
        let name = &self.name;
        match self.kind {
            CurveAxis::Objective => name.to_owned(),
            CurveAxis::HeldOut { train: false } => format!("{name} on held-out entries"),
            CurveAxis::HeldOut { train: true } => format!("{name} on held-out entries (thin: training entries)"),
            CurveAxis::Train => format!("{name} on training entries"),
        }
    }

    /// The lines to draw of each run; the second is an aside.
    pub(super) fn lines(&self) -> (EpochRecords<'_>, Option<EpochRecords<'_>>) {
        match self.kind {
            CurveAxis::Objective => (EpochRecords::Objective, None),
            CurveAxis::HeldOut { train } => {
                (EpochRecords::HeldOut(&self.name), train.then_some(EpochRecords::Train(&self.name)))
            }
            CurveAxis::Train => (EpochRecords::Train(&self.name), None),
        }
    }
}

/// Names that all runs have, the most telling first.
fn common<'a>(runs: &'a [PlottedRun], names: impl Fn(&'a PlottedRun) -> Vec<&'a str>) -> Vec<&'a str> {
    const TELLING: [&str; 5] = ["rmse", "logloss", "ndcg", "recall", "perplexity"];
    let mut all = runs.first().map(&names).unwrap_or_default();
    all.retain(|name| runs.iter().all(|run| names(run).contains(name)));
    all.sort_by_key(|name| TELLING.iter().position(|known| name.starts_with(known)).unwrap_or(TELLING.len()));
    all
}

fn all_have(runs: &[PlottedRun], name: &str, figure: EpochRecords<'_>) -> anyhow::Result<()> {
    let without: Vec<String> =
        runs.iter().filter(|run| !run.has(figure)).map(|run| format!("`{}`", run.label)).collect();
    if without.is_empty() {
        return Ok(());
    }
    let entries = if matches!(figure, EpochRecords::HeldOut(_)) { " on held-out entries" } else { "" };
    let message = if without.len() == runs.len() {
        format!("no run has a figure `{name}`{entries}")
    } else {
        format!("not every run has `{name}`{entries}: {} lacks it", without.join(", "))
    };
    let mut known = common(runs, |run| [run.names(true), run.names(false)].concat());
    known.dedup();
    known.push(OBJECTIVE);
    let train = if entries.is_empty() { "" } else { ", or add --train to compare training entries" };
    Err(CommandError::usage(message).hint(format!("all runs have: {}{train}", known.join(", "))).into())
}
