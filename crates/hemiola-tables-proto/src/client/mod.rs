//! The cache that the workers of one peer share for the rows of one shard, with the updates that are under way.
//!
//! A read is served from the cache if the copy is fresh enough for the worker that reads; otherwise the worker [asks](Client::ask) and waits.
//! Updates are added up by row and clock and leave when the slowest worker of the peer closes the clock, or ahead of that if the
//! budget allows. A peer has one client for each shard of a table, so clients share nothing and each can have its own lock.
//!
//! **Read my writes.** A copy in the cache is the row *with this peer's own updates in it*. When a newer copy comes, it replaces the
//! old one, and the updates that are not in it (those after the message number it says to include) are added again. Once a number is included
//! it is so in every later copy, since messages are in order; so the sums kept for this can go. All this is done when somebody reads the row: a copy that is replaced
//! unread, as most are where rows are only added to, costs nothing. A sum that the copy lacks is kept even if it is included, at most one a row. Under BSP workers must not see each
//! other's updates of a clock, so there the cache holds the bare row and a worker's own sums are added when it reads.
//! If the procedure alone knows what an update does, nothing is added and the cache is read-only.
//!
//! **Invariants**
//! 1. A read at clock `c` sees every update of clocks before `c - staleness`, and all own ones.
//! 2. Sums leave in the order of clocks, each exactly once, before the message that closes their clock; those of leased rows, before the lease goes back. Eviction takes copies, never sums.
//! 3. With pushed rows, a copy that is here is subscribed to, and has been from the moment the reply came on. (A push that arrives while the row
//!    is asked for again belongs to an older subscription, and changes since then were not sent: it is dropped.)
//! 4. A request carries the need of the peer's *slowest* worker: with that of the asking one, a slower worker that needs the same row would wait for
//!    a clock that waits for it. With pulled rows each need has a request of its own.
//! 5. In a table with versions, what an update was computed from is kept (here, and by its release at the shard) until all workers have left
//!    the clock in which it was read. An update belongs to the clock in which its row was read.
//!
//! | file | concept |
//! |---|---|
//! | `entry` | what is known of a row |
//! | `intents` | what workers are going to use, and rows that are leased to this peer |
//! | `sending` | what leaves: sums, requests, clocks, releases |
//! | `receiving` | what comes: rows; and what has to go for them |

mod entry;
mod intents;
mod receiving;
mod sending;

use crate::cells::Cells;
use crate::clock::{Clock, Clocks};
use crate::error::{Error, Result};
use crate::message::{ToClient, ToShard};
use crate::number::{Cell, Number};
use crate::priority::Pool;
use crate::procedure::{Procedure, View};
use crate::spec::{ClientId, Consistency, Delivery, NonFinite, ShardId, Spec};
use crate::store::{Index, Slab, Store};
use crate::stream::{Envelope, Stream};
use entry::{Entry, INCLUDED, Part, Spare};
use hemiola_core::WorkerId;
use intents::Intents;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::vec::IntoIter;

/// A message that leaves a client.
#[derive(Debug)]
pub struct FromClient<W: Cell> {
    /// What it says.
    pub envelope: Envelope<ToShard<W>>,
    /// Whether somebody waits for it. What nobody waits for has been taken from the budget already.
    pub urgent: bool,
}

/// A row, as a worker reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a, W> {
    /// Its cells.
    pub cells: Cells<'a, W>,
    /// Its version, to be given back with updates that are computed from it.
    pub version: u64,
}

/// Rows that a worker waits for.
#[derive(Debug)]
struct Wait {
    need: Clock,
    slots: Vec<u32>,
    /// Those before are here and fresh.
    found: usize,
    waiting: bool,
}

