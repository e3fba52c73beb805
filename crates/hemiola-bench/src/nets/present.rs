//! `hemiola bench nets`: synchronization strategies of neural networks between processes.
//!
//! Peers meet on this machine, or through the variables of `hemiola run`, with which
//! `benchmarks/nets.sh` puts them into network namespaces with limited links. Times are the best of
//! several rounds, ratios the median over rounds, strategies in turn. A round is a dozen steps, or
//! more where short steps are compared, after two warm-up steps. Bytes are those that all peers send
//! per step, headers included.
//!
//! - *Large linear layers*: convolutions before two linear layers that hold nearly all weights.
//! - *Convolutions*: a residual net.
//! - *Embeddings*: neural collaborative filtering, where a batch touches few rows.
//! - *MLP* and *transformer*: one net each by all-reduce, for comparison with other frameworks.
//! - *Overlap*: a step of the residual net by all-reduce beside the larger of its two parts, namely
//!   computing alone (the same step on a cluster of one, all processes at once) and sending alone (a
//!   step with one example). Computing is measured twice: each process for itself, and *in step*,
//!   where a process begins a step when all have ended the previous one. On a machine whose speed
//!   varies from step to step every strategy waits for the slowest process.

use super::measurement::{COMPUTING, CONVOLUTIONS, IN_STEP, LARGE, NnMeasurement, NnRow, SENDING};
use crate::benchmark::{Benchmark, ReportWriter, execute};
use crate::processes;
use clap::Args;
use hemiola_cluster::environment::{self, ProcessEnvironment, VariableSource as _};
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::models::{
    ImageBatch, MlpConfig, NcfConfig, NeuralNet, RatingBatch, ResnetConfig, TextBatch, TransformerConfig, VggConfig,
};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::StrategyBuilder;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burn_parts::{digits, images, ratings, sentences};

/// Steps per round. Those of the large net take longest. Messages in flight at the end of the last step
/// count, so overlap is measured over many steps.
fn steps_of(net: &str, steps: u32) -> u32 {
    match net {
        LARGE => steps.div_ceil(4),
        CONVOLUTIONS | COMPUTING | IN_STEP | SENDING => 4 * steps,
        _ => steps,
    }
}

const AFTER_HELP: &str = "\
Examples:
  hemiola bench nets
  hemiola bench nets --peers 4 --report nets.json

The report holds \"overlap_ratio\" (a step beside the larger of computing and sending alone; \"overlap_ratio_in_step\" where peers begin each step of computing together), \"poseidon_bytes_ratio\" and \"poseidon_speedup\" (beside the parameter server, on large linear layers; \"cheapest_bytes_ratio\" and \
\"cheapest_speedup\", too), \"convolutions_ratio\" and \"poseidon_convolutions_ratio\" (a step by the cheapest strategy, or by poseidon, beside one by all-reduce), \"parallax_bytes_gain\" (bytes of all-reduce over those of parallax, with embeddings), \"samples_per_second\" (of all peers, by \
net and strategy) and \"rows\", one for each net and strategy.";

/// The arguments of `hemiola bench nets`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct NnBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Counted steps per round: a quarter of them with large linear layers, four times as many with
    /// convolutions. Messages in flight at the end count, so few steps show less overlap than many.
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Number of processes, unless a launcher starts them.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=64))]
    peers: u64,

    /// Batch size of a peer.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4096))]
    batch_size: u64,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the processes. Makes this process one of the others.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,

    #[arg(long, hide = true, default_value = "1")]
    rank: usize,
}

