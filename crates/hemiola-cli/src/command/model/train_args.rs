//! What training any model has in common on the command line: flags, what is found out beforehand, peers, signals, results.
//!
//! A model brings its own flags, reads its data and calls [`TrainArgs::accompany`]; the rest is here, so that all models behave
//! alike. **Invariant:** whatever can be known before data are read is checked before; nothing is written until then.

use super::progress::{MetricColumns, ProgressPrinter, TrainingBar};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use crate::{report, shell, suggest};
use clap::Args;
use hemiola_array::BadLine;
use hemiola_array::read::InputFile;
use hemiola_array::save::SaveLock;
use hemiola_cluster::{Cluster, Interrupt, MAX_WORKERS, Result};
use hemiola_models::training::{Callback, CheckpointInterval, Checkpoints, FitOptions, TrainingLimits, TrainingReport};
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Flags of every `hemiola train`.
#[derive(Args, Debug)]
pub(super) struct TrainArgs {
    /// Worker threads of each peer. Default: all cores, shared among local peers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_WORKERS as i64), help_heading = "Where it runs")]
    workers: Option<u32>,

    /// Start this many local peers. Leave it out under `hemiola run`, `mpirun` or `srun`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Where it runs")]
    peers: Option<u32>,

    /// What all chance comes from: the same seed gives the same model, bit for bit.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// Stop after this many epochs. Default: 40; svm, logistic and lda 100; lasso and elastic-net 1000; nets 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "When it stops")]
    epochs: Option<u32>,

    /// Stop after this many seconds of training.
    #[arg(long, value_name = "S", value_parser = positive, help_heading = "When it stops")]
    seconds: Option<f64>,

    /// Stop when the held-out figure is as good as this: as low for an error, as high for NDCG. For svm, logistic, lasso and elastic-net it is the objective, for lda without held-out documents the log-likelihood per token.
    #[arg(long, value_name = "X", value_parser = finite, allow_negative_numbers = true, help_heading = "When it stops")]
    target: Option<f64>,

    /// Stop when that figure has not become better for this many epochs; 0 never stops for that. Default: 3; svm, logistic, lasso, elastic-net, lda and nets 0.
    #[arg(long, value_name = "N", help_heading = "When it stops")]
    patience: Option<u32>,

    /// Folder for the trained model and for checkpoints. An older model of the same kind there is replaced.
    #[arg(long, short, value_name = "DIR", help_heading = "What comes out")]
    output: Option<PathBuf>,

    /// Go on from the checkpoint in --output, to the same bits as if it had never stopped; lasso and elastic-net to the same minimum, nets on any number of peers.
    #[arg(long, requires = "output", help_heading = "What comes out")]
    resume: bool,

    /// Save a checkpoint after every N epochs. Default: after every minute of training. There is always one at the end.
    #[arg(long, value_name = "N", requires = "output", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What comes out")]
    checkpoint_every: Option<u32>,

    /// File for a report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    report: Option<PathBuf>,

    /// Print how the training loop is made parallel, and why.
    #[arg(long, help_heading = "What comes out")]
    explain: bool,

    /// Print nothing but errors.
    #[arg(long, short, help_heading = "What comes out")]
    quiet: bool,
}

/// What is known when data are in place and training is about to begin.
pub(super) struct PreparedTraining<'a> {
    /// What was read, for people.
    pub(super) headline: String,
    /// How long reading took.
    pub(super) loading: Duration,
    /// What to tell of an epoch.
    pub(super) figures: MetricColumns,
    pub(super) limits: &'a TrainingLimits,
    /// What [`TrainArgs::claim`] got.
    pub(super) lock: Option<SaveLock>,
}

impl TrainArgs {
    /// When it stops, where nobody says otherwise as `usual` says.
    pub(super) fn limits(&self, usual: &TrainingLimits) -> TrainingLimits {
        let patience = self.patience.map_or(usual.patience, |patience| (patience > 0).then_some(patience));
        let epochs = self.epochs.unwrap_or(usual.epochs);
        TrainingLimits { epochs, seconds: self.seconds, target: self.target, patience }
    }

