//! The synchronization thread: owns the values of a peer and executes the strategy.
//!
//! **Invariants.** The updates of a unit are applied in the order of steps. A failure is reported
//! once, to the next caller, and nothing is started after it. The thread blocks on its event
//! channel only, never on a message, except in gossip averaging.

use super::clip::{clip_values, squares};
use super::collective_order::CollectiveOrder;
use super::factors::multiply;
use super::plan::{SyncMethod, SyncPlan, SyncUnit, VariablePiece};
use super::rows::{add_rows, by_owner, into_rows, put_rows, with_keys};
use super::unit_sync::{SummedGradient, UnitState, UnitSync, padded};
use crate::error::Error;
use crate::ids::{PieceId, UnitId, VariableId};
use crate::optimizer::{Optimizer, OptimizerState};
use crate::parameter_store::ParameterStore;
use crate::trace::{TraceLane, TraceRecorder};
use crate::trainer::GradientClip;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{
    Algorithm, Communicator, Compression, Compressor, Gossip, GossipExt, PendingCollective, ReduceOp,
};
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Gradient of a variable, in the form in which its layer gives it.
#[derive(Clone, Debug)]
pub(crate) enum GradientPayload {
    /// One element for each element of the variable.
    Dense(Vec<f32>),
    /// Rows of `[input, output gradient]` (factors) or `[key, gradient]` (rows).
    Structured(Vec<f32>),
    /// The loss does not depend on the variable.
    Absent,
}

/// Event that the thread handles.
pub(crate) enum SyncEvent {
    /// A forward pass is complete: batch size and mean loss of this peer, and the learning rate.
    StepStarted {
        step: u64,
        examples: u64,
        loss: f64,
        rate: f64,
    },
    /// The gradient of a variable is complete.
    GradientReady {
        step: u64,
        variable: VariableId,
        payload: GradientPayload,
    },
    /// A collective in flight has completed.
    CollectiveReady,
    /// Units start in this order from step `since` on.
    UnitOrder {
        order: Vec<UnitId>,
        since: u64,
    },
    /// Asks for a reply once all steps are complete. With `copies`, the reply holds values and
    /// states.
    Drain {
        to: Sender<SyncSnapshot>,
        copies: bool,
    },
    /// Folder of the newest checkpoint, for error messages.
    CheckpointSaved(PathBuf),
    Shutdown,
}

/// State of a peer: values of all pieces, and optimizer states of those that it updates.
pub(crate) struct SyncSnapshot {
    pub(crate) pieces: Vec<(Vec<f32>, Option<OptimizerState>)>,
}

/// Settings of the synchronization thread.
pub(crate) struct SyncSettings {
    pub(crate) optimizer: Optimizer,
    pub(crate) clip: Option<GradientClip>,
    pub(crate) names: Vec<String>,
    pub(crate) lengths: Vec<usize>,
    pub(crate) store: Arc<ParameterStore>,
    pub(crate) trace: Option<Arc<TraceRecorder>>,
    /// Number of steps before this run.
    pub(crate) step: u64,
}

/// Progress of one step.
#[derive(Default)]
pub(super) struct StepProgress {
    rate: f64,
    examples: u64,
    /// By variable; cleared when the last piece of the variable was sent.
    gradients: Vec<Option<GradientPayload>>,
    /// Number of pieces not yet sent, by variable.
    unsent_pieces: Vec<usize>,
    counting: Option<PendingCollective<f64>>,
    /// Examples of all peers.
    pub(super) total: Option<f64>,
    /// Number of units whose gradient is complete on this peer, and the squared norm of those that
    /// it counts.
    pub(super) complete_units: usize,
    pub(super) squares: f64,
    pub(super) norm_reduction: Option<PendingCollective<f64>>,
    /// Factor of norm clipping.
    pub(super) clip_scale: Option<f64>,
    /// Number of pieces with their new values, by variable.
    updated_pieces: Vec<usize>,
    finished_units: usize,
}

