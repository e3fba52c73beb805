//! The quadratic problem over some columns: least squares with a penalty, or one step of Newton's method.
//!
//! Minimized over coefficients `b` of the columns that are worked on is `1/(2 rows) Σ u²/weights + l1 |b|₁ + l2/2 |b|²`, where every change of `b` changes
//! `u`. `slope` of a column is `x̃·u / rows`, how fast the loss falls. At the minimum `slope − l2 b` is `l1 · sign(b)` where `b` is not 0, and
//! between `−l1` and `l1` where it is.

use super::field::Field;
use super::kernel::Value;
use super::scaling::{Residual, Scaling};
use hemiola::Result;

/// How much coefficients cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Penalty {
    pub(super) l1: f64,
    pub(super) l2: f64,
}

impl Penalty {
    /// `lambda (ratio |b|₁ + (1 − ratio)/2 |b|²)`.
    pub(super) fn new(lambda: f64, ratio: f64) -> Self {
        Self { l1: lambda * ratio, l2: lambda * (1.0 - ratio) }
    }

    /// What these coefficients cost.
    pub(super) fn cost<'b>(&self, coefficients: impl Iterator<Item = &'b f64>) -> f64 {
        coefficients.map(|b| self.l1 * b.abs() + 0.5 * self.l2 * b * b).sum()
    }

    /// What coefficients whose absolute values have this sum cost for that.
    pub(super) fn l1_cost(&self, sum: f64) -> f64 {
        // An infinite penalty costs nothing where there are no coefficients.
        if sum > 0.0 { self.l1 * sum } else { 0.0 }
    }

    /// By how much the condition for a minimum fails along one coefficient.
    #[inline]
    pub(super) fn violation(&self, slope: f64, b: f64) -> f64 {
        if b == 0.0 { (slope.abs() - self.l1).max(0.0) } else { (slope - self.l2 * b - self.l1 * b.signum()).abs() }
    }

    /// Where the minimum along one coefficient is.
    #[inline]
    pub(super) fn minimum(&self, slope: f64, b: f64, curve: f64) -> f64 {
        let pull = b * curve + slope;
        if pull.abs() <= self.l1 { 0.0 } else { (pull - self.l1 * pull.signum()) / (curve + self.l2) }
    }
}

/// A quadratic problem, and where it is.
pub(super) struct Quadratic<'q, 'f, 'c, T> {
    pub(super) field: &'q mut Field<'f, 'c, T>,
    pub(super) scaling: &'q Scaling,
    pub(super) residual: &'q mut Residual,
    pub(super) penalty: Penalty,
    /// Of all peers.
    pub(super) rows: f64,
    /// Amounts of columns as they are stored.
    amounts: Vec<f64>,
}

impl<'q, 'f, 'c, T: Value> Quadratic<'q, 'f, 'c, T> {
    pub(super) fn new(
        field: &'q mut Field<'f, 'c, T>,
        scaling: &'q Scaling,
        residual: &'q mut Residual,
        penalty: Penalty,
        rows: f64,
    ) -> Self {
        Self { field, scaling, residual, penalty, rows, amounts: Vec::new() }
    }

    /// Coefficients have changed: `u` follows. Then slopes of `columns`.
    pub(super) fn step(&mut self, changes: (&[u32], &[f64]), columns: &[u32], slopes: &mut [f64]) -> Result<()> {
        let Self { scaling, residual, amounts, .. } = self;
        amounts.clear();
        for (column, change) in changes.0.iter().zip(changes.1) {
            let amount = change * scaling.scale[*column as usize];
            residual.shift += amount * scaling.mean[*column as usize];
            amounts.push(-amount);
        }
        let Residual { values, weights, .. } = &mut **residual;
        self.field.step((changes.0, &*amounts), weights, values, columns, slopes)?;
        self.scale(columns, self.residual.shift, slopes);
        Ok(())
    }

    /// Slopes of columns.
    pub(super) fn slopes(&mut self, columns: &[u32], slopes: &mut [f64]) -> Result<()> {
        self.field.survey(columns, &self.residual.values, slopes)?;
        self.scale(columns, self.residual.shift, slopes);
        Ok(())
    }

    /// Products of columns with a vector become those of centred and scaled ones with the vector after a shift.
    fn scale(&self, columns: &[u32], shift: f64, products: &mut [f64]) {
        let moved = shift * self.residual.weight;
        for (product, column) in products.iter_mut().zip(columns) {
            let column = *column as usize;
            *product = (*product + moved * self.scaling.mean[column]) * self.scaling.scale[column] / self.rows;
        }
    }

    /// What coefficients, by column, are as amounts of columns as these are stored; and the shift that centring adds.
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

    /// `image = weights · X̃ v` but for a shift, which is returned.
    pub(super) fn image(&mut self, columns: &[u32], vector: &[f64], image: &mut [f64]) -> Result<f64> {
        let shift = self.amounts(columns, vector);
        image.fill(0.0);
        self.field.step((columns, &self.amounts), &self.residual.weights, image, &[], &mut [])?;
        Ok(shift)
    }

    /// The curvature times a vector: the [`image`](Self::image), and `out = X̃ᵀ image / rows`.
    pub(super) fn bend(&mut self, columns: &[u32], vector: &[f64], image: &mut [f64], out: &mut [f64]) -> Result<f64> {
        let shift = self.amounts(columns, vector);
        image.fill(0.0);
        self.field.step((columns, &self.amounts), &self.residual.weights, image, columns, out)?;
        self.scale(columns, shift, out);
        Ok(shift)
    }

    /// Curvatures between columns, symmetric, without the diagonal.
    pub(super) fn products(&mut self, columns: &[u32]) -> Result<Vec<f64>> {
        let count = columns.len();
        let mut out = vec![0.0; count * count];
        self.field.products(columns, &self.residual.weights, &mut out)?;
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

    /// *Collective.* The loss, were the residual another.
    pub(super) fn loss(&self, values: &[f64], shift: f64) -> Result<f64> {
        let mut square = [self.residual.square(values, shift)];
        self.field.sum(&mut square)?;
        Ok(square[0] / (2.0 * self.rows))
    }
}
