//! Search for the best settings of a model.
//!
//! Trials are trained one after the other, each by all workers of all peers, and compared by a
//! metric on a validation set. The first trial has the settings of the estimator, if they are in the
//! space; the others are points of the space. **Invariant:** without a time limit, the report depends
//! on data, settings and seed alone, apart from times; a resumed search ends with the report of an
//! uninterrupted one.

use super::records::RecordSelection;
use super::report::{SearchReport, TrialEpoch, TrialRanking, TrialRecord, TrialStatus};
use super::schedule::{SearchMethod, TrialSchedule, TrialStep};
use super::space::{SearchSpace, SettingValues};
use super::store::TrialStore;
use super::tunable::Tunable;
use crate::Error;
use crate::estimator::Predictor;
use crate::setters::require;
use crate::training::{
    Callback, CheckpointInterval, Checkpoints, ClusterInfo, EpochProgress, Fit, FitOptions, TargetMetric,
    TrainingControl, TrainingLimits,
};
use hemiola_cluster::{Cluster, Result, StopRequestCause};
use hemiola_core::{Moment, Seed};
use std::path::Path;
use std::time::Duration;

/// Maximum number of trials.
const MOST_TRIALS: usize = 1_000_000;

/// Settings of a search.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// Searched settings with their domains.
    pub space: SearchSpace,
    /// Method that proposes and orders trials. Default: successive halving.
    pub method: SearchMethod,
    /// Number of trials. Default: 30.
    pub trials: usize,
    /// Time limit in seconds, from which the time of the final training is reserved. It cuts the
    /// search short, which then is not reproducible.
    pub seconds: Option<f64>,
    /// Seed of the points and the validation set. Default: 1.
    pub seed: Seed,
    /// Metric on the validation set; `None` is the model's.
    pub metric: Option<TargetMetric>,
    /// Fraction of the data used for validation where no validation set is given. Default: 0.1.
    pub validation: f64,
    /// Folder of checkpoints; `None` trains promoted trials anew.
    pub store: Option<TrialStore>,
    /// Resumes the search in this folder.
    pub resume: bool,
}

impl SearchSettings {
    /// Creates settings for a space, with the defaults for everything else.
    #[must_use]
    pub fn new(space: SearchSpace) -> Self {
        Self {
            space,
            method: SearchMethod::Halving,
            trials: 30,
            seconds: None,
            seed: Seed(1),
            metric: None,
            validation: 0.1,
            store: None,
            resume: false,
        }
    }
}

/// Observer of a search, called on every peer.
pub trait SearchObserver {
    /// Called before a trial is trained, or trained further, for `epochs` epochs in all.
    fn on_trial(&mut self, trial: &TrialRecord, epochs: u32) {
        let _ = (trial, epochs);
    }

    /// Called after each epoch. [`TrainingControl::Stop`] interrupts the search.
    fn on_epoch(&mut self, trial: &TrialRecord, progress: &EpochProgress) -> TrainingControl {
        let _ = (trial, progress);
        TrainingControl::Continue
    }

    /// Called after each run of a trial, with the report so far.
    fn on_trial_end(&mut self, trial: &TrialRecord, report: &SearchReport) {
        let _ = (trial, report);
    }
}

/// Observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct SilentSearch;

impl SearchObserver for SilentSearch {}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome<E> {
    /// All trials.
    pub report: SearchReport,
    /// Estimator of the best trial, with limits to train on all data; `None` if all trials failed.
    pub best: Option<E>,
    /// True if the search was interrupted by its observer: it can be resumed.
    pub interrupted: bool,
}

impl<E: Tunable> SearchOutcome<E> {
    /// *Collective.* Trains the best settings on all data.
    pub fn train(&self, cluster: &Cluster, data: &E::Data, options: FitOptions<'_>) -> Result<Fit<E::Model>> {
        let best = self.best.as_ref().ok_or(Error::NoTrial)?;
        best.fit_with(cluster, data, None, options)
    }

    /// *Collective.* Saves the model of the best trial, as its checkpoint holds it: trained without
    /// the validation set.
    pub fn save_checkpoint(&self, cluster: &Cluster, store: &TrialStore, folder: &Path) -> Result<()> {
        let best = self.report.best.ok_or(Error::NoTrial)?;
        E::Model::load(cluster, &store.trial(best))?.save(cluster, folder)
    }
}

