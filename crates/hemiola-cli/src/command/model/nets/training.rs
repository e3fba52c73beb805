//! The loop around the steps of any net: epochs, held-out figures, checkpoints, the end.
//!
//! It does for nets what `training::drive` does for models that are arrays; the trainer saves what only it has. **Invariant:** what is done next depends on the history and on what all peers have agreed on.

use super::super::progress::MetricColumns;
use super::super::train_args::{PreparedTraining, TrainArgs};
use super::folder::{self, NetFolder};
use super::net_args::{NetArgs, NetSettings, SettingsFiles, StrategyNameOrFile};
use crate::error::{CommandError, into_cluster_error};
use crate::output::{OutputCompression, StagedFile};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Rank;
use hemiola_models::training::{
    Callback, CheckpointMetadata, Checkpoints, ClusterInfo, DatasetInfo, EpochProgress, Metrics, TargetMetric,
    TrainingControl, TrainingLimits, TrainingReport, TrainingSummary, peak_memory,
};
use hemiola_nn::data::{BatchSampler, Dataset};
use hemiola_nn::models::{Device, NeuralNet};
use hemiola_nn::trace::chrome_trace;
use hemiola_nn::{Trainer, TrainerBuilder};
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// Held-out examples that are looked at together, at most: an evaluation keeps no gradients, and smaller batches save nothing.
const LOOK: usize = 256;

/// Steps in a trace: the last of the last epoch.
const TRACED: usize = 20;

/// A kind of net, and what it is usually trained with.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetKind {
    /// As in `hemiola train NAME`.
    pub(super) name: &'static str,
    /// The figure that counts.
    pub(super) figure: TargetMetric,
    /// Examples of a step.
    pub(super) batch: u32,
}

/// What there is to train on.
pub(super) struct NetData<E, C> {
    pub(super) train: E,
    pub(super) valid: Option<E>,
    /// What was read, for people.
    pub(super) headline: String,
    /// The net for it.
    pub(super) config: C,
    /// Words of an example, or 1.
    pub(super) positions: usize,
    pub(super) shape: Vec<u64>,
}

/// A command: what was typed.
pub(super) struct NetCommand<'a> {
    pub(super) kind: NetKind,
    pub(super) common: &'a TrainArgs,
    pub(super) flags: &'a NetArgs,
}

impl NetCommand<'_> {
    /// Trains what `init` makes of the configuration that `load` found to fit the data. `sizes` are the settings of the net that were typed.
    pub(super) fn execute<N, E, C: Serialize>(
        &self,
        sizes: &impl Serialize,
        load: impl FnOnce() -> anyhow::Result<NetData<E, C>>,
        init: impl FnOnce(&C, &Device) -> N,
    ) -> anyhow::Result<ExitCode>
    where
        N: NeuralNet<Batch = E::Batch>,
        E: Dataset,
    {
        let Self { kind, common, flags } = self;
        let limits = common.limits(&TrainingLimits { epochs: 10, patience: None, ..TrainingLimits::default() });
        let chosen = flags.chosen(kind.batch, limits.epochs)?;
        let read = flags.read()?;
        let settings = json!({ "net": sizes, "seed": common.seed, "learning": chosen });
        if let Some(checkpoints) = common.checkpoints() {
            folder::check(&checkpoints, kind.name, &settings)?;
        }
        common.check_report()?;
        common.run(|cluster| {
            let start = cluster.env().now();
            let lock = common.claim(cluster)?;
            let loaded = load().map_err(into_cluster_error)?;
            same_everywhere(cluster, &loaded)?;
            let device = flags.device(cluster.rank()).map_err(into_cluster_error)?;
            let headline = format!("{}; {}{}", loaded.headline, ClusterInfo::of(cluster), flags.where_to());
            let loading = cluster.env().now() - start;
            let figures = MetricColumns { metric: kind.figure.name, unit: "examples" };
            let prepared = PreparedTraining { headline, loading, figures, limits: &limits, lock };
            common.attend(cluster, prepared, |watch| {
                let net = init(&loaded.config, &device.clone().autodiff());
                let job = NetTraining {
                    cluster,
                    device,
                    kind: *kind,
                    flags,
                    chosen: &chosen,
                    settings: &settings,
                    limits: &limits,
                    seed: common.seed,
                    checkpoints: common.checkpoints(),
                    data: &loaded,
                };
                job.run(net, &read, watch)
            })
        })
    }
}

