//! Collectives, one after the other or several in flight, with a computation before each begins.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_collective_proto::protocol::{Body, HEADER_BYTES};
use hemiola_collective_proto::{Element, Engine, Message, Operation, Tag};
use hemiola_core::{Lane, Rank};

/// Collectives on buffers up to this many bytes take the control lane.
const SMALL: usize = 1 << 13;

/// A collective with what this peer brings; afterwards with what it has.
#[derive(Clone, Debug)]
pub struct Job<T> {
    /// What all peers do.
    pub operation: Operation,
    /// This peer's buffer.
    pub elements: Vec<T>,
    /// What it computes before it begins.
    pub before: Span,
}

/// Changes messages as a wrong machine would.
pub type Spoil = fn(&mut Message);

/// A peer with a list of collectives.
#[derive(Debug)]
pub struct Collectives<T> {
    engine: Engine,
    jobs: Vec<Job<T>>,
    /// Those in flight.
    flying: Vec<(usize, Tag)>,
    begun: usize,
    over: usize,
    computing: bool,
    /// So many may be in flight at once.
    most: usize,
    spoil: Option<Spoil>,
}

impl<T: Element> Collectives<T> {
    /// A peer that does these, up to `most` of them at once, in messages of so many bytes of elements.
    #[must_use]
    pub fn new(me: Rank, peers: usize, jobs: Vec<Job<T>>, most: usize, segment_bytes: usize) -> Self {
        let engine = Engine::new(me, peers).segment_bytes(segment_bytes);
        let most = most.max(1);
        Self { engine, jobs, flying: Vec::new(), begun: 0, over: 0, computing: false, most, spoil: None }
    }

    /// Spoils what it sends.
    #[must_use]
    pub fn spoiled(mut self, spoil: Option<Spoil>) -> Self {
        self.spoil = spoil;
        self
    }

    /// Its collectives, with what it has.
    #[must_use]
    pub fn jobs(&self) -> &[Job<T>] {
        &self.jobs
    }

    /// Computes before the next, if there is room for it.
    fn next(&mut self, context: &mut Context<'_, Message>) {
        if self.begun < self.jobs.len() && !self.computing && self.flying.len() < self.most {
            context.goes_on(0);
            self.computing = true;
            context.compute(0, "computes", self.jobs[self.begun].before, 0);
        } else if self.begun < self.jobs.len() || !self.flying.is_empty() {
            if !self.computing {
                context.waits(0, "waits for a collective");
            }
        } else {
            context.goes_on(0);
        }
    }

    /// Carries all in flight on as far as they go.
    fn advance(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        let mut out = Vec::new();
        let mut place = 0;
        while place < self.flying.len() {
            let (number, tag) = self.flying[place];
            let job = &mut self.jobs[number];
            let bytes = size_of_val(&job.elements[..]);
            let lane = if bytes <= SMALL { Lane::Control } else { Lane::Bulk };
            let over = self.engine.advance(tag, &mut job.elements, &mut out).map_err(|error| error.to_string())?;
            for mut message in out.drain(..) {
                if let Some(spoil) = self.spoil {
                    spoil(&mut message);
                }
                let Body::Elements(elements) = &message.body else {
                    return Err("peers do different things".to_owned());
                };
                context.send(message.to, lane, elements.len() + HEADER_BYTES + FRAME, message);
            }
            if over {
                self.flying.remove(place);
                self.over += 1;
            } else {
                place += 1;
            }
        }
        self.next(context);
        Ok(())
    }
}

impl<T: Element> Actor for Collectives<T> {
    type Message = Message;

    fn start(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.next(context);
        Ok(())
    }

    fn receive(&mut self, _: Rank, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        self.engine.deliver(message).map_err(|error| error.to_string())?;
        self.advance(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Message>) -> Outcome {
        self.computing = false;
        let number = self.begun;
        let tag = self.engine.begin::<T>(&self.jobs[number].operation).map_err(|error| error.to_string())?;
        self.flying.push((number, tag));
        self.begun += 1;
        self.advance(context)
    }

    fn is_done(&self) -> bool {
        self.over == self.jobs.len()
    }

    fn waits(&self) -> Vec<Wait> {
        let wait = |wait: hemiola_collective_proto::protocol::Wait| {
            Wait::new("driver", format!("a message of collective {}: {}", wait.tag, wait.call), vec![wait.peer])
        };
        self.engine.waits().map(wait).collect()
    }
}
