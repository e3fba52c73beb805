//! Any coordinate, at random.

use super::Order;
use crate::program::{Ask, Candidate};
use hemiola_array::random::Values;

/// Coordinates drawn evenly: `random`. With [`Conflicts::Ignore`](crate::Conflicts::Ignore) it is Shotgun (Bradley et al. 2011).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    length: usize,
    values: Values,
}

impl Random {
    /// Over `0..length`.
    #[must_use]
    pub fn new(length: usize, seed: u64) -> Self {
        Self { length, values: Values::new(seed) }
    }
}

impl Order for Random {
    fn propose(&self, ask: &Ask, candidates: &mut Vec<Candidate<usize>>) {
        let range = ask.range(self.length);
        if !range.is_empty() {
            let draw = |turn| range.start + self.values.below(turn, ask.part as u64, range.len() as u64) as usize;
            let turns = ask.before..ask.before + ask.count as u64;
            candidates.extend(turns.map(|turn| Candidate { job: draw(turn), priority: 0.0 }));
        }
    }
}
