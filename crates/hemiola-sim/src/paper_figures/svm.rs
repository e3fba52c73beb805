//! Linear classifier that peers train on their own examples between two averages.

use crate::sampling;

const FEATURES: usize = 40;
const NOISE: f64 = 0.3;

/// Examples of all peers.
#[derive(Debug)]
pub(super) struct DistributedSvm {
    /// Features and class (1 or -1), by peer.
    examples: Vec<Vec<([f64; FEATURES], f64)>>,
    /// Examples of a peer per round.
    batch: usize,
}

impl DistributedSvm {
    pub(super) const FEATURES: usize = FEATURES;

    /// Creates `each` examples for each peer.
    pub(super) fn new(peers: usize, each: usize, batch: usize) -> Self {
        let mut random = sampling::generator(11, 0);
        let truth: Vec<f64> = (0..FEATURES).map(|_| sampling::normal(&mut random)).collect();
        let mut example = || {
            let features: [f64; FEATURES] = std::array::from_fn(|_| sampling::normal(&mut random));
            let product: f64 = features.iter().zip(&truth).map(|(a, b)| a * b).sum();
            let noisy = product + NOISE * (FEATURES as f64).sqrt() * sampling::normal(&mut random);
            (features, if noisy > 0.0 { 1.0 } else { -1.0 })
        };
        Self { examples: (0..peers).map(|_| (0..each).map(|_| example()).collect()).collect(), batch }
    }

    /// Runs one round of gradient steps of a peer.
    pub(super) fn step(&self, peer: usize, round: u64, model: &mut [f64]) {
        let own = &self.examples[peer];
        let rate = 0.05 / (1.0 + 0.02 * round as f64);
        for place in 0..self.batch {
            let (features, class) = &own[(round as usize * self.batch + place) % own.len()];
            let margin: f64 = class * features.iter().zip(&*model).map(|(a, b)| a * b).sum::<f64>();
            if margin < 1.0 {
                features.iter().zip(&mut *model).for_each(|(a, b)| *b += rate * class * a);
            }
        }
    }

    /// Mean hinge loss of a model over the examples of all peers.
    pub(super) fn loss(&self, model: &[f64]) -> f64 {
        let hinge = |(features, class): &([f64; FEATURES], f64)| {
            (1.0 - class * features.iter().zip(model).map(|(a, b)| a * b).sum::<f64>()).max(0.0)
        };
        let count: usize = self.examples.iter().map(Vec::len).sum();
        self.examples.iter().flatten().map(hinge).sum::<f64>() / count as f64
    }
}
