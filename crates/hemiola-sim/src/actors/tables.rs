//! A parameter-server table: clients and shards of one peer, and workers that read, compute, update
//! and advance their clocks.
//!
//! Shards are assigned to peers round robin. In each clock, a worker fetches the rows that it
//! reads, waits until they are present and fresh enough, computes, updates and ends the clock.
//! Clock messages, requests and small replies use the control lane, the rest the bulk lane, as in
//! `hemiola-tables`. Header size, tick and acknowledgement timeout are constants of this actor;
//! those of the runtime differ.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::actors::snapshot::{SnapshotPlan, SnapshotTaker, TableSnapshot};
use crate::units::{DataRate, SimDuration};
use crate::wait_graph::PendingWait;
use hemiola_core::{Lane, Moment, Rank, WorkerId};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::{
    ClientId, Clock, RateLimiter, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, TableSpec, UpdateRule,
    wire,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Largest message in bytes that may use the control lane.
const CONTROL_LANE_BYTES: usize = 1024;
/// Header bytes of a message.
const HEADER_BYTES: usize = 16;
/// Interval between two attempts to send eagerly within the budget.
const TICK: SimDuration = SimDuration::from_micros(500);
/// Time without acknowledgement after which nothing is sent eagerly.
const ACK_TIMEOUT: Duration = Duration::from_millis(50);

/// Program of a worker.
pub trait TableProgram<C: StorageType> {
    /// Returns the rows to read in this clock; `None` when the worker has finished.
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>>;

    /// Computes with the rows of this clock. The updates are applied after the returned duration.
    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, C>) -> Result<TableWork<C::Compute>, String>;

    /// Returns whether the worker reads and computes again in the same clock, with the updates that
    /// have arrived meanwhile.
    fn repeats_clock(&mut self, clock: u64) -> bool {
        let _ = clock;
        false
    }

    /// Returns rows that the worker is going to use, with the first and last clock.
    fn intents(&mut self, clock: u64) -> Vec<(u64, u64, u64)> {
        let _ = clock;
        Vec::new()
    }
}

/// Result of a worker's computation.
#[derive(Clone, Debug, Default)]
pub struct TableWork<W> {
    /// Duration of the computation.
    pub span: SimDuration,
    /// Updates: row, change, and the version that it was computed from.
    pub updates: Vec<(u64, Vec<W>, u64)>,
}

/// Rows that a worker has fetched.
#[derive(Debug)]
pub struct TableRows<'a, C: StorageType> {
    spec: &'a TableSpec,
    clients: &'a mut [ShardClient<C>],
    worker: WorkerId,
}

impl<C: StorageType> TableRows<'_, C> {
    /// Calls `look` with the cells of a row and its version.
    pub fn read<R>(&mut self, key: u64, look: impl FnOnce(RowCells<'_, C::Compute>, u64) -> R) -> Result<R, String> {
        let client = &mut self.clients[self.spec.shard_of(key).index()];
        let reading = client.get(self.worker, key).map_err(|error| error.to_string())?;
        let reading = reading.ok_or_else(|| format!("row {key} is reported as present and is missing"))?;
        Ok(look(reading.cells, reading.version))
    }
}

/// Message between clients and shards.
#[derive(Clone, Debug)]
pub enum TableMessage<C: StorageType> {
    /// To the shard with this index.
    ToShard(u32, Sequenced<ClientMessage<C::Compute>>),
    /// To the client of the shard with this index.
    ToClient(u32, Sequenced<ServerMessage<C, C::Compute>>),
}

/// Injected fault: changes messages before they are sent.
pub trait TableFaultInjector<C: StorageType>: fmt::Debug {
    /// Changes a message from a client.
    fn to_shard(&mut self, message: &mut Sequenced<ClientMessage<C::Compute>>);
    /// Changes a message from a shard.
    fn to_client(&mut self, message: &mut Sequenced<ServerMessage<C, C::Compute>>);
}

/// Settings of a peer.
#[derive(Debug)]
pub struct TableActorSetup<C: StorageType, P> {
    /// Specification of the table.
    pub spec: Arc<TableSpec>,
    /// Creates the update rule of the shards.
    pub procedure: fn() -> Box<dyn UpdateRule<C::Compute>>,
    /// Programs of the workers of this peer.
    pub programs: Vec<P>,
    /// Bandwidth for eager sending in each direction, and the burst size in bytes.
    pub budget: Option<(DataRate, usize)>,
}