impl Benchmark for NnBench {
    type Measurement = NnMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        if ProcessEnvironment.get_set(environment::RANK.name).is_some() {
            // A launcher has started the peers.
            let measure = |cluster: &Cluster| -> Result<_> { Ok((cluster.is_root(), self.train(cluster)?)) };
            let (is_root, measured) = hemiola_cluster::run(measure)?;
            return Ok(is_root.then_some(measured));
        }
        let number = |name: &str, value: u64| [format!("--{name}"), value.to_string()];
        let mut arguments = vec!["bench".to_owned(), "nets".to_owned()];
        arguments.extend(number("rounds", self.rounds.into()));
        arguments.extend(number("steps", self.steps.into()));
        arguments.extend(number("peers", self.peers));
        arguments.extend(number("batch-size", self.batch_size));
        let other = self.second.as_deref().map(|folder| (folder, self.rank));
        processes::run_several(self.peers as usize, other, &arguments, |cluster| self.train(cluster))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{measured}")
    }
}

impl NnBench {
    pub(crate) fn run(&self, reports: &dyn ReportWriter) -> anyhow::Result<()> {
        execute(self, reports)
    }

    fn train(&self, cluster: &Cluster) -> Result<NnMeasurement> {
        let examples = self.batch_size as usize;
        let large = || VggConfig::default().init(&burn_parts::device());
        let convolutions = || ResnetConfig { blocks: 1, ..ResnetConfig::default() }.init(&burn_parts::device());
        let filtering =
            || NcfConfig { users: 20_000, items: 10_000, ..NcfConfig::default() }.init(&burn_parts::device());
        let all_reduce = StrategyBuilder::AllReduce { chunk: None };
        let mut rows: Vec<NnRow> = Vec::new();
        for _ in 0..self.rounds {
            for builder in
                [StrategyBuilder::ParameterServer, all_reduce, StrategyBuilder::Poseidon, StrategyBuilder::Cheapest]
            {
                let batch = images(cluster, examples, 32);
                self.best(&mut rows, cluster, (LARGE, builder), large(), &batch, examples)?;
            }
            for builder in [all_reduce, StrategyBuilder::Parallax, StrategyBuilder::Cheapest] {
                let batch = ratings(cluster, 16 * examples);
                self.best(&mut rows, cluster, ("embeddings", builder), filtering(), &batch, 16 * examples)?;
            }
            let layers = MlpConfig { hidden: vec![1024, 1024], ..MlpConfig::default() }.init(&burn_parts::device());
            let batch = digits(cluster, 4 * examples);
            self.best(&mut rows, cluster, ("mlp", all_reduce), layers, &batch, 4 * examples)?;
            let attention = TransformerConfig::default().init(&burn_parts::device());
            let batch = sentences(cluster, examples / 2 + 1);
            self.best(&mut rows, cluster, ("transformer", all_reduce), attention, &batch, examples / 2 + 1)?;
            // Consecutive measurements, since they are compared.
            let (few, batch) = (images(cluster, 1, 32), images(cluster, examples, 32));
            self.best(&mut rows, cluster, (SENDING, all_reduce), convolutions(), &few, 1)?;
            for (name, pace) in [(COMPUTING, None), (IN_STEP, Some(cluster))] {
                let alone = hemiola_cluster::standalone(1).run(|own| {
                    let mut rows = Vec::new();
                    self.paced(&mut rows, own, (name, all_reduce), convolutions(), (&batch, examples), pace)?;
                    Ok(rows.remove(0))
                })?;
                let slowest = cluster.all_gather(alone[0].seconds)?.into_iter().fold(0.0, f64::max);
                NnRow { seconds: slowest, rounds: vec![slowest], ..alone[0].clone() }.join(&mut rows);
            }
            for builder in [all_reduce, StrategyBuilder::Cheapest, StrategyBuilder::Poseidon] {
                self.best(&mut rows, cluster, (CONVOLUTIONS, builder), convolutions(), &batch, examples)?;
            }
        }
        Ok(NnMeasurement::new(cluster.size(), rows))
    }

    /// Trains a few steps and keeps the best time.
    fn best<N: NeuralNet>(
        &self,
        rows: &mut Vec<NnRow>,
        cluster: &Cluster,
        which: (&str, StrategyBuilder),
        model: N,
        batch: &N::Batch,
        examples: usize,
    ) -> Result<()> {
        self.paced(rows, cluster, which, model, (batch, examples), None)
    }

