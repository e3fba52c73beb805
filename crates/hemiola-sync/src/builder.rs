//! Builder of a [`ModelSync`].

use crate::agreement::{broadcast_initial_values, compare_models, compare_settings};
use crate::checkpoint::{self, CheckpointFolder, StateArchive};
use crate::error::Error;
use crate::model_sync::ModelSync;
use crate::parameter_store::ParameterStore;
use crate::strategy_choice::{DEFAULT_LINK, LinkSource, StrategyRequest};
use crate::sync_thread::SyncThread;
use crate::trace::TraceRecorder;
use hemiola_array::files::{OsFileSystem, SharedFileSystem};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::probe;
use hemiola_core::Rank;
use hemiola_strategy::{
    self as strategy, LinkSpec, ModelSpec, PeerSpec, ResourceSpec, Strategy, StrategyBuilder, StrategyNode,
    Synchronizer,
};
use hemiola_sync_proto::{AccumulatedGradients, GradientClip, NodeSettings, SyncNode, SyncPlan};
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// Source of the strategy: a builder or an explicit value.
#[derive(Clone, Debug, PartialEq)]
pub enum StrategySource {
    /// Built for the model and the cluster when training begins.
    Built(StrategyBuilder),
    /// Used as it is, after verification.
    Explicit(Box<Strategy>),
}

impl From<StrategyBuilder> for StrategySource {
    fn from(builder: StrategyBuilder) -> Self {
        Self::Built(builder)
    }
}

impl From<Strategy> for StrategySource {
    fn from(strategy: Strategy) -> Self {
        Self::Explicit(Box::new(strategy))
    }
}

/// Builder of a [`ModelSync`]. Every peer must use the same settings.
#[must_use = "nothing happens until `build`"]
pub struct ModelSyncBuilder<K: StateArchive> {
    cluster: Cluster,
    model: ModelSpec,
    values: Vec<Vec<f32>>,
    kernel: K,
    strategy: Option<StrategySource>,
    links: LinkSource,
    serving_peers: usize,
    clip: Option<GradientClip>,
    resume: Option<PathBuf>,
    files: SharedFileSystem,
    trace: bool,
    settings: String,
}

impl<K: StateArchive> ModelSyncBuilder<K> {
    pub(crate) fn new(cluster: &Cluster, model: ModelSpec, values: Vec<Vec<f32>>, kernel: K) -> Self {
        Self {
            cluster: cluster.clone(),
            model,
            values,
            kernel,
            strategy: None,
            links: LinkSource::Default,
            serving_peers: 0,
            clip: None,
            resume: None,
            files: OsFileSystem::shared(),
            trace: false,
            settings: String::new(),
        }
    }

    /// Sets the strategy: a [`StrategyBuilder`], or an explicit [`Strategy`]. Default: the strategy
    /// of the checkpoint that is [resumed](Self::resume), or else [`StrategyBuilder::Cheapest`].
    pub fn strategy(mut self, strategy: impl Into<StrategySource>) -> Self {
        self.strategy = Some(strategy.into());
        self
    }

    /// Sets the link speeds that strategies are chosen for, as `hemiola probe` measures them.
    /// Default: [`DEFAULT_LINK`](crate::DEFAULT_LINK) between all peers.
    pub fn network(mut self, network: ResourceSpec) -> Self {
        self.links = LinkSource::Given(network);
        self
    }

    /// Measures the links and chooses the strategy for them. Two runs may then differ in the order
    /// of their sums. Checkpoints keep the strategy, and a resumed run does not measure again.
    pub fn tune(mut self) -> Self {
        self.links = LinkSource::Measured;
        self
    }

    /// Lets the last peers serve and not train: they hold all served variables, and their batches are
    /// empty. For a [`StrategyBuilder`]; an explicit strategy names its replicas. Default: 0, every
    /// peer trains.
    pub fn serving_peers(mut self, peers: usize) -> Self {
        self.serving_peers = peers;
        self
    }

    /// Sets gradient clipping. Default: none.
    pub fn clip(mut self, clip: Option<GradientClip>) -> Self {
        self.clip = clip;
        self
    }

    /// Resumes from the checkpoint in a folder, if there is one. The number of peers and the
    /// strategy may differ; model and optimizer must be the same. On as many peers the strategy of
    /// the checkpoint is used, unless another one is set.
    pub fn resume(mut self, folder: Option<PathBuf>) -> Self {
        self.resume = folder;
        self
    }

    /// Sets the file system of checkpoints, such as a
    /// [simulated one](hemiola_array::files::testing) with faults and crashes. Default: that of the
    /// operating system.
    pub fn files(mut self, files: SharedFileSystem) -> Self {
        self.files = files;
        self
    }

    /// Records a timeline; see [`ModelSync::take_trace`].
    pub fn trace(mut self, trace: bool) -> Self {
        self.trace = trace;
        self
    }

    /// Sets a text of further settings of the framework (optimizer, precision, batch size), which
    /// must be equal on all peers.
    pub fn settings(mut self, settings: impl Into<String>) -> Self {
        self.settings = settings.into();
        self
    }

