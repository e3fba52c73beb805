//! Dynamic scheduler: schedules that follow the model, in small rounds, several of them in flight.
//!
//! One round works as follows:
//!
//! - [`Pipeline`] admits jobs that conflict neither with each other nor with jobs in flight.
//! - Workers run them, each a contiguous range in the order of priority. If the backlog is low, the
//!   workers also request more candidates, each for another part of the model, so that no thread
//!   waits for the schedule.
//! - The results are sent to the other peers.
//! - When `depth` rounds are in flight, the oldest is aggregated.
//!
//! Every peer computes the schedule itself, from the same model, and finds the same jobs. No
//! message carries a schedule, and there is no scheduler process to wait for or to lose. The cost
//! is that every peer spends the scheduling time; the workers of a peer share it.
//!
//! **Invariant:** the jobs, their inputs and their order depend on counts only, never on time. One
//! program on the same peers gives bit-identical results.

use crate::error::Error;
use crate::plan::pipeline::{ConflictPolicy, Pipeline, PipelineCounts, PipelineRound, PipelineSettings};
use crate::program::{DynamicProgram, JobCandidate, RoundResults, ScheduleRequest};
use crate::result_exchange::ResultExchange;
use crate::trace::ScheduleProgress;
use hemiola_cluster::{Cluster, Result, WorkerTeam, panic_message};
use hemiola_core::Moment;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Candidates to request per concurrent job.
const CANDIDATES_PER_JOB: usize = 2;
/// Smallest number of candidates to request at a time.
const MIN_CANDIDATES: usize = 64;

/// Runs a [`DynamicProgram`] in rounds of concurrent jobs. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct DynamicScheduler<'c> {
    cluster: &'c Cluster,
    settings: PipelineSettings,
    parts: usize,
    callback_interval: u64,
}

/// Report of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleReport {
    /// Rounds, jobs, data and time so far.
    pub progress: ScheduleProgress,
    /// Rounds, jobs, conflicts and staleness.
    pub counts: PipelineCounts,
    /// Time of the leading thread by phase.
    pub phase_times: PhaseTimes,
}

/// Time spent in each phase of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseTimes {
    /// Selection of jobs without conflicts, and requests for candidates when there were none.
    pub scheduling: Duration,
    /// Updates, with the requests for candidates that run beside them.
    pub updating: Duration,
    /// Waiting for results of other peers.
    pub waiting: Duration,
    /// Aggregation of results into the model.
    pub aggregating: Duration,
}

impl<'c> DynamicScheduler<'c> {
    /// Creates a scheduler with one job per worker of this peer in a round, one round at a time,
    /// and no two jobs coupled by 0.1 or more.
    #[must_use]
    pub fn new(cluster: &'c Cluster) -> Self {
        let settings = PipelineSettings {
            concurrent: cluster.workers(),
            depth: 1,
            conflicts: ConflictPolicy::Avoid { pair: 0.1, total: 1.0 },
        };
        Self { cluster, settings, parts: 1, callback_interval: 1000 }
    }

    /// Sets the number of jobs in a round. These updates do not see each other.
    #[must_use]
    pub fn concurrent(mut self, jobs: usize) -> Self {
        self.settings.concurrent = jobs;
        self
    }

    /// Sets the number of rounds in flight; 1 is exact. More rounds hide the network and the
    /// schedule behind updates, which then see a model up to `depth - 1` rounds old.
    #[must_use]
    pub fn depth(mut self, rounds: usize) -> Self {
        self.settings.depth = rounds;
        self
    }

    /// Sets the policy for jobs that conflict.
    #[must_use]
    pub fn conflicts(mut self, conflicts: ConflictPolicy) -> Self {
        self.settings.conflicts = conflicts;
        self
    }

    /// Sets the number of parts of the model for which workers request candidates in parallel.
    #[must_use]
    pub fn parts(mut self, parts: usize) -> Self {
        self.parts = parts;
        self
    }

    /// Sets the number of jobs between two calls of the callback. The count is approximate: calls
    /// happen between rounds.
    #[must_use]
    pub fn callback_every(mut self, jobs: u64) -> Self {
        self.callback_interval = jobs;
        self
    }

    /// *Collective.* Runs rounds until the callback breaks. All started rounds are aggregated
    /// before it returns.
    ///
    /// The callback sees the same state on every peer and must return the same decision.
    pub fn run<P: DynamicProgram>(
        &self,
        program: &mut P,
        state: &mut P::State,
        callback: impl FnMut(&ScheduleProgress, &P, &P::State) -> Result<ControlFlow<()>>,
    ) -> Result<ScheduleReport> {
        self.cluster.worker_team(|team| self.run_with(team, program, state, callback))
    }

