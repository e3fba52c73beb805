//! One epoch, evaluation and checkpoint of a net, for the loop over epochs.
//!
//! An epoch can stop between two steps, and checkpoints can be saved there. Their metadata have the
//! position: the next step, and the losses of the epoch so far.
//!
//! **Invariant:** the examples of a step depend on seed, epoch and step only, so that any number of
//! peers takes the same steps, and a resumed run continues with the next ones.

use super::batch_loader::{BatchLoader, BatchQueue};
use super::journal::{self, NetJournal};
use super::pause::{PauseAgreement, PausePoint, PauseWishes};
use super::{Callback, Metrics, NetFit};
use crate::data::{BatchSampler, Dataset};
use crate::error::Error;
use crate::models::NeuralNet;
use crate::trainer::Trainer;
use hemiola_cluster::{Cluster, Result, StopPoll};
use hemiola_core::Seed;
use hemiola_training::{CheckpointMetadata, ClusterInfo, EpochControl, EpochEnd, EpochLearner, EpochLoop, EpochResult};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    agreement: PauseAgreement,
    /// Number of completed epochs.
    epochs: u32,
    /// Position in the current epoch.
    position: EpochPosition,
    /// Net after the last epoch, with all updates; `None` during an epoch.
    synced: Option<N>,
}

/// Position of a peer within an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct EpochPosition {
    /// Next step.
    step: usize,
    /// Sum of the losses of this peer's examples.
    total: f64,
    /// Number of these examples.
    examples: u64,
    /// Training time.
    elapsed: Duration,
}

/// Position of all peers within an epoch, as checkpoints keep it.
#[derive(Debug, Serialize, Deserialize)]
struct SavedPosition {
    step: usize,
    /// Sum of losses and number of examples of each peer.
    peers: Vec<(f64, u64)>,
    seconds: f64,
}

impl SavedPosition {
    /// Returns the part of a peer. On another number of peers, peer 0 has all sums.
    fn of_peer(&self, rank: usize, peers: usize) -> EpochPosition {
        let own = if self.peers.len() == peers { self.peers.get(rank).copied() } else { None };
        let all = || self.peers.iter().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (total, examples) = own.unwrap_or_else(|| if rank == 0 { all() } else { (0.0, 0) });
        // A checked checkpoint has a duration; without the check, zero is better than a panic.
        let elapsed = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        EpochPosition { step: self.step, total, examples, elapsed }
    }
}

/// Reason why a part of an epoch ended.
enum Pause {
    /// The epoch is complete.
    End,
    /// A checkpoint is due.
    Save,
    /// A request to stop ends training.
    Stop,
}

impl<'a, N: NeuralNet<Batch = D::Batch>, D: Dataset> NetLearner<'a, N, D> {
    /// *Collective.*
    pub(super) fn new(
        cluster: &'a Cluster,
        fit: &'a NetFit<'a, D>,
        name: &'a str,
        trainer: Trainer<N>,
        batches: BatchSampler,
    ) -> Self {
        let agreement = PauseAgreement::new(cluster, trainer.strategy());
        let position = EpochPosition::default();
        Self { cluster, fit, name, trainer, batches, agreement, epochs: 0, position, synced: None }
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
        let partial = || Error::PartialEpoch { folder: folder.to_owned() };
        let saved = match &metadata.state {
            Value::Null => None,
            state => Some(serde_json::from_value::<SavedPosition>(state.clone()).map_err(|_| partial())?),
        };
        let (of_epoch, within) = (self.batches.steps() as u64, saved.as_ref().map_or(0, |saved| saved.step as u64));
        if u64::from(epochs) * of_epoch + within != step || (epochs == 0 && within == 0) || within >= of_epoch {
            return Err(partial().into());
        }
        self.epochs = epochs;
        let end = run.resume(metadata, self, callback);
        if let Some(saved) = saved {
            self.position = saved.of_peer(self.cluster.rank().index(), self.cluster.size());
            callback.on_note(&format!("continuing {}", self.place()));
        }
        Ok(end)
    }

    /// *Collective.* Returns the net after the last epoch, and its trainer.
    pub(super) fn finish(mut self) -> Result<(N, Trainer<N>)> {
        let net = match self.synced {
            Some(net) => net,
            None => self.trainer.synced_model()?,
        };
        Ok((net, self.trainer))
    }

    /// Position in words.
    fn place(&self) -> String {
        format!("epoch {} after step {} of {}", self.epochs + 1, self.position.step, self.batches.steps())
    }

    /// Examples of this peer in a step, divided into accumulated passes.
    fn parts(&self, step: usize) -> Vec<Vec<usize>> {
        parts_of(&self.batches, (self.epochs, step), self.cluster.rank().index(), self.fit.accumulate)
    }

    /// *Collective.* Runs steps until the end of the epoch or a pause. Returns at the same step on all
    /// peers.
    fn steps(&mut self, control: &mut EpochControl<'_>) -> Result<Pause> {
        let loader = BatchLoader {
            data: self.fit.train,
            epoch: self.epochs,
            device: self.fit.device.clone().autodiff(),
            threads: self.fit.loader_threads,
        };
        let (batches, accumulate, rank) = (self.batches.clone(), self.fit.accumulate, self.cluster.rank().index());
        let (epoch, from) = (self.epochs, self.position.step);
        let parts = move || -> Box<dyn Iterator<Item = Vec<usize>>> {
            let batches = batches.clone();
            Box::new(
                (from..batches.steps())
                    .flat_map(move |step| parts_of(&batches, (epoch, step), rank, accumulate).into_iter()),
            )
        };
        self.agreement.begin(from as u64);
        let cluster = self.cluster;
        loader.run(cluster, parts, |queue| self.steps_with(queue, control))
    }

