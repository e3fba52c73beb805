//! Write buffers against a serial model of their specification.
//!
//! The writes of a worker are private until its block ends (or its flush interval). Then writes to
//! exclusive rows are applied, and all other writes at a barrier of all workers of all peers, in the
//! order of peers, workers and rows. The update rules here depend on the order in which they are
//! applied, so that any other order is detected.

use hemiola_analysis::{Access, AccessMode, BlockTraversal, Parallelization, Subscript};
use hemiola_array::{AccumulatorExt, ArrayExt, DistArray};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_loops::expand::probing::CaptureShared;
use hemiola_loops::expand::testing::for_each_entry_mut;
use hemiola_loops::expand::{CaptureProbe, LoopSite};
use hemiola_loops::plan::{ArrayPlacement, LoopSchedule, PlanAlternative, PlanSelector};
use hemiola_loops::{BufferExt, LoopPlan};
use std::borrow::Cow;
use std::collections::BTreeMap;

const USERS: usize = 37;
const ITEMS: usize = 23;
/// `BufferTestCells` of the array that is served if there are several peers.
const LARGE: usize = 10_000;

const NAMES: &[&str] = &["w", "h", "local", "rotating", "small", "second", "large", "b0", "b1", "b2", "b3", "seen"];

fn mix(cell: u64, update: u64) -> u64 {
    (cell ^ update.rotate_left(9)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(11)
}

/// `BufferTestCells` that an entry reads and adds to, by array (`local`, `rotating`, `small` with `second`,
/// `large`).
fn cell_indices(u: usize, i: usize, value: u64) -> [usize; 4] {
    [u, i, (value as usize * 13 + u) % 11, (value as usize * 397 + i) % LARGE]
}

/// Value that an entry adds.
fn addend(u: usize, i: usize, value: u64) -> u64 {
    value * 3 + (u + i) as u64 + 1
}

fn site(rotates: bool) -> &'static LoopSite {
    let index = |dimension| Subscript::Index { dimension, offset: 0 };
    let access = |name: usize, subscript: Subscript, mode| Access {
        name,
        subscripts: Cow::Owned(vec![subscript]),
        mode,
        text: NAMES[name].into(),
        line: 0,
        column: 0,
    };
    let mut accesses = vec![access(0, index(0), AccessMode::Update)];
    if rotates {
        accesses.push(access(1, index(1), AccessMode::Update));
    }
    let subscripts = || [index(0), index(1), Subscript::Unknown, Subscript::Unknown];
    for ((read, buffer), subscript) in [2, 3, 4, 6].into_iter().zip(7..).zip(subscripts()) {
        accesses.push(access(read, subscript.clone(), AccessMode::Read));
        accesses.push(access(buffer, subscript, AccessMode::Update));
    }
    accesses.push(access(5, Subscript::Unknown, AccessMode::Read));
    Box::leak(Box::new(LoopSite {
        file: "test",
        line: 1,
        column: 1,
        ordered: false,
        repeated: false,
        explain: false,
        indices: &["u", "i"],
        space: "entries",
        names: NAMES,
        accesses: accesses.leak(),
    }))
}

/// Contents of the arrays, and the sum of all values read.
#[derive(Clone, Debug, PartialEq)]
struct BufferTestCells {
    /// `BufferTestCells`, by array as in [`cell_indices`].
    arrays: [Vec<u64>; 4],
    second: Vec<u64>,
    seen: u64,
}

impl BufferTestCells {
    fn new() -> Self {
        let zeros = |count: usize| vec![0; count];
        Self { arrays: [zeros(USERS), zeros(ITEMS), zeros(11), zeros(LARGE)], second: zeros(11), seen: 0 }
    }

    fn apply(&mut self, array: usize, pending: BTreeMap<usize, u64>) {
        for (row, add) in pending {
            let cell = &mut self.arrays[array][row];
            *cell = mix(*cell, add);
            if array == 2 {
                self.second[row] = mix(self.second[row], *cell);
            }
        }
    }
}

/// Serial model of one pass, in the steps of the plan, block by block and chunk by chunk.
fn run_model(cells: &mut BufferTestCells, plan: &LoopPlan, entries: &[([usize; 2], u64)], every: u64) {
    let (parts, times) = (plan.cuts.parts(), plan.cuts.times());
    let mut blocks: Vec<Vec<([usize; 2], u64)>> = vec![Vec::new(); parts * times];
    for (key, value) in plan.in_order(entries.to_vec()) {
        let block = plan.block_of(&key);
        blocks[block.part * times + block.time].push((key, value));
    }
    let exclusive = [2, 3, 4, 6].map(|name: usize| {
        let array = plan.arrays.iter().find(|array| array.name == NAMES[name]).expect("the body reads it");
        matches!(array.placement, ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. })
    });
    assert!(exclusive[0] && !exclusive[2] && !exclusive[3], "{plan}");
    let largest = blocks.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let chunk = usize::try_from(every).unwrap_or(usize::MAX).min(largest);
    let steps = if plan.cuts.schedule == LoopSchedule::Independent { 1 } else { times };
    for step in 0..steps {
        for round in 0..largest.div_ceil(chunk) {
            let mut pending = vec![<[BTreeMap<usize, u64>; 4]>::default(); parts];
            for (part, mine) in pending.iter_mut().enumerate() {
                let time = match plan.cuts.schedule {
                    LoopSchedule::Rotation { ratio } => (ratio * part + step) % times,
                    _ => 0,
                };
                for ([u, i], value) in blocks[part * times + time].chunks(chunk).nth(round).unwrap_or(&[]) {
                    let (u, i) = (*u, *i);
                    for (array, index) in cell_indices(u, i, *value).into_iter().enumerate() {
                        cells.seen += cells.arrays[array][index] % 1_000_003;
                        if array == 2 {
                            cells.seen += cells.second[index] % 1_000_003;
                        }
                        *mine[array].entry(index).or_default() += addend(u, i, *value);
                    }
                }
                for array in (0..4).filter(|array| exclusive[*array]) {
                    cells.apply(array, std::mem::take(&mut mine[array]));
                }
            }
            for array in 0..4 {
                for mine in &mut pending {
                    cells.apply(array, std::mem::take(&mut mine[array]));
                }
            }
        }
    }
}

