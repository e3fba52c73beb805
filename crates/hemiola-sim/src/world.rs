//! A cluster that runs in virtual time.
//!
//! Events happen in the order of time, and those of one moment in the order they were caused. Nothing here reads a clock or takes chance from anywhere but the seed, so the same
//! description, seed and actors give the same events, which [`Ended::digest`] sums up. A run is over when all are done; if nothing is left to happen and somebody is not,
//! the run is [stuck](Trouble::Stuck), and that is known at once.

use crate::actor::{Actor, Context, Outcome};
use crate::chance;
use crate::compute::Processor;
use crate::cores::Cores;
use crate::describe::{Description, Fault, Impossible, Sharing};
use crate::network::{Flows, Next, Queues, Way, Ways};
use crate::queue::{Event, Queue, Slots};
use crate::stuck::{Wait, WaitGraph};
use crate::trace::{Spent, Trace};
use crate::units::Span;
use hashbrown::HashSet;
use hemiola_collective_proto::Random;
use hemiola_core::{Lane, Moment, Rank};
use rustc_hash::FxBuildHasher;
use serde::Serialize;
use std::fmt;

/// A message under way.
struct Flight<M> {
    way: Way,
    message: M,
    /// Lives of both ends: what a peer sent before it crashed, or was sent before it restarted, is not for the next one.
    lives: (u32, u32),
    sent: u64,
}

/// Somebody is to be called.
struct Alarm {
    peer: Rank,
    life: u32,
    token: u64,
    /// Of a computation: the worker, what it does, since when.
    computes: Option<(u32, &'static str, u64)>,
}

/// What one peer has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Nanoseconds that workers computed, all together.
    pub computing: u64,
    /// Nanoseconds that workers waited, all together.
    pub waiting: u64,
    /// Bytes sent to others.
    pub sent_bytes: u64,
    /// Messages sent to others.
    pub sent_messages: u64,
    /// Bytes that came from others.
    pub received_bytes: u64,
}

/// Everything but the actors.
pub struct Core<M> {
    now: u64,
    queue: Queue,
    flights: Slots<Flight<M>>,
    alarms: Slots<Alarm>,
    ways: Ways,
    queues: Queues,
    flows: Option<Flows>,
    processors: Vec<Processor>,
    cores: Option<Cores>,
    random: Vec<Random>,
    faults: Vec<Fault>,
    deadline: u64,
    latency: u64,
    /// By peer: millionths by which its clock is ahead.
    drift: Vec<f64>,
    /// By peer: how often it has begun, odd while it runs.
    lives: Vec<u32>,
    /// Pairs that count as lost to each other.
    severed: HashSet<(u32, u32), FxBuildHasher>,
    accounts: Vec<Account>,
    waiting: Vec<Vec<Option<(u64, &'static str)>>>,
    trace: Option<Trace>,
    digest: u64,
    events: u64,
}

impl<M> fmt::Debug for Core<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Core").field("now", &self.now).field("events", &self.events).finish_non_exhaustive()
    }
}

impl<M> Core<M> {
    pub(crate) fn peers(&self) -> usize {
        self.lives.len()
    }

    pub(crate) fn local_now(&self, peer: Rank) -> Moment {
        let drift = self.drift[peer.index()];
        // Whole nanoseconds of a clock without drift stay whole.
        let ahead = if drift == 0.0 { 0 } else { (self.now as f64 * drift * 1e-6) as i64 };
        Moment::from_nanos(self.now.saturating_add_signed(ahead))
    }

    pub(crate) fn random(&mut self, peer: Rank) -> &mut Random {
        &mut self.random[peer.index()]
    }

