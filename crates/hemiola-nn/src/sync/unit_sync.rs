//! State machine of a unit in one step: the sequence of its collectives.
//!
//! | method | sequence |
//! |---|---|
//! | all-reduce | all-reduce, update |
//! | parameter server | reduce to the owner; the owner updates; broadcast of values |
//! | sufficient factors | all-gather of lengths, then of factors; every peer multiplies and updates |
//! | served rows | lengths, all-to-all of rows; owners update; lengths, all-gather of changed rows |
//! | gossip | update, average with neighbours |

use crate::ids::UnitId;
use hemiola_collective::{PendingCollective, PendingCompressed};

/// State of a unit.
pub(super) enum UnitState {
    /// Sum in flight, to all peers or to the owner.
    Reduce(PendingCollective<f32>),
    ReduceCompressed(PendingCompressed),
    /// Waits for its turn to broadcast. On peers other than the owner, the values are placeholders
    /// of the right length.
    AwaitBroadcast(Vec<f32>),
    Broadcast(PendingCollective<f32>),
    /// Lengths of all peers' factors in flight; factors of this peer.
    FactorLengths(PendingCollective<i64>, Vec<f32>),
    AwaitFactors(Vec<usize>, Vec<f32>),
    Factors(PendingCollective<f32>, Vec<usize>),
    /// Lengths of the rows for each owner in flight; rows of this peer, by owner.
    RowLengths(PendingCollective<i64>, Vec<Vec<f32>>),
    AwaitPush(Vec<usize>, Vec<Vec<f32>>),
    Push(PendingCollective<f32>, Vec<usize>),
    /// Summed gradient that waits until it may be applied.
    Apply(SummedGradient),
    AwaitPullLengths(Vec<f32>),
    PullLengths(PendingCollective<i64>, Vec<f32>),
    AwaitPull(Vec<usize>, Vec<f32>),
    Pull(PendingCollective<f32>, Vec<usize>),
    Done,
}

/// Gradient of a unit, summed over all peers.
pub(super) enum SummedGradient {
    /// Gradients of all pieces, concatenated.
    Dense(Vec<f32>),
    /// Rows of the only piece, in ascending order, and their gradients.
    Rows(Vec<usize>, Vec<f32>),
}

/// Synchronization of one unit in one step.
pub(super) struct UnitSync {
    pub(super) step: u64,
    pub(super) unit: UnitId,
    pub(super) state: UnitState,
    /// The gradient is included in the squared norm of the step.
    pub(super) counted: bool,
    /// Start time, if a trace is recorded.
    pub(super) began: f64,
}

/// Pads a block with zeros to the common length of an all-gather.
pub(super) fn padded(block: &[f32], length: usize) -> Vec<f32> {
    let mut padded = Vec::with_capacity(length);
    padded.extend_from_slice(block);
    padded.resize(length, 0.0);
    padded
}
