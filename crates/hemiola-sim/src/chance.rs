//! Numbers from distributions, out of a seeded generator.
//!
//! **Invariant:** what is drawn depends on the generator's state alone. `exp` and `ln` are those of `libm`, which every machine computes alike.

use hemiola_collective_proto::Random;

/// A number in `0.0..1.0`.
pub fn unit(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Whether something with this probability happens.
pub fn happens(random: &mut Random, probability: f64) -> bool {
    probability > 0.0 && unit(random) < probability
}

/// A standard normal number.
pub fn normal(random: &mut Random) -> f64 {
    // Box and Muller; the second number is not kept, so that the state of the generator is all there is.
    let radius = (-2.0 * libm::log(1.0 - unit(random))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

/// A number with this mean whose logarithm falls off evenly: how long something lasts that may end at any time.
pub fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * libm::log(1.0 - unit(random))
}

/// How often something with probability `again` happens in a row, up to `most`.
pub fn geometric(random: &mut Random, again: f64, most: u32) -> u32 {
    let mut count = 0;
    while count < most && happens(random, again) {
        count += 1;
    }
    count
}

/// A generator for one of several uses of a seed: the same seed and use give the same numbers.
#[must_use]
pub fn generator(seed: u64, of: u64) -> Random {
    let mut mixed = Random::new(seed ^ of.wrapping_mul(0xd1b5_4a32_d192_ed03));
    let state = mixed.bits();
    Random::new(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_they_should_be() {
        let mut random = generator(5, 0);
        let mut mean =
            |draw: &mut dyn FnMut(&mut Random) -> f64| (0..40_000).map(|_| draw(&mut random)).sum::<f64>() / 40_000.0;
        assert!((mean(&mut unit) - 0.5).abs() < 0.01);
        assert!(mean(&mut normal).abs() < 0.02);
        assert!((mean(&mut |random| normal(random).powi(2)) - 1.0).abs() < 0.03);
        assert!((mean(&mut |random| exponential(random, 3.0)) - 3.0).abs() < 0.1);
        assert!((mean(&mut |random| f64::from(geometric(random, 0.5, 100))) - 1.0).abs() < 0.03);
        assert!((mean(&mut |random| f64::from(u8::from(happens(random, 0.2)))) - 0.2).abs() < 0.01);
    }

    #[test]
    fn uses_of_a_seed_differ() {
        assert_ne!(generator(1, 0).bits(), generator(1, 1).bits());
        assert_eq!(generator(1, 1).bits(), generator(1, 1).bits());
    }
}
