//! A model as a study of staleness sees it: a vector that workers read and add to.

use super::optimizer::Optimizer;
use super::{factors, network, topics};
use serde::{Deserialize, Serialize};

/// What is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Matrix factorization; quality is the loss on all ratings.
    Mf,
    /// Topics by Gibbs sampling; quality is the log likelihood of words given topics, for each word.
    Lda,
    /// Logistic regression for several classes; quality is accuracy on other examples.
    Logistic,
    /// A network with so many hidden layers, 0 to 3; quality is accuracy on other examples.
    Mlp(u32),
}

impl Model {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Mf => "mf".to_owned(),
            Self::Lda => "lda".to_owned(),
            Self::Logistic => "logistic".to_owned(),
            Self::Mlp(depth) => format!("mlp-{depth}"),
        }
    }

    /// What quality is measured in.
    #[must_use]
    pub fn measure(self) -> &'static str {
        match self {
            Self::Mf => "loss",
            Self::Lda => "log likelihood per word",
            Self::Logistic | Self::Mlp(_) => "accuracy",
        }
    }

    /// Whether less is better.
    #[must_use]
    pub fn falls(self) -> bool {
        self == Self::Mf
    }

    /// Whether its updates are made of gradients.
    #[must_use]
    pub fn has_gradients(self) -> bool {
        self != Self::Lda
    }

    /// The model with data of a seed, for so many workers.
    ///
    /// # Panics
    /// If a network has more than three hidden layers.
    #[must_use]
    pub fn learner(self, settings: &Settings) -> Box<dyn Learner> {
        match self {
            Self::Mf => Box::new(factors::Factors::new(settings)),
            Self::Lda => Box::new(topics::Topics::new(settings)),
            Self::Logistic => Box::new(network::Network::new(settings, 0)),
            Self::Mlp(depth) => {
                assert!(depth <= 3, "networks have up to three hidden layers");
                Box::new(network::Network::new(settings, depth as usize))
            }
        }
    }

    /// A step that serves an optimizer well without staleness, on the data of these studies.
    #[must_use]
    pub fn rate(self, optimizer: Optimizer) -> f32 {
        match (self, optimizer) {
            (Self::Mf, Optimizer::Momentum) => 0.001,
            (Self::Mf, Optimizer::Sgd | Optimizer::Rmsprop | Optimizer::Adam) => 0.01,
            (Self::Mf, Optimizer::Adagrad) | (_, Optimizer::Sgd) => 0.1,
            (_, Optimizer::Momentum | Optimizer::Adagrad) => 0.03,
            (_, Optimizer::Rmsprop | Optimizer::Adam) => 0.003,
        }
    }

    /// The quality that counts as learned, on the data of these studies.
    #[must_use]
    pub fn target(self) -> f64 {
        match self {
            Self::Mf => 0.5,
            Self::Lda => -7.5,
            Self::Logistic | Self::Mlp(_) => 0.85,
        }
    }
}

/// What a learner is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Of data, initial values and batches.
    pub seed: u64,
    /// How many share the work.
    pub workers: usize,
    /// What gradients become.
    pub optimizer: Optimizer,
    /// How far they go.
    pub rate: f32,
}

/// A change: places and what is added there, or a whole vector.
#[derive(Clone, Debug)]
pub enum Change {
    /// Everywhere.
    Dense(Vec<f32>),
    /// At some places.
    Sparse(Vec<(u32, f32)>),
}

impl Change {
    /// Adds it to a copy of the model.
    pub(super) fn add_to(&self, copy: &mut [f32]) {
        match self {
            Self::Dense(values) => copy.iter_mut().zip(values).for_each(|(value, change)| *value += change),
            Self::Sparse(changes) => changes.iter().for_each(|(place, change)| copy[*place as usize] += change),
        }
    }
}

/// A model in training, with all its workers.
pub trait Learner {
    /// The model at the beginning, the same for all.
    fn initial(&self) -> Vec<f32>;

    /// What a worker's next batch changes, computed from its copy.
    fn update(&mut self, worker: usize, copy: &[f32]) -> Change;

    /// How good a copy is.
    fn quality(&self, copy: &[f32]) -> f64;
}
