//! Quadratic subproblem over selected columns: penalized least squares, or one Newton step.
//!
//! The objective over coefficients `b` of the working set is `1/(2 rows) Σ u²/weights + l1 |b|₁ +
//! l2/2 |b|²`, where every change of `b` changes the residual `u`. The `slope` of a column is `x̃·u
//! / rows`, the rate at which the loss falls. At the minimum `slope − l2 b` is `l1 · sign(b)` where
//! `b` is not 0, and between `−l1` and `l1` where it is.

use super::kernel::ColumnValue;
use super::row_reducer::RowReducer;
use super::scaling::{ColumnScaling, RowResidual};
use hemiola_cluster::Result;

/// Elastic-net penalty of the coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ElasticNetPenalty {
    pub(super) l1: f64,
    pub(super) l2: f64,
}

impl ElasticNetPenalty {
    /// Creates the penalty `lambda (l1_ratio |b|₁ + (1 − l1_ratio)/2 |b|²)`.
    pub(super) fn new(lambda: f64, l1_ratio: f64) -> Self {
        Self { l1: lambda * l1_ratio, l2: lambda * (1.0 - l1_ratio) }
    }

    /// Returns the penalty of coefficients.
    pub(super) fn cost<'b>(&self, coefficients: impl Iterator<Item = &'b f64>) -> f64 {
        coefficients.map(|b| self.l1 * b.abs() + 0.5 * self.l2 * b * b).sum()
    }

    /// Returns the L1 penalty of coefficients whose absolute values have this sum.
    pub(super) fn l1_cost(&self, sum: f64) -> f64 {
        // Avoids infinity times zero: an infinite penalty costs nothing without coefficients.
        if sum > 0.0 { self.l1 * sum } else { 0.0 }
    }

    /// Returns the violation of the optimality condition along one coefficient.
    #[inline]
    pub(super) fn violation(&self, slope: f64, b: f64) -> f64 {
        if b == 0.0 { (slope.abs() - self.l1).max(0.0) } else { (slope - self.l2 * b - self.l1 * b.signum()).abs() }
    }

    /// Returns the minimizer along one coefficient (soft thresholding).
    #[inline]
    pub(super) fn minimum(&self, slope: f64, b: f64, curve: f64) -> f64 {
        let pull = b * curve + slope;
        if pull.abs() <= self.l1 { 0.0 } else { (pull - self.l1 * pull.signum()) / (curve + self.l2) }
    }
}

/// Quadratic subproblem and its current point.
pub(super) struct QuadraticProblem<'q, 'f, 'c, T> {
    pub(super) reducer: &'q mut RowReducer<'f, 'c, T>,
    pub(super) scaling: &'q ColumnScaling,
    pub(super) residual: &'q mut RowResidual,
    pub(super) penalty: ElasticNetPenalty,
    /// Number of rows of all peers.
    pub(super) rows: f64,
    /// Scratch: amounts of stored (unscaled) columns.
    amounts: Vec<f64>,
}

impl<'q, 'f, 'c, T: ColumnValue> QuadraticProblem<'q, 'f, 'c, T> {
    pub(super) fn new(
        reducer: &'q mut RowReducer<'f, 'c, T>,
        scaling: &'q ColumnScaling,
        residual: &'q mut RowResidual,
        penalty: ElasticNetPenalty,
        rows: f64,
    ) -> Self {
        Self { reducer, scaling, residual, penalty, rows, amounts: Vec::new() }
    }

    /// Updates `u` after coefficients have changed, then computes the slopes of `columns`.
    pub(super) fn step(&mut self, changes: (&[u32], &[f64]), columns: &[u32], slopes: &mut [f64]) -> Result<()> {
        let Self { scaling, residual, amounts, .. } = self;
        amounts.clear();
        for (column, change) in changes.0.iter().zip(changes.1) {
            let amount = change * scaling.scale[*column as usize];
            residual.shift += amount * scaling.mean[*column as usize];
            amounts.push(-amount);
        }
        let RowResidual { values, weights, .. } = &mut **residual;
        self.reducer.step((changes.0, &*amounts), weights, values, columns, slopes)?;
        self.scale(columns, self.residual.shift, slopes);
        Ok(())
    }

    /// Computes the slopes of columns.
    pub(super) fn slopes(&mut self, columns: &[u32], slopes: &mut [f64]) -> Result<()> {
        self.reducer.dots(columns, &self.residual.values, slopes)?;
        self.scale(columns, self.residual.shift, slopes);
        Ok(())
    }

    /// Converts dot products of stored columns to those of centred and scaled columns, with the
    /// vector after a shift.
    fn scale(&self, columns: &[u32], shift: f64, products: &mut [f64]) {
        let moved = shift * self.residual.weight;
        for (product, column) in products.iter_mut().zip(columns) {
            let column = *column as usize;
            *product = (*product + moved * self.scaling.mean[column]) * self.scaling.scale[column] / self.rows;
        }
    }

    /// Converts coefficients to amounts of stored columns; returns the shift added by centring.
    fn amounts(&mut self, columns: &[u32], coefficients: &[f64]) -> f64 {
        let Self { scaling, amounts, .. } = self;
        amounts.clear();
        let mut shift = 0.0;
        for (column, value) in columns.iter().zip(coefficients) {
            let amount = value * scaling.scale[*column as usize];
            shift -= amount * scaling.mean[*column as usize];
            amounts.push(amount);
        }
        shift
    }

    /// Computes `image = weights · X̃ v` up to a shift, which is returned.
    pub(super) fn image(&mut self, columns: &[u32], vector: &[f64], image: &mut [f64]) -> Result<f64> {
        let shift = self.amounts(columns, vector);
        image.fill(0.0);
        self.reducer.step((columns, &self.amounts), &self.residual.weights, image, &[], &mut [])?;
        Ok(shift)
    }

    /// Computes the Hessian times a vector: the [`image`](Self::image), and `out = X̃ᵀ image /
    /// rows`.
    pub(super) fn hessian_product(
        &mut self,
        columns: &[u32],
        vector: &[f64],
        image: &mut [f64],
        out: &mut [f64],
    ) -> Result<f64> {
        let shift = self.amounts(columns, vector);
        image.fill(0.0);
        self.reducer.step((columns, &self.amounts), &self.residual.weights, image, columns, out)?;
        self.scale(columns, shift, out);
        Ok(shift)
    }

    /// Computes the Hessian of the columns, symmetric, without the diagonal.
    pub(super) fn products(&mut self, columns: &[u32]) -> Result<Vec<f64>> {
        let count = columns.len();
        let mut out = vec![0.0; count * count];
        self.reducer.products(columns, &self.residual.weights, &mut out)?;
        for left in 0..count {
            for right in left + 1..count {
                let (of_left, of_right) = (columns[left] as usize, columns[right] as usize);
                let means = self.residual.weight * self.scaling.mean[of_left] * self.scaling.mean[of_right];
                let scales = self.scaling.scale[of_left] * self.scaling.scale[of_right];
                let product = (out[left * count + right] - means) * scales / self.rows;
                out[left * count + right] = product;
                out[right * count + left] = product;
            }
        }
        Ok(out)
    }

    /// *Collective.* Returns the loss for another residual.
    pub(super) fn loss(&self, values: &[f64], shift: f64) -> Result<f64> {
        let mut square = [self.residual.square(values, shift)];
        self.reducer.sum(&mut square)?;
        Ok(square[0] / (2.0 * self.rows))
    }
}
