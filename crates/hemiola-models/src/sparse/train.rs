//! Training at one penalty: rounds of the solver as epochs of the fit loop.
//!
//! An epoch is a round: a working set is chosen and optimized, and all columns are surveyed. The
//! report shows the objective and the duality gap of each, which bounds how far the objective can
//! still fall. All peers hold the same coefficients.

use super::SparseRegression;
use super::examples::{SparseExamples, distribute};
use super::kernel::ColumnValue;
use super::metrics;
use super::model::SparseModel;
use super::problem::SparseProblem;
use super::quadratic::ElasticNetPenalty;
use super::settings::SparseSettings;
use super::solver::SparseSolver;
use crate::examples::ValidationDraw;
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, DatasetInfo, EpochResult, Fit, FitOptions, Metrics, TargetMetric, TrainingAlgorithm, TrainingSpec,
    fit_loop, labelled_digest,
};
use crate::{Error, Estimator};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_training::check_same_settings;
use serde::{Deserialize, Serialize};

impl Estimator for SparseRegression {
    type Data = LabelledData;
    type Settings = SparseSettings;
    type Model = SparseModel;

    fn settings(&self) -> &SparseSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        validation: Option<&LabelledData>,
        options: FitOptions<'_>,
    ) -> Result<Fit<SparseModel>> {
        let columns = examples.features.shape().extent(1);
        // Offsets of columns, coefficients and correlations.
        ensure_available(8 * 8 * columns as u128, || format!("a model of {columns} features"))?;
        let (distributed, _) = distribute(cluster, examples, columns)?;
        let validation_problem = validation
            .map(|validation| distribute(cluster, validation, columns))
            .transpose()?
            .map(|(distributed, _)| distributed);
        let digests = || Ok([labelled_digest(examples)?, validation.map_or(Ok(0), labelled_digest)?]);
        self.train(cluster, (distributed, validation_problem), Vec::new(), &digests, options)
    }
}

impl SparseRegression {
    /// *Collective.* Trains on rows that this peer already holds by columns. Such a run cannot be
    /// resumed, because the rows are not fingerprinted.
    pub fn fit_rows<T: ColumnValue>(&self, cluster: &Cluster, examples: SparseExamples<T>) -> Result<Fit<SparseModel>> {
        self.fit_rows_with(cluster, examples, Vec::new(), FitOptions::new())
    }

    /// *Collective.* Trains like [`fit_rows`](Self::fit_rows), from the coefficients `start` (column
    /// and value, by column), which save time where they are near the solution.
    pub fn fit_rows_with<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        examples: SparseExamples<T>,
        start: Vec<(u32, f64)>,
        options: FitOptions<'_>,
    ) -> Result<Fit<SparseModel>> {
        self.train(cluster, (examples, None), start, &|| Ok([0; 2]), options)
    }

    fn train<T: ColumnValue>(
        &self,
        cluster: &Cluster,
        (examples, validation_problem): (SparseExamples<T>, Option<SparseExamples<T>>),
        start: Vec<(u32, f64)>,
        digests: &dyn Fn() -> Result<[u64; 2]>,
        options: FitOptions<'_>,
    ) -> Result<Fit<SparseModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, settings.kind(), settings)?;
        let names = examples.names.clone();
        let problem = SparseProblem::new(cluster, examples, settings.loss)?;
        let (problem, validation_problem) = match validation_problem {
            Some(validation_problem) => {
                (problem, Some(SparseProblem::new(cluster, validation_problem, super::SparseLoss::Squared)?))
            }
            None => settings.held_out(problem),
        };
        let columns = problem.design.columns();
        let mine = (
            problem.labels.len(),
            validation_problem.as_ref().map_or(0, |validation_problem| validation_problem.labels.len()),
            columns,
        );
        let counts: Vec<(usize, usize, usize)> = cluster.all_gather(mine)?;
        if counts.iter().any(|peer| peer.2 != columns) {
            return Err(Error::ColumnMismatch.into());
        }
        let rows = counts.iter().map(|peer| peer.0).sum();
        if rows == 0 {
            return Err(Error::NoExamples.into());
        }
        let data =
            DatasetInfo { shape: vec![rows, columns], train: rows, validation: counts.iter().map(|peer| peer.1).sum() };
        let spec = TrainingSpec {
            model: settings.kind(),
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            // The objective selects the model, so that the solution is kept.
            metric: TargetMetric::minimize("objective"),
            data,
        };
        let model = SparseModel {
            intercept: 0.0,
            coefficients: start,
            lambda: 0.0,
            columns,
            classes: problem.classes,
            settings: settings.clone(),
            input: self.input.clone(),
            names,
        };
        let training = SparseTraining {
            cluster,
            regression: self,
            problem,
            validation_problem,
            digests,
            solver: None,
            model,
            progress: SparseProgress { gap: None },
        };
        fit_loop(cluster, training, spec, options)
    }
}

