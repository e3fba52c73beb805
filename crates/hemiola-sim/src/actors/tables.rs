//! A parameter-server table: clients and shards of one peer, and workers that read, compute, update
//! and advance their clocks.
//!
//! Shards are assigned to peers round robin. In each clock, a worker fetches the rows that it
//! reads, waits until they are present and fresh enough, computes, updates and ends the clock.
//! Messages are routed by the node of `hemiola-tables-proto`, as on a cluster: lanes, header size,
//! tick interval and acknowledgement timeout are those of the runtime.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::snapshot::{SnapshotPlan, SnapshotTaker, TableSnapshot};
pub use crate::actors::table_host::TableFaultInjector;
use crate::actors::table_host::{SimTableHost, TableMachines};
use crate::units::{DataRate, SimDuration};
use crate::wait_graph::PendingWait;
use hemiola_core::{Bandwidth, Moment, Rank, WorkerId};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::node::limiters::TICK_INTERVAL;
use hemiola_tables_proto::{
    Clock, NodeLimiters, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, TableMessage, TableNode,
    TablePlacement, TableSpec, UpdateRule,
};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

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

/// Settings of a peer.
#[derive(Debug)]
pub struct TableActorSetup<C: StorageType, P> {
    /// Specification of the table.
    pub spec: Arc<TableSpec>,
    /// Creates the update rule of the shards.
    pub procedure: fn() -> Box<dyn UpdateRule<C::Compute>>,
    /// Programs of the workers of this peer.
    pub programs: Vec<P>,
    /// Bandwidth for eager sending in each direction.
    pub budget: Option<DataRate>,
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
    node: TableNode,
    machines: TableMachines<C>,
    workers: Vec<SimTableWorker<P, C::Compute>>,
    ticking: bool,
    /// A peer was lost: unfinished actors fail, and nothing is sent eagerly.
    ending: bool,
    procedure: fn() -> Box<dyn UpdateRule<C::Compute>>,
    saver: Option<SnapshotTaker<C>>,
}

