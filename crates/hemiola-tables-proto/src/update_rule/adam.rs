//! [`Adam`] as a server-side rule.
//!
//! State: the averages `m` and `v` of each column, then `beta1^t` and `beta2^t` of the row, where
//! `t` counts the updates of the row. An update of some columns moves only those ("lazy" Adam), as
//! is usual for embeddings.

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::cells::RowCells;
use crate::dtype::ComputeType;
use hemiola_optim::{Adam, BiasCorrection, Float};

impl<W: ComputeType + Float> UpdateRule<W> for Adam {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        2 * width + 2
    }

    fn init_row(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        let powers = state.len() - 2;
        state[powers..].fill(Float::from_f64(1.0));
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::Adam(*self))
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let (averages, powers) = state.split_at_mut(2 * row.len());
        let (m, v) = averages.split_at_mut(row.len());
        powers[0] = powers[0] * Float::from_f64(self.beta1);
        powers[1] = powers[1] * Float::from_f64(self.beta2);
        let correction = BiasCorrection::from_powers(powers[0], powers[1]);
        match update.cells {
            RowCells::Dense(gradient) => self.update(row, gradient, (m, v), correction),
            RowCells::Sparse { .. } => {
                for (column, gradient) in update.cells.iter() {
                    row[column] = row[column] - self.step(gradient, (&mut m[column], &mut v[column]), correction);
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
