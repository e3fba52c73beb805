//! Predicted time of an all-reduce by the α-β model: a message of `n` bytes takes `α + n β`
//! (latency and time per byte), and its summation `n γ`.
//!
//! In this model the tree never beats halving and doubling, which needs no more consecutive
//! messages and fewer bytes; the tree is there for the insides of groups and for measurements to
//! overrule the model. The model omits shared links and the overlap of sending and summing. It only
//! needs to rank the algorithms correctly; and each [`Algorithm`] can be requested by name.

use crate::Algorithm;
use serde::{Deserialize, Serialize};

/// Line `α + n β` of the α-β model, for a kind of link or for an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlphaBeta {
    /// α: seconds for the smallest message.
    pub latency: f64,
    /// β: seconds for each further byte.
    pub per_byte: f64,
}

impl AlphaBeta {
    /// Fits the line through measured pairs of bytes and seconds. Errors are relative to the time,
    /// so that long messages do not drown short ones, which determine the latency. `None` without
    /// two different sizes.
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

/// α-β-γ model of the network of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkModel {
    /// Link between any two peers or, if there are groups, between peers of different groups.
    pub between: AlphaBeta,
    /// Size of the groups of consecutive peers and the link inside of them, if it differs.
    pub inside: Option<(usize, AlphaBeta)>,
    /// γ: seconds per byte of the vector for one addition of two vectors.
    pub sum_per_byte: f64,
}

/// Algorithm and its predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmTime {
    /// Algorithm of the all-reduce.
    pub algorithm: Algorithm,
    /// Predicted time in seconds.
    pub seconds: f64,
}

impl NetworkModel {
    /// Creates a model in which all pairs of peers have the same link.
    #[must_use]
    pub fn uniform(link: AlphaBeta, sum_per_byte: f64) -> Self {
        Self { between: link, inside: None, sum_per_byte }
    }

    /// Predicts the seconds of an all-reduce of `bytes` among `peers`.
    #[must_use]
    pub fn seconds(&self, algorithm: Algorithm, peers: usize, bytes: u64) -> f64 {
        let (bytes, gamma) = (bytes as f64, self.sum_per_byte);
        // Flat algorithms cross groups as soon as there are two: the slowest edge counts.
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
                // Peers beyond the power of two send the whole vector first and receive the whole
                // result last.
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

    /// Returns all algorithms with their predicted times, fastest first.
    #[must_use]
    pub fn compare(&self, peers: usize, bytes: u64) -> Vec<AlgorithmTime> {
        let two_level = self.inside.map(|(group, _)| Algorithm::TwoLevel { group });
        let flat = [Algorithm::Doubling, Algorithm::HalvingDoubling, Algorithm::Ring, Algorithm::Tree];
        let all = flat.into_iter().chain(two_level);
        let priced = all.map(|algorithm| AlgorithmTime { algorithm, seconds: self.seconds(algorithm, peers, bytes) });
        let mut choices: Vec<AlgorithmTime> = priced.collect();
        choices.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        choices
    }

    /// Returns the fastest algorithm.
    #[must_use]
    pub fn choose(&self, peers: usize, bytes: u64) -> AlgorithmTime {
        self.compare(peers, bytes)[0]
    }
}

fn ring(link: AlphaBeta, gamma: f64, peers: usize, bytes: f64) -> f64 {
    let (rounds, chunk) = ((peers - 1) as f64, bytes / peers as f64);
    2.0 * rounds * link.seconds(chunk) + rounds * chunk * gamma
}

fn tree(link: AlphaBeta, gamma: f64, peers: usize, bytes: f64) -> f64 {
    let height = f64::from(peers.next_power_of_two().ilog2());
    height * (2.0 * link.seconds(bytes) + bytes * gamma)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 µs and 1 GB/s.
    const ETHERNET: AlphaBeta = AlphaBeta { latency: 5e-5, per_byte: 1e-9 };

    #[test]
    fn small_messages_take_few_steps_and_large_ones_few_bytes() {
        let links = NetworkModel::uniform(ETHERNET, 1e-10);
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
        let links = NetworkModel::uniform(AlphaBeta { latency: 1.0, per_byte: 0.1 }, 0.01);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(close(links.seconds(Algorithm::Ring, 4, 40), 2.0 * 3.0 * (1.0 + 1.0) + 3.0 * 0.1));
        assert!(close(links.seconds(Algorithm::Tree, 4, 40), 2.0 * (2.0 * 5.0 + 0.4)));
        assert!(close(links.seconds(Algorithm::HalvingDoubling, 4, 40), 2.0 * (2.0 + 3.0) + 0.3));
        let extra = 2.0 * 5.0 + 0.4;
        assert!(close(links.seconds(Algorithm::HalvingDoubling, 5, 40), 2.0 * (2.0 + 3.0) + 0.3 + extra));
    }

    #[test]
    fn slow_links_between_fast_hosts_make_two_levels_worth_it() {
        let inside = AlphaBeta { latency: 1e-6, per_byte: 1e-11 };
        let links = NetworkModel { between: ETHERNET, inside: Some((8, inside)), sum_per_byte: 1e-11 };
        assert_eq!(links.choose(64, 1 << 20).algorithm, Algorithm::TwoLevel { group: 8 });
        // On one host there is nothing between.
        assert!(
            links.seconds(Algorithm::Ring, 8, 1 << 20)
                < NetworkModel::uniform(ETHERNET, 0.0).seconds(Algorithm::Ring, 8, 1 << 20)
        );
    }

    #[test]
    fn a_fit_finds_the_line() {
        let samples: Vec<(u64, f64)> =
            [1, 1000, 1 << 20, 1 << 26].map(|bytes| (bytes, ETHERNET.seconds(bytes as f64))).into();
        let fitted = AlphaBeta::fit(&samples).unwrap();
        assert!((fitted.latency / ETHERNET.latency - 1.0).abs() < 1e-6);
        assert!((fitted.per_byte / ETHERNET.per_byte - 1.0).abs() < 1e-6);
        assert_eq!(AlphaBeta::fit(&[(8, 1e-5), (8, 2e-5)]), None);
        assert_eq!(AlphaBeta::fit(&[(8, 0.0), (9, f64::NAN)]), None);
    }
}
