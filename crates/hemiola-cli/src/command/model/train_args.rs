//! Arguments and behaviour shared by all `hemiola train` commands: peers, stopping, checkpoints,
//! signals, reports.
//!
//! A model defines its own flags, reads its data and calls [`TrainArgs::fit`]. **Invariant:**
//! everything that can be checked before data are read is checked then; nothing is written before.

use super::input_args::print_notes;
use super::job::{JobDescription, TrainingJob};
use super::progress::{MetricColumns, ProgressPrinter, TrainingBar};
use super::time_left::TimeLeft;
use crate::arguments::GivenFlags;
use crate::error::{CommandError, into_cluster_error};
use crate::event_log::EventLog;
use crate::plural::counted;
use crate::run_record::RunRecord;
use crate::{Invocation, output, report, shell, suggest};
use clap::Args;
use hemiola_array::read::{InputFile, is_stream};
use hemiola_array::save::{PartWriter, SaveLock};
use hemiola_array::{BadLine, Error as ArrayError};
use hemiola_cluster::{Cluster, Error, MAX_WORKERS, Result};
use hemiola_models::training::{
    CheckpointInterval, Checkpoints, FitOptions, TrainingLimits, TrainingReport, check_checkpoints, check_same_values,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

/// Flags of all `hemiola train` commands. Each command [completes](super::train_defaults) help and
/// defaults of some of them.
#[derive(Args, Debug)]
pub(super) struct TrainArgs {
    /// Worker threads of each peer [default: all cores, divided among local peers]
    #[arg(long, visible_alias = "threads", visible_short_alias = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_WORKERS as i64), help_heading = "Cluster")]
    workers: Option<u32>,

    /// Number of local peers to launch. Omit it under `hemiola run`, `mpirun` or `srun`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Cluster")]
    peers: Option<u32>,

    /// Random seed. The same command with the same seed gives a bit-identical model on the same
    /// number of peers.
    #[arg(long, visible_alias = "random-state", value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// Maximum number of epochs
    #[arg(long, value_name = "N", required = false, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Stopping")]
    epochs: u32,

    /// Maximum training time in seconds.
    #[arg(long, value_name = "S", value_parser = positive, help_heading = "Stopping")]
    seconds: Option<f64>,

    /// Stop when the metric reaches X
    #[arg(long, value_name = "X", value_parser = finite, allow_negative_numbers = true, help_heading = "Stopping")]
    target: Option<f64>,

    /// Early stopping
    #[arg(long, value_name = "N", required = false, help_heading = "Stopping")]
    patience: u32,

    /// Folder for the trained model and its checkpoints. An existing model of the same kind is
    /// replaced.
    #[arg(long, short, value_name = "DIR", help_heading = "Output")]
    output: Option<PathBuf>,

    /// Resume from the checkpoint in --output
    #[arg(long, requires = "output", help_heading = "Output")]
    resume: bool,

    /// Save a checkpoint every N epochs, and at the end; `30s` for every 30 seconds of training, and
    /// `500steps` for every 500 steps of a net [default: every minute of training, and at the end]
    #[arg(long, value_name = "N|Ns|Nsteps", requires = "output", value_parser = checkpoint_interval, help_heading = "Output")]
    checkpoint_every: Option<CheckpointInterval>,

    /// File for the report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// File for a log of events while the command runs, as JSON lines: start, epochs, checkpoints,
    /// interruption, result. With --resume an existing log is continued.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    log: Option<PathBuf>,

    /// Print the parallelization plan of the training loop and the reasons for it.
    #[arg(long, help_heading = "Output")]
    explain: bool,

    /// Print errors only.
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,

    #[arg(skip)]
    description: OnceLock<JobDescription>,

    /// Job of this process, once it has begun.
    #[arg(skip)]
    job: OnceLock<TrainingJob>,
}

/// Loaded training job, ready to fit.
pub(super) struct PreparedTraining<'a> {
    /// Summary of the data and the cluster, printed before the first epoch.
    pub(super) headline: String,
    /// Time spent on loading data.
    pub(super) loading: Duration,
    /// Metric and unit of the progress lines.
    pub(super) columns: MetricColumns,
    pub(super) limits: &'a TrainingLimits,
    /// Lock of the output folder, from [`TrainArgs::lock_output`].
    pub(super) lock: Option<SaveLock>,
}

