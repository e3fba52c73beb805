//! A parallel loop over blocks: parts wait for time blocks at the right stage, run them and send
//! them on, as in `hemiola-loops`. Each peer drives the [`RotationNode`] of its parts; a pass of
//! the loop is a rotation of the node.
//!
//! A pass ends when all parts of a peer have run their blocks and its time blocks have arrived. The
//! next pass starts after [`LoopSetup::barriers`] barriers: a loop agrees on its plan, on its
//! outcome and on its accumulators. Blocks of a later pass are kept by the node.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_core::{Lane, Rank};
use hemiola_loops::plan::route::BlockRoute;
use hemiola_loops::plan::{Cuts, LoopBlock};
use hemiola_schedule::plan::rotation_node::{BlockDeparture, RotationNode};
use std::sync::Arc;

/// Loop body: block, pass, values of the part, values of the time block.
pub type LoopBody = Arc<dyn Fn(LoopBlock, usize, &mut [f64], &mut [f64]) + Send + Sync>;

/// Settings of a loop.
#[derive(Clone)]
pub struct LoopSetup {
    /// Partition of the iteration space, and its schedule.
    pub cuts: Cuts,
    /// Number of passes over the loop.
    pub passes: usize,
    /// Number of values of a part.
    pub part_values: usize,
    /// Number of values of a time block.
    pub time_values: usize,
    /// Message sizes of each time block in bytes: one message for each array and a last one.
    /// Default: one message with all values.
    pub message_bytes: Option<Arc<Vec<Vec<usize>>>>,
    /// Number of barriers before each pass.
    pub barriers: usize,
    /// Duration of a block.
    pub work: Arc<dyn Fn(LoopBlock) -> SimDuration + Send + Sync>,
    /// Computation of a block.
    pub body: LoopBody,
    /// Injected fault: time blocks are sent on before they have run.
    pub send_before_run: bool,
}

impl std::fmt::Debug for LoopSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LoopSetup")
            .field("cuts", &self.cuts)
            .field("passes", &self.passes)
            .finish_non_exhaustive()
    }
}

/// Message between the peers of a loop.
#[derive(Clone, Debug, PartialEq)]
pub enum LoopActorMessage {
    /// Last message of a time block, with its contents: pass, index, values.
    Block(u64, usize, Vec<f64>),
    /// Earlier message of a time block; only its size matters.
    Piece,
    /// To peer 0: the sender has reached the barrier.
    BarrierArrived,
    /// From peer 0: all peers have reached the barrier.
    BarrierReleased,
}

/// Size of a barrier message in bytes.
const CONTROL_BYTES: usize = 16 + FRAME;

/// A worker with its part.
#[derive(Debug)]
struct LoopPart {
    number: usize,
    values: Vec<f64>,
    /// Block that runs, with the values of its time block.
    running: Option<(LoopBlock, Vec<f64>)>,
}

/// A peer of a loop.
#[derive(Debug)]
pub struct LoopActor {
    setup: LoopSetup,
    me: Rank,
    peers: usize,
    route: BlockRoute,
    node: RotationNode<Vec<f64>>,
    parts: Vec<LoopPart>,
    /// Remaining barriers before this pass.
    barriers_left: usize,
    /// Arrivals at the current barrier; on peer 0 only.
    arrived: usize,
    done: bool,
}

impl LoopActor {
    /// Creates one of the peers.
    #[must_use]
    pub fn new(me: Rank, peers: usize, setup: LoopSetup) -> Self {
        let route = BlockRoute::new(&setup.cuts, me);
        let part = |number: usize| LoopPart { number, values: initial(number, setup.part_values), running: None };
        let segment = route.segment().clone();
        let home = segment.home_blocks().map(|time| initial(1000 + time, setup.time_values));
        let node = RotationNode::new(segment, home);
        let parts = route.parts().map(part).collect();
        let mut new = Self { setup, me, peers, route, node, parts, barriers_left: 0, arrived: 0, done: false };
        new.barriers_left = new.barriers_before_pass();
        new
    }

