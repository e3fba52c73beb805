//! Collective call of an operation: what every driver of a node does to execute a
//! [`CollectiveOp`].
//!
//! **Invariant:** a plan depends on the operation, the rank and the number of peers only. So
//! threads, TCP and the simulator make the same calls: with the same bits, order of summation and
//! sizes of messages.

use crate::effect::CollectiveOp;
use hemiola_collective_proto::compress::{CollectiveContext, CollectiveGoal};
use hemiola_collective_proto::{Algorithm, Compressor, Operation, ReduceOp};
use hemiola_core::Rank;

/// Algorithm for sums of one or two numbers: recursive doubling has the fewest rounds.
const NUMBERS_ALGORITHM: Algorithm = Algorithm::Doubling;

/// Collective call with the buffer of this peer, which holds the result afterwards.
#[derive(Debug)]
pub enum CallPlan {
    /// Call on `f32` elements; the result is
    /// [`CollectiveOutput::Elements`](crate::CollectiveOutput).
    Elements(Operation, Vec<f32>),
    /// Call on integers; the result is [`CollectiveOutput::Integers`](crate::CollectiveOutput).
    Integers(Operation, Vec<i64>),
    /// Call on `f64` numbers; the result is [`CollectiveOutput::Numbers`](crate::CollectiveOutput).
    Numbers(Operation, Vec<f64>),
    /// Compressed call; the result is [`CollectiveOutput::Compressed`](crate::CollectiveOutput).
    Compressed {
        /// All-reduce, or reduce to a root.
        goal: CollectiveGoal,
        /// Rank, number of peers, operator and algorithm.
        context: CollectiveContext,
        /// Elements of this peer.
        elements: Vec<f32>,
        /// Compressor of the unit, with its residual.
        compressor: Compressor,
    },
}

impl CollectiveOp {
    /// Returns the call that executes this operation on peer `me` of `peers`.
    #[must_use]
    pub fn call_plan(self, me: Rank, peers: usize) -> CallPlan {
        let operator = ReduceOp::Sum;
        match self {
            Self::AllReduce { algorithm, route, elements } => {
                let length = elements.len();
                let operation = match route {
                    Some(route) => Operation::RoutedAllReduce { route, algorithm, operator, length },
                    None => Operation::AllReduce { algorithm, operator, length },
                };
                CallPlan::Elements(operation, elements)
            }
            Self::Reduce { root, route, elements } => {
                let length = elements.len();
                let operation = match route {
                    Some(route) => Operation::RoutedReduce { route, root, operator, length },
                    None => Operation::Reduce { root, operator, length },
                };
                CallPlan::Elements(operation, elements)
            }
            Self::Broadcast { root, route, elements } => {
                let length = elements.len();
                let operation = match route {
                    Some(route) => Operation::RoutedBroadcast { route, root, length },
                    None => Operation::Broadcast { root, length },
                };
                CallPlan::Elements(operation, elements)
            }
            Self::AllGather { block } => {
                let buffer = Operation::gather_buffer(&block, me, peers);
                CallPlan::Elements(Operation::AllGather { block: block.len() }, buffer)
            }
            Self::AllToAll { blocks } => {
                let block = blocks.len() / peers;
                CallPlan::Elements(Operation::AllToAll { block }, blocks)
            }
            Self::AllGatherLengths { lengths } => {
                let buffer = Operation::gather_buffer(&lengths, me, peers);
                CallPlan::Integers(Operation::AllGather { block: lengths.len() }, buffer)
            }
            Self::BroadcastOrder { order } => {
                let length = order.len();
                CallPlan::Integers(Operation::Broadcast { root: Rank::ROOT, length }, order)
            }
            Self::SumNumbers { numbers } => {
                let (algorithm, length) = (NUMBERS_ALGORITHM, numbers.len());
                CallPlan::Numbers(Operation::AllReduce { algorithm, operator, length }, numbers)
            }
            Self::Compressed { goal, algorithm, elements, compressor } => {
                let context = CollectiveContext { me, peers, operator, algorithm };
                CallPlan::Compressed { goal, context, elements, compressor }
            }
        }
    }
}
