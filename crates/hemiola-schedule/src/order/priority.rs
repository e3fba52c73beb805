//! Coordinates that changed much when they were last updated, more often than others: `priority_regression`.
//!
//! Coordinates converge unevenly: after a few sweeps most no longer change. One is drawn with a probability in proportion to its last change, squared, plus a floor.
//! The floor is not drawn but taken by turns: every tenth candidate is the next one of a sweep. So no coordinate is left out for more than ten times as many
//! candidates as its part has coordinates, however long the chance of it would have been. The first sweep is complete, because nothing is known before.
//!
//! **Invariant:** what is proposed is a function of the seed, the count of candidates before, and the changes told so far.

use super::Order;
use crate::plan::sums::Sums;
use crate::program::{Ask, Candidate};
use hemiola_array::random::Values;
use serde::{Deserialize, Serialize};

/// One of so many candidates is the next of a sweep.
const SWEEP_EVERY: u64 = 10;
/// Draws for one candidate, if they hit what has been drawn.
const DRAWS: u64 = 3;

/// Coordinates by the square of their last change, and a floor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Priority {
    length: usize,
    seed: u64,
    /// Squared changes, by part.
    parts: Vec<Sums>,
}

impl Priority {
    /// Over `0..length` in as many parts as workers will ask for at a time.
    ///
    /// # Panics
    /// If there are no parts.
    #[must_use]
    pub fn new(length: usize, parts: usize, seed: u64) -> Self {
        assert!(parts > 0, "a schedule has at least one part");
        let part = |part| Sums::new(Ask { part, parts, before: 0, count: 0 }.range(length).len());
        Self { length, seed, parts: (0..parts).map(part).collect() }
    }

    /// How many parts it has: what [`Ask::parts`] must be.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The squared change of a coordinate when it was last updated.
    #[must_use]
    pub fn weight(&self, coordinate: usize) -> f64 {
        let (part, place) = self.place(coordinate);
        self.parts[part].weight(place)
    }

    fn place(&self, coordinate: usize) -> (usize, usize) {
        let parts = self.parts.len();
        // The inverse of `Ask::range`: the part that starts at or before it.
        let mut part = (coordinate * parts / self.length.max(1)).min(parts - 1);
        let range = |part| Ask { part, parts, before: 0, count: 0 }.range(self.length);
        while !range(part).contains(&coordinate) {
            part += 1;
        }
        (part, coordinate - range(part).start)
    }
}

impl Order for Priority {
    fn propose(&self, ask: &Ask, candidates: &mut Vec<Candidate<usize>>) {
        assert_eq!(ask.parts, self.parts.len(), "this order was made for {} parts", self.parts.len());
        let sums = &self.parts[ask.part];
        let start = ask.range(self.length).start;
        let values = Values::new(self.seed);
        let length = sums.len() as u64;
        let first = candidates.len();
        if length == 0 {
            return;
        }
        for turn in ask.before..ask.before + (ask.count as u64).min(length) {
            let swept = if turn < length {
                Some(turn)
            } else {
                let later = turn - length;
                later.is_multiple_of(SWEEP_EVERY).then_some(later / SWEEP_EVERY % length)
            };
            let drawn = |draw: &u64| sums.draw(values.unit(turn, ask.part as u64 * DRAWS + draw));
            let is_new = |place: &usize| candidates[first..].iter().all(|taken| taken.job != start + place);
            let place = match swept {
                Some(place) => Some(place as usize).filter(is_new),
                None => (0..DRAWS).filter_map(|draw| drawn(&draw)).find(is_new),
            };
            // Where nothing changes any more, those that are left have their turn.
            let place = place.or_else(|| (sums.total() <= 0.0).then(|| (turn % length) as usize).filter(is_new));
            if let Some(place) = place {
                candidates.push(Candidate { job: start + place, priority: sums.weight(place) });
            }
        }
    }

    fn changed(&mut self, coordinate: usize, change: f64) {
        let (part, place) = self.place(coordinate);
        self.parts[part].set(place, change * change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(part: usize, parts: usize, before: u64, count: usize) -> Ask {
        Ask { part, parts, before, count }
    }

    fn jobs(order: &Priority, ask: &Ask) -> Vec<usize> {
        let mut candidates = Vec::new();
        order.propose(ask, &mut candidates);
        candidates.into_iter().map(|candidate| candidate.job).collect()
    }

    #[test]
    fn the_first_sweep_is_complete_and_then_those_that_change_come_often() {
        let mut order = Priority::new(40, 2, 1);
        let first: Vec<usize> = (0..4).flat_map(|turn| jobs(&order, &ask(1, 2, turn * 5, 5))).collect();
        assert!(first.into_iter().eq(20..40));
        order.changed(33, 10.0);
        order.changed(21, 1.0);
        let (mut often, mut all) = (0, 0);
        for turn in 0..200 {
            let found = jobs(&order, &ask(1, 2, 20 + turn, 1));
            often += usize::from(found == [33]);
            all += found.len();
        }
        assert_eq!(all, 200);
        // 1 of 10 sweeps, and 100 of 101 of the others.
        assert!((165..=185).contains(&often), "{often}");
    }

    #[test]
    fn none_is_left_out_even_if_one_outweighs_all() {
        let mut order = Priority::new(30, 1, 3);
        order.changed(7, 1e30);
        let mut seen = [false; 30];
        for turn in 0..300 {
            for job in jobs(&order, &ask(0, 1, 30 + turn, 1)) {
                seen[job] = true;
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    proptest! {
        #[test]
        fn every_coordinate_has_one_place(length in 1..200_usize, parts in 1..9_usize, coordinate in 0..200_usize) {
            let coordinate = coordinate % length;
            let mut order = Priority::new(length, parts, 0);
            order.changed(coordinate, -3.0);
            for other in 0..length {
                prop_assert_eq!(order.weight(other).to_bits(), if other == coordinate { 9.0_f64 } else { 0.0 }.to_bits());
            }
        }

        #[test]
        fn candidates_are_of_their_part_and_different(
            length in 1..60_usize, parts in 1..5_usize, before in 0..500_u64, count in 0..20_usize, changed in 0..60_usize,
        ) {
            let mut order = Priority::new(length, parts, 9);
            order.changed(changed % length, 2.0);
            for part in 0..parts {
                let asked = ask(part, parts, before, count);
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
