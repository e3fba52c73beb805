//! Discrete-event simulation of a cluster in virtual time.
//!
//! Events are processed in the order of time, and events of the same time in the order of their
//! causes. Nothing here reads a clock or uses randomness other than the seed, so the same spec,
//! seed and actors give the same events; [`RunSummary::digest`] identifies them. A run ends when no
//! event is left. If an actor is not done then, the run is a [deadlock](SimError::Deadlock), which
//! is detected at once.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::cluster_spec::{ClusterSpec, Fault, InvalidClusterSpec, LinkSharing};
use crate::compute::PeerProcessor;
use crate::cores::SharedCores;
use crate::event_queue::{EventQueue, SimEvent, SlotMap};
use crate::network::{FairFlows, FifoLinks, MessageRoute, NextHop, SimNetwork};
use crate::sampling;
use crate::trace::{ActivitySpan, SimTrace};
use crate::units::SimDuration;
use crate::wait_graph::{PendingWait, WaitGraph};
use hashbrown::HashSet;
use hemiola_core::rng::SplitMix64;
use hemiola_core::{Lane, Moment, Rank};
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::fmt;

/// A message in flight.
struct InFlightMessage<M> {
    route: MessageRoute,
    message: M,
    /// Incarnations of sender and receiver. Messages from before a crash or restart are discarded.
    incarnations: (u32, u32),
    sent: u64,
}

/// A pending call of [`Actor::on_timer`].
struct SimTimer {
    peer: Rank,
    incarnation: u32,
    token: u64,
    /// For a computation: worker, activity and start time.
    computes: Option<(u32, &'static str, u64)>,
}

/// Time and traffic of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeerUsage {
    /// Total compute time of its workers, in nanoseconds.
    pub computing: u64,
    /// Total wait time of its workers, in nanoseconds.
    pub waiting: u64,
    /// Bytes sent to other peers.
    pub sent_bytes: u64,
    /// Messages sent to other peers.
    pub sent_messages: u64,
    /// Bytes received from other peers.
    pub received_bytes: u64,
}

/// State of the simulation without the actors.
pub struct SimCore<M> {
    now: u64,
    queue: EventQueue,
    messages: SlotMap<InFlightMessage<M>>,
    timers: SlotMap<SimTimer>,
    network: SimNetwork,
    queues: FifoLinks,
    flows: Option<FairFlows>,
    processors: Vec<PeerProcessor>,
    cores: Option<SharedCores>,
    random: Vec<SplitMix64>,
    faults: Vec<Fault>,
    deadline: u64,
    latency: u64,
    /// Clock drift by peer, in parts per million.
    drift: Vec<f64>,
    /// Number of starts and crashes by peer; odd while the peer runs.
    incarnations: Vec<u32>,
    /// Directed pairs whose connection is lost.
    severed: HashSet<(u32, u32), FxBuildHasher>,
    usage: Vec<PeerUsage>,
    waiting: Vec<Vec<Option<(u64, &'static str)>>>,
    trace: Option<SimTrace>,
    digest: u64,
    events: u64,
}

impl<M> fmt::Debug for SimCore<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimCore").field("now", &self.now).field("events", &self.events).finish_non_exhaustive()
    }
}

impl<M> SimCore<M> {
    pub(crate) fn peers(&self) -> usize {
        self.incarnations.len()
    }

    pub(crate) fn local_now(&self, peer: Rank) -> Moment {
        let drift = self.drift[peer.index()];
        // Exact for a clock without drift.
        let ahead = if drift == 0.0 { 0 } else { (self.now as f64 * drift * 1e-6) as i64 };
        Moment::from_nanos(self.now.saturating_add_signed(ahead))
    }

    pub(crate) fn random(&mut self, peer: Rank) -> &mut SplitMix64 {
        &mut self.random[peer.index()]
    }