    /// Runs steps with the batches of a queue.
    fn steps_with(&mut self, queue: &mut BatchQueue<'_, D>, control: &mut EpochControl<'_>) -> Result<Pause> {
        let end = self.batches.steps();
        loop {
            if self.position.step == end.saturating_sub(TRACED_STEPS) {
                drop(self.trainer.trace());
            }
            let start = self.cluster.env().now();
            self.step(queue)?;
            self.position.step += 1;
            self.position.elapsed += self.cluster.env().now() - start;
            let (step, elapsed) = (self.position.step, self.position.elapsed);
            let due = step < end && control.is_due_at_step(self.trainer.steps());
            let point = PausePoint { step: step as u64, end: end as u64, due };
            let request = self.cluster.stop_request().accepted_cause();
            let wishes = || PauseWishes { stop: request, save: control.is_checkpoint_due(elapsed) };
            match self.agreement.poll(point, wishes)? {
                Some(_) if step == end => return Ok(Pause::End),
                Some(PauseWishes { stop: Some(cause), .. }) => {
                    self.cluster.stop_request().adopt(cause);
                    return Ok(Pause::Stop);
                }
                Some(PauseWishes { save: true, .. }) => return Ok(Pause::Save),
                _ => {}
            }
        }
    }

    /// *Collective.* Takes one step.
    fn step(&mut self, queue: &mut BatchQueue<'_, D>) -> Result<()> {
        let parts = self.parts(self.position.step);
        for (index, part) in parts.iter().enumerate() {
            let batch = queue.next(part);
            let forward = |net: &N| net.loss(&batch);
            let loss = if index + 1 < parts.len() {
                self.trainer.accumulate(part.len(), forward)?
            } else {
                self.trainer.step(part.len(), forward)?
            };
            self.position.total += f64::from(loss) * part.len() as f64;
            self.position.examples += part.len() as u64;
        }
        if parts.is_empty() {
            // This peer has no examples in the batch, but takes part in the synchronization.
            self.trainer.step(0, |_| unreachable!("a step without examples has no forward pass"))?;
        }
        Ok(())
    }

    /// *Collective.* Saves a checkpoint within the epoch. A failure to save the last one is an error.
    fn save_within(&mut self, control: &mut EpochControl<'_>, is_last: bool) -> Result<()> {
        let EpochPosition { step, total, examples, elapsed } = self.position;
        let peers = self.cluster.all_gather((total, examples))?;
        let position = SavedPosition { step, peers, seconds: elapsed.as_secs_f64() };
        let position = serde_json::to_value(position).expect("a position is plain data");
        let (name, description, trainer) = (self.name, &self.fit.description, &mut self.trainer);
        let save = |_: &Path, metadata| {
            let journal = NetJournal { net: name.to_owned(), metadata, description: description.clone() };
            trainer.checkpoint_with(&journal.to_attachments())
        };
        control.save(elapsed, &position, save, |error| !is_last && is_failed_save(error))
    }

    /// *Collective.* Returns the result of the epoch, or of the part of it that was run.
    fn result(&mut self) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        self.synced = Some(self.trainer.synced_model()?);
        let EpochPosition { total, examples, elapsed, .. } = self.position;
        let duration = elapsed + (self.cluster.env().now() - start);
        let all = self.cluster.all_gather((total, examples))?;
        let (total, examples) = all.into_iter().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let objective = total / (examples as f64).max(1.0);
        Ok(EpochResult::new(objective, Metrics::from([("loss".to_owned(), objective)]), duration, examples))
    }
}

/// Examples of a peer in a step of an epoch, divided into accumulated passes.
fn parts_of(batches: &BatchSampler, (epoch, step): (u32, usize), rank: usize, accumulate: usize) -> Vec<Vec<usize>> {
    let share = batches.examples_of(epoch, step, rank);
    share.chunks(share.len().div_ceil(accumulate).max(1)).map(<[usize]>::to_vec).collect()
}

/// Returns whether training continues after this failure to save a checkpoint.
fn is_failed_save(error: &hemiola_cluster::Error) -> bool {
    // Peer 0 writes and tells all peers of its failure. Errors of steps and peers are others.
    let hemiola_cluster::Error::Layer { source, .. } = error else { return false };
    matches!(source.downcast_ref::<hemiola_sync::Error>(), Some(hemiola_sync::Error::Checkpoint { .. }))
}

impl<N: NeuralNet<Batch = D::Batch>, D: Dataset> EpochLearner for NetLearner<'_, N, D> {
    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        unreachable!("the loop runs epochs of nets with a control")
    }

    fn epoch_within(&mut self, _before: Option<f64>, control: &mut EpochControl<'_>) -> Result<EpochResult> {
        self.synced = None;
        loop {
            match self.steps(control)? {
                Pause::End => {
                    let result = self.result()?;
                    self.epochs += 1;
                    self.position = EpochPosition::default();
                    return Ok(result);
                }
                Pause::Save => self.save_within(control, false)?,
                Pause::Stop => {
                    self.save_within(control, true)?;
                    let end = EpochEnd::Within(self.place());
                    return Ok(EpochResult { end, ..self.result()? });
                }
            }
        }
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
        is_failed_save(error)
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
