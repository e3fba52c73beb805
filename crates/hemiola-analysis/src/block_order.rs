//! Order of the blocks of a 2D parallelization, as pure functions.
//!
//! The executor follows these functions, and the tests check them.
//!
//! *Rotation* has `parts` workers and `ratio` time blocks for each, `ratio * parts` time blocks in
//! all. In step `s`, part `p` runs time block `(ratio * p + s) mod (ratio * parts)`:
//!
//! ```text
//!   parts = 3, ratio = 2      step  0  1  2  3  4  5
//!                    part 0         0  1  2  3  4  5
//!                    part 1         2  3  4  5  0  1
//!                    part 2         4  5  0  1  2  3
//! ```
//!
//! After part `p` has run a time block, part `p - 1` runs it `ratio` steps later. With a ratio of
//! two or more the block travels while its next owner still computes. There is no barrier between
//! steps: a part waits only for its own previous step and for the block.
//!
//! *Wavefront*: block `(part, time)` waits for `(part - 1, time)` and `(part, time - 1)`.
//!
//! **Invariant:** every block runs once. Two blocks that these waits do not order differ in part
//! and in time. In a wavefront one of them is ahead in part and the other in time.
//!
//! A step names a visit, not a moment: parts run ahead of each other as their blocks allow.

/// One visit of a rotation: part `part` in its step `step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RotationVisit {
    /// Part that makes the visit.
    pub part: usize,
    /// Step of that part, from 0.
    pub step: usize,
}

/// One block of a 2D parallelization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopBlock {
    /// Index of the block along space.
    pub part: usize,
    /// Index of the block along time.
    pub time: usize,
}

/// Number of steps of each part in a rotation, which is also the number of time blocks.
#[must_use]
pub const fn rotation_steps(ratio: usize, parts: usize) -> usize {
    ratio * parts
}

/// Time block that part `part` runs in step `step` of a rotation.
#[must_use]
pub const fn rotation_block(part: usize, step: usize, ratio: usize, parts: usize) -> usize {
    (ratio * part + step) % rotation_steps(ratio, parts)
}

/// Step in which part `part` runs time block `time` of a rotation: the inverse of
/// [`rotation_block`].
#[must_use]
pub const fn rotation_step(part: usize, time: usize, ratio: usize, parts: usize) -> usize {
    let steps = rotation_steps(ratio, parts);
    (steps + time - ratio * part) % steps
}

/// Part that holds time block `time` when a rotation begins. It runs the block in step
/// `time % ratio`.
#[must_use]
pub const fn rotation_first_part(time: usize, ratio: usize) -> usize {
    time / ratio
}

/// Visit that passes its time block on to this one; `None` for the first visit of a block.
#[must_use]
pub const fn rotation_predecessor(visit: RotationVisit, ratio: usize, parts: usize) -> Option<RotationVisit> {
    match visit.step.checked_sub(ratio) {
        Some(step) => Some(RotationVisit { part: (visit.part + 1) % parts, step }),
        None => None,
    }
}

/// Visit to which this one passes its time block; `None` for the last visit of a block.
#[must_use]
pub const fn rotation_successor(visit: RotationVisit, ratio: usize, parts: usize) -> Option<RotationVisit> {
    let step = visit.step + ratio;
    if step < rotation_steps(ratio, parts) {
        Some(RotationVisit { part: (visit.part + parts - 1) % parts, step })
    } else {
        None
    }
}

/// Iterates over all blocks of a rotation in a serial order equivalent to it: step by step.
pub fn rotation_order(ratio: usize, parts: usize) -> impl Iterator<Item = LoopBlock> {
    (0..rotation_steps(ratio, parts)).flat_map(move |step| {
        (0..parts).map(move |part| LoopBlock { part, time: rotation_block(part, step, ratio, parts) })
    })
}

/// Blocks that a block of a wavefront waits for.
pub fn wavefront_predecessors(block: LoopBlock) -> impl Iterator<Item = LoopBlock> {
    let in_space = block.part.checked_sub(1).map(|part| LoopBlock { part, ..block });
    let in_time = block.time.checked_sub(1).map(|time| LoopBlock { time, ..block });
    in_space.into_iter().chain(in_time)
}

/// Earliest step in which a block of a wavefront can run, if every block takes one step.
#[must_use]
pub const fn wavefront_step(block: LoopBlock) -> usize {
    block.part + block.time
}

/// Number of steps of a wavefront, if every block takes one step.
#[must_use]
pub const fn wavefront_steps(parts: usize, times: usize) -> usize {
    if parts == 0 || times == 0 { 0 } else { parts + times - 1 }
}

/// Iterates over all blocks of a wavefront in a serial order equivalent to it: step by step.
pub fn wavefront_order(parts: usize, times: usize) -> impl Iterator<Item = LoopBlock> {
    (0..wavefront_steps(parts, times)).flat_map(move |step| {
        let first = (step + 1).saturating_sub(times);
        (first..parts.min(step + 1)).map(move |part| LoopBlock { part, time: step - part })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// All blocks that each block waits for, directly or not. `order` lists a block after those it
    /// waits for.
    fn closure(
        order: &[LoopBlock],
        waits: impl Fn(LoopBlock) -> Vec<LoopBlock>,
    ) -> BTreeMap<LoopBlock, BTreeSet<LoopBlock>> {
        let mut before: BTreeMap<LoopBlock, BTreeSet<LoopBlock>> = BTreeMap::new();
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

    fn concurrent(before: &BTreeMap<LoopBlock, BTreeSet<LoopBlock>>) -> impl Iterator<Item = (LoopBlock, LoopBlock)> {
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

            let before = closure(&order, |LoopBlock { part, time }| {
                let step = rotation_step(part, time, ratio, parts);
                let block = |visit: RotationVisit| LoopBlock {
                    part: visit.part,
                    time: rotation_block(visit.part, visit.step, ratio, parts),
                };
                let own = step.checked_sub(1).map(|step| block(RotationVisit { part, step }));
                let passed = rotation_predecessor(RotationVisit { part, step }, ratio, parts).map(block);
                own.into_iter().chain(passed).collect()
            });
            for (one, other) in concurrent(&before) {
                assert!(one.part != other.part && one.time != other.time, "{one:?} {other:?}");
            }
            // Blocks of one step can run concurrently.
            let step_of = |block: LoopBlock| rotation_step(block.part, block.time, ratio, parts);
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
            for visit in (0..parts).flat_map(|part| (0..steps).map(move |step| RotationVisit { part, step })) {
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
    fn a_wavefront_runs_each_block_once_after_all_its_predecessors() {
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
