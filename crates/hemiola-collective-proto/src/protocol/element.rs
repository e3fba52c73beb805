//! The numbers that collectives move and combine.
//!
//! **Invariant:** they travel in little-endian order whatever the machine, and combining rounds once, to the type itself.

use bytemuck::Pod;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// The type of elements, as it is told to other peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElementKind {
    /// 32-bit floating point.
    F32,
    /// 64-bit floating point.
    F64,
    /// 32-bit integer; sums wrap.
    I32,
    /// 64-bit integer; sums wrap.
    I64,
    /// The upper half of an `f32`.
    Bf16,
    /// 16-bit floating point of IEEE 754.
    F16,
    /// Bytes, for what is encoded; sums wrap.
    U8,
}

impl ElementKind {
    const ALL: [Self; 7] = [Self::F32, Self::F64, Self::I32, Self::I64, Self::Bf16, Self::F16, Self::U8];

    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::U8 => 1,
        }
    }

    pub(super) fn code(self) -> u8 {
        Self::ALL.iter().position(|&kind| kind == self).map_or(u8::MAX, |place| place as u8)
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::U8 => "u8",
        })
    }
}

/// How two values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Operator {
    /// Their sum.
    Sum,
    /// The smaller; NaN if one of them is.
    Min,
    /// The larger; NaN if one of them is.
    Max,
}

impl fmt::Display for Operator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

/// A number that collectives can move: `f32`, `f64`, `i32`, `i64`, `bf16`, `f16`, and `u8` for what is encoded.
pub trait Element: Pod + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Which it is.
    const KIND: ElementKind;

    /// The sum, rounded once.
    #[must_use]
    fn sum(self, other: Self) -> Self;
    /// The smaller, or NaN.
    #[must_use]
    fn min(self, other: Self) -> Self;
    /// The larger, or NaN.
    #[must_use]
    fn max(self, other: Self) -> Self;
    /// Whether it is not a number.
    fn is_nan(self) -> bool;
    /// Reads one as it travels, from a slice of its size.
    fn from_wire(bytes: &[u8]) -> Self;
    /// Appends one as it travels.
    fn to_wire(self, bytes: &mut Vec<u8>);
}

macro_rules! floats {
    ($($type:ty: $kind:ident, $sum:expr;)*) => {$(
        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

            #[inline]
            fn sum(self, other: Self) -> Self {
                let sum: Self = $sum(self, other);
                // Which of many NaN a sum is depends on the order in which a processor is given the two, which is the compiler's to choose.
                if <$type>::is_nan(sum) { <$type>::NAN } else { sum }
            }

            #[inline]
            fn min(self, other: Self) -> Self {
                if self < other || <$type>::is_nan(self) { self } else { other }
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                if self > other || <$type>::is_nan(self) { self } else { other }
            }

            #[inline]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }

            wire!();
        }
    )*};
}

macro_rules! integers {
    ($($type:ty: $kind:ident;)*) => {$(
        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;

            #[inline]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline]
            fn is_nan(self) -> bool {
                false
            }

            wire!();
        }
    )*};
}

macro_rules! wire {
    () => {
        #[inline]
        fn from_wire(bytes: &[u8]) -> Self {
            Self::from_le_bytes(bytes.try_into().expect("callers cut bytes to the size of an element"))
        }

        #[inline]
        fn to_wire(self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(&self.to_le_bytes());
        }
    };
}

floats! {
    f32: F32, |a: f32, b: f32| a + b;
    f64: F64, |a: f64, b: f64| a + b;
    bf16: Bf16, |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32());
    f16: F16, |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32());
}
integers! {
    i32: I32;
    i64: I64;
    u8: U8;
}

/// Elements in a row whose NaN are counted in 32 bits, which registers hold more of than of 64.
const COUNTED: usize = 1 << 12;

/// A pass over elements in registers of any width: each becomes what `change` makes of it and of the one that came for it. How many of them are not numbers then.
struct Pass<'a, T, F> {
    own: &'a mut [T],
    incoming: &'a [T],
    change: F,
}

impl<T: Element, F: Fn(T, T) -> T> pulp::NullaryFnOnce for Pass<'_, T, F> {
    type Output = usize;

    #[expect(clippy::inline_always, reason = "only what is inlined is compiled for the registers that were found")]
    #[inline(always)]
    fn call(self) -> usize {
        let Self { own, incoming, change } = self;
        let mut nan = 0;
        for (own, incoming) in own.chunks_mut(COUNTED).zip(incoming.chunks(COUNTED)) {
            let mut some = 0_u32;
            for (own, &incoming) in own.iter_mut().zip(incoming) {
                *own = change(*own, incoming);
                some += u32::from(own.is_nan());
            }
            nan += some as usize;
        }
        nan
    }
}

