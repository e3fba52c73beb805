//! Runs one schedule and compares the reads with the updates.

use super::host::{ModelHost, ModelNetwork};
use super::probe::{ProbeLog, ProbeRule};
use super::schedule::{ModelSchedule, ScheduleRule, TestRng};
use hemiola_core::{Bandwidth, Moment, Rank, WorkerId};
use hemiola_tables_proto::update_rule::{Addition, UpdateRule};
use hemiola_tables_proto::{
    Clock, Consistency, NodeLimiters, RateLimiter, RowCells, SelectionRng, ShardClient, ShardId, ShardServer,
    TableMessage, TableNode, TablePlacement,
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
        /// Number of shards whose rows have not arrived.
        missing: usize,
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

pub(crate) struct TableSimulation {
    schedule: ModelSchedule,
    rng: TestRng,
    workers: Vec<ModelWorker>,
    /// Clients by id, then by shard.
    clients: Vec<Vec<ShardClient<i32>>>,
    servers: Vec<ShardServer<i32>>,
    nodes: Vec<TableNode>,
    /// Rate limiters by peer.
    limiters: Vec<NodeLimiters>,
    network: ModelNetwork,
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
        let placement = TablePlacement::on_all(schedule.clients);
        let node = |peer| TableNode::new(spec.clone(), peer, placement.clone(), true);
        let nodes: Vec<TableNode> = Rank::all(schedule.clients).map(node).collect();
        let client = |node: &TableNode, shard| {
            let workers = locals[node.rank().index()];
            ShardClient::new(spec.clone(), node.client_id(), shard, &*rule(), workers, Clock::ZERO)
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
        let limiters = || NodeLimiters::with_limiters(limiter(), limiter(), SelectionRng::new(1), Moment::ZERO);
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
        Self {
            workers: workers.collect(),
            clients: nodes.iter().map(|node| node.shards().map(|shard| client(node, shard)).collect()).collect(),
            servers: (0..shards).map(server).collect(),
            limiters: nodes.iter().map(|_| limiters()).collect(),
            network: ModelNetwork::new(&spec, schedule.bytes, schedule.fault),
            nodes,
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
            (0..self.servers.len()).try_for_each(|shard| self.begin_snapshot(shard, counts))?;
        }
        for _ in 0..200_000 {
            self.now += 1;
            let can_work: Vec<usize> = (0..self.workers.len()).filter(|worker| self.can_work(*worker)).collect();
            let under_way = !self.network.is_empty();
            if can_work.is_empty() && !under_way {
                if self.workers.iter().all(|worker| matches!(worker.state, WorkerPhase::Done))
                    && !self.idle(counts, 100)?
                {
                    return Ok(());
                }
                if !self.idle(counts, 100)?
                    && !self.workers.iter().all(|worker| matches!(worker.state, WorkerPhase::Done))
                {
                    return Err(self.deadlock());
                }
                continue;
            }
            if self.rng.percent(10) {
                self.idle(counts, 50)?;
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
            WorkerPhase::Working { .. } | WorkerPhase::Closing { .. } | WorkerPhase::Waiting { missing: 0, .. }
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

    /// Calls the node of a peer, and resumes the workers that it wakes.
    fn call<T>(
        &mut self,
        peer: usize,
        call: impl FnOnce(&TableNode, &mut ModelHost<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut host = ModelHost {
            rank: self.nodes[peer].rank(),
            now: Moment::from_nanos(self.now),
            clients: &mut self.clients[peer],
            servers: &mut self.servers,
            limiters: &mut self.limiters[peer],
            network: &mut self.network,
            rng: &mut self.rng,
            woken: Vec::new(),
        };
        let result = call(&self.nodes[peer], &mut host)?;
        let woken = host.woken;
        self.network.check()?;
        for id in woken {
            let worker = self.workers.iter_mut().find(|worker| worker.client == peer && worker.id == id);
            let state = worker.map(|worker| &mut worker.state);
            match state {
                Some(WorkerPhase::Waiting { missing, .. }) if *missing > 0 => *missing -= 1,
                _ => return Err(format!("worker {id} of peer {peer} was woken and does not wait")),
            }
        }
        Ok(result)
    }

    /// Ticks of all nodes, each with this probability. Returns true if a message was sent.
    fn idle(&mut self, counts: &mut CoverageCounts, percent: usize) -> Result<bool, String> {
        let sent = self.network.sent;
        for peer in 0..self.nodes.len() {
            let eager = |limiters: &NodeLimiters| (limiters.up.bytes().0, limiters.down.bytes().0);
            let before = eager(&self.limiters[peer]);
            for shard in 0..self.servers.len() {
                if self.rng.percent(percent) {
                    self.call(peer, |node, host| node.on_tick(host, ShardId::new(shard as u32)))?;
                }
            }
            let after = eager(&self.limiters[peer]);
            counts.eager_from_clients += u64::from(after.0 > before.0);
            counts.eager_from_shards += u64::from(after.1 > before.1);
            counts.stalls += self.limiters[peer].up.stalls();
        }
        for shard in 0..self.servers.len() {
            self.begin_snapshot(shard, counts)?;
            self.save(shard, counts);
        }
        Ok(self.network.sent > sent)
    }

    /// Begins the snapshot of a shard, unless it is too late.
    fn begin_snapshot(&mut self, shard: usize, counts: &mut CoverageCounts) -> Result<(), String> {
        let Some(at) = self.schedule.snapshot else { return Ok(()) };
        if self.saving[shard] == SnapshotPhase::NotStarted && self.rng.percent(self.schedule.notice) {
            let (owner, id) = (shard % self.nodes.len(), ShardId::new(shard as u32));
            let begun = self
                .call(owner, |node, host| node.with_server(host, id, |server| server.begin_snapshot(Clock::new(at))))?;
            self.saving[shard] = if begun.is_ok() { SnapshotPhase::Started } else { SnapshotPhase::Rejected };
            counts.rejected += u64::from(begun.is_err());
        }
        Ok(())
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

    /// Delivers a random message in flight.
    fn deliver(&mut self, counts: &mut CoverageCounts) -> Result<(), String> {
        let start = self.rng.below(self.network.queues());
        let queue = self.network.first_queue(start).expect("a message is in flight");
        let repeat = self.rng.percent(self.schedule.repeats);
        counts.repeats += u64::from(repeat);
        let message = draw(self.network.queue(queue), &mut self.rng, repeat, counts);
        let peer = self.network.receiver(queue);
        let copies = |clients: &[ShardClient<i32>]| clients.iter().map(ShardClient::copies).sum::<usize>();
        let before = copies(&self.clients[peer]);
        self.call(peer, |node, host| node.on_message(host, message))?;
        counts.evictions += u64::from(copies(&self.clients[peer]) < before);
        counts.leases += self.clients[peer].iter().map(ShardClient::leases).sum::<usize>() as u64;
        Ok(())
    }

    fn shard_of(&self, key: u64) -> usize {
        self.schedule.spec.shard_of(key).index()
    }

    fn work(&mut self, number: usize, counts: &mut CoverageCounts) -> Result<(), String> {
        let worker = &mut self.workers[number];
        match std::mem::replace(&mut worker.state, WorkerPhase::Done) {
            WorkerPhase::Waiting { keys, left, .. } => self.read(number, keys, left, counts)?,
            WorkerPhase::Working { left } if left > 0 => {
                worker.state = WorkerPhase::Working { left: left - 1 };
                if self.rng.percent(self.schedule.intends) {
                    return self.intend(number);
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
                worker.state = WorkerPhase::Closing { ends };
                if !ends {
                    worker.clock += 1;
                }
                self.call(client, |node, host| {
                    node.shards().try_for_each(|shard| accepted(node.end_clock(host, shard, id, ends)))
                })?;
            }
            WorkerPhase::Closing { ends } => {
                let client = worker.client;
                let more = self.call(client, |node, host| {
                    node.shards().try_fold(false, |more, shard| Ok(node.close_clock(host, shard)? || more))
                })?;
                self.workers[number].state = match (more, ends) {
                    (true, _) => WorkerPhase::Closing { ends },
                    (false, true) => WorkerPhase::Done,
                    (false, false) => WorkerPhase::Working { left: self.rng.below(5) },
                };
            }
            WorkerPhase::Done => {}
        }
        Ok(())
    }

    fn intend(&mut self, number: usize) -> Result<(), String> {
        let ModelWorker { client, id, clock, .. } = self.workers[number];
        let key = self.rng.pick(&self.schedule.keys);
        let from = clock + self.rng.below(4) as u64;
        let to = from + self.rng.below(4) as u64;
        let shard = self.schedule.spec.shard_of(key);
        self.call(client, |node, host| {
            accepted(
                node.with_client(host, shard, |client| client.intend(id, &[key], Clock::new(from), Clock::new(to))),
            )
        })
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
        let mut of_shard: Vec<Vec<u64>> = vec![Vec::new(); self.servers.len()];
        for key in &keys {
            of_shard[self.shard_of(*key)].push(*key);
        }
        let awaited =
            self.call(client, |node, host| accepted(node.fetch(host, id, |shard| &of_shard[shard.index()])))?;
        if awaited.count > 0 {
            counts.waits += 1;
            self.workers[number].state = WorkerPhase::Waiting { keys, left, missing: awaited.count };
            return Ok(());
        }
        self.read(number, keys, left, counts)
    }

    /// Reads rows that have all arrived.
    fn read(&mut self, number: usize, keys: Vec<u64>, left: usize, counts: &mut CoverageCounts) -> Result<(), String> {
        let ModelWorker { client, id, .. } = self.workers[number];
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

/// Result of a call of a client, with its error as text.
fn accepted<T>(result: Result<hemiola_tables_proto::Result<T>, String>) -> Result<T, String> {
    result?.map_err(|error| error.to_string())
}

/// Takes a random message, or copies it so that it arrives again.
fn draw(
    queue: &mut Vec<TableMessage<i32>>,
    rng: &mut TestRng,
    repeat: bool,
    counts: &mut CoverageCounts,
) -> TableMessage<i32> {
    let at = rng.below(queue.len());
    counts.overtakings += u64::from(at > 0);
    if repeat { queue[at].clone() } else { queue.remove(at) }
}
