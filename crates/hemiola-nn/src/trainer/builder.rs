//! Builder of a trainer.

use super::Trainer;
use crate::compute_threads::use_compute_threads;
use crate::kernel::BurnKernel;
use crate::optimizer::{LrSchedule, Optimizer};
use crate::variables;
use burn::module::Module;
use hemiola_array::files::SharedFileSystem;
use hemiola_cluster::{Cluster, Result};
use hemiola_strategy::ResourceSpec;
use hemiola_sync::{GradientClip, ModelSync, StrategySource, agree_on_success};
use std::fmt;
use std::path::PathBuf;

/// Builder of a [`Trainer`]. Every peer must use the same settings.
#[must_use = "nothing happens until `build`"]
pub struct TrainerBuilder<M: Module> {
    cluster: Cluster,
    model: M,
    optimizer: Optimizer,
    strategy: Option<StrategySource>,
    network: Option<ResourceSpec>,
    serving_peers: usize,
    tune: bool,
    batch_size: u64,
    sequence_length: u64,
    schedule: LrSchedule,
    clip: Option<GradientClip>,
    checkpoints: Option<PathBuf>,
    resume: bool,
    files: Option<SharedFileSystem>,
    trace: bool,
}

impl<M: Module> TrainerBuilder<M> {
    pub(super) fn new(cluster: &Cluster, model: M, optimizer: Optimizer) -> Self {
        Self {
            cluster: cluster.clone(),
            model,
            optimizer,
            strategy: None,
            network: None,
            serving_peers: 0,
            tune: false,
            batch_size: 32,
            sequence_length: 1,
            schedule: LrSchedule::constant(),
            clip: None,
            checkpoints: None,
            resume: false,
            files: None,
            trace: false,
        }
    }

    /// Returns the cluster of the trainer.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Sets the synchronization strategy: a `StrategyBuilder`, or an explicit `Strategy`. Default:
    /// that of the resumed checkpoint, or else `StrategyBuilder::Cheapest`.
    pub fn strategy(mut self, strategy: impl Into<StrategySource>) -> Self {
        self.strategy = Some(strategy.into());
        self
    }

    /// Measures the links when the trainer is built, and chooses the strategy for them. Two runs
    /// may then differ in the order of their sums. Checkpoints keep the strategy, and a resumed run
    /// does not measure again.
    pub fn tune(mut self) -> Self {
        self.tune = true;
        self
    }

    /// Sets the link speeds that strategies are chosen for, as `hemiola probe` measures them.
    /// Default: 1 Gbit/s and 0.1 ms between all peers, so that every run chooses alike.
    pub fn network(mut self, network: ResourceSpec) -> Self {
        self.network = Some(network);
        self
    }

    /// Lets the last peers serve and not train: they hold all served variables (dedicated parameter
    /// servers that run this program), and their batches must be empty. For a `StrategyBuilder`; an
    /// explicit `Strategy` names its replicas. Default: 0, every peer trains.
    pub fn serving_peers(mut self, peers: usize) -> Self {
        self.serving_peers = peers;
        self
    }

    /// Sets the expected batch size of one peer, for which strategies are chosen. Steps may have
    /// other sizes. Default: 32.
    pub fn batch_size(mut self, examples: usize) -> Self {
        self.batch_size = examples.max(1) as u64;
        self
    }

    /// Sets the expected sequence length: positions of an example that go through its layers.
    /// Strategies are chosen for it. Default: 1.
    pub fn sequence_length(mut self, positions: usize) -> Self {
        self.sequence_length = positions.max(1) as u64;
        self
    }

    /// Sets the learning-rate schedule. Default: constant.
    pub fn schedule(mut self, schedule: LrSchedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Sets gradient clipping. Default: none.
    pub fn clip(mut self, clip: GradientClip) -> Self {
        self.clip = Some(clip);
        self
    }

    /// Sets the folder of [`Trainer::checkpoint`].
    pub fn checkpoints(mut self, folder: impl Into<PathBuf>) -> Self {
        self.checkpoints = Some(folder.into());
        self
    }

    /// Resumes from the checkpoint in the folder of [`checkpoints`](Self::checkpoints), if there is
    /// one. The number of peers and the strategy may differ; model and optimizer must be the same.
    pub fn resume(mut self) -> Self {
        self.resume = true;
        self
    }

    /// Sets the file system of checkpoints, such as a
    /// [simulated one](hemiola_array::files::testing) with faults and crashes. Default: that of the
    /// operating system.
    pub fn files(mut self, files: SharedFileSystem) -> Self {
        self.files = Some(files);
        self
    }

    /// Records a timeline; see [`Trainer::trace`].
    pub fn trace(mut self) -> Self {
        self.trace = true;
        self
    }

    /// *Collective.* Builds the trainer. Peers compare their models and settings, adopt the initial
    /// values of peer 0 or of the checkpoint, and agree on a strategy.
    pub fn build(self) -> Result<Trainer<M>> {
        let Self { cluster, model, optimizer, schedule, batch_size, sequence_length, .. } = self;
        use_compute_threads(cluster.workers());
        let model = model.train();
        // A model may be invalid on some peers only.
        let found = variables::find(&model)
            .and_then(|found| Ok((variables::describe(&found, batch_size, sequence_length)?, found)));
        let (spec, found) = agree_on_success(&cluster, found)?;
        let (mut names, mut precisions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for variable in found {
            names.push(variable.name);
            precisions.push(variable.precision);
            values.push(variable.values);
        }
        let settings = format!(
            "{optimizer:?}, {schedule:?}, batch size {batch_size}, sequence length {sequence_length}, {precisions:?}"
        );
        let resume = if self.resume { self.checkpoints.clone() } else { None };
        let sync = ModelSync::builder(&cluster, spec, values, BurnKernel(optimizer.clone()));
        let mut sync = sync.clip(self.clip).resume(resume).serving_peers(self.serving_peers);
        if let Some(strategy) = self.strategy {
            sync = sync.strategy(strategy);
        }
        if self.tune {
            sync = sync.tune();
        }
        if let Some(files) = self.files {
            sync = sync.files(files);
        }
        if let Some(network) = self.network {
            sync = sync.network(network);
        }
        let sync = sync.trace(self.trace).settings(settings).build()?;
        let checkpoints = self.checkpoints;
        Ok(Trainer { cluster, model: Some(model), optimizer, schedule, names, precisions, sync, checkpoints })
    }
}

impl<M: Module> fmt::Debug for TrainerBuilder<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TrainerBuilder").field("optimizer", &self.optimizer).finish_non_exhaustive()
    }
}
