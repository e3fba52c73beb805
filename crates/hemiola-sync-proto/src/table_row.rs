//! Cells of a chunk in a table: a header, and the values or gradients of all pieces of the unit.
//!
//! An update needs more than the gradient: the number of examples that it sums, the learning rate
//! and the sender. They travel in the first cells of the row, so an update is one message, and no
//! peer needs a number from all others. **Invariant:** numbers survive the cells exactly. A count
//! or rate is a `f64` and is split into `f32` parts whose sum it is.

use hemiola_core::Rank;

/// Number of cells before the values or gradients.
pub(crate) const HEADER_CELLS: usize = 8;

/// Facts of an update besides its gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UpdateHeader {
    /// Number of examples whose gradients are summed.
    pub(crate) examples: u64,
    /// Learning rate of the step.
    pub(crate) rate: f64,
    /// Peer that computed the gradient.
    pub(crate) from: Rank,
}

/// Splits a number into parts whose sum is the number, for magnitudes that `f32` covers.
fn split(number: f64) -> [f32; 3] {
    let high = number as f32;
    let middle = (number - f64::from(high)) as f32;
    [high, middle, (number - f64::from(high) - f64::from(middle)) as f32]
}

fn join(parts: &[f32]) -> f64 {
    parts.iter().rev().map(|part| f64::from(*part)).sum()
}

impl UpdateHeader {
    /// Returns the row of an update: header and gradient.
    pub(crate) fn row(self, gradient: &[f32]) -> Vec<f32> {
        let mut row = Vec::with_capacity(HEADER_CELLS + gradient.len());
        row.extend(split(self.examples as f64));
        row.extend(split(self.rate));
        row.extend([self.from.number() as f32, 0.0]);
        row.extend_from_slice(gradient);
        row
    }

    /// Reads the header of a row.
    pub(crate) fn of(row: &[f32]) -> Self {
        let from = Rank::new(row[6] as u32);
        Self { examples: join(&row[..3]) as u64, rate: join(&row[3..6]), from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_cells_exactly() {
        for (examples, rate) in [(0, 0.1), (1, 1e-3 / 3.0), (u64::from(u32::MAX), 12.345_678_901_234_5), (7, 1e-12)] {
            let header = UpdateHeader { examples, rate, from: Rank::new(1 << 20) };
            let row = header.row(&[1.0, 2.0]);
            assert_eq!((UpdateHeader::of(&row), &row[HEADER_CELLS..]), (header, &[1.0, 2.0][..]));
            assert!(row.iter().all(|cell| cell.is_finite()));
        }
    }
}
