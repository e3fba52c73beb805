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

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const CONCATENABLE: bool = true;

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
numbers!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, usize);

impl Element for bool {}
impl Element for char {}
impl Element for String {}
impl Element for () {}
impl<T: Element> Element for Vec<T> {}
impl<T: Element> Element for Option<T> {}
impl<A: Element, B: Element> Element for (A, B) {}
impl<A: Element, B: Element, C: Element> Element for (A, B, C) {}

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
