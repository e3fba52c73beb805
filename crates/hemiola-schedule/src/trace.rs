//! Progress in the three measures of the paper: objective by data touched, data touched by time, objective by time.

use serde::Serialize;
use std::time::Duration;

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Rounds, or rotations, that were taken in.
    pub rounds: u64,
    /// Jobs that were taken in.
    pub jobs: u64,
    /// Data they touched, on all peers: see [`Program::cost`](crate::Program::cost).
    pub touched: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// A point of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Jobs done.
    pub jobs: u64,
    /// Data touched.
    pub touched: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// The objective.
    pub objective: f64,
}

/// The objective along the way. Watchers fill it.
///
/// ```
/// use hemiola_schedule::{Progress, Trace};
/// use std::time::Duration;
///
/// let mut trace = Trace::default();
/// for step in 0..4 {
///     let progress = Progress { rounds: step, jobs: step, touched: 100 * step, elapsed: Duration::from_secs(step) };
///     trace.add(&progress, 8.0 / (1.0 + step as f64));
/// }
/// assert_eq!(trace.touched_until(4.0), Some(100));
/// assert_eq!(trace.seconds_until(2.0), Some(3.0));
/// assert_eq!(trace.touched_until(1.0), None);
/// assert_eq!(trace.touched_per_second(), 100.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trace {
    /// Its points, in order.
    pub points: Vec<Point>,
}

impl Trace {
    /// Adds a point.
    pub fn add(&mut self, progress: &Progress, objective: f64) {
        let Progress { jobs, touched, elapsed, .. } = *progress;
        self.points.push(Point { jobs, touched, seconds: elapsed.as_secs_f64(), objective });
    }

    fn first_at(&self, objective: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.objective <= objective)
    }

    /// Data touched until the objective was reached (`OvD`).
    #[must_use]
    pub fn touched_until(&self, objective: f64) -> Option<u64> {
        self.first_at(objective).map(|point| point.touched)
    }

    /// Jobs done until the objective was reached.
    #[must_use]
    pub fn jobs_until(&self, objective: f64) -> Option<u64> {
        self.first_at(objective).map(|point| point.jobs)
    }

    /// Seconds until the objective was reached.
    #[must_use]
    pub fn seconds_until(&self, objective: f64) -> Option<f64> {
        self.first_at(objective).map(|point| point.seconds)
    }

    /// Data touched in a second, over all (`DvT`).
    #[must_use]
    pub fn touched_per_second(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.touched as f64 / last.seconds.max(f64::MIN_POSITIVE))
    }
}
