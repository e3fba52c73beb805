//! Makespan of a pass: its duration, computed from the number of entries in each block.
//!
//! Workers do not run in lockstep: a part continues when it has finished its previous block and its
//! next one has arrived. So the cost of a skewed block depends on which workers wait for it, and
//! the makespan is the length of the longest chain of such waits. One walk over the schedule
//! computes it, visit after visit, in an order in which both predecessors of a visit come before
//! it:
//!
//! ```text
//!   start(visit) = max(end of the part's previous visit, arrival of the block)
//!   end(visit)   = start + entries * time per entry + rows of the part that are read again
//!   arrival      = end of the block's previous visit + hand-off (+ its bytes on the wire, if it changes peers)
//! ```
//!
//! If buffers are applied at barriers, all workers wait at the end of each step, and the makespan
//! is the sum of the longest visits of all steps.
//!
//! Times are whole picoseconds, so that every peer computes the same value, whatever its
//! floating-point unit does.

use hemiola_analysis::block_order::{LoopBlock, rotation_order, wavefront_order};

/// Number of entries in each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockCounts {
    parts: usize,
    times: usize,
    /// Row-major: by part, then by time block.
    counts: Vec<u64>,
}

impl BlockCounts {
    pub(crate) fn new(parts: usize, times: usize) -> Self {
        Self { parts, times, counts: vec![0; parts * times] }
    }

    pub(crate) fn add(&mut self, block: LoopBlock, entries: u64) {
        self.counts[block.part * self.times + block.time] += entries;
    }

    pub(crate) fn of(&self, block: LoopBlock) -> u64 {
        self.counts[block.part * self.times + block.time]
    }

    /// Entries of a part.
    #[cfg(test)]
    fn of_part(&self, part: usize) -> u64 {
        self.counts[part * self.times..(part + 1) * self.times].iter().sum()
    }

    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Order in which blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOrder {
    /// Rotation among the parts, with `ratio` time blocks per part.
    Rotation { ratio: usize },
    /// Wavefront from the first part to the last.
    Wavefront,
}

/// Times of elementary operations, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitTimes {
    /// Time of an entry when numbers of blocks are compared.
    pub(crate) entry: u64,
    /// Time of an entry when parallelizations are compared.
    pub(crate) nominal_entry: u64,
    /// Reading the local rows of an entry. A visit reads each row at most once, so `local_rows` is
    /// the limit.
    pub(crate) local_row: u64,
    /// Reading all local rows of a part.
    pub(crate) local_rows: u64,
    /// Passing a block on, which keeps its worker busy.
    pub(crate) handoff: u64,
    /// Sending all rotating bytes of a pass over the network, if there are several peers.
    pub(crate) wire: u64,
    /// A barrier of all workers, if the loop needs one after each step.
    pub(crate) barrier: Option<u64>,
    /// Number of peers that share the parts.
    pub(crate) peers: usize,
}

impl UnitTimes {
    fn visit(&self, entries: u64) -> u64 {
        entries.saturating_mul(self.entry).saturating_add(entries.saturating_mul(self.local_row).min(self.local_rows))
    }
}

/// Time of a pass with perfect balance, without waits and hand-offs.
pub(crate) fn balanced_time(blocks: &BlockCounts, unit_times: &UnitTimes) -> u64 {
    (blocks.total().saturating_mul(unit_times.entry) / blocks.parts as u64).max(1)
}

/// Duration of a pass.
pub(crate) fn makespan(blocks: &BlockCounts, order_kind: BlockOrder, unit_times: &UnitTimes) -> u64 {
    let (parts, times) = (blocks.parts, blocks.times);
    let order: Vec<LoopBlock> = match order_kind {
        BlockOrder::Rotation { ratio } => rotation_order(ratio, parts).collect(),
        BlockOrder::Wavefront => wavefront_order(parts, times).collect(),
    };
    if let Some(barrier) = unit_times.barrier {
        return makespan_with_barriers(blocks, &order, order_kind, unit_times, barrier);
    }
    let share = (parts / unit_times.peers).max(1);
    // The part that sends a block to another peer is the last one of its peer to run it.
    let leaves = |part: usize| match order_kind {
        BlockOrder::Rotation { .. } => part.is_multiple_of(share),
        BlockOrder::Wavefront => (part + 1).is_multiple_of(share),
    };
    let on_wire = if unit_times.peers > 1 { unit_times.wire / times as u64 } else { 0 };
    let (mut free, mut ready, mut link) = (vec![0_u64; parts], vec![0_u64; times], vec![0_u64; unit_times.peers]);
    let handoff = if parts > 1 { unit_times.handoff } else { 0 };
    for block in order {
        let start = free[block.part].max(ready[block.time]);
        let end = start + unit_times.visit(blocks.of(block)) + handoff;
        free[block.part] = end;
        ready[block.time] = end;
        if unit_times.peers > 1 && leaves(block.part) {
            let link = &mut link[block.part / share];
            *link = (*link).max(end) + on_wire;
            ready[block.time] = *link;
        }
    }
    free.into_iter().max().unwrap_or(0)
}

