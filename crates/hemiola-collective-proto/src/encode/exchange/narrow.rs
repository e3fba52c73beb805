//! Exchanges of numbers of half the size.
//!
//! They are not combined on the way, which would round at every step. Where they are to be combined, peer `i` gets everybody's chunk `i` and combines them in `f32`, by rank; what is
//! told of that to others is rounded once. Chunks are put at equal distances, as long as the longest.

use super::{Exchange, Next};
use crate::encode::{Buffer, Goal};
use crate::protocol::{Element, Operation, Operator};

impl Exchange {
    /// The first leg.
    pub(super) fn narrow<N: Copy + Default>(&self, vector: &[f32], from: fn(f32) -> N) -> (Operation, Vec<N>) {
        let (length, peers) = (vector.len(), self.place.peers);
        let own: Vec<N> = vector.iter().map(|&value| from(value)).collect();
        match self.goal {
            Goal::AllReduce | Goal::ReduceScatter | Goal::Reduce { .. } => {
                let block = length.div_ceil(peers);
                let mut all = vec![N::default(); block * peers];
                for (peer, chunk) in self.place.chunks(length).enumerate() {
                    all[peer * block..][..chunk.len()].copy_from_slice(&own[chunk]);
                }
                (Operation::AllToAll { block }, all)
            }
            Goal::AllGather => (Operation::AllGather { block: length }, self.spread(&own)),
            Goal::Broadcast { root } => (Operation::Broadcast { root, length }, own),
            Goal::AllToAll => (Operation::AllToAll { block: length / peers }, own),
        }
    }

    /// What comes after a leg.
    pub(super) fn after_narrow<N: Copy>(
        &mut self,
        came: Vec<N>,
        length: usize,
        from: fn(f32) -> N,
        to: fn(N) -> f32,
        wrap: fn(Vec<N>) -> Buffer,
    ) -> Next {
        let (peers, me) = (self.place.peers, self.place.me.index());
        if !self.goal.combines() {
            return Next::Done(came.into_iter().map(to).collect());
        }
        let block = length.div_ceil(peers);
        if self.legs == 2 {
            if self.goal != Goal::AllReduce && !self.place.is_root(self.goal) {
                return Next::Done(Vec::new());
            }
            let chunks = self.place.chunks(length).enumerate();
            let values = chunks.flat_map(|(peer, chunk)| came[peer * block..][..chunk.len()].iter().copied().map(to));
            return Next::Done(values.collect());
        }
        let combined = self.combine(&came, block, to);
        if self.goal == Goal::ReduceScatter {
            return Next::Done(combined[..self.place.own_chunk(length).len()].to_vec());
        }
        let mut all = came;
        all[me * block..][..block].iter_mut().zip(combined).for_each(|(place, value)| *place = from(value));
        let operation = match self.goal {
            Goal::Reduce { root } => Operation::Gather { root, blocks: vec![block; peers] },
            _ => Operation::AllGather { block },
        };
        Next::Leg(self.leg(operation, wrap(all)))
    }

    /// This peer's chunk of everybody, combined.
    fn combine<N: Copy>(&self, came: &[N], block: usize, to: fn(N) -> f32) -> Vec<f32> {
        let combine = match self.place.operator {
            Operator::Sum => Element::sum,
            Operator::Min => Element::min,
            Operator::Max => Element::max,
        };
        let mut combined: Vec<f32> = came[..block].iter().map(|&value| to(value)).collect();
        for peer in 1..self.place.peers {
            let theirs = &came[peer * block..][..block];
            combined.iter_mut().zip(theirs).for_each(|(value, &theirs)| *value = combine(*value, to(theirs)));
        }
        combined
    }
}