    /// *Collective.* Variant of [`run`](Self::run) for callers that already have a worker team.
    pub fn run_with<P: DynamicProgram>(
        &self,
        team: &mut WorkerTeam<'_>,
        program: &mut P,
        state: &mut P::State,
        callback: impl FnMut(&ScheduleProgress, &P, &P::State) -> Result<ControlFlow<()>>,
    ) -> Result<ScheduleReport> {
        self.check()?;
        let settings =
            format!("{:?}, {} parts, a callback every {} jobs", self.settings, self.parts, self.callback_interval);
        let exchange = ResultExchange::new(self.cluster, &settings)?;
        let start = self.cluster.env().now();
        let mut run = DynamicRun {
            scheduler: self,
            exchange: exchange.as_ref(),
            start,
            requested: 0,
            pipeline: Pipeline::new(self.settings),
            results: VecDeque::new(),
            buffers: (0..team.workers()).map(|_| SchedulerBuffers::default()).collect(),
            new_candidates: Vec::new(),
            report: ScheduleReport::default(),
            callback,
            next_callback: self.callback_interval,
        };
        let outcome =
            if run.is_serial() { run.run_serially(program, state, team) } else { run.run_rounds(program, state, team) };
        if let (Err(error), Some(exchange)) = (&outcome, &exchange)
            && !is_known_to_all(error)
        {
            exchange.send_failure(run.pipeline.counts().rounds, error);
        }
        outcome?;
        run.report.counts = run.pipeline.counts().clone();
        run.report.progress.elapsed = self.cluster.env().now() - start;
        Ok(run.report)
    }

    /// Rejects settings of zero.
    fn check(&self) -> Result<(), Error> {
        let needs = [
            (self.settings.concurrent, "the number of concurrent jobs", "a round needs at least one job"),
            (self.settings.depth, "the depth of the pipeline", "use 1 for exact results, or more"),
            (self.parts, "the number of parts", "use at least one"),
            (self.callback_interval as usize, "the number of jobs between two callbacks", "use at least one"),
        ];
        match needs.into_iter().find(|(found, ..)| *found == 0) {
            None => Ok(()),
            Some((_, setting, reason)) => {
                let (setting, reason) = (setting.to_owned(), reason.to_owned());
                Err(Error::InvalidSetting { setting, found: "0".to_owned(), reason })
            }
        }
    }
}

/// Buffers of one worker.
struct SchedulerBuffers<P: DynamicProgram> {
    results: Vec<P::Partial>,
    /// Candidates of each part that the worker requests.
    candidates: Vec<Vec<JobCandidate<P::Job>>>,
    failed: Option<(usize, String)>,
}

impl<P: DynamicProgram> Default for SchedulerBuffers<P> {
    fn default() -> Self {
        Self { results: Vec::new(), candidates: Vec::new(), failed: None }
    }
}

struct DynamicRun<'r, P: DynamicProgram, W> {
    scheduler: &'r DynamicScheduler<'r>,
    exchange: Option<&'r ResultExchange<'r>>,
    start: Moment,
    /// Number of candidates requested from every part so far.
    requested: u64,
    pipeline: Pipeline<P::Job>,
    /// Results of this peer for rounds in flight.
    results: VecDeque<Vec<P::Partial>>,
    buffers: Vec<SchedulerBuffers<P>>,
    new_candidates: Vec<JobCandidate<P::Job>>,
    report: ScheduleReport,
    callback: W,
    next_callback: u64,
}

