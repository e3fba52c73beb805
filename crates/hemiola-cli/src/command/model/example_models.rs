//! Use of trained models of examples by `hemiola evaluate` and `predict`: factorization machines,
//! ridge and softmax regression, k-means.
//!
//! **Invariant:** new files are read by the layout of the training files, which the model keeps.

use super::batch::{class_cell, prediction_column};
use super::input_args::print_notes;
use super::linear::confusion_table;
use super::table_output::TableColumn;
use crate::plural::counted;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::fm::FmModel;
use hemiola_models::input::InputSchema;
use hemiola_models::kmeans::{KMeansModel, KMeansPrediction};
use hemiola_models::linear::data::{self, LinearExamples, LinearReadOptions};
use hemiola_models::ridge::RidgeModel;
use hemiola_models::softmax::SoftmaxModel;
use hemiola_models::{ExampleEvaluation, Predictor};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Kind of a model of examples, as its manifest has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExampleModelKind {
    Fm,
    Ridge,
    Softmax,
    KMeans,
}

impl ExampleModelKind {
    /// Returns the kind with a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            FmModel::KIND => Self::Fm,
            RidgeModel::KIND => Self::Ridge,
            SoftmaxModel::KIND => Self::Softmax,
            KMeansModel::KIND => Self::KMeans,
            _ => return None,
        })
    }

    /// Returns the kind in words, with an article.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Fm => "a factorization machine",
            Self::Ridge => "a ridge regression",
            Self::Softmax => "a softmax regression",
            Self::KMeans => "a k-means clustering",
        }
    }

    /// *Collective.* Loads a model of this kind.
    pub(super) fn load(self, cluster: &Cluster, folder: &Path) -> Result<ExampleModel> {
        Ok(match self {
            Self::Fm => ExampleModel::Fm(FmModel::load(cluster, folder)?),
            Self::Ridge => ExampleModel::Ridge(RidgeModel::load(cluster, folder)?),
            Self::Softmax => ExampleModel::Softmax(SoftmaxModel::load(cluster, folder)?),
            Self::KMeans => ExampleModel::KMeans(KMeansModel::load(cluster, folder)?),
        })
    }
}

/// Trained model of examples.
pub(super) enum ExampleModel {
    Fm(FmModel),
    Ridge(RidgeModel),
    Softmax(SoftmaxModel),
    KMeans(KMeansModel),
}

/// Predictions of examples.
pub(super) struct PredictedExamples {
    /// Columns after the id.
    pub(super) columns: Vec<TableColumn>,
    /// Cells of each example. The first is the prediction.
    pub(super) rows: Vec<Vec<Value>>,
    /// Predictions as JSON.
    pub(super) report: Value,
    /// Number of feature values unknown to the model.
    pub(super) unknown_features: u64,
}

impl PredictedExamples {
    fn new<T: Serialize>(
        columns: Vec<TableColumn>,
        found: &[T],
        unknown_features: u64,
        cells: impl Fn(&T) -> Vec<Value>,
    ) -> Self {
        let report = serde_json::to_value(found).expect("predictions are plain data");
        Self { columns, rows: found.iter().map(cells).collect(), report, unknown_features }
    }

    /// Returns the prediction of each example on a line.
    pub(super) fn text(&self) -> String {
        let line = |row: &Vec<Value>| match &row[0] {
            Value::String(name) => format!("{name}\n"),
            number => format!("{}\n", number.as_f64().unwrap_or(f64::NAN)),
        };
        self.rows.iter().map(line).collect()
    }
}

impl ExampleModel {
    /// Returns the layout of the training files.
    pub(super) fn input(&self) -> Option<&InputSchema> {
        match self {
            Self::Fm(model) => model.input.as_ref(),
            Self::Ridge(model) => model.input.as_ref(),
            Self::Softmax(model) => model.input.as_ref(),
            Self::KMeans(model) => model.input.as_ref(),
        }
    }

    /// Returns the class names by label; empty for numeric labels.
    fn names(&self) -> &[String] {
        match self {
            Self::Fm(model) => &model.names,
            Self::Softmax(model) => &model.names,
            Self::Ridge(_) | Self::KMeans(_) => &[],
        }
    }

