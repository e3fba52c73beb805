//! Training of matrix factorization: SGD epochs with divergence control, or alternating least
//! squares.

use super::MatrixFactorization;
use super::evaluate::evaluate;
use super::loss::MfLoss;
use super::model::MfModel;
use super::one_class::OneClassEvents;
use super::ranking::{DEFAULT_CUTOFFS, RankingEvaluator};
use super::sgd::{BiasState, RatingScale, SgdUpdate, SimdArch};
use crate::Error;
use crate::training::{
    Callback, DatasetInfo, EpochResult, FitOptions, Metrics, TrainingAlgorithm, TrainingReport, TrainingSpec, digest,
    fit_loop,
};
use hemiola::loops::{LoopPlan, LoopProfile};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// An epoch diverged if its objective is this many times the previous one.
const DIVERGENCE_RATIO: f64 = 2.0;
/// Negligible loss in units of the squared deviation: constant ratings have variance 0, but factors
/// start near 0 and not at it.
const NEGLIGIBLE_LOSS: f64 = 1e-3;
/// Maximum number of learning-rate halvings before training fails.
const MAX_HALVINGS: u32 = 20;

/// Result of a training run.
#[derive(Clone, Debug)]
pub struct MfFit {
    /// Model of the best epoch.
    pub model: MfModel,
    /// Report of the run.
    pub report: TrainingReport,
    /// Profile of the computation, if [`FitOptions::with_profiling`] was set and the loss is one of
    /// ratings. Alternating least squares has two loops and no profile.
    pub profile: Option<LoopProfile>,
}

impl MatrixFactorization {
    /// *Collective.* Trains on ratings, a fraction of which is split off for validation as the
    /// settings say.
    pub fn fit(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<MfFit> {
        if self.settings.validation == 0.0 {
            return self.fit_with(cluster, ratings, None, FitOptions::new());
        }
        let (train, validation) = ratings.split(self.settings.validation, self.settings.seed)?;
        self.fit_with(cluster, &train, Some(&validation), FitOptions::new())
    }

    /// *Collective.* Trains on `train`, evaluates `validation` after each epoch, and reports to
    /// `callback`.
    pub fn fit_with_callback(
        &self,
        cluster: &Cluster,
        train: &DistArray<f32, 2>,
        validation: Option<&DistArray<f32, 2>>,
        callback: &mut dyn Callback,
    ) -> Result<MfFit> {
        self.fit_with(cluster, train, validation, FitOptions::new().with_callback(callback))
    }

    /// *Collective.* Trains on `train` and evaluates `validation` after each epoch, with a callback
    /// and checkpoints as in `options`.
    pub fn fit_with(
        &self,
        cluster: &Cluster,
        train: &DistArray<f32, 2>,
        validation: Option<&DistArray<f32, 2>>,
        options: FitOptions<'_>,
    ) -> Result<MfFit> {
        if train.is_empty() {
            return Err(Error::NoRatings.into());
        }
        // A fraction of few ratings may be empty.
        let validation = validation.filter(|validation| !validation.is_empty());
        let loss = self.settings.loss;
        let (mean, variance) = moments(cluster, train, loss)?;
        let mean = loss.base_score(mean);
        let deviation = deviation(loss, variance);
        // Validation ratings may be of users and items without training ratings, which keep their
        // initial values.
        let extents = |array: &DistArray<f32, 2>| array.shape().extents();
        let [users, items] = validation
            .map(extents)
            .into_iter()
            .fold(extents(train), |all, more| [all[0].max(more[0]), all[1].max(more[1])]);
        let model = MfModel::start(cluster, [users, items], (mean, deviation), &self.settings)?.named(train);
        let settings = &self.settings;
        let spec = TrainingSpec {
            model: MfModel::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            metric: loss.target_metric(),
            data: DatasetInfo::of(train, validation),
        };
        // Predicting the mean has this loss; an epoch with a far larger loss has diverged.
        let negligible = NEGLIGIBLE_LOSS * f64::from(deviation) * f64::from(deviation);
        let initial_objective = (loss == MfLoss::Squared).then_some(variance + negligible);
        let one_class =
            (loss == MfLoss::OneClass).then(|| OneClassEvents::new(cluster, train, [users, items], settings));
        let one_class = one_class.transpose()?;
        let ranking = validation
            .filter(|_| loss == MfLoss::OneClass)
            .map(|validation| RankingEvaluator::new(validation, train))
            .transpose()?;
        let learning_rate = settings.learning_rate;
        let mut profile = None;
        let profile_slot = options.profiled.then_some(&mut profile);
        let training = MfTraining {
            cluster,
            settings: self,
            train,
            validation,
            one_class,
            ranking,
            model,
            learning_rate,
            initial_objective,
            negligible,
            profile_slot,
        };
        let (model, report) = fit_loop(cluster, training, spec, options)?;
        Ok(MfFit { model, report, profile })
    }
}

/// Unit of learning rates and regularization.
pub(super) fn deviation(loss: MfLoss, variance: f64) -> f32 {
    match variance.sqrt() as f32 {
        deviation if loss == MfLoss::Squared && deviation > f32::MIN_POSITIVE.sqrt() => deviation,
        _ => 1.0,
    }
}

/// *Collective.* Returns the mean and the variance of the training targets.
pub(super) fn moments(cluster: &Cluster, ratings: &DistArray<f32, 2>, loss: MfLoss) -> Result<(f32, f64)> {
    let (sum, squares) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
    parallel_for!(
        cluster,
        for (_, rating) in ratings {
            let value = f64::from(loss.observed(*rating));
            sum += value;
            squares += value * value;
        }
    )?;
    let count = ratings.len() as f64;
    let mean = sum.take()? / count;
    Ok((mean as f32, (squares.take()? / count - mean * mean).max(0.0)))
}

struct MfTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a MatrixFactorization,
    train: &'a DistArray<f32, 2>,
    validation: Option<&'a DistArray<f32, 2>>,
    /// Event lists of the one-class loss.
    one_class: Option<OneClassEvents>,
    /// Ranking evaluator of the one-class loss, for the validation events.
    ranking: Option<RankingEvaluator>,
    model: MfModel,
    learning_rate: f32,
    /// Loss per entry before the first epoch, as far as it is known.
    initial_objective: Option<f64>,
    /// A loss below this is converged, not diverging.
    negligible: f64,
    /// Destination of the profile, if profiling is on.
    profile_slot: Option<&'a mut Option<LoopProfile>>,
}

