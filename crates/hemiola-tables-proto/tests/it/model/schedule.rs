//! Random schedule of the model check.

use super::faults::InjectedFault;
use hemiola_core::rng::{GOLDEN_GAMMA, SplitMix64};
use hemiola_tables_proto::{CommPolicy, Consistency, KeySpace, PriorityPolicy, RowDelivery, RowSelection, TableSpec};

/// Random generator of the tests (`SplitMix64`).
#[derive(Clone, Debug)]
pub(crate) struct TestRng(SplitMix64);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Self(SplitMix64::new(seed.wrapping_mul(GOLDEN_GAMMA).wrapping_add(0x1234_5678_9abc_def1)));
        rng.next_word();
        rng
    }

    pub(crate) fn next_word(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (((self.next_word() >> 32) * bound as u64) >> 32) as usize
    }

    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Update rule of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScheduleRule {
    Add,
    /// Read-only cache; copies have attachments.
    Attach,
    /// Read-only cache; the shard keeps versions until they are released.
    TrackCopies,
}

/// Settings of one worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSchedule {
    pub(crate) client: usize,
    /// Index of the worker on its client.
    pub(crate) local: usize,
    /// Number of clocks that it works.
    pub(crate) clocks: u64,
    /// Weight with which it is chosen.
    pub(crate) pace: usize,
}

/// Settings of one schedule.
#[derive(Clone, Debug)]
pub(crate) struct ModelSchedule {
    pub(crate) spec: TableSpec,
    pub(crate) rule: ScheduleRule,
    pub(crate) workers: Vec<WorkerSchedule>,
    pub(crate) clients: usize,
    pub(crate) keys: Vec<u64>,
    /// Percentage of deliveries that repeat the message later.
    pub(crate) repeats: usize,
    /// Percentage of a worker's steps that read.
    pub(crate) reads: usize,
    /// Percentage of a worker's steps that signal an intent.
    pub(crate) intends: usize,
    /// Percentage of steps that deliver a message before a worker runs.
    pub(crate) network: usize,
    /// Bytes per step of virtual time, and the burst.
    pub(crate) bandwidth: u64,
    pub(crate) burst: usize,
    /// Messages are encoded and decoded.
    pub(crate) bytes: bool,
    /// Clock of the snapshot.
    pub(crate) snapshot: Option<u64>,
    /// Percentage of idle steps at which a shard begins the snapshot; 100 begins it before
    /// everything else.
    pub(crate) notice: usize,
    /// Fault to be detected.
    pub(crate) fault: Option<InjectedFault>,
}

impl ModelSchedule {
    pub(crate) fn new(rng: &mut TestRng) -> Self {
        let count = rng.between(2, 6);
        let clients = rng.between(1, count);
        let rule = rng.pick(&[ScheduleRule::Add, ScheduleRule::Add, ScheduleRule::Attach, ScheduleRule::TrackCopies]);
        let clocks = rng.between(1, 5) as u64;
        let uneven = rng.percent(30);
        let mut locals = vec![0; clients];
        let workers = (0..count)
            .map(|worker| {
                // Every client has a worker.
                let client = if worker < clients { worker } else { rng.below(clients) };
                locals[client] += 1;
                let clocks = if uneven { rng.below(clocks as usize + 1) as u64 } else { clocks };
                let pace = if rng.percent(20) { 1 } else { 10 };
                WorkerSchedule { client, local: locals[client] - 1, clocks, pace }
            })
            .collect();
        let rows = rng.between(1, 8) as u64;
        let growing = rng.percent(50);
        let stride = if growing { 0x1_0000_0001 } else { 1 };
        let consistency = rng.pick(&[
            Consistency::Bsp,
            Consistency::Ssp(0),
            Consistency::Ssp(1),
            Consistency::Ssp(3),
            Consistency::Async,
        ]);
        let priority = rng.pick(&[
            PriorityPolicy::RoundRobin,
            PriorityPolicy::Random,
            PriorityPolicy::AbsoluteMagnitude,
            PriorityPolicy::RelativeMagnitude,
        ]);
        let comm_policy =
            CommPolicy { priority, selection: rng.pick(&[RowSelection::Sampled(5), RowSelection::Exact]) };
        let spec = TableSpec {
            sparse: rule == ScheduleRule::Add && rng.percent(25),
            consistency,
            delivery: rng.pick(&[RowDelivery::Push, RowDelivery::Push, RowDelivery::Pull]),
            shards: rng.between(1, 4),
            clients,
            cache_rows: rng.pick(&[1, 2, 3, usize::MAX, usize::MAX]),
            // Down to a single row per message.
            message_bytes: rng.pick(&[1, 60, 1 << 20]),
            // Down to one message of one row.
            window_bytes: rng.pick(&[1, 300, 4 << 20, 4 << 20]),
            comm_policy: rng.percent(60).then_some(comm_policy),
            ..TableSpec::new("model", if growing { KeySpace::Growing } else { KeySpace::Fixed(rows) }, count)
        };
        Self {
            spec,
            rule,
            workers,
            clients,
            keys: (0..rows).map(|row| row * stride).collect(),
            repeats: rng.pick(&[0, 10, 40]),
            reads: rng.pick(&[30, 50, 80]),
            intends: rng.pick(&[0, 0, 10, 30]),
            network: rng.pick(&[20, 50, 80]),
            bandwidth: rng.pick(&[0, 20, 200, 5000]),
            burst: rng.pick(&[0, 200, 2000]),
            bytes: rng.percent(5),
            snapshot: rng.percent(40).then(|| rng.below(clocks as usize + 2) as u64),
            notice: rng.pick(&[100, 30, 5]),
            fault: None,
        }
    }
}
