//! Soundness: every real conflict is in a vector, and every legal parallelization keeps it.

use std::collections::BTreeSet;

use hemiola_analysis::block_order::{
    LoopBlock, RotationVisit, rotation_block, rotation_predecessor, rotation_step, wavefront_predecessors,
};
use hemiola_analysis::{AccessMode, ArrayAccesses, BlockTraversal, LoopSpec, Parallelization, Subscript, analyze};
use proptest::prelude::*;

use crate::block_order::{self, BlockModel};
use crate::generate::{access, program};
use crate::oracle::ConcreteLoop;

/// First conflict that a parallelization does not keep, for a cut of the loop by `seed`.
fn violation(
    program: &ConcreteLoop,
    parallelization: &Parallelization,
    seeds: impl IntoIterator<Item = u64>,
) -> Option<String> {
    let (iterations, conflicts) = (program.iterations(), program.conflicts());
    for seed in seeds {
        let Some(blocks) = BlockModel::cut(parallelization, &iterations, seed) else { continue };
        for conflict in &conflicts {
            if !blocks.keep(&conflict.first, &conflict.second, program.spec.ordered) {
                return Some(format!("{parallelization}: {conflict:?} in {blocks:?}"));
            }
        }
    }
    None
}

proptest! {
    #[test]
    fn every_conflict_is_in_a_vector(program in program()) {
        let analysis = analyze(&program.spec).unwrap();
        for conflict in program.conflicts() {
            let distance = conflict.distance();
            prop_assert!(
                analysis.dependences.iter().any(|dependence| dependence.vector.contains(&distance)),
                "{conflict:?} is in no vector of\n{analysis}"
            );
        }
    }

    #[test]
    fn every_legal_parallelization_keeps_every_conflict(program in program(), seed in any::<u64>()) {
        let analysis = analyze(&program.spec).unwrap();
        for parallelization in analysis.legal() {
            let seeds = (0..4).map(|number| seed.wrapping_add(number));
            prop_assert_eq!(violation(&program, parallelization, seeds), None, "{}", analysis);
        }
    }
}

/// `for [i, j]: w[i] += h[j]; h[j] += w[i]`
fn factorization(ordered: bool) -> ConcreteLoop {
    let array = |dimension| ArrayAccesses {
        name: "a".to_owned(),
        dimensions: 1,
        accesses: vec![access(AccessMode::Update, vec![Subscript::index(dimension)])],
        buffered: Vec::new(),
    };
    ConcreteLoop {
        spec: LoopSpec { dimensions: 2, ordered, arrays: vec![array(0), array(1)] },
        ranges: vec![0..4, 0..5],
        invariants: [].into(),
        seed: 0,
    }
}

/// Guards against a test that cannot fail: these parallelizations are wrong, and the model must
/// detect it.
#[test]
fn the_model_detects_illegal_parallelizations() {
    let unordered = factorization(false);
    assert!(violation(&unordered, &Parallelization::OneD { space: 0 }, 0..32).is_some());
    let rotation = Parallelization::TwoD { space: 0, time: 1, order: BlockTraversal::Rotation };
    assert_eq!(violation(&unordered, &rotation, 0..32), None);
    assert!(violation(&factorization(true), &rotation, 0..32).is_some());

    let mut diagonal = factorization(false);
    diagonal.spec.arrays.truncate(1);
    diagonal.spec.arrays[0].dimensions = 2;
    let at = |j| vec![Subscript::index(0), Subscript::shifted(1, j)];
    let write = |subscripts| access(AccessMode::Write, subscripts);
    let next = vec![Subscript::shifted(0, 1), Subscript::shifted(1, -1)];
    diagonal.spec.arrays[0].accesses = vec![write(at(0)), write(next)];
    let wavefront = Parallelization::TwoD { space: 0, time: 1, order: BlockTraversal::Wavefront };
    assert!(violation(&diagonal, &wavefront, 0..32).is_some());
    let analysis = analyze(&diagonal.spec).unwrap();
    assert!(
        analysis.legal().any(|parallelization| matches!(parallelization, Parallelization::Transformed { .. })),
        "{analysis}"
    );
}

#[test]
fn the_block_order_matches_the_model() {
    for (parts, ratio) in (1..=4).flat_map(|parts| (1..=3).map(move |ratio| (parts, ratio))) {
        let times = parts * ratio;
        let waits = |number: usize| {
            let (part, time) = (number / times, number % times);
            let step = rotation_step(part, time, ratio, parts);
            let number =
                |visit: RotationVisit| visit.part * times + rotation_block(visit.part, visit.step, ratio, parts);
            let own = step.checked_sub(1).map(|step| number(RotationVisit { part, step }));
            own.into_iter()
                .chain(rotation_predecessor(RotationVisit { part, step }, ratio, parts).map(number))
                .collect()
        };
        assert_eq!(ancestors(parts * times, waits), pairs(&block_order::rotation(parts, ratio)));
    }
    for (parts, times) in (1..=4).flat_map(|parts| (1..=5).map(move |times| (parts, times))) {
        let waits = |number: usize| {
            let block = LoopBlock { part: number / times, time: number % times };
            wavefront_predecessors(block).map(|block| block.part * times + block.time).collect()
        };
        assert_eq!(ancestors(parts * times, waits), pairs(&block_order::wavefront(parts, times)));
    }
}

/// All pairs (earlier, later) that a chain of waits links.
fn ancestors(blocks: usize, waits: impl Fn(usize) -> Vec<usize>) -> BTreeSet<(usize, usize)> {
    let mut found = BTreeSet::new();
    for block in 0..blocks {
        let mut open = waits(block);
        while let Some(earlier) = open.pop() {
            if found.insert((earlier, block)) {
                open.extend(waits(earlier));
            }
        }
    }
    found
}

fn pairs(before: &[Vec<bool>]) -> BTreeSet<(usize, usize)> {
    let all = before.iter().enumerate().flat_map(|(x, row)| row.iter().enumerate().map(move |(y, &is)| (x, y, is)));
    all.filter(|(_, _, is)| *is).map(|(x, y, _)| (x, y)).collect()
}
