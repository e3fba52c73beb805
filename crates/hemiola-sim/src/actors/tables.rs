//! A table: clients and shards of one peer, and workers that read, compute, update and end their clocks.
//!
//! Shards lie on the peers in turn. A worker's clock is: ask for the rows it reads, wait until they are there and fresh enough, compute, update, end the clock. Clocks, requests and
//! small answers travel on the control lane, the rest on the bulk lane, as `hemiola-tables` sends them.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::actors::saving::{Save, Saved, Saver};
use crate::stuck::Wait;
use crate::units::{Rate, Span};
use hemiola_core::{Lane, Moment, Rank, WorkerId};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::stream::Envelope;
use hemiola_tables_proto::{Cells, Client, ClientId, Clock, Pacer, Procedure, Random, Server, ShardId, Spec, wire};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Messages up to this many bytes may take the control lane.
const SMALL: usize = 1024;
/// What stands before a message: its kind and shard.
const HEAD: usize = 16;
/// How often a peer looks whether it may send ahead of need.
const TICK: Span = Span::from_micros(500);
/// After so long without acknowledgement nothing more is sent ahead.
const PATIENCE: Duration = Duration::from_millis(50);

/// What one worker does.
pub trait Program<C: Cell> {
    /// The rows it reads in this clock; `None` if it has finished.
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>>;

    /// Computes with the rows of this clock. How long that takes, and what it adds, is in the answer; what it adds is added when the time is over.
    fn work(&mut self, clock: u64, rows: &mut Rows<'_, C>) -> Result<Work<C::Wide>, String>;

    /// Whether it goes on in the same clock when what it added is added: it reads again, what has come meanwhile included.
    fn stays(&mut self, clock: u64) -> bool {
        let _ = clock;
        false
    }

    /// Rows that it is going to use, with the clocks from and to which.
    fn intends(&mut self, clock: u64) -> Vec<(u64, u64, u64)> {
        let _ = clock;
        Vec::new()
    }
}

/// What came of a worker's clock.
#[derive(Clone, Debug, Default)]
pub struct Work<W> {
    /// How long it takes.
    pub span: Span,
    /// Row, what is added to it, and the version it was computed from.
    pub updates: Vec<(u64, Vec<W>, u64)>,
}

/// The rows that a worker has asked for.
#[derive(Debug)]
pub struct Rows<'a, C: Cell> {
    spec: &'a Spec,
    clients: &'a mut [Client<C>],
    worker: WorkerId,
}

impl<C: Cell> Rows<'_, C> {
    /// Shows a row and its version.
    pub fn read<R>(&mut self, key: u64, look: impl FnOnce(Cells<'_, C::Wide>, u64) -> R) -> Result<R, String> {
        let client = &mut self.clients[self.spec.shard_of(key).index()];
        let reading = client.get(self.worker, key).map_err(|error| error.to_string())?;
        let reading = reading.ok_or_else(|| format!("row {key} was said to be here, and is not"))?;
        Ok(look(reading.cells, reading.version))
    }
}

/// What clients and shards say to each other.
#[derive(Clone, Debug)]
pub enum Message<C: Cell> {
    /// To a shard.
    ToShard(u32, Envelope<ToShard<C::Wide>>),
    /// To the client of a shard.
    ToClient(u32, Envelope<ToClient<C, C::Wide>>),
}

/// Spoils messages as a wrong machine would.
pub trait Spoil<C: Cell>: fmt::Debug {
    /// One that leaves a client.
    fn to_shard(&mut self, envelope: &mut Envelope<ToShard<C::Wide>>);
    /// One that leaves a shard.
    fn to_client(&mut self, envelope: &mut Envelope<ToClient<C, C::Wide>>);
}

/// How a peer's machines and workers begin.
#[derive(Debug)]
pub struct Setup<C: Cell, P> {
    /// The table.
    pub spec: Arc<Spec>,
    /// What its shards do with updates.
    pub procedure: fn() -> Box<dyn Procedure<C::Wide>>,
    /// What the workers of this peer do.
    pub programs: Vec<P>,
    /// What may be sent ahead of need, in each direction, and how much at once.
    pub budget: Option<(Rate, usize)>,
}

