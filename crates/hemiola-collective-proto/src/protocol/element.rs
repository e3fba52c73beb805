//! Element types of collectives.
//!
//! **Invariant:** elements travel in little-endian order on every machine, and combining rounds
//! once, to the element type.

use bytemuck::Pod;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// Element type of a collective, as sent to other peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElementKind {
    /// 32-bit floating point of IEEE 754.
    F32,
    /// 64-bit floating point of IEEE 754.
    F64,
    /// 32-bit integer; sums wrap.
    I32,
    /// 64-bit integer; sums wrap.
    I64,
    /// 16-bit floating point with the exponent range of `f32` (bfloat16).
    Bf16,
    /// 16-bit floating point of IEEE 754.
    F16,
    /// Bytes, for compressed payloads; sums wrap.
    U8,
}

impl ElementKind {
    const ALL: [Self; 7] = [Self::F32, Self::F64, Self::I32, Self::I64, Self::Bf16, Self::F16, Self::U8];

    /// Size of an element in bytes.
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
        Self::ALL.iter().position(|&kind| kind == self).map_or(u8::MAX, |index| index as u8)
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

/// Binary operator of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ReduceOp {
    /// Sum of both operands.
    Sum,
    /// Smaller operand; NaN if one of them is.
    Min,
    /// Larger operand; NaN if one of them is.
    Max,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

/// Element type that collectives can move: `f32`, `f64`, `i32`, `i64`, `bf16`, `f16`, and `u8` for
/// compressed payloads.
pub trait CollectiveElement: Pod + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Runtime tag of the type.
    const KIND: ElementKind;

    /// Returns the sum, rounded once.
    #[must_use]
    fn sum(self, other: Self) -> Self;
    /// Returns the smaller operand, or NaN.
    #[must_use]
    fn min(self, other: Self) -> Self;
    /// Returns the larger operand, or NaN.
    #[must_use]
    fn max(self, other: Self) -> Self;
    /// Returns true if the value is NaN; integers never are.
    fn is_nan(self) -> bool;
    /// Parses an element from a slice of exactly its size.
    fn from_wire(bytes: &[u8]) -> Self;
    /// Appends the element in wire format.
    fn to_wire(self, bytes: &mut Vec<u8>);
}

