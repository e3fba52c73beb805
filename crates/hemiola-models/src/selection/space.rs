//! Search space: a domain for each searched setting, and points in the space.
//!
//! A space is written as `NAME=DOMAIN, ..`. A domain is a range, `1e-3..1 log` (logarithmic) or
//! `0.1..0.5`, or a list of values, `8|16|32`. **Invariant:** the points of random search depend on
//! the seed, their number and the domains alone; they are a lattice with a random shift, which
//! covers the space more evenly than independent draws (R. Cranley, T. N. L. Patterson:
//! Randomization of Number Theoretic Methods for Multiple Integration. SIAM J. Numer. Anal. 13,
//! 1976).

use super::tunable::{Parameter, ParameterKind};
use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Random stream of the shift.
const SHIFT_DRAW: u64 = 21;
/// Significant digits of searched numbers, so that they can be typed.
const DIGITS: usize = 3;

/// Value of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// Whole number.
    Integer(i64),
    /// Real number.
    Number(f64),
    /// Name of a choice.
    Name(String),
}

/// Values of settings by name, as flags are named.
pub type SettingValues = BTreeMap<String, SettingValue>;

impl SettingValue {
    /// Returns the value as a number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(formatter, "{value}"),
            Self::Number(value) => write!(formatter, "{value}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

/// Domain of a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterDomain {
    /// All numbers from `low` to `high`.
    Range {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
        /// Values are equally dense in their logarithm.
        log: bool,
        /// Whole numbers only.
        integer: bool,
    },
    /// Listed values.
    Values(Vec<SettingValue>),
}

/// Error of a search space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// A part is not of the form `NAME=DOMAIN`.
    #[error("`{part}` is no part of a search space; write `rank=8..128 log` or `rank=8|16|32`")]
    NotAPart {
        /// Rejected part.
        part: String,
    },
    /// The model has no such setting.
    #[error("the model has no setting `{name}` to search; its settings are {}", .known.join(", "))]
    UnknownSetting {
        /// Unknown name.
        name: String,
        /// Settings that can be searched.
        known: Vec<String>,
    },
    /// A setting occurs twice.
    #[error("the search space has `{name}` twice")]
    Repeated {
        /// Name of the setting.
        name: String,
    },
    /// A value is not of the kind of its setting.
    #[error("`{value}` is no value of `{name}`, which takes {expected}")]
    InvalidValue {
        /// Name of the setting.
        name: String,
        /// Rejected value.
        value: String,
        /// Description of the allowed values.
        expected: String,
    },
    /// A range is empty, or a logarithmic one is not positive.
    #[error("the range `{range}` of `{name}` must be {expected}")]
    InvalidRange {
        /// Name of the setting.
        name: String,
        /// Rejected range.
        range: String,
        /// Description of the allowed ranges.
        expected: &'static str,
    },
    /// A grid has more points than trials are allowed.
    #[error("the grid has {points} points and only {trials} trials are allowed; allow more, or list fewer values")]
    TooManyPoints {
        /// Number of points.
        points: usize,
        /// Number of trials.
        trials: usize,
    },
}

impl From<SpaceError> for hemiola_cluster::Error {
    fn from(error: SpaceError) -> Self {
        Self::Layer { kind: hemiola_core::ErrorKind::Usage, source: Box::new(error) }
    }
}

/// Domains of the searched settings, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SearchSpace(BTreeMap<String, ParameterDomain>);

