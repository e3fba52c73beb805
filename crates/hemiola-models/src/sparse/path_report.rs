//! Regularization path and cross-validation of a trained model, as reports hold them.
//!
//! A path has a coefficient for every feature and penalty. A report keeps the features with the
//! largest coefficients, and the number of nonzero coefficients for every penalty.

use super::cross_validation::CrossValidation;
use super::model::SparseModel;
use super::path::PathPoint;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Choice of the penalty of a sparse regression.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegularizationReport {
    /// Penalty strength `lambda` of the model.
    pub lambda: f64,
    /// Fraction of the L1 penalty.
    pub l1_ratio: f64,
    /// Cross-validated loss of every penalty, if the penalty was chosen by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_validation: Option<CrossValidation>,
    /// Coefficients by penalty, if the path was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<CoefficientPath>,
}

/// Coefficients of the features with the largest coefficients, by penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoefficientPath {
    /// Penalties in descending order, the model's own among them.
    pub lambdas: Vec<f64>,
    /// Number of nonzero coefficients for each penalty, of all features.
    pub nonzero: Vec<usize>,
    /// Number of features with a nonzero coefficient for any penalty.
    pub features: usize,
    /// At most [`CoefficientPath::MAX_FEATURES`] of these features, by descending absolute value of
    /// their largest coefficient.
    pub coefficients: Vec<FeaturePath>,
}

/// Coefficients of a feature by penalty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeaturePath {
    /// Name of the feature, or its number from 1.
    pub name: String,
    /// Coefficient for each penalty, in the units of the data.
    pub values: Vec<f64>,
}

impl CoefficientPath {
    /// Maximum number of features.
    pub const MAX_FEATURES: usize = 20;

    /// Collects the path of a model, in which the model is a point itself.
    #[must_use]
    pub fn of(model: &SparseModel, path: &[PathPoint]) -> Self {
        let own = (model.lambda, &model.coefficients);
        let mut points: Vec<(f64, &Vec<(u32, f64)>)> =
            path.iter().map(|point| (point.lambda, &point.coefficients)).collect();
        // A penalty of the grid may differ from the model's by rounding.
        points.retain(|(lambda, _)| (lambda - own.0).abs() > 1e-9 * own.0);
        points.push(own);
        points.sort_by(|left, right| right.0.total_cmp(&left.0));
        let mut columns: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (index, (_, coefficients)) in points.iter().enumerate() {
            for (column, value) in *coefficients {
                columns.entry(*column).or_insert_with(|| vec![0.0; points.len()])[index] = *value;
            }
        }
        let features = columns.len();
        let largest = |values: &[f64]| values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let mut columns: Vec<(u32, Vec<f64>)> = columns.into_iter().collect();
        columns.sort_by(|left, right| largest(&right.1).total_cmp(&largest(&left.1)));
        columns.truncate(Self::MAX_FEATURES);
        Self {
            lambdas: points.iter().map(|(lambda, _)| *lambda).collect(),
            nonzero: points.iter().map(|(_, coefficients)| coefficients.len()).collect(),
            features,
            coefficients: columns
                .into_iter()
                .map(|(column, values)| FeaturePath { name: model.name(column), values })
                .collect(),
        }
    }
}
