//! `hemiola search`: the best settings of a model, and the model trained with them.
//!
//! A search takes all flags of `hemiola train`, which set what is not searched. `--seconds`,
//! `--report`, `--output` and `--resume` are those of the search.

use super::fm::TrainFm;
use super::job::TrainingJob;
use super::lda::TrainLda;
use super::linear::{TrainLogistic, TrainSvm};
use super::mf::TrainMf;
use super::progress::{ProgressPrinter, TrainingBar, time};
use super::ridge::TrainRidge;
use super::softmax::TrainSoftmax;
use super::sparse::{TrainElasticNet, TrainLasso};
use super::time_left::TimeLeft;
use super::train_args::{PreparedTraining, TrainArgs, exit_code_of};
use crate::error::{CommandError, into_cluster_error};
use crate::shell;
use clap::{Args, Subcommand, ValueEnum};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_models::metrics::MetricName;
use hemiola_models::selection::{
    SearchMethod, SearchObserver, SearchOutcome, SearchReport, SearchSettings, SettingValues, TrialRecord, TrialStatus,
    TrialStore, Tunable, search,
};
use hemiola_models::training::{EpochProgress, FitOptions, TrainingControl, TrainingReport};
use serde::Serialize;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fraction of the data used for validation, if none is given.
const VALIDATION: f64 = 0.1;

const AFTER_HELP: &str = "\
Examples:
  The best settings for your ratings within a minute, and the model trained with them on all of the data:
    hemiola search mf --data ratings.csv --seconds 60 --output model --report search.json
    hemiola plot search.json

  Your own space, on top of fixed settings; the same command finds the same settings:
    hemiola search mf --data ratings.csv --rank 32 --space 'l2=0.01..0.1 log, learning-rate=0.02..0.2 log' --trials 50
    hemiola search logistic --data train.libsvm --space 'c=0.01|0.1|1|10' --search grid --metric auc

  Continue an interrupted search:
    hemiola search mf --data ratings.csv --output model --resume

A space lists settings with a range (`l2=1e-3..1`, with ` log` for equal steps of the logarithm) or with values (`rank=8|16|32`). \
All flags of `hemiola train MODEL` are accepted and hold for all trials, but --seconds, --output, --report and --resume are those \
of the search, and --epochs is the maximum of a trial. docs/guides/tune.md describes the methods and the report.

Exit codes:
  0     searched and trained
  2     wrong use: change a flag, a line of the data or the output folder
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C (128 + the signal number for other signals); with --output the best model so far is saved";

/// Models of `hemiola search`.
#[derive(Debug, Subcommand)]
pub(crate) enum SearchCommand {
    /// Search settings of an elastic net: linear regression with an L1 and an L2 penalty.
    ElasticNet(Box<SearchModel<TrainElasticNet>>),
    /// Search settings of a factorization machine.
    Fm(Box<SearchModel<TrainFm>>),
    /// Search settings of a lasso: linear regression with an L1 penalty.
    Lasso(Box<SearchModel<TrainLasso>>),
    /// Search settings of a topic model (latent Dirichlet allocation).
    Lda(Box<SearchModel<TrainLda>>),
    /// Search settings of logistic regression.
    Logistic(Box<SearchModel<TrainLogistic>>),
    /// Search settings of matrix factorization.
    Mf(Box<SearchModel<TrainMf>>),
    /// Search settings of ridge regression.
    Ridge(Box<SearchModel<TrainRidge>>),
    /// Search settings of softmax regression.
    Softmax(Box<SearchModel<TrainSoftmax>>),
    /// Search settings of a linear support vector machine.
    Svm(Box<SearchModel<TrainSvm>>),
}

impl SearchCommand {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::ElasticNet(one) => one.train.search(one.search),
            Self::Fm(one) => one.train.search(one.search),
            Self::Lasso(one) => one.train.search(one.search),
            Self::Lda(one) => one.train.search(one.search),
            Self::Logistic(one) => one.train.search(one.search),
            Self::Mf(one) => one.train.search(one.search),
            Self::Ridge(one) => one.train.search(one.search),
            Self::Softmax(one) => one.train.search(one.search),
            Self::Svm(one) => one.train.search(one.search),
        }
    }
}

/// Arguments of a search: its own, and those of the training command.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SearchModel<T: Args> {
    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    train: T,
}

/// Arguments of all searches.
#[derive(Args, Clone, Debug)]
pub(super) struct SearchArgs {
    /// Number of trials: settings that are tried.
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Search")]
    trials: u32,

    /// Method of the search.
    #[arg(long = "search", value_enum, value_name = "METHOD", default_value = "halving", help_heading = "Search")]
    method: MethodName,

