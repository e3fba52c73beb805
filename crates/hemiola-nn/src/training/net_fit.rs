//! Settings of a training run of a net, and its result.

use super::net_learner::{NetLearner, on_root};
use super::{
    DatasetInfo, FitOptions, NetMetric, NoCallback, TrainingLimits, TrainingReport, check_checkpoints, journal,
};
use crate::data::{BatchSampler, Dataset};
use crate::error::Error;
use crate::models::{Device, NeuralNet};
use crate::saved::NetDescription;
use crate::trainer::{Trainer, TrainerBuilder};
use burn::module::Module;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Rank, Seed};
use hemiola_training::{EpochLoop, TrainingSpec, check_same_settings};
use serde::Serialize;
use serde_json::{Value, json};

/// Training run of a net: data, batch size, metric and stopping criteria. Every peer must use the
/// same settings and the same data; see the [module](super) for an example.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `fit`"]
pub struct NetFit<'a, D> {
    name: String,
    pub(super) train: &'a D,
    pub(super) validation: Option<&'a D>,
    pub(super) device: Device,
    pub(super) metric: NetMetric,
    pub(super) batch_size: usize,
    pub(super) accumulate: usize,
    pub(super) loader_threads: usize,
    seed: u64,
    limits: TrainingLimits,
    settings: Option<Value>,
    shape: Option<Vec<usize>>,
    pub(super) description: Option<Value>,
}

/// Trained net with the report of its training.
#[derive(Debug)]
pub struct FittedNet<N: Module> {
    /// Net of the last epoch, for inference: on a device without autodiff.
    pub model: N,
    /// Report of the run.
    pub report: TrainingReport,
    /// Trainer of the net, for more steps. With [`TrainerBuilder::trace`], it has the timeline of
    /// the last twenty steps.
    pub trainer: Trainer<N>,
}

impl<'a, D: Dataset> NetFit<'a, D> {
    /// Creates a run on the examples of `train`. `device` is the device of the net, without
    /// autodiff.
    pub fn new(train: &'a D, device: &Device) -> Self {
        Self {
            name: "net".to_owned(),
            train,
            validation: None,
            device: device.clone(),
            metric: NetMetric::default(),
            batch_size: 64,
            accumulate: 1,
            loader_threads: 1,
            seed: 1,
            limits: TrainingLimits { epochs: 10, patience: None, ..TrainingLimits::default() },
            settings: None,
            shape: None,
            description: None,
        }
    }

    /// Sets the name of the net in reports and checkpoints, such as `mlp`. Default: `net`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the validation set, which is evaluated after every epoch. Default: none.
    pub fn validation(mut self, examples: impl Into<Option<&'a D>>) -> Self {
        let examples: Option<&'a D> = examples.into();
        self.validation = examples.filter(|examples| !examples.is_empty());
        self
    }

    /// Sets the validation metric that stopping depends on. Default: the loss.
    pub fn metric(mut self, metric: NetMetric) -> Self {
        self.metric = metric;
        self
    }

    /// Sets the global batch size, of all peers together. Default: 64.
    pub fn batch_size(mut self, examples: usize) -> Self {
        self.batch_size = examples.max(1);
        self
    }

    /// Sets gradient accumulation: each peer's share of a batch is split into this many forward and
    /// backward passes, to save memory. Default: 1.
    pub fn accumulate(mut self, passes: usize) -> Self {
        self.accumulate = passes.max(1);
        self
    }

    /// Sets the number of threads that make the batches of coming steps; 0 makes them between steps.
    /// At most as many as the peer has workers are used. Bits do not depend on it. Default: 1.
    pub fn loader_threads(mut self, threads: usize) -> Self {
        self.loader_threads = threads;
        self
    }

