//! Search and cross-validation of factorization machines.

use super::settings::{FmBuilder, FmSettings};
use super::{FactorizationMachine, FmModel};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::dist::LabelledData;

/// Settings that can be searched.
const PARAMETERS: [Parameter; 5] = [
    Parameter { name: "rank", kind: ParameterKind::Integer, domain: Some("4..64 log") },
    Parameter { name: "l2-factors", kind: ParameterKind::Number, domain: Some("1e-6..0.01 log") },
    Parameter { name: "l2-linear", kind: ParameterKind::Number, domain: Some("1e-6..0.01 log") },
    Parameter { name: "learning-rate", kind: ParameterKind::Number, domain: Some("0.02..0.3 log") },
    Parameter { name: "batch-size", kind: ParameterKind::Integer, domain: None },
];

impl FactorizationMachine {
    fn rebuilt(&self, settings: FmSettings) -> Result<Self, Error> {
        Ok(FmBuilder::from(settings).build()?.named(self.names.clone()).with_input(self.input.clone()))
    }
}

impl Tunable for FactorizationMachine {
    fn parameters(&self) -> Vec<Parameter> {
        PARAMETERS.to_vec()
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        let number = |value: &SettingValue| value.as_number().map(|value| value as f32);
        let whole = |value: &SettingValue| value.as_number().map(|value| value as u32);
        setting(values, "rank", &mut settings.rank, whole)?;
        setting(values, "l2-factors", &mut settings.l2_factors, number)?;
        setting(values, "l2-linear", &mut settings.l2_linear, number)?;
        setting(values, "learning-rate", &mut settings.learning_rate, number)?;
        setting(values, "batch-size", &mut settings.batch_size, whole)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(FmSettings { limits, validation: 0.0, ..self.settings.clone() })
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        self.settings.loss.target_metric()
    }

    fn chooses_epochs(&self) -> bool {
        true
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &FmModel,
        _train: &LabelledData,
        held_out: &LabelledData,
    ) -> Result<Metrics> {
        Ok(model.evaluate(cluster, held_out)?.metrics)
    }
}
