//! What a loop will do: which blocks there are, who runs them in which order, where arrays lie, and what that costs.
//!
//! **Invariant:** a plan depends on what every peer knows alike (the source, shapes, histograms, numbers of peers and
//! workers), so all peers make the same one, and the same plan gives the same results bit for bit.

mod choose;
mod cost;
mod explain;
mod makespan;
mod predict;
pub mod route;

pub use cost::Cost;
pub use hemiola_analysis::schedule::Block;

pub use choose::Choice;
pub(crate) use choose::{Facts, choose};
pub use predict::{Prediction, Tried};
pub(crate) use predict::{Predictions, count, fine, ways};

use hemiola_analysis::schedule::{rotation_block, rotation_order, wavefront_order};
use hemiola_analysis::{Analysis, Strategy, Usage};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where an array lies while the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// Each part of space has its rows to itself.
    Local {
        /// What the subscript adds to the loop's index.
        offset: i64,
    },
    /// Each block of time has its rows, and they go from part to part with it.
    Rotating {
        /// What the subscript adds to the loop's index.
        offset: i64,
    },
    /// Each peer has the rows its parts touch, and those that the next peer shares with it are copied.
    Halo {
        /// The least that a subscript adds to the loop's index.
        low: i64,
        /// The most.
        high: i64,
        /// The loop writes it: changes of shared rows go to the next peer after each block of time.
        sent: bool,
    },
    /// Every peer that runs blocks has all of it.
    Whole,
    /// Every peer owns some rows; workers fetch those of others.
    Served,
}

/// Blocks that are run one after the other, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schedule {
    /// Parts do not depend on each other.
    Independent,
    /// Time blocks go round: this many for each part.
    Rotation {
        /// Blocks of time for each part.
        ratio: usize,
    },
    /// A block follows the one of the part before it and the one of the time before it.
    Wavefront,
}

/// Where the dimensions are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Ends of the parts along space, from the first index to the last.
    pub space: Vec<u64>,
    /// Ends of the blocks along time; two numbers if there is no time.
    pub time: Vec<u64>,
    /// What is cut, if not the loop's own dimensions.
    pub skew: Option<Skew>,
    /// How many peers run blocks: all, or the first alone.
    pub peers_used: usize,
    /// How blocks follow each other.
    pub schedule: Schedule,
}

/// Parts and times along weighted sums of the loop's indices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// By dimension: its weight in the coordinate that parts are cut along.
    pub space: Vec<i64>,
    /// By dimension: its weight in the coordinate that times are cut along.
    pub time: Vec<i64>,
    /// Ends of the parts.
    pub space_bounds: Vec<i64>,
    /// Ends of the times.
    pub time_bounds: Vec<i64>,
    /// Parts are cut along a dimension of the loop's own, as if it were not skewed: only times are along a sum.
    pub own_space: bool,
}

impl Cuts {
    /// The number of parts along space.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.space.len() - 1
    }

    /// The number of blocks along time.
    #[must_use]
    pub fn times(&self) -> usize {
        self.time.len() - 1
    }

    /// The parts whose blocks a peer runs.
    #[must_use]
    pub fn parts_of(&self, peer: Rank) -> Range<usize> {
        let share = self.parts() / self.peers_used;
        let at = peer.index().min(self.peers_used);
        if at == self.peers_used { self.parts()..self.parts() } else { at * share..(at + 1) * share }
    }

    /// The peer that runs a part.
    #[must_use]
    pub fn owner(&self, part: usize) -> Rank {
        Rank::new((part / (self.parts() / self.peers_used)) as u32)
    }

    /// Ends of the blocks along time so that equal shares of them are the blocks each peer has between two passes.
    pub(crate) fn time_by_home(&self, peers: usize) -> Vec<u64> {
        match self.schedule {
            Schedule::Rotation { .. } | Schedule::Independent => self.time.clone(),
            // A wave starts at the first part: all blocks are at home with the first peer.
            Schedule::Wavefront => {
                let last = self.time[self.times()];
                let padding = std::iter::repeat_n(last, self.times() * (peers - 1));
                self.time.iter().copied().chain(padding).collect()
            }
        }
    }

    /// The block a key belongs to.
    #[must_use]
    pub fn block_of(&self, key: &[u64], space: usize, time: Option<usize>) -> Block {
        if let Some(skew) = &self.skew {
            let coordinate =
                |weights: &[i64]| weights.iter().zip(key).map(|(weight, index)| weight * index.cast_signed()).sum();
            return Block {
                part: part_at(&skew.space_bounds, &coordinate(&skew.space)),
                time: part_at(&skew.time_bounds, &coordinate(&skew.time)),
            };
        }
        let part = part_at(&self.space, &key[space]);
        Block { part, time: time.map_or(0, |time| part_at(&self.time, &key[time])) }
    }
}

/// The part of ascending bounds that holds a value.
fn part_at<V: PartialOrd>(bounds: &[V], value: &V) -> usize {
    let inner = &bounds[1..bounds.len() - 1];
    inner.partition_point(|bound| bound <= value)
}

/// What is known of an array in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPlan {
    /// As the body calls it.
    pub name: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// Bytes of all its cells.
    pub bytes: u64,
    /// Where it lies.
    pub placement: Placement,
    /// Why it lies there.
    pub reason: String,
    /// What the body does with it.
    pub usage: Usage,
}

/// What is done for a table in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePlan {
    /// As the body calls it.
    pub name: String,
    /// The rows of a worker's next block are announced while it runs one.
    pub announced: bool,
    /// So are those of its first block in the next pass, while it runs the last.
    pub next_pass: bool,
    /// Clocks end with each step rather than each pass.
    pub clock_each_block: bool,
}