    /// Sets the random seed of the order of the examples. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the maximum number of epochs. Default: 10.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.limits.epochs = epochs;
        self
    }

    /// Sets the stopping criteria: epochs, seconds, target, early stopping. Default: 10 epochs.
    pub fn limits(mut self, limits: TrainingLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the settings that must be equal to resume, by name, such as the sizes of the net. They
    /// replace the default, which is the seed and the batch size.
    ///
    /// # Panics
    /// If the settings cannot be serialized to JSON.
    pub fn settings(mut self, settings: &impl Serialize) -> Self {
        self.settings = Some(serde_json::to_value(settings).expect("settings serialize to JSON"));
        self
    }

    /// Sets the description that checkpoints keep, by which [`SavedNet`](crate::saved::SavedNet) uses
    /// the net. Default: none.
    ///
    /// # Panics
    /// If the description cannot be serialized to JSON.
    pub fn description(mut self, description: impl Into<Option<NetDescription>>) -> Self {
        let value = |description| serde_json::to_value(description).expect("a description is plain data");
        self.description = description.into().map(value);
        self
    }

    /// Sets the shape of the data in the report. Default: the number of examples.
    pub fn shape(mut self, extents: Vec<usize>) -> Self {
        self.shape = Some(extents);
        self
    }

    /// Returns the number of optimizer steps of all epochs, for learning-rate schedules.
    #[must_use]
    pub fn total_steps(&self) -> u64 {
        self.train.len().div_ceil(self.batch_size) as u64 * u64::from(self.limits.epochs)
    }

    /// *Collective.* Trains until a limit is reached.
    pub fn fit<N: NeuralNet<Batch = D::Batch>>(self, trainer: TrainerBuilder<N>) -> Result<FittedNet<N>> {
        self.fit_with(trainer, FitOptions::new())
    }

    /// *Collective.* Trains until a limit is reached or a callback stops it, with checkpoints as in
    /// `options`. A resumed run may have another number of peers and another strategy; on as many
    /// peers it takes the strategy of its checkpoint unless the builder sets one. The builder
    /// sets the optimizer, the strategy and the learning-rate schedule; its batch size and its
    /// checkpoints are set here.
    pub fn fit_with<N: NeuralNet<Batch = D::Batch>>(
        self,
        trainer: TrainerBuilder<N>,
        options: FitOptions<'_>,
    ) -> Result<FittedNet<N>> {
        let cluster = trainer.cluster().clone();
        let settings = self.settings.clone().unwrap_or_else(|| self.default_settings());
        check_same_settings(&cluster, &self.name, &json!({ "limits": self.limits, "settings": settings }))?;
        let digests = self.check_data(&cluster)?;
        let FitOptions { callback, checkpoints, lock, .. } = options;
        let mut no_callback = NoCallback;
        let callback = callback.unwrap_or(&mut no_callback);
        let batches = BatchSampler::new(self.train.len(), self.batch_size, cluster.size(), Seed(self.seed));
        let mut builder = trainer.batch_size(self.batch_size.div_ceil(cluster.size()));
        let mut held_lock = None;
        if let Some(checkpoints) = &checkpoints {
            held_lock = checkpoints.lock_unless_held(&cluster, lock)?;
            on_root(&cluster, || check_checkpoints(checkpoints, &self.name, &settings))?;
            builder = builder.checkpoints(journal::trainer_folder(checkpoints.folder())).files(checkpoints.files());
            if checkpoints.resumes() {
                builder = builder.resume();
            }
        }
        let spec = TrainingSpec {
            model: &self.name,
            settings: &settings,
            seed: self.seed,
            limits: &self.limits,
            metric: self.metric.target(),
            data: self.info(),
        };
        let mut run = EpochLoop::new(&cluster, spec);
        let trainer = builder.build()?;
        let batches = batches.weighted(&shares(&cluster, &trainer));
        let mut learner = NetLearner::new(&cluster, &self, &self.name, trainer, batches);
        callback.on_explanation(learner.trainer.explain().to_string().trim_end());
        let mut end = None;
        if let Some(checkpoints) = checkpoints {
            run = run.checkpoints(checkpoints.clone(), digests);
            if checkpoints.resumes() {
                end = learner.resume(&mut run, checkpoints.folder(), callback)?;
            }
        }
        let stop_reason = match end {
            Some(end) => end,
            None => run.run(&mut learner, callback)?,
        };
        // Everything is saved; other runs may now train into the same folder.
        drop(held_lock);
        let mut report = run.report(stop_reason)?;
        let (model, trainer) = learner.finish()?;
        report.strategy = serde_json::to_value(trainer.strategy_record()).ok();
        let tally = gossip_tally(&cluster, &trainer)?;
        if let (Some(Value::Object(strategy)), Some(tally)) = (&mut report.strategy, tally) {
            strategy.insert("gossip".to_owned(), tally);
        }
        Ok(FittedNet { model, report, trainer })
    }

    /// *Collective.* Returns the digests of the data, or an error if there are none, or if peers
    /// have different ones.
    fn check_data(&self, cluster: &Cluster) -> Result<[u64; 2]> {
        let digests = [self.train.digest(), self.validation.map_or(0, Dataset::digest)];
        let all = cluster.all_gather(digests)?;
        if let Some((rank, _)) = Rank::all(all.len()).zip(&all).find(|(_, other)| **other != all[0]) {
            return Err(Error::DifferentData { rank }.into());
        }
        if self.train.is_empty() {
            return Err(Error::NoExamples.into());
        }
        Ok(digests)
    }

    fn default_settings(&self) -> Value {
        json!({ "seed": self.seed, "batch_size": self.batch_size })
    }

    fn info(&self) -> DatasetInfo {
        let train = self.train.len();
        let shape = self.shape.clone().unwrap_or_else(|| vec![train]);
        DatasetInfo { shape, train, validation: self.validation.map_or(0, Dataset::len) }
    }
}

/// Share of each peer of a batch: those that serve and do not train get none.
fn shares<N: NeuralNet>(cluster: &Cluster, trainer: &Trainer<N>) -> Vec<u32> {
    let replicas = &trainer.strategy().replicas;
    Rank::all(cluster.size()).map(|rank| u32::from(replicas.contains(&rank))).collect()
}

/// *Collective.* Returns the totals over the gossip averages of all peers, if there are any.
fn gossip_tally<N: NeuralNet>(cluster: &Cluster, trainer: &Trainer<N>) -> Result<Option<Value>> {
    let own =
        trainer.gossip_stats().map(|stats| [stats.reduces, stats.consistent, stats.stale, stats.torn, stats.missing]);
    let all: Vec<[u64; 5]> = cluster.all_gather(own)?.into_iter().flatten().collect();
    if all.is_empty() {
        return Ok(None);
    }
    let [averages, consistent, stale, torn, missing] = all.into_iter().fold([0; 5], |mut sum, peer| {
        sum.iter_mut().zip(peer).for_each(|(sum, number)| *sum += number);
        sum
    });
    Ok(Some(json!({
        "averages": averages, "consistent": consistent, "stale": stale, "torn": torn, "missing": missing
    })))
}