#[derive(Debug)]
enum State<W> {
    /// It waits for rows: all of them, and from how many shards they have not come.
    Asking(Vec<u64>, usize),
    /// It computes what is to be added.
    Working(Vec<(u64, Vec<W>, u64)>),
    Finished,
}

#[derive(Debug)]
struct Worker<P, W> {
    program: P,
    id: WorkerId,
    clock: u64,
    state: State<W>,
    /// When each clock ended.
    ends: Vec<Moment>,
}

/// A peer of a table.
pub struct Tables<C: Cell, P> {
    me: Rank,
    peers: usize,
    spec: Arc<Spec>,
    /// By shard.
    clients: Vec<Client<C>>,
    /// Those that lie here, with their numbers.
    servers: Vec<(usize, Server<C>)>,
    workers: Vec<Worker<P, C::Wide>>,
    pacers: Option<[Pacer; 2]>,
    random: Random,
    ticking: bool,
    /// Another peer is lost: who is not done fails, and nothing more is sent ahead of need.
    ends: bool,
    procedure: fn() -> Box<dyn Procedure<C::Wide>>,
    saver: Option<Saver<C>>,
    spoil: Option<Box<dyn Spoil<C>>>,
}

impl<C: Cell, P> fmt::Debug for Tables<C, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tables").field("me", &self.me).finish_non_exhaustive()
    }
}

const TICK_TOKEN: u64 = u64::MAX;
/// A snapshot begins; the next piece of it is due.
const SAVE_TOKEN: u64 = u64::MAX - 1;
const PIECE_TOKEN: u64 = u64::MAX - 2;
/// So long a shard is left to others between two pieces.
const BETWEEN_PIECES: Span = Span::from_micros(40);

impl<C: Cell, P: Program<C>> Tables<C, P> {
    /// A peer with its workers and its shards.
    pub fn new(me: Rank, peers: usize, setup: Setup<C, P>) -> Result<Self, String> {
        let Setup { spec, procedure, programs, budget } = setup;
        let workers = programs.len().max(1);
        let client = |shard| {
            let (id, shard) = (ClientId::new(me.number()), ShardId::new(shard));
            Client::new(spec.clone(), id, shard, &*procedure(), workers, Clock::ZERO)
        };
        let server = |shard: usize| {
            let random = Random::new(shard as u64);
            Server::new(spec.clone(), ShardId::new(shard as u32), procedure(), Clock::ZERO, random)
                .map(|server| (shard, server))
                .map_err(|error| error.to_string())
        };
        let own = (0..spec.shards).filter(|shard| shard % peers == me.index());
        let pacer = |(rate, burst): (Rate, usize)| {
            Pacer::new(Bandwidth::bytes_per_second(rate.bytes_per_second()), burst, PATIENCE, Moment::ZERO)
        };
        let worker = |(number, program)| {
            let id = WorkerId::new(number as u32);
            Worker { program, id, clock: 0, state: State::Asking(Vec::new(), 0), ends: Vec::new() }
        };
        Ok(Self {
            me,
            peers,
            clients: (0..spec.shards as u32).map(client).collect(),
            servers: own.map(server).collect::<Result<_, _>>()?,
            workers: programs.into_iter().enumerate().map(worker).collect(),
            pacers: budget.map(|budget| [pacer(budget), pacer(budget)]),
            random: Random::new(u64::from(me.number())),
            ticking: false,
            ends: false,
            procedure,
            saver: None,
            spoil: None,
            spec,
        })
    }

    /// Spoils its messages.
    #[must_use]
    pub fn spoiled(mut self, spoil: Option<Box<dyn Spoil<C>>>) -> Self {
        self.spoil = spoil;
        self
    }

    /// Saves its shards on the way.
    #[must_use]
    pub fn saving(mut self, save: Save) -> Self {
        self.saver = Some(Saver::new(save));
        self
    }

    /// What it has saved.
    #[must_use]
    pub fn saved(&self) -> Option<&Saved<C>> {
        self.saver.as_ref().map(|saver| &saver.saved)
    }

