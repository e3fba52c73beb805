//! A snapshot of a table while workers continue; possibly a crash, which ends the job; and the job
//! again from the snapshot, with another number of shards.
//!
//! The expected snapshot follows from the programs of the workers, not from the run: every update
//! of clocks before its own, and none of later ones. If all shards were read, the workers resume at
//! its clock. Otherwise they start from the beginning, as after any job without a complete
//! checkpoint. At the end, every update of every clock is in the rows exactly once.

use super::counting_worker::{CountingWorkload, sums};
use super::tables::TableScenario;
use super::{Scenario, random_cluster, require_nonzero};
use crate::actors::snapshot::{SnapshotPlan, TableSnapshot};
use crate::actors::tables::TableActor;
use crate::cluster_spec::Fault;
use crate::sampling;
use crate::simulation::{RunSummary, SimError};
use crate::units::SimDuration;
use hemiola_tables_proto::Clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Injected fault, which the check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointFault {
    /// Rows are saved in their current state.
    LiveRows,
    /// Workers repeat the last clock before the snapshot.
    ClockTwice,
}

/// A snapshot, and a job that resumes from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointScenario {
    /// Table and cluster of the job.
    pub table: TableScenario,
    /// Clock of the snapshot.
    pub at: u64,
    /// Time at which shards are notified.
    pub begin: SimDuration,
    /// Bytes of a chunk.
    pub piece: usize,
    /// Crash that ends the job, if any.
    pub crash: Option<Fault>,
    /// Number of shards after the restart.
    pub shards_after: usize,
    /// Injected fault; `None` in regular runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<CheckpointFault>,
}

impl CheckpointScenario {
    /// Returns the scenario with an injected fault.
    #[must_use]
    pub fn with_fault(mut self, fault: CheckpointFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Returns the snapshot if all shards were read; checks that it equals the table at its clock.
    fn check_snapshot(
        &self,
        counting: &CountingWorkload,
        saved: Vec<TableSnapshot<i32>>,
        over: bool,
    ) -> Result<Option<TableSnapshot<i32>>, String> {
        let (mut all, mut refused) = (TableSnapshot { pieces: Vec::new(), summaries: BTreeMap::new(), refused: 0 }, 0);
        for one in saved {
            all.pieces.extend(one.pieces);
            all.summaries.extend(one.summaries);
            refused += one.refused;
        }
        let (read, shards) = (all.summaries.len(), self.table.shards);
        if over && read + refused != shards {
            return Err(format!("all workers have finished, and only {read} of {shards} shards were read"));
        }
        if read < shards {
            return Ok(None);
        }
        if let Some((shard, summary)) = all.summaries.iter().find(|(_, summary)| summary.at != Clock::new(self.at)) {
            return Err(format!("shard {shard} was saved at clock {}, not {}", summary.at, self.at));
        }
        let mut rows = vec![vec![0; counting.workers]; counting.rows as usize];
        for row in all.pieces.iter().flat_map(|piece| piece.batch.iter()) {
            row.cells.add_to(&mut rows[row.key as usize], None);
        }
        let history = counting.history_at(self.at);
        let history = history.lock().map_err(|_| "another run panicked")?;
        for (key, (row, histories)) in rows.iter().zip(history.iter()).enumerate() {
            let sums = sums(histories, self.at);
            if *row != sums {
                return Err(format!("the snapshot at clock {} has {row:?} in row {key}; expected {sums:?}", self.at));
            }
        }
        Ok(Some(all))
    }
}

impl Scenario for CheckpointScenario {
    fn from_seed(seed: u64) -> Self {
        let table = TableScenario::from_seed(seed);
        let random = &mut sampling::generator(seed, 7);
        let (peers, clocks) = (table.cluster.peers, table.clocks);
        let mut crashing = table.cluster.clone();
        random_cluster::add_crash(&mut crashing, random);
        Self {
            at: random.below(clocks as usize + 1) as u64,
            begin: SimDuration::from_micros(if random.below(3) == 0 { random.below(1500) as u64 } else { 0 }),
            piece: [1, 64, 4096][random.below(3)],
            crash: crashing.faults.pop().filter(|_| peers > 1 && random.below(2) == 0),
            shards_after: 1 + random.below(4),
            table,
            fault: None,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        self.table.require_sizes()?;
        require_nonzero(&[("shards_after", self.shards_after), ("piece", self.piece)])?;
        let live = self.fault == Some(CheckpointFault::LiveRows);
        let save = SnapshotPlan { at: Clock::new(self.at), begin: self.begin, piece: self.piece, live };
        let counting = self.table.counting();
        let mut cluster = self.table.cluster.clone();
        cluster.faults.extend(self.crash.clone());
        let mut simulation = self
            .table
            .counters(&cluster, &counting.history_at(0), 0)?
            .with_actors(|_, actor| actor.with_snapshot(save));
        let ended = simulation.run();
        let saved = simulation.actors().iter().filter_map(TableActor::snapshot).cloned().collect();
        let ended = match ended {
            Err(SimError::ActorFailed { reason, .. }) if self.crash.is_some() && reason.ends_with("is lost") => None,
            other => Some(other.map_err(|trouble| trouble.to_string())?),
        };
        // A peer that crashes after its workers have finished loses its shards without disturbing
        // the others.
        let whole = ended.is_some() && self.crash.is_none();
        if whole {
            self.table.check_final_rows(&counting, simulation.actors())?;
        }
        let saved = self.check_snapshot(&counting, saved, whole)?;
        let start = if saved.is_some() { self.at } else { 0 };
        let resumed = TableScenario { shards: self.shards_after, ..self.table.clone() };
        let twice = u64::from(self.fault == Some(CheckpointFault::ClockTwice)).min(start);
        let mut restored = Ok(());
        let mut simulation =
            resumed.counters(&self.table.cluster, &counting.history_at(start), start)?.with_actors(|_, mut actor| {
                if let (Some(saved), Ok(())) = (&saved, &restored) {
                    restored = actor.restore(saved, start - twice);
                }
                actor
            });
        restored?;
        let after = simulation.run().map_err(|trouble| format!("after the restart: {trouble}"))?;
        resumed
            .check_final_rows(&counting, simulation.actors())
            .map_err(|problem| format!("after the restart: {problem}"))?;
        Ok(ended.unwrap_or(after))
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.crash.is_some() {
            all.push(Self { crash: None, ..self.clone() });
        }
        for table in self.table.shrink() {
            let (peers, at) = (table.cluster.peers, self.at.min(table.clocks));
            let stays = |fault: &Fault| matches!(fault, Fault::Crash { peer, .. } if *peer < peers && peers > 1);
            all.push(Self { at, crash: self.crash.clone().filter(stays), table, ..self.clone() });
        }
        for shards_after in random_cluster::smaller_numbers(self.shards_after, 1) {
            all.push(Self { shards_after, ..self.clone() });
        }
        for at in random_cluster::smaller_numbers(self.at as usize, 1) {
            all.push(Self { at: at as u64, ..self.clone() });
        }
        if self.begin > SimDuration::ZERO {
            all.push(Self { begin: SimDuration::ZERO, ..self.clone() });
        }
        all
    }
}
