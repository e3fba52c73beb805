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

    /// Screens columns out, the gap being what it is and the second derivative of the loss at most `steepest`: no point that may be the solution lets them pull
    /// enough. Those whose coefficient is not 0 yet are returned.
    pub(super) fn screen(
        &mut self,
        penalty: Penalty,
        (gap, steepest): (f64, f64),
        root: &[f64],
        coefficients: &[f64],
    ) -> Vec<u32> {
        let Self { pulls, alive, .. } = self;
        let radius = (2.0 * gap).sqrt();
        let mut left = Vec::new();
        alive.retain(|column| {
            let at = *column as usize;
            let reach = (steepest * root[at] * root[at] + penalty.l2).sqrt() * radius;
            let keep = pulls[at].abs() + reach >= penalty.l1;
            if !keep && coefficients[at] != 0.0 {
                left.push(*column);
            }
            keep
        });
        left
    }

    /// The `size` columns to work on: those with a coefficient, and those whose constraint is the nearest, in units of how far a step moves it.
    pub(super) fn nearest(
        &self,
        size: usize,
        most: f64,
        root: &[f64],
        coefficients: &[f64],
        pull: impl Fn(usize) -> f64,
    ) -> Vec<u32> {
        let distance = |column: &u32| {
            let at = *column as usize;
            let distance = if coefficients[at] == 0.0 { (most - pull(at).abs()) / root[at] } else { -1.0 };
            (distance, *column)
        };
        let mut all: Vec<(f64, u32)> = self.alive.iter().map(distance).collect();
        if size < all.len() {
            let nearer = |left: &(f64, u32), right: &(f64, u32)| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1));
            all.select_nth_unstable_by(size, nearer);
            all.truncate(size);
        }
        let mut columns: Vec<u32> = all.into_iter().map(|(_, column)| column).collect();
        columns.sort_unstable();
        columns
    }
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
        let left = dual.screen(penalty, (0.18, 1.0), &[1.0; 4], &[0.0, 3.0, 0.0, 0.0]);
        assert_eq!((dual.alive, left), (vec![0, 3], vec![1]));
    }

    #[test]
    fn those_with_a_coefficient_come_first_and_then_the_nearest() {
        let dual = Dual::new(&[1.0; 5]);
        let pulls = [0.9, 0.1, 0.5, 0.8, 1.0];
        let chosen = dual.nearest(3, 1.0, &[1.0; 5], &[0.0, 2.0, 0.0, 0.0, 0.0], |column| pulls[column]);
        assert_eq!(chosen, [0, 1, 4]);
    }
}
