//! Metrics by name, with the direction in which they improve.

use crate::training::TargetMetric;
use std::fmt;
use std::str::FromStr;

/// Metrics without a cutoff, and true where higher is better.
const PLAIN: [(&str, bool); 20] = [
    ("accuracy", true),
    ("precision", true),
    ("recall", true),
    ("f1", true),
    ("precision-macro", true),
    ("recall-macro", true),
    ("f1-macro", true),
    ("precision-weighted", true),
    ("recall-weighted", true),
    ("f1-weighted", true),
    ("auc", true),
    ("pr-auc", true),
    ("r2", true),
    ("logloss", false),
    ("brier", false),
    ("rmse", false),
    ("mae", false),
    ("loss", false),
    ("perplexity", false),
    ("objective", false),
];

/// Metrics of the first k of a ranking.
const RANKING: [(&str, [&str; 2]); 6] = [
    ("recall", ["recall@10", "recall@20"]),
    ("ndcg", ["ndcg@10", "ndcg@20"]),
    ("precision", ["precision@10", "precision@20"]),
    ("map", ["map@10", "map@20"]),
    ("mrr", ["mrr@10", "mrr@20"]),
    ("coverage", ["coverage@10", "coverage@20"]),
];

/// Metric chosen by name.
///
/// ```
/// use hemiola_models::metrics::MetricName;
/// let metric: MetricName = "ndcg@10".parse()?;
/// assert!(metric.target().higher_is_better);
/// assert!("speed".parse::<MetricName>().is_err());
/// # Ok::<(), hemiola_models::metrics::UnknownMetric>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricName(TargetMetric);

/// Error of a name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no metric; metrics are {}", MetricName::all().join(", "))]
pub struct UnknownMetric {
    /// The unknown name.
    pub name: String,
}

impl MetricName {
    /// Returns the names of all metrics.
    #[must_use]
    pub fn all() -> Vec<&'static str> {
        let plain = PLAIN.iter().map(|(name, _)| *name);
        plain.chain(RANKING.iter().flat_map(|(_, names)| names.iter().copied())).collect()
    }

    /// Returns the metric as the target of a training run.
    #[must_use]
    pub fn target(self) -> TargetMetric {
        self.0
    }

    /// Returns whether a higher value of the metric with this name is better; `None` if no metric
    /// has it.
    #[must_use]
    pub fn higher_is_better(name: &str) -> Option<bool> {
        let plain = PLAIN.iter().find(|(known, _)| *known == name).map(|(_, higher)| *higher);
        let cutoff = |name: &str| name.parse::<usize>().is_ok();
        let at = || {
            let (kind, k) = name.split_once('@')?;
            (RANKING.iter().any(|(known, _)| *known == kind) && cutoff(k)).then_some(true)
        };
        plain.or_else(at)
    }
}

impl FromStr for MetricName {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        let known = Self::all().into_iter().find(|known| *known == name);
        let known = known.ok_or_else(|| UnknownMetric { name: name.to_owned() })?;
        let higher_is_better = Self::higher_is_better(known) == Some(true);
        Ok(Self(TargetMetric { name: known, higher_is_better }))
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_parsed_with_their_direction() {
        for name in MetricName::all() {
            let metric: MetricName = name.parse().unwrap();
            assert_eq!((metric.to_string(), metric.target().name), (name.to_owned(), name));
        }
        let higher = |name| MetricName::higher_is_better(name);
        assert_eq!(
            (higher("auc"), higher("rmse"), higher("ndcg@7"), higher("x@7")),
            (Some(true), Some(false), Some(true), None)
        );
    }
}
