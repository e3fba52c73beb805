//! What a trainer is to be.

use super::{Clip, Kept, Trainer};
use crate::checkpoint;
use crate::error::Error;
use crate::exchange::{Event, Layout, Settings, Worker};
use crate::optimizer::{Optimizer, Schedule};
use crate::slots::Slots;
use crate::trace::Trace;
use crate::variables::{self, Found};
use burn::module::Module;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{MakeCollectives, probe};
use hemiola_core::Rank;
use hemiola_strategy::{self as strategy, Builder, Link, Model, Peer, Strategy, Synchronizer};
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

/// A link that is taken for any where nobody has measured and nothing depends on it: a gigabit a second.
const SOME_LINK: Link = Link { bytes_per_second: 125e6, latency: 1e-4 };

/// How a strategy is come by.
#[derive(Clone, Debug, PartialEq)]
pub enum Chosen {
    /// Made for the model and the cluster.
    By(Builder),
    /// Given.
    Given(Box<Strategy>),
}

impl From<Builder> for Chosen {
    fn from(builder: Builder) -> Self {
        Self::By(builder)
    }
}

impl From<Strategy> for Chosen {
    fn from(strategy: Strategy) -> Self {
        Self::Given(Box::new(strategy))
    }
}

/// Settings of a trainer. Every peer must make the same.
#[must_use = "nothing happens until `build`"]
pub struct TrainerBuilder<M: Module> {
    cluster: Cluster,
    model: M,
    optimizer: Optimizer,
    chosen: Chosen,
    network: Option<strategy::Cluster>,
    examples: u64,
    positions: u64,
    schedule: Schedule,
    clip: Option<Clip>,
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
            chosen: Chosen::By(Builder::default()),
            network: None,
            examples: 32,
            positions: 1,
            schedule: Schedule::constant(),
            clip: None,
            checkpoints: None,
            resume: false,
            trace: false,
        }
    }

    /// How copies are kept equal: a [`Builder`], or a [`Strategy`] that was made before. Default: [`Builder::Cheapest`].
    pub fn strategy(mut self, strategy: impl Into<Chosen>) -> Self {
        self.chosen = strategy.into();
        self
    }

    /// How fast peers talk, as `hemiola probe` finds. Without this, [`Builder::Cheapest`] measures when the trainer is built.
    pub fn network(mut self, network: strategy::Cluster) -> Self {
        self.network = Some(network);
        self
    }

    /// Examples that a peer brings to a step, about: strategies are chosen for it. Default: 32. Steps may have others.
    pub fn examples(mut self, examples: usize) -> Self {
        self.examples = examples.max(1) as u64;
        self
    }

    /// Positions of an example that go through its layers, about: the length of a sequence. Default: 1.
    pub fn positions(mut self, positions: usize) -> Self {
        self.positions = positions.max(1) as u64;
        self
    }

    /// How the rate changes from step to step.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Keeps gradients small.
    pub fn clip(mut self, clip: Clip) -> Self {
        self.clip = Some(clip);
        self
    }

    /// Where [`Trainer::checkpoint`] saves.
    pub fn checkpoints(mut self, folder: impl Into<PathBuf>) -> Self {
        self.checkpoints = Some(folder.into());
        self
    }

    /// Goes on from the checkpoint in that folder, if there is one. It may be of another number of peers and another strategy; model and optimizer must be those it was made with.
    pub fn resume(mut self) -> Self {
        self.resume = true;
        self
    }

    /// Notes what happens when; see [`Trainer::trace`].
    pub fn trace(mut self) -> Self {
        self.trace = true;
        self
    }

    /// *Collective.* Makes the trainer: peers compare their models, take over the values of the first peer (or of the checkpoint), and agree on a strategy.
    pub fn build(self) -> Result<Trainer<M>> {
        let Self { cluster, model, optimizer, schedule, clip, .. } = &self;
        let model = model.clone().train();
        let found = variables::find(&model);
        // Somebody else's model may not be one.
        let described = agree(
            cluster,
            found.and_then(|found| Ok((variables::describe(&found, self.examples, self.positions)?, found))),
        )?;
        let (described, mut found) = described;
        compare_models(cluster, &described)?;
        let (chosen, network, examples, positions) = (&self.chosen, &self.network, self.examples, self.positions);
        let settings = format!(
            "{optimizer:?}, {schedule:?}, {clip:?}, {examples} examples of {positions} positions, resume {}, {chosen:?}, {network:?}, {:?}",
            self.resume,
            found.iter().map(|found| found.precision).collect::<Vec<_>>()
        );
        compare(cluster, settings)?;

        let network = self.links(&described)?;
        let strategy = match &self.chosen {
            Chosen::By(builder) => builder.build(&described, &network).map_err(Error::from)?,
            Chosen::Given(strategy) => {
                strategy.verify(&described, &network).map_err(Error::from)?;
                (**strategy).clone()
            }
        };
        check_rows(&strategy, optimizer)?;
        let explanation = strategy::explain(&strategy, &described, &network);

        let mut start = 0;
        let mut restored = None;
        if let (true, Some(folder)) = (self.resume, &self.checkpoints) {
            restored = checkpoint::load(cluster, folder, &described, optimizer)?;
        }
        match &mut restored {
            Some(restored) => {
                start = restored.step;
                for (found, values) in found.iter_mut().zip(&mut restored.values) {
                    found.values = std::mem::take(values);
                }
            }
            None => spread(cluster, &mut found)?,
        }
        let mut layout = Layout::new(&found, &strategy)?;
        if let Some(restored) = restored {
            restored.put_states(&mut layout.pieces, &described, optimizer)?;
        }
        let places = layout.pieces.iter().enumerate();
        let pieces = places.map(|(place, piece)| checkpoint::Place::new(piece, place, &layout.units)).collect();
        let (staleness, in_parts) = (layout.staleness.clone(), layout.in_parts.clone());
        let units = layout.units.iter().map(|unit| unit.variables.clone()).collect();
        let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
        let precisions = found.iter().map(|found| found.precision).collect();
        let lengths = found.iter().map(|found| found.values.len()).collect();
        let slots = Arc::new(Slots::new(found.into_iter().map(|found| found.values).collect(), start));
        let trace = self.trace.then(|| Arc::new(Trace::new(cluster.env().clone())));

        let (events, receiver) = mpsc::channel();
        let waking = events.clone();
        let settings = Settings {
            optimizer: optimizer.clone(),
            clip: *clip,
            names: names.clone(),
            lengths,
            slots: slots.clone(),
            trace: trace.clone(),
            step: start,
        };
        // See `Trainer::tell`.
        let wake = move || waking.send(Event::Woken).unwrap_or(());
        let worker = Worker::new(cluster, layout, settings, wake)?;
        let name = format!("nets-{}", cluster.rank());
        let body = Box::new(move || worker.run(&receiver));
        let thread = cluster.env().spawn(name, body).map_err(hemiola_cluster::Error::Thread)?;
        Ok(Trainer {
            cluster: cluster.clone(),
            model: Some(model),
            described,
            strategy,
            explanation,
            optimizer: optimizer.clone(),
            schedule: schedule.clone(),
            kept: Arc::new(Mutex::new(Kept::new(in_parts.clone()))),
            names: Arc::new(names),
            precisions,
            in_parts,
            staleness,
            units,
            slots,
            events,
            thread: Some(thread),
            step: start,
            first: start,
            checkpoints: self.checkpoints.clone(),
            pieces,
            trace,
        })
    }

    /// How fast peers talk: as was said, or as it is measured now if the strategy depends on it.
    fn links(&self, described: &Model) -> Result<strategy::Cluster> {
        let cluster = &self.cluster;
        if let Some(network) = &self.network {
            return Ok(network.clone());
        }
        if cluster.size() == 1 || self.chosen != Chosen::By(Builder::Cheapest) || described.variables.is_empty() {
            return Ok(strategy::Cluster::uniform(cluster.size(), SOME_LINK));
        }
        let probed = probe(cluster, |_, _| {})?;
        let peers = Rank::all(cluster.size()).map(|rank| Peer { host: format!("peer-{rank}"), device: "cpu".into() });
        Ok(strategy::Cluster::measured(peers.collect(), |one, other| {
            let pair = probed.iter().find(|probed| (probed.one, probed.other) == (one.min(other), one.max(other)));
            pair.map_or(SOME_LINK, |probed| Link { bytes_per_second: probed.bytes_per_second, latency: probed.latency })
        }))
    }
}

