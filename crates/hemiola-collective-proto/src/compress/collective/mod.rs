//! Compressed collective: a sequence of ordinary collectives, its *stages*, and the treatment of
//! their results.
//!
//! Without compression the only stage is the collective of the goal's name. Otherwise:
//!
//! | goal | `bf16`, `f16` | one bit | top-k |
//! |---|---|---|---|
//! | all-reduce | chunks, all-gather | all-gather | lengths, ragged all-gather |
//! | reduce-scatter | chunks | lengths, all-to-all | lengths, all-to-all |
//! | reduce | chunks, gather | lengths, gather | lengths, gather |
//! | all-gather | all-gather | all-gather | lengths, ragged all-gather |
//! | broadcast | broadcast | broadcast | a length, broadcast |
//! | all-to-all | all-to-all | lengths, all-to-all | lengths, all-to-all |
//!
//! Low rank runs two all-reduces, of P and of Q, for the first three goals. Sufficient factors run
//! lengths and a ragged all-gather, for all-reduce only. `half_precision.rs` has `bf16` and `f16`,
//! `payloads.rs` one bit and top-k.
//!
//! *Chunks* are an all-to-all: peer `i` receives chunk `i` of all peers and combines them in `f32`,
//! by rank. *Lengths* are an all-gather in which every peer announces the length of its payload, or
//! that its vector could not be compressed. The two thin matrices of low rank go through
//! all-reduces whatever the goal is, because every peer needs them for its residual and as the
//! start of the next round; where nothing is summed, low rank does not apply.
//!
//! **Invariants.** The data that a stage sends depends on the compressor, the vector and the
//! results of earlier stages, not on timing; sums are added by rank or by an all-reduce, so all
//! peers that get a value get the same bits. A peer whose vector cannot be compressed says so in
//! place of its payload: so all peers fail in the same call, and all compressors return to their
//! state before it.

mod half_precision;
mod payloads;

use super::compressor::{Compressor, CompressorState};
use super::{CollectiveGoal, CompressedBuffer, pack_factors, rebuild};
use crate::protocol::{CollectiveElement, Operation, ReduceOp, chunk_range, digest};
use crate::{Algorithm, Compression, Error, Result};
use half::{bf16, f16};
use hemiola_core::Rank;
use std::ops::Range;

/// Rank, number of peers, operator and algorithm of a compressed collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveContext {
    /// Rank of this peer.
    pub me: Rank,
    /// Number of peers in the job.
    pub peers: usize,
    /// Operator that combines values, where the goal combines any.
    pub operator: ReduceOp,
    /// Algorithm of the all-reduces.
    pub algorithm: Algorithm,
}

impl CollectiveContext {
    fn is_root(&self, goal: CollectiveGoal) -> bool {
        goal.root() == Some(self.me)
    }

    /// Chunks of `length` elements, by rank.
    fn chunks(&self, length: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let peers = self.peers;
        (0..peers).map(move |peer| chunk_range(length, peers, peer))
    }

    fn own_chunk(&self, length: usize) -> Range<usize> {
        chunk_range(length, self.peers, self.me.index())
    }
}

/// Properties of a compressed collective that all peers must share; part of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLabel {
    /// Compression method. Sufficient factors are named without their number, which may differ
    /// between peers.
    pub compression: Compression,
    /// Goal of the collective.
    pub goal: CollectiveGoal,
    /// Operator that combines values, if the goal combines any.
    pub operator: Option<ReduceOp>,
    /// Number of elements per peer, before compression.
    pub length: usize,
    /// Hash of further shared state, or zero.
    pub digest: u64,
}

/// Ordinary collective that is one stage of a compressed collective.
#[derive(Debug)]
pub struct CollectiveStage {
    /// Operation of the stage.
    pub operation: Operation,
    /// Input buffer of the operation.
    pub buffer: CompressedBuffer,
    /// Label of the compressed collective. `None` without compression: that is an ordinary
    /// collective.
    pub label: Option<CompressionLabel>,
}

/// Continuation after a stage.
#[derive(Debug)]
pub enum NextStage {
    /// Another stage follows, to be run next.
    Stage(CollectiveStage),
    /// The collective is complete, with the result that [`CollectiveGoal`] describes; empty if only
    /// other peers get one.
    Done(Vec<f32>),
}