impl<P: DynamicProgram, W: FnMut(&ScheduleProgress, &P, &P::State) -> Result<ControlFlow<()>>> DynamicRun<'_, P, W> {
    /// Returns whether there is nothing to run concurrently.
    fn is_serial(&self) -> bool {
        let PipelineSettings { concurrent, depth, .. } = self.scheduler.settings;
        concurrent == 1 && depth == 1 && self.exchange.is_none()
    }

    /// Runs one job after the other, without the overhead of rounds.
    fn run_serially(&mut self, program: &mut P, state: &mut P::State, team: &mut WorkerTeam<'_>) -> Result<()> {
        let mut results = [Vec::with_capacity(1)];
        let (mut waiting, mut round) = (Vec::new(), 0);
        loop {
            self.request_candidates(program, state);
            waiting.append(&mut self.new_candidates);
            waiting.sort_by(|a, b| b.priority.total_cmp(&a.priority));
            if waiting.is_empty() {
                return Err(Error::NoJobs { round }.into());
            }
            for JobCandidate { job, .. } in waiting.drain(..) {
                let update = catch_unwind(AssertUnwindSafe(|| program.update(&job, state)));
                let result = update.map_err(|panic| self.job_panicked(&job, round, panic_message(&*panic)))?;
                results[0].clear();
                results[0].push(result);
                let touched = program.cost(&job, state);
                program.aggregate(&RoundResults::new(round, 0, std::slice::from_ref(&job), &results), state, team)?;
                round += 1;
                self.pipeline.count_serial_job();
                if self.count_progress(1, touched, program, state)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn run_rounds(&mut self, program: &mut P, state: &mut P::State, team: &mut WorkerTeam<'_>) -> Result<()> {
        loop {
            let start = self.now();
            if self.pipeline.waiting() == 0 {
                self.request_candidates(program, state);
                self.pipeline.offer(&mut self.new_candidates);
            }
            let number = self.pipeline.counts().rounds;
            let coupling = |a: &P::Job, b: &P::Job| program.coupling(a, b, state);
            let started = match self.pipeline.admit(coupling) {
                Ok(round) => round.is_some(),
                Err(conflict) => {
                    return Err(Error::JobConflict { round: number, conflict: conflict.to_string() }.into());
                }
            };
            self.report.phase_times.scheduling += self.now() - start;
            if started {
                self.update(program, state, team)?;
            } else if self.pipeline.in_flight() == 0 {
                return Err(Error::NoJobs { round: number }.into());
            }
            // A candidate that cannot start waits for the oldest round.
            if (self.pipeline.is_full() || !started) && self.aggregate_oldest(program, state, team)?.is_break() {
                while self.pipeline.in_flight() > 0 {
                    let _ = self.aggregate_oldest(program, state, team)?;
                }
                return Ok(());
            }
        }
    }

    /// Runs the jobs of the newest round, and requests candidates if few are left.
    fn update(&mut self, program: &P, state: &P::State, team: &mut WorkerTeam<'_>) -> Result<()> {
        let start = self.now();
        let round = self.pipeline.newest().expect("a round has started");
        let costs = round.jobs.iter().map(|job| program.cost(job, state));
        let shares = worker_shares(costs, round.jobs.len(), team.workers());
        let (parts, request_more) = (self.scheduler.parts, self.pipeline.needs_candidates());
        let (before, count) = (self.requested, self.scheduler.candidates_per_part());
        let jobs = &round.jobs;
        team.each_with(&mut self.buffers, |worker, buffer| {
            let mut at = shares[worker].start;
            let done = catch_unwind(AssertUnwindSafe(|| {
                for job in &jobs[shares[worker].clone()] {
                    buffer.results.push(program.update(job, state));
                    at += 1;
                }
            }));
            buffer.failed = done.err().map(|panic| (at, panic_message(&*panic)));
            if request_more {
                for part in (worker..parts).step_by(shares.len()) {
                    let mut candidates = Vec::with_capacity(count);
                    program.schedule(
                        &ScheduleRequest { part, parts, requested_before: before, count },
                        state,
                        &mut candidates,
                    );
                    buffer.candidates.push(candidates);
                }
            }
        })?;
        for buffer in &mut self.buffers {
            if let Some((at, message)) = buffer.failed.take() {
                let number = round.number;
                let job = format!("{:?}", round.jobs[at]);
                return Err(
                    Error::JobPanicked { job, round: number, rank: self.scheduler.cluster.rank(), message }.into()
                );
            }
        }
        let mut results = Vec::with_capacity(round.jobs.len());
        for buffer in &mut self.buffers {
            results.append(&mut buffer.results);
        }
        if let Some(exchange) = self.exchange {
            exchange.send_results(round.number, &round.jobs, &results)?;
        }
        self.results.push_back(results);
        if request_more {
            self.requested += count as u64;
            // In the order of parts, not of workers: peers may have different numbers of workers.
            let workers = self.buffers.len();
            for part in 0..parts {
                self.new_candidates.append(&mut self.buffers[part % workers].candidates[part / workers]);
            }
            self.buffers.iter_mut().for_each(|buffer| buffer.candidates.clear());
            self.pipeline.offer(&mut self.new_candidates);
        }
        self.report.phase_times.updating += self.now() - start;
        Ok(())
    }

    /// Waits for the results of the oldest round and aggregates them.
    fn aggregate_oldest(
        &mut self,
        program: &mut P,
        state: &mut P::State,
        team: &mut WorkerTeam<'_>,
    ) -> Result<ControlFlow<()>> {
        let start = self.now();
        let round = self.pipeline.retire().expect("a round is in flight");
        let PipelineRound { number, staleness, .. } = round;
        let own = self.results.pop_front().expect("every round in flight has results");
        let results = match self.exchange {
            Some(exchange) => exchange.receive_results(number, &round.jobs, own)?,
            None => vec![own],
        };
        let received = self.now();
        self.report.phase_times.waiting += received - start;
        let touched = round.jobs.iter().map(|job| program.cost(job, state)).sum();
        program.aggregate(&RoundResults::new(number, staleness, &round.jobs, &results), state, team)?;
        self.report.phase_times.aggregating += self.now() - received;
        let jobs = round.jobs.len() as u64;
        self.pipeline.recycle(round);
        self.count_progress(jobs, touched, program, state)
    }

    /// Counts aggregated jobs, and calls the callback if it is due.
    fn count_progress(&mut self, jobs: u64, touched: u64, program: &P, state: &P::State) -> Result<ControlFlow<()>> {
        let progress = &mut self.report.progress;
        progress.rounds += 1;
        progress.jobs += jobs;
        progress.touched += touched;
        if progress.jobs < self.next_callback {
            return Ok(ControlFlow::Continue(()));
        }
        self.next_callback = progress.jobs + self.scheduler.callback_interval;
        progress.elapsed = self.scheduler.cluster.env().now() - self.start;
        (self.callback)(progress, program, state)
    }

    /// Requests candidates of all parts on this thread.
    fn request_candidates(&mut self, program: &P, state: &P::State) {
        let (parts, before, count) = (self.scheduler.parts, self.requested, self.scheduler.candidates_per_part());
        for part in 0..parts {
            program.schedule(
                &ScheduleRequest { part, parts, requested_before: before, count },
                state,
                &mut self.new_candidates,
            );
        }
        self.requested += count as u64;
    }

    fn job_panicked(&self, job: &P::Job, round: u64, message: String) -> Error {
        Error::JobPanicked { job: format!("{job:?}"), round, rank: self.scheduler.cluster.rank(), message }
    }

    fn now(&self) -> Moment {
        self.scheduler.cluster.env().now()
    }
}

/// Returns whether all peers detect this error themselves, or received it from another peer.
fn is_known_to_all(error: &hemiola_cluster::Error) -> bool {
    match error {
        hemiola_cluster::Error::Layer { source, .. } => matches!(
            source.downcast_ref(),
            Some(Error::JobConflict { .. } | Error::NoJobs { .. } | Error::PeerFailed { .. })
        ),
        hemiola_cluster::Error::Lost(_) => true,
        _ => false,
    }
}

impl DynamicScheduler<'_> {
    /// Number of candidates to request from a part at a time.
    fn candidates_per_part(&self) -> usize {
        (CANDIDATES_PER_JOB * self.settings.concurrent).max(MIN_CANDIDATES).div_ceil(self.parts)
    }
}

/// Cuts jobs into one contiguous range per worker, of about equal cost. A job belongs to the worker
/// in whose share its middle lies.
fn worker_shares(costs: impl Iterator<Item = u64> + Clone, count: usize, workers: usize) -> Vec<Range<usize>> {
    let total: u128 = costs.clone().map(u128::from).sum();
    let mut ends = vec![0; workers];
    let mut before = 0;
    for (index, cost) in costs.map(u128::from).enumerate() {
        // Without any cost, by count.
        let worker = if total == 0 {
            index * workers / count
        } else {
            ((2 * before + cost) * workers as u128 / (2 * total)) as usize
        };
        ends[worker.min(workers - 1)] = index + 1;
        before += cost;
    }
    let mut start = 0;
    let run = |end: &usize| {
        let run = start..(*end).max(start);
        start = run.end;
        run
    };
    ends.iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_cover_all_jobs_in_order(costs in prop::collection::vec(0..50_u64, 0..40), workers in 1..6_usize) {
            let shares = worker_shares(costs.iter().copied(), costs.len(), workers);
            prop_assert_eq!(shares.len(), workers);
            prop_assert!(shares.iter().cloned().flatten().eq(0..costs.len()));
            let total: u64 = costs.iter().sum();
            let heaviest = costs.iter().max().copied().unwrap_or(0);
            for share in shares {
                let sum: u64 = costs[share].iter().sum();
                prop_assert!(sum as f64 <= total as f64 / workers as f64 + heaviest as f64 + 1e-9);
            }
        }
    }
}