impl<C: StorageType, P> fmt::Debug for TableActor<C, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableActor").field("rank", &self.node.rank()).finish_non_exhaustive()
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
        let node = TableNode::new(spec, me, TablePlacement::on_all(peers), true);
        let spec = node.spec();
        let client =
            |shard| ShardClient::new(spec.clone(), node.client_id(), shard, &*procedure(), workers, Clock::ZERO);
        let server = |shard: ShardId| {
            let random = SelectionRng::new(shard.index() as u64);
            ShardServer::new(spec.clone(), shard, procedure(), Clock::ZERO, random)
                .map(|server| (shard.index(), server))
                .map_err(|error| error.to_string())
        };
        let limiters = budget.filter(|_| peers > 1).map(|rate| {
            let budget = Bandwidth::bytes_per_second(rate.bytes_per_second());
            NodeLimiters::new(budget, spec, me, 0, Moment::ZERO)
        });
        let worker = |(number, program)| {
            let id = WorkerId::new(number as u32);
            SimTableWorker { program, id, clock: 0, state: TableWorkerState::Fetching(Vec::new(), 0), ends: Vec::new() }
        };
        let machines = TableMachines {
            clients: node.shards().map(client).collect(),
            servers: node.shards().filter(|shard| node.owns(*shard)).map(server).collect::<Result<_, _>>()?,
            limiters,
            faults: None,
            woken: Vec::new(),
            local: VecDeque::new(),
        };
        Ok(Self {
            machines,
            workers: programs.into_iter().enumerate().map(worker).collect(),
            ticking: false,
            ending: false,
            procedure,
            saver: None,
            node,
        })
    }

    /// Injects faults into outgoing messages.
    #[must_use]
    pub fn with_faults(mut self, faults: Option<Box<dyn TableFaultInjector<C>>>) -> Self {
        self.machines.faults = faults;
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
        for (shard, server) in &mut self.machines.servers {
            // There is one summary for each shard of the earlier run.
            let summary = saved.summaries.get(&(*shard % saved.summaries.len().max(1)));
            let summary = summary.ok_or("the snapshot is empty")?.clone();
            let (number, pieces) = (ShardId::new(*shard as u32), saved.pieces.iter().cloned());
            *server = ShardServer::restore(self.node.spec(), number, (self.procedure)(), summary, pieces)
                .map_err(|error| error.to_string())?;
        }
        let start = saved.summaries.values().next().map_or(Clock::ZERO, |summary| summary.at);
        let (id, workers) = (self.node.client_id(), self.workers.len().max(1));
        for (shard, client) in self.machines.clients.iter_mut().enumerate() {
            let procedure = (self.procedure)();
            *client =
                ShardClient::new(self.node.spec().clone(), id, ShardId::new(shard as u32), &*procedure, workers, start);
        }
        self.workers.iter_mut().for_each(|worker| worker.clock = clock);
        Ok(())
    }

    /// Notifies the shards of the snapshot.
    fn begin_snapshot(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        if let Some(saver) = &mut self.saver {
            saver.begin(&mut self.machines.servers)?;
        }
        self.read_snapshot_piece(context);
        let shards: Vec<usize> = self.machines.servers.iter().map(|(shard, _)| *shard).collect();
        let Self { node, machines, .. } = self;
        let mut host = SimTableHost { machines, context };
        // The shards recall leases.
        shards.into_iter().try_for_each(|shard| node.with_server(&mut host, ShardId::new(shard as u32), |_| ()))
    }

    /// Reads the next chunk of the snapshot, if one is available.
    fn read_snapshot_piece(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) {
        let Some(saver) = self.saver.as_mut().filter(|saver| !saver.due) else { return };
        if saver.read(&mut self.machines.servers) {
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
        self.machines.servers.iter().map(|(_, server)| server)
    }

    /// Returns a shard of this peer by its index.
    #[must_use]
    pub fn shard(&self, number: usize) -> Option<&ShardServer<C>> {
        self.machines.servers.iter().find(|(shard, _)| *shard == number).map(|(_, server)| server)
    }

    /// Bytes sent eagerly by clients and shards.
    #[must_use]
    pub fn eager_bytes(&self) -> u64 {
        self.machines.limiters.as_ref().map_or(0, |limiters| limiters.bytes().0)
    }

    /// Starts a clock of a worker: declares intents and fetches rows.
    fn begin(&mut self, number: usize, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        let SimTableWorker { program, id, clock, .. } = &mut self.workers[number];
        let (id, clock) = (*id, *clock);
        let Self { node, machines, .. } = self;
        for (key, from, to) in program.intents(clock) {
            let (shard, from, to) = (node.spec().shard_of(key), Clock::new(from), Clock::new(to));
            let mut host = SimTableHost { machines, context };
            accepted(node.with_client(&mut host, shard, |client| client.intend(id, &[key], from, to)))?;
        }
        if let Some(keys) = program.reads(clock) {
            return self.fetch(number, keys, context);
        }
        accepted(node.advance(&mut SimTableHost { machines, context }, id, true))?;
        self.workers[number].state = TableWorkerState::Finished;
        Ok(())
    }

    fn fetch(&mut self, number: usize, keys: Vec<u64>, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        let id = self.workers[number].id;
        let Self { node, machines, .. } = self;
        let mut of_shard: Vec<Vec<u64>> = vec![Vec::new(); machines.clients.len()];
        for key in &keys {
            of_shard[node.spec().shard_of(*key).index()].push(*key);
        }
        let of_shard = |shard: ShardId| &of_shard[shard.index()][..];
        let awaited = accepted(node.fetch(&mut SimTableHost { machines, context }, id, of_shard))?;
        self.workers[number].state = TableWorkerState::Fetching(keys, awaited.count);
        if awaited.count == 0 {
            return self.work(number, context);
        }
        context.begin_wait(number, "waits for rows");
        Ok(())
    }

    /// Lets the workers compute whose rows have arrived. Rows that have arrived stay until the
    /// clock ends, so no other request is needed.
    fn resume_woken(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        for woken in std::mem::take(&mut self.machines.woken) {
            if let TableWorkerState::Fetching(_, missing) = &mut self.workers[woken.index()].state {
                *missing -= 1;
                if *missing == 0 {
                    self.work(woken.index(), context)?;
                }
            }
        }
        Ok(())
    }

    /// Starts the computation of a worker whose rows are all present.
    fn work(&mut self, number: usize, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        context.end_wait(number);
        let SimTableWorker { program, id, clock, state, .. } = &mut self.workers[number];
        let mut rows = TableRows { spec: self.node.spec(), clients: &mut self.machines.clients, worker: *id };
        let TableWork { span, updates } = program.work(*clock, &mut rows)?;
        *state = TableWorkerState::Working(updates);
        context.compute(number, "computes", span, number as u64);
        Ok(())
    }

    /// Completes an event: resumes workers, reads a chunk of a snapshot, and sets the timer of the
    /// next tick if one is needed.
    fn complete(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        while !self.machines.woken.is_empty() {
            self.resume_woken(context)?;
        }
        self.read_snapshot_piece(context);
        if !self.ticking && !self.ending && self.machines.need_tick() {
            self.ticking = true;
            context.set_timer(SimDuration::from_nanos(TICK_INTERVAL.as_nanos() as u64), TICK_TOKEN);
        }
        Ok(())
    }

    /// Sends eagerly within the budget.
    fn tick(&mut self, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        self.ticking = false;
        let Self { node, machines, .. } = self;
        let mut host = SimTableHost { machines, context };
        node.shards().try_for_each(|shard| node.on_tick(&mut host, shard))
    }

    /// Ends the computation of a worker: applies its updates and ends its clock.
    fn end_work(&mut self, number: usize, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        let worker = &mut self.workers[number];
        let TableWorkerState::Working(updates) =
            std::mem::replace(&mut worker.state, TableWorkerState::Fetching(Vec::new(), 0))
        else {
            return Err(format!("worker {number} is not computing"));
        };
        let id = worker.id;
        let Self { node, machines, .. } = self;
        for (key, cells, version) in updates {
            let client = &mut machines.clients[node.spec().shard_of(key).index()];
            client.update(id, key, &RowCells::Dense(&cells), version).map_err(|error| error.to_string())?;
        }
        if !worker.program.repeats_clock(worker.clock) {
            worker.clock += 1;
            worker.ends.push(context.now());
            accepted(node.advance(&mut SimTableHost { machines, context }, id, false))?;
        }
        self.begin(number, context)
    }
}