impl SearchSpace {
    /// Parses a space of the settings in `known`.
    pub fn parse(text: &str, known: &[Parameter]) -> Result<Self, SpaceError> {
        let mut domains = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let not_a_part = || SpaceError::NotAPart { part: part.to_owned() };
            let (name, domain) = part.split_once('=').ok_or_else(not_a_part)?;
            let (name, domain) = (name.trim().trim_start_matches("--"), domain.trim());
            let unknown = || SpaceError::UnknownSetting {
                name: name.to_owned(),
                known: known.iter().map(|parameter| parameter.name.to_owned()).collect(),
            };
            let parameter = known.iter().find(|parameter| parameter.name == name).ok_or_else(unknown)?;
            let domain = ParameterDomain::parse(parameter, domain)?;
            if domains.insert(name.to_owned(), domain).is_some() {
                return Err(SpaceError::Repeated { name: name.to_owned() });
            }
        }
        if domains.is_empty() {
            return Err(SpaceError::NotAPart { part: text.to_owned() });
        }
        Ok(Self(domains))
    }

    /// Iterates over the settings and their domains, by name.
    pub fn domains(&self) -> impl Iterator<Item = (&str, &ParameterDomain)> {
        self.0.iter().map(|(name, domain)| (name.as_str(), domain))
    }

    /// Returns whether each of these values is in its domain.
    #[must_use]
    pub fn contains(&self, values: &SettingValues) -> bool {
        self.0.iter().all(|(name, domain)| values.get(name).is_some_and(|value| domain.contains(value)))
    }

    /// Returns a random point by its number. The points of one seed cover the space evenly.
    #[must_use]
    pub fn random_point(&self, number: u64, seed: u64) -> SettingValues {
        let (shifts, ratio) = (PhiloxRng::new(seed), generalized_golden_ratio(self.0.len()));
        let mut step = 1.0;
        let points = self.0.iter().enumerate().map(|(index, (name, domain))| {
            step /= ratio;
            let unit = (shifts.random_f64(index as u64, SHIFT_DRAW) + (number as f64 * step).fract()).fract();
            (name.clone(), domain.at(unit))
        });
        points.collect()
    }

    /// Returns the points of a grid of at most `most` points: all values of lists, and equally many
    /// values of each range, ends included.
    pub fn grid(&self, most: usize) -> Result<Vec<SettingValues>, SpaceError> {
        let listed: usize = self.0.values().map(|domain| domain.values().map_or(1, <[_]>::len)).product();
        let ranges = self.0.values().filter(|domain| domain.values().is_none()).count() as u32;
        let mut steps = 2_usize;
        while ranges > 0 && steps < most && listed.saturating_mul((steps + 1).saturating_pow(ranges)) <= most {
            steps += 1;
        }
        let mut points = vec![SettingValues::new()];
        for (name, domain) in &self.0 {
            let mut values = match domain.values() {
                Some(values) => values.to_vec(),
                None => (0..steps).map(|step| domain.at(step as f64 / (steps - 1) as f64)).collect(),
            };
            values.dedup();
            let with = |point: &SettingValues| {
                let point = point.clone();
                let set = |value: &SettingValue| {
                    let mut point = point.clone();
                    point.insert(name.clone(), value.clone());
                    point
                };
                values.iter().map(set).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(with).collect();
            if points.len() > most {
                return Err(SpaceError::TooManyPoints { points: points.len(), trials: most });
            }
        }
        Ok(points)
    }
}

/// Formats as it is parsed.
impl fmt::Display for SearchSpace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(name, domain)| format!("{name}={domain}")).collect();
        formatter.write_str(&parts.join(", "))
    }
}

impl fmt::Display for ParameterDomain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { low, high, log, .. } => {
                write!(formatter, "{low}..{high}{}", if *log { " log" } else { "" })
            }
            Self::Values(values) => {
                let values: Vec<String> = values.iter().map(SettingValue::to_string).collect();
                formatter.write_str(&values.join("|"))
            }
        }
    }
}

impl ParameterDomain {
    fn parse(parameter: &Parameter, text: &str) -> Result<Self, SpaceError> {
        let name = parameter.name;
        let Some((low, rest)) = text.split_once("..") else {
            let values = text.split('|').map(|value| parameter.value(value.trim()));
            return Ok(Self::Values(values.collect::<Result<_, _>>()?));
        };
        let (high, log) = match rest.trim().strip_suffix("log") {
            Some(high) => (high, true),
            None => (rest, false),
        };
        let end = |text: &str| {
            let value = parameter.value(text.trim())?;
            value.as_number().ok_or_else(|| parameter.invalid(text.trim()))
        };
        let (low, high) = (end(low)?, end(high)?);
        let expected = match log {
            _ if low > high => "from the smaller to the larger value",
            true if low <= 0.0 => "above 0 to be logarithmic",
            _ => return Ok(Self::Range { low, high, log, integer: parameter.kind == ParameterKind::Integer }),
        };
        Err(SpaceError::InvalidRange { name: name.to_owned(), range: text.to_owned(), expected })
    }

    fn contains(&self, value: &SettingValue) -> bool {
        match (self, value.as_number()) {
            (Self::Values(values), number) => {
                let same = |own: &SettingValue| own == value || number.is_some() && own.as_number() == number;
                values.iter().any(same)
            }
            (Self::Range { low, high, .. }, Some(number)) => (*low..=*high).contains(&number),
            (Self::Range { .. }, None) => false,
        }
    }

    fn values(&self) -> Option<&[SettingValue]> {
        match self {
            Self::Values(values) => Some(values),
            Self::Range { .. } => None,
        }
    }

    /// Returns the value at a position from 0 to 1.
    fn at(&self, unit: f64) -> SettingValue {
        match self {
            Self::Values(values) => {
                let index = (unit * values.len() as f64) as usize;
                values[index.min(values.len() - 1)].clone()
            }
            Self::Range { low, high, log, integer } => {
                let between = |low: f64, high: f64| low + (high - low) * unit;
                let value = if *log { between(low.ln(), high.ln()).exp() } else { between(*low, *high) };
                let value = rounded(value).clamp(*low, *high);
                if *integer { SettingValue::Integer(value.round() as i64) } else { SettingValue::Number(value) }
            }
        }
    }
}

