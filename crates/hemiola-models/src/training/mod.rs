//! What all models share: the loop around their passes, when it stops, what it saves and tells on the way, and what is
//! reported in the end.
//!
//! | file | concept |
//! |---|---|
//! | [`figure`](Figure) | the figure that counts, and which way is better |
//! | [`limits`](Limits) | when training stops |
//! | [`session`](Session) | what accompanies it: a watcher, checkpoints |
//! | [`drive`](drive()) | the loop around passes, for any [`Learner`] |
//! | [`checkpoint`](Checkpoints) | what is on disk to go on from |
//! | [`digest`](digest()) | whether data are the same |
//! | [`report`](Report) | what is reported |

mod checkpoint;
mod digest;
mod drive;
mod figure;
mod limits;
mod report;
mod session;

pub use checkpoint::{Checkpoints, Every, Journal, Keep, plain};
pub use digest::digest;
pub(crate) use digest::mixed;
pub use drive::{Learner, Pass, Terms, drive, peak_memory};
pub use figure::Figure;
pub use limits::{Limits, Verdict};
pub use report::{ClusterFacts, DataFacts, Report, Summary};
pub use session::Session;

use hemiola::loops::Plan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures by name: `rmse`, `mae`.
pub type Metrics = BTreeMap<String, f64>;

/// Where training is after an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How many epochs are done.
    pub epoch: u32,
    /// Seconds of training so far; loading and evaluation are not counted.
    pub seconds: f64,
    /// What is minimized, per entry.
    pub objective: f64,
    /// Figures on the entries that were trained on, as they were met.
    pub train: Metrics,
    /// Figures on held-out entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<Metrics>,
    /// Entries used so far, over all epochs.
    pub updates: u64,
    /// Bytes all peers have sent so far.
    pub bytes_sent: u64,
    /// Something out of the ordinary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Somebody who wants to know how training goes. Called on every peer; if one wants the end, it comes for all.
pub trait Watch {
    /// Something a person should know, in a sentence.
    fn note(&mut self, note: &str) {
        let _ = note;
    }

    /// Something went wrong that training survives, in a sentence. A note, unless somebody wants to tell them apart.
    fn warn(&mut self, warning: &str) {
        self.note(warning);
    }

    /// The plan of the training loop, before the first epoch ends.
    fn planned(&mut self, plan: &Plan) {
        let _ = plan;
    }

    /// How training is made parallel, in words, where there is no plan.
    fn explained(&mut self, explanation: &str) {
        let _ = explanation;
    }

    /// An epoch is done; whether to go on.
    fn progress(&mut self, progress: &Progress) -> Wish {
        let _ = progress;
        Wish::GoOn
    }
}

/// What a watcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Another epoch.
    GoOn,
    /// The end, with what there is.
    Stop,
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Watch for Nobody {}
