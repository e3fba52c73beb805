//! Numbers of time blocks for synthetic entry counts.

use super::*;
use crate::plan::choose::choose;
use crate::plan::{LoopPlan, PlanSelector, SkewedCuts};
use hemiola_analysis::{Access, AccessMode, ArrayAccesses, LoopSpec, Subscript, analyze};
use hemiola_array::{Histogram, JointHistogram, Partitioner};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;

/// Entries of a sparse two-dimensional space, with weights.
type Entries = Vec<([usize; 2], u64)>;

/// Plan of `w[i] += h[j]; h[j] += w[i]` over the entries, with rows of `row` cells.
fn plan(extents: [usize; 2], entries: &Entries, (peers, workers): (usize, usize), row: usize) -> LoopPlan {
    let update = |dimension| Access {
        name: dimension,
        subscripts: Cow::Owned(vec![Subscript::index(dimension)]),
        mode: AccessMode::Update,
        text: "x".into(),
        line: 0,
        column: 0,
    };
    let array = |name: &str, dimension| ArrayAccesses {
        name: name.to_owned(),
        dimensions: 2,
        accesses: vec![update(dimension)],
        buffered: vec![],
    };
    let spec = LoopSpec { dimensions: 2, ordered: false, arrays: vec![array("w", 0), array("h", 1)] };
    let analysis = analyze(&spec).unwrap();
    let histograms: Vec<_> = (0..2)
        .map(|dimension| {
            let mut histogram = Histogram::new(extents[dimension], 1 << 20);
            for (key, weight) in entries {
                histogram.add_weight(key[dimension], *weight);
            }
            Some(Arc::new(histogram))
        })
        .collect();
    let candidates = candidate_cuts(&analysis, peers, workers, true);
    let cut = |(dimension, parts): &(usize, usize)| {
        let cut = Partitioner::balanced(histograms[*dimension].as_ref().unwrap(), *parts);
        std::iter::once(0).chain(cut.ranges().map(|range| range.end)).collect::<Vec<_>>()
    };
    let bounds: BTreeMap<_, _> = candidates.cuts.iter().map(|wanted| (*wanted, cut(wanted))).collect();
    let joints = candidates.pairs.iter().map(|pair| {
        let mut joint = JointHistogram::new(*pair, pair.map(|dimension| finest_bounds(&bounds, dimension)));
        for (key, weight) in entries {
            joint.add_weight(key[pair[0]], key[pair[1]], *weight);
        }
        Arc::new(joint)
    });
    let input = PlannerInput {
        title: "a loop".to_owned(),
        space_text: "entries",
        extents: extents.map(|extent| 0..extent).to_vec(),
        entries: entries.iter().map(|(_, weight)| weight).sum(),
        joints: joints.collect(),
        histograms,
        bounds,
        max_ratio: candidates.max_ratio,
        memo: &PredictionMemo::default(),
        sortable: true,
        rows_only: false,
        arrays: extents.map(|extent| (vec![extent, row], 4)).to_vec(),
        buffer_groups: Vec::new(),
        peers,
        workers,
    };
    // The first alternative is a rotation along the second dimension.
    choose(&spec, analysis, &input, PlanSelector { select: &|_| 0, ratio: None })
}

/// Entry counts of a plan's blocks, counted one by one.
fn counted(plan: &LoopPlan, entries: &Entries) -> BlockCounts {
    let mut blocks = BlockCounts::new(plan.cuts.parts(), plan.cuts.times());
    for (key, weight) in entries {
        blocks.add(plan.block_of(key), *weight);
    }
    blocks
}

#[test]
fn uniform_entries_get_the_default_ratio() {
    let entries: Entries = (0..400).flat_map(|i| (0..200).map(move |j| ([i, j], 50))).collect();
    for (peers, workers) in [(1, 2), (1, 4), (2, 1), (2, 2)] {
        let plan = plan([400, 200], &entries, (peers, workers), 16);
        assert_eq!(plan.cuts.schedule, LoopSchedule::Rotation { ratio: DEFAULT_ROTATION_RATIO }, "{plan}");
        assert!(plan.prediction.as_ref().unwrap().relative_time() < 1.05, "{plan}");
    }
}