/// Rounds to [`DIGITS`] significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Returns the positive root of `x^(d+1) = x + 1`, whose inverse powers are the steps of a lattice
/// in `d` dimensions.
fn generalized_golden_ratio(dimensions: usize) -> f64 {
    (0..64).fold(2.0, |root: f64, _| (1.0 + root).powf(1.0 / (dimensions as f64 + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Parameter; 3] = [
        Parameter { name: "rank", kind: ParameterKind::Integer, domain: None },
        Parameter { name: "l2", kind: ParameterKind::Number, domain: None },
        Parameter { name: "loss", kind: ParameterKind::Choice(&["hinge", "logistic"]), domain: None },
    ];

    fn parsed(text: &str) -> Result<SearchSpace, SpaceError> {
        SearchSpace::parse(text, &KNOWN)
    }

    #[test]
    fn a_space_is_printed_as_it_is_parsed() {
        let space = parsed("rank=8..128 log, l2=1e-3..1log,loss=hinge|logistic").unwrap();
        assert_eq!(space.to_string(), "l2=0.001..1 log, loss=hinge|logistic, rank=8..128 log");
        assert_eq!(parsed(&space.to_string()).unwrap(), space);
        assert_eq!(parsed("rank=8|16").unwrap().to_string(), "rank=8|16");
    }

    #[test]
    fn wrong_spaces_are_refused_with_the_reason() {
        let error = |text: &str| parsed(text).unwrap_err().to_string();
        assert!(error("rank").contains("`rank` is no part"));
        assert!(error("").contains("is no part"));
        assert!(error("depth=1..3").contains("no setting `depth` to search; its settings are rank, l2, loss"));
        assert!(error("rank=1.5..3").contains("`1.5` is no value of `rank`, which takes whole numbers"));
        assert!(error("loss=log").contains("takes hinge, logistic"));
        assert!(error("l2=1..0").contains("from the smaller to the larger"));
        assert!(error("l2=0..1 log").contains("above 0"));
        assert!(error("l2=0..nan").contains("`nan` is no value"));
        assert!(error("rank=1, rank=2").contains("`rank` twice"));
        let grid = parsed("rank=1|2|3, l2=0..1").unwrap();
        assert_eq!(grid.grid(5), Err(SpaceError::TooManyPoints { points: 6, trials: 5 }));
    }

    #[test]
    fn random_points_cover_every_range_evenly() {
        let space = parsed("rank=8..128 log, l2=1e-3..1 log, loss=hinge|logistic").unwrap();
        for seed in 0..5 {
            let points: Vec<SettingValues> = (0..32).map(|number| space.random_point(number, seed)).collect();
            assert_eq!(points[7], space.random_point(7, seed));
            // Each quarter of the logarithmic range has about a quarter of the points.
            for quarter in 0..4 {
                let low = 1e-3_f64 * 1000_f64.powf(f64::from(quarter) / 4.0);
                let high = low * 1000_f64.powf(0.25);
                let inside =
                    |point: &&SettingValues| point["l2"].as_number().is_some_and(|value| (low..high).contains(&value));
                let count = points.iter().filter(inside).count();
                assert!((6..=10).contains(&count), "{count} of quarter {quarter}");
            }
            for point in &points {
                assert!(matches!(point["rank"], SettingValue::Integer(8..=128)), "{point:?}");
                assert!(matches!(&point["loss"], SettingValue::Name(_)));
            }
        }
        assert_ne!(space.random_point(0, 1), space.random_point(0, 2));
    }

    #[test]
    fn a_space_contains_what_it_draws() {
        let space = parsed("rank=8..128 log, l2=1e-3|1, loss=hinge").unwrap();
        assert!((0..50).all(|number| space.contains(&space.random_point(number, 3))));
        let with = |name: &str, value: SettingValue| {
            let mut point = space.random_point(0, 3);
            point.insert(name.to_owned(), value);
            space.contains(&point)
        };
        assert!(with("l2", SettingValue::Integer(1)) && with("rank", SettingValue::Integer(8)));
        assert!(!with("l2", SettingValue::Number(0.5)) && !with("rank", SettingValue::Integer(7)));
        assert!(!with("loss", SettingValue::Name("logistic".to_owned())) && !space.contains(&SettingValues::new()));
    }

    #[test]
    fn a_grid_has_all_combinations() {
        let space = parsed("rank=8..32 log, l2=0..1, loss=hinge|logistic").unwrap();
        let points = space.grid(20).unwrap();
        assert_eq!(points.len(), 18);
        let l2: Vec<f64> = points.iter().map(|point| point["l2"].as_number().unwrap()).collect();
        assert!(l2.contains(&0.0) && l2.contains(&0.5) && l2.contains(&1.0));
        assert!(points.iter().all(|point| matches!(point["rank"], SettingValue::Integer(8 | 16 | 32))));
        let mut unique = points.clone();
        unique.dedup();
        assert_eq!(unique.len(), 18);
        assert_eq!(parsed("rank=1..2").unwrap().grid(50).unwrap().len(), 2, "equal whole numbers are one point");
    }
}