    /// Whether lines for people may go to standard output.
    fn talks(&self) -> bool {
        !self.quiet && !self.reports_to_stdout()
    }

    fn reports_to_stdout(&self) -> bool {
        self.report.as_deref() == Some(Path::new("-"))
    }

    /// Tells of lines of the data that were left out, on standard error and at once: what follows may fail for want of them.
    pub(super) fn tell_skipped(&self, cluster: &Cluster, files: &str, skipped: &[BadLine]) {
        if let (Some(first), true) = (skipped.first(), cluster.is_root() && !self.quiet) {
            let lines = counted(skipped.len() as u64, "line");
            // If nobody hears it, the exit code and the count of ratings have to do.
            let _ = writeln!(std::io::stderr().lock(), "hemiola: left out {lines} of `{files}`; the first is {first}");
        }
    }

    /// Where checkpoints go and when, if somebody wants some.
    pub(super) fn checkpoints(&self) -> Option<Checkpoints> {
        let checkpoints = Checkpoints::new(self.output.as_ref()?).resume(self.resume);
        Some(match self.checkpoint_every {
            Some(epochs) => checkpoints.interval(CheckpointInterval::Epochs(epochs)),
            None => checkpoints,
        })
    }

    /// Finds what would stop the job from writing its results or from going on, before it starts.
    pub(super) fn check(&self, model: &str, settings: &impl Serialize) -> anyhow::Result<()> {
        if let (Some(output), Some(checkpoints)) = (&self.output, self.checkpoints()) {
            if output.exists() && !output.join("manifest.json").is_file() {
                let message = format!("`{}` exists and is no saved model", output.display());
                return Err(CommandError::usage(message)
                    .hint("choose another folder for --output, or remove it")
                    .into());
            }
            checkpoints.check(model, settings)?;
        }
        self.check_report()
    }

    /// Finds what would stop the job from writing its report.
    pub(super) fn check_report(&self) -> anyhow::Result<()> {
        self.report.as_deref().map_or(Ok(()), report::check)
    }

    /// *Collective.* The right to write to --output, before data are read. The root has it for all.
    pub(super) fn claim(&self, cluster: &Cluster) -> Result<Option<SaveLock>> {
        self.checkpoints().map_or(Ok(None), |checkpoints| checkpoints.lock(cluster))
    }

    /// Runs `program` on the peers asked for. What it returns is the exit code.
    pub(super) fn run(&self, program: impl FnOnce(&Cluster) -> Result<u8>) -> anyhow::Result<ExitCode> {
        if let Some(peers) = self.peers
            && let Some(code) = hemiola_cluster::launch::respawn_with(|launcher| {
                // As one process would: a reader that has seen enough does not end hours of training, and JSON stays JSON.
                launcher.peers(peers as usize).ignore_closed_output(true).unprefixed_root(self.reports_to_stdout())
            })?
        {
            return Ok(code);
        }
        let mut builder = Cluster::builder().from_environment()?;
        if let Some(workers) = self.workers {
            builder = builder.workers(workers as usize);
        }
        let code = builder.run(|cluster| {
            // Peers that this command has started itself are as many as it was told.
            if let Some(peers) = self.peers.filter(|&peers| peers as usize != cluster.size()) {
                let found = counted(cluster.size() as u64, "peer");
                let message = format!("--peers {peers} is given in a job of {found} that a launcher has started");
                return Err(into_cluster_error(
                    CommandError::usage(message).hint("leave out --peers; the launcher says how many").into(),
                ));
            }
            program(cluster)
        })?;
        Ok(ExitCode::from(code))
    }

