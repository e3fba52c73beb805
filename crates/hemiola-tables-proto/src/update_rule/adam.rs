//! `Adam` (Kingma and Ba 2015): bias-corrected moving averages of gradients and of their squares.
//!
//! State: the averages `m` and `v` of each column, then `beta1^t` and `beta2^t` of the row, where
//! `t` counts the updates of the row. An update of some columns moves only those ("lazy" Adam), as
//! is usual for embeddings.

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::dtype::FloatType;

/// `Adam` update rule with bias correction.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
}

impl Adam {
    /// Creates the rule with this learning rate, betas of 0.9 and 0.999, and epsilon 1e-8.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    /// Sets the decay rates of the two moving averages.
    #[must_use]
    pub const fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }
}

impl<W: FloatType> UpdateRule<W> for Adam {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        2 * width + 2
    }

    fn init_row(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        let powers = state.len() - 2;
        state[powers..].fill(W::from_f64(1.0));
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::Adam { learning_rate: self.learning_rate, betas: (self.beta1, self.beta2) })
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let number = W::from_f64;
        let (averages, powers) = state.split_at_mut(2 * row.len());
        let (m, v) = averages.split_at_mut(row.len());
        powers[0] = powers[0].times(number(self.beta1));
        powers[1] = powers[1].times(number(self.beta2));
        let (first, second) = (number(1.0).minus(powers[0]), number(1.0).minus(powers[1]));
        let (keep1, take1) = (number(self.beta1), number(1.0 - self.beta1));
        let (keep2, take2) = (number(self.beta2), number(1.0 - self.beta2));
        for (column, gradient) in update.cells.iter() {
            m[column] = keep1.times(m[column]).plus(take1.times(gradient));
            v[column] = keep2.times(v[column]).plus(take2.times(gradient.times(gradient)));
            let root = v[column].divided_by(second).sqrt().plus(number(self.epsilon));
            row[column] =
                row[column].minus(number(self.learning_rate).times(m[column].divided_by(first)).divided_by(root));
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
        let adam = Adam::new(0.01);
        let (mut row, mut state) = ([2.0_f64], [0.0; 4]);
        adam.init_row(0, &mut row, &mut state);
        let (mut x, mut m, mut v) = (2.0_f64, 0.0_f64, 0.0_f64);
        for t in 1..200 {
            let gradient = f64::from(t).sin() + 0.3;
            let update = RowUpdate { key: 0, version: 0, cells: RowCells::Dense(&[gradient]), attachment: &[] };
            adam.apply(&update, &mut row, &mut state).unwrap();
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            x -= 0.01 * (m / (1.0 - 0.9_f64.powi(t))) / ((v / (1.0 - 0.999_f64.powi(t))).sqrt() + 1e-8);
            // Powers by products instead of `powi`, and 1 - beta rounded once: a few units in the
            // last place.
            assert!((row[0] - x).abs() < 1e-9, "{t}: {} {x}", row[0]);
        }
    }
}
