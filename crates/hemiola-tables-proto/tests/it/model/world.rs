//! Runs one schedule and compares what workers see with what was done.

use super::plan::{Dice, Plan, Rule};
use super::probe::{Log, Probe};
use hemiola_core::{Moment, WorkerId};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::message::{ToClient, ToShard};
use hemiola_tables_proto::procedure::{Add, Procedure};
use hemiola_tables_proto::stream::Envelope;
use hemiola_tables_proto::{Cells, Client, ClientId, Clock, Consistency, Pacer, Random, Server, ShardId, wire};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has happened in all schedules, so that the check is known to have met it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    waits: u64,
    hits: u64,
    repeats: u64,
    overtakings: u64,
    ahead_from_clients: u64,
    ahead_from_shards: u64,
    evictions: u64,
    snapshots: u64,
    fresher: u64,
    held_back: u64,
    leases: u64,
    kept_sums: u64,
    refused: u64,
}

impl Counts {
    pub(crate) fn all_happened(&self) -> bool {
        let Self {
            waits,
            hits,
            repeats,
            overtakings,
            ahead_from_clients,
            ahead_from_shards,
            evictions,
            snapshots,
            fresher,
            held_back,
            leases,
            kept_sums,
            refused,
        } = self;
        [
            waits,
            hits,
            repeats,
            overtakings,
            ahead_from_clients,
            ahead_from_shards,
            evictions,
            snapshots,
            fresher,
            held_back,
            leases,
            kept_sums,
            refused,
        ]
        .into_iter()
        .all(|count| *count > 0)
    }
}

/// Updates of one worker to one row: the clock of each, and the sum up to it.
type History = Vec<(u64, i32)>;

enum State {
    Working {
        left: usize,
    },
    /// A clock has ended here, and what has to leave for that is leaving.
    Closing {
        ends: bool,
    },
    Waiting {
        keys: Vec<u64>,
        left: usize,
        woken: bool,
    },
    Done,
}

struct Worker {
    client: usize,
    id: WorkerId,
    clock: u64,
    clocks: u64,
    pace: usize,
    state: State,
    /// Rows read in this clock, with their versions.
    read: Vec<(u64, u64)>,
    updates: i32,
}

/// Messages under way from one to one.
type Way<M> = Vec<Envelope<M>>;

pub(crate) struct World {
    plan: Plan,
    dice: Dice,
    workers: Vec<Worker>,
    /// By client, then by shard.
    clients: Vec<Vec<Client<i32>>>,
    servers: Vec<Server<i32>>,
    to_shard: Vec<Way<ToShard<i32>>>,
    to_client: Vec<Way<ToClient<i32, i32>>>,
    client_pacers: Vec<Pacer>,
    server_pacers: Vec<Pacer>,
    random: Random,
    now: u64,
    /// By row, then by worker.
    truth: BTreeMap<u64, Vec<History>>,
    probe: Arc<Mutex<Log>>,
    snapshots: Vec<Option<BTreeMap<u64, Vec<i32>>>>,
    saving: Vec<Saving>,
}

#[derive(Clone, Copy, PartialEq)]
enum Saving {
    NotTold,
    Told,
    Done,
    /// It was told when it was too late.
    Refused,
}

/// Runs the schedule of a seed.
pub(crate) fn run(seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let plan = Plan::new(&mut dice);
    let description = format!("{plan:?}");
    let mut world = World::new(plan, dice);
    world.check(counts).map_err(|problem| format!("{problem}\n{description}"))
}

