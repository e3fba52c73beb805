//! Rotation of model blocks around a ring of workers. Each peer drives the [`RotationNode`] of one
//! ring position: it runs the blocks that arrive and passes them on.
//!
//! With a barrier, no position starts the blocks of a stage before all positions have finished
//! those of the last one. A rotation avoids exactly this; the barrier exists for comparison.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_core::{Lane, Moment, Rank};
use hemiola_schedule::plan::ring::{Ring, RingDirection};
use hemiola_schedule::plan::ring_segment::RingSegment;
use hemiola_schedule::plan::rotation_node::{BlockDeparture, RotationNode};
use std::sync::Arc;

/// Computation of a visit: position, rotation, values of the block.
pub type BlockVisit = fn(position: usize, rotation: u64, values: &mut [f64]);

/// Duration of a visit: position, home of the block, number of the block.
pub type VisitDuration = Arc<dyn Fn(usize, usize, usize) -> SimDuration + Send + Sync>;

/// Message between the positions of a ring.
#[derive(Clone, Debug)]
pub enum RotationMessage {
    /// A block with its rotation.
    Block {
        /// Rotation that the block is in.
        rotation: u64,
        /// Number of the block.
        block: usize,
        /// Values that every visit changes.
        values: Vec<f64>,
    },
    /// Number of barriers that the sender has reached; from position 0, that all have reached.
    Barrier(usize),
}

/// Settings of a rotation.
#[derive(Clone)]
pub struct RotationSetup {
    /// Number of blocks of each position.
    pub blocks: Vec<usize>,
    /// Direction in which blocks travel.
    pub direction: RingDirection,
    /// Number of values of a block.
    pub length: usize,
    /// Number of rotations to run.
    pub rotations: u64,
    /// Duration of a visit.
    pub work: VisitDuration,
    /// Adds a barrier after each stage.
    pub barrier: bool,
    /// Wire size of a value in bytes: 8, or more if the values stand for a larger model.
    pub value_bytes: usize,
    /// Computation of a visit.
    pub visit: BlockVisit,
    /// Injected fault: passes a block on only after the next one.
    pub pass_out_of_order: bool,
}

impl RotationSetup {
    /// Ring of all positions.
    #[must_use]
    pub fn ring(&self) -> Ring {
        Ring::new(self.direction, self.blocks.iter().copied())
    }
}

/// A position of the ring.
#[derive(Debug)]
pub struct RotationActor {
    setup: RotationSetup,
    position: usize,
    node: RotationNode<Vec<f64>>,
    /// Block that runs, with its values.
    running: Option<(usize, Vec<f64>)>,
    /// Executed blocks in order: rotation, block.
    ran: Vec<(u64, usize)>,
    /// End time of each rotation.
    ends: Vec<Moment>,
    /// Last barrier that each position has reached; complete on position 0 only.
    arrivals: Vec<usize>,
    /// Last barrier that all positions have reached.
    released: usize,
    /// Block that is passed on late, by the injected fault.
    delayed: Option<BlockDeparture<Vec<f64>>>,
}

impl std::fmt::Debug for RotationSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RotationSetup").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

/// Initial values of a block: the block at `index` among those of its home.
#[must_use]
pub fn initial_values(home: usize, index: usize, length: usize) -> Vec<f64> {
    (0..length).map(|at| 1.0 + (home * 31 + index * 7 + at) as f64).collect()
}

impl RotationActor {
    /// Creates one of the positions.
    #[must_use]
    pub fn new(me: Rank, setup: RotationSetup) -> Self {
        let position = me.index();
        let segment = RingSegment::new(Arc::new(setup.ring()), position..position + 1);
        let home = (0..setup.blocks[position]).map(|index| initial_values(position, index, setup.length));
        let node = RotationNode::new(segment, home);
        let arrivals = vec![0; setup.blocks.len()];
        let (ran, ends) = (Vec::new(), Vec::new());
        Self { setup, position, node, running: None, ran, ends, arrivals, released: 0, delayed: None }
    }

