//! Trained softmax regression: prediction, evaluation and saving.

use super::objective::{highest, normalize, scores_of};
use super::settings::SoftmaxSettings;
use crate::estimator::required;
use crate::examples::{BlockedRows, ExampleBlock, ExampleEvaluation, block_values, row_values};
use crate::input::InputSchema;
use crate::linear::{
    ClassificationMetrics, ConfusionCounts, UNKNOWN_CLASS, class_name, class_names, count_beyond, labels,
};
use crate::training::{Checkpointable, Metrics};
use crate::{Error, Predictor};
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver, LabelledData};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::sync::Arc;

/// Trained softmax regression, replicated on all peers.
#[derive(Clone, Debug)]
pub struct SoftmaxModel {
    /// Labels of the classes, ascending.
    pub classes: Vec<f32>,
    /// Class names by label, if labels are indices into this list; empty for numeric labels.
    pub names: Vec<String>,
    /// Settings of the training.
    pub settings: SoftmaxSettings,
    /// Layout of the training files, by which new files are read.
    pub input: Option<InputSchema>,
    /// By class: a weight for every feature, then the intercept.
    pub(super) weights: Arc<Vec<f64>>,
}

/// Prediction for one example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SoftmaxPrediction {
    /// Label of the likeliest class.
    pub label: f32,
    /// Class name, if classes have names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Probability of each class by ascending label.
    pub probabilities: Vec<f64>,
}

impl SoftmaxModel {
    /// Kind of the model in saves and reports.
    pub const KIND: &'static str = "softmax";

    /// Number of weights of a class, including the intercept.
    fn width(&self) -> usize {
        self.weights.len() / self.classes.len()
    }

    /// Returns the names of the classes, or their labels, by ascending label.
    #[must_use]
    pub fn class_names(&self) -> Vec<String> {
        class_names(&self.names, &self.classes)
    }

    /// Returns the number of features.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width() - 1
    }

    /// Returns the feature weights of a class, by its index in [`classes`](Self::classes).
    ///
    /// # Panics
    /// If the model has no such class.
    #[must_use]
    pub fn weights(&self, class: usize) -> &[f64] {
        &self.weights[class * self.width()..][..self.columns()]
    }

    /// Returns the intercept of a class, by its index in [`classes`](Self::classes).
    ///
    /// # Panics
    /// If the model has no such class.
    #[must_use]
    pub fn intercept(&self, class: usize) -> f64 {
        self.weights[(class + 1) * self.width() - 1]
    }

    /// *Collective.* Returns the number of feature values unknown to the model, which predictions
    /// drop.
    pub fn unknown_features(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<u64> {
        count_beyond(cluster, features, self.columns())
    }

    /// *Collective.* Evaluates the model on examples: `accuracy`, `logloss`, and `auc` of two
    /// classes. An unknown label counts as an error of the model.
    pub fn evaluate(&self, cluster: &Cluster, examples: &LabelledData) -> Result<ExampleEvaluation> {
        let labels = labels(examples)?;
        let columns = self.columns();
        let split =
            BlockedRows::distribute(cluster, &examples.features, Some(&labels), labels.len(), columns, |_| false)?;
        let counted = [self.counted(cluster, &split.train.blocks, ClassificationMetrics::with_confusion())?];
        let (examples, metrics) = ClassificationMetrics::gather(&counted, cluster, true)?;
        if examples == 0 {
            return Err(Error::NoExamples.into());
        }
        let confusion = ConfusionCounts::gather(&counted[0].confusion, cluster, self.class_names())?;
        Ok(ExampleEvaluation { metrics, examples, unknown_features: split.dropped, confusion })
    }

    /// *Collective.* Evaluates blocks of examples whose targets are labels.
    pub(super) fn metrics(&self, cluster: &Cluster, blocks: &[ExampleBlock]) -> Result<(u64, Metrics)> {
        let counted = self.counted(cluster, blocks, ClassificationMetrics::with_scores())?;
        ClassificationMetrics::gather(&[counted], cluster, true)
    }

    /// Adds the examples of this peer to `metrics`.
    fn counted(
        &self,
        cluster: &Cluster,
        blocks: &[ExampleBlock],
        mut metrics: ClassificationMetrics,
    ) -> Result<ClassificationMetrics> {
        let classes = self.classes.len();
        let found = block_values(cluster, blocks, classes, |block, row, scores| {
            scores_of(block, row, &self.weights, self.width(), scores);
            normalize(scores);
        })?;
        let targets = blocks.iter().flat_map(|block| &block.targets);
        for (target, shares) in targets.zip(found.chunks_exact(classes)) {
            let class = self.classes.iter().position(|class| f64::from(*class).total_cmp(&(target + 0.0)).is_eq());
            metrics.add_probabilities(shares, class.map_or(UNKNOWN_CLASS, |class| class as u32));
        }
        Ok(metrics)
    }
}

impl Predictor for SoftmaxModel {
    type Input = DistArray<f32, 2>;
    type Prediction = SoftmaxPrediction;
    const KINDS: &'static [&'static str] = &[Self::KIND];

    fn kind(&self) -> &'static str {
        Self::KIND
    }

    /// *Collective.* Predicts all examples, by row, equal on every peer. Unknown feature values
    /// are dropped.
    fn predict(&self, cluster: &Cluster, features: &DistArray<f32, 2>) -> Result<Vec<SoftmaxPrediction>> {
        let found = row_values(cluster, features, self.columns(), self.classes.len(), |block, row, scores| {
            scores_of(block, row, &self.weights, self.width(), scores);
            normalize(scores);
        })?;
        let predict = |shares: &[f64]| {
            let class = highest(shares);
            let label = self.classes[class];
            let name = class_name(&self.names, label);
            SoftmaxPrediction { label, name, probabilities: shares.to_vec() }
        };
        Ok(found.chunks_exact(self.classes.len()).map(predict).collect())
    }
}

impl Checkpointable for SoftmaxModel {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { classes, names, settings, input, weights } = self;
        save.put_values(&format!("{prefix}weights"), [classes.len(), self.width()], weights)?;
        save.put_metadata("classes", classes);
        save.put_metadata("class names", names);
        save.put_metadata("settings", settings);
        InputSchema::put(input.as_ref(), save);
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let array = load.values::<f64, 2>(&format!("{prefix}weights"))?;
        let classes: Vec<f32> = required(load, "classes")?;
        let names: Vec<String> = required(load, "class names")?;
        let [rows, width] = array.extents;
        let named = |label: &f32| names.is_empty() || (*label as usize) < names.len();
        if classes.len() < 2 || rows != classes.len() || width == 0 || !classes.iter().all(named) {
            let problem =
                format!("it has weights of {rows} classes, {} labels and {} names", classes.len(), names.len());
            return Err(Error::InvalidSave { problem }.into());
        }
        Ok(Self {
            classes,
            names,
            settings: required(load, "settings")?,
            input: InputSchema::get(load)?,
            weights: Arc::new(array.values),
        })
    }

    fn input(&self) -> Option<&InputSchema> {
        self.input.as_ref()
    }

    fn bytes(&self) -> u64 {
        (self.weights.len() * size_of::<f64>()) as u64
    }
}
