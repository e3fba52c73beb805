//! Deterministic mutations of an input.
//!
//! Input number `n` of a campaign depends on its seed, on `n` and on the corpus alone, so that a
//! failure repeats. Mutations of bytes serve binary formats. Mutations of tokens (numbers, quoted
//! names, lines) serve text, where random bytes would only ever test the first check.

use hemiola_core::rng::SplitMix64;

/// Largest input that mutations produce, in bytes.
const MAX_BYTES: usize = 1 << 16;
/// Numbers at the limits of types and checks, as text.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-320",
    "NaN",
    "-inf",
    "0.0000000000000000000000000001",
];
/// Fragments with a meaning in one of the formats.
const FRAGMENTS: [&[u8]; 12] =
    [b"\n", b"\r\n", b",", b"\t", b"\"", b"{", b"]", b"\0", b"\x1b[2J", b"\xff\xfe", b"%%", b"::"];

/// Source of mutated inputs.
#[derive(Debug)]
pub struct Mutator {
    rng: SplitMix64,
}

impl Mutator {
    /// Creates the mutator of input `number` of a campaign.
    #[must_use]
    pub fn new(seed: u64, number: u64) -> Self {
        Self { rng: SplitMix64::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) }
    }

    /// Returns a mutation of one of `seeds`; random bytes if there are none.
    #[must_use]
    pub fn mutate(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = match seeds.len() {
            0 => (0..self.below(256)).map(|_| self.rng.next_u64() as u8).collect(),
            count => seeds[self.below(count)].clone(),
        };
        for _ in 0..=self.below(4) {
            match self.below(10) {
                0 | 1 => self.flip(&mut input),
                2 => self.overwrite_integer(&mut input),
                3 => self.insert_fragment(&mut input),
                4 => self.remove(&mut input),
                5 => self.repeat(&mut input),
                6 | 7 => self.replace_number(&mut input),
                8 => self.splice(&mut input, seeds),
                _ => input.truncate(self.below(input.len() + 1)),
            }
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.rng.next_u64() % limit.max(1) as u64) as usize
    }

    /// Returns a random range of `input` of at most `longest` bytes.
    fn range(&mut self, input: &[u8], longest: usize) -> std::ops::Range<usize> {
        let start = self.below(input.len() + 1);
        start..start + self.below(longest.min(input.len() - start) + 1)
    }

    fn flip(&mut self, input: &mut [u8]) {
        if !input.is_empty() {
            let position = self.below(input.len());
            input[position] ^= 1 << self.below(8);
        }
    }

    fn overwrite_integer(&mut self, input: &mut [u8]) {
        let width = [1, 2, 4, 8][self.below(4)];
        if input.len() >= width {
            let start = self.below(input.len() - width + 1);
            let value = [0, 1, 0x7f, 0x80, 0xff, u64::MAX, 1 << 31, 1 << 32, 1 << 62][self.below(9)];
            let bytes = if self.below(2) == 0 { value.to_le_bytes() } else { value.swap_bytes().to_le_bytes() };
            input[start..start + width].copy_from_slice(&bytes[..width]);
        }
    }

    fn insert_fragment(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let fragment = FRAGMENTS[self.below(FRAGMENTS.len())];
        input.splice(at..at, fragment.iter().copied());
    }

    fn remove(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input, 16);
        input.drain(range);
    }

    fn repeat(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input, 64);
        let copies = 1 + self.below(8);
        let copy = input[range.clone()].repeat(copies);
        input.splice(range.end..range.end, copy);
    }

    /// Replaces a run of digits by a number at a limit.
    fn replace_number(&mut self, input: &mut Vec<u8>) {
        let start = self.below(input.len() + 1);
        let Some(first) = input[start..].iter().position(u8::is_ascii_digit).map(|offset| start + offset) else {
            return;
        };
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let end = input[first..].iter().position(|byte| !is_number(byte)).map_or(input.len(), |length| first + length);
        let number = NUMBERS[self.below(NUMBERS.len())];
        input.splice(first..end, number.bytes());
    }

    /// Continues with the rest of another seed.
    fn splice(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        if let Some(other) = seeds.get(self.below(seeds.len())) {
            input.truncate(self.below(input.len() + 1));
            input.extend_from_slice(&other[self.below(other.len() + 1)..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_depends_on_seed_and_number_alone() {
        let seeds = [b"1,2,3.5\n4,5,6\n".to_vec(), b"user,item\n".to_vec()];
        let inputs = |seed| (0..50).map(|number| Mutator::new(seed, number).mutate(&seeds)).collect::<Vec<_>>();
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        let distinct: std::collections::BTreeSet<_> = inputs(1).into_iter().collect();
        assert!(distinct.len() > 40, "only {} of 50 inputs are distinct", distinct.len());
    }

    #[test]
    fn mutations_of_nothing_are_inputs_too() {
        for number in 0..200 {
            let _ = Mutator::new(7, number).mutate(&[]);
            let _ = Mutator::new(7, number).mutate(&[Vec::new()]);
        }
    }
}
