//! The dynamic engine: schedules that follow the model, small rounds, several in flight.
//!
//! A round: [`Pipeline`] admits jobs that do not disturb each other or those in flight; workers do them, each a run of neighbours in the order of priority; where the backlog has run low,
//! the same workers also ask the schedule for more, a part of the model each, so that nobody waits for it; results go out to the other peers; when as
//! many rounds are in flight as the pipeline is deep, the oldest is taken in.
//!
//! Every peer schedules for itself, from the same model, and finds the same jobs: no message says what to do, and there is no scheduler to wait for or to lose. What it costs is that
//! each peer spends the time; it is shared by the workers of a peer.
//!
//! **Invariant:** what runs, on what and in which order depends on counts alone. The same program on the same peers gives the same bits.

use crate::error::Error;
use crate::meet::Meet;
use crate::plan::pipeline::{Conflicts, Pipeline, Round, Rules, Tally};
use crate::program::{Ask, Candidate, Done, Program};
use crate::trace::Progress;
use hemiola_cluster::{Cluster, Crew, Result, panic_message};
use hemiola_core::Moment;
use serde::Serialize;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Candidates asked for at a time, in shares of a round.
const AHEAD: usize = 2;
/// And at least.
const AT_LEAST: usize = 64;

/// Runs [`Program`]s: see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Dynamic<'c> {
    cluster: &'c Cluster,
    rules: Rules,
    parts: usize,
    every: u64,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// How far it came.
    pub progress: Progress,
    /// Rounds, jobs, conflicts and staleness.
    pub tally: Tally,
    /// Where the time of the leading thread went.
    pub spent: Spent,
}

/// Where time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Choosing jobs that do not disturb each other, and asking for candidates when there were none.
    pub scheduling: Duration,
    /// Updates, with asking for candidates ahead of need.
    pub updating: Duration,
    /// Waiting for other peers.
    pub waiting: Duration,
    /// Taking in results.
    pub aggregating: Duration,
}

impl<'c> Dynamic<'c> {
    /// As many jobs at once as this peer has workers, one round at a time, no two that are coupled by 0.1 or more.
    #[must_use]
    pub fn new(cluster: &'c Cluster) -> Self {
        let rules =
            Rules { concurrent: cluster.workers(), depth: 1, conflicts: Conflicts::Avoid { pair: 0.1, total: 1.0 } };
        Self { cluster, rules, parts: 1, every: 1000 }
    }

    /// Jobs of a round: updates that do not see each other.
    #[must_use]
    pub fn concurrent(mut self, jobs: usize) -> Self {
        self.rules.concurrent = jobs;
        self
    }

    /// Rounds in flight: 1 is exact, more hide the network and the schedule behind updates, which then see a model that is up to `depth - 1` rounds old.
    #[must_use]
    pub fn depth(mut self, rounds: usize) -> Self {
        self.rules.depth = rounds;
        self
    }

    /// What becomes of jobs that disturb each other.
    #[must_use]
    pub fn conflicts(mut self, conflicts: Conflicts) -> Self {
        self.rules.conflicts = conflicts;
        self
    }

    /// Into how many parts the model is cut for asking: workers ask for different parts at the same time.
    #[must_use]
    pub fn parts(mut self, parts: usize) -> Self {
        self.parts = parts;
        self
    }

    /// The watcher is called after about so many jobs each time.
    #[must_use]
    pub fn watch_every(mut self, jobs: u64) -> Self {
        self.every = jobs;
        self
    }

    /// *Collective.* Runs rounds until the watcher breaks. All that began is taken in before it returns.
    ///
    /// The watcher sees the same on every peer and must decide the same.
    pub fn run<P: Program>(
        &self,
        program: &mut P,
        state: &mut P::State,
        watch: impl FnMut(&Progress, &P, &P::State) -> Result<ControlFlow<()>>,
    ) -> Result<Report> {
        self.cluster.crew(|crew| self.run_with(crew, program, state, watch))
    }