    /// Settings to search, with ranges or values: `rank=8..128 log, l2=0.01|0.1` [default: ranges
    /// for the model, which the search prints]
    #[arg(long, value_name = "SPACE", help_heading = "Search")]
    space: Option<String>,
}

/// Method of `--search`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodName {
    /// Successive halving: all trials get a few epochs, and the best third of them more.
    Halving,
    /// Random settings; trials worse than the median of others end early.
    Random,
    /// All combinations of the listed values, and of equally many values of each range.
    Grid,
}

/// Report of `hemiola search`.
#[derive(Serialize)]
struct SearchedReport<'a> {
    #[serde(flatten)]
    search: &'a SearchReport,
    /// Command that trains the best settings on all data.
    command: Option<&'a str>,
    /// Report of the final training.
    training: Option<&'a TrainingReport>,
}

/// Estimator with its data, ready to search.
pub(super) struct SearchInput<'a, E: Tunable> {
    pub(super) estimator: &'a E,
    pub(super) data: &'a E::Data,
    pub(super) validation: Option<&'a E::Data>,
    /// Fraction of the data for validation; 0 for the default.
    pub(super) share: f64,
    /// Metric that was chosen, if it is not the model's.
    pub(super) metric: Option<MetricName>,
}

impl SearchArgs {
    /// *Collective.* Searches, trains the best settings, and writes model and report. Returns the
    /// exit code.
    pub(super) fn run<E: Tunable>(
        &self,
        cluster: &Cluster,
        common: &TrainArgs,
        input: &SearchInput<'_, E>,
        prepared: PreparedTraining<'_>,
    ) -> Result<u8> {
        let SearchInput { estimator, data, validation, share, metric } = *input;
        let space = match &self.space {
            Some(text) => estimator.space_of(text)?,
            None => estimator.default_space(),
        };
        let bar = if common.prints_lines(cluster) { TrainingBar::lines() } else { TrainingBar::disabled() };
        let job = common.job();
        let text = "the search stops after this epoch, or in it if it is long; Ctrl-C again stops at once";
        job.loaded(&bar, (&prepared.headline, prepared.loading.as_secs_f64()), text);
        bar.line(&prepared.headline);
        bar.line(&format!("searching {space}"));
        // Peers of other machines have no access to a temporary folder of this one.
        let temporary = match common.output() {
            None if cluster.size() == 1 => Some(tempfile::tempdir()?),
            _ => None,
        };
        let folder =
            common.output().map(store_folder).or(temporary.as_ref().map(|folder| folder.path().join("trials")));
        let store = folder.map(TrialStore::new);
        let settings = SearchSettings {
            method: match self.method {
                MethodName::Halving => SearchMethod::Halving,
                MethodName::Random => SearchMethod::Random,
                MethodName::Grid => SearchMethod::Grid,
            },
            trials: self.trials as usize,
            seconds: common.limits().seconds,
            seed: Seed(common.seed),
            metric: metric.map(MetricName::target),
            validation: if share > 0.0 { share } else { VALIDATION },
            store: store.clone(),
            resume: common.resumes(),
            ..SearchSettings::new(space)
        };
        let mut printer = SearchPrinter { bar: &bar, job, trials: self.trials };
        let outcome = search(cluster, estimator, data, validation, &settings, &mut printer)?;
        bar.line(&summary(&outcome.report));
        let command = outcome
            .best
            .as_ref()
            .map(|best| training_command(&outcome.report, best.limits().epochs, estimator.chooses_epochs()));
        let mut training = None;
        if outcome.interrupted {
            save_best(cluster, common, &outcome, store.as_ref(), &bar)?;
        } else {
            training = Some(final_training(cluster, common, &outcome, data, prepared, &bar)?);
            if let (Some(store), true) = (&store, cluster.is_root()) {
                store
                    .remove()
                    .map_err(|error| into_cluster_error(CommandError::io("remove", store.folder(), &error).into()))?;
            }
        }
        if let Some(command) = &command {
            bar.line(&format!("to train the best settings again: {command}"));
        }
        let found = outcome.report.best_trial();
        job.set_result(&json!({
            "stop_reason": outcome.report.stop_reason,
            "best": found.map(|best| json!({ "trial": best.trial, "settings": best.settings, "value": best.best })),
            "training": training.as_ref().map(|report| &report.result),
        }));
        if let (Some(target), true) = (common.report_target(), cluster.is_root()) {
            let all =
                SearchedReport { search: &outcome.report, command: command.as_deref(), training: training.as_ref() };
            job.write_report(target, &all)?;
        }
        bar.check_written().map_err(into_cluster_error)?;
        // All peers exit with the code of the first signal, also those that received none.
        let stopped =
            outcome.interrupted || training.as_ref().is_some_and(|report| report.result.stopped_by_callback());
        let signals = cluster.all_gather(job.interrupt.signal())?;
        let signal = signals.into_iter().flatten().next().filter(|_| stopped);
        Ok(signal.map_or(0, exit_code_of))
    }
}

