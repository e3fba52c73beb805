//! Duration of computations.
//!
//! Work is given as its duration on the undisturbed reference machine. The [`ComputeModel`]s of the
//! cluster make it longer or shorter. In slow phases of a Markov model, the part of the work that
//! falls into the phase is stretched by its factor, even if a computation starts before the phase
//! or ends after it.

use crate::cluster_spec::{ClusterSpec, ComputeModel};
use crate::sampling;
use crate::units::SimDuration;
use hemiola_core::rng::SplitMix64;

/// Compute models of one peer, with their state.
#[derive(Clone, Debug)]
pub(crate) struct PeerProcessor {
    /// Product of all constant factors.
    factor: f64,
    models: Vec<ComputeModel>,
    phases: Vec<MarkovPhases>,
    random: SplitMix64,
}

/// State of a Markov model of one peer.
#[derive(Clone, Debug)]
struct MarkovPhases {
    fast: f64,
    slow: f64,
    factor: f64,
    /// The phase that ends at `until` is slow.
    is_slow: bool,
    until: f64,
    /// Phases already drawn, by end time: computations of other workers may start in them.
    known: Vec<(f64, bool)>,
}

impl PeerProcessor {
    pub(crate) fn new(spec: &ClusterSpec, peer: usize, seed: u64) -> Self {
        let mut random = sampling::generator(seed, 0x10_0000 + peer as u64);
        let slower = spec.slow_peers.iter().filter(|slower| slower.peers.contains(&peer));
        let mut factor: f64 = slower.map(|slower| slower.factor).product();
        let mut phases = Vec::new();
        for model in &spec.compute {
            match *model {
                ComputeModel::Constant { speed } => factor /= speed,
                ComputeModel::Markov { fast, slow, factor } => {
                    let (fast, slow) = (fast.nanos() as f64, slow.nanos() as f64);
                    let is_slow = sampling::bernoulli(&mut random, slow / (fast + slow));
                    let until = sampling::exponential(&mut random, if is_slow { slow } else { fast });
                    phases.push(MarkovPhases { fast, slow, factor, is_slow, until, known: Vec::new() });
                }
                ComputeModel::Jitter { .. } | ComputeModel::Stragglers { .. } => {}
            }
        }
        Self { factor, models: spec.compute.clone(), phases, random }
    }

    /// Returns the duration of a computation that starts now.
    pub(crate) fn span(&mut self, now: u64, work: SimDuration) -> SimDuration {
        let mut takes = work.nanos() as f64 * self.factor;
        for model in &self.models {
            match *model {
                ComputeModel::Jitter { deviation } => {
                    takes *= libm::exp(deviation * sampling::normal(&mut self.random));
                }
                ComputeModel::Stragglers { probability, factor } => {
                    if sampling::bernoulli(&mut self.random, probability) {
                        takes *= factor;
                    }
                }
                ComputeModel::Constant { .. } | ComputeModel::Markov { .. } => {}
            }
        }
        for phases in &mut self.phases {
            takes = phases.stretch(now as f64, takes, &mut self.random);
        }
        SimDuration::from_nanos(takes.round() as u64)
    }
}

impl MarkovPhases {
    /// Returns the duration of `work` from `now` on, with the part in slow phases stretched.
    fn stretch(&mut self, now: f64, mut work: f64, random: &mut SplitMix64) -> f64 {
        self.known.retain(|(until, _)| *until > now);
        let mut at = now;
        let mut next = 0;
        loop {
            if next == self.known.len() {
                // Draws the next phase.
                let (until, is_slow) = (self.until, self.is_slow);
                self.is_slow = !is_slow;
                self.until += sampling::exponential(random, if self.is_slow { self.slow } else { self.fast });
                if until <= at {
                    continue;
                }
                self.known.push((until, is_slow));
            }
            let (until, is_slow) = self.known[next];
            let factor = if is_slow { self.factor } else { 1.0 };
            if work * factor <= until - at {
                return at + work * factor - now;
            }
            work -= (until - at) / factor;
            at = until;
            next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_spec::SlowPeers;

    fn takes(compute: Vec<ComputeModel>, count: usize) -> Vec<f64> {
        let mut spec = ClusterSpec::new(1);
        spec.compute = compute;
        let mut processor = PeerProcessor::new(&spec, 0, 7);
        let mut now = 0;
        let mut spans = Vec::new();
        for _ in 0..count {
            let span = processor.span(now, SimDuration::from_nanos(1000)).nanos();
            now += span;
            spans.push(span as f64);
        }
        spans
    }

    #[test]
    fn models_have_the_documented_means() {
        let mean = |spans: &[f64]| spans.iter().sum::<f64>() / spans.len() as f64;
        assert_eq!(takes(vec![ComputeModel::Constant { speed: 4.0 }], 3), [250.0; 3]);
        let straggle = takes(vec![ComputeModel::Stragglers { probability: 0.1, factor: 11.0 }], 20_000);
        assert!((mean(&straggle) - 2000.0).abs() < 100.0, "{}", mean(&straggle));
        let jitter = takes(vec![ComputeModel::Jitter { deviation: 0.3 }], 20_001);
        let mut sorted = jitter.clone();
        sorted.sort_by(f64::total_cmp);
        assert!((sorted[10_000] - 1000.0).abs() < 20.0, "the median");
        // Half of the *time* is slow with a factor of 3. So 3/4 of the work is done fast, and the
        // mean factor is 1.5.
        let (fast, slow) = (SimDuration::from_nanos(50_000), SimDuration::from_nanos(50_000));
        let markov = takes(vec![ComputeModel::Markov { fast, slow, factor: 3.0 }], 50_000);
        assert!((mean(&markov) - 1500.0).abs() < 60.0, "{}", mean(&markov));
        assert!(markov.iter().any(|span| (*span - 1000.0).abs() < 1e-9) && markov.iter().any(|span| *span > 2999.0));
    }

    #[test]
    fn only_the_part_in_a_slow_phase_is_stretched() {
        let mut phases =
            MarkovPhases { fast: 1e9, slow: 1e9, factor: 2.0, is_slow: false, until: 100.0, known: Vec::new() };
        let random = &mut SplitMix64::new(1);
        assert!((phases.stretch(40.0, 60.0, random) - 60.0).abs() < 1e-9);
        assert!((phases.stretch(40.0, 70.0, random) - 80.0).abs() < 1e-9, "60 fast, then 10 slow");
        assert!((phases.stretch(0.0, 100.0, random) - 100.0).abs() < 1e-9, "a worker that began earlier");
    }

    #[test]
    fn slow_peers_take_longer() {
        let mut spec = ClusterSpec::new(2);
        spec.slow_peers = vec![SlowPeers { peers: vec![1], factor: 3.0 }];
        let span = |peer| PeerProcessor::new(&spec, peer, 1).span(0, SimDuration::from_nanos(10)).nanos();
        assert_eq!((span(0), span(1)), (10, 30));
    }
}
