//! Seconds that an all-reduce takes, by the model that a message of `n` bytes takes `α + n β` (latency and time per byte), and summing `n γ`.
//!
//! In this model the tree never beats halving and doubling, which needs no more messages one after the other and fewer bytes; it is there for the
//! insides of groups and for measurements to overrule the model. What is not in it: links that are shared, and sending while summing. It need not be right, only right about which is less; and each
//! [`Algorithm`] can be asked for by name.

use crate::Algorithm;
use serde::{Deserialize, Serialize};

/// How a kind of link behaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// α: seconds that the smallest message takes.
    pub latency: f64,
    /// β: seconds for each further byte.
    pub per_byte: f64,
}

impl Link {
    /// The line through measured pairs of bytes and seconds. Errors count relative to the time, so that short messages, which have all the
    /// latency in them, are not drowned by long ones. `None` without two different sizes.
    #[must_use]
    pub fn fit(samples: &[(u64, f64)]) -> Option<Self> {
        let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &(bytes, seconds) in samples.iter().filter(|(_, seconds)| seconds.is_finite() && *seconds > 0.0) {
            let (x, weight) = (bytes as f64, 1.0 / (seconds * seconds));
            w += weight;
            wx += weight * x;
            wy += weight * seconds;
            wxx += weight * x * x;
            wxy += weight * x * seconds;
        }
        let determinant = w * wxx - wx * wx;
        if determinant <= f64::EPSILON * w * wxx {
            return None;
        }
        let per_byte = ((w * wxy - wx * wy) / determinant).max(0.0);
        Some(Self { latency: ((wy - per_byte * wx) / w).max(0.0), per_byte })
    }

    fn seconds(self, bytes: f64) -> f64 {
        self.latency + bytes * self.per_byte
    }
}

/// The links of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Between any two peers or, if there are groups, between peers of different ones.
    pub between: Link,
    /// Groups of consecutive peers and the link inside of them, if it is another.
    pub inside: Option<(usize, Link)>,
    /// γ: seconds to add up two bytes' worth of numbers.
    pub sum_per_byte: f64,
}

/// What was chosen, and for what time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way.
    pub algorithm: Algorithm,
    /// Seconds that it is predicted to take.
    pub seconds: f64,
}

impl Links {
    /// All peers are equally far from each other.
    #[must_use]
    pub fn uniform(link: Link, sum_per_byte: f64) -> Self {
        Self { between: link, inside: None, sum_per_byte }
    }

    /// Seconds for an all-reduce of `bytes` among `peers`.
    #[must_use]
    pub fn seconds(&self, algorithm: Algorithm, peers: usize, bytes: u64) -> f64 {
        let (bytes, gamma) = (bytes as f64, self.sum_per_byte);
        // Steps of flat algorithms cross groups as soon as there are two: the slowest edge counts.
        let flat = match self.inside {
            Some((group, inside)) if peers <= group => inside,
            _ => self.between,
        };
        match algorithm {
            _ if peers <= 1 => 0.0,
            Algorithm::Ring => ring(flat, gamma, peers, bytes),
            Algorithm::Tree => tree(flat, gamma, peers, bytes),
            Algorithm::HalvingDoubling => {
                let core = 1_usize << peers.ilog2();
                let part = (core - 1) as f64 / core as f64 * bytes;
                let rounds = f64::from(core.ilog2());
                let exchange = 2.0 * (rounds * flat.latency + part * flat.per_byte) + part * gamma;
                // The peers beyond the power of two hand over everything and are told everything.
                let extra = if core == peers { 0.0 } else { 2.0 * flat.seconds(bytes) + bytes * gamma };
                exchange + extra
            }
            Algorithm::Doubling => {
                let core = 1_usize << peers.ilog2();
                let extra = if core == peers { 0.0 } else { 2.0 * flat.seconds(bytes) + bytes * gamma };
                f64::from(core.ilog2()) * (flat.seconds(bytes) + bytes * gamma) + extra
            }
            Algorithm::TwoLevel { group } => {
                let group = group.max(1);
                let inside = self.inside.map_or(self.between, |(_, link)| link);
                let groups = peers.div_ceil(group);
                let outer = if groups > 1 { ring(self.between, gamma, groups, bytes) } else { 0.0 };
                tree(inside, gamma, group.min(peers), bytes) + outer
            }
        }
    }

