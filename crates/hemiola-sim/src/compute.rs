//! How long peers compute.
//!
//! Work is given as the time it would take on the machine that was measured, undisturbed. A peer takes longer or shorter by what its [`Compute`] models say; in slow
//! times of a Markov model the work that falls into them counts by its factor, also if a computation begins before one or ends after it.

use crate::chance;
use crate::describe::{Compute, Description};
use crate::units::Span;
use hemiola_collective_proto::Random;

/// The processors of one peer.
#[derive(Clone, Debug)]
pub(crate) struct Processor {
    /// Of what does not change.
    factor: f64,
    models: Vec<Compute>,
    phases: Vec<Phases>,
    random: Random,
}

/// Where a Markov model of a peer is.
#[derive(Clone, Debug)]
struct Phases {
    fast: f64,
    slow: f64,
    factor: f64,
    /// Whether the time before `until` is slow.
    is_slow: bool,
    until: f64,
    /// Phases that were passed: computations of other workers may have begun before.
    past: Vec<(f64, bool)>,
}

impl Processor {
    pub(crate) fn new(description: &Description, peer: usize, seed: u64) -> Self {
        let mut random = chance::generator(seed, 0x10_0000 + peer as u64);
        let slower = description.slower.iter().filter(|slower| slower.peers.contains(&peer));
        let mut factor: f64 = slower.map(|slower| slower.factor).product();
        let mut phases = Vec::new();
        for model in &description.compute {
            match *model {
                Compute::Constant { speed } => factor /= speed,
                Compute::Markov { fast, slow, factor } => {
                    let (fast, slow) = (fast.nanos() as f64, slow.nanos() as f64);
                    let is_slow = chance::happens(&mut random, slow / (fast + slow));
                    let until = chance::exponential(&mut random, if is_slow { slow } else { fast });
                    phases.push(Phases { fast, slow, factor, is_slow, until, past: Vec::new() });
                }
                Compute::Jitter { .. } | Compute::Stragglers { .. } => {}
            }
        }
        Self { factor, models: description.compute.clone(), phases, random }
    }

    /// How long a computation takes that begins now.
    pub(crate) fn span(&mut self, now: u64, work: Span) -> Span {
        let mut takes = work.nanos() as f64 * self.factor;
        for model in &self.models {
            match *model {
                Compute::Jitter { deviation } => takes *= libm::exp(deviation * chance::normal(&mut self.random)),
                Compute::Stragglers { chance, factor } => {
                    if chance::happens(&mut self.random, chance) {
                        takes *= factor;
                    }
                }
                Compute::Constant { .. } | Compute::Markov { .. } => {}
            }
        }
        for phases in &mut self.phases {
            takes = phases.stretch(now as f64, takes, &mut self.random);
        }
        Span::from_nanos(takes.round() as u64)
    }
}

impl Phases {
    /// How long `work` takes from `now` on, with what falls into slow times stretched.
    fn stretch(&mut self, now: f64, mut work: f64, random: &mut Random) -> f64 {
        self.past.retain(|(until, _)| *until > now);
        let mut at = now;
        let mut next = 0;
        loop {
            if next == self.past.len() {
                // The next phase becomes known.
                let (until, is_slow) = (self.until, self.is_slow);
                self.is_slow = !is_slow;
                self.until += chance::exponential(random, if self.is_slow { self.slow } else { self.fast });
                if until <= at {
                    continue;
                }
                self.past.push((until, is_slow));
            }
            let (until, is_slow) = self.past[next];
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
    use crate::describe::Slower;

    fn takes(compute: Vec<Compute>, count: usize) -> Vec<f64> {
        let mut description = Description::new(1);
        description.compute = compute;
        let mut processor = Processor::new(&description, 0, 7);
        let mut now = 0;
        let mut spans = Vec::new();
        for _ in 0..count {
            let span = processor.span(now, Span::from_nanos(1000)).nanos();
            now += span;
            spans.push(span as f64);
        }
        spans
    }

    #[test]
    fn models_have_the_means_they_say() {
        let mean = |spans: &[f64]| spans.iter().sum::<f64>() / spans.len() as f64;
        assert_eq!(takes(vec![Compute::Constant { speed: 4.0 }], 3), [250.0; 3]);
        let straggle = takes(vec![Compute::Stragglers { chance: 0.1, factor: 11.0 }], 20_000);
        assert!((mean(&straggle) - 2000.0).abs() < 100.0, "{}", mean(&straggle));
        let jitter = takes(vec![Compute::Jitter { deviation: 0.3 }], 20_001);
        let mut sorted = jitter.clone();
        sorted.sort_by(f64::total_cmp);
        assert!((sorted[10_000] - 1000.0).abs() < 20.0, "the median");
        // Half of the *time* is slow, with a factor of 3: of 3 units of work in 1 + 3 fast times, 1 is done in slow time.
        let (fast, slow) = (Span::from_nanos(50_000), Span::from_nanos(50_000));
        let markov = takes(vec![Compute::Markov { fast, slow, factor: 3.0 }], 50_000);
        assert!((mean(&markov) - 1500.0).abs() < 60.0, "{}", mean(&markov));
        assert!(markov.iter().any(|span| (*span - 1000.0).abs() < 1e-9) && markov.iter().any(|span| *span > 2999.0));
    }

    #[test]
    fn work_that_meets_a_slow_time_on_the_way_is_stretched_there_alone() {
        let mut phases = Phases { fast: 1e9, slow: 1e9, factor: 2.0, is_slow: false, until: 100.0, past: Vec::new() };
        let random = &mut Random::new(1);
        assert!((phases.stretch(40.0, 60.0, random) - 60.0).abs() < 1e-9);
        assert!((phases.stretch(40.0, 70.0, random) - 80.0).abs() < 1e-9, "60 fast, then 10 slow");
        assert!((phases.stretch(0.0, 100.0, random) - 100.0).abs() < 1e-9, "a worker that began earlier");
    }

    #[test]
    fn some_are_slower() {
        let mut description = Description::new(2);
        description.slower = vec![Slower { peers: vec![1], factor: 3.0 }];
        let span = |peer| Processor::new(&description, peer, 1).span(0, Span::from_nanos(10)).nanos();
        assert_eq!((span(0), span(1)), (10, 30));
    }
}
