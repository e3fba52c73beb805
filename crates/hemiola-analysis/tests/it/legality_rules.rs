//! Legality rules, checked on single distances. The vectors are random instead of derived from a
//! loop, which covers far more shapes than random loops do.

use hemiola_analysis::parallelization::schedule_verdicts;
use hemiola_analysis::{
    BlockTraversal, Dependence, DependenceDistance, DependenceVector, Parallelization, ScheduleVerdict,
};
use proptest::prelude::*;

/// Largest absolute distance that is tried in each dimension.
const MAX_DISTANCE: i64 = 5;

fn element() -> impl Strategy<Value = DependenceDistance> + Clone {
    prop_oneof![
        4 => Just(DependenceDistance::ZERO),
        6 => (-3_i64..=3).prop_map(DependenceDistance::Exact),
        2 => Just(DependenceDistance::Positive),
        1 => Just(DependenceDistance::Negative),
        1 => Just(DependenceDistance::Any),
    ]
}

/// Up to three normalized dependences of a loop with `dimensions` indices.
fn dependences(
    element: impl Strategy<Value = DependenceDistance> + Clone,
) -> impl Strategy<Value = (usize, Vec<Dependence>)> {
    (1_usize..=3).prop_flat_map(move |dimensions| {
        let vector = prop::collection::vec(element.clone(), dimensions).prop_map(DependenceVector::new);
        prop::collection::vec(vector, 0..=3).prop_map(move |vectors| {
            let parts = vectors.iter().flat_map(DependenceVector::normalized);
            (dimensions, parts.map(|vector| Dependence { vector, pairs: Vec::new() }).collect())
        })
    })
}

fn legal(dimensions: usize, ordered: bool, dependences: &[Dependence]) -> Vec<Parallelization> {
    let verdicts = schedule_verdicts(dimensions, ordered, dependences).into_iter();
    verdicts
        .filter_map(
            |verdict| if let ScheduleVerdict::Legal(parallelization) = verdict { Some(parallelization) } else { None },
        )
        .collect()
}

/// All distances up to the limit that some vector contains.
fn distances(dimensions: usize, dependences: &[Dependence]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..dimensions {
        let longer = |start: Vec<i64>| (-MAX_DISTANCE..=MAX_DISTANCE).map(move |next| [&start[..], &[next]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    all.retain(|distance| dependences.iter().any(|dependence| dependence.vector.contains(distance)));
    all
}

/// Returns whether a parallelization keeps the order of two iterations at this distance, however
/// blocks are cut.
fn keeps(parallelization: &Parallelization, ordered: bool, distance: &[i64]) -> bool {
    let waves =
        |space: i64, time: i64| if ordered { space >= 0 && time >= 0 } else { space.signum() * time.signum() >= 0 };
    match parallelization {
        Parallelization::OneD { space } => distance[*space] == 0,
        Parallelization::TwoD { space, time, order: BlockTraversal::Rotation } => {
            !ordered && (distance[*space] == 0 || distance[*time] == 0)
        }
        Parallelization::TwoD { space, time, order: BlockTraversal::Wavefront } => {
            waves(distance[*space], distance[*time])
        }
        Parallelization::Transformed { matrix, space, time } => {
            let coordinates = matrix.apply(distance);
            waves(coordinates[*space], coordinates[*time])
        }
        Parallelization::Serial => true,
    }
}

fn pairs(dimensions: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..dimensions).flat_map(move |space| (0..dimensions).map(move |time| (space, time))).filter(|(s, t)| s != t)
}

proptest! {
    #[test]
    fn a_strategy_without_a_matrix_is_legal_exactly_if_it_keeps_every_distance(
        (dimensions, dependences) in dependences(element()),
        ordered in any::<bool>(),
    ) {
        let (legal, distances) = (legal(dimensions, ordered, &dependences), distances(dimensions, &dependences));
        let one = (0..dimensions).map(|space| Parallelization::OneD { space });
        let two = |order| pairs(dimensions).map(move |(space, time)| Parallelization::TwoD { space, time, order });
        for parallelization in one.chain(two(BlockTraversal::Rotation)).chain(two(BlockTraversal::Wavefront)) {
            let order_allows = !ordered || !matches!(parallelization, Parallelization::TwoD { order: BlockTraversal::Rotation, .. });
            let expected = order_allows && distances.iter().all(|distance| keeps(&parallelization, ordered, distance));
            prop_assert_eq!(legal.contains(&parallelization), expected, "{} {:?}", parallelization, dependences);
        }
    }

    #[test]
    fn a_transformation_keeps_every_distance(
        (dimensions, dependences) in dependences(element()),
        ordered in any::<bool>(),
    ) {
        let distances = distances(dimensions, &dependences);
        for parallelization in legal(dimensions, ordered, &dependences) {
            for distance in &distances {
                prop_assert!(keeps(&parallelization, ordered, distance), "{parallelization} {distance:?} {dependences:?}");
            }
        }
    }

    #[test]
    fn finite_vectors_can_always_be_skewed(
        (dimensions, dependences) in dependences((-3_i64..=3).prop_map(DependenceDistance::Exact)),
        ordered in any::<bool>(),
    ) {
        let legal = legal(dimensions, ordered, &dependences);
        for pair in pairs(dimensions) {
            let found = legal.iter().any(|parallelization| match parallelization {
                Parallelization::TwoD { space, time, order: BlockTraversal::Wavefront } | Parallelization::Transformed { space, time, .. } => {
                    (*space, *time) == pair
                }
                _ => false,
            });
            prop_assert!(found, "{pair:?} {dependences:?}");
        }
    }

    #[test]
    fn the_factor_of_a_skew_is_the_smallest(
        (dimensions, dependences) in dependences((-3_i64..=3).prop_map(DependenceDistance::Exact)),
    ) {
        let distances = distances(dimensions, &dependences);
        for parallelization in legal(dimensions, true, &dependences) {
            let Parallelization::Transformed { matrix, space, time } = parallelization else { continue };
            // Only if time alone is slanted, and by space alone.
            let slant = matrix.row(time);
            if matrix.unchanged(space) != Some(space) || (0..dimensions).any(|d| d != space && d != time && slant[d] != 0) {
                continue;
            }
            let gentler = |distance: &Vec<i64>| distance[time] + (slant[space] - 1) * distance[space];
            prop_assert!(slant[space] > 0 && distances.iter().any(|distance| gentler(distance) < 0));
        }
    }
}
