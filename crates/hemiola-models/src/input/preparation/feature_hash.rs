//! Feature hashing (Weinberger et al. 2009): a text becomes one of `2^bits` features, with a sign.
//!
//! The hash is `MurmurHash3` (x86, 32 bits, seed 0; A. Appleby, public domain). Index and sign are
//! those of scikit-learn's `FeatureHasher`, so the same file has the same features there. Signs make
//! the sums of colliding features unbiased.

/// Returns the hash of a text.
fn murmur3(text: &[u8]) -> u32 {
    let scrambled = |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, rest) = text.as_chunks::<4>();
    let mut hash = blocks.iter().fold(0_u32, |hash, block| {
        (hash ^ scrambled(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let tail = rest.iter().rev().fold(0_u32, |tail, byte| tail << 8 | u32::from(*byte));
    hash ^= scrambled(tail) ^ text.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Returns the index of a text among `2^bits` features, and its sign.
pub(super) fn hashed_feature(text: &[u8], bits: u32) -> (u32, f32) {
    let hash = murmur3(text).cast_signed();
    (hash.unsigned_abs() & ((1 << bits) - 1), if hash >= 0 { 1.0 } else { -1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_function() {
        for (text, hash) in [
            ("", 0),
            ("test", 0xba6b_d213),
            ("Hello, world!", 0xc036_3e43),
            ("The quick brown fox jumps over the lazy dog", 0x2e4f_f723),
        ] {
            assert_eq!(murmur3(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn indices_are_below_the_number_of_features() {
        let all: Vec<(u32, f32)> = (0..1000).map(|n| hashed_feature(format!("x={n}").as_bytes(), 6)).collect();
        assert!(all.iter().all(|(index, _)| *index < 64));
        let positive = all.iter().filter(|(_, sign)| *sign > 0.0).count();
        assert!((400..600).contains(&positive));
    }
}