/// A peer's side of a table, towards one shard.
pub struct Client<C: Cell> {
    spec: Arc<Spec>,
    id: ClientId,
    shard: ShardId,
    view: View<C::Wide>,
    /// Whether rows bring something to be carried back.
    carries: bool,
    /// Whether the shard wants to know which copies are in use.
    releases: bool,
    /// The clocks of the peer's workers.
    clocks: Clocks,
    stream: Stream<ToClient<C, C::Wide>>,
    /// Every copy that was pushed holds the updates of earlier clocks.
    fresh: Clock,
    index: Index,
    entries: Vec<Entry<C::Wide>>,
    idle: Vec<u32>,
    views: Store<C::Wide>,
    /// What came with a copy, in the slot of its view.
    carried: Slab<C::Wide>,
    /// A row with a worker's own updates in it. Under BSP alone.
    overlay: Store<C::Wide>,
    /// Rows with open sums, by clock. May name a row twice, or one that has none any more.
    open: BTreeMap<Clock, Vec<u32>>,
    /// Everything of earlier clocks has left.
    closed: Clock,
    /// All workers have reached this clock, and not everything has left that has to leave before others learn of it.
    closing: Option<Clock>,
    /// Of which clock sums are leaving, and the rows whose sums have not left.
    leaving: (Clock, IntoIter<u32>),
    /// Sums that were sent and are not known to be included: message and row.
    unconfirmed: VecDeque<(u64, u32)>,
    /// Rows with copies that go when everybody has reached a clock.
    aging: BTreeMap<Clock, Vec<u32>>,
    /// Rows with open sums, if they may be sent ahead of need.
    pool: Option<Pool>,
    waits: Vec<Wait>,
    woken: Vec<WorkerId>,
    /// About what a row's sums take in a message.
    row_bytes: usize,
    /// Number of copies.
    here: usize,
    /// Where the next look for something to evict begins.
    hand: usize,
    forgotten: Vec<u64>,
    released: Vec<(u64, u64, u32)>,
    intents: Intents,
    /// Updates that were left out because they were not finite.
    dropped: u64,
    spare: Spare<C::Wide>,
    out: Vec<FromClient<C::Wide>>,
}

