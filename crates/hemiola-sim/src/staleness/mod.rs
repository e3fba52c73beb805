//! Staleness study: training with synthetic update delays.
//!
//! The delay model is that of Dai et al., *Toward Understanding the Impact of Staleness in
//! Distributed Machine Learning* (ICLR 2019). In each iteration, every worker computes an update
//! from its own copy of the model. The update reaches the copy of each worker, including its own,
//! `1 + r` iterations later. `r` is drawn for each pair of workers and each update. With one worker
//! and no delay, this is serial training. The metric is evaluated on the first worker's copy; work
//! is counted in batches of all workers.
//!
//! | module | concept |
//! |---|---|
//! | [`delay`] | [`DelayDistribution`]: uniform or geometric |
//! | [`optimizer`] | [`StudyOptimizer`]: update rules |
//! | [`learner`] | [`StudyLearner`]: interface of a model |
//! | `mf` | matrix factorization |
//! | `mlp` | logistic regression and perceptrons with up to three hidden layers |
//! | `lda` | topic model by Gibbs sampling |
//! | [`training`] | one training with delays, and its [`LearningCurve`] |
//! | [`sweep`] | grid over staleness, workers and seeds, with means and standard deviations |

pub mod delay;
mod lda;
pub mod learner;
mod mf;
mod mlp;
pub mod optimizer;
pub mod sweep;
pub mod training;

pub use delay::DelayDistribution;
pub use learner::{StudyLearner, StudyModel};
pub use optimizer::StudyOptimizer;
pub use sweep::{StalenessSweep, SweepCell};
pub use training::{DelayedTraining, LearningCurve};
