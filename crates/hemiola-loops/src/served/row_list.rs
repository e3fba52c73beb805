//! Encoding of sorted row lists: gaps of variable length, so neighbours take one byte each.

use hemiola_array::{Error, Result};
use hemiola_core::varint;

/// Appends ascending row numbers to `bytes`.
///
/// # Panics
/// If they do not ascend.
pub(crate) fn pack(rows: &[u64], bytes: &mut Vec<u8>) {
    let mut before = 0;
    for &row in rows {
        varint::write(row.checked_sub(before).expect("rows ascend"), bytes);
        before = row;
    }
}

/// Decodes the output of [`pack`] up to the end of `bytes`. All rows must be below `limit`.
pub(crate) fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u64>> {
    let bad = |problem: &str| Error::BadMessage { problem: format!("row list: {problem}") };
    let (mut rows, mut row, mut rest) = (Vec::new(), 0_u64, bytes);
    while !rest.is_empty() {
        let gap = varint::read(&mut rest).map_err(|error| bad(&error.to_string()))?;
        row = row.checked_add(gap).filter(|row| *row < limit).ok_or_else(|| bad("a row is outside of the array"))?;
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn row_lists_round_trip(mut rows in prop::collection::vec(any::<u64>(), 0..50)) {
            rows.retain(|row| *row < u64::MAX);
            rows.sort_unstable();
            let mut bytes = Vec::new();
            pack(&rows, &mut bytes);
            prop_assert_eq!(unpack(&bytes, u64::MAX).unwrap(), rows);
        }

        #[test]
        fn arbitrary_bytes_are_an_error_or_valid_rows(bytes in prop::collection::vec(any::<u8>(), 0..60), limit in 0_u64..10_000) {
            if let Ok(rows) = unpack(&bytes, limit) {
                prop_assert!(rows.is_sorted() && rows.iter().all(|row| *row < limit));
            }
        }
    }

    #[test]
    fn neighbours_cost_a_byte() {
        let mut bytes = Vec::new();
        pack(&(5000..6000).collect::<Vec<_>>(), &mut bytes);
        assert_eq!(bytes.len(), 1001);
    }
}
