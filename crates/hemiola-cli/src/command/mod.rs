//! The subcommands, one per file. Each turns what was typed into calls of the library, and an outcome into an exit code.

mod bench;
mod completions;
mod data;
mod model;
mod plot;
mod probe;
mod run;
mod serve;
mod simulate;
mod study;
mod topology;

use clap::Subcommand;
use std::process::ExitCode;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure Hemiola on this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// What a sparse regression has found, by feature.
    Coefficients(model::Coefficients),
    /// Print what a shell needs to complete commands and flags.
    Completions(completions::Completions),
    /// Look at data files, and make synthetic ones.
    #[command(subcommand)]
    Data(data::Data),
    /// Figures of a trained model on ratings, examples or documents.
    Evaluate(model::Evaluate),
    /// What new documents are about, by a topic model.
    Infer(model::Infer),
    /// Draw how runs of `hemiola train` converged.
    Plot(plot::Plot),
    /// What a trained model thinks a user would rate items, or which class examples are of.
    Predict(model::Predict),
    /// Measure how fast the peers of a job talk to each other, and describe the cluster.
    Probe(probe::Probe),
    /// The best items for a user, or for somebody new.
    Recommend(model::Recommend),
    /// Start a program as the peers of a job, and watch over them.
    Run(run::Run),
    /// Hold tables for the peers of a job, and do nothing else.
    Serve(serve::Serve),
    /// Run protocols on clusters in virtual time.
    #[command(subcommand)]
    Simulate(simulate::Simulate),
    /// Items like another one.
    Similar(model::Similar),
    /// Experiments that need no cluster.
    #[command(subcommand)]
    Study(study::Study),
    /// The topics of a topic model: sizes, first words, coherence.
    Topics(model::Topics),
    /// Look at a communication graph: degree, spectral gap, bytes per step, a drawing.
    Topology(topology::Show),
    /// Train a model.
    #[command(subcommand)]
    Train(model::Train),
}

impl Command {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Bench(bench) => bench.execute(),
            Self::Coefficients(coefficients) => coefficients.execute(),
            Self::Completions(completions) => completions.execute(),
            Self::Data(data) => data.execute(),
            Self::Evaluate(evaluate) => evaluate.execute(),
            Self::Infer(infer) => infer.execute(),
            Self::Plot(plot) => plot.execute(),
            Self::Predict(predict) => predict.execute(),
            Self::Probe(probe) => probe.execute(),
            Self::Recommend(recommend) => recommend.execute(),
            Self::Run(run) => run.execute(),
            Self::Serve(serve) => serve.execute(),
            Self::Simulate(simulate) => simulate.execute(),
            Self::Similar(similar) => similar.execute(),
            Self::Study(study) => study.execute(),
            Self::Topics(topics) => topics.execute(),
            Self::Topology(topology) => topology.execute(),
            Self::Train(train) => train.execute(),
        }
    }
}
