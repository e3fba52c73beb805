//! Which jobs may begin now: rounds in flight, and what they must not disturb.
//!
//! Candidates wait in the backlog, the best first. A round takes as many as may run at once and do not disturb each other *or a job in flight*. One that would is
//! left in the backlog, before all that come later, so it runs when the other has been taken in. Rounds are taken in as they began, the oldest when as many
//! are in flight as the pipeline is deep; so what a round sees depends on counts alone and never on time, and a run can be repeated bit for bit.
//!
//! **Invariants:** jobs in flight are pairwise different and, by [`Conflicts::Avoid`], coupled to each other by less than `pair` and to all others together by no more than
//! `total`; at most `depth` rounds are in flight when updates run; a candidate is admitted or dropped as one that waits or runs already, never lost.
//!
//! **Why `total = 1`.** Of a least-squares objective, take jobs that each minimize along one coordinate of columns scaled to length 1, with an
//! L1 penalty or without. A change `d` of one of them alone lowers the objective by at least `d²/2`; together they
//! miss that sum by at most `½ Σ |d_a d_b c_ab|` over pairs in both orders, which is at most `½ Σ d_a² Σ_b |c_ab|`. So if no job's correlations with the others add up to more than 1, a round never
//! raises the objective, however many jobs it has.

use crate::program::Candidate;
use std::collections::VecDeque;
use std::fmt;

/// What to do with jobs that disturb each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conflicts {
    /// The later one waits until the other has been taken in.
    Avoid {
        /// Two jobs conflict if they are coupled by so much.
        pair: f64,
        /// And one conflicts with many if the couplings add up to more.
        total: f64,
    },
    /// It is a mistake of the schedule, which promised there would be none: an error that names both.
    Refuse {
        /// Two jobs conflict if they are coupled by so much.
        pair: f64,
    },
    /// They run at once: what random schedules do (Shotgun), for comparison.
    Ignore,
}

/// The shape of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Jobs of a round.
    pub concurrent: usize,
    /// Rounds in flight, with the one that begins: 1 is exact.
    pub depth: usize,
    /// What to do with jobs that disturb each other.
    pub conflicts: Conflicts,
}

/// Two jobs that a schedule named together and must not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlap<J> {
    /// The one that was there.
    pub first: J,
    /// The one that came.
    pub second: J,
    /// How much they disturb each other.
    pub coupling: f64,
}

impl<J: fmt::Debug> fmt::Display for Overlap<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jobs {:?} and {:?} are coupled by {:.3}", self.first, self.second, self.coupling)
    }
}

/// A round in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Round<J> {
    /// Which, from 0.
    pub number: u64,
    /// Rounds before it that had not been taken in when it began.
    pub staleness: usize,
    /// What it does.
    pub jobs: Vec<J>,
}

/// What a pipeline has met.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Rounds that began.
    pub rounds: u64,
    /// Jobs that began.
    pub jobs: u64,
    /// Times a candidate waited because of a job of the same round.
    pub waited_for_round: u64,
    /// Times a candidate waited because of a job of an earlier round in flight.
    pub waited_for_flight: u64,
    /// Candidates dropped because the same job waited or ran already.
    pub doubled: u64,
    /// Jobs by how many rounds their update may have missed.
    pub staleness: Vec<u64>,
}

/// Rounds in flight and candidates that wait.
#[derive(Clone, Debug)]
pub struct Pipeline<J> {
    rules: Rules,
    backlog: VecDeque<Candidate<J>>,
    flight: VecDeque<Round<J>>,
    /// Couplings of each job in flight, added up, in the order of `flight`.
    sums: VecDeque<Vec<f64>>,
    tally: Tally,
    /// Jobs of past rounds whose vectors are used again.
    spare: Vec<Vec<J>>,
    /// Room for the couplings of one candidate.
    couplings: Vec<f64>,
}

