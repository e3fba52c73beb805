//! Order of trials: which one is trained next, and for how many epochs.
//!
//! Successive halving gives every trial a few epochs, continues the best third from their
//! checkpoints for three times as many, and so on (K. Jamieson, A. Talwalkar: Non-stochastic Best
//! Arm Identification and Hyperparameter Optimization. AISTATS 2016). Trials are promoted as soon as
//! they are among the best third of those that have come as far (L. Li et al.: A System for Massively
//! Parallel Hyperparameter Tuning. `MLSys` 2020), so that a search that is cut short has fully trained
//! models as well.
//!
//! **Invariant:** the next step is a function of the results so far. A resumed search therefore
//! continues as an uninterrupted one would have.

use super::report::{TrialRanking, TrialRecord, TrialStatus};
use serde::{Deserialize, Serialize};

/// Fraction of trials that successive halving continues is one of this many, and so many times more
/// epochs they get.
const REDUCTION: u32 = 3;
/// Number of stages of successive halving.
const STAGES: u32 = 3;
/// Trials to compare with, before random search gives up a worse one; and the fraction of the epochs
/// before which it gives up none.
const FEWEST_RIVALS: usize = 4;
const GRACE: u32 = 10;

/// Method that proposes and orders trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchMethod {
    /// Random points, each trained to the end unless it is worse than the median of others.
    Random,
    /// Random points by successive halving.
    #[default]
    Halving,
    /// All points of a grid, each trained to the end.
    Grid,
}

/// Next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialStep {
    /// Index of the trial; that of the next trial if it has not begun.
    pub(super) trial: usize,
    /// Number of epochs to train it for, in all.
    pub(super) epochs: u32,
}

/// Rules by which trials are ordered.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialSchedule<'a> {
    pub(super) method: SearchMethod,
    /// Number of trials in all.
    pub(super) trials: usize,
    /// Maximum number of epochs of a trial.
    pub(super) epochs: u32,
    pub(super) ranking: TrialRanking<'a>,
}