/// Duration of a pass in which all workers wait at the end of each step.
fn makespan_with_barriers(
    blocks: &BlockCounts,
    order: &[LoopBlock],
    order_kind: BlockOrder,
    unit_times: &UnitTimes,
    barrier: u64,
) -> u64 {
    let (parts, times) = (blocks.parts, blocks.times);
    let steps = match order_kind {
        BlockOrder::Rotation { .. } => times,
        BlockOrder::Wavefront => parts + times - 1,
    };
    let mut longest = vec![0_u64; steps];
    for (at, block) in order.iter().enumerate() {
        let step = match order_kind {
            BlockOrder::Rotation { .. } => at / parts,
            BlockOrder::Wavefront => block.part + block.time,
        };
        longest[step] = longest[step].max(unit_times.visit(blocks.of(*block)));
    }
    let on_wire = if unit_times.peers > 1 { unit_times.wire / times as u64 } else { 0 };
    longest.into_iter().map(|visit| visit + barrier + unit_times.handoff + on_wire).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_analysis::block_order::rotation_block;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Queued blocks with their receivers, and the arrival time of the first.
    type Wire = (Vec<(usize, usize)>, Option<u64>);

    /// Reference: event simulation in which workers, blocks and wires act without knowledge of the
    /// future.
    fn simulated_makespan(blocks: &BlockCounts, order_kind: BlockOrder, unit_times: &UnitTimes) -> u64 {
        let (parts, times) = (blocks.parts, blocks.times);
        let share = parts / unit_times.peers;
        let mine: Vec<Vec<usize>> = (0..parts)
            .map(|part| match order_kind {
                BlockOrder::Rotation { ratio } => {
                    (0..times).map(|step| rotation_block(part, step, ratio, parts)).collect()
                }
                BlockOrder::Wavefront => (0..times).collect(),
            })
            .collect();
        let next = |part: usize| match order_kind {
            BlockOrder::Rotation { .. } => Some((part + parts - 1) % parts),
            BlockOrder::Wavefront => Some(part + 1).filter(|part| *part < parts),
        };
        // Positions of the blocks, end times of the visits in progress, and queues between two
        // peers.
        let mut here: BTreeSet<(usize, usize)> = match order_kind {
            BlockOrder::Rotation { ratio } => (0..times).map(|time| (time / ratio, time)).collect(),
            BlockOrder::Wavefront => (0..times).map(|time| (0, time)).collect(),
        };
        let mut done = vec![0; parts];
        let mut busy: Vec<Option<(u64, usize)>> = vec![None; parts];
        let mut wires: BTreeMap<usize, Wire> = BTreeMap::new();
        let (mut now, mut last) = (0, 0);
        loop {
            for part in 0..parts {
                if busy[part].is_none() && done[part] < times && here.contains(&(part, mine[part][done[part]])) {
                    let time = mine[part][done[part]];
                    let takes = unit_times.visit(blocks.of(LoopBlock { part, time }))
                        + if parts > 1 { unit_times.handoff } else { 0 };
                    busy[part] = Some((now + takes, time));
                }
            }
            let working = busy.iter().flatten().map(|(end, _)| *end);
            let sending = wires.values().filter_map(|(_, end)| *end);
            let Some(soonest) = working.chain(sending).min() else { return last };
            now = soonest;
            for part in 0..parts {
                let Some((end, time)) = busy[part].filter(|(end, _)| *end == now) else { continue };
                (busy[part], last) = (None, end);
                done[part] += 1;
                here.remove(&(part, time));
                let Some(to) = next(part) else { continue };
                if unit_times.peers > 1 && to / share != part / share {
                    let (queue, sending) = wires.entry(part / share).or_default();
                    queue.push((to, time));
                    sending.get_or_insert(now + unit_times.wire / times as u64);
                } else {
                    here.insert((to, time));
                }
            }
            for (queue, sending) in wires.values_mut() {
                // A wire without latency may deliver several blocks now.
                while *sending == Some(now) {
                    here.insert(queue.remove(0));
                    *sending = (!queue.is_empty()).then_some(now + unit_times.wire / times as u64);
                }
            }
        }
    }

    fn blocks(parts: usize, times: usize, counts: &[u64]) -> BlockCounts {
        BlockCounts { parts, times, counts: counts[..parts * times].to_vec() }
    }

    proptest! {
        #[test]
        fn makespan_equals_the_event_simulation(
            peers in 1_usize..4, workers in 1_usize..4, ratio in 1_usize..5, waves in any::<bool>(),
            counts in prop::collection::vec(0_u64..30, 9 * 36),
            (handoff, wire, local_row, local_rows) in (0_u64..20, 0_u64..2000, 0_u64..3, 0_u64..30),
        ) {
            let parts = peers * workers;
            let blocks = blocks(parts, ratio * parts, &counts);
            let unit_times = UnitTimes { entry: 7, nominal_entry: 7, local_row, local_rows, handoff, wire, barrier: None, peers };
            let order_kind = if waves { BlockOrder::Wavefront } else { BlockOrder::Rotation { ratio } };
            prop_assert_eq!(makespan(&blocks, order_kind, &unit_times), simulated_makespan(&blocks, order_kind, &unit_times));
            prop_assert!(makespan(&blocks, order_kind, &unit_times) >= (0..parts).map(|part| 7 * blocks.of_part(part)).max().unwrap());
        }

        #[test]
        fn barriers_make_every_step_as_long_as_its_longest_visit(
            parts in 1_usize..5, ratio in 1_usize..4, counts in prop::collection::vec(0_u64..30, 48),
        ) {
            let blocks = blocks(parts, ratio * parts, &counts);
            let unit_times = UnitTimes { entry: 7, nominal_entry: 7, local_row: 0, local_rows: 0, handoff: 1, wire: 0, barrier: Some(4), peers: 1 };
            let longest = |step: usize| {
                let visit = |part| 7 * blocks.of(LoopBlock { part, time: rotation_block(part, step, ratio, parts) });
                (0..parts).map(visit).max().unwrap() + 5
            };
            let expected: u64 = (0..ratio * parts).map(longest).sum();
            prop_assert_eq!(makespan(&blocks, BlockOrder::Rotation { ratio }, &unit_times), expected);
        }
    }
}
