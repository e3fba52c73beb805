//! Server of one shard: the rows it owns, and its handling of client messages.
//!
//! Updates arrive numbered and tagged with the clock they were computed in. Under SSP and
//! asynchronous consistency they are applied on arrival, in order per sender. Under BSP they are
//! held until all clients have closed the clock, then applied by clock, client and order of
//! sending. So no update of an open clock is ever visible, and results are bit-identical whatever
//! the timing.
//!
//! When the minimum clock moves, every client is sent the changed rows that it caches, and then the
//! new minimum; waiting reads are answered. Between clocks, changed rows are sent eagerly if the
//! rate limiter allows ([`ShardServer::send_eagerly`]).
//!
//! The README of this crate describes the protocol: messages, freshness, leases and races.
//!
//! **Invariants**
//! 1. An update is applied exactly once ([`OrderedStream`] drops repetitions), in the sender's
//!    order.
//! 2. A row sent with freshness `f` includes every update of clocks before `f`. So does every row
//!    that its receiver was pushed earlier and that was not sent again: a subscribed row that
//!    changed is *dirty* for that client until a copy is on its way.
//! 3. `included` of a message to a client: the client's messages up to this number are applied to
//!    the rows, and later ones are not.
//! 4. A message is validated as a whole before any part of it is applied.
//!
//! | file | concept |
//! |---|---|
//! | [`in_place`] | use of the shard without messages, in one process |
//! | `leases` | leases of rows to their only user |
//! | [`rows`] | rows with versions, rule state and subscriptions |
//! | `send_window` | rows on their way to a client, and those that wait for room |
//! | [`snapshot`] | copy-on-write snapshot of the shard at a clock |

pub mod in_place;
mod leases;
pub mod rows;
pub(crate) mod send_window;
pub mod snapshot;

use crate::batch::RowBatch;
use crate::clock::{Clock, ClockWaitQueue, VectorClock};
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::message::{ClientMessage, ServerMessage};
use crate::priority::CandidatePool;
use crate::rate_limiter::RateLimiter;
use crate::selection_rng::SelectionRng;
use crate::spec::{ClientId, Consistency, RowDelivery, ShardId, TableSpec};
use crate::stream::{OrderedStream, Sequenced};
use crate::update_rule::{LocalApply, UnknownVersion, UpdateRule};
use crate::wire;
use hemiola_core::Moment;
use leases::LeaseRegistry;
use rows::{RowWrite, ShardRows};
use send_window::{PendingPush, SendWindow, window_cost};
use snapshot::ShardSnapshot;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Number of rows that are prefetched while one is read or updated.
const PREFETCH_DISTANCE: usize = 8;

/// Outgoing message of a shard.
#[derive(Debug)]
pub struct ServerOutgoing<C: StorageType> {
    /// Client that receives the message.
    pub to: ClientId,
    /// Message with its sequence number.
    pub message: Sequenced<ServerMessage<C, C::Compute>>,
    /// The message is urgent: a worker or a clock waits for it. Others are already charged to the
    /// rate limiter.
    pub urgent: bool,
}

/// State of one client at a shard.
struct ClientRecord<W: StorageType> {
    stream: OrderedStream<ClientMessage<W>>,
    /// The client's messages up to this number are applied to the rows.
    included: u64,
    /// Numbers of clock messages that other clients have not caught up with; used under BSP only.
    closing: VecDeque<(Clock, u64)>,
    /// Minimum clock that the client was last sent.
    fresh: Clock,
    window: SendWindow,
}

/// Message that is held until its clock closes; used under BSP only.
enum PendingWrite<W: StorageType> {
    Update(RowBatch<W>, Vec<W>),
    /// Copies that held updates may have been computed from.
    Release(Vec<(u64, u64, u32)>),
}