impl<J: Clone + PartialEq> Pipeline<J> {
    /// An empty one.
    ///
    /// # Panics
    /// If nothing may run at once.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        assert!(rules.concurrent > 0 && rules.depth > 0, "a pipeline runs at least one job of one round");
        let tally = Tally { staleness: vec![0; rules.depth], ..Tally::default() };
        Self {
            rules,
            backlog: VecDeque::new(),
            flight: VecDeque::new(),
            sums: VecDeque::new(),
            tally,
            spare: Vec::new(),
            couplings: Vec::new(),
        }
    }

    /// What it has met so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether candidates are needed for a full round.
    #[must_use]
    pub fn is_hungry(&self) -> bool {
        self.backlog.len() < self.rules.concurrent
    }

    /// Whether the oldest round must be taken in before another begins.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.flight.len() == self.rules.depth
    }

    /// Rounds in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Candidates that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Adds candidates behind those that wait, the best first. Those that wait or run already are dropped when it is their turn.
    pub fn offer(&mut self, candidates: &mut Vec<Candidate<J>>) {
        // Stable, so that equals stay in the order of their parts.
        candidates.sort_by(|a, b| b.priority.total_cmp(&a.priority));
        self.backlog.extend(candidates.drain(..));
    }

    /// Begins a round, of at least one job; `None` if no candidate may begin now.
    ///
    /// # Panics
    /// If it is full.
    pub fn admit(&mut self, mut coupling: impl FnMut(&J, &J) -> f64) -> Result<Option<&Round<J>>, Overlap<J>> {
        assert!(!self.is_full(), "the oldest round is taken in before another begins");
        let mut jobs = self.spare.pop().unwrap_or_default();
        let mut sums: Vec<f64> = Vec::new();
        let mut couplings = std::mem::take(&mut self.couplings);
        let mut left = self.backlog.len();
        let mut place = 0;
        while left > 0 && jobs.len() < self.rules.concurrent {
            left -= 1;
            let verdict = self.judge(&self.backlog[place].job, &jobs, &mut coupling, &mut couplings)?;
            match verdict {
                Verdict::Doubled => {
                    self.backlog.remove(place);
                    self.tally.doubled += 1;
                }
                Verdict::WaitsForRound => {
                    place += 1;
                    self.tally.waited_for_round += 1;
                }
                Verdict::WaitsForFlight => {
                    place += 1;
                    self.tally.waited_for_flight += 1;
                }
                Verdict::Free if !self.fits(&couplings, &sums) => {
                    place += 1;
                    self.tally.waited_for_round += 1;
                }
                Verdict::Free => {
                    if self.counts_sums() {
                        let (of_flight, of_round) = couplings.split_at(couplings.len() - sums.len());
                        let earlier = self.sums.iter_mut().flatten().zip(of_flight);
                        earlier.chain(sums.iter_mut().zip(of_round)).for_each(|(sum, by)| *sum += by);
                        sums.push(couplings.iter().sum());
                    }
                    let candidate = self.backlog.remove(place).expect("it was judged");
                    jobs.push(candidate.job);
                }
            }
        }
        self.couplings = couplings;
        if jobs.is_empty() {
            self.spare.push(jobs);
            return Ok(None);
        }
        let (number, staleness) = (self.tally.rounds, self.flight.len());
        self.tally.rounds += 1;
        self.tally.jobs += jobs.len() as u64;
        self.tally.staleness[staleness] += jobs.len() as u64;
        self.flight.push_back(Round { number, staleness, jobs });
        self.sums.push_back(sums);
        Ok(self.flight.back())
    }

    /// Takes the oldest round out of flight, for its results to be taken in.
    pub fn retire(&mut self) -> Option<Round<J>> {
        self.sums.pop_front();
        self.flight.pop_front()
    }

    /// Gives back a round whose results have been taken in.
    pub fn recycle(&mut self, round: Round<J>) {
        let mut jobs = round.jobs;
        jobs.clear();
        self.spare.push(jobs);
    }

    /// The round that began last.
    #[must_use]
    pub fn newest(&self) -> Option<&Round<J>> {
        self.flight.back()
    }

    /// Counts a job that ran alone, without going through here.
    pub fn count_alone(&mut self) {
        self.tally.rounds += 1;
        self.tally.jobs += 1;
        self.tally.staleness[0] += 1;
    }

    /// Whether a candidate may begin; if so, and if that counts, `couplings` are those with all jobs in flight and of the round.
    fn judge(
        &self,
        job: &J,
        jobs: &[J],
        coupling: &mut impl FnMut(&J, &J) -> f64,
        couplings: &mut Vec<f64>,
    ) -> Result<Verdict, Overlap<J>> {
        couplings.clear();
        let earlier = || self.flight.iter().flat_map(|round| &round.jobs);
        if earlier().chain(jobs).any(|other| other == job) {
            if let Conflicts::Refuse { .. } = self.rules.conflicts {
                return Err(Overlap { first: job.clone(), second: job.clone(), coupling: 1.0 });
            }
            return Ok(Verdict::Doubled);
        }
        match self.rules.conflicts {
            Conflicts::Ignore => {}
            Conflicts::Refuse { pair } => {
                for other in earlier().chain(jobs) {
                    let found = coupling(other, job);
                    if found >= pair {
                        return Err(Overlap { first: other.clone(), second: job.clone(), coupling: found });
                    }
                }
            }
            Conflicts::Avoid { pair, .. } => {
                let in_flight = earlier().map(|other| (other, Verdict::WaitsForFlight));
                for (other, verdict) in in_flight.chain(jobs.iter().map(|other| (other, Verdict::WaitsForRound))) {
                    let found = coupling(other, job);
                    if found >= pair {
                        return Ok(verdict);
                    }
                    couplings.push(found);
                }
            }
        }
        Ok(Verdict::Free)
    }

    /// Whether couplings add up to something: not if there is never more than one job in flight.
    fn counts_sums(&self) -> bool {
        matches!(self.rules.conflicts, Conflicts::Avoid { .. }) && self.rules.concurrent * self.rules.depth > 1
    }

    /// Whether couplings of a new job leave all sums where they may be.
    fn fits(&self, couplings: &[f64], of_round: &[f64]) -> bool {
        let Conflicts::Avoid { total, .. } = self.rules.conflicts else { return true };
        let sums = self.sums.iter().flatten().chain(of_round);
        couplings.iter().sum::<f64>() <= total && sums.zip(couplings).all(|(sum, by)| sum + by <= total)
    }
}

