//! Admission of jobs: rounds in flight, and conflicts with them.
//!
//! Candidates wait in the backlog, the highest priority first. A round takes as many as may run
//! concurrently without a conflict among themselves *or with a job in flight*. A conflicting
//! candidate stays in the backlog, ahead of all later ones, and runs after the other job has been
//! aggregated. Rounds are retired in the order they started, the oldest when `depth` are in flight.
//! The model that a round sees depends on counts only and never on time, so a run is reproducible
//! bit for bit.
//!
//! **Invariants:** jobs in flight are pairwise different. Under [`ConflictPolicy::Avoid`] they are
//! coupled to each other by less than `pair` and to all others together by no more than `total`. At
//! most `depth` rounds are in flight when updates run. A candidate is admitted, or dropped as a
//! duplicate of one that waits or runs, but never lost.
//!
//! **Justification of `total = 1`.** For a least-squares objective, take jobs that each minimize
//! along one coordinate of columns scaled to length 1, with or without an L1 penalty. A change `d`
//! of one of them alone lowers the objective by at least `d²/2`. Together they miss that sum by at
//! most `½ Σ |d_a d_b c_ab|` over pairs in both orders, which is at most `½ Σ d_a² Σ_b |c_ab|`. If
//! the correlations of every job with the others add up to at most 1, a round never raises the
//! objective, for any number of jobs.

use crate::program::JobCandidate;
use std::collections::VecDeque;
use std::fmt;

/// Policy for jobs that conflict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConflictPolicy {
    /// The later job waits until the other has been aggregated.
    Avoid {
        /// Smallest coupling at which two jobs conflict.
        pair: f64,
        /// Largest sum of the couplings of one job with all others.
        total: f64,
    },
    /// A conflict is an error that names both jobs, for schedules that guarantee to have none.
    Refuse {
        /// Smallest coupling at which two jobs conflict.
        pair: f64,
    },
    /// Conflicting jobs run concurrently, as in random schedules (Shotgun), for comparison.
    Ignore,
}

/// Settings of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipelineSettings {
    /// Largest number of jobs in a round.
    pub concurrent: usize,
    /// Largest number of rounds in flight, the starting one included; 1 is exact.
    pub depth: usize,
    /// Policy for jobs that conflict.
    pub conflicts: ConflictPolicy,
}

/// Two conflicting jobs that a schedule proposed together.
#[derive(Clone, Debug, PartialEq)]
pub struct JobConflict<J> {
    /// Job that was admitted earlier.
    pub first: J,
    /// Job that was proposed later.
    pub second: J,
    /// Coupling of the two jobs.
    pub coupling: f64,
}

impl<J: fmt::Debug> fmt::Display for JobConflict<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jobs {:?} and {:?} are coupled by {:.3}", self.first, self.second, self.coupling)
    }
}

/// A round in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineRound<J> {
    /// Number of the round, from 0.
    pub number: u64,
    /// Earlier rounds that had not been aggregated when it started.
    pub staleness: usize,
    /// Jobs of the round.
    pub jobs: Vec<J>,
}

/// Counters of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PipelineCounts {
    /// Number of started rounds.
    pub rounds: u64,
    /// Number of started jobs.
    pub jobs: u64,
    /// Number of times a candidate waited because of a job of the same round.
    pub conflicts_in_round: u64,
    /// Number of times a candidate waited because of a job of an earlier round in flight.
    pub conflicts_in_flight: u64,
    /// Candidates dropped because the same job waited or ran already.
    pub duplicates: u64,
    /// Histogram of jobs by the number of rounds their update may have missed.
    pub staleness: Vec<u64>,
}

/// Rounds in flight and waiting candidates.
#[derive(Clone, Debug)]
pub struct Pipeline<J> {
    settings: PipelineSettings,
    backlog: VecDeque<JobCandidate<J>>,
    flight: VecDeque<PipelineRound<J>>,
    /// Sum of the couplings of each job in flight, in the order of `flight`.
    sums: VecDeque<Vec<f64>>,
    tally: PipelineCounts,
    /// Vectors of past rounds, for reuse.
    spare_vectors: Vec<Vec<J>>,
    /// Buffer for the couplings of one candidate.
    couplings: Vec<f64>,
}

