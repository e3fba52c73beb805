//! Distributions of update delays.

use crate::sampling;
use hemiola_core::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// Distribution of delays, in iterations. The staleness of a study is its parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayDistribution {
    /// Uniform from 0 to the staleness.
    #[default]
    Uniform,
    /// Geometric with the mean of the uniform distribution, truncated at four times the staleness.
    /// Most updates arrive in time and a few very late, as with stragglers.
    Geometric,
}

impl DelayDistribution {
    /// Returns the maximum delay.
    #[must_use]
    pub fn max_delay(self, staleness: u32) -> u32 {
        match self {
            Self::Uniform => staleness,
            Self::Geometric => 4 * staleness,
        }
    }

    /// Draws a delay in iterations.
    pub fn draw(self, staleness: u32, random: &mut SplitMix64) -> u32 {
        match self {
            Self::Uniform => random.below(staleness as usize + 1) as u32,
            Self::Geometric => {
                // A mean of s / 2 gives a continuation probability of (s / 2) / (s / 2 + 1).
                let mean = f64::from(staleness) / 2.0;
                sampling::geometric(random, mean / (mean + 1.0), self.max_delay(staleness))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_distributions_have_the_same_mean() {
        let mut random = SplitMix64::new(3);
        for staleness in [0, 1, 8, 32] {
            for delay in [DelayDistribution::Uniform, DelayDistribution::Geometric] {
                let drawn: Vec<u32> = (0..20_000).map(|_| delay.draw(staleness, &mut random)).collect();
                assert!(drawn.iter().all(|drawn| *drawn <= delay.max_delay(staleness)));
                let mean = drawn.iter().map(|drawn| f64::from(*drawn)).sum::<f64>() / 20_000.0;
                assert!(
                    (mean - f64::from(staleness) / 2.0).abs() <= 0.08 * f64::from(staleness),
                    "{delay:?} {staleness}: {mean}"
                );
            }
        }
    }
}
