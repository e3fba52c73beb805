//! Rotation of model blocks around a ring of workers. Each peer is a seat: it runs the blocks that
//! arrive and passes them on.
//!
//! With a barrier, no seat starts the blocks of the next home before all seats have finished those
//! of the last one. A rotation avoids exactly this; the barrier exists for comparison.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_core::{Lane, Moment, Rank};
use hemiola_schedule::plan::ring::{BlockTransfer, ExpectedBlock, RingPosition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block of the model in rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct RingBlock {
    /// Seat that owns the block.
    pub home: usize,
    /// Index among the blocks of its home.
    pub number: usize,
    /// Values that every visit changes.
    pub values: Vec<f64>,
}

/// Computation of a visit: seat, rotation, block.
pub type BlockVisit = fn(seat: usize, rotation: usize, block: &mut RingBlock);

/// Duration of a visit: seat, home and index of the block.
pub type VisitDuration = Arc<dyn Fn(usize, usize, usize) -> SimDuration + Send + Sync>;

/// Message between the seats of a ring.
#[derive(Clone, Debug)]
pub enum RotationMessage {
    /// A block with its rotation.
    Block(usize, RingBlock),
    /// Number of barriers that the sender has reached; from seat 0, that all have reached.
    Barrier(usize),
}

/// Settings of a rotation.
#[derive(Clone)]
pub struct RotationSetup {
    /// Number of blocks of each seat.
    pub blocks: Vec<usize>,
    /// Number of values of a block.
    pub length: usize,
    /// Number of rotations to run.
    pub rotations: usize,
    /// Duration of a visit.
    pub work: VisitDuration,
    /// Adds a barrier after the blocks of each home.
    pub barrier: bool,
    /// Wire size of a value in bytes: 8, or more if the values stand for a larger model.
    pub value_bytes: usize,
    /// Computation of a visit.
    pub visit: BlockVisit,
    /// Injected fault: runs any block that has arrived instead of the next in order.
    pub run_out_of_order: bool,
}

/// A seat of the ring.
#[derive(Debug)]
pub struct RotationActor {
    setup: RotationSetup,
    me: usize,
    seat: RingPosition,
    rotation: usize,
    /// Blocks on this seat, by home and index.
    here: BTreeMap<(usize, usize), RingBlock>,
    /// Blocks of the next rotation, from a seat that is ahead.
    early: Vec<RingBlock>,
    running: Option<(usize, usize)>,
    /// Executed blocks in order: rotation, home, index.
    ran: Vec<(usize, usize, usize)>,
    /// End time of each rotation.
    ends: Vec<Moment>,
    /// Last barrier that each seat has reached; complete on seat 0 only.
    arrivals: Vec<usize>,
    /// Last barrier that all seats have reached.
    released: usize,
}

impl std::fmt::Debug for RotationSetup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RotationSetup").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl RotationActor {
    /// Creates one of the seats.
    #[must_use]
    pub fn new(me: Rank, setup: RotationSetup) -> Self {
        let me = me.index();
        let here = (0..setup.blocks[me])
            .map(|number| {
                let value = |at: usize| 1.0 + (me * 31 + number * 7 + at) as f64;
                ((me, number), RingBlock { home: me, number, values: (0..setup.length).map(value).collect() })
            })
            .collect();
        let seat = RingPosition::new(me, &setup.blocks);
        let arrivals = vec![0; setup.blocks.len()];
        Self {
            setup,
            me,
            seat,
            rotation: 0,
            here,
            early: Vec::new(),
            running: None,
            ran: Vec::new(),
            ends: Vec::new(),
            arrivals,
            released: 0,
        }
    }

    /// Blocks that are on this seat.
    pub fn blocks(&self) -> impl Iterator<Item = &RingBlock> {
        self.here.values()
    }

    /// Executed blocks in order: rotation, home, index.
    #[must_use]
    pub fn ran(&self) -> &[(usize, usize, usize)] {
        &self.ran
    }

    /// End time of each rotation on this seat.
    #[must_use]
    pub fn rotation_ends(&self) -> &[Moment] {
        &self.ends
    }

    /// Reports the home whose blocks this seat runs next, and returns whether all seats have come
    /// as far.
    fn may_begin(&mut self, context: &mut ActorContext<'_, RotationMessage>) -> bool {
        let (seats, blocks) = (self.setup.blocks.len(), &self.setup.blocks);
        let mut left = self.ran.len() - self.rotation * blocks.iter().sum::<usize>();
        let behind = |step: &usize| {
            let here = blocks[(self.me + seats - step) % seats];
            let over = left >= here;
            left = left.saturating_sub(here);
            over
        };
        let step = self.rotation * seats + (0..seats).take_while(behind).count();
        self.arrive_at_barrier(step, context);
        self.released >= step
    }

    /// Reports the arrival at a barrier, once.
    fn arrive_at_barrier(&mut self, step: usize, context: &mut ActorContext<'_, RotationMessage>) {
        if !self.setup.barrier || self.arrivals[self.me] >= step {
            return;
        }
        self.arrivals[self.me] = step;
        if self.me == 0 {
            self.announce_barrier(context);
        } else {
            context.send(Rank::ROOT, Lane::Control, 8 + FRAME, RotationMessage::Barrier(step));
        }
    }

    /// On seat 0: releases the barriers that all seats have reached.
    fn announce_barrier(&mut self, context: &mut ActorContext<'_, RotationMessage>) {
        let least = self.arrivals.iter().copied().min().unwrap_or(0);
        if self.me == 0 && least > self.released {
            self.released = least;
            for to in Rank::all(self.arrivals.len()).skip(1) {
                context.send(to, Lane::Control, 8 + FRAME, RotationMessage::Barrier(least));
            }
        }
    }

    fn make_progress(&mut self, context: &mut ActorContext<'_, RotationMessage>) -> ActorResult {
        while self.running.is_none() {
            if self.seat.is_done() && self.rotation + 1 < self.setup.rotations {
                self.rotation += 1;
                self.seat = RingPosition::new(self.me, &self.setup.blocks);
                for block in std::mem::take(&mut self.early) {
                    self.receive_block(block)?;
                }
                continue;
            }
            if self.setup.barrier && !self.may_begin(context) {
                break;
            }
            let mut next = self.seat.next();
            if self.setup.run_out_of_order {
                // The last block that arrived runs first.
                let ran = |key: &(usize, usize)| self.ran.contains(&(self.rotation, key.0, key.1));
                next = next.and(self.here.keys().rev().copied().find(|key| !ran(key)));
            }
            let Some(next) = next else { break };
            context.end_wait(0);
            self.running = Some(next);
            context.compute(0, "runs a block", (self.setup.work)(self.me, next.0, next.1), 0);
        }
        if self.is_done() {
            // Other seats may have blocks left.
            self.arrive_at_barrier(usize::MAX, context);
        } else if self.running.is_none() {
            context.begin_wait(0, "waits for a block");
        }
        Ok(())
    }

    fn receive_block(&mut self, block: RingBlock) -> ActorResult {
        self.seat.accept_block(block.home, block.number).map_err(|error| error.to_string())?;
        self.here.insert((block.home, block.number), block);
        Ok(())
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
            RotationMessage::Block(rotation, block) if rotation > self.rotation => self.early.push(block),
            RotationMessage::Block(_, block) => self.receive_block(block)?,
            RotationMessage::Barrier(step) if self.me == 0 => {
                self.arrivals[from.index()] = step;
                self.announce_barrier(context);
            }
            RotationMessage::Barrier(step) => self.released = step,
        }
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, RotationMessage>) -> ActorResult {
        let (home, number) = self.running.take().ok_or("no block is running")?;
        let mut block = self.here.remove(&(home, number)).ok_or("the block is not on this seat")?;
        (self.setup.visit)(self.me, self.rotation, &mut block);
        self.ran.push((self.rotation, home, number));
        let BlockTransfer { to, .. } = self.seat.finish_block();
        if to == self.me {
            self.here.insert((home, number), block);
        } else {
            let bytes = self.setup.value_bytes * block.values.len() + 32 + FRAME;
            context.send(Rank::new(to as u32), Lane::Bulk, bytes, RotationMessage::Block(self.rotation, block));
        }
        if self.ran.len() == (self.rotation + 1) * self.setup.blocks.iter().sum::<usize>() {
            self.ends.push(context.now());
        }
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.seat.is_done() && self.rotation + 1 == self.setup.rotations && self.running.is_none()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        if self.is_done() || self.running.is_some() {
            return Vec::new();
        }
        let due = ExpectedBlock { at: self.seat.expected_block() };
        let before = (self.me + self.setup.blocks.len() - 1) % self.setup.blocks.len();
        let what = format!("{due} in rotation {}", self.rotation);
        vec![PendingWait::new(format!("seat {}", self.me), what, vec![Rank::new(before as u32)])]
    }
}
