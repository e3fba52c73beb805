//! When each block of a 2D strategy runs: functions of numbers alone, which the executor follows and the tests check.
//!
//! *Rotation* has `parts` workers and `ratio` time blocks for each, `ratio * parts` blocks of time in all. In step `s` part
//! `p` runs time block `(ratio * p + s) mod (ratio * parts)`:
//!
//! ```text
//!   parts = 3, ratio = 2      step  0  1  2  3  4  5
//!                    part 0         0  1  2  3  4  5
//!                    part 1         2  3  4  5  0  1
//!                    part 2         4  5  0  1  2  3
//! ```
//!
//! A time block that part `p` has run is next due at part `p - 1`, `ratio` steps later; so with a ratio of two or more the
//! block travels while its next owner still computes. There is no barrier between steps: a part waits for its own
//! previous step and for the block, nothing else.
//!
//! *Wavefront*: block `(part, time)` waits for `(part - 1, time)` and `(part, time - 1)`.
//!
//! **Invariant:** every block runs once. Two blocks that are not ordered by these waits differ in part and in time, and in
//! a wavefront one is ahead in part and the other in time.
//!
//! "Step" is a name for a visit, not for a moment: parts run ahead of each other as their blocks allow.

/// One visit of a rotation: part `part` in its step `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Visit {
    /// Which part.
    pub part: usize,
    /// Which of its steps.
    pub step: usize,
}

/// One block of a 2D strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// Its part.
    pub part: usize,
    /// Its block of time.
    pub time: usize,
}

/// How many steps each part of a rotation makes, which is also the number of time blocks.
#[must_use]
pub const fn rotation_steps(ratio: usize, parts: usize) -> usize {
    ratio * parts
}

/// The time block that part `part` runs in step `step` of a rotation.
#[must_use]
pub const fn rotation_block(part: usize, step: usize, ratio: usize, parts: usize) -> usize {
    (ratio * part + step) % rotation_steps(ratio, parts)
}

/// The step in which part `part` runs time block `time` of a rotation: [`rotation_block`] the other way round.
#[must_use]
pub const fn rotation_step(part: usize, time: usize, ratio: usize, parts: usize) -> usize {
    let steps = rotation_steps(ratio, parts);
    (steps + time - ratio * part) % steps
}

/// The part that has time block `time` when a rotation begins. It runs it in step `time % ratio`.
#[must_use]
pub const fn rotation_first_part(time: usize, ratio: usize) -> usize {
    time / ratio
}

/// The visit that passes its time block on to this one; `None` for the first visit of a block.
#[must_use]
pub const fn rotation_predecessor(visit: Visit, ratio: usize, parts: usize) -> Option<Visit> {
    match visit.step.checked_sub(ratio) {
        Some(step) => Some(Visit { part: (visit.part + 1) % parts, step }),
        None => None,
    }
}

/// The visit to which this one passes its time block; `None` for the last visit of a block.
#[must_use]
pub const fn rotation_successor(visit: Visit, ratio: usize, parts: usize) -> Option<Visit> {
    let step = visit.step + ratio;
    if step < rotation_steps(ratio, parts) {
        Some(Visit { part: (visit.part + parts - 1) % parts, step })
    } else {
        None
    }
}

/// All blocks of a rotation in an order that it may be thought to have run in: step by step.
pub fn rotation_order(ratio: usize, parts: usize) -> impl Iterator<Item = Block> {
    (0..rotation_steps(ratio, parts)).flat_map(move |step| {
        (0..parts).map(move |part| Block { part, time: rotation_block(part, step, ratio, parts) })
    })
}

/// The blocks that a block of a wavefront waits for.
pub fn wavefront_predecessors(block: Block) -> impl Iterator<Item = Block> {
    let in_space = block.part.checked_sub(1).map(|part| Block { part, ..block });
    let in_time = block.time.checked_sub(1).map(|time| Block { time, ..block });
    in_space.into_iter().chain(in_time)
}

/// The earliest step in which a block of a wavefront can run, if every block takes one.
#[must_use]
pub const fn wavefront_step(block: Block) -> usize {
    block.part + block.time
}

/// How many steps a wavefront takes, if every block takes one.
#[must_use]
pub const fn wavefront_steps(parts: usize, times: usize) -> usize {
    if parts == 0 || times == 0 { 0 } else { parts + times - 1 }
}

