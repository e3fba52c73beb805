//! A parallel loop over blocks: parts wait for time blocks at the right stage, run them and hand them on, as `hemiola-loops` does.
//!
//! A pass ends when a peer's parts have made all their steps and its blocks have come; the next begins when all peers have met as often as [`Setup::meetings`] says (a loop agrees on its plan, on how it ended, and on
//! what it has added up), or at once. A rotation brings blocks back to where they began. What arrives for a later pass waits.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_core::{Lane, Rank};
use hemiola_loops::plan::route::Route;
use hemiola_loops::plan::{Block, Cuts};
use std::collections::VecDeque;
use std::sync::Arc;

/// What the body does with a block: rows of its part, rows of its time.
pub type Body = Arc<dyn Fn(Block, usize, &mut [f64], &mut [f64]) + Send + Sync>;

/// A loop.
#[derive(Clone)]
pub struct Setup {
    /// Where it is cut, and how blocks follow each other.
    pub cuts: Cuts,
    /// How often all of it runs.
    pub passes: usize,
    /// What each part keeps, and what travels with each time block.
    pub part_values: usize,
    /// See [`Setup::part_values`].
    pub time_values: usize,
    /// By time block: bytes of the messages in which it travels, one for each array and a last one. Without, one message with all values.
    pub message_bytes: Option<Arc<Vec<Vec<usize>>>>,
    /// How often all peers meet before each pass.
    pub meetings: usize,
    /// What a block takes, by part and time.
    pub work: Arc<dyn Fn(Block) -> Span + Send + Sync>,
    /// What it does.
    pub body: Body,
    /// Hands time blocks on before they have run: a fault to be found.
    pub early: bool,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Setup").field("cuts", &self.cuts).field("passes", &self.passes).finish_non_exhaustive()
    }
}

/// A time block on its way: pass, time, values.
type Travelling = (usize, usize, Vec<f64>);

/// What peers say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The last message of a time block, which stands for all of it: pass, time, values.
    Block(usize, usize, Vec<f64>),
    /// One before the last.
    Piece,
    /// To the first peer: this one has come to the next meeting.
    Here,
    /// From the first peer: all have.
    Go,
}

/// Bytes of a message with next to nothing in it.
const SMALL: usize = 16 + FRAME;

/// A worker with one part.
#[derive(Debug)]
struct Part {
    number: usize,
    step: usize,
    values: Vec<f64>,
    running: Option<Block>,
}

/// A peer of a loop.
#[derive(Debug)]
pub struct Blocks {
    setup: Setup,
    me: Rank,
    peers: usize,
    pass: usize,
    parts: Vec<Part>,
    /// By time: its stage here, and its values if it is here.
    stages: Vec<usize>,
    times: Vec<Option<Vec<f64>>>,
    due: VecDeque<(usize, usize)>,
    early: VecDeque<Travelling>,
    /// Meetings before this pass that have not been.
    to_meet: usize,
    /// At the first peer: how many have come to the next one.
    come: usize,
    done: bool,
}

impl Blocks {
    /// One of the peers.
    #[must_use]
    pub fn new(me: Rank, peers: usize, setup: Setup) -> Self {
        let route = Route::new(&setup.cuts, me, peers);
        let part = |number: usize| Part { number, step: 0, values: initial(number, setup.part_values), running: None };
        let home = |time| route.first_stage(time) == 0;
        let time = |time| home(time).then(|| initial(1000 + time, setup.time_values));
        let times = (0..setup.cuts.times()).map(time).collect();
        let parts = route.parts().map(part).collect();
        let mut new = Self {
            me,
            peers,
            pass: 0,
            parts,
            stages: Vec::new(),
            times,
            due: VecDeque::new(),
            early: VecDeque::new(),
            to_meet: 0,
            come: 0,
            done: false,
            setup,
        };
        new.begin_pass();
        new
    }

