//! An array that the analysis calls local or rotating is touched only at the promised indices.

use hemiola_analysis::{ArrayPartitioning, BlockTraversal, Parallelization, offset_range, place_arrays};
use proptest::prelude::*;

use crate::generate::program;

proptest! {
    #[test]
    fn local_and_rotating_arrays_are_touched_only_at_the_index(program in program()) {
        let dimensions = program.spec.dimensions;
        let one = (0..dimensions).map(|space| (Parallelization::OneD { space }, space, None));
        let two = (0..dimensions).flat_map(|space| (0..dimensions).map(move |time| (space, time)));
        let two = two.map(|(space, time)| (Parallelization::TwoD { space, time, order: BlockTraversal::Rotation }, space, Some(time)));
        for (parallelization, space, time) in one.chain(two) {
            let placements = place_arrays(&program.spec, &parallelization);
            for iteration in program.iterations() {
                for touched in program.touched(&iteration) {
                    let (array_dimension, at) = match placements[touched.array].partitioning {
                        ArrayPartitioning::Local { array_dimension, offset } => (array_dimension, iteration[space] + offset),
                        ArrayPartitioning::Rotating { array_dimension, offset } => (array_dimension, iteration[time.unwrap()] + offset),
                        ArrayPartitioning::Whole(_) => continue,
                    };
                    prop_assert_eq!(&touched.indices[array_dimension], &(at..at + 1), "{}", placements[touched.array]);
                }
            }
        }
    }

    #[test]
    fn arrays_are_touched_within_their_offset_range_and_at_both_ends_of_it(program in program()) {
        for loop_dimension in 0..program.spec.dimensions {
            for (number, array) in program.spec.arrays.iter().enumerate() {
                for array_dimension in 0..array.dimensions {
                    let Some((least, greatest)) = offset_range(array, array_dimension, loop_dimension) else { continue };
                    for iteration in program.iterations() {
                        let at = iteration[loop_dimension];
                        let touched = program.touched(&iteration).into_iter().filter(|touched| touched.array == number);
                        let indices: Vec<_> = touched.map(|touched| touched.indices[array_dimension].clone()).collect();
                        prop_assert_eq!(indices.iter().map(|indices| indices.start).min(), Some(at + least));
                        prop_assert_eq!(indices.iter().map(|indices| indices.end).max(), Some(at + greatest + 1));
                    }
                }
            }
        }
    }
}
