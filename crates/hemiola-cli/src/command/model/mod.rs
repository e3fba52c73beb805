//! `hemiola train`, and using what was trained: `recommend`, `similar`, `predict`, `evaluate`, `coefficients`.

mod coefficients;
mod frame;
mod linear;
mod mf;
mod names;
mod progress;
mod somebody;
mod sparse;
mod using;

pub(crate) use coefficients::Coefficients;
pub(crate) use using::{Evaluate, Predict, Recommend, Similar};

use clap::Subcommand;
use std::process::ExitCode;

/// Which model to train.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Quantities from few columns, with a penalty of absolute values and squares.
    ElasticNet(Box<sparse::TrainElasticNet>),
    /// Quantities from few columns, with a penalty of absolute values.
    Lasso(Box<sparse::TrainLasso>),
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
            Self::ElasticNet(elastic_net) => elastic_net.execute(),
            Self::Lasso(lasso) => lasso.execute(),
            Self::Logistic(logistic) => logistic.execute(),
            Self::Mf(mf) => mf.execute(),
            Self::Svm(svm) => svm.execute(),
        }
    }
}
