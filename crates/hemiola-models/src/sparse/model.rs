//! Trained sparse regression: an intercept and the nonzero coefficients.
//!
//! All peers have the whole model. Coefficients are in the scale of the data, regardless of
//! centring and scaling in the solver.

use super::examples::distribute;
use super::loss::sigmoid;
use super::metrics;
use super::settings::SparseSettings;
use crate::estimator::required;
use crate::input::InputSchema;
use crate::linear::{ConfusionMatrix, count_beyond};
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::CollectiveExt;
use hemiola_collective::{Algorithm, ReduceOp};
use serde::Serialize;
use std::sync::Arc;

/// Trained sparse regression, replicated on all peers.
#[derive(Clone, Debug)]
pub struct SparseModel {
    /// Prediction where all features are 0; the log-odds for two classes.
    pub intercept: f64,
    /// Column and value of each nonzero coefficient, by column.
    pub coefficients: Vec<(u32, f64)>,
    /// Penalty strength `lambda` of the solution.
    pub lambda: f64,
    /// Number of columns of the training data.
    pub columns: usize,
    /// Labels of the two classes, ascending; `None` for regression.
    pub classes: Option<[f32; 2]>,
    /// Settings of the training.
    pub settings: SparseSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    pub(super) names: Option<Arc<Vec<String>>>,
}

/// Prediction for one example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SparsePrediction {
    /// Predicted quantity, or the label of the likelier class.
    pub value: f64,
    /// Probability of the second class; `None` for regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

/// Evaluation of a model on examples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SparseEvaluation {
    /// Metrics of the examples, by name.
    pub metrics: Metrics,
    /// Number of evaluated examples.
    pub examples: u64,
    /// Number of feature values unknown to the model; they were dropped.
    pub unknown_features: u64,
    /// Examples by true and predicted class; `None` for regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confusion: Option<ConfusionMatrix>,
}

impl SparseModel {
    /// Iterates over name and value of each nonzero coefficient. Columns without names go by their
    /// number, counted from 1.
    pub fn named(&self) -> impl Iterator<Item = (String, f64)> {
        self.coefficients.iter().map(|(column, value)| (self.name(*column), *value))
    }

    /// Returns the name of a column, or its number counted from 1.
    #[must_use]
    pub fn name(&self, column: u32) -> String {
        let name = self.names.as_ref().and_then(|names| names.get(column as usize));
        name.map_or_else(|| (u64::from(column) + 1).to_string(), Clone::clone)
    }

    /// *Collective.* Returns the number of feature values unknown to the model, which predictions
    /// drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.columns)
    }

    /// *Collective.* Evaluates the model on examples. An unknown label counts as an error of the
    /// model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &LabelledData) -> Result<SparseEvaluation> {
        let (distributed, unknown_features) = distribute(cluster, examples, self.columns)?;
        let columns: Vec<u32> = self.coefficients.iter().map(|(column, _)| *column).collect();
        let amounts: Vec<f64> = self.coefficients.iter().map(|(_, value)| *value).collect();
        let design = super::design::DesignMatrix::new(distributed.columns, 1);
        let mut scores = vec![self.intercept; distributed.target.len()];
        design.add((&columns, &amounts), 0, &[], &mut Vec::new(), &mut scores);
        let (examples, mut metrics) = metrics::metrics_of(cluster, self.classes, &distributed.target, &scores)?;
        if examples == 0 {
            return Err(Error::NoExamples.into());
        }
        let confusion = match self.classes {
            Some(classes) => {
                let names = classes.iter().map(f32::to_string).collect();
                metrics::confusion_of(cluster, (classes, names), &distributed.target, &scores)?
            }
            None => None,
        };
        metrics.extend(confusion.as_ref().map(ConfusionMatrix::metrics).unwrap_or_default());
        Ok(SparseEvaluation { metrics, examples, unknown_features, confusion })
    }
}

impl Predictor for SparseModel {
    type Input = DistArray<f32, 2>;
    type Prediction = SparsePrediction;
    const KINDS: &'static [&'static str] = &["lasso", "elastic-net", "sparse-logistic"];

    fn kind(&self) -> &'static str {
        self.settings.kind()
    }

    /// *Collective.* Predicts all examples, by row, equal on every peer. Unknown feature values
    /// are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<SparsePrediction>> {
        let mut scores = vec![0.0; features.shape().extent(0)];
        features.for_each(|[row, column], value| {
            if let Ok(index) = self.coefficients.binary_search_by_key(&column, |(column, _)| *column as usize) {
                scores[row] += self.coefficients[index].1 * f64::from(*value);
            }
        });
        cluster.communicator()?.with_algorithm(Algorithm::Ring).all_reduce(&mut scores, ReduceOp::Sum)?;
        let predict = |score: f64| match self.classes {
            None => SparsePrediction { value: score + self.intercept, probability: None },
            Some(classes) => {
                let score = score + self.intercept;
                SparsePrediction {
                    value: f64::from(classes[usize::from(score > 0.0)]),
                    probability: Some(sigmoid(score)),
                }
            }
        };
        Ok(scores.into_iter().map(predict).collect())
    }
}

impl Checkpointable for SparseModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let mut all = vec![0.0; self.columns + 1];
        for (column, value) in &self.coefficients {
            all[*column as usize] = *value;
        }
        all[self.columns] = self.intercept;
        save.put_values(&format!("{prefix}coefficients"), [all.len()], &all)?;
        save.put_metadata(&format!("{prefix}lambda"), &self.lambda);
        save.put_metadata("classes", &self.classes);
        save.put_metadata("names", &self.names.as_deref());
        save.put_metadata("settings", &self.settings);
        InputSchema::put(self.input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let mut all = load.values::<f64, 1>(&format!("{prefix}coefficients"))?.values;
        let intercept = all.pop().ok_or_else(|| Error::missing("coefficients"))?;
        let coefficients = all.iter().enumerate().filter(|(_, value)| **value != 0.0);
        Ok(Self {
            intercept,
            coefficients: coefficients.map(|(column, value)| (column as u32, *value)).collect(),
            lambda: required(load, &format!("{prefix}lambda"))?,
            columns: all.len(),
            classes: required(load, "classes")?,
            settings: required(load, "settings")?,
            input: InputSchema::get(load)?,
            names: load.metadata::<Option<Vec<String>>>("names")?.flatten().map(Arc::new),
        })
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        ((self.columns + 1) * size_of::<f64>()) as u64
    }
}
