//! What the examples on tables share: flags, the course of a training, and its report.
//!
//! A worker goes through its part of the data in *epochs*, each of some *clocks*, each of some *batches*. Nothing makes workers wait for each other but their
//! tables: an epoch is no barrier, so what staleness is worth can be seen. What each worker saw is put together at the end.

use hemiola::cluster::Worker;
use hemiola::prelude::*;
use hemiola::tables::{AdaGrad, AdaRevision, Adam, Bandwidth, Consistency, Priority, Sgd, TableBuilder};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// How tables are used.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    pub(crate) consistency: Consistency,
    pub(crate) procedure: String,
    pub(crate) step: f64,
    /// Megabits per second, for each peer and direction.
    pub(crate) budget: Option<f64>,
    pub(crate) priority: Priority,
    pub(crate) epochs: usize,
    /// Clocks of an epoch.
    pub(crate) clocks: usize,
    /// Batches of a clock: after each, what was learned is added.
    pub(crate) batches: usize,
    /// How long every worker pauses after each batch: work that takes time and no processor, so that several peers on one machine are like several machines.
    pub(crate) pause: Duration,
    /// How long the first worker of the first peer pauses in each clock.
    pub(crate) slow: Duration,
    /// How long one worker pauses in each clock, each in its turn.
    pub(crate) turns: Duration,
    pub(crate) data: Option<String>,
    pub(crate) labels: Option<String>,
    /// Topics, or columns of factors.
    pub(crate) width: usize,
    pub(crate) report: Option<PathBuf>,
    /// File for what workers compute, for `hemiola simulate`; where the example writes one.
    pub(crate) profile: Option<PathBuf>,
    /// Rows that only one worker ever needs stay with it rather than in a table; where the example has such rows.
    pub(crate) keep: bool,
}

const KNOWN: &str = "--staleness, --procedure, --step, --budget, --priority, --epochs, --clocks, --batches, --pause, --slow, --turns, --data, --labels, \
                     --width, --report, --profile and --keep";

impl Flags {
    /// BSP with this procedure and step.
    pub(crate) fn new(procedure: &str, step: f64, width: usize) -> Self {
        Self {
            consistency: Consistency::Bsp,
            procedure: procedure.to_owned(),
            step,
            budget: None,
            priority: Priority::RelativeMagnitude,
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

    /// These, unless the command line says something else.
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
                "--procedure" => self.procedure = value,
                "--step" => self.step = number()?,
                "--budget" => self.budget = Some(number()?),
                "--priority" => {
                    self.priority = match &*value {
                        "round-robin" => Priority::RoundRobin,
                        "random" => Priority::Random,
                        "absolute" => Priority::AbsoluteMagnitude,
                        "relative" => Priority::RelativeMagnitude,
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
                _ => return Err(format!("`{flag}` is no flag; there are {KNOWN}").into()),
            }
        }
        Ok(self)
    }

    /// A table as these flags want it, for all but its procedure.
    pub(crate) fn paced<C: hemiola::tables::Cell>(&self, table: TableBuilder<C>) -> TableBuilder<C> {
        let table = table.consistency(self.consistency);
        match self.budget {
            None => table,
            Some(megabits) => {
                let bandwidth = Bandwidth::bytes_per_second((megabits * 125_000.0) as u64);
                table.budget(bandwidth).priority(self.priority)
            }
        }
    }

    /// A table that takes gradients.
    #[allow(dead_code, reason = "not every example has gradients")]
    pub(crate) fn descends(&self, table: TableBuilder<f32>) -> hemiola::Result<TableBuilder<f32>> {
        let table = self.paced(table);
        Ok(match &*self.procedure {
            "sgd" | "decayed" => table.procedure(Sgd::new(self.step)),
            "adagrad" => table.procedure(AdaGrad::new(self.step)),
            "adam" => table.procedure(Adam::new(self.step)),
            "adarevision" => table.procedure(AdaRevision::new(self.step)),
            other => {
                let known = "sgd, decayed, adagrad, adam and adarevision";
                return Err(format!("`--procedure {other}`: there are {known}").into());
            }
        })
    }

    /// What gradients of an epoch are multiplied by: `decayed` has steps that shrink with the root of the epoch.
    #[allow(dead_code, reason = "not every example has gradients")]
    pub(crate) fn factor(&self, epoch: usize) -> f32 {
        if self.procedure == "decayed" { 1.0 / (1.0 + epoch as f32).sqrt() } else { 1.0 }
    }
}

/// A part of a worker's data, to be used in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) epoch: usize,
    part: usize,
    parts: usize,
}

impl Batch {
    /// Its places among `length` of the worker.
    pub(crate) fn of(self, length: usize) -> Range<usize> {
        length * self.part / self.parts..length * (self.part + 1) / self.parts
    }
}

