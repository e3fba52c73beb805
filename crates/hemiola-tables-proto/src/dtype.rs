//! Element types of a table.
//!
//! A [`StorageType`] is the type in which a shard stores a cell and in which a row travels. Its
//! [`Compute`](StorageType::Compute) type is what programs read and add, what caches hold and what
//! updates travel in. The two differ only for `bf16`, whose 8 bits of precision would swallow every
//! increment below 1/256 of a value.
//!
//! **Decision:** a shard converts to storage by *stochastic rounding*. It rounds up or down with
//! probabilities that preserve the expectation, so a thousand small increments move a value as far
//! as their sum. The random bits are a function of row, version and column, so runs are
//! bit-identical. The alternative is a second plane of low bits: exact, but with the memory of
//! `f32`.
//!
//! `i32` wraps on overflow, so that counts which are added and subtracted return to their old
//! value.

use bytemuck::Pod;
use half::bf16;
use hemiola_core::rng::{GOLDEN_GAMMA, mix64};
use std::fmt;

/// Type that programs read and add: `f32`, `f64` or `i32`.
pub trait ComputeType: Pod + PartialEq + PartialOrd + Default + fmt::Debug + Send + Sync + 'static {
    /// Additive identity of the type.
    const ZERO: Self;
    /// Sum of two values.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// Returns `self + factor * other`, rounded after each operation.
    #[must_use]
    fn plus_scaled(self, factor: Self, other: Self) -> Self;
    /// Returns true unless the value is NaN or infinite.
    fn is_finite(self) -> bool;
    /// Returns true if all values are finite.
    fn all_finite(values: &[Self]) -> bool;
    /// Nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Converts to the nearest `f64`.
    fn to_f64(self) -> f64;
}

/// Type of a stored cell: `f32`, `f64`, `i32` or `bf16`.
pub trait StorageType: Pod + PartialEq + Default + fmt::Debug + Send + Sync + 'static {
    /// Type in which programs read and add cells.
    type Compute: ComputeType + StorageType<Compute = Self::Compute>;
    /// Size of a cell in bytes.
    const BYTES: usize = size_of::<Self>();
    /// Converts to the compute type.
    fn to_compute(self) -> Self::Compute;
    /// Converts from the compute type. If the storage type is coarser, `noise` selects one of the
    /// two neighbours.
    fn from_compute(value: Self::Compute, noise: u16) -> Self;
    /// Views stored cells as compute values, if both types are the same.
    fn as_compute(cells: &[Self]) -> Option<&[Self::Compute]>;
    /// Views stored cells as mutable compute values, if both types are the same.
    fn as_compute_mut(cells: &mut [Self]) -> Option<&mut [Self::Compute]>;
    /// Reads one cell from little-endian bytes.
    fn read_le(bytes: &[u8]) -> Self;
    /// Appends cells as little-endian bytes.
    fn write_le(cells: &[Self], bytes: &mut Vec<u8>);
}

// Integer operations vectorize; a chain of `&&` or of floating-point maxima does not.
fn all_finite_f32(values: &[f32]) -> bool {
    const EXPONENT: u32 = f32::INFINITY.to_bits();
    values.iter().fold(0, |found, value| found | u32::from(value.to_bits() & EXPONENT == EXPONENT)) == 0
}

fn all_finite_f64(values: &[f64]) -> bool {
    const EXPONENT: u64 = f64::INFINITY.to_bits();
    values.iter().fold(0, |found, value| found | u64::from(value.to_bits() & EXPONENT == EXPONENT)) == 0
}

