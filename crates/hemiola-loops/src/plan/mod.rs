//! Plans: blocks of a loop, their schedule, the placement of arrays, and the cost.
//!
//! **Invariant:** a plan depends only on data that every peer knows (source, shapes, histograms,
//! numbers of peers and workers). So all peers make the same plan, and the same plan gives the same
//! results bit for bit.

mod choose;
mod cost;
mod explain;
mod makespan;
mod predict;
pub mod route;
mod tables;

pub use cost::PlanCost;
pub use hemiola_analysis::block_order::LoopBlock;

pub use choose::PlanSelector;
pub(crate) use choose::{PlannerInput, choose};
pub(crate) use predict::{PredictionMemo, candidate_cuts, count_entries, finest_bounds};
pub use predict::{RatioPrediction, RatioTrial};
pub(crate) use tables::hidden_updates_advice;
pub use tables::{ReadDelay, TablePlan};

use hemiola_analysis::block_order::{rotation_order, wavefront_order};
use hemiola_analysis::{Analysis, Parallelization, WriteMode};
use hemiola_core::Rank;
use route::BlockRoute;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Placement of an array while a loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrayPlacement {
    /// Partitioned along space: each part has exclusive access to its rows.
    Local {
        /// Constant that the subscript adds to the loop index.
        offset: i64,
    },
    /// Partitioned along time: the rows of a time block move from part to part with it.
    Rotating {
        /// Constant that the subscript adds to the loop index.
        offset: i64,
    },
    /// Partitioned along space with a halo: each peer has the rows its parts access, with copies of
    /// the rows it shares with the next peer.
    Halo {
        /// Smallest constant that a subscript adds to the loop index.
        low: i64,
        /// Largest constant that a subscript adds to the loop index.
        high: i64,
        /// The loop writes the array: changes of shared rows are sent to the next peer after each
        /// time block.
        written: bool,
    },
    /// A full copy on every peer that runs blocks.
    Replicated,
    /// Partitioned by owner: every peer owns some rows, and workers fetch rows of others.
    Served,
}

/// Order in which the blocks of a loop run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoopSchedule {
    /// Parts are independent; there is one time block.
    Independent,
    /// Time blocks rotate among the parts.
    Rotation {
        /// Time blocks per part.
        ratio: usize,
    },
    /// A block runs after the block of the part before it and the block of the time before it.
    Wavefront,
}

/// Cuts of the iteration space into parts and time blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Bounds of the parts along space, from the first index to the end.
    pub space: Vec<usize>,
    /// Bounds of the time blocks; two numbers if the loop is not cut along time.
    pub time: Vec<usize>,
    /// Skewed cuts, if the loop is not cut along its own dimensions.
    pub skew: Option<SkewedCuts>,
    /// Number of peers that run blocks: all, or only the first.
    pub peers_used: usize,
    /// Order in which blocks run.
    pub schedule: LoopSchedule,
}

/// Parts and time blocks along weighted sums of the loop indices (loop skewing).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkewedCuts {
    /// Weight of each dimension in the coordinate that is cut into parts.
    pub space: Vec<i64>,
    /// Weight of each dimension in the coordinate that is cut into time blocks.
    pub time: Vec<i64>,
    /// Bounds of the parts.
    pub space_bounds: Vec<i64>,
    /// Bounds of the time blocks.
    pub time_bounds: Vec<i64>,
    /// Parts are cut along a dimension of the loop; only time blocks are cut along a sum.
    pub unskewed_space: bool,
}

