//! Operations on eight lanes: with SIMD registers or scalar code, bit-identical.
//!
//! Every operation is defined per lane, with a fixed order of horizontal sums. Products are rounded
//! before they are added, since not every machine has fused multiply-add. So a sampler written with
//! these has the same results on all machines.

/// Instruction set with eight lanes.
pub(super) trait Simd8: Copy {
    /// Vector of eight `f32` lanes.
    type Numbers: Copy;
    /// Vector of eight `u32` lanes.
    type Integers: Copy;

    fn load(self, from: &[f32; 8]) -> Self::Numbers;
    fn store(self, value: Self::Numbers, to: &mut [f32; 8]);
    fn splat(self, value: f32) -> Self::Numbers;
    fn add(self, left: Self::Numbers, right: Self::Numbers) -> Self::Numbers;
    fn multiply(self, left: Self::Numbers, right: Self::Numbers) -> Self::Numbers;
    /// Adds `more` to one lane, and 0 to the others.
    fn add_to_lane(self, value: Self::Numbers, lane: usize, more: f32) -> Self::Numbers;
    /// Prefix sums of the lanes: neighbours first, then pairs, then halves.
    fn running(self, value: Self::Numbers) -> Self::Numbers;
    fn lane(self, value: Self::Numbers, lane: usize) -> f32;
    /// Returns the number of leading lanes that are at most `bound`.
    fn first_above(self, value: Self::Numbers, bound: f32) -> usize;
    /// Returns the number of rows in which this lane is at most `bound`.
    fn count_up_to(self, rows: &[[f32; 8]], lane: usize, bound: f32) -> usize;

    fn widen(self, from: &[u16; 8]) -> Self::Numbers;
    fn integers(self, from: &[u32; 8]) -> Self::Integers;
    fn same(self, value: u32) -> Self::Integers;
    fn numbers(self, value: Self::Integers) -> Self::Numbers;
    fn shift_16(self, value: Self::Integers) -> Self::Integers;
    fn low_16(self, value: Self::Integers) -> Self::Integers;
    /// Sets all bits where lanes are equal, none where not.
    fn equal(self, left: Self::Integers, right: Self::Integers) -> Self::Integers;
    fn and(self, left: Self::Integers, right: Self::Integers) -> Self::Integers;
    fn or(self, left: Self::Integers, right: Self::Integers) -> Self::Integers;
    fn plus(self, left: Self::Integers, right: Self::Integers) -> Self::Integers;
    /// Bitwise or of all lanes.
    fn any(self, value: Self::Integers) -> u32;
}

/// Scalar implementation, lane by lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scalar8;

/// Applies `with` lane by lane.
#[inline(always)]
fn each<A: Copy, B: Copy, C>(left: [A; 8], right: [B; 8], with: impl Fn(A, B) -> C) -> [C; 8] {
    std::array::from_fn(|lane| with(left[lane], right[lane]))
}

impl Simd8 for Scalar8 {
    type Numbers = [f32; 8];
    type Integers = [u32; 8];