impl<C: Cell> fmt::Debug for Client<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.spec.name;
        formatter.debug_struct("Client").field("table", table).field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<C: Cell> Client<C> {
    /// An empty cache for `workers` workers who begin at the same clock. The procedure is the one that the shard has.
    ///
    /// # Panics
    /// If there are no workers.
    #[must_use]
    pub fn new(
        spec: Arc<Spec>,
        id: ClientId,
        shard: ShardId,
        procedure: &dyn Procedure<C::Wide>,
        workers: usize,
        start: Clock,
    ) -> Self {
        assert!(workers > 0, "a client has workers");
        let carries = !procedure.carried(&vec![C::Wide::ZERO; procedure.state_width(spec.width)]).is_empty();
        let mut overlay = Store::new(&spec);
        overlay.take();
        let bsp = spec.consistency == Consistency::Bsp;
        let wait = || Wait { need: Clock::ZERO, slots: Vec::new(), found: 0, waiting: false };
        Self {
            view: procedure.view(),
            carries,
            releases: procedure.wants_releases(),
            clocks: Clocks::new(workers, start),
            stream: Stream::default(),
            fresh: start,
            index: Index::for_client(&spec),
            entries: Vec::new(),
            idle: Vec::new(),
            views: Store::new(&spec),
            carried: Slab::new(if carries { spec.width } else { 0 }),
            overlay,
            open: BTreeMap::new(),
            closed: start,
            closing: None,
            leaving: (Clock::ZERO, Vec::new().into_iter()),
            unconfirmed: VecDeque::new(),
            aging: BTreeMap::new(),
            pool: spec.managed.filter(|_| !bsp).map(Pool::new),
            waits: (0..workers).map(|_| wait()).collect(),
            woken: Vec::new(),
            row_bytes: 32,
            here: 0,
            hand: 0,
            forgotten: Vec::new(),
            released: Vec::new(),
            intents: Intents::default(),
            dropped: 0,
            spare: Spare::default(),
            out: Vec::new(),
            spec,
            id,
            shard,
        }
    }

    fn clock_of(&self, worker: WorkerId) -> Result<Clock> {
        match self.clocks.of(worker.index()) {
            Clock::INFINITE => Err(Error::Finished { table: self.spec.name.clone(), worker }),
            clock => Ok(clock),
        }
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |slot| self.entries[slot as usize].key)
    }

    fn ensure(&mut self, key: u64) -> u32 {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.idle.pop().unwrap_or_else(|| {
            self.entries.push(Entry::new(key));
            (self.entries.len() - 1) as u32
        });
        self.entries[slot as usize] = Entry::new(key);
        self.index.insert(key, slot, |slot| self.entries[slot as usize].key);
        slot
    }

    /// Forgets a row of which nothing is known any more.
    fn drop_if_idle(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        self.spare.put_log(entry.tidy());
        if entry.is_idle() && self.index.find(entry.key, |slot| self.entries[slot as usize].key) == Some(slot) {
            let key = self.entries[slot as usize].key;
            self.index.remove(key, |slot| self.entries[slot as usize].key);
            self.idle.push(slot);
        }
    }

    fn readable(&self, slot: u32, need: Clock) -> bool {
        let entry = &self.entries[slot as usize];
        entry.is_here() && need <= if self.spec.delivery == Delivery::Push { self.fresh } else { entry.fresh }
    }

    fn need(&self, clock: Clock) -> Clock {
        clock.back(self.spec.consistency.staleness())
    }

    /// Whether updates of different versions are kept apart.
    fn versioned(&self) -> bool {
        self.carries || self.releases
    }

    /// Whether each worker's updates are kept apart.
    fn lanes(&self) -> bool {
        self.spec.consistency == Consistency::Bsp
    }

    /// Whether a worker sees its own updates before the shard has applied them.
    fn shows_own(&self) -> bool {
        self.view != View::ReadOnly
    }

    /// Whether copies hold this peer's own updates.
    fn replays(&self) -> bool {
        !self.lanes() && self.shows_own()
    }

    /// What [`get`](Self::get) returns, if that changes nothing here; nothing if the row is not here or not fresh enough, or if
    /// reading it has to be noted.
    pub fn peek(&self, worker: WorkerId, key: u64) -> Result<Option<Reading<'_, C::Wide>>> {
        let clock = self.clock_of(worker)?;
        let Some(slot) = self.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let entry = &self.entries[slot as usize];
        if self.versioned() || entry.behind || (entry.log.is_some() && self.lanes() && self.shows_own()) {
            return Ok(None);
        }
        if !entry.referenced.load(Ordering::Relaxed) {
            // A hint for the eviction, which has the only reference when it looks.
            entry.referenced.store(true, Ordering::Relaxed);
        }
        Ok(Some(Reading { cells: self.views.cells(entry.view), version: entry.version }))
    }

    /// The row, if the cache has it and it is fresh enough for this worker. Nothing is sent if not: [`Client::ask`] does that.
    pub fn get(&mut self, worker: WorkerId, key: u64) -> Result<Option<Reading<'_, C::Wide>>> {
        let clock = self.clock_of(worker)?;
        let Some(slot) = self.find(key).filter(|slot| self.readable(*slot, self.need(clock))) else {
            self.spec.check_row(key)?;
            return Ok(None);
        };
        let overlaid = self.lanes() && self.shows_own();
        self.show(slot);
        let entry = &mut self.entries[slot as usize];
        *entry.referenced.get_mut() = true;
        entry.used_until = entry.used_until.max(clock.next());
        let mut cells = self.views.cells(entry.view);
        if let Some(log) = entry.log.as_ref().filter(|_| overlaid) {
            let mine =
                |part: &&Part<C::Wide>| part.lane == worker.index() as u32 && part.clock == clock && part.sent == 0;
            if let Some(part) = log.parts.iter().find(mine) {
                self.overlay.set(0, &cells);
                self.overlay.add(0, &part.delta.cells(), self.view.factor(), key, 0);
                cells = self.overlay.cells(0);
            }
        }
        Ok(Some(Reading { cells, version: entry.version }))
    }

    /// Makes sure that rows come which this worker is going to [`get`](Client::get). True if all are here and fresh enough now;
    /// otherwise the worker is among the [woken](Client::take_woken) once they are. They stay until the worker asks for others or
    /// ends its clock.
    pub fn ask(&mut self, worker: WorkerId, keys: &[u64]) -> Result<bool> {
        let clock = self.clock_of(worker)?;
        for key in keys {
            self.spec.check_row(*key)?;
        }
        let need = self.need(clock);
        // Invariant 4.
        let request = if self.spec.delivery == Delivery::Push { self.need(self.clocks.min()) } else { need };
        let slots: Vec<u32> = keys.iter().map(|key| self.ensure(*key)).collect();
        let mut missing = Vec::new();
        for slot in &slots {
            self.entries[*slot as usize].pins += 1;
            let here = self.readable(*slot, need);
            let entry = &mut self.entries[*slot as usize];
            let ask = match self.spec.delivery {
                Delivery::Push => !entry.is_here() && entry.asked.is_none(),
                // The answer to a request with another need may come too early for this worker, or too late.
                Delivery::Pull => !here && entry.asked != Some(request),
            };
            if ask {
                entry.asked = Some(request);
                missing.push(entry.key);
            }
        }
        self.unpin(worker);
        self.waits[worker.index()] = Wait { need, slots, found: 0, waiting: false };
        if !missing.is_empty() {
            self.tell_forgotten();
            self.request(request, missing);
        }
        let ready = self.is_ready(worker);
        self.waits[worker.index()].waiting = !ready;
        Ok(ready)
    }

    /// Whether everything that a worker asked for is here and fresh enough.
    fn is_ready(&mut self, worker: WorkerId) -> bool {
        let Wait { need, mut found, .. } = self.waits[worker.index()];
        let slots = std::mem::take(&mut self.waits[worker.index()].slots);
        while slots.get(found).is_some_and(|slot| self.readable(*slot, need)) {
            found += 1;
        }
        let ready = found == slots.len();
        let wait = &mut self.waits[worker.index()];
        (wait.slots, wait.found) = (slots, found);
        ready
    }

    fn unpin(&mut self, worker: WorkerId) {
        self.waits[worker.index()].waiting = false;
        for slot in std::mem::take(&mut self.waits[worker.index()].slots) {
            self.entries[slot as usize].pins -= 1;
            self.drop_if_idle(slot);
        }
    }

    /// Adds to a row. `seen` is the version of the row that it was computed from; it matters only to procedures that ask for it.
    pub fn update(&mut self, worker: WorkerId, key: u64, cells: &Cells<'_, C::Wide>, seen: u64) -> Result<()> {
        let clock = self.clock_of(worker)?;
        self.spec.check_row(key)?;
        self.spec.check_cells(key, cells)?;
        if let Some(column) = cells.not_finite() {
            if self.spec.non_finite == NonFinite::Drop {
                self.dropped += 1;
                return Ok(());
            }
            return Err(self.spec.not_finite(key, column, worker, self.id));
        }
        let slot = self.ensure(key);
        let version = if self.versioned() { seen } else { 0 };
        let lane = if self.lanes() { worker.index() as u32 } else { 0 };
        let same = |part: &&mut Part<C::Wide>| {
            part.sent == 0 && part.clock == clock && part.version == version && part.lane == lane
        };
        let (width, sparse) = (self.spec.width, self.spec.sparse);
        let entry = &mut self.entries[slot as usize];
        let parts = entry.log.as_mut().map(|log| &mut log.parts);
        let shown = if let Some(part) = parts.and_then(|parts| parts.iter_mut().rev().find(same)) {
            part.delta.add(cells, width, sparse);
            part.shown
        } else {
            self.begin_part(slot, clock, version, lane, cells)?;
            self.pool.is_some()
        };
        let replays = self.replays();
        let entry = &mut self.entries[slot as usize];
        if let (Some(managed), Some(pool), false) = (self.spec.managed, &mut self.pool, entry.leased) {
            let view = entry.is_here().then(|| self.views.cells(entry.view));
            let importance = managed.priority.importance(cells, |column| view.and_then(|view| view.get(column)));
            entry.log.get_or_insert_default().importance += importance;
            pool.insert(slot);
        }
        if replays && entry.is_here() {
            if shown {
                self.views.add(entry.view, cells, self.view.factor(), key, 0);
            } else {
                entry.behind = true;
            }
        }
        Ok(())
    }

    /// Adds to a copy what it lacks.
    fn show(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if !std::mem::take(&mut entry.behind) {
            return;
        }
        let log = entry.log.as_mut().expect("what a copy lacks is in the log");
        for part in log.parts.iter_mut().filter(|part| !part.shown) {
            self.views.add(entry.view, &part.delta.cells(), self.view.factor(), entry.key, 0);
            part.shown = true;
        }
        for part in log.parts.extract_if(.., |part| part.sent == INCLUDED) {
            self.spare.put(part.delta);
        }
        self.spare.put_log(entry.tidy());
    }

    fn begin_part(
        &mut self,
        slot: u32,
        clock: Clock,
        version: u64,
        lane: u32,
        cells: &Cells<'_, C::Wide>,
    ) -> Result<()> {
        let carried = if self.versioned() { self.held(slot, version) } else { Ok(Vec::new()) };
        let carried = carried.inspect_err(|_| self.drop_if_idle(slot))?;
        let log = self.entries[slot as usize].log.get_or_insert_with(|| self.spare.log());
        if !log.parts.iter().any(|part| part.sent == 0 && part.clock == clock) {
            self.open.entry(clock).or_default().push(slot);
        }
        let shown = self.pool.is_some();
        log.parts.push(Part { clock, version, lane, sent: 0, shown, delta: self.spare.delta(cells), carried });
        Ok(())
    }

    /// What came with a version of a row; an error if that version is not held.
    fn held(&self, slot: u32, version: u64) -> Result<Vec<C::Wide>> {
        let entry = &self.entries[slot as usize];
        if entry.is_here() && entry.version == version {
            return Ok(self.carried.row(entry.view).to_vec());
        }
        let older = entry.log.iter().flat_map(|log| &log.older).find(|older| older.version == version);
        match older {
            Some(older) => Ok(older.carried.clone()),
            // Nothing was applied to version 0, and everybody knows what it was.
            None if version == 0 => Ok(vec![C::Wide::ZERO; self.carried.width()]),
            None => Err(Error::UnknownVersion { table: self.spec.name.clone(), row: entry.key, version }),
        }
    }

    /// Ends the worker's clock. What has to leave for that is made by [`close_some`](Self::close_some).
    pub fn clock(&mut self, worker: WorkerId) -> Result<()> {
        let clock = self.clock_of(worker)?;
        self.advance(worker, clock.next());
        Ok(())
    }

    /// Ends the worker's work, in the same way. It does not hold others back any more.
    pub fn finish(&mut self, worker: WorkerId) -> Result<()> {
        self.clock_of(worker)?;
        self.advance(worker, Clock::INFINITE);
        Ok(())
    }

    fn advance(&mut self, worker: WorkerId, to: Clock) {
        self.unpin(worker);
        let moved = self.clocks.advance(worker.index(), to).expect("a clock that was just read goes forward");
        // If an earlier one is still closing, they close together.
        self.closing = moved.or(self.closing);
    }

    /// The clock of a worker.
    #[must_use]
    pub fn clock_at(&self, worker: WorkerId) -> Clock {
        self.clocks.of(worker.index())
    }

    /// Every update of earlier clocks is in what is pushed.
    #[must_use]
    pub fn fresh(&self) -> Clock {
        self.fresh
    }

    /// Workers whose wait is over since this was last called.
    #[must_use]
    pub fn take_woken(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.woken)
    }

    /// The messages to be sent, in order.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<FromClient<C::Wide>> {
        std::mem::take(&mut self.out)
    }

    /// How many updates were left out because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many rows are leased to this client.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.entries.iter().filter(|entry| entry.leased).count()
    }

    /// How many copies the cache holds.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.here
    }
}
