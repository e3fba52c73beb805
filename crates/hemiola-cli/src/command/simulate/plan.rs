//! `hemiola simulate loop`: what a `parallel_for!` loop that was measured on one machine would take on a cluster.

use super::cluster::{SimulatedClusterArgs, read_profile, table};
use crate::error::CommandError;
use clap::Args;
use hemiola::loops::LoopPlan;
use hemiola_sim::ClusterSpec;
use hemiola_sim::workload::profiled::ProfiledProgram;
use hemiola_sim::workload::what_if::{TrainingPrediction, TrainingStrategy};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Example:
  hemiola simulate loop --profile loop.json --peers 16 --link 1gbit --latency 100us --trace run.json

A program writes a profile of its loop with `hemiola::loops::Profile`: docs/simulation.md shows how. The plan is the one that `parallel_for!` would make on such a cluster, and is printed with --explain. What it sends must be told from the profile: loops whose arrays stay \
with their workers or travel in blocks. Arrays that are served, whole on every peer or shared at the edges of parts are refused with the reason.

The report holds \"cluster\", \"plan\" and \"predictions\" with one prediction, as that of `hemiola simulate train mf`.";

/// The arguments of `hemiola simulate loop`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateLoopArgs {
    /// What was measured of the loop on one machine.
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,

    /// Workers of each peer.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// Passes.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    passes: u64,

    /// Print the plan, and why.
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    cluster: SimulatedClusterArgs,
}

#[derive(Serialize)]
struct SimulatedLoopReport {
    cluster: ClusterSpec,
    plan: LoopPlan,
    predictions: Vec<TrainingPrediction>,
}

impl SimulateLoopArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let (cluster, profile) = (self.cluster.describe()?, read_profile(&self.profile)?);
        let measured = ProfiledProgram {
            profile: &profile,
            workers: self.workers as usize,
            clocks: 1,
            passes: self.passes as usize,
        };
        let plan = measured.plan(cluster.peers).map_err(CommandError::usage)?;
        let found =
            measured.predict(TrainingStrategy::Rotation, &cluster, self.cluster.seed, self.cluster.trace.is_some());
        let (prediction, trace) = found.map_err(CommandError::usage)?;
        let prediction = TrainingPrediction { strategy: "as planned".to_owned(), ..prediction };
        self.cluster.write_trace(trace.as_ref())?;
        let mut text = if self.explain { plan.to_string() } else { String::new() };
        text += &table(&cluster, std::slice::from_ref(&prediction));
        self.cluster.tell(&text, &SimulatedLoopReport { cluster, plan, predictions: vec![prediction] })?;
        Ok(ExitCode::SUCCESS)
    }
}
