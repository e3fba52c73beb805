//! Training loop on the parameter server, shared by the table examples: flags, epochs, report.
//!
//! A worker processes its share of the data in *epochs*, each of several *clocks*, each of several
//! *mini-batches*. Workers wait for each other only through their tables (stale synchronous
//! parallel). An epoch is not a barrier, so the effect of the staleness bound is visible. The
//! results of all workers are combined at the end.

use hemiola::cluster::Worker;
use hemiola::prelude::*;
use hemiola::tables::{AdaGrad, AdaRevision, Adam, Bandwidth, Consistency, PriorityPolicy, Sgd, TableBuilder};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Command-line flags of the table examples.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    pub(crate) consistency: Consistency,
    /// Update rule of the servers: `sgd`, `decayed`, `adagrad`, `adam`, `adarevision` or `add`.
    pub(crate) update_rule: String,
    pub(crate) learning_rate: f64,
    /// Bandwidth limit in megabits per second, for each peer and direction.
    pub(crate) budget: Option<f64>,
    pub(crate) priority: PriorityPolicy,
    pub(crate) epochs: usize,
    /// Clocks per epoch.
    pub(crate) clocks: usize,
    /// Mini-batches per clock. Updates are sent to the table after each.
    pub(crate) batches: usize,
    /// Pause of every worker after each mini-batch. It takes time but no CPU, so that several peers
    /// on one machine behave like several machines.
    pub(crate) pause: Duration,
    /// Pause of the first worker of the first peer in each clock: a permanent straggler.
    pub(crate) slow: Duration,
    /// Pause of one worker in each clock, each in turn: rotating stragglers.
    pub(crate) turns: Duration,
    pub(crate) data: Option<String>,
    pub(crate) labels: Option<String>,
    /// Number of topics, or rank of the factors.
    pub(crate) width: usize,
    pub(crate) report: Option<PathBuf>,
    /// Output file of the profile for `hemiola simulate`, in examples that write one.
    pub(crate) profile: Option<PathBuf>,
    /// Keeps rows that only one worker needs in that worker instead of a table, in examples that
    /// have such rows.
    pub(crate) keep: bool,
}

const KNOWN_FLAGS: &str = "--staleness, --update-rule, --learning-rate, --budget, --priority, --epochs, --clocks, --batches, --pause, --slow, --turns, --data, --labels, \
                     --width, --report, --profile and --keep";

impl Flags {
    /// Defaults: BSP with this update rule and learning rate.
    pub(crate) fn new(update_rule: &str, learning_rate: f64, width: usize) -> Self {
        Self {
            consistency: Consistency::Bsp,
            update_rule: update_rule.to_owned(),
            learning_rate,
            budget: None,
            priority: PriorityPolicy::RelativeMagnitude,
            epochs: 20,
            clocks: 10,
            batches: 1,
            pause: Duration::ZERO,
            slow: Duration::ZERO,
            turns: Duration::ZERO,
            data: None,
            labels: None,
            width,
            report: None,
            profile: None,
            keep: false,
        }
    }

