//! Blocks around a ring of workers: each peer is a seat, runs the blocks that come and passes them on.
//!
//! With a barrier, no seat begins with the blocks of the next home before all have done those of the last one: what a ring is there to avoid, and to be compared with.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_core::{Lane, Moment, Rank};
use hemiola_schedule::plan::ring::{Due, Pass, Seat};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A block on its way: whose it is, which of those, and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its home.
    pub home: usize,
    /// Which of its home's.
    pub number: usize,
    /// What every visit changes.
    pub values: Vec<f64>,
}

/// What a visit does to a block: the seat, the rotation, and the block.
pub type Visit = fn(seat: usize, rotation: usize, block: &mut Block);

/// How long a visit takes: by seat, home and number of the block.
pub type Work = Arc<dyn Fn(usize, usize, usize) -> Span + Send + Sync>;

/// What seats say to each other.
#[derive(Clone, Debug)]
pub enum Message {
    /// A block, in this rotation.
    Block(usize, Block),
    /// "I have come to so many barriers", and, from the first seat, "so have all".
    Barrier(usize),
}

/// How a ring runs.
#[derive(Clone)]
pub struct Setup {
    /// Blocks of each seat.
    pub blocks: Vec<usize>,
    /// Values of a block.
    pub length: usize,
    /// How often all go round.
    pub rotations: usize,
    /// How long a visit takes: by seat, home and number.
    pub work: Work,
    /// Whether all wait for each other after the blocks of each home.
    pub barrier: bool,
    /// Bytes that each value takes on the wire: 8, or more where few stand for many.
    pub value_bytes: usize,
    /// What a visit does.
    pub visit: Visit,
    /// Runs whatever has come in place of what is due: a fault to be found.
    pub impatient: bool,
}

/// One seat.
#[derive(Debug)]
pub struct Ring {
    setup: Setup,
    me: usize,
    seat: Seat,
    rotation: usize,
    /// Blocks that are here, by home and number.
    here: BTreeMap<(usize, usize), Block>,
    /// Blocks of the next rotation, from a seat that is ahead.
    early: Vec<Block>,
    running: Option<(usize, usize)>,
    /// Blocks in the order they ran here, with rotation.
    ran: Vec<(usize, usize, usize)>,
    /// When each rotation ended.
    ends: Vec<Moment>,
    /// The barrier that each seat has come to, as far as this one knows: the first knows all.
    heard: Vec<usize>,
    /// And the one that all have.
    told: usize,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Setup").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl Ring {
    /// One of the seats.
    #[must_use]
    pub fn new(me: Rank, setup: Setup) -> Self {
        let me = me.index();
        let here = (0..setup.blocks[me])
            .map(|number| {
                let value = |at: usize| 1.0 + (me * 31 + number * 7 + at) as f64;
                ((me, number), Block { home: me, number, values: (0..setup.length).map(value).collect() })
            })
            .collect();
        let seat = Seat::new(me, &setup.blocks);
        let heard = vec![0; setup.blocks.len()];
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
            heard,
            told: 0,
        }
    }

    /// The blocks that are here.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.here.values()
    }

    /// Blocks in the order they ran here: rotation, home, number.
    #[must_use]
    pub fn ran(&self) -> &[(usize, usize, usize)] {
        &self.ran
    }

    /// When each rotation ended here.
    #[must_use]
    pub fn ends(&self) -> &[Moment] {
        &self.ends
    }

    /// Whether all have come as far as this seat, which says how far that is: to the home whose blocks it runs next, here or not.
    fn may_begin(&mut self, context: &mut Context<'_, Message>) -> bool {
        let (seats, blocks) = (self.setup.blocks.len(), &self.setup.blocks);
        let mut left = self.ran.len() - self.rotation * blocks.iter().sum::<usize>();
        let behind = |step: &usize| {
            let here = blocks[(self.me + seats - step) % seats];
            let over = left >= here;
            left = left.saturating_sub(here);
            over
        };
        let step = self.rotation * seats + (0..seats).take_while(behind).count();
        self.come(step, context);
        self.told >= step
    }

    /// Comes to a barrier, if it has not.
    fn come(&mut self, step: usize, context: &mut Context<'_, Message>) {
        if !self.setup.barrier || self.heard[self.me] >= step {
            return;
        }
        self.heard[self.me] = step;
        if self.me == 0 {
            self.tell(context);
        } else {
            context.send(Rank::ROOT, Lane::Control, 8 + FRAME, Message::Barrier(step));
        }
    }

    /// The first seat tells how far all have come.
    fn tell(&mut self, context: &mut Context<'_, Message>) {
        let least = self.heard.iter().copied().min().unwrap_or(0);
        if self.me == 0 && least > self.told {
            self.told = least;
            for to in Rank::all(self.heard.len()).skip(1) {
                context.send(to, Lane::Control, 8 + FRAME, Message::Barrier(least));
            }
        }
    }

    fn go_on(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        while self.running.is_none() {
            if self.seat.is_over() && self.rotation + 1 < self.setup.rotations {
                self.rotation += 1;
                self.seat = Seat::new(self.me, &self.setup.blocks);
                for block in std::mem::take(&mut self.early) {
                    self.take_in(block)?;
                }
                continue;
            }
            if self.setup.barrier && !self.may_begin(context) {
                break;
            }
            let mut next = self.seat.next();
            if self.setup.impatient {
                // The last that came goes first.
                let ran = |key: &(usize, usize)| self.ran.contains(&(self.rotation, key.0, key.1));
                next = next.and(self.here.keys().rev().copied().find(|key| !ran(key)));
            }
            let Some(next) = next else { break };
            context.goes_on(0);
            self.running = Some(next);
            context.compute(0, "runs a block", (self.setup.work)(self.me, next.0, next.1), 0);
        }
        if self.is_done() {
            // Others may have blocks left where this seat has none.
            self.come(usize::MAX, context);
        } else if self.running.is_none() {
            context.waits(0, "waits for a block");
        }
        Ok(())
    }

    fn take_in(&mut self, block: Block) -> Outcome {
        self.seat.arrived(block.home, block.number).map_err(|error| error.to_string())?;
        self.here.insert((block.home, block.number), block);
        Ok(())
    }
}

