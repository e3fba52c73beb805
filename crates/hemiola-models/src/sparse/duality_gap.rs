//! Duality gap: the best dual point, the gap, and safe screening of columns.
//!
//! Scaled so that no column has a correlation above `l1`, the residual is a feasible dual point,
//! and its value a lower bound of the objective. The best point so far is kept. The dual problem is
//! strongly concave, so its solution is no further from that point than the gap allows. A column
//! that cannot reach `l1` anywhere in that sphere has a coefficient of 0 in the solution and is
//! dropped (gap-safe screening: Fercoq, Gramfort and Salmon 2015).
//!
//! **Invariant:** screened columns have a coefficient of 0 in every solution of the problem with
//! this penalty.

use super::quadratic::ElasticNetPenalty;

/// Best dual point and active columns for one penalty.
#[derive(Clone, Debug)]
pub(super) struct DualBound {
    /// Dual objective of the best point.
    pub(super) value: f64,
    /// Correlation of each column with the best point.
    correlations: Vec<f64>,
    /// Columns not screened out, ascending.
    pub(super) active: Vec<u32>,
}

impl DualBound {
    /// Starts without a dual point, with all nonconstant columns active.
    pub(super) fn new(curve: &[f64]) -> Self {
        let active = (0..curve.len() as u32).filter(|column| curve[*column as usize] > 0.0).collect();
        Self { value: f64::NEG_INFINITY, correlations: vec![0.0; curve.len()], active }
    }

    /// Offers a dual point: `scale` times the residual. `pull` returns the correlation of a column
    /// before scaling.
    pub(super) fn offer(&mut self, value: f64, scale: f64, correlation: impl Fn(usize) -> f64) {
        if value > self.value {
            self.value = value;
            for column in &self.active {
                self.correlations[*column as usize] = scale * correlation(*column as usize);
            }
        }
    }

    /// Returns the columns that cannot be screened out, given the gap and the largest second
    /// derivative of the loss: some point of the sphere may activate them.
    pub(super) fn unscreened(
        &self,
        columns: &[u32],
        penalty: ElasticNetPenalty,
        (gap, max_curvature): (f64, f64),
        root: &[f64],
    ) -> Vec<u32> {
        let radius = (2.0 * gap).sqrt();
        let reaches = |column: &u32| {
            let at = *column as usize;
            let reach = (max_curvature * root[at] * root[at] + penalty.l2).sqrt() * radius;
            self.correlations[at].abs() + reach >= penalty.l1
        };
        columns.iter().copied().filter(reaches).collect()
    }
}

/// Returns the `size` nearest columns with their distances, unordered; ties go to the first.
pub(super) fn nearest(mut all: Vec<(f64, u32)>, size: usize) -> Vec<(f64, u32)> {
    if size < all.len() {
        all.select_nth_unstable_by(size, |left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
        all.truncate(size);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_dual_point_is_kept_and_distant_columns_are_screened() {
        let mut dual = DualBound::new(&[1.0, 1.0, 0.0, 1.0]);
        assert_eq!(dual.active, [0, 1, 3]);
        dual.offer(1.0, 0.5, |column| [1.0, 0.1, 0.0, 2.0][column]);
        dual.offer(0.5, 1.0, |_| 9.0);
        let penalty = ElasticNetPenalty { l1: 1.0, l2: 0.0 };
        // Correlations are 0.5, 0.05 and 1; only the second cannot reach 1.
        assert_eq!(dual.unscreened(&dual.active, penalty, (0.18, 1.0), &[1.0; 4]), [0, 3]);
        assert_eq!(dual.unscreened(&dual.active, penalty, (0.5, 1.0), &[1.0; 4]), [0, 1, 3]);
    }

    #[test]
    fn nearest_selects_the_smallest_distances() {
        let mut found = nearest(vec![(0.5, 4), (-1.0, 9), (0.2, 3), (0.5, 1), (0.9, 0)], 3);
        found.sort_by_key(|(_, column)| *column);
        assert_eq!(found, [(0.5, 1), (0.2, 3), (-1.0, 9)]);
        assert_eq!(nearest(vec![(0.5, 4)], 3).len(), 1);
    }
}
