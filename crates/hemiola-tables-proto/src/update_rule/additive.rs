//! Additive update rules: updates are added as they are, or times a learning rate ([`Sgd`]).

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::cells::RowCells;
use crate::dtype::ComputeType;
use hemiola_optim::{Float, Sgd};

/// Adds the update to the row. The default rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addition;

impl<W: ComputeType> UpdateRule<W> for Addition {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Add
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], _state: &mut [W]) -> Result<(), UnknownVersion> {
        update.cells.add_to(row, None);
        Ok(())
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::Add)
    }
}

/// Clients and shards add gradients times the negated learning rate, which gives the bits of
/// [`Sgd::update`].
impl<W: ComputeType + Float> UpdateRule<W> for Sgd {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::AddScaled(Float::from_f64(-self.learning_rate))
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], _state: &mut [W]) -> Result<(), UnknownVersion> {
        match update.cells {
            RowCells::Dense(gradient) => self.update(row, gradient),
            RowCells::Sparse { .. } => {
                update.cells.iter().for_each(|(column, gradient)| row[column] = row[column] - self.step(gradient));
            }
        }
        Ok(())
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::Sgd(*self))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn additive_rules_match_their_formulas() {
        let update = RowUpdate {
            key: 0,
            version: 0,
            cells: RowCells::Sparse { columns: &[1], values: &[4.0_f64] },
            attachment: &[],
        };
        let mut row = [1.0, 1.0];
        Addition.apply(&update, &mut row, &mut []).unwrap();
        assert_eq!(row, [1.0, 5.0]);
        Sgd::new(0.25).apply(&update, &mut row, &mut []).unwrap();
        assert_eq!(row, [1.0, 4.0]);
        assert_eq!(UpdateRule::<f64>::local_apply(&Sgd::new(0.25)), LocalApply::AddScaled(-0.25));
    }
}