/// Runs three passes. Returns the contents of the arrays and the expected ones.
fn passes(cluster: &Cluster, every: u64, rotates: bool) -> Result<(BufferTestCells, BufferTestCells)> {
    let all = cluster.from_fn([USERS, ITEMS], |[u, i]| (u * 31 + i * 17) as u64 % 1000)?;
    let mut entries = all.entries().filter(|[u, i], _| (u + i * i) % 5 > 0).materialize()?;
    let list = entries.collect()?;
    let (w, h) = (cluster.zeros::<u64, 1>([USERS])?, cluster.zeros::<u64, 1>([ITEMS])?);
    let (local, rotating) = (cluster.zeros::<u64, 1>([USERS])?, cluster.zeros::<u64, 1>([ITEMS])?);
    let (small, second) = (cluster.zeros::<u64, 1>([11])?, cluster.zeros::<u64, 1>([11])?);
    let large = cluster.zeros::<u64, 1>([LARGE])?;
    let seen = cluster.accumulator::<u64>();
    let rule = |cell: &mut u64, add: u64| *cell = mix(*cell, add);
    let (b0, b1, b3) = (local.buffered(rule), rotating.buffered(rule), large.buffered(rule));
    let b2 = small.buffered_with(&second, |cell: &mut u64, second: &mut u64, add: u64| {
        *cell = mix(*cell, add);
        *second = mix(*second, *cell);
    });
    let b2 = b2.flush_every(every);
    let select = move |options: &[PlanAlternative]| {
        let wanted = |option: &PlanAlternative| match option.parallelization {
            Parallelization::OneD { space } => !rotates && space == 0,
            Parallelization::TwoD { space, order: BlockTraversal::Rotation, .. } => rotates && space == 0,
            _ => false,
        };
        options.iter().position(wanted).expect("this parallelization is legal")
    };
    let mut expected = BufferTestCells::new();
    for pass in 0..3 {
        let captures = (
            CaptureProbe::<_, true>(&w).capture(0),
            (
                CaptureProbe::<_, true>(&h).capture(1),
                (
                    CaptureProbe::<_, false>(&local).capture(2),
                    (
                        CaptureProbe::<_, false>(&rotating).capture(3),
                        (
                            CaptureProbe::<_, false>(&small).capture(4),
                            (
                                CaptureProbe::<_, false>(&second).capture(5),
                                (
                                    CaptureProbe::<_, false>(&large).capture(6),
                                    (
                                        CaptureProbe::<_, true>(&b0).capture(7),
                                        (
                                            CaptureProbe::<_, true>(&b1).capture(8),
                                            (
                                                CaptureProbe::<_, true>(&b2).capture(9),
                                                (
                                                    CaptureProbe::<_, true>(&b3).capture(10),
                                                    (CaptureProbe::<_, true>(&seen).capture(11), ()),
                                                ),
                                            ),
                                        ),
                                    ),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        );
        let run = for_each_entry_mut(
            cluster,
            site(rotates),
            &mut entries,
            &captures,
            |(w, (h, (local, (rotating, (small, (second, (large, (b0, (b1, (b2, (b3, (seen, ())))))))))))),
             [u, i],
             value| {
                w[u] += 1;
                if rotates {
                    h[i] += 1;
                }
                let ([p0, p1, p2, p3], add) = (cell_indices(u, i, *value), addend(u, i, *value));
                for cell in [local[p0], rotating[p1], small[p2], second[p2], large[p3]] {
                    seen.add(cell % 1_000_003);
                }
                b0[p0] += add;
                b1[p1] += add;
                b2[p2] += add;
                b3[p3] += add;
            },
            PlanSelector { select: &select, ratio: Some(1 << pass) },
        )?;
        let served = |array: &&hemiola_loops::plan::ArrayPlan| array.placement == ArrayPlacement::Served;
        assert_eq!(run.plan().arrays.iter().filter(served).count(), usize::from(cluster.size() > 1), "{}", run.plan());
        run_model(&mut expected, run.plan(), &list, every);
    }
    let cells = |array: &DistArray<u64, 1>| {
        array.collect().map(|all| all.into_iter().map(|(_, cell)| cell).collect::<Vec<_>>())
    };
    let arrays = [cells(&local)?, cells(&rotating)?, cells(&small)?, cells(&large)?];
    Ok((BufferTestCells { arrays, second: cells(&second)?, seen: seen.take()? }, expected))
}

#[test]
fn buffers_equal_the_serial_model_bit_for_bit() {
    for (peers, workers) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 4)] {
        for every in [1, 7, 100, u64::MAX] {
            for rotates in [false, true] {
                let results =
                    standalone(peers).workers(workers).run(|cluster| passes(cluster, every, rotates)).unwrap();
                for (found, expected) in results {
                    let what = format!("{peers} peers, {workers} workers, every {every}, rotates {rotates}");
                    for array in 0..4 {
                        assert_eq!(found.arrays[array], expected.arrays[array], "{what}, array {array}");
                    }
                    assert_eq!((found.second, found.seen), (expected.second, expected.seen), "{what}");
                }
            }
        }
    }
}
