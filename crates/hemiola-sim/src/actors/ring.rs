//! Blocks around a ring of workers: each peer is a seat, runs the blocks that come and passes them on.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_core::{Lane, Rank};
use hemiola_schedule::plan::ring::{Due, Pass, Seat};
use std::collections::BTreeMap;

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

/// How a ring runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Blocks of each seat.
    pub blocks: Vec<usize>,
    /// Values of a block.
    pub length: usize,
    /// How often all go round.
    pub rotations: usize,
    /// How long a visit takes, by the home of its block.
    pub work: Vec<Span>,
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
        Self { setup, me, seat, rotation: 0, here, early: Vec::new(), running: None, ran: Vec::new() }
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

    fn go_on(&mut self, context: &mut Context<'_, (usize, Block)>) -> Outcome {
        while self.running.is_none() {
            if self.seat.is_over() && self.rotation + 1 < self.setup.rotations {
                self.rotation += 1;
                self.seat = Seat::new(self.me, &self.setup.blocks);
                for block in std::mem::take(&mut self.early) {
                    self.take_in(block)?;
                }
                continue;
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
            context.compute(0, "runs a block", self.setup.work[next.0], 0);
        }
        if self.running.is_none() && !self.is_done() {
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
    type Message = (usize, Block);

    fn start(&mut self, context: &mut Context<'_, (usize, Block)>) -> Outcome {
        self.go_on(context)
    }

    fn receive(
        &mut self,
        _: Rank,
        (rotation, block): Self::Message,
        context: &mut Context<'_, Self::Message>,
    ) -> Outcome {
        if rotation > self.rotation {
            self.early.push(block);
        } else {
            self.take_in(block)?;
        }
        self.go_on(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Self::Message>) -> Outcome {
        let (home, number) = self.running.take().ok_or("no block was running")?;
        let mut block = self.here.remove(&(home, number)).ok_or("the block that ran is not here")?;
        (self.setup.visit)(self.me, self.rotation, &mut block);
        self.ran.push((self.rotation, home, number));
        let Pass { to, .. } = self.seat.ran();
        if to == self.me {
            self.here.insert((home, number), block);
        } else {
            let bytes = 8 * block.values.len() + 32 + FRAME;
            context.send(Rank::new(to as u32), Lane::Bulk, bytes, (self.rotation, block));
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