    /// *Collective.* The same for who has a crew already.
    pub fn run_with<P: Program>(
        &self,
        crew: &mut Crew<'_>,
        program: &mut P,
        state: &mut P::State,
        watch: impl FnMut(&Progress, &P, &P::State) -> Result<ControlFlow<()>>,
    ) -> Result<Report> {
        self.check()?;
        let settings = format!("{:?}, {} parts, a look every {} jobs", self.rules, self.parts, self.every);
        let meet = Meet::new(self.cluster, &settings)?;
        let start = self.cluster.env().now();
        let mut run = Run {
            engine: self,
            meet: meet.as_ref(),
            start,
            asked: 0,
            pipeline: Pipeline::new(self.rules),
            results: VecDeque::new(),
            slots: (0..crew.workers()).map(|_| Slot::default()).collect(),
            fresh: Vec::new(),
            report: Report::default(),
            watch,
            next_look: self.every,
        };
        let outcome =
            if run.is_serial() { run.serially(program, state, crew) } else { run.rounds(program, state, crew) };
        if let (Err(error), Some(meet)) = (&outcome, &meet)
            && !is_known(error)
        {
            meet.tell_failure(run.pipeline.tally().rounds, error);
        }
        outcome?;
        run.report.tally = run.pipeline.tally().clone();
        run.report.progress.elapsed = self.cluster.env().now() - start;
        Ok(run.report)
    }

    /// Refuses settings that cannot be.
    fn check(&self) -> Result<(), Error> {
        let needs = [
            (self.rules.concurrent, "the number of concurrent jobs", "a round has at least one"),
            (self.rules.depth, "the depth of the pipeline", "1 is the exact one"),
            (self.parts, "the number of parts", "there is at least one"),
            (self.every as usize, "the number of jobs between two looks", "there is at least one"),
        ];
        match needs.into_iter().find(|(found, ..)| *found == 0) {
            None => Ok(()),
            Some((_, setting, reason)) => {
                let (setting, reason) = (setting.to_owned(), reason.to_owned());
                Err(Error::Setting { setting, found: "0".to_owned(), reason })
            }
        }
    }
}

/// What a worker has of its own.
struct Slot<P: Program> {
    results: Vec<P::Partial>,
    /// Candidates of each part that it asks for.
    candidates: Vec<Vec<Candidate<P::Job>>>,
    failed: Option<(usize, String)>,
}

impl<P: Program> Default for Slot<P> {
    fn default() -> Self {
        Self { results: Vec::new(), candidates: Vec::new(), failed: None }
    }
}

struct Run<'r, P: Program, W> {
    engine: &'r Dynamic<'r>,
    meet: Option<&'r Meet<'r>>,
    start: Moment,
    /// Candidates every part was asked for.
    asked: u64,
    pipeline: Pipeline<P::Job>,
    /// Own results of rounds in flight.
    results: VecDeque<Vec<P::Partial>>,
    slots: Vec<Slot<P>>,
    fresh: Vec<Candidate<P::Job>>,
    report: Report,
    watch: W,
    next_look: u64,
}