macro_rules! numbers {
    ($($type:ty: $plus:expr, $scaled:expr, $finite:expr, $all:expr;)*) => {$(
        impl ComputeType for $type {
            const ZERO: Self = 0 as $type;

            #[inline]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }

            #[inline]
            fn plus_scaled(self, factor: Self, other: Self) -> Self {
                $scaled(self, factor, other)
            }

            #[inline]
            fn is_finite(self) -> bool {
                $finite(self)
            }

            #[inline]
            fn all_finite(values: &[Self]) -> bool {
                $all(values)
            }

            fn from_f64(value: f64) -> Self {
                value as $type
            }

            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }

        impl StorageType for $type {
            type Compute = Self;

            #[inline]
            fn to_compute(self) -> Self {
                self
            }

            #[inline]
            fn from_compute(value: Self, _noise: u16) -> Self {
                value
            }

            #[inline]
            fn as_compute(cells: &[Self]) -> Option<&[Self]> {
                Some(cells)
            }

            #[inline]
            fn as_compute_mut(cells: &mut [Self]) -> Option<&mut [Self]> {
                Some(cells)
            }

            fn read_le(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the slice has the size of a cell"))
            }

            fn write_le(cells: &[Self], bytes: &mut Vec<u8>) {
                if cfg!(target_endian = "little") {
                    bytes.extend_from_slice(bytemuck::cast_slice(cells));
                } else {
                    bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
                }
            }
        }
    )*};
}
numbers! {
    f32: |a, b| a + b, |a: f32, f, b| a + f * b, f32::is_finite, all_finite_f32;
    f64: |a, b| a + b, |a: f64, f, b| a + f * b, f64::is_finite, all_finite_f64;
    i32: i32::wrapping_add, |a: i32, f: i32, b| a.wrapping_add(f.wrapping_mul(b)), |_| true, |_| true;
}

impl StorageType for bf16 {
    type Compute = f32;

    #[inline]
    fn to_compute(self) -> f32 {
        self.to_f32()
    }

    #[inline]
    fn from_compute(value: f32, noise: u16) -> Self {
        if !value.is_finite() {
            return Self::from_f32(value);
        }
        // The addition carries into the kept bits with the probability of rounding up.
        let bits = value.to_bits();
        let rounded = Self::from_bits((bits.wrapping_add(u32::from(noise)) >> 16) as u16);
        // The largest values must not become infinite.
        if rounded.is_finite() { rounded } else { Self::from_bits((bits >> 16) as u16) }
    }

    fn as_compute(_cells: &[Self]) -> Option<&[f32]> {
        None
    }

    fn as_compute_mut(_cells: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    fn read_le(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("the slice has the size of a cell"))
    }

    fn write_le(cells: &[Self], bytes: &mut Vec<u8>) {
        bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
    }
}

/// Random bits for stochastic rounding: a function of row, version and column.
#[must_use]
#[inline]
pub fn rounding_noise(key: u64, version: u64, column: usize) -> u16 {
    let bits = key
        .wrapping_mul(GOLDEN_GAMMA)
        .wrapping_add(version.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add((column as u64).wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    (mix64(bits) >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_keeps_small_increments_in_expectation() {
        // 1000 increments of 1/1000. Rounding to nearest would stay at 1, because 1/1000 is below
        // half a unit in the last place.
        let mut sum = 0.0;
        for key in 0..64 {
            let mut cell = bf16::from_f32(1.0);
            for version in 0..1000 {
                cell = bf16::from_compute(cell.to_compute() + 0.001, rounding_noise(key, version, 0));
            }
            sum += f64::from(cell.to_compute());
        }
        // A random walk of 1000 steps, each with a standard deviation of at most half a unit
        // (2^-7): 0.12 for one row, 0.015 for 64.
        let mean = sum / 64.0;
        assert!((mean - 2.0).abs() < 0.06, "the mean is {mean}");
        assert_eq!(bf16::from_f32(1.0 + 0.001), bf16::from_f32(1.0), "rounding to nearest must lose the increment");
    }

    #[test]
    fn representable_values_are_not_changed() {
        for value in [0.0, 1.0, -3.5, 1e30, -1e-30] {
            let cell = bf16::from_f32(value);
            for noise in [0, 1, 77, u16::MAX] {
                assert_eq!(bf16::from_compute(cell.to_compute(), noise), cell);
            }
        }
        assert!(bf16::from_compute(f32::MAX, u16::MAX).is_finite());
        assert!(!bf16::from_compute(f32::INFINITY, 5).is_finite());
    }
}