impl TrainingAlgorithm for MfTraining<'_> {
    type Model = MfModel;
    /// Learning rate, which is halved when an epoch diverges.
    type State = f32;

    fn model(&self) -> &MfModel {
        &self.model
    }

    fn state(&self) -> f32 {
        self.learning_rate
    }

    fn resume(&mut self, model: MfModel, learning_rate: f32) {
        // The limits may have changed since the checkpoint.
        self.model = MfModel { settings: self.settings.settings.clone(), ..model };
        self.learning_rate = learning_rate;
    }

    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        self.guarded_epoch(before.or(self.initial_objective))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        match (&self.ranking, self.validation) {
            (Some(ranking), _) => ranking.metrics(self.cluster, &self.model, &DEFAULT_CUTOFFS).map(Some),
            (None, validation) => {
                validation.map(|validation| evaluate(self.cluster, &self.model, validation)).transpose()
            }
        }
    }

    fn digests(&self) -> Result<[u64; 2]> {
        Ok([digest(self.train)?, self.validation.map_or(Ok(0), digest)?])
    }
}

impl MfTraining<'_> {
    /// Runs an epoch; if it diverges, restores the model and repeats it with half the learning
    /// rate.
    fn guarded_epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        let mut note = None;
        for _ in 0..=MAX_HALVINGS {
            let backup = self.model.clone();
            let start = self.cluster.env().now();
            let (objective, plan) = self.run_epoch()?;
            let duration = self.cluster.env().now() - start;
            // A loss near 0 may double by rounding.
            let bound = before.map_or(f64::INFINITY, |before| (before * DIVERGENCE_RATIO).max(self.negligible));
            if objective.is_finite() && objective <= bound {
                let (name, metric) = match self.settings.settings.loss {
                    MfLoss::Squared => ("rmse", objective.sqrt()),
                    MfLoss::Logistic => ("logloss", objective),
                    MfLoss::OneClass => ("loss", objective),
                };
                let train = [(name.to_owned(), metric)].into();
                let (plan, updates) = (Some(plan), self.train.len());
                return Ok(EpochResult { objective, train, duration, plan, updates, note });
            }
            self.model = backup;
            if self.one_class.is_some() {
                // Alternating least squares has no learning rate to halve: the equations are
                // singular.
                return Err(Error::SingularSystem.into());
            }
            self.learning_rate /= 2.0;
            note = Some(format!(
                "the epoch diverged and was repeated with half the learning rate, {}",
                self.learning_rate
            ));
        }
        Err(Error::Diverged { learning_rate: self.learning_rate }.into())
    }

    fn run_epoch(&mut self) -> Result<(f64, LoopPlan)> {
        if let Some(one_class) = &self.one_class {
            let (objective, plan) = one_class.epoch(self.cluster, &self.model)?;
            return Ok((objective / self.train.len() as f64, plan));
        }
        let Self { cluster, train, .. } = self;
        let MfModel { user_factors: w, item_factors: h, user_state, item_state, mean, deviation, settings } =
            &self.model;
        let (learning_rate, l2, loss, mean) = (self.learning_rate, settings.l2, settings.loss, *mean);
        let costs = cluster.accumulator::<f64>();
        let scale = RatingScale::new(w.shape().extent(1), *deviation);
        let machine = SimdArch::this();
        let run = parallel_for!(
            cluster,
            repeated,
            for ([u, i], rating) in *train {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let (user, item) = (BiasState::of(&mut user_state[u]), BiasState::of(&mut item_state[i]));
                let entry = SgdUpdate { wu, hi, user, item, rating: *rating, mean, scale, learning_rate, l2, loss };
                let cost = machine.step(entry);
                costs += f64::from(cost);
            }
        )?;
        let objective = costs.take()? / train.len() as f64;
        if let Some(profile_slot) = &mut self.profile_slot {
            let profile = match profile_slot.take() {
                Some(profile) => profile,
                None => LoopProfile::from_entries(&run, train)?,
            };
            profile_slot.insert(profile).add_run(&run);
        }
        Ok((objective, run.plan().clone()))
    }
}