impl Cuts {
    /// Number of parts along space.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.space.len() - 1
    }

    /// Number of time blocks.
    #[must_use]
    pub fn times(&self) -> usize {
        self.time.len() - 1
    }

    /// Parts whose blocks a peer runs.
    #[must_use]
    pub fn parts_of(&self, peer: Rank) -> Range<usize> {
        let share = self.parts() / self.peers_used;
        let at = peer.index().min(self.peers_used);
        if at == self.peers_used { self.parts()..self.parts() } else { at * share..(at + 1) * share }
    }

    /// Peer that runs a part.
    #[must_use]
    pub fn owner(&self, part: usize) -> Rank {
        Rank::new((part / (self.parts() / self.peers_used)) as u32)
    }

    /// Bounds of time blocks, padded so that equal shares of them are the blocks that each peer has
    /// between two passes.
    pub(crate) fn home_time_bounds(&self, peers: usize) -> Vec<usize> {
        match self.schedule {
            LoopSchedule::Rotation { .. } | LoopSchedule::Independent => self.time.clone(),
            // A wavefront starts at the first part: all blocks start on the first peer.
            LoopSchedule::Wavefront => {
                let last = self.time[self.times()];
                let padding = std::iter::repeat_n(last, self.times() * (peers - 1));
                self.time.iter().copied().chain(padding).collect()
            }
        }
    }

    /// Block that the iteration with this key belongs to.
    #[must_use]
    pub fn block_of(&self, key: &[usize], space: usize, time: Option<usize>) -> LoopBlock {
        if let Some(skew) = &self.skew {
            let coordinate = |weights: &[i64]| {
                weights.iter().zip(key).map(|(weight, index)| weight * index.cast_signed() as i64).sum()
            };
            return LoopBlock {
                part: part_at(&skew.space_bounds, &coordinate(&skew.space)),
                time: part_at(&skew.time_bounds, &coordinate(&skew.time)),
            };
        }
        let part = part_at(&self.space, &key[space]);
        LoopBlock { part, time: time.map_or(0, |time| part_at(&self.time, &key[time])) }
    }
}

/// Index of the part that holds a value, given ascending bounds.
fn part_at<V: PartialOrd>(bounds: &[V], value: &V) -> usize {
    let inner = &bounds[1..bounds.len() - 1];
    inner.partition_point(|bound| bound <= value)
}

/// Plan of one array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPlan {
    /// Name of the array in the body.
    pub name: String,
    /// Extents of all dimensions.
    pub shape: Vec<usize>,
    /// Size of all cells in bytes.
    pub bytes: u64,
    /// Placement while the loop runs.
    pub placement: ArrayPlacement,
    /// Reason for the placement.
    pub reason: String,
    /// Accesses by the body: read, written through buffers, or written.
    pub write_mode: WriteMode,
}

/// A legal parallelization of the loop, with its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanAlternative {
    /// Parallelization of the alternative.
    pub parallelization: Parallelization,
    /// Description of the parallelization in words.
    pub text: String,
    /// Cost of the alternative.
    pub cost: PlanCost,
}

/// Entries of a block, in the order in which they run.
pub type BlockEntries<T, const N: usize> = Vec<([usize; N], T)>;

/// Plan of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopPlan {
    /// Name of the loop in messages.
    pub title: String,
    /// Source text of the iteration space.
    pub space_text: String,
    /// Index ranges of the iteration space, by dimension.
    pub extents: Vec<Range<usize>>,
    /// Number of entries, over all peers.
    pub entries: u64,
    /// Accesses, dependence vectors, and legal and illegal parallelizations.
    pub analysis: Analysis,
    /// Parallelization that the planner has chosen.
    pub parallelization: Parallelization,
    /// Dimensions of space and time, if the loop is cut along its own dimensions.
    pub dimensions: (usize, Option<usize>),
    /// Dimensions by which entries are sorted inside a block, the slowest first.
    pub entry_order: Vec<usize>,
    /// Cuts into parts and time blocks.
    pub cuts: Cuts,
    /// Plans of all arrays of the loop.
    pub arrays: Vec<ArrayPlan>,
    /// Plans of all tables of the loop.
    #[serde(default)]
    pub tables: Vec<TablePlan>,
    /// Cost of a pass by the planner's model.
    pub cost: PlanCost,
    /// Predicted times for several numbers of time blocks. `None` if workers never wait for each
    /// other.
    pub prediction: Option<RatioPrediction>,
    /// Legal parallelizations that were not chosen.
    pub alternatives: Vec<PlanAlternative>,
    /// Number of peers of the cluster.
    pub peers: usize,
    /// Workers of each peer; the largest number of all peers.
    pub workers: usize,
}

