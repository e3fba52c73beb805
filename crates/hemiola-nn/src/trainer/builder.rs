//! Builder of a trainer.

use super::{AccumulatedGradients, GradientClip, Trainer};
use crate::checkpoint;
use crate::error::Error;
use crate::ids::PieceId;
use crate::optimizer::{LrSchedule, Optimizer};
use crate::parameter_store::ParameterStore;
use crate::sync::{SyncEvent, SyncPlan, SyncSettings, SyncWorker};
use crate::trace::TraceRecorder;
use crate::variables::{self, VariableInfo};
use burn::module::Module;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{CollectiveExt, probe};
use hemiola_core::Rank;
use hemiola_strategy::{self as strategy, LinkSpec, ModelSpec, PeerSpec, Strategy, StrategyBuilder, Synchronizer};
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

/// Link speed where none was measured and the strategy does not depend on it: 1 Gbit/s.
const DEFAULT_LINK: LinkSpec = LinkSpec { bytes_per_second: 125e6, latency: 1e-4 };

/// Source of the strategy: a builder or an explicit value.
#[derive(Clone, Debug, PartialEq)]
pub enum StrategySource {
    /// Built for the model and the cluster when the trainer is built.
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

/// Builder of a [`Trainer`]. Every peer must use the same settings.
#[must_use = "nothing happens until `build`"]
pub struct TrainerBuilder<M: Module> {
    cluster: Cluster,
    model: M,
    optimizer: Optimizer,
    strategy: StrategySource,
    network: Option<strategy::ResourceSpec>,
    batch_size: u64,
    sequence_length: u64,
    schedule: LrSchedule,
    clip: Option<GradientClip>,
    checkpoints: Option<PathBuf>,
    resume: bool,
    trace: bool,
}

impl<M: Module> TrainerBuilder<M> {
    pub(super) fn new(cluster: &Cluster, model: M, optimizer: Optimizer) -> Self {
        Self {
            cluster: cluster.clone(),
            model,
            optimizer,
            strategy: StrategySource::Built(StrategyBuilder::default()),
            network: None,
            batch_size: 32,
            sequence_length: 1,
            schedule: LrSchedule::constant(),
            clip: None,
            checkpoints: None,
            resume: false,
            trace: false,
        }
    }

    /// Sets the synchronization strategy: a [`StrategyBuilder`], or an explicit [`Strategy`].
    /// Default: [`StrategyBuilder::Cheapest`].
    pub fn strategy(mut self, strategy: impl Into<StrategySource>) -> Self {
        self.strategy = strategy.into();
        self
    }

