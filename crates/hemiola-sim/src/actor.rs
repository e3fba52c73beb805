//! What runs on a peer, and what it may ask of the world.
//!
//! An [`Actor`] holds state machines and does what their driver on a cluster does: it hands them messages and sends what they want sent. It has no thread and no clock: it is called when
//! something happens, and asks its [`Context`] for time to pass. **Invariant:** an actor sees of the world only what comes through its calls, so a run is a function of
//! description, seed and actors.

use crate::stuck::Wait;
use crate::units::Span;
use crate::world::Core;
use hemiola_collective_proto::Random;
use hemiola_core::{Lane, Moment, Rank};

/// What a call comes to; the text of an error ends the run and is told with peer and time.
pub type Outcome = Result<(), String>;

/// One peer's part of a job.
pub trait Actor {
    /// What peers say to each other.
    type Message;

    /// The job begins.
    fn start(&mut self, context: &mut Context<'_, Self::Message>) -> Outcome;

    /// A message has come.
    fn receive(&mut self, from: Rank, message: Self::Message, context: &mut Context<'_, Self::Message>) -> Outcome;

    /// A computation or a span that was asked for is over.
    fn timer(&mut self, token: u64, context: &mut Context<'_, Self::Message>) -> Outcome;

    /// Another peer is lost. As on a cluster, that ends the job unless this peer is done or its actor can do without the other.
    fn lost(&mut self, peer: Rank, context: &mut Context<'_, Self::Message>) -> Outcome {
        let _ = context;
        if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) }
    }

    /// This peer begins again after a crash. What the crash took with it is for the actor to forget.
    fn restart(&mut self, context: &mut Context<'_, Self::Message>) -> Outcome {
        self.start(context)
    }

    /// Whether nothing is left to do here.
    fn is_done(&self) -> bool;

    /// What it waits for, for the wait-for graph.
    fn waits(&self) -> Vec<Wait>;
}

/// The world as one actor reaches it.
#[derive(Debug)]
pub struct Context<'a, M> {
    pub(crate) core: &'a mut Core<M>,
    pub(crate) me: Rank,
}

impl<M> Context<'_, M> {
    /// Which peer this is.
    #[must_use]
    pub fn me(&self) -> Rank {
        self.me
    }

    /// How many there are.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.core.peers()
    }

    /// What this peer's clock says, which may drift.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.core.local_now(self.me)
    }

    /// Random numbers of this peer alone.
    pub fn random(&mut self) -> &mut Random {
        self.core.random(self.me)
    }

    /// Sends a message that has so many bytes on the wire. To oneself it takes no time and no bytes.
    pub fn send(&mut self, to: Rank, lane: Lane, bytes: usize, message: M) {
        self.core.send(self.me, to, lane, bytes as u64, message);
    }

    /// Lets a worker compute what would take so long on the machine that was measured; then [`Actor::timer`] is called with the token.
    pub fn compute(&mut self, worker: usize, what: &'static str, work: Span, token: u64) {
        self.core.compute(self.me, worker, what, work, token);
    }

    /// Has [`Actor::timer`] called after so much time on this peer's clock.
    pub fn after(&mut self, span: Span, token: u64) {
        self.core.after(self.me, span, token);
    }

    /// A worker waits from now on.
    pub fn waits(&mut self, worker: usize, what: &'static str) {
        self.core.waits(self.me, worker, what);
    }

    /// A worker goes on, if it has waited.
    pub fn goes_on(&mut self, worker: usize) {
        self.core.goes_on(self.me, worker);
    }
}

/// An actor that could not be made does nothing, and is done.
impl<A: Actor> Actor for Option<A> {
    type Message = A::Message;

    fn start(&mut self, context: &mut Context<'_, A::Message>) -> Outcome {
        self.as_mut().map_or(Ok(()), |actor| actor.start(context))
    }

    fn receive(&mut self, from: Rank, message: A::Message, context: &mut Context<'_, A::Message>) -> Outcome {
        self.as_mut().map_or(Ok(()), |actor| actor.receive(from, message, context))
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_, A::Message>) -> Outcome {
        self.as_mut().map_or(Ok(()), |actor| actor.timer(token, context))
    }

    fn lost(&mut self, peer: Rank, context: &mut Context<'_, A::Message>) -> Outcome {
        self.as_mut().map_or(Ok(()), |actor| actor.lost(peer, context))
    }

    fn restart(&mut self, context: &mut Context<'_, A::Message>) -> Outcome {
        self.as_mut().map_or(Ok(()), |actor| actor.restart(context))
    }

    fn is_done(&self) -> bool {
        self.as_ref().is_none_or(Actor::is_done)
    }

    fn waits(&self) -> Vec<Wait> {
        self.as_ref().map_or_else(Vec::new, Actor::waits)
    }
}
