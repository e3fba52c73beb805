//! Training at one penalty: rounds of the solver in the frame of all models.
//!
//! An epoch is a round: columns are chosen, worked on, and all are surveyed. What a report shows for each is the objective and the duality gap, which says how far it can
//! still fall. All peers hold the same coefficients.

use super::SparseRegression;
use super::examples::{Examples, deal};
use super::figures;
use super::ground::Ground;
use super::kernel::Value;
use super::model::Model;
use super::quadratic::Penalty;
use super::solver::Solver;
use crate::Error;
use crate::training::{ClusterFacts, DataFacts, Figure, Learner, Metrics, Pass, Report, Session, Terms, digest, drive};
use hemiola::array::dist::Labelled;
use hemiola::array::random::Values;
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};

/// The draw that decides what is held out.
const HELD_OUT: u64 = 7;

/// A trained model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// Every round, and the end.
    pub report: Report,
}

impl SparseRegression {
    /// *Collective.* Trains on examples, a share of which is held out as the settings say.
    pub fn fit(&self, cluster: &Cluster, examples: &Labelled) -> Result<Trained> {
        self.fit_with(cluster, examples, None, Session::new())
    }

    /// *Collective.* The same, with checkpoints and a watcher as `session` says. If held-out examples are given, all of `examples` are trained on.
    pub fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &Labelled,
        valid: Option<&Labelled>,
        session: Session<'_>,
    ) -> Result<Trained> {
        let columns = examples.features.shape().extent(1);
        let (dealt, _) = deal(cluster, examples, columns)?;
        let held_out = valid.map(|valid| deal(cluster, valid, columns)).transpose()?.map(|(dealt, _)| dealt);
        let digests = || {
            let of = |examples: &Labelled| {
                Ok::<u64, hemiola::Error>(digest(&examples.features)?.rotate_left(1) ^ digest(&examples.labels)?)
            };
            Ok([of(examples)?, valid.map_or(Ok(0), of)?])
        };
        self.train(cluster, (dealt, held_out), &digests, session)
    }

    /// *Collective.* Trains on rows that this peer has by columns already. Nothing can be resumed: it is not looked whether rows are the same.
    pub fn fit_rows<T: Value>(&self, cluster: &Cluster, examples: Examples<T>) -> Result<Trained> {
        self.train(cluster, (examples, None), &|| Ok([0; 2]), Session::new())
    }

    fn train<T: Value>(
        &self,
        cluster: &Cluster,
        (examples, held_out): (Examples<T>, Option<Examples<T>>),
        digests: &dyn Fn() -> Result<[u64; 2]>,
        session: Session<'_>,
    ) -> Result<Trained> {
        let settings = &self.settings;
        let names = examples.names.clone();
        let mut ground = Ground::new(cluster, examples, settings.loss)?;
        let held_out = match held_out {
            Some(held_out) => Some(Ground::new(cluster, held_out, super::Loss::Squared)?),
            None if settings.valid > 0.0 => {
                let values = Values::new(settings.seed);
                let apart = |row: u64| values.chosen(row, HELD_OUT, settings.valid);
                let held_out = ground.subset(apart);
                ground = ground.subset(|row| !apart(row));
                Some(held_out)
            }
            None => None,
        };
        let columns = ground.design.columns() as u64;
        let mine =
            (ground.labels.len() as u64, held_out.as_ref().map_or(0, |held_out| held_out.labels.len() as u64), columns);
        let counts: Vec<(u64, u64, u64)> = cluster.all_gather(mine)?;
        if counts.iter().any(|peer| peer.2 != columns) {
            return Err(Error::OtherColumns.into());
        }
        let rows = counts.iter().map(|peer| peer.0).sum();
        if rows == 0 {
            return Err(Error::NoExamples.into());
        }
        let data = DataFacts { shape: vec![rows, columns], train: rows, valid: counts.iter().map(|peer| peer.1).sum() };
        let terms = Terms {
            model: settings.kind(),
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            // What is minimized decides, so that it is the solution that is kept.
            figure: Figure::low("objective"),
            data,
        };
        let model = Model {
            intercept: 0.0,
            coefficients: Vec::new(),
            lambda: 0.0,
            columns,
            classes: ground.classes,
            settings: settings.clone(),
            names,
            cluster: cluster.clone(),
        };
        let training = Training {
            cluster,
            regression: self,
            ground,
            held_out,
            digests,
            solver: None,
            model,
            place: Place { gap: None },
        };
        let (model, report) = drive(cluster, training, terms, session)?;
        Ok(Trained { model, report })
    }
}