    /// Goes on from what all peers have saved together, with workers at this clock.
    pub fn restore(&mut self, saved: &Saved<C>, clock: u64) -> Outcome {
        for (shard, server) in &mut self.servers {
            // As many summaries as there were shards then.
            let summary = saved.summaries.get(&(*shard % saved.summaries.len().max(1)));
            let summary = summary.ok_or("nothing was saved")?.clone();
            let (number, pieces) = (ShardId::new(*shard as u32), saved.pieces.iter().cloned());
            *server = Server::restore(&self.spec, number, (self.procedure)(), summary, pieces)
                .map_err(|error| error.to_string())?;
        }
        let start = saved.summaries.values().next().map_or(Clock::ZERO, |summary| summary.at);
        let (id, workers) = (ClientId::new(self.me.number()), self.workers.len().max(1));
        for (shard, client) in self.clients.iter_mut().enumerate() {
            let procedure = (self.procedure)();
            *client = Client::new(self.spec.clone(), id, ShardId::new(shard as u32), &*procedure, workers, start);
        }
        self.workers.iter_mut().for_each(|worker| worker.clock = clock);
        Ok(())
    }

    /// Tells its shards of the snapshot.
    fn begin_saving(&mut self, context: &mut Context<'_, Message<C>>) -> Outcome {
        if let Some(saver) = &mut self.saver {
            saver.begin(&mut self.servers)?;
        }
        self.read_out(context);
        self.post(context);
        Ok(())
    }

    /// Reads a piece of the snapshot out, if there is one.
    fn read_out(&mut self, context: &mut Context<'_, Message<C>>) {
        let Some(saver) = self.saver.as_mut().filter(|saver| !saver.due) else { return };
        if saver.read(&mut self.servers) {
            saver.due = true;
            context.after(BETWEEN_PIECES, PIECE_TOKEN);
        }
    }

    /// What its workers do.
    pub fn programs(&self) -> impl Iterator<Item = &P> {
        self.workers.iter().map(|worker| &worker.program)
    }

    /// When each of its workers ended its clocks.
    pub fn ends(&self) -> impl Iterator<Item = &[Moment]> {
        self.workers.iter().map(|worker| &worker.ends[..])
    }

    /// The shards that lie here.
    pub fn shards(&self) -> impl Iterator<Item = &Server<C>> {
        self.servers.iter().map(|(_, server)| server)
    }

    /// One of them by its number.
    #[must_use]
    pub fn shard(&self, number: usize) -> Option<&Server<C>> {
        self.servers.iter().find(|(shard, _)| *shard == number).map(|(_, server)| server)
    }

