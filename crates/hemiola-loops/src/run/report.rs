//! Report of a loop: its plan, the times of its phases, and what its pass sent and missed.

use crate::plan::{ArrayPlacement, LoopBlock, LoopPlan};
use crate::profile::description::LoopDescription;
use crate::site::LoopSite;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Purpose;
use std::time::Duration;

/// Result of a loop: its plan and its measurements.
#[derive(Debug)]
pub struct LoopReport {
    pub(super) plan: LoopPlan,
    pub(super) times: LoopTimes,
    pub(super) prefetch_misses: Vec<(String, u64)>,
    pub(super) table_bytes: u64,
    pub(crate) description: LoopDescription,
    pub(super) block_timings: Vec<BlockTiming>,
}

/// Timing of a block that a worker of this peer has run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockTiming {
    /// Part and time block.
    pub block: LoopBlock,
    /// Number of entries in the block.
    pub entries: u64,
    /// CPU time that the worker spent on the block. Waiting and preemption do not count.
    pub compute_time: Duration,
}

/// Wall-clock times of the phases of a loop, on this peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopTimes {
    /// Analysis, histograms and the choice of a plan.
    pub planning: Duration,
    /// Moving entries and rows to their places in the plan.
    pub arranging: Duration,
    /// Running the body, until the arrays are released.
    pub running: Duration,
}

impl LoopReport {
    /// Plan of the loop.
    #[must_use]
    pub fn plan(&self) -> &LoopPlan {
        &self.plan
    }

    /// Number of reads that were not prefetched and sent a request each, over all peers, by name of
    /// the served array.
    #[must_use]
    pub fn prefetch_misses(&self) -> &[(String, u64)] {
        &self.prefetch_misses
    }

    /// Bytes that all peers sent for tables during the pass. Messages that are sent after the pass
    /// count for the next one. Loops without tables have 0.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Timings of the blocks that workers of this peer have run, sorted by part and time block.
    #[must_use]
    pub fn block_timings(&self) -> &[BlockTiming] {
        &self.block_timings
    }

    /// Wall-clock times of the phases, on this peer.
    #[must_use]
    pub fn times(&self) -> LoopTimes {
        self.times
    }
}

/// *Collective* if arrays are served. Sums the prefetch misses over all peers, by name.
pub(super) fn sum_prefetch_misses(
    cluster: &Cluster,
    site: &LoopSite,
    plan: &LoopPlan,
    mine: Vec<(usize, u64)>,
) -> Result<Vec<(String, u64)>> {
    if !plan.arrays.iter().any(|array| array.placement == ArrayPlacement::Served) {
        return Ok(Vec::new());
    }
    let mut all: Vec<(String, u64)> = mine.iter().map(|(name, _)| (site.names[*name].to_owned(), 0)).collect();
    for peer in cluster.all_gather(mine)? {
        for (sum, (_, count)) in all.iter_mut().zip(peer) {
            sum.1 += count;
        }
    }
    Ok(all)
}

/// Bytes that this peer has sent for tables so far.
pub(super) fn table_bytes(cluster: &Cluster) -> u64 {
    let traffic = cluster.traffic();
    traffic.lines.iter().filter(|line| line.purpose == Purpose::Tables).map(|line| line.bytes_sent).sum()
}

/// *Collective* if several peers use tables. Sums the bytes that all peers have sent for tables
/// since this peer had sent `before`.
pub(super) fn sum_table_bytes(cluster: &Cluster, plan: &LoopPlan, before: u64) -> Result<u64> {
    if plan.tables.is_empty() || cluster.size() == 1 {
        return Ok(0);
    }
    Ok(cluster.all_gather::<u64>(table_bytes(cluster) - before)?.into_iter().sum())
}
