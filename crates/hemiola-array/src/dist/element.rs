//! Value types of arrays.
//!
//! Numbers are sent and stored as they are. Any other serde type becomes an element with an empty
//! `impl Element for MyType {}`.

use crate::{Error, Result};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Value type that arrays store and peers send.
pub trait Element: Clone + Send + Sync + Serialize + DeserializeOwned + 'static {
    /// True if the encodings of two calls of [`pack`](Self::pack) can be concatenated and read by
    /// one call of [`unpack`](Self::unpack).
    const CONCATENABLE: bool = false;

    /// True if values can be NaN or infinite. Parallel loops check what they write to arrays of such
    /// types, unless the array [allows](crate::DistArray::allow_non_finite) them.
    const CAN_BE_NON_FINITE: bool = false;

    /// Position and value of the first of `values` that is NaN or infinite.
    #[must_use]
    fn first_non_finite(_values: &[Self]) -> Option<(usize, f64)> {
        None
    }

    /// Appends the wire encoding of the values.
    fn pack(values: &[Self], bytes: &mut Vec<u8>) {
        bytes.extend(postcard::to_stdvec(values).expect("an element is plain data"));
    }

    /// Returns the wire encoding of the values. Numbers are not copied.
    #[must_use]
    fn into_bytes(values: Vec<Self>) -> Bytes {
        let mut bytes = Vec::new();
        Self::pack(&values, &mut bytes);
        bytes.into()
    }

    /// Decodes exactly `count` values that [`pack`](Self::pack) wrote.
    fn unpack(bytes: &[u8], count: usize) -> Result<Vec<Self>> {
        let values: Vec<Self> =
            postcard::from_bytes(bytes).map_err(|error| Error::BadMessage { problem: error.to_string() })?;
        if values.len() == count { Ok(values) } else { Err(wrong_count(values.len(), count)) }
    }
}

fn wrong_count(found: usize, expected: usize) -> Error {
    Error::BadMessage { problem: format!("received {found} values, the header announced {expected}") }
}

/// Owner of numbers while the transport sends their bytes.
struct NumberBuffer<T>(Vec<T>);

impl<T: bytemuck::NoUninit> AsRef<[u8]> for NumberBuffer<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Values per step of the search for numbers that are not finite.
const STRIDE: usize = 256;

macro_rules! floating_point {
    () => {
        const CAN_BE_NON_FINITE: bool = true;

        fn first_non_finite(values: &[Self]) -> Option<(usize, f64)> {
            // There is no branch inside a step, so that it is vectorized.
            let all_finite = |step: &[Self]| step.iter().fold(true, |all, value| all & value.is_finite());
            let start = values.chunks(STRIDE).position(|step| !all_finite(step))? * STRIDE;
            let at = start + values[start..].iter().position(|value| !value.is_finite())?;
            Some((at, f64::from(values[at])))
        }
    };
}

macro_rules! integers {
    () => {};
}

