//! Search and cross-validation of matrix factorizations.

use super::loss::MfLoss;
use super::model::MfModel;
use super::ranking::{DEFAULT_CUTOFFS, RankingEvaluator};
use super::settings::MfBuilder;
use super::{MatrixFactorization, MfSettings};
use crate::Error;
use crate::selection::{Parameter, ParameterKind, SettingValue, SettingValues, Tunable, setting};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use hemiola_cluster::{Cluster, Result};

use hemiola_array::DistArray;

/// Default ranges: those in which the errors of public sets of ratings have their minimum.
const RATINGS: [Parameter; 3] = [
    Parameter { name: "rank", kind: ParameterKind::Integer, domain: Some("32..192 log") },
    Parameter { name: "l2", kind: ParameterKind::Number, domain: Some("0.02..0.08 log") },
    Parameter { name: "learning-rate", kind: ParameterKind::Number, domain: Some("0.04..0.12 log") },
];
/// Default ranges of Bayesian personalized ranking.
const PAIRS: [Parameter; 3] = [
    Parameter { name: "rank", kind: ParameterKind::Integer, domain: Some("16..128 log") },
    Parameter { name: "l2", kind: ParameterKind::Number, domain: Some("0.001..0.1 log") },
    Parameter { name: "learning-rate", kind: ParameterKind::Number, domain: Some("0.02..0.2 log") },
];
/// Default ranges of the one-class loss.
const EVENTS: [Parameter; 4] = [
    Parameter { name: "rank", kind: ParameterKind::Integer, domain: Some("16..128 log") },
    Parameter { name: "l2", kind: ParameterKind::Number, domain: Some("0.001..0.05 log") },
    Parameter { name: "unobserved-weight", kind: ParameterKind::Number, domain: Some("0.03..1 log") },
    Parameter { name: "frequency-exponent", kind: ParameterKind::Number, domain: None },
];

impl MatrixFactorization {
    fn rebuilt(&self, settings: MfSettings) -> Result<Self, Error> {
        Ok(MfBuilder::from(settings).build()?.with_input(self.input.clone()))
    }
}

impl Tunable for MatrixFactorization {
    fn parameters(&self) -> Vec<Parameter> {
        match self.settings.loss {
            MfLoss::Squared | MfLoss::Logistic => RATINGS.to_vec(),
            MfLoss::Bpr => PAIRS.to_vec(),
            MfLoss::OneClass => EVENTS.to_vec(),
        }
    }

    fn with_values(&self, values: &SettingValues) -> Result<Self, Error> {
        let mut settings = self.settings.clone();
        let number = |value: &SettingValue| value.as_number().map(|value| value as f32);
        setting(values, "rank", &mut settings.rank, |value| value.as_number().map(|value| value as u32))?;
        setting(values, "l2", &mut settings.l2, number)?;
        setting(values, "learning-rate", &mut settings.learning_rate, number)?;
        setting(values, "unobserved-weight", &mut settings.unobserved_weight, number)?;
        setting(values, "frequency-exponent", &mut settings.frequency_exponent, number)?;
        self.rebuilt(settings)
    }

    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error> {
        self.rebuilt(MfSettings { limits, validation: 0.0, ..self.settings.clone() })
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

    /// Ratings of users and items outside the training data count; see
    /// [`MfModel::evaluate_all`].
    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &MfModel,
        train: &DistArray<f32, 2>,
        held_out: &DistArray<f32, 2>,
    ) -> Result<Metrics> {
        if self.settings.loss.is_implicit() {
            return RankingEvaluator::new(held_out, train)?.metrics(cluster, model, &DEFAULT_CUTOFFS);
        }
        Ok(model.evaluate_all(cluster, held_out)?.metrics)
    }
}
