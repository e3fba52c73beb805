//! Node of one peer: owns the values of the peer and executes the strategy, without I/O.
//!
//! The driver passes events in and then calls [`SyncNode::poll_effect`] until it returns `None`.
//! Each call does at most the work up to the next effect, so a collective starts and values are
//! published as soon as they can.
//!
//! **Invariants.** The updates of a unit are applied in the order of steps. All peers start the
//! collectives of a [channel](SyncChannel) in the same order. After an error, the node must not be
//! used further.

use crate::clip::GradientClip;
use crate::collective_order::CollectiveOrder;
use crate::effect::{CollectiveId, CollectiveOp, CollectiveOutput, CollectiveSource, SyncChannel, SyncEffect};
use crate::error::{Error, Result};
use crate::error_feedback::ErrorFeedback;
use crate::gradient::GradientPayload;
use crate::ids::{PieceId, UnitId, VariableId};
use crate::kernel::UpdateKernel;
use crate::plan::{SyncMethod, SyncPlan};
use crate::row_key::put_rows;
use crate::stage::{PerStage, SyncStage};
use crate::step_progress::{NormState, StepProgress};
use crate::table_chunk::TableChunk;
use crate::tables::chunks_of;
use crate::unit_order::UnitOrderAgreement;
use crate::unit_protocol::{NewValues, UnitAction, UnitContext, UnitProtocol, UnitSync};
use hemiola_collective_proto::{Compression, Compressor};
use hemiola_core::Rank;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings and initial state of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings<K: UpdateKernel> {
    /// Plan that all peers execute.
    pub plan: Arc<SyncPlan>,
    /// Optimizer and matrix product of the framework.
    pub kernel: K,
    /// Gradient clipping, if any.
    pub clip: Option<GradientClip>,
    /// Rank of this peer.
    pub rank: Rank,
    /// Values of each variable, equal on all peers.
    pub values: Vec<Vec<f32>>,
    /// Optimizer state of each piece; defaults where the vector is shorter.
    pub states: Vec<K::State>,
    /// Number of steps before this run.
    pub step: u64,
    /// State of compressors that an earlier run has left.
    pub feedback: ErrorFeedback,
}

impl<K: UpdateKernel> NodeSettings<K> {
    /// Creates the settings of a new training.
    #[must_use]
    pub fn new(plan: Arc<SyncPlan>, kernel: K, rank: Rank, values: Vec<Vec<f32>>) -> Self {
        let (states, feedback) = (Vec::new(), ErrorFeedback::default());
        Self { plan, kernel, clip: None, rank, values, states, step: 0, feedback }
    }

    /// Sets gradient clipping.
    #[must_use]
    pub fn clip(mut self, clip: Option<GradientClip>) -> Self {
        self.clip = clip;
        self
    }
}

/// Values of a piece, and its optimizer state on the peers that update it.
#[derive(Clone, Debug)]
pub struct PieceSnapshot<S> {
    /// Values after all steps.
    pub values: Vec<f32>,
    /// Optimizer state, if this peer updates the piece.
    pub state: Option<S>,
    /// Part of the gradients that this peer has not sent yet; empty without error feedback.
    pub residual: Vec<f32>,
    /// Compressor of the piece without its residual, if it keeps more than that.
    pub compressor: Option<Compressor>,
}

/// Synchronization of one unit in one step.
#[derive(Debug)]
pub(crate) struct UnitRun {
    pub(crate) step: u64,
    pub(crate) unit: UnitId,
    pub(crate) sync: UnitSync,
    /// Action that waits until it may happen; `None` while a collective is in flight.
    pub(crate) action: Option<UnitAction>,
    /// The gradient is included in the squared norm of the step.
    pub(crate) counted: bool,
}