    /// Sets the link speeds that strategies are chosen for, as `hemiola probe` measures them.
    /// Without them, [`StrategyBuilder::Cheapest`] measures when the trainer is built.
    pub fn network(mut self, network: strategy::ResourceSpec) -> Self {
        self.network = Some(network);
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

    /// Records a timeline; see [`Trainer::trace`].
    pub fn trace(mut self) -> Self {
        self.trace = true;
        self
    }

    /// *Collective.* Builds the trainer. Peers compare their models and settings, adopt the initial
    /// values of peer 0 or of the checkpoint, and agree on a strategy.
    pub fn build(self) -> Result<Trainer<M>> {
        let Self { cluster, model, optimizer, schedule, clip, .. } = &self;
        let model = model.clone().train();
        let found = variables::find(&model);
        // A model may be invalid on some peers only.
        let model_info = agree(
            cluster,
            found.and_then(|found| Ok((variables::describe(&found, self.batch_size, self.sequence_length)?, found))),
        )?;
        let (model_info, mut found) = model_info;
        compare_models(cluster, &model_info)?;
        let (chosen, network, examples, positions) =
            (&self.strategy, &self.network, self.batch_size, self.sequence_length);
        let settings = format!(
            "{optimizer:?}, {schedule:?}, {clip:?}, batch size {examples}, sequence length {positions}, resume {}, {chosen:?}, {network:?}, {:?}",
            self.resume,
            found.iter().map(|found| found.precision).collect::<Vec<_>>()
        );
        compare_settings(cluster, settings)?;

        let network = self.link_speeds(&model_info)?;
        let strategy = match &self.strategy {
            StrategySource::Built(builder) => builder.build(&model_info, &network).map_err(Error::from)?,
            StrategySource::Explicit(strategy) => {
                strategy.verify(&model_info, &network).map_err(Error::from)?;
                (**strategy).clone()
            }
        };
        check_rows(&strategy, optimizer)?;
        let explanation = strategy::explain(&strategy, &model_info, &network);

        let mut start = 0;
        let mut restored = None;
        if let (true, Some(folder)) = (self.resume, &self.checkpoints) {
            restored = checkpoint::load(cluster, folder, &model_info, optimizer)?;
        }
        match &mut restored {
            Some(restored) => {
                start = restored.step;
                for (found, values) in found.iter_mut().zip(&mut restored.values) {
                    found.values = std::mem::take(values);
                }
            }
            None => broadcast_initial_values(cluster, &mut found)?,
        }
        let mut plan = SyncPlan::new(&found, &strategy)?;
        if let Some(restored) = restored {
            restored.restore_into(&mut plan.pieces, &model_info, optimizer)?;
        }
        let pieces = plan.pieces.iter().enumerate();
        let piece_locations = pieces
            .map(|(index, piece)| checkpoint::PieceLocation::new(piece, PieceId::new(index), &plan.units))
            .collect();
        let (staleness, structured) = (plan.staleness.clone(), plan.structured.clone());
        let units = plan.units.iter().map(|unit| unit.variables.clone()).collect();
        let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
        let precisions = found.iter().map(|found| found.precision).collect();
        let lengths = found.iter().map(|found| found.values.len()).collect();
        let store = Arc::new(ParameterStore::new(found.into_iter().map(|found| found.values).collect(), start));
        let trace = self.trace.then(|| Arc::new(TraceRecorder::new(cluster.env().clone())));

        let (events, receiver) = mpsc::channel();
        let waking = events.clone();
        let settings = SyncSettings {
            optimizer: optimizer.clone(),
            clip: *clip,
            names: names.clone(),
            lengths,
            store: store.clone(),
            trace: trace.clone(),
            step: start,
        };
        // The error is handled as in `Trainer::send_event`.
        let wake = move || waking.send(SyncEvent::CollectiveReady).unwrap_or(());
        let worker = SyncWorker::new(cluster, plan, settings, wake)?;
        let name = format!("nets-{}", cluster.rank());
        let body = Box::new(move || worker.run(&receiver));
        let thread = cluster.env().spawn(name, body).map_err(hemiola_cluster::Error::Thread)?;
        Ok(Trainer {
            cluster: cluster.clone(),
            model: Some(model),
            model_info,
            strategy,
            explanation,
            optimizer: optimizer.clone(),
            schedule: schedule.clone(),
            accumulated: Arc::new(Mutex::new(AccumulatedGradients::new(structured.clone()))),
            names: Arc::new(names),
            precisions,
            structured,
            staleness,
            units,
            store,
            events,
            thread: Some(thread),
            step: start,
            ordering_step: start,
            checkpoints: self.checkpoints.clone(),
            piece_locations,
            trace,
        })
    }

    /// Returns the link speeds that were set, or measures them if the strategy depends on them.
    fn link_speeds(&self, model_info: &ModelSpec) -> Result<strategy::ResourceSpec> {
        let cluster = &self.cluster;
        if let Some(network) = &self.network {
            return Ok(network.clone());
        }
        if cluster.size() == 1
            || self.strategy != StrategySource::Built(StrategyBuilder::Cheapest)
            || model_info.variables.is_empty()
        {
            return Ok(strategy::ResourceSpec::uniform(cluster.size(), DEFAULT_LINK));
        }
        let probed = probe(cluster, |_, _| {})?;
        let peers =
            Rank::all(cluster.size()).map(|rank| PeerSpec { host: format!("peer-{rank}"), device: "cpu".into() });
        Ok(strategy::ResourceSpec::measured(peers.collect(), |one, other| {
            let pair = probed.iter().find(|probed| (probed.one, probed.other) == (one.min(other), one.max(other)));
            pair.map_or(DEFAULT_LINK, |probed| LinkSpec {
                bytes_per_second: probed.bytes_per_second,
                latency: probed.latency,
            })
        }))
    }
}

/// *Collective.* Fails on all peers if it failed on one; that peer returns its own error.
fn agree<T>(cluster: &Cluster, mine: std::result::Result<T, Error>) -> Result<T> {
    let problems = cluster.all_gather(mine.as_ref().err().map(ToString::to_string))?;
    let mine = mine?;
    match problems.into_iter().enumerate().find_map(|(rank, problem)| Some((rank, problem?))) {
        None => Ok(mine),
        Some((rank, difference)) => Err(Error::ModelMismatch { rank: Rank::new(rank as u32), difference }.into()),
    }
}

fn compare_models(cluster: &Cluster, model_info: &ModelSpec) -> Result<()> {
    // As JSON text: the wire format does not support the tagged enums of a model.
    let all = cluster.all_gather(serde_json::to_string(model_info).expect("plain data"))?;
    let read =
        |text: &String| serde_json::from_str::<ModelSpec>(text).map_err(|error| Error::Failed(error.to_string()));
    let first = read(&all[0])?;
    for (rank, other) in Rank::all(all.len()).zip(&all) {
        if let Some(difference) = first.first_difference(&read(other)?) {
            return Err(Error::ModelMismatch { rank, difference }.into());
        }
    }
    Ok(())
}

fn compare_settings(cluster: &Cluster, settings: String) -> Result<()> {
    let all = cluster.all_gather(settings)?;
    match Rank::all(all.len()).zip(&all).find(|(_, other)| **other != all[0]) {
        None => Ok(()),
        Some((rank, there)) => Err(Error::SettingsMismatch { rank, here: all[0].clone(), there: there.clone() }.into()),
    }
}

/// Refuses Burn optimizers for served rows: they update whole tensors only.
fn check_rows(strategy: &Strategy, optimizer: &Optimizer) -> Result<()> {
    let rows = |node: &strategy::StrategyNode| node.synchronizer == Synchronizer::ParameterServerRows;
    match strategy.plans.iter().find(|plan| plan.nodes.iter().any(rows)) {
        Some(plan) if !optimizer.can_update_rows() => {
            let what = format!("a Burn optimizer for the rows of `{}`", plan.variable);
            let reason =
                "it updates whole tensors; use a rule of `hemiola_nn::Optimizer`, or a strategy without served rows";
            Err(Error::Unsupported { feature: what, reason: reason.to_owned() }.into())
        }
        _ => Ok(()),
    }
}

/// *Collective.* Broadcasts the initial values of peer 0.
fn broadcast_initial_values(cluster: &Cluster, found: &mut [VariableInfo]) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let collectives = cluster.communicator()?;
    for found in found {
        collectives.broadcast(Rank::ROOT, &mut found.values)?;
    }
    Ok(())
}

impl<M: Module> fmt::Debug for TrainerBuilder<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TrainerBuilder").field("optimizer", &self.optimizer).finish_non_exhaustive()
    }
}
