//! Truncated Newton steps for softmax regression.
//!
//! **Invariant:** a step is a function of the weights, so a resumed run, which computes the gradient
//! anew, goes on with the same bits.

use super::SoftmaxRegression;
use super::model::SoftmaxModel;
use super::objective::{SoftmaxObjective, SoftmaxValue};
use super::settings::SoftmaxSettings;
use crate::examples::{BlockedRows, FitRows, LabelledFit};
use crate::linear::classes;
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, EpochResult, Fit, FitOptions, Metrics, TargetMetric, TrainingAlgorithm, TrainingSpec,
    check_same_settings, fit_loop,
};
use crate::{Error, Estimator};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of conjugate gradient iterations per step.
const MAX_ITERATIONS: usize = 250;
/// Conjugate gradients stop at this fraction of the gradient, or earlier far from the minimum.
const DIRECTION_ACCURACY: f64 = 0.1;
/// Fraction of the decrease predicted by the gradient that a step must reach.
const SUFFICIENT_DECREASE: f64 = 1e-4;
/// Maximum number of halvings of a step; after that, only rounding is left to gain.
const MAX_HALVINGS: u32 = 30;

impl Estimator for SoftmaxRegression {
    type Data = LabelledData;
    type Settings = SoftmaxSettings;
    type Model = SoftmaxModel;

    fn settings(&self) -> &SoftmaxSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        validation: Option<&LabelledData>,
        options: FitOptions<'_>,
    ) -> Result<Fit<SoftmaxModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, SoftmaxModel::KIND, settings)?;
        let mut fit = LabelledFit::new(examples, validation, (settings.seed, settings.validation))?;
        let found = classes(&fit.trained_on(), &self.names)?;
        let weights = fit.weigh(&self.weights, (&found, &self.names))?;
        let columns = fit.columns();
        // Weights and vectors of a step, and sums of each worker on the way up the tree.
        let copies = 8 + 8 * cluster.workers();
        ensure_available((8 * copies * found.len()) as u128 * (columns as u128 + 1), || {
            format!("a softmax regression of {columns} features for {} classes", found.len())
        })?;
        let FitRows { mut train, validation: validation_rows, data } = fit.distribute(cluster)?;
        for target in train.blocks.iter_mut().flat_map(|block| &mut block.targets) {
            let class = found.binary_search_by(|class| f64::from(*class).total_cmp(&(*target + 0.0)));
            *target = class.expect("every label of a training row is a class") as f64;
        }
        let model = SoftmaxModel {
            names: self.names.clone(),
            settings: settings.clone(),
            input: self.input.clone(),
            weights: Arc::new(vec![0.0; found.len() * (columns + 1)]),
            classes: found,
        };
        let spec = TrainingSpec {
            model: SoftmaxModel::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            // The minimum is the model that was asked for, not that of an epoch before.
            metric: TargetMetric::minimize("objective"),
            data,
        };
        let (c, intercept) = (settings.c, settings.intercept);
        let training = SoftmaxTraining {
            cluster,
            settings,
            fit,
            objective: SoftmaxObjective { rows: train, classes: model.classes.len(), columns, c, intercept, weights },
            validation_rows,
            model,
            value: None,
            progress: SoftmaxProgress { first_norm: None, gradient: None, exhausted: false },
        };
        fit_loop(cluster, training, spec, options)
    }
}

struct SoftmaxTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a SoftmaxSettings,
    fit: LabelledFit<'a>,
    objective: SoftmaxObjective,
    validation_rows: BlockedRows,
    model: SoftmaxModel,
    /// Objective and gradient of the model, if they are known.
    value: Option<SoftmaxValue>,
    progress: SoftmaxProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SoftmaxProgress {
    /// Norm of the gradient of zero weights.
    first_norm: Option<f64>,
    /// Norm of the gradient relative to it.
    gradient: Option<f64>,
    /// True if no step decreased the objective: it is minimal up to rounding.
    exhausted: bool,
}

