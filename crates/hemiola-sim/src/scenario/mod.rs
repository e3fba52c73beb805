//! Random clusters and jobs with their invariants, for randomized testing.
//!
//! A scenario is plain data. [`Scenario::check`] runs it and compares the outcome with the
//! guarantees of the protocol. [`Scenario::shrink`] returns simpler scenarios that may fail in the
//! same way. Some scenarios can carry an injected fault, by which tests show that the check detects
//! it.
//!
//! - [`TableScenario`]: reads respect the staleness bound, contain prefixes of updates and all own
//!   ones (read-your-writes); every update is applied once; under BSP, bits do not depend on
//!   timing.
//! - [`CheckpointScenario`]: a snapshot during the run has every update of clocks before its own
//!   and none of later ones; a crashed job resumes from it with other shards and loses nothing.
//! - [`CollectiveScenario`]: results have the bits of the documented order of summation, on all
//!   peers.
//! - [`CompressedScenario`]: results and residuals have the bits of an undisturbed cluster; sums
//!   plus residuals equal the inputs; an input that cannot be compressed fails on all peers.
//! - [`GossipScenario`]: with NOTIFY-ACK, rounds have the bits of serial rounds, also after the
//!   loss of a peer.
//! - [`RotationScenario`]: every block runs at every position once, in an order that does not depend on
//!   timing.
//! - [`PipelineScenario`]: all peers start the same rounds and end with the same model, whatever
//!   the timing; jobs in flight do not conflict.
//! - [`SyncScenario`]: a training ends with the bits of a serial training, on all peers, by any
//!   strategy; with a staleness bound or compression, copies are equal.
//! - [`LoopScenario`]: a loop gives the bits of its blocks run serially in the order of its plan.

mod checkpoint;
mod collectives;
mod compressed;
mod counting_worker;
mod gossip;
mod loop_blocks;
mod pipeline;
mod random_cluster;
mod rotation;
mod serial_sums;
mod serial_training;
mod sync;
mod tables;

pub use checkpoint::{CheckpointFault, CheckpointScenario};
pub use collectives::{CollectiveFault, CollectiveScenario};
pub use compressed::{CompressedGoal, CompressedScenario};
pub use gossip::{GossipFault, GossipScenario};
pub use loop_blocks::LoopScenario;
pub use pipeline::PipelineScenario;
pub use rotation::RotationScenario;
pub use sync::SyncScenario;
pub use tables::{TableFault, TableScenario};

use crate::simulation::RunSummary;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A cluster, a job and its invariant.
pub trait Scenario: Clone + Debug + Send + Sync + Into<AnyScenario> {
    /// Creates the scenario of a random seed.
    fn from_seed(seed: u64) -> Self;

    /// Runs the scenario and checks its invariant; the error describes the violation.
    fn check(&self) -> Result<RunSummary, String>;

    /// Returns simpler scenarios, the simplest first.
    fn shrink(&self) -> Vec<Self>;

    /// Returns the command that replays the scenario.
    fn replay(&self) -> String {
        let any: AnyScenario = self.clone().into();
        let json = serde_json::to_string(&any).expect("a scenario is plain data");
        format!("hemiola simulate replay '{json}'")
    }
}

/// A scenario of any kind, for serialization.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnyScenario {
    /// Reads and updates of a table.
    Tables(TableScenario),
    /// Snapshots of tables, and jobs that resume from them.
    Checkpoint(CheckpointScenario),
    /// Collectives on dense buffers.
    Collectives(CollectiveScenario),
    /// Compressed collectives with error feedback.
    Compressed(CompressedScenario),
    /// Gossip averaging over a graph.
    Gossip(GossipScenario),
    /// Rotation of blocks around a ring of workers.
    Rotation(RotationScenario),
    /// Dynamic scheduling in rounds.
    Pipeline(PipelineScenario),
    /// Parallel loops over blocks.
    Loop(LoopScenario),
    /// Training of a model by a synchronization strategy.
    Sync(SyncScenario),
}

impl AnyScenario {
    /// Runs the scenario and checks its invariant.
    pub fn check(&self) -> Result<RunSummary, String> {
        match self {
            Self::Tables(scenario) => scenario.check(),
            Self::Checkpoint(scenario) => scenario.check(),
            Self::Collectives(scenario) => scenario.check(),
            Self::Compressed(scenario) => scenario.check(),
            Self::Gossip(scenario) => scenario.check(),
            Self::Rotation(scenario) => scenario.check(),
            Self::Pipeline(scenario) => scenario.check(),
            Self::Loop(scenario) => scenario.check(),
            Self::Sync(scenario) => scenario.check(),
        }
    }
}

macro_rules! any_scenario {
    ($($kind:ident: $scenario:ident),*) => {$(
        impl From<$scenario> for AnyScenario {
            fn from(scenario: $scenario) -> Self {
                Self::$kind(scenario)
            }
        }
    )*};
}

any_scenario!(
    Tables: TableScenario,
    Checkpoint: CheckpointScenario,
    Collectives: CollectiveScenario,
    Compressed: CompressedScenario,
    Gossip: GossipScenario,
    Rotation: RotationScenario,
    Pipeline: PipelineScenario,
    Loop: LoopScenario,
    Sync: SyncScenario
);

/// Event limit of a run, far above the number that any scenario needs.
const MAX_EVENTS: u64 = 3_000_000;

/// Bit patterns, which distinguish `0.0` from `-0.0` and identify NaNs.
fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn bits32(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Refuses a hand-written scenario with a zero among these values.
fn require_nonzero(numbers: &[(&str, usize)]) -> Result<(), String> {
    match numbers.iter().find(|(_, number)| *number == 0) {
        Some((what, _)) => Err(format!("invalid scenario: `{what}` is 0; use at least 1")),
        None => Ok(()),
    }
}