/// *Collective.* Searches for the best settings of `estimator` on `data`. Without a `validation`
/// set, a fraction of the data is split off.
pub fn search<E: Tunable>(
    cluster: &Cluster,
    estimator: &E,
    data: &E::Data,
    validation: Option<&E::Data>,
    settings: &SearchSettings,
    observer: &mut dyn SearchObserver,
) -> Result<SearchOutcome<E>> {
    require("trials", &settings.trials, (1..=MOST_TRIALS).contains(&settings.trials), "from 1 to 1000000")?;
    let split = if validation.is_none() {
        let share = settings.validation;
        require("validation", &share, share > 0.0 && share < 1.0, "above 0 and below 1 for a search")?;
        Some(data.split_off(cluster, share, settings.seed)?)
    } else {
        None
    };
    let (train, validation) = match (&split, validation) {
        (Some((train, validation)), _) => (train, validation),
        (None, Some(validation)) => (data, validation),
        (None, None) => unreachable!("a validation set is given or split off"),
    };
    let metric = settings.metric.unwrap_or_else(|| estimator.selection_metric());
    let limits = estimator.limits().clone();
    let report = SearchReport {
        model: String::new(),
        method: settings.method,
        space: settings.space.clone(),
        settings: hemiola_training::comparable_settings(estimator.settings()),
        epochs: limits.epochs,
        seed: settings.seed.0,
        metric: metric.name.to_owned(),
        higher_is_better: metric.higher_is_better,
        data: train.info(),
        cluster: ClusterInfo::of(cluster),
        trials: Vec::new(),
        best: None,
        stop_reason: String::new(),
        seconds: 0.0,
    };
    let points = match settings.method {
        SearchMethod::Grid => settings.space.grid(settings.trials)?,
        _ => estimator.values_in(&settings.space).filter(|own| settings.space.contains(own)).into_iter().collect(),
    };
    let trials = if settings.method == SearchMethod::Grid { points.len() } else { settings.trials };
    let fingerprints = match &settings.store {
        Some(_) => [train.fingerprint(cluster)?, validation.fingerprint(cluster)?],
        None => [0; 2],
    };
    let growth = data.info().train as f64 / train.info().train.max(1) as f64;
    let run = SearchRun {
        cluster,
        estimator,
        train,
        validation,
        settings,
        metric,
        limits,
        points,
        trials,
        fingerprints,
        growth,
    };
    run.run(report, observer)
}

/// Search in progress.
struct SearchRun<'a, E: Tunable> {
    cluster: &'a Cluster,
    estimator: &'a E,
    train: &'a E::Data,
    validation: &'a E::Data,
    settings: &'a SearchSettings,
    metric: TargetMetric,
    limits: TrainingLimits,
    /// Points of the first trials; random ones follow.
    points: Vec<SettingValues>,
    trials: usize,
    fingerprints: [u64; 2],
    /// Records of all data relative to those of the training set.
    growth: f64,
}