macro_rules! floats {
    ($($type:ty: $kind:ident, $sum:expr;)*) => {$(
        impl CollectiveElement for $type {
            const KIND: ElementKind = ElementKind::$kind;

            #[inline]
            fn sum(self, other: Self) -> Self {
                let sum: Self = $sum(self, other);
                // The bit pattern of a NaN sum depends on the order of the operands, which the
                // compiler is free to choose. A canonical NaN makes all peers agree.
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
        impl CollectiveElement for $type {
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

/// Length of the runs in which NaN are counted in 32 bits: a vector register holds more counters of
/// 32 bits than of 64.
const NAN_COUNT_CHUNK: usize = 1 << 12;

/// SIMD kernel: combines each own element with the incoming one by `change` and counts the NaN of
/// the result. Compiled for every register width.
struct ZipWithKernel<'a, T, F> {
    own: &'a mut [T],
    incoming: &'a [T],
    change: F,
}

impl<T: CollectiveElement, F: Fn(T, T) -> T> pulp::NullaryFnOnce for ZipWithKernel<'_, T, F> {
    type Output = usize;

    #[expect(clippy::inline_always, reason = "only inlined code is compiled for the detected instruction set")]
    #[inline(always)]
    fn call(self) -> usize {
        let Self { own, incoming, change } = self;
        let mut nan = 0;
        for (own, incoming) in own.chunks_mut(NAN_COUNT_CHUNK).zip(incoming.chunks(NAN_COUNT_CHUNK)) {
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

/// SIMD kernel that counts NaN.
struct CountNanKernel<'a, T>(&'a [T]);

impl<T: CollectiveElement> pulp::NullaryFnOnce for CountNanKernel<'_, T> {
    type Output = usize;

    #[expect(clippy::inline_always, reason = "only inlined code is compiled for the detected instruction set")]
    #[inline(always)]
    fn call(self) -> usize {
        let count = |some: &[T]| some.iter().map(|element| u32::from(element.is_nan())).sum::<u32>() as usize;
        self.0.chunks(NAN_COUNT_CHUNK).map(count).sum()
    }
}

/// Counts the elements that are NaN.
pub fn count_nan<T: CollectiveElement>(elements: &[T]) -> usize {
    pulp::Arch::new().dispatch(CountNanKernel(elements))
}

/// Copies elements into wire format.
pub(crate) fn to_bytes<T: CollectiveElement>(elements: &[T]) -> Vec<u8> {
    as_bytes(elements).into_owned()
}

/// Returns elements in wire format, borrowed on little-endian machines.
pub(super) fn as_bytes<T: CollectiveElement>(elements: &[T]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(elements));
    }
    let mut bytes = Vec::with_capacity(size_of_val(elements));
    for element in elements {
        element.to_wire(&mut bytes);
    }
    Cow::Owned(bytes)
}

/// Replaces each own element by `change(own, incoming)` and counts the NaN of the result.
fn zip_with<T: CollectiveElement>(own: &mut [T], bytes: &[u8], change: impl Fn(T, T) -> T) -> usize {
    // Bodies of large messages arrive aligned; then the loop runs over two plain slices.
    if cfg!(target_endian = "little")
        && let Ok(incoming) = bytemuck::try_cast_slice::<u8, T>(bytes)
    {
        return pulp::Arch::new().dispatch(ZipWithKernel { own, incoming, change });
    }
    let incoming = bytes.chunks_exact(size_of::<T>()).map(T::from_wire);
    own.iter_mut().zip(incoming).for_each(|(own, incoming)| *own = change(*own, incoming));
    count_nan(own)
}

/// Replaces own elements by the incoming ones and counts the NaN.
pub(crate) fn replace<T: CollectiveElement>(own: &mut [T], bytes: &[u8]) -> usize {
    zip_with(own, bytes, |_, incoming| incoming)
}

/// Replaces own elements by `own ∘ incoming`, or by `incoming ∘ own`, and counts the NaN. The order
/// affects only the bits of NaN, but those too must agree between peers.
pub(super) fn combine<T: CollectiveElement>(operator: ReduceOp, own: &mut [T], bytes: &[u8], own_first: bool) -> usize {
    match (operator, own_first) {
        (ReduceOp::Sum, true) => zip_with(own, bytes, T::sum),
        (ReduceOp::Sum, false) => zip_with(own, bytes, |own, incoming| incoming.sum(own)),
        (ReduceOp::Min, true) => zip_with(own, bytes, T::min),
        (ReduceOp::Min, false) => zip_with(own, bytes, |own, incoming| incoming.min(own)),
        (ReduceOp::Max, true) => zip_with(own, bytes, T::max),
        (ReduceOp::Max, false) => zip_with(own, bytes, |own, incoming| incoming.max(own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: CollectiveElement>(elements: &[T]) {
        let bytes = to_bytes(elements);
        assert_eq!(bytes.len(), size_of_val(elements));
        let mut back = vec![T::zeroed(); elements.len()];
        replace(&mut back, &bytes);
        assert_eq!(back, elements);
        // Repeats the check at an unaligned address.
        let shifted: Vec<u8> = std::iter::once(0).chain(bytes).collect();
        let mut sums = vec![T::zeroed(); elements.len()];
        combine(ReduceOp::Sum, &mut sums, &shifted[1..], true);
        assert_eq!(sums, elements);
    }

    #[test]
    fn elements_round_trip() {
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
            assert!(
                CollectiveElement::is_nan(CollectiveElement::min(a, b))
                    && CollectiveElement::is_nan(CollectiveElement::max(a, b))
            );
        }
        let (small, large) = (bf16::from_f32(-1.0), bf16::from_f32(2.0));
        assert_eq!((CollectiveElement::min(small, large), CollectiveElement::max(small, large)), (small, large));
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
