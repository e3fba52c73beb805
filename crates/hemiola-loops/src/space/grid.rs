//! Keys of a block of a box, in lexicographic order. Skewed blocks add linear constraints.

use crate::plan::{LoopBlock, LoopPlan};
use std::ops::Range;

/// A weighted sum of indices and its allowed values.
#[derive(Clone, Debug)]
pub(crate) struct LinearConstraint {
    weights: Vec<i64>,
    allowed: Range<i64>,
}

/// Keys of a block.
#[derive(Clone, Debug)]
pub(crate) struct BlockKeys<const N: usize> {
    ranges: [Range<usize>; N],
    constraints: Vec<LinearConstraint>,
}

impl<const N: usize> BlockKeys<N> {
    /// Keys of a block of a plan over `extents`.
    pub(crate) fn of(plan: &LoopPlan, extents: &[Range<usize>; N], block: LoopBlock) -> Self {
        let mut ranges = extents.clone();
        let cuts = &plan.cuts;
        if let Some(skew) = &cuts.skew {
            let constraint = |weights: &[i64], bounds: &[i64], at: usize| LinearConstraint {
                weights: weights.to_vec(),
                allowed: bounds[at]..bounds[at + 1],
            };
            let mut constraints = vec![
                constraint(&skew.space, &skew.space_bounds, block.part),
                constraint(&skew.time, &skew.time_bounds, block.time),
            ];
            // A sum of one index is a range of that index, which avoids scanning the others.
            constraints.retain(|constraint| {
                let mut used = (0..N).filter(|dimension| constraint.weights[*dimension] != 0);
                let (Some(only), None) = (used.next(), used.next()) else { return true };
                if constraint.weights[only] != 1 {
                    return true;
                }
                let range = &mut ranges[only];
                let low = (constraint.allowed.start.max(0) as usize).max(range.start);
                *range = low..(constraint.allowed.end.max(0) as usize).min(range.end);
                false
            });
            return Self { ranges, constraints };
        }
        let (space, time) = plan.dimensions;
        if N > 0 {
            ranges[space] = cuts.space[block.part]..cuts.space[block.part + 1];
        }
        if let Some(time) = time {
            ranges[time] = cuts.time[block.time]..cuts.time[block.time + 1];
        }
        Self { ranges, constraints: Vec::new() }
    }

    /// Visits the keys whose positions in lexicographic order lie in `positions`.
    pub(crate) fn for_each(&self, positions: Range<u64>, mut visit: impl FnMut([usize; N])) {
        let mut before = 0;
        self.runs(|mut key, last| {
            let length = last.len() as u64;
            let (from, to) = (positions.start.max(before) - before, positions.end.max(before) - before);
            before += length;
            for index in last.start + from.min(length) as usize..last.start + to.min(length) as usize {
                key[N - 1] = index;
                visit(key);
            }
        });
    }

    /// Number of keys in the block.
    pub(crate) fn count(&self) -> u64 {
        let mut count = 0;
        self.runs(|_, last| count += last.len() as u64);
        count
    }

    /// Visits every combination of all indices but the last, with the range of the last index.
    fn runs(&self, mut visit: impl FnMut([usize; N], Range<usize>)) {
        if self.ranges.iter().any(Range::is_empty) {
            return;
        }
        let mut key: [usize; N] = std::array::from_fn(|dimension| self.ranges[dimension].start);
        loop {
            let last = self.last(&key);
            if !last.is_empty() {
                visit(key, last);
            }
            // Odometer over all dimensions but the last.
            let mut dimension = N - 1;
            loop {
                if dimension == 0 {
                    return;
                }
                dimension -= 1;
                key[dimension] += 1;
                if key[dimension] < self.ranges[dimension].end {
                    break;
                }
                key[dimension] = self.ranges[dimension].start;
            }
        }
    }

    /// Range of the last index that all constraints allow.
    fn last(&self, key: &[usize; N]) -> Range<usize> {
        let range = &self.ranges[N - 1];
        let (mut low, mut high) = (range.start.cast_signed() as i64, range.end.cast_signed() as i64);
        for LinearConstraint { weights, allowed } in &self.constraints {
            let fixed: i64 = (0..N - 1).map(|dimension| weights[dimension] * key[dimension].cast_signed() as i64).sum();
            let (start, end) = (allowed.start - fixed, allowed.end - fixed);
            match weights[N - 1] {
                0 if start <= 0 && 0 < end => {}
                0 => high = low,
                weight if weight > 0 => {
                    low = low.max(ceil_div(start, weight));
                    high = high.min(ceil_div(end, weight));
                }
                // Division by a negative weight reverses the order.
                weight => {
                    low = low.max((-end).div_euclid(-weight) + 1);
                    high = high.min((-start).div_euclid(-weight) + 1);
                }
            }
        }
        if low < high { low as usize..high as usize } else { 0..0 }
    }
}

fn ceil_div(a: i64, b: i64) -> i64 {
    -((-a).div_euclid(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn constraints_select_the_same_keys_as_enumeration(
            ranges in [(0_usize..4, 0_usize..5), (0_usize..4, 0_usize..5), (0_usize..4, 0_usize..5)],
            weights in prop::collection::vec([-3_i64..4, -3_i64..4, -3_i64..4], 0..3),
            allowed in (-10_i64..10, 0_i64..12),
        ) {
            let ranges = ranges.map(|(start, length)| start..start + length);
            let allowed = allowed.0..allowed.0 + allowed.1;
            let constraints: Vec<_> =
                weights.iter().map(|weights| LinearConstraint { weights: weights.to_vec(), allowed: allowed.clone() }).collect();
            let keys = BlockKeys::<3> { ranges: ranges.clone(), constraints };
            let mut found = Vec::new();
            for start in (0..150).step_by(7) {
                keys.for_each(start..start + 7, |key| found.push(key));
            }
            let mut expected = Vec::new();
            for a in ranges[0].clone() {
                for b in ranges[1].clone() {
                    for c in ranges[2].clone() {
                        let [i, j, k] = [a, b, c].map(|index| index.cast_signed() as i64);
                        let inside = |w: &[i64; 3]| allowed.contains(&(w[0] * i + w[1] * j + w[2] * k));
                        if weights.iter().all(inside) {
                            expected.push([a, b, c]);
                        }
                    }
                }
            }
            prop_assert_eq!(keys.count(), expected.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }
}