    pub(crate) fn send(&mut self, from: Rank, to: Rank, lane: Lane, bytes: u64, message: M) {
        let lives = (self.lives[from.index()], self.lives[to.index()]);
        let (now, own) = (self.now, from == to);
        let bytes = if own { 0 } else { bytes };
        let load = if own { 0 } else { self.ways.load(bytes) };
        let way = Way { from: from.number(), to: to.number(), lane, bytes, load, hop: 0, left: now, tail: now };
        let slot = self.flights.insert(Flight { way, message, lives, sent: now });
        if own {
            self.queue.push(now, Event::Deliver(slot));
            return;
        }
        let account = &mut self.accounts[from.index()];
        account.sent_bytes += bytes;
        account.sent_messages += 1;
        self.handle(way.from, bytes);
        if let Some(flows) = &mut self.flows {
            flows.send(now, slot, &way);
            return;
        }
        let way = &mut self.flights.get_mut(slot).way;
        let next = self.queues.send(now, way, &mut self.ways);
        self.follow(slot, &next);
    }

    fn follow(&mut self, slot: u32, next: &Next) {
        match *next {
            Next::Head(at) => self.queue.push(at, Event::Head(slot)),
            Next::There(at) => self.queue.push(at, Event::Deliver(slot)),
        }
    }

    pub(crate) fn compute(&mut self, peer: Rank, worker: usize, what: &'static str, work: Span, token: u64) {
        let takes = self.processors[peer.index()].span(self.now, work).nanos();
        let computes = Some((worker as u32, what, self.now));
        let alarm = Alarm { peer, life: self.lives[peer.index()], token, computes };
        let slot = self.alarms.insert(alarm);
        if self.cores.is_some() {
            self.occupy(peer.number(), takes, Some(slot));
        } else {
            self.queue.push(self.now + takes, Event::Timer(slot));
        }
    }

    /// Something computes on the host of a peer, where hosts are described.
    fn occupy(&mut self, peer: u32, work: u64, alarm: Option<u32>) {
        let Some(cores) = &mut self.cores else { return };
        if work == 0 && alarm.is_none() {
            return;
        }
        cores.begin(self.now, peer, work, alarm);
        let host = cores.host_of(peer);
        self.look_at(host);
    }

    /// Has a host looked at when something of it ends next.
    fn look_at(&mut self, host: usize) {
        if let Some((at, version)) = self.cores.as_ref().and_then(|cores| cores.next(host)) {
            self.queue.push(at, Event::Cores(host as u16, version));
        }
    }

    /// The threads of an end of a message handle it.
    fn handle(&mut self, peer: u32, bytes: u64) {
        if let Some(work) = self.cores.as_ref().map(|cores| cores.handling(bytes)) {
            self.occupy(peer, work, None);
        }
    }

    pub(crate) fn after(&mut self, peer: Rank, span: Span, token: u64) {
        let drift = self.drift[peer.index()];
        let span = if drift == 0.0 { span } else { span.times(1.0 / (1.0 + drift * 1e-6)) };
        let slot = self.alarms.insert(Alarm { peer, life: self.lives[peer.index()], token, computes: None });
        self.queue.push(self.now.saturating_add(span.nanos()), Event::Timer(slot));
    }

    pub(crate) fn waits(&mut self, peer: Rank, worker: usize, what: &'static str) {
        let waiting = &mut self.waiting[peer.index()];
        if waiting.len() <= worker {
            waiting.resize(worker + 1, None);
        }
        waiting[worker].get_or_insert((self.now, what));
    }

    pub(crate) fn goes_on(&mut self, peer: Rank, worker: usize) {
        let Some((since, what)) = self.waiting[peer.index()].get_mut(worker).and_then(Option::take) else { return };
        self.accounts[peer.index()].waiting += self.now - since;
        self.record(peer.number(), worker as u32, what, since);
    }

    fn record(&mut self, peer: u32, worker: u32, what: &'static str, start: u64) {
        let end = self.now;
        if let Some(trace) = self.trace.as_mut().filter(|_| end > start) {
            trace.spans.push(Spent { peer, worker, what, start, end });
        }
    }

    fn runs(&self, peer: usize) -> bool {
        self.lives[peer] % 2 == 1
    }