impl World {
    pub(crate) fn new(plan: Plan, dice: Dice) -> Self {
        let spec = Arc::new(plan.spec.clone());
        let probe = Arc::new(Mutex::new(Log::default()));
        let procedure = || -> Box<dyn Procedure<i32>> {
            match plan.rule {
                Rule::Add => Box::new(Add),
                Rule::Carry => Box::new(Probe::new(true, probe.clone())),
                Rule::Keep => Box::new(Probe::new(false, probe.clone())),
            }
        };
        let locals: Vec<usize> = (0..plan.clients)
            .map(|client| plan.workers.iter().filter(|worker| worker.client == client).count())
            .collect();
        let shards = plan.spec.shards as u32;
        let client = |id: usize, shard| {
            let id_ = ClientId::new(id as u32);
            Client::new(spec.clone(), id_, ShardId::new(shard), &*procedure(), locals[id], Clock::ZERO)
        };
        let server = |shard| {
            Server::new(spec.clone(), ShardId::new(shard), procedure(), Clock::ZERO, Random::new(u64::from(shard)))
                .unwrap()
        };
        let pacer = || {
            let patience = Duration::from_nanos(30);
            // A step is a nanosecond of virtual time.
            Pacer::new(Bandwidth::bytes_per_second(plan.bandwidth * 1_000_000_000), plan.burst, patience, Moment::ZERO)
        };
        let workers = plan.workers.iter().map(|worker| Worker {
            client: worker.client,
            id: WorkerId::new(worker.local as u32),
            clock: 0,
            clocks: worker.clocks,
            pace: worker.pace,
            state: State::Working { left: 2 },
            read: Vec::new(),
            updates: 0,
        });
        let ways = plan.clients * plan.spec.shards;
        Self {
            workers: workers.collect(),
            clients: (0..plan.clients).map(|id| (0..shards).map(|shard| client(id, shard)).collect()).collect(),
            servers: (0..shards).map(server).collect(),
            to_shard: vec![Vec::new(); ways],
            to_client: vec![Vec::new(); ways],
            client_pacers: (0..plan.clients).map(|_| pacer()).collect(),
            server_pacers: (0..shards).map(|_| pacer()).collect(),
            random: Random::new(1),
            now: 0,
            truth: plan.keys.iter().map(|key| (*key, vec![Vec::new(); plan.workers.len()])).collect(),
            probe,
            snapshots: vec![None; plan.spec.shards],
            saving: vec![Saving::NotTold; plan.spec.shards],
            plan,
            dice,
        }
    }

    /// Runs it to its end and looks at what is left.
    pub(crate) fn check(&mut self, counts: &mut Counts) -> Result<(), String> {
        self.run(counts)?;
        self.check_end(counts)
    }

    fn run(&mut self, counts: &mut Counts) -> Result<(), String> {
        if self.plan.notice == 100 {
            (0..self.servers.len()).for_each(|shard| self.tell(shard, counts));
        }
        for _ in 0..200_000 {
            self.now += 1;
            let can_work: Vec<usize> = (0..self.workers.len()).filter(|worker| self.can_work(*worker)).collect();
            let under_way =
                self.to_shard.iter().any(|way| !way.is_empty()) || self.to_client.iter().any(|way| !way.is_empty());
            if can_work.is_empty() && !under_way {
                if self.workers.iter().all(|worker| matches!(worker.state, State::Done)) && !self.idle(counts)? {
                    return Ok(());
                }
                if !self.idle(counts)? && !self.workers.iter().all(|worker| matches!(worker.state, State::Done)) {
                    return Err(self.deadlock());
                }
                continue;
            }
            if self.dice.percent(10) {
                self.idle(counts)?;
            }
            if under_way && (can_work.is_empty() || self.dice.percent(self.plan.network)) {
                self.deliver(counts)?;
            } else {
                let total: usize = can_work.iter().map(|worker| self.workers[*worker].pace).sum();
                let mut ticket = self.dice.below(total);
                let chosen = can_work.into_iter().find(|worker| {
                    let pace = self.workers[*worker].pace;
                    ticket < pace || {
                        ticket -= pace;
                        false
                    }
                });
                self.work(chosen.expect("the ticket is somebody's"), counts)?;
            }
        }
        Err("it does not end".to_owned())
    }

    fn can_work(&self, worker: usize) -> bool {
        matches!(
            self.workers[worker].state,
            State::Working { .. } | State::Closing { .. } | State::Waiting { woken: true, .. }
        )
    }

