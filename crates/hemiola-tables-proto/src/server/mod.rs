//! A shard: the rows that one server owns, and what it does with messages from clients.
//!
//! Updates come numbered and tagged with the clock they were computed in. Under SSP and Async they are applied as they come, in
//! order per sender. Under BSP they are held until all clients have closed the clock, then applied by clock, client, and order
//! of sending: so nothing of an open clock is ever visible, and the same job gives the same bits whatever the timing.
//!
//! When the minimum of the clocks moves, every client is sent the rows that changed and that it has, and then the new minimum; readers that
//! waited for it are answered. Between clocks, changed rows go ahead of need if the budget allows ([`Server::send_ahead`]).
//!
//! **Invariants**
//! 1. An update is applied exactly once ([`Stream`] drops repetitions), in the sender's order.
//! 2. A row sent with freshness `f` holds every update of clocks before `f`; so does every row that its receiver was pushed earlier
//!    and that was not sent again: a subscribed row that changed is *dirty* for that client until a copy is on its way.
//! 3. `included` of a message to a client: the client's messages up to this number are in the rows, and later ones are not.
//! 4. A message is checked as a whole before any of it is applied.
//!
//! | file | concept |
//! |---|---|
//! | [`in_place`] | the shard without messages, in one process |
//! | `leases` | rows that have moved to their only user |
//! | [`rows`] | the rows with versions, state and marks |
//! | [`snapshot`] | the shard as it was at a clock, by copy-on-write |

pub mod in_place;
mod leases;
pub mod rows;
pub mod snapshot;

use crate::batch::Batch;
use crate::budget::Pacer;
use crate::clock::{Clock, Clocks, Parked};
use crate::error::{Error, Result};
use crate::message::{ToClient, ToShard};
use crate::number::Cell;
use crate::priority::Pool;
use crate::procedure::{Procedure, UnknownVersion, View};
use crate::random::Random;
use crate::spec::{ClientId, Consistency, Delivery, ShardId, Spec};
use crate::stream::{Envelope, Stream};
use crate::wire;
use hemiola_core::Moment;
use leases::Leases;
use rows::{Rows, Write};
use snapshot::Snapshot;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// So many rows are on their way from memory while one is read or changed.
const AHEAD: usize = 8;

/// A message that leaves a shard.
#[derive(Debug)]
pub struct FromShard<C: Cell> {
    /// Whom it is for.
    pub to: ClientId,
    /// What it says.
    pub envelope: Envelope<ToClient<C, C::Wide>>,
    /// Whether somebody waits for it. What nobody waits for has been taken from the budget already.
    pub urgent: bool,
}

/// What a shard knows of a client.
struct Remote<W: Cell> {
    stream: Stream<ToShard<W>>,
    /// Its messages up to this one are in the rows.
    included: u64,
    /// The numbers of its clock messages that others have not caught up with. Under BSP alone.
    closing: VecDeque<(Clock, u64)>,
    /// What it was told of the minimum.
    fresh: Clock,
}

/// What waits for a clock to close.
enum Held<W: Cell> {
    Update(Batch<W>, Vec<W>),
    /// Copies that updates held before this may have been computed from.
    Release(Vec<(u64, u64, u32)>),
}

/// One shard of a table.
pub struct Server<C: Cell> {
    spec: Arc<Spec>,
    shard: ShardId,
    procedure: Box<dyn Procedure<C::Wide>>,
    /// Whether clients carry some of the state.
    carries: bool,
    rows: Rows<C>,
    clocks: Clocks,
    clients: Vec<Remote<C::Wide>>,
    /// Reads that wait for a clock.
    parked: Parked<(ClientId, Vec<u64>)>,
    /// Under BSP: updates of clocks that are still open, by clock and client, in the order they came.
    held: BTreeMap<(Clock, u32), Vec<Held<C::Wide>>>,
    /// Rows that somebody has an old copy of.
    dirty: Pool,
    random: Random,
    /// The latest clock of which an update is applied.
    latest: Option<Clock>,
    snapshot: Option<Snapshot<C>>,
    leases: Leases,
    /// Updates in place that were left out because they were not finite.
    dropped: u64,
    /// Whose turn it is to be sent rows ahead of need.
    turn: usize,
    out: Vec<FromShard<C>>,
}