macro_rules! numbers {
    ($finite:ident: $($type:ty),*) => {$(
        impl Element for $type {
            const CONCATENABLE: bool = true;

            $finite!();

            fn pack(values: &[Self], bytes: &mut Vec<u8>) {
                if cfg!(target_endian = "little") {
                    bytes.extend_from_slice(bytemuck::cast_slice(values));
                } else {
                    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
            }

            fn into_bytes(values: Vec<Self>) -> Bytes {
                if cfg!(target_endian = "little") {
                    return Bytes::from_owner(NumberBuffer(values));
                }
                let mut bytes = Vec::new();
                Self::pack(&values, &mut bytes);
                bytes.into()
            }

            fn unpack(bytes: &[u8], count: usize) -> Result<Vec<Self>> {
                let (values, rest) = bytes.as_chunks::<{ size_of::<Self>() }>();
                if values.len() != count || !rest.is_empty() {
                    return Err(wrong_count(values.len(), count));
                }
                Ok(values.iter().map(|value| Self::from_le_bytes(*value)).collect())
            }
        }
    )*};
}
numbers!(floating_point: f32, f64);
numbers!(integers: i8, i16, i32, i64, u8, u16, u32, u64, usize);

impl Element for bool {}
impl Element for char {}
impl Element for String {}
impl Element for () {}

/// Items of an element that consists of other elements.
macro_rules! composed {
    ($($type:ident),*; |$value:pat_param| $found:expr) => {
        const CAN_BE_NON_FINITE: bool = $($type::CAN_BE_NON_FINITE)||*;

        fn first_non_finite(values: &[Self]) -> Option<(usize, f64)> {
            if !Self::CAN_BE_NON_FINITE {
                return None;
            }
            let find = |$value: &Self| $found;
            values.iter().enumerate().find_map(|(at, value)| find(value).map(|(_, number)| (at, number)))
        }
    };
}

/// Position and value of one value, if it is NaN or infinite.
fn if_non_finite<T: Element>(value: &T) -> Option<(usize, f64)> {
    T::first_non_finite(std::slice::from_ref(value))
}

impl<T: Element> Element for Vec<T> {
    composed!(T; |values| T::first_non_finite(values));
}

impl<T: Element> Element for Option<T> {
    composed!(T; |value| T::first_non_finite(value.as_slice()));
}

impl<A: Element, B: Element> Element for (A, B) {
    composed!(A, B; |(a, b)| if_non_finite(a).or_else(|| if_non_finite(b)));
}

impl<A: Element, B: Element, C: Element> Element for (A, B, C) {
    composed!(A, B, C; |(a, b, c)| if_non_finite(a).or_else(|| if_non_finite(b)).or_else(|| if_non_finite(c)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(values: &[T]) {
        let mut bytes = Vec::new();
        T::pack(values, &mut bytes);
        assert_eq!(T::unpack(&bytes, values.len()).unwrap(), values);
        assert_eq!(T::into_bytes(values.to_vec()), bytes);
        assert!(T::unpack(&bytes, values.len() + 1).is_err());
    }

    #[test]
    fn the_first_number_that_is_not_finite_is_found_in_every_step() {
        let mut values = vec![f32::MAX; 3 * STRIDE + 5];
        assert_eq!(f32::first_non_finite(&values), None);
        for at in [3 * STRIDE + 4, STRIDE, STRIDE - 1, 0] {
            values[at] = f32::NEG_INFINITY;
            assert_eq!(f32::first_non_finite(&values), Some((at, f64::NEG_INFINITY)));
        }
        let found = f64::first_non_finite(&[f64::MIN_POSITIVE / 2.0, f64::NAN]);
        assert!(found.is_some_and(|(at, value)| at == 1 && value.is_nan()));
    }

    #[test]
    fn numbers_that_are_not_finite_are_found_inside_other_elements() {
        let pairs = [(1, vec![1.0_f32]), (2, vec![2.0, f32::INFINITY])];
        assert_eq!(<(i32, Vec<f32>)>::first_non_finite(&pairs), Some((1, f64::INFINITY)));
        assert_eq!(<Option<f64>>::first_non_finite(&[None, Some(1.0)]), None);
        assert_eq!(<(u8, u8, f64)>::first_non_finite(&[(1, 2, f64::INFINITY)]), Some((0, f64::INFINITY)));
        const { assert!(!<(String, Vec<u64>)>::CAN_BE_NON_FINITE) };
    }

    proptest! {
        #[test]
        fn numbers_and_other_types_round_trip(
            floats in prop::collection::vec(any::<i32>(), 0..50),
            texts in prop::collection::vec((any::<u64>(), ".*"), 0..20),
        ) {
            round_trip(&floats);
            round_trip(&floats.iter().map(|value| f64::from(*value) / 3.0).collect::<Vec<_>>());
            round_trip(&texts);
        }

        #[test]
        fn malformed_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), count in 0..20_usize) {
            let _ = f32::unpack(&bytes, count);
            let _ = <(String, Vec<u64>)>::unpack(&bytes, count);
        }
    }
}
