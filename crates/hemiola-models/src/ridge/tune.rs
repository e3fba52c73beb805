//! Search and cross-validation of ridge regressions.

use super::settings::{RidgeBuilder, RidgeSettings};
use super::{RidgeModel, RidgeRegression};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::dist::LabelledData;

/// Settings that can be searched.
const PARAMETERS: [Parameter; 1] =
    [Parameter { name: "alpha", kind: ParameterKind::Number, domain: Some("0.0001..10000 log") }];

impl RidgeRegression {
    fn rebuilt(&self, settings: RidgeSettings) -> Result<Self, Error> {
        let rebuilt = RidgeBuilder::from(settings).build()?;
        Ok(rebuilt.with_input(self.input.clone()).weighted(self.weights.clone()))
    }
}

impl Tunable for RidgeRegression {
    fn parameters(&self) -> Vec<Parameter> {
        PARAMETERS.to_vec()
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        setting(values, "alpha", &mut settings.alpha, SettingValue::as_number)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(RidgeSettings { limits, validation: 0.0, ..self.settings.clone() })
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        TargetMetric::minimize("rmse")
    }

    fn chooses_epochs(&self) -> bool {
        false
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &RidgeModel,
        _train: &LabelledData,
        held_out: &LabelledData,
    ) -> Result<Metrics> {
        Ok(model.evaluate(cluster, held_out)?.metrics)
    }
}
