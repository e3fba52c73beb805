//! Update rule of a chunk in a table: the framework's optimizer at the server.
//!
//! Under SSP and asynchronous consistency, each gradient is one update, scaled by its own number of
//! examples, when it arrives. Under BSP the rule keeps the gradients of a clock until it has those
//! of all peers. It then sums them in the order of a reduce to the server (a binomial tree of ranks
//! relative to it) and applies one update, scaled by all examples. **Invariant:** a BSP table gives
//! the bits of reduce and broadcast.
//!
//! The rule keeps the optimizer states; the node reads them for checkpoints.

use crate::apply::{PieceView, update_piece};
use crate::clip::{GradientClip, clip_values};
use crate::kernel::UpdateKernel;
use crate::plan::{SyncPlan, SyncUnit, VariablePiece};
use crate::table_row::{HEADER_CELLS, UpdateHeader};
use hemiola_core::Rank;
use hemiola_strategy::TableConsistency;
use hemiola_tables_proto::UpdateRule;
use hemiola_tables_proto::update_rule::{LocalApply, RowUpdate, UnknownVersion};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;

/// Update rule of one chunk.
pub(crate) struct ChunkRule<K: UpdateKernel> {
    kernel: K,
    clip: Option<GradientClip>,
    consistency: TableConsistency,
    /// Peers in the order of a reduce to the server, which is the first. A server that does not
    /// train sends no gradient.
    order: Vec<Rank>,
    /// Number of peers that train.
    replicas: usize,
    pieces: Vec<VariablePiece>,
    /// The table passes a shared reference to the rule.
    state: RefCell<RuleState<K::State>>,
}

/// State of a rule that updates change.
struct RuleState<S> {
    /// Values before the first update; empty after the row was created.
    initial: Vec<f32>,
    /// Optimizer state of each piece.
    states: Vec<S>,
    /// Under BSP: gradients of the current clock with their headers, in the order of the sum.
    round: Vec<Option<(UpdateHeader, Vec<f32>)>>,
}

impl<K: UpdateKernel> ChunkRule<K> {
    /// Creates the rule of a unit with its first values and states, by piece of the unit.
    pub(crate) fn new(
        plan: &SyncPlan,
        unit: &SyncUnit,
        (owner, consistency): (Rank, TableConsistency),
        (kernel, clip): (K, Option<GradientClip>),
        (initial, states): (Vec<f32>, Vec<K::State>),
    ) -> Self {
        let pieces = unit.pieces.iter().map(|piece| plan.pieces[*piece].clone()).collect();
        let mut order = plan.replicas.clone();
        order.sort_unstable();
        match order.iter().position(|rank| *rank == owner) {
            Some(first) => order.rotate_left(first),
            None => order.insert(0, owner),
        }
        let round = order.iter().map(|_| None).collect();
        let state = RefCell::new(RuleState { initial, states, round });
        Self { kernel, clip, consistency, order, replicas: plan.replicas.len(), pieces, state }
    }

    /// Optimizer states of the pieces of the unit, in order.
    pub(crate) fn states(&self) -> Vec<K::State> {
        self.state.borrow().states.clone()
    }

    /// Applies one update to all pieces.
    fn update(&self, header: UpdateHeader, gradient: &mut [f32], values: &mut [f32], states: &mut [K::State]) {
        if header.examples == 0 {
            // No example, no update: moments and counts of updates stay as they are.
            return;
        }
        let scale = 1.0 / header.examples as f64;
        clip_values(gradient, self.clip, scale);
        let (mut gradient, mut values) = (gradient, values);
        for (piece, state) in self.pieces.iter().zip(states) {
            let (own_gradient, other_gradients) = gradient.split_at_mut(piece.layout.len());
            let (own_values, other_values) = values.split_at_mut(piece.layout.len());
            let view = PieceView { piece, values: own_values, gradient: own_gradient, state };
            update_piece(&self.kernel, view, header.rate, scale as f32);
            (gradient, values) = (other_gradients, other_values);
        }
    }

    /// Sums the gradients of all peers in the order of a reduce to the owner. The headers are
    /// merged: examples are summed, and the rate is that of the first peer.
    fn sum(round: &mut [Option<(UpdateHeader, Vec<f32>)>]) -> Option<(UpdateHeader, Vec<f32>)> {
        let (count, mut distance) = (round.len(), 1);
        while distance < count {
            for low in (0..count - distance).step_by(2 * distance) {
                let (head, tail) = round.split_at_mut(low + distance);
                if head[low].is_none() {
                    // A server that does not train adds nothing.
                    head[low] = tail[0].take();
                } else if let (Some((header, sum)), Some((other, numbers))) = (&mut head[low], &tail[0]) {
                    header.examples += other.examples;
                    sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
                }
            }
            distance *= 2;
        }
        let sum = round[0].take();
        round.fill_with(|| None);
        sum
    }
}

impl<K: UpdateKernel> UpdateRule<f32> for ChunkRule<K> {
    fn local_apply(&self) -> LocalApply<f32> {
        LocalApply::Never
    }

    fn init_row(&self, _key: u64, row: &mut [f32], _state: &mut [f32]) {
        let initial = std::mem::take(&mut self.state.borrow_mut().initial);
        row[HEADER_CELLS..].copy_from_slice(&initial);
    }

    fn apply(&self, update: &RowUpdate<'_, f32>, row: &mut [f32], _state: &mut [f32]) -> Result<(), UnknownVersion> {
        let cells = update.cells.values();
        let (header, gradient) = (UpdateHeader::of(cells), cells[HEADER_CELLS..].to_vec());
        let state = &mut *self.state.borrow_mut();
        let complete = if self.consistency == TableConsistency::Bsp {
            let Some(place) = self.order.iter().position(|rank| *rank == header.from) else {
                return Err(UnknownVersion);
            };
            state.round[place] = Some((header, gradient));
            if state.round.iter().flatten().count() < self.replicas {
                return Ok(());
            }
            Self::sum(&mut state.round)
        } else {
            Some((header, gradient))
        };
        if let Some((header, mut gradient)) = complete {
            self.update(header, &mut gradient, &mut row[HEADER_CELLS..], &mut state.states);
        }
        Ok(())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<K: UpdateKernel> fmt::Debug for ChunkRule<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChunkRule")
            .field("consistency", &self.consistency)
            .field("pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}
