//! Trained linear classifier: a weight per feature, for each binary problem.
//!
//! All peers have all weights. With two classes there is one problem, and a positive score predicts
//! the second class. With more there is one problem per class against the rest, and the highest
//! score wins.

use super::confusion::{ConfusionCounts, ConfusionMatrix};
use super::loss::LinearLoss;
use super::metrics::{ClassificationMetrics, predicted_class, probabilities};
use super::settings::LinearSettings;
use super::shard::{ExampleShard, distribute, labels};
use crate::estimator::required;
use crate::input::InputSchema;
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::CollectiveExt;
use hemiola_collective::{Algorithm, ReduceOp};
use serde::Serialize;
use std::sync::Arc;

/// Trained linear classifier, replicated on all peers.
#[derive(Clone, Debug)]
pub struct LinearModel {
    /// Labels of the classes, ascending.
    pub classes: Vec<f32>,
    /// Class names, if labels are indices into this list; empty for numeric labels.
    pub names: Vec<String>,
    /// Per problem: a weight for every feature, then the weight of the bias.
    pub(super) weights: Arc<Vec<f64>>,
    /// Settings of the training.
    pub settings: LinearSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    pub(super) cluster: Cluster,
}

/// Prediction for one example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinearPrediction {
    /// Label of the predicted class.
    pub label: f32,
    /// Class name, if classes have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Score of the second class, or of each class of more than two.
    pub scores: Vec<f64>,
    /// Probability of each class by ascending label, if the loss is logistic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<f64>,
}

/// Evaluation of a model on examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinearEvaluation {
    /// Metrics by name, as in [`metrics`](crate::metrics).
    pub metrics: Metrics,
    /// Number of evaluated examples.
    pub examples: u64,
    /// Number of feature values without a weight in the model; they were dropped.
    pub unknown_features: u64,
    /// Examples by true and predicted class; `None` for more than
    /// [`ConfusionMatrix::MAX_CLASSES`] classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<ConfusionMatrix>,
}

impl LinearModel {
    /// Creates a model with all weights 0. Where labels have names, only those of occurring classes
    /// are kept, renumbered.
    pub(super) fn start(
        cluster: &Cluster,
        mut classes: Vec<f32>,
        names: &[String],
        columns: usize,
        settings: &LinearSettings,
    ) -> Self {
        let names: Vec<String> = classes.iter().filter_map(|label| names.get(*label as usize).cloned()).collect();
        if !names.is_empty() {
            classes = (0..classes.len()).map(|index| index as f32).collect();
        }
        let problems = if classes.len() == 2 { 1 } else { classes.len() };
        let weights = Arc::new(vec![0.0; problems * (columns + 1)]);
        Self { classes, names, weights, settings: settings.clone(), input: None, cluster: cluster.clone() }
    }

    /// Returns the number of binary problems: one for two classes, or one per class.
    #[must_use]
    pub fn problems(&self) -> usize {
        if self.classes.len() == 2 { 1 } else { self.classes.len() }
    }

    /// Number of weights of a problem, including the bias.
    pub(super) fn width(&self) -> usize {
        self.weights.len() / self.problems().max(1)
    }

    /// Returns the number of features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width().saturating_sub(1)
    }

    /// Returns the feature weights of a problem, without the bias.
    #[must_use]
    pub fn weights(&self, problem: usize) -> &[f64] {
        let width = self.width();
        &self.weights[problem * width..(problem + 1) * width - 1]
    }

    /// Returns the intercept of a problem.
    #[must_use]
    pub fn intercept(&self, problem: usize) -> f64 {
        self.settings.bias * self.weights[(problem + 1) * self.width() - 1]
    }

    /// *Collective.* Returns the number of feature values without a weight, which predictions drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.columns())
    }

    /// *Collective.* Evaluates the model on examples. An unknown label counts as an error of the
    /// model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &LabelledData) -> Result<LinearEvaluation> {
        let labels = labels(examples)?;
        if labels.is_empty() {
            return Err(Error::NoExamples.into());
        }
        let sharded = distribute(cluster, examples, &labels, &self.classes, (self.columns(), 0), |_| false)?;
        let counted = self.scored(cluster, &sharded.shards, &ClassificationMetrics::with_confusion())?;
        let (examples, mut metrics) =
            ClassificationMetrics::gather(&counted, cluster, self.settings.loss.has_probabilities())?;
        let confusion = counted.iter().filter_map(|metrics| metrics.confusion.as_ref());
        let confusion = ConfusionCounts::gather(confusion, cluster, self.class_names())?;
        metrics.extend(confusion.as_ref().map(ConfusionMatrix::metrics).unwrap_or_default());
        Ok(LinearEvaluation { metrics, examples, unknown_features: sharded.dropped, confusion })
    }

    /// Returns the names of the classes, or their labels, by ascending label.
    #[must_use]
    pub fn class_names(&self) -> Vec<String> {
        if self.names.is_empty() { self.classes.iter().map(f32::to_string).collect() } else { self.names.clone() }
    }

    /// *Collective.* Evaluates sharded examples; returns their number and metrics.
    pub(super) fn metrics(&self, cluster: &Cluster, shards: &[ExampleShard]) -> Result<(u64, Metrics)> {
        let counted = self.scored(cluster, shards, &ClassificationMetrics::with_scores())?;
        ClassificationMetrics::gather(&counted, cluster, self.settings.loss.has_probabilities())
    }

    /// Adds all examples of each worker to a copy of `empty`.
    fn scored(
        &self,
        cluster: &Cluster,
        shards: &[ExampleShard],
        empty: &ClassificationMetrics,
    ) -> Result<Vec<ClassificationMetrics>> {
        cluster.each_worker(|worker| {
            let mut metrics = empty.clone();
            let mut scores = vec![0.0; self.problems()];
            for shard in shards.iter().skip(worker.index()).step_by(worker.count()) {
                for index in 0..shard.len() {
                    self.scores(shard, index, &mut scores);
                    metrics.add(&scores, shard.classes[index]);
                }
            }
            metrics
        })
    }

    /// Computes the score of an example for each problem.
    pub(super) fn scores(&self, shard: &ExampleShard, index: usize, scores: &mut [f64]) {
        let (row, width) = (shard.row(index), self.width());
        for (score, weights) in scores.iter_mut().zip(self.weights.chunks_exact(width)) {
            *score = row.dot(weights) + self.settings.bias * weights[width - 1];
        }
    }
}

