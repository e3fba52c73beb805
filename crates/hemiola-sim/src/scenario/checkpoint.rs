//! A snapshot of a table while workers go on; maybe a crash, which ends the job; and the job again from the snapshot, with another number of shards.
//!
//! What the snapshot must hold follows from what workers do, not from the run: every update of clocks before its own, and none of later ones. If all shards have been read out, workers go on from its clock;
//! if not, they begin anew, as after any job whose checkpoint was not finished. In the end every update of every clock is in the rows, once.

use super::counter::{Counting, sums};
use super::tables::TableScenario;
use super::{Scenario, some, weather};
use crate::actors::saving::{Save, Saved};
use crate::actors::tables::Tables;
use crate::chance;
use crate::describe::Fault;
use crate::units::Span;
use crate::world::{Ended, Trouble};
use hemiola_tables_proto::Clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A fault to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointPlant {
    /// Rows are written down as they are when they are read out.
    LiveRows,
    /// Workers do the last clock before the snapshot again.
    ClockTwice,
}

/// A snapshot, and a job that goes on from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointScenario {
    /// The table, and where it runs.
    pub table: TableScenario,
    /// The clock of the snapshot.
    pub at: u64,
    /// When shards are told of it.
    pub begin: Span,
    /// Bytes of a piece.
    pub piece: usize,
    /// A crash that ends the job.
    pub crash: Option<Fault>,
    /// Shards afterwards.
    pub shards_after: usize,
    /// A fault to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<CheckpointPlant>,
}

impl CheckpointScenario {
    /// With a fault to be found.
    #[must_use]
    pub fn planted(mut self, plant: CheckpointPlant) -> Self {
        self.plant = Some(plant);
        self
    }

    /// What was saved, if all shards were read out: it must be the table at the clock.
    fn judge(&self, counting: &Counting, saved: Vec<Saved<i32>>, over: bool) -> Result<Option<Saved<i32>>, String> {
        let (mut all, mut refused) = (Saved { pieces: Vec::new(), summaries: BTreeMap::new(), refused: 0 }, 0);
        for one in saved {
            all.pieces.extend(one.pieces);
            all.summaries.extend(one.summaries);
            refused += one.refused;
        }
        let (read, shards) = (all.summaries.len(), self.table.shards);
        if over && read + refused != shards {
            return Err(format!("all workers have finished, and only {read} of {shards} shards were read out"));
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
        let truth = counting.truth(self.at);
        let truth = truth.lock().map_err(|_| "another run has panicked")?;
        for (key, (row, histories)) in rows.iter().zip(truth.iter()).enumerate() {
            let sums = sums(histories, self.at);
            if *row != sums {
                return Err(format!("the snapshot at clock {} has {row:?} in row {key}; {sums:?} is due", self.at));
            }
        }
        Ok(Some(all))
    }
}

impl Scenario for CheckpointScenario {
    fn from_seed(seed: u64) -> Self {
        let table = TableScenario::from_seed(seed);
        let random = &mut chance::generator(seed, 7);
        let (peers, clocks) = (table.cluster.peers, table.clocks);
        let mut crashing = table.cluster.clone();
        weather::crash(&mut crashing, random);
        Self {
            at: random.below(clocks as usize + 1) as u64,
            begin: Span::from_micros(if random.below(3) == 0 { random.below(1500) as u64 } else { 0 }),
            piece: [1, 64, 4096][random.below(3)],
            crash: crashing.faults.pop().filter(|_| peers > 1 && random.below(2) == 0),
            shards_after: 1 + random.below(4),
            table,
            plant: None,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        self.table.possible()?;
        some(&[("shards_after", self.shards_after), ("piece", self.piece)])?;
        let live = self.plant == Some(CheckpointPlant::LiveRows);
        let save = Save { at: Clock::new(self.at), begin: self.begin, piece: self.piece, live };
        let counting = self.table.counting();
        let mut cluster = self.table.cluster.clone();
        cluster.faults.extend(self.crash.clone());
        let mut world =
            self.table.counters(&cluster, &counting.truth(0), 0)?.with_actors(|_, actor| actor.saving(save));
        let ended = world.run();
        let saved = world.actors().iter().filter_map(Tables::saved).cloned().collect();
        let ended = match ended {
            Err(Trouble::Failed { reason, .. }) if self.crash.is_some() && reason.ends_with("is lost") => None,
            other => Some(other.map_err(|trouble| trouble.to_string())?),
        };
        // One that crashes after its workers have finished takes its shards with it, and disturbs nobody.
        let whole = ended.is_some() && self.crash.is_none();
        if whole {
            self.table.all_there(&counting, world.actors())?;
        }
        let saved = self.judge(&counting, saved, whole)?;
        let start = if saved.is_some() { self.at } else { 0 };
        let again = TableScenario { shards: self.shards_after, ..self.table.clone() };
        let twice = u64::from(self.plant == Some(CheckpointPlant::ClockTwice)).min(start);
        let mut restored = Ok(());
        let mut world =
            again.counters(&self.table.cluster, &counting.truth(start), start)?.with_actors(|_, mut actor| {
                if let (Some(saved), Ok(())) = (&saved, &restored) {
                    restored = actor.restore(saved, start - twice);
                }
                actor
            });
        restored?;
        let after = world.run().map_err(|trouble| format!("after the restart: {trouble}"))?;
        again.all_there(&counting, world.actors()).map_err(|problem| format!("after the restart: {problem}"))?;
        Ok(ended.unwrap_or(after))
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        if self.crash.is_some() {
            all.push(Self { crash: None, ..self.clone() });
        }
        for table in self.table.smaller() {
            let (peers, at) = (table.cluster.peers, self.at.min(table.clocks));
            let stays = |fault: &Fault| matches!(fault, Fault::Crash { peer, .. } if *peer < peers && peers > 1);
            all.push(Self { at, crash: self.crash.clone().filter(stays), table, ..self.clone() });
        }
        for shards_after in weather::less(self.shards_after, 1) {
            all.push(Self { shards_after, ..self.clone() });
        }
        for at in weather::less(self.at as usize, 1) {
            all.push(Self { at: at as u64, ..self.clone() });
        }
        if self.begin > Span::ZERO {
            all.push(Self { begin: Span::ZERO, ..self.clone() });
        }
        all
    }
}