    /// Bytes sent ahead of need, by clients and by shards.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        self.pacers.iter().flatten().map(|pacer| pacer.bytes().0).sum()
    }

    fn home(&self, shard: usize) -> Rank {
        Rank::new((shard % self.peers) as u32)
    }

    /// Begins a worker's clock: asks for rows.
    fn begin(&mut self, number: usize, context: &mut Context<'_, Message<C>>) -> Outcome {
        let Worker { program, id, clock, .. } = &mut self.workers[number];
        let (id, clock) = (*id, *clock);
        for (key, from, to) in program.intends(clock) {
            let client = &mut self.clients[self.spec.shard_of(key).index()];
            client.intend(id, &[key], Clock::new(from), Clock::new(to)).map_err(|error| error.to_string())?;
        }
        if let Some(keys) = program.reads(clock) {
            return self.ask(number, keys, context);
        }
        for client in &mut self.clients {
            client.finish(id).map_err(|error| error.to_string())?;
        }
        self.workers[number].state = State::Finished;
        self.close(context);
        Ok(())
    }

    fn ask(&mut self, number: usize, keys: Vec<u64>, context: &mut Context<'_, Message<C>>) -> Outcome {
        let id = self.workers[number].id;
        let mut of_shard: Vec<Vec<u64>> = vec![Vec::new(); self.clients.len()];
        for key in &keys {
            of_shard[self.spec.shard_of(*key).index()].push(*key);
        }
        let mut missing = 0;
        for (client, keys) in self.clients.iter_mut().zip(of_shard) {
            // A client that nothing is asked of would only forget what it is asked for.
            let ready = keys.is_empty() || client.ask(id, &keys).map_err(|error| error.to_string())?;
            missing += usize::from(!ready);
        }
        self.workers[number].state = State::Asking(keys, missing);
        self.post(context);
        if missing == 0 {
            return self.work(number, context);
        }
        context.waits(number, "waits for rows");
        Ok(())
    }

    /// All rows of a worker are there: it computes.
    fn work(&mut self, number: usize, context: &mut Context<'_, Message<C>>) -> Outcome {
        context.goes_on(number);
        let Worker { program, id, clock, state, .. } = &mut self.workers[number];
        let mut rows = Rows { spec: &self.spec, clients: &mut self.clients, worker: *id };
        let Work { span, updates } = program.work(*clock, &mut rows)?;
        *state = State::Working(updates);
        context.compute(number, "computes", span, number as u64);
        Ok(())
    }

    /// Sends what has to leave for clocks that have ended.
    fn close(&mut self, context: &mut Context<'_, Message<C>>) {
        loop {
            let mut more = false;
            for client in &mut self.clients {
                more |= client.close_some();
            }
            self.post(context);
            if !more {
                return;
            }
        }
    }

    /// Sends what machines want sent.
    fn post(&mut self, context: &mut Context<'_, Message<C>>) {
        for shard in 0..self.clients.len() {
            self.post_of_client(shard, context);
        }
        for place in 0..self.servers.len() {
            self.post_of_server(place, context);
        }
        self.keep_ticking(context);
    }

    fn post_of_client(&mut self, shard: usize, context: &mut Context<'_, Message<C>>) {
        let to = self.home(shard);
        for mut sent in self.clients[shard].take_outgoing() {
            if let Some(spoil) = &mut self.spoil {
                spoil.to_shard(&mut sent.envelope);
            }
            let envelope = sent.envelope;
            let small = matches!(&envelope.body, None | Some(ToShard::Clock(_) | ToShard::Get { .. }));
            let bytes = wire::shard_bytes(&envelope);
            self.charge(0, sent.urgent && to != self.me, bytes, context.now());
            context.send(to, lane(small, bytes), bytes + HEAD + FRAME, Message::ToShard(shard as u32, envelope));
        }
    }

    fn post_of_server(&mut self, place: usize, context: &mut Context<'_, Message<C>>) {
        let shard = self.servers[place].0;
        for mut sent in self.servers[place].1.take_outgoing() {
            if let Some(spoil) = &mut self.spoil {
                spoil.to_client(&mut sent.envelope);
            }
            let (to, envelope) = (Rank::new(sent.to.index() as u32), sent.envelope);
            let small = matches!(&envelope.body, None | Some(ToClient::Recall { .. } | ToClient::Rows { .. }));
            let bytes = wire::client_bytes(&envelope);
            self.charge(1, sent.urgent && to != self.me, bytes, context.now());
            context.send(to, lane(small, bytes), bytes + HEAD + FRAME, Message::ToClient(shard as u32, envelope));
        }
    }

    /// Looks again soon, if something waits that may be sent ahead of need.
    fn keep_ticking(&mut self, context: &mut Context<'_, Message<C>>) {
        let more =
            || self.clients.iter().any(Client::has_more) || self.servers.iter().any(|(_, server)| server.has_more());
        if self.pacers.is_some() && !self.ticking && !self.ends && more() {
            self.ticking = true;
            context.after(TICK, TICK_TOKEN);
        }
    }

    fn charge(&mut self, direction: usize, urgent: bool, bytes: usize, now: Moment) {
        if let (Some(pacers), true) = (&mut self.pacers, urgent) {
            pacers[direction].charge(now, bytes);
        }
    }

    /// Sends ahead of need what the budget allows.
    fn tick(&mut self, context: &mut Context<'_, Message<C>>) {
        self.ticking = false;
        let now = context.now();
        let Some([up, down]) = &mut self.pacers else { return };
        for (shard, client) in self.clients.iter_mut().enumerate() {
            client.send_ahead(now, up, shard as u64, &mut self.random);
            client.acknowledge();
        }
        let clients = self.spec.clients as u64;
        for (shard, server) in &mut self.servers {
            let number = |client: ClientId| *shard as u64 * clients + client.index() as u64;
            server.send_ahead(now, down, |client| Some(number(client)));
            server.acknowledge();
        }
        self.post(context);
    }
}

fn lane(small: bool, bytes: usize) -> Lane {
    if small && bytes + HEAD <= SMALL { Lane::Control } else { Lane::Bulk }
}

impl<C: Cell, P: Program<C>> Actor for Tables<C, P> {
    type Message = Message<C>;

