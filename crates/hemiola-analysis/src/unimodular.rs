//! Unimodular matrices: changes of loop coordinates that map integer points one to one.
//!
//! A transformed loop is not rewritten. Its blocks are cut along the new coordinates
//! `matrix * iteration` instead of along the loop's own indices. Only two rows matter for the cuts.
//! The whole matrix is kept, because it makes the change one to one: with determinant 1 or -1 the
//! inverse has integer entries as well.
//!
//! **Invariant:** a [`UnimodularMatrix`] is square and unimodular, and carries its inverse. No
//! constructor creates another one, deserialization included.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Square integer matrix whose inverse is an integer matrix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<i64>>", into = "Vec<Vec<i64>>")]
pub struct UnimodularMatrix {
    rows: Vec<Vec<i64>>,
    inverse: Vec<Vec<i64>>,
}

impl UnimodularMatrix {
    /// Returns the identity matrix.
    #[must_use]
    pub fn identity(dimensions: usize) -> Self {
        let rows = unit_rows(dimensions);
        Self { inverse: rows.clone(), rows }
    }

    /// Creates a matrix from its rows.
    /// ```
    /// use hemiola_analysis::UnimodularMatrix;
    ///
    /// let skew = UnimodularMatrix::try_new(vec![vec![1, 0], vec![2, 1]])?;
    /// assert_eq!(skew.apply(&[3, 4]), [3, 10]);
    /// assert_eq!(skew.inverse().apply(&[3, 10]), [3, 4]);
    /// assert!(UnimodularMatrix::try_new(vec![vec![2, 0], vec![0, 1]]).is_err());
    /// # Ok::<(), hemiola_analysis::Error>(())
    /// ```
    pub fn try_new(rows: Vec<Vec<i64>>) -> Result<Self, Error> {
        match invert(&rows) {
            Some(inverse) => Ok(Self { rows, inverse }),
            None => Err(Error::NotUnimodular { rows }),
        }
    }

    /// Number of dimensions of the loop.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.rows.len()
    }

    /// Weights of the loop indices in one new coordinate.
    ///
    /// # Panics
    /// If the loop has no such dimension.
    #[must_use]
    pub fn row(&self, dimension: usize) -> &[i64] {
        &self.rows[dimension]
    }

    /// Returns the old dimension that equals the new one, if there is one.
    ///
    /// # Panics
    /// If the loop has no such dimension.
    #[must_use]
    pub fn unchanged(&self, dimension: usize) -> Option<usize> {
        let row = self.row(dimension);
        let old = row.iter().position(|&weight| weight != 0)?;
        (row[old] == 1 && row[old + 1..].iter().all(|&weight| weight == 0)).then_some(old)
    }

    /// Computes one new coordinate of an iteration.
    ///
    /// The matrices that this crate finds have weights up to
    /// [`MAX_WEIGHT`](crate::skew::MAX_WEIGHT). Their coordinates fit for every loop up to 2^40
    /// long and 64 deep.
    ///
    /// # Panics
    /// If the loop has no such dimension. With overflow checks, also if the coordinate does not
    /// fit.
    #[must_use]
    pub fn coordinate(&self, dimension: usize, iteration: &[i64]) -> i64 {
        self.row(dimension).iter().zip(iteration).map(|(weight, index)| weight * index).sum()
    }

    /// Computes the new coordinates of an iteration.
    #[must_use]
    pub fn apply(&self, iteration: &[i64]) -> Vec<i64> {
        (0..self.dimensions()).map(|dimension| self.coordinate(dimension, iteration)).collect()
    }

    /// Returns the inverse matrix.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self { rows: self.inverse.clone(), inverse: self.rows.clone() }
    }
}

impl TryFrom<Vec<Vec<i64>>> for UnimodularMatrix {
    type Error = Error;

    fn try_from(rows: Vec<Vec<i64>>) -> Result<Self, Error> {
        Self::try_new(rows)
    }
}

impl From<UnimodularMatrix> for Vec<Vec<i64>> {
    fn from(matrix: UnimodularMatrix) -> Self {
        matrix.rows
    }
}

impl fmt::Display for UnimodularMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.rows.iter().map(|row| format!("{row:?}")).collect();
        write!(f, "[{}]", rows.join(", "))
    }
}

fn unit_rows<T: From<bool>>(dimensions: usize) -> Vec<Vec<T>> {
    (0..dimensions).map(|row| (0..dimensions).map(|column| T::from(row == column)).collect()).collect()
}

