//! Trained factorization machine: prediction, evaluation and saving.

use super::loss::FmLoss;
use super::parameters::{FeatureState, FmParameters, row_width};
use super::settings::FmSettings;
use crate::estimator::required;
use crate::examples::{BlockedRows, ExampleBlock, ExampleEvaluation, block_values, row_values, targets_of, unit_norm};
use crate::input::InputSchema;
use crate::linear::{class_name, class_names, count_beyond, labels};
use crate::sparse::{confusion_of, metrics_of};
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::sync::Arc;

/// Trained factorization machine, replicated on all peers.
#[derive(Clone, Debug)]
pub struct FmModel {
    /// Labels of the two classes, ascending; `None` for quantities.
    pub classes: Option<[f32; 2]>,
    /// Class names by label, if labels are indices into this list; empty for numeric labels.
    pub names: Vec<String>,
    /// Mean of the quantities in training; 0 for classes.
    pub mean: f64,
    /// Standard deviation of the quantities in training, the unit of scores; 1 for classes.
    pub deviation: f64,
    /// Settings of the training.
    pub settings: FmSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    pub(super) parameters: Arc<FmParameters>,
}

/// Prediction for one example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FmPrediction {
    /// Predicted quantity, or the label of the likelier class.
    pub value: f64,
    /// Class name, if classes have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Probability of the second class; `None` for quantities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

impl FmModel {
    /// Kind of the model in saves and reports.
    pub const KIND: &'static str = "fm";

    /// Returns the names of the two classes, or their labels, ascending; none for quantities.
    #[must_use]
    pub fn class_names(&self) -> Vec<String> {
        class_names(&self.names, self.classes.as_ref().map_or(&[], |classes| &classes[..]))
    }

    /// Returns the number of features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.parameters.columns()
    }

    /// Returns the weight of a feature alone.
    ///
    /// # Panics
    /// If the model has no such feature.
    #[must_use]
    pub fn weight(&self, feature: usize) -> f32 {
        self.parameters.states[feature].weight
    }

    /// Returns the factors of a feature. The dot product of two rows is the weight of the pair.
    ///
    /// # Panics
    /// If the model has no such feature.
    #[must_use]
    pub fn factors(&self, feature: usize) -> &[f32] {
        &self.parameters.factors[feature * self.parameters.width..][..self.settings.rank as usize]
    }

    /// Returns the score of an example without features.
    #[must_use]
    pub fn intercept(&self) -> f32 {
        self.parameters.bias
    }

    /// *Collective.* Returns the number of feature values unknown to the model, which predictions
    /// drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.columns())
    }

    /// *Collective.* Evaluates the model on examples. An unknown label counts as an error of the
    /// model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &LabelledData) -> Result<ExampleEvaluation> {
        let labels = labels(examples)?;
        let columns = self.columns();
        let split =
            BlockedRows::distribute(cluster, &examples.features, Some(&labels), labels.len(), columns, |_| false)?;
        let blocks = &split.train.blocks;
        let (scores, targets) = (self.scores(cluster, blocks)?, targets_of(blocks));
        let (examples, metrics) = metrics_of(cluster, self.classes, &targets, &scores)?;
        if examples == 0 {
            return Err(Error::NoExamples.into());
        }
        let confusion = match self.classes {
            Some(classes) => confusion_of(cluster, (classes, class_names(&self.names, &classes)), &targets, &scores)?,
            None => None,
        };
        Ok(ExampleEvaluation { metrics, examples, unknown_features: split.dropped, confusion })
    }

    /// *Collective.* Evaluates the model on blocks of examples; returns their number and metrics.
    pub(super) fn metrics(&self, cluster: &Cluster, blocks: &[ExampleBlock]) -> Result<(u64, Metrics)> {
        metrics_of(cluster, self.classes, &targets_of(blocks), &self.scores(cluster, blocks)?)
    }

    /// Computes the quantities or the log-odds of the examples of this peer.
    fn scores(&self, cluster: &Cluster, blocks: &[ExampleBlock]) -> Result<Vec<f64>> {
        block_values(cluster, blocks, 1, |block, row, score| score[0] = self.score(block, row))
    }

    /// Computes the quantity or the log-odds of an example.
    fn score(&self, block: &ExampleBlock, row: usize) -> f64 {
        let (columns, mut values) = block.slices(row);
        let mut scaled = Vec::new();
        if self.settings.normalize {
            scaled.extend_from_slice(values);
            unit_norm(&mut scaled);
            values = &scaled;
        }
        let mut sums = vec![0.0; self.parameters.width];
        self.mean + self.deviation * f64::from(self.parameters.score(columns, values, &mut sums))
    }
}

