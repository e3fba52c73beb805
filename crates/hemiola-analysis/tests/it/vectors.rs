//! The rules of the strategies, checked on single distances: vectors are made up instead of found in a loop, which tries
//! far more shapes of them than random loops do.

use hemiola_analysis::strategy::candidates;
use hemiola_analysis::{Candidate, Dependence, Element, Order, Strategy as Way, Vector};
use proptest::prelude::*;

/// Distances are tried from minus this to this in each dimension.
const REACH: i64 = 5;

fn element() -> impl Strategy<Value = Element> + Clone {
    prop_oneof![
        4 => Just(Element::ZERO),
        6 => (-3_i64..=3).prop_map(Element::Distance),
        2 => Just(Element::Positive),
        1 => Just(Element::Negative),
        1 => Just(Element::Any),
    ]
}

/// Up to three normalized dependences of a loop with `dimensions` indices.
fn dependences(element: impl Strategy<Value = Element> + Clone) -> impl Strategy<Value = (usize, Vec<Dependence>)> {
    (1_usize..=3).prop_flat_map(move |dimensions| {
        let vector = prop::collection::vec(element.clone(), dimensions).prop_map(Vector::new);
        prop::collection::vec(vector, 0..=3).prop_map(move |vectors| {
            let parts = vectors.iter().flat_map(Vector::normalized);
            (dimensions, parts.map(|vector| Dependence { vector, pairs: Vec::new() }).collect())
        })
    })
}

fn legal(dimensions: usize, ordered: bool, dependences: &[Dependence]) -> Vec<Way> {
    let verdicts = candidates(dimensions, ordered, dependences).into_iter();
    verdicts.filter_map(|verdict| if let Candidate::Legal(way) = verdict { Some(way) } else { None }).collect()
}

/// All distances within reach that some vector holds.
fn distances(dimensions: usize, dependences: &[Dependence]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..dimensions {
        let longer = |start: Vec<i64>| (-REACH..=REACH).map(move |next| [&start[..], &[next]].concat());
        all = all.into_iter().flat_map(longer).collect();
    }
    all.retain(|distance| dependences.iter().any(|dependence| dependence.vector.contains(distance)));
    all
}

/// Whether a strategy keeps the order of two iterations at this distance, however blocks are cut.
fn keeps(way: &Way, ordered: bool, distance: &[i64]) -> bool {
    let waves =
        |space: i64, time: i64| if ordered { space >= 0 && time >= 0 } else { space.signum() * time.signum() >= 0 };
    match way {
        Way::OneD { space } => distance[*space] == 0,
        Way::TwoD { space, time, order: Order::Rotation } => {
            !ordered && (distance[*space] == 0 || distance[*time] == 0)
        }
        Way::TwoD { space, time, order: Order::Wavefront } => waves(distance[*space], distance[*time]),
        Way::Transformed { matrix, space, time } => {
            let place = matrix.apply(distance);
            waves(place[*space], place[*time])
        }
        Way::Serial => true,
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
        let one = (0..dimensions).map(|space| Way::OneD { space });
        let two = |order| pairs(dimensions).map(move |(space, time)| Way::TwoD { space, time, order });
        for way in one.chain(two(Order::Rotation)).chain(two(Order::Wavefront)) {
            let order_allows = !ordered || !matches!(way, Way::TwoD { order: Order::Rotation, .. });
            let expected = order_allows && distances.iter().all(|distance| keeps(&way, ordered, distance));
            prop_assert_eq!(legal.contains(&way), expected, "{} {:?}", way, dependences);
        }
    }

    #[test]
    fn a_transformation_keeps_every_distance(
        (dimensions, dependences) in dependences(element()),
        ordered in any::<bool>(),
    ) {
        let distances = distances(dimensions, &dependences);
        for way in legal(dimensions, ordered, &dependences) {
            for distance in &distances {
                prop_assert!(keeps(&way, ordered, distance), "{way} {distance:?} {dependences:?}");
            }
        }
    }

    #[test]
    fn finite_vectors_can_always_be_skewed(
        (dimensions, dependences) in dependences((-3_i64..=3).prop_map(Element::Distance)),
        ordered in any::<bool>(),
    ) {
        let legal = legal(dimensions, ordered, &dependences);
        for pair in pairs(dimensions) {
            let found = legal.iter().any(|way| match way {
                Way::TwoD { space, time, order: Order::Wavefront } | Way::Transformed { space, time, .. } => {
                    (*space, *time) == pair
                }
                _ => false,
            });
            prop_assert!(found, "{pair:?} {dependences:?}");
        }
    }

    #[test]
    fn the_factor_of_a_skew_is_the_smallest(
        (dimensions, dependences) in dependences((-3_i64..=3).prop_map(Element::Distance)),
    ) {
        let distances = distances(dimensions, &dependences);
        for way in legal(dimensions, true, &dependences) {
            let Way::Transformed { matrix, space, time } = way else { continue };
            // Only where time alone is slanted, and by space alone.
            let slant = matrix.row(time);
            if matrix.unchanged(space) != Some(space) || (0..dimensions).any(|d| d != space && d != time && slant[d] != 0) {
                continue;
            }
            let gentler = |distance: &Vec<i64>| distance[time] + (slant[space] - 1) * distance[space];
            prop_assert!(slant[space] > 0 && distances.iter().any(|distance| gentler(distance) < 0));
        }
    }
}
