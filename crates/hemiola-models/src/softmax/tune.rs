//! Search and cross-validation of softmax regressions.

use super::settings::{SoftmaxBuilder, SoftmaxSettings};
use super::{SoftmaxModel, SoftmaxRegression};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::dist::LabelledData;

/// Settings that can be searched.
const PARAMETERS: [Parameter; 1] =
    [Parameter { name: "c", kind: ParameterKind::Number, domain: Some("0.0001..100 log") }];

impl SoftmaxRegression {
    fn rebuilt(&self, settings: SoftmaxSettings) -> Result<Self, Error> {
        let rebuilt = SoftmaxBuilder::from(settings).build()?.named(self.names.clone());
        Ok(rebuilt.with_input(self.input.clone()).weighted(self.weights.clone()))
    }
}

impl Tunable for SoftmaxRegression {
    fn parameters(&self) -> Vec<Parameter> {
        PARAMETERS.to_vec()
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        setting(values, "c", &mut settings.c, SettingValue::as_number)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(SoftmaxSettings { limits, validation: 0.0, ..self.settings.clone() })
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        TargetMetric::minimize("logloss")
    }

    fn chooses_epochs(&self) -> bool {
        false
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &SoftmaxModel,
        _train: &LabelledData,
        held_out: &LabelledData,
    ) -> Result<Metrics> {
        Ok(model.evaluate(cluster, held_out)?.metrics)
    }
}