impl<P: Program, W: FnMut(&Progress, &P, &P::State) -> Result<ControlFlow<()>>> Run<'_, P, W> {
    /// Whether there is nothing to run at once.
    fn is_serial(&self) -> bool {
        let Rules { concurrent, depth, .. } = self.engine.rules;
        concurrent == 1 && depth == 1 && self.meet.is_none()
    }

    /// One job after the other, without the ceremony of rounds.
    fn serially(&mut self, program: &mut P, state: &mut P::State, crew: &mut Crew<'_>) -> Result<()> {
        let mut results = [Vec::with_capacity(1)];
        let (mut waiting, mut round) = (Vec::new(), 0);
        loop {
            self.ask_now(program, state);
            waiting.append(&mut self.fresh);
            waiting.sort_by(|a, b| b.priority.total_cmp(&a.priority));
            if waiting.is_empty() {
                return Err(Error::NoJobs { round }.into());
            }
            for Candidate { job, .. } in waiting.drain(..) {
                let update = catch_unwind(AssertUnwindSafe(|| program.update(&job, state)));
                let result = update.map_err(|panic| self.job_panicked(&job, round, panic_message(&*panic)))?;
                results[0].clear();
                results[0].push(result);
                let touched = program.cost(&job, state);
                program.aggregate(&Done::new(round, 0, std::slice::from_ref(&job), &results), state, crew)?;
                round += 1;
                self.pipeline.count_alone();
                if self.look(1, touched, program, state)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn rounds(&mut self, program: &mut P, state: &mut P::State, crew: &mut Crew<'_>) -> Result<()> {
        loop {
            let start = self.now();
            if self.pipeline.waiting() == 0 {
                self.ask_now(program, state);
                self.pipeline.offer(&mut self.fresh);
            }
            let number = self.pipeline.tally().rounds;
            let coupling = |a: &P::Job, b: &P::Job| program.coupling(a, b, state);
            let begun = match self.pipeline.admit(coupling) {
                Ok(round) => round.is_some(),
                Err(overlap) => return Err(Error::Overlap { round: number, overlap: overlap.to_string() }.into()),
            };
            self.report.spent.scheduling += self.now() - start;
            if begun {
                self.update(program, state, crew)?;
            } else if self.pipeline.in_flight() == 0 {
                return Err(Error::NoJobs { round: number }.into());
            }
            // What cannot begin waits for the oldest round.
            if (self.pipeline.is_full() || !begun) && self.take_in(program, state, crew)?.is_break() {
                while self.pipeline.in_flight() > 0 {
                    let _ = self.take_in(program, state, crew)?;
                }
                return Ok(());
            }
        }
    }

    /// Runs the jobs of the newest round, and asks for candidates if few are left.
    fn update(&mut self, program: &P, state: &P::State, crew: &mut Crew<'_>) -> Result<()> {
        let start = self.now();
        let round = self.pipeline.newest().expect("one has begun");
        let costs = round.jobs.iter().map(|job| program.cost(job, state));
        let shares = shares(costs, round.jobs.len(), crew.workers());
        let (parts, hungry) = (self.engine.parts, self.pipeline.is_hungry());
        let (before, count) = (self.asked, self.engine.asks());
        let jobs = &round.jobs;
        crew.each_with(&mut self.slots, |worker, slot| {
            let mut at = shares[worker].start;
            let done = catch_unwind(AssertUnwindSafe(|| {
                for job in &jobs[shares[worker].clone()] {
                    slot.results.push(program.update(job, state));
                    at += 1;
                }
            }));
            slot.failed = done.err().map(|panic| (at, panic_message(&*panic)));
            if hungry {
                for part in (worker..parts).step_by(shares.len()) {
                    let mut candidates = Vec::with_capacity(count);
                    program.schedule(&Ask { part, parts, before, count }, state, &mut candidates);
                    slot.candidates.push(candidates);
                }
            }
        })?;
        for slot in &mut self.slots {
            if let Some((at, message)) = slot.failed.take() {
                let number = round.number;
                let job = format!("{:?}", round.jobs[at]);
                return Err(Error::Job { job, round: number, rank: self.engine.cluster.rank(), message }.into());
            }
        }
        let mut results = Vec::with_capacity(round.jobs.len());
        for slot in &mut self.slots {
            results.append(&mut slot.results);
        }
        if let Some(meet) = self.meet {
            meet.tell(round.number, &round.jobs, &results)?;
        }
        self.results.push_back(results);
        if hungry {
            self.asked += count as u64;
            // In the order of parts, whoever asked for them: peers may have different numbers of workers.
            let workers = self.slots.len();
            for part in 0..parts {
                self.fresh.append(&mut self.slots[part % workers].candidates[part / workers]);
            }
            self.slots.iter_mut().for_each(|slot| slot.candidates.clear());
            self.pipeline.offer(&mut self.fresh);
        }
        self.report.spent.updating += self.now() - start;
        Ok(())
    }

    /// Takes in the oldest round.
    fn take_in(&mut self, program: &mut P, state: &mut P::State, crew: &mut Crew<'_>) -> Result<ControlFlow<()>> {
        let start = self.now();
        let round = self.pipeline.retire().expect("one is in flight");
        let Round { number, staleness, .. } = round;
        let own = self.results.pop_front().expect("every round in flight has results");
        let results = match self.meet {
            Some(meet) => meet.hear(number, &round.jobs, own)?,
            None => vec![own],
        };
        let heard = self.now();
        self.report.spent.waiting += heard - start;
        let touched = round.jobs.iter().map(|job| program.cost(job, state)).sum();
        program.aggregate(&Done::new(number, staleness, &round.jobs, &results), state, crew)?;
        self.report.spent.aggregating += self.now() - heard;
        let jobs = round.jobs.len() as u64;
        self.pipeline.recycle(round);
        self.look(jobs, touched, program, state)
    }

    /// Counts what was taken in, and lets the watcher look if it is time.
    fn look(&mut self, jobs: u64, touched: u64, program: &P, state: &P::State) -> Result<ControlFlow<()>> {
        let progress = &mut self.report.progress;
        progress.rounds += 1;
        progress.jobs += jobs;
        progress.touched += touched;
        if progress.jobs < self.next_look {
            return Ok(ControlFlow::Continue(()));
        }
        self.next_look = progress.jobs + self.engine.every;
        progress.elapsed = self.engine.cluster.env().now() - self.start;
        (self.watch)(progress, program, state)
    }

    /// Asks for candidates of all parts, here and now.
    fn ask_now(&mut self, program: &P, state: &P::State) {
        let (parts, before, count) = (self.engine.parts, self.asked, self.engine.asks());
        for part in 0..parts {
            program.schedule(&Ask { part, parts, before, count }, state, &mut self.fresh);
        }
        self.asked += count as u64;
    }

    fn job_panicked(&self, job: &P::Job, round: u64, message: String) -> Error {
        Error::Job { job: format!("{job:?}"), round, rank: self.engine.cluster.rank(), message }
    }

    fn now(&self) -> Moment {
        self.engine.cluster.env().now()
    }
}

/// Whether all peers find this error by themselves, or have it from another.
fn is_known(error: &hemiola_cluster::Error) -> bool {
    match error {
        hemiola_cluster::Error::Layer { source, .. } => matches!(
            source.downcast_ref(),
            Some(Error::Overlap { .. } | Error::NoJobs { .. } | Error::Elsewhere { .. })
        ),
        hemiola_cluster::Error::Lost(_) => true,
        _ => false,
    }
}

impl Dynamic<'_> {
    /// Candidates a part is asked for at a time.
    fn asks(&self) -> usize {
        (AHEAD * self.rules.concurrent).max(AT_LEAST).div_ceil(self.parts)
    }
}

/// Cuts jobs into a run for each worker, of about the same cost: a job belongs to the worker in whose share its middle lies.
fn shares(costs: impl Iterator<Item = u64> + Clone, count: usize, workers: usize) -> Vec<Range<usize>> {
    let total: u128 = costs.clone().map(u128::from).sum();
    let mut ends = vec![0; workers];
    let mut before = 0;
    for (place, cost) in costs.map(u128::from).enumerate() {
        // Without any cost, by count.
        let worker = if total == 0 {
            place * workers / count
        } else {
            ((2 * before + cost) * workers as u128 / (2 * total)) as usize
        };
        ends[worker.min(workers - 1)] = place + 1;
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
            let shares = shares(costs.iter().copied(), costs.len(), workers);
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