/// State of the synchronization thread.
pub(crate) struct SyncWorker {
    pub(super) settings: SyncSettings,
    pieces: Vec<VariablePiece>,
    pub(super) units: Vec<SyncUnit>,
    shard_counts: Vec<usize>,
    compressors: Vec<Option<Compressor>>,
    gossip: Vec<Option<Gossip<f32>>>,
    /// Number of applied updates, by unit.
    applied: Vec<u64>,
    pub(super) rank: Rank,
    peers: usize,
    communicators: PerStage<Communicator>,
    orders: PerStage<CollectiveOrder>,
    count_communicator: Communicator,
    pub(super) norm_communicator: Communicator,
    pub(super) next_norm_step: u64,
    pub(super) steps: BTreeMap<u64, StepProgress>,
    in_flight: Vec<UnitSync>,
    /// Pending [`Drain`](SyncEvent::Drain) requests, with their reply channels.
    drains: Vec<(Sender<SyncSnapshot>, bool)>,
    last_checkpoint: Option<PathBuf>,
    failed: bool,
}

/// Stage of a unit's synchronization. Updates come between `Payloads` and `Values`: a stage that
/// updates wait for must not wait for an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncStage {
    /// Gradients, or the lengths of structured ones.
    Gradients,
    /// Structured gradients: factors or rows.
    Payloads,
    /// New values from their owner, or the lengths of changed rows.
    Values,
    /// Rows with new values, from their owners.
    Rows,
}

impl SyncStage {
    const ALL: [Self; 4] = [Self::Gradients, Self::Payloads, Self::Values, Self::Rows];

    /// Stages that a unit passes through, in order.
    fn of(method: &SyncMethod) -> &'static [Self] {
        match method {
            SyncMethod::AllReduce { .. } | SyncMethod::Gossip { .. } => &[Self::Gradients],
            SyncMethod::ParameterServer { .. } => &[Self::Gradients, Self::Values],
            SyncMethod::SufficientFactors => &[Self::Gradients, Self::Payloads],
            SyncMethod::ServedRows { .. } => &Self::ALL,
        }
    }
}

/// One item for each [`SyncStage`].
struct PerStage<T>([T; SyncStage::ALL.len()]);

impl<T> Index<SyncStage> for PerStage<T> {
    type Output = T;

    fn index(&self, stage: SyncStage) -> &T {
        &self.0[stage as usize]
    }
}

impl<T> IndexMut<SyncStage> for PerStage<T> {
    fn index_mut(&mut self, stage: SyncStage) -> &mut T {
        &mut self.0[stage as usize]
    }
}

