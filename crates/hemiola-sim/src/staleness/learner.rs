//! Models of the staleness study: a parameter vector that workers read and update.

use super::optimizer::StudyOptimizer;
use super::{lda, mf, mlp};
use serde::{Deserialize, Serialize};

/// Model of a study, with its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StudyModel {
    /// Matrix factorization; the metric is the loss on all ratings.
    Mf,
    /// Topic model by Gibbs sampling; the metric is the log likelihood of words given topics, per
    /// word.
    Lda,
    /// Multinomial logistic regression; the metric is accuracy on a test set.
    Logistic,
    /// Multilayer perceptron with 0 to 3 hidden layers; the metric is accuracy on a test set.
    Mlp(u32),
}

impl StudyModel {
    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Mf => "mf".to_owned(),
            Self::Lda => "lda".to_owned(),
            Self::Logistic => "logistic".to_owned(),
            Self::Mlp(depth) => format!("mlp-{depth}"),
        }
    }

    /// Returns the name of the metric.
    #[must_use]
    pub fn metric(self) -> &'static str {
        match self {
            Self::Mf => "loss",
            Self::Lda => "log likelihood per word",
            Self::Logistic | Self::Mlp(_) => "accuracy",
        }
    }

    /// Returns whether a lower value of the metric is better.
    #[must_use]
    pub fn lower_is_better(self) -> bool {
        self == Self::Mf
    }

    /// Returns whether the model is trained by gradients.
    #[must_use]
    pub fn has_gradients(self) -> bool {
        self != Self::Lda
    }

    /// Creates the model with synthetic data.
    ///
    /// # Panics
    /// If a perceptron has more than three hidden layers.
    #[must_use]
    pub fn learner(self, settings: &LearnerSettings) -> Box<dyn StudyLearner> {
        match self {
            Self::Mf => Box::new(mf::MfLearner::new(settings)),
            Self::Lda => Box::new(lda::LdaLearner::new(settings)),
            Self::Logistic => Box::new(mlp::MlpLearner::new(settings, 0)),
            Self::Mlp(depth) => {
                assert!(depth <= 3, "a perceptron has up to three hidden layers");
                Box::new(mlp::MlpLearner::new(settings, depth as usize))
            }
        }
    }

    /// Returns a learning rate that works well without staleness, on the data of these studies.
    #[must_use]
    pub fn learning_rate(self, optimizer: StudyOptimizer) -> f32 {
        match (self, optimizer) {
            (Self::Mf, StudyOptimizer::Momentum) => 0.001,
            (Self::Mf, StudyOptimizer::Sgd | StudyOptimizer::Rmsprop | StudyOptimizer::Adam) => 0.01,
            (Self::Mf, StudyOptimizer::Adagrad) | (_, StudyOptimizer::Sgd) => 0.1,
            (_, StudyOptimizer::Momentum | StudyOptimizer::Adagrad) => 0.03,
            (_, StudyOptimizer::Rmsprop | StudyOptimizer::Adam) => 0.003,
        }
    }

    /// Returns the default target of the metric, on the data of these studies.
    #[must_use]
    pub fn target(self) -> f64 {
        match self {
            Self::Mf => 0.5,
            Self::Lda => -7.5,
            Self::Logistic | Self::Mlp(_) => 0.85,
        }
    }
}

/// Settings of a learner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnerSettings {
    /// Random seed of data, initial values and batches.
    pub seed: u64,
    /// Number of workers in the study.
    pub workers: usize,
    /// Optimizer of all workers.
    pub optimizer: StudyOptimizer,
    /// Learning rate of the optimizer.
    pub learning_rate: f32,
}

/// An additive update of the model.
#[derive(Clone, Debug)]
pub enum ModelUpdate {
    /// Change of every element.
    Dense(Vec<f32>),
    /// Indices and changes of some elements.
    Sparse(Vec<(u32, f32)>),
}

impl ModelUpdate {
    /// Adds the update to a copy of the model.
    pub(super) fn add_to(&self, copy: &mut [f32]) {
        match self {
            Self::Dense(values) => copy.iter_mut().zip(values).for_each(|(value, change)| *value += change),
            Self::Sparse(changes) => changes.iter().for_each(|(index, change)| copy[*index as usize] += change),
        }
    }
}

/// A model in training, with the state of all its workers.
pub trait StudyLearner {
    /// Returns the initial model, equal for all workers.
    fn initial(&self) -> Vec<f32>;

    /// Computes the update of a worker's next batch from its copy of the model.
    fn update(&mut self, worker: usize, copy: &[f32]) -> ModelUpdate;

    /// Computes the metric of a copy of the model.
    fn evaluate(&self, copy: &[f32]) -> f64;
}
