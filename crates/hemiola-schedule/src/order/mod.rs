//! Ready orders of coordinates: which to update next.
//!
//! A [`Program`](crate::Program) whose jobs are coordinates has one of these in a field and hands `schedule` on to it; changing the order changes nothing else.

mod correlations;
mod priority;
mod random;
mod round_robin;

pub use correlations::Correlations;
pub use priority::Priority;
pub use random::Random;
pub use round_robin::RoundRobin;

use crate::program::{Ask, Candidate};

/// An order of `0..length` coordinates.
pub trait Order: Sync {
    /// Names coordinates of one part of all.
    fn propose(&self, ask: &Ask, candidates: &mut Vec<Candidate<usize>>);

    /// Learns by how much a coordinate has changed when it was updated last.
    fn changed(&mut self, coordinate: usize, change: f64) {
        let _ = (coordinate, change);
    }
}

impl<O: Order + ?Sized> Order for Box<O>
where
    Box<O>: Sync,
{
    fn propose(&self, ask: &Ask, candidates: &mut Vec<Candidate<usize>>) {
        (**self).propose(ask, candidates);
    }

    fn changed(&mut self, coordinate: usize, change: f64) {
        (**self).changed(coordinate, change);
    }
}