impl LoopPlan {
    /// Every block once, in an order whose serial execution gives the result of the loop bit for
    /// bit.
    #[must_use]
    pub fn order(&self) -> Vec<LoopBlock> {
        let (parts, times) = (self.cuts.parts(), self.cuts.times());
        match self.cuts.schedule {
            LoopSchedule::Independent => (0..parts).map(|part| LoopBlock { part, time: 0 }).collect(),
            LoopSchedule::Rotation { ratio } => rotation_order(ratio, parts).collect(),
            LoopSchedule::Wavefront => wavefront_order(parts, times).collect(),
        }
    }

    /// Block that the iteration with this key belongs to.
    #[must_use]
    pub fn block_of(&self, key: &[usize]) -> LoopBlock {
        self.cuts.block_of(key, self.dimensions.0, self.dimensions.1)
    }

    /// Sorts entries into the order of [`order`](Self::order). A serial loop over them gives the
    /// same bits as the parallel one, if the loop has no buffers.
    ///
    /// # Panics
    /// If keys do not have as many dimensions as the loop.
    #[must_use]
    pub fn in_order<T, const N: usize>(&self, mut entries: Vec<([usize; N], T)>) -> Vec<([usize; N], T)> {
        assert_eq!(self.analysis.dimensions, N, "keys have as many dimensions as the loop");
        let mut ranks = vec![0; self.cuts.parts() * self.cuts.times()];
        let number = |block: LoopBlock| block.part * self.cuts.times() + block.time;
        for (rank, block) in self.order().into_iter().enumerate() {
            ranks[number(block)] = rank;
        }
        let sorted_by = |key: &[usize; N]| {
            let rank = ranks[number(self.block_of(key))];
            (rank, std::array::from_fn::<usize, N, _>(|at| key[self.entry_order[at]]))
        };
        entries.sort_by_cached_key(|(key, _)| sorted_by(key));
        entries
    }

    /// Groups entries by step and part, in the order of each block: the execution of a loop with
    /// buffers. The parts of a step see the arrays as the previous step left them, plus their own
    /// writes. At its end, buffers that need a barrier are applied, part after part. The parts of a
    /// step run at the same time.
    ///
    /// # Panics
    /// If keys do not have as many dimensions as the loop.
    #[must_use]
    pub fn in_steps<T, const N: usize>(&self, entries: Vec<([usize; N], T)>) -> Vec<Vec<BlockEntries<T, N>>> {
        let mut by_block: Vec<_> = (0..self.cuts.parts() * self.cuts.times()).map(|_| Vec::new()).collect();
        for entry in self.in_order(entries) {
            let LoopBlock { part, time } = self.block_of(&entry.0);
            by_block[part * self.cuts.times() + time].push(entry);
        }
        let route = BlockRoute::new(&self.cuts, Rank::ROOT);
        let mut block = |part, step| {
            let (LoopBlock { part, time }, _) = route.visit(part, step)?;
            Some(std::mem::take(&mut by_block[part * self.cuts.times() + time]))
        };
        (0..route.steps())
            .map(|step| (0..self.cuts.parts()).map(|part| block(part, step).unwrap_or_default()).collect())
            .collect()
    }

    /// Plan as JSON.
    ///
    /// # Panics
    /// Never: a plan is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain data")
    }
}

/// Number of steps of a pass.
pub(crate) fn steps(cuts: &Cuts) -> usize {
    match cuts.schedule {
        LoopSchedule::Independent => 1,
        LoopSchedule::Rotation { .. } => cuts.times(),
        LoopSchedule::Wavefront => cuts.parts() + cuts.times() - 1,
    }
}
