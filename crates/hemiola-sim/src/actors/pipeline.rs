//! Dynamic scheduling: every peer has the same pipeline, executes the jobs of a round on its own
//! rows, and sends the results to all other peers.
//!
//! A round is aggregated when the results of all peers have arrived, the oldest round first, once
//! as many rounds are in flight as the pipeline is deep. The program defines the jobs; its model is
//! a vector that all peers replicate.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_core::{Lane, Rank};
use hemiola_schedule::JobCandidate;
use hemiola_schedule::plan::pipeline::{Pipeline, PipelineSettings};
use std::collections::{BTreeMap, VecDeque};

/// A scheduled program, without threads.
pub trait ScheduledProgram {
    /// Proposes jobs; `asked` is the number of jobs proposed before. Must be equal on every peer.
    fn schedule(&self, asked: u64, count: usize, model: &[f64]) -> Vec<JobCandidate<usize>>;
    /// Strength of the coupling between two jobs.
    fn coupling(&self, a: usize, b: usize) -> f64;
    /// Computes the result of a job on the rows of a peer.
    fn update(&self, peer: Rank, job: usize, model: &[f64]) -> f64;
    /// Applies the sum of all peers' results of a job to the model.
    fn aggregate(&self, job: usize, sum: f64, model: &mut [f64]);
}

/// Settings of a peer.
#[derive(Clone, Debug)]
pub struct PipelineSetup {
    /// Width and depth of the pipeline, and its conflict rule.
    pub rules: PipelineSettings,
    /// Number of rounds to start.
    pub rounds: u64,
    /// Duration of a job on a peer's rows.
    pub work: SimDuration,
    /// Number of elements of the model.
    pub length: usize,
    /// Injected fault: a round is aggregated as soon as the peer's own results are ready.
    pub skip_missing_results: bool,
}

/// Message between peers: a round and the results of its jobs.
pub type RoundResults = (u64, Vec<f64>);

/// A peer of a scheduled program.
#[derive(Debug)]
pub struct PipelineActor<P> {
    setup: PipelineSetup,
    me: Rank,
    program: P,
    pipeline: Pipeline<usize>,
    model: Vec<f64>,
    asked: u64,
    started: u64,
    /// No round may start before the oldest is aggregated.
    blocked: bool,
    /// Round that is being computed, with its results.
    computing: Option<(u64, Vec<f64>)>,
    /// Received results, by round and peer.
    received: BTreeMap<u64, Vec<Option<Vec<f64>>>>,
    /// Rounds in flight whose own results are sent.
    sent: VecDeque<u64>,
    /// Jobs of each round, with its staleness.
    log: Vec<(Vec<usize>, usize)>,
    /// Jobs in flight at the start of each round.
    concurrent_jobs: Vec<Vec<usize>>,
    in_flight_jobs: VecDeque<Vec<usize>>,
    aggregated: u64,
}

impl<P: ScheduledProgram> PipelineActor<P> {
    /// Creates one of the peers.
    #[must_use]
    pub fn new(me: Rank, setup: PipelineSetup, program: P) -> Self {
        let model = (0..setup.length).map(|at| 1.0 / (1.0 + at as f64)).collect();
        Self {
            pipeline: Pipeline::new(setup.rules),
            me,
            program,
            model,
            asked: 0,
            started: 0,
            blocked: false,
            computing: None,
            received: BTreeMap::new(),
            sent: VecDeque::new(),
            log: Vec::new(),
            concurrent_jobs: Vec::new(),
            in_flight_jobs: VecDeque::new(),
            aggregated: 0,
            setup,
        }
    }

    /// Model replica of this peer.
    #[must_use]
    pub fn model(&self) -> &[f64] {
        &self.model
    }

    /// Jobs of each round, with its staleness.
    #[must_use]
    pub fn log(&self) -> &[(Vec<usize>, usize)] {
        &self.log
    }

    /// Jobs in flight at the start of each round.
    #[must_use]
    pub fn concurrent_jobs(&self) -> &[Vec<usize>] {
        &self.concurrent_jobs
    }

