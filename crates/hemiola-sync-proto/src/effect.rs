//! Effects of a node: collectives to start, values and losses to publish. Results of collectives
//! come back as [`CollectiveOutput`]s.

use crate::error::{Error, Result};
use crate::ids::{UnitId, VariableId};
use crate::stage::SyncStage;
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_collective_proto::{Algorithm, Compressor, Route};
use hemiola_core::Rank;
use hemiola_tables_proto::TableMessage;

/// Effect that the driver of a node executes, in the order in which the node returns them.
#[derive(Debug)]
pub enum SyncEffect {
    /// Starts a collective. Its result returns by
    /// [`SyncNode::complete`](crate::SyncNode::complete).
    Start {
        /// Identity of the collective.
        id: CollectiveId,
        /// Communicator on which it starts.
        channel: SyncChannel,
        /// Operation with its elements.
        op: CollectiveOp,
    },
    /// Averages the values of a unit with those of its neighbours, by the gossip averager of the
    /// unit. The result returns as that of a collective.
    Average {
        /// Identity of the averaging round.
        id: CollectiveId,
        /// Unit whose values are averaged.
        unit: UnitId,
        /// Values of all pieces of the unit.
        values: Vec<f32>,
    },
    /// Sends a message of a table to another peer, whose node
    /// [receives](crate::SyncNode::receive_table) it.
    SendTable {
        /// Peer that receives the message.
        to: Rank,
        /// Message, whose shard is the number of its chunk.
        message: TableMessage<f32>,
    },
    /// New values of a variable.
    Publish {
        /// Variable whose pieces all have new values.
        variable: VariableId,
        /// All elements of the variable.
        values: Vec<f32>,
        /// Number of updates that the values contain.
        version: u64,
    },
    /// Mean loss over the examples of all peers; over those of this peer in a plan that
    /// [sums nothing](crate::SyncPlan::sums_over_peers) over peers.
    RecordLoss {
        /// Step of the loss, counted from 0.
        step: u64,
        /// Mean loss of the step.
        loss: f64,
    },
    /// The synchronization of a unit has begun.
    UnitStarted {
        /// Step of the synchronization, counted from 0.
        step: u64,
        /// Unit that travels.
        unit: UnitId,
    },
    /// The pieces of a unit have their new values.
    UnitFinished {
        /// Step of the synchronization, counted from 0.
        step: u64,
        /// Unit that has arrived.
        unit: UnitId,
    },
}

/// Communicator of a collective. All peers start the collectives of one channel in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncChannel {
    /// Collectives of one stage, in the agreed order of units.
    Stage(SyncStage),
    /// Batch sizes and losses, in the order of steps.
    Counts,
    /// Squared norms of gradients, in the order of steps.
    Norms,
    /// Order of units, once.
    UnitOrder,
}

impl SyncChannel {
    /// All channels, in the order of [`SyncChannel::index`].
    pub const ALL: [Self; SyncStage::ALL.len() + 3] = [
        Self::Stage(SyncStage::Gradients),
        Self::Stage(SyncStage::Payloads),
        Self::Stage(SyncStage::Values),
        Self::Stage(SyncStage::Rows),
        Self::Counts,
        Self::Norms,
        Self::UnitOrder,
    ];

    /// Position of the channel among [all](SyncChannel::ALL) of them.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Stage(stage) => stage as usize,
            Self::Counts => SyncStage::ALL.len(),
            Self::Norms => SyncStage::ALL.len() + 1,
            Self::UnitOrder => SyncStage::ALL.len() + 2,
        }
    }
}

/// Identity of a collective. A unit has at most one in flight in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveId {
    /// Step of the collective, counted from 0.
    pub step: u64,
    /// Part of the step that needs its result.
    pub source: CollectiveSource,
}

