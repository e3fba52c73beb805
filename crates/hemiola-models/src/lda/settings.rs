//! Settings of topic models.

use super::TopicModelling;
use crate::Error;
use crate::setters::{require, setters};
use crate::training::TrainingLimits;
use serde::{Deserialize, Serialize};

/// Gibbs sampler of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LdaSampler {
    /// The sampler that reaches the best likelihood for equal work in a short trial on some
    /// documents.
    #[default]
    Auto,
    /// Exact sampling over all topics, with dense document counts: for few topics.
    Exact,
    /// Exact sampling over the topics of the document and, rarely, over all: for many topics.
    Sparse,
    /// Metropolis-Hastings proposals from the word and from the document: constant time per token
    /// in the number of topics.
    MetropolisHastings,
}

/// Execution mode of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LdaExecutionMode {
    /// Model-parallel rotation: documents stay, word blocks rotate. No other worker changes what a
    /// worker reads, except the topic totals.
    #[default]
    Rotation,
    /// Parameter server: word counts are in tables that all workers read and update (stale
    /// synchronous parallel).
    Tables {
        /// Staleness bound in clocks; 0 is bulk synchronous.
        staleness: u32,
        /// Bandwidth budget for eager communication, in bytes per second and direction of a peer;
        /// `None` disables it.
        budget: Option<u64>,
    },
}

/// Settings of a topic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LdaSettings {
    /// Number of topics of the model.
    pub topics: u32,
    /// Initial Dirichlet prior of each topic in a document.
    pub alpha: f64,
    /// Initial Dirichlet prior of each word in a topic.
    pub beta: f64,
    /// Enables optimization of `alpha`, one value per topic.
    pub learn_alpha: bool,
    /// Enables optimization of `beta`, one value for all words.
    pub learn_beta: bool,
    /// Number of sweeps between optimizations of the priors.
    pub learn_every: u32,
    /// Gibbs sampler of topics.
    pub sampler: LdaSampler,
    /// Execution mode of a sweep.
    pub mode: LdaExecutionMode,
    /// Number of partitions of documents and words; 0: one per worker of all peers. The same number
    /// gives the same bits.
    pub parts: u32,
    /// Random seed of all draws.
    pub seed: u64,
    /// Fraction of the documents used for validation where no validation set is given.
    pub validation: f64,
    /// Stopping criteria; an epoch is a sweep.
    pub limits: TrainingLimits,
}

/// Builder of the settings; see [`TopicModelling::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LdaBuilder {
    settings: LdaSettings,
}

impl From<LdaSettings> for LdaBuilder {
    fn from(settings: LdaSettings) -> Self {
        Self { settings }
    }
}

impl LdaBuilder {
    pub(super) fn new(topics: u32) -> Self {
        Self {
            settings: LdaSettings {
                topics,
                alpha: 0.1,
                beta: 0.01,
                learn_alpha: true,
                learn_beta: false,
                learn_every: 5,
                sampler: LdaSampler::Auto,
                mode: LdaExecutionMode::Rotation,
                parts: 0,
                seed: 1,
                validation: 0.0,
                limits: TrainingLimits { epochs: 100, patience: None, ..TrainingLimits::default() },
            },
        }
    }

    setters! {
        /// Initial Dirichlet prior of each topic in a document. Default: 0.1.
        alpha: f64;
        /// Initial Dirichlet prior of each word in a topic. Default: 0.01.
        beta: f64;
        /// Enables optimization of `alpha`, one value per topic. Default: true.
        learn_alpha: bool;
        /// Enables optimization of `beta`, one value for all words. Default: false.
        learn_beta: bool;
        /// Number of sweeps between optimizations of the priors. Default: 5.
        learn_every: u32;
        /// Gibbs sampler of topics. Default: chosen by a trial.
        sampler: LdaSampler;
        /// Execution mode of a sweep. Default: rotation.
        mode: LdaExecutionMode;
        /// Number of partitions of documents and words, which bounds the number of busy workers.
        /// Default: 0, one per worker of all peers. The same number gives the same bits on any
        /// number of workers and peers.
        parts: u32;
        /// Random seed. Default: 1.
        seed: u64;
        /// Fraction of the documents used for validation where no validation set is given. Default:
        /// 0, none.
        validation: f64;
        /// Stopping criteria; an epoch is a sweep.
        limits: TrainingLimits;
    }

    /// Number of sweeps over all tokens. Default: 100.
    pub fn sweeps(mut self, sweeps: u32) -> Self {
        self.settings.limits.epochs = sweeps;
        self
    }

    /// Validates the settings and builds the estimator.
    pub fn build(self) -> Result<TopicModelling, Error> {
        let LdaSettings { topics, alpha, beta, learn_every, parts, validation, .. } = &self.settings;
        require("topics", topics, (1..=1 << 24).contains(topics), "from 1 to 16777216")?;
        // Below that, single precision could not tell a prior from 0.
        require("alpha", alpha, (1e-6..=1e3).contains(alpha), "from 0.000001 to 1000")?;
        require("beta", beta, (1e-6..=1e3).contains(beta), "from 0.000001 to 1000")?;
        require("learn_every", learn_every, *learn_every > 0, "at least 1")?;
        require("parts", parts, *parts <= 4096, "at most 4096")?;
        require("validation", validation, (0.0..1.0).contains(validation), "from 0 to below 1")?;
        Ok(TopicModelling { settings: self.settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected() {
        let builder = || TopicModelling::builder(10);
        assert!(builder().build().is_ok());
        for wrong in [
            TopicModelling::builder(0),
            builder().alpha(0.0),
            builder().alpha(f64::NAN),
            builder().beta(-1.0),
            builder().learn_every(0),
            builder().parts(5000),
            builder().validation(1.0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
