//! What a user chooses.

use super::TopicModelling;
use crate::Error;
use crate::setters::setters;
use crate::training::Limits;
use serde::{Deserialize, Serialize};

/// How topics are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// Whatever reaches a likelihood with the least work in a short trial on some of the documents.
    #[default]
    Auto,
    /// From all topics, with documents as rows of counts: exact, for few topics.
    Exact,
    /// From the topics of the document and, rarely, from all: exact, for many topics.
    Sparse,
    /// By proposals from the word and from the document, accepted or not: the time does not grow with topics.
    MetropolisHastings,
}

/// How peers and workers share the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Documents stay, words go around: nobody else changes what a worker reads, but for the totals of topics.
    #[default]
    Rotation,
    /// Counts of words are in tables that everybody reads and adds to.
    Tables {
        /// By how many clocks a worker may be ahead of the slowest.
        staleness: u32,
        /// Bytes that a peer may send in a second, in each direction, ahead of need; without one, nothing is.
        budget: Option<u64>,
    },
}

/// The settings of a topic model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How many topics there are.
    pub topics: u32,
    /// The prior of each topic in a document, in the beginning.
    pub alpha: f64,
    /// The prior of each word in a topic, in the beginning.
    pub beta: f64,
    /// Whether `alpha` is learned, one for each topic.
    pub learn_alpha: bool,
    /// Whether `beta` is learned, one for all words.
    pub learn_beta: bool,
    /// After how many passes priors are learned anew.
    pub learn_every: u32,
    /// How topics are drawn.
    pub sampler: Sampler,
    /// How the work is shared.
    pub way: Way,
    /// In how many parts documents and words are cut; 0: one for each worker of all peers. The same parts give the same bits.
    pub parts: u32,
    /// What all chance comes from.
    pub seed: u64,
    /// The share of documents that is held out where no held-out documents are given.
    pub valid: f64,
    /// When training stops.
    pub limits: Limits,
}

/// Collects settings. Made by [`TopicModelling::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    pub(super) fn new(topics: u32) -> Self {
        Self {
            settings: Settings {
                topics,
                alpha: 0.1,
                beta: 0.01,
                learn_alpha: true,
                learn_beta: false,
                learn_every: 5,
                sampler: Sampler::Auto,
                way: Way::Rotation,
                parts: 0,
                seed: 1,
                valid: 0.0,
                limits: Limits { epochs: 100, patience: None, ..Limits::default() },
            },
        }
    }

    setters! {
        /// The prior of each topic in a document, in the beginning. Default 0.1.
        alpha: f64;
        /// The prior of each word in a topic, in the beginning. Default 0.01.
        beta: f64;
        /// Whether `alpha` is learned, one for each topic. Default: it is.
        learn_alpha: bool;
        /// Whether `beta` is learned, one for all words. Default: it is not.
        learn_beta: bool;
        /// After how many passes priors are learned anew. Default 5.
        learn_every: u32;
        /// How topics are drawn. Default: a trial finds out.
        sampler: Sampler;
        /// How the work is shared. Default: words go around.
        way: Way;
        /// In how many parts documents and words are cut, which is how many workers can be busy at once. Default 0: one for each worker of all peers. The same parts give
        /// the same bits, however many workers and peers there are.
        parts: u32;
        /// What all chance comes from. Default 1.
        seed: u64;
        /// The share of documents that is held out where no held-out documents are given. Default 0: none.
        valid: f64;
        /// When training stops.
        limits: Limits;
    }

    /// So many passes over all tokens. Default 100.
    pub fn passes(mut self, passes: u32) -> Self {
        self.settings.limits.epochs = passes;
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<TopicModelling, Error> {
        let Settings { topics, alpha, beta, learn_every, parts, valid, .. } = &self.settings;
        let refuse = |setting, found: String, expected| Err(Error::Setting { setting, found, expected });
        if !(1..=1 << 24).contains(topics) {
            return refuse("topics", topics.to_string(), "from 1 to 16777216");
        }
        // Below that, single precision could not tell a prior from nothing.
        if !(1e-6..=1e3).contains(alpha) {
            return refuse("alpha", alpha.to_string(), "from 0.000001 to 1000");
        }
        if !(1e-6..=1e3).contains(beta) {
            return refuse("beta", beta.to_string(), "from 0.000001 to 1000");
        }
        if *learn_every == 0 {
            return refuse("learn_every", learn_every.to_string(), "at least 1");
        }
        if *parts > 4096 {
            return refuse("parts", parts.to_string(), "at most 4096");
        }
        if !(0.0..1.0).contains(valid) {
            return refuse("valid", valid.to_string(), "from 0 to below 1");
        }
        Ok(TopicModelling { settings: self.settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let builder = || TopicModelling::builder(10);
        assert!(builder().build().is_ok());
        for wrong in [
            TopicModelling::builder(0),
            builder().alpha(0.0),
            builder().alpha(f64::NAN),
            builder().beta(-1.0),
            builder().learn_every(0),
            builder().parts(5000),
            builder().valid(1.0),
        ] {
            assert!(wrong.build().unwrap_err().to_string().contains("which must be"));
        }
    }
}
