//! Scheduled rounds: every peer has the same pipeline, does the jobs of a round on its own rows, and tells all others what came of them.
//!
//! A round is taken in when the results of all peers are there, the oldest first and when as many are in flight as the pipeline is deep. What a job does is given; its model is a
//! vector of numbers that all peers have.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_core::{Lane, Rank};
use hemiola_schedule::Candidate;
use hemiola_schedule::plan::pipeline::{Pipeline, Rules};
use std::collections::{BTreeMap, VecDeque};

/// What a scheduled program is, without threads.
pub trait Program {
    /// Names jobs worth doing; `asked` is how many it has named before. The same on every peer.
    fn schedule(&self, asked: u64, count: usize, model: &[f64]) -> Vec<Candidate<usize>>;
    /// How much two jobs disturb each other.
    fn coupling(&self, a: usize, b: usize) -> f64;
    /// What a job comes to on the rows of a peer.
    fn update(&self, peer: Rank, job: usize, model: &[f64]) -> f64;
    /// Takes in the sum over all peers of what came of a job.
    fn aggregate(&self, job: usize, sum: f64, model: &mut [f64]);
}

/// How a peer runs it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The shape of the pipeline.
    pub rules: Rules,
    /// Rounds that begin.
    pub rounds: u64,
    /// How long a job takes on a peer's rows.
    pub work: Span,
    /// Numbers of the model.
    pub length: usize,
    /// Takes a round in as soon as its own results are there: a fault to be found.
    pub impatient: bool,
}

/// What peers tell each other: the round, and what came of its jobs.
pub type Results = (u64, Vec<f64>);

/// A peer of a schedule.
#[derive(Debug)]
pub struct Scheduled<P> {
    setup: Setup,
    me: Rank,
    program: P,
    pipeline: Pipeline<usize>,
    model: Vec<f64>,
    asked: u64,
    begun: u64,
    /// Nothing may begin before the oldest round has been taken in.
    blocked: bool,
    /// Own results of the round that is computed.
    computing: Option<(u64, Vec<f64>)>,
    /// By round: results of each peer that has told them.
    heard: BTreeMap<u64, Vec<Option<Vec<f64>>>>,
    /// Rounds in flight whose own results are out.
    out: VecDeque<u64>,
    /// Jobs of each round, with its staleness, and the model after each was taken in.
    log: Vec<(Vec<usize>, usize)>,
    /// Jobs that were in flight together with those of each round when it began.
    beside: Vec<Vec<usize>>,
    flying: VecDeque<Vec<usize>>,
    taken_in: u64,
}

impl<P: Program> Scheduled<P> {
    /// One of the peers.
    #[must_use]
    pub fn new(me: Rank, setup: Setup, program: P) -> Self {
        let model = (0..setup.length).map(|at| 1.0 / (1.0 + at as f64)).collect();
        Self {
            pipeline: Pipeline::new(setup.rules),
            me,
            program,
            model,
            asked: 0,
            begun: 0,
            blocked: false,
            computing: None,
            heard: BTreeMap::new(),
            out: VecDeque::new(),
            log: Vec::new(),
            beside: Vec::new(),
            flying: VecDeque::new(),
            taken_in: 0,
            setup,
        }
    }

    /// The model here.
    #[must_use]
    pub fn model(&self) -> &[f64] {
        &self.model
    }

    /// The jobs of each round, and its staleness.
    #[must_use]
    pub fn log(&self) -> &[(Vec<usize>, usize)] {
        &self.log
    }

    /// Jobs that were in flight when each round began.
    #[must_use]
    pub fn beside(&self) -> &[Vec<usize>] {
        &self.beside
    }

