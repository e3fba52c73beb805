//! `hemiola simulate loop`: predicts the time of a profiled `parallel_for!` loop on a cluster.

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
  hemiola simulate loop --profile loop.json --peers 16 --bandwidth 1gbit --latency 100us --trace run.json

A program records a profile of its loop with `hemiola::loops::LoopProfile`, see docs/guides/simulate.md. The simulation runs the \
plan that `parallel_for!` would choose on such a cluster; --explain prints it. Supported are loops whose arrays are local \
or rotating. Loops with served, replicated or halo-exchanged arrays are refused, because a profile does not determine \
their traffic.

The report has the keys \"cluster\", \"plan\" and \"predictions\" (one prediction, as in `hemiola simulate train mf`).";

/// Arguments of `hemiola simulate loop`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateLoopArgs {
    /// Profile of the loop, recorded on one machine.
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,

    /// Worker threads of each peer.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: u64,

    /// Number of passes over the loop.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    epochs: u64,

    /// Print the plan and the reasons for it.
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
        let (cluster, profile) = (self.cluster.cluster_spec()?, read_profile(&self.profile)?);
        let measured = ProfiledProgram {
            profile: &profile,
            workers: self.workers as usize,
            clocks: 1,
            passes: self.epochs as usize,
        };
        let plan = measured.plan(cluster.peers).map_err(CommandError::usage)?;
        let found =
            measured.predict(TrainingStrategy::Rotation, &cluster, self.cluster.seed, self.cluster.trace.is_some());
        let (prediction, trace) = found.map_err(CommandError::usage)?;
        let prediction = TrainingPrediction { strategy: "as planned".to_owned(), ..prediction };
        self.cluster.write_trace(trace.as_ref())?;
        let mut text = if self.explain { plan.to_string() } else { String::new() };
        text += &table(&cluster, std::slice::from_ref(&prediction));
        self.cluster.print_and_report(&text, &SimulatedLoopReport { cluster, plan, predictions: vec![prediction] })?;
        Ok(ExitCode::SUCCESS)
    }
}
