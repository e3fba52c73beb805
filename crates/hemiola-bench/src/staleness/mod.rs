//! `hemiola bench staleness`: matrix factorization on a parameter server under different staleness
//! bounds, update rules, bandwidths and stragglers. `docs/experiments/parameter-server.md` shows the results.
//!
//! Ratings are divided among workers and stay there; both factors are tables. For each mini-batch a
//! worker fetches the rows of its ratings, sums their gradients, and sends the sums. Every peer of
//! the job runs this command: `hemiola run -n 4 -- hemiola bench staleness --staleness 2`.

mod factorization;
mod ratings;
mod training;

use crate::benchmark::Benchmark;
use clap::{Args, ValueEnum};
use factorization::{profile, train};
use hemiola::tables::{AdaGrad, AdaRevision, Adam, Bandwidth, Consistency, PriorityPolicy, Sgd, TableBuilder};
use ratings::{read_ratings, skewed_ratings};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  hemiola bench staleness --staleness 2 --update-rule adarevision --learning-rate 0.1
  hemiola run -n 4 --workers 1 -- hemiola bench staleness --staleness 2 --budget 200 --report ssp.json
  hemiola plot ssp.json --y rmse --x seconds -o ssp.svg

The report holds \"arguments\" and \"progress\", one for each epoch: \"epoch\", \"seconds\" (since the start), \"bytes_sent\" (by all \
peers since the start) and \"train\" with \"rmse\".";

/// Arguments of `hemiola bench staleness`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct StalenessBench {
    /// Staleness bound in clocks; 0 is BSP, `none` is asynchronous.
    #[arg(long, value_name = "CLOCKS", default_value = "0", value_parser = parse_consistency)]
    staleness: Consistency,

    /// Update rule of the servers.
    #[arg(long, value_enum, default_value = "adarevision")]
    update_rule: RuleChoice,

    /// Learning rate of the update rule.
    #[arg(long, value_name = "RATE", default_value = "0.1", value_parser = parse_positive)]
    learning_rate: f64,

    /// Bandwidth of eager communication in megabits per second, for each peer and direction.
    #[arg(long, value_name = "MBIT", value_parser = parse_positive)]
    budget: Option<f64>,

    /// Prioritization policy of eager communication.
    #[arg(long, value_enum, default_value = "relative")]
    priority: PriorityChoice,

    /// Number of epochs.
    #[arg(long, value_name = "N", default_value = "20", value_parser = parse_count)]
    epochs: usize,

    /// Clocks per epoch.
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse_count)]
    clocks: usize,

    /// Mini-batches per clock. Updates are sent to the table after each.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    batches: usize,

    /// Rank of the factors.
    #[arg(long, value_name = "N", default_value = "16", value_parser = parse_count)]
    width: usize,

    /// Pause of every worker after each mini-batch, in milliseconds. It takes time but no CPU, so that
    /// several peers on one machine behave like several machines.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_milliseconds)]
    pause: Duration,

    /// Pause of the first worker of the first peer in each clock, in milliseconds: a permanent straggler.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_milliseconds)]
    slow: Duration,

    /// Pause of one worker in each clock, each in turn, in milliseconds: rotating stragglers.
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_milliseconds)]
    turns: Duration,

    /// Read ratings from FILE: lines of user, item and rating, separated by tabs [default: synthetic ratings]
    #[arg(long, value_name = "FILE")]
    data: Option<String>,

    /// Keep user rows with the worker that has all ratings of the user, updated by plain SGD.
    #[arg(long)]
    local_users: bool,

    /// Write the compute times of a single peer to FILE, for `hemiola simulate train mf --profile`.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Update rule of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuleChoice {
    /// Stochastic gradient descent.
    Sgd,
    /// SGD with a learning rate divided by the square root of the epoch.
    Decayed,
    /// AdaGrad.
    Adagrad,
    /// Adam.
    Adam,
    /// AdaRevision, which accounts for the delay of gradients.
    Adarevision,
}

/// Rows that eager communication sends first.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PriorityChoice {
    /// In turn.
    RoundRobin,
    /// At random.
    Random,
    /// Largest updates.
    Absolute,
    /// Largest updates relative to the values.
    Relative,
}

impl StalenessBench {
    /// Configures a table that receives gradients: consistency, bandwidth and update rule.
    fn configure(&self, table: TableBuilder<f32>) -> TableBuilder<f32> {
        let mut table = table.consistency(self.staleness);
        if let Some(megabits) = self.budget {
            let priority = match self.priority {
                PriorityChoice::RoundRobin => PriorityPolicy::RoundRobin,
                PriorityChoice::Random => PriorityPolicy::Random,
                PriorityChoice::Absolute => PriorityPolicy::AbsoluteMagnitude,
                PriorityChoice::Relative => PriorityPolicy::RelativeMagnitude,
            };
            table = table.budget(Bandwidth::bytes_per_second((megabits * 125_000.0) as u64)).priority(priority);
        }
        match self.update_rule {
            RuleChoice::Sgd | RuleChoice::Decayed => table.update_rule(Sgd::new(self.learning_rate)),
            RuleChoice::Adagrad => table.update_rule(AdaGrad::new(self.learning_rate)),
            RuleChoice::Adam => table.update_rule(Adam::new(self.learning_rate)),
            RuleChoice::Adarevision => table.update_rule(AdaRevision::new(self.learning_rate)),
        }
    }