/// Node of one peer.
pub struct SyncNode<K: UpdateKernel> {
    pub(crate) plan: Arc<SyncPlan>,
    pub(crate) kernel: K,
    pub(crate) clip: Option<GradientClip>,
    pub(crate) rank: Rank,
    /// Values by piece.
    pub(crate) values: Vec<Vec<f32>>,
    /// Optimizer states by piece.
    pub(crate) states: Vec<K::State>,
    /// Compressors by unit; `None` while in flight, or without compression.
    compressors: Vec<Option<Compressor>>,
    /// By piece: part of earlier gradients that joins the next one; empty if there is none.
    carried: Vec<Vec<f32>>,
    /// Number of applied updates, by unit.
    pub(crate) applied: Vec<u64>,
    pub(crate) orders: PerStage<CollectiveOrder>,
    pub(crate) order_agreement: UnitOrderAgreement,
    /// Number of units that this peer updates.
    pub(crate) updated_units: usize,
    pub(crate) next_norm_step: u64,
    pub(crate) steps: BTreeMap<u64, StepProgress>,
    /// Units in flight, in the order in which they started.
    pub(crate) runs: Vec<UnitRun>,
    pub(crate) effects: VecDeque<SyncEffect>,
    pub(crate) last_checkpoint: Option<PathBuf>,
    /// Chunks in tables, by shard.
    pub(crate) chunks: Vec<TableChunk>,
    /// This peer sends no further update to any table.
    pub(crate) tables_finished: bool,
}

impl<K: UpdateKernel> SyncNode<K> {
    /// Creates the node of a peer.
    pub fn new(settings: NodeSettings<K>) -> Result<Self> {
        let NodeSettings { plan, kernel, clip, rank, values, mut states, step, mut feedback } = settings;
        let values = plan.gather_values(&values);
        states.resize_with(plan.pieces.len(), K::State::default);
        let compressors = feedback.compressors(&plan)?;
        let carried = feedback.carried;
        let chunks = chunks_of(&plan, rank, (&kernel, clip), (&values, &mut states), step)?;
        let mut orders = PerStage::new(|stage| {
            let order = (0..plan.units.len()).map(UnitId::new);
            let order = order.filter(|unit| SyncStage::of(&plan.units[*unit].method).contains(&stage));
            CollectiveOrder::new(order.collect(), step)
        });
        if !plan.sums_over_peers() {
            let order: Vec<UnitId> = (0..plan.units.len()).map(UnitId::new).collect();
            orders.iter_mut().for_each(|stage| stage.reorder(&order));
        }
        let order_agreement = UnitOrderAgreement::new(&plan, step);
        let updated_units = plan.units.iter().filter(|unit| unit.is_updated_by(rank)).count();
        let applied = vec![step; plan.units.len()];
        let mut node = Self {
            plan,
            kernel,
            clip,
            rank,
            values,
            states,
            compressors,
            carried,
            applied,
            orders,
            order_agreement,
            updated_units,
            next_norm_step: step,
            steps: BTreeMap::new(),
            runs: Vec::new(),
            effects: VecDeque::new(),
            last_checkpoint: None,
            chunks,
            tables_finished: false,
        };
        if !node.plan.trains(rank) {
            // Its clocks end before they begin, so no table waits for this peer.
            node.finish_tables()?;
        }
        Ok(node)
    }

    /// Event: a forward pass is complete. `loss` is the mean over the examples of this peer.
    pub fn start_step(&mut self, step: u64, examples: u64, loss: f64, rate: f64) -> Result<()> {
        if examples > 0 && !self.plan.trains(self.rank) {
            return Err(Error::NotAReplica { step: step + 1, rank: self.rank, examples });
        }
        let loss = if examples == 0 { 0.0 } else { loss };
        let numbers = vec![examples as f64, if examples == 0 { 0.0 } else { loss * examples as f64 }];
        self.steps.insert(step, StepProgress::new(&self.plan, examples, rate));
        if !self.plan.sums_over_peers() {
            return self.adopt_own_totals(step, examples, loss);
        }
        self.effects.push_back(SyncEffect::Start {
            id: CollectiveId { step, source: CollectiveSource::Counts },
            channel: SyncChannel::Counts,
            op: CollectiveOp::SumNumbers { numbers },
        });
        Ok(())
    }

