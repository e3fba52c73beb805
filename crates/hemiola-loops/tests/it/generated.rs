//! Generated loops: random accesses of every class, on several numbers of peers and workers, against
//! a serial execution of the same iterations in the order of the plan. `HEMIOLA_LOOPS` sets the number
//! of loops.

use hemiola_analysis::{Access, AccessMode, Parallelization, Subscript};
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::standalone;
use hemiola_core::rng::PhiloxRng;
use hemiola_loops::LoopPlan;
use hemiola_loops::expand::probing::CaptureShared;
use hemiola_loops::expand::testing::{for_each_entry_mut, for_each_index};
use hemiola_loops::expand::{CaptureProbe, LoopSite};
use hemiola_loops::plan::{ArrayPlacement, ArrayPlan, PlanAlternative, PlanSelector};
use hemiola_loops::view::ArrayView;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Deterministic random numbers from a seed.
struct TestRandom {
    values: PhiloxRng,
    at: u64,
}

impl TestRandom {
    fn new(seed: u64) -> Self {
        Self { values: PhiloxRng::new(seed), at: 0 }
    }

    /// Random number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.at += 1;
        ((self.values.uniform(self.at, 0, 0.0..limit as f64)) as u64).min(limit - 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Margin around the loop indices for offsets.
const MARGIN: usize = 2;

#[derive(Clone, Debug)]
struct GeneratedLoop {
    extents: Vec<usize>,
    ordered: bool,
    sparse: bool,
    /// Accesses of the arrays (1-D, 2-D, 2-D), in the order of the body.
    accesses: Vec<Access>,
    salt: u64,
    /// Extent of the arrays: the largest loop extent plus a margin on both sides.
    side: usize,
}

fn generate(seed: u64) -> GeneratedLoop {
    let mut random = TestRandom::new(seed);
    let dimensions = 1 + random.below(3) as usize;
    let extents: Vec<usize> = (0..dimensions).map(|_| 1 + random.below(7) as usize).collect();
    let (sparse, side) = (random.chance(50), 7 + 2 * MARGIN);
    let mut accesses = Vec::new();
    for _ in 0..=random.below(4) {
        let name = random.below(3) as usize;
        let whole_row = name > 0 && random.chance(40);
        let count = if name == 0 || whole_row { 1 } else { 2 };
        let subscripts: Vec<Subscript> = (0..count).map(|_| subscript(&mut random, dimensions, side)).collect();
        let mode = [AccessMode::Read, AccessMode::Write, AccessMode::Update][random.below(3) as usize];
        accesses.push(Access { name, subscripts: Cow::Owned(subscripts), mode, text: "x".into(), line: 0, column: 0 });
    }
    GeneratedLoop { extents, ordered: random.chance(40), sparse, accesses, salt: seed, side }
}

/// A stencil: its arrays are aligned with its first dimension, with small offsets, so that peers can
/// run it as a wavefront with halos.
fn generate_stencil(seed: u64) -> GeneratedLoop {
    let mut random = TestRandom::new(seed ^ 0x57e9);
    let dimensions = 2 + usize::from(random.chance(30));
    let mut extents: Vec<usize> = (0..dimensions).map(|_| 1 + random.below(6) as usize).collect();
    extents[0] = 8 + random.below(17) as usize;
    let side = extents[0] + 2 * MARGIN;
    let near = |random: &mut TestRandom, dimension, least: i64| {
        let offset = if random.chance(50) { 0 } else { least + random.below(3).cast_signed() };
        Subscript::Index { dimension, offset: offset + MARGIN.cast_signed() as i64 }
    };
    let mut accesses = Vec::new();
    for _ in 0..=1 + random.below(3) {
        // Mostly the second array, so that it is both read and written.
        let name = [0, 1, 1, 1, 2][random.below(5) as usize];
        let mut subscripts = vec![near(&mut random, 0, -1)];
        if name > 0 && random.chance(95) {
            subscripts.push(if random.chance(90) {
                near(&mut random, 1, -1)
            } else {
                subscript(&mut random, dimensions, side)
            });
        }
        // A cell that all iterations of a row write allows only serial execution.
        let modes = if name == 1 { 3 } else { 1 };
        let mode = [AccessMode::Read, AccessMode::Write, AccessMode::Update][random.below(modes) as usize];
        accesses.push(Access { name, subscripts: Cow::Owned(subscripts), mode, text: "x".into(), line: 0, column: 0 });
    }
    GeneratedLoop { extents, ordered: random.chance(70), sparse: random.chance(40), accesses, salt: seed, side }
}

fn subscript(random: &mut TestRandom, dimensions: usize, side: usize) -> Subscript {
    match random.below(20) {
        0..=13 => {
            let dimension = random.below(dimensions as u64) as usize;
            let offset = if random.chance(60) {
                0
            } else {
                random.below(2 * MARGIN as u64 + 1).cast_signed() - MARGIN.cast_signed() as i64
            };
            Subscript::Index { dimension, offset: offset + MARGIN.cast_signed() as i64 }
        }
        14..=16 => Subscript::Constant(random.below(side as u64).cast_signed()),
        17..=18 => Subscript::Invariant("n".into()),
        _ => Subscript::Unknown,
    }
}

fn index_of(subscript: &Subscript, key: &[usize], of: &GeneratedLoop) -> usize {
    let (salt, side) = (of.salt, of.side);
    match subscript {
        Subscript::Index { dimension, offset } => key[*dimension].strict_add_signed(*offset as isize),
        Subscript::Constant(value) => *value as usize,
        Subscript::Invariant(_) => salt as usize % side,
        Subscript::Range { .. } => unreachable!("rows are expressed by missing subscripts"),
        Subscript::Unknown => key.iter().fold(salt, |sum, index| mix(sum, *index as u64)) as usize % side,
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_add(b)
}

/// The body. Every cell it reads changes the values it writes afterwards, so that any iteration out of
/// order is detected.
fn body(
    of: &GeneratedLoop,
    key: &[usize],
    value: &mut u64,
    mut touch: impl FnMut(usize, &[usize], &mut dyn FnMut(&mut u64)),
) {
    let mut state = key.iter().fold(mix(of.salt, *value), |sum, index| mix(sum, *index as u64));
    for access in &of.accesses {
        let cell_key: Vec<usize> = access.subscripts.iter().map(|subscript| index_of(subscript, key, of)).collect();
        touch(access.name, &cell_key, &mut |cell| match access.mode {
            AccessMode::Read => state = mix(state, *cell),
            AccessMode::Write => *cell = mix(state, 7),
            AccessMode::Update => {
                *cell = mix(*cell, state);
                state = mix(state, *cell);
            }
        });
    }
    *value = state;
}

type Cells = BTreeMap<(usize, Vec<usize>), u64>;

/// Initial value of a cell.
fn initial(array: usize, key: &[usize]) -> u64 {
    key.iter().fold(array as u64 + 1, |sum, index| mix(sum, *index as u64))
}

/// Executes the loop serially, in the given order of keys.
fn serial(of: &GeneratedLoop, keys: &[Vec<usize>]) -> (Cells, BTreeMap<Vec<usize>, u64>) {
    let mut cells = Cells::new();
    for first in 0..of.side {
        cells.insert((0, vec![first]), initial(0, &[first]));
        for second in 0..of.side {
            for array in 1..3 {
                cells.insert((array, vec![first, second]), initial(array, &[first, second]));
            }
        }
    }
    let mut values = BTreeMap::new();
    for key in keys {
        let mut value = u64::from(of.sparse);
        body(of, key, &mut value, |array, cell_key, visit| {
            if array > 0 && cell_key.len() == 1 {
                for second in 0..of.side {
                    visit(cells.get_mut(&(array, vec![cell_key[0], second])).unwrap());
                }
            } else {
                visit(cells.get_mut(&(array, cell_key.to_vec())).unwrap());
            }
        });
        values.insert(key.clone(), value);
    }
    (cells, values)
}

/// Keys of the loop in lexicographic order.
fn keys(of: &GeneratedLoop) -> Vec<Vec<usize>> {
    let mut keys = vec![Vec::new()];
    for extent in &of.extents {
        keys = keys.into_iter().flat_map(|key| (0..*extent).map(move |index| [&key[..], &[index]].concat())).collect();
    }
    keys.retain(|key| !of.sparse || key.iter().fold(of.salt, |sum, index| mix(sum, *index as u64)) % 4 != 0);
    keys
}

/// Sorts keys into the order of a plan.
fn in_plan_order(plan: &LoopPlan, keys: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    fn sorted<const N: usize>(plan: &LoopPlan, keys: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let entries = keys.into_iter().map(|key| (std::array::from_fn::<usize, N, _>(|at| key[at]), key)).collect();
        plan.in_order(entries).into_iter().map(|(_, key)| key).collect()
    }
    match plan.extents.len() {
        1 => sorted::<1>(plan, keys),
        2 => sorted::<2>(plan, keys),
        _ => sorted::<3>(plan, keys),
    }
}

type View = (ArrayView<u64, 1, true>, (ArrayView<u64, 2, true>, (ArrayView<u64, 2, true>, ())));

fn parallel_body(of: &GeneratedLoop, view: &mut View, key: &[usize], value: &mut u64) {
    let (x, (y, (z, ()))) = view;
    body(of, key, value, |array, cell_key, visit| match (array, cell_key) {
        (0, [first]) => visit(&mut x[*first]),
        (1, [row]) => y[*row].iter_mut().for_each(visit),
        (1, [row, column]) => visit(&mut y[[*row, *column]]),
        (2, [row]) => z[*row].iter_mut().for_each(visit),
        (2, [row, column]) => visit(&mut z[[*row, *column]]),
        _ => unreachable!("three arrays"),
    });
}

struct Outcome {
    plan: LoopPlan,
    cells: Cells,
    values: BTreeMap<Vec<usize>, u64>,
}

fn parallel<const N: usize>(of: &GeneratedLoop, site: &'static LoopSite, peers: usize, workers: usize) -> Outcome {
    let mut outcomes = standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let length = of.side;
            let x = cluster.from_fn([length], |[a]| initial(0, &[a]))?;
            let y = cluster.from_fn([length, length], |[a, b]| initial(1, &[a, b]))?;
            let z = cluster.from_fn([length, length], |[a, b]| initial(2, &[a, b]))?;
            let captures = (
                CaptureProbe::<_, true>(&x).capture(0),
                (CaptureProbe::<_, true>(&y).capture(1), (CaptureProbe::<_, true>(&z).capture(2), ())),
            );
            // Any legal parallelization; serial only if there is no other.
            let salt = of.salt;
            let select = move |options: &[PlanAlternative]| salt as usize / 12 % (options.len() - 1).max(1);
            // Any number of time blocks, because the planner would always choose one per part for such small
            // loops.
            let ratio = [None, Some(1), Some(2), Some(4), Some(8)][salt as usize % 5];
            let selector = PlanSelector { select: &select, ratio };
            let mut values = BTreeMap::new();
            let run = if of.sparse {
                let chosen = keys(of);
                let shape: [usize; N] = std::array::from_fn(|dimension| of.extents[dimension]);
                let all = cluster.from_fn(shape, |_| 1_u64)?;
                let held = |key: [usize; N]| chosen.binary_search(&key.to_vec()).is_ok();
                let mut entries: DistArray<u64, N> = all.entries().filter(|key, _| held(key)).materialize()?;
                let body = |view: &mut View, key: [usize; N], value: &mut u64| parallel_body(of, view, &key, value);
                let run = for_each_entry_mut(cluster, site, &mut entries, &captures, body, selector)?;
                for (key, value) in entries.collect()? {
                    values.insert(key.to_vec(), value);
                }
                run
            } else {
                let ranges: [_; N] = std::array::from_fn(|dimension| 0..of.extents[dimension]);
                let body = |view: &mut View, key: [usize; N]| parallel_body(of, view, &key, &mut 0);
                for_each_index(cluster, site, ranges, &captures, body, selector)?
            };
            let mut cells = Cells::new();
            for ([first], value) in x.collect()? {
                cells.insert((0, vec![first]), value);
            }
            for (number, array) in [(1, &y), (2, &z)] {
                for (key, value) in array.collect()? {
                    cells.insert((number, key.to_vec()), value);
                }
            }
            Ok((run.plan().clone(), cells, values))
        })
        .unwrap();
    let (plan, cells, values) = outcomes.remove(0);
    for (other, other_cells, other_values) in outcomes {
        assert_eq!(plan, other, "all peers make the same plan");
        assert!(cells == other_cells && values == other_values, "all peers see the same result");
    }
    Outcome { plan, cells, values }
}

fn check(of: &GeneratedLoop, peers: usize, workers: usize) -> LoopPlan {
    let indices: &[&str] = &["i", "j", "k"][..of.extents.len()];
    let site: &'static LoopSite = Box::leak(Box::new(LoopSite {
        file: "generated.rs",
        line: 1,
        column: 1,
        ordered: of.ordered,
        repeated: false,
        explain: false,
        indices,
        space: "generated",
        names: &["x", "y", "z"],
        accesses: Box::leak(of.accesses.clone().into_boxed_slice()),
    }));
    let outcome = match of.extents.len() {
        1 => parallel::<1>(of, site, peers, workers),
        2 => parallel::<2>(of, site, peers, workers),
        _ => parallel::<3>(of, site, peers, workers),
    };
    let context = || format!("seed {}, {peers} peers, {workers} workers: {of:?}\n{}", of.salt, outcome.plan);
    let all = keys(of);
    let (cells, values) = serial(of, &in_plan_order(&outcome.plan, all.clone()));
    assert!(outcome.cells == cells, "cells differ from the plan's serial order; {}", context());
    if of.sparse {
        assert!(outcome.values == values, "values differ from the plan's serial order; {}", context());
    }
    if of.ordered {
        let (cells, _) = serial(of, &all);
        assert!(outcome.cells == cells, "cells differ from the source's order; {}", context());
    }
    outcome.plan
}