/// Result of a call of a client, with its error as text.
fn accepted<T>(result: Result<hemiola_tables_proto::Result<T>, String>) -> Result<T, String> {
    result?.map_err(|error| error.to_string())
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
            let Self { node, machines, .. } = self;
            accepted(node.advance(&mut SimTableHost { machines, context }, WorkerId::new(0), true))?;
        }
        (0..self.workers.len()).try_for_each(|number| self.begin(number, context))?;
        self.complete(context)
    }

    fn on_message(
        &mut self,
        _: Rank,
        message: TableMessage<C>,
        context: &mut ActorContext<'_, TableMessage<C>>,
    ) -> ActorResult {
        self.node.on_message(&mut SimTableHost { machines: &mut self.machines, context }, message)?;
        self.complete(context)
    }

    fn on_timer(&mut self, token: u64, context: &mut ActorContext<'_, TableMessage<C>>) -> ActorResult {
        match token {
            TICK_TOKEN => self.tick(context)?,
            SNAPSHOT_TOKEN => self.begin_snapshot(context)?,
            SNAPSHOT_PIECE_TOKEN => self.saver.iter_mut().for_each(|saver| saver.due = false),
            worker => self.end_work(worker as usize, context)?,
        }
        self.complete(context)
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
            let need = Clock::new(worker.clock).saturating_sub(self.node.spec().consistency.staleness());
            let mut on: Vec<Rank> =
                keys.iter().map(|key| self.node.placement().rank_of(self.node.spec().shard_of(*key))).collect();
            on.sort_unstable();
            on.dedup();
            let shown: Vec<String> = keys.iter().take(3).map(ToString::to_string).collect();
            let rest = if keys.len() > 3 { ", ..." } else { "" };
            let what =
                format!("rows {}{rest} with all clocks before {need} (it is at {})", shown.join(", "), worker.clock);
            waits.push(PendingWait::new(format!("worker {number}"), what, on));
        }
        for (shard, server) in &self.machines.servers {
            for (client, need) in server.waiting() {
                let late = (0..self.node.spec().clients).filter(|client| server.clocks().clock_of(*client) < need);
                let on = late.map(|client| Rank::new(client as u32)).collect();
                let what = format!("clock {need}, to answer client {client}");
                waits.push(PendingWait::new(format!("shard {shard}"), what, on));
            }
        }
        waits
    }
}