impl<E: Tunable> SearchRun<'_, E> {
    fn run(&self, mut report: SearchReport, observer: &mut dyn SearchObserver) -> Result<SearchOutcome<E>> {
        let Self { cluster, settings, .. } = self;
        if let Some(store) = &settings.store {
            if settings.resume {
                report = store.load(cluster, &report, self.fingerprints)?;
            } else {
                store.begin(cluster)?;
            }
        }
        let (start, before) = (cluster.env().now(), report.seconds);
        let left = settings.seconds.map(|limit| Duration::try_from_secs_f64(limit - before).unwrap_or_default());
        // An epoch that ends soon after the limit is not lost.
        cluster.set_time_limit(left.map(|left| start + left.saturating_add(TIME_LIMIT_GRACE)));
        // The space does not outlive the loop, and the report changes in it.
        let metric = self.metric;
        let ranking = TrialRanking {
            metric: metric.name,
            higher_is_better: metric.higher_is_better,
            best_epoch: self.estimator.chooses_epochs(),
        };
        let schedule =
            TrialSchedule { method: settings.method, trials: self.trials, epochs: self.limits.epochs, ranking };
        let mut interrupted = false;
        report.stop_reason = loop {
            if self.reaches_target(&report) {
                break "target reached".to_owned();
            }
            let Some(step) = schedule.next(&report.trials) else { break "all trials done".to_owned() };
            if step.trial == report.trials.len() {
                let trial = step.trial as u32 + 1;
                report.trials.push(TrialRecord::new(trial, self.point(step.trial)));
            }
            let clock = SearchClock { start, before, limit: settings.seconds, growth: self.growth };
            let ended = self.run_trial(&mut report, step, &schedule, clock, observer)?;
            report.best = ranking.best_trial(&report.trials).map(|index| report.trials[index].trial);
            report.seconds = before + (cluster.env().now() - start).as_secs_f64();
            if let Some(store) = &settings.store {
                store.save(cluster, &report, self.fingerprints)?;
            }
            observer.on_trial_end(&report.trials[step.trial], &report);
            match ended {
                TrialEnd::Done => {}
                TrialEnd::TimeLimit => break TIME_LIMIT.to_owned(),
                TrialEnd::Interrupted => {
                    interrupted = true;
                    break "interrupted".to_owned();
                }
            }
        };
        cluster.set_time_limit(None);
        if report.model.is_empty() && report.trials.iter().any(|trial| trial.status == TrialStatus::Interrupted) {
            return Err(hemiola_cluster::Error::Stopped);
        }
        if report.model.is_empty() {
            return Err(Error::NoTrial.into());
        }
        let best = report.best_trial().map(|trial| self.final_estimator(trial)).transpose()?;
        Ok(SearchOutcome { report, best, interrupted })
    }

    fn point(&self, trial: usize) -> SettingValues {
        let random = |number: usize| self.settings.space.random_point(number as u64, self.settings.seed.0);
        self.points.get(trial).cloned().unwrap_or_else(|| random(trial - self.points.len()))
    }

    fn reaches_target(&self, report: &SearchReport) -> bool {
        let best = report.best_trial().and_then(|trial| trial.best);
        best.zip(self.limits.target)
            .is_some_and(|(best, target)| if self.metric.higher_is_better { best >= target } else { best <= target })
    }

    /// Returns the estimator that trains the best settings on all data: for the epochs of the trial
    /// if they were chosen, or else to the end.
    fn final_estimator(&self, trial: &TrialRecord) -> Result<E> {
        let limits = TrainingLimits {
            epochs: match trial.best_epoch {
                Some(epochs) if self.estimator.chooses_epochs() => epochs,
                _ => self.limits.epochs,
            },
            seconds: None,
            target: None,
            patience: None,
        };
        Ok(self.estimator.with_values(&trial.settings)?.with_limits(limits)?)
    }

    /// *Collective.* Trains a trial up to the epochs of a step.
    fn run_trial(
        &self,
        report: &mut SearchReport,
        step: TrialStep,
        schedule: &TrialSchedule<'_>,
        clock: SearchClock,
        observer: &mut dyn SearchObserver,
    ) -> Result<TrialEnd> {
        let Self { cluster, settings, .. } = self;
        let mut record = report.trials[step.trial].clone();
        observer.on_trial(&record, step.epochs);
        let (begun, earlier) = (cluster.env().now(), record.seconds);
        let limits = TrainingLimits { epochs: step.epochs, seconds: None, target: None, ..self.limits.clone() };
        let estimator = match self.estimator.with_values(&record.settings) {
            Ok(estimator) => estimator.with_limits(limits)?,
            // The default point is valid, so a value of the space is not.
            Err(error) => return Err(error.into()),
        };
        let mut callback = TrialCallback {
            cluster,
            schedule,
            records: &report.trials,
            trial: step.trial,
            now: record.clone(),
            clock,
            observer,
            stopped: None,
        };
        let resumes = record.epochs() > 0 && settings.store.is_some();
        if !resumes {
            callback.now.set_progress(Vec::new(), schedule.ranking);
        }
        let mut options = FitOptions::new().with_callback(&mut callback);
        if let Some(store) = &settings.store {
            let checkpoints = Checkpoints::new(store.trial(record.trial));
            // Only at the end of a run, unless a run takes minutes.
            options =
                options.with_checkpoints(checkpoints.interval(CheckpointInterval::Seconds(120.0)).resume(resumes));
        }
        if self.estimator.chooses_epochs() {
            options = options.with_metric(self.metric);
        }
        let fitted = estimator.fit_with(cluster, self.train, Some(self.validation), options);
        let asked = match cluster.stop_request().cause() {
            Some(StopRequestCause::Request) => Some(StopCause::Observer),
            Some(StopRequestCause::TimeLimit) => Some(StopCause::Time),
            None => None,
        };
        let stopped = callback.stopped.or(asked);
        let ended = match fitted {
            Ok(fit) => {
                report.model.clone_from(&fit.report.model);
                record.set_progress(fit.report.progress.iter().map(TrialEpoch::from).collect(), schedule.ranking);
                record.stop_reason.clone_from(&fit.report.result.stop_reason);
                let complete = record.epochs() >= schedule.epochs || record.epochs() < step.epochs;
                record.status = if complete { TrialStatus::Finished } else { TrialStatus::Paused };
                TrialEnd::Done
            }
            // Before the end of its first epoch.
            Err(hemiola_cluster::Error::Stopped) => {
                record.set_progress(Vec::new(), schedule.ranking);
                STOPPED.clone_into(&mut record.stop_reason);
                TrialEnd::Interrupted
            }
            Err(error) => {
                let failure = training_failure(&error).ok_or(error)?;
                record.status = TrialStatus::Failed;
                record.stop_reason = failure;
                TrialEnd::Done
            }
        };
        // Clocks and signals differ between peers: the root decides about time, and a request of any
        // peer interrupts.
        let stops: Vec<Option<StopCause>> = cluster.all_gather(stopped)?;
        let cause = match stops.first().copied().flatten() {
            _ if stops.contains(&Some(StopCause::Observer)) => Some(StopCause::Observer),
            cause => cause,
        };
        let ended = match cause.filter(|_| record.status != TrialStatus::Failed) {
            None => ended,
            Some(StopCause::Rivals) => {
                record.status = TrialStatus::Pruned;
                "worse than the median of other trials".clone_into(&mut record.stop_reason);
                ended
            }
            Some(cause) => {
                // A run that was complete anyway is not an interrupted one.
                let cut = [STOPPED, TIME_LIMIT].contains(&record.stop_reason.as_str());
                if record.epochs() < step.epochs && cut {
                    record.status = TrialStatus::Interrupted;
                }
                if cause == StopCause::Observer { TrialEnd::Interrupted } else { TrialEnd::TimeLimit }
            }
        };
        record.seconds = earlier + (cluster.env().now() - begun).as_secs_f64();
        report.trials[step.trial] = record;
        Ok(ended)
    }
}

