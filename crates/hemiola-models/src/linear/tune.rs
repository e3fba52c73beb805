//! Search and cross-validation of linear classifiers.

use super::settings::{LinearBuilder, LinearSettings};
use super::{LinearClassifier, LinearModel};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::dist::LabelledData;

/// Settings that can be searched.
const PARAMETERS: [Parameter; 2] = [
    Parameter { name: "c", kind: ParameterKind::Number, domain: Some("0.0001..100 log") },
    Parameter { name: "bias", kind: ParameterKind::Number, domain: None },
];

impl LinearClassifier {
    fn rebuilt(&self, settings: LinearSettings) -> Result<Self, Error> {
        Ok(LinearBuilder::from(settings)
            .build()?
            .named(self.names.clone())
            .with_input(self.input.clone())
            .weighted(self.weights.clone()))
    }
}

impl Tunable for LinearClassifier {
    fn parameters(&self) -> Vec<Parameter> {
        PARAMETERS.to_vec()
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        setting(values, "c", &mut settings.c, SettingValue::as_number)?;
        setting(values, "bias", &mut settings.bias, SettingValue::as_number)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(LinearSettings { limits, validation: 0.0, ..self.settings.clone() })
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        if self.settings.loss.has_probabilities() {
            TargetMetric::minimize("logloss")
        } else {
            TargetMetric::maximize("accuracy")
        }
    }

    fn chooses_epochs(&self) -> bool {
        false
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &LinearModel,
        _train: &LabelledData,
        held_out: &LabelledData,
    ) -> Result<Metrics> {
        Ok(model.evaluate(cluster, held_out)?.metrics)
    }
}