/// *Collective.* Fails on all peers if it failed on one, there with its own error.
fn agree<T>(cluster: &Cluster, mine: std::result::Result<T, Error>) -> Result<T> {
    let problems = cluster.all_gather(mine.as_ref().err().map(ToString::to_string))?;
    let mine = mine?;
    match problems.into_iter().enumerate().find_map(|(rank, problem)| Some((rank, problem?))) {
        None => Ok(mine),
        Some((rank, difference)) => Err(Error::Model { rank: Rank::new(rank as u32), difference }.into()),
    }
}

fn compare_models(cluster: &Cluster, described: &Model) -> Result<()> {
    // As text: models are written with tags, which the wire's format has no place for.
    let all = cluster.all_gather(serde_json::to_string(described).expect("plain data"))?;
    let read = |text: &String| serde_json::from_str::<Model>(text).map_err(|error| Error::Failed(error.to_string()));
    let first = read(&all[0])?;
    for (rank, other) in Rank::all(all.len()).zip(&all) {
        if let Some(difference) = first.first_difference(&read(other)?) {
            return Err(Error::Model { rank, difference }.into());
        }
    }
    Ok(())
}

fn compare(cluster: &Cluster, settings: String) -> Result<()> {
    let all = cluster.all_gather(settings)?;
    match Rank::all(all.len()).zip(&all).find(|(_, other)| **other != all[0]) {
        None => Ok(()),
        Some((rank, there)) => Err(Error::Differs { rank, here: all[0].clone(), there: there.clone() }.into()),
    }
}

/// Rows are updated one by one, which optimizers of Burn cannot do.
fn check_rows(strategy: &Strategy, optimizer: &Optimizer) -> Result<()> {
    let rows = |node: &strategy::Node| node.synchronizer == Synchronizer::ServedRows;
    match strategy.plans.iter().find(|plan| plan.nodes.iter().any(rows)) {
        Some(plan) if !optimizer.takes_rows() => {
            let what = format!("an optimizer of Burn for the rows of {}", plan.variable);
            let reason =
                "it updates whole tensors; take one of hemiola_nn::Optimizer's own, or a strategy that serves no rows";
            Err(Error::Unsupported { what, reason: reason.to_owned() }.into())
        }
        _ => Ok(()),
    }
}

/// *Collective.* All take over the values of the first peer.
fn spread(cluster: &Cluster, found: &mut [Found]) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let collectives = cluster.collectives()?;
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
