//! Workers that count, and the values that their reads may show.
//!
//! Every worker has its own column in every row, to which it adds 1, 2, 3, … A value thus shows how
//! many updates of a worker a read contains. Reads and updates of a clock depend only on seed,
//! worker and clock, so a worker can start at a later clock as if it had done the earlier ones.

use crate::actors::tables::{TableProgram, TableRows, TableWork};
use crate::sampling;
use crate::units::SimDuration;
use hemiola_core::rng::SplitMix64;
use hemiola_tables_proto::Consistency;
use std::sync::{Arc, Mutex};

/// Clock and running sum of each update, by row and worker.
pub(super) type UpdateHistory = Vec<Vec<Vec<(u64, i32)>>>;

/// Returns the sums of each worker after all updates of clocks before `end`.
pub(super) fn sums(histories: &[Vec<(u64, i32)>], end: u64) -> Vec<i32> {
    let sum = |history: &Vec<(u64, i32)>| {
        history.iter().take_while(|(clock, _)| *clock < end).last().map_or(0, |(_, sum)| *sum)
    };
    histories.iter().map(sum).collect()
}

/// Parameters of all workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountingWorkload {
    pub(super) seed: u64,
    /// Number of workers of all peers.
    pub(super) workers: usize,
    pub(super) rows: u64,
    /// Number of clocks of a worker; with `uneven`, some have fewer.
    pub(super) clocks: u64,
    pub(super) uneven: bool,
    pub(super) consistency: Consistency,
    pub(super) intents: bool,
}

/// Reads, writes and duration of one clock.
struct ClockPlan {
    reads: Vec<u64>,
    writes: Vec<u64>,
    span: SimDuration,
    intends: Vec<(u64, u64, u64)>,
}

impl CountingWorkload {
    pub(super) fn clocks_of(&self, worker: usize) -> u64 {
        if self.uneven { self.clocks * (1 + worker as u64 % 3) / 3 } else { self.clocks }
    }

    fn plan(&self, worker: usize, clock: u64) -> ClockPlan {
        let random = &mut sampling::generator(self.seed, ((100 + worker as u64) << 24) + clock);
        let row = |random: &mut SplitMix64| random.below(self.rows as usize) as u64;
        let mut reads: Vec<u64> = (0..=random.below(3)).map(|_| row(random)).collect();
        reads.sort_unstable();
        reads.dedup();
        let writes = (0..random.below(3)).map(|_| row(random)).collect();
        let span = SimDuration::from_micros(20 + random.below(200) as u64);
        let mut intends = Vec::new();
        if self.intents && random.below(3) == 0 {
            let from = clock + random.below(3) as u64;
            intends.push((row(random), from, from + random.below(3) as u64));
        }
        ClockPlan { reads, writes, span, intends }
    }

    /// Returns the update history at the start of a clock.
    pub(super) fn history_at(&self, clock: u64) -> Arc<Mutex<UpdateHistory>> {
        let mut history = vec![vec![Vec::new(); self.workers]; self.rows as usize];
        for worker in 0..self.workers {
            let mut updates = 0;
            for clock in 0..clock.min(self.clocks_of(worker)) {
                self.plan(worker, clock)
                    .writes
                    .iter()
                    .for_each(|key| add(&mut history, *key, worker, clock, &mut updates));
            }
        }
        Arc::new(Mutex::new(history))
    }

    /// Creates a worker that starts at a clock.
    pub(super) fn worker(&self, number: usize, start: u64, history: &Arc<Mutex<UpdateHistory>>) -> CountingWorker {
        let clocks = self.clocks_of(number);
        let mut updates = 0;
        (0..start.min(clocks)).for_each(|clock| self.plan(number, clock).writes.iter().for_each(|_| updates += 1));
        CountingWorker { counting: *self, number, clocks, updates, history: history.clone() }
    }
}

/// Records an update in the history.
fn add(history: &mut UpdateHistory, key: u64, worker: usize, clock: u64, updates: &mut i32) {
    *updates += 1;
    let history = &mut history[key as usize][worker];
    history.push((clock, history.last().map_or(0, |(_, sum)| *sum) + *updates));
}

/// A worker that counts and checks its reads.
pub(super) struct CountingWorker {
    counting: CountingWorkload,
    number: usize,
    clocks: u64,
    updates: i32,
    history: Arc<Mutex<UpdateHistory>>,
}

impl TableProgram<i32> for CountingWorker {
    fn reads(&mut self, clock: u64) -> Option<Vec<u64>> {
        (clock < self.clocks).then(|| self.counting.plan(self.number, clock).reads)
    }

    fn work(&mut self, clock: u64, rows: &mut TableRows<'_, i32>) -> Result<TableWork<i32>, String> {
        let mut history = self.history.lock().map_err(|_| "another run panicked")?;
        let plan = self.counting.plan(self.number, clock);
        for key in &plan.reads {
            let mut values = vec![0; self.counting.workers];
            rows.read(*key, |cells, _| cells.add_to(&mut values, None))?;
            self.check_read(clock, *key, &values, &history[*key as usize])?;
        }
        let mut updates = Vec::new();
        for key in plan.writes {
            add(&mut history, key, self.number, clock, &mut self.updates);
            let mut cells = vec![0; self.counting.workers];
            cells[self.number] = self.updates;
            updates.push((key, cells, 0));
        }
        Ok(TableWork { span: plan.span, updates })
    }

    fn intents(&mut self, clock: u64) -> Vec<(u64, u64, u64)> {
        self.counting.plan(self.number, clock).intends
    }
}

impl CountingWorker {
    /// Checks that a row contains a prefix of every worker's updates, within the limits of the
    /// staleness bound.
    fn check_read(&self, clock: u64, key: u64, values: &[i32], histories: &[Vec<(u64, i32)>]) -> Result<(), String> {
        let consistency = self.counting.consistency;
        for (writer, history) in histories.iter().enumerate() {
            let found = if values[writer] == 0 {
                Ok(0)
            } else {
                history.binary_search_by_key(&values[writer], |(_, sum)| *sum).map(|index| index + 1)
            };
            let Ok(prefix) = found else {
                return Err(format!(
                    "worker {} at clock {clock} read {} in row {key}, which is not a sum of worker {writer}'s {history:?}",
                    self.number, values[writer]
                ));
            };
            let before = |end: u64| history.iter().take_while(|(at, _)| *at < end).count();
            let own = writer == self.number;
            let least = if own { history.len() } else { before(clock.saturating_sub(consistency.staleness())) };
            let most = if consistency == Consistency::Bsp && !own { before(clock) } else { history.len() };
            if !(least..=most).contains(&prefix) {
                return Err(format!(
                    "worker {} at clock {clock} saw {prefix} of worker {writer}'s updates {history:?} to row {key}; expected {least} to {most}",
                    self.number
                ));
            }
        }
        Ok(())
    }
}
