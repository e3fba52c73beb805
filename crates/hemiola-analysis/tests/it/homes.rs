//! An array that is said to be local or rotating is touched only where the iteration says.

use hemiola_analysis::{Home, Order, Strategy as Way, place, reach};
use proptest::prelude::*;

use crate::generate::program;

proptest! {
    #[test]
    fn local_and_rotating_arrays_are_touched_only_at_the_index(program in program()) {
        let dimensions = program.spec.dimensions;
        let one = (0..dimensions).map(|space| (Way::OneD { space }, space, None));
        let two = (0..dimensions).flat_map(|space| (0..dimensions).map(move |time| (space, time)));
        let two = two.map(|(space, time)| (Way::TwoD { space, time, order: Order::Rotation }, space, Some(time)));
        for (way, space, time) in one.chain(two) {
            let placements = place(&program.spec, &way);
            for iteration in program.iterations() {
                for touched in program.touched(&iteration) {
                    let (array_dimension, at) = match placements[touched.array].home {
                        Home::Local { array_dimension, offset } => (array_dimension, iteration[space] + offset),
                        Home::Rotating { array_dimension, offset } => (array_dimension, iteration[time.unwrap()] + offset),
                        Home::Whole(_) => continue,
                    };
                    prop_assert_eq!(&touched.places[array_dimension], &(at..at + 1), "{}", placements[touched.array]);
                }
            }
        }
    }

    #[test]
    fn arrays_are_touched_within_their_reach_and_at_both_ends_of_it(program in program()) {
        for loop_dimension in 0..program.spec.dimensions {
            for (number, array) in program.spec.arrays.iter().enumerate() {
                for array_dimension in 0..array.dimensions {
                    let Some((least, greatest)) = reach(array, array_dimension, loop_dimension) else { continue };
                    for iteration in program.iterations() {
                        let at = iteration[loop_dimension];
                        let touched = program.touched(&iteration).into_iter().filter(|touched| touched.array == number);
                        let places: Vec<_> = touched.map(|touched| touched.places[array_dimension].clone()).collect();
                        prop_assert_eq!(places.iter().map(|places| places.start).min(), Some(at + least));
                        prop_assert_eq!(places.iter().map(|places| places.end).max(), Some(at + greatest + 1));
                    }
                }
            }
        }
    }
}