impl TrainingAlgorithm for SoftmaxTraining<'_> {
    type Model = SoftmaxModel;
    type State = SoftmaxProgress;

    fn model(&self) -> &SoftmaxModel {
        &self.model
    }

    fn state(&self) -> SoftmaxProgress {
        self.progress
    }

    fn resume(&mut self, model: SoftmaxModel, progress: SoftmaxProgress) {
        // The limits may have changed since the checkpoint.
        self.model = SoftmaxModel { settings: self.settings.clone(), ..model };
        self.progress = progress;
        self.value = None;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        let value = self.step()?;
        let duration = self.cluster.env().now() - start;
        let mut train: Metrics =
            [("accuracy".to_owned(), value.accuracy), ("logloss".to_owned(), value.logloss)].into();
        train.extend(self.progress.gradient.map(|gradient| ("gradient".to_owned(), gradient)));
        let (objective, updates) = (value.objective, self.objective.rows.examples as u64);
        self.value = Some(value);
        Ok(EpochResult::new(objective, train, duration, updates))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        if self.validation_rows.examples == 0 {
            return Ok(None);
        }
        Ok(Some(self.model.metrics(self.cluster, &self.validation_rows.blocks)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        self.fit.digests()
    }

    fn finished(&self) -> Option<&'static str> {
        let SoftmaxProgress { gradient, exhausted, .. } = self.progress;
        (exhausted || gradient.is_some_and(|gradient| gradient <= self.settings.tolerance)).then_some("converged")
    }

    /// The order of all sums is that of the blocks.
    fn same_bits(&self, _before: &ClusterInfo, _now: &ClusterInfo) -> bool {
        true
    }

    fn explanation(&self) -> Option<String> {
        Some(format!(
            "Newton steps; {} blocks of rows on {} peers, summed in the order of one tree; in each pass a peer sends {} numbers",
            self.objective.rows.total_blocks(),
            self.cluster.size(),
            self.model.weights.len()
        ))
    }
}

impl SoftmaxTraining<'_> {
    /// *Collective.* Takes a Newton step; returns the objective after it.
    fn step(&mut self) -> Result<SoftmaxValue> {
        let (cluster, objective) = (self.cluster, &self.objective);
        let before = match self.value.take() {
            Some(value) => value,
            None => objective.value(cluster, &self.model.weights)?,
        };
        if !before.objective.is_finite() {
            return Err(Error::NonFiniteObjective.into());
        }
        let norm = product(&before.gradient, &before.gradient).sqrt();
        let first = *self.progress.first_norm.get_or_insert(norm);
        let direction = self.direction(&before.gradient, norm / first.max(f64::MIN_POSITIVE))?;
        let slope = product(&before.gradient, &direction);
        let mut length = 1.0;
        for _ in 0..MAX_HALVINGS {
            let weights = self.model.weights.iter().zip(&direction).map(|(weight, step)| weight + length * step);
            let weights: Vec<f64> = weights.collect();
            let after = objective.value(cluster, &weights)?;
            if slope < 0.0 && after.objective <= before.objective + SUFFICIENT_DECREASE * length * slope {
                self.model.weights = Arc::new(weights);
                let norm = product(&after.gradient, &after.gradient).sqrt();
                self.progress.gradient = Some(norm / first.max(f64::MIN_POSITIVE));
                return Ok(after);
            }
            if slope >= 0.0 {
                break;
            }
            length /= 2.0;
        }
        self.progress.exhausted = true;
        self.progress.gradient = Some(norm / first.max(f64::MIN_POSITIVE));
        Ok(before)
    }

    /// *Collective.* Solves the Newton equations for a direction by conjugate gradients, the more
    /// accurately the smaller the gradient is relative to that of zero weights.
    fn direction(&self, gradient: &[f64], relative: f64) -> Result<Vec<f64>> {
        let mut direction = vec![0.0; gradient.len()];
        let mut residual: Vec<f64> = gradient.iter().map(|value| -value).collect();
        let mut search = residual.clone();
        let mut energy = product(&residual, &residual);
        let goal = DIRECTION_ACCURACY.min(relative.sqrt()).powi(2) * energy;
        for _ in 0..MAX_ITERATIONS.min(2 * gradient.len()) {
            if energy <= goal {
                break;
            }
            let curved = self.objective.hessian_product(self.cluster, &self.model.weights, &search)?;
            let curvature = product(&search, &curved);
            if curvature <= 0.0 {
                break;
            }
            let length = energy / curvature;
            for index in 0..direction.len() {
                direction[index] += length * search[index];
                residual[index] -= length * curved[index];
            }
            let next = product(&residual, &residual);
            let turn = next / energy;
            for (search, residual) in search.iter_mut().zip(&residual) {
                *search = residual + turn * *search;
            }
            energy = next;
        }
        Ok(direction)
    }
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}