/// Returns the folder of an unfinished search, beside the output.
fn store_folder(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".search");
    output.with_file_name(name)
}

/// *Collective.* Saves the best model of an interrupted search, if there is an output folder.
fn save_best<E: Tunable>(
    cluster: &Cluster,
    common: &TrainArgs,
    outcome: &SearchOutcome<E>,
    store: Option<&TrialStore>,
    bar: &TrainingBar,
) -> Result<()> {
    match (common.output(), store, &outcome.best) {
        (Some(output), Some(store), Some(_)) => {
            outcome.save_checkpoint(cluster, store, output)?;
            bar.line(&format!("the best model so far is saved to `{}`", output.display()));
            let resume = (!common.resumes()).then(|| "--resume".into());
            bar.line(&format!("to resume: {}", shell::line(std::env::args_os().chain(resume))));
        }
        (None, ..) => bar.line("nothing was saved; with `--output DIR` a search can be resumed"),
        _ => {}
    }
    Ok(())
}

/// *Collective.* Trains the best settings on all data.
fn final_training<E: Tunable>(
    cluster: &Cluster,
    common: &TrainArgs,
    outcome: &SearchOutcome<E>,
    data: &E::Data,
    prepared: PreparedTraining<'_>,
    bar: &TrainingBar,
) -> Result<TrainingReport> {
    let Some(best) = &outcome.best else {
        let failure = CommandError::usage("no trial of the search has succeeded");
        return Err(into_cluster_error(failure.hint("narrow `--space`; the report has the reasons").into()));
    };
    bar.line("training the best settings on all of the data");
    let mut printer = ProgressPrinter {
        bar,
        explain: false,
        columns: prepared.columns,
        limits: best.limits(),
        job: common.job(),
        root: cluster.is_root(),
        left: TimeLeft::new(prepared.columns.goal),
    };
    let mut options = FitOptions::new().with_callback(&mut printer);
    if let Some(checkpoints) = common.checkpoints() {
        options = options.with_checkpoints(checkpoints.resume(false)).with_lock(prepared.lock);
    }
    let mut report = outcome.train(cluster, data, options)?.report;
    report.result.loading_seconds = Some(prepared.loading.as_secs_f64());
    if let Some(output) = common.output() {
        bar.line(&format!("saved to `{}`", output.display()));
    }
    Ok(report)
}

/// Epoch of a trial, in the event log.
#[derive(Serialize)]
struct InTrial<'a> {
    trial: u32,
    #[serde(flatten)]
    progress: &'a EpochProgress,
}

/// Observer that prints a line for each run of a trial, and stops after a signal.
struct SearchPrinter<'a> {
    bar: &'a TrainingBar,
    job: &'a TrainingJob,
    trials: u32,
}

impl SearchObserver for SearchPrinter<'_> {
    fn on_epoch(&mut self, trial: &TrialRecord, progress: &EpochProgress) -> TrainingControl {
        self.job.log.record("epoch", &InTrial { trial: trial.trial, progress });
        if self.job.interrupt.signal().is_some() { TrainingControl::Stop } else { TrainingControl::Continue }
    }

    fn on_trial_end(&mut self, trial: &TrialRecord, report: &SearchReport) {
        let TrialRecord { trial: number, settings, status, stop_reason, best, best_epoch, seconds, .. } = trial;
        self.job.log.record(
            "trial",
            &json!({
                "trial": number, "settings": settings, "status": status, "stop_reason": stop_reason, "best": best,
                "best_epoch": best_epoch, "seconds": seconds
            }),
        );
        self.bar.line(&trial_line(trial, report, self.trials));
    }
}

/// Formats a run of a trial.
fn trial_line(trial: &TrialRecord, report: &SearchReport, trials: u32) -> String {
    let metric = &report.metric;
    let width = trials.to_string().len();
    let result = match (trial.best, trial.status) {
        (_, TrialStatus::Failed) => format!("failed: {}", trial.stop_reason),
        (Some(value), TrialStatus::Pruned) => format!("{metric} {value:.4}, given up"),
        (Some(value), _) => format!("{metric} {value:.4}"),
        (None, _) => format!("no {metric}"),
    };
    let best = match report.best_trial() {
        Some(best) if best.trial == trial.trial => "the best so far".to_owned(),
        Some(best) => format!("best {:.4} (trial {})", best.best.unwrap_or(f64::NAN), best.trial),
        None => "none so far".to_owned(),
    };
    format!(
        "trial {:>width$}/{trials}  {:>3} epochs  {result}  {}  [{best}, {}]",
        trial.trial,
        trial.epochs(),
        settings_text(&trial.settings),
        time(report.seconds)
    )
}

