//! Columns as a solver sees them: centred and scaled, without being changed.
//!
//! Solvers work with `x̃ = scale · (x − mean)`. Neither is stored: products with what is left to explain (`u`) follow from those of the column as it
//! is, because `Σ u = 0` where there is an intercept, and what centring adds to `u` is the same for all rows (but for their weights), so one
//! running number, [`Residual::shift`], stands for it.
//!
//! **Invariant:** `u = values + weights · shift`, and with an intercept `Σ u = 0` up to rounding. A column with `curve` 0 is constant, or 0 where there is no
//! intercept, and never gets a coefficient.

use super::design::Moments;

/// Variances below this share of the mean square are rounding.
const CONSTANT: f64 = 1e-12;

/// Means, scales and curvatures of all columns.
#[derive(Clone, Debug)]
pub(super) struct Scaling {
    pub(super) intercept: bool,
    /// Weighted means, 0 without an intercept.
    pub(super) mean: Vec<f64>,
    pub(super) scale: Vec<f64>,
    /// `Σ weights · x̃² / rows`: the curvature of the loss along each coefficient.
    pub(super) curve: Vec<f64>,
    /// The same without weights, its root: how far a step of the dual moves a constraint.
    pub(super) root: Vec<f64>,
}

impl Scaling {
    /// Of columns whose moments are these.
    pub(super) fn new(moments: &[Moments], rows: f64, intercept: bool, standardize: bool) -> Self {
        let mean: Vec<f64> = moments.iter().map(|[_, _, sum]| if intercept { sum / rows } else { 0.0 }).collect();
        let variance = |([_, square, _], mean): (&Moments, &f64)| {
            let (square, variance) = (square / rows, square / rows - mean * mean);
            if variance <= CONSTANT * square { 0.0 } else { variance }
        };
        let variance: Vec<f64> = moments.iter().zip(&mean).map(variance).collect();
        let scale = |variance: &f64| if standardize && *variance > 0.0 { 1.0 / variance.sqrt() } else { 1.0 };
        let scale: Vec<f64> = variance.iter().map(scale).collect();
        let curve: Vec<f64> = variance.iter().zip(&scale).map(|(variance, scale)| variance * scale * scale).collect();
        let root = curve.iter().map(|curve| curve.sqrt()).collect();
        Self { intercept, mean, scale, curve, root }
    }

    /// Takes means and curvatures of `columns` from moments with weights that add up to `weight`.
    pub(super) fn weigh(&mut self, columns: &[u32], moments: &[Moments], weight: f64, rows: f64) {
        for (column, [product, square, _]) in columns.iter().zip(moments) {
            let column = *column as usize;
            let mean = if self.intercept { product / weight } else { 0.0 };
            let curve = (square - weight * mean * mean) / rows * self.scale[column].powi(2);
            self.mean[column] = mean;
            // Rounding must not make it vanish or negative.
            self.curve[column] = curve.max(CONSTANT * self.root[column].powi(2));
        }
    }
}

/// What is left to explain.
#[derive(Clone, Debug)]
pub(super) struct Residual {
    pub(super) values: Vec<f64>,
    pub(super) shift: f64,
    /// Weights of this peer's rows; none are weights of 1.
    pub(super) weights: Vec<f64>,
    /// The weight of all rows of all peers.
    pub(super) weight: f64,
}

impl Residual {
    /// `u` of this peer's rows.
    pub(super) fn iter(&self) -> impl Iterator<Item = f64> {
        let ones = std::iter::repeat_n(&1.0, self.values.len() - self.weights.len());
        self.values.iter().zip(self.weights.iter().chain(ones)).map(|(value, weight)| value + weight * self.shift)
    }

    /// `Σ u² / weights` over this peer's rows, were values and shift these.
    pub(super) fn square(&self, values: &[f64], shift: f64) -> f64 {
        if self.weights.is_empty() {
            return values.iter().map(|value| (value + shift) * (value + shift)).sum();
        }
        let rows = values.iter().zip(&self.weights);
        rows.map(|(value, weight)| (value / weight + shift) * (value + weight * shift)).sum()
    }

    /// Takes a change away.
    pub(super) fn take(&mut self, values: &[f64], shift: f64) {
        for (value, change) in self.values.iter_mut().zip(values) {
            *value -= change;
        }
        self.shift -= shift;
    }
}