    /// *Collective.* Reads files by the layout of the training files.
    fn read(&self, cluster: &Cluster, options: LinearReadOptions, files: &[String]) -> Result<LinearExamples> {
        let (names, schema) = (self.names().to_vec(), self.input().cloned());
        let read = data::read(cluster, &LinearReadOptions { names, schema, ..options }, files)?;
        print_notes(&read.notes);
        Ok(read)
    }

    /// Evaluates the model on files; returns text for people and the report.
    pub(super) fn evaluate(
        &self,
        cluster: &Cluster,
        options: LinearReadOptions,
        files: &[String],
    ) -> Result<(String, ExampleEvaluation)> {
        let without_labels = matches!(self, Self::KMeans(_));
        let examples = self.read(cluster, LinearReadOptions { without_labels, ..options }, files)?.labelled;
        let evaluation = match self {
            Self::Fm(model) => model.evaluate(cluster, &examples)?,
            Self::Ridge(model) => model.evaluate(cluster, &examples)?,
            Self::Softmax(model) => model.evaluate(cluster, &examples)?,
            Self::KMeans(model) => model.evaluate(cluster, &examples.features)?,
        };
        let mut text = counted(evaluation.examples, "example");
        if evaluation.unknown_features > 0 {
            let values = counted(evaluation.unknown_features, "value");
            let _ = write!(text, "; ignored: {values} of features the model does not know");
        }
        text.push('\n');
        for (name, value) in &evaluation.metrics {
            let _ = writeln!(text, "{name} {value:.4}");
        }
        text += &confusion_table(evaluation.confusion.as_ref());
        Ok((text, evaluation))
    }

    /// Predicts the examples of files: a class, a quantity, or a cluster on each line.
    pub(super) fn predict(
        &self,
        cluster: &Cluster,
        options: LinearReadOptions,
        files: &[String],
    ) -> Result<PredictedExamples> {
        let read = self.read(cluster, LinearReadOptions { without_labels: true, ..options }, files)?.labelled;
        let features = &read.features;
        // An example at the end may have no feature, and a feature row no example.
        let rows = |found: usize| read.labels.len().min(found);
        let probability = |class: &String| TableColumn::number(format!("probability_{class}"));
        Ok(match self {
            Self::Fm(model) => {
                let found = model.predict(cluster, features)?;
                let classes = model.class_names();
                let mut columns = match classes.get(1) {
                    Some(_) => vec![prediction_column(&classes)],
                    None => vec![TableColumn::number("prediction")],
                };
                columns.extend(classes.get(1).map(probability));
                let unknown = model.unknown_features(cluster, features)?;
                PredictedExamples::new(columns, &found[..rows(found.len())], unknown, |one| {
                    let value = match one.probability {
                        Some(_) => class_cell(one.name.as_deref(), one.value),
                        None => Value::from(one.value),
                    };
                    [value].into_iter().chain(one.probability.map(Value::from)).collect()
                })
            }
            Self::Ridge(model) => {
                let found = model.predict(cluster, features)?;
                let found: Vec<ValuePrediction> = found.iter().map(|value| ValuePrediction { value: *value }).collect();
                let unknown = model.unknown_features(cluster, features)?;
                let columns = vec![TableColumn::number("prediction")];
                PredictedExamples::new(columns, &found[..rows(found.len())], unknown, |one| vec![one.value.into()])
            }
            Self::Softmax(model) => {
                let found = model.predict(cluster, features)?;
                let classes = model.class_names();
                let mut columns = vec![prediction_column(&classes)];
                columns.extend(classes.iter().map(probability));
                let unknown = model.unknown_features(cluster, features)?;
                PredictedExamples::new(columns, &found[..rows(found.len())], unknown, |one| {
                    let class = class_cell(one.name.as_deref(), f64::from(one.label));
                    [class].into_iter().chain(one.probabilities.iter().map(|value| Value::from(*value))).collect()
                })
            }
            Self::KMeans(model) => {
                let found = model.predict(cluster, features)?;
                let unknown = model.unknown_features(cluster, features)?;
                let columns = vec![TableColumn::integer("cluster"), TableColumn::number("distance")];
                PredictedExamples::new(columns, &found[..rows(found.len())], unknown, |one: &KMeansPrediction| {
                    vec![one.cluster.into(), one.distance.into()]
                })
            }
        })
    }
}

/// Predicted quantity, in the report.
#[derive(Serialize)]
struct ValuePrediction {
    value: f64,
}