impl<J: Clone + PartialEq> Pipeline<J> {
    /// Creates an empty pipeline.
    ///
    /// # Panics
    /// If the settings allow no job or no round.
    #[must_use]
    pub fn new(settings: PipelineSettings) -> Self {
        assert!(
            settings.concurrent > 0 && settings.depth > 0,
            "a pipeline needs at least one job per round and one round"
        );
        let tally = PipelineCounts { staleness: vec![0; settings.depth], ..PipelineCounts::default() };
        Self {
            settings,
            backlog: VecDeque::new(),
            flight: VecDeque::new(),
            sums: VecDeque::new(),
            tally,
            spare_vectors: Vec::new(),
            couplings: Vec::new(),
        }
    }

    /// Counters since the pipeline was created.
    #[must_use]
    pub fn counts(&self) -> &PipelineCounts {
        &self.tally
    }

    /// Returns whether candidates are needed for a full round.
    #[must_use]
    pub fn needs_candidates(&self) -> bool {
        self.backlog.len() < self.settings.concurrent
    }

    /// Returns whether the oldest round must be retired before another starts.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.flight.len() == self.settings.depth
    }

    /// Number of rounds in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Number of waiting candidates.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    /// Appends candidates to the backlog, the highest priority first. Duplicates of waiting or
    /// running jobs are dropped when their turn comes.
    pub fn offer(&mut self, candidates: &mut Vec<JobCandidate<J>>) {
        // Stable, so that equal priorities keep the order of their parts.
        candidates.sort_by(|a, b| b.priority.total_cmp(&a.priority));
        self.backlog.extend(candidates.drain(..));
    }

    /// Starts a round of at least one job; `None` if no candidate may start now.
    ///
    /// # Panics
    /// If the pipeline is full.
    pub fn admit(
        &mut self,
        mut coupling: impl FnMut(&J, &J) -> f64,
    ) -> Result<Option<&PipelineRound<J>>, JobConflict<J>> {
        assert!(!self.is_full(), "retire the oldest round before another begins");
        let mut jobs = self.spare_vectors.pop().unwrap_or_default();
        let mut sums: Vec<f64> = Vec::new();
        let mut couplings = std::mem::take(&mut self.couplings);
        let mut left = self.backlog.len();
        let mut index = 0;
        while left > 0 && jobs.len() < self.settings.concurrent {
            left -= 1;
            let admission = self.check_admission(&self.backlog[index].job, &jobs, &mut coupling, &mut couplings)?;
            match admission {
                Admission::Duplicate => {
                    self.backlog.remove(index);
                    self.tally.duplicates += 1;
                }
                Admission::ConflictInRound => {
                    index += 1;
                    self.tally.conflicts_in_round += 1;
                }
                Admission::ConflictInFlight => {
                    index += 1;
                    self.tally.conflicts_in_flight += 1;
                }
                Admission::Free if !self.fits(&couplings, &sums) => {
                    index += 1;
                    self.tally.conflicts_in_round += 1;
                }
                Admission::Free => {
                    if self.counts_sums() {
                        let (of_flight, of_round) = couplings.split_at(couplings.len() - sums.len());
                        let earlier = self.sums.iter_mut().flatten().zip(of_flight);
                        earlier.chain(sums.iter_mut().zip(of_round)).for_each(|(sum, by)| *sum += by);
                        sums.push(couplings.iter().sum());
                    }
                    let candidate = self.backlog.remove(index).expect("the candidate is in the backlog");
                    jobs.push(candidate.job);
                }
            }
        }
        self.couplings = couplings;
        if jobs.is_empty() {
            self.spare_vectors.push(jobs);
            return Ok(None);
        }
        let (number, staleness) = (self.tally.rounds, self.flight.len());
        self.tally.rounds += 1;
        self.tally.jobs += jobs.len() as u64;
        self.tally.staleness[staleness] += jobs.len() as u64;
        self.flight.push_back(PipelineRound { number, staleness, jobs });
        self.sums.push_back(sums);
        Ok(self.flight.back())
    }

    /// Removes the oldest round from the pipeline, for its results to be aggregated.
    pub fn retire(&mut self) -> Option<PipelineRound<J>> {
        self.sums.pop_front();
        self.flight.pop_front()
    }

    /// Returns the buffers of an aggregated round for reuse.
    pub fn recycle(&mut self, round: PipelineRound<J>) {
        let mut jobs = round.jobs;
        jobs.clear();
        self.spare_vectors.push(jobs);
    }

    /// Round that started last.
    #[must_use]
    pub fn newest(&self) -> Option<&PipelineRound<J>> {
        self.flight.back()
    }

    /// Counts a job that ran alone, outside of the pipeline.
    pub fn count_serial_job(&mut self) {
        self.tally.rounds += 1;
        self.tally.jobs += 1;
        self.tally.staleness[0] += 1;
    }

    /// Decides on the admission of a candidate. If it is free and the policy limits sums,
    /// `couplings` holds its couplings with all jobs in flight and of the round.
    fn check_admission(
        &self,
        job: &J,
        jobs: &[J],
        coupling: &mut impl FnMut(&J, &J) -> f64,
        couplings: &mut Vec<f64>,
    ) -> Result<Admission, JobConflict<J>> {
        couplings.clear();
        let earlier = || self.flight.iter().flat_map(|round| &round.jobs);
        if earlier().chain(jobs).any(|other| other == job) {
            if let ConflictPolicy::Refuse { .. } = self.settings.conflicts {
                return Err(JobConflict { first: job.clone(), second: job.clone(), coupling: 1.0 });
            }
            return Ok(Admission::Duplicate);
        }
        match self.settings.conflicts {
            ConflictPolicy::Ignore => {}
            ConflictPolicy::Refuse { pair } => {
                for other in earlier().chain(jobs) {
                    let found = coupling(other, job);
                    if found >= pair {
                        return Err(JobConflict { first: other.clone(), second: job.clone(), coupling: found });
                    }
                }
            }
            ConflictPolicy::Avoid { pair, .. } => {
                let in_flight = earlier().map(|other| (other, Admission::ConflictInFlight));
                for (other, admission) in in_flight.chain(jobs.iter().map(|other| (other, Admission::ConflictInRound)))
                {
                    let found = coupling(other, job);
                    if found >= pair {
                        return Ok(admission);
                    }
                    couplings.push(found);
                }
            }
        }
        Ok(Admission::Free)
    }

    /// Returns whether sums of couplings matter: not if there is never more than one job in flight.
    fn counts_sums(&self) -> bool {
        matches!(self.settings.conflicts, ConflictPolicy::Avoid { .. })
            && self.settings.concurrent * self.settings.depth > 1
    }

    /// Returns whether all sums stay within the limit after a new job with these couplings.
    fn fits(&self, couplings: &[f64], of_round: &[f64]) -> bool {
        let ConflictPolicy::Avoid { total, .. } = self.settings.conflicts else { return true };
        let sums = self.sums.iter().flatten().chain(of_round);
        couplings.iter().sum::<f64>() <= total && sums.zip(couplings).all(|(sum, by)| sum + by <= total)
    }
}

