//! Where subscripts are loop indices and literals, 1D is refused only if iterations really meet across parts.

use std::collections::BTreeMap;

use hemiola_analysis::{Strategy, analyze};
use proptest::prelude::*;

use crate::generate::wide_program;
use crate::oracle::Program;

/// The dimensions along which no two iterations that depend on each other differ.
///
/// Instead of pairs, which are too many here, elements are looked at: one that is written and touched by iterations with
/// different indices along a dimension links two that differ there.
fn separable(program: &Program) -> Vec<bool> {
    struct Element {
        written: bool,
        indices: Vec<(i64, i64)>,
    }
    let mut elements: BTreeMap<(usize, Vec<(i64, i64)>), Element> = BTreeMap::new();
    for iteration in program.iterations() {
        for touched in program.touched(&iteration) {
            let key = (touched.array, touched.places.iter().map(|range| (range.start, range.end)).collect());
            let start = || Element { written: false, indices: iteration.iter().map(|&index| (index, index)).collect() };
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
    fn one_d_is_legal_exactly_where_nothing_meets_across_parts(mut program in wide_program()) {
        // Elements are compared as places here, so that rows, which hold many, are left out.
        for array in &mut program.spec.arrays {
            array.dimensions = array.accesses.iter().map(|access| access.subscripts.len()).min().unwrap_or(0);
            for access in &mut array.accesses {
                access.subscripts.to_mut().truncate(array.dimensions);
            }
        }
        let analysis = analyze(&program.spec).unwrap();
        let legal: Vec<bool> = (0..program.spec.dimensions)
            .map(|space| analysis.legal().any(|strategy| *strategy == Strategy::OneD { space }))
            .collect();
        prop_assert_eq!(legal, separable(&program), "{}", analysis);
    }
}
