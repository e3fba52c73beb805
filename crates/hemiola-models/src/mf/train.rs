//! Training.

use super::MatrixFactorization;
use super::loss::Loss;
use super::model::Model;
use super::step::{Entry, Machine, Side};
use crate::Error;
use crate::training::{ClusterFacts, DataFacts, Limits, Metrics, Nobody, Progress, Report, Summary, Watch, Wish};
use hemiola::loops::Plan;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::time::Duration;

/// A pass whose objective is this many times that of the one before has diverged.
const BLOW_UP: f64 = 2.0;
/// How often a step is halved before training gives up.
const HALVINGS: u32 = 20;

/// A trained model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model of the best epoch.
    pub model: Model,
    /// Every epoch, and the end.
    pub report: Report,
}

impl MatrixFactorization {
    /// *Collective.* Trains on ratings, a share of which is held out as the settings say.
    pub fn fit(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Trained> {
        if self.settings.valid == 0.0 {
            return self.fit_watched(cluster, ratings, None, &mut Nobody);
        }
        let (train, valid) = ratings.split(self.settings.valid, self.settings.seed)?;
        self.fit_watched(cluster, &train, Some(&valid), &mut Nobody)
    }

    /// *Collective.* Trains on all of `train`, looks at `valid` after each epoch, and tells `watch`.
    pub fn fit_watched(
        &self,
        cluster: &Cluster,
        train: &DistArray<f32, 2>,
        valid: Option<&DistArray<f32, 2>>,
        watch: &mut dyn Watch,
    ) -> Result<Trained> {
        if train.is_empty() {
            return Err(Error::NoRatings.into());
        }
        let loss = self.settings.loss;
        let mean = loss.score_of_mean(mean(cluster, train, loss)?);
        // Held-out ratings may be of users and items that nobody trains on: those keep what they start with.
        let extents = |array: &DistArray<f32, 2>| array.shape().extents();
        let [users, items] =
            valid.map(extents).into_iter().fold(extents(train), |all, more| [all[0].max(more[0]), all[1].max(more[1])]);
        let model = Model::start(cluster, [users, items], mean, &self.settings)?.named(train);
        Training { cluster, settings: self, train, valid, model, step: self.settings.step, spent: Spent::default() }
            .run(watch)
    }
}

/// *Collective.* The mean of what is learned.
fn mean(cluster: &Cluster, ratings: &DistArray<f32, 2>, loss: Loss) -> Result<f32> {
    let sum = cluster.accumulator::<f64>();
    parallel_for!(
        cluster,
        for (_, rating) in ratings {
            sum += f64::from(loss.for_mean(*rating));
        }
    )?;
    Ok((sum.take()? / ratings.len() as f64) as f32)
}

struct Training<'a> {
    cluster: &'a Cluster,
    settings: &'a MatrixFactorization,
    train: &'a DistArray<f32, 2>,
    valid: Option<&'a DistArray<f32, 2>>,
    model: Model,
    step: f32,
    spent: Spent,
}

/// Where time went.
#[derive(Default)]
struct Spent {
    training: Duration,
    evaluation: Duration,
}