/// Compressed collective in flight on one peer.
#[derive(Debug)]
pub struct CompressedCollective {
    context: CollectiveContext,
    goal: CollectiveGoal,
    label: Option<CompressionLabel>,
    /// Own packed pairs, until their position in the gathered buffer is known.
    pairs: Option<Vec<f32>>,
    /// Own payloads: one, or one for each peer.
    payloads: Vec<Vec<u8>>,
    stages: usize,
    /// Lengths of all peers' payloads, where they differ.
    blocks: Vec<usize>,
    /// Residual of the compressor before this collective.
    previous_residual: Option<Vec<f32>>,
    /// Error of this peer's own compression.
    rejection: Option<Error>,
}

impl CompressedCollective {
    /// Starts with a vector. After an error nothing has changed, and nothing is to be sent.
    pub fn begin(
        compressor: &mut Compressor,
        vector: &[f32],
        goal: CollectiveGoal,
        context: CollectiveContext,
    ) -> Result<(Self, CollectiveStage)> {
        let compression = compressor.compression();
        if vector.len() != compressor.length() {
            return Err(Error::WrongVectorLength { expected: compressor.length(), found: vector.len() });
        }
        if let Some(root) = goal.root().filter(|root| root.index() >= context.peers) {
            let problem = format!("its root, peer {root}, is not one of them");
            return Err(Error::InvalidCall { peers: context.peers, problem });
        }
        if goal == CollectiveGoal::AllToAll && !vector.len().is_multiple_of(context.peers) {
            let problem = format!("{} elements cannot be cut into one block for each", vector.len());
            return Err(Error::InvalidCall { peers: context.peers, problem });
        }
        if !goal.supports(compression) {
            return Err(Error::UnsupportedCompression { compression, goal });
        }
        if compression.has_error_feedback() && goal.combines() && context.operator != ReduceOp::Sum {
            return Err(Error::SumRequired { compression, operator: context.operator });
        }
        let digest =
            if let CompressorState::LowRank { compressor, .. } = &compressor.state { compressor.digest() } else { 0 };
        let operator = goal.combines().then_some(context.operator);
        let label = CompressionLabel { compression, goal, operator, length: vector.len(), digest };
        let label = (compression != Compression::Plain).then_some(label);
        let mut collective = Self::new(goal, context, label, Some(compressor.residual().to_vec()));
        let (operation, buffer) = collective.first_stage(compressor, vector)?;
        let stage = collective.stage(operation, buffer);
        Ok((collective, stage))
    }

    /// Starts with the factors of a matrix of this shape, and returns a compressor to continue
    /// with.
    pub fn begin_factors(
        (u, v): (&[f32], &[f32]),
        (rows, columns): (usize, usize),
        mut context: CollectiveContext,
    ) -> Result<(Self, CollectiveStage, Compressor)> {
        let compressor = Compressor::for_factors(rows, columns)?;
        let own = pack_factors(u, v, rows, columns)?;
        context.operator = ReduceOp::Sum;
        let (compression, operator, length) = (compressor.compression(), Some(context.operator), compressor.length());
        let digest = digest([rows as u64, columns as u64]);
        let label = Some(CompressionLabel { compression, goal: CollectiveGoal::AllReduce, operator, length, digest });
        let mut collective = Self::new(CollectiveGoal::AllReduce, context, label, None);
        let (operation, buffer) = collective.announce_lengths(Some(own.len()));
        collective.pairs = Some(own);
        let stage = collective.stage(operation, buffer);
        Ok((collective, stage, compressor))
    }

    fn new(
        goal: CollectiveGoal,
        context: CollectiveContext,
        label: Option<CompressionLabel>,
        previous_residual: Option<Vec<f32>>,
    ) -> Self {
        let (pairs, payloads, stages, blocks) = (None, Vec::new(), 0, Vec::new());
        Self { context, goal, label, pairs, payloads, stages, blocks, previous_residual, rejection: None }
    }

    /// Maximum number of stages.
    #[must_use]
    pub fn stage_count(compression: Compression, goal: CollectiveGoal) -> u64 {
        let two = match compression {
            Compression::Plain => false,
            Compression::Bf16 | Compression::F16 => {
                matches!(goal, CollectiveGoal::AllReduce | CollectiveGoal::Reduce { .. })
            }
            Compression::OneBit { .. } => goal.scatters() || matches!(goal, CollectiveGoal::Reduce { .. }),
            Compression::TopK { .. } | Compression::LowRank { .. } | Compression::SufficientFactors { .. } => true,
        };
        1 + u64::from(two)
    }

