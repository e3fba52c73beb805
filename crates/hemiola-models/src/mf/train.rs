//! Training of matrix factorization: SGD epochs with divergence control, or alternating least
//! squares.

use super::MatrixFactorization;
use super::bpr::BprEvents;
use super::data::aligned_to;
use super::evaluate::evaluate;
use super::loss::MfLoss;
use super::model::MfModel;
use super::one_class::{OneClassEvents, must_be_weights};
use super::ranking::{DEFAULT_CUTOFFS, RankingEvaluator};
use super::settings::MfSettings;
use super::sgd::{BiasState, RatingScale, SgdUpdate, SimdArch};
use crate::setters::require;
use crate::training::{
    ClusterInfo, DatasetInfo, EpochResult, Fit, FitOptions, Metrics, TrainingAlgorithm, TrainingSpec, digest, fit_loop,
};
use crate::{Error, Estimator, IncrementalEstimator};
use hemiola_array::{AccumulatorExt, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_loops::parallel_for;
use hemiola_loops::{LoopPlan, LoopProfile};
use hemiola_training::check_same_settings;
use serde::{Deserialize, Serialize};

/// An epoch diverged if its objective is this many times the previous one.
const DIVERGENCE_RATIO: f64 = 2.0;
/// Negligible loss in units of the squared deviation: constant ratings have variance 0, but factors
/// start near 0 and not at it.
const NEGLIGIBLE_LOSS: f64 = 1e-3;
/// Maximum number of learning-rate halvings before training fails.
const MAX_HALVINGS: u32 = 20;
/// Requirement on settings that decide the shape and the meaning of a model.
const SAME_AS_MODEL: &str = "that of the model to be trained further";

impl Estimator for MatrixFactorization {
    type Data = DistArray<f32, 2>;
    type Settings = MfSettings;
    type Model = MfModel;

    fn settings(&self) -> &MfSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        ratings: &DistArray<f32, 2>,
        validation: Option<&DistArray<f32, 2>>,
        options: FitOptions<'_>,
    ) -> Result<Fit<MfModel>> {
        check_same_settings(cluster, MfModel::KIND, &self.settings)?;
        let split = (validation.is_none() && self.settings.validation > 0.0)
            .then(|| ratings.split(self.settings.validation, Seed(self.settings.seed)))
            .transpose()?;
        let (train, validation) = match &split {
            Some((train, validation)) => (train, Some(validation)),
            None => (ratings, validation),
        };
        if train.is_empty() {
            return Err(Error::NoRatings.into());
        }
        // A fraction of few ratings may be empty.
        let validation = validation.filter(|validation| !validation.is_empty());
        let loss = self.settings.loss;
        check_both_sides(cluster, train, loss)?;
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
        let mut model = MfModel::start(cluster, [users, items], (mean, deviation), &self.settings)?.named(train);
        model.input.clone_from(&self.input);
        self.train(cluster, model, variance, (train, validation), options)
    }
}

/// *Collective.* Returns an error if ratings of the logistic loss are all positive, or none is.
fn check_both_sides(cluster: &Cluster, train: &DistArray<f32, 2>, loss: MfLoss) -> Result<()> {
    if loss != MfLoss::Logistic {
        return Ok(());
    }
    let mut found = [false; 2];
    train.for_each(|_, rating| found[usize::from(*rating > 0.0)] = true);
    let found = cluster.all_gather(found)?.into_iter().fold([false; 2], |all, one| [all[0] | one[0], all[1] | one[1]]);
    match found {
        [false, _] => Err(Error::OneSidedRatings { missing: "0 or below" }.into()),
        [_, false] => Err(Error::OneSidedRatings { missing: "above 0" }.into()),
        _ => Ok(()),
    }
}