impl TrainArgs {
    /// Returns the stopping limits.
    pub(super) fn limits(&self) -> TrainingLimits {
        let patience = (self.patience > 0).then_some(self.patience);
        TrainingLimits { epochs: self.epochs, seconds: self.seconds, target: self.target, patience }
    }

    /// Returns true if progress lines may go to standard output.
    fn prints_progress(&self) -> bool {
        !self.quiet && !self.reports_to_stdout()
    }

    fn reports_to_stdout(&self) -> bool {
        self.report.as_deref() == Some(Path::new("-"))
    }

    /// Reports skipped lines on standard error, immediately: training may fail for lack of data.
    pub(super) fn report_skipped_lines(&self, cluster: &Cluster, files: &str, skipped: &[BadLine]) {
        if let (Some(first), true) = (skipped.first(), cluster.is_root() && !self.quiet) {
            let lines = counted(skipped.len(), "line");
            output::note(&format!(
                "skipped {lines} of `{files}`; the first is {}",
                hemiola_core::printable(&first.to_string())
            ));
        }
    }

    /// Prints notes about the data on standard error.
    pub(super) fn report_notes(&self, cluster: &Cluster, notes: &[String]) {
        if cluster.is_root() && !self.quiet {
            print_notes(notes);
        }
    }

    /// Returns true on the peer that prints progress lines.
    pub(super) fn prints_lines(&self, cluster: &Cluster) -> bool {
        self.prints_progress() && cluster.is_root()
    }