    /// What its parts hold, by part.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.parts.iter().map(|part| (part.number, &part.values[..]))
    }

    /// The time blocks that are here.
    pub fn times(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.times.iter().enumerate().filter_map(|(time, values)| Some((time, values.as_deref()?)))
    }

    fn begin_pass(&mut self) {
        let route = Route::new(&self.setup.cuts, self.me, self.peers);
        self.stages = (0..self.setup.cuts.times()).map(|time| route.first_stage(time)).collect();
        self.due = route.arrivals();
        self.parts.iter_mut().for_each(|part| part.step = 0);
        self.to_meet = if self.peers > 1 { self.setup.meetings } else { 0 };
    }

    /// Comes to the next meeting, if there is one; the first peer ends it when all have come.
    fn meet(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        if self.to_meet == 0 {
            return self.go_on(context);
        }
        for place in 0..self.parts.len() {
            context.waits(place, "waits for a meeting");
        }
        if self.me == Rank::ROOT {
            return self.come(context);
        }
        context.send(Rank::ROOT, Lane::Control, SMALL, Message::Here);
        Ok(())
    }

    /// One more has come to the first peer's meeting.
    fn come(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.come += 1;
        if self.come < self.peers {
            return Ok(());
        }
        self.come = 0;
        for peer in Rank::all(self.peers).filter(|peer| *peer != Rank::ROOT) {
            context.send(peer, Lane::Control, SMALL, Message::Go);
        }
        self.met(context)
    }

    /// A meeting is over.
    fn met(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.to_meet = self.to_meet.checked_sub(1).ok_or("a meeting that nobody called")?;
        self.meet(context)
    }

    fn go_on(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        loop {
            let steps = Route::new(&self.setup.cuts, self.me, self.peers).steps();
            for place in 0..self.parts.len() {
                self.try_part(place, steps, context)?;
            }
            let over = self.parts.iter().all(|part| part.step == steps && part.running.is_none());
            if !over {
                break;
            }
            let places = 0..self.parts.len();
            if !self.due.is_empty() {
                places.for_each(|place| context.waits(place, "waits for the last blocks"));
                break;
            }
            self.pass += 1;
            if self.pass == self.setup.passes {
                places.for_each(|place| context.goes_on(place));
                self.done = true;
                break;
            }
            self.begin_pass();
            while self.early.front().is_some_and(|(pass, ..)| *pass == self.pass) {
                let travelling = self.early.pop_front().expect("there is one");
                self.take_in(travelling)?;
            }
            if self.to_meet > 0 {
                return self.meet(context);
            }
        }
        Ok(())
    }

    /// Begins the next block of a part if its time block is there.
    fn try_part(&mut self, place: usize, steps: usize, context: &mut Context<'_, Message>) -> Outcome {
        let route = Route::new(&self.setup.cuts, self.me, self.peers);
        let part = &mut self.parts[place];
        while part.running.is_none() && part.step < steps {
            let Some((block, stage)) = route.visit(part.number, part.step) else {
                part.step += 1;
                continue;
            };
            if self.stages[block.time] != stage {
                context.waits(place, "waits for a block");
                return Ok(());
            }
            context.goes_on(place);
            part.running = Some(block);
            if self.setup.early {
                let values = self.times[block.time].clone().ok_or("a time block that is not here")?;
                let leaves = route.leaves(part.number).then(|| route.receiver());
                if let Some(to) = leaves.filter(|_| route.is_ring()) {
                    send(&self.setup, to, (self.pass, block.time, values), context);
                }
            }
            context.compute(place, "runs a block", (self.setup.work)(block), place as u64);
        }
        Ok(())
    }

    fn take_in(&mut self, (_, time, values): Travelling) -> Outcome {
        let Some((expected, stage)) = self.due.pop_front() else {
            return Err(format!("time block {time} came, and none was due"));
        };
        if expected != time {
            return Err(format!("time block {time} came when {expected} was due"));
        }
        self.stages[time] = stage;
        self.times[time] = Some(values);
        Ok(())
    }
}

/// Sends a time block on.
fn send(setup: &Setup, to: Rank, (pass, time, values): Travelling, context: &mut Context<'_, Message>) {
    let Some(bytes) = &setup.message_bytes else {
        context.send(to, Lane::Bulk, 8 * values.len() + 24 + FRAME, Message::Block(pass, time, values));
        return;
    };
    let (last, pieces) = bytes[time].split_last().map_or((0, &[][..]), |(last, pieces)| (*last, pieces));
    for piece in pieces {
        context.send(to, Lane::Bulk, piece + FRAME, Message::Piece);
    }
    context.send(to, Lane::Bulk, last + FRAME, Message::Block(pass, time, values));
}

/// What a vector holds at the beginning.
fn initial(number: usize, length: usize) -> Vec<f64> {
    (0..length).map(|at| 1.0 / (1.0 + number as f64 + 0.1 * at as f64)).collect()
}

/// All parts and times after the passes, run block after block in the order the plan names: what a loop must give.
#[must_use]
pub fn serially(setup: &Setup, order: &[Block]) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
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

impl Actor for Blocks {
    type Message = Message;

    fn start(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.meet(context)
    }

    fn receive(&mut self, _: Rank, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        match message {
            Message::Block(pass, time, values) => {
                if pass > self.pass {
                    self.early.push_back((pass, time, values));
                } else {
                    self.take_in((pass, time, values))?;
                }
                if self.to_meet == 0 { self.go_on(context) } else { Ok(()) }
            }
            Message::Piece => Ok(()),
            Message::Here => self.come(context),
            Message::Go => self.met(context),
        }
    }

    fn timer(&mut self, place: u64, context: &mut Context<'_, Message>) -> Outcome {
        let route = Route::new(&self.setup.cuts, self.me, self.peers);
        let part = &mut self.parts[place as usize];
        let block = part.running.take().ok_or("no block was running")?;
        let time = self.times[block.time].as_mut().ok_or("a time block that is not here")?;
        (self.setup.body)(block, self.pass, &mut part.values, time);
        part.step += 1;
        if route.is_ring() && route.leaves(part.number) {
            let values = self.times[block.time].take().ok_or("a time block that is not here")?;
            self.stages[block.time] = usize::MAX;
            let to = route.receiver();
            if !self.setup.early {
                send(&self.setup, to, (self.pass, block.time, values), context);
            }
        } else {
            self.stages[block.time] += 1;
        }
        self.go_on(context)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn waits(&self) -> Vec<Wait> {
        let route = Route::new(&self.setup.cuts, self.me, self.peers);
        let mut waits = Vec::new();
        if self.to_meet > 0 && !self.done {
            let others = Rank::all(self.peers).filter(|peer| (*peer == Rank::ROOT) != (self.me == Rank::ROOT));
            waits.push(Wait::new("the peer", format!("a meeting before pass {}", self.pass), others.collect()));
            return waits;
        }
        for part in self.parts.iter().filter(|part| part.running.is_none() && part.step < route.steps()) {
            if let Some((block, stage)) = route.visit(part.number, part.step) {
                let what = format!("time block {} at stage {stage} in pass {}", block.time, self.pass);
                waits.push(Wait::new(format!("part {}", part.number), what, vec![route.sender()]));
            }
        }
        waits
    }
}