    /// Factor of the learning rate in an epoch.
    fn learning_rate_factor(&self, epoch: usize) -> f32 {
        if self.update_rule == RuleChoice::Decayed { 1.0 / (1.0 + epoch as f32).sqrt() } else { 1.0 }
    }
}

/// Learning curve in the format of `hemiola plot`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StalenessMeasurement {
    arguments: String,
    progress: Vec<EpochRow>,
}

/// State of the training after one epoch.
#[derive(Clone, Debug, Serialize)]
struct EpochRow {
    epoch: usize,
    seconds: f64,
    bytes_sent: u64,
    train: BTreeMap<&'static str, f64>,
}

impl Benchmark for StalenessBench {
    type Measurement = StalenessMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let (is_root, progress) = hemiola_cluster::run(|cluster| {
            let ratings = match &self.data {
                Some(path) => read_ratings(cluster, path)?,
                None => skewed_ratings(cluster)?,
            };
            let epochs = train(cluster, &ratings, self)?;
            if let Some(path) = &self.profile {
                let text = profile(cluster, &ratings, self.width, &epochs)?;
                std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
            }
            let row = |(index, epoch): (usize, training::Epoch)| EpochRow {
                epoch: index + 1,
                seconds: epoch.seconds,
                bytes_sent: epoch.bytes,
                train: BTreeMap::from([("rmse", (epoch.loss / ratings.len() as f64).sqrt())]),
            };
            Ok((cluster.is_root(), epochs.into_iter().enumerate().map(row).collect()))
        })?;
        Ok(is_root.then(|| StalenessMeasurement { arguments: format!("{self:?}"), progress }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        for EpochRow { epoch, seconds, bytes_sent, train } in &measured.progress {
            let megabytes = *bytes_sent as f64 / 1e6;
            writeln!(out, "epoch {epoch}: rmse {:.4} after {seconds:.2} s, {megabytes:.1} MB", train["rmse"])?;
        }
        Ok(())
    }
}

fn parse_consistency(text: &str) -> Result<Consistency, String> {
    if text == "none" {
        return Ok(Consistency::Async);
    }
    let clocks = text.parse().map_err(|_| "expected a number of clocks, or `none`".to_owned())?;
    Ok(if clocks == 0 { Consistency::Bsp } else { Consistency::Ssp(clocks) })
}

fn parse_positive(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| *number > 0.0).ok_or_else(|| "expected a positive number".to_owned())
}

fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected 1 or more".to_owned())
}

fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0 && number.is_finite());
    let milliseconds = number.ok_or_else(|| "expected a number of milliseconds".to_owned())?;
    Ok(Duration::from_secs_f64(milliseconds / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use hemiola::prelude::*;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        bench: StalenessBench,
    }

    fn parse(text: &str) -> Result<StalenessBench, clap::Error> {
        Ok(TestCommand::try_parse_from(["staleness"].into_iter().chain(text.split_whitespace()))?.bench)
    }

    /// Synthetic ratings of users for items; one rating in five is known.
    fn synthetic_ratings(cluster: &Cluster, shape: [usize; 2]) -> hemiola_cluster::Result<DistArray<f32, 2>> {
        let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
        all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
    }

    fn curves(peers: usize, text: &str) -> Vec<Vec<f64>> {
        let bench = parse(text).unwrap();
        let train = |cluster: &Cluster| {
            let ratings = synthetic_ratings(cluster, [100, 60])?;
            let epochs = train(cluster, &ratings, &bench)?;
            Ok(epochs.iter().map(|epoch| (epoch.loss / ratings.len() as f64).sqrt()).collect())
        };
        hemiola_cluster::standalone(peers).workers(2).run(train).unwrap()
    }

    #[test]
    fn training_converges_with_all_flags() {
        for text in [
            "--staleness 0 --update-rule sgd --learning-rate 0.005",
            "--staleness 2 --update-rule sgd --learning-rate 0.005",
            "--staleness 2 --update-rule sgd --learning-rate 0.005 --slow 1 --turns 1 --epochs 8",
            "--staleness 1 --update-rule adagrad --learning-rate 0.1",
            "--staleness 2",
            "--staleness 3 --budget 100 --priority absolute",
            "--staleness 2 --update-rule decayed --learning-rate 0.008 --clocks 2 --batches 5",
            "--staleness 2 --update-rule sgd --learning-rate 0.005 --local-users",
        ] {
            for peers in [1, 2, 3] {
                for curve in curves(peers, text) {
                    let (first, last) = (curve[0], curve[curve.len() - 1]);
                    assert!(last < first / 3.0, "{text}, {peers} peers: from {first} to {last}");
                }
            }
        }
        assert!(curves(2, "--staleness none").into_iter().flatten().all(f64::is_finite));
    }

    #[test]
    fn bsp_is_bit_identical_between_runs() {
        let bits = || -> Vec<Vec<u64>> {
            let curves = curves(2, "--epochs 5");
            curves.into_iter().map(|curve| curve.into_iter().map(f64::to_bits).collect()).collect()
        };
        assert_eq!(bits(), bits());
    }

    #[test]
    fn wrong_arguments_are_refused_with_a_way_out() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        assert!(refused("--staleness two").contains("expected a number of clocks, or `none`"));
        assert!(refused("--clocks 0").contains("expected 1 or more"));
        assert!(refused("--learning-rate 0").contains("expected a positive number"));
        assert!(refused("--priority best").contains("round-robin, random, absolute, relative"));
    }
}
