//! What training any model has in common on the command line: flags, peers, lines of progress.

use crate::failure::Failure;
use clap::Args;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::training::{Limits, Progress, Summary, Watch, Wish};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of every `hemiola train`.
#[derive(Args, Debug)]
pub(super) struct Common {
    /// Worker threads of each peer. Default: all cores, shared among local peers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Where it runs")]
    workers: Option<u32>,

    /// Start this many local peers. Leave it out under `hemiola run`, `mpirun` or `srun`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Where it runs")]
    peers: Option<u32>,

    /// What all chance comes from: the same seed gives the same model, bit for bit.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// Stop after this many epochs.
    #[arg(long, value_name = "N", default_value = "40", value_parser = clap::value_parser!(u32).range(1..), help_heading = "When it stops")]
    epochs: u32,

    /// Stop after this many seconds of training.
    #[arg(long, value_name = "S", help_heading = "When it stops")]
    seconds: Option<f64>,

    /// Stop when the held-out figure is as low as this.
    #[arg(long, value_name = "X", help_heading = "When it stops")]
    target: Option<f64>,

    /// Stop when the held-out figure has not become better for this many epochs; 0 never stops for that.
    #[arg(long, value_name = "N", default_value = "3", help_heading = "When it stops")]
    patience: u32,

    /// Folder for the trained model. An older model there is replaced.
    #[arg(long, short, value_name = "DIR", help_heading = "What comes out")]
    pub(super) output: Option<PathBuf>,

    /// File for a report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    pub(super) report: Option<PathBuf>,

    /// Print how the training loop is made parallel, and why.
    #[arg(long, help_heading = "What comes out")]
    pub(super) explain: bool,

    /// Print nothing but errors.
    #[arg(long, short, help_heading = "What comes out")]
    quiet: bool,
}

impl Common {
    pub(super) fn limits(&self) -> Limits {
        let patience = (self.patience > 0).then_some(self.patience);
        Limits { epochs: self.epochs, seconds: self.seconds, target: self.target, patience }
    }

    /// Whether lines for people may go to standard output.
    pub(super) fn talks(&self) -> bool {
        !self.quiet && self.report.as_deref() != Some(Path::new("-"))
    }

    /// Finds what would stop the job from writing its results, before it starts.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        if output.exists() && !output.join("manifest.json").is_file() {
            let message = format!("`{}` exists and is no saved model", output.display());
            return Err(Failure::usage(message).hint("choose another folder for --output, or remove it").into());
        }
        let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        tempfile::tempfile_in(parent).map_err(|error| Failure::io("write to", parent, &error))?;
        Ok(())
    }

    /// Runs `program` on the peers asked for.
    pub(super) fn run(&self, program: impl FnOnce(&Cluster) -> Result<()>) -> anyhow::Result<ExitCode> {
        if let Some(peers) = self.peers
            && let Some(code) = hemiola_cluster::launch::respawn(peers as usize)?
        {
            return Ok(code);
        }
        let mut builder = Cluster::builder().from_environment()?;
        if let Some(workers) = self.workers {
            builder = builder.workers(workers as usize);
        }
        builder.run(program)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a line for each epoch, on the first peer.
pub(super) struct Lines<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) talks: bool,
    pub(super) explain: bool,
    /// The figure to show.
    pub(super) metric: &'static str,
    pub(super) epochs: u32,
}

impl Watch for Lines<'_> {
    fn planned(&mut self, plan: &hemiola::loops::Plan) {
        if self.explain && self.talks {
            self.cluster.println(format_args!("{plan}"));
        }
    }

    fn progress(&mut self, progress: &Progress) -> Wish {
        if self.talks {
            let figure = |metrics: &hemiola_models::training::Metrics| metrics.get(self.metric).copied().unwrap_or(0.0);
            let mut line = format!("epoch {:>3}/{}", progress.epoch, self.epochs);
            let _ = write!(line, "  train {} {:.4}", self.metric, figure(&progress.train));
            if let Some(valid) = &progress.valid {
                let _ = write!(line, "  held out {:.4}", figure(valid));
            }
            let rate = progress.updates as f64 / progress.seconds.max(1e-9) / 1e6;
            let _ = write!(line, "  {rate:.1} M updates/s  {:.2} s", progress.seconds);
            if let Some(note) = &progress.note {
                let _ = write!(line, "  ({note})");
            }
            self.cluster.println(format_args!("{line}"));
        }
        Wish::GoOn
    }
}

/// The end of a training, in words.
pub(super) fn summary(cluster: &Cluster, result: &Summary, metric: &str) {
    let mut line = format!("done: {}", result.ended);
    if let Some(figure) = result.valid.as_ref().and_then(|valid| valid.get(metric)) {
        let _ = write!(line, "; held-out {metric} {figure:.4} after epoch {}", result.best_epoch);
    }
    let _ = write!(line, "; {:.2} s of training, {:.1} M updates/s", result.seconds, result.updates_per_second / 1e6);
    cluster.println(format_args!("{line}"));
}
