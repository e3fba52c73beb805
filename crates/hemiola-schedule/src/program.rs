//! A scheduled program: proposes jobs, computes one, aggregates the results.

use hemiola_cluster::{Result, WorkerTeam};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A scheduled program. [`DynamicScheduler`](crate::DynamicScheduler) runs it.
///
/// Every peer runs the same program. `State` holds the whole model and this peer's rows of the
/// data. In a round the program proposes jobs, the scheduler admits those without conflicts,
/// workers compute them on this peer's rows, and every peer aggregates the results of all peers.
///
/// **Consistency:** `schedule` and `aggregate` receive the same arguments on every peer and must do
/// the same. They must not depend on this peer's rows, except that `aggregate` updates state
/// derived from them.
pub trait DynamicProgram: Sync {
    /// Unit of work of one update: a coefficient, a word, a row.
    type Job: Clone + PartialEq + fmt::Debug + Serialize + Send + Sync;
    /// Result of an update on the rows of one peer.
    type Partial: Serialize + DeserializeOwned + Send + Sync;
    /// The model and this peer's part of the data, with everything derived from both.
    type State: Sync;

    /// Proposes jobs that are worth doing, from one part of the model. Workers request several
    /// parts in parallel, before the jobs are needed. The highest priority runs first.
    fn schedule(&self, request: &ScheduleRequest, state: &Self::State, candidates: &mut Vec<JobCandidate<Self::Job>>);

    /// Coupling of two jobs: the interference if neither sees the other's result. 0 is none, 1 is
    /// as much as the same job twice. For a regression, it is the correlation of two columns.
    fn coupling(&self, a: &Self::Job, b: &Self::Job, state: &Self::State) -> f64 {
        let _ = (a, b, state);
        0.0
    }

    /// Computes one job on this peer's rows.
    fn update(&self, job: &Self::Job, state: &Self::State) -> Self::Partial;

    /// Applies the results of a round to the model. The worker team is available for parallel work.
    fn aggregate(
        &mut self,
        results: &RoundResults<'_, Self::Job, Self::Partial>,
        state: &mut Self::State,
        team: &mut WorkerTeam<'_>,
    ) -> Result<()>;

    /// Amount of data that a job touches on all peers, the unit of progress. Defaults to 1.
    fn cost(&self, job: &Self::Job, state: &Self::State) -> u64 {
        let _ = (job, state);
        1
    }
}

/// Request for candidates to a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleRequest {
    /// Part of the model, less than [`parts`](Self::parts).
    pub part: usize,
    /// Number of parts of the model.
    pub parts: usize,
    /// Number of candidates requested from this part before. It determines random draws and the
    /// position in a sweep.
    pub requested_before: u64,
    /// Number of candidates requested now.
    pub count: usize,
}

impl ScheduleRequest {
    /// Range of coordinates of this part, for a model of `length` coordinates.
    #[must_use]
    pub fn range(&self, length: usize) -> std::ops::Range<usize> {
        self.part * length / self.parts..(self.part + 1) * length / self.parts
    }
}

/// A job that a schedule proposes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobCandidate<J> {
    /// Job that is proposed.
    pub job: J,
    /// Priority of the job: the highest runs first.
    pub priority: f64,
}

/// Results of the jobs of a round, from all peers.
#[derive(Debug)]
pub struct RoundResults<'a, J, P> {
    /// Number of the round, from 0.
    pub round: u64,
    /// Number of started rounds that were not aggregated when these updates ran; 0 is exact.
    pub staleness: usize,
    /// Jobs of the round, in the order of their results.
    pub jobs: &'a [J],
    partials: &'a [Vec<P>],
}

impl<'a, J, P> RoundResults<'a, J, P> {
    pub(crate) fn new(round: u64, staleness: usize, jobs: &'a [J], partials: &'a [Vec<P>]) -> Self {
        debug_assert!(partials.iter().all(|of_peer| of_peer.len() == jobs.len()));
        Self { round, staleness, jobs, partials }
    }

    /// Results of the job at `index`, by peer.
    pub fn partials(&self, index: usize) -> impl Iterator<Item = &'a P> + use<'a, J, P> {
        self.partials.iter().map(move |of_peer| &of_peer[index])
    }
}

impl<J> RoundResults<'_, J, f64> {
    /// Sum of the results of the job at `index` over all peers.
    #[must_use]
    #[inline]
    pub fn sum(&self, index: usize) -> f64 {
        self.partials.iter().map(|of_peer| of_peer[index]).sum()
    }
}
