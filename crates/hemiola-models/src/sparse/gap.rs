//! How far it still is: the best dual point, the duality gap, and what follows from it for columns.
//!
//! Scaled so that no column pulls by more than `l1`, the residual is a point of the dual problem, and its value a lower bound for the objective. The best
//! point seen so far is kept. The dual problem is strongly concave, so its solution is no further from that point than the gap allows; a column that cannot reach
//! `l1` anywhere in that sphere has a coefficient of 0 in the solution and needs no further look (gap-safe screening: Fercoq, Gramfort and Salmon 2015).
//!
//! **Invariant:** columns that are screened out have a coefficient of 0 in every solution of the problem with this penalty.

use super::quadratic::Penalty;

/// Points and columns that belong to one penalty.
#[derive(Clone, Debug)]
pub(super) struct Dual {
    /// The best value.
    pub(super) value: f64,
    /// What each column pulls at the best point.
    pulls: Vec<f64>,
    /// Columns that may have a coefficient, ascending.
    pub(super) alive: Vec<u32>,
}

impl Dual {
    /// Nothing is known yet.
    pub(super) fn new(curve: &[f64]) -> Self {
        let alive = (0..curve.len() as u32).filter(|column| curve[*column as usize] > 0.0).collect();
        Self { value: f64::NEG_INFINITY, pulls: vec![0.0; curve.len()], alive }
    }

    /// A dual point: `scale` times the residual. `pull` is that of a column before scaling.
    pub(super) fn offer(&mut self, value: f64, scale: f64, pull: impl Fn(usize) -> f64) {
        if value > self.value {
            self.value = value;
            for column in &self.alive {
                self.pulls[*column as usize] = scale * pull(*column as usize);
            }
        }
    }

    /// Of some columns those that are not screened out, the gap being what it is and the second derivative of the loss at most `steepest`: a point that may be the
    /// solution lets them pull enough.
    pub(super) fn within_reach(
        &self,
        columns: &[u32],
        penalty: Penalty,
        (gap, steepest): (f64, f64),
        root: &[f64],
    ) -> Vec<u32> {
        let radius = (2.0 * gap).sqrt();
        let reaches = |column: &u32| {
            let at = *column as usize;
            let reach = (steepest * root[at] * root[at] + penalty.l2).sqrt() * radius;
            self.pulls[at].abs() + reach >= penalty.l1
        };
        columns.iter().copied().filter(reaches).collect()
    }
}

/// The `size` columns that are nearest, with their distances, in no order. Of equals, the first.
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
    fn the_best_point_is_kept_and_far_columns_are_screened_out() {
        let mut dual = Dual::new(&[1.0, 1.0, 0.0, 1.0]);
        assert_eq!(dual.alive, [0, 1, 3]);
        dual.offer(1.0, 0.5, |column| [1.0, 0.1, 0.0, 2.0][column]);
        dual.offer(0.5, 1.0, |_| 9.0);
        let penalty = Penalty { l1: 1.0, l2: 0.0 };
        // Pulls are 0.5, 0.05 and 1; only the second cannot reach 1.
        assert_eq!(dual.within_reach(&dual.alive, penalty, (0.18, 1.0), &[1.0; 4]), [0, 3]);
        assert_eq!(dual.within_reach(&dual.alive, penalty, (0.5, 1.0), &[1.0; 4]), [0, 1, 3]);
    }

    #[test]
    fn the_nearest_are_those_however_the_rest_stands() {
        let mut found = nearest(vec![(0.5, 4), (-1.0, 9), (0.2, 3), (0.5, 1), (0.9, 0)], 3);
        found.sort_by_key(|(_, column)| *column);
        assert_eq!(found, [(0.5, 1), (0.2, 3), (-1.0, 9)]);
        assert_eq!(nearest(vec![(0.5, 4)], 3).len(), 1);
    }
}
