//! Solvers of ridge regression: a factorization of the normal equations, or conjugate gradients.
//!
//! **Invariant:** between iterations of conjugate gradients, `residual = X'y - (X'X + alpha I) w` up
//! to rounding, and `direction` is conjugate to those before. Both are saved in checkpoints.

use super::RidgeRegression;
use super::model::RidgeModel;
use super::normal_equations::{DIRECT_COLUMNS, LeastSquaresMoments, RowWeights, weight_of};
use super::settings::RidgeSettings;
use crate::examples::{BlockedRows, FitRows, LabelledFit, feature_names, tree_sum};
use crate::memory::ensure_available;
use crate::training::{
    Checkpointable, ClusterInfo, EpochResult, Fit, FitOptions, Metrics, TargetMetric, TrainingAlgorithm, TrainingSpec,
    check_same_settings, fit_loop,
};
use crate::{Error, Estimator};
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl Estimator for RidgeRegression {
    type Data = LabelledData;
    type Settings = RidgeSettings;
    type Model = RidgeModel;

    fn settings(&self) -> &RidgeSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        validation: Option<&LabelledData>,
        options: FitOptions<'_>,
    ) -> Result<Fit<RidgeModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, RidgeModel::KIND, settings)?;
        let mut fit = LabelledFit::new(examples, validation, (settings.seed, settings.validation))?;
        let weights = fit.weigh(&self.weights, (&[], &[]))?;
        let columns = fit.columns();
        ensure_available(8 * 16 * (cluster.workers() as u128 + 1) * columns as u128, || {
            format!("a regression on {columns} features")
        })?;
        let FitRows { train, validation: validation_rows, data } = fit.distribute(cluster)?;
        let penalty = (settings.alpha, settings.intercept);
        let moments = LeastSquaresMoments::of(cluster, &train, columns, penalty, weights.clone())?;
        let model = RidgeModel {
            intercept: moments.label_mean,
            settings: settings.clone(),
            input: self.input.clone(),
            names: feature_names(&examples.features, columns),
            weights: Arc::new(vec![0.0; columns]),
        };
        let (residual, direction) =
            (Arc::new(moments.target.clone()), Arc::new(moments.preconditioned(&moments.target)));
        let spec = TrainingSpec {
            model: RidgeModel::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            // The minimum is the model that was asked for, not that of an epoch before.
            metric: TargetMetric::minimize("objective"),
            data,
        };
        let training = RidgeTraining {
            cluster,
            settings,
            fit,
            weights,
            rows: train,
            validation_rows,
            moments,
            snapshot: RidgeSnapshot { model, residual, direction },
            progress: RidgeProgress { epoch: 0, gradient: None, factorized: false },
        };
        fit_loop(cluster, training, spec, options)?.try_map(|snapshot| Ok(snapshot.model))
    }
}

/// Model, and the vectors of conjugate gradients.
#[derive(Clone, Debug)]
struct RidgeSnapshot {
    model: RidgeModel,
    residual: Arc<Vec<f64>>,
    direction: Arc<Vec<f64>>,
}

impl Checkpointable for RidgeSnapshot {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { model, residual, direction } = self;
        model.put(save, prefix)?;
        let both = [residual.as_slice(), direction].concat();
        save.put_values(&format!("{prefix}search"), [2, residual.len()], &both)
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let model = RidgeModel::get(load, prefix)?;
        let name = format!("{prefix}search");
        if !load.names().any(|stored| stored == name) {
            return Err(Error::missing("search directions: it was saved for prediction, not for training").into());
        }
        let array = load.values::<f64, 2>(&name)?;
        if array.extents != [2, model.weights.len()] {
            let problem = "its search directions are of another number of columns".to_owned();
            return Err(Error::InvalidSave { problem }.into());
        }
        let mut residual = array.values;
        let direction = residual.split_off(model.weights.len());
        Ok(Self { model, residual: Arc::new(residual), direction: Arc::new(direction) })
    }

    fn input(&self) -> Option<&crate::input::InputSchema> {
        self.model.input()
    }

    fn bytes(&self) -> u64 {
        self.model.bytes() + (2 * self.residual.len() * size_of::<f64>()) as u64
    }
}

struct RidgeTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a RidgeSettings,
    fit: LabelledFit<'a>,
    weights: RowWeights,
    rows: BlockedRows,
    validation_rows: BlockedRows,
    moments: LeastSquaresMoments,
    snapshot: RidgeSnapshot,
    progress: RidgeProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct RidgeProgress {
    epoch: u32,
    /// Norm of the gradient relative to that of zero weights.
    gradient: Option<f64>,
    /// True if the solution comes from a factorization.
    factorized: bool,
}