#[derive(Clone, Copy)]
enum Verdict {
    Doubled,
    WaitsForRound,
    WaitsForFlight,
    Free,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(jobs: &[(u8, u8)]) -> Vec<Candidate<u8>> {
        jobs.iter().map(|(job, priority)| Candidate { job: *job, priority: f64::from(*priority) }).collect()
    }

    /// A coupling that any two jobs have, the same in both orders.
    fn coupled(seed: u64) -> impl Fn(&u8, &u8) -> f64 {
        move |a, b| {
            let (low, high) = (u64::from(*a.min(b)), u64::from(*a.max(b)));
            ((low * 31 + high * 17 + seed * 7) % 10) as f64 / 10.0
        }
    }

    proptest! {
        #[test]
        fn jobs_in_flight_never_conflict_and_no_candidate_is_lost(
            offered in prop::collection::vec((0..40_u8, 0..9_u8), 1..80),
            concurrent in 1..9_usize,
            depth in 1..5_usize,
            seed in 0..5_u64,
            (pair, total) in (0.1..1.0_f64, 0.1..3.0_f64),
        ) {
            let coupling = coupled(seed);
            let mut pipeline = Pipeline::new(Rules { concurrent, depth, conflicts: Conflicts::Avoid { pair, total } });
            let mut ran: Vec<u8> = Vec::new();
            let mut flight: VecDeque<Vec<u8>> = VecDeque::new();
            let mut offered = offered.chunks(7);
            loop {
                if pipeline.is_hungry() && let Some(some) = offered.next() {
                    pipeline.offer(&mut candidates(some));
                }
                let begun = match pipeline.admit(&coupling).unwrap() {
                    Some(round) => {
                        prop_assert_eq!(round.staleness, flight.len());
                        prop_assert!(!round.jobs.is_empty() && round.jobs.len() <= concurrent);
                        flight.push_back(round.jobs.clone());
                        ran.extend(&round.jobs);
                        true
                    }
                    None => false,
                };
                let running: Vec<u8> = flight.iter().flatten().copied().collect();
                for (place, job) in running.iter().enumerate() {
                    let others = || running.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, other)| other);
                    prop_assert!(others().all(|other| other != job && coupling(other, job) < pair));
                    prop_assert!(others().map(|other| coupling(other, job)).sum::<f64>() <= total + 1e-9);
                }
                prop_assert!(flight.len() <= depth);
                if pipeline.is_full() || (!begun && pipeline.in_flight() > 0) {
                    prop_assert_eq!(Some(pipeline.retire().unwrap().jobs), flight.pop_front());
                } else if !begun {
                    // With nothing in flight the first candidate can always begin.
                    prop_assert_eq!(pipeline.waiting(), 0);
                    if offered.len() == 0 {
                        break;
                    }
                }
            }
            let tally = pipeline.tally();
            prop_assert_eq!(tally.jobs, ran.len() as u64);
            prop_assert_eq!(tally.staleness.iter().sum::<u64>(), tally.jobs);
        }

        #[test]
        fn every_candidate_runs_or_is_the_same_as_one_that_does(
            offered in prop::collection::vec((0..20_u8, 0..9_u8), 0..30), depth in 1..4_usize,
        ) {
            let rules = Rules { concurrent: 4, depth, conflicts: Conflicts::Avoid { pair: 0.5, total: 1.0 } };
            let mut pipeline = Pipeline::new(rules);
            pipeline.offer(&mut candidates(&offered));
            let mut ran: Vec<u8> = Vec::new();
            loop {
                let begun = pipeline.admit(coupled(1)).unwrap().map(|round| ran.extend(&round.jobs)).is_some();
                if (pipeline.is_full() || !begun) && pipeline.retire().is_none() {
                    break;
                }
            }
            let doubled = pipeline.tally().doubled as usize;
            prop_assert_eq!(ran.len() + doubled, offered.len());
            prop_assert!(offered.iter().all(|(job, _)| ran.contains(job)));
        }
    }

    #[test]
    fn the_best_go_first_and_one_that_waited_before_those_that_come_later() {
        let rules = Rules { concurrent: 2, depth: 1, conflicts: Conflicts::Avoid { pair: 0.5, total: 1.0 } };
        let mut pipeline = Pipeline::new(rules);
        pipeline.offer(&mut candidates(&[(1, 1), (2, 9), (3, 5), (4, 0)]));
        // 2 and 3 disturb each other.
        let coupling = |a: &u8, b: &u8| if (*a.min(b), *a.max(b)) == (2, 3) { 0.9 } else { 0.0 };
        assert_eq!(pipeline.admit(coupling).unwrap().unwrap().jobs, [2, 1]);
        pipeline.retire();
        pipeline.offer(&mut candidates(&[(5, 100)]));
        assert_eq!(pipeline.admit(coupling).unwrap().unwrap().jobs, [3, 4]);
        assert_eq!(pipeline.tally().waited_for_round, 1);
    }

    #[test]
    fn a_job_waits_for_one_of_an_earlier_round_in_flight() {
        let rules = Rules { concurrent: 1, depth: 2, conflicts: Conflicts::Avoid { pair: 0.5, total: 1.0 } };
        let mut pipeline = Pipeline::new(rules);
        pipeline.offer(&mut candidates(&[(1, 2), (2, 1)]));
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap().unwrap().jobs, [1]);
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap(), None);
        assert_eq!(pipeline.tally().waited_for_flight, 1);
        pipeline.retire();
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap().unwrap().jobs, [2]);
    }

    #[test]
    fn where_conflicts_are_mistakes_both_jobs_are_named() {
        let rules = Rules { concurrent: 4, depth: 2, conflicts: Conflicts::Refuse { pair: 0.3 } };
        let mut pipeline = Pipeline::new(rules);
        pipeline.offer(&mut candidates(&[(8, 2), (9, 1)]));
        let overlap = pipeline.admit(|_, _| 0.4).unwrap_err();
        assert_eq!(overlap.to_string(), "jobs 8 and 9 are coupled by 0.400");
        let mut pipeline = Pipeline::new(rules);
        pipeline.offer(&mut candidates(&[(8, 2), (8, 1)]));
        assert_eq!(pipeline.admit(|_, _| 0.0).unwrap_err(), Overlap { first: 8, second: 8, coupling: 1.0 });
    }

    #[test]
    fn shotgun_runs_what_comes_but_nothing_twice_at_once() {
        let mut pipeline = Pipeline::new(Rules { concurrent: 4, depth: 1, conflicts: Conflicts::Ignore });
        pipeline.offer(&mut candidates(&[(1, 0), (2, 0), (1, 0), (3, 0)]));
        assert_eq!(pipeline.admit(|_, _| 1.0).unwrap().unwrap().jobs, [1, 2, 3]);
        assert_eq!(pipeline.tally().doubled, 1);
    }
}