/// *Collective.* An error if a peer has other data than the first.
fn same_everywhere<E: Dataset, C>(cluster: &Cluster, loaded: &NetData<E, C>) -> Result<()> {
    let digests = cluster.all_gather(loaded.digests())?;
    match digests.iter().position(|digest| *digest != digests[0]) {
        Some(rank) => {
            let failure = CommandError::usage(format!("peer {rank} has other data than peer 0"));
            Err(into_cluster_error(failure.hint("copy the same files to every machine").into()))
        }
        None => Ok(()),
    }
}

impl<E: Dataset, C> NetData<E, C> {
    fn digests(&self) -> [u64; 2] {
        [self.train.digest(), self.valid.as_ref().map_or(0, Dataset::digest)]
    }

    fn facts(&self) -> DatasetInfo {
        let valid = self.valid.as_ref().map_or(0, Dataset::len) as u64;
        DatasetInfo { shape: self.shape.clone(), train: self.train.len() as u64, validation: valid }
    }
}

/// A training.
struct NetTraining<'a, E, C> {
    cluster: &'a Cluster,
    device: Device,
    kind: NetKind,
    flags: &'a NetArgs,
    chosen: &'a NetSettings,
    settings: &'a Value,
    limits: &'a TrainingLimits,
    seed: u64,
    checkpoints: Option<Checkpoints>,
    data: &'a NetData<E, C>,
}

/// What has happened so far.
#[derive(Default)]
struct ResumedTraining {
    history: Vec<EpochProgress>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    bytes_before: u64,
    /// Epochs and seconds of training when a checkpoint was last made.
    saved: (u32, f64),
}

