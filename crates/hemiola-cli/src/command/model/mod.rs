//! `hemiola train`, and using what was trained: `recommend`, `similar`, `predict`, `evaluate`.

mod frame;
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
    /// Matrix factorization: ratings of users for items.
    Mf(Box<mf::TrainMf>),
}

impl Train {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Mf(mf) => mf.execute(),
        }
    }
}