    /// Overrides these defaults by the flags of the command line.
    pub(crate) fn parse(mut self, mut arguments: impl Iterator<Item = String>) -> hemiola::Result<Self> {
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            let bad = |expected: &str| format!("`{flag} {value}`: expected {expected}");
            let number = || value.parse::<f64>().ok().filter(|number| *number >= 0.0).ok_or_else(|| bad("a number"));
            let count = || value.parse::<usize>().ok().filter(|count| *count > 0).ok_or_else(|| bad("1 or more"));
            let pause = || number().map(|milliseconds| Duration::from_secs_f64(milliseconds / 1e3));
            match &*flag {
                "--staleness" if value == "none" => self.consistency = Consistency::Async,
                "--staleness" => {
                    let clocks = value.parse().map_err(|_| bad("a number, or `none`"))?;
                    self.consistency = if clocks == 0 { Consistency::Bsp } else { Consistency::Ssp(clocks) };
                }
                "--update-rule" => self.update_rule = value,
                "--learning-rate" => self.learning_rate = number()?,
                "--budget" => self.budget = Some(number()?),
                "--priority" => {
                    self.priority = match &*value {
                        "round-robin" => PriorityPolicy::RoundRobin,
                        "random" => PriorityPolicy::Random,
                        "absolute" => PriorityPolicy::AbsoluteMagnitude,
                        "relative" => PriorityPolicy::RelativeMagnitude,
                        _ => return Err(bad("round-robin, random, absolute or relative").into()),
                    }
                }
                "--epochs" => self.epochs = count()?,
                "--clocks" => self.clocks = count()?,
                "--batches" => self.batches = count()?,
                "--width" => self.width = count()?,
                "--pause" => self.pause = pause()?,
                "--slow" => self.slow = pause()?,
                "--turns" => self.turns = pause()?,
                "--data" => self.data = Some(value),
                "--labels" => self.labels = Some(value),
                "--report" => self.report = Some(value.into()),
                "--profile" => self.profile = Some(value.into()),
                "--keep" => self.keep = value.parse().map_err(|_| bad("`true` or `false`"))?,
                _ => return Err(format!("unknown flag `{flag}`; expected one of {KNOWN_FLAGS}").into()),
            }
        }
        Ok(self)
    }

    /// Configures the consistency and bandwidth of a table.
    pub(crate) fn configure<C: hemiola::tables::StorageType>(&self, table: TableBuilder<C>) -> TableBuilder<C> {
        let table = table.consistency(self.consistency);
        match self.budget {
            None => table,
            Some(megabits) => {
                let bandwidth = Bandwidth::bytes_per_second((megabits * 125_000.0) as u64);
                table.budget(bandwidth).priority(self.priority)
            }
        }
    }

    /// Configures a table that receives gradients: consistency, bandwidth and update rule.
    #[allow(dead_code, reason = "not every example has gradients")]
    pub(crate) fn gradient_table(&self, table: TableBuilder<f32>) -> hemiola::Result<TableBuilder<f32>> {
        let table = self.configure(table);
        Ok(match &*self.update_rule {
            "sgd" | "decayed" => table.update_rule(Sgd::new(self.learning_rate)),
            "adagrad" => table.update_rule(AdaGrad::new(self.learning_rate)),
            "adam" => table.update_rule(Adam::new(self.learning_rate)),
            "adarevision" => table.update_rule(AdaRevision::new(self.learning_rate)),
            other => {
                let known = "sgd, decayed, adagrad, adam, adarevision";
                return Err(format!("`--update-rule {other}`: expected one of {known}").into());
            }
        })
    }

    /// Learning-rate factor of an epoch. `decayed` scales gradients by the inverse square root of
    /// the epoch.
    #[allow(dead_code, reason = "not every example has gradients")]
    pub(crate) fn learning_rate_factor(&self, epoch: usize) -> f32 {
        if self.update_rule == "decayed" { 1.0 / (1.0 + epoch as f32).sqrt() } else { 1.0 }
    }
}

/// Position of a mini-batch in a worker's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) epoch: usize,
    part: usize,
    parts: usize,
}

impl Batch {
    /// Range of this mini-batch among the `length` examples of the worker.
    pub(crate) fn of(self, length: usize) -> Range<usize> {
        length * self.part / self.parts..length * (self.part + 1) / self.parts
    }
}

/// Result of one epoch over all workers.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    /// Sum of the losses of all mini-batches.
    pub(crate) loss: f64,
    /// Time at which the last worker finished the epoch, in seconds since the start.
    pub(crate) seconds: f64,
    /// Bytes that all peers had sent when their first workers finished the epoch.
    pub(crate) bytes: u64,
    /// Compute seconds in this epoch, by worker.
    #[allow(dead_code, reason = "not every example writes a profile")]
    pub(crate) computing: Vec<f64>,
}

/// A model that workers train on tables.
pub(crate) trait TableTask: Sync {
    /// Table handles and data of one worker.
    type WorkerData<'a>
    where
        Self: 'a;

    fn begin(&self, worker: Worker) -> hemiola::Result<Self::WorkerData<'_>>;

