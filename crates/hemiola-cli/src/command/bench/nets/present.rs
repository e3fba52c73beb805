//! `hemiola bench nets`: what strategies are worth between processes.
//!
//! Peers meet on this machine, or as the variables of `hemiola run` say: that is how `benchmarks/nets.sh` puts them into network namespaces with limited links. Times are the best of several rounds, ratios the middle of the rounds'; all
//! ways in turn. A round is a dozen steps, or more where they are short and compared, before which two do not count; its bytes are what all peers send in a step, headers and all.
//!
//! - *Large linear layers*: a net of convolutions before two linear layers that have nearly all of its weights.
//! - *Convolutions*: a residual net.
//! - *Embeddings*: collaborative filtering, of whose rows a batch touches few.
//! - *Layers of neurons* and *attention*: a net each by all-reduce, for comparison with others.
//! - *Overlap*: a step of the residual net by all-reduce beside the larger of its two parts: computing alone (the same step on a cluster of one, all processes at once) and sending alone (a step with one example). Computing is measured twice: each process for
//!   itself, and *in step*, where a process begins a step when all have ended the one before: on a machine whose speed varies from step to step the slowest is waited for, and no strategy could do better.

use super::figures::{COMPUTING, CONVOLUTIONS, Figures, IN_STEP, LARGE, Row, SENDING};
use crate::command::bench::pair;
use crate::report;
use clap::Args;
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::models::{
    ImageBatch, MlpConfig, NcfConfig, Net, RatingBatch, ResnetConfig, TextBatch, TransformerConfig, VggConfig,
};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::Builder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use burn_parts::{digits, images, ratings, sentences};

/// Steps of a round. The large net's take longest. What is under way when the last ends counts, too: where overlap is measured, one step of many.
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
pub(crate) struct Nets {
    /// Rounds; the best of each counts.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Steps of a round that count; a quarter of them with large linear layers, four times as many with convolutions. What of the last is under way when it ends counts, too, so few steps show less overlap than many.
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Number of processes, if they are not started by `hemiola run` or by hand.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=64))]
    peers: u64,

    /// Examples that a peer brings to a step.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4096))]
    examples: u64,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The folder where processes meet: makes this process one of the others.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,

    #[arg(long, hide = true, default_value = "1")]
    rank: usize,
}

