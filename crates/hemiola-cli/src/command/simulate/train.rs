//! `hemiola simulate train`: what a training would take on a cluster one does not have.

use super::cluster::{SimulatedClusterArgs, read_profile, table};
use crate::error::CommandError;
use clap::{Args, Subcommand};
use hemiola_sim::trace::SimTrace;
use hemiola_sim::workload::mf::MfWorkload;
use hemiola_sim::workload::profiled::ProfiledProgram;
use hemiola_sim::workload::what_if::{TrainingPrediction, TrainingStrategy, predict};
use hemiola_sim::{ClusterSpec, SimDuration};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  What your own training would take, from what it takes here:
    hemiola train mf --data ratings.csv --epochs 5 --workers 1 --profile mf.json
    hemiola simulate train mf --profile mf.json --peers 16 --link 1gbit --latency 100us --trace run.json

  Made-up ratings, and a time for each:
    hemiola simulate train mf --peers 64 --link 1gbit --latency 200us --rating 40ns --strategy ssp:3,rotation
    hemiola simulate train mf --cluster cluster.toml

A cluster file says more than flags can: peers that share the cores of a host, jitter, lost packets, stragglers, racks with narrow uplinks, faults; docs/simulation.md has all of it. A profile says how long ratings take, how they are spread over users and items, and which rows \
travel; rotation is then the very plan that a cluster of this size would make. Without one, ratings are made up, and tables compute for real, so they have an error; of all else only times and bytes are simulated.

The report holds \"cluster\", \"job\" (without a profile) and \"predictions\", one for each strategy: \"strategy\", \"pass_seconds\", \"pass_bytes\" and \"pass_messages\" (of a peer, on average), \"computing\" and \"waiting\" (shares of workers' time) and \"rmse\". The trace opens in Perfetto or chrome://tracing; it is of the first strategy.";

/// What to train.
#[derive(Debug, Subcommand)]
pub(crate) enum SimulateTrainCommand {
    /// Matrix factorization.
    Mf(SimulateMfArgs),
}

impl SimulateTrainCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Mf(mf) => mf.execute(),
        }
    }
}

/// The arguments of `hemiola simulate train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateMfArgs {
    /// What was measured of a training on one machine: a file of `hemiola train mf --profile`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "items", "per_user", "rank", "rating"])]
    profile: Option<PathBuf>,

    /// Workers of each peer.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// Strategies to compare: bsp, ssp:STALENESS, rotation, all-reduce.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "bsp,ssp:2,rotation,all-reduce")]
    strategy: Vec<TrainingStrategy>,

    /// Users.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    users: u64,

    /// Items.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    items: u64,

    /// Ratings of each user.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    per_user: u64,

    /// Numbers of a factor.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4096))]
    rank: u64,

    /// How long one rating takes on one core.
    #[arg(long, value_name = "SPAN", default_value = "100ns")]
    rating: SimDuration,

    /// Clocks in a pass, for tables and all-reduce.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    clocks: u64,

    /// Passes.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    passes: u64,

    #[command(flatten)]
    cluster: SimulatedClusterArgs,
}

#[derive(Serialize)]
struct SimulatedTrainingReport {
    cluster: ClusterSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<MfWorkload>,
    predictions: Vec<TrainingPrediction>,
}

impl SimulateMfArgs {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let cluster = self.cluster.describe()?;
        let profile = self.profile.as_deref().map(read_profile).transpose()?;
        let job = profile.is_none().then(|| self.job(cluster.peers));
        let predicted =
            |strategy: TrainingStrategy, traced: bool| -> Result<(TrainingPrediction, Option<SimTrace>), String> {
                match (&profile, &job) {
                    (Some(profile), _) => {
                        let (workers, passes) = (self.workers as usize, self.passes as usize);
                        let measured = ProfiledProgram { profile, workers, clocks: self.clocks, passes };
                        measured.predict(strategy, &cluster, self.cluster.seed, traced)
                    }
                    (None, Some(job)) => predict(job, strategy, &cluster, self.cluster.seed, traced),
                    (None, None) => Err("there is neither a profile nor a job".to_owned()),
                }
            };
        let mut predictions = Vec::new();
        for (number, strategy) in self.strategy.iter().enumerate() {
            let found = predicted(*strategy, number == 0 && self.cluster.trace.is_some());
            let (prediction, trace) = found.map_err(|problem| CommandError::usage(format!("{strategy}: {problem}")))?;
            self.cluster.write_trace(trace.as_ref())?;
            predictions.push(prediction);
        }
        let text = table(&cluster, &predictions);
        self.cluster.tell(&text, &SimulatedTrainingReport { cluster, job, predictions })?;
        Ok(ExitCode::SUCCESS)
    }

    fn job(&self, shards: usize) -> MfWorkload {
        MfWorkload {
            seed: self.cluster.seed,
            users: self.users as usize,
            items: self.items as usize,
            per_user: self.per_user as usize,
            rank: self.rank as usize,
            clocks: self.passes * self.clocks,
            clocks_per_epoch: self.clocks,
            workers: self.workers as usize,
            shards,
            rating_time: self.rating,
            ..MfWorkload::default()
        }
    }
}