    fn deadlock(&self) -> String {
        let waits: Vec<String> = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(number, worker)| match &worker.state {
                State::Waiting { keys, .. } => Some(format!("worker {number} at clock {} for {keys:?}", worker.clock)),
                _ => None,
            })
            .collect();
        let clocks: Vec<_> = self.servers.iter().map(|server| server.clocks().all()).collect();
        format!("deadlock: {waits:?}; clocks of shards: {clocks:?}")
    }

    /// What drivers do in between. Returns whether something was sent.
    fn idle(&mut self, counts: &mut Counts) -> Result<bool, String> {
        let now = Moment::from_nanos(self.now);
        let shards = self.servers.len();
        for client in 0..self.clients.len() {
            for shard in 0..shards {
                let machine = &mut self.clients[client][shard];
                let before = self.client_pacers[client].bytes().0;
                machine.send_ahead(now, &mut self.client_pacers[client], shard as u64, &mut self.random);
                counts.ahead_from_clients += u64::from(self.client_pacers[client].bytes().0 > before);
                if self.dice.percent(50) {
                    self.clients[client][shard].acknowledge();
                }
            }
            counts.held_back += u64::from(self.client_pacers[client].held_back() > 0);
        }
        for shard in 0..shards {
            let before = self.server_pacers[shard].bytes().0;
            self.servers[shard].send_ahead(now, &mut self.server_pacers[shard], |client| Some(client.index() as u64));
            counts.ahead_from_shards += u64::from(self.server_pacers[shard].bytes().0 > before);
            self.servers[shard].acknowledge();
            self.tell(shard, counts);
            self.save(shard, counts);
        }
        self.post()
    }

    /// Tells a shard to take a snapshot, unless it is too late.
    fn tell(&mut self, shard: usize, counts: &mut Counts) {
        let Some(at) = self.plan.snapshot else { return };
        if self.saving[shard] == Saving::NotTold && self.dice.percent(self.plan.notice) {
            let begun = self.servers[shard].begin_snapshot(Clock::new(at));
            self.saving[shard] = if begun.is_ok() { Saving::Told } else { Saving::Refused };
            counts.refused += u64::from(begun.is_err());
        }
    }

    fn save(&mut self, shard: usize, counts: &mut Counts) {
        if self.saving[shard] != Saving::Told || self.dice.percent(50) {
            return;
        }
        let Some(piece) = self.servers[shard].next_piece(1) else { return };
        let saved = self.snapshots[shard].get_or_insert_default();
        for row in piece.batch.iter() {
            let width = self.plan.workers.len();
            let mut values = vec![0; width];
            row.cells.add_to(&mut values, None);
            saved.insert(row.key, values);
        }
        if piece.batch.is_empty() {
            self.saving[shard] = if self.servers[shard].end_snapshot().is_some() { Saving::Done } else { Saving::Told };
            counts.snapshots += 1;
        }
    }

    /// Puts on their way what machines want to send. Returns whether there was anything.
    fn post(&mut self) -> Result<bool, String> {
        let shards = self.servers.len();
        let spec = &self.plan.spec;
        let mut any = false;
        for client in 0..self.clients.len() {
            for shard in 0..shards {
                for sent in self.clients[client][shard].take_outgoing() {
                    any = true;
                    let mut envelope = sent.envelope;
                    if let Some(plant) = self.plan.plant {
                        plant.to_shard(&mut envelope, &mut self.dice);
                    }
                    if self.plan.bytes {
                        let bytes = wire::encode_to_shard(&[], envelope.clone()).into_bytes();
                        let read = wire::decode_to_shard(&bytes, spec).map_err(|error| error.to_string())?;
                        if read != envelope {
                            return Err(format!("{envelope:?} became {read:?}"));
                        }
                        envelope = read;
                    }
                    self.to_shard[client * shards + shard].push(envelope);
                }
            }
        }
        for shard in 0..shards {
            for sent in self.servers[shard].take_outgoing() {
                any = true;
                let mut envelope = sent.envelope;
                if let Some(plant) = self.plan.plant {
                    plant.to_client(&mut envelope, &mut self.dice);
                }
                if self.plan.bytes {
                    let bytes = wire::encode_to_client(&[], envelope).into_bytes();
                    envelope = wire::decode_to_client(&bytes, spec).map_err(|error| error.to_string())?;
                }
                self.to_client[sent.to.index() * shards + shard].push(envelope);
            }
        }
        Ok(any)
    }

    /// Delivers any message that is under way.
    fn deliver(&mut self, counts: &mut Counts) -> Result<(), String> {
        let (shards, ways) = (self.servers.len(), self.to_shard.len());
        let start = self.dice.below(2 * ways);
        let way = (0..2 * ways).map(|step| (start + step) % (2 * ways)).find(|way| {
            if *way < ways { !self.to_shard[*way].is_empty() } else { !self.to_client[*way - ways].is_empty() }
        });
        let way = way.expect("something is under way");
        let repeat = self.dice.percent(self.plan.repeats);
        counts.repeats += u64::from(repeat);
        if way < ways {
            let envelope = draw(&mut self.to_shard[way], &mut self.dice, repeat, counts);
            let from = ClientId::new((way / shards) as u32);
            self.servers[way % shards].receive(from, envelope).map_err(|error| error.to_string())?;
        } else {
            let way = way - ways;
            let envelope = draw(&mut self.to_client[way], &mut self.dice, repeat, counts);
            let (client, shard) = (way / shards, way % shards);
            let machine = &mut self.clients[client][shard];
            let before = machine.copies();
            machine.receive(envelope).map_err(|error| error.to_string())?;
            counts.evictions += u64::from(machine.copies() < before);
            counts.leases += machine.leases() as u64;
            let woken = machine.take_woken();
            for worker in self.workers.iter_mut().filter(|worker| worker.client == client && woken.contains(&worker.id))
            {
                if let State::Waiting { woken, .. } = &mut worker.state {
                    *woken = true;
                }
            }
        }
        self.post().map(|_| ())
    }

    fn shard_of(&self, key: u64) -> usize {
        self.plan.spec.shard_of(key).index()
    }

    fn work(&mut self, number: usize, counts: &mut Counts) -> Result<(), String> {
        let worker = &mut self.workers[number];
        match std::mem::replace(&mut worker.state, State::Done) {
            State::Waiting { keys, left, .. } => self.ask(number, keys, left, counts)?,
            State::Working { left } if left > 0 => {
                worker.state = State::Working { left: left - 1 };
                if self.dice.percent(self.plan.intends) {
                    self.intend(number)?;
                    return self.post().map(|_| ());
                }
                if self.dice.percent(self.plan.reads) {
                    let mut keys: Vec<u64> =
                        (0..self.dice.between(1, 3)).map(|_| self.dice.pick(&self.plan.keys)).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    self.ask(number, keys, left - 1, counts)?;
                } else {
                    self.update(number)?;
                }
            }
            State::Working { .. } => {
                let ends = worker.clock >= worker.clocks;
                let (client, id) = (worker.client, worker.id);
                worker.read.clear();
                counts.kept_sums += self.clients[client].iter().filter(|machine| machine.leases() > 0).count() as u64;
                for machine in &mut self.clients[client] {
                    let ended = if ends { machine.finish(id) } else { machine.clock(id) };
                    ended.map_err(|error| error.to_string())?;
                }
                worker.state = State::Closing { ends };
                if !ends {
                    worker.clock += 1;
                }
            }
            State::Closing { ends } => {
                let client = worker.client;
                let mut more = false;
                for shard in 0..self.clients[client].len() {
                    more |= self.clients[client][shard].close_some();
                }
                self.workers[number].state = match (more, ends) {
                    (true, _) => State::Closing { ends },
                    (false, true) => State::Done,
                    (false, false) => State::Working { left: self.dice.below(5) },
                };
            }
            State::Done => {}
        }
        self.post().map(|_| ())
    }

    fn intend(&mut self, number: usize) -> Result<(), String> {
        let Worker { client, id, clock, .. } = self.workers[number];
        let key = self.dice.pick(&self.plan.keys);
        let from = clock + self.dice.below(4) as u64;
        let to = from + self.dice.below(4) as u64;
        let machine = &mut self.clients[client][self.plan.spec.shard_of(key).index()];
        machine.intend(id, &[key], Clock::new(from), Clock::new(to)).map_err(|error| error.to_string())
    }

    fn update(&mut self, number: usize) -> Result<(), String> {
        let worker = &mut self.workers[number];
        // Updates of tables with versions are computed from rows that were read in this clock, or from none.
        let (key, version) = if worker.read.is_empty() || (self.plan.rule == Rule::Add && self.dice.percent(50)) {
            (self.dice.pick(&self.plan.keys), 0)
        } else {
            self.dice.pick(&worker.read)
        };
        worker.updates += 1;
        let amount = worker.updates;
        let history = &mut self.truth.get_mut(&key).expect("keys are those of the plan")[number];
        history.push((worker.clock, history.last().map_or(0, |(_, sum)| *sum) + amount));
        let mut dense = vec![0; self.plan.workers.len()];
        dense[number] = amount;
        let (columns, values) = ([number as u32], [amount]);
        let cells = if self.plan.spec.sparse || self.dice.percent(30) {
            Cells::Sparse { columns: &columns, values: &values }
        } else {
            Cells::Dense(&dense[..])
        };
        let shard = self.plan.spec.shard_of(key).index();
        self.clients[worker.client][shard].update(worker.id, key, &cells, version).map_err(|error| error.to_string())
    }

    fn ask(&mut self, number: usize, keys: Vec<u64>, left: usize, counts: &mut Counts) -> Result<(), String> {
        let Worker { client, id, .. } = self.workers[number];
        let mut ready = true;
        for shard in 0..self.servers.len() {
            let own: Vec<u64> = keys.iter().copied().filter(|key| self.shard_of(*key) == shard).collect();
            ready &= self.clients[client][shard].ask(id, &own).map_err(|error| error.to_string())?;
        }
        if !ready {
            counts.waits += 1;
            self.workers[number].state = State::Waiting { keys, left, woken: false };
            return Ok(());
        }
        counts.hits += 1;
        self.workers[number].state = State::Working { left };
        for key in keys {
            let shard = self.shard_of(key);
            let mut values = vec![0; self.workers.len()];
            let reading = self.clients[client][shard].get(id, key).map_err(|error| error.to_string())?;
            let reading = reading.ok_or_else(|| format!("row {key} was said to be here, and is not"))?;
            reading.cells.add_to(&mut values, None);
            let version = reading.version;
            self.workers[number].read.push((key, version));
            self.check_read(number, key, &values, counts)?;
        }
        Ok(())
    }

    /// Every worker's share of a row is a prefix of its updates, as long as the bound asks for and no longer than it may be.
    fn check_read(&self, reader: usize, key: u64, values: &[i32], counts: &mut Counts) -> Result<(), String> {
        let clock = self.workers[reader].clock;
        let consistency = self.plan.spec.consistency;
        for (writer, history) in self.truth[&key].iter().enumerate() {
            let value = values[writer];
            let prefix = if value == 0 {
                0
            } else {
                let found = history.binary_search_by_key(&value, |(_, sum)| *sum);
                1 + found.map_err(|_| {
                    format!("worker {reader} at clock {clock} read {value} in row {key}, which is no sum of worker {writer}'s {history:?}")
                })?
            };
            let before = |end: u64| history.iter().take_while(|(at, _)| *at < end).count();
            let own = writer == reader && self.plan.rule == Rule::Add;
            let least = if own { history.len() } else { before(clock.saturating_sub(consistency.staleness())) };
            let most = if consistency == Consistency::Bsp && !own { before(clock) } else { history.len() };
            counts.fresher += u64::from(prefix > least);
            if prefix < least {
                return Err(format!(
                    "worker {reader} at clock {clock} saw {prefix} of worker {writer}'s updates {history:?} to row {key}; {least} were due"
                ));
            }
            if prefix > most {
                return Err(format!(
                    "worker {reader} at clock {clock} saw {prefix} of worker {writer}'s updates {history:?} to row {key}; {most} were allowed"
                ));
            }
        }
        Ok(())
    }

    fn check_end(&mut self, counts: &mut Counts) -> Result<(), String> {
        for shard in 0..self.servers.len() {
            if self.servers[shard].min() != Clock::INFINITE {
                return Err(format!(
                    "shard {shard} has not heard that all have finished: {:?}",
                    self.servers[shard].clocks()
                ));
            }
            while self.saving[shard] == Saving::Told {
                self.save(shard, counts);
            }
        }
        let width = self.workers.len();
        for (key, histories) in &self.truth {
            let server = &self.servers[self.shard_of(*key)];
            let mut values = vec![0; width];
            if let Some(slot) = server.rows().find(*key) {
                server.rows().cells(slot).add_to(&mut values, None);
            }
            let sums: Vec<i32> = histories.iter().map(|history| history.last().map_or(0, |(_, sum)| *sum)).collect();
            if values != sums {
                return Err(format!("in the end row {key} is {values:?} and {sums:?} were added"));
            }
            if let (Some(at), Some(saved)) = (self.plan.snapshot, &self.snapshots[self.shard_of(*key)]) {
                let sum = |history: &History| {
                    history.iter().take_while(|(clock, _)| *clock < at).last().map_or(0, |(_, sum)| *sum)
                };
                let expected: Vec<i32> = histories.iter().map(sum).collect();
                let values = saved.get(key).cloned().unwrap_or_else(|| vec![0; width]);
                if values != expected {
                    return Err(format!("row {key} was saved as {values:?}, and at clock {at} it was {expected:?}"));
                }
            } else if self.saving[self.shard_of(*key)] == Saving::Done {
                return Err("a snapshot was not taken".to_owned());
            }
        }
        let probe = self.probe.lock().unwrap();
        if let Some(problem) = probe.problems.first() {
            return Err(problem.clone());
        }
        if self.plan.rule == Rule::Keep && probe.kept() > 0 {
            return Err(format!("{} versions were never released", probe.kept()));
        }
        Ok(())
    }
}

/// Takes any message out, or leaves it there to come once more.
fn draw<M: Clone>(way: &mut Way<M>, dice: &mut Dice, repeat: bool, counts: &mut Counts) -> Envelope<M> {
    let at = dice.below(way.len());
    counts.overtakings += u64::from(at > 0);
    if repeat { way[at].clone() } else { way.remove(at) }
}
