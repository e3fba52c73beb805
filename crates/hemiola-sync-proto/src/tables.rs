//! Units in tables: updates, replies and newest values of a node's chunks.
//!
//! | event | table |
//! |---|---|
//! | all gradients of the unit are ready | update, end of the clock, request |
//! | the reply has arrived | values of the unit; the unit ends |
//!
//! These units take no turn in any [stage](crate::stage): no peer waits for another one except in
//! the server, as the consistency model says. The number of examples travels with each update, so a
//! plan without collectives has no sum over all peers. **Invariant:** updates of a chunk are sent
//! in the order of steps.

use crate::clip::GradientClip;
use crate::effect::SyncEffect;
use crate::error::{Error, Result};
use crate::ids::{PieceId, VariableId};
use crate::kernel::UpdateKernel;
use crate::plan::{SyncMethod, SyncPlan};
use crate::sync_node::SyncNode;
use crate::table_chunk::{ChunkRequest, TableChunk};
use crate::table_row::UpdateHeader;
use crate::table_rule::ChunkRule;
use crate::unit_protocol::NewValues;
use hemiola_core::Rank;
use hemiola_tables_proto::TableMessage;

/// Creates the chunks of a peer. The states of pieces in its shards move into their rules.
pub(crate) fn chunks_of<K: UpdateKernel>(
    plan: &SyncPlan,
    rank: Rank,
    (kernel, clip): (&K, Option<GradientClip>),
    (values, states): (&[Vec<f32>], &mut [K::State]),
    step: u64,
) -> Result<Vec<TableChunk>> {
    if let (Some(GradientClip::Norm(_)), Some(chunk)) = (clip, plan.tables.first()) {
        let name = &plan.model.variables[plan.units[chunk.unit].variables[0]].name;
        let feature = format!("clipping by norm with `{name}` in a table");
        let reason = "a server applies updates before the norm of all gradients is known; clip by value, or synchronize by collectives".to_owned();
        return Err(Error::Unsupported { feature, reason });
    }
    let chunk = |chunk: &crate::plan::TableChunkPlan| {
        let unit = &plan.units[chunk.unit];
        let SyncMethod::Table { owner, consistency } = unit.method else {
            unreachable!("a chunk is a unit in a table")
        };
        let (mut initial, mut own) = (Vec::new(), Vec::new());
        if owner == rank {
            for piece in &unit.pieces {
                initial.extend_from_slice(&values[*piece]);
                own.push(std::mem::take(&mut states[piece.index()]));
            }
        }
        let rule = ChunkRule::new(plan, unit, (owner, consistency), (kernel.clone(), clip), (initial, own));
        TableChunk::new(chunk, rank, rule, step)
    };
    plan.tables.iter().map(chunk).collect()
}

impl<K: UpdateKernel> SyncNode<K> {
    /// Event: a table message of another peer has arrived. [`SyncPlan::decode_table_message`] reads
    /// it from bytes.
    pub fn receive_table(&mut self, message: TableMessage<f32>) -> Result<()> {
        let (TableMessage::ToShard { shard, .. } | TableMessage::ToClient { shard, .. }) = &message else {
            return Ok(());
        };
        let problem = "a table message names a chunk that does not exist";
        let chunk = self.chunks.get_mut(shard.index()).ok_or(Error::Driver { step: 0, problem })?;
        chunk.receive(message, &mut self.effects)
    }

    /// Event: the newest values of all tables are wanted, after all steps are complete. They are
    /// published when they have arrived. A peer that does not train gets none.
    pub fn refresh_tables(&mut self) -> Result<()> {
        if !self.plan.trains(self.rank) {
            return Ok(());
        }
        let Self { chunks, effects, .. } = self;
        chunks.iter_mut().try_for_each(|chunk| chunk.refresh(effects))
    }

    /// Event: this peer trains no further step. Its shards still serve the other peers until
    /// [`tables_are_served`](Self::tables_are_served).
    pub fn finish_tables(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.tables_finished, true) {
            return Ok(());
        }
        let Self { chunks, effects, .. } = self;
        chunks.iter_mut().try_for_each(|chunk| chunk.finish(effects))
    }

    /// Tells whether all peers have finished with the shards of this peer.
    #[must_use]
    pub fn tables_are_served(&self) -> bool {
        self.chunks.iter().all(TableChunk::is_served)
    }

    /// Sends the next gradient of a chunk that is ready; returns whether there was one.
    pub(crate) fn start_next_chunk(&mut self) -> Result<bool> {
        for index in 0..self.chunks.len() {
            let id = self.plan.tables[index].unit;
            let step = self.applied[id];
            let unit = &self.plan.units[id];
            let Some(progress) = self.steps.get_mut(&step) else { continue };
            if self.chunks[index].in_flight().is_some() || !progress.has_gradients(unit) {
                continue;
            }
            if !self.plan.trains(self.rank) {
                drop(progress.take_dense(unit, &self.plan));
                self.finish_unit(id, step);
                return Ok(true);
            }
            let mut gradient = progress.take_dense(unit, &self.plan);
            let header = UpdateHeader { examples: progress.examples, rate: progress.rate, from: self.rank };
            self.add_carried(id, &mut gradient);
            self.check_finite(id, step, &gradient)?;
            self.effects.push_back(SyncEffect::UnitStarted { step, unit: id });
            self.chunks[index].update(step, header, &gradient, &mut self.effects)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes the values of a chunk whose reply has arrived; returns whether there was one.
    pub(crate) fn finish_next_chunk(&mut self) -> Result<bool> {
        for index in 0..self.chunks.len() {
            let Some((request, values)) = self.chunks[index].take_reply()? else { continue };
            let id = self.plan.tables[index].unit;
            self.store(id, NewValues::Dense(values));
            match request {
                ChunkRequest::Step(step) => self.finish_unit(id, step),
                ChunkRequest::Refresh => self.publish_refreshed(),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Publishes the newest values of all variables in tables, once all chunks have theirs.
    fn publish_refreshed(&mut self) {
        if self.chunks.iter().any(|chunk| chunk.in_flight().is_some()) {
            return;
        }
        let plan = self.plan.clone();
        let mut variables: Vec<(VariableId, u64)> = Vec::new();
        for chunk in &plan.tables {
            let version = self.applied[chunk.unit];
            variables.extend(plan.units[chunk.unit].variables.iter().map(|variable| (*variable, version)));
        }
        variables.sort_unstable();
        variables.dedup_by_key(|(variable, _)| *variable);
        for (variable, version) in variables {
            let values = self.values_of(variable);
            self.effects.push_back(SyncEffect::Publish { variable, values, version });
        }
    }

    /// Copies the optimizer states of the shards of this peer to their pieces.
    pub(crate) fn chunk_states(&self) -> Vec<(PieceId, K::State)> {
        let of_chunk = |(index, chunk): (usize, &TableChunk)| {
            let pieces = self.plan.units[self.plan.tables[index].unit].pieces.clone();
            pieces.into_iter().zip(chunk.states::<K>().unwrap_or_default())
        };
        self.chunks.iter().enumerate().flat_map(of_chunk).collect()
    }
}