    fn note(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// Others learn, now or by the deadline, that a peer has ended.
    fn crash(&mut self, peer: usize, silent: bool) {
        self.lives[peer] += 1;
        self.waiting[peer].clear();
        if let Some(cores) = &mut self.cores {
            for alarm in cores.forget(self.now, peer as u32) {
                self.alarms.take(alarm);
            }
            let host = cores.host_of(peer as u32);
            self.look_at(host);
        }
        let after = if silent { self.deadline } else { self.latency };
        for observer in (0..self.peers()).filter(|observer| *observer != peer) {
            let lost = Event::Lost { observer: observer as u16, gone: peer as u16 };
            self.queue.push(self.now + after, lost);
        }
    }

    /// Both sides of a partition that lasts longer than the deadline give each other up.
    fn part(&mut self, side: &[usize], until: u64) {
        if until - self.now < self.deadline {
            return;
        }
        for &here in side {
            for there in (0..self.peers()).filter(|there| !side.contains(there)) {
                for (observer, gone) in [(here, there), (there, here)] {
                    let lost = Event::Lost { observer: observer as u16, gone: gone as u16 };
                    self.queue.push(self.now + self.deadline, lost);
                }
            }
        }
    }
}

/// How a run ended that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// When, in virtual time.
    pub at: Span,
    /// Messages that came, computations and spans that ended, losses.
    pub events: u64,
    /// Of all of them: equal for equal runs.
    pub digest: u64,
}

/// How a run ended that did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Nothing can happen any more, and not all are done.
    #[error("stuck at {at}: nothing can happen any more, and somebody waits{graph}")]
    Stuck {
        /// When.
        at: Span,
        /// Who waits for whom.
        graph: WaitGraph,
    },
    /// An actor failed.
    #[error("peer {peer} failed at {at}: {reason}")]
    Failed {
        /// When.
        at: Span,
        /// Where.
        peer: Rank,
        /// Why.
        reason: String,
    },
    /// More events than were allowed: somebody keeps busy without getting anywhere, or the limit is too low.
    #[error("not over after {events} events, at {at}; those who are not done{graph}")]
    Endless {
        /// When.
        at: Span,
        /// How many.
        events: u64,
        /// Who waits for whom.
        graph: WaitGraph,
    },
}

/// A cluster with its actors.
pub struct World<A: Actor> {
    actors: Vec<A>,
    core: Core<A::Message>,
    limit: u64,
}

impl<A: Actor + fmt::Debug> fmt::Debug for World<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("World").field("core", &self.core).finish_non_exhaustive()
    }
}

impl<A: Actor> World<A> {
    /// The cluster of a description, with an actor for each peer.
    pub fn new(description: &Description, seed: u64, actor: impl FnMut(Rank) -> A) -> Result<Self, Impossible> {
        description.check()?;
        let peers = description.peers;
        let mut queue = Queue::default();
        let mut drift = vec![0.0; peers];
        for (number, fault) in description.faults.iter().enumerate() {
            let moments = match fault {
                Fault::Crash { at, .. } | Fault::Restart { at, .. } | Fault::Partition { at, .. } => vec![*at],
                Fault::Slow { at, until, .. } => vec![*at, *until],
                Fault::Drift { peer, millionths } => {
                    drift[*peer] += millionths;
                    Vec::new()
                }
            };
            for at in moments {
                queue.push(at.nanos(), Event::Fault(number as u32));
            }
        }
        let core = Core {
            now: 0,
            queue,
            flights: Slots::default(),
            alarms: Slots::default(),
            ways: Ways::new(description, seed),
            queues: Queues::new(description),
            flows: (description.link.sharing == Sharing::Fair).then(|| Flows::new(description)),
            processors: (0..peers).map(|peer| Processor::new(description, peer, seed)).collect(),
            cores: Cores::new(description),
            random: (0..peers).map(|peer| chance::generator(seed, 0x30_0000 + peer as u64)).collect(),
            faults: description.faults.clone(),
            deadline: description.deadline.nanos(),
            latency: description.link.latency.nanos(),
            drift,
            lives: vec![1; peers],
            severed: HashSet::default(),
            accounts: vec![Account::default(); peers],
            waiting: vec![Vec::new(); peers],
            trace: None,
            digest: 0,
            events: 0,
        };
        Ok(Self { actors: Rank::all(peers).map(actor).collect(), core, limit: u64::MAX })
    }