impl IncrementalEstimator for MatrixFactorization {
    /// *Collective.* Takes SGD steps for `ratings` alone, which must be of users and items of the
    /// model; they are matched by name. A new user is [folded in](MfModel::fold_in) instead.
    fn partial_fit(
        &self,
        cluster: &Cluster,
        model: &MfModel,
        ratings: &DistArray<f32, 2>,
        options: FitOptions<'_>,
    ) -> Result<Fit<MfModel>> {
        if self.settings.loss.is_implicit() {
            return Err(Error::IncrementalUnsupported.into());
        }
        let (MfSettings { rank, loss, .. }, trained) = (&self.settings, &model.settings);
        require("rank", rank, *rank == trained.rank, SAME_AS_MODEL)?;
        require("loss", &loss.name(), *loss == trained.loss, SAME_AS_MODEL)?;
        let known = aligned_to(ratings, model)?;
        if known.len() < ratings.len() {
            return Err(Error::UnknownRatings { count: ratings.len() - known.len() }.into());
        }
        if known.is_empty() {
            return Err(Error::NoRatings.into());
        }
        let (mean, variance) = moments(cluster, &known, *loss)?;
        let shift = f64::from(loss.base_score(mean) - model.mean);
        let model = MfModel { settings: self.settings.clone(), ..model.clone() };
        self.train(cluster, model, variance + shift * shift, (&known, None), options)
    }
}

impl MatrixFactorization {
    /// *Collective.* Trains `model`. `spread` is the loss per entry of predicting its mean.
    fn train(
        &self,
        cluster: &Cluster,
        model: MfModel,
        spread: f64,
        (train, validation): (&DistArray<f32, 2>, Option<&DistArray<f32, 2>>),
        options: FitOptions<'_>,
    ) -> Result<Fit<MfModel>> {
        let (settings, loss, deviation) = (&self.settings, self.settings.loss, model.deviation);
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
        let initial_objective = (loss == MfLoss::Squared).then_some(spread + negligible);
        let one_class =
            (loss == MfLoss::OneClass).then(|| OneClassEvents::new(cluster, train, model.shape(), settings));
        let one_class = one_class.transpose()?;
        let bpr = if loss == MfLoss::Bpr {
            must_be_weights(cluster, train, loss)?;
            Some(BprEvents::new(cluster, train, model.shape())?)
        } else {
            None
        };
        let ranking = validation
            .filter(|_| loss.is_implicit())
            .map(|validation| RankingEvaluator::new(validation, train))
            .transpose()?;
        let training = MfTraining {
            cluster,
            settings: self,
            train,
            validation,
            one_class,
            bpr,
            ranking,
            model,
            learning_rate: settings.learning_rate,
            epochs: 0,
            initial_objective,
            negligible,
            profiled: options.profiled,
            profile: None,
            before: None,
        };
        fit_loop(cluster, training, spec, options)
    }
}

/// Unit of learning rates and regularization.
fn deviation(loss: MfLoss, variance: f64) -> f32 {
    match variance.sqrt() as f32 {
        deviation if loss == MfLoss::Squared && deviation > f32::MIN_POSITIVE.sqrt() => deviation,
        _ => 1.0,
    }
}

/// *Collective.* Returns the mean and the variance of the training targets.
fn moments(cluster: &Cluster, ratings: &DistArray<f32, 2>, loss: MfLoss) -> Result<(f32, f64)> {
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
    /// Event lists of Bayesian personalized ranking.
    bpr: Option<BprEvents>,
    /// Ranking evaluator of implicit feedback, for the validation events.
    ranking: Option<RankingEvaluator>,
    model: MfModel,
    learning_rate: f32,
    /// Number of completed epochs.
    epochs: u32,
    /// Loss per entry before the first epoch, as far as it is known.
    initial_objective: Option<f64>,
    /// A loss below this is converged, not diverging.
    negligible: f64,
    profiled: bool,
    /// Profile of the epochs so far, if profiling is on.
    profile: Option<LoopProfile>,
    /// Model, learning rate and number of epochs before the current one, unless it is the first.
    before: Option<(MfModel, (f32, u32))>,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum MfProgress {
    /// Learning rate, which is halved when an epoch diverges.
    LearningRate(f32),
    /// The same with the number of completed epochs, on which random draws depend.
    Counted { learning_rate: f32, epochs: u32 },
}

impl TrainingAlgorithm for MfTraining<'_> {
    type Model = MfModel;
    type State = MfProgress;

    fn model(&self) -> &MfModel {
        &self.model
    }

    fn state(&self) -> MfProgress {
        let Self { learning_rate, epochs, .. } = *self;
        if self.bpr.is_some() {
            MfProgress::Counted { learning_rate, epochs }
        } else {
            MfProgress::LearningRate(learning_rate)
        }
    }

    fn resume(&mut self, model: MfModel, progress: MfProgress) {
        // The limits may have changed since the checkpoint.
        self.model = MfModel { settings: self.settings.settings.clone(), ..model };
        (self.learning_rate, self.epochs) = match progress {
            MfProgress::LearningRate(learning_rate) => (learning_rate, 0),
            MfProgress::Counted { learning_rate, epochs } => (learning_rate, epochs),
        };
    }

    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        let state = (self.learning_rate, self.epochs);
        self.before = None;
        let (result, backup) = self.guarded_epoch(before.or(self.initial_objective));
        self.before = backup.map(|model| (model, state));
        if matches!(result, Err(hemiola_cluster::Error::Stopped)) {
            self.discard_epoch();
        } else if before.is_none() {
            self.before = None;
        }
        result
    }

    /// The backup of an epoch that diverges serves for an epoch that is stopped, too.
    fn keeps_snapshots(&self) -> bool {
        false
    }

    fn discard_epoch(&mut self) -> bool {
        let Some((model, (learning_rate, epochs))) = self.before.take() else { return false };
        (self.model, self.learning_rate, self.epochs) = (model, learning_rate, epochs);
        true
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

    /// The order of ratings depends on the number of workers; that of pairs does not.
    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        self.bpr.is_some() || before.total_workers() == now.total_workers()
    }

    fn take_profile(&mut self) -> Option<LoopProfile> {
        self.profile.take()
    }
}