    /// Continues with the result of a stage. After an error the compressor is as it was before the
    /// collective.
    pub fn advance(&mut self, compressor: &mut Compressor, received: CompressedBuffer) -> Result<NextStage> {
        let next = self.next_stage(compressor, received);
        if next.is_err() {
            self.abort(compressor);
        }
        next
    }

    /// Aborts a collective whose stage has failed: the compressor returns to its previous state.
    pub fn abort(&mut self, compressor: &mut Compressor) {
        if let Some(previous_residual) = self.previous_residual.take() {
            compressor.replace_residual(previous_residual);
        }
    }

    fn stage(&mut self, operation: Operation, buffer: CompressedBuffer) -> CollectiveStage {
        self.stages += 1;
        CollectiveStage { operation, buffer, label: self.label }
    }

    fn all_reduce(&self, length: usize) -> Operation {
        let CollectiveContext { algorithm, operator, .. } = self.context;
        Operation::AllReduce { algorithm, operator, length }
    }

    /// Records a compression error and substitutes the marker that is sent in its place.
    fn or_rejection<T>(&mut self, compressed: Result<T>, marker: impl FnOnce() -> T) -> T {
        compressed.unwrap_or_else(|error| {
            self.rejection = Some(error);
            marker()
        })
    }

    fn first_stage(&mut self, compressor: &mut Compressor, vector: &[f32]) -> Result<(Operation, CompressedBuffer)> {
        Ok(match &mut compressor.state {
            CompressorState::Plain => self.plain(vector),
            CompressorState::Bf16 => {
                let (operation, all) = self.start_half_precision(vector, bf16::from_f32);
                (operation, CompressedBuffer::Bf16(all))
            }
            CompressorState::F16 => {
                let (operation, all) = self.start_half_precision(vector, f16::from_f32);
                (operation, CompressedBuffer::F16(all))
            }
            CompressorState::OneBit { compressor, .. } => self.start_one_bit(compressor, vector),
            CompressorState::TopK { compressor, .. } => self.start_top_k(compressor, vector),
            CompressorState::LowRank { compressor, .. } => {
                let p = compressor.compute_p(vector);
                let p = self.or_rejection(p, || compressor.rejection_marker());
                (self.all_reduce(p.len()), CompressedBuffer::F32(p))
            }
            CompressorState::Factors => {
                let problem = "factors come as pairs, not as their sum";
                return Err(Error::CorruptPayload { length: vector.len(), problem });
            }
        })
    }

    fn next_stage(&mut self, compressor: &mut Compressor, received: CompressedBuffer) -> Result<NextStage> {
        let length = compressor.length();
        match (&mut compressor.state, received) {
            (CompressorState::Plain, CompressedBuffer::F32(received)) => {
                Ok(NextStage::Done(self.own_part(received, length)))
            }
            (CompressorState::Bf16, CompressedBuffer::Bf16(received)) => {
                Ok(self.after_half_precision(received, length, bf16::from_f32, bf16::to_f32, CompressedBuffer::Bf16))
            }
            (CompressorState::F16, CompressedBuffer::F16(received)) => {
                Ok(self.after_half_precision(received, length, f16::from_f32, f16::to_f32, CompressedBuffer::F16))
            }
            (CompressorState::OneBit { block, .. }, received) => self.after_one_bit(*block, received, length),
            (CompressorState::TopK { compressor, .. }, received) => {
                self.after_top_k(compressor.bytes_at_most(), received, length)
            }
            (CompressorState::LowRank { rank, compressor }, CompressedBuffer::F32(sum)) => {
                if let Some(error) = self.rejection.take() {
                    return Err(error);
                }
                if !sum.iter().all(|value| value.is_finite()) {
                    return Err(Error::NotFiniteSum { compression: Compression::LowRank { rank: *rank } });
                }
                if self.stages == 2 {
                    let sum = compressor.decompress(sum)?;
                    return Ok(NextStage::Done(self.own_part(sum, length)));
                }
                let q = compressor.compute_q(sum)?;
                Ok(NextStage::Stage(self.stage(self.all_reduce(q.len()), CompressedBuffer::F32(q))))
            }
            (CompressorState::Factors, CompressedBuffer::I64(lengths)) => {
                self.read_lengths(&lengths, usize::MAX, length)?;
                let own = self.pairs.take().unwrap_or_default();
                let mut all = vec![0.0; self.blocks.iter().sum()];
                all[self.block_ranges()[self.context.me.index()].clone()].copy_from_slice(&own);
                let operation = Operation::AllGatherRagged { blocks: self.blocks.clone() };
                Ok(NextStage::Stage(self.stage(operation, CompressedBuffer::F32(all))))
            }
            (CompressorState::Factors, CompressedBuffer::F32(all)) => {
                let (rows, columns) = (compressor.rows, compressor.columns);
                let mut matrix = vec![0.0; length];
                let mut ranges = self.block_ranges().into_iter();
                ranges.try_for_each(|range| rebuild(&all[range], rows, columns, &mut matrix))?;
                Ok(NextStage::Done(matrix))
            }
            _ => Err(buffer_mismatch(length)),
        }
    }

