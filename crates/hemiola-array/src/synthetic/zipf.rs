//! Drawing from a power law over `0..n`: the item of rank `r` has weight `(r + 1)^-skew`.
//!
//! **Invariant:** a draw is a function of the uniform number given; ranks are spread over the indices by a permutation, so
//! that busy indices are not neighbours unless the caller wants them to be.

use crate::random::{Permutation, Values};

/// A distribution over `0..extent` with a few busy indices.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Sums of weights up to each rank.
    cumulative: Vec<f64>,
    spread: Permutation,
}

impl Zipf {
    pub(super) fn new(extent: u64, skew: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let cumulative = (0..extent)
            .map(|rank| {
                sum += libm::pow(rank as f64 + 1.0, -skew);
                sum
            })
            .collect();
        Self { cumulative, spread: Permutation::new(extent, seed) }
    }

    /// The index that a number in `[0, 1)` falls on.
    pub(super) fn draw(&self, unit: f64) -> u64 {
        self.spread.apply(draw(&self.cumulative, unit))
    }

    /// `count` different indices, drawn from row `row` of `values`, in ascending order.
    pub(super) fn draw_distinct(&self, values: Values, row: u64, count: usize) -> Vec<u64> {
        let extent = self.cumulative.len();
        let count = count.min(extent);
        let mut chosen = std::collections::BTreeSet::new();
        let mut draw = 0;
        // Where few indices are left the busiest ones are drawn again and again; after a while, take them by rank.
        while chosen.len() < count && draw < 8 * count as u64 + 64 {
            chosen.insert(self.draw(values.unit(row, draw)));
            draw += 1;
        }
        let mut rank = 0;
        while chosen.len() < count {
            chosen.insert(self.spread.apply(rank));
            rank += 1;
        }
        chosen.into_iter().collect()
    }

    /// How busy an index is: 0 for the busiest.
    pub(super) fn rank(&self, index: u64) -> usize {
        self.spread.invert(index) as usize
    }

    /// Deals `total` out to ranks in proportion to their weight, to none more than `most`: exactly `total`, or all that has
    /// room. `offset` in `[0, 1)` decides which shares are rounded up; each is within 1 of what is due.
    pub(super) fn deal(&self, total: u64, most: u64, offset: f64) -> Vec<u64> {
        let mut counts = vec![0; self.cumulative.len()];
        let mut left = total.min(most.saturating_mul(counts.len() as u64));
        let all = self.cumulative.last().copied().unwrap_or(0.0);
        let mut below = 0.0;
        // The busiest may be due more than there is room for; what is over goes to the others.
        let mut full = 0;
        while full < counts.len() && (self.cumulative[full] - below) / (all - below) * left as f64 > most as f64 {
            counts[full] = most;
            left -= most;
            below = self.cumulative[full];
            full += 1;
        }
        // Rounding sums instead of shares: what the last sum comes to is exactly what is left.
        let mut dealt = 0;
        for (count, sum) in counts[full..].iter_mut().zip(&self.cumulative[full..]) {
            let upto = ((sum - below) / (all - below) * left as f64 + offset) as u64;
            *count = (upto.min(left) - dealt).min(most);
            dealt += *count;
        }
        // Sums of floats may put one too many where all are nearly full.
        for count in &mut counts[full..] {
            let more = (left - dealt).min(most - *count);
            *count += more;
            dealt += more;
        }
        counts
    }
}

/// The position in a table of ascending sums that a number in `[0, 1)` falls on.
pub(super) fn draw(cumulative: &[f64], unit: f64) -> u64 {
    let target = unit * cumulative.last().copied().unwrap_or(0.0);
    cumulative.partition_point(|&sum| sum <= target).min(cumulative.len().saturating_sub(1)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_dealt_is_exact_and_in_proportion(
            extent in 1_u64..200, skew in 0.0_f64..3.0, most in 1_u64..50, share in 0.0_f64..1.2, offset in 0.0_f64..1.0,
        ) {
            let zipf = Zipf::new(extent, skew, 1);
            let total = ((extent * most) as f64 * share) as u64;
            let counts = zipf.deal(total, most, offset);
            prop_assert_eq!(counts.iter().sum::<u64>(), total.min(extent * most));
            prop_assert!(counts.iter().all(|count| *count <= most));
            for pair in counts.windows(2) {
                prop_assert!(pair[1] <= pair[0] + 1, "{:?}", counts);
            }
        }
    }

    #[test]
    fn shares_are_rounded_to_their_neighbours() {
        let counts = Zipf::new(4, 1.0, 1).deal(25, 100, 0.5);
        // Weights 1, 1/2, 1/3, 1/4: 12, 6, 4 and 3.
        assert_eq!(counts, [12, 6, 4, 3]);
        assert_eq!(Zipf::new(4, 1.0, 1).deal(25, 8, 0.5), [8, 8, 5, 4]);
    }
}
