//! `hemiola train`, and using what was trained: `recommend`, `similar`, `predict`, `evaluate`.

mod frame;
mod linear;
mod mf;
mod names;
mod progress;
mod somebody;
mod using;

pub(crate) use using::{Evaluate, Predict, Recommend, Similar};

use clap::Subcommand;
use std::process::ExitCode;

/// Which model to train.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Logistic regression: the chance of each class.
    Logistic(Box<linear::TrainLogistic>),
    /// Matrix factorization: ratings of users for items.
    Mf(Box<mf::TrainMf>),
    /// Linear support vector machine: classes with a margin between them.
    Svm(Box<linear::TrainSvm>),
}

impl Train {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Logistic(logistic) => logistic.execute(),
            Self::Mf(mf) => mf.execute(),
            Self::Svm(svm) => svm.execute(),
        }
    }
}
