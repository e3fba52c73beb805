//! How long a pass takes, told from how many entries each block has.
//!
//! Workers do not wait for each other in steps: a part goes on when it has ended its block before and the next one has come. So
//! what a skewed block costs depends on who waits for it, and the time of a pass is that of the longest chain of such waits. It is
//! found by following the schedule once, visit after visit, in an order in which both things a visit waits for come before it:
//!
//! ```text
//!   start(visit) = max(end of the part's visit before, arrival of the block)
//!   end(visit)   = start + entries * price + rows of the part that are read again
//!   arrival      = end of the block's visit before + handing over (+ its bytes on the wire, if it changes peers)
//! ```
//!
//! Where buffers are applied at meetings, everybody waits at the end of each step, and a pass is the sum of the longest
//! visits of all steps.
//!
//! Times are whole picoseconds, so that every peer finds the same, whatever its floating point does.

use hemiola_analysis::schedule::{Block, rotation_order, wavefront_order};

/// How many entries each block has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    parts: usize,
    times: usize,
    /// By part, then by time.
    counts: Vec<u64>,
}

impl Blocks {
    pub(crate) fn new(parts: usize, times: usize) -> Self {
        Self { parts, times, counts: vec![0; parts * times] }
    }

    pub(crate) fn add(&mut self, block: Block, entries: u64) {
        self.counts[block.part * self.times + block.time] += entries;
    }

    pub(crate) fn of(&self, block: Block) -> u64 {
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

/// In which order blocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Round the parts, so many blocks of time for each.
    Rotation { ratio: usize },
    /// From the first part to the last.
    Wavefront,
}

/// What things take, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prices {
    /// An entry, where numbers of blocks are compared.
    pub(crate) entry: u64,
    /// An entry, where ways to run the loop are compared.
    pub(crate) nominal_entry: u64,
    /// Reading the rows of an entry that stay with its part, and those of a whole part: a visit reads each row once at most.
    pub(crate) own_row: u64,
    pub(crate) own_rows: u64,
    /// Handing a block over, which keeps its worker busy.
    pub(crate) handoff: u64,
    /// All of a pass's travelling bytes on the wire, if there are several peers.
    pub(crate) wire: u64,
    /// A meeting of all workers, if the loop needs one after each step.
    pub(crate) meeting: Option<u64>,
    /// How many peers share the parts.
    pub(crate) peers: usize,
}

impl Prices {
    fn visit(&self, entries: u64) -> u64 {
        entries.saturating_mul(self.entry).saturating_add(entries.saturating_mul(self.own_row).min(self.own_rows))
    }
}

/// What a pass would take if nobody ever waited and nothing had to be handed over.
pub(crate) fn even(blocks: &Blocks, prices: &Prices) -> u64 {
    (blocks.total().saturating_mul(prices.entry) / blocks.parts as u64).max(1)
}

/// What a pass takes.
pub(crate) fn makespan(blocks: &Blocks, flow: Flow, prices: &Prices) -> u64 {
    let (parts, times) = (blocks.parts, blocks.times);
    let order: Vec<Block> = match flow {
        Flow::Rotation { ratio } => rotation_order(ratio, parts).collect(),
        Flow::Wavefront => wavefront_order(parts, times).collect(),
    };
    if let Some(meeting) = prices.meeting {
        return in_steps(blocks, &order, flow, prices, meeting);
    }
    let share = (parts / prices.peers).max(1);
    // The part that sends a block to another peer: the last to have it on its own.
    let leaves = |part: usize| match flow {
        Flow::Rotation { .. } => part.is_multiple_of(share),
        Flow::Wavefront => (part + 1).is_multiple_of(share),
    };
    let on_wire = if prices.peers > 1 { prices.wire / times as u64 } else { 0 };
    let (mut free, mut ready, mut link) = (vec![0_u64; parts], vec![0_u64; times], vec![0_u64; prices.peers]);
    let handoff = if parts > 1 { prices.handoff } else { 0 };
    for block in order {
        let start = free[block.part].max(ready[block.time]);
        let end = start + prices.visit(blocks.of(block)) + handoff;
        free[block.part] = end;
        ready[block.time] = end;
        if prices.peers > 1 && leaves(block.part) {
            let link = &mut link[block.part / share];
            *link = (*link).max(end) + on_wire;
            ready[block.time] = *link;
        }
    }
    free.into_iter().max().unwrap_or(0)
}