    /// Changes actors before they begin.
    #[must_use]
    pub fn with_actors(mut self, change: impl FnMut(Rank, A) -> A) -> Self {
        let mut change = change;
        self.actors = Rank::all(self.actors.len()).zip(self.actors).map(|(me, actor)| change(me, actor)).collect();
        self
    }

    /// Writes down what happens when.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.core.trace = Some(Trace::default());
        self
    }

    /// Gives up after so many events.
    #[must_use]
    pub fn limit(mut self, events: u64) -> Self {
        self.limit = events;
        self
    }

    /// The actors.
    #[must_use]
    pub fn actors(&self) -> &[A] {
        &self.actors
    }

    /// The actors, when all is over.
    #[must_use]
    pub fn into_actors(self) -> Vec<A> {
        self.actors
    }

    /// What each peer has spent.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.core.accounts
    }

    /// What happened when, if it was to be written down.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        self.core.trace.as_ref()
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self) -> Result<Ended, Trouble> {
        for peer in Rank::all(self.actors.len()) {
            self.call(peer, A::start)?;
        }
        loop {
            if let Some(flows) = &mut self.core.flows
                && self.core.queue.next() != Some(self.core.now)
                && let Some(at) = flows.settle(self.core.now, &self.core.ways)
            {
                self.core.queue.push(at, Event::Flows(flows.version()));
            }
            let Some((at, event)) = self.core.queue.pop() else { break };
            self.core.now = at;
            self.happen(event)?;
            if self.core.events > self.limit {
                let (at, events) = (Span::from_nanos(at), self.core.events);
                return Err(Trouble::Endless { at, events, graph: self.graph() });
            }
        }
        let at = Span::from_nanos(self.core.now);
        let graph = self.graph();
        let all_done = Rank::all(self.actors.len())
            .all(|peer| !self.core.runs(peer.index()) || self.actors[peer.index()].is_done());
        if !all_done {
            return Err(Trouble::Stuck { at, graph });
        }
        Ok(Ended { at, events: self.core.events, digest: self.core.digest })
    }

    /// Who waits for whom now.
    #[must_use]
    pub fn graph(&self) -> WaitGraph {
        let mut waits = Vec::new();
        for peer in Rank::all(self.actors.len()).filter(|peer| self.core.runs(peer.index())) {
            let actor = &self.actors[peer.index()];
            let of_peer = actor.waits();
            if of_peer.is_empty() && !actor.is_done() {
                waits.push((peer, Wait::new("its actor", "something it does not tell", Vec::new())));
            }
            waits.extend(of_peer.into_iter().map(|wait| (peer, wait)));
        }
        WaitGraph::new(waits)
    }

    fn call(
        &mut self,
        peer: Rank,
        call: impl FnOnce(&mut A, &mut Context<'_, A::Message>) -> Outcome,
    ) -> Result<(), Trouble> {
        let mut context = Context { core: &mut self.core, me: peer };
        call(&mut self.actors[peer.index()], &mut context).map_err(|reason| {
            let at = Span::from_nanos(self.core.now);
            Trouble::Failed { at, peer, reason }
        })
    }

    fn happen(&mut self, event: Event) -> Result<(), Trouble> {
        let now = self.core.now;
        match event {
            Event::Head(slot) => {
                let Core { flights, queues, ways, lives, .. } = &mut self.core;
                let flight = flights.get_mut(slot);
                // What had not left when its sender crashed never does.
                if lives[flight.way.from as usize] != flight.lives.0 && flight.way.left > flight.sent {
                    drop(flights.take(slot));
                    return Ok(());
                }
                let next = queues.hop(now, &mut flight.way, ways);
                self.core.follow(slot, &next);
            }
            Event::Flows(version) => {
                let Some(flows) = self.core.flows.as_mut().filter(|flows| flows.version() == version) else {
                    return Ok(());
                };
                let ended = flows.ended(now);
                for slot in ended {
                    let way = self.core.flights.get_mut(slot).way;
                    let takes = self.core.ways.propagation(&way, now) + self.core.ways.overhead();
                    let at = self.core.ways.in_order(&way, now + takes);
                    self.core.queue.push(at, Event::Deliver(slot));
                }
            }
            Event::Deliver(slot) => {
                let Flight { way, message, lives, sent } = self.core.flights.take(slot);
                let (from, to) = (Rank::new(way.from), Rank::new(way.to));
                if self.core.lives[to.index()] != lives.1 || self.core.severed.contains(&(way.from, way.to)) {
                    return Ok(());
                }
                self.core.events += 1;
                self.core.note(now);
                self.core.note(u64::from(way.from) << 40 ^ u64::from(way.to) << 16 ^ way.bytes);
                self.core.accounts[to.index()].received_bytes += way.bytes;
                if from != to {
                    self.core.record(way.from, Spent::WIRE, "message", sent);
                    self.core.handle(way.to, way.bytes);
                }
                self.call(to, |actor, context| actor.receive(from, message, context))?;
            }
            Event::Timer(slot) => return self.ring(slot),
            Event::Cores(host, version) => {
                let host = usize::from(host);
                let ended = self.core.cores.as_mut().and_then(|cores| cores.ended(now, host, version));
                let Some(ended) = ended else { return Ok(()) };
                self.core.look_at(host);
                for slot in ended {
                    self.ring(slot)?;
                }
            }
            Event::Fault(number) => return self.strike(number as usize),
            Event::Lost { observer, gone } => {
                let (observer, gone) = (Rank::new(observer.into()), Rank::new(gone.into()));
                let known = self.core.severed.contains(&(gone.number(), observer.number()));
                if !self.core.runs(observer.index()) || known {
                    return Ok(());
                }
                self.core.severed.insert((gone.number(), observer.number()));
                self.core.events += 1;
                self.core.note(now ^ u64::from(gone.number()) << 48);
                self.call(observer, |actor, context| actor.lost(gone, context))?;
            }
        }
        Ok(())
    }

    /// An alarm goes off.
    fn ring(&mut self, slot: u32) -> Result<(), Trouble> {
        let now = self.core.now;
        let Alarm { peer, life, token, computes } = self.core.alarms.take(slot);
        if self.core.lives[peer.index()] != life {
            return Ok(());
        }
        self.core.events += 1;
        self.core.note(now);
        self.core.note(u64::from(peer.number()) << 32 ^ token);
        if let Some((worker, what, since)) = computes {
            self.core.accounts[peer.index()].computing += now - since;
            self.core.record(peer.number(), worker, what, since);
        }
        self.call(peer, |actor, context| actor.timer(token, context))
    }

    /// A fault begins, or a link becomes what it was.
    fn strike(&mut self, number: usize) -> Result<(), Trouble> {
        let now = self.core.now;
        match self.core.faults[number].clone() {
            Fault::Crash { peer, silent, .. } => self.core.crash(peer, silent),
            Fault::Restart { peer, .. } => {
                self.core.lives[peer] += 1;
                // Connections are made anew.
                self.core.severed.retain(|(from, to)| *from != peer as u32 && *to != peer as u32);
                self.call(Rank::new(peer as u32), A::restart)?;
            }
            Fault::Partition { peers, until, .. } => self.core.part(&peers, until.nanos()),
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
