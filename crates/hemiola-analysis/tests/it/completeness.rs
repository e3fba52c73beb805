//! Completeness of 1D: with indices and literals as subscripts, 1D is illegal only if iterations
//! really conflict across parts.

use std::collections::BTreeMap;

use hemiola_analysis::{Parallelization, analyze};
use proptest::prelude::*;

use crate::generate::wide_program;
use crate::oracle::ConcreteLoop;

/// Dimensions along which no two dependent iterations differ.
///
/// The function examines elements instead of pairs, which are too many here: an element that is
/// written, and touched by iterations with different indices along a dimension, links two that
/// differ there.
fn separable(program: &ConcreteLoop) -> Vec<bool> {
    struct ElementUse {
        written: bool,
        indices: Vec<(i64, i64)>,
    }
    let mut elements: BTreeMap<(usize, Vec<(i64, i64)>), ElementUse> = BTreeMap::new();
    for iteration in program.iterations() {
        for touched in program.touched(&iteration) {
            let key = (touched.array, touched.indices.iter().map(|range| (range.start, range.end)).collect());
            let start =
                || ElementUse { written: false, indices: iteration.iter().map(|&index| (index, index)).collect() };
            let element = elements.entry(key).or_insert_with(start);
            element.written |= touched.writes;
            for ((least, most), &index) in element.indices.iter_mut().zip(&iteration) {
                (*least, *most) = ((*least).min(index), (*most).max(index));
            }
        }
    }
    let written: Vec<_> = elements.values().filter(|element| element.written).collect();
    let fixed =
        |dimension: usize| written.iter().all(|element| element.indices[dimension].0 == element.indices[dimension].1);
    (0..program.spec.dimensions).map(fixed).collect()
}

proptest! {
    #[test]
    fn one_d_is_legal_exactly_if_no_conflict_crosses_parts(mut program in wide_program()) {
        // Elements are compared as single indices here, so rows, which hold many, are left out.
        for array in &mut program.spec.arrays {
            array.dimensions = array.accesses.iter().map(|access| access.subscripts.len()).min().unwrap_or(0);
            for access in &mut array.accesses {
                access.subscripts.to_mut().truncate(array.dimensions);
            }
        }
        let analysis = analyze(&program.spec).unwrap();
        let legal: Vec<bool> = (0..program.spec.dimensions)
            .map(|space| analysis.legal().any(|parallelization| *parallelization == Parallelization::OneD { space }))
            .collect();
        prop_assert_eq!(legal, separable(&program), "{}", analysis);
    }
}