/// The same where everybody waits at the end of each step.
fn in_steps(blocks: &Blocks, order: &[Block], flow: Flow, prices: &Prices, meeting: u64) -> u64 {
    let (parts, times) = (blocks.parts, blocks.times);
    let steps = match flow {
        Flow::Rotation { .. } => times,
        Flow::Wavefront => parts + times - 1,
    };
    let mut longest = vec![0_u64; steps];
    for (at, block) in order.iter().enumerate() {
        let step = match flow {
            Flow::Rotation { .. } => at / parts,
            Flow::Wavefront => block.part + block.time,
        };
        longest[step] = longest[step].max(prices.visit(blocks.of(*block)));
    }
    let on_wire = if prices.peers > 1 { prices.wire / times as u64 } else { 0 };
    longest.into_iter().map(|visit| visit + meeting + prices.handoff + on_wire).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_analysis::schedule::rotation_block;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Blocks that wait, with their receivers, and when the first of them will have come.
    type Wire = (Vec<(usize, usize)>, Option<u64>);

    /// The same by playing it through: workers, blocks and wires act when their time comes, and know nothing of the future.
    fn played(blocks: &Blocks, flow: Flow, prices: &Prices) -> u64 {
        let (parts, times) = (blocks.parts, blocks.times);
        let share = parts / prices.peers;
        let mine: Vec<Vec<usize>> = (0..parts)
            .map(|part| match flow {
                Flow::Rotation { ratio } => (0..times).map(|step| rotation_block(part, step, ratio, parts)).collect(),
                Flow::Wavefront => (0..times).collect(),
            })
            .collect();
        let next = |part: usize| match flow {
            Flow::Rotation { .. } => Some((part + parts - 1) % parts),
            Flow::Wavefront => Some(part + 1).filter(|part| *part < parts),
        };
        // Where blocks are, who works until when, what is on the wire between two peers.
        let mut here: BTreeSet<(usize, usize)> = match flow {
            Flow::Rotation { ratio } => (0..times).map(|time| (time / ratio, time)).collect(),
            Flow::Wavefront => (0..times).map(|time| (0, time)).collect(),
        };
        let mut done = vec![0; parts];
        let mut busy: Vec<Option<(u64, usize)>> = vec![None; parts];
        let mut wires: BTreeMap<usize, Wire> = BTreeMap::new();
        let (mut now, mut last) = (0, 0);
        loop {
            for part in 0..parts {
                if busy[part].is_none() && done[part] < times && here.contains(&(part, mine[part][done[part]])) {
                    let time = mine[part][done[part]];
                    let takes =
                        prices.visit(blocks.of(Block { part, time })) + if parts > 1 { prices.handoff } else { 0 };
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
                if prices.peers > 1 && to / share != part / share {
                    let (queue, sending) = wires.entry(part / share).or_default();
                    queue.push((to, time));
                    sending.get_or_insert(now + prices.wire / times as u64);
                } else {
                    here.insert((to, time));
                }
            }
            for (queue, sending) in wires.values_mut() {
                // A wire that takes no time may have several ends now.
                while *sending == Some(now) {
                    here.insert(queue.remove(0));
                    *sending = (!queue.is_empty()).then_some(now + prices.wire / times as u64);
                }
            }
        }
    }

    fn blocks(parts: usize, times: usize, counts: &[u64]) -> Blocks {
        Blocks { parts, times, counts: counts[..parts * times].to_vec() }
    }

    proptest! {
        #[test]
        fn a_pass_takes_as_long_as_when_it_is_played_through(
            peers in 1_usize..4, workers in 1_usize..4, ratio in 1_usize..5, waves in any::<bool>(),
            counts in prop::collection::vec(0_u64..30, 9 * 36),
            (handoff, wire, own_row, own_rows) in (0_u64..20, 0_u64..2000, 0_u64..3, 0_u64..30),
        ) {
            let parts = peers * workers;
            let blocks = blocks(parts, ratio * parts, &counts);
            let prices = Prices { entry: 7, nominal_entry: 7, own_row, own_rows, handoff, wire, meeting: None, peers };
            let flow = if waves { Flow::Wavefront } else { Flow::Rotation { ratio } };
            prop_assert_eq!(makespan(&blocks, flow, &prices), played(&blocks, flow, &prices));
            prop_assert!(makespan(&blocks, flow, &prices) >= (0..parts).map(|part| 7 * blocks.of_part(part)).max().unwrap());
        }

        #[test]
        fn meetings_make_every_step_as_long_as_its_longest_visit(
            parts in 1_usize..5, ratio in 1_usize..4, counts in prop::collection::vec(0_u64..30, 48),
        ) {
            let blocks = blocks(parts, ratio * parts, &counts);
            let prices = Prices { entry: 7, nominal_entry: 7, own_row: 0, own_rows: 0, handoff: 1, wire: 0, meeting: Some(4), peers: 1 };
            let longest = |step: usize| {
                let visit = |part| 7 * blocks.of(Block { part, time: rotation_block(part, step, ratio, parts) });
                (0..parts).map(visit).max().unwrap() + 5
            };
            let expected: u64 = (0..ratio * parts).map(longest).sum();
            prop_assert_eq!(makespan(&blocks, Flow::Rotation { ratio }, &prices), expected);
        }
    }
}