impl Predictor for LinearModel {
    type Input = DistArray<f32, 2>;
    type Prediction = LinearPrediction;
    const KINDS: &'static [&'static str] = &[LinearLoss::Hinge.kind(), LinearLoss::Logistic.kind()];

    fn kind(&self) -> &'static str {
        self.settings.loss.kind()
    }

    /// *Collective.* Predicts all examples, by row, equal on every peer. Feature values without a
    /// weight are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<LinearPrediction>> {
        let (rows, problems) = (features.shape().extent(0), self.problems());
        let mut scores = vec![0.0; rows * problems];
        features.for_each(|[row, column], value| {
            if column < self.columns() {
                for (problem, score) in scores[row * problems..][..problems].iter_mut().enumerate() {
                    *score += self.weights[problem * self.width() + column] * f64::from(*value);
                }
            }
        });
        cluster.communicator()?.with_algorithm(Algorithm::Ring).all_reduce(&mut scores, ReduceOp::Sum)?;
        let predicted = scores.chunks_exact(problems).map(|products| {
            let score = |(problem, product): (usize, &f64)| product + self.intercept(problem);
            let scores: Vec<f64> = products.iter().enumerate().map(score).collect();
            let probabilities =
                if self.settings.loss.has_probabilities() { probabilities(&scores).collect() } else { Vec::new() };
            let class = predicted_class(&scores) as usize;
            LinearPrediction { label: self.classes[class], name: self.names.get(class).cloned(), scores, probabilities }
        });
        Ok(predicted.collect())
    }
}

/// *Collective.* Returns the number of feature values in columns from `columns` on.
pub(crate) fn count_beyond(cluster: &Cluster, features: &DistArray<f32, 2>, columns: usize) -> Result<u64> {
    let mut count = 0_u64;
    features.for_each(|[_, column], _| count += u64::from(column >= columns));
    Ok(cluster.all_gather(count)?.into_iter().sum())
}

impl Checkpointable for LinearModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { classes, names, weights, settings, input, cluster: _ } = self;
        save.put_values(&format!("{prefix}weights"), [self.problems(), self.width()], weights)?;
        save.put_metadata("classes", classes);
        if !names.is_empty() {
            save.put_metadata("class names", names);
        }
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let saved = load.values::<f64, 2>(&format!("{prefix}weights"))?;
        let [problems, width] = saved.extents;
        let classes: Vec<f32> = required(load, "classes")?;
        // Old saves have no class names.
        let names: Vec<String> = load.metadata("class names")?.unwrap_or_default();
        let settings = required(load, "settings")?;
        let (input, cluster) = (InputSchema::get(load)?, load.cluster().clone());
        let model = Self { classes, names, weights: Arc::new(saved.values), settings, input, cluster };
        if !model.names.is_empty() && model.names.len() != model.classes.len() {
            let problem = format!("it has {} names for {} classes", model.names.len(), model.classes.len());
            return Err(Error::InvalidSave { problem }.into());
        }
        if model.classes.len() < 2 || problems != model.problems() || width == 0 {
            let problem = format!("it has weights for {problems} problems and {} classes", model.classes.len());
            return Err(Error::InvalidSave { problem }.into());
        }
        Ok(model)
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        (self.weights.len() * size_of::<f64>()) as u64
    }
}
