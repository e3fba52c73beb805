//! How late updates are.

use crate::chance;
use hemiola_collective_proto::Random;
use serde::{Deserialize, Serialize};

/// The distribution of delays, in iterations. The staleness of a study is the longest delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delay {
    /// Every delay from 0 to the staleness is as likely.
    #[default]
    Uniform,
    /// Each is less likely than the one before, with the mean of the uniform one, cut off at four times the staleness: most updates are in time and a few very late, as with stragglers.
    Geometric,
}

impl Delay {
    /// The longest delay there can be.
    #[must_use]
    pub fn longest(self, staleness: u32) -> u32 {
        match self {
            Self::Uniform => staleness,
            Self::Geometric => 4 * staleness,
        }
    }

    /// Draws one.
    pub fn draw(self, staleness: u32, random: &mut Random) -> u32 {
        match self {
            Self::Uniform => random.below(staleness as usize + 1) as u32,
            Self::Geometric => {
                // With a mean of s / 2, it goes on with probability (s / 2) / (s / 2 + 1).
                let mean = f64::from(staleness) / 2.0;
                chance::geometric(random, mean / (mean + 1.0), self.longest(staleness))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_have_the_same_mean_and_stay_below_the_longest() {
        let mut random = Random::new(3);
        for staleness in [0, 1, 8, 32] {
            for delay in [Delay::Uniform, Delay::Geometric] {
                let drawn: Vec<u32> = (0..20_000).map(|_| delay.draw(staleness, &mut random)).collect();
                assert!(drawn.iter().all(|drawn| *drawn <= delay.longest(staleness)));
                let mean = drawn.iter().map(|drawn| f64::from(*drawn)).sum::<f64>() / 20_000.0;
                assert!(
                    (mean - f64::from(staleness) / 2.0).abs() <= 0.08 * f64::from(staleness),
                    "{delay:?} {staleness}: {mean}"
                );
            }
        }
    }
}
