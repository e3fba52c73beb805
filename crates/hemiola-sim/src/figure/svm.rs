//! A linear classifier that peers train on parts of some examples: what they learn between two averages.

use crate::chance;

const FEATURES: usize = 40;
const NOISE: f64 = 0.3;

/// Examples of all peers.
#[derive(Debug)]
pub(super) struct Svm {
    /// By peer: features, and the class, 1 or -1.
    examples: Vec<Vec<([f64; FEATURES], f64)>>,
    /// Examples that a peer goes through in a round.
    batch: usize,
}

impl Svm {
    pub(super) const FEATURES: usize = FEATURES;

    /// So many examples for each peer.
    pub(super) fn new(peers: usize, each: usize, batch: usize) -> Self {
        let mut random = chance::generator(11, 0);
        let truth: Vec<f64> = (0..FEATURES).map(|_| chance::normal(&mut random)).collect();
        let mut example = || {
            let features: [f64; FEATURES] = std::array::from_fn(|_| chance::normal(&mut random));
            let product: f64 = features.iter().zip(&truth).map(|(a, b)| a * b).sum();
            let noisy = product + NOISE * (FEATURES as f64).sqrt() * chance::normal(&mut random);
            (features, if noisy > 0.0 { 1.0 } else { -1.0 })
        };
        Self { examples: (0..peers).map(|_| (0..each).map(|_| example()).collect()).collect(), batch }
    }

    /// A round of gradient steps of one peer.
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

    /// The mean hinge loss of a model over the examples of all.
    pub(super) fn loss(&self, model: &[f64]) -> f64 {
        let hinge = |(features, class): &([f64; FEATURES], f64)| {
            (1.0 - class * features.iter().zip(model).map(|(a, b)| a * b).sum::<f64>()).max(0.0)
        };
        let count: usize = self.examples.iter().map(Vec::len).sum();
        self.examples.iter().flatten().map(hinge).sum::<f64>() / count as f64
    }
}