    pub(crate) fn send(&mut self, from: Rank, to: Rank, lane: Lane, bytes: u64, message: M) {
        let incarnations = (self.incarnations[from.index()], self.incarnations[to.index()]);
        let (now, own) = (self.now, from == to);
        let bytes = if own { 0 } else { bytes };
        let load = if own { 0 } else { self.network.load(bytes) };
        let route =
            MessageRoute { from: from.number(), to: to.number(), lane, bytes, load, hop: 0, left: now, tail: now };
        let slot = self.messages.insert(InFlightMessage { route, message, incarnations, sent: now });
        if own {
            self.queue.push(now, SimEvent::Deliver(slot));
            return;
        }
        let account = &mut self.usage[from.index()];
        account.sent_bytes += bytes;
        account.sent_messages += 1;
        self.handle(route.from, bytes);
        if let Some(flows) = &mut self.flows {
            flows.send(now, slot, &route);
            return;
        }
        let route = &mut self.messages.get_mut(slot).route;
        let next = self.queues.send(now, route, &mut self.network);
        self.schedule_hop(slot, &next);
    }

    fn schedule_hop(&mut self, slot: u32, next: &NextHop) {
        match *next {
            NextHop::HeadAt(at) => self.queue.push(at, SimEvent::Head(slot)),
            NextHop::DeliveredAt(at) => self.queue.push(at, SimEvent::Deliver(slot)),
        }
    }

    pub(crate) fn compute(&mut self, peer: Rank, worker: usize, what: &'static str, work: SimDuration, token: u64) {
        let takes = self.processors[peer.index()].span(self.now, work).nanos();
        let computes = Some((worker as u32, what, self.now));
        let timer = SimTimer { peer, incarnation: self.incarnations[peer.index()], token, computes };
        let slot = self.timers.insert(timer);
        if self.cores.is_some() {
            self.occupy(peer.number(), takes, Some(slot));
        } else {
            self.queue.push(self.now + takes, SimEvent::Timer(slot));
        }
    }

    /// Starts a task on the host of a peer, if the spec has hosts.
    fn occupy(&mut self, peer: u32, work: u64, timer: Option<u32>) {
        let Some(cores) = &mut self.cores else { return };
        if work == 0 && timer.is_none() {
            return;
        }
        cores.begin(self.now, peer, work, timer);
        let host = cores.host_of(peer);
        self.schedule_host_check(host);
    }

    /// Schedules an event for the next end of a task on a host.
    fn schedule_host_check(&mut self, host: usize) {
        if let Some((at, version)) = self.cores.as_ref().and_then(|cores| cores.next(host)) {
            self.queue.push(at, SimEvent::Cores(host as u16, version));
        }
    }

    /// Charges one end of a message to the host of its peer.
    fn handle(&mut self, peer: u32, bytes: u64) {
        if let Some(work) = self.cores.as_ref().map(|cores| cores.handling(bytes)) {
            self.occupy(peer, work, None);
        }
    }

    pub(crate) fn set_timer(&mut self, peer: Rank, span: SimDuration, token: u64) {
        let drift = self.drift[peer.index()];
        let span = if drift == 0.0 { span } else { span.times(1.0 / (1.0 + drift * 1e-6)) };
        let slot =
            self.timers.insert(SimTimer { peer, incarnation: self.incarnations[peer.index()], token, computes: None });
        self.queue.push(self.now.saturating_add(span.nanos()), SimEvent::Timer(slot));
    }

    pub(crate) fn begin_wait(&mut self, peer: Rank, worker: usize, what: &'static str) {
        let waiting = &mut self.waiting[peer.index()];
        if waiting.len() <= worker {
            waiting.resize(worker + 1, None);
        }
        waiting[worker].get_or_insert((self.now, what));
    }

    pub(crate) fn end_wait(&mut self, peer: Rank, worker: usize) {
        let Some((since, what)) = self.waiting[peer.index()].get_mut(worker).and_then(Option::take) else { return };
        self.usage[peer.index()].waiting += self.now - since;
        self.record(peer.number(), worker as u32, what, since);
    }

    fn record(&mut self, peer: u32, worker: u32, what: &'static str, start: u64) {
        let end = self.now;
        if let Some(trace) = self.trace.as_mut().filter(|_| end > start) {
            trace.spans.push(ActivitySpan { peer, worker, what, start, end });
        }
    }

    fn runs(&self, peer: usize) -> bool {
        self.incarnations[peer] % 2 == 1
    }

