//! Training.

use super::MatrixFactorization;
use super::evaluate::evaluate;
use super::loss::Loss;
use super::model::Model;
use super::one_class::OneClass;
use super::ranking::{PLACES, Ranking};
use super::step::{Entry, Machine, Scale, Side};
use crate::Error;
use crate::training::{DataFacts, Learner, Metrics, Pass, Report, Session, Terms, Watch, digest, drive};
use hemiola::loops::{Plan, Profile};
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// A pass whose objective is this many times that of the one before has diverged.
const BLOW_UP: f64 = 2.0;
/// What a constant rating may cost although its variance is 0 (factors start near 0 and not at it), in squares of the deviation.
const LITTLE: f64 = 1e-3;
/// How often a step is halved before training gives up.
const HALVINGS: u32 = 20;

/// A trained model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model of the best epoch.
    pub model: Model,
    /// Every epoch, and the end.
    pub report: Report,
    /// What passes have computed, if the session was [profiled](Session::profiled) and the loss is one of ratings: those of events are two loops, and have none.
    pub profile: Option<Profile>,
}

impl MatrixFactorization {
    /// *Collective.* Trains on ratings, a share of which is held out as the settings say.
    pub fn fit(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Trained> {
        if self.settings.valid == 0.0 {
            return self.fit_with(cluster, ratings, None, Session::new());
        }
        let (train, valid) = ratings.split(self.settings.valid, self.settings.seed)?;
        self.fit_with(cluster, &train, Some(&valid), Session::new())
    }

    /// *Collective.* Trains on all of `train`, looks at `valid` after each epoch, and tells `watch`.
    pub fn fit_watched(
        &self,
        cluster: &Cluster,
        train: &DistArray<f32, 2>,
        valid: Option<&DistArray<f32, 2>>,
        watch: &mut dyn Watch,
    ) -> Result<Trained> {
        self.fit_with(cluster, train, valid, Session::new().watched(watch))
    }

    /// *Collective.* Trains on all of `train` and looks at `valid` after each epoch, with checkpoints and a watcher as `session`
    /// says.
    pub fn fit_with(
        &self,
        cluster: &Cluster,
        train: &DistArray<f32, 2>,
        valid: Option<&DistArray<f32, 2>>,
        session: Session<'_>,
    ) -> Result<Trained> {
        if train.is_empty() {
            return Err(Error::NoRatings.into());
        }
        // Of few ratings a share may be none.
        let valid = valid.filter(|valid| !valid.is_empty());
        let loss = self.settings.loss;
        let (mean, variance) = moments(cluster, train, loss)?;
        let mean = loss.score_of_mean(mean);
        let deviation = deviation(loss, variance);
        // Held-out ratings may be of users and items that nobody trains on: those keep what they start with.
        let extents = |array: &DistArray<f32, 2>| array.shape().extents();
        let [users, items] =
            valid.map(extents).into_iter().fold(extents(train), |all, more| [all[0].max(more[0]), all[1].max(more[1])]);
        let model = Model::start(cluster, [users, items], (mean, deviation), &self.settings)?.named(train);
        let settings = &self.settings;
        let terms = Terms {
            model: Model::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            figure: loss.figure(),
            data: DataFacts::of(train, valid),
        };
        // What predicting the mean costs; a pass that costs far more than that has not learned but diverged.
        let little = LITTLE * f64::from(deviation) * f64::from(deviation);
        let untrained = (loss == Loss::Squared).then_some(variance + little);
        let one_class = (loss == Loss::OneClass).then(|| OneClass::new(cluster, train, [users, items], settings));
        let one_class = one_class.transpose()?;
        let ranking = valid.filter(|_| loss == Loss::OneClass).map(|valid| Ranking::new(valid, train)).transpose()?;
        let step = settings.step;
        let mut profile = None;
        let measured = session.profiled.then_some(&mut profile);
        let training = Training {
            cluster,
            settings: self,
            train,
            valid,
            one_class,
            ranking,
            model,
            step,
            untrained,
            little,
            measured,
        };
        let (model, report) = drive(cluster, training, terms, session)?;
        Ok(Trained { model, report, profile })
    }
}

/// The unit that steps and penalties count in.
pub(super) fn deviation(loss: Loss, variance: f64) -> f32 {
    match variance.sqrt() as f32 {
        deviation if loss == Loss::Squared && deviation > f32::MIN_POSITIVE.sqrt() => deviation,
        _ => 1.0,
    }
}

/// *Collective.* The mean of what is learned, and its variance.
pub(super) fn moments(cluster: &Cluster, ratings: &DistArray<f32, 2>, loss: Loss) -> Result<(f32, f64)> {
    let (sum, squares) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
    parallel_for!(
        cluster,
        for (_, rating) in ratings {
            let value = f64::from(loss.for_mean(*rating));
            sum += value;
            squares += value * value;
        }
    )?;
    let count = ratings.len() as f64;
    let mean = sum.take()? / count;
    Ok((mean as f32, (squares.take()? / count - mean * mean).max(0.0)))
}

struct Training<'a> {
    cluster: &'a Cluster,
    settings: &'a MatrixFactorization,
    train: &'a DistArray<f32, 2>,
    valid: Option<&'a DistArray<f32, 2>>,
    /// With the one-class loss: its lists of events.
    one_class: Option<OneClass>,
    /// With the one-class loss: what held-out events are ranked among.
    ranking: Option<Ranking>,
    model: Model,
    step: f32,
    /// What an entry costs before the first pass, as far as that is known.
    untrained: Option<f64>,
    /// What costs less than this is not diverging, but at its end.
    little: f64,
    /// Where to write down what passes compute, if somebody wants to know.
    measured: Option<&'a mut Option<Profile>>,
}

