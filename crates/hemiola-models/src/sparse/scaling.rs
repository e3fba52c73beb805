//! Implicit centring and scaling of columns.
//!
//! Solvers work with `x̃ = scale · (x − mean)`, which is never stored. Dot products with the
//! residual `u` follow from those of the stored column, because `Σ u = 0` with an intercept.
//! Centring adds the same amount to `u` for all rows (times their weights), so one running number,
//! [`RowResidual::shift`], represents it.
//!
//! **Invariant:** `u = values + weights · shift`, and with an intercept `Σ u = 0` up to rounding. A
//! column with `curve` 0 is constant (or 0 without an intercept) and never gets a coefficient.

use super::design::Moments;

/// Variances below this fraction of the mean square are rounding error.
const CONSTANT_COLUMN_VARIANCE: f64 = 1e-12;

/// Means, scales and curvatures of all columns.
#[derive(Clone, Debug)]
pub(super) struct ColumnScaling {
    pub(super) intercept: bool,
    /// Weighted means; 0 without an intercept.
    pub(super) mean: Vec<f64>,
    pub(super) scale: Vec<f64>,
    /// `Σ weights · x̃² / rows`: curvature of the loss along each coefficient.
    pub(super) curve: Vec<f64>,
    /// Square root of the unweighted curvature: how far a dual step moves a constraint.
    pub(super) root: Vec<f64>,
}

impl ColumnScaling {
    /// Computes the scaling from the moments of columns.
    pub(super) fn new(moments: &[Moments], rows: f64, intercept: bool, standardize: bool) -> Self {
        let mean: Vec<f64> = moments.iter().map(|[_, _, sum]| if intercept { sum / rows } else { 0.0 }).collect();
        let variance = |([_, square, _], mean): (&Moments, &f64)| {
            let (square, variance) = (square / rows, square / rows - mean * mean);
            if variance <= CONSTANT_COLUMN_VARIANCE * square { 0.0 } else { variance }
        };
        let variance: Vec<f64> = moments.iter().zip(&mean).map(variance).collect();
        let scale = |variance: &f64| if standardize && *variance > 0.0 { 1.0 / variance.sqrt() } else { 1.0 };
        let scale: Vec<f64> = variance.iter().map(scale).collect();
        let curve: Vec<f64> = variance.iter().zip(&scale).map(|(variance, scale)| variance * scale * scale).collect();
        let root = curve.iter().map(|curve| curve.sqrt()).collect();
        Self { intercept, mean, scale, curve, root }
    }

    /// Recomputes means and curvatures of `columns` from weighted moments; `weight` is the sum of
    /// weights.
    pub(super) fn reweight(&mut self, columns: &[u32], moments: &[Moments], weight: f64, rows: f64) {
        for (column, [product, square, _]) in columns.iter().zip(moments) {
            let column = *column as usize;
            let mean = if self.intercept { product / weight } else { 0.0 };
            let curve = (square - weight * mean * mean) / rows * self.scale[column].powi(2);
            self.mean[column] = mean;
            // Rounding must not make the curvature vanish or negative.
            self.curve[column] = curve.max(CONSTANT_COLUMN_VARIANCE * self.root[column].powi(2));
        }
    }
}

/// Residual of the current model.
#[derive(Clone, Debug)]
pub(super) struct RowResidual {
    pub(super) values: Vec<f64>,
    pub(super) shift: f64,
    /// Weights of this peer's rows; empty means weights of 1.
    pub(super) weights: Vec<f64>,
    /// Sum of weights over all peers.
    pub(super) weight: f64,
}

impl RowResidual {
    /// Iterates over `u` of this peer's rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = f64> {
        let ones = std::iter::repeat_n(&1.0, self.values.len() - self.weights.len());
        self.values.iter().zip(self.weights.iter().chain(ones)).map(|(value, weight)| value + weight * self.shift)
    }

    /// Returns `Σ u² / weights` over this peer's rows for other values and shift.
    pub(super) fn square(&self, values: &[f64], shift: f64) -> f64 {
        if self.weights.is_empty() {
            return values.iter().map(|value| (value + shift) * (value + shift)).sum();
        }
        let rows = values.iter().zip(&self.weights);
        rows.map(|(value, weight)| (value / weight + shift) * (value + weight * shift)).sum()
    }

    /// Subtracts a change of the residual.
    pub(super) fn subtract(&mut self, values: &[f64], shift: f64) {
        for (value, change) in self.values.iter_mut().zip(values) {
            *value -= change;
        }
        self.shift -= shift;
    }
}