impl Predictor for FmModel {
    type Input = DistArray<f32, 2>;
    type Prediction = FmPrediction;
    const KINDS: &'static [&'static str] = &[Self::KIND];

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    /// *Collective.* Predicts all examples, by row, equal on every peer. Unknown feature values
    /// are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<FmPrediction>> {
        let all =
            row_values(cluster, features, self.columns(), 1, |block, row, score| score[0] = self.score(block, row))?;
        let predict = |score: f64| match self.classes {
            None => FmPrediction { value: score, name: None, probability: None },
            Some(classes) => {
                let class = usize::from(score > 0.0);
                let probability = Some(1.0 / (1.0 + (-score).exp()));
                FmPrediction {
                    value: f64::from(classes[class]),
                    name: class_name(&self.names, classes[class]),
                    probability,
                }
            }
        };
        Ok(all.into_iter().map(predict).collect())
    }
}

impl Checkpointable for FmModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { classes, names, mean, deviation, settings, input, parameters } = self;
        let FmParameters { width, bias, bias_sum, factors, states } = &**parameters;
        save.put_values(&format!("{prefix}factors"), [states.len(), *width], factors)?;
        let rows: Vec<f32> = states.iter().flat_map(|state| state.to_row()).collect();
        save.put_values(&format!("{prefix}state"), [states.len(), FeatureState::WIDTH], &rows)?;
        save.put_values(&format!("{prefix}intercept"), [2], &[*bias, *bias_sum])?;
        save.put_metadata("classes", classes);
        save.put_metadata("class names", names);
        save.put_metadata("mean", mean);
        save.put_metadata("deviation", deviation);
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let factors = load.values::<f32, 2>(&format!("{prefix}factors"))?;
        let states = load.values::<f32, 2>(&format!("{prefix}state"))?;
        let intercept = load.values::<f32, 1>(&format!("{prefix}intercept"))?;
        let settings: FmSettings = required(load, "settings")?;
        let [features, width] = factors.extents;
        let wanted = row_width(settings.rank as usize);
        if width != wanted || states.extents != [features, FeatureState::WIDTH] || intercept.extents != [2] {
            let stored = states.extents;
            let problem = format!("its arrays are of {features} features with {width} factors and {stored:?} numbers");
            return Err(Error::InvalidSave { problem }.into());
        }
        let classes: Option<[f32; 2]> = required(load, "classes")?;
        let names: Vec<String> = required(load, "class names")?;
        let named = |label: &f32| names.is_empty() || (*label as usize) < names.len();
        if (settings.loss == FmLoss::Logistic) != classes.is_some() || !classes.iter().flatten().all(named) {
            let problem = format!("it has the loss `{}` and {} class names", settings.loss.name(), names.len());
            return Err(Error::InvalidSave { problem }.into());
        }
        let parameters = FmParameters {
            width,
            bias: intercept.values[0],
            bias_sum: intercept.values[1],
            factors: factors.values,
            states: states.values.as_chunks::<4>().0.iter().map(|row| FeatureState::of_row(*row)).collect(),
        };
        Ok(Self {
            classes,
            names,
            mean: required(load, "mean")?,
            deviation: required(load, "deviation")?,
            settings,
            input: InputSchema::get(load)?,
            parameters: Arc::new(parameters),
        })
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        let FmParameters { factors, states, .. } = &*self.parameters;
        ((factors.len() + FeatureState::WIDTH * states.len()) * size_of::<f32>()) as u64
    }
}
