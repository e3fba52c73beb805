//! Fingerprint of the data: one number for the entries of an array and the names of its indices.
//!
//! **Invariant:** the digest depends on entries and names alone, not on their distribution over
//! peers: hashes of entries are added, which is commutative. It detects changed data, not forged
//! ones.

use hemiola_array::DistArray;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::Result;
use hemiola_core::rng::{GOLDEN_GAMMA, mix64};

/// *Collective.* Returns the digest of an array of ratings or counts, equal on every peer.
pub fn digest<const N: usize>(array: &DistArray<f32, N>) -> Result<u64> {
    let mut sum = 0_u64;
    array.for_each(|key, value| {
        let entry = key.iter().fold(u64::from(value.to_bits()), |digest, index| hash_combine(digest, *index as u64));
        sum = sum.wrapping_add(entry);
    });
    let entries = array.cluster().all_gather(sum)?.into_iter().fold(0, u64::wrapping_add);
    Ok((0..N).filter_map(|dimension| array.names(dimension)).fold(entries, |digest, names| {
        names.names().fold(hash_combine(digest, names.len() as u64), |digest, name| {
            name.iter()
                .fold(hash_combine(digest, name.len() as u64), |digest, byte| hash_combine(digest, u64::from(*byte)))
        })
    }))
}

/// *Collective.* Returns the digest of labelled examples, equal on every peer.
pub(crate) fn labelled_digest(examples: &LabelledData) -> Result<u64> {
    Ok(digest(&examples.features)?.rotate_left(1) ^ digest(&examples.labels)?)
}

/// Hashes two numbers into one; every bit of the result depends on every bit of both.
pub(crate) fn hash_combine(left: u64, right: u64) -> u64 {
    mix64(left.rotate_left(25) ^ right.wrapping_add(GOLDEN_GAMMA))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::ArrayExt;

    fn of(peers: usize, value: impl Fn([usize; 2]) -> f32 + Sync) -> u64 {
        let digests = hemiola_cluster::standalone(peers)
            .run(|cluster| digest(&cluster.from_fn([9, 4], &value)?.entries().materialize()?))
            .unwrap();
        assert!(digests.iter().all(|other| *other == digests[0]));
        digests[0]
    }

    #[test]
    fn the_digest_does_not_depend_on_the_distribution() {
        let plain = |[row, column]: [usize; 2]| (row * 4 + column) as f32;
        assert_eq!(of(1, plain), of(3, plain));
        assert_ne!(of(1, plain), of(1, |key| plain(key) + f32::from(key == [8, 3]) * 0.5));
        // Swapping the values of two entries changes the digest.
        let swapped = |key: [usize; 2]| match key {
            [0, 1] => plain([2, 3]),
            [2, 3] => plain([0, 1]),
            key => plain(key),
        };
        assert_ne!(of(1, plain), of(1, swapped));
    }
}
