//! Clusters and jobs made from a seed, with what must hold of them: what exploration explores.
//!
//! A scenario is plain data. [`Scenario::check`] runs it and compares what happened with what the protocol promises; [`Scenario::smaller`] are simpler ones that might fail in the same
//! way. Some can carry a *plant*: a fault as a wrong machine would make it, which tests plant to see it found.
//!
//! | scenario | promise |
//! |---|---|
//! | [`TableScenario`] | reads are as fresh as the bound asks, show prefixes of updates and all own ones; every update is applied once; under BSP bits do not depend on timing |
//! | [`CheckpointScenario`] | a snapshot taken while workers go on has every update of clocks before its own and none of later ones; a job that crashes goes on from it, with other shards, and loses nothing |
//! | [`CollectiveScenario`] | results have the bits of the documented order of sums, on all peers |
//! | [`EncodedScenario`] | results and what encoders keep have the bits of a calm cluster; told and kept is what was given; what one cannot encode fails on all |
//! | [`MixingScenario`] | with NOTIFY-ACK rounds have the bits of serial rounds, also when a peer is lost on the way |
//! | [`RingScenario`] | every block runs at every seat once, in an order that time does not change |
//! | [`PipelineScenario`] | all peers begin the same rounds and end with the same model, whatever the timing; jobs in flight do not disturb each other |
//! | [`LoopScenario`] | a loop gives the bits of its blocks run one after the other in the order of its plan |

mod blocks;
mod checkpoint;
mod collectives;
mod counter;
mod encoded;
mod mixing;
mod pipeline;
mod ring;
mod serial;
mod tables;
mod weather;

pub use blocks::LoopScenario;
pub use checkpoint::{CheckpointPlant, CheckpointScenario};
pub use collectives::{CollectivePlant, CollectiveScenario};
pub use encoded::{Aim, EncodedScenario};
pub use mixing::{MixingPlant, MixingScenario};
pub use pipeline::PipelineScenario;
pub use ring::RingScenario;
pub use tables::{TablePlant, TableScenario};

use crate::world::Ended;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A cluster and a job.
pub trait Scenario: Clone + Debug + Send + Sync + Into<Any> {
    /// The scenario of a seed.
    fn from_seed(seed: u64) -> Self;

    /// Runs it. What is wrong is told in words.
    fn check(&self) -> Result<Ended, String>;

    /// Simpler ones, those that leave out most first.
    fn smaller(&self) -> Vec<Self>;

    /// The line that replays it.
    fn replay(&self) -> String {
        let any: Any = self.clone().into();
        let json = serde_json::to_string(&any).expect("a scenario is plain data");
        format!("hemiola simulate replay '{json}'")
    }
}

/// Any of them, to be written down and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Any {
    /// Tables.
    Tables(TableScenario),
    /// Snapshots of tables, and jobs that go on from them.
    Checkpoint(CheckpointScenario),
    /// Collectives.
    Collectives(CollectiveScenario),
    /// Encoded exchanges.
    Encoded(EncodedScenario),
    /// Averages over a graph.
    Mixing(MixingScenario),
    /// Blocks around a ring of workers.
    Ring(RingScenario),
    /// Scheduled rounds.
    Pipeline(PipelineScenario),
    /// Parallel loops.
    Loop(LoopScenario),
}

impl Any {
    /// Runs it.
    pub fn check(&self) -> Result<Ended, String> {
        match self {
            Self::Tables(scenario) => scenario.check(),
            Self::Checkpoint(scenario) => scenario.check(),
            Self::Collectives(scenario) => scenario.check(),
            Self::Encoded(scenario) => scenario.check(),
            Self::Mixing(scenario) => scenario.check(),
            Self::Ring(scenario) => scenario.check(),
            Self::Pipeline(scenario) => scenario.check(),
            Self::Loop(scenario) => scenario.check(),
        }
    }
}

macro_rules! any_of {
    ($($kind:ident: $scenario:ident),*) => {$(
        impl From<$scenario> for Any {
            fn from(scenario: $scenario) -> Self {
                Self::$kind(scenario)
            }
        }
    )*};
}

any_of!(
    Tables: TableScenario,
    Checkpoint: CheckpointScenario,
    Collectives: CollectiveScenario,
    Encoded: EncodedScenario,
    Mixing: MixingScenario,
    Ring: RingScenario,
    Pipeline: PipelineScenario,
    Loop: LoopScenario
);

/// Runs end after so many events at most: more than any of these needs by far.
const EVENTS: u64 = 3_000_000;

/// What tells numbers apart that compare as equal, and shows that those are the same which do not.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn bits32(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Refuses numbers that a scenario written by hand cannot have.
fn some(numbers: &[(&str, usize)]) -> Result<(), String> {
    match numbers.iter().find(|(_, number)| *number == 0) {
        Some((what, _)) => Err(format!("this scenario cannot be: its `{what}` is 0")),
        None => Ok(()),
    }
}