impl TrialSchedule<'_> {
    /// Returns the number of epochs at the end of each stage, ascending.
    pub(super) fn stages(&self) -> Vec<u32> {
        if self.method != SearchMethod::Halving {
            return vec![self.epochs];
        }
        let stage = |stage| self.epochs.div_ceil(REDUCTION.pow(stage));
        let mut stages: Vec<u32> = (0..STAGES).rev().map(stage).collect();
        stages.dedup();
        stages
    }

    /// Returns the next step; `None` if the search is complete.
    pub(super) fn next(&self, records: &[TrialRecord]) -> Option<TrialStep> {
        let stages = self.stages();
        if let Some(trial) = records.iter().position(|trial| trial.status == TrialStatus::Interrupted) {
            let epochs = records[trial].epochs();
            let stage = stages.iter().find(|stage| **stage > epochs).copied();
            return Some(TrialStep { trial, epochs: stage.unwrap_or(self.epochs) });
        }
        for pair in stages.windows(2).rev() {
            let [stage, next] = pair else { continue };
            if let Some(trial) = self.promoted(records, *stage) {
                return Some(TrialStep { trial, epochs: *next });
            }
        }
        if records.len() < self.trials {
            return Some(TrialStep { trial: records.len(), epochs: stages[0] });
        }
        // The best trial is trained to the end, whatever its stage.
        let best = self.ranking.best_trial(records)?;
        let trial = &records[best];
        let next = stages.iter().find(|stage| **stage > trial.epochs())?;
        (trial.status == TrialStatus::Paused).then_some(TrialStep { trial: best, epochs: *next })
    }

    /// Returns the best trial that waits at the end of a stage and is among the best of those that
    /// have come as far.
    fn promoted(&self, records: &[TrialRecord], stage: u32) -> Option<usize> {
        let there = |trial: &TrialRecord| trial.epochs() >= stage || trial.status == TrialStatus::Finished;
        let mut reached: Vec<(usize, f64)> = records
            .iter()
            .enumerate()
            .filter(|(_, trial)| there(trial))
            .filter_map(|(index, trial)| Some((index, self.ranking.best_of(&trial.progress, stage)?.1)))
            .collect();
        reached.sort_by(|left, right| self.ranking.order(left.1, right.1).then(left.0.cmp(&right.0)));
        let promoted = reached.len() / REDUCTION as usize;
        let waits = |index: &usize| records[*index].status == TrialStatus::Paused && records[*index].epochs() == stage;
        reached.into_iter().take(promoted).map(|(index, _)| index).find(waits)
    }

    /// Returns whether a trial of random search is worse after its epochs than the median of the
    /// others (D. Golovin et al.: Google Vizier. KDD 2017).
    pub(super) fn gives_up(&self, records: &[TrialRecord], trial: usize, now: &TrialRecord) -> bool {
        let epochs = now.epochs();
        if self.method != SearchMethod::Random || epochs < self.epochs.div_ceil(GRACE).max(2) {
            return false;
        }
        let Some((_, own)) = self.ranking.best_of(&now.progress, epochs) else { return false };
        let others = records.iter().enumerate().filter(|(index, _)| *index != trial);
        let mut rivals: Vec<f64> =
            others.filter_map(|(_, other)| Some(self.ranking.best_of(&other.progress, epochs)?.1)).collect();
        if rivals.len() < FEWEST_RIVALS {
            return false;
        }
        rivals.sort_by(|left, right| self.ranking.order(*left, *right));
        self.ranking.order(own, rivals[rivals.len() / 2]).is_gt()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::TrialEpoch;
    use super::*;
    use std::collections::BTreeMap;

    const RANKING: TrialRanking<'static> = TrialRanking { metric: "rmse", higher_is_better: false, best_epoch: true };

    fn schedule(method: SearchMethod, trials: usize) -> TrialSchedule<'static> {
        TrialSchedule { method, trials, epochs: 36, ranking: RANKING }
    }

    fn epoch(epoch: u32, rmse: f64) -> TrialEpoch {
        let validation = [("rmse".to_owned(), rmse)].into();
        TrialEpoch { epoch, seconds: f64::from(epoch), objective: rmse, validation }
    }

    /// Runs a search whose trial `i` has the error `error(i, epoch)`; returns the steps.
    fn steps(schedule: &TrialSchedule<'_>, error: impl Fn(usize, u32) -> f64) -> Vec<(usize, u32)> {
        let (mut records, mut steps) = (Vec::new(), Vec::new());
        while let Some(TrialStep { trial, epochs }) = schedule.next(&records) {
            if trial == records.len() {
                records.push(TrialRecord::new(trial as u32 + 1, BTreeMap::new()));
            }
            let record = &mut records[trial];
            assert!(epochs > record.epochs(), "every step trains");
            record.set_progress((1..=epochs).map(|at| epoch(at, error(trial, at))).collect(), RANKING);
            record.status = if epochs == schedule.epochs { TrialStatus::Finished } else { TrialStatus::Paused };
            steps.push((trial, epochs));
            assert!(steps.len() < 1000);
        }
        steps
    }

    #[test]
    fn halving_continues_the_best_third_as_soon_as_possible() {
        let found = steps(&schedule(SearchMethod::Halving, 9), |trial, epoch| trial as f64 + 1.0 / f64::from(epoch));
        let expected = [
            (0, 4),
            (1, 4),
            (2, 4),
            (0, 12),
            (3, 4),
            (4, 4),
            (5, 4),
            (1, 12),
            (6, 4),
            (7, 4),
            (8, 4),
            (2, 12),
            (0, 36),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn halving_costs_less_than_training_all_and_finishes_the_best() {
        let error = |trial: usize, epoch: u32| ((trial * 7 + 3) % 27) as f64 + 1.0 / f64::from(epoch);
        let halving = steps(&schedule(SearchMethod::Halving, 27), error);
        let mut epochs = BTreeMap::new();
        for (trial, to) in &halving {
            epochs.insert(*trial, *to);
        }
        assert_eq!(epochs.len(), 27);
        let best = (0..27).min_by(|a, b| error(*a, 36).total_cmp(&error(*b, 36))).unwrap();
        assert_eq!(epochs[&best], 36);
        assert!(epochs.values().sum::<u32>() < 27 * 36 / 2);
        let few = steps(&schedule(SearchMethod::Halving, 2), error);
        assert_eq!(few.last().map(|step| step.1), Some(36), "the best of two is finished: {few:?}");
    }

    #[test]
    fn random_and_grid_train_each_trial_once() {
        for method in [SearchMethod::Random, SearchMethod::Grid] {
            let found = steps(&schedule(method, 4), |trial, _| trial as f64);
            assert_eq!(found, [(0, 36), (1, 36), (2, 36), (3, 36)]);
        }
    }

    #[test]
    fn an_interrupted_trial_continues_first() {
        let schedule = schedule(SearchMethod::Halving, 9);
        let mut records: Vec<TrialRecord> = (0..2).map(|trial| TrialRecord::new(trial + 1, BTreeMap::new())).collect();
        records[0].set_progress(vec![epoch(4, 1.0)], RANKING);
        records[1].set_progress(vec![epoch(2, 1.0)], RANKING);
        records[1].status = TrialStatus::Interrupted;
        assert_eq!(schedule.next(&records), Some(TrialStep { trial: 1, epochs: 4 }));
    }

    #[test]
    fn random_search_gives_up_trials_worse_than_the_median() {
        let schedule = schedule(SearchMethod::Random, 9);
        let record = |error: f64, epochs: u32| {
            let mut record = TrialRecord::new(1, BTreeMap::new());
            record.set_progress((1..=epochs).map(|at| epoch(at, error)).collect(), RANKING);
            record
        };
        let mut records: Vec<TrialRecord> = (0..5).map(|trial| record(f64::from(trial), 36)).collect();
        records.push(TrialRecord::new(6, BTreeMap::new()));
        let gives_up = |records: &[TrialRecord], error, epochs| schedule.gives_up(records, 5, &record(error, epochs));
        assert!(gives_up(&records, 2.5, 10) && !gives_up(&records, 1.5, 10));
        assert!(!gives_up(&records, 9.0, 2), "not before a tenth of the epochs");
        assert!(!gives_up(&records[..3], 9.0, 10), "not without rivals");
    }
}