    /// *Collective.* Trains with `fit`, tells how it goes, stops in good order when a signal comes, and hands out what was asked
    /// for. The exit code: 0, or 128 + the signal.
    pub(super) fn accompany(
        &self,
        cluster: &Cluster,
        mut prepared: PreparedTraining<'_>,
        fit: impl FnOnce(FitOptions<'_>) -> Result<TrainingReport>,
    ) -> Result<u8> {
        let lock = prepared.lock.take();
        self.attend(cluster, prepared, |watch| {
            let mut session = FitOptions::new().with_callback(watch);
            if let Some(checkpoints) = self.checkpoints() {
                session = session.with_checkpoints(checkpoints).with_lock(lock);
            }
            fit(session)
        })
    }

    /// *Collective.* The same for a model that saves and goes on by itself.
    pub(super) fn attend(
        &self,
        cluster: &Cluster,
        prepared: PreparedTraining<'_>,
        fit: impl FnOnce(&mut dyn Callback) -> Result<TrainingReport>,
    ) -> Result<u8> {
        // Held until all is saved.
        let PreparedTraining { headline, loading, figures, limits, lock: _lock } = prepared;
        let shown =
            if self.talks() && cluster.is_root() { TrainingBar::to_people(limits) } else { TrainingBar::nothing() };
        let (heard, with_output) = (shown.clone(), self.output.is_some());
        // Until now there was nothing to save, and a signal ended everything.
        let interrupt = Interrupt::watch(move |_| {
            let and_saved = if with_output { " and saved" } else { "" };
            heard.aside(&format!(
                "hemiola: training is stopped{and_saved} after this pass; Ctrl-C again ends it at once"
            ));
        })?;
        shown.line(&headline);
        let mut teller = ProgressPrinter {
            shown: &shown,
            explain: self.explain,
            figures,
            limits,
            interrupt: &interrupt,
            root: cluster.is_root(),
        };
        let fitted = fit(&mut teller);
        shown.clear();
        let mut report = fitted?;
        report.result.loading_seconds = Some(loading.as_secs_f64());
        // A peer that heard of no signal ends with the others all the same.
        let signals = cluster.all_gather(interrupt.signal())?;
        let signal = signals.into_iter().flatten().next().filter(|_| report.result.stopped_by_callback());
        shown.line(&super::progress::summary(&report, figures));
        if let Some(output) = &self.output {
            shown.line(&format!("saved to `{}`", output.display()));
        }
        if signal.is_some() {
            shown.line(&self.way_on(cluster));
        }
        if let (Some(target), true) = (&self.report, cluster.is_root()) {
            report::write(target, &report).map_err(into_cluster_error)?;
        }
        shown.must_have_been_written().map_err(into_cluster_error)?;
        Ok(signal.map_or(0, |signal| u8::try_from(128 + signal).unwrap_or(u8::MAX)))
    }

    /// How to go on after an interrupt.
    fn way_on(&self, cluster: &Cluster) -> String {
        if self.output.is_none() {
            return "nothing was saved; with `--output DIR` training could go on later".to_owned();
        }
        let resume = (!self.resume).then(|| "--resume".into());
        let command = shell::line(std::env::args_os().chain(resume));
        // Of a launcher that is not ours, only the peer's own command is known.
        let foreign = cluster.size() > 1 && self.peers.is_none();
        let before = if foreign { ", with the same launcher before it" } else { "" };
        format!("to go on{before}: {command}")
    }
}

/// Finds missing files before peers are started. What a store or a web server has is found by those who read it.
pub(super) fn must_exist(pattern: &str) -> anyhow::Result<()> {
    if pattern.contains("://") {
        return Ok(());
    }
    InputFile::find(pattern).map(drop).map_err(|error| {
        let hint = suggest::path_hint(Path::new(pattern));
        CommandError::array(&error, hint.as_deref().unwrap_or("`hemiola data describe FILE` shows what can be read"))
            .into()
    })
}

/// Reads a number that others can be compared with.
fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("`{text}` is no number, such as `0.9`"))
}

/// Reads a number of seconds above 0.
fn positive(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    seconds.ok_or_else(|| format!("`{text}` is no time in seconds, such as `30` or `0.5`"))
}
