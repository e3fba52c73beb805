//! Round-robin order of coordinates.

use super::CoordinateOrder;
use crate::program::{JobCandidate, ScheduleRequest};

/// Cycles through all coordinates (`round_robin`). With one job at a time it is plain cyclic
/// coordinate descent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RoundRobinOrder {
    length: usize,
}

impl RoundRobinOrder {
    /// Creates a cyclic order of `0..length`.
    #[must_use]
    pub fn new(length: usize) -> Self {
        Self { length }
    }
}

impl CoordinateOrder for RoundRobinOrder {
    fn propose(&self, request: &ScheduleRequest, candidates: &mut Vec<JobCandidate<usize>>) {
        let range = request.range(self.length);
        if !range.is_empty() {
            let first = (request.requested_before % range.len() as u64) as usize;
            let turn = |offset: usize| range.start + (first + offset) % range.len();
            candidates.extend(
                (0..request.count.min(range.len())).map(|offset| JobCandidate { job: turn(offset), priority: 0.0 }),
            );
        }
    }
}
