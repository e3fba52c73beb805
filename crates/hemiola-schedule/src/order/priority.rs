//! Priority order: coordinates that changed much in their last update are updated more often
//! (`priority_regression`).
//!
//! Coordinates converge unevenly: after a few sweeps most no longer change. A coordinate is drawn
//! with a probability proportional to the square of its last change, plus a floor. The floor is not
//! drawn but served round robin: every tenth candidate is the next one of a sweep. No coordinate
//! therefore waits longer than ten times as many candidates as its part has coordinates, no matter
//! how small its probability is. The first sweep is complete, because no change is known before.
//!
//! **Invariant:** the proposals are a function of the seed, the number of earlier candidates, and
//! the recorded changes.

use super::CoordinateOrder;
use crate::plan::sum_tree::SumTree;
use crate::program::{JobCandidate, ScheduleRequest};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};

/// One of this many candidates is the next of a sweep.
const SWEEP_EVERY: u64 = 10;
/// Draws for one candidate, if a draw repeats an earlier one.
const DRAWS: u64 = 3;

/// Draws coordinates by the square of their last change, with a floor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriorityOrder {
    length: usize,
    seed: u64,
    /// Squared changes of each part.
    parts: Vec<SumTree>,
}

impl PriorityOrder {
    /// Creates an order of `0..length` in `parts` parts, which workers request in parallel.
    ///
    /// # Panics
    /// If there are no parts.
    #[must_use]
    pub fn new(length: usize, parts: usize, Seed(seed): Seed) -> Self {
        assert!(parts > 0, "a schedule has at least one part");
        let part =
            |part| SumTree::new(ScheduleRequest { part, parts, requested_before: 0, count: 0 }.range(length).len());
        Self { length, seed, parts: (0..parts).map(part).collect() }
    }

    /// Number of parts, which must equal [`ScheduleRequest::parts`].
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Squared change of a coordinate in its last update.
    #[must_use]
    pub fn weight(&self, coordinate: usize) -> f64 {
        let (part, index) = self.part_and_index(coordinate);
        self.parts[part].weight(index)
    }

    fn part_and_index(&self, coordinate: usize) -> (usize, usize) {
        let parts = self.parts.len();
        // The inverse of `ScheduleRequest::range`: the part that starts at or before it.
        let mut part = (coordinate * parts / self.length.max(1)).min(parts - 1);
        let range = |part| ScheduleRequest { part, parts, requested_before: 0, count: 0 }.range(self.length);
        while !range(part).contains(&coordinate) {
            part += 1;
        }
        (part, coordinate - range(part).start)
    }
}

impl CoordinateOrder for PriorityOrder {
    fn propose(&self, request: &ScheduleRequest, candidates: &mut Vec<JobCandidate<usize>>) {
        assert_eq!(request.parts, self.parts.len(), "this order has {} parts", self.parts.len());
        let weights = &self.parts[request.part];
        let start = request.range(self.length).start;
        let values = PhiloxRng::new(self.seed);
        let length = weights.len() as u64;
        let first = candidates.len();
        if length == 0 {
            return;
        }
        for turn in request.requested_before..request.requested_before + (request.count as u64).min(length) {
            let swept = if turn < length {
                Some(turn)
            } else {
                let later = turn - length;
                later.is_multiple_of(SWEEP_EVERY).then_some(later / SWEEP_EVERY % length)
            };
            let drawn = |draw: &u64| weights.draw(values.random_f64(turn, request.part as u64 * DRAWS + draw));
            let is_new = |index: &usize| candidates[first..].iter().all(|taken| taken.job != start + index);
            let index = match swept {
                Some(index) => Some(index as usize).filter(is_new),
                None => (0..DRAWS).filter_map(|draw| drawn(&draw)).find(is_new),
            };
            // If no coordinate changes any more, the remaining candidates are taken round robin.
            let index = index.or_else(|| (weights.total() <= 0.0).then(|| (turn % length) as usize).filter(is_new));
            if let Some(index) = index {
                candidates.push(JobCandidate { job: start + index, priority: weights.weight(index) });
            }
        }
    }

    fn record_change(&mut self, coordinate: usize, change: f64) {
        let (part, index) = self.part_and_index(coordinate);
        self.parts[part].set(index, change * change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(part: usize, parts: usize, before: u64, count: usize) -> ScheduleRequest {
        ScheduleRequest { part, parts, requested_before: before, count }
    }

    fn jobs(order: &PriorityOrder, request: &ScheduleRequest) -> Vec<usize> {
        let mut candidates = Vec::new();
        order.propose(request, &mut candidates);
        candidates.into_iter().map(|candidate| candidate.job).collect()
    }

    #[test]
    fn the_first_sweep_is_complete_and_then_changing_coordinates_come_often() {
        let mut order = PriorityOrder::new(40, 2, Seed(1));
        let first: Vec<usize> = (0..4).flat_map(|turn| jobs(&order, &request(1, 2, turn * 5, 5))).collect();
        assert!(first.into_iter().eq(20..40));
        order.record_change(33, 10.0);
        order.record_change(21, 1.0);
        let (mut often, mut all) = (0, 0);
        for turn in 0..200 {
            let found = jobs(&order, &request(1, 2, 20 + turn, 1));
            often += usize::from(found == [33]);
            all += found.len();
        }
        assert_eq!(all, 200);
        // 1 of 10 is a sweep, and 100 of 101 of the others.
        assert!((165..=185).contains(&often), "{often}");
    }

    #[test]
    fn no_coordinate_starves_even_if_one_outweighs_all() {
        let mut order = PriorityOrder::new(30, 1, Seed(3));
        order.record_change(7, 1e30);
        let mut seen = [false; 30];
        for turn in 0..300 {
            for job in jobs(&order, &request(0, 1, 30 + turn, 1)) {
                seen[job] = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    proptest! {
        #[test]
        fn every_coordinate_has_one_index(length in 1..200_usize, parts in 1..9_usize, coordinate in 0..200_usize) {
            let coordinate = coordinate % length;
            let mut order = PriorityOrder::new(length, parts, Seed(0));
            order.record_change(coordinate, -3.0);
            for other in 0..length {
                prop_assert_eq!(order.weight(other).to_bits(), if other == coordinate { 9.0_f64 } else { 0.0 }.to_bits());
            }
        }

        #[test]
        fn candidates_are_of_their_part_and_different(
            length in 1..60_usize, parts in 1..5_usize, before in 0..500_u64, count in 0..20_usize, changed in 0..60_usize,
        ) {
            let mut order = PriorityOrder::new(length, parts, Seed(9));
            order.record_change(changed % length, 2.0);
            for part in 0..parts {
                let asked = request(part, parts, before, count);
                let mut found = jobs(&order, &asked);
                prop_assert!(found.iter().all(|job| asked.range(length).contains(job)));
                let many = found.len();
                found.sort_unstable();
                found.dedup();
                prop_assert_eq!(found.len(), many);
                prop_assert_eq!(jobs(&order, &asked), jobs(&order, &asked));
            }
        }
    }
}
