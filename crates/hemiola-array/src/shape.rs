//! Extents of an array of one to four dimensions, and the two names of a cell: key and linear
//! index.
//!
//! **Invariant:** the linear index is row-major, as in C and `NumPy`: the last dimension varies
//! fastest. A *row* of an array, its last dimension, is therefore contiguous.
//!
//! Extents and keys are `usize` in memory and `u64` in files, messages and sort keys. Both have 64
//! bits, so no key is lost on the way, not even a hashed id. [`Shape::fits_u32`] decides once per
//! dimension whether its keys are stored in 32 bits.

use crate::{Error, Result};
use std::fmt;

const _: () = assert!(usize::BITS == u64::BITS, "keys are 64 bits wide in files and messages");

/// Extents of an array with `N` dimensions, 1 to 4.
///
/// ```
/// use hemiola_array::Shape;
/// let shape = Shape::new([3, 4]);
/// assert_eq!(shape.linear([2, 1])?, 9);
/// assert_eq!(shape.key(9), [2, 1]);
/// assert!(shape.linear([3, 0]).is_err());
/// # Ok::<(), hemiola_array::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape<const N: usize>([usize; N]);

impl<const N: usize> Shape<N> {
    const SUPPORTED: () = assert!(N >= 1 && N <= 4, "an array has 1 to 4 dimensions");

    /// Creates a shape from extents. An extent of 0 makes the array empty.
    #[must_use]
    pub const fn new(extents: [usize; N]) -> Self {
        let () = Self::SUPPORTED;
        Self(extents)
    }

    /// Smallest shape that contains keys up to and including `largest`; empty for `None`.
    #[must_use]
    pub fn covering(largest: Option<[usize; N]>) -> Self {
        Self::new(largest.map_or([0; N], |key| key.map(|index| index.saturating_add(1))))
    }

    /// Returns the extents of all dimensions.
    #[must_use]
    pub const fn extents(self) -> [usize; N] {
        self.0
    }

    /// Returns the extent of one dimension.
    #[must_use]
    pub const fn extent(self, dimension: usize) -> usize {
        self.0[dimension]
    }

    /// Returns the number of cells, the product of the extents.
    pub fn cells(self) -> Result<usize> {
        self.0
            .iter()
            .try_fold(1_usize, |cells, &extent| cells.checked_mul(extent))
            .ok_or_else(|| Error::TooManyCells { shape: self.0.to_vec() })
    }

    /// Returns the number of rows: cells of all dimensions but the last. A 1-D array is one row.
    pub fn rows(self) -> Result<usize> {
        self.0[..N - 1]
            .iter()
            .try_fold(1_usize, |rows, &extent| rows.checked_mul(extent))
            .ok_or_else(|| Error::TooManyCells { shape: self.0.to_vec() })
    }

    /// Returns the length of a row, the extent of the last dimension.
    #[must_use]
    pub const fn row_length(self) -> usize {
        self.0[N - 1]
    }

    /// Returns true if the keys of a dimension fit in 32 bits.
    #[must_use]
    pub const fn fits_u32(self, dimension: usize) -> bool {
        self.0[dimension] <= 1 << 32
    }

    /// Number of bits that an index of a dimension needs: 0 for an extent of 0 or 1.
    #[must_use]
    pub const fn index_bits(self, dimension: usize) -> u32 {
        match self.0[dimension] {
            0 => 0,
            extent => usize::BITS - (extent - 1).leading_zeros(),
        }
    }

    /// Returns true if `key` names a cell of the array.
    #[must_use]
    pub fn contains(self, key: [usize; N]) -> bool {
        key.iter().zip(self.0).all(|(&index, extent)| index < extent)
    }

    /// Returns the row-major linear index of a key.
    pub fn linear(self, key: [usize; N]) -> Result<usize> {
        if !self.contains(key) {
            return Err(Error::KeyOutOfShape { key: key.to_vec(), shape: self.0.to_vec() });
        }
        self.cells()?;
        Ok(key.iter().zip(self.0).fold(0, |linear, (&index, extent)| linear * extent + index))
    }

    /// Returns the key of a linear index. An index past the end wraps around in the first
    /// dimension.
    #[must_use]
    pub fn key(self, mut linear: usize) -> [usize; N] {
        let mut key = [0; N];
        for dimension in (0..N).rev() {
            let extent = self.0[dimension].max(1);
            key[dimension] = linear % extent;
            linear /= extent;
        }
        key
    }

    /// Returns an error unless the shapes are equal.
    pub fn check_equal(self, other: Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::ShapeMismatch { left: self.0.to_vec(), right: other.0.to_vec() })
    }
}

impl<const N: usize> From<[usize; N]> for Shape<N> {
    fn from(extents: [usize; N]) -> Self {
        Self::new(extents)
    }
}

impl<const N: usize> fmt::Debug for Shape<N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn linear_and_key_are_inverse(extents in [1_usize..20, 1_usize..20, 1_usize..20], pick in 0_usize..8000) {
            let shape = Shape::new(extents);
            let linear = pick % shape.cells().unwrap();
            let key = shape.key(linear);
            prop_assert!(shape.contains(key));
            prop_assert_eq!(shape.linear(key).unwrap(), linear);
        }
    }

    #[test]
    fn linear_index_grows_with_the_last_dimension_first() {
        let shape = Shape::new([2, 3, 4, 5]);
        let keys: Vec<_> = (0..120).map(|linear| shape.key(linear)).collect();
        assert!(keys.is_sorted());
        assert_eq!(keys[119], [1, 2, 3, 4]);
    }

    #[test]
    fn keys_fit_32_bits_up_to_an_extent_of_2_to_the_32() {
        assert!(Shape::new([1 << 32]).fits_u32(0));
        assert!(!Shape::new([(1 << 32) + 1]).fits_u32(0));
        assert_eq!(Shape::new([0, 1, 2, 3]).extents().len(), 4);
        assert_eq!([0, 1, 2, 3].map(|dimension| Shape::new([0, 1, 2, 5]).index_bits(dimension)), [0, 0, 1, 3]);
    }

    #[test]
    fn overflow_is_an_error_that_names_the_shape() {
        let error = Shape::new([1 << 40, 1 << 40]).cells().unwrap_err();
        assert_eq!(
            error.to_string(),
            "a shape of [1099511627776, 1099511627776] has more cells than an index can count; use smaller extents"
        );
    }

    #[test]
    fn a_key_outside_names_key_and_shape() {
        let error = Shape::new([2, 2]).linear([0, 2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "key [0, 2] is outside the shape [2, 2]; omit the shape to infer it from the data"
        );
    }
}
