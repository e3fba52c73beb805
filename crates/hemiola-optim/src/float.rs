//! Floating-point types of values, gradients and state.

use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// Floating-point type that rules compute in: `f32` or `f64`.
///
/// Hyperparameters are `f64` and are rounded to this type before they meet a gradient.
pub trait Float:
    Copy
    + PartialOrd
    + fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// Rounds to the nearest value of this type.
    fn from_f64(value: f64) -> Self;

    /// Converts to `f64` without rounding.
    fn to_f64(self) -> f64;

    /// Square root of the value.
    #[must_use]
    fn sqrt(self) -> Self;
}

impl Float for f32 {
    #[inline]
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
}

impl Float for f64 {
    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline]
    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }
}