/// Another way to run the loop, and what it would have cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// What it would have been.
    pub strategy: Strategy,
    /// The same in words.
    pub text: String,
    /// Its costs.
    pub cost: Cost,
}

/// Entries of a block, in the order they run.
pub type BlockEntries<T, const N: usize> = Vec<([u64; N], T)>;

/// How a loop runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The loop, as messages call it.
    pub title: String,
    /// What it iterates over, as written.
    pub space_text: String,
    /// Extents of the iteration space.
    pub extents: Vec<Range<u64>>,
    /// How many entries there are.
    pub entries: u64,
    /// Accesses, dependence vectors and what was found legal or refused.
    pub analysis: Analysis,
    /// The chosen way.
    pub strategy: Strategy,
    /// The dimensions of space and time, if the loop's own are cut.
    pub dimensions: (usize, Option<usize>),
    /// The dimensions by which entries are sorted inside a block, the slowest first.
    pub entry_order: Vec<usize>,
    /// Where it is cut.
    pub cuts: Cuts,
    /// Arrays and where they lie.
    pub arrays: Vec<ArrayPlan>,
    /// Tables and what is done for them.
    #[serde(default)]
    pub tables: Vec<TablePlan>,
    /// What it costs.
    pub cost: Cost,
    /// How many blocks of time were tried, where workers may wait for each other.
    pub prediction: Option<Prediction>,
    /// What others would have cost.
    pub alternatives: Vec<Alternative>,
    /// Peers and workers of each.
    pub peers: usize,
    /// Workers of each peer; the most any has.
    pub workers: usize,
}

impl Plan {
    /// Every block once, in an order whose serial execution gives the loop's result bit for bit.
    #[must_use]
    pub fn order(&self) -> Vec<Block> {
        let (parts, times) = (self.cuts.parts(), self.cuts.times());
        match self.cuts.schedule {
            Schedule::Independent => (0..parts).map(|part| Block { part, time: 0 }).collect(),
            Schedule::Rotation { ratio } => rotation_order(ratio, parts).collect(),
            Schedule::Wavefront => wavefront_order(parts, times).collect(),
        }
    }

    /// The block that the iteration with this key belongs to.
    #[must_use]
    pub fn block_of(&self, key: &[u64]) -> Block {
        self.cuts.block_of(key, self.dimensions.0, self.dimensions.1)
    }

    /// Entries in that order: a serial loop over them gives the same bits as the parallel one, if it has no buffers.
    ///
    /// # Panics
    /// If keys do not have as many dimensions as the loop.
    #[must_use]
    pub fn in_order<T, const N: usize>(&self, mut entries: Vec<([u64; N], T)>) -> Vec<([u64; N], T)> {
        assert_eq!(self.analysis.dimensions, N, "keys of the loop");
        let mut ranks = vec![0; self.cuts.parts() * self.cuts.times()];
        let number = |block: Block| block.part * self.cuts.times() + block.time;
        for (rank, block) in self.order().into_iter().enumerate() {
            ranks[number(block)] = rank;
        }
        let sorted_by = |key: &[u64; N]| {
            let rank = ranks[number(self.block_of(key))];
            (rank, std::array::from_fn::<u64, N, _>(|at| key[self.entry_order[at]]))
        };
        entries.sort_by_cached_key(|(key, _)| sorted_by(key));
        entries
    }

    /// Entries by step, part and place in the block: what a loop with buffers does. The parts of a step see arrays as the
    /// step before has left them, their own writes apart; at its end buffers that need a meeting are applied, part after
    /// part. Inside a step parts run at the same time.
    ///
    /// # Panics
    /// If keys do not have as many dimensions as the loop.
    #[must_use]
    pub fn in_steps<T, const N: usize>(&self, entries: Vec<([u64; N], T)>) -> Vec<Vec<BlockEntries<T, N>>> {
        let mut by_block: Vec<_> = (0..self.cuts.parts() * self.cuts.times()).map(|_| Vec::new()).collect();
        for entry in self.in_order(entries) {
            let Block { part, time } = self.block_of(&entry.0);
            by_block[part * self.cuts.times() + time].push(entry);
        }
        let mut block = |part, step| {
            let (Block { part, time }, _) = visit(&self.cuts, part, step)?;
            Some(std::mem::take(&mut by_block[part * self.cuts.times() + time]))
        };
        (0..steps(&self.cuts))
            .map(|step| (0..self.cuts.parts()).map(|part| block(part, step).unwrap_or_default()).collect())
            .collect()
    }

    /// The plan as JSON.
    ///
    /// # Panics
    /// Never: a plan is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain data")
    }
}

/// The time block that a part runs in a step, with the number of visits it has had before; `None` if it rests.
pub(crate) fn visit(cuts: &Cuts, part: usize, step: usize) -> Option<(Block, usize)> {
    match cuts.schedule {
        Schedule::Independent => (step == 0).then_some((Block { part, time: 0 }, 0)),
        Schedule::Rotation { ratio } => {
            let time = rotation_block(part, step, ratio, cuts.parts());
            Some((Block { part, time }, step / ratio))
        }
        Schedule::Wavefront => {
            let time = step.checked_sub(part).filter(|time| *time < cuts.times())?;
            Some((Block { part, time }, part))
        }
    }
}

/// How many steps a pass has.
pub(crate) fn steps(cuts: &Cuts) -> usize {
    match cuts.schedule {
        Schedule::Independent => 1,
        Schedule::Rotation { .. } => cuts.times(),
        Schedule::Wavefront => cuts.parts() + cuts.times() - 1,
    }
}