#[derive(Debug)]
enum TableWorkerState<W> {
    /// Waits for rows: all rows of the clock, and the number of shards still missing.
    Fetching(Vec<u64>, usize),
    /// Computes; these updates are applied afterwards.
    Working(Vec<(u64, Vec<W>, u64)>),
    Finished,
}

#[derive(Debug)]
struct SimTableWorker<P, W> {
    program: P,
    id: WorkerId,
    clock: u64,
    state: TableWorkerState<W>,
    /// End time of each clock.
    ends: Vec<Moment>,
}

/// A peer of a table.
pub struct TableActor<C: StorageType, P> {
    me: Rank,
    peers: usize,
    spec: Arc<TableSpec>,
    /// One client for each shard.
    clients: Vec<ShardClient<C>>,
    /// Shards of this peer, with their indices.
    servers: Vec<(usize, ShardServer<C>)>,
    workers: Vec<SimTableWorker<P, C::Compute>>,
    pacers: Option<[RateLimiter; 2]>,
    random: SelectionRng,
    ticking: bool,
    /// A peer was lost: unfinished actors fail, and nothing is sent eagerly.
    ending: bool,
    procedure: fn() -> Box<dyn UpdateRule<C::Compute>>,
    saver: Option<SnapshotTaker<C>>,
    faults: Option<Box<dyn TableFaultInjector<C>>>,
}

impl<C: StorageType, P> fmt::Debug for TableActor<C, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableActor").field("me", &self.me).finish_non_exhaustive()
    }
}

const TICK_TOKEN: u64 = u64::MAX;
/// Start of a snapshot, and its next chunk.
const SNAPSHOT_TOKEN: u64 = u64::MAX - 1;
const SNAPSHOT_PIECE_TOKEN: u64 = u64::MAX - 2;
/// Pause between two chunks of a snapshot, in which a shard serves other messages.
const SNAPSHOT_PAUSE: SimDuration = SimDuration::from_micros(40);

impl<C: StorageType, P: TableProgram<C>> TableActor<C, P> {
    /// Creates a peer with its workers and shards.
    pub fn new(me: Rank, peers: usize, setup: TableActorSetup<C, P>) -> Result<Self, String> {
        let TableActorSetup { spec, procedure, programs, budget } = setup;
        let workers = programs.len().max(1);
        let client = |shard| {
            let (id, shard) = (ClientId::new(me.number()), ShardId::new(shard));
            ShardClient::new(spec.clone(), id, shard, &*procedure(), workers, Clock::ZERO)
        };
        let server = |shard: usize| {
            let random = SelectionRng::new(shard as u64);
            ShardServer::new(spec.clone(), ShardId::new(shard as u32), procedure(), Clock::ZERO, random)
                .map(|server| (shard, server))
                .map_err(|error| error.to_string())
        };
        let own = (0..spec.shards).filter(|shard| shard % peers == me.index());
        let pacer = |(rate, burst): (DataRate, usize)| {
            RateLimiter::new(Bandwidth::bytes_per_second(rate.bytes_per_second()), burst, ACK_TIMEOUT, Moment::ZERO)
        };
        let worker = |(number, program)| {
            let id = WorkerId::new(number as u32);
            SimTableWorker { program, id, clock: 0, state: TableWorkerState::Fetching(Vec::new(), 0), ends: Vec::new() }
        };
        Ok(Self {
            me,
            peers,
            clients: (0..spec.shards as u32).map(client).collect(),
            servers: own.map(server).collect::<Result<_, _>>()?,
            workers: programs.into_iter().enumerate().map(worker).collect(),
            pacers: budget.map(|budget| [pacer(budget), pacer(budget)]),
            random: SelectionRng::new(u64::from(me.number())),
            ticking: false,
            ending: false,
            procedure,
            saver: None,
            faults: None,
            spec,
        })
    }

    /// Injects faults into outgoing messages.
    #[must_use]
    pub fn with_faults(mut self, faults: Option<Box<dyn TableFaultInjector<C>>>) -> Self {
        self.faults = faults;
        self
    }

    /// Takes a snapshot of its shards during the run.
    #[must_use]
    pub fn with_snapshot(mut self, save: SnapshotPlan) -> Self {
        self.saver = Some(SnapshotTaker::new(save));
        self
    }

    /// Snapshot of this peer's shards, if one is planned.
    #[must_use]
    pub fn snapshot(&self) -> Option<&TableSnapshot<C>> {
        self.saver.as_ref().map(|saver| &saver.saved)
    }