    /// Goes as far as it can: takes rounds in, begins the next.
    fn go_on(&mut self, context: &mut Context<'_, Results>) -> Outcome {
        loop {
            if self.computing.is_some() || self.is_done() {
                return Ok(());
            }
            let ends = self.begun == self.setup.rounds;
            if (self.pipeline.is_full() || ends || self.blocked) && self.pipeline.in_flight() > 0 {
                let oldest = self.out.front().copied();
                if !oldest.is_some_and(|round| self.is_there(round)) {
                    context.waits(0, "waits for results");
                    return Ok(());
                }
                self.take_in()?;
                self.blocked = false;
                continue;
            }
            if self.pipeline.is_hungry() {
                let count = self.setup.rules.concurrent;
                let mut candidates = self.program.schedule(self.asked, count, &self.model);
                self.asked += candidates.len() as u64;
                self.pipeline.offer(&mut candidates);
            }
            let program = &self.program;
            let round = self.pipeline.admit(|a, b| program.coupling(*a, *b)).map_err(|error| error.to_string())?;
            let Some(round) = round else {
                // Everything that waits disturbs something in flight: nothing is asked for before that has been taken in, however often messages come.
                self.blocked = true;
                continue;
            };
            let (number, jobs, staleness) = (round.number, round.jobs.clone(), round.staleness);
            self.begun += 1;
            context.goes_on(0);
            let results = jobs.iter().map(|job| program.update(self.me, *job, &self.model)).collect();
            self.computing = Some((number, results));
            self.beside.push(self.flying.iter().flatten().copied().collect());
            self.flying.push_back(jobs.clone());
            context.compute(0, "updates", Span::from_nanos(self.setup.work.nanos() * jobs.len() as u64), 0);
            self.log.push((jobs, staleness));
        }
    }

    fn is_there(&self, round: u64) -> bool {
        let heard = self.heard.get(&round);
        heard.is_some_and(|heard| heard.iter().all(Option::is_some) || self.setup.impatient)
    }

    /// Takes in the oldest round.
    fn take_in(&mut self) -> Outcome {
        let number = self.out.pop_front().ok_or("no round is in flight")?;
        let round = self.pipeline.retire().ok_or("no round is in flight")?;
        let heard = self.heard.remove(&number).ok_or("a round without results")?;
        for (place, job) in round.jobs.iter().enumerate() {
            let sum = heard.iter().flatten().map(|results| results[place]).sum();
            self.program.aggregate(*job, sum, &mut self.model);
        }
        self.flying.pop_front();
        self.taken_in += 1;
        self.pipeline.recycle(round);
        Ok(())
    }

    fn hear(&mut self, from: Rank, (round, results): Results, peers: usize) {
        self.heard.entry(round).or_insert_with(|| vec![None; peers])[from.index()] = Some(results);
    }
}

impl<P: Program> Actor for Scheduled<P> {
    type Message = Results;

    fn start(&mut self, context: &mut Context<'_, Results>) -> Outcome {
        self.go_on(context)
    }

    fn receive(&mut self, from: Rank, results: Results, context: &mut Context<'_, Results>) -> Outcome {
        if !(self.setup.impatient && results.0 < self.taken_in) {
            self.hear(from, results, context.peers());
        }
        self.go_on(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Results>) -> Outcome {
        let (round, results) = self.computing.take().ok_or("no round was computed")?;
        for to in Rank::all(context.peers()).filter(|to| *to != self.me) {
            context.send(to, Lane::Bulk, 8 * results.len() + 24 + FRAME, (round, results.clone()));
        }
        self.out.push_back(round);
        self.hear(self.me, (round, results), context.peers());
        self.go_on(context)
    }

    fn is_done(&self) -> bool {
        self.begun == self.setup.rounds && self.pipeline.in_flight() == 0 && self.computing.is_none()
    }

    fn waits(&self) -> Vec<Wait> {
        let (false, None, Some(round)) = (self.is_done(), &self.computing, self.out.front()) else { return Vec::new() };
        let heard = self.heard.get(round);
        let missing = heard.into_iter().flatten().enumerate().filter(|(_, results)| results.is_none());
        let on = missing.map(|(peer, _)| Rank::new(peer as u32)).collect();
        vec![Wait::new("driver", format!("results of round {round}"), on)]
    }
}
