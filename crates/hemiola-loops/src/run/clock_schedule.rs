//! Clocks of a table in a pass: how many each worker has ended after each step.
//!
//! **Invariant:** every worker of every peer ends the same number of clocks in every step, that of
//! the worker with the most iterations. A worker with fewer ends the others at the end of its step
//! (`PassCapture::end_step`), where it counts as finished: no worker waits for it.
//!
//! A read waits only for clocks, and a block only for blocks of the step before it. Consider the
//! workers in the earliest step: their blocks are there, since all others have finished the step
//! before. The one of them with the fewest clocks waits for no clock either, since workers in later
//! steps have ended all clocks of this one. So some worker always runs. At a barrier the same holds
//! if each worker has one part: it has run as many iterations as the others, or ended its step. With
//! several parts it does not hold, and clocks end with steps instead.

use crate::capture::CaptureKind;
use crate::plan::LoopBlock;
use crate::plan::route::BlockRoute;
use hemiola_cluster::{Cluster, Result};
use hemiola_tables_proto::ClockInterval;
use std::ops::Range;
use std::sync::Arc;

/// Clocks that a worker ends in a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClockSchedule {
    /// Moment at which clocks end inside a step.
    interval: ClockInterval,
    /// Clocks that have ended at the end of each step.
    ends: Vec<u64>,
    /// Clocks of the whole pass.
    total: u64,
}

impl ClockSchedule {
    /// Schedule of a pass. `in_step` has the clocks of each step, for intervals of iterations.
    fn new(interval: ClockInterval, steps: usize, in_step: &[u64]) -> Self {
        let ends: Vec<u64> = match interval {
            ClockInterval::Run => vec![0; steps],
            ClockInterval::Step => (1..=steps as u64).collect(),
            ClockInterval::Iterations(_) => in_step
                .iter()
                .scan(0, |sum, clocks| {
                    *sum += clocks;
                    Some(*sum)
                })
                .collect(),
        };
        let total = ends.last().copied().unwrap_or(0).max(1);
        Self { interval, ends, total }
    }

    pub(crate) fn interval(&self) -> ClockInterval {
        self.interval
    }

    /// Clocks that have ended before a step.
    pub(crate) fn before(&self, step: usize) -> u64 {
        step.checked_sub(1).map_or(0, |last| self.after(last))
    }

    /// Clocks that have ended after a step.
    pub(crate) fn after(&self, step: usize) -> u64 {
        self.ends.get(step).copied().unwrap_or(self.total)
    }

    /// Clocks of the whole pass.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

/// Blocks of this peer and the number of iterations in each.
pub(crate) struct PeerBlocks<'l, C> {
    pub(crate) route: &'l BlockRoute,
    pub(crate) count: C,
    /// Buffers are applied at barriers of all workers.
    pub(crate) has_barriers: bool,
}

/// *Collective* if a table counts iterations. Returns the schedule of each captured table, by the
/// index of its name.
pub(crate) fn clock_schedules(
    cluster: &Cluster,
    declared: &[CaptureKind],
    blocks: &PeerBlocks<'_, impl Fn(LoopBlock) -> u64>,
) -> Result<Vec<Option<Arc<ClockSchedule>>>> {
    let intervals: Vec<Option<ClockInterval>> = declared
        .iter()
        .map(|captured| match captured {
            CaptureKind::Table { clocks, .. } => Some(*clocks),
            _ => None,
        })
        .collect();
    let steps = blocks.route.steps();
    let counted = |interval: &ClockInterval| matches!(interval, ClockInterval::Iterations(_));
    let counted: Vec<ClockInterval> = intervals.iter().flatten().copied().filter(counted).collect();
    let (mut in_steps, mut several_parts) = (Vec::new(), false);
    if !counted.is_empty() {
        let workers = cluster.workers();
        let mine: Vec<Vec<u64>> = counted.iter().map(|interval| blocks.clocks_of_steps(*interval, workers)).collect();
        let all = cluster.all_gather((blocks.route.parts().len().div_ceil(workers), mine))?;
        several_parts = all.iter().any(|(parts, _)| *parts > 1);
        in_steps = (0..counted.len())
            .map(|table| {
                let of_peers = |step: usize| all.iter().filter_map(move |(_, peer)| peer.get(table)?.get(step));
                (0..steps).map(|step| of_peers(step).copied().max().unwrap_or(0).max(1)).collect()
            })
            .collect::<Vec<Vec<u64>>>();
    }
    let mut in_steps = in_steps.into_iter();
    let mut schedule = |interval: ClockInterval| {
        let in_step = if let ClockInterval::Iterations(_) = interval { in_steps.next() } else { None };
        let interval =
            if in_step.is_some() && several_parts && blocks.has_barriers { ClockInterval::Step } else { interval };
        Arc::new(ClockSchedule::new(interval, steps, &in_step.unwrap_or_default()))
    };
    Ok(intervals.into_iter().map(|interval| interval.map(&mut schedule)).collect())
}

impl<C: Fn(LoopBlock) -> u64> PeerBlocks<'_, C> {
    /// Clocks that the busiest worker of this peer ends in each step.
    fn clocks_of_steps(&self, interval: ClockInterval, workers: usize) -> Vec<u64> {
        let clocks_of_worker = |worker: usize, step: usize| -> u64 {
            let parts = parts_of_worker(&self.route.parts(), worker, workers);
            let blocks = parts.filter_map(|part| self.route.visit(part, step));
            blocks.map(|(block, _)| interval.clocks_in_block((self.count)(block))).sum()
        };
        (0..self.route.steps())
            .map(|step| (0..workers).map(|worker| clocks_of_worker(worker, step)).max().unwrap_or(0))
            .collect()
    }
}

/// Parts of a peer that one of its workers runs.
pub(crate) fn parts_of_worker(parts: &Range<usize>, worker: usize, workers: usize) -> Range<usize> {
    let share = |at: usize| parts.start + parts.len() * at / workers;
    share(worker)..share(worker + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    #[test]
    fn clocks_end_with_the_pass_with_steps_or_with_iterations() {
        let of_run = ClockSchedule::new(ClockInterval::Run, 3, &[]);
        assert_eq!((of_run.before(2), of_run.after(2), of_run.total()), (0, 0, 1));
        let of_steps = ClockSchedule::new(ClockInterval::Step, 3, &[]);
        assert_eq!((of_steps.before(0), of_steps.before(2), of_steps.after(2), of_steps.total()), (0, 2, 3, 3));
        let every = ClockInterval::Iterations(NonZeroU64::MIN);
        let of_iterations = ClockSchedule::new(every, 3, &[4, 1, 2]);
        assert_eq!((of_iterations.before(1), of_iterations.after(1), of_iterations.total()), (4, 5, 7));
    }
}