impl Learner for Training<'_> {
    type Model = Model;
    /// The step, which becomes smaller where a pass diverges.
    type Own = f32;

    fn model(&self) -> &Model {
        &self.model
    }

    fn own(&self) -> f32 {
        self.step
    }

    fn go_on(&mut self, model: Model, step: f32) {
        // The limits may be others now.
        self.model = Model { settings: self.settings.settings.clone(), ..model };
        self.step = step;
    }

    fn epoch(&mut self, before: Option<f64>) -> Result<Pass> {
        self.careful_pass(before.or(self.untrained))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        match (&self.ranking, self.valid) {
            (Some(ranking), _) => ranking.figures(self.cluster, &self.model, &PLACES).map(Some),
            (None, valid) => valid.map(|valid| evaluate(self.cluster, &self.model, valid)).transpose(),
        }
    }

    fn digests(&self) -> Result<[u64; 2]> {
        Ok([digest(self.train)?, self.valid.map_or(Ok(0), digest)?])
    }
}

impl Training<'_> {
    /// A pass that is taken back and repeated with half the step if it blows up.
    fn careful_pass(&mut self, before: Option<f64>) -> Result<Pass> {
        let mut note = None;
        for _ in 0..=HALVINGS {
            let kept = self.model.clone();
            let start = self.cluster.env().now();
            let (objective, plan) = self.pass()?;
            let took = self.cluster.env().now() - start;
            // What is near 0 may double by rounding.
            let bound = before.map_or(f64::INFINITY, |before| (before * BLOW_UP).max(self.little));
            if objective.is_finite() && objective <= bound {
                let (name, figure) = match self.settings.settings.loss {
                    Loss::Squared => ("rmse", objective.sqrt()),
                    Loss::Logistic => ("logloss", objective),
                    Loss::OneClass => ("loss", objective),
                };
                let train = [(name.to_owned(), figure)].into();
                let (plan, updates) = (Some(plan), self.train.len());
                return Ok(Pass { objective, train, took, plan, updates, note });
            }
            self.model = kept;
            if self.one_class.is_some() {
                // It has no step that could be too long: the equations cannot be solved.
                return Err(Error::Unsolvable.into());
            }
            self.step /= 2.0;
            note = Some(format!("the pass diverged and was repeated with half the step, {}", self.step));
        }
        Err(Error::Diverges { step: self.step }.into())
    }

    fn pass(&mut self) -> Result<(f64, Plan)> {
        if let Some(one_class) = &self.one_class {
            let (objective, plan) = one_class.pass(self.cluster, &self.model)?;
            return Ok((objective / self.train.len() as f64, plan));
        }
        let Self { cluster, train, .. } = self;
        let Model { user_factors: w, item_factors: h, user_side, item_side, mean, deviation, settings } = &self.model;
        let (step, l2, loss, mean) = (self.step, settings.l2, settings.loss, *mean);
        let costs = cluster.accumulator::<f64>();
        let scale = Scale::new(w.shape().extent(1), *deviation);
        let machine = Machine::this();
        let run = parallel_for!(
            cluster,
            repeated,
            for ([u, i], rating) in *train {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let (user, item) = (Side::of(&mut user_side[u]), Side::of(&mut item_side[i]));
                let entry = Entry { wu, hi, user, item, rating: *rating, mean, scale, step, l2, loss };
                let cost = machine.step(entry);
                costs += f64::from(cost);
            }
        )?;
        let objective = costs.take()? / train.len() as f64;
        if let Some(measured) = &mut self.measured {
            let profile = match measured.take() {
                Some(profile) => profile,
                None => Profile::of_entries(&run, train)?,
            };
            measured.insert(profile).add(&run);
        }
        Ok((objective, run.plan().clone()))
    }
}
