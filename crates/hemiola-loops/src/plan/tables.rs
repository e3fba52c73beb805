//! Plans of tables: announcements, clocks, and how many updates of other workers a read may miss.

use super::{LoopPlan, steps};
use hemiola_tables_proto::{ClockInterval, Consistency};
use serde::{Deserialize, Serialize};

/// Plan of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePlan {
    /// Name of the table in the body.
    pub name: String,
    /// The rows of a worker's next block are announced while it runs one.
    pub announced: bool,
    /// The rows of a worker's first block in the next pass are announced, too.
    pub next_pass: bool,
    /// Moment at which the clock advances.
    pub clocks: ClockInterval,
    /// Consistency model of the table.
    pub consistency: Consistency,
    /// The body reads rows and adds to rows.
    pub read_and_added: bool,
}

/// Effective staleness of a table in a loop: iterations of other workers whose updates a read may
/// miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDelay {
    /// Clocks whose updates may be missing: the staleness, and the clock that runs.
    pub clocks: u64,
    /// Iterations of a worker in a clock.
    pub iterations: u64,
    /// Other workers, on all peers.
    pub workers: u64,
}

impl ReadDelay {
    /// Iterations of other workers whose updates may be missing.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.clocks.saturating_mul(self.iterations).saturating_mul(self.workers)
    }
}

impl LoopPlan {
    /// Effective staleness of a table. `None` if it has no bound, or if a single peer runs the loop.
    #[must_use]
    pub fn read_delay(&self, table: &TablePlan) -> Option<ReadDelay> {
        let clocks = match table.consistency {
            Consistency::Bsp => 1,
            Consistency::Ssp(staleness) => staleness + 1,
            Consistency::Async => return None,
        };
        let workers = (self.cuts.peers_used * self.workers) as u64 - 1;
        (self.cuts.peers_used > 1).then(|| ReadDelay { clocks, iterations: self.iterations_per_clock(table), workers })
    }

    /// True if the body reads what it adds, and other peers see the additions of a pass at its end
    /// only.
    #[must_use]
    pub fn hides_updates(&self, table: &TablePlan) -> bool {
        table.read_and_added && self.cuts.peers_used > 1 && self.clocks_per_pass(table) <= 1
    }

    /// Iterations of the busiest worker in a pass, by the planner's model.
    fn busiest_worker(&self) -> u64 {
        let workers = (self.cuts.peers_used * self.workers).max(1) as f64;
        (self.entries as f64 * self.cost.imbalance / workers).ceil() as u64
    }

    /// Iterations of a worker in a clock: those of the busiest one.
    fn iterations_per_clock(&self, table: &TablePlan) -> u64 {
        self.busiest_worker().div_ceil(self.clocks_per_pass(table).max(1))
    }

    /// Clocks of a worker in a pass.
    fn clocks_per_pass(&self, table: &TablePlan) -> u64 {
        match table.clocks {
            ClockInterval::Run => 1,
            ClockInterval::Step => steps(&self.cuts) as u64,
            ClockInterval::Iterations(count) => self.busiest_worker().div_ceil(count.get()),
        }
    }
}

/// Advice for a table whose updates other peers see at the end of a pass only.
pub(crate) fn hidden_updates_advice(name: &str) -> String {
    format!(
        "all updates of a pass to the table `{name}` are invisible to other peers until its end: \
         add `.every(n)` after `in_loop()`, so that clocks end after every n iterations"
    )
}