    fn start(&mut self, context: &mut Context<'_, Message<C>>) -> Outcome {
        match self.saver.as_ref().map(|saver| saver.save.begin) {
            Some(Span::ZERO) => self.begin_saving(context)?,
            Some(begin) => context.after(begin, SAVE_TOKEN),
            None => {}
        }
        if self.workers.is_empty() {
            // Somebody has to say that nobody works here.
            for client in &mut self.clients {
                client.finish(WorkerId::new(0)).map_err(|error| error.to_string())?;
            }
            self.close(context);
        }
        (0..self.workers.len()).try_for_each(|number| self.begin(number, context))
    }

    fn receive(&mut self, from: Rank, message: Message<C>, context: &mut Context<'_, Message<C>>) -> Outcome {
        match message {
            Message::ToShard(shard, envelope) => {
                let place = shard as usize / self.peers;
                let (_, server) = self.servers.get_mut(place).ok_or_else(|| format!("shard {shard} is elsewhere"))?;
                server.receive(ClientId::new(from.number()), envelope).map_err(|error| error.to_string())?;
                self.read_out(context);
                self.post_of_server(place, context);
            }
            Message::ToClient(shard, envelope) => {
                let client = &mut self.clients[shard as usize];
                client.receive(envelope).map_err(|error| error.to_string())?;
                for woken in client.take_woken() {
                    // Rows that have come stay until the clock ends, so nothing has to be asked for again.
                    if let State::Asking(_, missing) = &mut self.workers[woken.index()].state {
                        *missing -= 1;
                        if *missing == 0 {
                            self.work(woken.index(), context)?;
                        }
                    }
                }
                self.post_of_client(shard as usize, context);
            }
        }
        self.keep_ticking(context);
        Ok(())
    }

    fn timer(&mut self, token: u64, context: &mut Context<'_, Message<C>>) -> Outcome {
        match token {
            TICK_TOKEN => {
                self.tick(context);
                return Ok(());
            }
            SAVE_TOKEN => return self.begin_saving(context),
            PIECE_TOKEN => {
                self.saver.iter_mut().for_each(|saver| saver.due = false);
                self.read_out(context);
                return Ok(());
            }
            _ => {}
        }
        let number = token as usize;
        let worker = &mut self.workers[number];
        let State::Working(updates) = std::mem::replace(&mut worker.state, State::Asking(Vec::new(), 0)) else {
            return Err(format!("worker {number} was not computing"));
        };
        let id = worker.id;
        for (key, cells, version) in updates {
            let client = &mut self.clients[self.spec.shard_of(key).index()];
            client.update(id, key, &Cells::Dense(&cells), version).map_err(|error| error.to_string())?;
        }
        let worker = &mut self.workers[number];
        if worker.program.stays(worker.clock) {
            self.post(context);
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

    fn lost(&mut self, peer: Rank, _: &mut Context<'_, Message<C>>) -> Outcome {
        self.ends = true;
        if self.is_done() { Ok(()) } else { Err(format!("peer {peer} is lost")) }
    }

    fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| matches!(worker.state, State::Finished))
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for (number, worker) in self.workers.iter().enumerate() {
            let State::Asking(keys, _) = &worker.state else { continue };
            let need = Clock::new(worker.clock).back(self.spec.consistency.staleness());
            let mut on: Vec<Rank> = keys.iter().map(|key| self.home(self.spec.shard_of(*key).index())).collect();
            on.sort_unstable();
            on.dedup();
            let shown: Vec<String> = keys.iter().take(3).map(ToString::to_string).collect();
            let rest = if keys.len() > 3 { ", ..." } else { "" };
            let what =
                format!("rows {}{rest} with all clocks before {need} (it is at {})", shown.join(", "), worker.clock);
            waits.push(Wait::new(format!("worker {number}"), what, on));
        }
        for (shard, server) in &self.servers {
            for (client, need) in server.waiting() {
                let late = (0..self.spec.clients).filter(|client| server.clocks().of(*client) < need);
                let on = late.map(|client| Rank::new(client as u32)).collect();
                let what = format!("clock {need}, to answer client {client}");
                waits.push(Wait::new(format!("shard {shard}"), what, on));
            }
        }
        waits
    }
}