    /// Restores the shards from the joint snapshot of all peers, with workers at this clock.
    pub fn restore(&mut self, saved: &TableSnapshot<C>, clock: u64) -> ActorResult {
        for (shard, server) in &mut self.servers {
            // There is one summary for each shard of the earlier run.
            let summary = saved.summaries.get(&(*shard % saved.summaries.len().max(1)));
            let summary = summary.ok_or("the snapshot is empty")?.clone();
            let (number, pieces) = (ShardId::new(*shard as u32), saved.pieces.iter().cloned());
            *server = ShardServer::restore(&self.spec, number, (self.procedure)(), summary, pieces)
                .map_err(|error| error.to_string())?;
        }
        let start = saved.summaries.values().next().map_or(Clock::ZERO, |summary| summary.at);
        let (id, workers) = (ClientId::new(self.me.number()), self.workers.len().max(1));
        for (shard, client) in self.clients.iter_mut().enumerate() {
            let procedure = (self.procedure)();
            *client = ShardClient::new(self.spec.clone(), id, ShardId::new(shard as u32), &*procedure, workers, start);
        }
        self.workers.iter_mut().for_each(|worker| worker.clock = clock);
        Ok(())
    }

    /// Notifies the shards of the snapshot.
    fn begin_snapshot(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        if let Some(saver) = &mut self.saver {
            saver.begin(&mut self.servers)?;
        }
        self.read_snapshot_piece(context);
        self.send_outgoing(context);
        Ok(())
    }

    /// Reads the next chunk of the snapshot, if one is available.
    fn read_snapshot_piece(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        let Some(saver) = self.saver.as_mut().filter(|saver| !saver.due) else { return };
        if saver.read(&mut self.servers) {
            saver.due = true;
            context.set_timer(SNAPSHOT_PAUSE, SNAPSHOT_PIECE_TOKEN);
        }
    }

    /// Programs of the workers of this peer.
    pub fn programs(&self) -> impl Iterator<Item = &P> {
        self.workers.iter().map(|worker| &worker.program)
    }

    /// End times of all clocks, by worker.
    pub fn clock_ends(&self) -> impl Iterator<Item = &[Moment]> {
        self.workers.iter().map(|worker| &worker.ends[..])
    }

    /// Shards of this peer.
    pub fn shards(&self) -> impl Iterator<Item = &ShardServer<C>> {
        self.servers.iter().map(|(_, server)| server)
    }

    /// Returns a shard of this peer by its index.
    #[must_use]
    pub fn shard(&self, number: usize) -> Option<&ShardServer<C>> {
        self.servers.iter().find(|(shard, _)| *shard == number).map(|(_, server)| server)
    }

    /// Bytes sent eagerly by clients and shards.
    #[must_use]
    pub fn eager_bytes(&self) -> u64 {
        self.pacers.iter().flatten().map(|pacer| pacer.bytes().0).sum()
    }

    fn peer_of(&self, shard: usize) -> Rank {
        Rank::new((shard % self.peers) as u32)
    }

    /// Starts a clock of a worker: declares intents and fetches rows.
    fn begin(&mut self, number: usize, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        let SimTableWorker { program, id, clock, .. } = &mut self.workers[number];
        let (id, clock) = (*id, *clock);
        for (key, from, to) in program.intents(clock) {
            let client = &mut self.clients[self.spec.shard_of(key).index()];
            client.intend(id, &[key], Clock::new(from), Clock::new(to)).map_err(|error| error.to_string())?;
        }
        if let Some(keys) = program.reads(clock) {
            return self.fetch(number, keys, context);
        }
        for client in &mut self.clients {
            client.finish(id).map_err(|error| error.to_string())?;
        }
        self.workers[number].state = TableWorkerState::Finished;
        self.close(context);
        Ok(())
    }

    fn fetch(&mut self, number: usize, keys: Vec<u64>, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        let id = self.workers[number].id;
        let mut of_shard: Vec<Vec<u64>> = vec![Vec::new(); self.clients.len()];
        for key in &keys {
            of_shard[self.spec.shard_of(*key).index()].push(*key);
        }
        let mut missing = 0;
        for (client, keys) in self.clients.iter_mut().zip(of_shard) {
            // An empty request would make a client forget the last one.
            let ready = keys.is_empty() || client.fetch(id, &keys).map_err(|error| error.to_string())?;
            missing += usize::from(!ready);
        }
        self.workers[number].state = TableWorkerState::Fetching(keys, missing);
        self.send_outgoing(context);
        if missing == 0 {
            return self.work(number, context);
        }
        context.begin_wait(number, "waits for rows");
        Ok(())
    }

