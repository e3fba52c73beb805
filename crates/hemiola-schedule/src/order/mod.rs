//! Update orders of coordinates.
//!
//! A [`DynamicProgram`](crate::DynamicProgram) whose jobs are coordinates holds one of these in a
//! field and delegates `schedule` to it. Another order changes nothing else in the program.

mod correlations;
mod priority;
mod random;
mod round_robin;

pub use correlations::CorrelationCache;
pub use priority::PriorityOrder;
pub use random::RandomOrder;
pub use round_robin::RoundRobinOrder;

use crate::program::{JobCandidate, ScheduleRequest};

/// Update order of the coordinates `0..length`.
pub trait CoordinateOrder: Sync {
    /// Proposes coordinates of one part of the model.
    fn propose(&self, request: &ScheduleRequest, candidates: &mut Vec<JobCandidate<usize>>);

    /// Records the change of a coordinate in its last update.
    fn record_change(&mut self, coordinate: usize, change: f64) {
        let _ = (coordinate, change);
    }
}

impl<O: CoordinateOrder + ?Sized> CoordinateOrder for Box<O>
where
    Box<O>: Sync,
{
    fn propose(&self, request: &ScheduleRequest, candidates: &mut Vec<JobCandidate<usize>>) {
        (**self).propose(request, candidates);
    }

    fn record_change(&mut self, coordinate: usize, change: f64) {
        (**self).record_change(coordinate, change);
    }
}