    fn add_to_digest(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Ends a peer. The others detect it after the latency, or after the deadline if it is silent.
    fn crash(&mut self, peer: usize, silent: bool) {
        self.incarnations[peer] += 1;
        self.waiting[peer].clear();
        if let Some(cores) = &mut self.cores {
            for timer in cores.forget(self.now, peer as u32) {
                self.timers.take(timer);
            }
            let host = cores.host_of(peer as u32);
            self.schedule_host_check(host);
        }
        let after = if silent { self.deadline } else { self.latency };
        for observer in (0..self.peers()).filter(|observer| *observer != peer) {
            let lost = SimEvent::Lost { observer: observer as u16, gone: peer as u16 };
            self.queue.push(self.now + after, lost);
        }
    }

    /// Marks both sides of a partition as lost to each other, if it lasts at least as long as the
    /// deadline.
    fn sever_partition(&mut self, side: &[usize], until: u64) {
        if until - self.now < self.deadline {
            return;
        }
        for &here in side {
            for there in (0..self.peers()).filter(|there| !side.contains(there)) {
                for (observer, gone) in [(here, there), (there, here)] {
                    let lost = SimEvent::Lost { observer: observer as u16, gone: gone as u16 };
                    self.queue.push(self.now + self.deadline, lost);
                }
            }
        }
    }
}

/// Result of a successful run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// Virtual time of the last event.
    pub end_time: SimDuration,
    /// Number of messages, computations, timers and losses.
    pub events: u64,
    /// Digest of all events; equal runs have equal digests.
    pub digest: u64,
}

/// Error of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// No event is left, and not all actors are done.
    #[error("deadlock at {at}: no event is left, and these actors wait{graph}")]
    Deadlock {
        /// Virtual time of the deadlock.
        at: SimDuration,
        /// Waits of all actors that are not done.
        graph: WaitGraph,
    },
    /// An actor returned an error.
    #[error("peer {peer} failed at {at}: {reason}")]
    ActorFailed {
        /// Virtual time of the failure.
        at: SimDuration,
        /// Rank of the failed actor.
        peer: Rank,
        /// Error text of the actor.
        reason: String,
    },
    /// The event limit was reached: an actor makes no progress, or the limit is too low.
    #[error("event limit reached: not finished after {events} events, at {at}; unfinished actors{graph}")]
    EventLimit {
        /// Virtual time of the last event.
        at: SimDuration,
        /// Number of processed events.
        events: u64,
        /// Waits of all actors that are not done.
        graph: WaitGraph,
    },
}

/// A simulated cluster with its actors.
pub struct Simulation<A: Actor> {
    actors: Vec<A>,
    core: SimCore<A::Message>,
    limit: u64,
}

impl<A: Actor + fmt::Debug> fmt::Debug for Simulation<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Simulation").field("core", &self.core).finish_non_exhaustive()
    }
}

impl<A: Actor> Simulation<A> {
    /// Creates the cluster of a spec, with one actor for each peer.
    pub fn new(spec: &ClusterSpec, seed: u64, actor: impl FnMut(Rank) -> A) -> Result<Self, InvalidClusterSpec> {
        spec.validate()?;
        let peers = spec.peers;
        let mut queue = EventQueue::default();
        let mut drift = vec![0.0; peers];
        for (number, fault) in spec.faults.iter().enumerate() {
            let moments = match fault {
                Fault::Crash { at, .. } | Fault::Restart { at, .. } | Fault::Partition { at, .. } => vec![*at],
                Fault::Slow { at, until, .. } => vec![*at, *until],
                Fault::Drift { peer, ppm } => {
                    drift[*peer] += ppm;
                    Vec::new()
                }
            };
            for at in moments {
                queue.push(at.nanos(), SimEvent::Fault(number as u32));
            }
        }
        let core = SimCore {
            now: 0,
            queue,
            messages: SlotMap::default(),
            timers: SlotMap::default(),
            network: SimNetwork::new(spec, seed),
            queues: FifoLinks::new(spec),
            flows: (spec.link.sharing == LinkSharing::Fair).then(|| FairFlows::new(spec)),
            processors: (0..peers).map(|peer| PeerProcessor::new(spec, peer, seed)).collect(),
            cores: SharedCores::new(spec),
            random: (0..peers).map(|peer| sampling::generator(seed, 0x30_0000 + peer as u64)).collect(),
            faults: spec.faults.clone(),
            deadline: spec.deadline.nanos(),
            latency: spec.link.latency.nanos(),
            drift,
            incarnations: vec![1; peers],
            severed: HashSet::default(),
            usage: vec![PeerUsage::default(); peers],
            waiting: vec![Vec::new(); peers],
            trace: None,
            digest: 0,
            events: 0,
        };
        Ok(Self { actors: Rank::all(peers).map(actor).collect(), core, limit: u64::MAX })
    }