/// Server of one shard of a table.
pub struct ShardServer<C: StorageType> {
    spec: Arc<TableSpec>,
    shard: ShardId,
    rule: Box<dyn UpdateRule<C::Compute>>,
    /// Row copies have attachments that updates return.
    has_attachments: bool,
    rows: ShardRows<C>,
    clocks: VectorClock,
    clients: Vec<ClientRecord<C::Compute>>,
    /// Reads that wait for a clock.
    waiting_reads: ClockWaitQueue<(ClientId, Vec<u64>)>,
    /// Under BSP: updates of open clocks by clock and client, in order of arrival.
    pending_writes: BTreeMap<(Clock, u32), Vec<PendingWrite<C::Compute>>>,
    /// Rows of which some client has an outdated copy.
    dirty: CandidatePool,
    random: SelectionRng,
    /// Latest clock of which an update is applied.
    latest_applied: Option<Clock>,
    snapshot: Option<ShardSnapshot<C>>,
    leases: LeaseRegistry,
    /// Number of in-place updates dropped because they were not finite.
    dropped: u64,
    /// Client that is next in turn for eager sending.
    next_client: usize,
    out: Vec<ServerOutgoing<C>>,
}

impl<C: StorageType> fmt::Debug for ShardServer<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.spec.name;
        formatter.debug_struct("ShardServer").field("table", table).field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<C: StorageType> ShardServer<C> {
    /// Creates an empty shard whose clients all begin at the same clock.
    pub fn new(
        spec: Arc<TableSpec>,
        shard: ShardId,
        rule: Box<dyn UpdateRule<C::Compute>>,
        start: Clock,
        random: SelectionRng,
    ) -> Result<Self> {
        spec.validate()?;
        if spec.sparse && (rule.local_apply() == LocalApply::Never || rule.state_width(spec.width) > 0) {
            let problem = "sparse rows need an additive update rule; make the table dense for other rules".to_owned();
            return Err(Error::BadSpec { table: spec.name.clone(), problem });
        }
        let record = || ClientRecord {
            stream: OrderedStream::default(),
            included: 0,
            closing: VecDeque::new(),
            fresh: start,
            window: SendWindow::new(spec.window_bytes),
        };
        let state = vec![C::Compute::default(); rule.state_width(spec.width)];
        Ok(Self {
            has_attachments: !rule.attachment(&state).is_empty(),
            rows: ShardRows::new(&spec, rule.state_width(spec.width)),
            clocks: VectorClock::new(spec.clients, start),
            clients: (0..spec.clients).map(|_| record()).collect(),
            waiting_reads: ClockWaitQueue::default(),
            pending_writes: BTreeMap::new(),
            dirty: CandidatePool::new(spec.comm_policy.unwrap_or_default()),
            random,
            latest_applied: None,
            snapshot: None,
            leases: LeaseRegistry::default(),
            dropped: 0,
            next_client: 0,
            out: Vec::new(),
            spec,
            shard,
            rule,
        })
    }

    /// Handles a message of a client. [`ShardServer::take_outgoing`] then returns the messages to
    /// be sent.
    pub fn receive(&mut self, from: ClientId, message: Sequenced<ClientMessage<C::Compute>>) -> Result<()> {
        let Some(record) = self.clients.get_mut(from.index()) else {
            let (table, clients) = (self.spec.name.clone(), self.spec.clients);
            return Err(Error::UnknownClient { table, shard: self.shard, client: from, clients });
        };
        record.stream.accept(message).map_err(|problem| bad(&self.spec, problem))?;
        record.window.acknowledged(record.stream.acknowledged());
        while let Some((number, body)) = self.clients[from.index()].stream.deliver() {
            self.handle(from, number, body)?;
        }
        self.resume(from);
        Ok(())
    }

    fn handle(&mut self, from: ClientId, number: u64, body: ClientMessage<C::Compute>) -> Result<()> {
        if self.clocks.clock_of(from.index()) == Clock::INFINITE && !matches!(body, ClientMessage::Release { .. }) {
            return Err(bad(&self.spec, format!("client {from} sent a message after it had finished")));
        }
        if self.spec.consistency != Consistency::Bsp {
            self.clients[from.index()].included = number;
        }
        match body {
            ClientMessage::Get { need, keys } => {
                self.check_keys(&keys)?;
                if need <= self.clocks.min() {
                    self.reply(from, &keys);
                } else {
                    self.waiting_reads.push(need, (from, keys));
                }
            }
            ClientMessage::Update { clock, batch, attachment } => {
                self.check_update(from, clock, &batch, &attachment)?;
                if self.spec.consistency == Consistency::Bsp {
                    self.pending_writes
                        .entry((clock, from.index() as u32))
                        .or_default()
                        .push(PendingWrite::Update(batch, attachment));
                } else {
                    self.apply(clock, &batch, &attachment)?;
                    self.clients[from.index()].window.unconfirmed += window_cost(&batch, &attachment);
                }
            }
            ClientMessage::Clock(clock) => {
                let advanced = self.clocks.advance(from.index(), clock);
                let moved = advanced.map_err(|backward| Error::backward(&self.spec.name, backward))?;
                if self.spec.consistency == Consistency::Bsp {
                    self.clients[from.index()].closing.push_back((clock, number));
                }
                if clock == Clock::INFINITE {
                    // Known leases were returned before this message; of others the client kept
                    // nothing.
                    let kept = self.leases.of(from);
                    self.accept_returned(from, &kept);
                    self.unsubscribe_all(from);
                    self.clients[from.index()].window.abandon();
                }
                if let Some(min) = moved {
                    self.minimum_moved(min)?;
                }
            }
            ClientMessage::Forget { keys } => {
                self.check_keys(&keys)?;
                for key in keys {
                    if let Some(slot) = self.rows.find(key) {
                        self.rows.unsubscribe(slot, from);
                        self.clear_if_clean(slot);
                    }
                }
            }
            ClientMessage::Intend { keys } => {
                self.check_keys(&keys)?;
                self.lease(from, keys);
            }
            ClientMessage::Return { keys } => {
                self.check_keys(&keys)?;
                self.accept_returned(from, &keys);
            }
            ClientMessage::Release { copies } => {
                let own = self.pending_writes.iter_mut().rev().find(|((_, client), _)| *client == from.index() as u32);
                match own {
                    Some((_, pending)) => pending.push(PendingWrite::Release(copies)),
                    None => self.release(&copies),
                }
            }
        }
        Ok(())
    }

    fn release(&mut self, copies: &[(u64, u64, u32)]) {
        for (key, version, count) in copies {
            self.rule.on_release(*key, *version, *count);
        }
    }

    fn check_keys(&self, keys: &[u64]) -> Result<()> {
        keys.iter().try_for_each(|key| self.check_key(*key))
    }

    fn check_key(&self, key: u64) -> Result<()> {
        self.spec.check_row(key)?;
        if self.spec.shard_of(key) != self.shard {
            return Err(bad(&self.spec, format!("shard {} received row {key} of another shard", self.shard)));
        }
        Ok(())
    }

    fn check_update(
        &self,
        from: ClientId,
        clock: Clock,
        batch: &RowBatch<C::Compute>,
        attachment: &[C::Compute],
    ) -> Result<()> {
        let closed = self.clocks.clock_of(from.index());
        // Sums of leased rows arrive when the lease is returned, after their clocks.
        let leased = || batch.iter().all(|row| self.leases.holder(row.key) == Some(from));
        if clock == Clock::INFINITE || (clock < closed && !leased()) {
            return Err(bad(
                &self.spec,
                format!("client {from} sent an update of clock {clock} after it had closed {closed}"),
            ));
        }
        if attachment.len() != if self.has_attachments { batch.len() * self.spec.width } else { 0 } {
            return Err(bad(
                &self.spec,
                format!("{} attachment values arrived for {} rows", attachment.len(), batch.len()),
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
    fn apply(&mut self, clock: Clock, batch: &RowBatch<C::Compute>, attachment: &[C::Compute]) -> Result<()> {
        self.latest_applied = self.latest_applied.max(Some(clock));
        // Rows are prefetched while others are updated.
        let mut slots = [0; PREFETCH_DISTANCE];
        let mut coming = batch.keys();
        let first = coming.by_ref().take(PREFETCH_DISTANCE);
        for (slot, key) in slots.iter_mut().zip(first) {
            *slot = self.rows.ensure(key, &self.spec, &*self.rule);
            self.rows.prefetch(*slot);
        }
        for (at, row) in batch.iter().enumerate() {
            let attachment =
                if attachment.is_empty() { attachment } else { &attachment[at * self.spec.width..][..self.spec.width] };
            let write = RowWrite { version: row.version, cells: row.cells, attachment };
            self.write(slots[at % PREFETCH_DISTANCE], clock, &write)?;
            if let Some(key) = coming.next() {
                slots[at % PREFETCH_DISTANCE] = self.rows.ensure(key, &self.spec, &*self.rule);
                self.rows.prefetch(slots[at % PREFETCH_DISTANCE]);
            }
        }
        Ok(())
    }

    /// Applies one update to a row and, if it belongs to the snapshot, to the row's image.
    #[inline]
    fn write(&mut self, slot: u32, clock: Clock, write: &RowWrite<'_, C::Compute>) -> Result<()> {
        let importance = self
            .spec
            .comm_policy
            .map_or(0.0, |comm_policy| self.rows.importance(slot, &write.cells, comm_policy.priority));
        let mut done = Ok(());
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.before_write(slot, clock, &self.rows);
            done = snapshot.write_image(slot, clock, write, &*self.rule);
        }
        done.and_then(|()| self.rows.write(slot, write, &*self.rule)).map_err(|UnknownVersion| {
            Error::UnknownVersion { table: self.spec.name.clone(), row: self.rows.key(slot), version: write.version }
        })?;
        if self.rows.mark_dirty(slot, importance) {
            self.dirty.insert(slot);
        }
        Ok(())
    }

    fn minimum_moved(&mut self, min: Clock) -> Result<()> {
        if self.spec.consistency == Consistency::Bsp {
            let open = self.pending_writes.split_off(&(min, 0));
            for ((clock, _), updates) in std::mem::replace(&mut self.pending_writes, open) {
                for update in updates {
                    match update {
                        PendingWrite::Update(batch, attachment) => self.apply(clock, &batch, &attachment)?,
                        PendingWrite::Release(copies) => self.release(&copies),
                    }
                }
            }
        }
        for client in 0..self.clients.len() {
            let record = &mut self.clients[client];
            while let Some((_, number)) = record.closing.pop_front_if(|(clock, _)| *clock <= min) {
                record.included = number;
            }
            if self.clocks.clock_of(client) != Clock::INFINITE {
                self.push_all(ClientId::new(client as u32), min);
            }
        }
        for (client, keys) in self.waiting_reads.release(min) {
            self.reply(client, &keys);
        }
        Ok(())
    }

    /// Sends a client all dirty rows and then the new minimum, as far as its window has room.
    fn push_all(&mut self, to: ClientId, min: Clock) {
        if self.clients[to.index()].window.owes_push() {
            // Rows that change now are merged with those that wait.
            self.clients[to.index()].window.moved = true;
            return;
        }
        let mut slots: Vec<u32> = Vec::new();
        if self.spec.delivery == RowDelivery::Push {
            slots.extend(self.dirty.members().iter().filter(|slot| self.rows.is_dirty(**slot, to)));
        }
        self.push(to, &slots, min);
    }

    /// Sends rows while the window has room; the rest waits.
    fn push(&mut self, to: ClientId, slots: &[u32], fresh: Clock) {
        let sent = self.send_rows(to, slots, fresh, false);
        if let Some(sent) = sent {
            let push = PendingPush { slots: slots[sent..].to_vec(), fresh };
            self.clients[to.index()].window.push = Some(push);
        }
    }

    /// Continues work that waited for room in the window of a client. Confirms the client's
    /// updates if many arrived since it was last sent rows: it keeps their sums until then, and the
    /// minimum may not move for long.
    fn resume(&mut self, to: ClientId) {
        let ClientRecord { fresh, window, .. } = &self.clients[to.index()];
        if window.owes_confirmation() && self.clocks.clock_of(to.index()) != Clock::INFINITE {
            self.send(to, RowBatch::new(), Vec::new(), *fresh, false, true);
        }
        while self.clients[to.index()].window.can_resume() {
            let window = &mut self.clients[to.index()].window;
            if let Some(keys) = window.requests.pop_front() {
                self.reply(to, &keys);
            } else if let Some(PendingPush { mut slots, fresh }) = window.push.take() {
                // A reply or an eager message has sent some of them meanwhile.
                slots.retain(|slot| self.rows.is_dirty(*slot, to));
                self.push(to, &slots, fresh);
            } else {
                window.moved = false;
                self.push_all(to, self.clocks.min());
            }
        }
    }

    fn reply(&mut self, to: ClientId, keys: &[u64]) {
        // A client that has finished reads no more: a copy for an earlier intent would be kept up
        // to date for ever.
        if self.clocks.clock_of(to.index()) == Clock::INFINITE {
            return;
        }
        let window = &mut self.clients[to.index()].window;
        if !window.has_room() {
            return window.requests.push_back(keys.to_vec());
        }
        let keys = self.without_leased(to, keys);
        if keys.is_empty() {
            return;
        }
        let mut slots = Vec::with_capacity(keys.len());
        for key in &keys {
            let slot = self.rows.ensure(*key, &self.spec, &*self.rule);
            if self.spec.delivery == RowDelivery::Push {
                self.rows.subscribe(slot, to);
            }
            slots.push(slot);
        }
        let record = &self.clients[to.index()];
        // Pushed copies of other rows are not fresh while changes of closed clocks wait for room.
        let withheld = record.window.owes_push() && self.spec.delivery == RowDelivery::Push;
        let fresh = if withheld { record.fresh } else { self.clocks.min() };
        if let Some(sent) = self.send_rows(to, &slots, fresh, true) {
            self.clients[to.index()].window.requests.push_front(keys[sent..].to_vec());
        }
    }

    /// Sends rows in messages of bounded size; the last one carries the freshness. Stops when the
    /// window is full, and then returns the number of rows that were sent.
    fn send_rows(&mut self, to: ClientId, slots: &[u32], fresh: Clock, reply: bool) -> Option<usize> {
        let before = self.clients[to.index()].fresh;
        let mut rest = slots;
        loop {
            if !self.clients[to.index()].window.has_room() {
                return Some(slots.len() - rest.len());
            }
            let rows = rest.len().min(self.spec.message_bytes / self.rows.min_row_bytes() + 1);
            let values = if self.spec.sparse { 0 } else { rows * self.spec.width };
            let (mut batch, mut attachment, mut bytes) = (RowBatch::with_capacity(rows, values), Vec::new(), 0);
            while let Some((slot, later)) = rest.split_first().filter(|_| bytes < self.spec.message_bytes) {
                rest = later;
                if let Some(soon) = rest.get(PREFETCH_DISTANCE) {
                    self.rows.prefetch(*soon);
                }
                bytes += self.copy(*slot, to, &mut batch, &mut attachment);
            }
            // Only the last message may raise the freshness of other rows, which are pushed ones.
            let pushes = self.spec.delivery == RowDelivery::Push;
            let fresh = if rest.is_empty() || !pushes { fresh } else { before };
            self.send(to, batch, attachment, fresh, reply, true);
            if rest.is_empty() {
                break;
            }
        }
        self.clients[to.index()].fresh = fresh;
        None
    }

    /// Appends a row to a message. Returns its approximate size in bytes.
    fn copy(&mut self, slot: u32, to: ClientId, batch: &mut RowBatch<C>, attachment: &mut Vec<C::Compute>) -> usize {
        let (key, version, state) = (self.rows.key(slot), self.rows.version(slot), self.rows.state(slot));
        let attached = self.rule.attachment(state);
        attachment.extend_from_slice(attached);
        let bytes = RowBatch::row_bytes(&self.rows.cells(slot)) + size_of_val(attached);
        batch.push(key, version, &self.rows.cells(slot));
        self.rule.on_send(key, version, state);
        self.rows.clean(slot, to);
        self.clear_if_clean(slot);
        bytes
    }

    fn send(
        &mut self,
        to: ClientId,
        batch: RowBatch<C>,
        attachment: Vec<C::Compute>,
        fresh: Clock,
        reply: bool,
        urgent: bool,
    ) {
        let record = &mut self.clients[to.index()];
        let cost = window_cost(&batch, &attachment);
        let body = ServerMessage::Rows { fresh, included: record.included, reply, batch, attachment };
        let message = record.stream.send(body);
        record.window.sent(message.number, cost);
        self.out.push(ServerOutgoing { to, message, urgent });
    }

    /// Removes a row from the dirty pool if no client has an outdated copy.
    fn clear_if_clean(&mut self, slot: u32) {
        if self.rows.clear_if_clean(slot) {
            self.dirty.remove(slot);
        }
    }

    fn unsubscribe_all(&mut self, client: ClientId) {
        for slot in 0..self.rows.len() as u32 {
            self.rows.unsubscribe(slot, client);
            self.clear_if_clean(slot);
        }
    }

    /// Sends dirty rows eagerly, the most important first, as far as the rate limiter allows.
    /// `stream` returns the number of a client's stream at this limiter; clients without one are
    /// skipped.
    ///
    /// # Panics
    /// Never: the size of the message was computed before.
    pub fn send_eagerly(&mut self, now: Moment, limiter: &mut RateLimiter, stream: impl Fn(ClientId) -> Option<u64>) {
        for client in 0..self.clients.len() {
            if let Some(stream) = stream(ClientId::new(client as u32)) {
                limiter.acknowledged(stream, self.clients[client].stream.acknowledged());
            }
        }
        if self.spec.comm_policy.is_none() || self.spec.consistency == Consistency::Bsp {
            return;
        }
        for _ in 0..self.clients.len() {
            let to = ClientId::new(self.next_client as u32);
            self.next_client = (self.next_client + 1) % self.clients.len();
            let Some(stream) = stream(to) else { continue };
            if !self.clients[to.index()].window.has_room() {
                continue;
            }
            let allowance = limiter.allowance(now).min(self.spec.message_bytes);
            if allowance <= wire::ROWS_HEAD_BYTES || !self.rule.allows_eager_send() {
                return;
            }
            let rows = &self.rows;
            // Sparse rows differ in size; the count suffices for the smallest.
            let count = allowance / rows.min_row_bytes() + 1;
            let mut slots = self.dirty.choose(
                count,
                &mut self.random,
                |slot| rows.is_dirty(slot, to),
                |slot| rows.pending_importance(slot),
            );
            let mut bytes = wire::ROWS_HEAD_BYTES;
            let mut fits = |slot: &u32| {
                bytes += RowBatch::row_bytes(&rows.cells(*slot)) + size_of_val(self.rule.attachment(rows.state(*slot)));
                bytes <= allowance
            };
            let fitting = slots.iter().take_while(|slot| fits(slot)).count();
            slots.truncate(fitting);
            if slots.is_empty() {
                continue;
            }
            let (mut batch, mut attachment) = (RowBatch::new(), Vec::new());
            for slot in slots {
                self.copy(slot, to, &mut batch, &mut attachment);
            }
            let fresh = self.clients[to.index()].fresh;
            self.send(to, batch, attachment, fresh, false, false);
            let sent = self.out.last().expect("the message was just added");
            limiter.spend(now, stream, sent.message.number, wire::client_bytes(&sent.message));
        }
    }

    /// Acknowledges messages that no outgoing message has acknowledged. For a driver to call when
    /// it is idle.
    pub fn acknowledge(&mut self) {
        for (client, record) in self.clients.iter_mut().enumerate() {
            if let Some(message) = record.stream.acknowledge() {
                self.out.push(ServerOutgoing { to: ClientId::new(client as u32), message, urgent: true });
            }
        }
    }

    /// Messages to be sent, in order.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<ServerOutgoing<C>> {
        std::mem::take(&mut self.out)
    }

    /// Number of in-place updates dropped because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Bytes of rows that are on their way to a client: sent and not acknowledged.
    ///
    /// # Panics
    /// If the table has no such client.
    #[must_use]
    pub fn bytes_in_flight(&self, to: ClientId) -> usize {
        self.clients[to.index()].window.bytes()
    }

    /// Minimum clock of all clients.
    #[must_use]
    pub fn min(&self) -> Clock {
        self.clocks.min()
    }

    /// Clocks of the clients.
    #[must_use]
    pub fn clocks(&self) -> &VectorClock {
        &self.clocks
    }

    /// Clients with waiting reads, and the clock each waits for; used in stall reports.
    pub fn waiting(&self) -> impl Iterator<Item = (ClientId, Clock)> {
        self.waiting_reads.iter().map(|(until, (client, _))| (*client, until))
    }

    /// The rows of the shard.
    #[must_use]
    pub fn rows(&self) -> &ShardRows<C> {
        &self.rows
    }

    /// The update rule of the shard.
    #[must_use]
    pub fn rule(&self) -> &dyn UpdateRule<C::Compute> {
        &*self.rule
    }

    /// Returns true if dirty rows wait to be sent eagerly.
    #[must_use]
    pub fn has_eager_work(&self) -> bool {
        self.spec.comm_policy.is_some() && !self.dirty.members().is_empty()
    }

    /// Returns true if a tick of the node would send something: rows wait to be sent eagerly, or
    /// messages are not acknowledged.
    #[must_use]
    pub fn needs_tick(&self) -> bool {
        self.has_eager_work() || self.clients.iter().any(|record| record.stream.owes_acknowledgement())
    }
}

fn bad(spec: &TableSpec, problem: String) -> Error {
    Error::BadMessage { table: spec.name.clone(), problem }
}
