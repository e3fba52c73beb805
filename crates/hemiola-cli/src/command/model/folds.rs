//! `--folds`: cross-validation of a model before, or instead of, its training.

use super::job::TrainingJob;
use super::progress::{TrainingBar, time};
use super::train_args::{PreparedTraining, TrainArgs, exit_code_of};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use clap::Args;
use hemiola_array::read::{InputPaths, is_stream};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_models::input::{SplitBy, record_codes};
use hemiola_models::selection::{
    CrossValidationReport, FoldBy, FoldObserver, FoldResult, Tunable, cross_validate_with,
};
use hemiola_models::training::{EpochProgress, TrainingControl};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;

/// Maximum number of metrics in the line of a fold.
const SHOWN_METRICS: usize = 6;

/// Argument for the number of folds.
#[derive(Args, Debug)]
pub(super) struct FoldArgs {
    /// Cross-validation: train on all of N folds but one and evaluate on that one, for each of them,
    /// and print mean and standard deviation of all metrics. With --output, a model is then trained
    /// on all data.
    #[arg(long, visible_alias = "cv", value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) folds: Option<u32>,
}

/// Arguments for columns that folds respect.
#[derive(Args, Debug)]
pub(super) struct FoldColumnArgs {
    /// With --folds: examples with the same value of this column stay in one fold. The column is no
    /// feature.
    #[arg(long, value_name = "COLUMN", requires = "folds", conflicts_with = "time_column")]
    group_column: Option<String>,

    /// With --folds: train on older examples and evaluate on newer ones, by this column of times.
    /// The column is no feature.
    #[arg(long, value_name = "COLUMN", requires = "folds")]
    time_column: Option<String>,
}

impl FoldColumnArgs {
    /// Returns the columns that are no features.
    pub(super) fn ignored(&self) -> impl Iterator<Item = &String> {
        self.group_column.iter().chain(&self.time_column)
    }

    /// *Collective.* Returns the property that folds respect. Without a column, classes keep their
    /// shares.
    pub(super) fn by(&self, cluster: &Cluster, data: &[String], separator: Option<&str>) -> Result<FoldBy> {
        let by = match (&self.group_column, &self.time_column) {
            (Some(column), _) => SplitBy::Group(column.clone()),
            (None, Some(column)) => SplitBy::Time(column.clone()),
            (None, None) => return Ok(FoldBy::Class),
        };
        if data.iter().any(|path| is_stream(path)) {
            let failure =
                CommandError::usage("folds by a column read the data twice, which standard input does not allow");
            return Err(into_cluster_error(failure.hint("give a file for `--data`").into()));
        }
        // The root reads the column, so that all peers have the same folds.
        let read = || record_codes(InputPaths::from(data).find()?, separator, &by);
        let codes = if cluster.is_root() { Some(read()) } else { None };
        let problem = codes.as_ref().and_then(|codes| codes.as_ref().err()).map(ToString::to_string);
        if let Some(problem) = cluster.broadcast(problem)? {
            let failure = CommandError::usage(problem);
            return Err(into_cluster_error(failure.hint("`hemiola data describe FILE` shows the columns").into()));
        }
        let codes = cluster.broadcast(codes.transpose()?.unwrap_or_default())?;
        Ok(if matches!(by, SplitBy::Time(_)) { FoldBy::Time(codes) } else { FoldBy::Group(codes) })
    }
}

/// *Collective.* Cross-validates an estimator and prints the result. Returns the exit code if no
/// model is to be trained afterwards, or else the report.
pub(super) fn run<E: Tunable>(
    cluster: &Cluster,
    common: &TrainArgs,
    (estimator, data): (&E, &E::Data),
    (folds, by): (u32, &FoldBy),
    prepared: &PreparedTraining<'_>,
) -> Result<std::result::Result<CrossValidationReport, u8>> {
    let bar = if common.prints_lines(cluster) { TrainingBar::lines() } else { TrainingBar::disabled() };
    let job = common.job();
    let text = "cross-validation stops after this epoch, or in it if it is long; Ctrl-C again stops at once";
    job.loaded(&bar, (&prepared.headline, prepared.loading.as_secs_f64()), text);
    bar.line(&prepared.headline);
    let mut printer = FoldPrinter { bar: &bar, job };
    let report = cross_validate_with(cluster, estimator, data, (folds as usize, by, Seed(common.seed)), &mut printer)?;
    bar.line(summary(&report).trim_end());
    let signals = cluster.all_gather(job.interrupt.signal())?;
    let signal = signals.into_iter().flatten().next();
    if common.output().is_some() && signal.is_none() {
        return Ok(Ok(report));
    }
    job.set_result(&json!({ "folds": report.folds.len(), "mean": report.mean, "deviation": report.deviation }));
    if let (Some(target), true) = (common.report_target(), cluster.is_root()) {
        job.write_report(target, &report)?;
    }
    bar.check_written().map_err(into_cluster_error)?;
    Ok(Err(signal.map_or(0, exit_code_of)))
}

/// Observer that prints a line for each fold, and stops after a signal.
struct FoldPrinter<'a> {
    bar: &'a TrainingBar,
    job: &'a TrainingJob,
}

/// Epoch of the training for a fold, in the event log.
#[derive(Serialize)]
struct InFold<'a> {
    fold: usize,
    #[serde(flatten)]
    progress: &'a EpochProgress,
}

impl FoldPrinter<'_> {
    fn control(&self) -> TrainingControl {
        if self.job.interrupt.signal().is_some() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

impl FoldObserver for FoldPrinter<'_> {
    fn on_epoch(&mut self, fold: usize, progress: &EpochProgress) -> TrainingControl {
        self.job.log.record("epoch", &InFold { fold, progress });
        self.control()
    }

    fn on_fold(&mut self, fold: &FoldResult, folds: usize) -> TrainingControl {
        self.job.log.record("fold", fold);
        self.bar.line(&fold_line(fold, folds));
        self.control()
    }
}

fn fold_line(fold: &FoldResult, of: usize) -> String {
    let mut line = format!("fold {}/{of}", fold.fold);
    for (name, value) in fold.metrics.iter().take(SHOWN_METRICS) {
        let _ = write!(line, "  {name} {value:.4}");
    }
    let _ = write!(line, "  ({} trained, {} held out, {})", fold.train, fold.held_out, time(fold.seconds));
    line
}

/// Formats mean and deviation of all metrics.
fn summary(report: &CrossValidationReport) -> String {
    let mut text = format!("mean and standard deviation over {}:\n", counted(report.folds.len(), "fold"));
    for (name, mean) in &report.mean {
        let _ = match report.deviation.get(name) {
            Some(deviation) => writeln!(text, "{name} {mean:.4} ± {deviation:.4}"),
            None => writeln!(text, "{name} {mean:.4}"),
        };
    }
    text
}