impl<C: Cell> fmt::Debug for Server<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.spec.name;
        formatter.debug_struct("Server").field("table", table).field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<C: Cell> Server<C> {
    /// An empty shard whose clients all begin at the same clock.
    pub fn new(
        spec: Arc<Spec>,
        shard: ShardId,
        procedure: Box<dyn Procedure<C::Wide>>,
        start: Clock,
        random: Random,
    ) -> Result<Self> {
        spec.check()?;
        if spec.sparse && (procedure.view() == View::ReadOnly || procedure.state_width(spec.width) > 0) {
            let problem = "sparse rows take procedures that add; make the table dense for others".to_owned();
            return Err(Error::BadSpec { table: spec.name.clone(), problem });
        }
        let remote = || Remote { stream: Stream::default(), included: 0, closing: VecDeque::new(), fresh: start };
        let state = vec![C::Wide::default(); procedure.state_width(spec.width)];
        Ok(Self {
            carries: !procedure.carried(&state).is_empty(),
            rows: Rows::new(&spec, procedure.state_width(spec.width)),
            clocks: Clocks::new(spec.clients, start),
            clients: (0..spec.clients).map(|_| remote()).collect(),
            parked: Parked::default(),
            held: BTreeMap::new(),
            dirty: Pool::new(spec.managed.unwrap_or_default()),
            random,
            latest: None,
            snapshot: None,
            leases: Leases::default(),
            dropped: 0,
            turn: 0,
            out: Vec::new(),
            spec,
            shard,
            procedure,
        })
    }

    /// Takes a message of a client. What is to be sent is in [`Server::take_outgoing`].
    pub fn receive(&mut self, from: ClientId, envelope: Envelope<ToShard<C::Wide>>) -> Result<()> {
        let Some(remote) = self.clients.get_mut(from.index()) else {
            let (table, clients) = (self.spec.name.clone(), self.spec.clients);
            return Err(Error::UnknownClient { table, shard: self.shard, client: from, clients });
        };
        remote.stream.accept(envelope).map_err(|problem| bad(&self.spec, problem))?;
        while let Some((number, body)) = self.clients[from.index()].stream.deliver() {
            self.handle(from, number, body)?;
        }
        Ok(())
    }

    fn handle(&mut self, from: ClientId, number: u64, body: ToShard<C::Wide>) -> Result<()> {
        if self.clocks.of(from.index()) == Clock::INFINITE && !matches!(body, ToShard::Release { .. }) {
            return Err(bad(&self.spec, format!("client {from} had finished and spoke again")));
        }
        if self.spec.consistency != Consistency::Bsp {
            self.clients[from.index()].included = number;
        }
        match body {
            ToShard::Get { need, keys } => {
                self.check_keys(&keys)?;
                if need <= self.clocks.min() {
                    self.reply(from, &keys);
                } else {
                    self.parked.park(need, (from, keys));
                }
            }
            ToShard::Update { clock, batch, carried } => {
                self.check_update(from, clock, &batch, &carried)?;
                if self.spec.consistency == Consistency::Bsp {
                    self.held.entry((clock, from.index() as u32)).or_default().push(Held::Update(batch, carried));
                } else {
                    self.apply(clock, &batch, &carried)?;
                }
            }
            ToShard::Clock(clock) => {
                let advanced = self.clocks.advance(from.index(), clock);
                let moved = advanced.map_err(|backward| Error::backward(&self.spec.name, backward))?;
                self.clients[from.index()].closing.push_back((clock, number));
                if clock == Clock::INFINITE {
                    // Leases it knew of came back before this; of others it never kept anything.
                    let kept = self.leases.of(from);
                    self.take_back(from, &kept);
                    self.unsubscribe_all(from);
                }
                if let Some(min) = moved {
                    self.minimum_moved(min)?;
                }
            }
            ToShard::Forget { keys } => {
                self.check_keys(&keys)?;
                for key in keys {
                    if let Some(slot) = self.rows.find(key) {
                        self.rows.unsubscribe(slot, from);
                        self.settle(slot);
                    }
                }
            }
            ToShard::Intend { keys } => {
                self.check_keys(&keys)?;
                self.lease(from, keys);
            }
            ToShard::Return { keys } => {
                self.check_keys(&keys)?;
                self.take_back(from, &keys);
            }
            ToShard::Release { copies } => {
                let own = self.held.iter_mut().rev().find(|((_, client), _)| *client == from.index() as u32);
                match own {
                    Some((_, held)) => held.push(Held::Release(copies)),
                    None => self.release(&copies),
                }
            }
        }
        Ok(())
    }

    fn release(&mut self, copies: &[(u64, u64, u32)]) {
        for (key, version, count) in copies {
            self.procedure.released(*key, *version, *count);
        }
    }

    fn check_keys(&self, keys: &[u64]) -> Result<()> {
        keys.iter().try_for_each(|key| self.check_key(*key))
    }

    fn check_key(&self, key: u64) -> Result<()> {
        self.spec.check_row(key)?;
        if self.spec.shard_of(key) != self.shard {
            return Err(bad(&self.spec, format!("shard {} was asked for row {key} of another", self.shard)));
        }
        Ok(())
    }

    fn check_update(&self, from: ClientId, clock: Clock, batch: &Batch<C::Wide>, carried: &[C::Wide]) -> Result<()> {
        let closed = self.clocks.of(from.index());
        // Sums of leased rows come when the lease goes back, after their clocks.
        let leased = || batch.iter().all(|row| self.leases.holder(row.key) == Some(from));
        if clock == Clock::INFINITE || (clock < closed && !leased()) {
            return Err(bad(
                &self.spec,
                format!("client {from} sent an update of clock {clock} after it had closed {closed}"),
            ));
        }
        if carried.len() != if self.carries { batch.len() * self.spec.width } else { 0 } {
            return Err(bad(
                &self.spec,
                format!("{} values were carried back for {} rows", carried.len(), batch.len()),
            ));
        }
        for row in batch.iter() {
            self.check_key(row.key)?;
            self.spec.check_cells(row.key, &row.cells)?;
            if let Some(column) = row.cells.not_finite() {
                return Err(Error::SumNotFinite { table: self.spec.name.clone(), row: row.key, column, client: from });
            }
        }
        Ok(())
    }

    /// Applies updates that were computed in `clock`.
    fn apply(&mut self, clock: Clock, batch: &Batch<C::Wide>, carried: &[C::Wide]) -> Result<()> {
        self.latest = self.latest.max(Some(clock));
        // Some rows are on their way from memory while one is changed.
        let mut slots = [0; AHEAD];
        let mut coming = batch.keys();
        let first = coming.by_ref().take(AHEAD);
        for (slot, key) in slots.iter_mut().zip(first) {
            *slot = self.rows.ensure(key, &self.spec, &*self.procedure);
            self.rows.prefetch(*slot);
        }
        for (at, row) in batch.iter().enumerate() {
            let carried =
                if carried.is_empty() { carried } else { &carried[at * self.spec.width..][..self.spec.width] };
            let write = Write { version: row.version, cells: row.cells, carried };
            self.write(slots[at % AHEAD], clock, &write)?;
            if let Some(key) = coming.next() {
                slots[at % AHEAD] = self.rows.ensure(key, &self.spec, &*self.procedure);
                self.rows.prefetch(slots[at % AHEAD]);
            }
        }
        Ok(())
    }

    /// Applies one update to a row, and to its image in the snapshot if it belongs there.
    #[inline]
    fn write(&mut self, slot: u32, clock: Clock, write: &Write<'_, C::Wide>) -> Result<()> {
        let importance =
            self.spec.managed.map_or(0.0, |managed| self.rows.importance(slot, &write.cells, managed.priority));
        let mut done = Ok(());
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.before_write(slot, clock, &self.rows);
            done = snapshot.write_image(slot, clock, write, &*self.procedure);
        }
        done.and_then(|()| self.rows.write(slot, write, &*self.procedure)).map_err(|UnknownVersion| {
            Error::UnknownVersion { table: self.spec.name.clone(), row: self.rows.key(slot), version: write.version }
        })?;
        if self.rows.changed(slot, importance) {
            self.dirty.insert(slot);
        }
        Ok(())
    }

    fn minimum_moved(&mut self, min: Clock) -> Result<()> {
        if self.spec.consistency == Consistency::Bsp {
            let open = self.held.split_off(&(min, 0));
            for ((clock, _), updates) in std::mem::replace(&mut self.held, open) {
                for update in updates {
                    match update {
                        Held::Update(batch, carried) => self.apply(clock, &batch, &carried)?,
                        Held::Release(copies) => self.release(&copies),
                    }
                }
            }
        }
        for client in 0..self.clients.len() {
            let bsp = self.spec.consistency == Consistency::Bsp;
            let remote = &mut self.clients[client];
            while let Some((_, number)) = remote.closing.front().copied().filter(|(clock, _)| *clock <= min) {
                remote.closing.pop_front();
                if bsp {
                    remote.included = number;
                }
            }
            if self.clocks.of(client) != Clock::INFINITE {
                self.push_all(ClientId::new(client as u32), min);
            }
        }
        for (client, keys) in self.parked.release(min) {
            self.reply(client, &keys);
        }
        Ok(())
    }

    /// Sends a client all rows that changed, and then the new minimum.
    fn push_all(&mut self, to: ClientId, min: Clock) {
        let mut slots: Vec<u32> = Vec::new();
        if self.spec.delivery == Delivery::Push {
            slots.extend(self.dirty.members().iter().filter(|slot| self.rows.is_dirty(**slot, to)));
        }
        self.send_rows(to, &slots, min, false);
    }

    fn reply(&mut self, to: ClientId, keys: &[u64]) {
        // What it had asked for ahead of need: nobody there reads any more, and a copy would be kept up to date for ever.
        if self.clocks.of(to.index()) == Clock::INFINITE {
            return;
        }
        let keys = self.without_leased(to, keys);
        if keys.is_empty() {
            return;
        }
        let mut slots = Vec::with_capacity(keys.len());
        for key in &keys {
            let slot = self.rows.ensure(*key, &self.spec, &*self.procedure);
            if self.spec.delivery == Delivery::Push {
                self.rows.subscribe(slot, to);
            }
            slots.push(slot);
        }
        let fresh = self.clocks.min();
        self.send_rows(to, &slots, fresh, true);
    }

    /// Sends rows in messages of bounded size; the last one carries the freshness.
    fn send_rows(&mut self, to: ClientId, slots: &[u32], fresh: Clock, reply: bool) {
        let before = self.clients[to.index()].fresh;
        let mut rest = slots;
        loop {
            let rows = rest.len().min(self.spec.message_bytes / self.rows.least_bytes() + 1);
            let values = if self.spec.sparse { 0 } else { rows * self.spec.width };
            let (mut batch, mut carried, mut bytes) = (Batch::with_room(rows, values), Vec::new(), 0);
            while let Some((slot, later)) = rest.split_first().filter(|_| bytes < self.spec.message_bytes) {
                rest = later;
                if let Some(soon) = rest.get(AHEAD) {
                    self.rows.prefetch(*soon);
                }
                bytes += self.copy(*slot, to, &mut batch, &mut carried);
            }
            // A reply is as fresh as it is, but only the last message may raise what is known of other rows.
            let fresh = if rest.is_empty() { fresh } else { before };
            self.send(to, batch, carried, fresh, reply, true);
            if rest.is_empty() {
                break;
            }
        }
        self.clients[to.index()].fresh = fresh;
    }

    /// Puts a row into a message. Returns about how many bytes it takes.
    fn copy(&mut self, slot: u32, to: ClientId, batch: &mut Batch<C>, carried: &mut Vec<C::Wide>) -> usize {
        let (key, version, state) = (self.rows.key(slot), self.rows.version(slot), self.rows.state(slot));
        let brings = self.procedure.carried(state);
        carried.extend_from_slice(brings);
        let bytes = Batch::row_bytes(&self.rows.cells(slot)) + size_of_val(brings);
        batch.push(key, version, &self.rows.cells(slot));
        self.procedure.sent(key, version, state);
        self.rows.clean(slot, to);
        self.settle(slot);
        bytes
    }

    fn send(&mut self, to: ClientId, batch: Batch<C>, carried: Vec<C::Wide>, fresh: Clock, reply: bool, urgent: bool) {
        let remote = &mut self.clients[to.index()];
        let body = ToClient::Rows { fresh, included: remote.included, reply, batch, carried };
        self.out.push(FromShard { to, envelope: remote.stream.send(body), urgent });
    }

    /// Takes a row out of the pool if nobody has an old copy of it any more.
    fn settle(&mut self, slot: u32) {
        if self.rows.settle(slot) {
            self.dirty.remove(slot);
        }
    }

    fn unsubscribe_all(&mut self, client: ClientId) {
        for slot in 0..self.rows.len() as u32 {
            self.rows.unsubscribe(slot, client);
            self.settle(slot);
        }
    }

    /// Sends changed rows that nobody waits for, the most important first, as far as the budget allows. `stream` tells the pacer which
    /// of the streams it paces leads to a client; nothing is sent to those it does not pace.
    ///
    /// # Panics
    /// Never: what is sent was measured before.
    pub fn send_ahead(&mut self, now: Moment, pacer: &mut Pacer, stream: impl Fn(ClientId) -> Option<u64>) {
        for client in 0..self.clients.len() {
            if let Some(stream) = stream(ClientId::new(client as u32)) {
                pacer.acknowledged(stream, self.clients[client].stream.acknowledged());
            }
        }
        if self.spec.managed.is_none() || self.spec.consistency == Consistency::Bsp {
            return;
        }
        for _ in 0..self.clients.len() {
            let to = ClientId::new(self.turn as u32);
            self.turn = (self.turn + 1) % self.clients.len();
            let Some(stream) = stream(to) else { continue };
            let allowance = pacer.allowance(now).min(self.spec.message_bytes);
            if allowance <= wire::ROWS_HEAD_BYTES || !self.procedure.may_send() {
                return;
            }
            let rows = &self.rows;
            // Rows of a sparse table differ; enough are chosen for the smallest.
            let count = allowance / rows.least_bytes() + 1;
            let mut slots =
                self.dirty.choose(count, &mut self.random, |slot| rows.is_dirty(slot, to), |slot| rows.waiting(slot));
            let mut bytes = wire::ROWS_HEAD_BYTES;
            let mut fits = |slot: &u32| {
                bytes += Batch::row_bytes(&rows.cells(*slot)) + size_of_val(self.procedure.carried(rows.state(*slot)));
                bytes <= allowance
            };
            let fitting = slots.iter().take_while(|slot| fits(slot)).count();
            slots.truncate(fitting);
            if slots.is_empty() {
                continue;
            }
            let (mut batch, mut carried) = (Batch::new(), Vec::new());
            for slot in slots {
                self.copy(slot, to, &mut batch, &mut carried);
            }
            let fresh = self.clients[to.index()].fresh;
            self.send(to, batch, carried, fresh, false, false);
            let sent = self.out.last().expect("it was just put there");
            pacer.spend(now, stream, sent.envelope.number, wire::client_bytes(&sent.envelope));
        }
    }

    /// Acknowledges what no message has acknowledged yet. For a driver to call when it is idle.
    pub fn acknowledge(&mut self) {
        for (client, remote) in self.clients.iter_mut().enumerate() {
            if let Some(envelope) = remote.stream.acknowledge() {
                self.out.push(FromShard { to: ClientId::new(client as u32), envelope, urgent: true });
            }
        }
    }

    /// The messages to be sent, in order.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<FromShard<C>> {
        std::mem::take(&mut self.out)
    }

    /// How many updates in place were left out because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What every client has finished.
    #[must_use]
    pub fn min(&self) -> Clock {
        self.clocks.min()
    }

    /// The clocks of clients.
    #[must_use]
    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// Who waits for which clock: for reports of stalls.
    pub fn waiting(&self) -> impl Iterator<Item = (ClientId, Clock)> {
        self.parked.iter().map(|(until, (client, _))| (*client, until))
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &Rows<C> {
        &self.rows
    }

    /// The procedure.
    #[must_use]
    pub fn procedure(&self) -> &dyn Procedure<C::Wide> {
        &*self.procedure
    }

    /// Whether changed rows wait to be sent ahead of need.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.spec.managed.is_some() && !self.dirty.members().is_empty()
    }
}

fn bad(spec: &Spec, problem: String) -> Error {
    Error::BadMessage { table: spec.name.clone(), problem }
}
