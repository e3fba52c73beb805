//! Workers that count, and what their reads may show.
//!
//! Every worker has a column of its own in every row and adds 1, 2, 3, ... to it, so what a read shows of a worker tells how many of its updates are in it. What a worker reads and adds in a clock follows
//! from seed, worker and clock alone, so that one can begin at a later clock as if it had done the earlier ones.

use crate::actors::tables::{Program, Rows, Work};
use crate::chance;
use crate::units::Span;
use hemiola_collective_proto::Random;
use hemiola_tables_proto::Consistency;
use std::sync::{Arc, Mutex};

/// By row and worker: the clock of each update, and the sum up to it.
pub(super) type Truth = Vec<Vec<Vec<(u64, i32)>>>;

/// What a row holds of each worker when all updates of clocks before `end` are in it.
pub(super) fn sums(histories: &[Vec<(u64, i32)>], end: u64) -> Vec<i32> {
    let sum = |history: &Vec<(u64, i32)>| {
        history.iter().take_while(|(clock, _)| *clock < end).last().map_or(0, |(_, sum)| *sum)
    };
    histories.iter().map(sum).collect()
}

/// What all workers have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    pub(super) seed: u64,
    /// Of all peers.
    pub(super) workers: usize,
    pub(super) rows: u64,
    /// Of each worker; if they are uneven, some have fewer.
    pub(super) clocks: u64,
    pub(super) uneven: bool,
    pub(super) consistency: Consistency,
    pub(super) intents: bool,
}

/// What a worker does in a clock.
struct Plan {
    reads: Vec<u64>,
    writes: Vec<u64>,
    span: Span,
    intends: Vec<(u64, u64, u64)>,
}

impl Counting {
    pub(super) fn clocks_of(&self, worker: usize) -> u64 {
        if self.uneven { self.clocks * (1 + worker as u64 % 3) / 3 } else { self.clocks }
    }

    fn plan(&self, worker: usize, clock: u64) -> Plan {
        let random = &mut chance::generator(self.seed, ((100 + worker as u64) << 24) + clock);
        let row = |random: &mut Random| random.below(self.rows as usize) as u64;
        let mut reads: Vec<u64> = (0..=random.below(3)).map(|_| row(random)).collect();
        reads.sort_unstable();
        reads.dedup();
        let writes = (0..random.below(3)).map(|_| row(random)).collect();
        let span = Span::from_micros(20 + random.below(200) as u64);
        let mut intends = Vec::new();
        if self.intents && random.below(3) == 0 {
            let from = clock + random.below(3) as u64;
            intends.push((row(random), from, from + random.below(3) as u64));
        }
        Plan { reads, writes, span, intends }
    }

    /// What has been added when all workers begin at a clock.
    pub(super) fn truth(&self, clock: u64) -> Arc<Mutex<Truth>> {
        let mut truth = vec![vec![Vec::new(); self.workers]; self.rows as usize];
        for worker in 0..self.workers {
            let mut updates = 0;
            for clock in 0..clock.min(self.clocks_of(worker)) {
                self.plan(worker, clock)
                    .writes
                    .iter()
                    .for_each(|key| add(&mut truth, *key, worker, clock, &mut updates));
            }
        }
        Arc::new(Mutex::new(truth))
    }

    /// A worker that begins at a clock.
    pub(super) fn worker(&self, number: usize, start: u64, truth: &Arc<Mutex<Truth>>) -> Counter {
        let clocks = self.clocks_of(number);
        let mut updates = 0;
        (0..start.min(clocks)).for_each(|clock| self.plan(number, clock).writes.iter().for_each(|_| updates += 1));
        Counter { counting: *self, number, clocks, updates, truth: truth.clone() }
    }
}

/// Writes an update down; what it adds.
fn add(truth: &mut Truth, key: u64, worker: usize, clock: u64, updates: &mut i32) {
    *updates += 1;
    let history = &mut truth[key as usize][worker];
    history.push((clock, history.last().map_or(0, |(_, sum)| *sum) + *updates));
}

/// A worker that counts.
pub(super) struct Counter {
    counting: Counting,
    number: usize,
    clocks: u64,
    updates: i32,
    truth: Arc<Mutex<Truth>>,
}

impl Program<i32> for Counter {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        (clock < self.clocks).then(|| self.counting.plan(self.number, clock).reads)
    }

    fn work(&mut self, clock: u64, rows: &mut Rows<'_, i32>) -> Result<Work<i32>, String> {
        let mut truth = self.truth.lock().map_err(|_| "another run has panicked")?;
        let plan = self.counting.plan(self.number, clock);
        for key in &plan.reads {
            let mut values = vec![0; self.counting.workers];
            rows.read(*key, |cells, _| cells.add_to(&mut values, None))?;
            self.judge(clock, *key, &values, &truth[*key as usize])?;
        }
        let mut updates = Vec::new();
        for key in plan.writes {
            add(&mut truth, key, self.number, clock, &mut self.updates);
            let mut cells = vec![0; self.counting.workers];
            cells[self.number] = self.updates;
            updates.push((key, cells, 0));
        }
        Ok(Work { span: plan.span, updates })
    }

    fn intends(&mut self, clock: u64) -> Vec<(u64, u64, u64)> {
        self.counting.plan(self.number, clock).intends
    }
}

impl Counter {
    /// Every worker's share of a row is a prefix of its updates, as long as the bound asks for and no longer than it may be.
    fn judge(&self, clock: u64, key: u64, values: &[i32], histories: &[Vec<(u64, i32)>]) -> Result<(), String> {
        let consistency = self.counting.consistency;
        for (writer, history) in histories.iter().enumerate() {
            let found = if values[writer] == 0 {
                Ok(0)
            } else {
                history.binary_search_by_key(&values[writer], |(_, sum)| *sum).map(|place| place + 1)
            };
            let Ok(prefix) = found else {
                return Err(format!(
                    "worker {} at clock {clock} read {} in row {key}, which is no sum of worker {writer}'s {history:?}",
                    self.number, values[writer]
                ));
            };
            let before = |end: u64| history.iter().take_while(|(at, _)| *at < end).count();
            let own = writer == self.number;
            let least = if own { history.len() } else { before(clock.saturating_sub(consistency.staleness())) };
            let most = if consistency == Consistency::Bsp && !own { before(clock) } else { history.len() };
            if !(least..=most).contains(&prefix) {
                return Err(format!(
                    "worker {} at clock {clock} saw {prefix} of worker {writer}'s updates {history:?} to row {key}; {least} to {most} were due",
                    self.number
                ));
            }
        }
        Ok(())
    }
}