impl Nets {
    pub(in crate::command::bench) fn execute(self) -> anyhow::Result<ExitCode> {
        self.report.as_deref().map_or(Ok(()), report::check)?;
        let figures = if std::env::var_os("HEMIOLA_RANK").is_some() {
            // Somebody else starts the peers.
            let measure = |cluster: &Cluster| -> Result<_> { Ok((cluster.is_root(), self.measure(cluster)?)) };
            let measured = hemiola_cluster::run(measure)?;
            measured.0.then_some(measured.1)
        } else {
            let number = |name: &str, value: u64| [format!("--{name}"), value.to_string()];
            let mut arguments = vec!["bench".to_owned(), "nets".to_owned()];
            arguments.extend(number("rounds", self.rounds.into()));
            arguments.extend(number("steps", self.steps.into()));
            arguments.extend(number("peers", self.peers));
            arguments.extend(number("examples", self.examples));
            let other = self.second.as_deref().map(|folder| (folder, self.rank));
            pair::run_several(self.peers as usize, other, &arguments, |cluster| self.measure(cluster))?
        };
        let Some(figures) = figures else { return Ok(ExitCode::SUCCESS) };
        if self.report.as_deref() != Some(Path::new("-")) {
            let mut out = std::io::stdout().lock();
            write!(out, "{figures}")?;
        }
        if let Some(target) = &self.report {
            report::write(target, &figures)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, cluster: &Cluster) -> Result<Figures> {
        let examples = self.examples as usize;
        let large = || VggConfig::default().init(&burn_parts::device());
        let convolutions = || ResnetConfig { blocks: 1, ..ResnetConfig::default() }.init(&burn_parts::device());
        let filtering =
            || NcfConfig { users: 20_000, items: 10_000, ..NcfConfig::default() }.init(&burn_parts::device());
        let all_reduce = Builder::AllReduce { chunk: None };
        let mut rows: Vec<Row> = Vec::new();
        for _ in 0..self.rounds {
            for builder in [Builder::ParameterServer, all_reduce, Builder::Poseidon, Builder::Cheapest] {
                let batch = images(cluster, examples, 32);
                self.best(&mut rows, cluster, (LARGE, builder), large(), &batch, examples)?;
            }
            for builder in [all_reduce, Builder::Parallax, Builder::Cheapest] {
                let batch = ratings(cluster, 16 * examples);
                self.best(&mut rows, cluster, ("embeddings", builder), filtering(), &batch, 16 * examples)?;
            }
            let layers = MlpConfig { hidden: vec![1024, 1024], ..MlpConfig::default() }.init(&burn_parts::device());
            let batch = digits(cluster, 4 * examples);
            self.best(&mut rows, cluster, ("mlp", all_reduce), layers, &batch, 4 * examples)?;
            let attention = TransformerConfig::default().init(&burn_parts::device());
            let batch = sentences(cluster, examples / 2 + 1);
            self.best(&mut rows, cluster, ("transformer", all_reduce), attention, &batch, examples / 2 + 1)?;
            // One right after the other: they are compared.
            let (few, batch) = (images(cluster, 1, 32), images(cluster, examples, 32));
            self.best(&mut rows, cluster, (SENDING, all_reduce), convolutions(), &few, 1)?;
            for (name, pace) in [(COMPUTING, None), (IN_STEP, Some(cluster))] {
                let alone = hemiola_cluster::standalone(1).run(|own| {
                    let mut rows = Vec::new();
                    self.paced(&mut rows, own, (name, all_reduce), convolutions(), (&batch, examples), pace)?;
                    Ok(rows.remove(0))
                })?;
                let slowest = cluster.all_gather(alone[0].seconds)?.into_iter().fold(0.0, f64::max);
                Row { seconds: slowest, rounds: vec![slowest], ..alone[0].clone() }.join(&mut rows);
            }
            for builder in [all_reduce, Builder::Cheapest, Builder::Poseidon] {
                self.best(&mut rows, cluster, (CONVOLUTIONS, builder), convolutions(), &batch, examples)?;
            }
        }
        Ok(Figures::new(cluster.size(), rows))
    }

    /// Trains a few steps, and keeps what took less time than before.
    fn best<N: Net>(
        &self,
        rows: &mut Vec<Row>,
        cluster: &Cluster,
        which: (&str, Builder),
        model: N,
        batch: &N::Batch,
        examples: usize,
    ) -> Result<()> {
        self.paced(rows, cluster, which, model, (batch, examples), None)
    }

    /// The same; if there is a pace, a step begins when all its peers have ended the one before.
    fn paced<N: Net>(
        &self,
        rows: &mut Vec<Row>,
        cluster: &Cluster,
        (net, builder): (&str, Builder),
        model: N,
        (batch, examples): (&N::Batch, usize),
        pace: Option<&Cluster>,
    ) -> Result<()> {
        let mut trainer = Trainer::new(cluster, model, Optimizer::sgd(0.001).momentum(0.9))
            .strategy(builder)
            .examples(examples)
            .build()?;
        let steps = steps_of(net, self.steps);
        // In the first, peers agree on the order of messages.
        for _ in 0..2 {
            trainer.step(examples, |model| model.loss(batch))?;
            drop(trainer.settled()?);
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
        Row { net, strategy, seconds, rounds: vec![seconds], bytes, examples: examples * cluster.size() }.join(rows);
        Ok(())
    }
}

/// What is made of Burn's tensors, from numbers that anybody can make again.
mod burn_parts {
    use super::{Cluster, ImageBatch, RatingBatch, TextBatch};
    use hemiola_nn::burn::tensor::{Device, Int, Tensor, TensorData};

    pub(super) fn device() -> Device {
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

    pub(super) fn images(cluster: &Cluster, examples: usize, side: usize) -> ImageBatch {
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
        TextBatch { words: words(), next: words() }
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