impl Training<'_> {
    fn run(mut self, watch: &mut dyn Watch) -> Result<Trained> {
        let limits: Limits = self.settings.settings.limits.clone();
        let metric = self.settings.settings.loss.metric();
        let mut history: Vec<Progress> = Vec::new();
        let mut best: Option<(Model, usize)> = None;
        let mut plan: Option<Plan> = None;
        let ended = loop {
            let (objective, ran, note) = self.careful_pass(history.last().map(|last| last.objective))?;
            if plan.is_none() {
                watch.planned(&ran);
                plan = Some(ran);
            }
            let progress = self.progress(history.len(), objective, note)?;
            let wish = watch.progress(&progress);
            history.push(progress);
            let verdict = limits.judge(&history, metric);
            // Without held-out ratings the last model is the one to keep.
            let keep = verdict.best || self.valid.is_none();
            if keep && (self.valid.is_some() || verdict.end.is_some()) {
                best = Some((self.model.clone(), history.len() - 1));
            }
            // Clocks and watchers differ from peer to peer: the first decides.
            let end = self.cluster.broadcast(match (wish, verdict.end) {
                (_, Some(end)) => Some(end.to_owned()),
                (Wish::Stop, None) => Some("it was asked to".to_owned()),
                (Wish::GoOn, None) => None,
            })?;
            if let Some(end) = end {
                break end;
            }
        };
        let (model, at) = best.unwrap_or((self.model, history.len() - 1));
        let seconds = self.spent.training.as_secs_f64();
        let last = &history[history.len() - 1];
        let result = Summary {
            seconds,
            evaluation_seconds: self.spent.evaluation.as_secs_f64(),
            updates_per_second: last.updates as f64 / seconds.max(1e-9),
            objective: history[at].objective,
            valid: history[at].valid.clone(),
            best_epoch: history[at].epoch,
            ended,
            bytes_sent: last.bytes_sent,
            peak_rss_bytes: peak_memory(self.cluster)?,
        };
        let report = Report {
            model: "mf".to_owned(),
            data: DataFacts::of(self.train, self.valid),
            cluster: ClusterFacts::of(self.cluster),
            seed: self.settings.settings.seed,
            progress: history,
            result,
            plan: plan.expect("at least one pass was made"),
        };
        Ok(Trained { model, report })
    }

    /// A pass that is taken back and repeated with half the step if it blows up. The objective per entry, the plan, and a
    /// note if that happened.
    fn careful_pass(&mut self, before: Option<f64>) -> Result<(f64, Plan, Option<String>)> {
        let mut note = None;
        for _ in 0..=HALVINGS {
            let kept = self.model.clone();
            let start = self.cluster.env().now();
            let (objective, plan) = self.pass()?;
            let spent = self.cluster.env().now() - start;
            if objective.is_finite() && before.is_none_or(|before| objective <= before * BLOW_UP) {
                self.spent.training += spent;
                return Ok((objective, plan, note));
            }
            self.model = kept;
            self.step /= 2.0;
            note = Some(format!("the pass diverged and was repeated with half the step, {}", self.step));
        }
        Err(Error::Diverges { step: self.step }.into())
    }

    fn pass(&self) -> Result<(f64, Plan)> {
        let Self { cluster, train, .. } = self;
        let Model { user_factors: w, item_factors: h, user_side, item_side, mean, settings } = &self.model;
        let (step, l2, loss, mean) = (self.step, settings.l2, settings.loss, *mean);
        let costs = cluster.accumulator::<f64>();
        let machine = Machine::this();
        let run = parallel_for!(
            cluster,
            repeated,
            for ([u, i], rating) in *train {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let (user, item) = (Side::of(&mut user_side[u]), Side::of(&mut item_side[i]));
                let entry = Entry { wu, hi, user, item, rating: *rating, mean, step, l2, loss };
                let cost = machine.step(entry);
                costs += f64::from(cost);
            }
        )?;
        Ok((costs.take()? / train.len() as f64, run.plan().clone()))
    }

    fn progress(&mut self, epochs: usize, objective: f64, note: Option<String>) -> Result<Progress> {
        let start = self.cluster.env().now();
        let valid = self.valid.map(|valid| evaluate(self.cluster, &self.model, valid)).transpose()?;
        self.spent.evaluation += self.cluster.env().now() - start;
        let sent: u64 = self.cluster.traffic().lines.iter().map(|line| line.bytes_sent).sum();
        let metric = self.settings.settings.loss.metric();
        let figure = if metric == "rmse" { objective.sqrt() } else { objective };
        let epoch = epochs as u32 + 1;
        Ok(Progress {
            epoch,
            seconds: self.spent.training.as_secs_f64(),
            objective,
            train: [(metric.to_owned(), figure)].into(),
            valid,
            updates: u64::from(epoch) * self.train.len(),
            bytes_sent: self.cluster.all_gather(sent)?.into_iter().sum(),
            note,
        })
    }
}

/// *Collective.* Figures of a model on ratings.
pub(super) fn evaluate(cluster: &Cluster, model: &Model, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
    let Model { user_factors: w, item_factors: h, user_side, item_side, mean, settings } = model;
    let (loss, mean) = (settings.loss, *mean);
    let (costs, errors) = (cluster.accumulator::<f64>(), cluster.accumulator::<f64>());
    let machine = Machine::this();
    parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let score = mean + user_side[u][0] + item_side[i][0] + machine.dot(&w[u], &h[i]);
            costs += f64::from(loss.slope_and_cost(*rating, score).1);
            errors += f64::from((loss.for_mean(*rating) - loss.prediction(score)).abs());
        }
    )?;
    let count = ratings.len().max(1) as f64;
    let (cost, error) = (costs.take()? / count, errors.take()? / count);
    Ok(match loss {
        Loss::Squared => [("rmse".to_owned(), cost.sqrt()), ("mae".to_owned(), error)].into(),
        Loss::Logistic => [("logloss".to_owned(), cost), ("mae".to_owned(), error)].into(),
    })
}

impl Model {
    /// *Collective.* Figures of the model on ratings: `rmse` and `mae`, or `logloss`.
    pub fn evaluate(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<Metrics> {
        let [users, items] = self.shape();
        let [most_users, most_items] = ratings.shape().extents();
        if most_users > users {
            return Err(Error::Unknown { what: "user", number: most_users - 1, count: users }.into());
        }
        if most_items > items {
            return Err(Error::Unknown { what: "item", number: most_items - 1, count: items }.into());
        }
        evaluate(cluster, self, ratings)
    }
}

/// *Collective.* The most memory any peer has used, where the system tells.
fn peak_memory(cluster: &Cluster) -> Result<Option<u64>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|kilo| kilo * 1024);
    Ok(cluster.all_gather(bytes)?.into_iter().max().flatten())
}