    /// No compression: the collective of the goal's name.
    fn plain(&self, vector: &[f32]) -> (Operation, CompressedBuffer) {
        let (length, operator, peers) = (vector.len(), self.context.operator, self.context.peers);
        let operation = match self.goal {
            CollectiveGoal::AllReduce => self.all_reduce(length),
            CollectiveGoal::ReduceScatter => Operation::ReduceScatter { operator, length },
            CollectiveGoal::Reduce { root } => Operation::Reduce { root, operator, length },
            CollectiveGoal::AllGather => Operation::AllGather { block: length },
            CollectiveGoal::Broadcast { root } => Operation::Broadcast { root, length },
            CollectiveGoal::AllToAll => Operation::AllToAll { block: length / peers },
        };
        let all = if self.goal == CollectiveGoal::AllGather { self.with_own_block(vector) } else { vector.to_vec() };
        (operation, CompressedBuffer::F32(all))
    }

    /// Buffer for the blocks of all peers, with the own block at its position.
    fn with_own_block<T: CollectiveElement>(&self, own: &[T]) -> Vec<T> {
        Operation::gather_buffer(own, self.context.me, self.context.peers)
    }

    /// Part of the complete result that this peer gets.
    fn own_part(&self, mut all: Vec<f32>, length: usize) -> Vec<f32> {
        match self.goal {
            CollectiveGoal::ReduceScatter => all[self.context.own_chunk(length)].to_vec(),
            CollectiveGoal::Reduce { root } if root != self.context.me => Vec::new(),
            _ => {
                all.shrink_to_fit();
                all
            }
        }
    }

    /// All-gather in which every peer announces the length of its payload; negative if it has none.
    fn announce_lengths(&self, own: Option<usize>) -> (Operation, CompressedBuffer) {
        let mut lengths = vec![0; self.context.peers];
        lengths[self.context.me.index()] = length_code(own);
        (Operation::AllGather { block: 1 }, CompressedBuffer::I64(lengths))
    }

    /// Stores the announced lengths, or fails if the vector of some peer could not be compressed.
    fn read_lengths(&mut self, lengths: &[i64], most: usize, length: usize) -> Result<()> {
        if let Some(error) = self.rejection.take() {
            return Err(error);
        }
        if let Some(peer) = lengths.iter().position(|&code| code < 0) {
            return Err(Error::NotFiniteOnPeer { rank: Rank::new(peer as u32) });
        }
        let bad = |problem| Error::CorruptPayload { length, problem };
        let short = |&code: &i64| usize::try_from(code).ok().filter(|&length| length <= most);
        let blocks: Option<Vec<usize>> = lengths.iter().map(short).collect();
        let blocks = blocks.ok_or_else(|| bad("a peer announced more bytes than the vector needs"))?;
        let total = blocks.iter().try_fold(0_usize, |sum, &block| sum.checked_add(block));
        total
            .filter(|&total| total <= isize::MAX as usize / 4)
            .ok_or_else(|| bad("the payloads of all peers do not fit into memory"))?;
        self.blocks = blocks;
        Ok(())
    }

    /// Range of each peer's payload in the gathered buffer.
    fn block_ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let next = |block: &usize| {
            end += block;
            end - block..end
        };
        self.blocks.iter().map(next).collect()
    }
}

/// Announced length of a payload; negative if the vector could not be compressed.
fn length_code(length: Option<usize>) -> i64 {
    length.map_or(-1, |length| i64::try_from(length).unwrap_or(i64::MAX))
}

/// Error of a stage whose result has another type than its input.
fn buffer_mismatch(length: usize) -> Error {
    Error::CorruptPayload { length, problem: "a stage returned a buffer of another type" }
}
