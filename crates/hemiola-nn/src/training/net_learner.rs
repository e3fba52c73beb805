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
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_training::{CheckpointMetadata, ClusterInfo, EpochLearner, EpochLoop, EpochResult};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

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
}

impl<'a, N: NeuralNet<Batch = D::Batch>, D: Dataset> NetLearner<'a, N, D> {
    pub(super) fn new(
        cluster: &'a Cluster,
        fit: &'a NetFit<'a, D>,
        name: &'a str,
        trainer: Trainer<N>,
        batches: BatchSampler,
    ) -> Self {
        Self { cluster, fit, name, trainer, batches, epochs: 0, synced: None }
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
        let NetJournal { metadata, .. } = journal.ok_or_else(missing)?;
        run.check(&metadata)?;
        let epochs = metadata.progress.last().map_or(0, |last| last.epoch);
        if epochs == 0 || u64::from(epochs) * self.batches.steps() as u64 != step {
            return Err(Error::PartialEpoch { folder: folder.to_owned() }.into());
        }
        self.epochs = epochs;
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
        let (mut total, mut examples) = (0.0, 0);
        for step in 0..self.batches.steps() {
            if step == self.batches.steps().saturating_sub(TRACED_STEPS) {
                drop(self.trainer.trace());
            }
            examples += self.step(step, &mut total)?;
        }
        self.epochs += 1;
        self.synced = Some(self.trainer.synced_model()?);
        let duration = self.cluster.env().now() - start;
        let all = self.cluster.all_gather((total, examples))?;
        let (total, examples) = all.into_iter().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let objective = total / (examples as f64).max(1.0);
        Ok(EpochResult::new(objective, Metrics::from([("loss".to_owned(), objective)]), duration, examples))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let (Some(valid), Some(net)) = (self.fit.validation, &self.synced) else { return Ok(None) };
        let batch_size = self.fit.batch_size.clamp(1, EVALUATION_BATCH);
        let batches = BatchSampler::new(valid.len(), batch_size, self.cluster.size(), Seed(0));
        let (mut total, mut right) = (0.0, 0.0);
        for part in batches.in_order(self.cluster.rank().index()) {
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