#[test]
fn entries_in_stripes_get_more_blocks_where_that_balances_better() {
    // Each stripe of time belongs almost to one part alone. With eight blocks, parts wait for
    // blocks that others still run.
    const FAVOURITE: [usize; 16] = [1, 0, 3, 0, 2, 3, 2, 1, 1, 2, 0, 3, 3, 2, 1, 0];
    let weight = |i: usize, j: usize| if FAVOURITE[j / 12] == i / 100 { 200 } else { 4 };
    let entries: Entries = (0..400).flat_map(|i| (0..192).map(move |j| ([i, j], weight(i, j)))).collect();
    let plan = plan([400, 192], &entries, (1, 4), 16);
    let prediction = plan.prediction.clone().unwrap();
    let with = |ratio: usize| prediction.trials.iter().find(|tried| tried.ratio == ratio).unwrap().relative_time;
    assert!(prediction.ratio > DEFAULT_ROTATION_RATIO, "{plan}");
    assert!(prediction.relative_time() < 1.05 && with(DEFAULT_ROTATION_RATIO) > 1.3, "{plan}");
    assert_eq!(plan.cuts.times(), prediction.ratio * 4);
    let text = plan.to_string();
    let expected = format!("{} time blocks per part: predicted time", prediction.ratio);
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn few_entries_get_few_blocks() {
    // So few entries that a hand-off takes longer than a block.
    let entries: Entries = (0..40).flat_map(|i| (0..40).map(move |j| ([i, j], 1))).collect();
    let plan = plan([40, 40], &entries, (1, 4), 1);
    assert_eq!(plan.prediction.as_ref().map(|prediction| prediction.ratio), Some(1), "{plan}");
}

#[test]
fn plans_do_not_depend_on_which_workers_share_a_peer() {
    let weight = |i: usize, j: usize| if (i * 7 + j * 3) % 11 < 3 { 90 } else { 5 };
    let entries: Entries = (0..300).flat_map(|i| (0..200).map(move |j| ([i, j], weight(i, j)))).collect();
    let plans = [(1, 6), (2, 3), (3, 2), (6, 1)].map(|shape| plan([300, 200], &entries, shape, 64));
    for plan in &plans {
        assert_eq!((&plan.prediction, &plan.cuts.time), (&plans[0].prediction, &plans[0].cuts.time), "{plan}");
    }
}

proptest! {
    #[test]
    fn predictions_are_made_from_the_counts_of_the_blocks(
        weights in prop::collection::vec(0_u64..1000, 24 * 24), peers in 1_usize..3, workers in 1_usize..4,
    ) {
        let key = |at: usize| [at / 24, at % 24];
        let entries: Entries = weights.iter().enumerate().map(|(at, weight)| (key(at), *weight)).collect();
        let plan = plan([24, 24], &entries, (peers, workers), 8);
        prop_assert_eq!(plan.prediction.is_some(), peers * workers > 1);
        if let (Some(prediction), LoopSchedule::Rotation { ratio }) = (&plan.prediction, plan.cuts.schedule) {
            prop_assert_eq!(ratio, prediction.ratio);
            let cells = 16;
            let unit_times = crate::plan::cost::unit_times(&plan.arrays, cells, plan.cuts.parts(), false);
            let blocks = counted(&plan, &entries);
            let expected = makespan(&blocks, BlockOrder::Rotation { ratio }, &unit_times) as f64 / balanced_time(&blocks, &unit_times) as f64;
            prop_assert!((prediction.relative_time() - expected).abs() < 1e-12, "{} {}", expected, plan);
        }
    }

    #[test]
    fn skewed_counts_equal_enumeration(
        extents in [(0_usize..5, 1_usize..8), (0_usize..5, 1_usize..8), (0_usize..5, 1_usize..12)],
        weights in [[-2_i64..3, -2_i64..3, -2_i64..3], [-2_i64..3, -2_i64..3, -2_i64..3]],
        ends in [prop::collection::btree_set(-40_i64..40, 1..4), prop::collection::btree_set(-40_i64..40, 1..4)],
    ) {
        // At most 64 lines, so that all are sampled.
        let extents = extents.map(|(start, length)| start..start + length);
        let bounds = ends.map(|ends| [-1000].into_iter().chain(ends).chain([1000]).collect::<Vec<i64>>());
        let skew = SkewedCuts {
            space: weights[0].to_vec(),
            time: weights[1].to_vec(),
            space_bounds: bounds[0].clone(),
            time_bounds: bounds[1].clone(),
            unskewed_space: false,
        };
        let cuts = Cuts {
            space: vec![0; bounds[0].len()],
            time: vec![0; bounds[1].len()],
            skew: Some(skew),
            peers_used: 1,
            schedule: LoopSchedule::Wavefront,
        };
        let input = PlannerInput {
            title: String::new(),
            space_text: "",
            extents: extents.to_vec(),
            entries: 0,
            histograms: vec![None; 3],
            bounds: BTreeMap::new(),
            joints: Vec::new(),
            max_ratio: 8,
            memo: &PredictionMemo::default(),
            sortable: false,
            rows_only: false,
            arrays: Vec::new(),
            buffer_groups: Vec::new(),
            peers: 1,
            workers: 1,
        };
        let parallelization = hemiola_analysis::Parallelization::Serial;
        let mut expected = BlockCounts::new(cuts.parts(), cuts.times());
        for a in extents[0].clone() {
            for b in extents[1].clone() {
                for c in extents[2].clone() {
                    expected.add(cuts.block_of(&[a, b, c], 0, None), 1);
                }
            }
        }
        prop_assert_eq!(count_entries(&input, &parallelization, &cuts).unwrap(), expected);
    }
}

#[test]
fn any_number_of_workers_has_a_plan() {
    // From 171 workers on, the grid is too large to count entries by two dimensions, and the
    // default is used.
    let entries: Entries = (0..300).map(|at| ([at % 100, at % 70], 1)).collect();
    for (peers, workers) in [(1, 1), (1, 170), (1, 171), (2, 86), (1, 255), (3, 400), (1, 4096)] {
        let plan = plan([100, 70], &entries, (peers, workers), 8);
        assert!(!plan.order().is_empty(), "{peers} x {workers}");
    }
}
