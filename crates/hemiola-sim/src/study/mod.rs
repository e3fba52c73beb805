//! What staleness does to learning: models trained under delays that are drawn, not caused.
//!
//! The delay model is that of Dai et al., *Toward Understanding the Impact of Staleness in Distributed Machine Learning* (2019): in each iteration every worker computes an update from its own copy of the model; the update reaches the copy
//! of each worker, its own included, `1 + r` iterations later, with an `r` drawn for each pair of workers and each update. With one worker and no delay that is plain serial learning. Quality is that of the first worker's copy;
//! work is counted in batches of all workers.
//!
//! | module | concept |
//! |---|---|
//! | [`delay`] | [`Delay`]: uniform or geometric |
//! | [`optimizer`] | [`Optimizer`]: what a gradient becomes |
//! | [`learner`] | [`Learner`]: a model as a study sees it |
//! | `factors`, `network`, `topics` | matrix factorization; logistic regression and networks of up to three hidden layers; topics by Gibbs sampling |
//! | [`run`] | one training under delays |
//! | [`sweep`] | many: staleness, workers, seeds; means and deviations |

pub mod delay;
mod factors;
pub mod learner;
mod network;
pub mod optimizer;
pub mod run;
pub mod sweep;
mod topics;

pub use delay::Delay;
pub use learner::{Learner, Model};
pub use optimizer::Optimizer;
pub use run::{Course, Training};
pub use sweep::{Cell, Sweep};