fn settings_text(settings: &SettingValues) -> String {
    settings.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Formats the end of a search.
fn summary(report: &SearchReport) -> String {
    let reason = match report.stop_reason.as_str() {
        "time limit reached" => {
            format!("time limit reached after {} trials; another run may come further", report.trials.len())
        }
        reason => format!("{reason} ({})", report.trials.len()),
    };
    match report.best_trial() {
        Some(best) => format!(
            "{reason}; best validation {} {:.4} after epoch {} of trial {}: {}; {} of searching",
            report.metric,
            best.best.unwrap_or(f64::NAN),
            best.best_epoch.unwrap_or(0),
            best.trial,
            settings_text(&best.settings),
            time(report.seconds)
        ),
        None => format!("{reason}; no trial has the metric {}", report.metric),
    }
}

/// Returns the command that trains the best settings on all data.
fn training_command(report: &SearchReport, epochs: u32, chooses_epochs: bool) -> String {
    let Some(best) = report.best_trial() else { return String::new() };
    let mut words = train_words(std::env::args_os().collect(), &best.settings);
    for (name, value) in &best.settings {
        words.push(format!("--{name}").into());
        words.push(value.to_string().into());
    }
    words.extend(["--validation", "0"].map(OsString::from));
    if chooses_epochs {
        words.push("--epochs".into());
        words.push(epochs.to_string().into());
    }
    shell::line(words)
}

/// Flags of a search that its final training does not have.
const OF_SEARCH: [&str; 14] = [
    "trials",
    "search",
    "space",
    "metric",
    "seconds",
    "resume",
    "report",
    "log",
    "validation",
    "epochs",
    "patience",
    "target",
    "output",
    "quiet",
];

/// Returns the words of `hemiola train` with the flags of a search that hold for all trials.
fn train_words(words: Vec<OsString>, searched: &SettingValues) -> Vec<OsString> {
    let definition = crate::arguments::definition();
    let model = words.get(2).and_then(|name| name.to_str());
    let command =
        definition.find_subcommand("search").zip(model).and_then(|(search, name)| search.find_subcommand(name));
    let Some(command) = command else { return words };
    let (mut kept, mut dropping) = (Vec::new(), false);
    for (index, word) in words.into_iter().enumerate() {
        let text = word.to_string_lossy();
        if index == 1 {
            kept.push("train".into());
            continue;
        }
        let flag = if index < 3 { None } else { flag_name(command, &text) };
        if let Some(long) = flag {
            dropping = OF_SEARCH.contains(&long.as_str()) || searched.contains_key(&long);
        }
        if !dropping {
            kept.push(word);
        }
    }
    kept
}

/// Returns the long name of a flag as it is written, or `None` for a value.
fn flag_name(command: &clap::Command, word: &str) -> Option<String> {
    let (name, short) = match word.strip_prefix("--") {
        Some(long) => (long.split('=').next().unwrap_or(long), None),
        None => ("", word.strip_prefix('-').and_then(|rest| rest.chars().next())),
    };
    let is_named = |argument: &&clap::Arg| {
        let aliases = || argument.get_all_aliases().unwrap_or_default();
        let shorts = || argument.get_all_short_aliases().unwrap_or_default();
        match short {
            Some(short) => argument.get_short() == Some(short) || shorts().contains(&short),
            None => !name.is_empty() && (argument.get_long() == Some(name) || aliases().contains(&name)),
        }
    };
    command.get_arguments().find(is_named).and_then(clap::Arg::get_long).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_models::selection::SettingValue;

    fn kept(line: &str) -> String {
        let searched = SettingValues::from([("rank".to_owned(), SettingValue::Integer(8))]);
        shell::line(train_words(line.split_whitespace().map(OsString::from).collect(), &searched))
    }

    #[test]
    fn the_training_command_keeps_what_holds_for_all_trials() {
        let line =
            "hemiola search mf --data a.csv b.csv --factors 4 --trials 9 -j 2 --report=x.json -q --seed 3 --resume";
        assert_eq!(kept(line), "hemiola train mf --data a.csv b.csv -j 2 --seed 3");
        let line = "hemiola search mf -d r.csv -o model --space rank=1..8 --loss one-class --validation v.csv";
        assert_eq!(kept(line), "hemiola train mf -d r.csv --loss one-class");
    }

    #[test]
    fn an_unfinished_search_lies_beside_its_output() {
        assert_eq!(store_folder(Path::new("a/model")), Path::new("a/model.search"));
    }
}
