//! The numbers a table holds.
//!
//! A [`Cell`] is how a shard stores a number and how it travels in a row; its [`Wide`](Cell::Wide) form is what programs read
//! and add, what caches hold and what updates travel in. They differ only for `bf16`, whose 8 bits of precision would swallow
//! every increment below 1/256 of a value. **Decision:** a shard narrows by *stochastic rounding*: up or down
//! with probabilities that keep the expectation, so a thousand small increments move a value as far as their sum. The
//! random bits are a function of row, version and column, so runs repeat bit for bit. The road not taken is a second plane of
//! low bits: exact, but the memory of `f32`.
//!
//! `i32` wraps on overflow, as counts that are added and taken away must come back to where they were.

use bytemuck::Pod;
use half::bf16;
use std::fmt;

/// A number that programs read and add: `f32`, `f64`, `i32`.
pub trait Number: Pod + PartialEq + PartialOrd + Default + fmt::Debug + Send + Sync + 'static {
    /// Nothing.
    const ZERO: Self;
    /// The sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// `self + factor * other`, with one rounding for each operation.
    #[must_use]
    fn plus_scaled(self, factor: Self, other: Self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Whether all are.
    fn all_finite(values: &[Self]) -> bool;
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// The same value, or the nearest.
    fn to_f64(self) -> f64;
}

/// A number that can be divided and has roots: what adaptive procedures compute with.
pub trait Real: Number {
    /// The square root.
    #[must_use]
    fn sqrt(self) -> Self;
    /// The difference.
    #[must_use]
    fn minus(self, other: Self) -> Self;
    /// The product.
    #[must_use]
    fn times(self, other: Self) -> Self;
    /// The quotient.
    #[must_use]
    fn over(self, other: Self) -> Self;
}

/// How a number lies in a shard and travels in a row: `f32`, `f64`, `i32`, `bf16`.
pub trait Cell: Pod + PartialEq + Default + fmt::Debug + Send + Sync + 'static {
    /// What programs see.
    type Wide: Number + Cell<Wide = Self::Wide>;
    /// Size in bytes.
    const BYTES: usize = size_of::<Self>();
    /// The value.
    fn widen(self) -> Self::Wide;
    /// The cell nearest to a value, or, if cells are coarser, one of the two around it, as `noise` decides.
    fn narrow(value: Self::Wide, noise: u16) -> Self;
    /// Cells as values, where they are the same thing.
    fn as_wide(cells: &[Self]) -> Option<&[Self::Wide]>;
    /// Cells as values, where they are the same thing.
    fn as_wide_mut(cells: &mut [Self]) -> Option<&mut [Self::Wide]>;
    /// Reads one as it travels.
    fn read(bytes: &[u8]) -> Self;
    /// Appends them as they travel.
    fn write(cells: &[Self], bytes: &mut Vec<u8>);
}

// Integer operations, which a compiler turns into vector ones, where a chain of `&&` or of floating-point maxima is not.
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
        impl Number for $type {
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

        impl Cell for $type {
            type Wide = Self;

            #[inline]
            fn widen(self) -> Self {
                self
            }

            #[inline]
            fn narrow(value: Self, _noise: u16) -> Self {
                value
            }

            #[inline]
            fn as_wide(cells: &[Self]) -> Option<&[Self]> {
                Some(cells)
            }

            #[inline]
            fn as_wide_mut(cells: &mut [Self]) -> Option<&mut [Self]> {
                Some(cells)
            }

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a caller cuts cells to their size"))
            }

            fn write(cells: &[Self], bytes: &mut Vec<u8>) {
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

macro_rules! reals {
    ($($type:ty),*) => {$(
        impl Real for $type {
            #[inline]
            fn sqrt(self) -> Self {
                <$type>::sqrt(self)
            }

            #[inline]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline]
            fn over(self, other: Self) -> Self {
                self / other
            }
        }
    )*};
}
reals!(f32, f64);

impl Cell for bf16 {
    type Wide = f32;

    #[inline]
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline]
    fn narrow(value: f32, noise: u16) -> Self {
        if !value.is_finite() {
            return Self::from_f32(value);
        }
        // Adding below the cut carries into the kept bits as often as the value is nearer to the upper neighbour.
        let bits = value.to_bits();
        let rounded = Self::from_bits((bits.wrapping_add(u32::from(noise)) >> 16) as u16);
        // The largest values must not become infinite.
        if rounded.is_finite() { rounded } else { Self::from_bits((bits >> 16) as u16) }
    }

    fn as_wide(_cells: &[Self]) -> Option<&[f32]> {
        None
    }

    fn as_wide_mut(_cells: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    fn read(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("a caller cuts cells to their size"))
    }

    fn write(cells: &[Self], bytes: &mut Vec<u8>) {
        bytes.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
    }
}

/// Random bits for rounding: a function of row, version and column.
#[must_use]
#[inline]
pub fn noise(key: u64, version: u64, column: usize) -> u16 {
    // The finalizer of SplitMix64 over a sum of multiples.
    let mut bits = key
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(version.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add((column as u64).wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_keeps_small_increments_in_expectation() {
        // 1000 increments of 1/1000: rounding to nearest would stay at 1 for ever, as 1/1000 is below half a step.
        let mut sum = 0.0;
        for key in 0..64 {
            let mut cell = bf16::from_f32(1.0);
            for version in 0..1000 {
                cell = bf16::narrow(cell.widen() + 0.001, noise(key, version, 0));
            }
            sum += f64::from(cell.widen());
        }
        // A walk of 1000 steps with a deviation of at most half a step (2^-7) each: 0.12 for one row, 0.015 for 64.
        let mean = sum / 64.0;
        assert!((mean - 2.0).abs() < 0.06, "the mean is {mean}");
        assert_eq!(bf16::from_f32(1.0 + 0.001), bf16::from_f32(1.0), "the test would prove nothing otherwise");
    }

    #[test]
    fn values_that_a_cell_can_hold_are_not_changed() {
        for value in [0.0, 1.0, -3.5, 1e30, -1e-30] {
            let cell = bf16::from_f32(value);
            for noise in [0, 1, 77, u16::MAX] {
                assert_eq!(bf16::narrow(cell.widen(), noise), cell);
            }
        }
        assert!(bf16::narrow(f32::MAX, u16::MAX).is_finite());
        assert!(!bf16::narrow(f32::INFINITY, 5).is_finite());
    }
}
