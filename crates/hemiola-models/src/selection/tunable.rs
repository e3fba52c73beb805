//! Estimators whose settings can be searched.

use super::records::RecordSelection;
use super::space::{SearchSpace, SettingValue, SettingValues, SpaceError};
use crate::training::{Metrics, TargetMetric, TrainingLimits};
use crate::{Error, Estimator};
use hemiola_cluster::{Cluster, Result};

/// Setting that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name, as the flag of the setting.
    pub name: &'static str,
    /// Kind of the values.
    pub kind: ParameterKind,
    /// Default domain in the syntax of a [`SearchSpace`]; `None` leaves the setting alone unless a
    /// space names it.
    pub domain: Option<&'static str>,
}

/// Kind of the values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Whole numbers.
    Integer,
    /// Real numbers.
    Number,
    /// One of these names.
    Choice(&'static [&'static str]),
}

impl Parameter {
    /// Parses a value.
    pub(super) fn value(&self, text: &str) -> Result<SettingValue, SpaceError> {
        let parsed = match self.kind {
            ParameterKind::Integer => whole(text).map(SettingValue::Integer),
            ParameterKind::Number => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(SettingValue::Number)
            }
            ParameterKind::Choice(names) => names.contains(&text).then(|| SettingValue::Name(text.to_owned())),
        };
        parsed.ok_or_else(|| self.invalid(text))
    }

    pub(super) fn invalid(&self, value: &str) -> SpaceError {
        let expected = match self.kind {
            ParameterKind::Integer => "whole numbers".to_owned(),
            ParameterKind::Number => "numbers".to_owned(),
            ParameterKind::Choice(names) => names.join(", "),
        };
        SpaceError::InvalidValue { name: self.name.to_owned(), value: value.to_owned(), expected }
    }
}

/// Parses a whole number, also as `1e3`.
fn whole(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
    })
}

/// Estimator whose settings can be searched, and which can be cross-validated.
pub trait Tunable: Estimator<Data: RecordSelection> + Sized {
    /// Settings that can be searched.
    fn parameters(&self) -> Vec<Parameter>;

    /// Returns a copy with other values of some of these settings.
    fn with_values(&self, values: &SettingValues) -> Result<Self, Error>;

    /// Returns a copy with other limits, which splits off no validation set in training.
    fn with_limits(&self, limits: TrainingLimits) -> Result<Self, Error>;

    /// Returns the limits of a training run.
    fn limits(&self) -> &TrainingLimits;

    /// Returns the metric on validation data by which settings are chosen.
    fn selection_metric(&self) -> TargetMetric;

    /// Returns whether the number of epochs is chosen as well: training minimizes an objective that
    /// overfits, and is not run to a minimum.
    fn chooses_epochs(&self) -> bool;

    /// *Collective.* Evaluates a model on data that were not trained on. `train` are the data that
    /// were.
    fn held_out_metrics(
        &self,
        cluster: &Cluster,
        model: &Self::Model,
        train: &Self::Data,
        held_out: &Self::Data,
    ) -> Result<Metrics>;

    /// Returns the default space.
    #[must_use]
    fn default_space(&self) -> SearchSpace {
        let parameters = self.parameters();
        let parts = parameters.iter().filter_map(|parameter| Some(format!("{}={}", parameter.name, parameter.domain?)));
        let text = parts.collect::<Vec<_>>().join(", ");
        SearchSpace::parse(&text, &parameters).expect("default spaces are valid")
    }

    /// Parses a space of settings of this estimator.
    fn space_of(&self, text: &str) -> Result<SearchSpace, SpaceError> {
        SearchSpace::parse(text, &self.parameters())
    }

    /// Returns the values of this estimator in a space, or `None` if it does not know one.
    #[must_use]
    fn values_in(&self, space: &SearchSpace) -> Option<SettingValues> {
        let all = serde_json::to_value(self.settings()).ok()?;
        let parameters = self.parameters();
        let value = |name: &str| {
            let parameter = parameters.iter().find(|parameter| parameter.name == name)?;
            let value = all.get(name.replace('-', "_"))?;
            Some(match parameter.kind {
                ParameterKind::Integer => SettingValue::Integer(value.as_i64()?),
                // The shortest decimal that gives the same single-precision number.
                ParameterKind::Number => SettingValue::Number((value.as_f64()? as f32).to_string().parse().ok()?),
                ParameterKind::Choice(_) => SettingValue::Name(value.as_str()?.to_owned()),
            })
        };
        space.domains().map(|(name, _)| Some((name.to_owned(), value(name)?))).collect()
    }
}

/// Sets a field to a value, if one is given.
pub(crate) fn setting<T>(
    values: &SettingValues,
    name: &'static str,
    field: &mut T,
    convert: impl FnOnce(&SettingValue) -> Option<T>,
) -> Result<(), Error> {
    if let Some(value) = values.get(name) {
        let invalid = || Error::InvalidSetting { setting: name, found: value.to_string(), expected: "a number" };
        *field = convert(value).ok_or_else(invalid)?;
    }
    Ok(())
}
