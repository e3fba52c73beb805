//! Variable-length integers (LEB128): seven bits per byte, lowest first; the eighth bit marks
//! continuation.
//!
//! Sorted lists are sent as gaps between neighbours, which take one byte each while they are below
//! 128. Gaps that may be negative are [`zigzag`]-encoded first. **Invariant:** reading
//! arbitrary bytes never panics, and [`read`] inverts [`write()`].

use thiserror::Error;

/// Malformed variable-length integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VarintError {
    /// The input ends before the last byte of the number.
    #[error("the bytes end within a number")]
    Truncated,
    /// The number has bits beyond the 64th.
    #[error("a number exceeds 64 bits")]
    TooLong,
}

/// Appends a number to `bytes`.
#[inline]
pub fn write(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Returns the number of bytes that [`write()`] appends.
#[must_use]
#[inline]
pub const fn encoded_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a number from the front of `bytes` and advances the slice behind it.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Result<u64, VarintError> {
    let (mut number, mut shift) = (0_u64, 0_u32);
    loop {
        let (byte, rest) = bytes.split_first().ok_or(VarintError::Truncated)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift >= 64 || part << shift >> shift != part {
            return Err(VarintError::TooLong);
        }
        number |= part << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
}

/// Zigzag encoding of a signed gap, given in two's complement: short gaps in either direction
/// become small numbers.
#[must_use]
#[inline]
pub const fn zigzag(gap: u64) -> u64 {
    gap << 1 ^ (gap.cast_signed() >> 63).cast_unsigned()
}

/// Inverse of [`zigzag`].
#[must_use]
#[inline]
pub const fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(bits in 0_u32..64, number: u64) {
            let number = number >> bits;
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            prop_assert_eq!(bytes.len(), encoded_len(number));
            let mut rest = &bytes[..];
            prop_assert_eq!(read(&mut rest), Ok(number));
            prop_assert!(rest.is_empty());
            prop_assert_eq!(unzigzag(zigzag(number)), number);
        }

        #[test]
        fn arbitrary_bytes_are_a_number_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut rest = &bytes[..];
            while read(&mut rest).is_ok() {}
        }
    }

    #[test]
    fn malformed_numbers_are_told_apart() {
        assert_eq!(read(&mut &[0x80][..]), Err(VarintError::Truncated));
        assert_eq!(
            read(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2][..]),
            Err(VarintError::TooLong)
        );
        assert_eq!(read(&mut &[0xff; 11][..]), Err(VarintError::TooLong));
    }

    #[test]
    fn gaps_near_zero_take_one_byte() {
        for gap in [0_i64, 1, -1, 63, -64] {
            assert_eq!(encoded_len(zigzag(gap.cast_unsigned())), 1);
        }
        assert_eq!(encoded_len(zigzag(64)), 2);
    }
}
