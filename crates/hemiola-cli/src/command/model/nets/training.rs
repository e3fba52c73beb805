//! Training loop of all nets: epochs, validation, checkpoints, stopping.
//!
//! The counterpart of the fit loop of `hemiola_models::training` for nets, whose trainer saves its
//! own checkpoints. **Invariant:** control flow depends only on the history and on values that all
//! peers agree on.

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

/// Maximum batch size of an evaluation. It keeps no gradients, so smaller batches would save no
/// memory.
const EVALUATION_BATCH: usize = 256;

/// Number of traced steps: the last ones of the last epoch.
const TRACED_STEPS: usize = 20;

/// Kind of net, with its metric and default batch size.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetKind {
    /// Name of the command, as in `hemiola train NAME`.
    pub(super) name: &'static str,
    /// Validation metric that stopping depends on.
    pub(super) metric: TargetMetric,
    /// Default global batch size.
    pub(super) batch_size: u32,
}

/// Loaded data, and the configuration of the net for them.
pub(super) struct NetData<E, C> {
    pub(super) train: E,
    pub(super) valid: Option<E>,
    /// Summary of the data, printed before the first epoch.
    pub(super) headline: String,
    /// Configuration of the net that fits the data.
    pub(super) config: C,
    /// Words per example; 1 if an example is not a sequence.
    pub(super) sequence_length: usize,
    pub(super) shape: Vec<u64>,
}

/// Command to train a net: its kind and flags.
pub(super) struct NetCommand<'a> {
    pub(super) kind: NetKind,
    pub(super) common: &'a TrainArgs,
    pub(super) flags: &'a NetArgs,
}

impl NetCommand<'_> {
    /// Trains the net that `init` builds from the configuration of `load`. `sizes` are the flags of
    /// the net, which must not change on resume.
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
        let net_settings = flags.settings(kind.batch_size, limits.epochs)?;
        let read = flags.read()?;
        let settings = json!({ "net": sizes, "seed": common.seed, "optimization": net_settings });
        if let Some(checkpoints) = common.checkpoints() {
            folder::check(&checkpoints, kind.name, &settings)?;
        }
        common.check_report()?;
        common.run(|cluster| {
            let start = cluster.env().now();
            let lock = common.lock_output(cluster)?;
            let loaded = load().map_err(into_cluster_error)?;
            check_same_data(cluster, &loaded)?;
            let device = flags.open_device(cluster.rank()).map_err(into_cluster_error)?;
            let headline = format!("{}; {}{}", loaded.headline, ClusterInfo::of(cluster), flags.device_text());
            let loading = cluster.env().now() - start;
            let columns = MetricColumns { metric: kind.metric.name, unit: "examples" };
            let prepared = PreparedTraining { headline, loading, columns, limits: &limits, lock };
            common.fit_with_callback(cluster, prepared, |callback| {
                let net = init(&loaded.config, &device.clone().autodiff());
                let training = NetTraining {
                    cluster,
                    device,
                    kind: *kind,
                    flags,
                    net_settings: &net_settings,
                    settings: &settings,
                    limits: &limits,
                    seed: common.seed,
                    checkpoints: common.checkpoints(),
                    data: &loaded,
                };
                training.run(net, &read, callback)
            })
        })
    }
}