impl MfTraining<'_> {
    /// Runs an epoch; if it diverges, restores the model and repeats it with half the learning
    /// rate. Returns the model before it, too, if it was changed.
    fn guarded_epoch(&mut self, before: Option<f64>) -> (Result<EpochResult>, Option<MfModel>) {
        let mut note = None;
        for _ in 0..=MAX_HALVINGS {
            let backup = self.model.clone();
            let start = self.cluster.env().now();
            let (objective, plan) = match self.run_epoch() {
                Ok(run) => run,
                Err(error) if hemiola_loops::Error::is_non_finite(&error) => (f64::INFINITY, None),
                Err(error) => return (Err(error), Some(backup)),
            };
            let duration = self.cluster.env().now() - start;
            // A loss near 0 may double by rounding.
            let bound = before.map_or(f64::INFINITY, |before| (before * DIVERGENCE_RATIO).max(self.negligible));
            if objective.is_finite() && objective <= bound {
                let (name, metric) = match self.settings.settings.loss {
                    MfLoss::Squared => ("rmse", objective.sqrt()),
                    MfLoss::Logistic => ("logloss", objective),
                    MfLoss::OneClass | MfLoss::Bpr => ("loss", objective),
                };
                self.epochs += 1;
                let train = [(name.to_owned(), metric)].into();
                let updates = self.train.len() as u64;
                let result = EpochResult { plan, note, ..EpochResult::new(objective, train, duration, updates) };
                return (Ok(result), Some(backup));
            }
            self.model = backup;
            if self.one_class.is_some() {
                // Alternating least squares has no learning rate to halve: the equations are
                // singular.
                return (Err(Error::SingularSystem.into()), None);
            }
            self.learning_rate /= 2.0;
            note = Some(format!(
                "the epoch diverged and was repeated with half the learning rate, {}",
                self.learning_rate
            ));
        }
        (Err(Error::Diverged { learning_rate: self.learning_rate }.into()), None)
    }

    /// Returns the objective per entry, and the plan of the loop if there is one.
    fn run_epoch(&mut self) -> Result<(f64, Option<LoopPlan>)> {
        if let Some(one_class) = &self.one_class {
            let (objective, plan) = one_class.epoch(self.cluster, &mut self.model)?;
            return Ok((objective / self.train.len() as f64, Some(plan)));
        }
        if let Some(bpr) = &self.bpr {
            let cost = bpr.epoch(self.cluster, &mut self.model, (self.epochs, self.learning_rate))?;
            return Ok((cost / self.train.len() as f64, None));
        }
        let Self { cluster, train, .. } = self;
        let MfModel { user_factors: w, item_factors: h, user_state, item_state, mean, deviation, settings, .. } =
            &mut self.model;
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
        if self.profiled {
            let profile = match self.profile.take() {
                Some(profile) => profile,
                None => LoopProfile::from_entries(&run, train)?,
            };
            self.profile.insert(profile).add_run(&run);
        }
        Ok((objective, Some(run.plan().clone())))
    }
}
