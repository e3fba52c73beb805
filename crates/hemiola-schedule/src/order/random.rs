//! Random order of coordinates.

use super::CoordinateOrder;
use crate::program::{JobCandidate, ScheduleRequest};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;

/// Draws coordinates uniformly (`random`). With
/// [`ConflictPolicy::Ignore`](crate::ConflictPolicy::Ignore) it is Shotgun (Bradley et al. 2011).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomOrder {
    length: usize,
    values: PhiloxRng,
}

impl RandomOrder {
    /// Creates a random order of `0..length` from a seed.
    #[must_use]
    pub fn new(length: usize, Seed(seed): Seed) -> Self {
        Self { length, values: PhiloxRng::new(seed) }
    }
}

impl CoordinateOrder for RandomOrder {
    fn propose(&self, request: &ScheduleRequest, candidates: &mut Vec<JobCandidate<usize>>) {
        let range = request.range(self.length);
        if !range.is_empty() {
            let draw =
                |turn| range.start + self.values.random_below(turn, request.part as u64, range.len() as u64) as usize;
            let turns = request.requested_before..request.requested_before + request.count as u64;
            candidates.extend(turns.map(|turn| JobCandidate { job: draw(turn), priority: 0.0 }));
        }
    }
}