/// The same without anything that came.
struct Count<'a, T>(&'a [T]);

impl<T: Element> pulp::NullaryFnOnce for Count<'_, T> {
    type Output = usize;

    #[expect(clippy::inline_always, reason = "only what is inlined is compiled for the registers that were found")]
    #[inline(always)]
    fn call(self) -> usize {
        let count = |some: &[T]| some.iter().map(|element| u32::from(element.is_nan())).sum::<u32>() as usize;
        self.0.chunks(COUNTED).map(count).sum()
    }
}

/// How many of the elements are not numbers.
pub fn count_nan<T: Element>(elements: &[T]) -> usize {
    pulp::Arch::new().dispatch(Count(elements))
}

/// Elements as they travel.
pub(crate) fn to_bytes<T: Element>(elements: &[T]) -> Vec<u8> {
    as_bytes(elements).into_owned()
}

/// The same where they lie, if they travel as they are.
pub(super) fn as_bytes<T: Element>(elements: &[T]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(elements));
    }
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    for element in elements {
        element.to_wire(&mut bytes);
    }
    Cow::Owned(bytes)
}

/// Makes each element what `change` makes of it and of the one that came for it; how many are not numbers then.
fn zip_with<T: Element>(own: &mut [T], bytes: &[u8], change: impl Fn(T, T) -> T) -> usize {
    // Large bodies come aligned, and then the loop runs over two plain slices.
    if cfg!(target_endian = "little")
        && let Ok(incoming) = bytemuck::try_cast_slice::<u8, T>(bytes)
    {
        return pulp::Arch::new().dispatch(Pass { own, incoming, change });
    }
    let incoming = bytes.chunks_exact(size_of::<T>()).map(T::from_wire);
    own.iter_mut().zip(incoming).for_each(|(own, incoming)| *own = change(*own, incoming));
    count_nan(own)
}

/// Own elements become what came; how many of them are not numbers.
pub(crate) fn replace<T: Element>(own: &mut [T], bytes: &[u8]) -> usize {
    zip_with(own, bytes, |_, incoming| incoming)
}

/// Own elements become `own ∘ incoming`, or `incoming ∘ own`: the order matters to the bits of NaN alone, but then it does. How many are not numbers then.
pub(super) fn combine<T: Element>(operator: Operator, own: &mut [T], bytes: &[u8], own_first: bool) -> usize {
    match (operator, own_first) {
        (Operator::Sum, true) => zip_with(own, bytes, T::sum),
        (Operator::Sum, false) => zip_with(own, bytes, |own, incoming| incoming.sum(own)),
        (Operator::Min, true) => zip_with(own, bytes, T::min),
        (Operator::Min, false) => zip_with(own, bytes, |own, incoming| incoming.min(own)),
        (Operator::Max, true) => zip_with(own, bytes, T::max),
        (Operator::Max, false) => zip_with(own, bytes, |own, incoming| incoming.max(own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Element>(elements: &[T]) {
        let bytes = to_bytes(elements);
        assert_eq!(bytes.len(), size_of_val(elements));
        let mut back = vec![T::zeroed(); elements.len()];
        replace(&mut back, &bytes);
        assert_eq!(back, elements);
        // The same from an address that fits no element.
        let shifted: Vec<u8> = std::iter::once(0).chain(bytes).collect();
        let mut sums = vec![T::zeroed(); elements.len()];
        combine(Operator::Sum, &mut sums, &shifted[1..], true);
        assert_eq!(sums, elements);
    }

    #[test]
    fn elements_survive_the_wire() {
        round_trip(&[1.5_f32, -2.0, f32::MAX]);
        round_trip(&[1.5_f64, -2.0, 1e300]);
        round_trip(&[1_i32, -2, i32::MIN]);
        round_trip(&[1_i64, -2, i64::MIN]);
        round_trip(&[bf16::from_f32(1.5), bf16::from_f32(-3e30)]);
        round_trip(&[f16::from_f32(1.5), f16::from_f32(-6e4)]);
        assert_eq!(to_bytes(&[1_i32]), [1, 0, 0, 0]);
    }

    #[test]
    fn nan_wins_every_comparison() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(Element::is_nan(Element::min(a, b)) && Element::is_nan(Element::max(a, b)));
        }
        let (small, large) = (bf16::from_f32(-1.0), bf16::from_f32(2.0));
        assert_eq!((Element::min(small, large), Element::max(small, large)), (small, large));
        assert_eq!(count_nan(&[1.0, f64::NAN, f64::NAN]), 2);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(i32::MAX.sum(1), i32::MIN);
    }

    #[test]
    fn kinds_have_codes() {
        for kind in ElementKind::ALL {
            assert_eq!(ElementKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(ElementKind::from_code(7), None);
    }
}
