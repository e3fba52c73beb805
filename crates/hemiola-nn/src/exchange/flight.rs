//! A unit on its way in one step: which message follows which.
//!
//! | way | stages |
//! |---|---|
//! | sum | all-reduce, update |
//! | served | reduce to the owner; the owner updates; broadcast of values |
//! | factors | lengths, then all factors to all; everybody multiplies and updates |
//! | rows | lengths, then rows to their owners; owners update; lengths, then the rows that changed to all |
//! | mix | update, average with neighbours |

use hemiola_collective::{Pending, PendingEncoded};

/// What a unit is at.
pub(super) enum Stage {
    /// Its sum is on its way, to all or to its owner.
    Sum(Pending<f32>),
    SumEncoded(PendingEncoded),
    /// Values wait for their turn to be broadcast; those of a peer that is not the owner are only as many.
    ToBroadcast(Vec<f32>),
    Broadcast(Pending<f32>),
    /// How many numbers of factors each peer has; one's own.
    Lengths(Pending<i64>, Vec<f32>),
    ToGather(Vec<usize>, Vec<f32>),
    Gather(Pending<f32>, Vec<usize>),
    /// How many numbers each peer has for each owner; one's own, by peer.
    RowLengths(Pending<i64>, Vec<Vec<f32>>),
    ToPush(Vec<usize>, Vec<Vec<f32>>),
    Push(Pending<f32>, Vec<usize>),
    /// A gradient is complete and waits until it may be applied.
    Apply(Gradient),
    ToBackLengths(Vec<f32>),
    BackLengths(Pending<i64>, Vec<f32>),
    ToBack(Vec<usize>, Vec<f32>),
    Back(Pending<f32>, Vec<usize>),
    Over,
}

/// The gradient of a unit, summed over all peers.
pub(super) enum Gradient {
    /// Of all pieces, one after the other.
    Whole(Vec<f32>),
    /// Of some rows of the only piece, in ascending order.
    Rows(Vec<usize>, Vec<f32>),
}

/// A unit on its way.
pub(super) struct Flight {
    pub(super) step: u64,
    pub(super) unit: usize,
    pub(super) stage: Stage,
    /// Whether its gradient was counted for the norm of all.
    pub(super) counted: bool,
    /// When it set out, if somebody traces.
    pub(super) began: f64,
}

/// Blocks of different lengths as equally long ones, one for each peer.
pub(super) fn padded(block: &[f32], length: usize) -> Vec<f32> {
    let mut padded = Vec::with_capacity(length);
    padded.extend_from_slice(block);
    padded.resize(length, 0.0);
    padded
}