/// An epoch of all workers.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    /// The sum of what batches said.
    pub(crate) loss: f64,
    /// When the last worker had ended it.
    pub(crate) seconds: f64,
    /// What peers had sent until their first workers had ended it.
    pub(crate) bytes: u64,
    /// By worker: seconds in which it computed.
    #[allow(dead_code, reason = "not every example writes a profile")]
    pub(crate) computing: Vec<f64>,
}

/// What a worker does with its tables.
pub(crate) trait Work: Sync {
    /// The tables in the hands of a worker, and its data.
    type Hands<'a>
    where
        Self: 'a;

    fn begin(&self, worker: Worker) -> hemiola::Result<Self::Hands<'_>>;

    /// Learns from a part of the data; the loss.
    fn batch(&self, hands: &mut Self::Hands<'_>, batch: Batch) -> hemiola::Result<f64>;

    fn clock(&self, hands: &mut Self::Hands<'_>) -> hemiola::Result<()>;

    /// Others would wait for the clock of a worker that failed.
    fn stop(&self, reason: &str);
}

/// *Collective.* Every worker goes through all its epochs at its own pace.
pub(crate) fn train(cluster: &Cluster, flags: &Flags, work: &impl Work) -> hemiola::Result<Vec<Epoch>> {
    let everywhere = cluster.all_gather(cluster.workers())?;
    let (before, all): (usize, usize) = (everywhere[..cluster.rank().index()].iter().sum(), everywhere.iter().sum());
    cluster.barrier()?;
    let (start, sent) = (cluster.env().now(), cluster.traffic().bytes_sent());
    let courses = cluster.each_worker(|worker| {
        let number = before + worker.index();
        let course = || {
            let mut hands = work.begin(worker)?;
            let mut epochs = Vec::new();
            for epoch in 0..flags.epochs {
                let mut loss = 0.0;
                let before = cluster.env().computed();
                for clock in 0..flags.clocks {
                    for batch in 0..flags.batches {
                        let (part, parts) = (clock * flags.batches + batch, flags.clocks * flags.batches);
                        loss += work.batch(&mut hands, Batch { epoch, part, parts })?;
                        cluster.env().pause(flags.pause);
                    }
                    let in_turn = (epoch * flags.clocks + clock) % all == number;
                    cluster.env().pause(if in_turn { flags.turns } else { Duration::ZERO });
                    cluster.env().pause(if number == 0 { flags.slow } else { Duration::ZERO });
                    work.clock(&mut hands)?;
                }
                let seconds = (cluster.env().now() - start).as_secs_f64();
                let bytes = if worker.index() == 0 { cluster.traffic().bytes_sent() - sent } else { 0 };
                epochs.push((loss, seconds, bytes, cluster.env().computed().saturating_sub(before).as_secs_f64()));
            }
            Ok::<_, hemiola::Error>(epochs)
        };
        course().inspect_err(|error| work.stop(&error.to_string()))
    })?;
    let mine = courses.into_iter().collect::<hemiola::Result<Vec<_>>>()?;
    let all: Vec<Vec<(f64, f64, u64, f64)>> = cluster.all_gather(mine)?.into_iter().flatten().collect();
    let together = |epoch: usize| {
        let of = || all.iter().map(|course| course[epoch]);
        let (loss, bytes) = (of().map(|(loss, ..)| loss).sum(), of().map(|(.., bytes, _)| bytes).sum());
        let computing = of().map(|(.., computing)| computing).collect();
        Epoch { loss, bytes, seconds: of().map(|(_, seconds, ..)| seconds).fold(0.0, f64::max), computing }
    };
    Ok((0..flags.epochs).map(together).collect())
}

/// Prints the course of a training, and writes it where `--report` says, in the form that `hemiola plot` draws.
pub(crate) fn tell(
    cluster: &Cluster,
    flags: &Flags,
    figure: &str,
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
            "epoch {number}: {figure} {value:.4} after {seconds:.2} s, {:.1} MB",
            bytes as f64 / 1e6
        ));
        let train = serde_json::json!({ figure: value });
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
    fn flags_that_are_not_understood_are_named() {
        let said = |text: &str| {
            let flags = Flags::new("sgd", 0.1, 8).parse(text.split_whitespace().map(str::to_owned));
            flags.unwrap_err().to_string()
        };
        assert_eq!(said("--staleness two"), "`--staleness two`: expected a number, or `none`");
        assert_eq!(said("--budget"), "`--budget` needs a value");
        assert_eq!(said("--clocks 0"), "`--clocks 0`: expected 1 or more");
        assert_eq!(said("--priority best"), "`--priority best`: expected round-robin, random, absolute or relative");
        assert!(said("--rank 3").starts_with("`--rank` is no flag"));
    }
}
