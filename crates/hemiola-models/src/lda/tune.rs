//! Search and cross-validation of topic models.

use super::settings::{LdaBuilder, LdaSettings};
use super::{Corpus, InferenceSettings, LdaModel, TopicModelling};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

/// Settings that can be searched.
const PARAMETERS: [Parameter; 3] = [
    Parameter { name: "topics", kind: ParameterKind::Integer, domain: Some("10..200 log") },
    Parameter { name: "beta", kind: ParameterKind::Number, domain: Some("0.005..0.5 log") },
    Parameter { name: "alpha", kind: ParameterKind::Number, domain: None },
];

impl Tunable for TopicModelling {
    fn parameters(&self) -> Vec<Parameter> {
        PARAMETERS.to_vec()
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        setting(values, "topics", &mut settings.topics, |value| value.as_number().map(|value| value as u32))?;
        setting(values, "beta", &mut settings.beta, SettingValue::as_number)?;
        setting(values, "alpha", &mut settings.alpha, SettingValue::as_number)?;
        LdaBuilder::from(settings).build()
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        LdaBuilder::from(LdaSettings { limits, validation: 0.0, ..self.settings.clone() }).build()
    }

    fn limits(&self) -> &TrainingLimits {
        &self.settings.limits
    }

    fn selection_metric(&self) -> TargetMetric {
        TargetMetric::minimize("perplexity")
    }

    fn chooses_epochs(&self) -> bool {
        false
    }

    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &LdaModel,
        _train: &Corpus,
        held_out: &Corpus,
    ) -> Result<Metrics> {
        let found = model.completion(cluster, held_out, InferenceSettings::default())?;
        let named = [("perplexity", found.perplexity), ("log-likelihood", found.log_likelihood)];
        Ok(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}