/// *Collective.* Returns an error unless all peers have read the same data.
fn check_same_data<E: Dataset, C>(cluster: &Cluster, loaded: &NetData<E, C>) -> Result<()> {
    let digests = cluster.all_gather(loaded.digests())?;
    match digests.iter().position(|digest| *digest != digests[0]) {
        Some(rank) => {
            let failure = CommandError::usage(format!("peer {rank} and peer 0 have different data"));
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

/// Training run of a net.
struct NetTraining<'a, E, C> {
    cluster: &'a Cluster,
    device: Device,
    kind: NetKind,
    flags: &'a NetArgs,
    net_settings: &'a NetSettings,
    settings: &'a Value,
    limits: &'a TrainingLimits,
    seed: u64,
    checkpoints: Option<Checkpoints>,
    data: &'a NetData<E, C>,
}

/// History and timings of the run so far, including resumed epochs.
#[derive(Default)]
struct RunHistory {
    history: Vec<EpochProgress>,
    training: Duration,
    evaluation: Duration,
    saving: Duration,
    bytes_before: u64,
    /// Epoch and training seconds of the last checkpoint.
    saved: (u32, f64),
}

impl<E: Dataset, C> NetTraining<'_, E, C> {
    /// *Collective.* Trains until a limit is reached, and returns the report.
    fn run<N: NeuralNet<Batch = E::Batch>>(
        &self,
        net: N,
        read: &SettingsFiles,
        callback: &mut dyn Callback,
    ) -> Result<TrainingReport> {
        let batches =
            BatchSampler::new(self.data.train.len(), self.net_settings.batch_size, self.cluster.size(), self.seed);
        let mut trainer = self.trainer(net, read, batches.steps() as u64).build()?;
        callback.on_explanation(trainer.explain().to_string().trim_end());
        let mut past = RunHistory::default();
        let mut end = self.resume(trainer.steps(), batches.steps() as u64, &mut past, callback)?;
        while end.is_none() {
            let progress = self.epoch(&mut trainer, &batches, &mut past)?;
            let control = callback.on_epoch_end(&progress);
            past.history.push(progress);
            let verdict = self.limits.decide(&past.history, self.kind.metric);
            let last = &past.history[past.history.len() - 1];
            let due = self
                .checkpoints
                .as_ref()
                .is_some_and(|checkpoints| checkpoints.is_due(last.epoch - past.saved.0, last.seconds - past.saved.1));
            // Clocks differ between peers, so the first peer decides; a stop of any peer stops all.
            let votes = self.cluster.all_gather((
                verdict.stop_reason.map(str::to_owned),
                control == TrainingControl::Stop,
                due,
            ))?;
            let stop = votes.iter().any(|(_, stop, _)| *stop);
            let (reason, _, due) = votes.into_iter().next().expect("every peer has voted");
            end = reason.or_else(|| stop.then(|| TrainingSummary::STOPPED_BY_CALLBACK.to_owned()));
            if due || end.is_some() {
                self.save(&mut trainer, &mut past)?;
            }
        }
        self.write_trace(&trainer)?;
        self.report(past, end.unwrap_or_default())
    }

    fn trainer<N: NeuralNet>(&self, net: N, read: &SettingsFiles, steps: u64) -> TrainerBuilder<N> {
        let mut builder = Trainer::builder(self.cluster, net, self.net_settings.optimizer())
            .batch_size(self.net_settings.batch_size.div_ceil(self.cluster.size()))
            .sequence_length(self.data.sequence_length)
            .schedule(self.net_settings.schedule(steps * u64::from(self.limits.epochs)));
        builder = match &read.strategy {
            StrategyNameOrFile::Name(name) => builder.strategy(*name),
            StrategyNameOrFile::File(strategy) => builder.strategy((**strategy).clone()),
        };
        if let Some(cluster) = &read.cluster {
            builder = builder.network(cluster.clone());
        }
        if self.flags.trace().is_some() {
            builder = builder.trace();
        }
        if let Some(clip) = self.net_settings.clip() {
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

    /// *Collective.* Restores the history of a resumed run. Returns the stop reason if it is
    /// complete already.
    fn resume(
        &self,
        step: u64,
        steps: u64,
        past: &mut RunHistory,
        callback: &mut dyn Callback,
    ) -> Result<Option<String>> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(None) };
        let folder = checkpoints.folder();
        if !checkpoints.resumes() {
            return self.on_root(|| folder::clear(folder)).map(|()| None);
        }
        // As text, because the settings are self-describing JSON, which the wire format cannot
        // carry.
        let text = self.on_root(|| Ok(serde_json::to_string(&folder::journal(folder, step)?)?))?;
        let NetFolder { journal, .. } = serde_json::from_str(&text).expect("the root has just serialized it");
        journal.check_settings(self.settings)?;
        journal.check_data(&self.data.facts(), self.data.digests())?;
        let last = journal.progress.last().filter(|last| u64::from(last.epoch) * steps == step);
        let Some(last) = last else {
            let message = format!("the checkpoint in `{}` is not at the end of an epoch", folder.display());
            return Err(into_cluster_error(
                CommandError::usage(message).hint("train from the start, in another folder").into(),
            ));
        };
        past.training = Duration::from_secs_f64(last.seconds.max(0.0));
        past.evaluation = Duration::from_secs_f64(journal.evaluation_seconds.max(0.0));
        past.bytes_before = last.bytes_sent;
        past.saved = (last.epoch, last.seconds);
        let end = self.limits.decide(&journal.progress, self.kind.metric).stop_reason;
        let epoch = last.epoch;
        callback.on_note(&match end {
            Some(_) => format!("nothing left to do after epoch {epoch}; raise the limits to continue"),
            None => format!("resuming after epoch {epoch}"),
        });
        past.history = journal.progress;
        Ok(end.map(str::to_owned))
    }

    /// *Collective.* Writes the trace of the last steps of all peers, if requested.
    fn write_trace<N: NeuralNet>(&self, trainer: &Trainer<N>) -> Result<()> {
        let Some(path) = self.flags.trace() else { return Ok(()) };
        let spans = self.cluster.all_gather(trainer.trace())?;
        self.on_root(|| {
            let spans: Vec<_> = Rank::all(spans.len()).zip(spans.iter().cloned()).collect();
            let mut file = StagedFile::create(path, OutputCompression::None)?;
            file.write(chrome_trace(&spans).as_bytes())?;
            file.finish()?.publish()
        })
    }

    /// *Collective.* Trains one epoch, and evaluates the net.
    fn epoch<N: NeuralNet<Batch = E::Batch>>(
        &self,
        trainer: &mut Trainer<N>,
        batches: &BatchSampler,
        past: &mut RunHistory,
    ) -> Result<EpochProgress> {
        let (env, device, rank) = (self.cluster.env(), self.device.clone().autodiff(), self.cluster.rank().index());
        let start = env.now();
        let epoch = past.history.len() as u32;
        let (mut total, mut examples) = (0.0, 0_u64);
        for step in 0..batches.steps() {
            if step + TRACED_STEPS == batches.steps() {
                drop(trainer.trace());
            }
            let share = batches.examples_of(epoch, step, rank);
            let mut parts = share.chunks(share.len().div_ceil(self.flags.accumulate()).max(1)).peekable();
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
                // This peer has no examples in the batch, but takes part in the synchronization.
                trainer.step(0, |_| unreachable!("a step without examples has no forward pass"))?;
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

    /// *Collective.* Computes the validation metrics.
    fn evaluate<N: NeuralNet<Batch = E::Batch>>(&self, net: &N, valid: &E) -> Result<Metrics> {
        let batch_size = self.net_settings.batch_size.clamp(1, EVALUATION_BATCH);
        let batches = BatchSampler::new(valid.len(), batch_size, self.cluster.size(), 0);
        let (mut total, mut right) = (0.0, 0.0);
        for part in batches.in_order(self.cluster.rank().index()) {
            let evaluation = net.evaluate(&valid.batch(&part, &self.device));
            total += evaluation.loss * part.len() as f64;
            right += evaluation.accuracy.unwrap_or(0.0) * part.len() as f64;
        }
        let all = self.cluster.all_gather((total, right))?;
        let (total, right) = all.into_iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (loss, right) = (total / valid.len() as f64, right / valid.len() as f64);
        let metric = match self.kind.metric.name {
            "accuracy" => right,
            "perplexity" => loss.exp(),
            "rmse" => loss.sqrt(),
            _ => loss,
        };
        Ok(Metrics::from([("loss".to_owned(), loss), (self.kind.metric.name.to_owned(), metric)]))
    }

    /// *Collective.* Saves a checkpoint, if `--output` is given.
    fn save<N: NeuralNet>(&self, trainer: &mut Trainer<N>, past: &mut RunHistory) -> Result<()> {
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let (folder, step, start) = (checkpoints.folder(), trainer.steps(), self.cluster.env().now());
        let last = &past.history[past.history.len() - 1];
        past.saved = (last.epoch, last.seconds);
        let journal = NetFolder {
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
        self.on_root(|| folder::write_journal(folder, step, &journal))?;
        trainer.checkpoint()?;
        self.on_root(|| folder::remove_old_journals(folder, step))?;
        past.saving += self.cluster.env().now() - start;
        Ok(())
    }

    /// *Collective.* Runs `act` on the root, and broadcasts its result.
    fn on_root<T: Serialize + serde::de::DeserializeOwned>(
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
            (None, None) => Err(Error::program("peer 0 failed; see its message")),
        }
    }

    fn report(&self, past: RunHistory, stop_reason: String) -> Result<TrainingReport> {
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
            stop_reason,
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