/// All blocks of a wavefront in an order that it may be thought to have run in: step by step.
pub fn wavefront_order(parts: usize, times: usize) -> impl Iterator<Item = Block> {
    (0..wavefront_steps(parts, times)).flat_map(move |step| {
        let first = (step + 1).saturating_sub(times);
        (first..parts.min(step + 1)).map(move |part| Block { part, time: step - part })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Everything that each block waits for, directly or not. Blocks come in an order in which waits point back.
    fn closure(order: &[Block], waits: impl Fn(Block) -> Vec<Block>) -> BTreeMap<Block, BTreeSet<Block>> {
        let mut before: BTreeMap<Block, BTreeSet<Block>> = BTreeMap::new();
        for &block in order {
            let mut all = BTreeSet::new();
            for earlier in waits(block) {
                all.extend(before.get(&earlier).expect("the order runs a block before those that wait for it"));
                all.insert(earlier);
            }
            before.insert(block, all);
        }
        before
    }

    fn concurrent(before: &BTreeMap<Block, BTreeSet<Block>>) -> impl Iterator<Item = (Block, Block)> {
        before.iter().flat_map(move |(&one, earlier)| {
            before
                .iter()
                .filter(move |&(&other, later)| other != one && !earlier.contains(&other) && !later.contains(&one))
                .map(move |(&other, _)| (one, other))
        })
    }

    #[test]
    fn a_rotation_runs_each_block_once_and_never_two_of_a_part_or_a_time_at_once() {
        for (parts, ratio) in (1..=5).flat_map(|parts| (1..=3).map(move |ratio| (parts, ratio))) {
            let order: Vec<_> = rotation_order(ratio, parts).collect();
            let distinct: BTreeSet<_> = order.iter().copied().collect();
            assert_eq!((order.len(), distinct.len()), (parts * parts * ratio, parts * parts * ratio));

            let before = closure(&order, |Block { part, time }| {
                let step = rotation_step(part, time, ratio, parts);
                let block = |visit: Visit| Block {
                    part: visit.part,
                    time: rotation_block(visit.part, visit.step, ratio, parts),
                };
                let own = step.checked_sub(1).map(|step| block(Visit { part, step }));
                let passed = rotation_predecessor(Visit { part, step }, ratio, parts).map(block);
                own.into_iter().chain(passed).collect()
            });
            for (one, other) in concurrent(&before) {
                assert!(one.part != other.part && one.time != other.time, "{one:?} {other:?}");
            }
            // Blocks of one step really can run at once.
            let step_of = |block: Block| rotation_step(block.part, block.time, ratio, parts);
            let free: BTreeSet<_> = concurrent(&before).collect();
            for (&one, &other) in distinct.iter().flat_map(|one| distinct.iter().map(move |other| (one, other))) {
                assert!(one == other || step_of(one) != step_of(other) || free.contains(&(one, other)));
            }
        }
    }

    #[test]
    fn a_visit_passes_its_block_to_the_visit_that_expects_it() {
        for (parts, ratio) in (1..=5).flat_map(|parts| (1..=3).map(move |ratio| (parts, ratio))) {
            let steps = rotation_steps(ratio, parts);
            for visit in (0..parts).flat_map(|part| (0..steps).map(move |step| Visit { part, step })) {
                let time = rotation_block(visit.part, visit.step, ratio, parts);
                assert_eq!(rotation_step(visit.part, time, ratio, parts), visit.step);
                match rotation_predecessor(visit, ratio, parts) {
                    Some(earlier) => {
                        assert_eq!(rotation_block(earlier.part, earlier.step, ratio, parts), time);
                        assert_eq!(rotation_successor(earlier, ratio, parts), Some(visit));
                    }
                    None => assert_eq!((visit.part, visit.step), (rotation_first_part(time, ratio), time % ratio)),
                }
            }
        }
    }

    #[test]
    fn a_wavefront_runs_each_block_once_behind_all_that_are_not_ahead_of_it() {
        for (parts, times) in (0..=4).flat_map(|parts| (0..=5).map(move |times| (parts, times))) {
            let order: Vec<_> = wavefront_order(parts, times).collect();
            let distinct: BTreeSet<_> = order.iter().copied().collect();
            assert_eq!((order.len(), distinct.len()), (parts * times, parts * times));
            assert!(order.is_sorted_by_key(|&block| wavefront_step(block)));

            let before = closure(&order, |block| wavefront_predecessors(block).collect());
            for (one, earlier) in &before {
                let expected: BTreeSet<_> = order
                    .iter()
                    .filter(|other| *other != one && other.part <= one.part && other.time <= one.time)
                    .copied()
                    .collect();
                assert_eq!(earlier, &expected);
            }
        }
    }
}