    /// Event: the gradient of a variable is complete.
    pub fn add_gradient(&mut self, step: u64, variable: VariableId, payload: GradientPayload) -> Result<()> {
        let problem = "a gradient arrived before the start of its step";
        let progress = self.steps.get_mut(&step).ok_or(Error::Driver { step: step + 1, problem })?;
        let is_absent = matches!(payload, GradientPayload::Absent);
        progress.gradients[variable] = Some(payload);
        self.record_arrival(step, variable, is_absent);
        Ok(())
    }

    /// Event: a checkpoint was saved. Error messages name its folder.
    pub fn set_last_checkpoint(&mut self, folder: PathBuf) {
        self.last_checkpoint = Some(folder);
    }

    /// Event: a collective has completed.
    pub fn complete(&mut self, id: CollectiveId, output: CollectiveOutput) -> Result<()> {
        match id.source {
            CollectiveSource::Counts => self.complete_counts(id.step, &output.into_numbers(id.step)?),
            CollectiveSource::Norm => self.complete_norm(id.step, &output.into_numbers(id.step)?),
            CollectiveSource::UnitOrder => self.complete_order(id.step, &output.into_integers(id.step)?),
            CollectiveSource::Unit(unit) => self.complete_unit_collective(id.step, unit, output),
        }
    }

    /// Returns the next effect, or `None` if the node needs another event first.
    pub fn poll_effect(&mut self) -> Result<Option<SyncEffect>> {
        loop {
            if let Some(effect) = self.effects.pop_front() {
                return Ok(Some(effect));
            }
            if !self.make_transition()? {
                return Ok(None);
            }
        }
    }

