//! Builder of a [`ModelSync`].

use crate::agreement::{broadcast_initial_values, compare_models, compare_settings};
use crate::checkpoint::{self, StateArchive};
use crate::error::Error;
use crate::model_sync::ModelSync;
use crate::parameter_store::ParameterStore;
use crate::sync_thread::{SyncEvent, SyncThread};
use crate::trace::TraceRecorder;
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

/// Link speed where none was measured and the strategy does not depend on it: 1 Gbit/s.
const DEFAULT_LINK: LinkSpec = LinkSpec { bytes_per_second: 125e6, latency: 1e-4 };

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

impl Default for StrategySource {
    fn default() -> Self {
        Self::Built(StrategyBuilder::default())
    }
}

/// Builder of a [`ModelSync`]. Every peer must use the same settings.
#[must_use = "nothing happens until `build`"]
pub struct ModelSyncBuilder<K: StateArchive> {
    cluster: Cluster,
    model: ModelSpec,
    values: Vec<Vec<f32>>,
    kernel: K,
    strategy: StrategySource,
    network: Option<ResourceSpec>,
    clip: Option<GradientClip>,
    resume: Option<PathBuf>,
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
            strategy: StrategySource::default(),
            network: None,
            clip: None,
            resume: None,
            trace: false,
            settings: String::new(),
        }
    }

    /// Sets the strategy: a [`StrategyBuilder`], or an explicit [`Strategy`]. Default:
    /// [`StrategyBuilder::Cheapest`].
    pub fn strategy(mut self, strategy: impl Into<StrategySource>) -> Self {
        self.strategy = strategy.into();
        self
    }

    /// Sets the link speeds that strategies are chosen for, as `hemiola probe` measures them.
    /// Without them, [`StrategyBuilder::Cheapest`] measures.
    pub fn network(mut self, network: Option<ResourceSpec>) -> Self {
        self.network = network;
        self
    }

    /// Sets gradient clipping. Default: none.
    pub fn clip(mut self, clip: Option<GradientClip>) -> Self {
        self.clip = clip;
        self
    }

    /// Resumes from the checkpoint in a folder, if there is one. The number of peers and the
    /// strategy may differ; model and optimizer must be the same.
    pub fn resume(mut self, folder: Option<PathBuf>) -> Self {
        self.resume = folder;
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
        let network = self.agree()?;
        let strategy = match &self.strategy {
            StrategySource::Built(builder) => builder.build(&self.model, &network).map_err(Error::from)?,
            StrategySource::Explicit(strategy) => {
                strategy.verify(&self.model, &network).map_err(Error::from)?;
                (**strategy).clone()
            }
        };
        check_rows(&strategy, &self.kernel)?;
        let explanation = strategy::explain(&strategy, &self.model, &network);
        let Self { cluster, model, mut values, kernel, clip, resume, trace, .. } = self;

        let restored = match &resume {
            Some(folder) => checkpoint::load(&cluster, folder, &model, &kernel)?,
            None => None,
        };
        let plan = Arc::new(SyncPlan::new(&model, &strategy).map_err(Error::from)?);
        let (mut step, mut states, mut attachments) = (0, Vec::new(), None);
        match restored {
            Some(mut restored) => {
                step = restored.step;
                values = std::mem::take(&mut restored.values);
                attachments = Some(std::mem::take(&mut restored.attachments));
                states = restored.piece_states(&plan, &kernel)?;
            }
            None => broadcast_initial_values(&cluster, &mut values)?,
        }
        let trace = trace.then(|| Arc::new(TraceRecorder::new(cluster.env().clone())));
        let rank = cluster.rank();
        let settings = NodeSettings { plan: plan.clone(), kernel: kernel.clone(), clip, rank, values, states, step };
        let store = Arc::new(ParameterStore::new(settings.values.clone(), step, cluster.peer_handle()));
        let node = SyncNode::new(settings).map_err(Error::from)?;

        let (events, receiver) = mpsc::channel();
        let waking = events.clone();
        // The error is handled as in `ModelSync::send`.
        let wake = move || waking.send(SyncEvent::CollectiveReady).unwrap_or(());
        let thread = SyncThread::new(&cluster, &plan, node, (store.clone(), trace.clone()), wake)?;
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
            trace,
        })
    }

    /// *Collective.* Compares models and settings; returns the link speeds.
    fn agree(&self) -> Result<ResourceSpec> {
        compare_models(&self.cluster, &self.model)?;
        let Self { settings, clip, strategy, network, .. } = self;
        let resume = self.resume.is_some();
        compare_settings(&self.cluster, format!("{settings}, {clip:?}, resume {resume}, {strategy:?}, {network:?}"))?;
        self.link_speeds()
    }

    /// Returns the link speeds that were set, or measures them if the strategy depends on them.
    fn link_speeds(&self) -> Result<ResourceSpec> {
        let cluster = &self.cluster;
        if let Some(network) = &self.network {
            return Ok(network.clone());
        }
        if cluster.size() == 1
            || self.strategy != StrategySource::Built(StrategyBuilder::Cheapest)
            || self.model.variables.is_empty()
        {
            return Ok(ResourceSpec::uniform(cluster.size(), DEFAULT_LINK));
        }
        let probed = probe(cluster, |_, _| {})?;
        let peers =
            Rank::all(cluster.size()).map(|rank| PeerSpec { host: format!("peer-{rank}"), device: "cpu".into() });
        Ok(ResourceSpec::measured(peers.collect(), |one, other| {
            let pair = probed.iter().find(|probed| (probed.one, probed.other) == (one.min(other), one.max(other)));
            pair.map_or(DEFAULT_LINK, |probed| LinkSpec {
                bytes_per_second: probed.bytes_per_second,
                latency: probed.latency,
            })
        }))
    }
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