struct Training<'a, T> {
    cluster: &'a Cluster,
    regression: &'a SparseRegression,
    ground: Ground<T>,
    held_out: Option<Ground<T>>,
    digests: &'a dyn Fn() -> Result<[u64; 2]>,
    /// `None` before the first epoch.
    solver: Option<Solver>,
    model: Model,
    place: Place,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    /// The duality gap after the last epoch, in shares of the objective without coefficients.
    gap: Option<f64>,
}

impl<T: Value> Learner for Training<'_, T> {
    type Model = Model;
    type Own = Place;

    fn model(&self) -> &Model {
        &self.model
    }

    fn own(&self) -> Place {
        self.place
    }

    fn go_on(&mut self, model: Model, place: Place) {
        self.model = model;
        // The limits may be others now.
        self.model.settings = self.regression.settings.clone();
        self.place = place;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<Pass> {
        let Self { cluster, regression, ground, solver, model, .. } = self;
        let settings = &regression.settings;
        let start = cluster.env().now();
        let before = solver.as_ref().map_or(0, |solver| solver.visited);
        let found = ground.field(cluster, |field| {
            let mut found = if let Some(solver) = solver.take() {
                solver
            } else {
                let mut fresh = ground.solver(field, settings)?;
                let lambda = fresh.lambda(settings.lambda, settings.ratio);
                model.lambda = lambda;
                fresh.restore(field, &model.coefficients)?;
                fresh.aim(field, Penalty::new(lambda, settings.ratio))?;
                fresh
            };
            // Where all coefficients are 0 there is nothing to do.
            if found.survey().gap > settings.tolerance {
                found.round(field)?;
            }
            Ok(found)
        })?;
        let survey = found.survey();
        if !survey.objective.is_finite() {
            return Err(Error::OutOfRange.into());
        }
        (model.intercept, model.coefficients) = found.solution();
        let took = cluster.env().now() - start;
        let train = Metrics::from([
            ("gap".to_owned(), survey.gap),
            ("nonzero".to_owned(), survey.support as f64),
            ("screened".to_owned(), (model.columns - survey.alive as u64) as f64),
            ("explained".to_owned(), 1.0 - survey.unexplained),
        ]);
        let updates = found.visited - before;
        self.place.gap = Some(survey.gap);
        self.solver = Some(found);
        Ok(Pass { objective: survey.objective, train, took, plan: None, updates, note: None })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let Some(held_out) = &self.held_out else { return Ok(None) };
        let mut scores = held_out.scores(&self.model.coefficients);
        for score in &mut scores {
            *score += self.model.intercept;
        }
        Ok(Some(figures::of(self.cluster, self.model.classes, &held_out.labels, &scores)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        (self.digests)()
    }

    fn finished(&self) -> Option<&'static str> {
        let tolerance = self.regression.settings.tolerance;
        if self.place.gap.is_some_and(|gap| gap <= tolerance) {
            Some("it has converged")
        } else if self.solver.as_ref().is_some_and(Solver::is_exhausted) {
            Some("what is left of the gap is rounding")
        } else {
            None
        }
    }

    fn same_bits(&self, _before: &ClusterFacts, _now: &ClusterFacts) -> bool {
        // Which columns were worked on is chosen anew.
        false
    }

    fn explanation(&self) -> Option<String> {
        let (peers, workers) = (self.cluster.size(), self.cluster.workers());
        let rows = self.ground.labels.len();
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (peers_said, workers_said) = (counted(peers, "peer"), counted(workers, "worker"));
        let then = match &self.regression.settings.schedule {
            None => "then go over the chosen ones together, block by block".to_owned(),
            Some(schedule) => format!("then update the chosen ones by a schedule: {schedule}"),
        };
        let others = match (peers > 1, &self.regression.settings.schedule) {
            (false, _) => "",
            (true, None) => "; sums over rows are all-reduced between peers in a ring",
            (true, Some(_)) => {
                "; sums of the survey are all-reduced between peers in a ring, results of updates go from each to all"
            }
        };
        Some(format!(
            "rows are divided among {peers_said} ({rows} here), and here among {workers_said}; in a round all share the survey of all columns and {then}{others}"
        ))
    }
}