    #[inline(always)]
    fn load(self, from: &[f32; 8]) -> [f32; 8] {
        *from
    }
    #[inline(always)]
    fn store(self, value: [f32; 8], to: &mut [f32; 8]) {
        *to = value;
    }
    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 8] {
        [value; 8]
    }
    #[inline(always)]
    fn add(self, left: [f32; 8], right: [f32; 8]) -> [f32; 8] {
        each(left, right, |left, right| left + right)
    }
    #[inline(always)]
    fn multiply(self, left: [f32; 8], right: [f32; 8]) -> [f32; 8] {
        each(left, right, |left, right| left * right)
    }
    #[inline(always)]
    fn add_to_lane(self, value: [f32; 8], lane: usize, more: f32) -> [f32; 8] {
        std::array::from_fn(|at| value[at] + if at == lane { more } else { 0.0 })
    }
    #[inline(always)]
    fn running(self, value: [f32; 8]) -> [f32; 8] {
        // Values from beyond a half are 0.
        let before = |value: [f32; 8], at: usize, by: usize| if at % 4 >= by { value[at - by] } else { 0.0 };
        let value: [f32; 8] = std::array::from_fn(|at| value[at] + before(value, at, 1));
        let value: [f32; 8] = std::array::from_fn(|at| value[at] + before(value, at, 2));
        std::array::from_fn(|at| value[at] + if at < 4 { 0.0 } else { value[3] })
    }
    #[inline(always)]
    fn lane(self, value: [f32; 8], lane: usize) -> f32 {
        value[lane & 7]
    }
    #[inline(always)]
    fn first_above(self, value: [f32; 8], bound: f32) -> usize {
        value.iter().take_while(|value| **value <= bound).count()
    }
    #[inline(always)]
    fn count_up_to(self, rows: &[[f32; 8]], lane: usize, bound: f32) -> usize {
        rows.iter().filter(|row| row[lane & 7] <= bound).count()
    }
    #[inline(always)]
    fn widen(self, from: &[u16; 8]) -> [f32; 8] {
        from.map(f32::from)
    }
    #[inline(always)]
    fn integers(self, from: &[u32; 8]) -> [u32; 8] {
        *from
    }
    #[inline(always)]
    fn same(self, value: u32) -> [u32; 8] {
        [value; 8]
    }
    #[inline(always)]
    fn numbers(self, value: [u32; 8]) -> [f32; 8] {
        value.map(|value| value.cast_signed() as f32)
    }
    #[inline(always)]
    fn shift_16(self, value: [u32; 8]) -> [u32; 8] {
        value.map(|value| value >> 16)
    }
    #[inline(always)]
    fn low_16(self, value: [u32; 8]) -> [u32; 8] {
        value.map(|value| value & 0xffff)
    }
    #[inline(always)]
    fn equal(self, left: [u32; 8], right: [u32; 8]) -> [u32; 8] {
        each(left, right, |left, right| if left == right { u32::MAX } else { 0 })
    }
    #[inline(always)]
    fn and(self, left: [u32; 8], right: [u32; 8]) -> [u32; 8] {
        each(left, right, |left, right| left & right)
    }
    #[inline(always)]
    fn or(self, left: [u32; 8], right: [u32; 8]) -> [u32; 8] {
        each(left, right, |left, right| left | right)
    }
    #[inline(always)]
    fn plus(self, left: [u32; 8], right: [u32; 8]) -> [u32; 8] {
        each(left, right, u32::wrapping_add)
    }
    #[inline(always)]
    fn any(self, value: [u32; 8]) -> u32 {
        value.iter().fold(0, |all, value| all | value)
    }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use super::Simd8;
    use core::arch::x86_64::{__m128i, __m256, __m256i, _CMP_LE_OQ};
    use pulp::x86::V3;

    impl Simd8 for V3 {
        type Numbers = __m256;
        type Integers = __m256i;

        #[inline(always)]
        fn load(self, from: &[f32; 8]) -> __m256 {
            pulp::cast(*from)
        }
        #[inline(always)]
        fn store(self, value: __m256, to: &mut [f32; 8]) {
            *to = pulp::cast(value);
        }
        #[inline(always)]
        fn splat(self, value: f32) -> __m256 {
            self.avx._mm256_set1_ps(value)
        }
        #[inline(always)]
        fn add(self, left: __m256, right: __m256) -> __m256 {
            self.avx._mm256_add_ps(left, right)
        }
        #[inline(always)]
        fn multiply(self, left: __m256, right: __m256) -> __m256 {
            self.avx._mm256_mul_ps(left, right)
        }
        #[inline(always)]
        fn add_to_lane(self, value: __m256, lane: usize, more: f32) -> __m256 {
            let lanes: __m256i = pulp::cast([0_u32, 1, 2, 3, 4, 5, 6, 7]);
            let here = self.avx2._mm256_cmpeq_epi32(lanes, self.same(lane as u32));
            self.add(value, self.avx._mm256_and_ps(pulp::cast(here), self.splat(more)))
        }
        #[inline(always)]
        fn running(self, value: __m256) -> __m256 {
            let value = self.add(value, pulp::cast(self.avx2._mm256_slli_si256::<4>(pulp::cast(value))));
            let value = self.add(value, pulp::cast(self.avx2._mm256_slli_si256::<8>(pulp::cast(value))));
            let last = self.avx._mm256_permute_ps::<0xff>(value);
            // Adds nothing to the lower half, and the lower half's sum to the upper.
            self.add(value, self.avx._mm256_permute2f128_ps::<0x08>(last, last))
        }
        #[inline(always)]
        fn lane(self, value: __m256, lane: usize) -> f32 {
            let moved = self.avx2._mm256_permutevar8x32_ps(value, self.same(lane as u32));
            self.avx._mm256_cvtss_f32(moved)
        }
        #[inline(always)]
        fn first_above(self, value: __m256, bound: f32) -> usize {
            let up_to = self.avx._mm256_cmp_ps::<_CMP_LE_OQ>(value, self.splat(bound));
            self.avx._mm256_movemask_ps(up_to).trailing_ones() as usize
        }
        #[inline(always)]
        fn count_up_to(self, rows: &[[f32; 8]], lane: usize, bound: f32) -> usize {
            let bound = self.splat(bound);
            let mut counts = self.same(0);
            for row in rows {
                let up_to = self.avx._mm256_cmp_ps::<_CMP_LE_OQ>(self.load(row), bound);
                counts = self.avx2._mm256_sub_epi32(counts, pulp::cast(up_to));
            }
            let moved = self.avx2._mm256_permutevar8x32_epi32(counts, self.same(lane as u32));
            self.avx2._mm256_extract_epi32::<0>(moved) as usize
        }
        #[inline(always)]
        fn widen(self, from: &[u16; 8]) -> __m256 {
            self.avx._mm256_cvtepi32_ps(self.avx2._mm256_cvtepu16_epi32(pulp::cast::<[u16; 8], __m128i>(*from)))
        }
        #[inline(always)]
        fn integers(self, from: &[u32; 8]) -> __m256i {
            pulp::cast(*from)
        }
        #[inline(always)]
        fn same(self, value: u32) -> __m256i {
            self.avx._mm256_set1_epi32(value.cast_signed())
        }
        #[inline(always)]
        fn numbers(self, value: __m256i) -> __m256 {
            self.avx._mm256_cvtepi32_ps(value)
        }
        #[inline(always)]
        fn shift_16(self, value: __m256i) -> __m256i {
            self.avx2._mm256_srli_epi32::<16>(value)
        }
        #[inline(always)]
        fn low_16(self, value: __m256i) -> __m256i {
            self.avx2._mm256_and_si256(value, self.same(0xffff))
        }
        #[inline(always)]
        fn equal(self, left: __m256i, right: __m256i) -> __m256i {
            self.avx2._mm256_cmpeq_epi32(left, right)
        }
        #[inline(always)]
        fn and(self, left: __m256i, right: __m256i) -> __m256i {
            self.avx2._mm256_and_si256(left, right)
        }
        #[inline(always)]
        fn or(self, left: __m256i, right: __m256i) -> __m256i {
            self.avx2._mm256_or_si256(left, right)
        }
        #[inline(always)]
        fn plus(self, left: __m256i, right: __m256i) -> __m256i {
            self.avx2._mm256_add_epi32(left, right)
        }
        #[inline(always)]
        fn any(self, value: __m256i) -> u32 {
            let halves: [u128; 2] = pulp::cast(value);
            let half = halves[0] | halves[1];
            let quarter = half as u64 | (half >> 64) as u64;
            quarter as u32 | (quarter >> 32) as u32
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::lda::rng::CounterRng;
    use hemiola_testkit::{MissingRequirement, require};
    use pulp::x86::V3;

    /// Returns the bits of every operation on some numbers.
    fn all<E: Simd8>(eight: E, key: CounterRng) -> Vec<u32> {
        let numbers: [f32; 8] = std::array::from_fn(|at| key.unit(at as u64));
        let integers: [u32; 8] = std::array::from_fn(|at| key.random_u64(20 + at as u64) as u32);
        let narrow: [u16; 8] = integers.map(|integer| integer as u16);
        let (x, y) = (eight.load(&numbers), eight.widen(&narrow));
        let running = eight.running(x);
        let mut out = Vec::new();
        let kept = [
            eight.add(x, y),
            eight.multiply(x, y),
            eight.add_to_lane(x, 5, -0.3),
            running,
            eight.numbers(eight.low_16(eight.integers(&integers))),
            eight.numbers(eight.shift_16(eight.integers(&integers))),
            eight.splat(0.7),
        ];
        for value in kept {
            let mut stored = [0.0; 8];
            eight.store(value, &mut stored);
            out.extend(stored.map(f32::to_bits));
        }
        let rows: Vec<[f32; 8]> =
            (0..9).map(|row| std::array::from_fn(|at| key.unit(40 + row * 8 + at as u64))).collect();
        for lane in 0..8 {
            out.push(eight.lane(running, lane).to_bits());
            out.push(eight.count_up_to(&rows, lane, 0.4) as u32);
            out.push(eight.first_above(running, lane as f32 * 0.6) as u32);
        }
        let found = eight.equal(eight.integers(&integers), eight.same(integers[3]));
        out.push(eight.any(eight.and(found, eight.integers(&[1, 2, 4, 8, 16, 32, 64, 128]))));
        out.push(eight.any(eight.or(found, eight.same(2))));
        out.push(eight.any(eight.plus(eight.integers(&integers), eight.same(7))));
        out
    }

    #[test]
    fn simd_matches_scalar_code() {
        let missing = || MissingRequirement::new("simd", "this machine has no 256-bit registers");
        let wide = require!(V3::try_new().ok_or_else(missing));
        for seed in 0..200 {
            let key = CounterRng::new(&[seed]);
            assert_eq!(wide.vectorize(|| all(wide, key)), all(Scalar8, key));
        }
    }

    #[test]
    fn prefix_sums_cover_all_lanes() {
        let ones = Scalar8.running([1.0; 8]);
        assert_eq!(ones.map(|sum| sum as u32), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((Scalar8.first_above(ones, 3.5), Scalar8.first_above(ones, 9.0)), (3, 8));
    }
}