    /// *Collective.* Compares models and settings, adopts the values of peer 0 or of the
    /// checkpoint, agrees on a strategy, and starts the synchronization thread.
    pub fn build(self) -> Result<ModelSync<K>> {
        self.agree()?;
        if self.cluster.is_root() && self.cluster.servers().len() > 0 {
            self.cluster.warn(
                "the dedicated servers of this job hold tables of programs, and no variables of a net; let peers serve them (`serving_peers`, `--serving-peers`)",
            );
        }
        let restored = match &self.resume {
            Some(path) => {
                let folder = CheckpointFolder { files: &self.files, path };
                checkpoint::load(&self.cluster, folder, &self.model, &self.kernel)?
            }
            None => None,
        };
        let recorded = restored.as_ref().and_then(|restored| restored.strategy.clone());
        let (source, links, model) = (self.strategy.as_ref(), &self.links, &self.model);
        let (peers, serving_peers) = (self.cluster.size(), self.serving_peers);
        let request = StrategyRequest { source, links, model, peers, serving_peers };
        let (strategy, network) = request.choose(recorded, || measure_links(&self.cluster))?;
        check_rows(&strategy.strategy, &self.kernel)?;
        let explanation = strategy::explain(&strategy.strategy, &self.model, &network);
        let Self { cluster, model, mut values, kernel, clip, trace, files, .. } = self;

        let plan = Arc::new(SyncPlan::new(&model, &strategy.strategy).map_err(Error::from)?);
        let (rank, mut attachments) = (cluster.rank(), None);
        let settings = if let Some(mut restored) = restored {
            attachments = Some(std::mem::take(&mut restored.attachments));
            let (step, values, feedback) = (restored.step, restored.values_for(&plan), restored.feedback(&plan));
            let states = restored.piece_states(&plan, &kernel)?;
            NodeSettings { plan: plan.clone(), kernel: kernel.clone(), clip, rank, values, states, step, feedback }
        } else {
            broadcast_initial_values(&cluster, &mut values)?;
            NodeSettings::new(plan.clone(), kernel.clone(), rank, values).clip(clip)
        };
        let step = settings.step;
        let trace = trace.then(|| Arc::new(TraceRecorder::new(cluster.env().clone())));
        let store = Arc::new(ParameterStore::new(settings.values.clone(), step, cluster.peer_handle()));
        let node = SyncNode::new(settings).map_err(Error::from)?;

        let (events, receiver) = mpsc::channel();
        let thread = SyncThread::new(&cluster, &plan, node, (store.clone(), trace.clone()), &events)?;
        let body = Box::new(move || thread.run(&receiver));
        let thread = cluster.env().spawn(format!("sync-{rank}"), body).map_err(hemiola_cluster::Error::Thread)?;
        let accumulated = Arc::new(Mutex::new(AccumulatedGradients::new(plan.structured.clone())));
        Ok(ModelSync {
            cluster,
            plan,
            strategy,
            explanation,
            kernel,
            store,
            events,
            thread: Some(thread),
            accumulated,
            step,
            attachments,
            files,
            trace,
        })
    }

    /// *Collective.* Compares models and settings.
    fn agree(&self) -> Result<()> {
        compare_models(&self.cluster, &self.model)?;
        let Self { settings, clip, strategy, links, serving_peers, .. } = self;
        let resume = self.resume.is_some();
        compare_settings(
            &self.cluster,
            format!("{settings}, {clip:?}, resume {resume}, {strategy:?}, {links:?}, {serving_peers} serving peers"),
        )
    }
}

/// *Collective.* Measures the links between all peers; the result is the same on all.
fn measure_links(cluster: &Cluster) -> Result<ResourceSpec> {
    let probed = probe(cluster, |_, _| {})?;
    let peers = Rank::all(cluster.size()).map(|rank| PeerSpec::on(format!("peer-{rank}")));
    Ok(ResourceSpec::measured(peers.collect(), |one, other| {
        let pair = probed.iter().find(|probed| (probed.one, probed.other) == (one.min(other), one.max(other)));
        pair.map_or(DEFAULT_LINK, |probed| LinkSpec {
            bytes_per_second: probed.bytes_per_second,
            latency: probed.latency,
        })
    }))
}

/// Refuses served rows with an optimizer that updates whole tensors only.
fn check_rows<K: StateArchive>(strategy: &Strategy, kernel: &K) -> Result<()> {
    let rows = |node: &StrategyNode| node.synchronizer == Synchronizer::ParameterServerRows;
    match strategy.plans.iter().find(|plan| plan.nodes.iter().any(rows)) {
        Some(plan) if !kernel.can_update_rows() => {
            let feature = format!("`{}` for the rows of `{}`", kernel.rule_name(), plan.variable);
            let reason = "it updates whole tensors; use an optimizer of Hemiola, or a strategy without served rows";
            Err(Error::Unsupported { feature, reason: reason.to_owned() }.into())
        }
        _ => Ok(()),
    }
}

impl<K: StateArchive> fmt::Debug for ModelSyncBuilder<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ModelSyncBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