#[derive(Clone, Copy)]
enum Admission {
    Duplicate,
    ConflictInRound,
    ConflictInFlight,
    Free,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(jobs: &[(u8, u8)]) -> Vec<JobCandidate<u8>> {
        jobs.iter().map(|(job, priority)| JobCandidate { job: *job, priority: f64::from(*priority) }).collect()
    }

    /// A symmetric coupling of any two jobs.
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
            let mut pipeline = Pipeline::new(PipelineSettings { concurrent, depth, conflicts: ConflictPolicy::Avoid { pair, total } });
            let mut ran: Vec<u8> = Vec::new();
            let mut flight: VecDeque<Vec<u8>> = VecDeque::new();
            let mut offered = offered.chunks(7);
            loop {
                if pipeline.needs_candidates() && let Some(some) = offered.next() {
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
                for (index, job) in running.iter().enumerate() {
                    let others = || running.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
                    prop_assert!(others().all(|other| other != job && coupling(other, job) < pair));
                    prop_assert!(others().map(|other| coupling(other, job)).sum::<f64>() <= total + 1e-9);
                }
                prop_assert!(flight.len() <= depth);
                if pipeline.is_full() || (!begun && pipeline.in_flight() > 0) {
                    prop_assert_eq!(Some(pipeline.retire().unwrap().jobs), flight.pop_front());
                } else if !begun {
                    // With nothing in flight the first candidate can always start.
                    prop_assert_eq!(pipeline.waiting(), 0);
                    if offered.len() == 0 {
                        break;
                    }
                }
            }
            let tally = pipeline.counts();
            prop_assert_eq!(tally.jobs, ran.len() as u64);
            prop_assert_eq!(tally.staleness.iter().sum::<u64>(), tally.jobs);
        }