    /// Values of the parts of this peer.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.parts.iter().map(|part| (part.number, &part.values[..]))
    }

    /// Values of the time blocks that are on this peer.
    pub fn times(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.node.blocks().map(|(time, values)| (time, &values[..]))
    }

    fn barriers_before_pass(&self) -> usize {
        if self.peers > 1 { self.setup.barriers } else { 0 }
    }

    /// Arrives at the next barrier, or starts the pass if none is left.
    fn arrive_at_barrier(&mut self, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        if self.barriers_left == 0 {
            return self.make_progress(context);
        }
        for worker in 0..self.parts.len() {
            context.begin_wait(worker, "waits at a barrier");
        }
        if self.me == Rank::ROOT {
            return self.count_arrival(context);
        }
        context.send(Rank::ROOT, Lane::Control, CONTROL_BYTES, LoopActorMessage::BarrierArrived);
        Ok(())
    }

    /// Counts an arrival on peer 0, and releases the barrier when all have arrived.
    fn count_arrival(&mut self, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        self.arrived += 1;
        if self.arrived < self.peers {
            return Ok(());
        }
        self.arrived = 0;
        for peer in Rank::all(self.peers).filter(|peer| *peer != Rank::ROOT) {
            context.send(peer, Lane::Control, CONTROL_BYTES, LoopActorMessage::BarrierReleased);
        }
        self.leave_barrier(context)
    }

    /// Leaves a barrier and arrives at the next one.
    fn leave_barrier(&mut self, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        self.barriers_left = self.barriers_left.checked_sub(1).ok_or("unexpected release of a barrier")?;
        self.arrive_at_barrier(context)
    }

    fn make_progress(&mut self, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        loop {
            for worker in 0..self.parts.len() {
                self.try_part(worker, context);
            }
            if !self.node.has_run_all() {
                break;
            }
            let workers = 0..self.parts.len();
            if !self.node.is_done() {
                workers.for_each(|worker| context.begin_wait(worker, "waits for the last blocks"));
                break;
            }
            if self.node.rotation() as usize + 1 == self.setup.passes {
                workers.for_each(|worker| context.end_wait(worker));
                self.done = true;
                break;
            }
            self.node.begin_rotation().map_err(|error| error.to_string())?;
            self.barriers_left = self.barriers_before_pass();
            if self.barriers_left > 0 {
                return self.arrive_at_barrier(context);
            }
        }
        Ok(())
    }

    /// Starts the next block of a part, if its time block is here.
    fn try_part(&mut self, worker: usize, context: &mut ActorContext<'_, LoopActorMessage>) {
        let part = &mut self.parts[worker];
        if self.node.next_visit(part.number).is_none() {
            return;
        }
        let Some((visit, values)) = self.node.start_block(part.number) else {
            context.begin_wait(worker, "waits for a block");
            return;
        };
        context.end_wait(worker);
        let segment = self.node.segment();
        if self.setup.send_before_run && segment.leaves_after(part.number) {
            let (to, rotation, content) = (segment.destination(), self.node.rotation(), values.clone());
            send(&self.setup, BlockDeparture { to, rotation, block: visit.block, content }, context);
        }
        let block = self.route.loop_block(part.number, visit);
        part.running = Some((block, values));
        context.compute(worker, "runs a block", (self.setup.work)(block), worker as u64);
    }
}

/// Sends a time block to the next peer.
fn send(
    setup: &LoopSetup,
    BlockDeparture { to, rotation: pass, block: time, content: values }: BlockDeparture<Vec<f64>>,
    context: &mut ActorContext<'_, LoopActorMessage>,
) {
    let to = setup.cuts.owner(to);
    let Some(bytes) = &setup.message_bytes else {
        context.send(to, Lane::Bulk, 8 * values.len() + 24 + FRAME, LoopActorMessage::Block(pass, time, values));
        return;
    };
    let (last, pieces) = bytes[time].split_last().map_or((0, &[][..]), |(last, pieces)| (*last, pieces));
    for piece in pieces {
        context.send(to, Lane::Bulk, piece + FRAME, LoopActorMessage::Piece);
    }
    context.send(to, Lane::Bulk, last + FRAME, LoopActorMessage::Block(pass, time, values));
}

/// Initial values of a part or time block.
fn initial(number: usize, length: usize) -> Vec<f64> {
    (0..length).map(|at| 1.0 / (1.0 + number as f64 + 0.1 * at as f64)).collect()
}

/// Runs all passes serially in the given order of blocks. Returns the values of parts and time
/// blocks that the simulated loop must have.
#[must_use]
pub fn run_serially(setup: &LoopSetup, order: &[LoopBlock]) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let mut parts: Vec<Vec<f64>> = (0..setup.cuts.parts()).map(|part| initial(part, setup.part_values)).collect();
    let mut times: Vec<Vec<f64>> =
        (0..setup.cuts.times()).map(|time| initial(1000 + time, setup.time_values)).collect();
    for pass in 0..setup.passes {
        for block in order {
            (setup.body)(*block, pass, &mut parts[block.part], &mut times[block.time]);
        }
    }
    (parts, times)
}

impl Actor for LoopActor {
    type Message = LoopActorMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        self.arrive_at_barrier(context)
    }

    fn on_message(
        &mut self,
        _: Rank,
        message: LoopActorMessage,
        context: &mut ActorContext<'_, LoopActorMessage>,
    ) -> ActorResult {
        match message {
            LoopActorMessage::Block(pass, time, values) => {
                self.node.on_block(pass, time, values).map_err(|error| error.to_string())?;
                if self.barriers_left == 0 { self.make_progress(context) } else { Ok(()) }
            }
            LoopActorMessage::Piece => Ok(()),
            LoopActorMessage::BarrierArrived => self.count_arrival(context),
            LoopActorMessage::BarrierReleased => self.leave_barrier(context),
        }
    }

    fn on_timer(&mut self, worker: u64, context: &mut ActorContext<'_, LoopActorMessage>) -> ActorResult {
        let part = &mut self.parts[worker as usize];
        let (block, mut time) = part.running.take().ok_or("no block is running")?;
        (self.setup.body)(block, self.node.rotation() as usize, &mut part.values, &mut time);
        let departure = self.node.finish_block(part.number, time);
        if let Some(departure) = departure.filter(|_| !self.setup.send_before_run) {
            send(&self.setup, departure, context);
        }
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let (mut waits, pass) = (Vec::new(), self.node.rotation());
        if self.barriers_left > 0 && !self.done {
            let others = Rank::all(self.peers).filter(|peer| (*peer == Rank::ROOT) != (self.me == Rank::ROOT));
            waits.push(PendingWait::new("driver", format!("a barrier before pass {pass}"), others.collect()));
            return waits;
        }
        for part in &self.parts {
            if let Some(visit) = self.node.next_visit(part.number) {
                let what = format!("time block {} at stage {} in pass {pass}", visit.block, visit.stage);
                waits.push(PendingWait::new(format!("part {}", part.number), what, vec![self.route.sender()]));
            }
        }
        waits
    }
}