impl<E: Dataset, C> NetTraining<'_, E, C> {
    /// *Collective.* Trains to the end.
    fn run<N: NeuralNet<Batch = E::Batch>>(
        &self,
        net: N,
        read: &SettingsFiles,
        watch: &mut dyn Callback,
    ) -> Result<TrainingReport> {
        let batches = BatchSampler::new(self.data.train.len(), self.chosen.batch, self.cluster.size(), self.seed);
        let mut trainer = self.trainer(net, read, batches.steps() as u64).build()?;
        watch.on_explanation(trainer.explain().to_string().trim_end());
        let mut past = ResumedTraining::default();
        let mut end = self.resume(trainer.steps(), batches.steps() as u64, &mut past, watch)?;
        while end.is_none() {
            let progress = self.epoch(&mut trainer, &batches, &mut past)?;
            let wish = watch.on_epoch_end(&progress);
            past.history.push(progress);
            let verdict = self.limits.decide(&past.history, self.kind.figure);
            let last = &past.history[past.history.len() - 1];
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(last.epoch - past.saved.0, last.seconds - past.saved.1));
            // Clocks differ from peer to peer, so the first decides; whoever wants the end gets it.
            let said = self.cluster.all_gather((
                verdict.stop_reason.map(str::to_owned),
                wish == TrainingControl::Stop,
                due,
            ))?;
            let stop = said.iter().any(|(_, stop, _)| *stop);
            let (judged, _, due) = said.into_iter().next().expect("every peer has said something");
            end = judged.or_else(|| stop.then(|| TrainingSummary::STOPPED_BY_CALLBACK.to_owned()));
            if due || end.is_some() {
                self.save(&mut trainer, &mut past)?;
            }
        }
        self.write_trace(&trainer)?;
        self.report(past, end.unwrap_or_default())
    }

    fn trainer<N: NeuralNet>(&self, net: N, read: &SettingsFiles, steps: u64) -> TrainerBuilder<N> {
        let mut builder = Trainer::builder(self.cluster, net, self.chosen.optimizer())
            .batch_size(self.chosen.batch.div_ceil(self.cluster.size()))
            .sequence_length(self.data.positions)
            .schedule(self.chosen.schedule(steps * u64::from(self.limits.epochs)));
        builder = match &read.strategy {
            StrategyNameOrFile::Name(name) => builder.strategy(*name),
            StrategyNameOrFile::File(strategy) => builder.strategy((**strategy).clone()),
        };
        if let Some(network) = &read.network {
            builder = builder.network(network.clone());
        }
        if self.flags.trace().is_some() {
            builder = builder.trace();
        }
        if let Some(clip) = self.chosen.clip() {
            builder = builder.clip(clip);
        }
        if let Some(checkpoints) = &self.checkpoints {
            builder = builder.checkpoints(folder::checkpoint(checkpoints.folder()));
            if checkpoints.resumes() {
                builder = builder.resume();
            }
        }
        builder
    }

    /// *Collective.* The past of a training that goes on, and why there is nothing to do, if so.
    fn resume(
        &self,
        step: u64,
        steps: u64,
        past: &mut ResumedTraining,
        watch: &mut dyn Callback,
    ) -> Result<Option<String>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let folder = checkpoints.folder();
        if !checkpoints.resumes() {
            return self.by_root(|| folder::clear(folder)).map(|()| None);
        }
        // As text: what describes itself, as settings do, cannot be sent otherwise.
        let text = self.by_root(|| Ok(serde_json::to_string(&folder::journal(folder, step)?)?))?;
        let NetFolder { journal, .. } = serde_json::from_str(&text).expect("the first peer has written it just now");
        journal.check_settings(self.settings)?;
        journal.check_data(&self.data.facts(), self.data.digests())?;
        let last = journal.progress.last().filter(|last| u64::from(last.epoch) * steps == step);
        let Some(last) = last else {
            let message = format!("the checkpoint in `{}` is not of the end of an epoch", folder.display());
            return Err(into_cluster_error(CommandError::usage(message).hint("train anew, in another folder").into()));
        };
        past.training = Duration::from_secs_f64(last.seconds.max(0.0));
        past.evaluation = Duration::from_secs_f64(journal.evaluation_seconds.max(0.0));
        past.bytes_before = last.bytes_sent;
        past.saved = (last.epoch, last.seconds);
        let end = self.limits.decide(&journal.progress, self.kind.figure).stop_reason;
        let epoch = last.epoch;
        watch.on_note(&match end {
            Some(_) => format!("nothing left to do after epoch {epoch}; raise the limits to continue"),
            None => format!("resuming after epoch {epoch}"),
        });
        past.history = journal.progress;
        Ok(end.map(str::to_owned))
    }

    /// *Collective.* The last steps of all peers, if they are wanted.
    fn write_trace<N: NeuralNet>(&self, trainer: &Trainer<N>) -> Result<()> {
        let Some(path) = self.flags.trace() else { return Ok(()) };
        let spans = self.cluster.all_gather(trainer.trace())?;
        self.by_root(|| {
            let spans: Vec<_> = Rank::all(spans.len()).zip(spans.iter().cloned()).collect();
            let mut file = StagedFile::create(path, OutputCompression::None)?;
            file.write(chrome_trace(&spans).as_bytes())?;
            file.finish()?.publish()
        })
    }

    /// *Collective.* One pass over the examples, and how the net does then.
    fn epoch<N: NeuralNet<Batch = E::Batch>>(
        &self,
        trainer: &mut Trainer<N>,
        batches: &BatchSampler,
        past: &mut ResumedTraining,
    ) -> Result<EpochProgress> {
        let (env, device, rank) = (self.cluster.env(), self.device.clone().autodiff(), self.cluster.rank().index());
        let start = env.now();
        let epoch = past.history.len() as u32;
        let (mut total, mut examples) = (0.0, 0_u64);
        for step in 0..batches.steps() {
            if step + TRACED == batches.steps() {
                drop(trainer.trace());
            }
            let share = batches.examples_of(epoch, step, rank);
            let mut parts = share.chunks(share.len().div_ceil(self.flags.passes()).max(1)).peekable();
            let mut stepped = false;
            while let Some(part) = parts.next() {
                let forward = |net: &N| net.loss(&self.data.train.batch(part, &device));
                let loss = if parts.peek().is_some() {
                    trainer.accumulate(part.len(), forward)?
                } else {
                    stepped = true;
                    trainer.step(part.len(), forward)?
                };
                total += f64::from(loss) * part.len() as f64;
                examples += part.len() as u64;
            }
            if !stepped {
                // Others have examples.
                trainer.step(0, |_| unreachable!("there is nothing to look at"))?;
            }
        }
        let net = trainer.synced_model()?;
        past.training += env.now() - start;
        let start = env.now();
        let valid = self.data.valid.as_ref().map(|valid| self.evaluate(&net, valid)).transpose()?;
        past.evaluation += env.now() - start;
        let sent: u64 = self.cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum();
        let all = self.cluster.all_gather((total, examples, sent))?;
        let sum = all.iter().fold((0.0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
        let objective = sum.0 / (sum.1 as f64).max(1.0);
        Ok(EpochProgress {
            epoch: epoch + 1,
            seconds: past.training.as_secs_f64(),
            objective,
            train: Metrics::from([("loss".to_owned(), objective)]),
            validation: valid,
            updates: past.history.last().map_or(0, |last| last.updates) + sum.1,
            bytes_sent: past.bytes_before + sum.2,
            note: None,
        })
    }

    /// *Collective.* Figures on held-out examples.
    fn evaluate<N: NeuralNet<Batch = E::Batch>>(&self, net: &N, valid: &E) -> Result<Metrics> {
        let look = self.chosen.batch.clamp(1, LOOK);
        let batches = BatchSampler::new(valid.len(), look, self.cluster.size(), 0);
        let (mut total, mut right) = (0.0, 0.0);
        for part in batches.in_order(self.cluster.rank().index()) {
            let judged = net.evaluate(&valid.batch(&part, &self.device));
            total += judged.loss * part.len() as f64;
            right += judged.accuracy.unwrap_or(0.0) * part.len() as f64;
        }
        let all = self.cluster.all_gather((total, right))?;
        let (total, right) = all.into_iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (loss, right) = (total / valid.len() as f64, right / valid.len() as f64);
        let figure = match self.kind.figure.name {
            "accuracy" => right,
            "perplexity" => loss.exp(),
            "rmse" => loss.sqrt(),
            _ => loss,
        };
        Ok(Metrics::from([("loss".to_owned(), loss), (self.kind.figure.name.to_owned(), figure)]))
    }

    /// *Collective.* Saves a checkpoint, if there is a place for it.
    fn save<N: NeuralNet>(&self, trainer: &mut Trainer<N>, past: &mut ResumedTraining) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let (folder, step, start) = (checkpoints.folder(), trainer.steps(), self.cluster.env().now());
        let last = &past.history[past.history.len() - 1];
        past.saved = (last.epoch, last.seconds);
        let kept = NetFolder {
            net: self.kind.name.to_owned(),
            journal: CheckpointMetadata {
                settings: self.settings.clone(),
                data: self.data.facts(),
                digests: self.data.digests(),
                cluster: ClusterInfo::of(self.cluster),
                progress: past.history.clone(),
                best_index: past.history.len() - 1,
                separate_newest: false,
                evaluation_seconds: past.evaluation.as_secs_f64(),
                plan: None,
                state: Value::Null,
            },
        };
        self.by_root(|| folder::announce(folder, step, &kept))?;
        trainer.checkpoint()?;
        self.by_root(|| folder::settle(folder, step))?;
        past.saving += self.cluster.env().now() - start;
        Ok(())
    }

    /// *Collective.* What the first peer does, for all.
    fn by_root<T: Serialize + serde::de::DeserializeOwned>(
        &self,
        act: impl FnOnce() -> anyhow::Result<T>,
    ) -> Result<T> {
        let mut failed = None;
        let done = self.cluster.is_root().then(act).and_then(|done| match done {
            Ok(done) => Some(done),
            Err(error) => {
                failed = Some(into_cluster_error(error));
                None
            }
        });
        match (self.cluster.broadcast(done)?, failed) {
            (Some(done), _) => Ok(done),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::program("peer 0 has failed; see its message")),
        }
    }

    fn report(&self, past: ResumedTraining, ended: String) -> Result<TrainingReport> {
        let history = past.history;
        let (seconds, last) = (past.training.as_secs_f64(), &history[history.len() - 1]);
        let result = TrainingSummary {
            seconds,
            loading_seconds: None,
            evaluation_seconds: past.evaluation.as_secs_f64(),
            saving_seconds: past.saving.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: last.objective,
            validation: last.validation.clone(),
            best_epoch: last.epoch,
            stop_reason: ended,
            bytes_sent: last.bytes_sent,
            peak_rss_bytes: peak_memory(self.cluster)?,
        };
        Ok(TrainingReport {
            model: self.kind.name.to_owned(),
            data: self.data.facts(),
            cluster: ClusterInfo::of(self.cluster),
            seed: self.seed,
            progress: history,
            result,
            plan: None,
        })
    }
}
