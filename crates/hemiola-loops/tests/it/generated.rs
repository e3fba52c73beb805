//! Generated loops: random accesses of every class, on random numbers of peers and workers, against the serial execution of
//! the same iterations in the order the plan names. `HEMIOLA_LOOPS` sets how many loops are tried.

use hemiola_analysis::{Access, Mode, Strategy, Subscript};
use hemiola_array::random::Values;
use hemiola_array::{DistArray, MakeArrays};
use hemiola_cluster::standalone;
use hemiola_loops::Plan;
use hemiola_loops::expand::probing::CaptureShared;
use hemiola_loops::expand::testing::{for_each_entry_mut, for_each_index};
use hemiola_loops::expand::{Probe, Site};
use hemiola_loops::plan::{Alternative, ArrayPlan, Choice, Placement};
use hemiola_loops::view::ArrayView;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Numbers that depend on a seed alone.
struct Dice {
    values: Values,
    at: u64,
}

impl Dice {
    fn new(seed: u64) -> Self {
        Self { values: Values::new(seed), at: 0 }
    }

    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.at += 1;
        ((self.values.uniform(self.at, 0, 0.0..limit as f64)) as u64).min(limit - 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Room around the loop's indices for offsets.
const MARGIN: usize = 2;

#[derive(Clone, Debug)]
struct Loop {
    extents: Vec<usize>,
    ordered: bool,
    sparse: bool,
    /// By array (1-D, 2-D, 2-D): accesses in the order the body makes them.
    accesses: Vec<Access>,
    salt: u64,
    /// Extents of the arrays: the largest loop extent and room on both sides.
    side: usize,
}

fn generate(seed: u64) -> Loop {
    let mut dice = Dice::new(seed);
    let dimensions = 1 + dice.below(3) as usize;
    let extents: Vec<usize> = (0..dimensions).map(|_| 1 + dice.below(7) as usize).collect();
    let (sparse, side) = (dice.chance(50), 7 + 2 * MARGIN);
    let mut accesses = Vec::new();
    for _ in 0..=dice.below(4) {
        let name = dice.below(3) as usize;
        let whole_row = name > 0 && dice.chance(40);
        let count = if name == 0 || whole_row { 1 } else { 2 };
        let subscripts: Vec<Subscript> = (0..count).map(|_| subscript(&mut dice, dimensions, side)).collect();
        let mode = [Mode::Read, Mode::Write, Mode::Update][dice.below(3) as usize];
        accesses.push(Access { name, subscripts: Cow::Owned(subscripts), mode, text: "x".into(), line: 0, column: 0 });
    }
    Loop { extents, ordered: dice.chance(40), sparse, accesses, salt: seed, side }
}

/// A loop whose arrays follow its first dimension, a little to both sides: what peers can divide among them in waves.
fn generate_stencil(seed: u64) -> Loop {
    let mut dice = Dice::new(seed ^ 0x57e9);
    let dimensions = 2 + usize::from(dice.chance(30));
    let mut extents: Vec<usize> = (0..dimensions).map(|_| 1 + dice.below(6) as usize).collect();
    extents[0] = 8 + dice.below(17) as usize;
    let side = extents[0] + 2 * MARGIN;
    let near = |dice: &mut Dice, dimension, least: i64| {
        let offset = if dice.chance(50) { 0 } else { least + dice.below(3).cast_signed() };
        Subscript::Index { dimension, offset: offset + MARGIN.cast_signed() as i64 }
    };
    let mut accesses = Vec::new();
    for _ in 0..=1 + dice.below(3) {
        // Mostly the second array, so that it is both read and written.
        let name = [0, 1, 1, 1, 2][dice.below(5) as usize];
        let mut subscripts = vec![near(&mut dice, 0, -1)];
        if name > 0 && dice.chance(95) {
            subscripts.push(if dice.chance(90) {
                near(&mut dice, 1, -1)
            } else {
                subscript(&mut dice, dimensions, side)
            });
        }
        // A cell that all iterations of a row write leaves no way but the serial one.
        let modes = if name == 1 { 3 } else { 1 };
        let mode = [Mode::Read, Mode::Write, Mode::Update][dice.below(modes) as usize];
        accesses.push(Access { name, subscripts: Cow::Owned(subscripts), mode, text: "x".into(), line: 0, column: 0 });
    }
    Loop { extents, ordered: dice.chance(70), sparse: dice.chance(40), accesses, salt: seed, side }
}

fn subscript(dice: &mut Dice, dimensions: usize, side: usize) -> Subscript {
    match dice.below(20) {
        0..=13 => {
            let dimension = dice.below(dimensions as u64) as usize;
            let offset = if dice.chance(60) {
                0
            } else {
                dice.below(2 * MARGIN as u64 + 1).cast_signed() - MARGIN.cast_signed() as i64
            };
            Subscript::Index { dimension, offset: offset + MARGIN.cast_signed() as i64 }
        }
        14..=16 => Subscript::Constant(dice.below(side as u64).cast_signed()),
        17..=18 => Subscript::Invariant("n".into()),
        _ => Subscript::Unknown,
    }
}

fn place(subscript: &Subscript, key: &[usize], of: &Loop) -> usize {
    let (salt, side) = (of.salt, of.side);
    match subscript {
        Subscript::Index { dimension, offset } => key[*dimension].strict_add_signed(*offset as isize),
        Subscript::Constant(value) => *value as usize,
        Subscript::Invariant(_) => salt as usize % side,
        Subscript::Range { .. } => unreachable!("rows are subscripts that are missing"),
        Subscript::Unknown => key.iter().fold(salt, |sum, index| mix(sum, *index as u64)) as usize % side,
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_add(b)
}

/// The body: every cell it reads changes what it writes afterwards, so that any misplaced iteration shows.
fn body(of: &Loop, key: &[usize], value: &mut u64, mut touch: impl FnMut(usize, &[usize], &mut dyn FnMut(&mut u64))) {
    let mut state = key.iter().fold(mix(of.salt, *value), |sum, index| mix(sum, *index as u64));
    for access in &of.accesses {
        let places: Vec<usize> = access.subscripts.iter().map(|subscript| place(subscript, key, of)).collect();
        touch(access.name, &places, &mut |cell| match access.mode {
            Mode::Read => state = mix(state, *cell),
            Mode::Write => *cell = mix(state, 7),
            Mode::Update => {
                *cell = mix(*cell, state);
                state = mix(state, *cell);
            }
        });
    }
    *value = state;
}

type Cells = BTreeMap<(usize, Vec<usize>), u64>;

/// What an array holds before the loop.
fn initial(array: usize, key: &[usize]) -> u64 {
    key.iter().fold(array as u64 + 1, |sum, index| mix(sum, *index as u64))
}

/// Executes the loop serially, in the given order of keys.
fn serial(of: &Loop, keys: &[Vec<usize>]) -> (Cells, BTreeMap<Vec<usize>, u64>) {
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
        body(of, key, &mut value, |array, places, visit| {
            if array > 0 && places.len() == 1 {
                for second in 0..of.side {
                    visit(cells.get_mut(&(array, vec![places[0], second])).unwrap());
                }
            } else {
                visit(cells.get_mut(&(array, places.to_vec())).unwrap());
            }
        });
        values.insert(key.clone(), value);
    }
    (cells, values)
}

/// The keys of the loop in lexicographic order.
fn keys(of: &Loop) -> Vec<Vec<usize>> {
    let mut keys = vec![Vec::new()];
    for extent in &of.extents {
        keys = keys.into_iter().flat_map(|key| (0..*extent).map(move |index| [&key[..], &[index]].concat())).collect();
    }
    keys.retain(|key| !of.sparse || key.iter().fold(of.salt, |sum, index| mix(sum, *index as u64)) % 4 != 0);
    keys
}

/// The same in the order of a plan.
fn in_plan_order(plan: &Plan, keys: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    fn sorted<const N: usize>(plan: &Plan, keys: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let entries =
            keys.into_iter().map(|key| (std::array::from_fn::<u64, N, _>(|at| key[at] as u64), key)).collect();
        plan.in_order(entries).into_iter().map(|(_, key)| key).collect()
    }
    match plan.extents.len() {
        1 => sorted::<1>(plan, keys),
        2 => sorted::<2>(plan, keys),
        _ => sorted::<3>(plan, keys),
    }
}

type View = (ArrayView<u64, 1, true>, (ArrayView<u64, 2, true>, (ArrayView<u64, 2, true>, ())));

fn parallel_body(of: &Loop, view: &mut View, key: &[usize], value: &mut u64) {
    let (x, (y, (z, ()))) = view;
    body(of, key, value, |array, places, visit| match (array, places) {
        (0, [first]) => visit(&mut x[*first]),
        (1, [row]) => y[*row].iter_mut().for_each(visit),
        (1, [row, column]) => visit(&mut y[[*row, *column]]),
        (2, [row]) => z[*row].iter_mut().for_each(visit),
        (2, [row, column]) => visit(&mut z[[*row, *column]]),
        _ => unreachable!("three arrays"),
    });
}

struct Outcome {
    plan: Plan,
    cells: Cells,
    values: BTreeMap<Vec<usize>, u64>,
}

fn parallel<const N: usize>(of: &Loop, site: &'static Site, peers: usize, workers: usize) -> Outcome {
    let mut outcomes = standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let length = of.side as u64;
            let x = cluster.from_fn([length], |[a]| initial(0, &[a as usize]))?;
            let y = cluster.from_fn([length, length], |[a, b]| initial(1, &[a as usize, b as usize]))?;
            let z = cluster.from_fn([length, length], |[a, b]| initial(2, &[a as usize, b as usize]))?;
            let captures = (
                Probe::<_, true>(&x).capture(0),
                (Probe::<_, true>(&y).capture(1), (Probe::<_, true>(&z).capture(2), ())),
            );
            // Any legal way, serial only if there is no other.
            let salt = of.salt;
            let way = move |options: &[Alternative]| salt as usize / 12 % (options.len() - 1).max(1);
            // Any number of blocks, too: as small as these loops are, one block for each part would always be best.
            let ratio = [None, Some(1), Some(2), Some(4), Some(8)][salt as usize % 5];
            let choice = Choice { way: &way, ratio };
            let mut values = BTreeMap::new();
            let run = if of.sparse {
                let chosen = keys(of);
                let shape: [u64; N] = std::array::from_fn(|dimension| of.extents[dimension] as u64);
                let all = cluster.from_fn(shape, |_| 1_u64)?;
                let held = |key: [u64; N]| chosen.binary_search(&key.map(|index| index as usize).to_vec()).is_ok();
                let mut entries: DistArray<u64, N> = all.entries().filter(|key, _| held(key)).materialize()?;
                let body = |view: &mut View, key: [usize; N], value: &mut u64| parallel_body(of, view, &key, value);
                let run = for_each_entry_mut(cluster, site, &mut entries, &captures, body, choice)?;
                for (key, value) in entries.collect()? {
                    values.insert(key.map(|index| index as usize).to_vec(), value);
                }
                run
            } else {
                let ranges: [_; N] = std::array::from_fn(|dimension| 0..of.extents[dimension]);
                let body = |view: &mut View, key: [usize; N]| parallel_body(of, view, &key, &mut 0);
                for_each_index(cluster, site, ranges, &captures, body, choice)?
            };
            let mut cells = Cells::new();
            for ([first], value) in x.collect()? {
                cells.insert((0, vec![first as usize]), value);
            }
            for (number, array) in [(1, &y), (2, &z)] {
                for (key, value) in array.collect()? {
                    cells.insert((number, key.map(|index| index as usize).to_vec()), value);
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

fn check(of: &Loop, peers: usize, workers: usize) -> Plan {
    let indices: &[&str] = &["i", "j", "k"][..of.extents.len()];
    let site: &'static Site = Box::leak(Box::new(Site {
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

#[expect(clippy::disallowed_methods, reason = "how long a test explores is no setting of a cluster")]
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn generated_loops_equal_their_serial_execution_bit_for_bit() {
    let (first, loops) = (number("HEMIOLA_LOOPS_FROM", 0), number("HEMIOLA_LOOPS", 500));
    let mut kinds = BTreeMap::new();
    for seed in first..first + loops {
        // Twelve combinations, in turn, and one worker alone for each loop of them.
        let (peers, workers) = (1 + seed as usize % 3, 1 + seed as usize / 3 % 4);
        let kind = match check(&generate(seed), peers, workers).strategy {
            Strategy::OneD { .. } => "1D".to_owned(),
            Strategy::TwoD { order, .. } => format!("2D {order}"),
            Strategy::Transformed { .. } => "transformed".to_owned(),
            Strategy::Serial => "serial".to_owned(),
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    if loops >= 500 {
        // The test is worth something only if every way to run a loop is among them.
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
            let is = |array: &ArrayPlan| matches!(array.placement, Placement::Halo { sent, .. } if sent == wanted);
            plan.cuts.peers_used > 1 && plan.arrays.iter().any(is)
        };
        sent += usize::from(has(true));
        copied += usize::from(has(false));
        skewed += usize::from(has(true) && plan.cuts.skew.is_some());
    }
    if loops >= 500 {
        assert!(
            sent >= 50 && copied >= 20 && skewed >= 10,
            "{sent} with rows sent on, {skewed} skewed, {copied} copied"
        );
    }
}