    /// Trains a few steps. With `pace`, a step begins when all peers of that cluster have ended theirs.
    fn paced<N: NeuralNet>(
        &self,
        rows: &mut Vec<NnRow>,
        cluster: &Cluster,
        (net, builder): (&str, StrategyBuilder),
        model: N,
        (batch, examples): (&N::Batch, usize),
        pace: Option<&Cluster>,
    ) -> Result<()> {
        let mut trainer = Trainer::builder(cluster, model, Optimizer::sgd(0.001).momentum(0.9))
            .strategy(builder)
            .batch_size(examples)
            .build()?;
        let steps = steps_of(net, self.steps);
        // In the first step, peers agree on the order of messages.
        for _ in 0..2 {
            trainer.step(examples, |model| model.loss(batch))?;
            drop(trainer.synced_model()?);
        }
        cluster.barrier()?;
        let (start, sent) = (cluster.env().now(), cluster.traffic().bytes_sent());
        for _ in 0..steps {
            trainer.step(examples, |model| model.loss(batch))?;
            pace.map_or(Ok(()), Cluster::barrier)?;
        }
        trainer.wait()?;
        let seconds = (cluster.env().now() - start).as_secs_f64() / f64::from(steps);
        let sent = (cluster.traffic().bytes_sent() - sent) as f64 / f64::from(steps);
        let all = cluster.all_gather((seconds, sent))?;
        let seconds = all.iter().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
        let bytes = all.iter().map(|(_, bytes)| bytes).sum();
        let (net, strategy) = (net.to_owned(), builder.to_string());
        NnRow { net, strategy, seconds, rounds: vec![seconds], bytes, examples: examples * cluster.size() }.join(rows);
        Ok(())
    }
}

/// Batches of Burn tensors from a linear congruential generator.
pub(super) mod burn_parts {
    use super::{Cluster, ImageBatch, RatingBatch, TextBatch};
    use hemiola_nn::burn::tensor::{Device, Int, Tensor, TensorData};

    pub(in crate::nets) fn device() -> Device {
        Device::flex().autodiff()
    }

    fn numbers(cluster: &Cluster, count: usize, below: u64) -> Vec<i64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(cluster.rank().number());
        let draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % below).unwrap_or(0)
        };
        std::iter::repeat_with(draw).take(count).collect()
    }

    pub(in crate::nets) fn images(cluster: &Cluster, examples: usize, side: usize) -> ImageBatch {
        pictures(cluster, [examples, 3, side, side])
    }

    pub(super) fn digits(cluster: &Cluster, examples: usize) -> ImageBatch {
        pictures(cluster, [examples, 1, 28, 28])
    }

    pub(super) fn sentences(cluster: &Cluster, examples: usize) -> TextBatch {
        let words = || {
            let words = TensorData::new(numbers(cluster, examples * 64, 10_000), [examples, 64]);
            Tensor::<2, Int>::from_data(words, &device())
        };
        TextBatch { tokens: words(), targets: words() }
    }

    fn pictures(cluster: &Cluster, shape: [usize; 4]) -> ImageBatch {
        let (examples, count) = (shape[0], shape.iter().product());
        let values: Vec<f32> =
            numbers(cluster, count, 1 << 16).into_iter().map(|number| number as f32 / 65_536.0).collect();
        let images = Tensor::from_data(TensorData::new(values, shape), &device());
        let labels =
            Tensor::<1, Int>::from_data(TensorData::new(numbers(cluster, examples, 10), [examples]), &device());
        ImageBatch { images, labels }
    }

    pub(super) fn ratings(cluster: &Cluster, examples: usize) -> RatingBatch {
        let ids = |below| {
            Tensor::<1, Int>::from_data(TensorData::new(numbers(cluster, examples, below), [examples]), &device())
        };
        let values: Vec<f32> = numbers(cluster, examples, 5).into_iter().map(|number| 1.0 + number as f32).collect();
        RatingBatch {
            users: ids(20_000),
            items: ids(10_000),
            ratings: Tensor::from_data(TensorData::new(values, [examples]), &device()),
        }
    }
}