    /// Starts the computation of a worker whose rows are all present.
    fn work(&mut self, number: usize, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        context.end_wait(number);
        let SimTableWorker { program, id, clock, state, .. } = &mut self.workers[number];
        let mut rows = TableRows { spec: &self.spec, clients: &mut self.clients, worker: *id };
        let TableWork { span, updates } = program.work(*clock, &mut rows)?;
        *state = TableWorkerState::Working(updates);
        context.compute(number, "computes", span, number as u64);
        Ok(())
    }

    /// Sends the messages of completed clocks.
    fn close(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        loop {
            let mut more = false;
            for client in &mut self.clients {
                more |= client.close_some();
            }
            self.send_outgoing(context);
            if !more {
                return;
            }
        }
    }

    /// Sends all outgoing messages of clients and shards.
    fn send_outgoing(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        for shard in 0..self.clients.len() {
            self.send_from_client(shard, context);
        }
        for index in 0..self.servers.len() {
            self.send_from_server(index, context);
        }
        self.keep_ticking(context);
    }

    fn send_from_client(&mut self, shard: usize, context: &mut ActorContext<'_, TableMessage<C>>) {
        let to = self.peer_of(shard);
        for mut sent in self.clients[shard].take_outgoing() {
            if let Some(faults) = &mut self.faults {
                faults.to_shard(&mut sent.message);
            }
            let message = sent.message;
            let small = matches!(&message.body, None | Some(ClientMessage::Clock(_) | ClientMessage::Get { .. }));
            let bytes = wire::shard_bytes(&message);
            self.charge(0, sent.urgent && to != self.me, bytes, context.now());
            context.send(
                to,
                lane(small, bytes),
                bytes + HEADER_BYTES + FRAME,
                TableMessage::ToShard(shard as u32, message),
            );
        }
    }

    fn send_from_server(&mut self, index: usize, context: &mut ActorContext<'_, TableMessage<C>>) {
        let shard = self.servers[index].0;
        for mut sent in self.servers[index].1.take_outgoing() {
            if let Some(faults) = &mut self.faults {
                faults.to_client(&mut sent.message);
            }
            let (to, message) = (Rank::new(sent.to.index() as u32), sent.message);
            let small = matches!(&message.body, None | Some(ServerMessage::Recall { .. } | ServerMessage::Rows { .. }));
            let bytes = wire::client_bytes(&message);
            self.charge(1, sent.urgent && to != self.me, bytes, context.now());
            context.send(
                to,
                lane(small, bytes),
                bytes + HEADER_BYTES + FRAME,
                TableMessage::ToClient(shard as u32, message),
            );
        }
    }

    /// Sets the timer for eager sending, if messages are waiting.
    fn keep_ticking(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        let more = || {
            self.clients.iter().any(ShardClient::has_eager_work)
                || self.servers.iter().any(|(_, server)| server.has_eager_work())
        };
        if self.pacers.is_some() && !self.ticking && !self.ending && more() {
            self.ticking = true;
            context.set_timer(TICK, TICK_TOKEN);
        }
    }

    fn charge(&mut self, direction: usize, urgent: bool, bytes: usize, now: Moment) {
        if let (Some(pacers), true) = (&mut self.pacers, urgent) {
            pacers[direction].charge(now, bytes);
        }
    }

    /// Sends eagerly within the budget.
    fn tick(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        self.ticking = false;
        let now = context.now();
        let Some([up, down]) = &mut self.pacers else { return };
        for (shard, client) in self.clients.iter_mut().enumerate() {
            client.send_eagerly(now, up, shard as u64, &mut self.random);
            client.acknowledge();
        }
        let clients = self.spec.clients as u64;
        for (shard, server) in &mut self.servers {
            let number = |client: ClientId| *shard as u64 * clients + client.index() as u64;
            server.send_eagerly(now, down, |client| Some(number(client)));
            server.acknowledge();
        }
        self.send_outgoing(context);
    }
}

fn lane(small: bool, bytes: usize) -> Lane {
    if small && bytes + HEADER_BYTES <= CONTROL_LANE_BYTES { Lane::Control } else { Lane::Bulk }
}

impl<C: StorageType, P: TableProgram<C>> Actor for TableActor<C, P> {
    type Message = TableMessage<C>;

