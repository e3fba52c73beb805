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

    /// The share of all weight that an index has.
    pub(super) fn share(&self, index: u64) -> f64 {
        let rank = self.spread.invert(index) as usize;
        let below = if rank == 0 { 0.0 } else { self.cumulative[rank - 1] };
        (self.cumulative[rank] - below) / self.cumulative[self.cumulative.len() - 1]
    }
}

/// The position in a table of ascending sums that a number in `[0, 1)` falls on.
pub(super) fn draw(cumulative: &[f64], unit: f64) -> u64 {
    let target = unit * cumulative.last().copied().unwrap_or(0.0);
    cumulative.partition_point(|&sum| sum <= target).min(cumulative.len().saturating_sub(1)) as u64
}
