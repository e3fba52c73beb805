//! Runs one schedule and compares the reads with the updates.

use super::probe::{ProbeLog, ProbeRule};
use super::schedule::{ModelSchedule, ScheduleRule, TestRng};
use hemiola_core::{Moment, WorkerId};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::message::{ClientMessage, ServerMessage};
use hemiola_tables_proto::stream::Sequenced;
use hemiola_tables_proto::update_rule::{Addition, UpdateRule};
use hemiola_tables_proto::{
    ClientId, Clock, Consistency, RateLimiter, RowCells, SelectionRng, ShardClient, ShardId, ShardServer, wire,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Events over all schedules, to show that the check covers them.
#[derive(Debug, Default)]
pub(crate) struct CoverageCounts {
    waits: u64,
    hits: u64,
    repeats: u64,
    overtakings: u64,
    eager_from_clients: u64,
    eager_from_shards: u64,
    evictions: u64,
    snapshots: u64,
    fresher: u64,
    stalls: u64,
    leases: u64,
    kept_sums: u64,
    rejected: u64,
}

impl CoverageCounts {
    pub(crate) fn all_happened(&self) -> bool {
        let Self {
            waits,
            hits,
            repeats,
            overtakings,
            eager_from_clients,
            eager_from_shards,
            evictions,
            snapshots,
            fresher,
            stalls,
            leases,
            kept_sums,
            rejected,
        } = self;
        [
            waits,
            hits,
            repeats,
            overtakings,
            eager_from_clients,
            eager_from_shards,
            evictions,
            snapshots,
            fresher,
            stalls,
            leases,
            kept_sums,
            rejected,
        ]
        .into_iter()
        .all(|count| *count > 0)
    }
}

/// Updates of one worker to one row: the clock of each, and the running sum.
type History = Vec<(u64, i32)>;

enum WorkerPhase {
    Working {
        left: usize,
    },
    /// A clock has ended, and its sums are being sent.
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

struct ModelWorker {
    client: usize,
    id: WorkerId,
    clock: u64,
    clocks: u64,
    pace: usize,
    state: WorkerPhase,
    /// Rows read in this clock, with their versions.
    read: Vec<(u64, u64)>,
    updates: i32,
}

/// Messages in flight between one client and one shard.
type MessageQueue<M> = Vec<Sequenced<M>>;

pub(crate) struct TableSimulation {
    schedule: ModelSchedule,
    rng: TestRng,
    workers: Vec<ModelWorker>,
    /// Clients by id, then by shard.
    clients: Vec<Vec<ShardClient<i32>>>,
    servers: Vec<ShardServer<i32>>,
    to_shard: Vec<MessageQueue<ClientMessage<i32>>>,
    to_client: Vec<MessageQueue<ServerMessage<i32, i32>>>,
    client_limiters: Vec<RateLimiter>,
    server_limiters: Vec<RateLimiter>,
    random: SelectionRng,
    now: u64,
    /// Updates by row, then by worker.
    truth: BTreeMap<u64, Vec<History>>,
    probe: Arc<Mutex<ProbeLog>>,
    snapshots: Vec<Option<BTreeMap<u64, Vec<i32>>>>,
    saving: Vec<SnapshotPhase>,
}

#[derive(Clone, Copy, PartialEq)]
enum SnapshotPhase {
    NotStarted,
    Started,
    Done,
    /// The snapshot was requested too late.
    Rejected,
}

/// Runs the schedule of a seed.
pub(crate) fn run(seed: u64, counts: &mut CoverageCounts) -> Result<(), String> {
    let mut rng = TestRng::new(seed);
    let schedule = ModelSchedule::new(&mut rng);
    let description = format!("{schedule:?}");
    let mut simulation = TableSimulation::new(schedule, rng);
    simulation.check(counts).map_err(|problem| format!("{problem}\n{description}"))
}

impl TableSimulation {
    pub(crate) fn new(schedule: ModelSchedule, rng: TestRng) -> Self {
        let spec = Arc::new(schedule.spec.clone());
        let probe = Arc::new(Mutex::new(ProbeLog::default()));
        let rule = || -> Box<dyn UpdateRule<i32>> {
            match schedule.rule {
                ScheduleRule::Add => Box::new(Addition),
                ScheduleRule::Attach => Box::new(ProbeRule::new(true, probe.clone())),
                ScheduleRule::TrackCopies => Box::new(ProbeRule::new(false, probe.clone())),
            }
        };
        let locals: Vec<usize> = (0..schedule.clients)
            .map(|client| schedule.workers.iter().filter(|worker| worker.client == client).count())
            .collect();
        let shards = schedule.spec.shards as u32;
        let client = |id: usize, shard| {
            let id_ = ClientId::new(id as u32);
            ShardClient::new(spec.clone(), id_, ShardId::new(shard), &*rule(), locals[id], Clock::ZERO)
        };
        let server = |shard| {
            ShardServer::new(
                spec.clone(),
                ShardId::new(shard),
                rule(),
                Clock::ZERO,
                SelectionRng::new(u64::from(shard)),
            )
            .unwrap()
        };
        let limiter = || {
            let ack_timeout = Duration::from_nanos(30);
            // A step is a nanosecond of virtual time.
            RateLimiter::new(
                Bandwidth::bytes_per_second(schedule.bandwidth * 1_000_000_000),
                schedule.burst,
                ack_timeout,
                Moment::ZERO,
            )
        };
        let workers = schedule.workers.iter().map(|worker| ModelWorker {
            client: worker.client,
            id: WorkerId::new(worker.local as u32),
            clock: 0,
            clocks: worker.clocks,
            pace: worker.pace,
            state: WorkerPhase::Working { left: 2 },
            read: Vec::new(),
            updates: 0,
        });
        let queues = schedule.clients * schedule.spec.shards;
        Self {
            workers: workers.collect(),
            clients: (0..schedule.clients).map(|id| (0..shards).map(|shard| client(id, shard)).collect()).collect(),
            servers: (0..shards).map(server).collect(),
            to_shard: vec![Vec::new(); queues],
            to_client: vec![Vec::new(); queues],
            client_limiters: (0..schedule.clients).map(|_| limiter()).collect(),
            server_limiters: (0..shards).map(|_| limiter()).collect(),
            random: SelectionRng::new(1),
            now: 0,
            truth: schedule.keys.iter().map(|key| (*key, vec![Vec::new(); schedule.workers.len()])).collect(),
            probe,
            snapshots: vec![None; schedule.spec.shards],
            saving: vec![SnapshotPhase::NotStarted; schedule.spec.shards],
            schedule,
            rng,
        }
    }

    /// Runs the schedule to its end and checks the final state.
    pub(crate) fn check(&mut self, counts: &mut CoverageCounts) -> Result<(), String> {
        self.run(counts)?;
        self.check_end(counts)
    }

    fn run(&mut self, counts: &mut CoverageCounts) -> Result<(), String> {
        if self.schedule.notice == 100 {
            (0..self.servers.len()).for_each(|shard| self.begin_snapshot(shard, counts));
        }
        for _ in 0..200_000 {
            self.now += 1;
            let can_work: Vec<usize> = (0..self.workers.len()).filter(|worker| self.can_work(*worker)).collect();
            let under_way = self.to_shard.iter().any(|queue| !queue.is_empty())
                || self.to_client.iter().any(|queue| !queue.is_empty());
            if can_work.is_empty() && !under_way {
                if self.workers.iter().all(|worker| matches!(worker.state, WorkerPhase::Done)) && !self.idle(counts)? {
                    return Ok(());
                }
                if !self.idle(counts)? && !self.workers.iter().all(|worker| matches!(worker.state, WorkerPhase::Done)) {
                    return Err(self.deadlock());
                }
                continue;
            }
            if self.rng.percent(10) {
                self.idle(counts)?;
            }
            if under_way && (can_work.is_empty() || self.rng.percent(self.schedule.network)) {
                self.deliver(counts)?;
            } else {
                let total: usize = can_work.iter().map(|worker| self.workers[*worker].pace).sum();
                let mut ticket = self.rng.below(total);
                let chosen = can_work.into_iter().find(|worker| {
                    let pace = self.workers[*worker].pace;
                    ticket < pace || {
                        ticket -= pace;
                        false
                    }
                });
                self.work(chosen.expect("the ticket is within the total"), counts)?;
            }
        }
        Err("it does not end".to_owned())
    }

    fn can_work(&self, worker: usize) -> bool {
        matches!(
            self.workers[worker].state,
            WorkerPhase::Working { .. } | WorkerPhase::Closing { .. } | WorkerPhase::Waiting { woken: true, .. }
        )
    }

    fn deadlock(&self) -> String {
        let waits: Vec<String> = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(number, worker)| match &worker.state {
                WorkerPhase::Waiting { keys, .. } => {
                    Some(format!("worker {number} at clock {} for {keys:?}", worker.clock))
                }
                _ => None,
            })
            .collect();
        let clocks: Vec<_> = self.servers.iter().map(|server| server.clocks().as_slice()).collect();
        format!("deadlock: {waits:?}; clocks of shards: {clocks:?}")
    }

    /// Periodic work of the drivers. Returns true if a message was sent.
    fn idle(&mut self, counts: &mut CoverageCounts) -> Result<bool, String> {
        let now = Moment::from_nanos(self.now);
        let shards = self.servers.len();
        for client in 0..self.clients.len() {
            for shard in 0..shards {
                let machine = &mut self.clients[client][shard];
                let before = self.client_limiters[client].bytes().0;
                machine.send_eagerly(now, &mut self.client_limiters[client], shard as u64, &mut self.random);
                counts.eager_from_clients += u64::from(self.client_limiters[client].bytes().0 > before);
                if self.rng.percent(50) {
                    self.clients[client][shard].acknowledge();
                }
            }
            counts.stalls += u64::from(self.client_limiters[client].stalls() > 0);
        }
        for shard in 0..shards {
            let before = self.server_limiters[shard].bytes().0;
            self.servers[shard]
                .send_eagerly(now, &mut self.server_limiters[shard], |client| Some(client.index() as u64));
            counts.eager_from_shards += u64::from(self.server_limiters[shard].bytes().0 > before);
            self.servers[shard].acknowledge();
            self.begin_snapshot(shard, counts);
            self.save(shard, counts);
        }
        self.collect_outgoing()
    }

    /// Begins the snapshot of a shard, unless it is too late.
    fn begin_snapshot(&mut self, shard: usize, counts: &mut CoverageCounts) {
        let Some(at) = self.schedule.snapshot else { return };
        if self.saving[shard] == SnapshotPhase::NotStarted && self.rng.percent(self.schedule.notice) {
            let begun = self.servers[shard].begin_snapshot(Clock::new(at));
            self.saving[shard] = if begun.is_ok() { SnapshotPhase::Started } else { SnapshotPhase::Rejected };
            counts.rejected += u64::from(begun.is_err());
        }
    }

    fn save(&mut self, shard: usize, counts: &mut CoverageCounts) {
        if self.saving[shard] != SnapshotPhase::Started || self.rng.percent(50) {
            return;
        }
        let Some(chunk) = self.servers[shard].next_chunk(1) else { return };
        let saved = self.snapshots[shard].get_or_insert_default();
        for row in chunk.batch.iter() {
            let width = self.schedule.workers.len();
            let mut values = vec![0; width];
            row.cells.add_to(&mut values, None);
            saved.insert(row.key, values);
        }
        if chunk.batch.is_empty() {
            self.saving[shard] =
                if self.servers[shard].end_snapshot().is_some() { SnapshotPhase::Done } else { SnapshotPhase::Started };
            counts.snapshots += 1;
        }
    }

    /// Moves outgoing messages into the queues. Returns true if there were any.
    fn collect_outgoing(&mut self) -> Result<bool, String> {
        let shards = self.servers.len();
        let spec = &self.schedule.spec;
        let mut any = false;
        for client in 0..self.clients.len() {
            for shard in 0..shards {
                for sent in self.clients[client][shard].take_outgoing() {
                    any = true;
                    let mut message = sent.message;
                    if let Some(fault) = self.schedule.fault {
                        fault.to_shard(&mut message, &mut self.rng);
                    }
                    if self.schedule.bytes {
                        let bytes = wire::encode_to_shard(&[], message.clone()).into_bytes();
                        let read = wire::decode_to_shard(&bytes, spec).map_err(|error| error.to_string())?;
                        if read != message {
                            return Err(format!("{message:?} became {read:?}"));
                        }
                        message = read;
                    }
                    self.to_shard[client * shards + shard].push(message);
                }
            }
        }
        for shard in 0..shards {
            for sent in self.servers[shard].take_outgoing() {
                any = true;
                let mut message = sent.message;
                if let Some(fault) = self.schedule.fault {
                    fault.to_client(&mut message, &mut self.rng);
                }
                if self.schedule.bytes {
                    let bytes = wire::encode_to_client(&[], message).into_bytes();
                    message = wire::decode_to_client(&bytes, spec).map_err(|error| error.to_string())?;
                }
                self.to_client[sent.to.index() * shards + shard].push(message);
            }
        }
        Ok(any)
    }

    /// Delivers a random message in flight.
    fn deliver(&mut self, counts: &mut CoverageCounts) -> Result<(), String> {
        let (shards, queues) = (self.servers.len(), self.to_shard.len());
        let start = self.rng.below(2 * queues);
        let queue = (0..2 * queues).map(|step| (start + step) % (2 * queues)).find(|queue| {
            if *queue < queues {
                !self.to_shard[*queue].is_empty()
            } else {
                !self.to_client[*queue - queues].is_empty()
            }
        });
        let queue = queue.expect("something is under queue");
        let repeat = self.rng.percent(self.schedule.repeats);
        counts.repeats += u64::from(repeat);
        if queue < queues {
            let message = draw(&mut self.to_shard[queue], &mut self.rng, repeat, counts);
            let from = ClientId::new((queue / shards) as u32);
            self.servers[queue % shards].receive(from, message).map_err(|error| error.to_string())?;
        } else {
            let queue = queue - queues;
            let message = draw(&mut self.to_client[queue], &mut self.rng, repeat, counts);
            let (client, shard) = (queue / shards, queue % shards);
            let machine = &mut self.clients[client][shard];
            let before = machine.copies();
            machine.receive(message).map_err(|error| error.to_string())?;
            counts.evictions += u64::from(machine.copies() < before);
            counts.leases += machine.leases() as u64;
            let woken = machine.take_ready_workers();
            for worker in self.workers.iter_mut().filter(|worker| worker.client == client && woken.contains(&worker.id))
            {
                if let WorkerPhase::Waiting { woken, .. } = &mut worker.state {
                    *woken = true;
                }
            }
        }
        self.collect_outgoing().map(|_| ())
    }

    fn shard_of(&self, key: u64) -> usize {
        self.schedule.spec.shard_of(key).index()
    }

    fn work(&mut self, number: usize, counts: &mut CoverageCounts) -> Result<(), String> {
        let worker = &mut self.workers[number];
        match std::mem::replace(&mut worker.state, WorkerPhase::Done) {
            WorkerPhase::Waiting { keys, left, .. } => self.fetch(number, keys, left, counts)?,
            WorkerPhase::Working { left } if left > 0 => {
                worker.state = WorkerPhase::Working { left: left - 1 };
                if self.rng.percent(self.schedule.intends) {
                    self.intend(number)?;
                    return self.collect_outgoing().map(|_| ());
                }
                if self.rng.percent(self.schedule.reads) {
                    let mut keys: Vec<u64> =
                        (0..self.rng.between(1, 3)).map(|_| self.rng.pick(&self.schedule.keys)).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    self.fetch(number, keys, left - 1, counts)?;
                } else {
                    self.update(number)?;
                }
            }
            WorkerPhase::Working { .. } => {
                let ends = worker.clock >= worker.clocks;
                let (client, id) = (worker.client, worker.id);
                worker.read.clear();
                counts.kept_sums += self.clients[client].iter().filter(|machine| machine.leases() > 0).count() as u64;
                for machine in &mut self.clients[client] {
                    let ended = if ends { machine.finish(id) } else { machine.clock(id) };
                    ended.map_err(|error| error.to_string())?;
                }
                worker.state = WorkerPhase::Closing { ends };
                if !ends {
                    worker.clock += 1;
                }
            }
            WorkerPhase::Closing { ends } => {
                let client = worker.client;
                let mut more = false;
                for shard in 0..self.clients[client].len() {
                    more |= self.clients[client][shard].close_some();
                }
                self.workers[number].state = match (more, ends) {
                    (true, _) => WorkerPhase::Closing { ends },
                    (false, true) => WorkerPhase::Done,
                    (false, false) => WorkerPhase::Working { left: self.rng.below(5) },
                };
            }
            WorkerPhase::Done => {}
        }
        self.collect_outgoing().map(|_| ())
    }

    fn intend(&mut self, number: usize) -> Result<(), String> {
        let ModelWorker { client, id, clock, .. } = self.workers[number];
        let key = self.rng.pick(&self.schedule.keys);
        let from = clock + self.rng.below(4) as u64;
        let to = from + self.rng.below(4) as u64;
        let machine = &mut self.clients[client][self.schedule.spec.shard_of(key).index()];
        machine.intend(id, &[key], Clock::new(from), Clock::new(to)).map_err(|error| error.to_string())
    }

    fn update(&mut self, number: usize) -> Result<(), String> {
        let worker = &mut self.workers[number];
        // Updates of tables with versions are computed from rows that were read in this clock, or
        // from none.
        let (key, version) =
            if worker.read.is_empty() || (self.schedule.rule == ScheduleRule::Add && self.rng.percent(50)) {
                (self.rng.pick(&self.schedule.keys), 0)
            } else {
                self.rng.pick(&worker.read)
            };
        worker.updates += 1;
        let amount = worker.updates;
        let history = &mut self.truth.get_mut(&key).expect("keys are those of the schedule")[number];
        history.push((worker.clock, history.last().map_or(0, |(_, sum)| *sum) + amount));
        let mut dense = vec![0; self.schedule.workers.len()];
        dense[number] = amount;
        let (columns, values) = ([number as u32], [amount]);
        let cells = if self.schedule.spec.sparse || self.rng.percent(30) {
            RowCells::Sparse { columns: &columns, values: &values }
        } else {
            RowCells::Dense(&dense[..])
        };
        let shard = self.schedule.spec.shard_of(key).index();
        self.clients[worker.client][shard].update(worker.id, key, &cells, version).map_err(|error| error.to_string())
    }

    fn fetch(&mut self, number: usize, keys: Vec<u64>, left: usize, counts: &mut CoverageCounts) -> Result<(), String> {
        let ModelWorker { client, id, .. } = self.workers[number];
        let mut ready = true;
        for shard in 0..self.servers.len() {
            let own: Vec<u64> = keys.iter().copied().filter(|key| self.shard_of(*key) == shard).collect();
            ready &= self.clients[client][shard].fetch(id, &own).map_err(|error| error.to_string())?;
        }
        if !ready {
            counts.waits += 1;
            self.workers[number].state = WorkerPhase::Waiting { keys, left, woken: false };
            return Ok(());
        }
        counts.hits += 1;
        self.workers[number].state = WorkerPhase::Working { left };
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

    /// Checks that every worker's share of a row is a prefix of its updates within the bounds of
    /// the consistency model.
    fn check_read(&self, reader: usize, key: u64, values: &[i32], counts: &mut CoverageCounts) -> Result<(), String> {
        let clock = self.workers[reader].clock;
        let consistency = self.schedule.spec.consistency;
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
            let own = writer == reader && self.schedule.rule == ScheduleRule::Add;
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

    fn check_end(&mut self, counts: &mut CoverageCounts) -> Result<(), String> {
        for shard in 0..self.servers.len() {
            if self.servers[shard].min() != Clock::INFINITE {
                return Err(format!(
                    "shard {shard} has not heard that all have finished: {:?}",
                    self.servers[shard].clocks()
                ));
            }
            while self.saving[shard] == SnapshotPhase::Started {
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
            if let (Some(at), Some(saved)) = (self.schedule.snapshot, &self.snapshots[self.shard_of(*key)]) {
                let sum = |history: &History| {
                    history.iter().take_while(|(clock, _)| *clock < at).last().map_or(0, |(_, sum)| *sum)
                };
                let expected: Vec<i32> = histories.iter().map(sum).collect();
                let values = saved.get(key).cloned().unwrap_or_else(|| vec![0; width]);
                if values != expected {
                    return Err(format!("row {key} was saved as {values:?}, and at clock {at} it was {expected:?}"));
                }
            } else if self.saving[self.shard_of(*key)] == SnapshotPhase::Done {
                return Err("a snapshot was not taken".to_owned());
            }
        }
        let probe = self.probe.lock().unwrap();
        if let Some(problem) = probe.problems.first() {
            return Err(problem.clone());
        }
        if self.schedule.rule == ScheduleRule::TrackCopies && probe.kept() > 0 {
            return Err(format!("{} versions were never released", probe.kept()));
        }
        Ok(())
    }
}

/// Takes a random message, or copies it so that it arrives again.
fn draw<M: Clone>(
    queue: &mut MessageQueue<M>,
    rng: &mut TestRng,
    repeat: bool,
    counts: &mut CoverageCounts,
) -> Sequenced<M> {
    let at = rng.below(queue.len());
    counts.overtakings += u64::from(at > 0);
    if repeat { queue[at].clone() } else { queue.remove(at) }
}