impl TrainingAlgorithm for RidgeTraining<'_> {
    type Model = RidgeSnapshot;
    type State = RidgeProgress;

    fn model(&self) -> &RidgeSnapshot {
        &self.snapshot
    }

    fn state(&self) -> RidgeProgress {
        self.progress
    }

    fn resume(&mut self, snapshot: RidgeSnapshot, progress: RidgeProgress) {
        self.snapshot = snapshot;
        // The limits may have changed since the checkpoint.
        self.snapshot.model.settings = self.settings.clone();
        self.progress = progress;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        let note = self.improve()?;
        let objective = self.objective()?;
        if !objective.is_finite() {
            return Err(Error::NonFiniteObjective.into());
        }
        self.progress.epoch += 1;
        let duration = self.cluster.env().now() - start;
        let penalty = self.settings.alpha * square(&self.snapshot.model.weights);
        let rmse = ((objective - penalty).max(0.0) / self.moments.total).sqrt();
        let mut train: Metrics = [("rmse".to_owned(), rmse)].into();
        train.extend(self.progress.gradient.map(|gradient| ("gradient".to_owned(), gradient)));
        Ok(EpochResult { note, ..EpochResult::new(objective, train, duration, self.rows.examples as u64) })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        if self.validation_rows.examples == 0 {
            return Ok(None);
        }
        Ok(Some(self.snapshot.model.metrics(self.cluster, &self.validation_rows.blocks)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        self.fit.digests()
    }

    fn finished(&self) -> Option<&'static str> {
        let RidgeProgress { gradient, factorized, .. } = self.progress;
        (factorized || gradient.is_some_and(|gradient| gradient <= self.settings.tolerance)).then_some("converged")
    }

    /// The order of all sums is that of the blocks.
    fn same_bits(&self, _before: &ClusterInfo, _now: &ClusterInfo) -> bool {
        true
    }

    fn explanation(&self) -> Option<String> {
        let (columns, peers) = (self.snapshot.model.weights.len(), self.cluster.size());
        Some(format!(
            "{} blocks of rows on {peers} peers, summed in the order of one tree; {}",
            self.rows.total_blocks(),
            if columns <= DIRECT_COLUMNS {
                format!("the normal equations of {columns} columns are factorized")
            } else {
                format!(
                    "conjugate gradients with a pass over the rows per iteration, and {columns} numbers from each peer"
                )
            }
        ))
    }
}

impl RidgeTraining<'_> {
    /// *Collective.* Solves the normal equations, or takes a step of conjugate gradients.
    fn improve(&mut self) -> Result<Option<String>> {
        let Self { cluster, settings, rows, moments, snapshot, progress, .. } = self;
        let columns = moments.target.len();
        let mut note = None;
        if progress.epoch == 0 && columns <= DIRECT_COLUMNS {
            if let Some(weights) = moments.solve(cluster, rows, settings.alpha)? {
                snapshot.set_weights(weights, moments);
                progress.factorized = true;
                return Ok(None);
            }
            note = Some("the normal equations are singular; conjugate gradients find one of many solutions".to_owned());
        }
        let RidgeSnapshot { model, residual, direction } = snapshot;
        let energy = moments.preconditioned_product(residual, residual);
        if energy > 0.0 {
            let product = moments.product(cluster, rows, settings.alpha, direction)?;
            let curvature: f64 = direction.iter().zip(&product).map(|(left, right)| left * right).sum();
            if curvature > 0.0 {
                let step = energy / curvature;
                let weights = model.weights.iter().zip(&**direction).map(|(weight, move_by)| weight + step * move_by);
                let weights: Vec<f64> = weights.collect();
                let rest: Vec<f64> = residual.iter().zip(&product).map(|(left, right)| left - step * right).collect();
                let turn = moments.preconditioned_product(&rest, &rest) / energy;
                let next = moments.preconditioned(&rest).into_iter().zip(&**direction);
                *direction = Arc::new(next.map(|(descent, before)| descent + turn * before).collect());
                *residual = Arc::new(rest);
                snapshot.set_weights(weights, moments);
            }
        }
        let RidgeSnapshot { residual, .. } = snapshot;
        let first = square(&moments.target).sqrt();
        progress.gradient = Some(if first > 0.0 { square(residual).sqrt() / first } else { 0.0 });
        Ok(note)
    }

    /// *Collective.* Returns the objective.
    fn objective(&self) -> Result<f64> {
        let (model, rows) = (&self.snapshot.model, &self.rows);
        let error = |index: usize| {
            let block = &rows.blocks[index];
            let square = |(row, target): (usize, &f64)| {
                weight_of(&self.weights, block, row) * (target - model.score(block, row)).powi(2)
            };
            block.targets.iter().enumerate().map(square).sum::<f64>()
        };
        let errors = tree_sum(self.cluster, rows, error, |left, right| left + right)?.unwrap_or(0.0);
        Ok(errors + self.settings.alpha * square(&model.weights))
    }
}

impl RidgeSnapshot {
    /// Sets the weights, and the intercept that belongs to them.
    fn set_weights(&mut self, weights: Vec<f64>, moments: &LeastSquaresMoments) {
        let shift: f64 = weights.iter().zip(&moments.means).map(|(weight, mean)| weight * mean).sum();
        self.model.intercept = moments.label_mean - shift;
        self.model.weights = Arc::new(weights);
    }
}

impl LeastSquaresMoments {
    /// Divides a vector by the diagonal. Columns that are 0 stay 0.
    fn preconditioned(&self, vector: &[f64]) -> Vec<f64> {
        let divided = |(value, diagonal): (&f64, &f64)| if *diagonal > 0.0 { value / diagonal } else { 0.0 };
        vector.iter().zip(&self.diagonal).map(divided).collect()
    }

    fn preconditioned_product(&self, left: &[f64], right: &[f64]) -> f64 {
        self.preconditioned(left).iter().zip(right).map(|(left, right)| left * right).sum()
    }
}

fn square(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum()
}
