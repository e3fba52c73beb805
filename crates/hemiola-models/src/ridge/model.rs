//! Trained ridge regression: prediction, evaluation and saving.

use super::settings::RidgeSettings;
use crate::estimator::required;
use crate::examples::{BlockedRows, ExampleBlock, ExampleEvaluation, block_values, row_values, targets_of};
use crate::input::InputSchema;
use crate::linear::{count_beyond, labels};
use crate::sparse::metrics_of;
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use std::sync::Arc;

/// Trained ridge regression, replicated on all peers.
#[derive(Clone, Debug)]
pub struct RidgeModel {
    /// Prediction where all features are 0.
    pub intercept: f64,
    /// Settings of the training.
    pub settings: RidgeSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    /// Feature names, where the training data had some.
    pub(super) names: Option<Arc<Vec<String>>>,
    pub(super) weights: Arc<Vec<f64>>,
}

impl RidgeModel {
    /// Kind of the model in saves and reports.
    pub const KIND: &'static str = "ridge";

    /// Returns the weight of each feature.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Iterates over name and value of each nonzero weight. Columns without names go by their number,
    /// counted from 1.
    pub fn named(&self) -> impl Iterator<Item = (String, f64)> {
        let name = |column: usize| match self.names.as_ref().and_then(|names| names.get(column)) {
            Some(name) => name.clone(),
            None => (column + 1).to_string(),
        };
        let nonzero = self.weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        nonzero.map(move |(column, weight)| (name(column), *weight))
    }

    /// *Collective.* Returns the number of feature values unknown to the model, which predictions
    /// drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.weights.len())
    }

    /// *Collective.* Evaluates the model on examples: `rmse`, `mae` and `r2`.
    pub fn evaluate(&self, cluster: &Cluster, examples: &LabelledData) -> Result<ExampleEvaluation> {
        let labels = labels(examples)?;
        let columns = self.weights.len();
        let split =
            BlockedRows::distribute(cluster, &examples.features, Some(&labels), labels.len(), columns, |_| false)?;
        let (examples, metrics) = self.metrics(cluster, &split.train.blocks)?;
        if examples == 0 {
            return Err(Error::NoExamples.into());
        }
        Ok(ExampleEvaluation { metrics, examples, unknown_features: split.dropped, confusion: None })
    }

    pub(super) fn metrics(&self, cluster: &Cluster, blocks: &[ExampleBlock]) -> Result<(u64, Metrics)> {
        let scores = block_values(cluster, blocks, 1, |block, row, score| score[0] = self.score(block, row))?;
        metrics_of(cluster, None, &targets_of(blocks), &scores)
    }

    pub(super) fn score(&self, block: &ExampleBlock, row: usize) -> f64 {
        self.intercept + block.row(row).map(|(column, value)| self.weights[column] * f64::from(value)).sum::<f64>()
    }
}

impl Predictor for RidgeModel {
    type Input = DistArray<f32, 2>;
    type Prediction = f64;
    const KINDS: &'static [&'static str] = &[Self::KIND];

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    /// *Collective.* Predicts all examples, by row, equal on every peer. Unknown feature values
    /// are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<f64>> {
        row_values(cluster, features, self.weights.len(), 1, |block, row, score| score[0] = self.score(block, row))
    }
}

impl Checkpointable for RidgeModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { intercept, settings, input, names, weights } = self;
        let all: Vec<f64> = weights.iter().chain([intercept]).copied().collect();
        save.put_values(&format!("{prefix}coefficients"), [all.len()], &all)?;
        save.put_metadata("names", &names.as_deref());
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let mut weights = load.values::<f64, 1>(&format!("{prefix}coefficients"))?.values;
        let intercept = weights.pop().ok_or_else(|| Error::missing("coefficients"))?;
        let (settings, input) = (required(load, "settings")?, InputSchema::get(load)?);
        let names = load.metadata::<Option<Vec<String>>>("names")?.flatten().map(Arc::new);
        Ok(Self { intercept, settings, input, names, weights: Arc::new(weights) })
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        ((self.weights.len() + 1) * size_of::<f64>()) as u64
    }
}