/// Reason in the report of a run that its callback stopped.
const STOPPED: &str = crate::training::TrainingSummary::STOPPED_BY_CALLBACK;

/// Time after the time limit of a search at which an epoch is left.
const TIME_LIMIT_GRACE: Duration = Duration::from_secs(1);

/// Reason in the report of a run that the time limit of the search has ended within an epoch.
const TIME_LIMIT: &str = "time limit reached";

/// Returns the text of an error that concerns the settings of one trial alone.
fn training_failure(error: &hemiola_cluster::Error) -> Option<String> {
    let hemiola_cluster::Error::Layer { source, .. } = error else { return None };
    let own = source.downcast_ref::<Error>()?;
    matches!(own, Error::Diverged { .. } | Error::SingularSystem | Error::NonFiniteObjective).then(|| own.to_string())
}

/// End of a run of a trial.
enum TrialEnd {
    Done,
    TimeLimit,
    Interrupted,
}

/// Time of a search.
#[derive(Clone, Copy)]
struct SearchClock {
    start: Moment,
    /// Seconds of the runs that this one resumes.
    before: f64,
    limit: Option<f64>,
    growth: f64,
}

impl SearchClock {
    /// Returns whether the time is over, if the final training is like the best trial.
    fn is_over(self, now: Moment, best: Option<&TrialRecord>) -> bool {
        let Some(limit) = self.limit else { return false };
        let reserved = best.and_then(|trial| {
            let epochs = trial.best_epoch?;
            let seconds = trial.progress.iter().find(|progress| progress.epoch == epochs)?.seconds;
            Some(seconds * self.growth)
        });
        self.before + (now - self.start).as_secs_f64() + reserved.unwrap_or(0.0) >= limit
    }
}

/// Cause of a stop that is not a limit of the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum StopCause {
    Rivals,
    Time,
    Observer,
}

/// Callback of a trial.
struct TrialCallback<'a> {
    cluster: &'a Cluster,
    schedule: &'a TrialSchedule<'a>,
    records: &'a [TrialRecord],
    trial: usize,
    /// The trial with its epochs so far.
    now: TrialRecord,
    clock: SearchClock,
    observer: &'a mut dyn SearchObserver,
    stopped: Option<StopCause>,
}

impl Callback for TrialCallback<'_> {
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        let ranking = self.schedule.ranking;
        self.now.progress.push(TrialEpoch::from(progress));
        (self.now.best_epoch, self.now.best) = ranking.best_of(&self.now.progress, u32::MAX).unzip();
        let observed = self.observer.on_epoch(&self.now, progress);
        let best = ranking.best_trial(self.records).map(|index| &self.records[index]);
        let is_better = |best: &&TrialRecord| match (self.now.best, best.best) {
            (Some(now), Some(best)) => ranking.order(now, best).is_lt(),
            (now, _) => now.is_some(),
        };
        let best = if best.as_ref().is_none_or(is_better) { Some(&self.now) } else { best };
        let over = self.cluster.is_root() && self.clock.is_over(self.cluster.env().now(), best);
        self.stopped = if observed == TrainingControl::Stop {
            Some(StopCause::Observer)
        } else if over {
            Some(StopCause::Time)
        } else if self.schedule.gives_up(self.records, self.trial, &self.now) {
            Some(StopCause::Rivals)
        } else {
            None
        };
        if self.stopped.is_some() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}