    /// Aggregates rounds and starts the next as far as possible.
    fn make_progress(&mut self, context: &mut ActorContext<'_, RoundResults>) -> ActorResult {
        loop {
            if self.computing.is_some() || self.is_done() {
                return Ok(());
            }
            let ends = self.started == self.setup.rounds;
            if (self.pipeline.is_full() || ends || self.blocked) && self.pipeline.in_flight() > 0 {
                let oldest = self.sent.front().copied();
                if !oldest.is_some_and(|round| self.is_complete(round)) {
                    context.begin_wait(0, "waits for results");
                    return Ok(());
                }
                self.aggregate_oldest()?;
                self.blocked = false;
                continue;
            }
            if self.pipeline.needs_candidates() {
                let count = self.setup.rules.concurrent;
                let mut candidates = self.program.schedule(self.asked, count, &self.model);
                self.asked += candidates.len() as u64;
                self.pipeline.offer(&mut candidates);
            }
            let program = &self.program;
            let round = self.pipeline.admit(|a, b| program.coupling(*a, *b)).map_err(|error| error.to_string())?;
            let Some(round) = round else {
                // Every candidate conflicts with a job in flight. No candidate is requested until
                // the oldest round is aggregated, however many messages arrive.
                self.blocked = true;
                continue;
            };
            let (number, jobs, staleness) = (round.number, round.jobs.clone(), round.staleness);
            self.started += 1;
            context.end_wait(0);
            let results = jobs.iter().map(|job| program.update(self.me, *job, &self.model)).collect();
            self.computing = Some((number, results));
            self.concurrent_jobs.push(self.in_flight_jobs.iter().flatten().copied().collect());
            self.in_flight_jobs.push_back(jobs.clone());
            context.compute(0, "updates", SimDuration::from_nanos(self.setup.work.nanos() * jobs.len() as u64), 0);
            self.log.push((jobs, staleness));
        }
    }

    fn is_complete(&self, round: u64) -> bool {
        let received = self.received.get(&round);
        received.is_some_and(|received| received.iter().all(Option::is_some) || self.setup.skip_missing_results)
    }

    /// Aggregates the oldest round.
    fn aggregate_oldest(&mut self) -> ActorResult {
        let number = self.sent.pop_front().ok_or("no round is in flight")?;
        let round = self.pipeline.retire().ok_or("no round is in flight")?;
        let received = self.received.remove(&number).ok_or("a round without results")?;
        for (index, job) in round.jobs.iter().enumerate() {
            let sum = received.iter().flatten().map(|results| results[index]).sum();
            self.program.aggregate(*job, sum, &mut self.model);
        }
        self.in_flight_jobs.pop_front();
        self.aggregated += 1;
        self.pipeline.recycle(round);
        Ok(())
    }

    fn record_results(&mut self, from: Rank, (round, results): RoundResults, peers: usize) {
        self.received.entry(round).or_insert_with(|| vec![None; peers])[from.index()] = Some(results);
    }
}

impl<P: ScheduledProgram> Actor for PipelineActor<P> {
    type Message = RoundResults;

    fn on_start(&mut self, context: &mut ActorContext<'_, RoundResults>) -> ActorResult {
        self.make_progress(context)
    }

    fn on_message(
        &mut self,
        from: Rank,
        results: RoundResults,
        context: &mut ActorContext<'_, RoundResults>,
    ) -> ActorResult {
        if !(self.setup.skip_missing_results && results.0 < self.aggregated) {
            self.record_results(from, results, context.peers());
        }
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, RoundResults>) -> ActorResult {
        let (round, results) = self.computing.take().ok_or("no round is being computed")?;
        for to in Rank::all(context.peers()).filter(|to| *to != self.me) {
            context.send(to, Lane::Bulk, 8 * results.len() + 24 + FRAME, (round, results.clone()));
        }
        self.sent.push_back(round);
        self.record_results(self.me, (round, results), context.peers());
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.started == self.setup.rounds && self.pipeline.in_flight() == 0 && self.computing.is_none()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let (false, None, Some(round)) = (self.is_done(), &self.computing, self.sent.front()) else {
            return Vec::new();
        };
        let received = self.received.get(round);
        let missing = received.into_iter().flatten().enumerate().filter(|(_, results)| results.is_none());
        let on = missing.map(|(peer, _)| Rank::new(peer as u32)).collect();
        vec![PendingWait::new("driver", format!("results of round {round}"), on)]
    }
}
