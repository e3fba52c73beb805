//! Search and cross-validation of sparse regressions.

use super::settings::{Lambda, SparseRegressionBuilder, SparseSettings};
use super::{SparseLoss, SparseModel, SparseRegression};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::dist::LabelledData;

/// Default ranges of the lasso and of logistic regression with an L1 penalty.
const LASSO: [Parameter; 3] = [
    Parameter { name: "lambda-ratio", kind: ParameterKind::Number, domain: Some("0.001..1 log") },
    Parameter { name: "lambda", kind: ParameterKind::Number, domain: None },
    Parameter { name: "l1-ratio", kind: ParameterKind::Number, domain: None },
];
/// Default ranges of elastic nets.
const ELASTIC_NET: [Parameter; 3] =
    [LASSO[0], LASSO[1], Parameter { name: "l1-ratio", kind: ParameterKind::Number, domain: Some("0.05..1") }];

impl SparseRegression {
    fn rebuilt(&self, settings: SparseSettings) -> Result<Self, Error> {
        Ok(SparseRegressionBuilder::from(settings).build()?.with_input(self.input.clone()))
    }
}

impl Tunable for SparseRegression {
    fn parameters(&self) -> Vec<Parameter> {
        if self.settings.kind() == "elastic-net" { ELASTIC_NET.to_vec() } else { LASSO.to_vec() }
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        setting(values, "lambda-ratio", &mut settings.lambda, |value| value.as_number().map(Lambda::Share))?;
        setting(values, "lambda", &mut settings.lambda, |value| value.as_number().map(Lambda::Value))?;
        setting(values, "l1-ratio", &mut settings.l1_ratio, SettingValue::as_number)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(SparseSettings { limits, validation: 0.0, ..self.settings.clone() })
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        match self.settings.loss {
            SparseLoss::Squared => TargetMetric::minimize("rmse"),
            SparseLoss::Logistic => TargetMetric::minimize("logloss"),
        }
    }

    fn chooses_epochs(&self) -> bool {
        false
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &SparseModel,
        _train: &LabelledData,
        held_out: &LabelledData,
    ) -> Result<Metrics> {
        Ok(model.evaluate(cluster, held_out)?.metrics)
    }
}