    /// Processes a mini-batch and returns its loss.
    fn batch(&self, data: &mut Self::WorkerData<'_>, batch: Batch) -> hemiola::Result<f64>;

    fn clock(&self, data: &mut Self::WorkerData<'_>) -> hemiola::Result<()>;

    /// Stops the tables after a failure: the other workers would wait for the failed worker's
    /// clock.
    fn stop(&self, reason: &str);
}

/// *Collective.* Trains on all workers; each runs its epochs at its own pace within the staleness
/// bound.
pub(crate) fn train(cluster: &Cluster, flags: &Flags, task: &impl TableTask) -> hemiola::Result<Vec<Epoch>> {
    let everywhere = cluster.all_gather(cluster.workers())?;
    let (before, all): (usize, usize) = (everywhere[..cluster.rank().index()].iter().sum(), everywhere.iter().sum());
    cluster.barrier()?;
    let (start, sent) = (cluster.env().now(), cluster.traffic().bytes_sent());
    let results = cluster.each_worker(|worker| {
        let number = before + worker.index();
        let train_worker = || {
            let mut data = task.begin(worker)?;
            let mut epochs = Vec::new();
            for epoch in 0..flags.epochs {
                let mut loss = 0.0;
                let before = cluster.env().cpu_time();
                for clock in 0..flags.clocks {
                    for batch in 0..flags.batches {
                        let (part, parts) = (clock * flags.batches + batch, flags.clocks * flags.batches);
                        loss += task.batch(&mut data, Batch { epoch, part, parts })?;
                        cluster.env().sleep(flags.pause);
                    }
                    let in_turn = (epoch * flags.clocks + clock) % all == number;
                    cluster.env().sleep(if in_turn { flags.turns } else { Duration::ZERO });
                    cluster.env().sleep(if number == 0 { flags.slow } else { Duration::ZERO });
                    task.clock(&mut data)?;
                }
                let seconds = (cluster.env().now() - start).as_secs_f64();
                let bytes = if worker.index() == 0 { cluster.traffic().bytes_sent() - sent } else { 0 };
                epochs.push((loss, seconds, bytes, cluster.env().cpu_time().saturating_sub(before).as_secs_f64()));
            }
            Ok::<_, hemiola::Error>(epochs)
        };
        train_worker().inspect_err(|error| task.stop(&error.to_string()))
    })?;
    let mine = results.into_iter().collect::<hemiola::Result<Vec<_>>>()?;
    let all: Vec<Vec<(f64, f64, u64, f64)>> = cluster.all_gather(mine)?.into_iter().flatten().collect();
    let combine = |epoch: usize| {
        let of = || all.iter().map(|epochs| epochs[epoch]);
        let (loss, bytes) = (of().map(|(loss, ..)| loss).sum(), of().map(|(.., bytes, _)| bytes).sum());
        let computing = of().map(|(.., computing)| computing).collect();
        Epoch { loss, bytes, seconds: of().map(|(_, seconds, ..)| seconds).fold(0.0, f64::max), computing }
    };
    Ok((0..flags.epochs).map(combine).collect())
}

/// Prints the learning curve, and writes it to the `--report` file in the format of `hemiola plot`.
pub(crate) fn report(
    cluster: &Cluster,
    flags: &Flags,
    metric: &str,
    epochs: &[Epoch],
    value: impl Fn(f64) -> f64,
) -> hemiola::Result<()> {
    if !cluster.is_root() {
        return Ok(());
    }
    let mut progress = Vec::new();
    for (number, epoch) in (1..).zip(epochs) {
        let Epoch { seconds, bytes, loss, .. } = *epoch;
        let value = value(loss);
        cluster.println(format_args!(
            "epoch {number}: {metric} {value:.4} after {seconds:.2} s, {:.1} MB",
            bytes as f64 / 1e6
        ));
        let train = serde_json::json!({ metric: value });
        progress.push(serde_json::json!({ "epoch": number, "seconds": seconds, "bytes_sent": bytes, "train": train }));
    }
    if let Some(path) = &flags.report {
        let text = serde_json::json!({ "flags": format!("{flags:?}"), "progress": progress }).to_string();
        std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_flags_are_named_in_the_error() {
        let said = |text: &str| {
            let flags = Flags::new("sgd", 0.1, 8).parse(text.split_whitespace().map(str::to_owned));
            flags.unwrap_err().to_string()
        };
        assert_eq!(said("--staleness two"), "`--staleness two`: expected a number, or `none`");
        assert_eq!(said("--budget"), "`--budget` needs a value");
        assert_eq!(said("--clocks 0"), "`--clocks 0`: expected 1 or more");
        assert_eq!(said("--priority best"), "`--priority best`: expected round-robin, random, absolute or relative");
        assert!(said("--rank 3").starts_with("unknown flag `--rank`"));
    }
}