    /// Replaces the actors before the run.
    #[must_use]
    pub fn with_actors(mut self, change: impl FnMut(Rank, A) -> A) -> Self {
        let mut change = change;
        self.actors = Rank::all(self.actors.len()).zip(self.actors).map(|(me, actor)| change(me, actor)).collect();
        self
    }

    /// Records a trace of the run.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        self.core.trace = Some(SimTrace::default());
        self
    }

    /// Stops with an error after this many events. Default: no limit.
    #[must_use]
    pub fn event_limit(mut self, events: u64) -> Self {
        self.limit = events;
        self
    }

    /// Actors of all peers, by rank.
    #[must_use]
    pub fn actors(&self) -> &[A] {
        &self.actors
    }

    /// Returns the actors after the run.
    #[must_use]
    pub fn into_actors(self) -> Vec<A> {
        self.actors
    }

    /// Time and traffic of each peer.
    #[must_use]
    pub fn usage(&self) -> &[PeerUsage] {
        &self.core.usage
    }

    /// Trace of the run, if one was recorded.
    #[must_use]
    pub fn trace(&self) -> Option<&SimTrace> {
        self.core.trace.as_ref()
    }

    /// Runs until no event is left.
    pub fn run(&mut self) -> Result<RunSummary, SimError> {
        for peer in Rank::all(self.actors.len()) {
            self.call(peer, A::on_start)?;
        }
        loop {
            if let Some(flows) = &mut self.core.flows
                && self.core.queue.next() != Some(self.core.now)
                && let Some(at) = flows.update_rates(self.core.now, &self.core.network)
            {
                self.core.queue.push(at, SimEvent::Flows(flows.version()));
            }
            let Some((at, event)) = self.core.queue.pop() else { break };
            self.core.now = at;
            self.dispatch(event)?;
            if self.core.events > self.limit {
                let (at, events) = (SimDuration::from_nanos(at), self.core.events);
                return Err(SimError::EventLimit { at, events, graph: self.wait_graph() });
            }
        }
        let at = SimDuration::from_nanos(self.core.now);
        let graph = self.wait_graph();
        let all_done = Rank::all(self.actors.len())
            .all(|peer| !self.core.runs(peer.index()) || self.actors[peer.index()].is_done());
        if !all_done {
            return Err(SimError::Deadlock { at, graph });
        }
        Ok(RunSummary { end_time: at, events: self.core.events, digest: self.core.digest })
    }

    /// Returns the current wait-for graph.
    #[must_use]
    pub fn wait_graph(&self) -> WaitGraph {
        let mut waits = Vec::new();
        for peer in Rank::all(self.actors.len()).filter(|peer| self.core.runs(peer.index())) {
            let actor = &self.actors[peer.index()];
            let of_peer = actor.pending_waits();
            if of_peer.is_empty() && !actor.is_done() {
                waits.push((peer, PendingWait::new("actor", "an unknown condition", Vec::new())));
            }
            waits.extend(of_peer.into_iter().map(|wait| (peer, wait)));
        }
        WaitGraph::new(waits)
    }

    fn call(
        &mut self,
        peer: Rank,
        call: impl FnOnce(&mut A, &mut ActorContext<'_, A::Message>) -> ActorResult,
    ) -> Result<(), SimError> {
        let mut context = ActorContext { core: &mut self.core, rank: peer };
        call(&mut self.actors[peer.index()], &mut context).map_err(|reason| {
            let at = SimDuration::from_nanos(self.core.now);
            SimError::ActorFailed { at, peer, reason }
        })
    }

    fn dispatch(&mut self, event: SimEvent) -> Result<(), SimError> {
        let now = self.core.now;
        match event {
            SimEvent::Head(slot) => {
                let SimCore { messages, queues, network, incarnations, .. } = &mut self.core;
                let message = messages.get_mut(slot);
                // A message that had not left before its sender crashed is discarded.
                if incarnations[message.route.from as usize] != message.incarnations.0
                    && message.route.left > message.sent
                {
                    drop(messages.take(slot));
                    return Ok(());
                }
                let next = queues.hop(now, &mut message.route, network);
                self.core.schedule_hop(slot, &next);
            }
            SimEvent::Flows(version) => {
                let Some(flows) = self.core.flows.as_mut().filter(|flows| flows.version() == version) else {
                    return Ok(());
                };
                let ended = flows.ended(now);
                for slot in ended {
                    let route = self.core.messages.get_mut(slot).route;
                    let takes = self.core.network.propagation(&route, now) + self.core.network.overhead();
                    let at = self.core.network.in_order(&route, now + takes);
                    self.core.queue.push(at, SimEvent::Deliver(slot));
                }
            }
            SimEvent::Deliver(slot) => {
                let InFlightMessage { route, message, incarnations, sent } = self.core.messages.take(slot);
                let (from, to) = (Rank::new(route.from), Rank::new(route.to));
                if self.core.incarnations[to.index()] != incarnations.1
                    || self.core.severed.contains(&(route.from, route.to))
                {
                    return Ok(());
                }
                self.core.events += 1;
                self.core.add_to_digest(now);
                self.core.add_to_digest(u64::from(route.from) << 40 ^ u64::from(route.to) << 16 ^ route.bytes);
                self.core.usage[to.index()].received_bytes += route.bytes;
                if from != to {
                    self.core.record(route.from, ActivitySpan::WIRE, "message", sent);
                    self.core.handle(route.to, route.bytes);
                }
                self.call(to, |actor, context| actor.on_message(from, message, context))?;
            }
            SimEvent::Timer(slot) => return self.fire_timer(slot),
            SimEvent::Cores(host, version) => {
                let host = usize::from(host);
                let ended = self.core.cores.as_mut().and_then(|cores| cores.ended(now, host, version));
                let Some(ended) = ended else { return Ok(()) };
                self.core.schedule_host_check(host);
                for slot in ended {
                    self.fire_timer(slot)?;
                }
            }
            SimEvent::Fault(number) => return self.apply_fault(number as usize),
            SimEvent::Lost { observer, gone } => {
                let (observer, gone) = (Rank::new(observer.into()), Rank::new(gone.into()));
                let known = self.core.severed.contains(&(gone.number(), observer.number()));
                if !self.core.runs(observer.index()) || known {
                    return Ok(());
                }
                self.core.severed.insert((gone.number(), observer.number()));
                self.core.events += 1;
                self.core.add_to_digest(now ^ u64::from(gone.number()) << 48);
                self.call(observer, |actor, context| actor.on_peer_lost(gone, context))?;
            }
        }
        Ok(())
    }

    /// Fires a timer, unless its peer has crashed since.
    fn fire_timer(&mut self, slot: u32) -> Result<(), SimError> {
        let now = self.core.now;
        let SimTimer { peer, incarnation, token, computes } = self.core.timers.take(slot);
        if self.core.incarnations[peer.index()] != incarnation {
            return Ok(());
        }
        self.core.events += 1;
        self.core.add_to_digest(now);
        self.core.add_to_digest(u64::from(peer.number()) << 32 ^ token);
        if let Some((worker, what, since)) = computes {
            self.core.usage[peer.index()].computing += now - since;
            self.core.record(peer.number(), worker, what, since);
        }
        self.call(peer, |actor, context| actor.on_timer(token, context))
    }

    /// Applies a fault, or the end of a slow link.
    fn apply_fault(&mut self, number: usize) -> Result<(), SimError> {
        let now = self.core.now;
        match self.core.faults[number].clone() {
            Fault::Crash { peer, silent, .. } => self.core.crash(peer, silent),
            Fault::Restart { peer, .. } => {
                self.core.incarnations[peer] += 1;
                // A restarted peer has new connections.
                self.core.severed.retain(|(from, to)| *from != peer as u32 && *to != peer as u32);
                self.call(Rank::new(peer as u32), A::on_restart)?;
            }
            Fault::Partition { peers, until, .. } => self.core.sever_partition(&peers, until.nanos()),
            Fault::Slow { .. } => {
                if let Some(flows) = &mut self.core.flows {
                    flows.link_changed(now);
                }
            }
            Fault::Drift { .. } => {}
        }
        Ok(())
    }
}
