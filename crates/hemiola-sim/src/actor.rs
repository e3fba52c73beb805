//! Actors: the code that runs on a simulated peer, and its access to the simulation.
//!
//! An [`Actor`] holds protocol state machines and drives them as their runtime on a cluster does:
//! it passes messages to them and sends their outgoing messages. It has no thread and no clock. It
//! is called for each event, and sets timers through its [`ActorContext`]. **Invariant:** an actor
//! observes the simulation only through these calls, so a run is a function of cluster spec, seed
//! and actors.

use crate::simulation::SimCore;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_core::rng::SplitMix64;
use hemiola_core::{Lane, Moment, Rank};

/// Result of a callback. The text of an error ends the run; it is reported with peer and time.
pub type ActorResult = Result<(), String>;

/// The part of one peer in a simulated job.
pub trait Actor {
    /// Type of messages between peers.
    type Message;

    /// Called once when the job starts.
    fn on_start(&mut self, context: &mut ActorContext<'_, Self::Message>) -> ActorResult;

    /// Called when a message arrives.
    fn on_message(
        &mut self,
        from: Rank,
        message: Self::Message,
        context: &mut ActorContext<'_, Self::Message>,
    ) -> ActorResult;

    /// Called when a computation or a timer ends; `token` is the one it was started with.
    fn on_timer(&mut self, token: u64, context: &mut ActorContext<'_, Self::Message>) -> ActorResult;

    /// Called when another peer is lost. As on a cluster, that ends the job, unless this peer is
    /// done or the actor can continue without the other.
    fn on_peer_lost(&mut self, peer: Rank, context: &mut ActorContext<'_, Self::Message>) -> ActorResult {
        let _ = context;
        if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) }
    }

    /// Called when this peer restarts after a crash. The actor must discard all state that a crash
    /// loses.
    fn on_restart(&mut self, context: &mut ActorContext<'_, Self::Message>) -> ActorResult {
        self.on_start(context)
    }

    /// Returns whether this peer has finished its job.
    fn is_done(&self) -> bool;

    /// Returns the conditions that this peer waits for, for the wait-for graph.
    fn pending_waits(&self) -> Vec<PendingWait>;
}

/// Access of one actor to the simulation.
#[derive(Debug)]
pub struct ActorContext<'a, M> {
    pub(crate) core: &'a mut SimCore<M>,
    pub(crate) rank: Rank,
}

impl<M> ActorContext<'_, M> {
    /// Rank of this peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of peers in the cluster.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.core.peers()
    }

    /// Current time on this peer's clock, which may drift.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.core.local_now(self.rank)
    }

    /// Random number generator of this peer.
    pub fn random(&mut self) -> &mut SplitMix64 {
        self.core.random(self.rank)
    }

    /// Sends a message with this size on the wire. A message to itself takes no time and no bytes.
    pub fn send(&mut self, to: Rank, lane: Lane, bytes: usize, message: M) {
        self.core.send(self.rank, to, lane, bytes as u64, message);
    }

    /// Starts a computation of a worker. `work` is its duration on the reference machine;
    /// [`Actor::on_timer`] is called with `token` when it ends.
    pub fn compute(&mut self, worker: usize, activity: &'static str, work: SimDuration, token: u64) {
        self.core.compute(self.rank, worker, activity, work, token);
    }

    /// Calls [`Actor::on_timer`] with `token` after this time on the peer's clock.
    pub fn set_timer(&mut self, span: SimDuration, token: u64) {
        self.core.set_timer(self.rank, span, token);
    }

    /// Marks the start of a wait of a worker, for usage and trace.
    pub fn begin_wait(&mut self, worker: usize, reason: &'static str) {
        self.core.begin_wait(self.rank, worker, reason);
    }

    /// Marks the end of a wait of a worker, if it waits.
    pub fn end_wait(&mut self, worker: usize) {
        self.core.end_wait(self.rank, worker);
    }
}

/// `None` stands for an actor that could not be created: it does nothing and is done.
impl<A: Actor> Actor for Option<A> {
    type Message = A::Message;

    fn on_start(&mut self, context: &mut ActorContext<'_, A::Message>) -> ActorResult {
        self.as_mut().map_or(Ok(()), |actor| actor.on_start(context))
    }

    fn on_message(
        &mut self,
        from: Rank,
        message: A::Message,
        context: &mut ActorContext<'_, A::Message>,
    ) -> ActorResult {
        self.as_mut().map_or(Ok(()), |actor| actor.on_message(from, message, context))
    }

    fn on_timer(&mut self, token: u64, context: &mut ActorContext<'_, A::Message>) -> ActorResult {
        self.as_mut().map_or(Ok(()), |actor| actor.on_timer(token, context))
    }

    fn on_peer_lost(&mut self, peer: Rank, context: &mut ActorContext<'_, A::Message>) -> ActorResult {
        self.as_mut().map_or(Ok(()), |actor| actor.on_peer_lost(peer, context))
    }

    fn on_restart(&mut self, context: &mut ActorContext<'_, A::Message>) -> ActorResult {
        self.as_mut().map_or(Ok(()), |actor| actor.on_restart(context))
    }

    fn is_done(&self) -> bool {
        self.as_ref().is_none_or(Actor::is_done)
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        self.as_ref().map_or_else(Vec::new, Actor::pending_waits)
    }
}
