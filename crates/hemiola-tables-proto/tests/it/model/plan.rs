//! What a schedule is made of, from its seed.

use super::plants::Plant;
use hemiola_tables_proto::{Choice, Consistency, Delivery, Ids, Managed, Priority, Spec};

/// Random choices from a seed: fast, and good enough for choosing.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1));
        dice.bits();
        dice
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (((self.bits() >> 32) * bound as u64) >> 32) as usize
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

/// Which procedure a table has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    Add,
    /// A read-only cache; clients carry something back.
    Carry,
    /// A read-only cache; the shard keeps versions until they are released.
    Keep,
}

/// One worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) client: usize,
    /// Its number on its client.
    pub(crate) local: usize,
    /// How many clocks it works.
    pub(crate) clocks: u64,
    /// How often it is chosen, compared with others.
    pub(crate) pace: usize,
}

/// One schedule.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) rule: Rule,
    pub(crate) workers: Vec<WorkerPlan>,
    pub(crate) clients: usize,
    pub(crate) keys: Vec<u64>,
    /// Percent of deliveries that leave the message there to come again.
    pub(crate) repeats: usize,
    /// Percent of a worker's steps that read.
    pub(crate) reads: usize,
    /// Percent of a worker's steps that say what it is going to use.
    pub(crate) intends: usize,
    /// How likely messages go before workers.
    pub(crate) network: usize,
    /// Bytes per step of virtual time, and the burst.
    pub(crate) bandwidth: u64,
    pub(crate) burst: usize,
    /// Whether messages go through their bytes.
    pub(crate) bytes: bool,
    /// At which clock a snapshot is taken.
    pub(crate) snapshot: Option<u64>,
    /// Percent of idle moments at which a shard is told so that has not been told; 100 is before everything.
    pub(crate) notice: usize,
    /// A fault to be found.
    pub(crate) plant: Option<Plant>,
}

impl Plan {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let count = dice.between(2, 6);
        let clients = dice.between(1, count);
        let rule = dice.pick(&[Rule::Add, Rule::Add, Rule::Carry, Rule::Keep]);
        let clocks = dice.between(1, 5) as u64;
        let uneven = dice.percent(30);
        let mut locals = vec![0; clients];
        let workers = (0..count)
            .map(|worker| {
                // Every client has a worker.
                let client = if worker < clients { worker } else { dice.below(clients) };
                locals[client] += 1;
                let clocks = if uneven { dice.below(clocks as usize + 1) as u64 } else { clocks };
                let pace = if dice.percent(20) { 1 } else { 10 };
                WorkerPlan { client, local: locals[client] - 1, clocks, pace }
            })
            .collect();
        let rows = dice.between(1, 8) as u64;
        let growing = dice.percent(50);
        let stride = if growing { 0x1_0000_0001 } else { 1 };
        let consistency = dice.pick(&[
            Consistency::Bsp,
            Consistency::Ssp(0),
            Consistency::Ssp(1),
            Consistency::Ssp(3),
            Consistency::Async,
        ]);
        let priority = dice.pick(&[
            Priority::RoundRobin,
            Priority::Random,
            Priority::AbsoluteMagnitude,
            Priority::RelativeMagnitude,
        ]);
        let managed = Managed { priority, choice: dice.pick(&[Choice::Sampled(5), Choice::Exact]) };
        let spec = Spec {
            sparse: rule == Rule::Add && dice.percent(25),
            consistency,
            delivery: dice.pick(&[Delivery::Push, Delivery::Push, Delivery::Pull]),
            shards: dice.between(1, 4),
            clients,
            cache_rows: dice.pick(&[1, 2, 3, usize::MAX, usize::MAX]),
            // As little as one row.
            message_bytes: dice.pick(&[1, 60, 1 << 20]),
            managed: dice.percent(60).then_some(managed),
            ..Spec::new("model", if growing { Ids::Growing } else { Ids::Fixed(rows) }, count)
        };
        Self {
            spec,
            rule,
            workers,
            clients,
            keys: (0..rows).map(|row| row * stride).collect(),
            repeats: dice.pick(&[0, 10, 40]),
            reads: dice.pick(&[30, 50, 80]),
            intends: dice.pick(&[0, 0, 10, 30]),
            network: dice.pick(&[20, 50, 80]),
            bandwidth: dice.pick(&[0, 20, 200, 5000]),
            burst: dice.pick(&[0, 200, 2000]),
            bytes: dice.percent(5),
            snapshot: dice.percent(40).then(|| dice.below(clocks as usize + 2) as u64),
            notice: dice.pick(&[100, 30, 5]),
            plant: None,
        }
    }
}
