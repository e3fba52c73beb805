//! [`AdaGrad`] as a server-side rule. State of each column: the sum of squared gradients.

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::cells::RowCells;
use crate::dtype::ComputeType;
use hemiola_optim::{AdaGrad, Float};

impl<W: ComputeType + Float> UpdateRule<W> for AdaGrad {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn init_row(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        state.fill(Float::from_f64(self.initial_sum));
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::AdaGrad(*self))
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        match update.cells {
            RowCells::Dense(gradient) => self.update(row, gradient, state),
            RowCells::Sparse { .. } => {
                for (column, gradient) in update.cells.iter() {
                    row[column] = row[column] - self.step(gradient, &mut state[column]);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_plain_formula() {
        let adagrad = AdaGrad::new(0.5);
        let (mut row, mut state) = ([1.0_f64, -1.0], [0.0; 2]);
        adagrad.init_row(0, &mut row, &mut state);
        let (mut x, mut z) = ([1.0_f64, -1.0], [1.0_f64; 2]);
        for at in 1..50 {
            let gradient = [f64::from(at).sin(), f64::from(at).cos() * 3.0];
            let update = RowUpdate { key: 0, version: 0, cells: RowCells::Dense(&gradient), attachment: &[] };
            adagrad.apply(&update, &mut row, &mut state).unwrap();
            for column in 0..2 {
                z[column] += gradient[column].powi(2);
                x[column] -= 0.5 / z[column].sqrt() * gradient[column];
            }
            // Same operations in the same order, but `powi` may round differently from a product.
            assert!(row.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{row:?} {x:?}");
        }
    }
}