#[expect(clippy::disallowed_methods, reason = "the number of tested loops is not a cluster setting")]
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn generated_loops_equal_their_serial_execution_bit_for_bit() {
    let (first, loops) = (number("HEMIOLA_LOOPS_FROM", 0), number("HEMIOLA_LOOPS", 500));
    let mut kinds = BTreeMap::new();
    for seed in first..first + loops {
        // Twelve combinations of peers and workers, in turn.
        let (peers, workers) = (1 + seed as usize % 3, 1 + seed as usize / 3 % 4);
        let kind = match check(&generate(seed), peers, workers).parallelization {
            Parallelization::OneD { .. } => "1D".to_owned(),
            Parallelization::TwoD { order, .. } => format!("2D {order}"),
            Parallelization::Transformed { .. } => "transformed".to_owned(),
            Parallelization::Serial => "serial".to_owned(),
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    if loops >= 500 {
        // The test is meaningful only if it covers every kind of parallelization.
        for kind in ["1D", "2D rotation", "2D wavefront", "transformed", "serial"] {
            assert!(kinds.get(kind).is_some_and(|count| *count >= 5), "{kind}: {kinds:?}");
        }
    }
}

#[test]
fn stencils_on_several_peers_equal_their_serial_execution_bit_for_bit() {
    let (first, loops) = (number("HEMIOLA_LOOPS_FROM", 0), number("HEMIOLA_LOOPS", 500));
    let (mut sent, mut copied, mut skewed) = (0, 0, 0);
    for seed in first..first + loops {
        let (peers, workers) = (2 + seed as usize % 2, 1 + seed as usize / 2 % 4);
        let plan = check(&generate_stencil(seed), peers, workers);
        let has = |wanted: bool| {
            let is = |array: &ArrayPlan| matches!(array.placement, ArrayPlacement::Halo { written, .. } if written == wanted);
            plan.cuts.peers_used > 1 && plan.arrays.iter().any(is)
        };
        sent += usize::from(has(true));
        copied += usize::from(has(false));
        skewed += usize::from(has(true) && plan.cuts.skew.is_some());
    }
    if loops >= 500 {
        assert!(
            sent >= 50 && copied >= 20 && skewed >= 10,
            "{sent} with changed halos, {skewed} skewed, {copied} read-only halos"
        );
    }
}
