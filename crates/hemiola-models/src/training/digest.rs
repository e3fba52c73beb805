//! Whether data are the same as before: one number for all entries of an array and the names of its indices.
//!
//! **Invariant:** it depends on entries and names alone, not on how they are divided: numbers of entries are added, which has no
//! order. It tells changed data, not forged ones.

use hemiola::Result;
use hemiola::prelude::*;

/// *Collective.* The digest of an array of ratings or counts, the same on every peer.
pub fn digest<const N: usize>(array: &DistArray<f32, N>) -> Result<u64> {
    let mut sum = 0_u64;
    array.for_each(|key, value| {
        let entry = key.iter().fold(u64::from(value.to_bits()), |digest, index| mixed(digest, *index));
        sum = sum.wrapping_add(entry);
    });
    let entries = array.cluster().all_gather(sum)?.into_iter().fold(0, u64::wrapping_add);
    Ok((0..N).filter_map(|dimension| array.names(dimension)).fold(entries, |digest, names| {
        names.names().fold(mixed(digest, names.len() as u64), |digest, name| {
            name.iter().fold(mixed(digest, name.len() as u64), |digest, byte| mixed(digest, u64::from(*byte)))
        })
    }))
}

/// Two numbers made one, every bit of which depends on every bit of both (the finish of `SplitMix64`).
pub(crate) fn mixed(left: u64, right: u64) -> u64 {
    let mut bits = left.rotate_left(25) ^ right.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(peers: usize, value: impl Fn([u64; 2]) -> f32 + Sync) -> u64 {
        let digests = hemiola::standalone(peers)
            .run(|cluster| digest(&cluster.from_fn([9, 4], &value)?.entries().materialize()?))
            .unwrap();
        assert!(digests.iter().all(|other| *other == digests[0]));
        digests[0]
    }

    #[test]
    fn it_is_that_of_the_entries_however_they_are_divided() {
        let plain = |[row, column]: [u64; 2]| (row * 4 + column) as f32;
        assert_eq!(of(1, plain), of(3, plain));
        assert_ne!(of(1, plain), of(1, |key| plain(key) + f32::from(key == [8, 3]) * 0.5));
        // Two entries that change places are other data.
        let swapped = |key: [u64; 2]| match key {
            [0, 1] => plain([2, 3]),
            [2, 3] => plain([0, 1]),
            key => plain(key),
        };
        assert_ne!(of(1, plain), of(1, swapped));
    }
}
