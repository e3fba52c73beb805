//! The subcommands, one per file. Each turns what was typed into calls of the library, and an outcome into an exit code.

#[cfg(feature = "bench")]
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
pub(crate) enum CliCommand {
    /// Measure Hemiola on this machine.
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(hemiola_bench::Bench),
    /// What a sparse regression has found, by feature.
    Coefficients(model::CoefficientsArgs),
    /// Print what a shell needs to complete commands and flags.
    Completions(completions::CompletionsArgs),
    /// Look at data files, and make synthetic ones.
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Figures of a trained model on ratings, examples or documents.
    Evaluate(model::EvaluateArgs),
    /// What new documents are about, by a topic model.
    Infer(model::InferArgs),
    /// Draw how runs of `hemiola train` converged.
    Plot(plot::PlotArgs),
    /// What a trained model thinks a user would rate items, or which class examples are of.
    Predict(model::PredictArgs),
    /// Measure how fast the peers of a job talk to each other, and describe the cluster.
    Probe(probe::ProbeArgs),
    /// The best items for a user, or for somebody new.
    Recommend(model::RecommendArgs),
    /// Start a program as the peers of a job, and watch over them.
    Run(run::RunArgs),
    /// Hold tables for the peers of a job, and do nothing else.
    Serve(serve::ServeArgs),
    /// Run protocols on clusters in virtual time.
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Items like another one.
    Similar(model::SimilarArgs),
    /// Experiments that need no cluster.
    #[command(subcommand)]
    Study(study::StudyCommand),
    /// The topics of a topic model: sizes, first words, coherence.
    Topics(model::TopicsArgs),
    /// Look at a communication graph: degree, spectral gap, bytes per step, a drawing.
    Topology(topology::TopologyCommand),
    /// Train a model.
    #[command(subcommand)]
    Train(model::TrainCommand),
}

impl CliCommand {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            #[cfg(feature = "bench")]
            Self::Bench(bench) => bench::execute(bench),
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