    /// Returns the folder of the trained model, if one is given.
    pub(super) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Returns the target of the report, if one is given.
    pub(super) fn report_target(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    /// Returns true if a run is to be resumed.
    pub(super) fn resumes(&self) -> bool {
        self.resume
    }

    /// Returns folder and interval of checkpoints, if `--output` is given.
    pub(super) fn checkpoints(&self) -> Option<Checkpoints> {
        let checkpoints = Checkpoints::new(self.output.as_ref()?).resume(self.resume);
        Some(match self.checkpoint_every {
            Some(interval) => checkpoints.interval(interval),
            None => checkpoints,
        })
    }

    /// Checks, before training starts, that results can be written and that a resume is possible.
    /// A `search` is resumed from a folder of its own.
    pub(super) fn check(&self, model: &str, settings: &impl Serialize, search: bool) -> anyhow::Result<()> {
        self.describe(model, settings);
        let checkpoints = self.checkpoints().map(|all| if search { all.resume(false) } else { all });
        if let (Some(output), Some(checkpoints)) = (&self.output, checkpoints) {
            if !PartWriter::accepts(output) {
                let message = format!("`{}` exists and is not a saved model", output.display());
                return Err(CommandError::usage(message)
                    .hint("choose another folder for --output, or remove it")
                    .into());
            }
            check_checkpoints(&checkpoints, model, settings)?;
        }
        self.check_files()
    }

    /// Sets model and settings of the event log.
    pub(super) fn describe(&self, model: &str, settings: &impl Serialize) {
        let settings = serde_json::to_value(settings).unwrap_or_default();
        // A command describes its job once.
        let _ = self.description.set(JobDescription { model: model.to_owned(), settings });
    }

    /// Checks that the report and the event log can be written.
    pub(super) fn check_files(&self) -> anyhow::Result<()> {
        self.report.as_deref().map_or(Ok(()), report::check)?;
        self.log.as_deref().map_or(Ok(()), EventLog::check)
    }

    /// Begins the job of this process.
    fn begin(&self, cluster: &Cluster) -> Result<&TrainingJob> {
        let record = cluster.is_root().then(|| {
            let given = GivenFlags::of_process();
            RunRecord::new(cluster, ["--data", "--validation"].iter().flat_map(|flag| given.values(flag)))
        });
        let log = match &self.log {
            Some(target) if cluster.is_root() => EventLog::open(target, self.resume).map_err(into_cluster_error)?,
            _ => EventLog::default(),
        };
        let description = self.description.get().cloned().unwrap_or_default();
        let job = TrainingJob::begin(cluster, log, record, (&description, self.prints_progress()))?;
        Ok(self.job.get_or_init(|| job))
    }

    /// Returns the job of this process.
    ///
    /// # Panics
    /// Outside of [`run`](Self::run).
    pub(super) fn job(&self) -> &TrainingJob {
        self.job.get().expect("`run` has begun the job")
    }

    /// *Collective.* Locks `--output` before data are read. The root holds the lock for all peers.
    pub(super) fn lock_output(&self, cluster: &Cluster) -> Result<Option<SaveLock>> {
        self.checkpoints().map_or(Ok(None), |checkpoints| checkpoints.lock(cluster))
    }

    /// Runs `program` on the requested peers. Its result is the exit code.
    pub(super) fn run(&self, program: impl FnOnce(&Cluster) -> Result<u8>) -> anyhow::Result<ExitCode> {
        if let Some(peers) = self.peers
            && let Some(code) = Invocation::current().respawn(|launcher| {
                // As in one process, a closed pipe does not stop training, and JSON stays JSON.
                launcher
                    .peers(peers as usize)
                    .ignore_closed_output(true)
                    .merge_errors(true)
                    .unprefixed_root(self.reports_to_stdout())
                    .root_stdin(GivenFlags::of_process().read_standard_input())
            })?
        {
            return Ok(code);
        }
        let mut builder = Cluster::builder().from_environment()?;
        if let Some(workers) = self.workers {
            builder = builder.workers(workers as usize);
        }
        let code = builder.run(|cluster| {
            // Peers launched by this command have the requested world size; others may not.
            if let Some(peers) = self.peers.filter(|&peers| peers as usize != cluster.size()) {
                let found = counted(cluster.size(), "peer");
                let message = format!("--peers {peers} is given in a job of {found} started by a launcher");
                return Err(into_cluster_error(
                    CommandError::usage(message).hint("omit --peers; the launcher sets the number").into(),
                ));
            }
            check_same_values(cluster, GivenFlags::of_process().shared())?;
            let job = self.begin(cluster)?;
            let outcome = self.end_of_stopped(cluster, program(cluster));
            let logged = job.end(cluster, &outcome);
            outcome.and_then(|code| logged.map(|()| code))
        })?;
        Ok(ExitCode::from(code))
    }

    /// *Collective.* Returns the exit code of a training that was stopped before there was a model.
    fn end_of_stopped(&self, cluster: &Cluster, outcome: Result<u8>) -> Result<u8> {
        let Err(Error::Stopped) = outcome else { return outcome };
        let signals = cluster.all_gather(self.job().interrupt.signal())?;
        if let Some(signal) = signals.into_iter().flatten().next() {
            if cluster.is_root() && !self.quiet {
                output::note("interrupted within the first epoch; there is no model yet, and nothing was saved");
            }
            return Ok(exit_code_of(signal));
        }
        let failure = CommandError::usage("the time limit was reached within the first epoch: there is no model");
        Err(into_cluster_error(failure.hint("raise --seconds, or train on less data").into()))
    }

    /// *Collective.* Trains with `fit` and prints progress; a signal stops training after the
    /// epoch. Writes model and report. Returns the exit code: 0, or 128 + the signal number.
    pub(super) fn fit(
        &self,
        cluster: &Cluster,
        prepared: PreparedTraining<'_>,
        fit: impl FnOnce(FitOptions<'_>) -> Result<TrainingReport>,
    ) -> Result<u8> {
        let PreparedTraining { headline, loading, columns, limits, lock } = prepared;
        let bar = if self.prints_progress() && cluster.is_root() {
            TrainingBar::enabled(limits)
        } else {
            TrainingBar::disabled()
        };
        let job = self.job();
        let saved = if self.output.is_some() { ", then the model is saved" } else { "" };
        let text =
            format!("training stops after this epoch, or in it if it is long{saved}; Ctrl-C again stops at once");
        job.loaded(&bar, (&headline, loading.as_secs_f64()), &text);
        bar.line(&headline);
        let mut printer = ProgressPrinter {
            bar: &bar,
            explain: self.explain,
            columns,
            limits,
            job,
            root: cluster.is_root(),
            left: TimeLeft::new(columns.goal),
        };
        let mut options = FitOptions::new().with_callback(&mut printer);
        if let Some(checkpoints) = self.checkpoints() {
            options = options.with_checkpoints(checkpoints).with_lock(lock);
        }
        let fitted = fit(options);
        bar.clear();
        let mut report = fitted?;
        report.result.loading_seconds = Some(loading.as_secs_f64());
        // All peers exit with the code of the first signal, also those that received none.
        let signals = cluster.all_gather(job.interrupt.signal())?;
        let signal = signals.into_iter().flatten().next().filter(|_| report.result.stopped_by_callback());
        bar.line(&super::progress::summary(&report, columns));
        if let Some(output) = &self.output {
            bar.line(&format!("saved to `{}`", output.display()));
        }
        if signal.is_some() {
            bar.line(&self.resume_hint(cluster));
        }
        job.set_result(&report.result);
        if let (Some(target), true) = (&self.report, cluster.is_root()) {
            job.write_report(target, &report)?;
        }
        bar.check_written().map_err(into_cluster_error)?;
        Ok(signal.map_or(0, exit_code_of))
    }

    /// Returns the line that says how to resume after an interrupt.
    fn resume_hint(&self, cluster: &Cluster) -> String {
        if self.output.is_none() {
            return "nothing was saved; with `--output DIR` training can be resumed".to_owned();
        }
        let resume = (!self.resume).then(|| "--resume".into());
        let command = shell::line(Invocation::current().words().chain(resume));
        // Under another launcher only the peer's own command line is known.
        let foreign = cluster.size() > 1 && self.peers.is_none();
        let before = if foreign { ", with the same launcher before it" } else { "" };
        format!("to resume{before}: {command}")
    }
}

/// Returns the exit code after a signal.
pub(super) fn exit_code_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Checks that files exist, before peers are launched. URLs, and streams, which can be read once
/// only, are checked by the reader.
pub(super) fn must_exist(pattern: &str) -> anyhow::Result<()> {
    let folder = || Path::new(pattern).is_dir() && InputFile::find_below(Path::new(pattern)).is_ok();
    if pattern.contains("://") || is_stream(pattern) {
        return Ok(());
    }
    match InputFile::find(pattern) {
        Ok(_) => Ok(()),
        Err(ArrayError::NoFiles { .. }) if folder() => Ok(()),
        Err(error) => Err(CommandError::array(&error, &missing_hint(pattern, &error)).into()),
    }
}

/// Returns the hint for files that were not found, or that are none.
fn missing_hint(pattern: &str, error: &ArrayError) -> String {
    let path = Path::new(pattern);
    if let Some(near) = suggest::path_hint(path) {
        return near;
    }
    match error {
        // A comma is part of a path unless the parts are files of their own.
        _ if pattern.contains(',') && pattern.split(',').all(|part| Path::new(part).exists()) => {
            format!("separate several files by spaces: `--data {}`", pattern.replace(',', " "))
        }
        ArrayError::BadFile { .. } => "`hemiola data describe FILE` shows what can be read".to_owned(),
        _ => match std::env::current_dir() {
            Ok(folder) if path.is_relative() => format!("paths are relative to `{}`", folder.display()),
            _ => "`--data` takes files, folders, quoted patterns, and `-` for standard input".to_owned(),
        },
    }
}

/// Parses an interval of checkpoints: epochs, seconds or steps.
fn checkpoint_interval(text: &str) -> Result<CheckpointInterval, String> {
    let parsed = if let Some(steps) = text.strip_suffix("steps").or_else(|| text.strip_suffix("step")) {
        steps.trim().parse().ok().filter(|steps| *steps > 0).map(CheckpointInterval::Steps)
    } else if let Some(seconds) = text.strip_suffix('s') {
        positive(seconds.trim()).ok().map(CheckpointInterval::Seconds)
    } else {
        text.parse().ok().filter(|epochs| *epochs > 0).map(CheckpointInterval::Epochs)
    };
    parsed.ok_or_else(|| format!("`{text}` is no interval, such as `2` (epochs), `30s` or `500steps`"))
}

/// Parses a finite number.
fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a finite number, such as `0.9`"))
}

/// Parses a positive number of seconds.
fn positive(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| format!("`{text}` is not a time in seconds, such as `30` or `0.5`"))
}
