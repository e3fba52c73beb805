//! `AdaGrad` (Duchi, Hazan, Singer 2011): each column has a step that shrinks with the squares of its gradients.
//!
//! State: `z`, the initial value plus the sum of squares. `value -= step / sqrt(z) * gradient`. The initial value of 1 makes the
//! first step no larger than asked for, and equals that of [`AdaRevision`](super::AdaRevision).

use super::{Procedure, Provided, UnknownVersion, Update, View};
use crate::number::Real;

/// Steps that adapt to each column.
#[derive(Clone, Copy, Debug)]
pub struct AdaGrad {
    step: f64,
}

impl AdaGrad {
    /// With this first step.
    #[must_use]
    pub const fn new(step: f64) -> Self {
        Self { step }
    }
}

impl<W: Real> Procedure<W> for AdaGrad {
    fn view(&self) -> View<W> {
        View::ReadOnly
    }

    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn created(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        state.fill(W::from_f64(1.0));
    }

    fn provided(&self) -> Option<Provided> {
        Some(Provided::AdaGrad { step: self.step })
    }

    fn apply(&self, update: &Update<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let step = W::from_f64(self.step);
        for (column, gradient) in update.cells.iter() {
            let z = state[column].plus(gradient.times(gradient));
            state[column] = z;
            row[column] = row[column].minus(step.over(z.sqrt()).times(gradient));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Cells;

    #[test]
    fn equals_the_plain_formula() {
        let adagrad = AdaGrad::new(0.5);
        let (mut row, mut state) = ([1.0_f64, -1.0], [0.0; 2]);
        adagrad.created(0, &mut row, &mut state);
        let (mut x, mut z) = ([1.0_f64, -1.0], [1.0_f64; 2]);
        for at in 1..50 {
            let gradient = [f64::from(at).sin(), f64::from(at).cos() * 3.0];
            let update = Update { key: 0, version: 0, cells: Cells::Dense(&gradient), carried: &[] };
            adagrad.apply(&update, &mut row, &mut state).unwrap();
            for column in 0..2 {
                z[column] += gradient[column].powi(2);
                x[column] -= 0.5 / z[column].sqrt() * gradient[column];
            }
            // The same operations in the same order, but `powi` may round otherwise than a product.
            assert!(row.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{row:?} {x:?}");
        }
    }
}