impl SyncWorker {
    /// *Collective.* Creates the communicators, compressors and gossip averagers of all units.
    pub(crate) fn new(
        cluster: &Cluster,
        plan: SyncPlan,
        settings: SyncSettings,
        wake: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Self> {
        use hemiola_collective::CollectiveExt;
        let SyncPlan { pieces, units, shard_counts, .. } = plan;
        let first = cluster.communicator()?.on_complete(wake);
        let communicators = PerStage([first.clone(), first.duplicate()?, first.duplicate()?, first.duplicate()?]);
        // Two numbers per message: recursive doubling has the fewest rounds, and needs no
        // measurement.
        let small = first.with_algorithm(Algorithm::Doubling);
        let (count_communicator, norm_communicator) = (small.duplicate()?, small.duplicate()?);
        let mut compressors = Vec::new();
        let mut gossip = Vec::new();
        for unit in &units {
            let piece = &pieces[unit.pieces[0]];
            let compressed =
                unit.compression != Compression::Plain && !matches!(unit.method, SyncMethod::SufficientFactors);
            compressors.push(match unit.compression {
                _ if !compressed => None,
                Compression::LowRank { .. } => {
                    Some(first.matrix_compressor(unit.compression, piece.rows, piece.width)?)
                }
                compression => Some(first.compressor(compression, unit.length)?),
            });
            gossip.push(match &unit.method {
                SyncMethod::Gossip { topology } => {
                    Some(cluster.gossip::<f32>(&cluster.graph(topology)?, unit.length).build()?)
                }
                _ => None,
            });
        }
        let start = settings.step;
        let orders = PerStage(SyncStage::ALL.map(|stage| {
            let order = (0..units.len()).map(UnitId::new);
            let order = order.filter(|unit| SyncStage::of(&units[*unit].method).contains(&stage));
            CollectiveOrder::new(order.collect(), start)
        }));
        let (rank, peers, applied) = (cluster.rank(), cluster.size(), vec![start; units.len()]);
        Ok(Self {
            settings,
            pieces,
            units,
            shard_counts,
            compressors,
            gossip,
            applied,
            rank,
            peers,
            communicators,
            orders,
            count_communicator,
            norm_communicator,
            next_norm_step: start,
            steps: BTreeMap::new(),
            in_flight: Vec::new(),
            drains: Vec::new(),
            last_checkpoint: None,
            failed: false,
        })
    }

    /// Handles events until [`Shutdown`](SyncEvent::Shutdown).
    pub(crate) fn run(mut self, events: &Receiver<SyncEvent>) {
        while let Ok(event) = events.recv() {
            match event {
                SyncEvent::Shutdown => return,
                SyncEvent::Drain { to, copies } => self.drains.push((to, copies)),
                SyncEvent::CheckpointSaved(folder) => self.last_checkpoint = Some(folder),
                event if self.failed => drop(event),
                event => {
                    if let Err(error) = self.handle(event).and_then(|()| self.make_progress()) {
                        self.failed = true;
                        self.settings.store.fail(error);
                        self.in_flight.clear();
                    }
                }
            }
            self.answer_drains();
        }
    }

    fn answer_drains(&mut self) {
        if self.failed {
            // Dropping the senders closes the channels of the callers.
            self.drains.clear();
        } else if self.steps.is_empty() {
            for (sender, copies) in self.drains.drain(..) {
                let owned = |piece: PieceId| {
                    self.units.iter().any(|unit| unit.pieces.contains(&piece) && is_updated_by(unit, self.rank))
                };
                let copy = |(index, piece): (usize, &VariablePiece)| {
                    (piece.values.clone(), owned(PieceId::new(index)).then(|| piece.state.clone()))
                };
                let pieces = self.pieces.iter().enumerate().filter(|_| copies).map(copy).collect();
                // The caller may have dropped its receiver.
                let _ = sender.send(SyncSnapshot { pieces });
            }
        }
    }

    fn handle(&mut self, event: SyncEvent) -> Result<()> {
        match event {
            SyncEvent::StepStarted { step, examples, loss, rate } => {
                let counted = vec![examples as f64, if examples == 0 { 0.0 } else { loss * examples as f64 }];
                let counting = Some(self.count_communicator.begin_all_reduce(counted, ReduceOp::Sum)?);
                let variables = self.settings.names.len();
                let (gradients, updated_pieces) = (vec![None; variables], vec![0; variables]);
                let unsent_pieces = self.shard_counts.clone();
                self.steps.insert(
                    step,
                    StepProgress {
                        rate,
                        examples,
                        gradients,
                        unsent_pieces,
                        counting,
                        updated_pieces,
                        ..StepProgress::default()
                    },
                );
            }
            SyncEvent::GradientReady { step, variable, payload } => {
                let step = self.steps.get_mut(&step).expect("a step starts before its gradients arrive");
                step.gradients[variable] = Some(payload);
            }
            SyncEvent::UnitOrder { order, since } => {
                self.orders.0.iter_mut().for_each(|stage| stage.reorder(&order, since))
            }
            SyncEvent::CollectiveReady
            | SyncEvent::Drain { .. }
            | SyncEvent::CheckpointSaved(_)
            | SyncEvent::Shutdown => {}
        }
        Ok(())
    }

    /// Advances all units as far as possible.
    fn make_progress(&mut self) -> Result<()> {
        loop {
            let mut moved = self.poll_counts()?;
            while self.start_next_unit()? {
                moved = true;
            }
            let in_flight = std::mem::take(&mut self.in_flight);
            for mut sync in in_flight {
                while self.advance(&mut sync)? {
                    moved = true;
                }
                if !matches!(sync.state, UnitState::Done) {
                    self.in_flight.push(sync);
                }
            }
            moved |= self.poll_norm()?;
            // A peer that updates nothing may have all values of a step before it knows the norm to
            // which it contributed.
            let (units, norms) = (self.units.len(), matches!(self.settings.clip, Some(GradientClip::Norm(_))));
            self.steps.retain(|_, step| step.finished_units < units || norms && step.clip_scale.is_none());
            if !moved {
                return Ok(());
            }
        }
    }

    /// Completes the all-reduce of batch sizes and losses.
    fn poll_counts(&mut self) -> Result<bool> {
        let mut moved = false;
        for (number, step) in &mut self.steps {
            if step.counting.as_ref().is_some_and(PendingCollective::is_ready) {
                let pending = step.counting.take().expect("checked above");
                let counted = pending.wait()?;
                if counted[0] == 0.0 {
                    return Err(Error::EmptyStep { step: number + 1 }.into());
                }
                let loss = counted[1] / counted[0];
                if !loss.is_finite() {
                    let bad = self.pieces.iter().find(|piece| piece.values.iter().any(|value| !value.is_finite()));
                    let quantity = bad.map_or("the loss".to_owned(), |piece| {
                        format!("the loss (and a value of `{}`)", self.settings.names[piece.variable])
                    });
                    return Err(Error::NotFinite {
                        step: number + 1,
                        quantity,
                        last_checkpoint: self.last_checkpoint.clone(),
                    }
                    .into());
                }
                self.settings.store.record_loss(*number, loss);
                step.total = Some(counted[0]);
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Starts the next unit in order, if its gradients are ready.
    fn start_next_unit(&mut self) -> Result<bool> {
        let Some((number, at)) = self.orders[SyncStage::Gradients].next() else { return Ok(false) };
        let Some(step) = self.steps.get_mut(&number) else { return Ok(false) };
        let unit = &self.units[at];
        let compressed =
            unit.compression != Compression::Plain && !matches!(unit.method, SyncMethod::SufficientFactors);
        if unit.variables.iter().any(|variable| step.gradients[*variable].is_none())
            || compressed && self.compressors[at].is_none()
        {
            return Ok(false);
        }
        self.orders[SyncStage::Gradients].advance();
        let state = match &unit.method {
            SyncMethod::AllReduce { .. } | SyncMethod::ParameterServer { .. } => {
                let gradient = dense_gradient(unit, &self.pieces, step);
                self.start_reduction(at, gradient)?
            }
            SyncMethod::Gossip { .. } => {
                let gradient = dense_gradient(unit, &self.pieces, step);
                UnitState::Apply(SummedGradient::Dense(gradient))
            }
            SyncMethod::SufficientFactors => {
                let parts = structured_gradient(unit, step);
                let length = i64::try_from(parts.len()).unwrap_or(i64::MAX);
                UnitState::FactorLengths(self.communicators[SyncStage::Gradients].begin_all_gather(&[length])?, parts)
            }
            SyncMethod::ServedRows { owners } => {
                let width = self.pieces[unit.pieces[0]].width;
                let mine = by_owner(&structured_gradient(unit, step), width, owners, self.peers);
                let lengths: Vec<i64> = mine.iter().map(|rows| i64::try_from(rows.len()).unwrap_or(i64::MAX)).collect();
                UnitState::RowLengths(self.communicators[SyncStage::Gradients].begin_all_gather(&lengths)?, mine)
            }
        };
        let began = self.settings.trace.as_ref().map_or(0.0, |trace| trace.now());
        self.in_flight.push(UnitSync { step: number, unit: at, state, counted: false, began });
        Ok(true)
    }

    fn start_reduction(&mut self, at: UnitId, gradient: Vec<f32>) -> Result<UnitState> {
        let unit = &self.units[at];
        let (goal, algorithm) = match unit.method {
            SyncMethod::ParameterServer { owner } => (CollectiveGoal::Reduce { root: owner }, Algorithm::Tree),
            SyncMethod::AllReduce { algorithm } => (CollectiveGoal::AllReduce, algorithm),
            _ => unreachable!("only all-reduce and parameter server reduce"),
        };
        let collectives = self.communicators[SyncStage::Gradients].with_algorithm(algorithm);
        Ok(match (self.compressors[at].take(), goal) {
            (Some(compressor), goal) => {
                UnitState::ReduceCompressed(collectives.begin_compressed(goal, &gradient, ReduceOp::Sum, compressor)?)
            }
            (None, CollectiveGoal::Reduce { root }) => {
                UnitState::Reduce(collectives.begin_reduce(root, gradient, ReduceOp::Sum)?)
            }
            (None, _) => UnitState::Reduce(collectives.begin_all_reduce(gradient, ReduceOp::Sum)?),
        })
    }

    /// Makes one transition of a unit; returns whether it could.
    fn advance(&mut self, sync: &mut UnitSync) -> Result<bool> {
        let (at, number) = (sync.unit, sync.step);
        let stage = std::mem::replace(&mut sync.state, UnitState::Done);
        let (moved, stage) = match stage {
            UnitState::Reduce(pending) if pending.is_ready() => {
                let sum = pending.wait()?;
                (true, self.after_reduction(at, sum))
            }
            UnitState::ReduceCompressed(pending) if pending.is_ready() => {
                let (compressor, sum) = pending.wait();
                self.compressors[at] = Some(compressor);
                (true, self.after_reduction(at, sum?))
            }
            UnitState::AwaitBroadcast(values) if self.orders[SyncStage::Values].is_next(number, at) => {
                self.orders[SyncStage::Values].advance();
                let SyncMethod::ParameterServer { owner } = self.units[at].method else {
                    unreachable!("only units with a parameter server broadcast")
                };
                (true, UnitState::Broadcast(self.communicators[SyncStage::Values].begin_broadcast(owner, values)?))
            }
            UnitState::Broadcast(pending) if pending.is_ready() && self.applied[at] == number => {
                let values = pending.wait()?;
                let SyncMethod::ParameterServer { owner } = self.units[at].method else {
                    unreachable!("only units with a parameter server broadcast")
                };
                if owner != self.rank {
                    self.store_values(at, &values);
                }
                (true, self.finish_unit(sync))
            }
            UnitState::FactorLengths(pending, mine) if pending.is_ready() => {
                let lengths = pending.wait()?.into_iter().map(to_length).collect();
                (true, UnitState::AwaitFactors(lengths, mine))
            }
            UnitState::AwaitFactors(lengths, mine) if self.orders[SyncStage::Payloads].is_next(number, at) => {
                self.orders[SyncStage::Payloads].advance();
                let most = lengths.iter().copied().max().unwrap_or(0);
                (
                    true,
                    UnitState::Factors(
                        self.communicators[SyncStage::Payloads].begin_all_gather(&padded(&mine, most))?,
                        lengths,
                    ),
                )
            }
            UnitState::Factors(pending, lengths) if pending.is_ready() => {
                let all = pending.wait()?;
                let piece = &self.pieces[self.units[at].pieces[0]];
                (true, UnitState::Apply(SummedGradient::Dense(multiply(&all, &lengths, (piece.rows, piece.width)))))
            }
            UnitState::RowLengths(pending, mine) if pending.is_ready() => {
                let lengths = pending.wait()?.into_iter().map(to_length).collect();
                (true, UnitState::AwaitPush(lengths, mine))
            }
            UnitState::AwaitPush(lengths, mine) if self.orders[SyncStage::Payloads].is_next(number, at) => {
                self.orders[SyncStage::Payloads].advance();
                let most = lengths.iter().copied().max().unwrap_or(0);
                let blocks: Vec<f32> = mine.iter().flat_map(|rows| padded(rows, most)).collect();
                (true, UnitState::Push(self.communicators[SyncStage::Payloads].begin_all_to_all(blocks)?, lengths))
            }
            UnitState::Push(pending, lengths) if pending.is_ready() => {
                let blocks = pending.wait()?;
                let width = self.pieces[self.units[at].pieces[0]].width;
                let most = blocks.len() / self.peers;
                let mut sums = BTreeMap::new();
                for from in 0..self.peers {
                    let length = lengths[from * self.peers + self.rank.index()];
                    add_rows(&mut sums, &blocks[from * most..from * most + length], width);
                }
                (true, UnitState::Apply(into_rows(sums)))
            }
            UnitState::Apply(gradient) => self.try_apply(sync, gradient)?,
            UnitState::AwaitPullLengths(rows) if self.orders[SyncStage::Values].is_next(number, at) => {
                self.orders[SyncStage::Values].advance();
                let length = i64::try_from(rows.len()).unwrap_or(i64::MAX);
                (true, UnitState::PullLengths(self.communicators[SyncStage::Values].begin_all_gather(&[length])?, rows))
            }
            UnitState::PullLengths(pending, rows) if pending.is_ready() => {
                let lengths = pending.wait()?.into_iter().map(to_length).collect();
                (true, UnitState::AwaitPull(lengths, rows))
            }
            UnitState::AwaitPull(lengths, rows) if self.orders[SyncStage::Rows].is_next(number, at) => {
                self.orders[SyncStage::Rows].advance();
                let most = lengths.iter().copied().max().unwrap_or(0);
                (
                    true,
                    UnitState::Pull(
                        self.communicators[SyncStage::Rows].begin_all_gather(&padded(&rows, most))?,
                        lengths,
                    ),
                )
            }
            UnitState::Pull(pending, lengths) if pending.is_ready() && self.applied[at] == number => {
                let all = pending.wait()?;
                let piece = &mut self.pieces[self.units[at].pieces[0]];
                let most = all.len() / self.peers;
                for (from, length) in lengths.iter().enumerate() {
                    put_rows(&all[from * most..from * most + length], &mut piece.values, piece.width);
                }
                (true, self.finish_unit(sync))
            }
            other => (false, other),
        };
        sync.state = stage;
        Ok(moved)
    }

    /// Returns the state after a reduction, which leaves the sum on all peers or on the owner only.
    fn after_reduction(&self, at: UnitId, sum: Vec<f32>) -> UnitState {
        match self.units[at].method {
            SyncMethod::ParameterServer { owner } if owner != self.rank => {
                UnitState::AwaitBroadcast(vec![0.0; self.units[at].length])
            }
            _ => UnitState::Apply(SummedGradient::Dense(sum)),
        }
    }

    /// Applies a gradient if all earlier steps of the unit are applied and the scale is known.
    fn try_apply(&mut self, sync: &mut UnitSync, gradient: SummedGradient) -> Result<(bool, UnitState)> {
        let (at, number) = (sync.unit, sync.step);
        let unit = &self.units[at];
        let step = self.steps.get_mut(&number).expect("a step is kept until its units are done");
        let (Some(total), true) = (step.total, self.applied[at] == number) else {
            return Ok((false, UnitState::Apply(gradient)));
        };
        let is_gossip = matches!(unit.method, SyncMethod::Gossip { .. });
        let mut scale = if is_gossip { 1.0 / step.examples.max(1) as f64 } else { 1.0 / total };
        if let Some(GradientClip::Norm(_)) = self.settings.clip {
            if !sync.counted {
                sync.counted = true;
                step.complete_units += 1;
                step.squares += squares(unit, &gradient, self.rank) * scale * scale;
            }
            match step.clip_scale {
                Some(clip_scale) => scale *= clip_scale,
                None => return Ok((false, UnitState::Apply(gradient))),
            }
        }
        let (rate, clip) = (step.rate, self.settings.clip);
        let stage = match gradient {
            SummedGradient::Dense(mut numbers) => {
                self.check_finite(at, number, &numbers)?;
                clip_values(&mut numbers, clip, scale);
                self.update_dense(at, rate, &mut numbers, scale as f32);
                if let Some(mixing) = &mut self.gossip[at] {
                    let unit = &self.units[at];
                    let mut values = Vec::with_capacity(unit.length);
                    unit.pieces.iter().for_each(|piece| values.extend_from_slice(&self.pieces[*piece].values));
                    mixing.average(&mut values)?;
                    self.store_values(at, &values);
                }
                match self.units[at].method {
                    SyncMethod::ParameterServer { .. } => {
                        let unit = &self.units[at];
                        let mut values = Vec::with_capacity(unit.length);
                        unit.pieces.iter().for_each(|piece| values.extend_from_slice(&self.pieces[*piece].values));
                        UnitState::AwaitBroadcast(values)
                    }
                    _ => self.finish_unit(sync),
                }
            }
            SummedGradient::Rows(rows, mut numbers) => {
                self.check_finite(at, number, &numbers)?;
                clip_values(&mut numbers, clip, scale);
                let piece = &mut self.pieces[self.units[at].pieces[0]];
                let (width, optimizer) = (piece.width, &self.settings.optimizer);
                let touched = (&rows[..], &mut numbers[..], width);
                optimizer.update_rows(rate, &mut piece.values, touched, scale as f32, &mut piece.state);
                UnitState::AwaitPullLengths(with_keys(rows, &piece.values, width))
            }
        };
        Ok((true, stage))
    }

    fn check_finite(&self, at: UnitId, number: u64, gradient: &[f32]) -> Result<()> {
        if gradient.iter().all(|number| number.is_finite()) {
            return Ok(());
        }
        let mut start = 0;
        let bad = self.units[at].pieces.iter().map(|piece| &self.pieces[*piece]).find(|piece| {
            let range = start..(start + piece.block.len()).min(gradient.len());
            start = range.end;
            gradient[range].iter().any(|number| !number.is_finite())
        });
        let name = bad.map_or("a variable", |piece| &self.settings.names[piece.variable]);
        let quantity = format!("the gradient of `{name}`");
        Err(Error::NotFinite { step: number + 1, quantity, last_checkpoint: self.last_checkpoint.clone() }.into())
    }

    fn update_dense(&mut self, at: UnitId, rate: f64, gradient: &mut [f32], scale: f32) {
        let optimizer = &self.settings.optimizer;
        let mut rest = gradient;
        for id in &self.units[at].pieces {
            let piece = &mut self.pieces[*id];
            let (mine, others) = rest.split_at_mut(piece.block.len());
            rest = others;
            if piece.row_wise && optimizer.can_update_rows() {
                let width = piece.width;
                let touched: Vec<usize> = (0..piece.rows)
                    .filter(|row| mine[row * width..(row + 1) * width].iter().any(|number| *number != 0.0))
                    .collect();
                let mut numbers: Vec<f32> =
                    touched.iter().flat_map(|row| mine[row * width..(row + 1) * width].iter().copied()).collect();
                let rows = (&touched[..], &mut numbers[..], width);
                optimizer.update_rows(rate, &mut piece.values, rows, scale, &mut piece.state);
            } else {
                optimizer.update(rate, &mut piece.values, mine, scale, &mut piece.state);
            }
        }
    }

    /// Stores the concatenated values of a unit's pieces.
    fn store_values(&mut self, at: UnitId, values: &[f32]) {
        let mut start = 0;
        for id in &self.units[at].pieces {
            let piece = &mut self.pieces[*id];
            let end = start + piece.block.len();
            piece.values.copy_from_slice(&values[start..end]);
            start = end;
        }
    }

    /// Completes a unit: publishes the variables whose pieces all have their new values.
    fn finish_unit(&mut self, sync: &UnitSync) -> UnitState {
        let Self { settings, pieces, units, shard_counts, steps, applied, .. } = self;
        let (at, number) = (sync.unit, sync.step);
        applied[at] = number + 1;
        if let Some(trace) = &settings.trace {
            let name = &settings.names[units[at].variables[units[at].variables.len() - 1]];
            let more = units[at].variables.len() - 1;
            let what = if more == 0 { name.clone() } else { format!("{name} and {more} more") };
            trace.record(what, TraceLane::Sync(at.index()), sync.began);
        }
        let step = steps.get_mut(&number).expect("a step is kept until its units are done");
        for id in &units[at].pieces {
            step.updated_pieces[pieces[*id].variable] += 1;
        }
        for variable in &units[at].variables {
            if step.updated_pieces[*variable] == shard_counts[*variable] {
                let own = pieces.iter().filter(|piece| piece.variable == *variable);
                let mut values;
                if shard_counts[*variable] == 1 {
                    values = own.map(|piece| piece.values.clone()).next().unwrap_or_default();
                } else {
                    values = vec![0.0; settings.lengths[*variable]];
                    own.for_each(|piece| piece.block.scatter(&piece.values, &mut values));
                }
                settings.store.publish(*variable, values, number + 1);
            }
        }
        step.finished_units += 1;
        UnitState::Done
    }
}

/// Tells whether a peer updates the pieces of a unit.
pub(super) fn is_updated_by(unit: &SyncUnit, peer: Rank) -> bool {
    match &unit.method {
        SyncMethod::AllReduce { .. }
        | SyncMethod::SufficientFactors
        | SyncMethod::Gossip { .. }
        | SyncMethod::ServedRows { .. } => true,
        SyncMethod::ParameterServer { owner } => *owner == peer,
    }
}

fn to_length(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Concatenates the gradients of a unit's pieces.
fn dense_gradient(unit: &SyncUnit, pieces: &[VariablePiece], step: &mut StepProgress) -> Vec<f32> {
    let mut numbers = Vec::new();
    for id in &unit.pieces {
        let piece = &pieces[*id];
        step.unsent_pieces[piece.variable] -= 1;
        let last = step.unsent_pieces[piece.variable] == 0;
        let gradient = &mut step.gradients[piece.variable];
        match gradient {
            Some(GradientPayload::Dense(whole))
                if last && unit.pieces.len() == 1 && whole.len() == piece.block.len() =>
            {
                numbers = std::mem::take(whole);
            }
            Some(GradientPayload::Dense(whole)) => {
                if numbers.is_empty() {
                    numbers.reserve_exact(unit.length);
                }
                piece.block.gather(whole, &mut numbers);
            }
            _ => numbers.resize(numbers.len() + piece.block.len(), 0.0),
        }
        if last {
            *gradient = None;
        }
    }
    numbers
}

/// Takes the structured gradient of a unit, which has a single variable.
fn structured_gradient(unit: &SyncUnit, step: &mut StepProgress) -> Vec<f32> {
    match step.gradients[unit.variables[0]].take() {
        Some(GradientPayload::Structured(parts)) => parts,
        _ => Vec::new(),
    }
}
