//! Encoding of key lists: variable-length gaps between neighbours.
//!
//! A list in any order has signed gaps. An ascending list has unsigned ones, which take one byte
//! while they are below 128 instead of 64. **Invariant:** arbitrary bytes are an error or a list in
//! the given order, and a list is not longer than its bytes, so no message makes its receiver
//! allocate more than a small multiple of its size.

use hemiola_core::varint::{self, VarintError, unzigzag, zigzag};

/// Order of the keys of a list, which both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// Keys in any order: signed gaps.
    Any,
    /// Ascending keys: unsigned gaps.
    Ascending,
}

/// Malformed key list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyListError {
    /// A gap is not a valid number.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// The number of keys exceeds the number of bytes.
    #[error("the header announces more than the message holds")]
    TooLong,
    /// An ascending list goes beyond the largest key.
    #[error("a key exceeds 64 bits")]
    Overflow,
}

/// Signed gap between two keys.
#[inline]
pub(crate) fn signed_gap(before: u64, key: u64) -> u64 {
    zigzag(key.wrapping_sub(before))
}

/// Key behind a signed gap.
#[inline]
pub(crate) fn after_signed_gap(before: u64, gap: u64) -> u64 {
    before.wrapping_add(unzigzag(gap))
}

impl KeyOrder {
    #[inline]
    fn gap(self, before: u64, key: u64) -> u64 {
        match self {
            Self::Any => signed_gap(before, key),
            Self::Ascending => key.checked_sub(before).expect("the keys ascend"),
        }
    }

    #[inline]
    fn after(self, before: u64, gap: u64) -> Result<u64, KeyListError> {
        match self {
            Self::Any => Ok(after_signed_gap(before, gap)),
            Self::Ascending => before.checked_add(gap).ok_or(KeyListError::Overflow),
        }
    }
}

/// Appends keys to `bytes`. The receiver must know their number.
///
/// # Panics
/// If the keys do not have the order.
#[inline]
pub fn write(keys: impl IntoIterator<Item = u64>, order: KeyOrder, bytes: &mut Vec<u8>) {
    let mut before = 0;
    for key in keys {
        varint::write(order.gap(before, key), bytes);
        before = key;
    }
}

/// Number of bytes that [`write`](fn@write) appends.
///
/// # Panics
/// If the keys do not have the order.
#[must_use]
#[inline]
pub fn encoded_len(keys: impl IntoIterator<Item = u64>, order: KeyOrder) -> usize {
    let mut before = 0;
    let gap = |key| varint::encoded_len(order.gap(std::mem::replace(&mut before, key), key));
    keys.into_iter().map(gap).sum()
}

/// Reads `count` keys from the front of `bytes` and advances the slice behind them.
pub fn read(bytes: &mut &[u8], count: u64, order: KeyOrder) -> Result<Vec<u64>, KeyListError> {
    // Every key takes at least one byte.
    let length = usize::try_from(count).ok().filter(|count| *count <= bytes.len()).ok_or(KeyListError::TooLong)?;
    let mut keys = Vec::with_capacity(length);
    let mut key = 0_u64;
    for _ in 0..length {
        key = order.after(key, varint::read(bytes)?)?;
        keys.push(key);
    }
    Ok(keys)
}

/// Appends the number of keys and the keys.
///
/// # Panics
/// If the keys do not have the order.
pub fn write_counted(keys: &[u64], order: KeyOrder, bytes: &mut Vec<u8>) {
    varint::write(keys.len() as u64, bytes);
    write(keys.iter().copied(), order, bytes);
}

/// Reads the output of [`write_counted`] from the front of `bytes`.
pub fn read_counted(bytes: &mut &[u8], order: KeyOrder) -> Result<Vec<u64>, KeyListError> {
    let count = varint::read(bytes)?;
    read(bytes, count, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn key_lists_round_trip(mut keys in prop::collection::vec(any::<u64>(), 0..50), tail in any::<[u8; 3]>()) {
            for order in [KeyOrder::Any, KeyOrder::Ascending] {
                let mut bytes = Vec::new();
                write_counted(&keys, order, &mut bytes);
                let count = varint::encoded_len(keys.len() as u64);
                prop_assert_eq!(encoded_len(keys.iter().copied(), order) + count, bytes.len());
                bytes.extend(tail);
                let mut rest = &bytes[..];
                prop_assert_eq!(read_counted(&mut rest, order).unwrap(), keys.clone());
                prop_assert_eq!(rest, tail);
                keys.sort_unstable();
            }
        }

        #[test]
        fn arbitrary_bytes_are_an_error_or_a_list(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let keys = read_counted(&mut &bytes[..], KeyOrder::Any);
            prop_assert!(keys.is_err() || keys.is_ok_and(|keys| keys.capacity() <= bytes.len()));
            let keys = read_counted(&mut &bytes[..], KeyOrder::Ascending);
            prop_assert!(keys.is_err() || keys.is_ok_and(|keys| keys.is_sorted() && keys.capacity() <= bytes.len()));
        }
    }

    #[test]
    fn ascending_gaps_take_a_byte_up_to_127() {
        let keys: Vec<u64> = (0..1000).map(|at| 5000 + at * 127).collect();
        assert_eq!(encoded_len(keys.iter().copied(), KeyOrder::Ascending), 1001);
        assert_eq!(encoded_len(keys.iter().copied(), KeyOrder::Any), 2000);
    }

    #[test]
    fn malformed_lists_are_told_apart() {
        assert_eq!(read(&mut &[1][..], 2, KeyOrder::Any), Err(KeyListError::TooLong));
        assert_eq!(read(&mut &[0x80][..], 1, KeyOrder::Any), Err(KeyListError::Varint(VarintError::Truncated)));
        let mut bytes = Vec::new();
        varint::write(u64::MAX, &mut bytes);
        bytes.push(1);
        assert_eq!(read(&mut &bytes[..], 2, KeyOrder::Ascending), Err(KeyListError::Overflow));
    }
}
