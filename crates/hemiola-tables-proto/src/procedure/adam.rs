//! `Adam` (Kingma and Ba 2015): averages of gradients and of their squares, corrected for having begun at zero.
//!
//! State: the averages `m` and `v` of each column, then `beta1^t` and `beta2^t` of the row, where `t` counts its updates. An update
//! that names some columns moves only those, and the others as if nothing had happened ("lazy"), as is usual for
//! embeddings.

use super::{Procedure, Provided, UnknownVersion, Update, View};
use crate::number::Real;

/// Steps from averages of gradients.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    step: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
}

impl Adam {
    /// With this step, and 0.9, 0.999 and 1e-8 for the rest.
    #[must_use]
    pub const fn new(step: f64) -> Self {
        Self { step, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }

    /// How much of the averages stays at each update.
    #[must_use]
    pub const fn betas(mut self, beta1: f64, beta2: f64) -> Self {
        (self.beta1, self.beta2) = (beta1, beta2);
        self
    }
}

impl<W: Real> Procedure<W> for Adam {
    fn view(&self) -> View<W> {
        View::ReadOnly
    }

    fn state_width(&self, width: usize) -> usize {
        2 * width + 2
    }

    fn created(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        let powers = state.len() - 2;
        state[powers..].fill(W::from_f64(1.0));
    }

    fn provided(&self) -> Option<Provided> {
        Some(Provided::Adam { step: self.step, betas: (self.beta1, self.beta2) })
    }

    fn apply(&self, update: &Update<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
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
            let root = v[column].over(second).sqrt().plus(number(self.epsilon));
            row[column] = row[column].minus(number(self.step).times(m[column].over(first)).over(root));
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
        let adam = Adam::new(0.01);
        let (mut row, mut state) = ([2.0_f64], [0.0; 4]);
        adam.created(0, &mut row, &mut state);
        let (mut x, mut m, mut v) = (2.0_f64, 0.0_f64, 0.0_f64);
        for t in 1..200 {
            let gradient = f64::from(t).sin() + 0.3;
            let update = Update { key: 0, version: 0, cells: Cells::Dense(&[gradient]), carried: &[] };
            adam.apply(&update, &mut row, &mut state).unwrap();
            m = 0.9 * m + 0.1 * gradient;
            v = 0.999 * v + 0.001 * gradient * gradient;
            x -= 0.01 * (m / (1.0 - 0.9_f64.powi(t))) / ((v / (1.0 - 0.999_f64.powi(t))).sqrt() + 1e-8);
            // Powers by products instead of `powi`, and 1 - beta rounded once: a few units in the last place.
            assert!((row[0] - x).abs() < 1e-9, "{t}: {} {x}", row[0]);
        }
    }
}
