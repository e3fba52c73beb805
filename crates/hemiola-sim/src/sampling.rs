//! Random numbers from distributions, with a seeded generator.
//!
//! **Invariant:** samples depend only on the state of the generator. `exp` and `ln` are those of
//! `libm`, which gives the same bits on every machine.

use hemiola_core::rng::SplitMix64;

/// Uniform number in `0.0..1.0`.
pub fn uniform(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns `true` with this probability.
pub fn bernoulli(random: &mut SplitMix64, probability: f64) -> bool {
    probability > 0.0 && uniform(random) < probability
}

/// Number from the standard normal distribution.
pub fn normal(random: &mut SplitMix64) -> f64 {
    // Box-Muller transform. The second number is discarded, so that the generator is the only
    // state.
    let radius = (-2.0 * libm::log(1.0 - uniform(random))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * uniform(random))
}

/// Exponentially distributed number with this mean.
pub fn exponential(random: &mut SplitMix64, mean: f64) -> f64 {
    -mean * libm::log(1.0 - uniform(random))
}

/// Number of successes in a row, each with probability `again`, up to `most`.
pub fn geometric(random: &mut SplitMix64, again: f64, most: u32) -> u32 {
    let mut count = 0;
    while count < most && bernoulli(random, again) {
        count += 1;
    }
    count
}

/// Creates an independent generator for one of several uses of a seed.
#[must_use]
pub fn generator(seed: u64, purpose: u64) -> SplitMix64 {
    let mut mixed = SplitMix64::new(seed ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03));
    let state = mixed.next_u64();
    SplitMix64::new(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut random = generator(5, 0);
        let mut mean = |draw: &mut dyn FnMut(&mut SplitMix64) -> f64| {
            (0..40_000).map(|_| draw(&mut random)).sum::<f64>() / 40_000.0
        };
        assert!((mean(&mut uniform) - 0.5).abs() < 0.01);
        assert!(mean(&mut normal).abs() < 0.02);
        assert!((mean(&mut |random| normal(random).powi(2)) - 1.0).abs() < 0.03);
        assert!((mean(&mut |random| exponential(random, 3.0)) - 3.0).abs() < 0.1);
        assert!((mean(&mut |random| f64::from(geometric(random, 0.5, 100))) - 1.0).abs() < 0.03);
        assert!((mean(&mut |random| f64::from(u8::from(bernoulli(random, 0.2)))) - 0.2).abs() < 0.01);
    }

    #[test]
    fn generators_of_a_seed_differ_by_purpose() {
        assert_ne!(generator(1, 0).next_u64(), generator(1, 1).next_u64());
        assert_eq!(generator(1, 1).next_u64(), generator(1, 1).next_u64());
    }
}