/// Returns the inverse, if the rows are square and unimodular and no step overflows.
///
/// Integer elimination: Euclid's algorithm on rows leaves one entry per column, the greatest common
/// divisor. The product of these entries is the determinant up to sign, so each must be 1 or -1.
fn invert(rows: &[Vec<i64>]) -> Option<Vec<Vec<i64>>> {
    let dimensions = rows.len();
    if rows.iter().any(|row| row.len() != dimensions) {
        return None;
    }
    let mut left: Vec<Vec<i128>> =
        rows.iter().map(|row| row.iter().map(|&entry| i128::from(entry)).collect()).collect();
    let mut right: Vec<Vec<i128>> = unit_rows(dimensions);
    for pivot in 0..dimensions {
        for row in pivot + 1..dimensions {
            while left[row][pivot] != 0 {
                let times = left[pivot][pivot].checked_div(left[row][pivot])?;
                subtract(&mut left, pivot, row, times)?;
                subtract(&mut right, pivot, row, times)?;
                left.swap(pivot, row);
                right.swap(pivot, row);
            }
        }
        match left[pivot][pivot] {
            1 => {}
            -1 => {
                negate(&mut left[pivot])?;
                negate(&mut right[pivot])?;
            }
            _ => return None,
        }
        for row in 0..pivot {
            let times = left[row][pivot];
            subtract(&mut left, row, pivot, times)?;
            subtract(&mut right, row, pivot, times)?;
        }
    }
    right.into_iter().map(|row| row.into_iter().map(|entry| i64::try_from(entry).ok()).collect()).collect()
}

/// Subtracts `times` row `other` from row `row`. `None` on overflow.
fn subtract(rows: &mut [Vec<i128>], row: usize, other: usize, times: i128) -> Option<()> {
    let taken: Option<Vec<i128>> = rows[other].iter().map(|entry| entry.checked_mul(times)).collect();
    for (entry, amount) in rows[row].iter_mut().zip(taken?) {
        *entry = entry.checked_sub(amount)?;
    }
    Some(())
}

fn negate(row: &mut [i128]) -> Option<()> {
    for entry in row {
        *entry = entry.checked_neg()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every unimodular matrix is a product of swaps, sign changes and additions of rows.
    fn unimodular() -> impl Strategy<Value = Vec<Vec<i64>>> {
        (1_usize..5).prop_flat_map(|dimensions| {
            let step = (0..dimensions, 0..dimensions, -3_i64..=3);
            prop::collection::vec(step, 0..8).prop_map(move |steps| {
                let mut rows: Vec<Vec<i64>> = unit_rows(dimensions);
                for (row, other, times) in steps {
                    if row == other {
                        rows[row].iter_mut().for_each(|entry| *entry = -*entry);
                    } else if times == 0 {
                        rows.swap(row, other);
                    } else {
                        let added = rows[other].clone();
                        rows[row].iter_mut().zip(added).for_each(|(entry, added)| *entry += times * added);
                    }
                }
                rows
            })
        })
    }

    proptest! {
        #[test]
        fn the_inverse_leads_back(rows in unimodular(), point in prop::array::uniform4(-100_i64..100)) {
            let matrix = UnimodularMatrix::try_new(rows).unwrap();
            let point = &point[..matrix.dimensions()];
            prop_assert_eq!(matrix.inverse().apply(&matrix.apply(point)), point);
            prop_assert_eq!(matrix.apply(&matrix.inverse().apply(point)), point);
        }

        #[test]
        fn two_by_two_matrices_are_accepted_exactly_if_their_determinant_is_one(a in -4_i64..5, b in -4_i64..5, c in -4_i64..5, d in -4_i64..5) {
            let taken = UnimodularMatrix::try_new(vec![vec![a, b], vec![c, d]]).is_ok();
            prop_assert_eq!(taken, (a * d - b * c).abs() == 1);
        }
    }

    #[test]
    fn matrices_are_checked_when_deserialized() {
        let skew: UnimodularMatrix = serde_json::from_str("[[1,0],[3,1]]").unwrap();
        assert_eq!(serde_json::to_string(&skew).unwrap(), "[[1,0],[3,1]]");
        assert!(serde_json::from_str::<UnimodularMatrix>("[[1,0],[3,2]]").is_err());
        assert!(serde_json::from_str::<UnimodularMatrix>("[[1,0]]").is_err());
    }

    #[test]
    fn entries_whose_inverse_overflows_are_rejected_not_wrapped() {
        let big = i64::MAX;
        assert!(UnimodularMatrix::try_new(vec![vec![1, 0, 0], vec![big, 1, 0], vec![0, big, 1]]).is_err());
    }

    #[test]
    fn unchanged_dimensions_are_recognized() {
        let matrix = UnimodularMatrix::try_new(vec![vec![0, 1, 0], vec![1, 0, 0], vec![0, 2, 1]]).unwrap();
        assert_eq!([0, 1, 2].map(|dimension| matrix.unchanged(dimension)), [Some(1), Some(0), None]);
        let reversed = UnimodularMatrix::try_new(vec![vec![-1]]).unwrap();
        assert_eq!(reversed.unchanged(0), None);
    }
}