impl Actor for Ring {
    type Message = Message;

    fn start(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.go_on(context)
    }

    fn receive(&mut self, from: Rank, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        match message {
            Message::Block(rotation, block) if rotation > self.rotation => self.early.push(block),
            Message::Block(_, block) => self.take_in(block)?,
            Message::Barrier(step) if self.me == 0 => {
                self.heard[from.index()] = step;
                self.tell(context);
            }
            Message::Barrier(step) => self.told = step,
        }
        self.go_on(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Message>) -> Outcome {
        let (home, number) = self.running.take().ok_or("no block was running")?;
        let mut block = self.here.remove(&(home, number)).ok_or("the block that ran is not here")?;
        (self.setup.visit)(self.me, self.rotation, &mut block);
        self.ran.push((self.rotation, home, number));
        let Pass { to, .. } = self.seat.ran();
        if to == self.me {
            self.here.insert((home, number), block);
        } else {
            let bytes = self.setup.value_bytes * block.values.len() + 32 + FRAME;
            context.send(Rank::new(to as u32), Lane::Bulk, bytes, Message::Block(self.rotation, block));
        }
        if self.ran.len() == (self.rotation + 1) * self.setup.blocks.iter().sum::<usize>() {
            self.ends.push(context.now());
        }
        self.go_on(context)
    }

    fn is_done(&self) -> bool {
        self.seat.is_over() && self.rotation + 1 == self.setup.rotations && self.running.is_none()
    }

    fn waits(&self) -> Vec<Wait> {
        if self.is_done() || self.running.is_some() {
            return Vec::new();
        }
        let due = Due { at: self.seat.due() };
        let before = (self.me + self.setup.blocks.len() - 1) % self.setup.blocks.len();
        let what = format!("{due} in rotation {}", self.rotation);
        vec![Wait::new(format!("seat {}", self.me), what, vec![Rank::new(before as u32)])]
    }
}
