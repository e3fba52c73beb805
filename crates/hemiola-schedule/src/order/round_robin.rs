//! One coordinate after the other.

use super::Order;
use crate::program::{Ask, Candidate};

/// All coordinates in turn: `round_robin`, which with one job at a time is plain cyclic coordinate descent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RoundRobin {
    length: usize,
}

impl RoundRobin {
    /// Over `0..length`.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { length }
    }
}

impl Order for RoundRobin {
    fn propose(&self, ask: &Ask, candidates: &mut Vec<Candidate<usize>>) {
        let range = ask.range(self.length);
        if !range.is_empty() {
            let first = (ask.before % range.len() as u64) as usize;
            let turn = |place: usize| range.start + (first + place) % range.len();
            candidates
                .extend((0..ask.count.min(range.len())).map(|place| Candidate { job: turn(place), priority: 0.0 }));
        }
    }
}