    /// Every way with its time, fastest first.
    #[must_use]
    pub fn compare(&self, peers: usize, bytes: u64) -> Vec<Choice> {
        let two_level = self.inside.map(|(group, _)| Algorithm::TwoLevel { group });
        let flat = [Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
        let all = flat.into_iter().chain(two_level);
        let priced = all.map(|algorithm| Choice { algorithm, seconds: self.seconds(algorithm, peers, bytes) });
        let mut choices: Vec<Choice> = priced.collect();
        choices.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        choices
    }

    /// The fastest way.
    #[must_use]
    pub fn choose(&self, peers: usize, bytes: u64) -> Choice {
        self.compare(peers, bytes)[0]
    }
}

fn ring(link: Link, gamma: f64, peers: usize, bytes: f64) -> f64 {
    let (rounds, chunk) = ((peers - 1) as f64, bytes / peers as f64);
    2.0 * rounds * link.seconds(chunk) + rounds * chunk * gamma
}

fn tree(link: Link, gamma: f64, peers: usize, bytes: f64) -> f64 {
    let height = f64::from(peers.next_power_of_two().ilog2());
    height * (2.0 * link.seconds(bytes) + bytes * gamma)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 µs and 1 GB/s.
    const ETHERNET: Link = Link { latency: 5e-5, per_byte: 1e-9 };

    #[test]
    fn small_messages_take_few_steps_and_large_ones_few_bytes() {
        let links = Links::uniform(ETHERNET, 1e-10);
        assert_ne!(links.choose(8, 64).algorithm, Algorithm::Ring);
        assert_ne!(links.choose(7, 64).algorithm, Algorithm::Ring);
        assert_eq!(links.choose(7, 1 << 26).algorithm, Algorithm::Ring);
        assert_eq!(
            links.choose(8, 1 << 20).algorithm,
            Algorithm::HalvingDoubling,
            "a power of two has the best of both"
        );
        assert!(links.choose(1, 1 << 20).seconds.abs() < 1e-300);
    }

    #[test]
    fn times_are_those_of_the_formulas() {
        let links = Links::uniform(Link { latency: 1.0, per_byte: 0.1 }, 0.01);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(links.seconds(Algorithm::Ring, 4, 40), 2.0 * 3.0 * (1.0 + 1.0) + 3.0 * 0.1));
        assert!(close(links.seconds(Algorithm::Tree, 4, 40), 2.0 * (2.0 * 5.0 + 0.4)));
        assert!(close(links.seconds(Algorithm::HalvingDoubling, 4, 40), 2.0 * (2.0 + 3.0) + 0.3));
        let extra = 2.0 * 5.0 + 0.4;
        assert!(close(links.seconds(Algorithm::HalvingDoubling, 5, 40), 2.0 * (2.0 + 3.0) + 0.3 + extra));
    }

    #[test]
    fn slow_links_between_fast_hosts_make_two_levels_worth_it() {
        let inside = Link { latency: 1e-6, per_byte: 1e-11 };
        let links = Links { between: ETHERNET, inside: Some((8, inside)), sum_per_byte: 1e-11 };
        assert_eq!(links.choose(64, 1 << 20).algorithm, Algorithm::TwoLevel { group: 8 });
        // On one host there is nothing between.
        assert!(
            links.seconds(Algorithm::Ring, 8, 1 << 20)
                < Links::uniform(ETHERNET, 0.0).seconds(Algorithm::Ring, 8, 1 << 20)
        );
    }

    #[test]
    fn a_fit_finds_the_line() {
        let samples: Vec<(u64, f64)> =
            [1, 1000, 1 << 20, 1 << 26].map(|bytes| (bytes, ETHERNET.seconds(bytes as f64))).into();
        let fitted = Link::fit(&samples).unwrap();
        assert!((fitted.latency / ETHERNET.latency - 1.0).abs() < 1e-6);
        assert!((fitted.per_byte / ETHERNET.per_byte - 1.0).abs() < 1e-6);
        assert_eq!(Link::fit(&[(8, 1e-5), (8, 2e-5)]), None);
        assert_eq!(Link::fit(&[(8, 0.0), (9, f64::NAN)]), None);
    }
}
