//! Updates that are added, as they are or times a step.

use super::{Procedure, Provided, UnknownVersion, Update, View};
use crate::number::{Number, Real};

/// Adds the update to the row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

impl<W: Number> Procedure<W> for Add {
    fn view(&self) -> View<W> {
        View::Add
    }

    fn apply(&self, update: &Update<'_, W>, row: &mut [W], _state: &mut [W]) -> Result<(), UnknownVersion> {
        update.cells.add_to(row, None);
        Ok(())
    }

    fn provided(&self) -> Option<Provided> {
        Some(Provided::Add)
    }
}

/// Updates are gradients: the row goes `step` times their negative.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    step: f64,
}

impl Sgd {
    /// With this step.
    #[must_use]
    pub const fn new(step: f64) -> Self {
        Self { step }
    }
}

impl<W: Real> Procedure<W> for Sgd {
    fn view(&self) -> View<W> {
        View::Scaled(W::from_f64(-self.step))
    }

    fn apply(&self, update: &Update<'_, W>, row: &mut [W], _state: &mut [W]) -> Result<(), UnknownVersion> {
        update.cells.add_to(row, Some(W::from_f64(-self.step)));
        Ok(())
    }

    fn provided(&self) -> Option<Provided> {
        Some(Provided::Sgd { step: self.step })
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use crate::cells::Cells;

    #[test]
    fn rows_go_where_the_formulas_say() {
        let update =
            Update { key: 0, version: 0, cells: Cells::Sparse { columns: &[1], values: &[4.0_f64] }, carried: &[] };
        let mut row = [1.0, 1.0];
        Add.apply(&update, &mut row, &mut []).unwrap();
        assert_eq!(row, [1.0, 5.0]);
        Sgd::new(0.25).apply(&update, &mut row, &mut []).unwrap();
        assert_eq!(row, [1.0, 4.0]);
        assert_eq!(Procedure::<f64>::view(&Sgd::new(0.25)), View::Scaled(-0.25));
    }
}