impl SparseSettings {
    /// Splits rows into those to train on and those held out for validation, if any are.
    pub(super) fn held_out<T: ColumnValue>(
        &self,
        problem: SparseProblem<T>,
    ) -> (SparseProblem<T>, Option<SparseProblem<T>>) {
        if self.validation == 0.0 {
            return (problem, None);
        }
        let draw = ValidationDraw::new(self.seed, self.validation, false);
        let apart = |row: usize| draw.holds_out(row);
        (problem.subset(|row| !apart(row)), Some(problem.subset(apart)))
    }
}

struct SparseTraining<'a, T> {
    cluster: &'a Cluster,
    regression: &'a SparseRegression,
    problem: SparseProblem<T>,
    validation_problem: Option<SparseProblem<T>>,
    digests: &'a dyn Fn() -> Result<[u64; 2]>,
    /// Solver; `None` before the first epoch.
    solver: Option<SparseSolver>,
    model: SparseModel,
    progress: SparseProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SparseProgress {
    /// Duality gap after the last epoch, relative to the objective without coefficients.
    gap: Option<f64>,
}

impl<T: ColumnValue> TrainingAlgorithm for SparseTraining<'_, T> {
    type Model = SparseModel;
    type State = SparseProgress;

    fn model(&self) -> &SparseModel {
        &self.model
    }

    fn state(&self) -> SparseProgress {
        self.progress
    }

    fn resume(&mut self, model: SparseModel, progress: SparseProgress) {
        self.solver = None;
        self.model = model;
        // The limits may have changed since the checkpoint.
        self.model.settings = self.regression.settings.clone();
        self.progress = progress;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let Self { cluster, regression, problem, solver, model, .. } = self;
        let settings = &regression.settings;
        let start = cluster.env().now();
        let before = solver.as_ref().map_or(0, |solver| solver.visited);
        let found = problem.with_reducer(cluster, |reducer| {
            let mut found = if let Some(solver) = solver.take() {
                solver
            } else {
                let mut fresh = problem.solver(reducer, settings)?;
                let lambda = fresh.lambda(settings.lambda, settings.l1_ratio);
                model.lambda = lambda;
                fresh.restore(reducer, &model.coefficients)?;
                fresh.set_penalty(reducer, ElasticNetPenalty::new(lambda, settings.l1_ratio))?;
                fresh
            };
            // Where the gap is closed there is nothing to do.
            if found.survey().gap > settings.tolerance {
                found.round(reducer)?;
            }
            Ok(found)
        })?;
        let survey = found.survey();
        if !survey.objective.is_finite() {
            return Err(Error::NonFiniteObjective.into());
        }
        (model.intercept, model.coefficients) = found.solution();
        let duration = cluster.env().now() - start;
        let train = Metrics::from([
            ("gap".to_owned(), survey.gap),
            ("nonzero".to_owned(), survey.support as f64),
            ("screened".to_owned(), (model.columns - survey.active) as f64),
            ("explained".to_owned(), 1.0 - survey.unexplained),
        ]);
        let updates = found.visited - before;
        self.progress.gap = Some(survey.gap);
        self.solver = Some(found);
        Ok(EpochResult::new(survey.objective, train, duration, updates))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let Some(validation_problem) = &self.validation_problem else { return Ok(None) };
        let mut scores = validation_problem.scores(&self.model.coefficients);
        for score in &mut scores {
            *score += self.model.intercept;
        }
        Ok(Some(metrics::metrics_of(self.cluster, self.model.classes, &validation_problem.labels, &scores)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        (self.digests)()
    }

    fn finished(&self) -> Option<&'static str> {
        let tolerance = self.regression.settings.tolerance;
        if self.progress.gap.is_some_and(|gap| gap <= tolerance) {
            Some("converged")
        } else if self.solver.as_ref().is_some_and(SparseSolver::is_exhausted) {
            Some("duality gap at rounding error")
        } else {
            None
        }
    }

    fn same_bits(&self, _before: &ClusterInfo, _now: &ClusterInfo) -> bool {
        // The working set is chosen anew.
        false
    }

    fn explanation(&self) -> Option<String> {
        let (peers, workers) = (self.cluster.size(), self.cluster.workers());
        let rows = self.problem.labels.len();
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let (peer_count, worker_count) = (counted(peers, "peer"), counted(workers, "worker"));
        let then = match &self.regression.settings.schedule {
            None => "then optimize the working set together, block by block".to_owned(),
            Some(schedule) => format!("then update the working set by a schedule: {schedule}"),
        };
        let others = match (peers > 1, &self.regression.settings.schedule) {
            (false, _) => "",
            (true, None) => "; sums over rows are all-reduced between peers (ring)",
            (true, Some(_)) => {
                "; sums of the survey are all-reduced between peers (ring), results of updates are all-gathered"
            }
        };
        Some(format!(
            "rows are distributed over {peer_count} ({rows} here), and here over {worker_count}; in a round all workers share the survey of all columns and {then}{others}"
        ))
    }
}
