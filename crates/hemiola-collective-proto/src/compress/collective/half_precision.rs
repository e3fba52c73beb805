//! Compressed collectives of half-precision values.
//!
//! Values are not combined in transit, which would round at every step. Where they are to be
//! combined, peer `i` receives chunk `i` of all peers and combines them in `f32`, by rank; the
//! result is rounded once before it is sent to others. Chunks are stored at equal distances, that
//! of the longest.

use super::{CompressedCollective, NextStage};
use crate::compress::{CollectiveGoal, CompressedBuffer};
use crate::protocol::{CollectiveElement, Operation, ReduceOp};

impl CompressedCollective {
    /// First stage of the collective.
    pub(super) fn start_half_precision<N: CollectiveElement + Default>(
        &self,
        vector: &[f32],
        from: fn(f32) -> N,
    ) -> (Operation, Vec<N>) {
        let (length, peers) = (vector.len(), self.context.peers);
        let own: Vec<N> = vector.iter().map(|&value| from(value)).collect();
        match self.goal {
            CollectiveGoal::AllReduce | CollectiveGoal::ReduceScatter | CollectiveGoal::Reduce { .. } => {
                let block = length.div_ceil(peers);
                let mut all = vec![N::default(); block * peers];
                for (peer, chunk) in self.context.chunks(length).enumerate() {
                    all[peer * block..][..chunk.len()].copy_from_slice(&own[chunk]);
                }
                (Operation::AllToAll { block }, all)
            }
            CollectiveGoal::AllGather => (Operation::AllGather { block: length }, self.with_own_block(&own)),
            CollectiveGoal::Broadcast { root } => (Operation::Broadcast { root, length }, own),
            CollectiveGoal::AllToAll => (Operation::AllToAll { block: length / peers }, own),
        }
    }

    /// Continuation after a stage.
    pub(super) fn after_half_precision<N: Copy>(
        &mut self,
        received: Vec<N>,
        length: usize,
        from: fn(f32) -> N,
        to: fn(N) -> f32,
        wrap: fn(Vec<N>) -> CompressedBuffer,
    ) -> NextStage {
        let (peers, me) = (self.context.peers, self.context.me.index());
        if !self.goal.combines() {
            return NextStage::Done(received.into_iter().map(to).collect());
        }
        let block = length.div_ceil(peers);
        if self.stages == 2 {
            if self.goal != CollectiveGoal::AllReduce && !self.context.is_root(self.goal) {
                return NextStage::Done(Vec::new());
            }
            let chunks = self.context.chunks(length).enumerate();
            let values =
                chunks.flat_map(|(peer, chunk)| received[peer * block..][..chunk.len()].iter().copied().map(to));
            return NextStage::Done(values.collect());
        }
        let combined = self.combine(&received, block, to);
        if self.goal == CollectiveGoal::ReduceScatter {
            return NextStage::Done(combined[..self.context.own_chunk(length).len()].to_vec());
        }
        let mut all = received;
        all[me * block..][..block].iter_mut().zip(combined).for_each(|(element, value)| *element = from(value));
        let operation = match self.goal {
            CollectiveGoal::Reduce { root } => Operation::Gather { root, blocks: vec![block; peers] },
            _ => Operation::AllGather { block },
        };
        NextStage::Stage(self.stage(operation, wrap(all)))
    }

    /// Own chunk of all peers, combined.
    fn combine<N: Copy>(&self, received: &[N], block: usize, to: fn(N) -> f32) -> Vec<f32> {
        let combine = match self.context.operator {
            ReduceOp::Sum => CollectiveElement::sum,
            ReduceOp::Min => CollectiveElement::min,
            ReduceOp::Max => CollectiveElement::max,
        };
        let mut combined: Vec<f32> = received[..block].iter().map(|&value| to(value)).collect();
        for peer in 1..self.context.peers {
            let theirs = &received[peer * block..][..block];
            combined.iter_mut().zip(theirs).for_each(|(value, &theirs)| *value = combine(*value, to(theirs)));
        }
        combined
    }
}