        #[test]
        fn every_candidate_runs_or_is_the_same_as_one_that_does(
            offered in prop::collection::vec((0..20_u8, 0..9_u8), 0..30), depth in 1..4_usize,
        ) {
            let settings = PipelineSettings { concurrent: 4, depth, conflicts: ConflictPolicy::Avoid { pair: 0.5, total: 1.0 } };
            let mut pipeline = Pipeline::new(settings);
            pipeline.offer(&mut candidates(&offered));
            let mut ran: Vec<u8> = Vec::new();
            loop {
                let begun = pipeline.admit(coupled(1)).unwrap().map(|round| ran.extend(&round.jobs)).is_some();
                if (pipeline.is_full() || !begun) && pipeline.retire().is_none() {
                    break;
                }
            }
            let doubled = pipeline.counts().duplicates as usize;
            prop_assert_eq!(ran.len() + doubled, offered.len());
            prop_assert!(offered.iter().all(|(job, _)| ran.contains(job)));
        }
    }

    #[test]
    fn the_highest_priority_runs_first_and_delayed_jobs_run_before_later_ones() {
        let settings =
            PipelineSettings { concurrent: 2, depth: 1, conflicts: ConflictPolicy::Avoid { pair: 0.5, total: 1.0 } };
        let mut pipeline = Pipeline::new(settings);
        pipeline.offer(&mut candidates(&[(1, 1), (2, 9), (3, 5), (4, 0)]));
        // Jobs 2 and 3 conflict.
        let coupling = |a: &u8, b: &u8| if (*a.min(b), *a.max(b)) == (2, 3) { 0.9 } else { 0.0 };
        assert_eq!(pipeline.admit(coupling).unwrap().unwrap().jobs, [2, 1]);
        pipeline.retire();
        pipeline.offer(&mut candidates(&[(5, 100)]));
        assert_eq!(pipeline.admit(coupling).unwrap().unwrap().jobs, [3, 4]);
        assert_eq!(pipeline.counts().conflicts_in_round, 1);
    }

    #[test]
    fn a_job_waits_for_one_of_an_earlier_round_in_flight() {
        let settings =
            PipelineSettings { concurrent: 1, depth: 2, conflicts: ConflictPolicy::Avoid { pair: 0.5, total: 1.0 } };
        let mut pipeline = Pipeline::new(settings);
        pipeline.offer(&mut candidates(&[(1, 2), (2, 1)]));
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap().unwrap().jobs, [1]);
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap(), None);
        assert_eq!(pipeline.counts().conflicts_in_flight, 1);
        pipeline.retire();
        assert_eq!(pipeline.admit(|_, _| 0.9).unwrap().unwrap().jobs, [2]);
    }

    #[test]
    fn refused_conflicts_name_both_jobs() {
        let settings = PipelineSettings { concurrent: 4, depth: 2, conflicts: ConflictPolicy::Refuse { pair: 0.3 } };
        let mut pipeline = Pipeline::new(settings);
        pipeline.offer(&mut candidates(&[(8, 2), (9, 1)]));
        let overlap = pipeline.admit(|_, _| 0.4).unwrap_err();
        assert_eq!(overlap.to_string(), "jobs 8 and 9 are coupled by 0.400");
        let mut pipeline = Pipeline::new(settings);
        pipeline.offer(&mut candidates(&[(8, 2), (8, 1)]));
        assert_eq!(pipeline.admit(|_, _| 0.0).unwrap_err(), JobConflict { first: 8, second: 8, coupling: 1.0 });
    }

    #[test]
    fn shotgun_runs_all_candidates_except_duplicates() {
        let mut pipeline =
            Pipeline::new(PipelineSettings { concurrent: 4, depth: 1, conflicts: ConflictPolicy::Ignore });
        pipeline.offer(&mut candidates(&[(1, 0), (2, 0), (1, 0), (3, 0)]));
        assert_eq!(pipeline.admit(|_, _| 1.0).unwrap().unwrap().jobs, [1, 2, 3]);
        assert_eq!(pipeline.counts().duplicates, 1);
    }
}
