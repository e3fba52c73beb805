//! Training loop on the parameter server: epochs, clocks, mini-batches and stragglers.
//!
//! A worker processes its share of the data in *epochs*, each of several *clocks*, each of several
//! *mini-batches*. Workers wait for each other only through their tables (stale synchronous
//! parallel). An epoch is not a barrier, so the effect of the staleness bound is visible. The
//! results of all workers are combined at the end.

use super::StalenessBench;
use super::factorization::Factorization;
use hemiola::prelude::*;
use std::ops::Range;
use std::time::Duration;

/// Position of a mini-batch in a worker's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) epoch: usize,
    part: usize,
    parts: usize,
}

impl Batch {
    /// Range of this mini-batch among the `length` examples of the worker.
    pub(super) fn of(self, length: usize) -> Range<usize> {
        length * self.part / self.parts..length * (self.part + 1) / self.parts
    }
}

/// Result of one epoch over all workers.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// Sum of the losses of all mini-batches.
    pub(super) loss: f64,
    /// Time at which the last worker finished the epoch, in seconds since the start.
    pub(super) seconds: f64,
    /// Bytes that all peers had sent when their first workers finished the epoch.
    pub(super) bytes: u64,
    /// Compute seconds in this epoch, by worker.
    pub(super) computing: Vec<f64>,
}

/// *Collective.* Trains on all workers; each runs its epochs at its own pace within the staleness
/// bound.
pub(super) fn train(
    cluster: &Cluster,
    arguments: &StalenessBench,
    task: &Factorization<'_>,
) -> hemiola_cluster::Result<Vec<Epoch>> {
    let everywhere = cluster.all_gather(cluster.workers())?;
    let (before, all): (usize, usize) = (everywhere[..cluster.rank().index()].iter().sum(), everywhere.iter().sum());
    cluster.barrier()?;
    let (start, sent) = (cluster.env().now(), cluster.traffic().bytes_sent());
    let results = cluster.each_worker(|worker| {
        let number = before + worker.index();
        let train_worker = || {
            let mut data = task.begin(worker)?;
            let mut epochs = Vec::new();
            for epoch in 0..arguments.epochs {
                let mut loss = 0.0;
                let before = cluster.env().cpu_time();
                for clock in 0..arguments.clocks {
                    for batch in 0..arguments.batches {
                        let (part, parts) = (clock * arguments.batches + batch, arguments.clocks * arguments.batches);
                        loss += task.batch(&mut data, Batch { epoch, part, parts })?;
                        cluster.env().sleep(arguments.pause);
                    }
                    let in_turn = (epoch * arguments.clocks + clock) % all == number;
                    cluster.env().sleep(if in_turn { arguments.turns } else { Duration::ZERO });
                    cluster.env().sleep(if number == 0 { arguments.slow } else { Duration::ZERO });
                    data.clock()?;
                }
                let seconds = (cluster.env().now() - start).as_secs_f64();
                let bytes = if worker.index() == 0 { cluster.traffic().bytes_sent() - sent } else { 0 };
                epochs.push((loss, seconds, bytes, cluster.env().cpu_time().saturating_sub(before).as_secs_f64()));
            }
            Ok::<_, hemiola_cluster::Error>(epochs)
        };
        train_worker().inspect_err(|error| task.stop(&error.to_string()))
    })?;
    let mine = results.into_iter().collect::<hemiola_cluster::Result<Vec<_>>>()?;
    let all: Vec<Vec<(f64, f64, u64, f64)>> = cluster.all_gather(mine)?.into_iter().flatten().collect();
    let combine = |epoch: usize| {
        let of = || all.iter().map(|epochs| epochs[epoch]);
        let (loss, bytes) = (of().map(|(loss, ..)| loss).sum(), of().map(|(.., bytes, _)| bytes).sum());
        let computing = of().map(|(.., computing)| computing).collect();
        Epoch { loss, bytes, seconds: of().map(|(_, seconds, ..)| seconds).fold(0.0, f64::max), computing }
    };
    Ok((0..arguments.epochs).map(combine).collect())
}
