//! One epoch, evaluation and checkpoint of a net, for the loop over epochs.
//!
//! **Invariant:** the examples of a step depend on seed, epoch and step only, so that any number of
//! peers takes the same steps, and a resumed run continues with the next ones.

use super::journal::{self, NetJournal};
use super::{Callback, Metrics, NetFit};
use crate::data::{BatchSampler, Dataset};
use crate::error::Error;
use crate::models::NeuralNet;
use crate::trainer::Trainer;
use hemiola_cluster::{Cluster, Result, StopPoll};
use hemiola_core::Seed;
use hemiola_strategy::{StrategyNode, Synchronizer};
use hemiola_training::{CheckpointMetadata, ClusterInfo, EpochLearner, EpochLoop, EpochResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// Maximum batch size of an evaluation. It keeps no gradients, so smaller batches would save no
/// memory.
const EVALUATION_BATCH: usize = 256;

/// Number of traced steps: the last ones of the last epoch.
const TRACED_STEPS: usize = 20;

/// Net in training.
pub(super) struct NetLearner<'a, N: NeuralNet, D> {
    cluster: &'a Cluster,
    fit: &'a NetFit<'a, D>,
    name: &'a str,
    pub(super) trainer: Trainer<N>,
    batches: BatchSampler,
    /// Number of completed epochs.
    epochs: u32,
    /// Net after the last epoch, with all updates; `None` during an epoch.
    synced: Option<N>,
    /// Part of the current epoch that an interrupted run has done.
    done: EpochPart,
}

/// Part of an epoch that was interrupted.
#[derive(Clone, Copy, Debug, Default)]
struct EpochPart {
    /// Number of steps.
    steps: usize,
    /// Sum of the losses of the examples of all peers.
    total: f64,
    /// Number of these examples.
    examples: u64,
    /// Seconds of training.
    seconds: f64,
}

impl<'a, N: NeuralNet<Batch = D::Batch>, D: Dataset> NetLearner<'a, N, D> {
    pub(super) fn new(
        cluster: &'a Cluster,
        fit: &'a NetFit<'a, D>,
        name: &'a str,
        trainer: Trainer<N>,
        batches: BatchSampler,
    ) -> Self {
        Self { cluster, fit, name, trainer, batches, epochs: 0, synced: None, done: EpochPart::default() }
    }

    /// *Collective.* Restores the history of the checkpoint that the trainer has resumed from.
    /// Returns the reason to stop at once, if there is one.
    pub(super) fn resume<S: Serialize>(
        &mut self,
        run: &mut EpochLoop<'_, S>,
        folder: &Path,
        callback: &mut dyn Callback,
    ) -> Result<Option<String>> {
        let step = self.trainer.steps();
        let attachments = self.trainer.take_attachments().unwrap_or_default();
        let journal = NetJournal::from_attachments(&journal::trainer_folder(folder), &attachments)?;
        let missing = || Error::NoJournal { folder: folder.to_owned(), step };
        let NetJournal { mut metadata, .. } = journal.ok_or_else(missing)?;
        run.check(&metadata)?;
        let (epochs, steps) = (metadata.progress.len() as u64, self.batches.steps() as u64);
        let partial = steps > 0 && !step.is_multiple_of(steps) && step / steps + 1 == epochs;
        if epochs == 0 || (!partial && epochs * steps != step) {
            return Err(Error::PartialEpoch { folder: folder.to_owned() }.into());
        }
        if partial && let Some(last) = metadata.progress.pop() {
            // The epoch goes on where it was interrupted, and replaces its part in the history.
            let before = metadata.progress.last();
            let examples = last.updates.saturating_sub(before.map_or(0, |before| before.updates));
            let seconds = last.seconds - before.map_or(0.0, |before| before.seconds);
            let steps = (step % steps) as usize;
            self.done = EpochPart { steps, total: last.objective * examples as f64, examples, seconds };
            callback.on_note(&format!("resuming within epoch {}, after step {steps}", last.epoch));
            metadata.best_index = metadata.best_index.min(metadata.progress.len().saturating_sub(1));
        }
        self.epochs = metadata.progress.len() as u32;
        Ok(run.resume(metadata, self, callback))
    }

    /// *Collective.* Returns the net after the last epoch, and its trainer.
    pub(super) fn finish(mut self) -> Result<(N, Trainer<N>)> {
        let net = match self.synced {
            Some(net) => net,
            None => self.trainer.synced_model()?,
        };
        Ok((net, self.trainer))
    }

    /// Returns true if peers wait for each other in each step, or there is one: only then can they agree
    /// to stop within an epoch. Others, which tables or gossip averaging keep together, would be
    /// slowed down by it, and end the epoch.
    fn agrees_in_steps(&self) -> bool {
        let mut nodes = self.trainer.strategy().plans.iter().flat_map(|plan| &plan.nodes);
        let alone =
            |node: &StrategyNode| matches!(node.synchronizer, Synchronizer::Table { .. } | Synchronizer::Gossip(_));
        self.cluster.size() == 1 || !nodes.all(alone)
    }

