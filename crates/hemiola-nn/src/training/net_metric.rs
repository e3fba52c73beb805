//! Validation metrics of nets.

use super::{Metrics, TargetMetric};

/// Validation metric that early stopping and the target value refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetMetric {
    /// Share of correct predictions.
    Accuracy,
    /// Exponential of the mean loss, for language models.
    Perplexity,
    /// Square root of the mean loss, for a squared loss.
    Rmse,
    /// Mean loss of the examples.
    #[default]
    Loss,
}

impl NetMetric {
    /// Returns the name and the direction of the metric.
    #[must_use]
    pub const fn target(self) -> TargetMetric {
        match self {
            Self::Accuracy => TargetMetric::maximize("accuracy"),
            Self::Perplexity => TargetMetric::minimize("perplexity"),
            Self::Rmse => TargetMetric::minimize("rmse"),
            Self::Loss => TargetMetric::minimize("loss"),
        }
    }

    /// Returns the mean loss and this metric by name.
    pub(super) fn metrics(self, loss: f64, accuracy: f64) -> Metrics {
        let value = match self {
            Self::Accuracy => accuracy,
            Self::Perplexity => loss.exp(),
            Self::Rmse => loss.sqrt(),
            Self::Loss => loss,
        };
        Metrics::from([("loss".to_owned(), loss), (self.target().name.to_owned(), value)])
    }
}
