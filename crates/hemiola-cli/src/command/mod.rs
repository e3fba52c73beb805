//! The subcommands, one per file. Each turns its arguments into library calls, and the result into
//! an exit code.

#[cfg(feature = "bench")]
mod bench;
mod completions;
mod data;
#[cfg(not(all(feature = "bench", feature = "sim")))]
mod disabled;
mod doctor;
mod examples;
mod man;
mod model;
mod plot;
mod probe;
mod run;
mod serve;
mod show;
#[cfg(feature = "sim")]
mod simulate;
#[cfg(feature = "sim")]
mod study;
mod topology;

use clap::Subcommand;
use std::process::ExitCode;

/// Subcommands of `hemiola`.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the benchmarks of Hemiola on this machine.
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(hemiola_bench::Bench),
    /// Run the benchmarks of Hemiola on this machine (needs the feature `bench`).
    #[cfg(not(feature = "bench"))]
    #[command(hide = true)]
    Bench(disabled::DisabledCommand),
    /// List the coefficients of a sparse or ridge regression.
    Coefficients(model::CoefficientsArgs),
    /// Print a shell completion script.
    Completions(completions::CompletionsArgs),
    /// Describe data files, and generate synthetic ones.
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Check this machine for training: cores, memory, network, launchers, GPU.
    Doctor(doctor::DoctorArgs),
    /// Evaluate a trained model on ratings, examples or documents.
    Evaluate(model::EvaluateArgs),
    /// Print commands to copy, by job.
    Examples(examples::ExamplesArgs),
    /// Export a trained model for other programs: safetensors for PyTorch, ONNX.
    Export(model::ExportArgs),
    /// Generate text with a trained language model.
    Generate(Box<model::GenerateArgs>),
    /// Infer the topics of new documents with a topic model.
    Infer(model::InferArgs),
    /// Write manual pages.
    Man(man::ManArgs),
    /// Plot reports: learning curves, confusion matrices, topics, regularization paths.
    Plot(plot::PlotArgs),
    /// Predict ratings, classes or values with a trained model.
    Predict(model::PredictArgs),
    /// Measure bandwidth and latency between the peers of a job, and describe the cluster.
    Probe(probe::ProbeArgs),
    /// Recommend items to a user, known or new.
    Recommend(model::RecommendArgs),
    /// Launch a program as the peers of a job, and supervise them.
    Run(run::RunArgs),
    /// Search the best settings of a model, and train it with them.
    #[command(subcommand)]
    Search(model::SearchCommand),
    /// Run a dedicated parameter server for the tables of a job.
    Serve(serve::ServeArgs),
    /// Simulate clusters in virtual time.
    #[cfg(feature = "sim")]
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Simulate clusters in virtual time (needs the feature `sim`).
    #[cfg(not(feature = "sim"))]
    #[command(hide = true)]
    Simulate(disabled::DisabledCommand),
    /// Describe a trained model: kind, shape, data, settings, metrics, checkpoints.
    Show(show::ShowArgs),
    /// Find items similar to an item.
    Similar(model::SimilarArgs),
    /// Run experiments that need no cluster.
    #[cfg(feature = "sim")]
    #[command(subcommand)]
    Study(study::StudyCommand),
    /// Run experiments that need no cluster (needs the feature `sim`).
    #[cfg(not(feature = "sim"))]
    #[command(hide = true)]
    Study(disabled::DisabledCommand),
    /// List the topics of a topic model: sizes, top words, coherence.
    Topics(model::TopicsArgs),
    /// Analyze and draw a communication graph: degree, spectral gap, bytes per step.
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
            #[cfg(not(feature = "bench"))]
            Self::Bench(disabled) => disabled.refuse("benchmarks", "bench"),
            Self::Coefficients(coefficients) => coefficients.execute(),
            Self::Completions(completions) => completions.execute(),
            Self::Data(data) => data.execute(),
            Self::Doctor(doctor) => doctor.execute(),
            Self::Evaluate(evaluate) => evaluate.execute(),
            Self::Examples(examples) => examples.execute(),
            Self::Export(export) => export.execute(),
            Self::Generate(generate) => generate.execute(),
            Self::Infer(infer) => infer.execute(),
            Self::Man(man) => man.execute(),
            Self::Plot(plot) => plot.execute(),
            Self::Predict(predict) => predict.execute(),
            Self::Probe(probe) => probe.execute(),
            Self::Recommend(recommend) => recommend.execute(),
            Self::Run(run) => run.execute(),
            Self::Search(search) => search.execute(),
            Self::Serve(serve) => serve.execute(),
            #[cfg(feature = "sim")]
            Self::Simulate(simulate) => simulate.execute(),
            #[cfg(not(feature = "sim"))]
            Self::Simulate(disabled) => disabled.refuse("simulator", "sim"),
            Self::Show(show) => show.execute(),
            Self::Similar(similar) => similar.execute(),
            #[cfg(feature = "sim")]
            Self::Study(study) => study.execute(),
            #[cfg(not(feature = "sim"))]
            Self::Study(disabled) => disabled.refuse("simulator", "sim"),
            Self::Topics(topics) => topics.execute(),
            Self::Topology(topology) => topology.execute(),
            Self::Train(train) => train.execute(),
        }
    }
}