/// Part of a step that needs the result of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveSource {
    /// Synchronization of a unit.
    Unit(UnitId),
    /// Sum of batch sizes and losses.
    Counts,
    /// Sum of squared norms, for clipping.
    Norm,
    /// Agreement on the order of units.
    UnitOrder,
}

/// Collective operation with the elements of this peer. Reductions compute sums.
#[derive(Debug)]
pub enum CollectiveOp {
    /// All-reduce: all peers get the sum.
    AllReduce {
        /// Algorithm, which determines the order of summation.
        algorithm: Algorithm,
        /// Members in their order; `None` for all peers. Others start the collective, too, and keep
        /// their elements.
        route: Option<Route>,
        /// Elements of this peer.
        elements: Vec<f32>,
    },
    /// Reduce: the root gets the sum.
    Reduce {
        /// Peer that gets the sum.
        root: Rank,
        /// Members by group; `None` for all peers.
        route: Option<Route>,
        /// Elements of this peer.
        elements: Vec<f32>,
    },
    /// Compressed reduction; the compressor returns with the sum.
    Compressed {
        /// All-reduce, or reduce to a root.
        goal: CollectiveGoal,
        /// Algorithm of the all-reduces in it.
        algorithm: Algorithm,
        /// Elements of this peer.
        elements: Vec<f32>,
        /// Compressor of the unit, with its residual.
        compressor: Compressor,
    },
    /// Broadcast: all peers get the elements of the root.
    Broadcast {
        /// Peer that sends its elements.
        root: Rank,
        /// Members by group; `None` for all peers.
        route: Option<Route>,
        /// Elements at the root; placeholders of the same length elsewhere.
        elements: Vec<f32>,
    },
    /// All-gather of blocks of equal lengths.
    AllGather {
        /// Block of this peer.
        block: Vec<f32>,
    },
    /// All-gather of the lengths of blocks.
    AllGatherLengths {
        /// Lengths of this peer's blocks.
        lengths: Vec<i64>,
    },
    /// All-to-all of blocks of equal lengths.
    AllToAll {
        /// One block for each peer, concatenated.
        blocks: Vec<f32>,
    },
    /// All-reduce of a few `f64` numbers.
    SumNumbers {
        /// Numbers of this peer.
        numbers: Vec<f64>,
    },
    /// Broadcast of the order of units from peer 0.
    BroadcastOrder {
        /// Indices of units on peer 0; placeholders of the same number elsewhere.
        order: Vec<i64>,
    },
}

/// Result of a collective on this peer.
#[derive(Debug)]
pub enum CollectiveOutput {
    /// Elements of a reduction, broadcast, all-gather, all-to-all or averaging round.
    Elements(Vec<f32>),
    /// Result of [`CollectiveOp::Compressed`].
    Compressed(Compressor, Vec<f32>),
    /// Result of [`CollectiveOp::AllGatherLengths`] or [`CollectiveOp::BroadcastOrder`].
    Integers(Vec<i64>),
    /// Result of [`CollectiveOp::SumNumbers`].
    Numbers(Vec<f64>),
}

impl CollectiveOutput {
    pub(crate) fn into_elements(self, step: u64) -> Result<Vec<f32>> {
        match self {
            Self::Elements(elements) => Ok(elements),
            _ => Err(Error::Driver { step: step + 1, problem: "a collective of elements returned something else" }),
        }
    }

    pub(crate) fn into_integers(self, step: u64) -> Result<Vec<usize>> {
        match self {
            Self::Integers(integers) => {
                Ok(integers.into_iter().map(|integer| usize::try_from(integer).unwrap_or(0)).collect())
            }
            _ => Err(Error::Driver { step: step + 1, problem: "a collective of integers returned something else" }),
        }
    }

    pub(crate) fn into_numbers(self, step: u64) -> Result<Vec<f64>> {
        match self {
            Self::Numbers(numbers) => Ok(numbers),
            _ => Err(Error::Driver { step: step + 1, problem: "a sum of numbers returned something else" }),
        }
    }
}
