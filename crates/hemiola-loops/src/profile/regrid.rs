//! Conversion of a joint histogram to other ranges.
//!
//! A cell of the old grid is divided among cells of the new grid in proportion to the entries per
//! index, as if both dimensions were independent inside the cell.
//!
//! **Invariant:** the total is preserved. Where new ranges are unions of old ones, counts are
//! exact.

use hemiola_array::{Histogram, JointHistogram};

/// Shares of an old range: indices of new ranges with their fractions.
type Shares = Vec<(usize, f64)>;

/// Converts the histogram to the ranges of `bounds`.
pub(super) fn regrid(
    joint: &JointHistogram,
    bounds: [Vec<usize>; 2],
    histograms: [Option<&Histogram>; 2],
) -> JointHistogram {
    let shares: [Vec<Shares>; 2] =
        std::array::from_fn(|at| split_ranges(&joint.bounds()[at], &bounds[at], histograms[at]));
    let across = bounds[1].len() - 1;
    let mut counts = vec![0.0; (bounds[0].len() - 1) * across];
    for (row, rows) in shares[0].iter().enumerate() {
        for (column, columns) in shares[1].iter().enumerate() {
            let count = joint.count(row, column) as f64;
            for (first, share) in rows {
                for (second, other) in columns {
                    counts[first * across + second] += count * share * other;
                }
            }
        }
    }
    let starts = bounds.clone();
    let mut new = JointHistogram::new(joint.dimensions(), bounds);
    // Rounding errors are carried to the next cell, so that the total is preserved.
    let (mut sum, mut given) = (0.0_f64, 0_u64);
    for (at, count) in counts.into_iter().enumerate() {
        sum += count;
        let due = (sum.round() as u64).saturating_sub(given);
        let (first, second) = (starts[0][at / across], starts[1][at % across]);
        if due > 0 {
            new.add_weight(first, second, due);
            given += due;
        }
    }
    new
}

/// Shares of each old range in the new ranges.
fn split_ranges(old: &[usize], new: &[usize], histogram: Option<&Histogram>) -> Vec<Shares> {
    let mass = cumulative_entries(histogram);
    old.windows(2)
        .map(|range| {
            let all = mass(range[1]) - mass(range[0]);
            let first = new.partition_point(|bound| *bound <= range[0]).saturating_sub(1);
            let overlaps = (first..new.len() - 1).take_while(|at| new[*at] < range[1]).map(|at| {
                let (start, end) = (new[at].max(range[0]), new[at + 1].min(range[1]));
                (at, mass(end) - mass(start))
            });
            let overlaps: Shares = overlaps.filter(|(_, share)| *share > 0.0).collect();
            if all > 0.0 { overlaps.into_iter().map(|(at, share)| (at, share / all)).collect() } else { Vec::new() }
        })
        .collect()
}

/// Cumulative number of entries below a bound; the identity if there is no histogram (uniform
/// entries).
fn cumulative_entries(histogram: Option<&Histogram>) -> impl Fn(usize) -> f64 {
    let (width, counts) = histogram.map_or((1, &[][..]), |histogram| (histogram.width(), histogram.counts()));
    let mut below = vec![0_u64];
    for count in counts {
        below.push(below[below.len() - 1] + count);
    }
    move |bound| {
        if below.len() == 1 {
            return bound as f64;
        }
        let bin = (bound / width).min(below.len() - 2);
        let inside = (bound - bin * width) as f64 / width as f64;
        below[bin] as f64 + inside.min(1.0) * (below[bin + 1] - below[bin]) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joint(bounds: [Vec<usize>; 2], entries: &[(usize, usize, u64)]) -> JointHistogram {
        let mut joint = JointHistogram::new([0, 1], bounds);
        for (first, second, weight) in entries {
            joint.add_weight(*first, *second, *weight);
        }
        joint
    }

    #[test]
    fn unions_of_ranges_are_exact() {
        let fine = joint([vec![0, 2, 4, 6], vec![0, 1, 3]], &[(0, 0, 5), (2, 1, 7), (5, 2, 11)]);
        let coarse = regrid(&fine, [vec![0, 4, 6], vec![0, 3]], [None, None]);
        assert_eq!([coarse.count(0, 0), coarse.count(1, 0)], [12, 11]);
    }

    #[test]
    fn split_ranges_follow_the_histogram_and_preserve_the_total() {
        let coarse = joint([vec![0, 4], vec![0, 3]], &[(0, 0, 100)]);
        let mut histogram = Histogram::new(4, 4);
        for (index, count) in [(0, 10), (1, 20), (2, 30), (3, 40)] {
            histogram.add_weight(index, count);
        }
        let fine = regrid(&coarse, [vec![0, 1, 2, 4], vec![0, 1, 3]], [Some(&histogram), None]);
        let by_first = |first| fine.count(first, 0) + fine.count(first, 1);
        assert_eq!([by_first(0), by_first(1), by_first(2)], [10, 20, 70]);
        assert!((fine.count(2, 0) as f64 - 70.0 / 3.0).abs() <= 1.0);
        assert_eq!(fine.total(), 100);
    }
}
