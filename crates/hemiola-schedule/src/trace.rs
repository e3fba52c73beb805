//! Progress in the three measures of the paper: objective by data touched, data touched by time,
//! objective by time.

use serde::Serialize;
use std::time::Duration;

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleProgress {
    /// Number of aggregated rounds or rotations.
    pub rounds: u64,
    /// Number of aggregated jobs.
    pub jobs: u64,
    /// Data touched on all peers: see [`DynamicProgram::cost`](crate::DynamicProgram::cost).
    pub touched: u64,
    /// Time since the start of the run.
    pub elapsed: Duration,
}

/// Objective at one moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ObjectiveSample {
    /// Number of finished jobs.
    pub jobs: u64,
    /// Amount of data touched.
    pub touched: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// Value of the objective.
    pub objective: f64,
}

/// Objective during a run, recorded by a callback.
///
/// ```
/// use hemiola_schedule::{ObjectiveTrace, ScheduleProgress};
/// use std::time::Duration;
///
/// let mut trace = ObjectiveTrace::default();
/// for step in 0..4 {
///     let elapsed = Duration::from_secs(step);
///     let progress = ScheduleProgress { rounds: step, jobs: step, touched: 100 * step, elapsed };
///     trace.add(&progress, 8.0 / (1.0 + step as f64));
/// }
/// assert_eq!(trace.touched_until(4.0), Some(100));
/// assert_eq!(trace.seconds_until(2.0), Some(3.0));
/// assert_eq!(trace.touched_until(1.0), None);
/// assert_eq!(trace.touched_per_second(), 100.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObjectiveTrace {
    /// Samples in the order they were recorded.
    pub points: Vec<ObjectiveSample>,
}

impl ObjectiveTrace {
    /// Adds a sample of the objective.
    pub fn add(&mut self, progress: &ScheduleProgress, objective: f64) {
        let ScheduleProgress { jobs, touched, elapsed, .. } = *progress;
        self.points.push(ObjectiveSample { jobs, touched, seconds: elapsed.as_secs_f64(), objective });
    }

    fn first_at(&self, objective: f64) -> Option<&ObjectiveSample> {
        self.points.iter().find(|point| point.objective <= objective)
    }

    /// Data touched until the objective was reached (`OvD`).
    #[must_use]
    pub fn touched_until(&self, objective: f64) -> Option<u64> {
        self.first_at(objective).map(|point| point.touched)
    }

    /// Jobs finished until the objective was reached.
    #[must_use]
    pub fn jobs_until(&self, objective: f64) -> Option<u64> {
        self.first_at(objective).map(|point| point.jobs)
    }

    /// Seconds until the objective was reached.
    #[must_use]
    pub fn seconds_until(&self, objective: f64) -> Option<f64> {
        self.first_at(objective).map(|point| point.seconds)
    }

    /// Data touched per second over the whole run (`DvT`).
    #[must_use]
    pub fn touched_per_second(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.touched as f64 / last.seconds.max(f64::MIN_POSITIVE))
    }
}
