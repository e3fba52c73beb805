//! Dealing out jobs of known weight: the heaviest first, each to whoever has the least.
//!
//! With the heaviest first, what is left to even out differences gets ever lighter: nobody ends later than 4/3 of the best possible (Graham 1969). In the order in
//! which they come, a heavy one may be the last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How jobs are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Deal {
    /// The heaviest first, each to whoever has the least.
    HeavyFirst,
    /// In the order they come, by turns: for comparison.
    ByTurns,
}

/// Deals out jobs by their weights: the places of each hand, in the order they should run. Equal weights go in the order they come, so it can be repeated.
///
/// ```
/// use hemiola_schedule::plan::deal::{Deal, deal};
/// assert_eq!(deal(Deal::HeavyFirst, &[1, 7, 2, 4], 2), [vec![1], vec![3, 2, 0]]);
/// assert_eq!(deal(Deal::ByTurns, &[1, 7, 2, 4], 2), [vec![0, 2], vec![1, 3]]);
/// ```
///
/// # Panics
/// If there is nobody to deal to.
#[must_use]
pub fn deal(how: Deal, weights: &[u64], hands: usize) -> Vec<Vec<usize>> {
    assert!(hands > 0, "jobs are dealt to somebody");
    let mut dealt = vec![Vec::new(); hands];
    match how {
        Deal::ByTurns => {
            for place in 0..weights.len() {
                dealt[place % hands].push(place);
            }
        }
        Deal::HeavyFirst => {
            let mut order: Vec<usize> = (0..weights.len()).collect();
            order.sort_by_key(|place| Reverse(weights[*place]));
            // Jobs without weight still take turns.
            let mut loads: BinaryHeap<Reverse<(u64, usize, usize)>> =
                (0..hands).map(|hand| Reverse((0, 0, hand))).collect();
            for place in order {
                let Reverse((load, count, hand)) = loads.pop().expect("there is a hand");
                dealt[hand].push(place);
                loads.push(Reverse((load.saturating_add(weights[place]), count + 1, hand)));
            }
        }
    }
    dealt
}

/// The heaviest hand in shares of the mean: 1 is perfect.
#[must_use]
pub fn imbalance(weights: &[u64], dealt: &[Vec<usize>]) -> f64 {
    let loads = dealt.iter().map(|hand| hand.iter().map(|place| weights[*place]).sum::<u64>());
    let total: u64 = weights.iter().sum();
    let heaviest = loads.max().unwrap_or(0);
    if total == 0 { 1.0 } else { heaviest as f64 * dealt.len() as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_job_is_dealt_once_and_nobody_has_much_more_than_the_best_possible(
            weights in prop::collection::vec(0..100_u64, 0..30),
            hands in 1..6_usize,
        ) {
            for how in [Deal::HeavyFirst, Deal::ByTurns] {
                let dealt = deal(how, &weights, hands);
                prop_assert_eq!(dealt.len(), hands);
                let mut all: Vec<usize> = dealt.iter().flatten().copied().collect();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..weights.len()));
            }
            let dealt = deal(Deal::HeavyFirst, &weights, hands);
            let load = |hand: &Vec<usize>| hand.iter().map(|place| weights[*place]).sum::<u64>();
            let longest = dealt.iter().map(load).max().unwrap();
            // No way to deal them can do better than these.
            let at_best = weights.iter().copied().max().unwrap_or(0).max(weights.iter().sum::<u64>().div_ceil(hands as u64));
            prop_assert!(3 * longest <= 4 * best(&weights, hands, at_best) || weights.len() > 7);
            for hand in &dealt {
                prop_assert!(hand.windows(2).all(|pair| weights[pair[0]] >= weights[pair[1]]));
            }
        }
    }

    /// The best possible, by trying all ways; `at_best` if there are too many of them.
    fn best(weights: &[u64], hands: usize, at_best: u64) -> u64 {
        if weights.len() > 7 {
            return at_best;
        }
        let ways = hands.pow(weights.len() as u32);
        let of = |way: usize| {
            let mut loads = vec![0; hands];
            let mut rest = way;
            for weight in weights {
                loads[rest % hands] += weight;
                rest /= hands;
            }
            loads.into_iter().max().unwrap()
        };
        (0..ways).map(of).min().unwrap()
    }

    #[test]
    fn zipf_words_are_even_only_with_the_heaviest_first() {
        let weights: Vec<u64> = (1..2000_u64).map(|rank| 1_000_000 / rank).collect();
        let mixed: Vec<u64> = (0..weights.len()).map(|place| weights[place * 1103 % weights.len()]).collect();
        let of = |how| imbalance(&mixed, &deal(how, &mixed, 8));
        assert!(
            of(Deal::HeavyFirst) < 1.03 && of(Deal::ByTurns) > 1.2,
            "{} {}",
            of(Deal::HeavyFirst),
            of(Deal::ByTurns)
        );
    }
}