    /// Tells whether all steps that have started are complete.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.steps.is_empty()
            && self.effects.is_empty()
            && !self.order_agreement.is_in_flight()
            && self.chunks.iter().all(|chunk| chunk.in_flight().is_none())
    }

    /// Replaces the values of a variable whose copy here no step updates, such as on a peer that does
    /// not train.
    pub fn adopt_values(&mut self, variable: VariableId, values: &[f32]) {
        let Self { plan, values: pieces, .. } = self;
        for (piece, own) in plan.pieces.iter().zip(pieces).filter(|(piece, _)| piece.variable == variable) {
            own.clear();
            piece.layout.gather(values, own);
        }
    }

    /// Copies the values of all pieces, and the optimizer states of those that this peer updates.
    #[must_use]
    pub fn snapshot(&self) -> Vec<PieceSnapshot<K::State>> {
        let pieces = (0..self.plan.pieces.len()).map(PieceId::new);
        let copy = |piece: PieceId| PieceSnapshot {
            values: self.values[piece].clone(),
            state: self.plan.unit_of(piece).is_updated_by(self.rank).then(|| self.states[piece].clone()),
            residual: self.carried[piece].clone(),
            compressor: None,
        };
        let mut snapshot: Vec<PieceSnapshot<K::State>> = pieces.map(copy).collect();
        for (piece, state) in self.chunk_states() {
            snapshot[piece].state = Some(state);
        }
        for (unit, compressor) in self.plan.units.iter().zip(&self.compressors) {
            let Some(compressor) = compressor.as_ref().filter(|_| unit.compression.has_error_feedback()) else {
                continue;
            };
            let mut rest = compressor.residual();
            for piece in &unit.pieces {
                let (own, others) = rest.split_at(self.plan.pieces[*piece].layout.len());
                (snapshot[*piece].residual, rest) = (own.to_vec(), others);
            }
            if matches!(unit.compression, Compression::LowRank { .. }) {
                snapshot[unit.pieces[0]].compressor = Some(compressor.without_residual());
            }
        }
        snapshot
    }

    /// Adds the parts of earlier gradients that have not been sent.
    pub(crate) fn add_carried(&mut self, id: UnitId, gradient: &mut [f32]) {
        let mut start = 0;
        for piece in &self.plan.units[id].pieces {
            let carried = std::mem::take(&mut self.carried[*piece]);
            gradient[start..].iter_mut().zip(carried).for_each(|(number, carried)| *number += carried);
            start += self.plan.pieces[*piece].layout.len();
        }
    }

    /// Makes one transition; returns whether it could.
    fn make_transition(&mut self) -> Result<bool> {
        if self.finish_next_chunk()? || self.start_next_chunk()? || self.start_next_unit()? {
            return Ok(true);
        }
        for index in 0..self.runs.len() {
            if self.advance(index)? {
                return Ok(true);
            }
        }
        Ok(self.start_norm())
    }

    /// Starts the next unit in order, if its gradients are ready.
    fn start_next_unit(&mut self) -> Result<bool> {
        let Some((step, id)) = self.orders[SyncStage::Gradients].next() else { return Ok(false) };
        let Some(progress) = self.steps.get_mut(&step) else { return Ok(false) };
        let unit = &self.plan.units[id];
        if !progress.has_gradients(unit) || unit.is_compressed() && self.compressors[id].is_none() {
            return Ok(false);
        }
        self.orders[SyncStage::Gradients].advance();
        let gradient = match unit.method {
            SyncMethod::AllReduce { .. } | SyncMethod::ParameterServer { .. } | SyncMethod::Gossip { .. } => {
                let mut gradient = progress.take_dense(unit, &self.plan);
                self.add_carried(id, &mut gradient);
                gradient
            }
            SyncMethod::SufficientFactors | SyncMethod::ServedRows { .. } => progress.take_structured(unit),
            SyncMethod::Table { .. } => unreachable!("units in tables take no turn"),
        };
        if self.plan.units[id].compression.has_error_feedback() {
            // A compressor refuses such a vector, too, but knows no variable.
            self.check_finite(id, step, &gradient)?;
        }
        let compressor = self.compressors[id].take();
        let (sync, action) = UnitSync::begin(self.context(id, step), gradient, compressor);
        let action = match action {
            UnitAction::Start(SyncStage::Gradients, op) => {
                self.start(step, id, SyncStage::Gradients, op);
                None
            }
            other => Some(other),
        };
        self.effects.push_back(SyncEffect::UnitStarted { step, unit: id });
        self.runs.push(UnitRun { step, unit: id, sync, action, counted: false });
        Ok(true)
    }

    /// Performs the action of a unit in flight, if it may happen now.
    fn advance(&mut self, index: usize) -> Result<bool> {
        let run = &mut self.runs[index];
        let (step, id) = (run.step, run.unit);
        match run.action.take() {
            Some(UnitAction::Start(stage, op)) if self.orders[stage].is_next(step, id) => {
                self.orders[stage].advance();
                self.start(step, id, stage, op);
            }
            Some(UnitAction::Average(values)) => {
                let collective = CollectiveId { step, source: CollectiveSource::Unit(id) };
                self.effects.push_back(SyncEffect::Average { id: collective, unit: id, values });
            }
            Some(UnitAction::Multiply(pairs)) => {
                let product = self.multiply(id, pairs);
                self.runs[index].action = Some(UnitAction::Apply(product));
            }
            Some(UnitAction::Apply(gradient)) => return self.try_apply(index, gradient),
            Some(UnitAction::Store(values)) if self.applied[id] == step => {
                self.store(id, values);
                self.runs.remove(index);
                self.finish_unit(id, step);
            }
            other => {
                run.action = other;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn start(&mut self, step: u64, unit: UnitId, stage: SyncStage, op: CollectiveOp) {
        let id = CollectiveId { step, source: CollectiveSource::Unit(unit) };
        self.effects.push_back(SyncEffect::Start { id, channel: SyncChannel::Stage(stage), op });
    }

    fn context(&self, id: UnitId, step: u64) -> UnitContext<'_> {
        let unit = &self.plan.units[id];
        UnitContext { unit, piece: &self.plan.pieces[unit.pieces[0]], step, rank: self.rank, peers: self.plan.peers }
    }

    fn complete_unit_collective(&mut self, step: u64, id: UnitId, output: CollectiveOutput) -> Result<()> {
        let output = match output {
            CollectiveOutput::Compressed(compressor, sum) => {
                self.compressors[id] = Some(compressor);
                CollectiveOutput::Elements(sum)
            }
            other => other,
        };
        let Self { plan, runs, rank, .. } = self;
        let run = runs.iter_mut().find(|run| (run.step, run.unit) == (step, id) && run.action.is_none());
        let problem = "a collective completed that is not in flight";
        let run = run.ok_or(Error::Driver { step: step + 1, problem })?;
        let unit = &plan.units[id];
        let context = UnitContext { unit, piece: &plan.pieces[unit.pieces[0]], step, rank: *rank, peers: plan.peers };
        run.action = Some(run.sync.on_output(context, output)?);
        Ok(())
    }

    /// Stores the values with which a unit ends.
    pub(crate) fn store(&mut self, id: UnitId, values: NewValues) {
        let plan = &self.plan;
        let unit = &plan.units[id];
        match values {
            NewValues::Updated => {}
            NewValues::Dense(values) => {
                let mut start = 0;
                for piece in &unit.pieces {
                    let end = start + plan.pieces[*piece].layout.len();
                    self.values[*piece].copy_from_slice(&values[start..end]);
                    start = end;
                }
            }
            NewValues::Rows(blocks, lengths) => {
                let (piece, longest) = (unit.pieces[0], blocks.len() / plan.peers);
                let width = plan.pieces[piece].width;
                for (from, length) in lengths.iter().enumerate() {
                    put_rows(&blocks[from * longest..from * longest + length], &mut self.values[piece], width);
                }
            }
        }
    }

    /// Completes a unit: publishes the variables whose pieces all have their new values.
    pub(crate) fn finish_unit(&mut self, id: UnitId, step: u64) {
        let plan = self.plan.clone();
        let unit = &plan.units[id];
        self.applied[id] = step + 1;
        let progress = self.steps.get_mut(&step).expect("a step is kept until its units are done");
        for piece in &unit.pieces {
            progress.updated_pieces[plan.pieces[*piece].variable] += 1;
        }
        progress.finished_units += 1;
        let updated = |variable: &&VariableId| progress.updated_pieces[**variable] == plan.shard_counts[**variable];
        let complete: Vec<VariableId> = unit.variables.iter().filter(updated).copied().collect();
        for variable in complete {
            let values = self.values_of(variable);
            self.effects.push_back(SyncEffect::Publish { variable, values, version: step + 1 });
        }
        self.effects.push_back(SyncEffect::UnitFinished { step, unit: id });
        self.retire_step(step);
    }

    /// Assembles the values of a variable from its pieces.
    pub(crate) fn values_of(&self, variable: VariableId) -> Vec<f32> {
        let mut own = self.plan.pieces.iter().zip(&self.values).filter(|(piece, _)| piece.variable == variable);
        if self.plan.shard_counts[variable] == 1 {
            return own.next().map(|(_, values)| values.clone()).unwrap_or_default();
        }
        let mut whole = vec![0.0; self.plan.model.variables[variable].elements() as usize];
        own.for_each(|(piece, values)| piece.layout.scatter(values, &mut whole));
        whole
    }

    /// Forgets a step with all its units complete. A peer that updates nothing may have all values
    /// before it knows the totals to which it contributed: examples and, with norm clipping, the
    /// norm.
    pub(crate) fn retire_step(&mut self, step: u64) {
        let norms = matches!(self.clip, Some(GradientClip::Norm(_)));
        let complete = self.steps.get(&step).is_some_and(|progress| {
            progress.finished_units == self.plan.units.len()
                && progress.total.is_some()
                && (!norms || matches!(progress.norm, NormState::Scale(_)))
        });
        if complete {
            self.steps.remove(&step);
        }
    }
}

impl<K: UpdateKernel> fmt::Debug for SyncNode<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SyncNode")
            .field("rank", &self.rank)
            .field("steps", &self.steps.keys())
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}
