//! `hemiola simulate train`: predicts time and traffic of a training run on a cluster.

use super::cluster::{SimulatedClusterArgs, read_profile, table};
use crate::arguments::named_value::NamedValueParser;
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
  Predict your own training run from a profile of it:
    hemiola train mf --data ratings.csv --epochs 5 --workers 1 --profile mf.json
    hemiola simulate train mf --profile mf.json --peers 16 --bandwidth 1gbit --latency 100us --trace run.json

  Synthetic ratings, and an assumed time per rating:
    hemiola simulate train mf --peers 64 --bandwidth 1gbit --latency 200us --time-per-rating 40ns --strategy ssp:3,rotation
    hemiola simulate train mf --cluster cluster.toml

A cluster file can describe more than the flags: hosts whose peers share cores, jitter, packet loss, stragglers, \
oversubscribed racks and faults, see docs/guides/simulate.md. A profile contains the time per rating, the distribution of ratings \
over users and items, and the rows that travel; rotation then follows the plan that a cluster of this size would choose. \
Without a profile ratings are synthetic. Tables (bsp, ssp) then really train, so that the RMSE is known; for the other \
strategies only time and bytes are simulated.

The report has the keys \"cluster\", \"workload\" (without a profile) and \"predictions\", one per strategy: \"strategy\", \
\"epoch_seconds\", \"epoch_bytes\" and \"epoch_messages\" (mean of a peer, per epoch), \"computing\" and \"waiting\" \
(fractions of the workers' time) and \"rmse\". The trace shows the first strategy; open it in Perfetto or chrome://tracing.";

/// Models whose training can be simulated.
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

/// Parser of `--strategy`, with names for completion.
const STRATEGY: NamedValueParser<TrainingStrategy> =
    NamedValueParser::new(str::parse, || ["bsp", "ssp:", "rotation", "all-reduce"].map(str::to_owned).to_vec());

/// Arguments of `hemiola simulate train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateMfArgs {
    /// Profile of a training run on one machine, recorded with `hemiola train mf --profile`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "items", "ratings_per_user", "rank", "time_per_rating"])]
    profile: Option<PathBuf>,

    /// Worker threads of each peer.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// Strategies to compare: bsp, ssp:STALENESS, rotation, all-reduce.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "bsp,ssp:2,rotation,all-reduce", value_parser = STRATEGY, hide_possible_values = true)]
    strategy: Vec<TrainingStrategy>,

    /// Number of users.
    #[arg(long, value_name = "N", default_value = "4096", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    users: u64,

    /// Number of items.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    items: u64,

    /// Number of ratings of each user.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    ratings_per_user: u64,

    /// Rank of the factorization.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4096))]
    rank: u64,

    /// Compute time of one rating on one core.
    #[arg(long, value_name = "SPAN", default_value = "100ns")]
    time_per_rating: SimDuration,

    /// Clocks per epoch, for tables (bsp, ssp) and all-reduce.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    clocks_per_epoch: u64,

    /// Number of epochs.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    epochs: u64,

    #[command(flatten)]
    cluster: SimulatedClusterArgs,
}

#[derive(Serialize)]
struct SimulatedTrainingReport {
    cluster: ClusterSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<MfWorkload>,
    predictions: Vec<TrainingPrediction>,
}

impl SimulateMfArgs {
    fn execute(self) -> anyhow::Result<ExitCode> {
        let cluster = self.cluster.cluster_spec()?;
        let profile = self.profile.as_deref().map(read_profile).transpose()?;
        let workload = profile.is_none().then(|| self.workload(cluster.peers));
        let predicted = |strategy: TrainingStrategy,
                         traced: bool|
         -> Result<(TrainingPrediction, Option<SimTrace>), String> {
            match (&profile, &workload) {
                (Some(profile), _) => {
                    let (workers, epochs) = (self.workers as usize, self.epochs as usize);
                    let measured = ProfiledProgram { profile, workers, clocks: self.clocks_per_epoch, passes: epochs };
                    measured.predict(strategy, &cluster, self.cluster.seed, traced)
                }
                (None, Some(workload)) => predict(workload, strategy, &cluster, self.cluster.seed, traced),
                (None, None) => Err("there is neither a profile nor a workload".to_owned()),
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
        self.cluster.print_and_report(&text, &SimulatedTrainingReport { cluster, workload, predictions })?;
        Ok(ExitCode::SUCCESS)
    }

    fn workload(&self, shards: usize) -> MfWorkload {
        MfWorkload {
            seed: self.cluster.seed,
            users: self.users as usize,
            items: self.items as usize,
            per_user: self.ratings_per_user as usize,
            rank: self.rank as usize,
            clocks: self.epochs * self.clocks_per_epoch,
            clocks_per_epoch: self.clocks_per_epoch,
            workers: self.workers as usize,
            shards,
            rating_time: self.time_per_rating,
            ..MfWorkload::default()
        }
    }
}