    /// *Collective.* Takes one step, and adds the losses of this peer's examples to `total`. Returns
    /// the number of these examples.
    fn step(&mut self, step: usize, total: &mut f64) -> Result<u64> {
        let (fit, device) = (self.fit, self.fit.device.clone().autodiff());
        let share = self.batches.examples_of(self.epochs, step, self.cluster.rank().index());
        let mut parts = share.chunks(share.len().div_ceil(fit.accumulate).max(1)).peekable();
        let mut stepped = false;
        while let Some(part) = parts.next() {
            let forward = |net: &N| net.loss(&fit.train.batch(part, &device));
            let loss = if parts.peek().is_some() {
                self.trainer.accumulate(part.len(), forward)?
            } else {
                stepped = true;
                self.trainer.step(part.len(), forward)?
            };
            *total += f64::from(loss) * part.len() as f64;
        }
        if !stepped {
            // This peer has no examples in the batch, but takes part in the synchronization.
            self.trainer.step(0, |_| unreachable!("a step without examples has no forward pass"))?;
        }
        Ok(share.len() as u64)
    }
}

impl<N: NeuralNet<Batch = D::Batch>, D: Dataset> EpochLearner for NetLearner<'_, N, D> {
    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        self.synced = None;
        let (mut total, mut examples, mut partial) = (0.0, 0, false);
        let done = std::mem::take(&mut self.done);
        let mut poll = self.agrees_in_steps().then(|| StopPoll::new(self.cluster));
        for step in done.steps..self.batches.steps() {
            // At least one step, so that a run that is interrupted again and again comes to its end.
            match poll.as_mut().map_or(Ok(()), |poll| poll.check(self.cluster)) {
                Err(hemiola_cluster::Error::Stopped) if step > done.steps => {
                    partial = true;
                    break;
                }
                Err(hemiola_cluster::Error::Stopped) | Ok(()) => {}
                Err(error) => return Err(error),
            }
            if step == self.batches.steps().saturating_sub(TRACED_STEPS) {
                drop(self.trainer.trace());
            }
            examples += self.step(step, &mut total)?;
        }
        self.epochs += 1;
        self.synced = Some(self.trainer.synced_model()?);
        let duration = self.cluster.env().now() - start;
        let duration = duration + Duration::try_from_secs_f64(done.seconds).unwrap_or_default();
        let all = self.cluster.all_gather((total, examples))?;
        let before = (done.total, done.examples);
        let (total, examples) = all.into_iter().fold(before, |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let objective = total / (examples as f64).max(1.0);
        let metrics = Metrics::from([("loss".to_owned(), objective)]);
        let result = EpochResult::new(objective, metrics, duration, examples);
        let note = partial.then(|| "interrupted; a resumed run goes on within it".to_owned());
        Ok(EpochResult { partial, note, ..result })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let (Some(valid), Some(net)) = (self.fit.validation, &self.synced) else { return Ok(None) };
        let batch_size = self.fit.batch_size.clamp(1, EVALUATION_BATCH);
        let batches = BatchSampler::new(valid.len(), batch_size, self.cluster.size(), Seed(0));
        let (mut total, mut right) = (0.0, 0.0);
        let most = (0..self.cluster.size()).map(|rank| batches.in_order(rank).count()).max().unwrap_or(0);
        let (mut own, mut poll) = (batches.in_order(self.cluster.rank().index()), StopPoll::new(self.cluster));
        for _ in 0..most {
            poll.check(self.cluster)?;
            let Some(part) = own.next() else { continue };
            let evaluation = net.evaluate(&valid.batch(&part, &self.fit.device));
            total += evaluation.loss * part.len() as f64;
            right += evaluation.accuracy.unwrap_or(0.0) * part.len() as f64;
        }
        let all = self.cluster.all_gather((total, right))?;
        let (total, right) = all.into_iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (loss, accuracy) = (total / valid.len() as f64, right / valid.len() as f64);
        Ok(Some(self.fit.metric.metrics(loss, accuracy)))
    }

    fn save(&mut self, _folder: &Path, metadata: CheckpointMetadata) -> Result<()> {
        let journal = NetJournal { net: self.name.to_owned(), metadata, description: self.fit.description.clone() };
        self.trainer.checkpoint_with(&journal.to_attachments())
    }

    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        // Every number of peers sums the gradients of a batch in another order. Workers take no part.
        before.peers == now.peers
    }

    fn survives_failed_save(&self, error: &hemiola_cluster::Error) -> bool {
        // Peer 0 writes and tells all peers of its failure. Errors of steps and peers are others.
        let hemiola_cluster::Error::Layer { source, .. } = error else { return false };
        matches!(source.downcast_ref::<hemiola_sync::Error>(), Some(hemiola_sync::Error::Checkpoint { .. }))
    }
}

/// *Collective.* Runs `act` on the root, and broadcasts its result.
pub(super) fn on_root<T: Serialize + DeserializeOwned>(
    cluster: &Cluster,
    act: impl FnOnce() -> Result<T, Error>,
) -> Result<T> {
    let (mut done, mut failed) = (None, None);
    if cluster.is_root() {
        match act() {
            Ok(value) => done = Some(value),
            Err(error) => failed = Some(error),
        }
    }
    match (cluster.broadcast(done)?, failed) {
        (Some(done), _) => Ok(done),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(hemiola_cluster::Error::program("peer 0 failed; see its message")),
    }
}