    fn on_start(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        match self.saver.as_ref().map(|saver| saver.save.begin) {
            Some(SimDuration::ZERO) => self.begin_snapshot(context)?,
            Some(begin) => context.set_timer(begin, SNAPSHOT_TOKEN),
            None => {}
        }
        if self.workers.is_empty() {
            // A peer without workers reports once that it has finished.
            for client in &mut self.clients {
                client.finish(WorkerId::new(0)).map_err(|error| error.to_string())?;
            }
            self.close(context);
        }
        (0..self.workers.len()).try_for_each(|number| self.begin(number, context))
    }

    fn on_message(
        &mut self,
        from: Rank,
        message: TableMessage<C>,
        context: &mut ActorContext<'_, TableMessage<C>>,
    ) -> ActorResult {
        match message {
            TableMessage::ToShard(shard, message) => {
                let index = shard as usize / self.peers;
                let (_, server) =
                    self.servers.get_mut(index).ok_or_else(|| format!("shard {shard} is on another peer"))?;
                server.receive(ClientId::new(from.number()), message).map_err(|error| error.to_string())?;
                self.read_snapshot_piece(context);
                self.send_from_server(index, context);
            }
            TableMessage::ToClient(shard, message) => {
                let client = &mut self.clients[shard as usize];
                client.receive(message).map_err(|error| error.to_string())?;
                for woken in client.take_ready_workers() {
                    // Rows that have arrived stay until the clock ends, so no other request is
                    // needed.
                    if let TableWorkerState::Fetching(_, missing) = &mut self.workers[woken.index()].state {
                        *missing -= 1;
                        if *missing == 0 {
                            self.work(woken.index(), context)?;
                        }
                    }
                }
                self.send_from_client(shard as usize, context);
            }
        }
        self.keep_ticking(context);
        Ok(())
    }

    fn on_timer(&mut self, token: u64, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        match token {
            TICK_TOKEN => {
                self.tick(context);
                return Ok(());
            }
            SNAPSHOT_TOKEN => return self.begin_snapshot(context),
            SNAPSHOT_PIECE_TOKEN => {
                self.saver.iter_mut().for_each(|saver| saver.due = false);
                self.read_snapshot_piece(context);
                return Ok(());
            }
            _ => {}
        }
        let number = token as usize;
        let worker = &mut self.workers[number];
        let TableWorkerState::Working(updates) =
            std::mem::replace(&mut worker.state, TableWorkerState::Fetching(Vec::new(), 0))
        else {
            return Err(format!("worker {number} is not computing"));
        };
        let id = worker.id;
        for (key, cells, version) in updates {
            let client = &mut self.clients[self.spec.shard_of(key).index()];
            client.update(id, key, &RowCells::Dense(&cells), version).map_err(|error| error.to_string())?;
        }
        let worker = &mut self.workers[number];
        if worker.program.repeats_clock(worker.clock) {
            self.send_outgoing(context);
            return self.begin(number, context);
        }
        for client in &mut self.clients {
            client.clock(id).map_err(|error| error.to_string())?;
        }
        let worker = &mut self.workers[number];
        worker.clock += 1;
        worker.ends.push(context.now());
        self.close(context);
        self.begin(number, context)
    }

    fn on_peer_lost(&mut self, peer: Rank, _: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        self.ending = true;
        if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) }
    }

    fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| matches!(worker.state, TableWorkerState::Finished))
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let mut waits = Vec::new();
        for (number, worker) in self.workers.iter().enumerate() {
            let TableWorkerState::Fetching(keys, _) = &worker.state else { continue };
            let need = Clock::new(worker.clock).saturating_sub(self.spec.consistency.staleness());
            let mut on: Vec<Rank> = keys.iter().map(|key| self.peer_of(self.spec.shard_of(*key).index())).collect();
            on.sort_unstable();
            on.dedup();
            let shown: Vec<String> = keys.iter().take(3).map(ToString::to_string).collect();
            let rest = if keys.len() > 3 { ", ..." } else { "" };
            let what =
                format!("rows {}{rest} with all clocks before {need} (it is at {})", shown.join(", "), worker.clock);
            waits.push(PendingWait::new(format!("worker {number}"), what, on));
        }
        for (shard, server) in &self.servers {
            for (client, need) in server.waiting() {
                let late = (0..self.spec.clients).filter(|client| server.clocks().clock_of(*client) < need);
                let on = late.map(|client| Rank::new(client as u32)).collect();
                let what = format!("clock {need}, to answer client {client}");
                waits.push(PendingWait::new(format!("shard {shard}"), what, on));
            }
        }
        waits
    }
}
