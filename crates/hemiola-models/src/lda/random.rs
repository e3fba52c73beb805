//! Random numbers by what they are for, not by who asks first.
//!
//! A number is a hash of a key and a counter (the finish of `SplitMix64`): the key names the seed, the pass and the cell, the counter the token. Nothing
//! depends on threads or on the order of calls.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(u64);

impl Key {
    /// The stream that belongs to these numbers, in this order.
    pub(super) fn new(numbers: &[u64]) -> Self {
        let next = |key, number: &u64| mix(key ^ number.wrapping_mul(STEP).wrapping_add(0x632b_e59b_d9b4_e019));
        Self(numbers.iter().fold(0x243f_6a88_85a3_08d3, next))
    }

    #[inline(always)]
    pub(super) const fn bits(self, counter: u64) -> u64 {
        mix(self.0.wrapping_add(counter.wrapping_mul(STEP)))
    }

    /// At least 0 and below 1, in steps of 2⁻²⁴.
    #[inline(always)]
    pub(super) fn unit(self, counter: u64) -> f32 {
        unit(self.bits(counter))
    }

    /// Below `bound`, which is at most 2³².
    #[inline(always)]
    pub(super) const fn below(self, counter: u64, bound: u64) -> u64 {
        ((self.bits(counter) >> 32) * bound) >> 32
    }
}

/// The upper 24 bits as a number below 1.
#[inline(always)]
pub(super) fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_and_differ_by_key() {
        let key = Key::new(&[1, 2, 3]);
        let mean = (0..10_000).map(|at| f64::from(key.unit(at))).sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let mut seen = [0; 7];
        (0..7000).for_each(|at| seen[key.below(at, 7) as usize] += 1);
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
        assert_ne!(key.bits(0), Key::new(&[1, 3, 2]).bits(0));
    }
}