    /// Blocks that are at this position, with their numbers.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.node.blocks().map(|(block, values)| (block, &values[..]))
    }

    /// Executed blocks in order: rotation, block.
    #[must_use]
    pub fn ran(&self) -> &[(u64, usize)] {
        &self.ran
    }

    /// End time of each rotation at this position.
    #[must_use]
    pub fn rotation_ends(&self) -> &[Moment] {
        &self.ends
    }

    /// Reports the stage that this position is at, and returns whether all positions have come as
    /// far.
    fn may_begin(&mut self, context: &mut ActorContext<'_, RotationMessage>) -> bool {
        let size = self.setup.blocks.len();
        let stage = self.node.next_visit(self.position).map_or(size, |visit| visit.stage);
        let barrier = self.node.rotation() as usize * size + stage;
        self.arrive_at_barrier(barrier, context);
        self.released >= barrier
    }

    /// Reports the arrival at a barrier, once.
    fn arrive_at_barrier(&mut self, barrier: usize, context: &mut ActorContext<'_, RotationMessage>) {
        if !self.setup.barrier || self.arrivals[self.position] >= barrier {
            return;
        }
        self.arrivals[self.position] = barrier;
        if self.position == 0 {
            self.announce_barrier(context);
        } else {
            context.send(Rank::ROOT, Lane::Control, 8 + FRAME, RotationMessage::Barrier(barrier));
        }
    }

    /// At position 0: releases the barriers that all positions have reached.
    fn announce_barrier(&mut self, context: &mut ActorContext<'_, RotationMessage>) {
        let least = self.arrivals.iter().copied().min().unwrap_or(0);
        if self.position == 0 && least > self.released {
            self.released = least;
            for to in Rank::all(self.arrivals.len()).skip(1) {
                context.send(to, Lane::Control, 8 + FRAME, RotationMessage::Barrier(least));
            }
        }
    }

    fn make_progress(&mut self, context: &mut ActorContext<'_, RotationMessage>) -> ActorResult {
        while self.running.is_none() {
            if self.node.is_done() && self.node.rotation() + 1 < self.setup.rotations {
                self.node.begin_rotation().map_err(|error| error.to_string())?;
                continue;
            }
            if self.setup.barrier && !self.may_begin(context) {
                break;
            }
            let Some((visit, values)) = self.node.start_block(self.position) else { break };
            context.end_wait(0);
            let home = self.node.segment().ring().home_of(visit.block);
            self.running = Some((visit.block, values));
            context.compute(0, "runs a block", (self.setup.work)(self.position, home, visit.block), 0);
        }
        if self.is_done() {
            // Other positions may have blocks left.
            self.arrive_at_barrier(usize::MAX, context);
        } else if self.running.is_none() {
            context.begin_wait(0, "waits for a block");
        }
        Ok(())
    }

    /// Sends a block to the next position.
    fn pass_on(&mut self, departure: BlockDeparture<Vec<f64>>, context: &mut ActorContext<'_, RotationMessage>) {
        if self.setup.pass_out_of_order && self.delayed.is_none() && self.node.can_start(self.position) {
            self.delayed = Some(departure);
            return;
        }
        for BlockDeparture { to, rotation, block, content: values } in
            std::iter::once(departure).chain(self.delayed.take())
        {
            let bytes = self.setup.value_bytes * values.len() + 32 + FRAME;
            let message = RotationMessage::Block { rotation, block, values };
            context.send(Rank::new(to as u32), Lane::Bulk, bytes, message);
        }
    }
}

impl Actor for RotationActor {
    type Message = RotationMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, RotationMessage>) -> ActorResult {
        self.make_progress(context)
    }

    fn on_message(
        &mut self,
        from: Rank,
        message: RotationMessage,
        context: &mut ActorContext<'_, RotationMessage>,
    ) -> ActorResult {
        match message {
            RotationMessage::Block { rotation, block, values } => {
                self.node.on_block(rotation, block, values).map_err(|error| error.to_string())?;
            }
            RotationMessage::Barrier(barrier) if self.position == 0 => {
                self.arrivals[from.index()] = barrier;
                self.announce_barrier(context);
            }
            RotationMessage::Barrier(barrier) => self.released = barrier,
        }
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, RotationMessage>) -> ActorResult {
        let (block, mut values) = self.running.take().ok_or("no block is running")?;
        (self.setup.visit)(self.position, self.node.rotation(), &mut values);
        self.ran.push((self.node.rotation(), block));
        if let Some(departure) = self.node.finish_block(self.position, values) {
            self.pass_on(departure, context);
        }
        if self.node.has_run_all() {
            self.ends.push(context.now());
        }
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.node.is_done() && self.node.rotation() + 1 == self.setup.rotations
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        if self.is_done() || self.running.is_some() {
            return Vec::new();
        }
        let source = Rank::new(self.node.segment().source() as u32);
        let what = self.node.inbox().expected_block().to_string();
        vec![PendingWait::new(format!("position {}", self.position), what, vec![source])]
    }
}
