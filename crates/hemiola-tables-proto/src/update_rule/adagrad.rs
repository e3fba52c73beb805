//! `AdaGrad` (Duchi, Hazan, Singer 2011): the learning rate of each column shrinks with the squares
//! of its gradients.
//!
//! State: `z`, the initial value plus the sum of squares. `value -= learning_rate / sqrt(z) *
//! gradient`. The initial value of 1 bounds the first step by the learning rate, and equals that of
//! [`AdaRevision`](super::AdaRevision).

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::dtype::FloatType;

/// `AdaGrad` update rule with a per-column learning rate.
#[derive(Clone, Copy, Debug)]
pub struct AdaGrad {
    learning_rate: f64,
}

impl AdaGrad {
    /// Creates the rule with this initial learning rate.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate }
    }
}

impl<W: FloatType> UpdateRule<W> for AdaGrad {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn init_row(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        state.fill(W::from_f64(1.0));
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::AdaGrad { learning_rate: self.learning_rate })
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let learning_rate = W::from_f64(self.learning_rate);
        for (column, gradient) in update.cells.iter() {
            let z = state[column].plus(gradient.times(gradient));
            state[column] = z;
            row[column] = row[column].minus(learning_rate.divided_by(z.sqrt()).times(gradient));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::RowCells;

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
