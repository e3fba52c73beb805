//! Sampling from a power law over `0..n`: the item of rank `r` has weight `(r + 1)^-skew`.
//!
//! **Invariant:** a sample is a function of the given uniform number. A permutation spreads ranks
//! over the indices, so that busy indices are not neighbours.

use hemiola_core::Seed;
use hemiola_core::rng::{Permutation, PhiloxRng};

/// Zipf distribution over `0..extent`.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// Cumulative weights by rank.
    cumulative: Vec<f64>,
    spread: Permutation,
}

impl Zipf {
    pub(super) fn new(extent: usize, skew: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let cumulative = (0..extent)
            .map(|rank| {
                sum += libm::pow(rank as f64 + 1.0, -skew);
                sum
            })
            .collect();
        Self { cumulative, spread: Permutation::new(extent as u64, Seed(seed)) }
    }

    /// Maps a uniform number in `[0, 1)` to an index.
    pub(super) fn sample(&self, unit: f64) -> usize {
        self.spread.apply(sample_cumulative(&self.cumulative, unit) as u64) as usize
    }

    /// Samples `count` distinct indices from row `row` of `rng`, in ascending order.
    pub(super) fn sample_distinct(&self, rng: PhiloxRng, row: usize, count: usize) -> Vec<usize> {
        let extent = self.cumulative.len();
        let count = count.min(extent);
        let mut chosen = std::collections::BTreeSet::new();
        let mut draw = 0;
        // If few indices are left, the busiest ones are drawn again and again; then take indices by
        // rank.
        while chosen.len() < count && draw < 8 * count as u64 + 64 {
            chosen.insert(self.sample(rng.random_f64(row as u64, draw)));
            draw += 1;
        }
        let mut rank = 0;
        while chosen.len() < count {
            chosen.insert(self.spread.apply(rank) as usize);
            rank += 1;
        }
        chosen.into_iter().collect()
    }

    /// Rank of an index: 0 for the busiest.
    pub(super) fn rank(&self, index: usize) -> usize {
        self.spread.invert(index as u64) as usize
    }

    /// Apportions `total` to ranks in proportion to their weight, at most `most` to each. The sum
    /// is exactly `total`, or the full capacity if that is smaller. `offset` in `[0, 1)` decides
    /// which shares are rounded up; each is within 1 of its quota.
    pub(super) fn apportion(&self, total: usize, most: usize, offset: f64) -> Vec<usize> {
        let mut counts = vec![0; self.cumulative.len()];
        let mut left = total.min(most.saturating_mul(counts.len()));
        let all = self.cumulative.last().copied().unwrap_or(0.0);
        let mut below = 0.0;
        // The busiest ranks may exceed the maximum; the excess goes to the others.
        let mut full = 0;
        while full < counts.len() && (self.cumulative[full] - below) / (all - below) * left as f64 > most as f64 {
            counts[full] = most;
            left -= most;
            below = self.cumulative[full];
            full += 1;
        }
        // Rounding cumulative sums instead of shares makes the last sum exactly what is left.
        let mut assigned = 0;
        for (count, sum) in counts[full..].iter_mut().zip(&self.cumulative[full..]) {
            let upto = ((sum - below) / (all - below) * left as f64 + offset) as usize;
            *count = (upto.min(left) - assigned).min(most);
            assigned += *count;
        }
        // Floating-point sums may assign one too many where all are nearly full.
        for count in &mut counts[full..] {
            let more = (left - assigned).min(most - *count);
            *count += more;
            assigned += more;
        }
        counts
    }
}

/// Position in a table of cumulative weights for a uniform number in `[0, 1)`.
pub(super) fn sample_cumulative(cumulative: &[f64], unit: f64) -> usize {
    let target = unit * cumulative.last().copied().unwrap_or(0.0);
    cumulative.partition_point(|&sum| sum <= target).min(cumulative.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn apportionment_is_exact_and_proportional(
            extent in 1_usize..200, skew in 0.0_f64..3.0, most in 1_usize..50, share in 0.0_f64..1.2, offset in 0.0_f64..1.0,
        ) {
            let zipf = Zipf::new(extent, skew, 1);
            let total = ((extent * most) as f64 * share) as usize;
            let counts = zipf.apportion(total, most, offset);
            prop_assert_eq!(counts.iter().sum::<usize>(), total.min(extent * most));
            prop_assert!(counts.iter().all(|count| *count <= most));
            for pair in counts.windows(2) {
                prop_assert!(pair[1] <= pair[0] + 1, "{:?}", counts);
            }
        }
    }

    #[test]
    fn shares_are_rounded_to_their_neighbours() {
        let counts = Zipf::new(4, 1.0, 1).apportion(25, 100, 0.5);
        // Weights 1, 1/2, 1/3, 1/4: 12, 6, 4 and 3.
        assert_eq!(counts, [12, 6, 4, 3]);
        assert_eq!(Zipf::new(4, 1.0, 1).apportion(25, 8, 0.5), [8, 8, 5, 4]);
    }
}
