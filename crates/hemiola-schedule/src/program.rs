//! A program in three instructions: choose jobs, do one, take in what came of it.

use hemiola_cluster::{Crew, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A scheduled program. [`Dynamic`](crate::Dynamic) runs it.
///
/// Every peer runs the same program and has all of the model and its own rows of the data, both in `State`. In a round the program names jobs, the engine keeps those
/// that do not disturb each other, workers do them, each on this peer's rows, and what came of them on all peers is taken in by every peer alike.
///
/// **What makes peers agree:** `schedule` and `aggregate` see the same on every peer and must do the same: nothing in them may depend on this peer's rows, except that
/// `aggregate` brings them up to date.
pub trait Program: Sync {
    /// What one update works on: a coefficient, a word, a row.
    type Job: Clone + PartialEq + fmt::Debug + Serialize + Send + Sync;
    /// What comes of an update on the rows of one peer.
    type Partial: Serialize + DeserializeOwned + Send + Sync;
    /// The model and this peer's part of the data, with whatever is derived from both.
    type State: Sync;

    /// Names jobs that are worth doing, of one part of the model: workers ask for several parts at the same time, ahead of need. The best have the highest priority.
    fn schedule(&self, ask: &Ask, state: &Self::State, candidates: &mut Vec<Candidate<Self::Job>>);

    /// How much two jobs disturb each other if neither sees what the other did: 0 not at all, 1 as much as the same job twice. For a regression, the correlation
    /// of two columns.
    fn coupling(&self, a: &Self::Job, b: &Self::Job, state: &Self::State) -> f64 {
        let _ = (a, b, state);
        0.0
    }

    /// What one job comes to on this peer's rows.
    fn update(&self, job: &Self::Job, state: &Self::State) -> Self::Partial;

    /// Takes in what came of the jobs of a round. The crew stands by for the part of it that is work.
    fn aggregate(
        &mut self,
        done: &Done<'_, Self::Job, Self::Partial>,
        state: &mut Self::State,
        crew: &mut Crew<'_>,
    ) -> Result<()>;

    /// How much data a job touches on all peers: what progress is counted in.
    fn cost(&self, job: &Self::Job, state: &Self::State) -> u64 {
        let _ = (job, state);
        1
    }
}

/// What a schedule is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which part of the model, of [`parts`](Self::parts).
    pub part: usize,
    /// Into how many the model is cut.
    pub parts: usize,
    /// How many candidates this part was asked for before: what chance and turns come from.
    pub before: u64,
    /// How many are wanted now.
    pub count: usize,
}

impl Ask {
    /// The range of this part, where the model has `length` coordinates.
    #[must_use]
    pub fn range(&self, length: usize) -> std::ops::Range<usize> {
        self.part * length / self.parts..(self.part + 1) * length / self.parts
    }
}

/// A job that a schedule names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<J> {
    /// The job.
    pub job: J,
    /// Those of a higher priority go first.
    pub priority: f64,
}

/// What came of the jobs of a round.
#[derive(Debug)]
pub struct Done<'a, J, P> {
    /// Which round, from 0.
    pub round: u64,
    /// Rounds that had begun and had not been taken in when these updates ran: 0 is exact.
    pub staleness: usize,
    /// The jobs.
    pub jobs: &'a [J],
    partials: &'a [Vec<P>],
}

impl<'a, J, P> Done<'a, J, P> {
    pub(crate) fn new(round: u64, staleness: usize, jobs: &'a [J], partials: &'a [Vec<P>]) -> Self {
        debug_assert!(partials.iter().all(|of_peer| of_peer.len() == jobs.len()));
        Self { round, staleness, jobs, partials }
    }

    /// What came of the job at a place, by peer.
    pub fn partials(&self, place: usize) -> impl Iterator<Item = &'a P> + use<'a, J, P> {
        self.partials.iter().map(move |of_peer| &of_peer[place])
    }
}

impl<J> Done<'_, J, f64> {
    /// The sum over all peers of what came of the job at a place.
    #[must_use]
    #[inline]
    pub fn sum(&self, place: usize) -> f64 {
        self.partials.iter().map(|of_peer| of_peer[place]).sum()
    }
}
